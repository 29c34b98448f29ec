//! What the tests share: the command under test, and the repository's files.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).expect("tests/burn/proofs lies in a repository").into()
}

/// The importer under test: `$IMPORTER`, else the one of the repository's virtual environment.
pub fn importer(arguments: &[&str]) -> String {
    let command = std::env::var_os("IMPORTER").map_or_else(|| repository().join(".venv/bin/importer"), PathBuf::from);
    let run = Command::new(&command).args(arguments).current_dir(repository()).output();
    let run = run.unwrap_or_else(|e| panic!("{}: {e}. Run `sh scripts/venv.sh` or set IMPORTER.", command.display()));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(run.status.success(), "importer {arguments:?}: {}{}", text(&run.stdout), text(&run.stderr));
    text(&run.stdout)
}

/// An empty folder of this test's own, removed when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("burn-proofs-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for temporary files");
        Self(folder)
    }

    /// A path in the folder, as text for the command line.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path in UTF-8").into()
    }

    /// Convert a source of the repository and give the output's path.
    pub fn convert(&self, source: &str, output: &str, options: &[&str]) -> String {
        let output = self.path(output);
        importer(&[&["convert", source, &output, "--overwrite"], options].concat());
        output
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
