//! What the tests share: the command under test, and the repository's files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).expect("tests/burn/proofs lies in a repository").into()
}

/// Run the importer under test: `$IMPORTER`, else the one of the repository's virtual environment.
pub fn try_importer(arguments: &[&str]) -> Output {
    let command = std::env::var_os("IMPORTER").map_or_else(|| repository().join(".venv/bin/importer"), PathBuf::from);
    let run = Command::new(&command).args(arguments).current_dir(repository()).output();
    run.unwrap_or_else(|e| panic!("{}: {e}. Run `sh scripts/venv.sh` or set IMPORTER.", command.display()))
}

/// The same, and it must succeed.
pub fn importer(arguments: &[&str]) -> String {
    let run = try_importer(arguments);
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

/// Folders with recorded inputs and outputs, each with its name below `forward`: the repository's, and those of
/// `../shared` where they are.
pub fn recorded() -> Vec<(String, PathBuf)> {
    let mut found = vec![];
    let own = repository().join("fixtures/forward");
    collect(&own, &own, &mut found);
    let (shared, mut more) = (repository().join("../shared/forward"), vec![]);
    collect(&shared, &shared, &mut more);
    found.extend(more.into_iter().filter(|(name, _)| !own.join(name).exists()));
    found
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<(String, PathBuf)>) {
    if folder.join("io.json").exists() {
        let name = folder.strip_prefix(root).expect("a folder below the root").to_string_lossy().into_owned();
        found.push((name, folder.into()));
        return;
    }
    let mut inner: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    inner.sort();
    for path in inner.into_iter().filter(|path| path.is_dir()) {
        collect(root, &path, found);
    }
}

/// What `importer convert` takes of such a folder.
pub fn source(folder: &Path) -> String {
    let source = if folder.join("config.json").exists() { folder.into() } else { folder.join("model.pt") };
    source.to_string_lossy().into_owned()
}
