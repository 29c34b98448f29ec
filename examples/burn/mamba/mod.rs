//! Mamba (1), for files of the recipe `mamba`: the selective scan, step by step.

use burn::module::{Module, Param};
use burn::nn::conv::{Conv1d, Conv1dConfig};
use burn::nn::{Embedding, Initializer, Linear, PaddingConfig1d, RmsNorm, RmsNormConfig};
use burn::tensor::activation::{silu, softplus};
use burn::tensor::{Device, Int, Tensor};
use serde::Deserialize;

use crate::shared::{embedding, linear};

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub vocab_size: usize,
    #[serde(alias = "d_model")]
    pub hidden_size: usize,
    #[serde(alias = "n_layer")]
    pub num_hidden_layers: usize,
    pub intermediate_size: Option<usize>,
    pub expand: usize,
    pub state_size: usize,
    pub conv_kernel: usize,
    /// A number, or `auto`: a sixteenth of the width, rounded up.
    pub time_step_rank: Rank,
    pub layer_norm_epsilon: f64,
    pub use_bias: bool,
    pub use_conv_bias: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Rank {
    Number(usize),
    Word(String),
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 50_280,
            hidden_size: 768,
            num_hidden_layers: 32,
            intermediate_size: None,
            expand: 2,
            state_size: 16,
            conv_kernel: 4,
            time_step_rank: Rank::Word("auto".into()),
            layer_norm_epsilon: 1e-5,
            use_bias: false,
            use_conv_bias: true,
        }
    }
}

impl Config {
    pub fn init(&self, device: &Device) -> Mamba {
        let (d, n, k) = (self.hidden_size, self.state_size, self.conv_kernel);
        let inner = self.intermediate_size.unwrap_or(self.expand * d);
        let rank = match self.time_step_rank {
            Rank::Number(rank) => rank,
            Rank::Word(_) => d.div_ceil(16),
        };
        let norm = || RmsNormConfig::new(d).with_epsilon(self.layer_norm_epsilon).init(device);
        let block = |_| Block {
            norm: norm(),
            mixer: Mixer {
                in_proj: linear(d, 2 * inner, self.use_bias, device),
                conv1d: Conv1dConfig::new(inner, inner, k)
                    .with_padding(PaddingConfig1d::Explicit(k - 1, k - 1))
                    .with_groups(inner)
                    .with_bias(self.use_conv_bias)
                    .init(device),
                x_proj: linear(inner, rank + 2 * n, false, device),
                dt_proj: linear(rank, inner, true, device),
                a_log: Initializer::Ones.init([inner, n], device),
                d: Initializer::Ones.init([inner], device),
                out_proj: linear(inner, d, self.use_bias, device),
            },
        };
        Mamba {
            embeddings: embedding(self.vocab_size, d, device),
            layers: (0..self.num_hidden_layers).map(block).collect(),
            norm_f: norm(),
            lm_head: linear(d, self.vocab_size, false, device),
        }
    }
}

#[derive(Module, Debug)]
pub struct Mamba {
    pub embeddings: Embedding,
    pub layers: Vec<Block>,
    pub norm_f: RmsNorm,
    pub lm_head: Linear,
}

#[derive(Module, Debug)]
pub struct Block {
    pub norm: RmsNorm,
    pub mixer: Mixer,
}

#[derive(Module, Debug)]
pub struct Mixer {
    pub in_proj: Linear,
    pub conv1d: Conv1d,
    pub x_proj: Linear,
    pub dt_proj: Linear,
    pub a_log: Param<Tensor<2>>,
    pub d: Param<Tensor<1>>,
    pub out_proj: Linear,
}

impl Mamba {
    /// `[batch, sequence]` → logits `[batch, sequence, vocab]`
    pub fn forward(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        self.lm_head.forward(self.hidden(ids))
    }

    /// The last hidden states, normed.
    pub fn hidden(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let x = self.embeddings.forward(ids);
        let x = self.layers.iter().fold(x, |x, layer| x.clone() + layer.mixer.forward(layer.norm.forward(x)));
        self.norm_f.forward(x)
    }
}

impl Mixer {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [_, length, _] = x.dims();
        let [inner, n] = self.a_log.dims();
        let both = self.in_proj.forward(x);
        let (x, gate) = (both.clone().narrow(2, 0, inner), both.narrow(2, inner, inner));
        let x = self.conv1d.forward(x.swap_dims(1, 2)).narrow(2, 0, length).swap_dims(1, 2);
        let x = silu(x);
        let rank = self.dt_proj.weight.dims()[0];
        let parts = self.x_proj.forward(x.clone());
        let step = softplus(self.dt_proj.forward(parts.clone().narrow(2, 0, rank)), 1.0);
        let (b, c) = (parts.clone().narrow(2, rank, n), parts.narrow(2, rank + n, n));
        let y = self.scan(x.clone(), step, b, c) + x * self.d.val().unsqueeze();
        self.out_proj.forward(y * silu(gate))
    }

    /// `h ← exp(dt·A)·h + dt·B·x`, `y = C·h`, for each channel and step.
    fn scan(&self, x: Tensor<3>, step: Tensor<3>, b: Tensor<3>, c: Tensor<3>) -> Tensor<3> {
        let [batch, length, inner] = x.dims();
        let n = self.a_log.dims()[1];
        let a: Tensor<3> = (-self.a_log.val().exp()).unsqueeze();
        let mut h = Tensor::<3>::zeros([batch, inner, n], &x.device());
        let mut outputs = vec![];
        for t in 0..length {
            let column = |x: &Tensor<3>| -> Tensor<3> { x.clone().narrow(1, t, 1).swap_dims(1, 2) };
            let row = |x: &Tensor<3>| x.clone().narrow(1, t, 1);
            let dt = column(&step);
            h = (dt.clone() * a.clone()).exp() * h + dt * column(&x) * row(&b);
            outputs.push((h.clone() * row(&c)).sum_dim(2).swap_dims(1, 2));
        }
        Tensor::cat(outputs, 1)
    }
}
