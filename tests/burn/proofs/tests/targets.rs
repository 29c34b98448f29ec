//! The modules of tracel-ai's public models, by their names: what our file loads is what Burn's own import with the remapping
//! of those repositories loads.

use burn::module::Module;
use burn::store::{ModuleRecord, ModuleSnapshot, PyTorchToBurnAdapter, PytorchStore, SafetensorsStore};
use burn::tensor::{Device, TensorData};
use burn_examples::shared::Shapes;
use burn_examples::{albert, llama, minilm, mobilenet_v2, resnet, roberta};
use burn_proofs::{Scratch, repository};
use serde::de::DeserializeOwned;

fn config<C: DeserializeOwned>(folder: &str) -> C {
    let path = repository().join("fixtures/families").join(folder).join("config.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn file(folder: &str, name: &str) -> String {
    repository().join("fixtures/families").join(folder).join(name).to_string_lossy().into_owned()
}

/// Convert a family, build the module for the file, load it with Burn's strict defaults. A record is read when its tensors are
/// first used, so the file has to stay as long.
fn loaded<M: Module>(scratch: &Scratch, folder: &str, fresh: impl Fn(&Shapes, &Device) -> M) -> M {
    let output = scratch.convert(&format!("fixtures/families/{folder}"), "model.bpk", &[]);
    let fresh = fresh(&Shapes::of(&output).unwrap(), &Device::default());
    fresh.try_load_record(ModuleRecord::load(&output).unwrap()).unwrap_or_else(|e| panic!("{folder}: {e}"))
}

/// Every parameter by its full name, enum variants included.
fn parameters<M: Module>(module: &M) -> Vec<(String, TensorData)> {
    let tensors = module.collect(None, None, false);
    let data = |tensor: burn::store::burn_pack::Tensor| {
        let (name, dtype, shape, _, bytes) = tensor.into_parts().unwrap();
        (name, TensorData::from_bytes(bytes, shape, dtype))
    };
    tensors.into_iter().map(data).collect()
}

#[test]
fn resnet_burn_and_its_own_import_agree() {
    let fresh = |shapes: &Shapes, device: &Device| resnet::Config::of(shapes).init(device);
    let scratch = Scratch::new("resnet");
    let ours = loaded(&scratch, "resnet18", fresh);
    assert!(parameters(&ours).iter().any(|(name, _)| name == "layer1.blocks.0.Basic.conv1.weight"));
    let mut theirs = fresh(&Shapes::of(scratch.path("model.bpk")).unwrap(), &Device::default());
    // As resnet-burn has it. Its enum needs no mention: `PytorchStore` leaves variants out by default.
    let mut store = PytorchStore::from_file(file("resnet18", "pytorch_model.bin"))
        .with_key_remapping("(.+)\\.downsample\\.0\\.(.+)", "$1.downsample.conv.$2")
        .with_key_remapping("(.+)\\.downsample\\.1\\.(.+)", "$1.downsample.bn.$2")
        .with_key_remapping("(layer[1-4])\\.([0-9]+)\\.(.+)", "$1.blocks.$2.$3");
    theirs.load_from(&mut store).unwrap();
    assert_eq!(parameters(&ours), parameters(&theirs));
}

#[test]
fn minilm_burn_and_its_own_import_agree() {
    let fresh = |_: &Shapes, device: &Device| config::<minilm::Config>("minilm").init(device);
    let scratch = Scratch::new("minilm");
    let ours = loaded(&scratch, "minilm", fresh);
    let mut theirs = fresh(&Shapes(Default::default()), &Device::default());
    let mut store = SafetensorsStore::from_file(file("minilm", "model.safetensors"))
        .with_from_adapter(PyTorchToBurnAdapter)
        .with_key_remapping("^embeddings\\.LayerNorm\\.", "embeddings.layer_norm.")
        .with_key_remapping("^encoder\\.layer\\.([0-9]+)\\.", "encoder.layers.$1.")
        .with_key_remapping("\\.attention\\.self\\.(query|key|value)\\.", ".mha.$1.")
        .with_key_remapping("\\.attention\\.output\\.dense\\.", ".mha.output.")
        .with_key_remapping("\\.attention\\.output\\.LayerNorm\\.", ".norm_1.")
        .with_key_remapping("\\.intermediate\\.dense\\.", ".pwff.linear_inner.")
        .with_key_remapping("(layers\\.[0-9]+)\\.output\\.dense\\.", "$1.pwff.linear_outer.")
        .with_key_remapping("(layers\\.[0-9]+)\\.output\\.LayerNorm\\.", "$1.norm_2.");
    theirs.load_from(&mut store).unwrap();
    assert_eq!(parameters(&ours), parameters(&theirs));
}

#[test]
fn the_other_public_targets_load() {
    let scratch = Scratch::new("targets");
    loaded(&scratch, "mobilenet_v2", |shapes, device| mobilenet_v2::Config::of(shapes).init(device));
    loaded(&scratch, "llama", |_, device| config::<llama::Config>("llama").init(device));
    loaded(&scratch, "roberta", |_, device| config::<roberta::Config>("roberta").init_masked_lm(device));
    loaded(&scratch, "albert", |_, device| {
        let head = albert::Config { language_model: true, ..config::<albert::Config>("albert") };
        head.init(device)
    });
}
