//! Falcon, for files of the recipe `falcon`: rotate-half positions or ALiBi, three arrangements of norms.

use burn::module::Module;
use burn::nn::{Embedding, LayerNorm, Linear};
use burn::tensor::{Bool, DType, Device, Int, Tensor};
use serde::Deserialize;

use crate::shared::{
    Activation, Pairing, Rope, Rotary, Scores, alibi, attend, causal_mask, embedding, layer_norm, linear, merge_heads,
    repeat_heads, split_heads,
};

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub vocab_size: usize,
    pub hidden_size: usize,
    #[serde(alias = "n_layer")]
    pub num_hidden_layers: usize,
    #[serde(alias = "n_head")]
    pub num_attention_heads: usize,
    #[serde(alias = "n_head_kv")]
    pub num_kv_heads: Option<usize>,
    pub ffn_hidden_size: Option<usize>,
    pub activation: Activation,
    pub layer_norm_epsilon: f64,
    pub alibi: bool,
    pub bias: bool,
    pub multi_query: bool,
    pub new_decoder_architecture: bool,
    pub num_ln_in_parallel_attn: Option<usize>,
    pub parallel_attn: bool,
    #[serde(flatten)]
    pub rope: Rope,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 65_024,
            hidden_size: 4544,
            num_hidden_layers: 32,
            num_attention_heads: 71,
            num_kv_heads: None,
            ffn_hidden_size: None,
            activation: Activation::Gelu,
            layer_norm_epsilon: 1e-5,
            alibi: false,
            bias: false,
            multi_query: true,
            new_decoder_architecture: false,
            num_ln_in_parallel_attn: None,
            parallel_attn: true,
            rope: Rope::default(),
        }
    }
}

impl Config {
    /// How many heads keys and values have.
    pub fn kv_heads(&self) -> usize {
        match (self.new_decoder_architecture, self.multi_query) {
            (true, _) => self.num_kv_heads.unwrap_or(self.num_attention_heads),
            (false, true) => 1,
            (false, false) => self.num_attention_heads,
        }
    }

    pub fn init(&self, device: &Device) -> Falcon {
        let (d, eps, bias) = (self.hidden_size, self.layer_norm_epsilon, self.bias);
        let ff = self.ffn_hidden_size.unwrap_or(4 * d);
        let keys = self.kv_heads() * d / self.num_attention_heads;
        let two = self.new_decoder_architecture && self.num_ln_in_parallel_attn.unwrap_or(2) == 2;
        let parallel = self.new_decoder_architecture || self.parallel_attn;
        let norm = |there: bool| there.then(|| layer_norm(d, eps, device));
        let block = |_| Block {
            self_attention: Attention {
                query: linear(d, d, bias, device),
                key: linear(d, keys, bias, device),
                value: linear(d, keys, bias, device),
                dense: linear(d, d, bias, device),
                heads: self.num_attention_heads,
                kv_heads: self.kv_heads(),
            },
            mlp: Mlp {
                dense_h_to_4h: linear(d, ff, bias, device),
                dense_4h_to_h: linear(ff, d, bias, device),
                activation: self.activation,
            },
            ln_attn: norm(two),
            ln_mlp: norm(two),
            input_layernorm: norm(!two),
            post_attention_layernorm: norm(!parallel),
        };
        Falcon {
            word_embeddings: embedding(self.vocab_size, d, device),
            h: (0..self.num_hidden_layers).map(block).collect(),
            ln_f: layer_norm(d, eps, device),
            lm_head: linear(d, self.vocab_size, false, device),
            config: self.clone(),
        }
    }
}

#[derive(Module, Debug)]
pub struct Falcon {
    pub word_embeddings: Embedding,
    pub h: Vec<Block>,
    pub ln_f: LayerNorm,
    pub lm_head: Linear,
    #[module(skip)]
    pub config: Config,
}

#[derive(Module, Debug)]
pub struct Block {
    pub self_attention: Attention,
    pub mlp: Mlp,
    pub ln_attn: Option<LayerNorm>,
    pub ln_mlp: Option<LayerNorm>,
    pub input_layernorm: Option<LayerNorm>,
    pub post_attention_layernorm: Option<LayerNorm>,
}

#[derive(Module, Debug)]
pub struct Attention {
    pub query: Linear,
    pub key: Linear,
    pub value: Linear,
    pub dense: Linear,
    pub heads: usize,
    pub kv_heads: usize,
}

#[derive(Module, Debug)]
pub struct Mlp {
    pub dense_h_to_4h: Linear,
    pub dense_4h_to_h: Linear,
    #[module(skip)]
    pub activation: Activation,
}

impl Falcon {
    /// `[batch, sequence]` → logits `[batch, sequence, vocab]`
    pub fn forward(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        self.lm_head.forward(self.hidden(ids))
    }

    /// The last hidden states, normed.
    pub fn hidden(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let (length, device) = (ids.dims()[1], ids.device());
        let c = &self.config;
        let rope = c.rope.parameters("full_attention", 10_000.0);
        let head = c.hidden_size / c.num_attention_heads;
        let rotary = (!c.alibi).then(|| Rotary::new(&rope, head, Pairing::Halves, length));
        let mask = causal_mask(length, None, &device);
        let mut x = self.word_embeddings.forward(ids);
        for layer in &self.h {
            x = layer.forward(x, rotary.as_ref(), mask.clone());
        }
        self.ln_f.forward(x)
    }
}

impl Block {
    fn forward(&self, x: Tensor<3>, rotary: Option<&Rotary>, mask: Tensor<4, Bool>) -> Tensor<3> {
        let attention = |y| self.self_attention.forward(y, rotary, mask);
        match (&self.ln_attn, &self.ln_mlp, &self.input_layernorm, &self.post_attention_layernorm) {
            (Some(one), Some(two), ..) => {
                x.clone() + attention(one.forward(x.clone())) + self.mlp.forward(two.forward(x))
            }
            (_, _, Some(norm), None) => {
                let y = norm.forward(x.clone());
                x + attention(y.clone()) + self.mlp.forward(y)
            }
            (_, _, Some(norm), Some(after)) => {
                let x = x.clone() + attention(norm.forward(x));
                x.clone() + self.mlp.forward(after.forward(x))
            }
            _ => unreachable!("a block has a norm before its attention"),
        }
    }
}

impl Attention {
    fn forward(&self, x: Tensor<3>, rotary: Option<&Rotary>, mask: Tensor<4, Bool>) -> Tensor<3> {
        let q = split_heads(self.query.forward(x.clone()), self.heads);
        let k = split_heads(self.key.forward(x.clone()), self.kv_heads);
        let v = split_heads(self.value.forward(x.clone()), self.kv_heads);
        let (q, k, bias) = match rotary {
            Some(rotary) => (rotary.forward(q, 0), rotary.forward(k, 0), None),
            None => {
                let scale = (q.dims()[3] as f64).powf(-0.5);
                let bias = alibi_in_bfloat16(self.heads, x.dims()[1], &x.device()) * scale;
                (q, k, Some(bias))
            }
        };
        let times = self.heads / self.kv_heads;
        let y = attend(q, repeat_heads(k, times), repeat_heads(v, times), Some(mask), bias, &Scores::default());
        self.dense.forward(merge_heads(y))
    }
}

/// Falcon's ALiBi is rounded to bfloat16, whatever the model computes in.
fn alibi_in_bfloat16(heads: usize, keys: usize, device: &Device) -> Tensor<4> {
    let slopes = alibi(heads, 2, device).narrow(3, 1, 1).cast(DType::BF16).cast(DType::F32);
    let keys = Tensor::arange(0..keys as i64, device).float().cast(DType::F32).reshape([1, 1, 1, keys]);
    (slopes * keys).cast(DType::BF16).cast(DType::F32)
}

impl Mlp {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        self.dense_4h_to_h.forward(self.activation.forward(self.dense_h_to_4h.forward(x)))
    }
}
