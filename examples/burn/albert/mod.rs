//! ALBERT: one layer, applied many times. For files of the recipe `albert` and albert-burn's tree.

use burn::module::{Module, Param};
use burn::nn::transformer::{TransformerEncoderConfig, TransformerEncoderLayer};
use burn::nn::{Embedding, Initializer, LayerNorm, Linear};
use burn::tensor::{Device, Int, Tensor};
use serde::Deserialize;

use crate::shared::{Activation, embedding, layer_norm, linear, padding, positions};

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub vocab_size: usize,
    pub embedding_size: usize,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub inner_group_num: usize,
    pub max_position_embeddings: usize,
    pub type_vocab_size: usize,
    pub hidden_act: Activation,
    pub layer_norm_eps: f64,
    /// Whether the file has a pooler: it tells.
    #[serde(skip)]
    pub pooler: bool,
    /// Whether the file has the masked language model's head.
    #[serde(skip)]
    pub language_model: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 30_000,
            embedding_size: 128,
            hidden_size: 4096,
            intermediate_size: 16_384,
            num_hidden_layers: 12,
            num_attention_heads: 64,
            inner_group_num: 1,
            max_position_embeddings: 512,
            type_vocab_size: 2,
            hidden_act: Activation::GeluNew,
            layer_norm_eps: 1e-12,
            pooler: false,
            language_model: false,
        }
    }
}

impl Config {
    pub fn init(&self, device: &Device) -> AlbertModel {
        let (d, e, eps) = (self.hidden_size, self.embedding_size, self.layer_norm_eps);
        let layer = TransformerEncoderConfig::new(d, self.intermediate_size, self.num_attention_heads, 1)
            .with_activation(self.hidden_act.burn())
            .with_layer_norm_eps(eps);
        let lm = self.language_model;
        AlbertModel {
            albert: Albert {
                embeddings: Embeddings {
                    word_embeddings: embedding(self.vocab_size, e, device),
                    position_embeddings: embedding(self.max_position_embeddings, e, device),
                    token_type_embeddings: embedding(self.type_vocab_size, e, device),
                    layer_norm: layer_norm(e, eps, device),
                },
                encoder: Encoder {
                    projection: linear(e, d, true, device),
                    layer: TransformerEncoderLayer::new(&layer, device),
                    times: self.num_hidden_layers,
                },
                pooler: self.pooler.then(|| linear(d, d, true, device)),
            },
            mlm_dense: lm.then(|| linear(d, e, true, device)),
            mlm_layer_norm: lm.then(|| layer_norm(e, eps, device)),
            mlm_decoder_bias: lm.then(|| Initializer::Zeros.init([self.vocab_size], device)),
            activation: self.hidden_act,
        }
    }
}

#[derive(Module, Debug)]
pub struct AlbertModel {
    pub albert: Albert,
    pub mlm_dense: Option<Linear>,
    pub mlm_layer_norm: Option<LayerNorm>,
    pub mlm_decoder_bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    pub activation: Activation,
}

#[derive(Module, Debug)]
pub struct Albert {
    pub embeddings: Embeddings,
    pub encoder: Encoder,
    pub pooler: Option<Linear>,
}

#[derive(Module, Debug)]
pub struct Embeddings {
    pub word_embeddings: Embedding,
    pub position_embeddings: Embedding,
    pub token_type_embeddings: Embedding,
    pub layer_norm: LayerNorm,
}

#[derive(Module, Debug)]
pub struct Encoder {
    pub projection: Linear,
    pub layer: TransformerEncoderLayer,
    pub times: usize,
}

impl AlbertModel {
    /// The last hidden states. `mask` is the tokenizer's `attention_mask`; token types are 0 if not given.
    pub fn hidden(
        &self,
        ids: Tensor<2, Int>,
        types: Option<Tensor<2, Int>>,
        mask: Option<Tensor<2, Int>>,
    ) -> Tensor<3> {
        let Albert { embeddings: e, encoder, .. } = &self.albert;
        let place = positions(ids.dims()[1], &ids.device());
        let types = types.unwrap_or_else(|| ids.zeros_like());
        let x = e.word_embeddings.forward(ids)
            + e.token_type_embeddings.forward(types)
            + e.position_embeddings.forward(place);
        let mut x = encoder.projection.forward(e.layer_norm.forward(x));
        let mask = mask.map(padding);
        for _ in 0..encoder.times {
            x = encoder.layer.forward(x, mask.clone(), None);
        }
        x
    }

    /// The first token through the pooler and tanh: `[batch, hidden]`
    pub fn pooled(&self, hidden: Tensor<3>) -> Option<Tensor<2>> {
        let pooler = self.albert.pooler.as_ref()?;
        Some(pooler.forward(hidden.narrow(1, 0, 1).squeeze_dim::<2>(1)).tanh())
    }

    /// The masked language model's logits, whose matrix is the word embedding: `[batch, sequence, vocab]`
    pub fn logits(&self, hidden: Tensor<3>) -> Option<Tensor<3>> {
        let (dense, norm) = (self.mlm_dense.as_ref()?, self.mlm_layer_norm.as_ref()?);
        let x = norm.forward(self.activation.forward(dense.forward(hidden)));
        let words = self.albert.embeddings.word_embeddings.weight.val().transpose();
        let bias = self.mlm_decoder_bias.as_ref()?.val();
        Some(x.matmul(words.unsqueeze()) + bias.unsqueeze())
    }
}
