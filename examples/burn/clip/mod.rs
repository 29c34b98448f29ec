//! CLIP, both towers or one, for files of the recipes `clip` and `clip-openai`.

use burn::module::{Module, Param};
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{Embedding, Initializer, LayerNorm, Linear};
use burn::tensor::{Bool, Device, Int, Tensor};
use serde::Deserialize;

use crate::shared::{Activation, causal_mask_for_mha, embedding, layer_norm, linear, positions};

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

/// Towers, and the widths of their projections.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    pub text: bool,
    pub vision: bool,
    pub text_projection: Option<usize>,
    pub visual_projection: Option<usize>,
    pub scale: bool,
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
    pub eos_token_id: usize,
}

impl Default for TextConfig {
    fn default() -> Self {
        Self {
            vocab_size: 49_408,
            hidden_size: 512,
            intermediate_size: 2048,
            num_hidden_layers: 12,
            num_attention_heads: 8,
            max_position_embeddings: 77,
            hidden_act: Activation::QuickGelu,
            layer_norm_eps: 1e-5,
            eos_token_id: 49_407,
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
            patch_size: 32,
            hidden_act: Activation::QuickGelu,
            layer_norm_eps: 1e-5,
        }
    }
}

impl Config {
    pub fn init(&self, device: &Device) -> Clip {
        let Parts { text, vision, text_projection, visual_projection, scale } = self.parts;
        let (t, v) = (self.text_config.hidden_size, self.vision_config.hidden_size);
        Clip {
            text_model: text.then(|| self.text_config.init(device)),
            vision_model: vision.then(|| self.vision_config.init(device)),
            text_projection: text_projection.map(|width| linear(t, width, false, device)),
            visual_projection: visual_projection.map(|width| linear(v, width, false, device)),
            logit_scale: scale.then(|| Initializer::Zeros.init([1], device)),
        }
    }
}

impl TextConfig {
    pub fn init(&self, device: &Device) -> TextTower {
        let (d, eps) = (self.hidden_size, self.layer_norm_eps);
        let block = |_| Block::new(d, self.intermediate_size, self.num_attention_heads, eps, self.hidden_act, device);
        TextTower {
            embeddings: TextEmbeddings {
                token_embedding: embedding(self.vocab_size, d, device),
                position_embedding: embedding(self.max_position_embeddings, d, device),
            },
            encoder: Encoder { layers: (0..self.num_hidden_layers).map(block).collect() },
            post_norm: layer_norm(d, eps, device),
            eos_token_id: self.eos_token_id,
        }
    }
}

impl VisionConfig {
    pub fn init(&self, device: &Device) -> VisionTower {
        let (d, eps) = (self.hidden_size, self.layer_norm_eps);
        let block = |_| Block::new(d, self.intermediate_size, self.num_attention_heads, eps, self.hidden_act, device);
        let patch = [self.patch_size, self.patch_size];
        let patches = (self.image_size / self.patch_size).pow(2);
        VisionTower {
            embeddings: VisionEmbeddings {
                class_embedding: Initializer::Zeros.init([d], device),
                patch_embedding: Conv2dConfig::new([self.num_channels, d], patch)
                    .with_stride(patch)
                    .with_bias(false)
                    .init(device),
                position_embedding: embedding(patches + 1, d, device),
            },
            pre_norm: layer_norm(d, eps, device),
            encoder: Encoder { layers: (0..self.num_hidden_layers).map(block).collect() },
            post_norm: layer_norm(d, eps, device),
        }
    }
}

#[derive(Module, Debug)]
pub struct Clip {
    pub text_model: Option<TextTower>,
    pub vision_model: Option<VisionTower>,
    pub text_projection: Option<Linear>,
    pub visual_projection: Option<Linear>,
    pub logit_scale: Option<Param<Tensor<1>>>,
}

#[derive(Module, Debug)]
pub struct TextTower {
    pub embeddings: TextEmbeddings,
    pub encoder: Encoder,
    pub post_norm: LayerNorm,
    pub eos_token_id: usize,
}

#[derive(Module, Debug)]
pub struct TextEmbeddings {
    pub token_embedding: Embedding,
    pub position_embedding: Embedding,
}

#[derive(Module, Debug)]
pub struct VisionTower {
    pub embeddings: VisionEmbeddings,
    pub pre_norm: LayerNorm,
    pub encoder: Encoder,
    pub post_norm: LayerNorm,
}

#[derive(Module, Debug)]
pub struct VisionEmbeddings {
    pub class_embedding: Param<Tensor<1>>,
    pub patch_embedding: Conv2d,
    pub position_embedding: Embedding,
}

#[derive(Module, Debug)]
pub struct Encoder {
    pub layers: Vec<Block>,
}

/// Burn's encoder layer knows no `quick_gelu`, so the blocks are our own.
#[derive(Module, Debug)]
pub struct Block {
    pub norm_1: LayerNorm,
    pub attention: MultiHeadAttention,
    pub norm_2: LayerNorm,
    pub mlp: Mlp,
}

#[derive(Module, Debug)]
pub struct Mlp {
    pub fc1: Linear,
    pub fc2: Linear,
    #[module(skip)]
    pub activation: Activation,
}

impl Block {
    fn new(d: usize, ff: usize, heads: usize, eps: f64, activation: Activation, device: &Device) -> Self {
        Self {
            norm_1: layer_norm(d, eps, device),
            attention: MultiHeadAttentionConfig::new(d, heads).init(device),
            norm_2: layer_norm(d, eps, device),
            mlp: Mlp { fc1: linear(d, ff, true, device), fc2: linear(ff, d, true, device), activation },
        }
    }

    fn forward(&self, x: Tensor<3>, mask: Option<Tensor<3, Bool>>) -> Tensor<3> {
        let input = MhaInput::self_attn(self.norm_1.forward(x.clone()));
        let input = match mask {
            Some(mask) => input.mask_attn(mask),
            None => input,
        };
        let x = x + self.attention.forward(input).context;
        let mlp = &self.mlp;
        x.clone() + mlp.fc2.forward(mlp.activation.forward(mlp.fc1.forward(self.norm_2.forward(x))))
    }
}

impl TextTower {
    /// `[batch, sequence]` → the last hidden states, normed.
    pub fn hidden(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let (dims, device) = (ids.dims(), ids.device());
        let mask = causal_mask_for_mha(dims, &device);
        let e = &self.embeddings;
        let x = e.token_embedding.forward(ids) + e.position_embedding.forward(positions(dims[1], &device));
        let x = self.encoder.layers.iter().fold(x, |x, layer| layer.forward(x, Some(mask.clone())));
        self.post_norm.forward(x)
    }

    /// The token that ends the text: the first with the configured id; where the config says 2, as OpenAI's do, the one with
    /// the highest id.
    pub fn pooled(&self, ids: Tensor<2, Int>, hidden: Tensor<3>) -> Tensor<2> {
        let [batch, _, d] = hidden.dims();
        let last = match self.eos_token_id {
            2 => ids.argmax(1),
            id => ids.equal_elem(id as i64).int().argmax(1),
        };
        let rows: Tensor<3, Int> = last.unsqueeze_dim(2);
        hidden.gather(1, rows.expand([batch, 1, d])).squeeze_dim(1)
    }
}

impl VisionTower {
    /// `[batch, channels, height, width]` → the last hidden states, not normed.
    pub fn hidden(&self, pixels: Tensor<4>) -> Tensor<3> {
        let e = &self.embeddings;
        let patches: Tensor<3> = e.patch_embedding.forward(pixels).flatten(2, 3).swap_dims(1, 2);
        let [batch, length, d] = patches.dims();
        let class = e.class_embedding.val().unsqueeze::<3>().expand([batch, 1, d]);
        let place = positions(length + 1, &patches.device());
        let x = Tensor::cat(vec![class, patches], 1) + e.position_embedding.forward(place);
        let x = self.pre_norm.forward(x);
        self.encoder.layers.iter().fold(x, |x, layer| layer.forward(x, None))
    }

    /// The class token, normed.
    pub fn pooled(&self, hidden: Tensor<3>) -> Tensor<2> {
        self.post_norm.forward(hidden.narrow(1, 0, 1).squeeze_dim::<2>(1))
    }
}

impl Clip {
    /// Embeddings of texts, not of length one yet.
    pub fn text(&self, ids: Tensor<2, Int>) -> Option<Tensor<2>> {
        let tower = self.text_model.as_ref()?;
        let pooled = tower.pooled(ids.clone(), tower.hidden(ids));
        Some(self.text_projection.as_ref()?.forward(pooled))
    }

    /// Embeddings of images, not of length one yet.
    pub fn image(&self, pixels: Tensor<4>) -> Option<Tensor<2>> {
        let tower = self.vision_model.as_ref()?;
        Some(self.visual_projection.as_ref()?.forward(tower.pooled(tower.hidden(pixels))))
    }

    /// How well each image fits each text: `[images, texts]`
    pub fn logits(&self, images: Tensor<2>, texts: Tensor<2>) -> Option<Tensor<2>> {
        let scale = self.logit_scale.as_ref()?.val().exp();
        Some(unit(images).matmul(unit(texts).transpose()) * scale.unsqueeze())
    }
}

/// The same directions, of length one.
pub fn unit(x: Tensor<2>) -> Tensor<2> {
    let length = x.clone().square().sum_dim(1).sqrt();
    x / length
}
