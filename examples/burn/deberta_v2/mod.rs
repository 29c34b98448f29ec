//! DeBERTa v2 and v3, for files of the recipe `deberta-v2`: scores from content to position and back.

use burn::module::Module;
use burn::nn::conv::{Conv1d, Conv1dConfig};
use burn::nn::{Embedding, LayerNorm, Linear, PaddingConfig1d};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use serde::Deserialize;

use crate::shared::{Activation, embedding, layer_norm, linear, merge_heads, padding, positions, split_heads};

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub embedding_size: Option<usize>,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub max_position_embeddings: usize,
    pub type_vocab_size: usize,
    pub hidden_act: Activation,
    pub layer_norm_eps: f64,
    pub position_biased_input: bool,
    pub relative_attention: bool,
    pub share_att_key: bool,
    pub position_buckets: i64,
    pub max_relative_positions: i64,
    pub norm_rel_ebd: String,
    pub pos_att_type: Kinds,
    pub conv_kernel_size: usize,
    pub conv_groups: usize,
    pub conv_act: Activation,
    #[serde(skip)]
    pub heads: Heads,
}

/// `["p2c", "c2p"]`, or `"p2c|c2p"` in older files.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Kinds {
    List(Vec<String>),
    Text(String),
}

/// What stands on the encoder: the converted file tells.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    pub pooler: bool,
    pub language_model: bool,
    pub discriminator: bool,
    pub classes: Option<usize>,
    pub spans: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 128_100,
            hidden_size: 1536,
            embedding_size: None,
            intermediate_size: 6144,
            num_hidden_layers: 24,
            num_attention_heads: 24,
            max_position_embeddings: 512,
            type_vocab_size: 0,
            hidden_act: Activation::Gelu,
            layer_norm_eps: 1e-7,
            position_biased_input: true,
            relative_attention: false,
            share_att_key: false,
            position_buckets: -1,
            max_relative_positions: -1,
            norm_rel_ebd: "none".into(),
            pos_att_type: Kinds::List(vec![]),
            conv_kernel_size: 0,
            conv_groups: 1,
            conv_act: Activation::Tanh,
            heads: Heads::default(),
        }
    }
}

impl Config {
    /// How far relative positions are told apart, after bucketing.
    pub fn span(&self) -> usize {
        if self.position_buckets > 0 { self.position_buckets as usize } else { self.reach() }
    }

    fn reach(&self) -> usize {
        if self.max_relative_positions > 0 {
            self.max_relative_positions as usize
        } else {
            self.max_position_embeddings
        }
    }

    fn has(&self, kind: &str) -> bool {
        match &self.pos_att_type {
            Kinds::List(kinds) => kinds.iter().any(|k| k == kind),
            Kinds::Text(text) => text.split('|').any(|k| k == kind),
        }
    }

    pub fn init(&self, device: &Device) -> DebertaV2 {
        let (d, ff, eps) = (self.hidden_size, self.intermediate_size, self.layer_norm_eps);
        let e = self.embedding_size.unwrap_or(d);
        let plain = |width: usize| linear(d, width, true, device);
        let norm = || layer_norm(d, eps, device);
        let own = |kind: &str| self.relative_attention && !self.share_att_key && self.has(kind);
        let block = |_| Block {
            attention: Attention {
                query: plain(d),
                key: plain(d),
                value: plain(d),
                output: plain(d),
                pos_key: own("c2p").then(|| plain(d)),
                pos_query: own("p2c").then(|| plain(d)),
                heads: self.num_attention_heads,
            },
            norm_1: norm(),
            pwff: FeedForward {
                linear_inner: plain(ff),
                linear_outer: linear(ff, d, true, device),
                activation: self.hidden_act,
            },
            norm_2: norm(),
        };
        let kernel = self.conv_kernel_size;
        let head = || LmHead { dense: plain(d), layer_norm: norm(), decoder: plain(self.vocab_size) };
        DebertaV2 {
            embeddings: Embeddings {
                word_embeddings: embedding(self.vocab_size, e, device),
                position_embeddings: self
                    .position_biased_input
                    .then(|| embedding(self.max_position_embeddings, e, device)),
                token_type_embeddings: (self.type_vocab_size > 0).then(|| embedding(self.type_vocab_size, e, device)),
                embed_proj: (e != d).then(|| linear(e, d, false, device)),
                layer_norm: norm(),
            },
            encoder: Encoder {
                layers: (0..self.num_hidden_layers).map(block).collect(),
                rel_embeddings: self.relative_attention.then(|| embedding(2 * self.span(), d, device)),
                layer_norm: (self.relative_attention && self.norm_rel_ebd.contains("layer_norm")).then(norm),
                conv: (kernel > 0).then(|| ConvLayer {
                    conv: Conv1dConfig::new(d, d, kernel)
                        .with_padding(PaddingConfig1d::Explicit((kernel - 1) / 2, (kernel - 1) / 2))
                        .with_groups(self.conv_groups)
                        .init(device),
                    layer_norm: norm(),
                    activation: self.conv_act,
                }),
            },
            pooler: self.heads.pooler.then(|| Pooler { dense: plain(d) }),
            lm_head: self.heads.language_model.then(head),
            mask_predictions: self.heads.discriminator.then(|| Discriminator {
                dense: plain(d),
                layer_norm: norm(),
                classifier: plain(1),
            }),
            classifier: self.heads.classes.map(plain),
            qa_outputs: self.heads.spans.then(|| plain(2)),
            config: self.clone(),
        }
    }

    /// Distances `query - key`, bucketed logarithmically where the config says so.
    fn distance(&self, query: usize, key: usize) -> i64 {
        let distance = query as i64 - key as i64;
        if self.position_buckets <= 0 {
            return distance;
        }
        let mid = self.position_buckets / 2;
        if distance.abs() <= mid {
            return distance;
        }
        let log = |x: f32| x.ln();
        let steps = log(distance.abs() as f32 / mid as f32) / log((self.reach() as f32 - 1.0) / mid as f32);
        distance.signum() * ((steps * (mid - 1) as f32).ceil() as i64 + mid)
    }
}

#[derive(Module, Debug)]
pub struct DebertaV2 {
    pub embeddings: Embeddings,
    pub encoder: Encoder,
    pub pooler: Option<Pooler>,
    pub lm_head: Option<LmHead>,
    pub mask_predictions: Option<Discriminator>,
    pub classifier: Option<Linear>,
    pub qa_outputs: Option<Linear>,
    #[module(skip)]
    pub config: Config,
}

#[derive(Module, Debug)]
pub struct Embeddings {
    pub word_embeddings: Embedding,
    pub position_embeddings: Option<Embedding>,
    pub token_type_embeddings: Option<Embedding>,
    pub embed_proj: Option<Linear>,
    pub layer_norm: LayerNorm,
}

#[derive(Module, Debug)]
pub struct Encoder {
    pub layers: Vec<Block>,
    pub rel_embeddings: Option<Embedding>,
    pub layer_norm: Option<LayerNorm>,
    pub conv: Option<ConvLayer>,
}

/// A convolution beside the first layer (xlarge).
#[derive(Module, Debug)]
pub struct ConvLayer {
    pub conv: Conv1d,
    pub layer_norm: LayerNorm,
    #[module(skip)]
    pub activation: Activation,
}

#[derive(Module, Debug)]
pub struct Block {
    pub attention: Attention,
    pub norm_1: LayerNorm,
    pub pwff: FeedForward,
    pub norm_2: LayerNorm,
}

#[derive(Module, Debug)]
pub struct Attention {
    pub query: Linear,
    pub key: Linear,
    pub value: Linear,
    /// Projections of positions, where those of content do not serve them too.
    pub pos_key: Option<Linear>,
    pub pos_query: Option<Linear>,
    pub output: Linear,
    pub heads: usize,
}

#[derive(Module, Debug)]
pub struct FeedForward {
    pub linear_inner: Linear,
    pub linear_outer: Linear,
    #[module(skip)]
    pub activation: Activation,
}

#[derive(Module, Debug)]
pub struct Pooler {
    pub dense: Linear,
}

#[derive(Module, Debug)]
pub struct LmHead {
    pub dense: Linear,
    pub layer_norm: LayerNorm,
    pub decoder: Linear,
}

#[derive(Module, Debug)]
pub struct Discriminator {
    pub dense: Linear,
    pub layer_norm: LayerNorm,
    pub classifier: Linear,
}

/// Rows of the relative embeddings that each pair of tokens looks up, `[1, 1, length, length]` each.
struct Places {
    table: Tensor<3>,
    content_to_position: Option<Tensor<4, Int>>,
    position_to_content: Option<Tensor<4, Int>>,
}

impl DebertaV2 {
    /// The last hidden states. `mask` is the tokenizer's `attention_mask`.
    pub fn hidden(&self, ids: Tensor<2, Int>, types: Option<Tensor<2, Int>>, mask: Tensor<2, Int>) -> Tensor<3> {
        let ([batch, length], device) = (ids.dims(), ids.device());
        let x = self.embeddings.forward(ids, types);
        let x = x * mask.clone().float().unsqueeze_dim::<3>(2);
        let places = self.places(length, &device);
        let real: Tensor<4> = mask.clone().float().reshape([batch, 1, 1, length]);
        let hidden = (real.clone() * real.transpose()).lower_elem(0.5);
        let first = x.clone();
        let mut y = x;
        for (i, layer) in self.encoder.layers.iter().enumerate() {
            y = layer.forward(y, hidden.clone(), places.as_ref());
            if let (0, Some(conv)) = (i, &self.encoder.conv) {
                y = conv.forward(first.clone(), y, mask.clone());
            }
        }
        y
    }

    fn places(&self, length: usize, device: &Device) -> Option<Places> {
        let (c, span) = (&self.config, self.config.span() as i64);
        let table = self.encoder.rel_embeddings.as_ref()?.weight.val();
        let table = match &self.encoder.layer_norm {
            Some(norm) => norm.forward(table),
            None => table,
        };
        let rows = |sign: i64| {
            let row = |i: usize| (sign * c.distance(i / length, i % length) + span).clamp(0, 2 * span - 1);
            let cells: Vec<i64> = (0..length * length).map(row).collect();
            Tensor::from_data(TensorData::new(cells, [1, 1, length, length]), device)
        };
        Some(Places {
            table: table.unsqueeze(),
            content_to_position: c.has("c2p").then(|| rows(1)),
            position_to_content: c.has("p2c").then(|| rows(-1)),
        })
    }
}

impl Embeddings {
    fn forward(&self, ids: Tensor<2, Int>, types: Option<Tensor<2, Int>>) -> Tensor<3> {
        let place = positions(ids.dims()[1], &ids.device());
        let kinds = types.unwrap_or_else(|| ids.zeros_like());
        let mut x = self.word_embeddings.forward(ids);
        if let Some(table) = &self.position_embeddings {
            x = x + table.forward(place);
        }
        if let Some(table) = &self.token_type_embeddings {
            x = x + table.forward(kinds);
        }
        if let Some(project) = &self.embed_proj {
            x = project.forward(x);
        }
        self.layer_norm.forward(x)
    }
}

impl Block {
    fn forward(&self, x: Tensor<3>, hidden: Tensor<4, Bool>, places: Option<&Places>) -> Tensor<3> {
        let x = self.norm_1.forward(x.clone() + self.attention.forward(x, hidden, places));
        let f = &self.pwff;
        let y = f.linear_outer.forward(f.activation.forward(f.linear_inner.forward(x.clone())));
        self.norm_2.forward(x + y)
    }
}

impl Attention {
    fn forward(&self, x: Tensor<3>, hidden: Tensor<4, Bool>, places: Option<&Places>) -> Tensor<3> {
        let heads = |layer: &Linear, x: Tensor<3>| split_heads(layer.forward(x), self.heads);
        let (q, k, v) = (heads(&self.query, x.clone()), heads(&self.key, x.clone()), heads(&self.value, x));
        let [batch, h, length, head] = q.dims();
        let there = |there: bool| usize::from(there);
        let kinds =
            places.map_or(0, |p| there(p.content_to_position.is_some()) + there(p.position_to_content.is_some()));
        let scale = 1.0 / ((head * (1 + kinds)) as f64).sqrt();
        let mut scores = q.clone().matmul(k.clone().transpose());
        if let Some(places) = places {
            let table = |layer: &Linear| heads(layer, places.table.clone());
            let all = |rows: &Tensor<4, Int>| rows.clone().expand([batch, h, length, length]);
            if let Some(rows) = &places.content_to_position {
                scores = scores
                    + q.matmul(table(self.pos_key.as_ref().unwrap_or(&self.key)).transpose()).gather(3, all(rows));
            }
            if let Some(rows) = &places.position_to_content {
                scores = scores
                    + k.matmul(table(self.pos_query.as_ref().unwrap_or(&self.query)).transpose())
                        .gather(3, all(rows))
                        .transpose();
            }
        }
        let shares = burn::tensor::activation::softmax((scores * scale).mask_fill(hidden, f32::MIN), 3);
        self.output.forward(merge_heads(shares.matmul(v)))
    }
}

impl ConvLayer {
    fn forward(&self, x: Tensor<3>, residual: Tensor<3>, mask: Tensor<2, Int>) -> Tensor<3> {
        let y = self.conv.forward(x.swap_dims(1, 2)).swap_dims(1, 2);
        let padded: Tensor<3, Bool> = padding(mask.clone()).unsqueeze_dim(2);
        let y = self.activation.forward(y.clone().mask_fill(padded.expand(y.dims()), 0.0));
        self.layer_norm.forward(residual + y) * mask.float().unsqueeze_dim::<3>(2)
    }
}
