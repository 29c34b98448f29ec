//! ResNet-18 to 152, for files of the recipe `resnet` and resnet-burn's tree: the blocks are an enum, whose variants stand
//! in the names.

use burn::module::Module;
use burn::nn::conv::Conv2d;
use burn::nn::pool::MaxPool2dConfig;
use burn::nn::{BatchNorm, Linear, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};

use crate::shared::{Shapes, batch_norm, conv, linear, mean_over_map};

/// Sizes, all of which a converted file tells.
#[derive(Clone, Debug)]
pub struct Config {
    pub channels: usize,
    pub stem: usize,
    /// Inner widths of the four stages.
    pub widths: [usize; 4],
    pub blocks: [usize; 4],
    /// Three convolutions per block (ResNet-50 and up), not two.
    pub bottleneck: bool,
    pub classes: usize,
}

impl Config {
    pub fn of(shapes: &Shapes) -> Self {
        let bottleneck = shapes.has("layer1.blocks.0.Bottleneck.conv1.weight");
        let kind = if bottleneck { "Bottleneck" } else { "Basic" };
        let stages = [1, 2, 3, 4];
        Self {
            channels: shapes.size("conv1.weight", 1),
            stem: shapes.size("conv1.weight", 0),
            widths: stages.map(|s| shapes.size(&format!("layer{s}.blocks.0.{kind}.conv1.weight"), 0)),
            blocks: stages.map(|s| shapes.count(&format!("layer{s}.blocks.{{}}.{kind}.conv1.weight"))),
            bottleneck,
            classes: shapes.size("fc.bias", 0),
        }
    }

    pub fn init(&self, device: &Device) -> ResNet {
        let out = |width: usize| if self.bottleneck { 4 * width } else { width };
        let layer = |s: usize| {
            let (width, stride) = (self.widths[s], if s == 0 { 1 } else { 2 });
            let before = if s == 0 { self.stem } else { out(self.widths[s - 1]) };
            let block = |i: usize| {
                let (before, stride) = if i == 0 { (before, stride) } else { (out(width), 1) };
                Block::new([before, width, out(width)], stride, self.bottleneck, device)
            };
            Layer { blocks: (0..self.blocks[s]).map(block).collect() }
        };
        ResNet {
            conv1: conv([self.channels, self.stem], 7, 2, 3, 1, device),
            bn1: batch_norm(self.stem, device),
            layer1: layer(0),
            layer2: layer(1),
            layer3: layer(2),
            layer4: layer(3),
            fc: linear(out(self.widths[3]), self.classes, true, device),
        }
    }
}

#[derive(Module, Debug)]
pub struct ResNet {
    pub conv1: Conv2d,
    pub bn1: BatchNorm,
    pub layer1: Layer,
    pub layer2: Layer,
    pub layer3: Layer,
    pub layer4: Layer,
    pub fc: Linear,
}

#[derive(Module, Debug)]
pub struct Layer {
    pub blocks: Vec<Block>,
}

#[derive(Module, Debug)]
pub enum Block {
    Basic(Basic),
    Bottleneck(Bottleneck),
}

#[derive(Module, Debug)]
pub struct Basic {
    pub conv1: Conv2d,
    pub bn1: BatchNorm,
    pub conv2: Conv2d,
    pub bn2: BatchNorm,
    pub downsample: Option<Downsample>,
}

#[derive(Module, Debug)]
pub struct Bottleneck {
    pub conv1: Conv2d,
    pub bn1: BatchNorm,
    pub conv2: Conv2d,
    pub bn2: BatchNorm,
    pub conv3: Conv2d,
    pub bn3: BatchNorm,
    pub downsample: Option<Downsample>,
}

#[derive(Module, Debug)]
pub struct Downsample {
    pub conv: Conv2d,
    pub bn: BatchNorm,
}

impl ResNet {
    /// `[batch, channels, height, width]` → logits `[batch, classes]`
    pub fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let pool = MaxPool2dConfig::new([3, 3])
            .with_strides([2, 2])
            .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
            .init();
        let x = pool.forward(relu(self.bn1.forward(self.conv1.forward(x))));
        let x = [&self.layer1, &self.layer2, &self.layer3, &self.layer4]
            .into_iter()
            .flat_map(|layer| &layer.blocks)
            .fold(x, |x, block| block.forward(x));
        self.fc.forward(mean_over_map(x))
    }
}

impl Block {
    /// `[into, inner, out]` channels. A bottleneck strides at its second convolution, as torchvision's do.
    fn new([before, width, out]: [usize; 3], stride: usize, bottleneck: bool, device: &Device) -> Self {
        let downsample = (stride != 1 || before != out)
            .then(|| Downsample { conv: conv([before, out], 1, stride, 0, 1, device), bn: batch_norm(out, device) });
        if !bottleneck {
            return Self::Basic(Basic {
                conv1: conv([before, width], 3, stride, 1, 1, device),
                bn1: batch_norm(width, device),
                conv2: conv([width, out], 3, 1, 1, 1, device),
                bn2: batch_norm(out, device),
                downsample,
            });
        }
        Self::Bottleneck(Bottleneck {
            conv1: conv([before, width], 1, 1, 0, 1, device),
            bn1: batch_norm(width, device),
            conv2: conv([width, width], 3, stride, 1, 1, device),
            bn2: batch_norm(width, device),
            conv3: conv([width, out], 1, 1, 0, 1, device),
            bn3: batch_norm(out, device),
            downsample,
        })
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let (y, downsample) = match self {
            Self::Basic(b) => {
                let y = relu(b.bn1.forward(b.conv1.forward(x.clone())));
                (b.bn2.forward(b.conv2.forward(y)), &b.downsample)
            }
            Self::Bottleneck(b) => {
                let y = relu(b.bn1.forward(b.conv1.forward(x.clone())));
                let y = relu(b.bn2.forward(b.conv2.forward(y)));
                (b.bn3.forward(b.conv3.forward(y)), &b.downsample)
            }
        };
        let shortcut = match downsample {
            Some(down) => down.bn.forward(down.conv.forward(x)),
            None => x,
        };
        relu(y + shortcut)
    }
}
