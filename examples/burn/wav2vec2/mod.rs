//! wav2vec 2.0, for files of the recipe `wav2vec2`: base models norm after each part, large ones before.

use burn::module::Module;
use burn::nn::conv::{Conv1d, Conv1dConfig};
use burn::nn::{GroupNorm, GroupNormConfig, LayerNorm, Linear, PaddingConfig1d};
use burn::tensor::{Device, Tensor};
use serde::Deserialize;

use crate::shared::{Activation, Scores, attend, layer_norm, linear, merge_heads, split_heads};

/// Of the norms in the feature extractor, whatever the config says.
const EPSILON: f64 = 1e-5;

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub hidden_act: Activation,
    pub layer_norm_eps: f64,
    pub conv_dim: Vec<usize>,
    pub conv_kernel: Vec<usize>,
    pub conv_stride: Vec<usize>,
    pub conv_bias: bool,
    /// `group`: a group norm after the first convolution; `layer`: a layer norm after each.
    pub feat_extract_norm: String,
    pub feat_extract_activation: Activation,
    pub num_conv_pos_embeddings: usize,
    pub num_conv_pos_embedding_groups: usize,
    pub do_stable_layer_norm: bool,
    /// What the converted file has besides the encoder.
    #[serde(skip)]
    pub tokens: Option<usize>,
    /// Widths of the projector and the classifier.
    #[serde(skip)]
    pub classes: Option<[usize; 2]>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            hidden_size: 768,
            intermediate_size: 3072,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            hidden_act: Activation::Gelu,
            layer_norm_eps: 1e-5,
            conv_dim: vec![512; 7],
            conv_kernel: vec![10, 3, 3, 3, 3, 2, 2],
            conv_stride: vec![5, 2, 2, 2, 2, 2, 2],
            conv_bias: false,
            feat_extract_norm: "group".into(),
            feat_extract_activation: Activation::Gelu,
            num_conv_pos_embeddings: 128,
            num_conv_pos_embedding_groups: 16,
            do_stable_layer_norm: false,
            tokens: None,
            classes: None,
        }
    }
}

impl Config {
    fn conv_layer(&self, i: usize, device: &Device) -> ConvLayer {
        let c = &self.conv_dim;
        let layered = self.feat_extract_norm == "layer";
        let before = if i == 0 { 1 } else { c[i - 1] };
        ConvLayer {
            conv: Conv1dConfig::new(before, c[i], self.conv_kernel[i])
                .with_stride(self.conv_stride[i])
                .with_bias(self.conv_bias)
                .init(device),
            layer_norm: layered.then(|| layer_norm(c[i], EPSILON, device)),
            group_norm: (!layered && i == 0)
                .then(|| GroupNormConfig::new(c[0], c[0]).with_epsilon(EPSILON).init(device)),
            activation: self.feat_extract_activation,
        }
    }

    pub fn init(&self, device: &Device) -> Wav2Vec2 {
        let (d, ff, eps) = (self.hidden_size, self.intermediate_size, self.layer_norm_eps);
        let plain = || linear(d, d, true, device);
        let layer = |_| Layer {
            attention: Attention {
                q_proj: plain(),
                k_proj: plain(),
                v_proj: plain(),
                out_proj: plain(),
                heads: self.num_attention_heads,
            },
            layer_norm: layer_norm(d, eps, device),
            feed_forward: FeedForward {
                intermediate_dense: linear(d, ff, true, device),
                output_dense: linear(ff, d, true, device),
                activation: self.hidden_act,
            },
            final_layer_norm: layer_norm(d, eps, device),
        };
        let kernel = self.num_conv_pos_embeddings;
        let last = self.conv_dim[self.conv_dim.len() - 1];
        Wav2Vec2 {
            feature_extractor: FeatureExtractor {
                conv_layers: (0..self.conv_dim.len()).map(|i| self.conv_layer(i, device)).collect(),
            },
            feature_projection: FeatureProjection {
                layer_norm: layer_norm(last, eps, device),
                projection: linear(last, d, true, device),
            },
            encoder: Encoder {
                pos_conv_embed: PositionalConv {
                    conv: Conv1dConfig::new(d, d, kernel)
                        .with_padding(PaddingConfig1d::Explicit(kernel / 2, kernel / 2))
                        .with_groups(self.num_conv_pos_embedding_groups)
                        .init(device),
                    activation: self.feat_extract_activation,
                },
                layer_norm: layer_norm(d, eps, device),
                layers: (0..self.num_hidden_layers).map(layer).collect(),
                stable: self.do_stable_layer_norm,
            },
            lm_head: self.tokens.map(|tokens| linear(d, tokens, true, device)),
            projector: self.classes.map(|[width, _]| linear(d, width, true, device)),
            classifier: self.classes.map(|[width, classes]| linear(width, classes, true, device)),
        }
    }
}

#[derive(Module, Debug)]
pub struct Wav2Vec2 {
    pub feature_extractor: FeatureExtractor,
    pub feature_projection: FeatureProjection,
    pub encoder: Encoder,
    pub lm_head: Option<Linear>,
    pub projector: Option<Linear>,
    pub classifier: Option<Linear>,
}

#[derive(Module, Debug)]
pub struct FeatureExtractor {
    pub conv_layers: Vec<ConvLayer>,
}

#[derive(Module, Debug)]
pub struct ConvLayer {
    pub conv: Conv1d,
    pub layer_norm: Option<LayerNorm>,
    pub group_norm: Option<GroupNorm>,
    #[module(skip)]
    pub activation: Activation,
}

#[derive(Module, Debug)]
pub struct FeatureProjection {
    pub layer_norm: LayerNorm,
    pub projection: Linear,
}

#[derive(Module, Debug)]
pub struct Encoder {
    pub pos_conv_embed: PositionalConv,
    pub layer_norm: LayerNorm,
    pub layers: Vec<Layer>,
    /// Norms before each part, and `layer_norm` at the end.
    pub stable: bool,
}

#[derive(Module, Debug)]
pub struct PositionalConv {
    pub conv: Conv1d,
    #[module(skip)]
    pub activation: Activation,
}

#[derive(Module, Debug)]
pub struct Layer {
    pub attention: Attention,
    pub layer_norm: LayerNorm,
    pub feed_forward: FeedForward,
    pub final_layer_norm: LayerNorm,
}

#[derive(Module, Debug)]
pub struct Attention {
    pub q_proj: Linear,
    pub k_proj: Linear,
    pub v_proj: Linear,
    pub out_proj: Linear,
    pub heads: usize,
}

#[derive(Module, Debug)]
pub struct FeedForward {
    pub intermediate_dense: Linear,
    pub output_dense: Linear,
    #[module(skip)]
    pub activation: Activation,
}

impl Wav2Vec2 {
    /// A waveform `[batch, samples]` → the last hidden states `[batch, frames, hidden]`
    pub fn hidden(&self, waveform: Tensor<2>) -> Tensor<3> {
        let x = waveform.unsqueeze_dim(1);
        let x = self.feature_extractor.conv_layers.iter().fold(x, |x, layer| layer.forward(x)).swap_dims(1, 2);
        let p = &self.feature_projection;
        self.encoder.forward(p.projection.forward(p.layer_norm.forward(x)))
    }

    /// Logits of tokens: `[batch, frames, tokens]`, if there is a head.
    pub fn speak(&self, hidden: Tensor<3>) -> Option<Tensor<3>> {
        Some(self.lm_head.as_ref()?.forward(hidden))
    }

    /// Logits of the whole sound: `[batch, classes]`, if there is a classifier.
    pub fn classify(&self, hidden: Tensor<3>) -> Option<Tensor<2>> {
        let mean: Tensor<2> = self.projector.as_ref()?.forward(hidden).mean_dim(1).squeeze_dim(1);
        Some(self.classifier.as_ref()?.forward(mean))
    }
}

impl ConvLayer {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let x = self.conv.forward(x);
        let x = match (&self.layer_norm, &self.group_norm) {
            (Some(norm), _) => norm.forward(x.swap_dims(1, 2)).swap_dims(1, 2),
            (_, Some(norm)) => norm.forward(x),
            _ => x,
        };
        self.activation.forward(x)
    }
}

impl Encoder {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let place = self.pos_conv_embed.conv.forward(x.clone().swap_dims(1, 2)).narrow(2, 0, x.dims()[1]);
        let x = x + self.pos_conv_embed.activation.forward(place).swap_dims(1, 2);
        if self.stable {
            return self.layer_norm.forward(self.layers.iter().fold(x, |x, layer| layer.before(x)));
        }
        self.layers.iter().fold(self.layer_norm.forward(x), |x, layer| layer.after(x))
    }
}

impl Layer {
    /// Norms after each part.
    fn after(&self, x: Tensor<3>) -> Tensor<3> {
        let x = self.layer_norm.forward(x.clone() + self.attention.forward(x));
        self.final_layer_norm.forward(x.clone() + self.feed_forward.forward(x))
    }

    /// Norms before each part.
    fn before(&self, x: Tensor<3>) -> Tensor<3> {
        let x = x.clone() + self.attention.forward(self.layer_norm.forward(x));
        x.clone() + self.feed_forward.forward(self.final_layer_norm.forward(x))
    }
}

impl Attention {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let heads = |layer: &Linear| split_heads(layer.forward(x.clone()), self.heads);
        let (q, k, v) = (heads(&self.q_proj), heads(&self.k_proj), heads(&self.v_proj));
        self.out_proj.forward(merge_heads(attend(q, k, v, None, None, &Scores::default())))
    }
}

impl FeedForward {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        self.output_dense.forward(self.activation.forward(self.intermediate_dense.forward(x)))
    }
}
