//! BERT encoders for sentence embeddings (MiniLM, BGE, E5, GTE), for files of the recipe `minilm`.

use burn::module::Module;
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Embedding, LayerNorm};
use burn::tensor::{Device, Int, Tensor};
use serde::Deserialize;

use crate::shared::{Activation, embedding, layer_norm, padding, positions};

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub max_position_embeddings: usize,
    pub type_vocab_size: usize,
    pub hidden_act: Activation,
    pub layer_norm_eps: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 30_522,
            hidden_size: 768,
            intermediate_size: 3072,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            max_position_embeddings: 512,
            type_vocab_size: 2,
            hidden_act: Activation::Gelu,
            layer_norm_eps: 1e-12,
        }
    }
}

impl Config {
    pub fn init(&self, device: &Device) -> MiniLm {
        let d = self.hidden_size;
        let (ff, heads, layers) = (self.intermediate_size, self.num_attention_heads, self.num_hidden_layers);
        MiniLm {
            embeddings: Embeddings {
                word_embeddings: embedding(self.vocab_size, d, device),
                position_embeddings: embedding(self.max_position_embeddings, d, device),
                token_type_embeddings: embedding(self.type_vocab_size, d, device),
                layer_norm: layer_norm(d, self.layer_norm_eps, device),
            },
            encoder: TransformerEncoderConfig::new(d, ff, heads, layers)
                .with_activation(self.hidden_act.burn())
                .with_layer_norm_eps(self.layer_norm_eps)
                .init(device),
        }
    }
}

#[derive(Module, Debug)]
pub struct MiniLm {
    pub embeddings: Embeddings,
    pub encoder: TransformerEncoder,
}

#[derive(Module, Debug)]
pub struct Embeddings {
    pub word_embeddings: Embedding,
    pub position_embeddings: Embedding,
    pub token_type_embeddings: Embedding,
    pub layer_norm: LayerNorm,
}

impl MiniLm {
    /// The last hidden states. `mask` is the tokenizer's `attention_mask`; token types are 0 if not given.
    pub fn hidden(&self, ids: Tensor<2, Int>, types: Option<Tensor<2, Int>>, mask: Tensor<2, Int>) -> Tensor<3> {
        let e = &self.embeddings;
        let place = positions(ids.dims()[1], &ids.device());
        let types = types.unwrap_or_else(|| ids.zeros_like());
        let x = e.word_embeddings.forward(ids)
            + e.token_type_embeddings.forward(types)
            + e.position_embeddings.forward(place);
        self.encoder.forward(TransformerEncoderInput::new(e.layer_norm.forward(x)).mask_pad(padding(mask)))
    }

    /// One vector per text: the mean of its real tokens, of length one.
    pub fn embed(&self, ids: Tensor<2, Int>, mask: Tensor<2, Int>) -> Tensor<2> {
        let real: Tensor<3> = mask.clone().float().unsqueeze_dim(2);
        let sum: Tensor<2> = (self.hidden(ids, None, mask) * real.clone()).sum_dim(1).squeeze_dim(1);
        let mean = sum / real.sum_dim(1).squeeze_dim::<2>(1);
        let length = mean.clone().square().sum_dim(1).sqrt();
        mean / length
    }
}
