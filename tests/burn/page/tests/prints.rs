//! The page's program finds the token that PyTorch finds.

use std::path::Path;
use std::process::Command;

#[test]
fn the_pages_program_prints_what_pytorch_computes() {
    let folder = Path::new(env!("OUT_DIR")).join("page");
    let run = Command::new(env!("CARGO_BIN_EXE_burn-page")).current_dir(folder).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    // transformers 5, of fixtures/families/gpt2 and these ids: `logits[0, 3].argmax()` is 55.
    assert_eq!(String::from_utf8(run.stdout).unwrap(), "next token: 55\n");
}
