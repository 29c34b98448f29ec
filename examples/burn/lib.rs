//! Burn models of the families that `importer` converts, one folder each.
//!
//! Copy a family's folder and the single files it uses (`shared.rs`, `decoder.rs`) into your program. Each has a `Config` that reads the checkpoint's `config.json`, a
//! module whose field names are those of the converted file, and a forward pass that `tests/burn` compares with PyTorch's.

pub mod decoder;
pub mod shared;

pub mod albert;
pub mod bart;
pub mod bert;
pub mod bloom;
pub mod clip;
pub mod convnext;
pub mod deberta_v2;
pub mod dinov2;
pub mod distilbert;
pub mod efficientnet_timm;
pub mod falcon;
pub mod gemma2;
pub mod gemma3;
pub mod gpt2;
pub mod gpt_neox;
pub mod llama;
pub mod mamba;
pub mod minilm;
pub mod mistral;
pub mod mixtral;
pub mod mobilenet_v2;
pub mod modernbert;
pub mod mpnet;
pub mod olmo2;
pub mod opt;
pub mod phi3;
pub mod qwen2;
pub mod qwen3;
pub mod qwen3_moe;
pub mod resnet;
pub mod resnet_timm;
pub mod roberta;
pub mod segformer;
pub mod siglip;
pub mod swin;
pub mod t5;
pub mod vit;
pub mod wav2vec2;
pub mod whisper;
