//! BLOOM, for files of the recipe `bloom`: ALiBi for positions, GELU by tanh.

use burn::module::Module;
use burn::nn::{Embedding, LayerNorm, Linear};
use burn::tensor::activation::gelu_approximate;
use burn::tensor::{Bool, Device, Int, Tensor};
use serde::Deserialize;

use crate::shared::{Scores, alibi, attend, causal_mask, embedding, layer_norm, linear, merge_heads, split_heads};

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub vocab_size: usize,
    #[serde(alias = "n_embed")]
    pub hidden_size: usize,
    #[serde(alias = "num_hidden_layers")]
    pub n_layer: usize,
    #[serde(alias = "num_attention_heads")]
    pub n_head: usize,
    pub layer_norm_epsilon: f64,
    pub apply_residual_connection_post_layernorm: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 250_880,
            hidden_size: 64,
            n_layer: 2,
            n_head: 8,
            layer_norm_epsilon: 1e-5,
            apply_residual_connection_post_layernorm: false,
        }
    }
}

impl Config {
    pub fn init(&self, device: &Device) -> Bloom {
        let (d, eps) = (self.hidden_size, self.layer_norm_epsilon);
        let block = |_| Block {
            input_layernorm: layer_norm(d, eps, device),
            self_attention: Attention {
                query: linear(d, d, true, device),
                key: linear(d, d, true, device),
                value: linear(d, d, true, device),
                dense: linear(d, d, true, device),
                heads: self.n_head,
            },
            post_attention_layernorm: layer_norm(d, eps, device),
            mlp: Mlp { dense_h_to_4h: linear(d, 4 * d, true, device), dense_4h_to_h: linear(4 * d, d, true, device) },
            residual_after_norm: self.apply_residual_connection_post_layernorm,
        };
        Bloom {
            word_embeddings: embedding(self.vocab_size, d, device),
            word_embeddings_layernorm: layer_norm(d, eps, device),
            h: (0..self.n_layer).map(block).collect(),
            ln_f: layer_norm(d, eps, device),
            lm_head: linear(d, self.vocab_size, false, device),
        }
    }
}

#[derive(Module, Debug)]
pub struct Bloom {
    pub word_embeddings: Embedding,
    pub word_embeddings_layernorm: LayerNorm,
    pub h: Vec<Block>,
    pub ln_f: LayerNorm,
    pub lm_head: Linear,
}

#[derive(Module, Debug)]
pub struct Block {
    pub input_layernorm: LayerNorm,
    pub self_attention: Attention,
    pub post_attention_layernorm: LayerNorm,
    pub mlp: Mlp,
    pub residual_after_norm: bool,
}

#[derive(Module, Debug)]
pub struct Attention {
    pub query: Linear,
    pub key: Linear,
    pub value: Linear,
    pub dense: Linear,
    pub heads: usize,
}

#[derive(Module, Debug)]
pub struct Mlp {
    pub dense_h_to_4h: Linear,
    pub dense_4h_to_h: Linear,
}

impl Bloom {
    /// `[batch, sequence]` → logits `[batch, sequence, vocab]`
    pub fn forward(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        self.lm_head.forward(self.hidden(ids))
    }

    /// The last hidden states, normed.
    pub fn hidden(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let mask = causal_mask(ids.dims()[1], None, &ids.device());
        let mut x = self.word_embeddings_layernorm.forward(self.word_embeddings.forward(ids));
        for layer in &self.h {
            x = layer.forward(x, mask.clone());
        }
        self.ln_f.forward(x)
    }
}

impl Block {
    fn forward(&self, x: Tensor<3>, mask: Tensor<4, Bool>) -> Tensor<3> {
        let normed = self.input_layernorm.forward(x.clone());
        let residual = if self.residual_after_norm { normed.clone() } else { x };
        let x = residual + self.self_attention.forward(normed, mask);
        let normed = self.post_attention_layernorm.forward(x.clone());
        let residual = if self.residual_after_norm { normed.clone() } else { x };
        residual + self.mlp.dense_4h_to_h.forward(gelu_approximate(self.mlp.dense_h_to_4h.forward(normed)))
    }
}

impl Attention {
    fn forward(&self, x: Tensor<3>, mask: Tensor<4, Bool>) -> Tensor<3> {
        let heads = |layer: &Linear| split_heads(layer.forward(x.clone()), self.heads);
        let bias = alibi(self.heads, x.dims()[1], &x.device());
        let (q, k, v) = (heads(&self.query), heads(&self.key), heads(&self.value));
        self.dense.forward(merge_heads(attend(q, k, v, Some(mask), Some(bias), &Scores::default())))
    }
}
