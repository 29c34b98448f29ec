//! SigLIP, both towers or one, for files of the recipe `siglip`: Burn's own encoder, normed first.

use burn::module::{Module, Param};
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Embedding, Initializer, LayerNorm, Linear};
use burn::tensor::{Device, Int, Tensor};
use serde::Deserialize;

use crate::shared::{Activation, embedding, layer_norm, linear, positions};

/// `config.json` of a Hugging Face folder with both towers. For one tower alone, read a [`TextConfig`] or [`VisionConfig`]
/// and fill it in.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Config {
    pub text_config: TextConfig,
    pub vision_config: VisionConfig,
    /// What the converted file has.
    #[serde(skip)]
    pub parts: Parts,
}

#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// The width of the text tower's projection.
    pub text: Option<usize>,
    pub vision: bool,
    /// The attention that pools the patches.
    pub head: bool,
    pub logits: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct TextConfig {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub max_position_embeddings: usize,
    pub hidden_act: Activation,
    pub layer_norm_eps: f64,
}

impl Default for TextConfig {
    fn default() -> Self {
        Self {
            vocab_size: 32_000,
            hidden_size: 768,
            intermediate_size: 3072,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            max_position_embeddings: 64,
            hidden_act: Activation::GeluNew,
            layer_norm_eps: 1e-6,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct VisionConfig {
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub num_channels: usize,
    pub image_size: usize,
    pub patch_size: usize,
    pub hidden_act: Activation,
    pub layer_norm_eps: f64,
}

impl Default for VisionConfig {
    fn default() -> Self {
        Self {
            hidden_size: 768,
            intermediate_size: 3072,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            num_channels: 3,
            image_size: 224,
            patch_size: 16,
            hidden_act: Activation::GeluNew,
            layer_norm_eps: 1e-6,
        }
    }
}

impl Config {
    pub fn init(&self, device: &Device) -> Siglip {
        let parts = &self.parts;
        let number = || Initializer::Zeros.init([1], device);
        Siglip {
            text_model: parts.text.map(|width| self.text_config.init(width, device)),
            vision_model: parts.vision.then(|| self.vision_config.init(parts.head, device)),
            logit_scale: parts.logits.then(number),
            logit_bias: parts.logits.then(number),
        }
    }
}

fn encoder(
    [d, ff, heads, layers]: [usize; 4],
    eps: f64,
    activation: Activation,
    device: &Device,
) -> TransformerEncoder {
    TransformerEncoderConfig::new(d, ff, heads, layers)
        .with_norm_first(true)
        .with_activation(activation.burn())
        .with_layer_norm_eps(eps)
        .init(device)
}

impl TextConfig {
    pub fn init(&self, projected: usize, device: &Device) -> TextTower {
        let (d, eps) = (self.hidden_size, self.layer_norm_eps);
        let sizes = [d, self.intermediate_size, self.num_attention_heads, self.num_hidden_layers];
        TextTower {
            embeddings: TextEmbeddings {
                token_embedding: embedding(self.vocab_size, d, device),
                position_embedding: embedding(self.max_position_embeddings, d, device),
            },
            encoder: encoder(sizes, eps, self.hidden_act, device),
            post_norm: layer_norm(d, eps, device),
            head: linear(d, projected, true, device),
        }
    }
}

impl VisionConfig {
    pub fn init(&self, pools: bool, device: &Device) -> VisionTower {
        let (d, ff, eps) = (self.hidden_size, self.intermediate_size, self.layer_norm_eps);
        let sizes = [d, ff, self.num_attention_heads, self.num_hidden_layers];
        let patch = [self.patch_size, self.patch_size];
        let patches = (self.image_size / self.patch_size).pow(2);
        VisionTower {
            embeddings: VisionEmbeddings {
                patch_embedding: Conv2dConfig::new([self.num_channels, d], patch).with_stride(patch).init(device),
                position_embedding: embedding(patches, d, device),
            },
            encoder: encoder(sizes, eps, self.hidden_act, device),
            post_norm: layer_norm(d, eps, device),
            head: pools.then(|| PoolingHead {
                probe: Initializer::Zeros.init([1, 1, d], device),
                attention: MultiHeadAttentionConfig::new(d, self.num_attention_heads).init(device),
                norm: layer_norm(d, eps, device),
                mlp: Mlp {
                    fc1: linear(d, ff, true, device),
                    fc2: linear(ff, d, true, device),
                    activation: self.hidden_act,
                },
            }),
        }
    }
}

#[derive(Module, Debug)]
pub struct Siglip {
    pub text_model: Option<TextTower>,
    pub vision_model: Option<VisionTower>,
    pub logit_scale: Option<Param<Tensor<1>>>,
    pub logit_bias: Option<Param<Tensor<1>>>,
}

#[derive(Module, Debug)]
pub struct TextTower {
    pub embeddings: TextEmbeddings,
    pub encoder: TransformerEncoder,
    pub post_norm: LayerNorm,
    pub head: Linear,
}

#[derive(Module, Debug)]
pub struct TextEmbeddings {
    pub token_embedding: Embedding,
    pub position_embedding: Embedding,
}

#[derive(Module, Debug)]
pub struct VisionTower {
    pub embeddings: VisionEmbeddings,
    pub encoder: TransformerEncoder,
    pub post_norm: LayerNorm,
    pub head: Option<PoolingHead>,
}

#[derive(Module, Debug)]
pub struct VisionEmbeddings {
    pub patch_embedding: Conv2d,
    pub position_embedding: Embedding,
}

/// A learned probe attends to the patches.
#[derive(Module, Debug)]
pub struct PoolingHead {
    pub probe: Param<Tensor<3>>,
    pub attention: MultiHeadAttention,
    pub norm: LayerNorm,
    pub mlp: Mlp,
}

#[derive(Module, Debug)]
pub struct Mlp {
    pub fc1: Linear,
    pub fc2: Linear,
    #[module(skip)]
    pub activation: Activation,
}

impl TextTower {
    /// `[batch, sequence]` → the last hidden states, normed. No mask: padding is looked at.
    pub fn hidden(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let place = positions(ids.dims()[1], &ids.device());
        let e = &self.embeddings;
        let x = e.token_embedding.forward(ids) + e.position_embedding.forward(place);
        self.post_norm.forward(self.encoder.forward(TransformerEncoderInput::new(x)))
    }

    /// The last token, projected.
    pub fn pooled(&self, hidden: Tensor<3>) -> Tensor<2> {
        let last = hidden.dims()[1] - 1;
        self.head.forward(hidden.narrow(1, last, 1).squeeze_dim::<2>(1))
    }
}

impl VisionTower {
    /// `[batch, channels, height, width]` → the last hidden states, normed.
    pub fn hidden(&self, pixels: Tensor<4>) -> Tensor<3> {
        let e = &self.embeddings;
        let patches: Tensor<3> = e.patch_embedding.forward(pixels).flatten(2, 3).swap_dims(1, 2);
        let place = positions(patches.dims()[1], &patches.device());
        let x = patches + e.position_embedding.forward(place);
        self.post_norm.forward(self.encoder.forward(TransformerEncoderInput::new(x)))
    }

    /// What the probe makes of the patches.
    pub fn pooled(&self, hidden: Tensor<3>) -> Option<Tensor<2>> {
        let head = self.head.as_ref()?;
        let [batch, _, d] = hidden.dims();
        let probe = head.probe.val().expand([batch, 1, d]);
        let x = head.attention.forward(MhaInput::new(probe, hidden.clone(), hidden)).context;
        let (mlp, y) = (&head.mlp, head.norm.forward(x.clone()));
        let y = mlp.fc2.forward(mlp.activation.forward(mlp.fc1.forward(y)));
        Some((x + y).squeeze_dim(1))
    }
}

impl Siglip {
    /// How well each text fits each image: `[texts, images]`
    pub fn logits(&self, texts: Tensor<2>, images: Tensor<2>) -> Option<Tensor<2>> {
        let scale = self.logit_scale.as_ref()?.val().exp();
        let product = unit(texts).matmul(unit(images).transpose());
        Some(product * scale.unsqueeze() + self.logit_bias.as_ref()?.val().unsqueeze())
    }
}

/// The same directions, of length one.
pub fn unit(x: Tensor<2>) -> Tensor<2> {
    let length = x.clone().square().sum_dim(1).sqrt();
    x / length
}
