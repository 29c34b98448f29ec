//! ResNets of timm with deep stems or pooled shortcuts, for files of the recipe `resnet-timm`.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{AvgPool2dConfig, MaxPool2dConfig};
use burn::nn::{BatchNorm, Linear, PaddingConfig2d};
use burn::tensor::activation::{relu, sigmoid};
use burn::tensor::{Device, Tensor};

use crate::shared::{Shapes, batch_norm, conv, linear, mean_over_map};

/// Sizes, all of which a converted file tells.
#[derive(Clone, Debug)]
pub struct Config {
    /// Channels into the stem and out of each of its convolutions: three, or one of 7 x 7.
    pub stem: Vec<usize>,
    pub layers: [Vec<BlockConfig>; 4],
    pub classes: usize,
    /// Whether shortcuts take the mean of 2 x 2 places before their convolution ("D"). Deep stems have it.
    pub pooled: bool,
}

#[derive(Clone, Debug)]
pub struct BlockConfig {
    pub before: usize,
    pub width: usize,
    pub out: usize,
    pub stride: usize,
    pub groups: usize,
    pub bottleneck: bool,
    pub downsample: bool,
    /// Inner width of squeeze and excitation.
    pub squeeze: Option<usize>,
}

impl Config {
    pub fn of(shapes: &Shapes) -> Self {
        let deep = shapes.count("stem.convs.{}.weight");
        let stem = match deep {
            0 => vec![shapes.size("conv1.weight", 1), shapes.size("conv1.weight", 0)],
            _ => {
                let outs = (0..deep).map(|i| shapes.size(&format!("stem.convs.{i}.weight"), 0));
                std::iter::once(shapes.size("stem.convs.0.weight", 1)).chain(outs).collect()
            }
        };
        let block = |s: usize, i: usize| {
            let name = |part: &str| format!("layer{s}.blocks.{i}.{part}.weight");
            let bottleneck = shapes.has(&name("conv3"));
            let width = shapes.size(&name("conv1"), 0);
            let downsample = shapes.has(&name("downsample.conv"));
            BlockConfig {
                before: shapes.size(&name("conv1"), 1),
                width,
                out: shapes.size(&name(if bottleneck { "conv3" } else { "conv2" }), 0),
                stride: if s > 1 && i == 0 { 2 } else { 1 },
                groups: width / shapes.size(&name("conv2"), 1),
                bottleneck,
                downsample,
                squeeze: shapes.has(&name("se.fc1")).then(|| shapes.size(&name("se.fc1"), 0)),
            }
        };
        let layer = |s: usize| {
            let blocks = shapes.count(&format!("layer{s}.blocks.{{}}.conv1.weight"));
            (0..blocks).map(|i| block(s, i)).collect()
        };
        Self { stem, layers: [1, 2, 3, 4].map(layer), classes: shapes.size("fc.bias", 0), pooled: deep > 0 }
    }

    pub fn init(&self, device: &Device) -> ResNet {
        let layer = |s: usize| Layer {
            blocks: self.layers[s].iter().map(|block| Block::new(block, self.pooled, device)).collect(),
        };
        let c = &self.stem;
        let deep = c.len() > 2;
        let last = self.layers[3].last().map_or(0, |block| block.out);
        ResNet {
            stem: deep.then(|| Stem {
                convs: (1..c.len())
                    .map(|i| conv([c[i - 1], c[i]], 3, if i == 1 { 2 } else { 1 }, 1, 1, device))
                    .collect(),
                norms: c[1..c.len() - 1].iter().map(|width| batch_norm(*width, device)).collect(),
            }),
            conv1: (!deep).then(|| conv([c[0], c[1]], 7, 2, 3, 1, device)),
            bn1: batch_norm(c[c.len() - 1], device),
            layer1: layer(0),
            layer2: layer(1),
            layer3: layer(2),
            layer4: layer(3),
            fc: linear(last, self.classes, true, device),
        }
    }
}

#[derive(Module, Debug)]
pub struct ResNet {
    pub stem: Option<Stem>,
    pub conv1: Option<Conv2d>,
    pub bn1: BatchNorm,
    pub layer1: Layer,
    pub layer2: Layer,
    pub layer3: Layer,
    pub layer4: Layer,
    pub fc: Linear,
}

#[derive(Module, Debug)]
pub struct Stem {
    pub convs: Vec<Conv2d>,
    pub norms: Vec<BatchNorm>,
}

#[derive(Module, Debug)]
pub struct Layer {
    pub blocks: Vec<Block>,
}

/// A bottleneck has `conv3`, a basic block not.
#[derive(Module, Debug)]
pub struct Block {
    pub conv1: Conv2d,
    pub bn1: BatchNorm,
    pub conv2: Conv2d,
    pub bn2: BatchNorm,
    pub conv3: Option<Conv2d>,
    pub bn3: Option<BatchNorm>,
    pub se: Option<Squeeze>,
    pub downsample: Option<Downsample>,
    /// The stride of the shortcut's mean, where it takes one.
    pub pool: Option<usize>,
}

#[derive(Module, Debug)]
pub struct Squeeze {
    pub fc1: Conv2d,
    pub fc2: Conv2d,
}

#[derive(Module, Debug)]
pub struct Downsample {
    pub conv: Conv2d,
    pub bn: BatchNorm,
}

impl ResNet {
    /// `[batch, channels, height, width]` → logits `[batch, classes]`
    pub fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let x = match (&self.stem, &self.conv1) {
            (Some(stem), _) => stem.forward(x),
            (None, Some(conv1)) => conv1.forward(x),
            (None, None) => unreachable!("a stem of one kind"),
        };
        let pool = MaxPool2dConfig::new([3, 3])
            .with_strides([2, 2])
            .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
            .init();
        let x = pool.forward(relu(self.bn1.forward(x)));
        let x = [&self.layer1, &self.layer2, &self.layer3, &self.layer4]
            .into_iter()
            .flat_map(|layer| &layer.blocks)
            .fold(x, |x, block| block.forward(x));
        self.fc.forward(mean_over_map(x))
    }
}

impl Stem {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let mut x = self.convs[0].forward(x);
        for (norm, conv) in self.norms.iter().zip(&self.convs[1..]) {
            x = conv.forward(relu(norm.forward(x)));
        }
        x
    }
}

impl Block {
    fn new(c: &BlockConfig, pooled: bool, device: &Device) -> Self {
        let BlockConfig { before, width, out, stride, groups, bottleneck, .. } = *c;
        let [first, second] = if bottleneck { [1, stride] } else { [stride, 1] };
        let middle = if bottleneck { width } else { out };
        let shortcut = if pooled { 1 } else { stride };
        let one = |i, o| Conv2dConfig::new([i, o], [1, 1]).init(device);
        Self {
            conv1: match bottleneck {
                true => conv([before, width], 1, first, 0, 1, device),
                false => conv([before, width], 3, first, 1, 1, device),
            },
            bn1: batch_norm(width, device),
            conv2: conv([width, middle], 3, second, 1, groups, device),
            bn2: batch_norm(middle, device),
            conv3: bottleneck.then(|| conv([width, out], 1, 1, 0, 1, device)),
            bn3: bottleneck.then(|| batch_norm(out, device)),
            se: c.squeeze.map(|inner| Squeeze { fc1: one(out, inner), fc2: one(inner, out) }),
            downsample: c.downsample.then(|| Downsample {
                conv: conv([before, out], 1, shortcut, 0, 1, device),
                bn: batch_norm(out, device),
            }),
            pool: (pooled && c.downsample && stride > 1).then_some(stride),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let y = relu(self.bn1.forward(self.conv1.forward(x.clone())));
        let mut y = self.bn2.forward(self.conv2.forward(y));
        if let (Some(conv3), Some(bn3)) = (&self.conv3, &self.bn3) {
            y = bn3.forward(conv3.forward(relu(y)));
        }
        if let Some(se) = &self.se {
            let mean = y.clone().mean_dim(3).mean_dim(2);
            y = y * sigmoid(se.fc2.forward(relu(se.fc1.forward(mean))));
        }
        let shortcut = match (&self.downsample, self.pool) {
            (Some(down), Some(stride)) => {
                let pool = AvgPool2dConfig::new([stride, stride])
                    .with_strides([stride, stride])
                    .with_ceil_mode(true)
                    .with_count_include_pad(false)
                    .init();
                down.bn.forward(down.conv.forward(pool.forward(x)))
            }
            (Some(down), None) => down.bn.forward(down.conv.forward(x)),
            (None, _) => x,
        };
        relu(y + shortcut)
    }
}
