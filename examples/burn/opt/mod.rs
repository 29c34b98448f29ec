//! OPT, for files of the recipe `opt`: Burn's own encoder layers under a causal mask.

use burn::module::Module;
use burn::nn::transformer::{TransformerEncoderConfig, TransformerEncoderLayer};
use burn::nn::{Embedding, LayerNorm, Linear};
use burn::tensor::{Device, Int, Tensor};
use serde::Deserialize;

use crate::shared::{Activation, causal_mask_for_mha, embedding, layer_norm, linear, positions};

/// Not in the config: the library's LayerNorm has torch's default.
const EPSILON: f64 = 1e-5;

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub ffn_dim: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub max_position_embeddings: usize,
    pub word_embed_proj_dim: Option<usize>,
    pub do_layer_norm_before: bool,
    #[serde(rename = "_remove_final_layer_norm")]
    pub remove_final_layer_norm: bool,
    pub activation_function: Activation,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 50_272,
            hidden_size: 768,
            ffn_dim: 3072,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            max_position_embeddings: 2048,
            word_embed_proj_dim: None,
            do_layer_norm_before: true,
            remove_final_layer_norm: false,
            activation_function: Activation::Relu,
        }
    }
}

impl Config {
    pub fn init(&self, device: &Device) -> Opt {
        let (d, n) = (self.hidden_size, self.num_hidden_layers);
        let narrow = self.word_embed_proj_dim.unwrap_or(d);
        let layer = TransformerEncoderConfig::new(d, self.ffn_dim, self.num_attention_heads, n)
            .with_norm_first(self.do_layer_norm_before)
            .with_activation(self.activation_function.burn())
            .with_layer_norm_eps(EPSILON);
        let normed = self.do_layer_norm_before && !self.remove_final_layer_norm;
        Opt {
            token_embedding: embedding(self.vocab_size, narrow, device),
            position_embedding: embedding(self.max_position_embeddings, d, device),
            project_in: (narrow != d).then(|| linear(narrow, d, false, device)),
            layers: (0..n).map(|_| TransformerEncoderLayer::new(&layer, device)).collect(),
            norm: normed.then(|| layer_norm(d, EPSILON, device)),
            project_out: (narrow != d).then(|| linear(d, narrow, false, device)),
            lm_head: linear(narrow, self.vocab_size, false, device),
        }
    }
}

#[derive(Module, Debug)]
pub struct Opt {
    pub token_embedding: Embedding,
    pub position_embedding: Embedding,
    pub project_in: Option<Linear>,
    pub layers: Vec<TransformerEncoderLayer>,
    pub norm: Option<LayerNorm>,
    pub project_out: Option<Linear>,
    pub lm_head: Linear,
}

impl Opt {
    /// `[batch, sequence]` → logits `[batch, sequence, vocab]`
    pub fn forward(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        self.lm_head.forward(self.hidden(ids))
    }

    /// What the head sees.
    pub fn hidden(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let (dims, device) = (ids.dims(), ids.device());
        let mask = causal_mask_for_mha(dims, &device);
        let mut x = self.token_embedding.forward(ids);
        if let Some(project) = &self.project_in {
            x = project.forward(x);
        }
        x = x + self.position_embedding.forward(positions(dims[1], &device));
        for layer in &self.layers {
            x = layer.forward(x, None, Some(mask.clone()));
        }
        if let Some(norm) = &self.norm {
            x = norm.forward(x);
        }
        match &self.project_out {
            Some(project) => project.forward(x),
            None => x,
        }
    }
}
