//! ConvNeXt, for files of the recipe `convnext`.

use burn::module::{Module, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{Initializer, LayerNorm, Linear, PaddingConfig2d};
use burn::tensor::{Device, Tensor};
use serde::Deserialize;

use crate::shared::{Activation, layer_norm, linear};

/// Of every norm but the last, whatever the config says.
const EPSILON: f64 = 1e-6;

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub num_channels: usize,
    pub patch_size: usize,
    pub hidden_sizes: Vec<usize>,
    pub depths: Vec<usize>,
    pub hidden_act: Activation,
    pub layer_norm_eps: f64,
    /// Classes of the classifier, if there is one: the converted file tells.
    #[serde(skip)]
    pub classes: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            num_channels: 3,
            patch_size: 4,
            hidden_sizes: vec![96, 192, 384, 768],
            depths: vec![3, 3, 9, 3],
            hidden_act: Activation::Gelu,
            layer_norm_eps: 1e-12,
            classes: None,
        }
    }
}

impl Config {
    pub fn init(&self, device: &Device) -> ConvNext {
        let c = &self.hidden_sizes;
        let strided = |i, o, k| Conv2dConfig::new([i, o], [k, k]).with_stride([k, k]).init(device);
        let block = |d: usize| Block {
            dwconv: Conv2dConfig::new([d, d], [7, 7])
                .with_padding(PaddingConfig2d::Explicit(3, 3, 3, 3))
                .with_groups(d)
                .init(device),
            norm: layer_norm(d, EPSILON, device),
            pwconv1: linear(d, 4 * d, true, device),
            pwconv2: linear(4 * d, d, true, device),
            scale: Initializer::Ones.init([d], device),
            activation: self.hidden_act,
        };
        let stage = |(s, depth): (usize, &usize)| Stage {
            downsample: (s > 0)
                .then(|| Downsample { norm: layer_norm(c[s - 1], EPSILON, device), conv: strided(c[s - 1], c[s], 2) }),
            blocks: (0..*depth).map(|_| block(c[s])).collect(),
        };
        let last = c[c.len() - 1];
        ConvNext {
            stem: Stem {
                conv: strided(self.num_channels, c[0], self.patch_size),
                norm: layer_norm(c[0], EPSILON, device),
            },
            stages: self.depths.iter().enumerate().map(stage).collect(),
            norm: layer_norm(last, self.layer_norm_eps, device),
            classifier: self.classes.map(|classes| linear(last, classes, true, device)),
        }
    }
}

#[derive(Module, Debug)]
pub struct ConvNext {
    pub stem: Stem,
    pub stages: Vec<Stage>,
    pub norm: LayerNorm,
    pub classifier: Option<Linear>,
}

#[derive(Module, Debug)]
pub struct Stem {
    pub conv: Conv2d,
    pub norm: LayerNorm,
}

#[derive(Module, Debug)]
pub struct Stage {
    pub downsample: Option<Downsample>,
    pub blocks: Vec<Block>,
}

#[derive(Module, Debug)]
pub struct Downsample {
    pub norm: LayerNorm,
    pub conv: Conv2d,
}

#[derive(Module, Debug)]
pub struct Block {
    pub dwconv: Conv2d,
    pub norm: LayerNorm,
    pub pwconv1: Linear,
    pub pwconv2: Linear,
    pub scale: Param<Tensor<1>>,
    #[module(skip)]
    pub activation: Activation,
}

/// A norm over the channels of an image.
fn over_channels(norm: &LayerNorm, x: Tensor<4>) -> Tensor<4> {
    norm.forward(x.permute([0, 2, 3, 1])).permute([0, 3, 1, 2])
}

impl ConvNext {
    /// `[batch, channels, height, width]` → the last feature map.
    pub fn features(&self, pixels: Tensor<4>) -> Tensor<4> {
        let x = over_channels(&self.stem.norm, self.stem.conv.forward(pixels));
        self.stages.iter().fold(x, |x, stage| stage.forward(x))
    }

    /// The mean over the map, normed: `[batch, width]`
    pub fn pooled(&self, features: Tensor<4>) -> Tensor<2> {
        let flat: Tensor<3> = features.flatten(2, 3);
        self.norm.forward(flat.mean_dim(2).squeeze_dim::<2>(2))
    }

    pub fn classify(&self, pooled: Tensor<2>) -> Option<Tensor<2>> {
        Some(self.classifier.as_ref()?.forward(pooled))
    }
}

impl Stage {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let x = match &self.downsample {
            Some(down) => down.conv.forward(over_channels(&down.norm, x)),
            None => x,
        };
        self.blocks.iter().fold(x, |x, block| block.forward(x))
    }
}

impl Block {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let y = self.dwconv.forward(x.clone()).permute([0, 2, 3, 1]);
        let y = self.activation.forward(self.pwconv1.forward(self.norm.forward(y)));
        let y = self.pwconv2.forward(y) * self.scale.val().unsqueeze();
        x + y.permute([0, 3, 1, 2])
    }
}
