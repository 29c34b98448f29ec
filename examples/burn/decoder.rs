//! What Llama and its relatives share: grouped attention with rotary positions, the gated feed-forward, experts.
//!
//! Field names are llama-burn's.

use burn::module::{Module, Param};
use burn::nn::{Initializer, Linear, LinearConfig, RmsNorm, RmsNormConfig, SwiGlu, SwiGluConfig};
use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Device, IndexingUpdateOp, Tensor};

use crate::shared::{Activation, Rotary, Scores, attend, merge_heads, repeat_heads, split_heads};

/// Sizes and habits of a [`GroupedAttention`].
#[derive(Clone, Debug)]
pub struct GroupedAttentionConfig {
    pub width: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head: usize,
    /// Biases of queries, keys and values.
    pub qkv_bias: bool,
    pub output_bias: bool,
    pub qk_norm: QkNorm,
    pub scores: Scores,
}

/// Where an RMS norm of queries and keys runs, with its epsilon.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QkNorm {
    None,
    /// Along each head (Qwen 3, Gemma 3).
    Head(f64),
    /// Along the whole projection (OLMo 2).
    Whole(f64),
}

impl GroupedAttentionConfig {
    pub fn init(&self, device: &Device) -> GroupedAttention {
        let (queries, keys) = (self.heads * self.head, self.kv_heads * self.head);
        let linear = |i, o, bias| LinearConfig::new(i, o).with_bias(bias).init(device);
        let norm = |whole| match self.qk_norm {
            QkNorm::None => None,
            QkNorm::Head(eps) => Some(RmsNormConfig::new(self.head).with_epsilon(eps).init(device)),
            QkNorm::Whole(eps) => Some(RmsNormConfig::new(whole).with_epsilon(eps).init(device)),
        };
        GroupedAttention {
            wq: linear(self.width, queries, self.qkv_bias),
            wk: linear(self.width, keys, self.qkv_bias),
            wv: linear(self.width, keys, self.qkv_bias),
            wo: linear(queries, self.width, self.output_bias),
            q_norm: norm(queries),
            k_norm: norm(keys),
            config: self.clone(),
        }
    }
}

/// Causal attention with grouped queries and rotary positions.
#[derive(Module, Debug)]
pub struct GroupedAttention {
    pub wq: Linear,
    pub wk: Linear,
    pub wv: Linear,
    pub wo: Linear,
    pub q_norm: Option<RmsNorm>,
    pub k_norm: Option<RmsNorm>,
    #[module(skip)]
    pub config: GroupedAttentionConfig,
}

impl GroupedAttention {
    /// `x`: `[batch, sequence, width]`; `mask` is true where a query must not look.
    pub fn forward(&self, x: Tensor<3>, rotary: &Rotary, mask: Tensor<4, Bool>) -> Tensor<3> {
        let c = &self.config;
        let (q, k, v) = (self.wq.forward(x.clone()), self.wk.forward(x.clone()), self.wv.forward(x));
        let (q, k) = match c.qk_norm {
            QkNorm::Whole(_) => (normed(&self.q_norm, q), normed(&self.k_norm, k)),
            _ => (q, k),
        };
        let (q, k, v) = (split_heads(q, c.heads), split_heads(k, c.kv_heads), split_heads(v, c.kv_heads));
        let (q, k) = match c.qk_norm {
            QkNorm::Head(_) => (normed(&self.q_norm, q), normed(&self.k_norm, k)),
            _ => (q, k),
        };
        let (q, k) = (rotary.forward(q, 0), rotary.forward(k, 0));
        let times = c.heads / c.kv_heads;
        let y = attend(q, repeat_heads(k, times), repeat_heads(v, times), Some(mask), None, &c.scores);
        self.wo.forward(merge_heads(y))
    }
}

fn normed<const D: usize>(norm: &Option<RmsNorm>, x: Tensor<D>) -> Tensor<D> {
    match norm {
        Some(norm) => norm.forward(x),
        None => x,
    }
}

/// `w2(act(linear_inner(x)) * linear_outer(x))`.
#[derive(Module, Debug)]
pub struct GatedFeedForward {
    pub swiglu: SwiGlu,
    pub w2: Linear,
    #[module(skip)]
    pub activation: Activation,
}

impl GatedFeedForward {
    pub fn new(width: usize, inner: usize, bias: bool, activation: Activation, device: &Device) -> Self {
        Self {
            swiglu: SwiGluConfig::new(width, inner).with_bias(bias).init(device),
            w2: LinearConfig::new(inner, width).with_bias(bias).init(device),
            activation,
        }
    }

    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let gate = self.activation.forward(self.swiglu.linear_inner.forward(x.clone()));
        self.w2.forward(gate * self.swiglu.linear_outer.forward(x))
    }
}

/// Several gated feed-forwards, of which each token takes the `chosen` that the router likes best.
#[derive(Module, Debug)]
pub struct Experts {
    pub router: Linear,
    /// Gates: `[experts, width, inner]`
    pub w1: Param<Tensor<3>>,
    /// Factors: `[experts, width, inner]`
    pub w3: Param<Tensor<3>>,
    /// Back: `[experts, inner, width]`
    pub w2: Param<Tensor<3>>,
    pub chosen: usize,
    /// Whether the weights of the chosen are made to sum to one.
    pub normalised: bool,
    #[module(skip)]
    pub activation: Activation,
}

impl Experts {
    pub fn new(
        [experts, width, inner]: [usize; 3],
        chosen: usize,
        normalised: bool,
        activation: Activation,
        device: &Device,
    ) -> Self {
        let bare = |shape| Initializer::Normal { mean: 0.0, std: 0.02 }.init(shape, device);
        Self {
            router: LinearConfig::new(width, experts).with_bias(false).init(device),
            w1: bare([experts, width, inner]),
            w3: bare([experts, width, inner]),
            w2: bare([experts, inner, width]),
            chosen,
            normalised,
            activation,
        }
    }

    /// Every expert sees every token, and those not chosen count nothing: simple, and right for any batch.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, length, width] = x.dims();
        let tokens: Tensor<2> = x.reshape([batch * length, width]);
        let shares = softmax(self.router.forward(tokens.clone()), 1);
        let (best, which) = shares.clone().topk_with_indices(self.chosen, 1);
        let best = if self.normalised { best.clone() / best.sum_dim(1) } else { best };
        let weights = shares.zeros_like().scatter(1, which, best, IndexingUpdateOp::Add);
        let tokens = tokens.unsqueeze::<3>();
        let gate = self.activation.forward(tokens.clone().matmul(self.w1.val()));
        let each = (gate * tokens.matmul(self.w3.val())).matmul(self.w2.val());
        (each * weights.transpose().unsqueeze_dim(2)).sum_dim(0).reshape([batch, length, width])
    }
}
