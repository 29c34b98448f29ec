//! MPNet, for files of the recipe `mpnet`: BERT with one table of relative positions for all layers.

use burn::module::Module;
use burn::nn::attention::{MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::{Embedding, LayerNorm, Linear};
use burn::tensor::activation::gelu;
use burn::tensor::{Bool, Device, Int, Tensor};
use serde::Deserialize;

use crate::shared::{
    Activation, Scores, attend, embedding, key_mask, layer_norm, linear, merge_heads, positions_after_padding,
    relative_buckets, split_heads,
};

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
    pub relative_attention_num_buckets: usize,
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
    pub classes: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 30_527,
            hidden_size: 768,
            intermediate_size: 3072,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            max_position_embeddings: 512,
            relative_attention_num_buckets: 32,
            hidden_act: Activation::Gelu,
            layer_norm_eps: 1e-12,
            heads: Heads::default(),
        }
    }
}

impl Config {
    pub fn init(&self, device: &Device) -> MpNet {
        let (d, ff, eps) = (self.hidden_size, self.intermediate_size, self.layer_norm_eps);
        let block = |_| Block {
            attention: MultiHeadAttentionConfig::new(d, self.num_attention_heads).init(device),
            norm_1: layer_norm(d, eps, device),
            pwff: FeedForward {
                linear_inner: linear(d, ff, true, device),
                linear_outer: linear(ff, d, true, device),
                activation: self.hidden_act,
            },
            norm_2: layer_norm(d, eps, device),
        };
        let buckets = self.relative_attention_num_buckets;
        MpNet {
            embeddings: Embeddings {
                word_embeddings: embedding(self.vocab_size, d, device),
                position_embeddings: embedding(self.max_position_embeddings, d, device),
                layer_norm: layer_norm(d, eps, device),
            },
            encoder: Encoder {
                layers: (0..self.num_hidden_layers).map(block).collect(),
                relative_attention_bias: embedding(buckets, self.num_attention_heads, device),
                buckets,
            },
            pooler: self.heads.pooler.then(|| Pooler { output: linear(d, d, true, device) }),
            lm_head: self.heads.language_model.then(|| LmHead {
                dense: linear(d, d, true, device),
                layer_norm: layer_norm(d, eps, device),
                decoder: linear(d, self.vocab_size, true, device),
            }),
            classifier: self.heads.classes.map(|classes| Classifier {
                dense: linear(d, d, true, device),
                out_proj: linear(d, classes, true, device),
            }),
        }
    }
}

#[derive(Module, Debug)]
pub struct MpNet {
    pub embeddings: Embeddings,
    pub encoder: Encoder,
    pub pooler: Option<Pooler>,
    pub lm_head: Option<LmHead>,
    pub classifier: Option<Classifier>,
}

#[derive(Module, Debug)]
pub struct Embeddings {
    pub word_embeddings: Embedding,
    pub position_embeddings: Embedding,
    pub layer_norm: LayerNorm,
}

#[derive(Module, Debug)]
pub struct Encoder {
    pub layers: Vec<Block>,
    pub relative_attention_bias: Embedding,
    pub buckets: usize,
}

#[derive(Module, Debug)]
pub struct Block {
    pub attention: MultiHeadAttention,
    pub norm_1: LayerNorm,
    pub pwff: FeedForward,
    pub norm_2: LayerNorm,
}

#[derive(Module, Debug)]
pub struct FeedForward {
    pub linear_inner: Linear,
    pub linear_outer: Linear,
    #[module(skip)]
    pub activation: Activation,
}

#[derive(Module, Debug)]
pub struct Pooler {
    pub output: Linear,
}

#[derive(Module, Debug)]
pub struct LmHead {
    pub dense: Linear,
    pub layer_norm: LayerNorm,
    pub decoder: Linear,
}

#[derive(Module, Debug)]
pub struct Classifier {
    pub dense: Linear,
    pub out_proj: Linear,
}

/// Padding has the id 1, in every published model.
const PADDING: usize = 1;

impl MpNet {
    /// The last hidden states. `mask` is the tokenizer's `attention_mask`.
    pub fn hidden(&self, ids: Tensor<2, Int>, mask: Tensor<2, Int>) -> Tensor<3> {
        let (length, device) = (ids.dims()[1], ids.device());
        let e = &self.embeddings;
        let place = positions_after_padding(ids.clone(), PADDING);
        let mut x = e.layer_norm.forward(e.word_embeddings.forward(ids) + e.position_embeddings.forward(place));
        let buckets = relative_buckets([length, length], true, self.encoder.buckets, 128, &device);
        let bias = self.encoder.relative_attention_bias.forward(buckets).permute([2, 0, 1]).unsqueeze::<4>();
        let mask = key_mask(mask, None);
        for layer in &self.encoder.layers {
            x = layer.forward(x, mask.clone(), bias.clone());
        }
        x
    }
}

impl Block {
    fn forward(&self, x: Tensor<3>, mask: Tensor<4, Bool>, bias: Tensor<4>) -> Tensor<3> {
        let a = &self.attention;
        let heads = |layer: &Linear| split_heads(layer.forward(x.clone()), a.n_heads);
        let y = attend(heads(&a.query), heads(&a.key), heads(&a.value), Some(mask), Some(bias), &Scores::default());
        let x = self.norm_1.forward(x.clone() + a.output.forward(merge_heads(y)));
        let f = &self.pwff;
        let y = f.linear_outer.forward(f.activation.forward(f.linear_inner.forward(x.clone())));
        self.norm_2.forward(x + y)
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
        self.decoder.forward(self.layer_norm.forward(gelu(self.dense.forward(hidden))))
    }
}

impl Classifier {
    /// `[batch, sequence, hidden]` → `[batch, 1, classes]`
    pub fn forward(&self, hidden: Tensor<3>) -> Tensor<3> {
        self.out_proj.forward(self.dense.forward(hidden.narrow(1, 0, 1)).tanh())
    }
}
