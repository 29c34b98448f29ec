//! ModernBERT, for files of the recipe `modernbert`: rotate-half positions, gated feed-forward, local layers.

use burn::module::Module;
use burn::nn::{Embedding, LayerNorm, LayerNormConfig, Linear};
use burn::tensor::{Bool, Device, Int, Tensor};
use serde::Deserialize;

use crate::shared::{
    Activation, Pairing, Rope, RopeParameters, Rotary, Scores, attend, embedding, key_mask, linear, merge_heads,
    split_heads,
};

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub hidden_activation: Activation,
    pub classifier_activation: Activation,
    pub norm_eps: f64,
    pub norm_bias: bool,
    pub attention_bias: bool,
    pub mlp_bias: bool,
    pub classifier_bias: bool,
    pub decoder_bias: bool,
    /// Tokens that a local layer sees, half of them to either side.
    pub local_attention: usize,
    pub layer_types: Option<Vec<String>>,
    pub global_attn_every_n_layers: usize,
    pub global_rope_theta: f64,
    pub local_rope_theta: Option<f64>,
    #[serde(flatten)]
    pub rope: Rope,
    #[serde(skip)]
    pub heads: Heads,
}

/// What stands on the encoder: the converted file tells.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    /// The layer and norm before the decoder or classifier.
    pub dense: bool,
    pub language_model: bool,
    pub classes: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 50_368,
            hidden_size: 768,
            intermediate_size: 1152,
            num_hidden_layers: 22,
            num_attention_heads: 12,
            hidden_activation: Activation::Gelu,
            classifier_activation: Activation::Gelu,
            norm_eps: 1e-5,
            norm_bias: false,
            attention_bias: false,
            mlp_bias: false,
            classifier_bias: false,
            decoder_bias: true,
            local_attention: 128,
            layer_types: None,
            global_attn_every_n_layers: 3,
            global_rope_theta: 160_000.0,
            local_rope_theta: Some(10_000.0),
            rope: Rope::default(),
            heads: Heads::default(),
        }
    }
}

impl Config {
    /// Whether layer `i` sees its neighbours only.
    pub fn local(&self, i: usize) -> bool {
        match &self.layer_types {
            Some(kinds) => kinds[i] == "sliding_attention",
            None => !i.is_multiple_of(self.global_attn_every_n_layers),
        }
    }

    fn rotary(&self, local: bool, length: usize) -> Rotary {
        let kind = if local { "sliding_attention" } else { "full_attention" };
        let theta = if local { self.local_rope_theta } else { None }.unwrap_or(self.global_rope_theta);
        let rope = match self.rope.rope_parameters {
            Some(_) => self.rope.parameters(kind, theta),
            None => RopeParameters { rope_theta: theta, ..RopeParameters::default() },
        };
        Rotary::new(&rope, self.hidden_size / self.num_attention_heads, Pairing::Halves, length)
    }

    pub fn init(&self, device: &Device) -> ModernBert {
        let (d, ff) = (self.hidden_size, self.intermediate_size);
        let norm = || LayerNormConfig::new(d).with_epsilon(self.norm_eps).with_bias(self.norm_bias).init(device);
        let (ab, mb) = (self.attention_bias, self.mlp_bias);
        let block = |i| Block {
            attn_norm: (i > 0).then(norm),
            attn: Attention {
                query: linear(d, d, ab, device),
                key: linear(d, d, ab, device),
                value: linear(d, d, ab, device),
                output: linear(d, d, ab, device),
                heads: self.num_attention_heads,
            },
            mlp_norm: norm(),
            mlp: Mlp {
                input: linear(d, ff, mb, device),
                gate: linear(d, ff, mb, device),
                output: linear(ff, d, mb, device),
                activation: self.hidden_activation,
            },
        };
        let Heads { dense, language_model, classes } = self.heads;
        let headed = dense || language_model || classes.is_some();
        ModernBert {
            embeddings: Embeddings { tok_embeddings: embedding(self.vocab_size, d, device), norm: norm() },
            layers: (0..self.num_hidden_layers).map(block).collect(),
            final_norm: norm(),
            head: headed.then(|| Head {
                dense: dense.then(|| linear(d, d, self.classifier_bias, device)),
                norm: dense.then(norm),
                decoder: language_model.then(|| linear(d, self.vocab_size, self.decoder_bias, device)),
                classifier: classes.map(|classes| linear(d, classes, true, device)),
                activation: self.classifier_activation,
            }),
            config: self.clone(),
        }
    }
}

#[derive(Module, Debug)]
pub struct ModernBert {
    pub embeddings: Embeddings,
    pub layers: Vec<Block>,
    pub final_norm: LayerNorm,
    pub head: Option<Head>,
    #[module(skip)]
    pub config: Config,
}

#[derive(Module, Debug)]
pub struct Embeddings {
    pub tok_embeddings: Embedding,
    pub norm: LayerNorm,
}

#[derive(Module, Debug)]
pub struct Block {
    /// Layer 0 has none: the embeddings are normed already.
    pub attn_norm: Option<LayerNorm>,
    pub attn: Attention,
    pub mlp_norm: LayerNorm,
    pub mlp: Mlp,
}

#[derive(Module, Debug)]
pub struct Attention {
    pub query: Linear,
    pub key: Linear,
    pub value: Linear,
    pub output: Linear,
    pub heads: usize,
}

#[derive(Module, Debug)]
pub struct Mlp {
    pub input: Linear,
    pub gate: Linear,
    pub output: Linear,
    #[module(skip)]
    pub activation: Activation,
}

#[derive(Module, Debug)]
pub struct Head {
    pub dense: Option<Linear>,
    pub norm: Option<LayerNorm>,
    pub decoder: Option<Linear>,
    pub classifier: Option<Linear>,
    #[module(skip)]
    pub activation: Activation,
}

impl ModernBert {
    /// The last hidden states. `mask` is the tokenizer's `attention_mask`.
    pub fn hidden(&self, ids: Tensor<2, Int>, mask: Tensor<2, Int>) -> Tensor<3> {
        let length = ids.dims()[1];
        let c = &self.config;
        let (near, all) = (c.rotary(true, length), c.rotary(false, length));
        let (few, every) = (key_mask(mask.clone(), Some(c.local_attention / 2)), key_mask(mask, None));
        let mut x = self.embeddings.norm.forward(self.embeddings.tok_embeddings.forward(ids));
        for (i, layer) in self.layers.iter().enumerate() {
            x = if c.local(i) { layer.forward(x, &near, few.clone()) } else { layer.forward(x, &all, every.clone()) };
        }
        self.final_norm.forward(x)
    }
}

impl Block {
    fn forward(&self, x: Tensor<3>, rotary: &Rotary, mask: Tensor<4, Bool>) -> Tensor<3> {
        let normed = match &self.attn_norm {
            Some(norm) => norm.forward(x.clone()),
            None => x.clone(),
        };
        let x = x + self.attn.forward(normed, rotary, mask);
        let (mlp, normed) = (&self.mlp, self.mlp_norm.forward(x.clone()));
        let inner = mlp.activation.forward(mlp.input.forward(normed.clone())) * mlp.gate.forward(normed);
        x + mlp.output.forward(inner)
    }
}

impl Attention {
    fn forward(&self, x: Tensor<3>, rotary: &Rotary, mask: Tensor<4, Bool>) -> Tensor<3> {
        let heads = |layer: &Linear| split_heads(layer.forward(x.clone()), self.heads);
        let (q, k) = (rotary.forward(heads(&self.query), 0), rotary.forward(heads(&self.key), 0));
        let y = attend(q, k, heads(&self.value), Some(mask), None, &Scores::default());
        self.output.forward(merge_heads(y))
    }
}

impl Head {
    /// What the decoder and the classifier of tokens see: `[batch, sequence, hidden]`
    pub fn transform(&self, hidden: Tensor<3>) -> Tensor<3> {
        match (&self.dense, &self.norm) {
            (Some(dense), Some(norm)) => norm.forward(self.activation.forward(dense.forward(hidden))),
            _ => hidden,
        }
    }
}
