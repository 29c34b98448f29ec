//! DINOv2, for files of the recipe `dinov2`: blocks with a learned scale on each branch.

use burn::module::{Module, Param};
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{Initializer, LayerNorm, Linear, SwiGlu, SwiGluConfig};
use burn::tensor::{Device, Tensor};
use serde::Deserialize;

use crate::shared::{Activation, layer_norm, linear};

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub hidden_size: usize,
    pub mlp_ratio: f64,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub hidden_act: Activation,
    pub layer_norm_eps: f64,
    pub image_size: usize,
    pub patch_size: usize,
    pub num_channels: usize,
    pub use_swiglu_ffn: bool,
    /// Classes of the classifier, if there is one: the converted file tells.
    #[serde(skip)]
    pub classes: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            hidden_size: 768,
            mlp_ratio: 4.0,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            hidden_act: Activation::Gelu,
            layer_norm_eps: 1e-6,
            image_size: 224,
            patch_size: 14,
            num_channels: 3,
            use_swiglu_ffn: false,
            classes: None,
        }
    }
}

impl Config {
    fn mlp(&self, device: &Device) -> Mlp {
        let d = self.hidden_size;
        let inner = (d as f64 * self.mlp_ratio) as usize;
        let gated = (inner * 2 / 3).div_ceil(8) * 8;
        let plain = !self.use_swiglu_ffn;
        Mlp {
            fc1: plain.then(|| linear(d, inner, true, device)),
            fc2: plain.then(|| linear(inner, d, true, device)),
            swiglu: (!plain).then(|| SwiGluConfig::new(d, gated).with_bias(true).init(device)),
            weights_out: (!plain).then(|| linear(gated, d, true, device)),
            activation: self.hidden_act,
        }
    }

    pub fn init(&self, device: &Device) -> Dinov2 {
        let (d, eps) = (self.hidden_size, self.layer_norm_eps);
        let block = |_| Block {
            norm_1: layer_norm(d, eps, device),
            attention: MultiHeadAttentionConfig::new(d, self.num_attention_heads).init(device),
            scale_1: Initializer::Ones.init([d], device),
            norm_2: layer_norm(d, eps, device),
            mlp: self.mlp(device),
            scale_2: Initializer::Ones.init([d], device),
        };
        let patches = (self.image_size / self.patch_size).pow(2);
        let patch = [self.patch_size, self.patch_size];
        Dinov2 {
            cls_token: Initializer::Zeros.init([1, 1, d], device),
            position_embeddings: Initializer::Zeros.init([1, patches + 1, d], device),
            patch_embedding: Conv2dConfig::new([self.num_channels, d], patch).with_stride(patch).init(device),
            layers: (0..self.num_hidden_layers).map(block).collect(),
            norm: layer_norm(d, eps, device),
            classifier: self.classes.map(|classes| linear(2 * d, classes, true, device)),
        }
    }
}

#[derive(Module, Debug)]
pub struct Dinov2 {
    pub cls_token: Param<Tensor<3>>,
    pub position_embeddings: Param<Tensor<3>>,
    pub patch_embedding: Conv2d,
    pub layers: Vec<Block>,
    pub norm: LayerNorm,
    pub classifier: Option<Linear>,
}

#[derive(Module, Debug)]
pub struct Block {
    pub norm_1: LayerNorm,
    pub attention: MultiHeadAttention,
    pub scale_1: Param<Tensor<1>>,
    pub norm_2: LayerNorm,
    pub mlp: Mlp,
    pub scale_2: Param<Tensor<1>>,
}

/// `fc1` and `fc2`, or for the giant `swiglu` and `weights_out`.
#[derive(Module, Debug)]
pub struct Mlp {
    pub fc1: Option<Linear>,
    pub fc2: Option<Linear>,
    pub swiglu: Option<SwiGlu>,
    pub weights_out: Option<Linear>,
    #[module(skip)]
    pub activation: Activation,
}

impl Dinov2 {
    /// `[batch, channels, height, width]` → the last hidden states, normed: `[batch, 1 + patches, hidden]`
    pub fn hidden(&self, pixels: Tensor<4>) -> Tensor<3> {
        let patches: Tensor<3> = self.patch_embedding.forward(pixels).flatten(2, 3).swap_dims(1, 2);
        let [batch, _, d] = patches.dims();
        let x = Tensor::cat(vec![self.cls_token.val().expand([batch, 1, d]), patches], 1);
        let x = x + self.position_embeddings.val();
        self.norm.forward(self.layers.iter().fold(x, |x, layer| layer.forward(x)))
    }

    /// The class token beside the mean of the patches: `[batch, classes]`
    pub fn classify(&self, hidden: Tensor<3>) -> Option<Tensor<2>> {
        let patches = hidden.dims()[1] - 1;
        let class: Tensor<2> = hidden.clone().narrow(1, 0, 1).squeeze_dim(1);
        let mean: Tensor<2> = hidden.narrow(1, 1, patches).mean_dim(1).squeeze_dim(1);
        Some(self.classifier.as_ref()?.forward(Tensor::cat(vec![class, mean], 1)))
    }
}

impl Block {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let y = self.attention.forward(MhaInput::self_attn(self.norm_1.forward(x.clone()))).context;
        let x = x + y * self.scale_1.val().unsqueeze();
        x.clone() + self.mlp.forward(self.norm_2.forward(x)) * self.scale_2.val().unsqueeze()
    }
}

impl Mlp {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        match (&self.fc1, &self.fc2, &self.swiglu, &self.weights_out) {
            (Some(fc1), Some(fc2), ..) => fc2.forward(self.activation.forward(fc1.forward(x))),
            (_, _, Some(swiglu), Some(out)) => out.forward(swiglu.forward(x)),
            _ => unreachable!("a feed-forward of one of two kinds"),
        }
    }
}
