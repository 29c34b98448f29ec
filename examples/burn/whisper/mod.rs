//! Whisper, for files of the recipe `whisper`: blocks normed first around Burn's own multi-head attention.

use burn::module::Module;
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::conv::{Conv1d, Conv1dConfig};
use burn::nn::{Embedding, LayerNorm, Linear, PaddingConfig1d};
use burn::tensor::{Bool, Device, Int, Tensor};
use serde::Deserialize;

use crate::shared::{Activation, causal_mask_for_mha, embedding, layer_norm, linear, positions};

/// Not in the config: torch's default.
const EPSILON: f64 = 1e-5;

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub vocab_size: usize,
    pub d_model: usize,
    pub num_mel_bins: usize,
    pub encoder_layers: usize,
    pub encoder_ffn_dim: usize,
    pub encoder_attention_heads: usize,
    pub decoder_layers: usize,
    pub decoder_ffn_dim: usize,
    pub decoder_attention_heads: usize,
    pub max_source_positions: usize,
    pub max_target_positions: usize,
    pub activation_function: Activation,
    pub scale_embedding: bool,
    /// Whether the keys have a bias in the converted file (of zeros: the checkpoint has none).
    #[serde(skip)]
    pub key_bias: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 51_865,
            d_model: 384,
            num_mel_bins: 80,
            encoder_layers: 4,
            encoder_ffn_dim: 1536,
            encoder_attention_heads: 6,
            decoder_layers: 4,
            decoder_ffn_dim: 1536,
            decoder_attention_heads: 6,
            max_source_positions: 1500,
            max_target_positions: 448,
            activation_function: Activation::Gelu,
            scale_embedding: false,
            key_bias: true,
        }
    }
}

impl Config {
    fn block(&self, heads: usize, ff: usize, crosses: bool, device: &Device) -> Block {
        let d = self.d_model;
        let attention = || MultiHeadAttentionConfig::new(d, heads).with_key_bias(self.key_bias).init(device);
        let norm = || layer_norm(d, EPSILON, device);
        Block {
            attn: attention(),
            attn_norm: norm(),
            cross_attn: crosses.then(attention),
            cross_attn_norm: crosses.then(norm),
            fc1: linear(d, ff, true, device),
            fc2: linear(ff, d, true, device),
            mlp_norm: norm(),
            activation: self.activation_function,
        }
    }

    pub fn init(&self, device: &Device) -> Whisper {
        let d = self.d_model;
        let conv = |channels: usize, stride: usize| {
            Conv1dConfig::new(channels, d, 3)
                .with_stride(stride)
                .with_padding(PaddingConfig1d::Explicit(1, 1))
                .init(device)
        };
        let (eh, ef) = (self.encoder_attention_heads, self.encoder_ffn_dim);
        let (dh, df) = (self.decoder_attention_heads, self.decoder_ffn_dim);
        Whisper {
            encoder: Encoder {
                conv1: conv(self.num_mel_bins, 1),
                conv2: conv(d, 2),
                position_embedding: embedding(self.max_source_positions, d, device),
                layers: (0..self.encoder_layers).map(|_| self.block(eh, ef, false, device)).collect(),
                norm: layer_norm(d, EPSILON, device),
                activation: self.activation_function,
            },
            decoder: Decoder {
                token_embedding: embedding(self.vocab_size, d, device),
                position_embedding: embedding(self.max_target_positions, d, device),
                layers: (0..self.decoder_layers).map(|_| self.block(dh, df, true, device)).collect(),
                norm: layer_norm(d, EPSILON, device),
                proj_out: linear(d, self.vocab_size, false, device),
                scale: if self.scale_embedding { (d as f64).sqrt() } else { 1.0 },
            },
        }
    }
}

#[derive(Module, Debug)]
pub struct Whisper {
    pub encoder: Encoder,
    pub decoder: Decoder,
}

#[derive(Module, Debug)]
pub struct Encoder {
    pub conv1: Conv1d,
    pub conv2: Conv1d,
    pub position_embedding: Embedding,
    pub layers: Vec<Block>,
    pub norm: LayerNorm,
    #[module(skip)]
    pub activation: Activation,
}

#[derive(Module, Debug)]
pub struct Decoder {
    pub token_embedding: Embedding,
    pub position_embedding: Embedding,
    pub layers: Vec<Block>,
    pub norm: LayerNorm,
    pub proj_out: Linear,
    pub scale: f64,
}

#[derive(Module, Debug)]
pub struct Block {
    pub attn: MultiHeadAttention,
    pub attn_norm: LayerNorm,
    pub cross_attn: Option<MultiHeadAttention>,
    pub cross_attn_norm: Option<LayerNorm>,
    pub fc1: Linear,
    pub fc2: Linear,
    pub mlp_norm: LayerNorm,
    #[module(skip)]
    pub activation: Activation,
}

impl Encoder {
    /// A spectrogram `[batch, mels, frames]` → states `[batch, frames / 2, width]`
    pub fn forward(&self, mels: Tensor<3>) -> Tensor<3> {
        let x = self.activation.forward(self.conv1.forward(mels));
        let x = self.activation.forward(self.conv2.forward(x)).swap_dims(1, 2);
        let place = positions(x.dims()[1], &x.device());
        let x = x + self.position_embedding.forward(place);
        self.norm.forward(self.layers.iter().fold(x, |x, layer| layer.forward(x, None, None)))
    }
}

impl Decoder {
    /// The last hidden states, normed: `[batch, sequence, width]`
    pub fn hidden(&self, ids: Tensor<2, Int>, memory: Tensor<3>) -> Tensor<3> {
        let (dims, device) = (ids.dims(), ids.device());
        let mask = causal_mask_for_mha(dims, &device);
        let x = self.token_embedding.forward(ids) * self.scale
            + self.position_embedding.forward(positions(dims[1], &device));
        let x = self.layers.iter().fold(x, |x, layer| layer.forward(x, Some(mask.clone()), Some(memory.clone())));
        self.norm.forward(x)
    }

    /// Logits `[batch, sequence, vocab]`
    pub fn forward(&self, ids: Tensor<2, Int>, memory: Tensor<3>) -> Tensor<3> {
        self.proj_out.forward(self.hidden(ids, memory))
    }
}

impl Block {
    fn forward(&self, x: Tensor<3>, mask: Option<Tensor<3, Bool>>, memory: Option<Tensor<3>>) -> Tensor<3> {
        let input = MhaInput::self_attn(self.attn_norm.forward(x.clone()));
        let input = match mask {
            Some(mask) => input.mask_attn(mask),
            None => input,
        };
        let mut x = x + self.attn.forward(input).context;
        if let (Some(cross), Some(norm), Some(memory)) = (&self.cross_attn, &self.cross_attn_norm, memory) {
            let input = MhaInput::new(norm.forward(x.clone()), memory.clone(), memory);
            x = x + cross.forward(input).context;
        }
        let y = self.fc2.forward(self.activation.forward(self.fc1.forward(self.mlp_norm.forward(x.clone()))));
        x + y
    }
}
