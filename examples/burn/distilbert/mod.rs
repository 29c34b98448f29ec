//! DistilBERT with its heads, for files of the recipe `distilbert`.

use burn::module::Module;
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Embedding, LayerNorm, Linear};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor};
use serde::Deserialize;

use crate::shared::{Activation, embedding, layer_norm, linear, padding, positions};

/// Not in the config: the library writes it into the code.
const EPSILON: f64 = 1e-12;

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub vocab_size: usize,
    pub dim: usize,
    pub hidden_dim: usize,
    pub n_layers: usize,
    pub n_heads: usize,
    pub max_position_embeddings: usize,
    pub activation: Activation,
    #[serde(skip)]
    pub heads: Heads,
}

/// What stands on the encoder: the converted file tells.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    pub language_model: bool,
    /// A layer between the first token and the classifier.
    pub pre_classifier: bool,
    pub classes: Option<usize>,
    /// Start and end of an answer.
    pub spans: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 30_522,
            dim: 768,
            hidden_dim: 3072,
            n_layers: 6,
            n_heads: 12,
            max_position_embeddings: 512,
            activation: Activation::Gelu,
            heads: Heads::default(),
        }
    }
}

impl Config {
    pub fn init(&self, device: &Device) -> DistilBert {
        let d = self.dim;
        DistilBert {
            embeddings: Embeddings {
                word_embeddings: embedding(self.vocab_size, d, device),
                position_embeddings: embedding(self.max_position_embeddings, d, device),
                layer_norm: layer_norm(d, EPSILON, device),
            },
            encoder: TransformerEncoderConfig::new(d, self.hidden_dim, self.n_heads, self.n_layers)
                .with_activation(self.activation.burn())
                .with_layer_norm_eps(EPSILON)
                .init(device),
            lm_head: self.heads.language_model.then(|| LmHead {
                dense: linear(d, d, true, device),
                layer_norm: layer_norm(d, EPSILON, device),
                decoder: linear(d, self.vocab_size, true, device),
                activation: self.activation,
            }),
            pre_classifier: self.heads.pre_classifier.then(|| linear(d, d, true, device)),
            classifier: self.heads.classes.map(|classes| linear(d, classes, true, device)),
            qa_outputs: self.heads.spans.then(|| linear(d, 2, true, device)),
        }
    }
}

#[derive(Module, Debug)]
pub struct DistilBert {
    pub embeddings: Embeddings,
    pub encoder: TransformerEncoder,
    pub lm_head: Option<LmHead>,
    pub pre_classifier: Option<Linear>,
    pub classifier: Option<Linear>,
    pub qa_outputs: Option<Linear>,
}

#[derive(Module, Debug)]
pub struct Embeddings {
    pub word_embeddings: Embedding,
    pub position_embeddings: Embedding,
    pub layer_norm: LayerNorm,
}

#[derive(Module, Debug)]
pub struct LmHead {
    pub dense: Linear,
    pub layer_norm: LayerNorm,
    pub decoder: Linear,
    #[module(skip)]
    pub activation: Activation,
}

impl DistilBert {
    /// The last hidden states. `mask` is the tokenizer's `attention_mask`.
    pub fn hidden(&self, ids: Tensor<2, Int>, mask: Option<Tensor<2, Int>>) -> Tensor<3> {
        let e = &self.embeddings;
        let place = positions(ids.dims()[1], &ids.device());
        let x = e.word_embeddings.forward(ids) + e.position_embeddings.forward(place);
        let input = TransformerEncoderInput::new(e.layer_norm.forward(x));
        self.encoder.forward(match mask {
            Some(mask) => input.mask_pad(padding(mask)),
            None => input,
        })
    }

    /// A classifier of texts sees the first token, one of tokens all: `[batch, 1 or sequence, classes]`
    pub fn classify(&self, hidden: Tensor<3>) -> Option<Tensor<3>> {
        let classifier = self.classifier.as_ref()?;
        Some(match &self.pre_classifier {
            Some(before) => classifier.forward(relu(before.forward(hidden.narrow(1, 0, 1)))),
            None => classifier.forward(hidden),
        })
    }
}

impl LmHead {
    /// `[batch, sequence, hidden]` → `[batch, sequence, vocab]`
    pub fn forward(&self, hidden: Tensor<3>) -> Tensor<3> {
        let x = self.activation.forward(self.dense.forward(hidden));
        self.decoder.forward(self.layer_norm.forward(x))
    }
}
