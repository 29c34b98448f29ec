//! SegFormer, for files of the recipe `segformer`: keys and values from a shrunken map, a convolution in the feed-forward.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{BatchNorm, LayerNorm, Linear, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::module::interpolate;
use burn::tensor::ops::{InterpolateMode, InterpolateOptions};
use burn::tensor::{Device, Tensor};
use serde::Deserialize;

use crate::shared::{Activation, Scores, attend, batch_norm, conv, layer_norm, linear, merge_heads, split_heads};

/// Of every norm, whatever the config says.
const EPSILON: f64 = 1e-5;

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub num_channels: usize,
    pub depths: Vec<usize>,
    pub sr_ratios: Vec<usize>,
    pub hidden_sizes: Vec<usize>,
    pub patch_sizes: Vec<usize>,
    pub strides: Vec<usize>,
    pub num_attention_heads: Vec<usize>,
    pub mlp_ratios: Vec<f64>,
    pub hidden_act: Activation,
    pub decoder_hidden_size: usize,
    /// Classes of places, if the file has a segmentation head: it tells.
    #[serde(skip)]
    pub segments: Option<usize>,
    /// Classes of whole images, if it has a classifier.
    #[serde(skip)]
    pub classes: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            num_channels: 3,
            depths: vec![2, 2, 2, 2],
            sr_ratios: vec![8, 4, 2, 1],
            hidden_sizes: vec![32, 64, 160, 256],
            patch_sizes: vec![7, 3, 3, 3],
            strides: vec![4, 2, 2, 2],
            num_attention_heads: vec![1, 2, 5, 8],
            mlp_ratios: vec![4.0; 4],
            hidden_act: Activation::Gelu,
            decoder_hidden_size: 256,
            segments: None,
            classes: None,
        }
    }
}

impl Config {
    fn block(&self, s: usize, device: &Device) -> Block {
        let (w, ratio) = (self.hidden_sizes[s], self.sr_ratios[s]);
        let ff = (w as f64 * self.mlp_ratios[s]) as usize;
        let project = || linear(w, w, true, device);
        Block {
            norm_1: layer_norm(w, EPSILON, device),
            attention: Attention {
                query: project(),
                key: project(),
                value: project(),
                sr: (ratio > 1)
                    .then(|| Conv2dConfig::new([w, w], [ratio, ratio]).with_stride([ratio, ratio]).init(device)),
                norm: (ratio > 1).then(|| layer_norm(w, EPSILON, device)),
                output: project(),
                heads: self.num_attention_heads[s],
            },
            norm_2: layer_norm(w, EPSILON, device),
            mlp: Mlp {
                fc1: linear(w, ff, true, device),
                dwconv: Conv2dConfig::new([ff, ff], [3, 3])
                    .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
                    .with_groups(ff)
                    .init(device),
                fc2: linear(ff, w, true, device),
                activation: self.hidden_act,
            },
        }
    }

    pub fn init(&self, device: &Device) -> SegFormer {
        let c = &self.hidden_sizes;
        let stage = |s: usize| {
            let (patch, stride, pad) = (self.patch_sizes[s], self.strides[s], self.patch_sizes[s] / 2);
            let before = if s == 0 { self.num_channels } else { c[s - 1] };
            Stage {
                patch_embedding: PatchEmbedding {
                    conv: Conv2dConfig::new([before, c[s]], [patch, patch])
                        .with_stride([stride, stride])
                        .with_padding(PaddingConfig2d::Explicit(pad, pad, pad, pad))
                        .init(device),
                    norm: layer_norm(c[s], EPSILON, device),
                },
                blocks: (0..self.depths[s]).map(|_| self.block(s, device)).collect(),
                norm: layer_norm(c[s], EPSILON, device),
            }
        };
        let (stages, width) = (self.depths.len(), self.decoder_hidden_size);
        SegFormer {
            stages: (0..stages).map(stage).collect(),
            decode_head: self.segments.map(|classes| DecodeHead {
                linear_c: c.iter().map(|c| linear(*c, width, true, device)).collect(),
                linear_fuse: conv([width * stages, width], 1, 1, 0, 1, device),
                batch_norm: batch_norm(width, device),
                classifier: Conv2dConfig::new([width, classes], [1, 1]).init(device),
            }),
            classifier: self.classes.map(|classes| linear(c[stages - 1], classes, true, device)),
        }
    }
}

#[derive(Module, Debug)]
pub struct SegFormer {
    pub stages: Vec<Stage>,
    pub decode_head: Option<DecodeHead>,
    pub classifier: Option<Linear>,
}

#[derive(Module, Debug)]
pub struct Stage {
    pub patch_embedding: PatchEmbedding,
    pub blocks: Vec<Block>,
    pub norm: LayerNorm,
}

#[derive(Module, Debug)]
pub struct PatchEmbedding {
    pub conv: Conv2d,
    pub norm: LayerNorm,
}

#[derive(Module, Debug)]
pub struct Block {
    pub norm_1: LayerNorm,
    pub attention: Attention,
    pub norm_2: LayerNorm,
    pub mlp: Mlp,
}

#[derive(Module, Debug)]
pub struct Attention {
    pub query: Linear,
    pub key: Linear,
    pub value: Linear,
    pub sr: Option<Conv2d>,
    pub norm: Option<LayerNorm>,
    pub output: Linear,
    pub heads: usize,
}

#[derive(Module, Debug)]
pub struct Mlp {
    pub fc1: Linear,
    pub dwconv: Conv2d,
    pub fc2: Linear,
    #[module(skip)]
    pub activation: Activation,
}

#[derive(Module, Debug)]
pub struct DecodeHead {
    pub linear_c: Vec<Linear>,
    pub linear_fuse: Conv2d,
    pub batch_norm: BatchNorm,
    pub classifier: Conv2d,
}

/// A map as a sequence of places.
fn places(x: Tensor<4>) -> Tensor<3> {
    x.flatten::<3>(2, 3).swap_dims(1, 2)
}

/// The inverse of [`places`].
fn map(x: Tensor<3>, [height, width]: [usize; 2]) -> Tensor<4> {
    let [batch, _, c] = x.dims();
    x.swap_dims(1, 2).reshape([batch, c, height, width])
}

impl SegFormer {
    /// `[batch, channels, height, width]` → the map of every stage.
    pub fn features(&self, pixels: Tensor<4>) -> Vec<Tensor<4>> {
        let mut maps: Vec<Tensor<4>> = vec![];
        for stage in &self.stages {
            let x = maps.last().cloned().unwrap_or_else(|| pixels.clone());
            maps.push(stage.forward(x));
        }
        maps
    }

    /// Logits of a quarter of the image's size: `[batch, classes, height / 4, width / 4]`
    pub fn segment(&self, maps: &[Tensor<4>]) -> Option<Tensor<4>> {
        let head = self.decode_head.as_ref()?;
        let [_, _, height, width] = maps[0].dims();
        let options = InterpolateOptions::new(InterpolateMode::Bilinear)
            .with_align_corners(false)
            .with_output_size([height, width]);
        let wide = |(x, layer): (&Tensor<4>, &Linear)| {
            let [_, _, h, w] = x.dims();
            interpolate(map(layer.forward(places(x.clone())), [h, w]), options.clone())
        };
        let parts: Vec<_> = maps.iter().zip(&head.linear_c).map(wide).rev().collect();
        let x = head.batch_norm.forward(head.linear_fuse.forward(Tensor::cat(parts, 1)));
        Some(head.classifier.forward(relu(x)))
    }

    /// The mean of the last map, classified: `[batch, classes]`
    pub fn classify(&self, maps: &[Tensor<4>]) -> Option<Tensor<2>> {
        let mean: Tensor<2> = places(maps.last()?.clone()).mean_dim(1).squeeze_dim(1);
        Some(self.classifier.as_ref()?.forward(mean))
    }
}

impl Stage {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let x = self.patch_embedding.conv.forward(x);
        let [_, _, height, width] = x.dims();
        let x = self.patch_embedding.norm.forward(places(x));
        let x = self.blocks.iter().fold(x, |x, block| block.forward(x, [height, width]));
        map(self.norm.forward(x), [height, width])
    }
}

impl Block {
    fn forward(&self, x: Tensor<3>, size: [usize; 2]) -> Tensor<3> {
        let x = x.clone() + self.attention.forward(self.norm_1.forward(x), size);
        let mlp = &self.mlp;
        let y = mlp.dwconv.forward(map(mlp.fc1.forward(self.norm_2.forward(x.clone())), size));
        x + mlp.fc2.forward(mlp.activation.forward(places(y)))
    }
}

impl Attention {
    fn forward(&self, x: Tensor<3>, size: [usize; 2]) -> Tensor<3> {
        let heads = |layer: &Linear, x: Tensor<3>| split_heads(layer.forward(x), self.heads);
        let small = match (&self.sr, &self.norm) {
            (Some(sr), Some(norm)) => norm.forward(places(sr.forward(map(x.clone(), size)))),
            _ => x.clone(),
        };
        let (q, k, v) = (heads(&self.query, x), heads(&self.key, small.clone()), heads(&self.value, small));
        self.output.forward(merge_heads(attend(q, k, v, None, None, &Scores::default())))
    }
}
