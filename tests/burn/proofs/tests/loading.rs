//! Burn loads what the importer writes, with its strict defaults: nothing missing, nothing unused, ids as written.

use burn::module::Module;
use burn::store::burn_pack::Reader;
use burn::store::{BurnpackStore, ModuleRecord, ModuleSnapshot};
use burn::tensor::{DType, Device};
use burn_examples::llama;
use burn_proofs::{Scratch, repository};

fn config<C: serde::de::DeserializeOwned>(folder: &str) -> C {
    let text = std::fs::read_to_string(repository().join(folder).join("config.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// What Burn writes for a module, with the metadata of `like`.
fn saved<M: Module>(module: &M, like: &str) -> Vec<u8> {
    let mut store = BurnpackStore::from_bytes(None).clear_metadata();
    for (key, value) in Reader::from_file(like).unwrap().metadata() {
        store = store.metadata(key, value);
    }
    module.save_into(&mut store).unwrap();
    store.get_bytes().unwrap().to_vec()
}

#[test]
fn llama_loads_and_is_saved_again_byte_for_byte() {
    let scratch = Scratch::new("llama");
    let ours = scratch.convert("fixtures/families/llama", "llama.bpk", &["--param-ids", "stable"]);
    let fresh = config::<llama::Config>("fixtures/families/llama").init(&Device::default());
    let loaded = fresh.load_record(ModuleRecord::load(&ours).unwrap());
    assert_eq!(loaded.tok_embeddings.weight.val().dtype(), DType::BF16);
    assert_eq!(std::fs::read(&ours).unwrap(), saved(&loaded, &ours));
}
