//! MobileNetV2, for files of the recipe `mobilenet_v2` and mobilenetv2-burn's tree: an enum of plain convolutions and
//! inverted residuals.

use burn::module::Module;
use burn::nn::conv::Conv2d;
use burn::nn::{BatchNorm, Linear};
use burn::tensor::{Device, Tensor};

use crate::shared::{Shapes, batch_norm, conv, linear, mean_over_map};

/// Strides of the 17 inverted residuals, in every width.
const STRIDES: [usize; 17] = [1, 2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1];

/// Sizes, all of which a converted file tells.
#[derive(Clone, Debug)]
pub struct Config {
    pub channels: usize,
    pub stem: usize,
    /// Inner and outer widths of each inverted residual.
    pub blocks: Vec<[usize; 2]>,
    pub last: usize,
    pub classes: usize,
}

impl Config {
    pub fn of(shapes: &Shapes) -> Self {
        let residual = |i: &usize| shapes.has(&format!("features.{i}.InvertedResidual.dw.conv.weight"));
        let n = (1..).take_while(residual).count();
        let width = |i: usize, part: &str| shapes.size(&format!("features.{i}.InvertedResidual.{part}.conv.weight"), 0);
        Self {
            channels: shapes.size("features.0.Conv.conv.weight", 1),
            stem: shapes.size("features.0.Conv.conv.weight", 0),
            blocks: (1..=n).map(|i| [width(i, "dw"), width(i, "pw_linear")]).collect(),
            last: shapes.size(&format!("features.{}.Conv.conv.weight", n + 1), 0),
            classes: shapes.size("classifier.linear.bias", 0),
        }
    }

    pub fn init(&self, device: &Device) -> MobileNetV2 {
        let unit = |channels, kernel, stride, groups| ConvNorm {
            conv: conv(channels, kernel, stride, kernel / 2, groups, device),
            norm: batch_norm(channels[1], device),
        };
        let mut features = vec![Feature::Conv(unit([self.channels, self.stem], 3, 2, 1))];
        let mut before = self.stem;
        for ([inner, out], stride) in self.blocks.iter().copied().zip(STRIDES) {
            features.push(Feature::InvertedResidual(InvertedResidual {
                pw: (inner != before || features.len() > 1).then(|| unit([before, inner], 1, 1, 1)),
                dw: unit([inner, inner], 3, stride, inner),
                pw_linear: unit([inner, out], 1, 1, 1),
                residual: stride == 1 && before == out,
            }));
            before = out;
        }
        features.push(Feature::Conv(unit([before, self.last], 1, 1, 1)));
        MobileNetV2 { features, classifier: Classifier { linear: linear(self.last, self.classes, true, device) } }
    }
}

#[derive(Module, Debug)]
pub struct MobileNetV2 {
    pub features: Vec<Feature>,
    pub classifier: Classifier,
}

#[derive(Module, Debug)]
pub enum Feature {
    Conv(ConvNorm),
    InvertedResidual(InvertedResidual),
}

#[derive(Module, Debug)]
pub struct ConvNorm {
    pub conv: Conv2d,
    pub norm: BatchNorm,
}

#[derive(Module, Debug)]
pub struct InvertedResidual {
    pub pw: Option<ConvNorm>,
    pub dw: ConvNorm,
    pub pw_linear: ConvNorm,
    pub residual: bool,
}

#[derive(Module, Debug)]
pub struct Classifier {
    pub linear: Linear,
}

impl MobileNetV2 {
    /// `[batch, channels, height, width]` → logits `[batch, classes]`
    pub fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let x = self.features.iter().fold(x, |x, feature| match feature {
            Feature::Conv(unit) => unit.forward(x).clamp(0.0, 6.0),
            Feature::InvertedResidual(block) => block.forward(x),
        });
        self.classifier.linear.forward(mean_over_map(x))
    }
}

impl ConvNorm {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.norm.forward(self.conv.forward(x))
    }
}

impl InvertedResidual {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let y = match &self.pw {
            Some(pw) => pw.forward(x.clone()).clamp(0.0, 6.0),
            None => x.clone(),
        };
        let y = self.pw_linear.forward(self.dw.forward(y).clamp(0.0, 6.0));
        if self.residual { x + y } else { y }
    }
}
