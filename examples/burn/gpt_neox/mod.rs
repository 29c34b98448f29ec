//! GPT-NeoX and Pythia, for files of the recipe `gpt-neox`: rotate-half positions on a part of each head.

use burn::module::Module;
use burn::nn::{Embedding, LayerNorm, Linear};
use burn::tensor::{Bool, Device, Int, Tensor};
use serde::Deserialize;

use crate::shared::{
    Activation, Pairing, Rope, Rotary, Scores, attend, causal_mask, embedding, layer_norm, linear, merge_heads,
    split_heads,
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
    pub hidden_act: Activation,
    pub layer_norm_eps: f64,
    pub use_parallel_residual: bool,
    pub attention_bias: bool,
    pub rotary_emb_base: f64,
    #[serde(flatten)]
    pub rope: Rope,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 50_432,
            hidden_size: 6144,
            intermediate_size: 24_576,
            num_hidden_layers: 44,
            num_attention_heads: 64,
            hidden_act: Activation::Gelu,
            layer_norm_eps: 1e-5,
            use_parallel_residual: true,
            attention_bias: true,
            rotary_emb_base: 10_000.0,
            rope: Rope::default(),
        }
    }
}

impl Config {
    pub fn init(&self, device: &Device) -> GptNeoX {
        let (d, ff, eps, bias) = (self.hidden_size, self.intermediate_size, self.layer_norm_eps, self.attention_bias);
        let block = |_| Block {
            attention: Attention {
                query: linear(d, d, bias, device),
                key: linear(d, d, bias, device),
                value: linear(d, d, bias, device),
                dense: linear(d, d, bias, device),
                heads: self.num_attention_heads,
            },
            mlp: Mlp {
                dense_h_to_4h: linear(d, ff, true, device),
                dense_4h_to_h: linear(ff, d, true, device),
                activation: self.hidden_act,
            },
            input_layernorm: layer_norm(d, eps, device),
            post_attention_layernorm: layer_norm(d, eps, device),
            parallel: self.use_parallel_residual,
        };
        GptNeoX {
            embed_in: embedding(self.vocab_size, d, device),
            layers: (0..self.num_hidden_layers).map(block).collect(),
            final_layer_norm: layer_norm(d, eps, device),
            lm_head: Some(linear(d, self.vocab_size, false, device)),
            config: self.clone(),
        }
    }

    /// The same without the head, for files of the bare model.
    pub fn init_without_head(&self, device: &Device) -> GptNeoX {
        GptNeoX { lm_head: None, ..self.init(device) }
    }
}

#[derive(Module, Debug)]
pub struct GptNeoX {
    pub embed_in: Embedding,
    pub layers: Vec<Block>,
    pub final_layer_norm: LayerNorm,
    pub lm_head: Option<Linear>,
    #[module(skip)]
    pub config: Config,
}

#[derive(Module, Debug)]
pub struct Block {
    pub attention: Attention,
    pub mlp: Mlp,
    pub input_layernorm: LayerNorm,
    pub post_attention_layernorm: LayerNorm,
    pub parallel: bool,
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
    #[module(skip)]
    pub activation: Activation,
}

impl GptNeoX {
    /// `[batch, sequence]` → logits `[batch, sequence, vocab]`; panics if built without a head.
    pub fn forward(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        self.lm_head.as_ref().expect("a model with a head").forward(self.hidden(ids))
    }

    /// The last hidden states, normed.
    pub fn hidden(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let (length, device) = (ids.dims()[1], ids.device());
        let c = &self.config;
        let mut rope = c.rope.parameters("full_attention", c.rotary_emb_base);
        if c.rope.rope_parameters.is_none() && c.rope.partial_rotary_factor.is_none() {
            rope.partial_rotary_factor = 0.25;
        }
        let rotary = Rotary::new(&rope, c.hidden_size / c.num_attention_heads, Pairing::Halves, length);
        let mask = causal_mask(length, None, &device);
        let mut x = self.embed_in.forward(ids);
        for layer in &self.layers {
            x = layer.forward(x, &rotary, mask.clone());
        }
        self.final_layer_norm.forward(x)
    }
}

impl Block {
    fn forward(&self, x: Tensor<3>, rotary: &Rotary, mask: Tensor<4, Bool>) -> Tensor<3> {
        let attended = self.attention.forward(self.input_layernorm.forward(x.clone()), rotary, mask);
        if self.parallel {
            return x.clone() + attended + self.mlp.forward(self.post_attention_layernorm.forward(x));
        }
        let x = x + attended;
        x.clone() + self.mlp.forward(self.post_attention_layernorm.forward(x))
    }
}

impl Attention {
    fn forward(&self, x: Tensor<3>, rotary: &Rotary, mask: Tensor<4, Bool>) -> Tensor<3> {
        let heads = |layer: &Linear| split_heads(layer.forward(x.clone()), self.heads);
        let (q, k) = (rotary.forward(heads(&self.query), 0), rotary.forward(heads(&self.key), 0));
        let y = attend(q, k, heads(&self.value), Some(mask), None, &Scores::default());
        self.dense.forward(merge_heads(y))
    }
}

impl Mlp {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        self.dense_4h_to_h.forward(self.activation.forward(self.dense_h_to_4h.forward(x)))
    }
}
