//! ViT and DeiT, for files of the recipes `vit` and `vit-timm`: Burn's own encoder, normed first.

use burn::module::{Module, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Initializer, LayerNorm, Linear};
use burn::tensor::{Device, Tensor};
use serde::Deserialize;

use crate::shared::{Activation, layer_norm, linear};

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub hidden_act: Activation,
    /// 1e-12 in Hugging Face's configs, 1e-6 in timm.
    pub layer_norm_eps: f64,
    pub image_size: usize,
    pub patch_size: usize,
    pub num_channels: usize,
    /// Whether a second token learns from a teacher (DeiT): the converted file tells.
    #[serde(skip)]
    pub distilled: bool,
    #[serde(skip)]
    pub pooler: bool,
    /// Classes of the classifier, if there is one.
    #[serde(skip)]
    pub classes: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            hidden_size: 768,
            intermediate_size: 3072,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            hidden_act: Activation::Gelu,
            layer_norm_eps: 1e-12,
            image_size: 224,
            patch_size: 16,
            num_channels: 3,
            distilled: false,
            pooler: false,
            classes: None,
        }
    }
}

impl Config {
    pub fn init(&self, device: &Device) -> Vit {
        let d = self.hidden_size;
        let (ff, heads, layers) = (self.intermediate_size, self.num_attention_heads, self.num_hidden_layers);
        let token = || Initializer::Zeros.init([1, 1, d], device);
        let patches = (self.image_size / self.patch_size).pow(2);
        let patch = [self.patch_size, self.patch_size];
        Vit {
            cls_token: token(),
            distillation_token: self.distilled.then(token),
            position_embeddings: Initializer::Zeros.init([1, patches + 1 + usize::from(self.distilled), d], device),
            patch_embedding: Conv2dConfig::new([self.num_channels, d], patch).with_stride(patch).init(device),
            encoder: TransformerEncoderConfig::new(d, ff, heads, layers)
                .with_norm_first(true)
                .with_activation(self.hidden_act.burn())
                .with_layer_norm_eps(self.layer_norm_eps)
                .init(device),
            norm: layer_norm(d, self.layer_norm_eps, device),
            pooler: self.pooler.then(|| linear(d, d, true, device)),
            classifier: self.classes.map(|classes| linear(d, classes, true, device)),
        }
    }
}

#[derive(Module, Debug)]
pub struct Vit {
    pub cls_token: Param<Tensor<3>>,
    pub distillation_token: Option<Param<Tensor<3>>>,
    pub position_embeddings: Param<Tensor<3>>,
    pub patch_embedding: Conv2d,
    pub encoder: TransformerEncoder,
    pub norm: LayerNorm,
    pub pooler: Option<Linear>,
    pub classifier: Option<Linear>,
}

impl Vit {
    /// `[batch, channels, height, width]` → the last hidden states, normed: `[batch, tokens, hidden]`
    pub fn hidden(&self, pixels: Tensor<4>) -> Tensor<3> {
        let patches: Tensor<3> = self.patch_embedding.forward(pixels).flatten(2, 3).swap_dims(1, 2);
        let [batch, _, d] = patches.dims();
        let tokens = std::iter::once(&self.cls_token).chain(&self.distillation_token);
        let mut parts: Vec<_> = tokens.map(|token| token.val().expand([batch, 1, d])).collect();
        parts.push(patches);
        let x = Tensor::cat(parts, 1) + self.position_embeddings.val();
        self.norm.forward(self.encoder.forward(TransformerEncoderInput::new(x)))
    }

    /// The class token through the pooler and tanh.
    pub fn pooled(&self, hidden: Tensor<3>) -> Option<Tensor<2>> {
        Some(self.pooler.as_ref()?.forward(first(hidden)).tanh())
    }

    /// `[batch, tokens, hidden]` → `[batch, classes]`
    pub fn classify(&self, hidden: Tensor<3>) -> Option<Tensor<2>> {
        Some(self.classifier.as_ref()?.forward(first(hidden)))
    }
}

fn first(hidden: Tensor<3>) -> Tensor<2> {
    hidden.narrow(1, 0, 1).squeeze_dim(1)
}
