//! EfficientNet as timm builds it, for files of the recipe `efficientnet-timm`: four kinds of blocks under timm's names.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{BatchNorm, Linear};
use burn::tensor::activation::{sigmoid, silu};
use burn::tensor::{Device, Tensor};

use crate::shared::{Shapes, batch_norm, conv, linear, mean_over_map};

/// Sizes, which a converted file tells, and strides, which it does not.
#[derive(Clone, Debug)]
pub struct Config {
    pub channels: usize,
    pub stem: usize,
    pub stages: Vec<Vec<BlockConfig>>,
    pub head: usize,
    pub classes: usize,
}

#[derive(Clone, Debug)]
pub struct BlockConfig {
    pub kind: Kind,
    pub kernel: usize,
    pub stride: usize,
    pub before: usize,
    pub inner: usize,
    pub out: usize,
    /// Inner width of squeeze and excitation.
    pub squeeze: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `conv`
    ConvBnAct,
    /// `conv_dw`, `conv_pw`
    DepthwiseSeparable,
    /// `conv_pw`, `conv_dw`, `conv_pwl`
    InvertedResidual,
    /// `conv_exp`, `conv_pwl`
    EdgeResidual,
}

impl Config {
    /// `strides`: of the first block of each stage, `[1, 2, 2, 2, 1, 2, 1]` for B0 to B7.
    pub fn of(shapes: &Shapes, strides: &[usize]) -> Self {
        let block = |s: usize, i: usize| {
            let name = |part: &str| format!("blocks.{s}.{i}.{part}.weight");
            let has = |part: &str| shapes.has(&name(part));
            let size = |part: &str, dimension| shapes.size(&name(part), dimension);
            let (kind, first, spatial, last) = match (has("conv"), has("conv_exp"), has("conv_pwl")) {
                (true, ..) => (Kind::ConvBnAct, "conv", "conv", "conv"),
                (_, true, _) => (Kind::EdgeResidual, "conv_exp", "conv_exp", "conv_pwl"),
                (_, _, true) => (Kind::InvertedResidual, "conv_pw", "conv_dw", "conv_pwl"),
                _ => (Kind::DepthwiseSeparable, "conv_dw", "conv_dw", "conv_pw"),
            };
            let before = if kind == Kind::DepthwiseSeparable { size(first, 0) } else { size(first, 1) };
            BlockConfig {
                kind,
                kernel: size(spatial, 2),
                stride: if i == 0 { strides[s] } else { 1 },
                before,
                inner: size(first, 0),
                out: size(last, 0),
                squeeze: has("se.conv_reduce").then(|| size("se.conv_reduce", 0)),
            }
        };
        let length = |s: usize| (0..).take_while(|i| shapes.has(&format!("blocks.{s}.{i}.bn1.gamma"))).count();
        Self {
            channels: shapes.size("conv_stem.weight", 1),
            stem: shapes.size("conv_stem.weight", 0),
            stages: (0..strides.len()).map(|s| (0..length(s)).map(|i| block(s, i)).collect()).collect(),
            head: shapes.size("conv_head.weight", 0),
            classes: shapes.size("classifier.bias", 0),
        }
    }

    pub fn init(&self, device: &Device) -> EfficientNet {
        let last = self.stages.iter().flatten().last().map_or(self.stem, |block| block.out);
        let stage = |stage: &Vec<BlockConfig>| stage.iter().map(|block| Block::new(block, device)).collect();
        EfficientNet {
            conv_stem: conv([self.channels, self.stem], 3, 2, 1, 1, device),
            bn1: batch_norm(self.stem, device),
            blocks: self.stages.iter().map(stage).collect(),
            conv_head: conv([last, self.head], 1, 1, 0, 1, device),
            bn2: batch_norm(self.head, device),
            classifier: linear(self.head, self.classes, true, device),
        }
    }
}

#[derive(Module, Debug)]
pub struct EfficientNet {
    pub conv_stem: Conv2d,
    pub bn1: BatchNorm,
    pub blocks: Vec<Vec<Block>>,
    pub conv_head: Conv2d,
    pub bn2: BatchNorm,
    pub classifier: Linear,
}

/// What its [`Kind`] needs.
#[derive(Module, Debug)]
pub struct Block {
    pub conv: Option<Conv2d>,
    pub conv_exp: Option<Conv2d>,
    pub conv_pw: Option<Conv2d>,
    pub bn1: BatchNorm,
    pub conv_dw: Option<Conv2d>,
    pub bn2: Option<BatchNorm>,
    pub se: Option<Squeeze>,
    pub conv_pwl: Option<Conv2d>,
    pub bn3: Option<BatchNorm>,
    #[module(skip)]
    pub kind: Kind,
    pub residual: bool,
}

#[derive(Module, Debug)]
pub struct Squeeze {
    pub conv_reduce: Conv2d,
    pub conv_expand: Conv2d,
}

impl EfficientNet {
    /// `[batch, channels, height, width]` → logits `[batch, classes]`
    pub fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let x = silu(self.bn1.forward(self.conv_stem.forward(x)));
        let x = self.blocks.iter().flatten().fold(x, |x, block| block.forward(x));
        self.classifier.forward(mean_over_map(silu(self.bn2.forward(self.conv_head.forward(x)))))
    }
}

impl Block {
    fn new(c: &BlockConfig, device: &Device) -> Self {
        let BlockConfig { kind, kernel, stride, before, inner, out, .. } = *c;
        let is = |one: Kind| kind == one;
        let spatial = |channels, groups| conv(channels, kernel, stride, kernel / 2, groups, device);
        let point = |channels| conv(channels, 1, 1, 0, 1, device);
        let one = |i, o| Conv2dConfig::new([i, o], [1, 1]).init(device);
        Self {
            conv: is(Kind::ConvBnAct).then(|| spatial([before, out], 1)),
            conv_exp: is(Kind::EdgeResidual).then(|| spatial([before, inner], 1)),
            conv_pw: match kind {
                Kind::InvertedResidual => Some(point([before, inner])),
                Kind::DepthwiseSeparable => Some(point([before, out])),
                _ => None,
            },
            bn1: batch_norm(inner, device),
            conv_dw: (is(Kind::InvertedResidual) || is(Kind::DepthwiseSeparable))
                .then(|| spatial([inner, inner], inner)),
            bn2: (!is(Kind::ConvBnAct))
                .then(|| batch_norm(if is(Kind::InvertedResidual) { inner } else { out }, device)),
            se: c.squeeze.map(|s| Squeeze { conv_reduce: one(inner, s), conv_expand: one(s, inner) }),
            conv_pwl: (is(Kind::InvertedResidual) || is(Kind::EdgeResidual)).then(|| point([inner, out])),
            bn3: is(Kind::InvertedResidual).then(|| batch_norm(out, device)),
            kind,
            residual: stride == 1 && before == out,
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let there = "a block has what its kind needs";
        let through = |conv: &Option<Conv2d>, norm: &BatchNorm, x| norm.forward(conv.as_ref().expect(there).forward(x));
        let second = || self.bn2.as_ref().expect(there);
        let squeeze = |x: Tensor<4>| match &self.se {
            Some(se) => {
                let mean = x.clone().mean_dim(3).mean_dim(2);
                x * sigmoid(se.conv_expand.forward(silu(se.conv_reduce.forward(mean))))
            }
            None => x,
        };
        let y = match self.kind {
            Kind::ConvBnAct => silu(through(&self.conv, &self.bn1, x.clone())),
            Kind::DepthwiseSeparable => {
                let y = squeeze(silu(through(&self.conv_dw, &self.bn1, x.clone())));
                through(&self.conv_pw, second(), y)
            }
            Kind::EdgeResidual => {
                let y = squeeze(silu(through(&self.conv_exp, &self.bn1, x.clone())));
                through(&self.conv_pwl, second(), y)
            }
            Kind::InvertedResidual => {
                let y = silu(through(&self.conv_pw, &self.bn1, x.clone()));
                let y = squeeze(silu(through(&self.conv_dw, second(), y)));
                through(&self.conv_pwl, self.bn3.as_ref().expect(there), y)
            }
        };
        if self.residual { x + y } else { y }
    }
}
