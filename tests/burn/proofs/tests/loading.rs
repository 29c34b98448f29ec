//! Burn loads what the importer writes, with its strict defaults, and computes what PyTorch computed.

use std::path::Path;

use burn_check::{Case, run};
use burn_proofs::{Scratch, recorded, source};

/// Convert every recorded folder that `wanted` takes, check it, and tell all that went wrong at once.
fn every(
    name: &str,
    file: &str,
    options: &[&str],
    wanted: fn(&str, &Path) -> bool,
    adjust: fn(&mut Case),
) -> (usize, Vec<String>) {
    let scratch = Scratch::new(name);
    let types = scratch.path("linear.yaml");
    std::fs::write(&types, "recipe: 1\nname: linear\nabout: one Linear\ntypes:\n  - ['^0$', Linear]\n").unwrap();
    let (mut count, mut wrong) = (0, vec![]);
    for (family, folder) in recorded().into_iter().filter(|(family, folder)| wanted(family, folder)) {
        // The library's eager attention, which was recorded, adds Falcon's ALiBi twice; its other path and Burn once.
        if family == "falcon-alibi" {
            continue;
        }
        count += 1;
        // A matrix alone could belong to several kinds of layers, so the importer asks which.
        let told = if family == "torch-nn/weight-norm-linear" { &["--recipe", types.as_str()][..] } else { &[] };
        let output = scratch.convert(&source(&folder), file, &[options, told].concat());
        let verdicts = Case::open(&folder, output).and_then(|mut case| {
            adjust(&mut case);
            run(&family, &case)
        });
        match verdicts {
            // A variant of a family, under a name of its own, or a family that no example is written for.
            Err(problem) if problem.to_string().starts_with("no Burn model") => {
                count -= 1;
                println!("{family}: {problem}");
            }
            Err(problem) => wrong.push(format!("{family}: {problem}")),
            Ok(verdicts) => {
                wrong.extend(verdicts.iter().filter(|v| !v.within).map(|verdict| format!("{family}: {verdict}")))
            }
        }
    }
    (count, wrong)
}

/// In the repository alone, so that the slower of these tests stay quick.
fn of_the_repository(_: &str, folder: &Path) -> bool {
    folder.starts_with(burn_proofs::repository().join("fixtures"))
}

#[test]
fn every_recorded_model_computes_the_same_in_burn() {
    let (count, wrong) = every("numbers", "model.bpk", &[], |_, _| true, |_| ());
    assert!(count >= 50, "only {count} folders were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn safetensors_load_through_burns_store() {
    let (_, wrong) = every(
        "safetensors",
        "model.safetensors",
        &[],
        // Plain layers are given out from a burnpack, see `layers`.
        |family, folder| of_the_repository(family, folder) && !family.starts_with("torch-nn"),
        |_| (),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn half_precision_loads_and_is_cast() {
    let (_, wrong) = every("half", "model.bpk", &["--dtype", "f16"], of_the_repository, |case| {
        case.cast = true;
        // Eleven bits of each weight, and sums of some dozens.
        case.tolerance = Some((0.05, 0.05));
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn burn_saves_what_it_loaded_byte_for_byte_ids_included() {
    let (_, wrong) = every(
        "bytes",
        "model.bpk",
        &["--param-ids", "stable"],
        |family, folder| of_the_repository(family, folder) && !family.starts_with("torch-nn"),
        |case| case.saves_again = true,
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_square_matrix_left_as_torch_has_it_loads_and_is_told_apart_by_its_numbers() {
    let folder = burn_proofs::repository().join("fixtures/forward/torch-nn/linear-nobias");
    let scratch = Scratch::new("square");
    let output = scratch.convert(&source(&folder), "square.bpk", &["--adapter", "none"]);
    let verdicts = run("torch-nn/linear-nobias", &Case::open(&folder, output).unwrap()).unwrap();
    assert!(verdicts.iter().all(|verdict| !verdict.within));
}
