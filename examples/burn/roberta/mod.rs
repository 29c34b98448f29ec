//! RoBERTa, XLM-RoBERTa and CamemBERT, for files of the recipes `xlm-roberta` ([`Roberta`]) and `roberta`
//! ([`RobertaMaskedLm`], bert-burn's tree).

use burn::module::Module;
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Embedding, LayerNorm, Linear};
use burn::tensor::activation::gelu;
use burn::tensor::{Device, Int, Tensor};
use serde::Deserialize;

use crate::shared::{Activation, embedding, layer_norm, linear, padding, positions_after_padding};

/// `config.json` of a Hugging Face folder; what is left out has the library's default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Config {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub max_position_embeddings: usize,
    pub type_vocab_size: usize,
    pub hidden_act: Activation,
    pub layer_norm_eps: f64,
    pub pad_token_id: usize,
    #[serde(skip)]
    pub heads: Heads,
}

/// What stands on the encoder: the converted file tells.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    pub pooler: bool,
    pub language_model: bool,
    /// Classes of a classifier of whole texts (two layers on the first token).
    pub classes: Option<usize>,
    /// Classes of a classifier of tokens.
    pub tags: Option<usize>,
    /// Start and end of an answer.
    pub spans: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 50_265,
            hidden_size: 768,
            intermediate_size: 3072,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            max_position_embeddings: 512,
            type_vocab_size: 2,
            hidden_act: Activation::Gelu,
            layer_norm_eps: 1e-12,
            pad_token_id: 1,
            heads: Heads::default(),
        }
    }
}

impl Config {
    pub fn init(&self, device: &Device) -> Roberta {
        let (d, heads) = (self.hidden_size, &self.heads);
        let plain = |width: usize| linear(d, width, true, device);
        let classifier = match (heads.classes, heads.tags) {
            (Some(classes), _) => Some(Classifier { dense: Some(plain(d)), out_proj: Some(plain(classes)), ..none() }),
            (None, Some(tags)) => {
                let Linear { weight, bias } = plain(tags);
                Some(Classifier { weight: Some(weight), bias, ..none() })
            }
            (None, None) => None,
        };
        Roberta {
            embeddings: self.embeddings(device),
            encoder: self.encoder(device),
            pooler: heads.pooler.then(|| Pooler { output: plain(d) }),
            lm_head: heads.language_model.then(|| self.lm_head(device)),
            classifier,
            qa_outputs: heads.spans.then(|| plain(2)),
            pad_token_id: self.pad_token_id,
        }
    }

    /// The tree of bert-burn's `BertMaskedLM`.
    pub fn init_masked_lm(&self, device: &Device) -> RobertaMaskedLm {
        RobertaMaskedLm {
            bert: Encoder { embeddings: self.embeddings(device), encoder: self.encoder(device) },
            lm_head: self.lm_head(device),
            pad_token_id: self.pad_token_id,
        }
    }

    fn embeddings(&self, device: &Device) -> Embeddings {
        let d = self.hidden_size;
        Embeddings {
            word_embeddings: embedding(self.vocab_size, d, device),
            position_embeddings: embedding(self.max_position_embeddings, d, device),
            token_type_embeddings: embedding(self.type_vocab_size, d, device),
            layer_norm: layer_norm(d, self.layer_norm_eps, device),
        }
    }

    fn encoder(&self, device: &Device) -> TransformerEncoder {
        let (ff, heads, layers) = (self.intermediate_size, self.num_attention_heads, self.num_hidden_layers);
        TransformerEncoderConfig::new(self.hidden_size, ff, heads, layers)
            .with_activation(self.hidden_act.burn())
            .with_layer_norm_eps(self.layer_norm_eps)
            .init(device)
    }

    fn lm_head(&self, device: &Device) -> LmHead {
        let d = self.hidden_size;
        LmHead {
            dense: linear(d, d, true, device),
            layer_norm: layer_norm(d, self.layer_norm_eps, device),
            decoder: linear(d, self.vocab_size, true, device),
        }
    }
}

#[derive(Module, Debug)]
pub struct Roberta {
    pub embeddings: Embeddings,
    pub encoder: TransformerEncoder,
    pub pooler: Option<Pooler>,
    pub lm_head: Option<LmHead>,
    pub classifier: Option<Classifier>,
    pub qa_outputs: Option<Linear>,
    pub pad_token_id: usize,
}

#[derive(Module, Debug)]
pub struct RobertaMaskedLm {
    pub bert: Encoder,
    pub lm_head: LmHead,
    pub pad_token_id: usize,
}

#[derive(Module, Debug)]
pub struct Encoder {
    pub embeddings: Embeddings,
    pub encoder: TransformerEncoder,
}

#[derive(Module, Debug)]
pub struct Embeddings {
    pub word_embeddings: Embedding,
    pub position_embeddings: Embedding,
    pub token_type_embeddings: Embedding,
    pub layer_norm: LayerNorm,
}

/// The first token through a layer and tanh.
#[derive(Module, Debug)]
pub struct Pooler {
    pub output: Linear,
}

#[derive(Module, Debug)]
pub struct LmHead {
    pub dense: Linear,
    pub layer_norm: LayerNorm,
    pub decoder: Linear,
}

/// Two layers on the first token (`dense`, `out_proj`), or one on every token (`weight`, `bias`).
#[derive(Module, Debug)]
pub struct Classifier {
    pub dense: Option<Linear>,
    pub out_proj: Option<Linear>,
    pub weight: Option<burn::module::Param<Tensor<2>>>,
    pub bias: Option<burn::module::Param<Tensor<1>>>,
}

fn none() -> Classifier {
    Classifier { dense: None, out_proj: None, weight: None, bias: None }
}

impl Roberta {
    /// The last hidden states. `mask` is the tokenizer's `attention_mask`.
    pub fn hidden(
        &self,
        ids: Tensor<2, Int>,
        types: Option<Tensor<2, Int>>,
        mask: Option<Tensor<2, Int>>,
    ) -> Tensor<3> {
        encode(&self.embeddings, &self.encoder, self.pad_token_id, ids, types, mask)
    }

    /// The classifier's logits: `[batch, 1, classes]` for texts, `[batch, sequence, classes]` for tokens.
    pub fn classify(&self, hidden: Tensor<3>) -> Option<Tensor<3>> {
        let head = self.classifier.as_ref()?;
        match (&head.dense, &head.out_proj, &head.weight) {
            (Some(dense), Some(out), _) => Some(out.forward(dense.forward(hidden.narrow(1, 0, 1)).tanh())),
            (_, _, Some(weight)) => {
                let bias = head.bias.as_ref().map(|bias| bias.val());
                Some(burn::tensor::module::linear(hidden, weight.val(), bias))
            }
            _ => None,
        }
    }
}

impl RobertaMaskedLm {
    /// `[batch, sequence]` → `[batch, sequence, vocab]`
    pub fn forward(
        &self,
        ids: Tensor<2, Int>,
        types: Option<Tensor<2, Int>>,
        mask: Option<Tensor<2, Int>>,
    ) -> Tensor<3> {
        let Encoder { embeddings, encoder } = &self.bert;
        self.lm_head.forward(encode(embeddings, encoder, self.pad_token_id, ids, types, mask))
    }
}

fn encode(
    e: &Embeddings,
    encoder: &TransformerEncoder,
    pad_token_id: usize,
    ids: Tensor<2, Int>,
    types: Option<Tensor<2, Int>>,
    mask: Option<Tensor<2, Int>>,
) -> Tensor<3> {
    let place = positions_after_padding(ids.clone(), pad_token_id);
    let types = types.unwrap_or_else(|| ids.zeros_like());
    let x =
        e.word_embeddings.forward(ids) + e.token_type_embeddings.forward(types) + e.position_embeddings.forward(place);
    let input = TransformerEncoderInput::new(e.layer_norm.forward(x));
    encoder.forward(match mask {
        Some(mask) => input.mask_pad(padding(mask)),
        None => input,
    })
}

impl Pooler {
    /// `[batch, sequence, hidden]` → `[batch, hidden]`
    pub fn forward(&self, hidden: Tensor<3>) -> Tensor<2> {
        self.output.forward(hidden.narrow(1, 0, 1).squeeze_dim::<2>(1)).tanh()
    }
}

impl LmHead {
    /// `[batch, sequence, hidden]` → `[batch, sequence, vocab]`
    pub fn forward(&self, hidden: Tensor<3>) -> Tensor<3> {
        self.decoder.forward(self.layer_norm.forward(gelu(self.dense.forward(hidden))))
    }
}
