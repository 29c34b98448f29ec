//! T5, T5 1.1, Flan-T5 and mT5, for files of the recipe `t5`: a bias by distance, scores that are not scaled.

use burn::module::Module;
use burn::nn::{Embedding, Linear, RmsNorm, RmsNormConfig};
use burn::tensor::{Bool, Device, Int, Tensor};
use serde::Deserialize;

use crate::shared::{
    Activation, Scores, attend, causal_mask, embedding, key_mask, linear, merge_heads, relative_buckets, split_heads,
};

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub vocab_size: usize,
    pub d_model: usize,
    pub d_kv: usize,
    pub d_ff: usize,
    pub num_layers: usize,
    pub num_decoder_layers: Option<usize>,
    pub num_heads: usize,
    pub relative_attention_num_buckets: usize,
    pub relative_attention_max_distance: usize,
    pub layer_norm_epsilon: f64,
    /// `relu`, or `gated-gelu` and the like.
    pub feed_forward_proj: String,
    pub tie_word_embeddings: bool,
    pub scale_decoder_outputs: Option<bool>,
    /// What the converted file has besides the encoder.
    #[serde(skip)]
    pub decoder: bool,
    #[serde(skip)]
    pub lm_head: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 32_128,
            d_model: 512,
            d_kv: 64,
            d_ff: 2048,
            num_layers: 6,
            num_decoder_layers: None,
            num_heads: 8,
            relative_attention_num_buckets: 32,
            relative_attention_max_distance: 128,
            layer_norm_epsilon: 1e-6,
            feed_forward_proj: "relu".into(),
            tie_word_embeddings: true,
            scale_decoder_outputs: None,
            decoder: true,
            lm_head: true,
        }
    }
}

impl Config {
    fn activation(&self) -> Activation {
        match self.feed_forward_proj.trim_start_matches("gated-") {
            "relu" => Activation::Relu,
            // T5 1.1 says gelu and means its tanh form.
            "gelu" if self.feed_forward_proj.starts_with("gated-") => Activation::GeluNew,
            "gelu" => Activation::Gelu,
            "gelu_new" => Activation::GeluNew,
            "silu" => Activation::Silu,
            other => panic!("feed_forward_proj {other} is not known here"),
        }
    }

    fn stack(&self, layers: usize, crosses: bool, device: &Device) -> Stack {
        let (d, inner, eps) = (self.d_model, self.num_heads * self.d_kv, self.layer_norm_epsilon);
        let norm = || RmsNormConfig::new(d).with_epsilon(eps).init(device);
        let attention = || Attention {
            q: linear(d, inner, false, device),
            k: linear(d, inner, false, device),
            v: linear(d, inner, false, device),
            o: linear(inner, d, false, device),
            heads: self.num_heads,
        };
        let gated = self.feed_forward_proj.starts_with("gated-");
        let wide = |there: bool| there.then(|| linear(d, self.d_ff, false, device));
        let block = |_| Block {
            self_attn: attention(),
            self_attn_norm: norm(),
            cross_attn: crosses.then(attention),
            cross_attn_norm: crosses.then(norm),
            ff: FeedForward {
                wi: wide(!gated),
                wi_0: wide(gated),
                wi_1: wide(gated),
                wo: linear(self.d_ff, d, false, device),
                activation: self.activation(),
            },
            ff_norm: norm(),
        };
        Stack {
            relative_attention_bias: embedding(self.relative_attention_num_buckets, self.num_heads, device),
            layers: (0..layers).map(block).collect(),
            norm: norm(),
            bidirectional: !crosses,
            max_distance: self.relative_attention_max_distance,
        }
    }

    pub fn init(&self, device: &Device) -> T5 {
        let scaled = self.scale_decoder_outputs.unwrap_or(self.tie_word_embeddings);
        T5 {
            shared: embedding(self.vocab_size, self.d_model, device),
            encoder: self.stack(self.num_layers, false, device),
            decoder: self.decoder.then(|| self.stack(self.num_decoder_layers.unwrap_or(self.num_layers), true, device)),
            lm_head: self.lm_head.then(|| linear(self.d_model, self.vocab_size, false, device)),
            output_scale: if scaled { (self.d_model as f64).powf(-0.5) } else { 1.0 },
        }
    }
}

#[derive(Module, Debug)]
pub struct T5 {
    pub shared: Embedding,
    pub encoder: Stack,
    pub decoder: Option<Stack>,
    pub lm_head: Option<Linear>,
    pub output_scale: f64,
}

#[derive(Module, Debug)]
pub struct Stack {
    pub relative_attention_bias: Embedding,
    pub layers: Vec<Block>,
    pub norm: RmsNorm,
    pub bidirectional: bool,
    pub max_distance: usize,
}

#[derive(Module, Debug)]
pub struct Block {
    pub self_attn: Attention,
    pub self_attn_norm: RmsNorm,
    pub cross_attn: Option<Attention>,
    pub cross_attn_norm: Option<RmsNorm>,
    pub ff: FeedForward,
    pub ff_norm: RmsNorm,
}

#[derive(Module, Debug)]
pub struct Attention {
    pub q: Linear,
    pub k: Linear,
    pub v: Linear,
    pub o: Linear,
    pub heads: usize,
}

/// `wi` and `wo`, or `wi_0` (through the activation) times `wi_1`.
#[derive(Module, Debug)]
pub struct FeedForward {
    pub wi: Option<Linear>,
    pub wi_0: Option<Linear>,
    pub wi_1: Option<Linear>,
    pub wo: Linear,
    #[module(skip)]
    pub activation: Activation,
}

/// The encoder's states and the mask of its padding.
pub type Memory = (Tensor<3>, Option<Tensor<4, Bool>>);

impl T5 {
    /// The encoder's last hidden states. `mask` is the tokenizer's `attention_mask`.
    pub fn encode(&self, ids: Tensor<2, Int>, mask: Option<Tensor<2, Int>>) -> Memory {
        let mask = mask.map(|mask| key_mask(mask, None));
        (self.encoder.forward(self.shared.forward(ids), mask.clone(), None), mask)
    }

    /// The decoder's last hidden states, if there is a decoder.
    pub fn decode(&self, ids: Tensor<2, Int>, memory: &Memory) -> Option<Tensor<3>> {
        let mask = causal_mask(ids.dims()[1], None, &ids.device());
        Some(self.decoder.as_ref()?.forward(self.shared.forward(ids), Some(mask), Some(memory)))
    }

    /// `[batch, sequence, vocab]`, if there is a head.
    pub fn logits(&self, states: Tensor<3>) -> Option<Tensor<3>> {
        Some(self.lm_head.as_ref()?.forward(states * self.output_scale))
    }
}

impl Stack {
    fn forward(&self, x: Tensor<3>, mask: Option<Tensor<4, Bool>>, memory: Option<&Memory>) -> Tensor<3> {
        let length = x.dims()[1];
        let buckets = self.relative_attention_bias.weight.dims()[0];
        let rows = relative_buckets([length, length], self.bidirectional, buckets, self.max_distance, &x.device());
        let bias = self.relative_attention_bias.forward(rows).permute([2, 0, 1]).unsqueeze::<4>();
        let x = self.layers.iter().fold(x, |x, layer| layer.forward(x, mask.clone(), bias.clone(), memory));
        self.norm.forward(x)
    }
}

impl Block {
    fn forward(
        &self,
        x: Tensor<3>,
        mask: Option<Tensor<4, Bool>>,
        bias: Tensor<4>,
        memory: Option<&Memory>,
    ) -> Tensor<3> {
        let y = self.self_attn_norm.forward(x.clone());
        let mut x = x + self.self_attn.forward(y.clone(), y, mask, Some(bias));
        if let (Some(cross), Some(norm), Some((states, mask))) = (&self.cross_attn, &self.cross_attn_norm, memory) {
            x = x.clone() + cross.forward(norm.forward(x), states.clone(), mask.clone(), None);
        }
        x.clone() + self.ff.forward(self.ff_norm.forward(x))
    }
}

impl Attention {
    fn forward(
        &self,
        queries: Tensor<3>,
        keys: Tensor<3>,
        mask: Option<Tensor<4, Bool>>,
        bias: Option<Tensor<4>>,
    ) -> Tensor<3> {
        let q = split_heads(self.q.forward(queries), self.heads);
        let k = split_heads(self.k.forward(keys.clone()), self.heads);
        let v = split_heads(self.v.forward(keys), self.heads);
        let plain = Scores { scale: Some(1.0), softcap: None };
        self.o.forward(merge_heads(attend(q, k, v, mask, bias, &plain)))
    }
}

impl FeedForward {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        self.wo.forward(match (&self.wi, &self.wi_0, &self.wi_1) {
            (Some(wi), ..) => self.activation.forward(wi.forward(x)),
            (_, Some(gate), Some(plain)) => self.activation.forward(gate.forward(x.clone())) * plain.forward(x),
            _ => unreachable!("a feed-forward of one of two kinds"),
        })
    }
}
