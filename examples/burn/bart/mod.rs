//! BART, for files of the recipe `bart`: Burn's own encoder and decoder layers, normed after each part.

use burn::module::{Module, Param};
use burn::nn::transformer::{
    TransformerDecoder, TransformerDecoderConfig, TransformerDecoderInput, TransformerDecoderLayer,
    TransformerEncoderConfig, TransformerEncoderLayer,
};
use burn::nn::{Embedding, Initializer, LayerNorm, Linear};
use burn::tensor::{Bool, Device, Int, Tensor};
use serde::Deserialize;

use crate::shared::{Activation, causal_mask_for_mha, embedding, layer_norm, linear, padding, positions};

/// Not in the config: torch's default.
const EPSILON: f64 = 1e-5;

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub vocab_size: usize,
    pub d_model: usize,
    pub encoder_layers: usize,
    pub encoder_ffn_dim: usize,
    pub encoder_attention_heads: usize,
    pub decoder_layers: usize,
    pub decoder_ffn_dim: usize,
    pub decoder_attention_heads: usize,
    pub max_position_embeddings: usize,
    pub activation_function: Activation,
    pub scale_embedding: bool,
    /// What the converted file has besides the two stacks.
    #[serde(skip)]
    pub lm_head: bool,
    #[serde(skip)]
    pub logits_bias: bool,
    #[serde(skip)]
    pub classes: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 50_265,
            d_model: 1024,
            encoder_layers: 12,
            encoder_ffn_dim: 4096,
            encoder_attention_heads: 16,
            decoder_layers: 12,
            decoder_ffn_dim: 4096,
            decoder_attention_heads: 16,
            max_position_embeddings: 1024,
            activation_function: Activation::Gelu,
            scale_embedding: false,
            lm_head: true,
            logits_bias: true,
            classes: None,
        }
    }
}

impl Config {
    pub fn init(&self, device: &Device) -> Bart {
        let d = self.d_model;
        let act = self.activation_function.burn();
        let (heads, n) = (self.encoder_attention_heads, self.encoder_layers);
        let encoder = TransformerEncoderConfig::new(d, self.encoder_ffn_dim, heads, n)
            .with_activation(act.clone())
            .with_layer_norm_eps(EPSILON);
        let (heads, m) = (self.decoder_attention_heads, self.decoder_layers);
        let decoder = TransformerDecoderConfig::new(d, self.decoder_ffn_dim, heads, m)
            .with_activation(act)
            .with_layer_norm_eps(EPSILON);
        let places = || embedding(self.max_position_embeddings, d, device);
        Bart {
            shared: embedding(self.vocab_size, d, device),
            encoder: Encoder {
                position_embedding: places(),
                embedding_norm: layer_norm(d, EPSILON, device),
                layers: (0..n).map(|_| TransformerEncoderLayer::new(&encoder, device)).collect(),
            },
            decoder: Decoder {
                position_embedding: places(),
                embedding_norm: layer_norm(d, EPSILON, device),
                layers: (0..m).map(|_| TransformerDecoderLayer::new(&decoder, device)).collect(),
            },
            lm_head: self.lm_head.then(|| linear(d, self.vocab_size, false, device)),
            final_logits_bias: self.logits_bias.then(|| Initializer::Zeros.init([1, self.vocab_size], device)),
            classification_head: self.classes.map(|classes| Classifier {
                dense: linear(d, d, true, device),
                out_proj: linear(d, classes, true, device),
            }),
            scale: if self.scale_embedding { (d as f64).sqrt() } else { 1.0 },
        }
    }
}

#[derive(Module, Debug)]
pub struct Bart {
    pub shared: Embedding,
    pub encoder: Encoder,
    pub decoder: Decoder,
    pub lm_head: Option<Linear>,
    pub final_logits_bias: Option<Param<Tensor<2>>>,
    pub classification_head: Option<Classifier>,
    pub scale: f64,
}

#[derive(Module, Debug)]
pub struct Encoder {
    pub position_embedding: Embedding,
    pub embedding_norm: LayerNorm,
    pub layers: Vec<TransformerEncoderLayer>,
}

#[derive(Module, Debug)]
pub struct Decoder {
    pub position_embedding: Embedding,
    pub embedding_norm: LayerNorm,
    pub layers: Vec<TransformerDecoderLayer>,
}

#[derive(Module, Debug)]
pub struct Classifier {
    pub dense: Linear,
    pub out_proj: Linear,
}

/// The encoder's states and where its padding is.
pub type Memory = (Tensor<3>, Option<Tensor<2, Bool>>);

impl Bart {
    /// The encoder's last hidden states. `mask` is the tokenizer's `attention_mask`.
    pub fn encode(&self, ids: Tensor<2, Int>, mask: Option<Tensor<2, Int>>) -> Memory {
        let e = &self.encoder;
        let place = positions(ids.dims()[1], &ids.device());
        let x = self.shared.forward(ids) * self.scale + e.position_embedding.forward(place);
        let mask = mask.map(padding);
        let x = e.layers.iter().fold(e.embedding_norm.forward(x), |x, layer| layer.forward(x, mask.clone(), None));
        (x, mask)
    }

    /// The decoder's last hidden states.
    pub fn decode(&self, ids: Tensor<2, Int>, (memory, mask): &Memory) -> Tensor<3> {
        let d = &self.decoder;
        let (dims, device) = (ids.dims(), ids.device());
        let causal = causal_mask_for_mha(dims, &device);
        let x = self.shared.forward(ids) * self.scale + d.position_embedding.forward(positions(dims[1], &device));
        let input = TransformerDecoderInput::new(d.embedding_norm.forward(x), memory.clone()).target_mask_attn(causal);
        self.stack().forward(match mask {
            Some(mask) => input.memory_mask_pad(mask.clone()),
            None => input,
        })
    }

    /// The decoder's layers as the module that can run them: a single layer keeps its output to itself.
    fn stack(&self) -> TransformerDecoder {
        TransformerDecoder {
            layers: self.decoder.layers.clone(),
            d_model: self.shared.weight.dims()[1],
            d_ff: 0,
            n_heads: 0,
            n_layers: self.decoder.layers.len(),
            dropout: 0.0,
            norm_first: false,
            quiet_softmax: false,
        }
    }

    /// `[batch, sequence, vocab]`, if there is a head.
    pub fn logits(&self, states: Tensor<3>) -> Option<Tensor<3>> {
        let logits = self.lm_head.as_ref()?.forward(states);
        Some(match &self.final_logits_bias {
            Some(bias) => logits + bias.val().unsqueeze(),
            None => logits,
        })
    }
}
