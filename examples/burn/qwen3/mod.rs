//! Qwen3: Llama with an RMS norm along each head of queries and keys.

use burn::module::Module;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig, RmsNorm, RmsNormConfig};
use burn::tensor::{Bool, Device, Int, Tensor};
use serde::Deserialize;

use crate::decoder::{GatedFeedForward, GroupedAttention, GroupedAttentionConfig, QkNorm};
use crate::shared::{Activation, Pairing, Rope, Rotary, Scores, causal_mask};

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub num_key_value_heads: Option<usize>,
    pub head_dim: Option<usize>,
    pub hidden_act: Activation,
    pub rms_norm_eps: f64,
    pub attention_bias: bool,
    pub use_sliding_window: bool,
    pub sliding_window: Option<usize>,
    pub max_window_layers: usize,
    pub layer_types: Option<Vec<String>>,
    #[serde(flatten)]
    pub rope: Rope,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 32_000,
            hidden_size: 4096,
            intermediate_size: 11_008,
            num_hidden_layers: 32,
            num_attention_heads: 32,
            num_key_value_heads: None,
            head_dim: Some(128),
            hidden_act: Activation::Silu,
            rms_norm_eps: 1e-6,
            attention_bias: false,
            use_sliding_window: false,
            sliding_window: Some(4096),
            max_window_layers: 28,
            layer_types: None,
            rope: Rope::default(),
        }
    }
}

impl Config {
    pub fn head(&self) -> usize {
        self.head_dim.unwrap_or(self.hidden_size / self.num_attention_heads)
    }

    /// How many tokens layer `i` sees, itself included; `None` for all.
    pub fn window(&self, i: usize) -> Option<usize> {
        let slides = match &self.layer_types {
            Some(kinds) => kinds[i] == "sliding_attention",
            None => self.use_sliding_window && i >= self.max_window_layers,
        };
        self.sliding_window.filter(|_| slides)
    }

    pub fn init(&self, device: &Device) -> Qwen3 {
        let norm = || RmsNormConfig::new(self.hidden_size).with_epsilon(self.rms_norm_eps).init(device);
        let attention = GroupedAttentionConfig {
            width: self.hidden_size,
            heads: self.num_attention_heads,
            kv_heads: self.num_key_value_heads.unwrap_or(self.num_attention_heads),
            head: self.head(),
            qkv_bias: self.attention_bias,
            output_bias: self.attention_bias,
            qk_norm: QkNorm::Head(self.rms_norm_eps),
            scores: Scores::default(),
        };
        let (d, ff, act) = (self.hidden_size, self.intermediate_size, self.hidden_act);
        let block = |_| Block {
            attention: attention.init(device),
            feed_forward: GatedFeedForward::new(d, ff, false, act, device),
            attention_norm: norm(),
            ffn_norm: norm(),
        };
        Qwen3 {
            tok_embeddings: EmbeddingConfig::new(self.vocab_size, d).init(device),
            layers: (0..self.num_hidden_layers).map(block).collect(),
            norm: norm(),
            output: LinearConfig::new(d, self.vocab_size).with_bias(false).init(device),
            config: self.clone(),
        }
    }
}

#[derive(Module, Debug)]
pub struct Qwen3 {
    pub tok_embeddings: Embedding,
    pub layers: Vec<Block>,
    pub norm: RmsNorm,
    pub output: Linear,
    #[module(skip)]
    pub config: Config,
}

#[derive(Module, Debug)]
pub struct Block {
    pub attention: GroupedAttention,
    pub feed_forward: GatedFeedForward,
    pub attention_norm: RmsNorm,
    pub ffn_norm: RmsNorm,
}

impl Qwen3 {
    /// `[batch, sequence]` → logits `[batch, sequence, vocab]`
    pub fn forward(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        self.output.forward(self.hidden(ids))
    }

    /// The last hidden states, normed: `[batch, sequence, hidden]`
    pub fn hidden(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let (length, device) = (ids.dims()[1], ids.device());
        let rope = self.config.rope.parameters("full_attention", 10_000.0);
        let rotary = Rotary::new(&rope, self.config.head(), Pairing::Adjacent, length);
        let mut x = self.tok_embeddings.forward(ids);
        for (i, layer) in self.layers.iter().enumerate() {
            x = layer.forward(x, &rotary, causal_mask(length, self.config.window(i), &device));
        }
        self.norm.forward(x)
    }
}

impl Block {
    fn forward(&self, x: Tensor<3>, rotary: &Rotary, mask: Tensor<4, Bool>) -> Tensor<3> {
        let x = x.clone() + self.attention.forward(self.attention_norm.forward(x), rotary, mask);
        x.clone() + self.feed_forward.forward(self.ffn_norm.forward(x))
    }
}
