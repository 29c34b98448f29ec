//! Runs the shell blocks of docs/burn.md with the importer under test, and takes the page's program for this crate's. The lines
//! that load a file, here and in README.md, are compiled beside it.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const LOADING: &str = "
#[cfg(test)]
#[test]
fn the_lines_of_NAME_load() -> Result<(), Box<dyn std::error::Error>> {
    use burn::{module::Module, store::ModuleRecord};
    #[allow(unused_imports)]
    use model::{Gpt2Config, Gpt2Config as MyModelConfig};
    std::env::set_current_dir(concat!(env!(\"OUT_DIR\"), \"/page\"))?;
    LINES
    assert_eq!(forward(&model, Tensor::from_data([[2, 7]], &Device::default())).dims(), [1, 2, 64]);
    Ok(())
}
";

fn main() {
    let manifest = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let repository =
        Path::new(&manifest).ancestors().nth(3).expect("tests/burn/page lies in a repository").to_path_buf();
    for part in ["importer", "rules", "docs/burn.md", "README.md", "fixtures/families"] {
        println!("cargo:rerun-if-changed={}", repository.join(part).display());
    }
    println!("cargo:rerun-if-env-changed=IMPORTER_PYTHON");
    let page = fs::read_to_string(repository.join("docs/burn.md")).expect("the page");
    let output = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let folder = output.join("page");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("src")).expect("a folder");
    symlink(repository.join("fixtures"), folder.join("fixtures")).expect("a link");
    for command in blocks(&page, "sh").filter(|block| !block.contains("scripts/venv.sh")) {
        run(&command, &folder, &repository);
    }
    let program = blocks(&page, "rust").find(|block| block.starts_with("mod model;")).expect("the page's main.rs");
    let model = format!("#[path = {:?}]\nmod model;", folder.join("src/model.rs"));
    let readme = fs::read_to_string(repository.join("README.md")).expect("README.md");
    let mut text = program.replacen("mod model;", &model, 1);
    for (name, page) in [("page", &page), ("readme", &readme)] {
        let lines =
            blocks(page, "rust").find(|block| block.starts_with("let fresh")).expect("the lines that load a file");
        text += &format!("\n{}", LOADING.replace("NAME", name).replace("LINES", &lines));
    }
    fs::write(output.join("main.rs"), text).expect("OUT_DIR is ours");
}

/// The fenced blocks of a language, in the page's order.
fn blocks(page: &str, language: &str) -> impl Iterator<Item = String> {
    let opening = format!("\n```{language}\n");
    let inside = |part: &str| part.split("\n```").next().unwrap_or_default().to_string() + "\n";
    page.split(&opening).skip(1).map(inside).collect::<Vec<_>>().into_iter()
}

fn run(command: &str, folder: &Path, repository: &Path) {
    let python = env::var_os("IMPORTER_PYTHON").map_or_else(|| repository.join(".venv/bin/python"), PathBuf::from);
    let importer = format!("importer() {{ '{}' -m importer \"$@\"; }}\n", python.display());
    let shell = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &(importer + command)])
        .current_dir(folder)
        .env("PYTHONPATH", repository)
        .output()
        .expect("bash");
    let said = String::from_utf8_lossy(&shell.stderr);
    assert!(shell.status.success(), "{command}\n{said}\nRun `sh scripts/venv.sh` or set IMPORTER_PYTHON.");
}
