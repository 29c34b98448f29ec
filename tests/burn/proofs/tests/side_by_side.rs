//! What Burn's own readers make of a file, and what we make of it: names, dtypes, shapes and bytes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use burn::store::burn_pack::Tensor;
use burn::store::{ModuleStore, PytorchStore, SafetensorsStore};
use burn::tensor::{BoolStore, DType};
use burn_proofs::{repository, try_importer};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Dtype, shape and digest of each tensor; or why there is none.
type Contents = Result<BTreeMap<String, (String, Vec<u64>, String)>, String>;

fn spelled(dtype: DType) -> String {
    match dtype {
        DType::Bool(BoolStore::Native) => "BOOL".into(),
        other => format!("{other:?}"),
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn read<'a>(tensors: impl Iterator<Item = (&'a String, &'a Tensor)>) -> Contents {
    tensors
        .map(|(name, tensor)| {
            let bytes = tensor.to_bytes().map_err(|e| e.to_string())?;
            let shape = tensor.shape.to_vec().into_iter().map(|n| n as u64).collect();
            Ok((name.clone(), (spelled(tensor.dtype), shape, digest(&bytes))))
        })
        .collect()
}

fn theirs(path: &Path) -> Contents {
    if path.extension().is_some_and(|extension| extension == "safetensors") {
        let mut store = SafetensorsStore::from_file(path);
        return read(store.get_all_tensors().map_err(|e| e.to_string())?.iter());
    }
    let mut store = PytorchStore::from_file(path).map_indices_contiguous(false);
    read(store.get_all_tensors().map_err(|e| e.to_string())?.iter())
}

/// What `inspect` lists; with what it reports instead of tensors.
fn ours(path: &Path) -> (Contents, Vec<String>) {
    let run = try_importer(&["inspect", &path.to_string_lossy(), "--json", "--sha256"]);
    if !run.status.success() {
        return (Err(String::from_utf8_lossy(&run.stderr).into_owned()), vec![]);
    }
    let json: Value = serde_json::from_slice(&run.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let list = |key: &str| json[key].as_array().cloned().unwrap_or_default();
    let listed = [list("tensors"), list("arrays")].concat();
    let found = listed.iter().map(|tensor| {
        let shape = tensor["shape"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        (text(&tensor["name"]), (text(&tensor["dtype"]), shape, text(&tensor["sha256"])))
    });
    let (found, unsupported) = (found.collect(), list("unsupported"));
    (Ok(found), unsupported.iter().map(|entry| text(&entry["name"])).collect())
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut inside: Vec<_> = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    inside.sort();
    for path in inside {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        if path.is_dir() {
            files(&path, found);
        } else if matches!(extension, "pt" | "pth" | "bin" | "safetensors") {
            found.push(path);
        }
    }
}

fn compare(folders: &[&str]) {
    let mut sources = vec![];
    for folder in folders {
        files(&repository().join(folder), &mut sources);
    }
    let (mut both, mut wrong, mut only_ours, mut only_theirs) = (0, vec![], vec![], vec![]);
    for path in sources {
        let name = path.strip_prefix(repository()).unwrap_or(&path).display().to_string();
        let (own, reported) = ours(&path);
        match (theirs(&path), own) {
            (Ok(theirs), Ok(own)) => {
                both += 1;
                for (tensor, found) in &theirs {
                    match own.get(tensor) {
                        Some(one) if one == found => {}
                        Some(one) => wrong.push(format!("{name}: {tensor}: Burn reads {found:?}, we {one:?}")),
                        None if reported.contains(tensor) => {}
                        None => wrong.push(format!("{name}: {tensor}: only Burn has it")),
                    }
                }
                for tensor in own.keys().filter(|tensor| !theirs.contains_key(*tensor)) {
                    wrong.push(format!("{name}: {tensor}: only we have it"));
                }
            }
            (Err(why), Ok(_)) => only_ours.push(format!("{name}: {why}")),
            (Ok(_), Err(why)) => only_theirs.push(format!("{name}: {}", why.trim())),
            (Err(_), Err(_)) => {}
        }
    }
    println!(
        "{both} files read by both; only by us:\n{}\nonly by Burn:\n{}",
        only_ours.join("\n"),
        only_theirs.join("\n")
    );
    assert!(both > 0);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn families_are_read_alike() {
    compare(&["fixtures/families"]);
}

#[test]
fn files_of_every_release_of_torch_are_read_alike() {
    compare(&["fixtures/vintage", "fixtures/whole_models"]);
}
