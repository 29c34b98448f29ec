//! `burn-check FAMILY FOLDER CONVERTED`: does a Burn program compute from a converted file what PyTorch computed?
//!
//! FAMILY is the folder's path below `forward` (`llama`, `torch-nn/lstm-bi`), FOLDER holds `config.json` or `model.pt` with
//! `io.json` and `io.safetensors`, CONVERTED is what `importer convert` wrote. Prints the largest absolute and relative
//! difference of each output; exits 0 only if all lie within io.json's tolerance, 1 if one does not, 2 if it cannot tell.

use std::process::ExitCode;

use burn_check::{Case, run};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [family, folder, converted] = arguments.as_slice() else {
        eprintln!("usage: burn-check FAMILY FOLDER CONVERTED");
        return ExitCode::from(2);
    };
    match Case::open(folder, converted).and_then(|case| run(family, &case)) {
        Ok(verdicts) => {
            for verdict in &verdicts {
                println!("{verdict}");
            }
            ExitCode::from(u8::from(verdicts.iter().any(|verdict| !verdict.within)))
        }
        Err(problem) => {
            eprintln!("burn-check: {family}: {problem}");
            ExitCode::from(2)
        }
    }
}
