//! `burn-import SOURCE OUTPUT [FROM TO]…`: Burn's own way from a PyTorch or safetensors file to burnpack, for the benchmarks.
//!
//! Reads with `PytorchStore` or `SafetensorsStore`, renames by the pairs given, writes with burn-pack. No layout changes: those
//! need a module. Prints the seconds it took and the most memory it held, in bytes.

use std::time::Instant;

use burn::store::burn_pack::{Tensor, Writer};
use burn::store::{KeyRemapper, ModuleStore, PytorchStore, SafetensorsStore};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, output, pairs @ ..] = arguments.as_slice() else {
        return Err("usage: burn-import SOURCE OUTPUT [FROM TO]…".into());
    };
    let pairs: Vec<(&str, &str)> = pairs.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    let remapper = KeyRemapper::from_patterns(pairs).map_err(|e| e.to_string())?;
    let start = Instant::now();
    let tensors: Vec<Tensor> = if source.ends_with(".safetensors") {
        let mut store = SafetensorsStore::from_file(source).remap(remapper);
        store.get_all_tensors()?.values().cloned().collect()
    } else {
        let mut store = PytorchStore::from_file(source).map_indices_contiguous(false).remap(remapper);
        store.get_all_tensors()?.values().cloned().collect()
    };
    Writer::new(tensors).write_to_file(output)?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{seconds:.6} {}", most_memory().unwrap_or_default());
    Ok(())
}

/// The kernel's high-water mark of this process, where there is one.
fn most_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
}
