//! BERT with its heads, for files of the recipe `bert`.

use burn::module::Module;
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Embedding, LayerNorm, Linear};
use burn::tensor::{Device, Int, Tensor};
use serde::Deserialize;

use crate::shared::{Activation, embedding, layer_norm, linear, padding, positions};

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
    #[serde(skip)]
    pub heads: Heads,
}

/// What stands on the encoder: the converted file tells.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    pub pooler: bool,
    pub language_model: bool,
    /// Classes of the classifier, if there is one.
    pub classes: Option<usize>,
    /// Start and end of an answer.
    pub spans: bool,
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
            heads: Heads::default(),
        }
    }
}

impl Config {
    pub fn init(&self, device: &Device) -> Bert {
        let (d, eps) = (self.hidden_size, self.layer_norm_eps);
        let (ff, heads, layers) = (self.intermediate_size, self.num_attention_heads, self.num_hidden_layers);
        Bert {
            embeddings: Embeddings {
                word_embeddings: embedding(self.vocab_size, d, device),
                position_embeddings: embedding(self.max_position_embeddings, d, device),
                token_type_embeddings: embedding(self.type_vocab_size, d, device),
                layer_norm: layer_norm(d, eps, device),
            },
            encoder: TransformerEncoderConfig::new(d, ff, heads, layers)
                .with_activation(self.hidden_act.burn())
                .with_layer_norm_eps(eps)
                .init(device),
            pooler: self.heads.pooler.then(|| Pooler { output: linear(d, d, true, device) }),
            lm_head: self.heads.language_model.then(|| LmHead {
                dense: linear(d, d, true, device),
                layer_norm: layer_norm(d, eps, device),
                decoder: linear(d, self.vocab_size, true, device),
                activation: self.hidden_act,
            }),
            classifier: self.heads.classes.map(|classes| linear(d, classes, true, device)),
            qa_outputs: self.heads.spans.then(|| linear(d, 2, true, device)),
        }
    }
}

#[derive(Module, Debug)]
pub struct Bert {
    pub embeddings: Embeddings,
    pub encoder: TransformerEncoder,
    pub pooler: Option<Pooler>,
    pub lm_head: Option<LmHead>,
    pub classifier: Option<Linear>,
    pub qa_outputs: Option<Linear>,
}

#[derive(Module, Debug)]
pub struct Embeddings {
    pub word_embeddings: Embedding,
    pub position_embeddings: Embedding,
    pub token_type_embeddings: Embedding,
    pub layer_norm: LayerNorm,
}

/// The first token through a layer and tanh.
#[derive(Module, Debug)]
pub struct Pooler {
    pub output: Linear,
}

#[derive(Module, Debug)]
pub struct LmHead {
    pub dense: Linear,
    pub layer_norm: LayerNorm,
    pub decoder: Linear,
    #[module(skip)]
    pub activation: Activation,
}

impl Bert {
    /// The last hidden states. `mask` is the tokenizer's `attention_mask`; token types are 0 if not given.
    pub fn hidden(
        &self,
        ids: Tensor<2, Int>,
        types: Option<Tensor<2, Int>>,
        mask: Option<Tensor<2, Int>>,
    ) -> Tensor<3> {
        let x = self.embeddings.forward(ids, types);
        let input = TransformerEncoderInput::new(x);
        self.encoder.forward(match mask {
            Some(mask) => input.mask_pad(padding(mask)),
            None => input,
        })
    }
}

impl Embeddings {
    pub fn forward(&self, ids: Tensor<2, Int>, types: Option<Tensor<2, Int>>) -> Tensor<3> {
        let place = positions(ids.dims()[1], &ids.device());
        let types = types.unwrap_or_else(|| ids.zeros_like());
        let x = self.word_embeddings.forward(ids)
            + self.token_type_embeddings.forward(types)
            + self.position_embeddings.forward(place);
        self.layer_norm.forward(x)
    }
}

impl Pooler {
    /// `[batch, sequence, hidden]` → `[batch, hidden]`
    pub fn forward(&self, hidden: Tensor<3>) -> Tensor<2> {
        self.output.forward(hidden.narrow(1, 0, 1).squeeze_dim::<2>(1)).tanh()
    }
}

impl LmHead {
    /// `[batch, sequence, hidden]` → `[batch, sequence, vocab]`
    pub fn forward(&self, hidden: Tensor<3>) -> Tensor<3> {
        let x = self.activation.forward(self.dense.forward(hidden));
        self.decoder.forward(self.layer_norm.forward(x))
    }
}
