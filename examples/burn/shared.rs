//! What several families need: rotary positions, masks, scaled dot products, activations by name.
//!
//! Nothing here has parameters. Shapes are `[batch, heads, sequence, head]` where not said otherwise.

use burn::tensor::activation::{gelu, gelu_approximate, relu, sigmoid, silu, softmax, tanh};
use std::collections::BTreeMap;

use burn::nn::activation::ActivationConfig;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{
    BatchNorm, BatchNormConfig, Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig,
    PaddingConfig2d,
};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use serde::Deserialize;

/// An activation under its name in Hugging Face's configs.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    Gelu,
    #[serde(alias = "gelu_pytorch_tanh", alias = "gelu_fast", alias = "gelu_accurate")]
    GeluNew,
    QuickGelu,
    Relu,
    #[serde(alias = "swish")]
    Silu,
    Tanh,
    Sigmoid,
}

impl Activation {
    pub fn forward<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Self::Gelu => gelu(x),
            Self::GeluNew => gelu_approximate(x),
            Self::QuickGelu => x.clone() * sigmoid(x * 1.702),
            Self::Relu => relu(x),
            Self::Silu => silu(x),
            Self::Tanh => tanh(x),
            Self::Sigmoid => sigmoid(x),
        }
    }

    /// The same for Burn's `TransformerEncoder` and `TransformerDecoder`, which know fewer.
    pub fn burn(self) -> ActivationConfig {
        match self {
            Self::Gelu => ActivationConfig::Gelu,
            Self::GeluNew => ActivationConfig::GeluApproximate,
            Self::Relu => ActivationConfig::Relu,
            Self::Tanh => ActivationConfig::Tanh,
            Self::Sigmoid => ActivationConfig::Sigmoid,
            Self::Silu | Self::QuickGelu => {
                panic!("Burn's transformer layers have no {self:?}: write the layer yourself")
            }
        }
    }
}

pub fn linear(d_input: usize, d_output: usize, bias: bool, device: &Device) -> Linear {
    LinearConfig::new(d_input, d_output).with_bias(bias).init(device)
}

pub fn layer_norm(width: usize, epsilon: f64, device: &Device) -> LayerNorm {
    LayerNormConfig::new(width).with_epsilon(epsilon).init(device)
}

/// A square convolution with a square stride; padding on all sides, no bias.
pub fn conv(
    channels: [usize; 2],
    kernel: usize,
    stride: usize,
    padding: usize,
    groups: usize,
    device: &Device,
) -> Conv2d {
    Conv2dConfig::new(channels, [kernel, kernel])
        .with_stride([stride, stride])
        .with_padding(PaddingConfig2d::Explicit(padding, padding, padding, padding))
        .with_groups(groups)
        .with_bias(false)
        .init(device)
}

pub fn batch_norm(channels: usize, device: &Device) -> BatchNorm {
    BatchNormConfig::new(channels).init(device)
}

/// The mean over height and width: `[batch, channels]`
pub fn mean_over_map(x: Tensor<4>) -> Tensor<2> {
    x.mean_dim(3).mean_dim(2).squeeze_dims(&[2, 3])
}

/// Names and shapes of a converted file: where a checkpoint has no config, they are all there is.
pub struct Shapes(pub BTreeMap<String, Vec<usize>>);

impl Shapes {
    /// Read them without the data.
    pub fn of(path: impl AsRef<std::path::Path>) -> Result<Self, burn::store::burn_pack::Error> {
        let tensors = burn::store::burn_pack::Reader::from_file(path)?.into_tensors()?;
        Ok(Self(tensors.into_iter().map(|tensor| (tensor.name.clone(), tensor.shape.to_vec())).collect()))
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// One dimension of a tensor; panics where the file has no such tensor.
    pub fn size(&self, name: &str, dimension: usize) -> usize {
        self.0.get(name).unwrap_or_else(|| panic!("the converted file has no {name}"))[dimension]
    }

    /// The length of a list: how many numbers may stand for `{}` in `pattern`, from 0.
    pub fn count(&self, pattern: &str) -> usize {
        (0..).take_while(|i| self.has(&pattern.replace("{}", &i.to_string()))).count()
    }
}

pub fn embedding(rows: usize, width: usize, device: &Device) -> Embedding {
    EmbeddingConfig::new(rows, width).init(device)
}

/// 0, 1, 2… for each row: `[1, length]`
pub fn positions(length: usize, device: &Device) -> Tensor<2, Int> {
    Tensor::arange(0..length as i64, device).unsqueeze()
}

/// RoBERTa's positions: they start behind the padding id, and padding tokens keep it. `[batch, length]`
pub fn positions_after_padding(ids: Tensor<2, Int>, padding: usize) -> Tensor<2, Int> {
    let real = ids.not_equal_elem(padding as i64).int();
    real.clone().cumsum(1) * real + padding as i64
}

/// T5's buckets of the distance from query to key, as `[queries, keys]`.
pub fn relative_buckets(
    [queries, keys]: [usize; 2],
    bidirectional: bool,
    buckets: usize,
    max_distance: usize,
    device: &Device,
) -> Tensor<2, Int> {
    let half = if bidirectional { buckets / 2 } else { buckets };
    let exact = half / 2;
    let bucket = |query: usize, key: usize| -> i64 {
        let ahead = key as i64 - query as i64;
        let side = if bidirectional && ahead > 0 { half } else { 0 };
        let distance = if bidirectional { ahead.unsigned_abs() as usize } else { (-ahead).max(0) as usize };
        let near = if distance < exact {
            distance
        } else {
            let steps = (distance as f32 / exact as f32).ln() / (max_distance as f32 / exact as f32).ln();
            (exact + (steps * (half - exact) as f32) as usize).min(half - 1)
        };
        (side + near) as i64
    };
    let cells: Vec<i64> = (0..queries * keys).map(|i| bucket(i / keys, i % keys)).collect();
    Tensor::from_data(TensorData::new(cells, [queries, keys]), device)
}

/// ALiBi's slope of each head.
pub fn alibi_slopes(heads: usize) -> Vec<f32> {
    let power = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    let base = 2f64.powf(-8.0 / power as f64);
    let between = 2f64.powf(-4.0 / power as f64);
    let plain = (1..=power).map(|i| base.powi(i as i32));
    let extra = (0..heads - power).map(|i| between.powi(2 * i as i32 + 1));
    plain.chain(extra).map(|slope| slope as f32).collect()
}

/// ALiBi: `slope * position of the key`, as `[1, heads, 1, keys]`.
pub fn alibi(heads: usize, keys: usize, device: &Device) -> Tensor<4> {
    let cells: Vec<f32> = alibi_slopes(heads).iter().flat_map(|s| (0..keys).map(move |k| s * k as f32)).collect();
    Tensor::from_data(TensorData::new(cells, [1, heads, 1, keys]), device)
}

/// `[batch, sequence, heads * head]` as `[batch, heads, sequence, head]`.
pub fn split_heads(x: Tensor<3>, heads: usize) -> Tensor<4> {
    let [batch, length, width] = x.dims();
    x.reshape([batch, length, heads, width / heads]).swap_dims(1, 2)
}

/// The inverse of [`split_heads`].
pub fn merge_heads(x: Tensor<4>) -> Tensor<3> {
    let [batch, heads, length, head] = x.dims();
    x.swap_dims(1, 2).reshape([batch, length, heads * head])
}

/// Grouped queries: every head of keys and values serves `times` neighbouring query heads.
pub fn repeat_heads(x: Tensor<4>, times: usize) -> Tensor<4> {
    let [batch, heads, length, head] = x.dims();
    x.reshape([batch, heads, 1, length, head]).repeat_dim(2, times).reshape([batch, heads * times, length, head])
}

/// What [`attend`] does besides the plain product.
#[derive(Clone, Debug, Default)]
pub struct Scores {
    /// Factor of the scores; `None` for 1 / sqrt(head size).
    pub scale: Option<f64>,
    /// `cap * tanh(scores / cap)` (Gemma 2).
    pub softcap: Option<f64>,
}

/// Softmax of the scaled scores, times the values. `mask` is true where a query must not look; `bias` is added to the scores.
pub fn attend(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    mask: Option<Tensor<4, Bool>>,
    bias: Option<Tensor<4>>,
    how: &Scores,
) -> Tensor<4> {
    let scale = how.scale.unwrap_or_else(|| (q.dims()[3] as f64).powf(-0.5));
    let mut scores = q.matmul(k.transpose()) * scale;
    if let Some(cap) = how.softcap {
        scores = tanh(scores / cap) * cap;
    }
    if let Some(bias) = bias {
        scores = scores + bias;
    }
    if let Some(mask) = mask {
        scores = scores.mask_fill(mask, f32::MIN);
    }
    softmax(scores, 3).matmul(v)
}

/// True above the diagonal, and below it beyond `window` tokens (the token itself counts). `[1, 1, length, length]`
pub fn causal_mask(length: usize, window: Option<usize>, device: &Device) -> Tensor<4, Bool> {
    let hidden = |query: usize, key: usize| key > query || window.is_some_and(|window| query - key >= window);
    let cells: Vec<bool> = (0..length * length).map(|i| hidden(i / length, i % length)).collect();
    Tensor::from_data(TensorData::new(cells, [1, 1, length, length]), device)
}

/// The same for Burn's own attention: `[batch, length, length]`
pub fn causal_mask_for_mha([batch, length]: [usize; 2], device: &Device) -> Tensor<3, Bool> {
    burn::nn::attention::generate_autoregressive_mask(batch, length, device)
}

/// Burn's masks from a tokenizer's `attention_mask` (1 for tokens, 0 for padding): `[batch, sequence]`, true at padding.
pub fn padding(attention_mask: Tensor<2, Int>) -> Tensor<2, Bool> {
    attention_mask.equal_scalar(0)
}

/// True at padding keys, and beyond `reach` tokens to either side. `[batch, 1, 1 or length, length]`
pub fn key_mask(attention_mask: Tensor<2, Int>, reach: Option<usize>) -> Tensor<4, Bool> {
    let [batch, length] = attention_mask.dims();
    let device = attention_mask.device();
    let padded: Tensor<4, Bool> = padding(attention_mask).reshape([batch, 1, 1, length]);
    let Some(reach) = reach else { return padded };
    let cells: Vec<bool> = (0..length * length).map(|i| (i / length).abs_diff(i % length) > reach).collect();
    let far = Tensor::<4, Bool>::from_data(TensorData::new(cells, [1, 1, length, length]), &device);
    far.expand([batch, 1, length, length]).bool_or(padded.expand([batch, 1, length, length]))
}

/// How rotary positions pair the elements of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// (0, 1), (2, 3)…: what Burn's `RotaryEncoding` computes, and Meta's files hold.
    Adjacent,
    /// (0, n/2), (1, n/2 + 1)…: "rotate half", what Hugging Face's files hold.
    Halves,
}

/// Rotary positions. Only the first `2 * frequencies.len()` elements of a head turn.
#[derive(Clone, Debug)]
pub struct Rotary {
    /// Turn per token, in radians, one per pair.
    pub frequencies: Vec<f64>,
    /// Factor of sines and cosines (YaRN, LongRoPE); 1 elsewhere.
    pub scale: f64,
    pub pairing: Pairing,
}

impl Rotary {
    pub fn new(parameters: &RopeParameters, head: usize, pairing: Pairing, length: usize) -> Self {
        let turning = (head as f64 * parameters.partial_rotary_factor) as usize;
        let (frequencies, scale) = parameters.frequencies(turning, length);
        Self { frequencies, scale, pairing }
    }

    /// Turn queries or keys whose first token stands at `offset`.
    pub fn forward(&self, x: Tensor<4>, offset: usize) -> Tensor<4> {
        let [batch, heads, length, head] = x.dims();
        let pairs = self.frequencies.len();
        let turning = 2 * pairs;
        let device = x.device();
        let table = |f: fn(f64) -> f64| {
            let angles = (0..length).flat_map(|t| self.frequencies.iter().map(move |w| (t + offset) as f64 * w));
            let cells: Vec<f32> = angles.map(|angle| (f(angle) * self.scale) as f32).collect();
            Tensor::<4>::from_data(TensorData::new(cells, [1, 1, length, pairs]), &device)
        };
        let (cos, sin) = (table(f64::cos), table(f64::sin));
        let rest = (turning < head).then(|| x.clone().narrow(3, turning, head - turning));
        let x = x.narrow(3, 0, turning);
        let (first, second) = match self.pairing {
            Pairing::Halves => (x.clone().narrow(3, 0, pairs), x.narrow(3, pairs, pairs)),
            Pairing::Adjacent => {
                let x = x.reshape([batch, heads, length, pairs, 2]);
                (x.clone().narrow(4, 0, 1).squeeze_dim(4), x.narrow(4, 1, 1).squeeze_dim(4))
            }
        };
        let turned = (first.clone() * cos.clone() - second.clone() * sin.clone(), second * cos + first * sin);
        let turned = match self.pairing {
            Pairing::Halves => Tensor::cat(vec![turned.0, turned.1], 3),
            Pairing::Adjacent => {
                Tensor::stack::<5>(vec![turned.0, turned.1], 4).reshape([batch, heads, length, turning])
            }
        };
        match rest {
            Some(rest) => Tensor::cat(vec![turned, rest], 3),
            None => turned,
        }
    }
}

/// `rope_parameters` of a config.json, or the older `rope_theta` beside `rope_scaling`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct RopeParameters {
    pub rope_theta: f64,
    #[serde(alias = "type")]
    pub rope_type: String,
    pub partial_rotary_factor: f64,
    pub factor: f64,
    pub low_freq_factor: f64,
    pub high_freq_factor: f64,
    pub original_max_position_embeddings: Option<usize>,
    pub max_position_embeddings: Option<usize>,
    pub attention_factor: Option<f64>,
    pub beta_fast: f64,
    pub beta_slow: f64,
    pub mscale: Option<f64>,
    pub mscale_all_dim: Option<f64>,
    pub truncate: bool,
    pub short_factor: Vec<f64>,
    pub long_factor: Vec<f64>,
}

impl Default for RopeParameters {
    fn default() -> Self {
        Self {
            rope_theta: 10_000.0,
            rope_type: "default".into(),
            partial_rotary_factor: 1.0,
            factor: 1.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position_embeddings: None,
            max_position_embeddings: None,
            attention_factor: None,
            beta_fast: 32.0,
            beta_slow: 1.0,
            mscale: None,
            mscale_all_dim: None,
            truncate: true,
            short_factor: vec![],
            long_factor: vec![],
        }
    }
}

impl RopeParameters {
    /// Turns per token and the factor of sines and cosines, for heads of which `turning` elements turn. `length` is the
    /// number of tokens of the whole text: some scalings depend on it.
    pub fn frequencies(&self, turning: usize, length: usize) -> (Vec<f64>, f64) {
        let plain = |theta: f64| -> Vec<f64> {
            (0..turning / 2).map(|i| theta.powf(-((2 * i) as f64) / turning as f64)).collect()
        };
        let base = plain(self.rope_theta);
        let trained = self.original_max_position_embeddings.or(self.max_position_embeddings).unwrap_or(length);
        match self.rope_type.as_str() {
            "default" => (base, 1.0),
            "linear" => (base.iter().map(|w| w / self.factor).collect(), 1.0),
            "dynamic" => {
                let grown = length.max(trained) as f64 / trained as f64;
                let stretch = self.factor * grown - (self.factor - 1.0);
                let exponent = turning as f64 / (turning as f64 - 2.0);
                (plain(self.rope_theta * stretch.powf(exponent)), 1.0)
            }
            "llama3" => (base.iter().map(|w| self.llama3(*w, trained as f64)).collect(), 1.0),
            "yarn" => self.yarn(&base, turning, trained as f64),
            "longrope" | "su" => {
                let factors = if length > trained { &self.long_factor } else { &self.short_factor };
                let grown = match (self.original_max_position_embeddings, self.max_position_embeddings) {
                    (Some(before), Some(after)) => after as f64 / before as f64,
                    _ => self.factor,
                };
                let scale = if grown <= 1.0 { 1.0 } else { (1.0 + grown.ln() / (trained as f64).ln()).sqrt() };
                let frequencies = base.iter().zip(factors).map(|(w, factor)| w / factor).collect();
                (frequencies, self.attention_factor.unwrap_or(scale))
            }
            other => panic!("rope_type {other} is not known here"),
        }
    }

    fn llama3(&self, w: f64, trained: f64) -> f64 {
        let wavelength = 2.0 * std::f64::consts::PI / w;
        if wavelength > trained / self.low_freq_factor {
            w / self.factor
        } else if wavelength < trained / self.high_freq_factor {
            w
        } else {
            let span = self.high_freq_factor - self.low_freq_factor;
            let smooth = (trained / wavelength - self.low_freq_factor) / span;
            (1.0 - smooth) * w / self.factor + smooth * w
        }
    }

    fn yarn(&self, base: &[f64], turning: usize, trained: f64) -> (Vec<f64>, f64) {
        let at = |turns: f64| {
            turning as f64 * (trained / (turns * 2.0 * std::f64::consts::PI)).ln() / (2.0 * self.rope_theta.ln())
        };
        let (low, high) = (at(self.beta_fast), at(self.beta_slow));
        let (low, high) = if self.truncate { (low.floor(), high.ceil()) } else { (low, high) };
        let (low, high) = (low.max(0.0), high.min(turning as f64 - 1.0));
        let high = if low == high { high + 0.001 } else { high };
        let blend = |(i, w): (usize, &f64)| {
            let ramp = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
            w / self.factor * ramp + w * (1.0 - ramp)
        };
        let m = |scale: f64| if self.factor <= 1.0 { 1.0 } else { 0.1 * scale * self.factor.ln() + 1.0 };
        let scale = match (self.attention_factor, self.mscale, self.mscale_all_dim) {
            (Some(given), _, _) => given,
            (None, Some(one), Some(all)) => m(one) / m(all),
            _ => m(1.0),
        };
        (base.iter().enumerate().map(blend).collect(), scale)
    }
}

/// The rotary settings of a config.json, in the spellings of all years. Flatten it into a config.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Rope {
    pub rope_parameters: Option<RopeByKind>,
    pub rope_scaling: Option<RopeParameters>,
    pub rope_theta: Option<f64>,
    #[serde(alias = "rotary_pct")]
    pub partial_rotary_factor: Option<f64>,
    pub max_position_embeddings: Option<usize>,
    pub original_max_position_embeddings: Option<usize>,
}

/// One setting for all layers, or one per kind of layer (`full_attention`, `sliding_attention`).
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum RopeByKind {
    Kinds(BTreeMap<String, RopeParameters>),
    All(Box<RopeParameters>),
}

impl Rope {
    /// The settings for a kind of layer; `theta` is what the family takes where the config says nothing.
    pub fn parameters(&self, kind: &str, theta: f64) -> RopeParameters {
        let mut found = match &self.rope_parameters {
            Some(RopeByKind::Kinds(kinds)) => kinds.get(kind).cloned().unwrap_or_default(),
            Some(RopeByKind::All(all)) => (**all).clone(),
            None => {
                let mut old = self.rope_scaling.clone().unwrap_or_default();
                old.rope_theta = self.rope_theta.unwrap_or(theta);
                old
            }
        };
        if let Some(share) = self.partial_rotary_factor {
            found.partial_rotary_factor = share;
        }
        found.max_position_embeddings = self.max_position_embeddings;
        found.original_max_position_embeddings =
            found.original_max_position_embeddings.or(self.original_max_position_embeddings);
        found
    }
}
