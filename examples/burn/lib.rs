//! Burn models of the families that `importer` converts, one folder each.
//!
//! Copy a family's folder and `shared.rs` into your program. Each has a `Config` that reads the checkpoint's `config.json`, a
//! module whose field names are those of the converted file, and a forward pass that `tests/burn` compares with PyTorch's.

pub mod shared;

pub mod llama;
