//! Swin, for files of the recipe `swin`: attention in shifted windows with a learned table of relative positions.

use burn::module::{Module, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{Initializer, LayerNorm, Linear};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use serde::Deserialize;

use crate::shared::{Activation, Scores, attend, layer_norm, linear, merge_heads, split_heads};

/// Of the norms in the patch embedding and between the stages, whatever the config says.
const EPSILON: f64 = 1e-5;

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub image_size: usize,
    pub patch_size: usize,
    pub num_channels: usize,
    pub embed_dim: usize,
    pub depths: Vec<usize>,
    pub num_heads: Vec<usize>,
    pub window_size: usize,
    pub mlp_ratio: f64,
    pub qkv_bias: bool,
    pub hidden_act: Activation,
    pub layer_norm_eps: f64,
    pub use_absolute_embeddings: bool,
    /// Classes of the classifier, if there is one: the converted file tells.
    #[serde(skip)]
    pub classes: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            image_size: 224,
            patch_size: 4,
            num_channels: 3,
            embed_dim: 96,
            depths: vec![2, 2, 6, 2],
            num_heads: vec![3, 6, 12, 24],
            window_size: 7,
            mlp_ratio: 4.0,
            qkv_bias: true,
            hidden_act: Activation::Gelu,
            layer_norm_eps: 1e-5,
            use_absolute_embeddings: false,
            classes: None,
        }
    }
}

impl Config {
    fn block(&self, width: usize, heads: usize, shifted: bool, device: &Device) -> Block {
        let ff = (width as f64 * self.mlp_ratio) as usize;
        let table = (2 * self.window_size - 1).pow(2);
        let project = |bias| linear(width, width, bias, device);
        Block {
            norm_1: layer_norm(width, self.layer_norm_eps, device),
            attention: Attention {
                query: project(self.qkv_bias),
                key: project(self.qkv_bias),
                value: project(self.qkv_bias),
                output: project(true),
                relative_position_bias_table: Initializer::Zeros.init([table, heads], device),
                heads,
            },
            norm_2: layer_norm(width, self.layer_norm_eps, device),
            mlp: Mlp {
                fc1: linear(width, ff, true, device),
                fc2: linear(ff, width, true, device),
                activation: self.hidden_act,
            },
            window: self.window_size,
            shifted,
        }
    }

    pub fn init(&self, device: &Device) -> Swin {
        let (c, stages) = (self.embed_dim, self.depths.len());
        let patch = [self.patch_size, self.patch_size];
        let stage = |s: usize| {
            let width = c << s;
            Stage {
                blocks: (0..self.depths[s]).map(|i| self.block(width, self.num_heads[s], i % 2 == 1, device)).collect(),
                downsample: (s + 1 < stages).then(|| Downsample {
                    norm: layer_norm(4 * width, EPSILON, device),
                    reduction: linear(4 * width, 2 * width, false, device),
                }),
            }
        };
        let last = c << (stages - 1);
        let patches = (self.image_size / self.patch_size).pow(2);
        Swin {
            patch_embedding: PatchEmbedding {
                conv: Conv2dConfig::new([self.num_channels, c], patch).with_stride(patch).init(device),
                norm: layer_norm(c, EPSILON, device),
            },
            position_embeddings: self.use_absolute_embeddings.then(|| Initializer::Zeros.init([1, patches, c], device)),
            stages: (0..stages).map(stage).collect(),
            norm: layer_norm(last, self.layer_norm_eps, device),
            classifier: self.classes.map(|classes| linear(last, classes, true, device)),
        }
    }
}

#[derive(Module, Debug)]
pub struct Swin {
    pub patch_embedding: PatchEmbedding,
    pub position_embeddings: Option<Param<Tensor<3>>>,
    pub stages: Vec<Stage>,
    pub norm: LayerNorm,
    pub classifier: Option<Linear>,
}

#[derive(Module, Debug)]
pub struct PatchEmbedding {
    pub conv: Conv2d,
    pub norm: LayerNorm,
}

#[derive(Module, Debug)]
pub struct Stage {
    pub blocks: Vec<Block>,
    pub downsample: Option<Downsample>,
}

#[derive(Module, Debug)]
pub struct Downsample {
    pub norm: LayerNorm,
    pub reduction: Linear,
}

#[derive(Module, Debug)]
pub struct Block {
    pub norm_1: LayerNorm,
    pub attention: Attention,
    pub norm_2: LayerNorm,
    pub mlp: Mlp,
    pub window: usize,
    pub shifted: bool,
}

#[derive(Module, Debug)]
pub struct Attention {
    pub query: Linear,
    pub key: Linear,
    pub value: Linear,
    pub output: Linear,
    pub relative_position_bias_table: Param<Tensor<2>>,
    pub heads: usize,
}

#[derive(Module, Debug)]
pub struct Mlp {
    pub fc1: Linear,
    pub fc2: Linear,
    #[module(skip)]
    pub activation: Activation,
}

impl Swin {
    /// `[batch, channels, height, width]` → the last hidden states, normed: `[batch, places, width]`
    pub fn hidden(&self, pixels: Tensor<4>) -> Tensor<3> {
        let x = self.patch_embedding.conv.forward(pixels).permute([0, 2, 3, 1]);
        let mut x = self.patch_embedding.norm.forward(x);
        if let Some(table) = &self.position_embeddings {
            let dims = x.dims();
            x = x + table.val().expand([dims[0] as i64, -1, -1]).reshape(dims);
        }
        for stage in &self.stages {
            x = stage.forward(x);
        }
        self.norm.forward(x.flatten::<3>(1, 2))
    }

    /// The mean over all places: `[batch, width]`
    pub fn pooled(&self, hidden: Tensor<3>) -> Tensor<2> {
        hidden.mean_dim(1).squeeze_dim(1)
    }

    pub fn classify(&self, pooled: Tensor<2>) -> Option<Tensor<2>> {
        Some(self.classifier.as_ref()?.forward(pooled))
    }
}

impl Stage {
    /// Images are `[batch, height, width, channels]` here.
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let x = self.blocks.iter().fold(x, |x, block| block.forward(x));
        match &self.downsample {
            Some(down) => down.forward(x),
            None => x,
        }
    }
}

impl Downsample {
    /// Four neighbours become one place of twice the width.
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let [batch, height, width, c] = x.dims();
        let x = pad_to(x, height.next_multiple_of(2), width.next_multiple_of(2));
        let [_, height, width, _] = x.dims();
        let x = x.reshape([batch, height / 2, 2, width / 2, 2, c]).permute([0, 1, 3, 4, 2, 5]);
        self.reduction.forward(self.norm.forward(x.reshape([batch, height / 2, width / 2, 4 * c])))
    }
}

/// Zeros below and to the right.
fn pad_to(x: Tensor<4>, height: usize, width: usize) -> Tensor<4> {
    let [batch, h, w, c] = x.dims();
    let device = x.device();
    let x = if h < height { Tensor::cat(vec![x, Tensor::zeros([batch, height - h, w, c], &device)], 1) } else { x };
    if w < width { Tensor::cat(vec![x, Tensor::zeros([batch, height, width - w, c], &device)], 2) } else { x }
}

impl Block {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let [batch, height, width, c] = x.dims();
        // A map no larger than the window is one window, and nothing moves.
        let whole = height.min(width) <= self.window;
        let window = if whole { height.min(width) } else { self.window };
        let shift = if self.shifted && !whole { window / 2 } else { 0 };
        let y = pad_to(self.norm_1.forward(x.clone()), height.next_multiple_of(window), width.next_multiple_of(window));
        let [_, high, wide, _] = y.dims();
        let back = shift as i64;
        let y = if shift > 0 { y.roll(&[-back, -back], &[1, 2]) } else { y };
        let (rows, columns) = (high / window, wide / window);
        let windows = y.reshape([batch, rows, window, columns, window, c]).permute([0, 1, 3, 2, 4, 5]).reshape([
            batch * rows * columns,
            window * window,
            c,
        ]);
        let mask = (shift > 0).then(|| regions([high, wide], window, shift, batch, &x.device()));
        let y = self
            .attention
            .forward(windows, window, mask)
            .reshape([batch, rows, columns, window, window, c])
            .permute([0, 1, 3, 2, 4, 5])
            .reshape([batch, high, wide, c]);
        let y = if shift > 0 { y.roll(&[back, back], &[1, 2]) } else { y };
        let x = x + y.narrow(1, 0, height).narrow(2, 0, width);
        let mlp = &self.mlp;
        x.clone() + mlp.fc2.forward(mlp.activation.forward(mlp.fc1.forward(self.norm_2.forward(x))))
    }
}

/// True where two places of a shifted window were not neighbours: `[batch * windows, 1, places, places]`
fn regions([height, width]: [usize; 2], window: usize, shift: usize, batch: usize, device: &Device) -> Tensor<4, Bool> {
    let region = |i: usize, size: usize| usize::from(i >= size - window) + usize::from(i >= size - shift);
    let (rows, columns, places) = (height / window, width / window, window * window);
    let at = |w: usize, place: usize| {
        let y = w / columns * window + place / window;
        let x = w % columns * window + place % window;
        (region(y, height), region(x, width))
    };
    let cells: Vec<bool> = (0..rows * columns * places * places)
        .map(|i| {
            let (w, pair) = (i / (places * places), i % (places * places));
            at(w, pair / places) != at(w, pair % places)
        })
        .collect();
    let mask = Tensor::<4, Bool>::from_data(TensorData::new(cells, [rows * columns, 1, places, places]), device);
    mask.repeat(&[batch, 1, 1, 1])
}

impl Attention {
    fn forward(&self, x: Tensor<3>, window: usize, mask: Option<Tensor<4, Bool>>) -> Tensor<3> {
        let heads = |layer: &Linear| split_heads(layer.forward(x.clone()), self.heads);
        let bias = self.bias(window, &x.device());
        let (q, k, v) = (heads(&self.query), heads(&self.key), heads(&self.value));
        self.output.forward(merge_heads(attend(q, k, v, mask, Some(bias), &Scores::default())))
    }

    /// The table's rows for each pair of places: `[1, heads, places, places]`
    fn bias(&self, window: usize, device: &Device) -> Tensor<4> {
        let table = self.relative_position_bias_table.val();
        let side = (table.dims()[0] as f64).sqrt() as usize;
        let (places, middle) = (window * window, side / 2);
        let row = |i: usize| {
            let (q, k) = (i / places, i % places);
            let y = q / window + middle - k / window;
            let x = q % window + middle - k % window;
            (y * side + x) as i64
        };
        let rows: Vec<i64> = (0..places * places).map(row).collect();
        let rows = Tensor::<1, Int>::from_data(TensorData::new(rows, [places * places]), device);
        table.select(0, rows).transpose().reshape([1, self.heads, places, places])
    }
}
