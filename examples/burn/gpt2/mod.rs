//! GPT-2, for files of the recipe `gpt2`: Burn's own encoder layers, normed first, under a causal mask.

use burn::module::Module;
use burn::nn::transformer::{TransformerEncoderConfig, TransformerEncoderLayer};
use burn::nn::{Embedding, LayerNorm, Linear};
use burn::tensor::{Device, Int, Tensor};
use serde::Deserialize;

use crate::shared::{Activation, causal_mask_for_mha, embedding, layer_norm, linear, positions};

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub vocab_size: usize,
    pub n_positions: usize,
    pub n_embd: usize,
    pub n_layer: usize,
    pub n_head: usize,
    pub n_inner: Option<usize>,
    pub activation_function: Activation,
    pub layer_norm_epsilon: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 50_257,
            n_positions: 1024,
            n_embd: 768,
            n_layer: 12,
            n_head: 12,
            n_inner: None,
            activation_function: Activation::GeluNew,
            layer_norm_epsilon: 1e-5,
        }
    }
}

impl Config {
    pub fn init(&self, device: &Device) -> Gpt2 {
        let (d, eps) = (self.n_embd, self.layer_norm_epsilon);
        let layer = TransformerEncoderConfig::new(d, self.n_inner.unwrap_or(4 * d), self.n_head, self.n_layer)
            .with_norm_first(true)
            .with_activation(self.activation_function.burn())
            .with_layer_norm_eps(eps);
        Gpt2 {
            token_embedding: embedding(self.vocab_size, d, device),
            position_embedding: embedding(self.n_positions, d, device),
            layers: (0..self.n_layer).map(|_| TransformerEncoderLayer::new(&layer, device)).collect(),
            norm: layer_norm(d, eps, device),
            lm_head: linear(d, self.vocab_size, false, device),
        }
    }
}

#[derive(Module, Debug)]
pub struct Gpt2 {
    pub token_embedding: Embedding,
    pub position_embedding: Embedding,
    pub layers: Vec<TransformerEncoderLayer>,
    pub norm: LayerNorm,
    pub lm_head: Linear,
}

impl Gpt2 {
    /// `[batch, sequence]` → logits `[batch, sequence, vocab]`
    pub fn forward(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        self.lm_head.forward(self.hidden(ids))
    }

    /// The last hidden states, normed.
    pub fn hidden(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let (dims, device) = (ids.dims(), ids.device());
        let mask = causal_mask_for_mha(dims, &device);
        let mut x = self.token_embedding.forward(ids) + self.position_embedding.forward(positions(dims[1], &device));
        for layer in &self.layers {
            x = layer.forward(x, None, Some(mask.clone()));
        }
        self.norm.forward(x)
    }
}
