//! The generated modules, and what is asked of each: Burn's strict loading of every file that was converted for it.

#![recursion_limit = "256"]

use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::store::burn_pack::Reader;
use burn::store::{BurnpackStore, ModuleRecord, ModuleSnapshot, SafetensorsStore};
use burn::tensor::{Bytes, Device};

include!(concat!(env!("OUT_DIR"), "/table.rs"));

type Judge = fn(&Path, &Device) -> Vec<String>;

/// The folder with the converted files.
pub fn files() -> PathBuf {
    PathBuf::from(env!("OUT_DIR"))
}

/// Load `NAME.bpk`, `NAME-half.bpk` and `NAME.safetensors` into fresh modules, and return what Burn had to say.
fn judge<M: Module + ModuleSnapshot>(fresh: impl Fn() -> M, folder: &Path, name: &str, is_nested: bool) -> Vec<String> {
    let mut faults = Vec::new();
    let file = |end: &str| folder.join(format!("{name}{end}"));
    match load(fresh(), &file(".bpk")) {
        Ok(loaded) => faults.extend(difference(&file(".bpk"), saved(&loaded, &file(".bpk")), is_nested)),
        Err(fault) => faults.push(fault),
    }
    faults.extend(load(fresh(), &file("-half.bpk")).err());
    let mut module = fresh();
    match module.load_from(&mut SafetensorsStore::from_file(file(".safetensors"))) {
        Ok(result) if result.unused.is_empty() && result.skipped.is_empty() => {}
        Ok(result) => faults.push(format!("safetensors: unused {:?}, skipped {:?}", result.unused, result.skipped)),
        Err(fault) => faults.push(format!("safetensors: {fault}")),
    }
    faults
}

fn load<M: Module>(fresh: M, path: &Path) -> Result<M, String> {
    let record = ModuleRecord::load(path).map_err(|e| format!("{}: {e}", path.display()))?;
    fresh.try_load_record(record).map_err(|e| format!("{}: {e}", path.display()))
}

/// How a file that Burn saved differs from the one it loaded, byte for byte but for one thing: Burn gives the running
/// statistics of a BatchNorm fresh ids when it loads them (burn-core 0.22, `RunningState`).
fn difference(ours: &Path, again: Vec<u8>, is_nested: bool) -> Option<String> {
    let bytes = std::fs::read(ours).expect("it was just read");
    if bytes == again {
        return None;
    }
    let same_data = data(&bytes) == data(&again);
    let read = |bytes| {
        Reader::from_bytes(Bytes::from_bytes_vec(bytes)).and_then(Reader::into_tensors).expect("a burnpack file")
    };
    let differing = read(bytes).into_iter().zip(read(again)).find(|(a, b)| {
        let is_statistic = a.name.contains(".running_") || a.name.starts_with("running_");
        a.name != b.name || a.dtype != b.dtype || a.shape != b.shape || (a.param_id != b.param_id && !is_statistic)
    });
    match differing {
        None if same_data || !is_nested => None,
        None => Some("saved again, the tensors lie in another order".into()),
        Some((a, b)) => Some(format!("saved again, {} ({:?}) is {} ({:?})", a.name, a.param_id, b.name, b.param_id)),
    }
}

/// The data section of a burnpack file: it begins at the first multiple of 256 behind the metadata.
fn data(file: &[u8]) -> &[u8] {
    let metadata = u32::from_le_bytes(file[6..10].try_into().expect("four bytes")) as usize;
    &file[(10 + metadata).div_ceil(256) * 256..]
}

/// What Burn writes for a module, with the metadata of `like`.
fn saved<M: Module + ModuleSnapshot>(module: &M, like: &Path) -> Vec<u8> {
    let mut store = BurnpackStore::from_bytes(None).clear_metadata();
    for (key, value) in Reader::from_file(like).expect("our own file").metadata() {
        store = store.metadata(key, value);
    }
    module.save_into(&mut store).expect("memory is enough");
    store.get_bytes().expect("it was just saved").to_vec()
}
