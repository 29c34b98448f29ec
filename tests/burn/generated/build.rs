//! Lets the importer under test write the Rust modules and the converted files of every recorded family.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let manifest = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let repository =
        Path::new(&manifest).ancestors().nth(3).expect("tests/burn/generated lies in a repository").to_path_buf();
    for folder in ["importer", "rules", "tests/rust", "tests/families", "fixtures/keys"] {
        println!("cargo:rerun-if-changed={}", repository.join(folder).display());
    }
    println!("cargo:rerun-if-env-changed=IMPORTER_PYTHON");
    let python = std::env::var_os("IMPORTER_PYTHON").map_or_else(|| repository.join(".venv/bin/python"), PathBuf::from);
    let output = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets it"));
    let run = Command::new(&python).args(["-m", "tests.rust.families"]).arg(&output).current_dir(&repository).status();
    let status = run
        .unwrap_or_else(|e| panic!("{}: {e}. Run `sh scripts/venv.sh test` or set IMPORTER_PYTHON.", python.display()));
    assert!(status.success(), "the modules could not be written");
}
