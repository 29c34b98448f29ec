//! Burn models of the families that `importer` converts, one folder each.
//!
//! Copy a family's folder and the single files it uses (`shared.rs`, `decoder.rs`) into your program. Each has a `Config` that reads the checkpoint's `config.json`, a
//! module whose field names are those of the converted file, and a forward pass that `tests/burn` compares with PyTorch's.

pub mod decoder;
pub mod shared;

pub mod gemma2;
pub mod gemma3;
pub mod llama;
pub mod mistral;
pub mod mixtral;
pub mod olmo2;
pub mod phi3;
pub mod qwen2;
pub mod qwen3;
pub mod qwen3_moe;
