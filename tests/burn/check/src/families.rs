//! Which Burn model stands for which family.

use burn::tensor::{Int, Tensor};
use burn_examples as zoo;

use crate::case::{Case, Problem, Verdict};

/// Compute the recorded outputs of a case with the family's model.
pub fn run(family: &str, case: &Case) -> Result<Vec<Verdict>, Problem> {
    /// A decoder with a language model head: `logits`, or the bare model's `last_hidden_state`.
    macro_rules! decoder {
        ($module:ident) => {{
            let model = case.load(case.config::<zoo::$module::Config>()?.init(&case.device))?;
            decoder(case, |ids| model.forward(ids), |ids| model.hidden(ids))
        }};
    }
    match family {
        "albert" => {
            let mut config: zoo::albert::Config = case.config()?;
            config.pooler = case.has("albert.pooler.weight");
            config.language_model = case.has("mlm_dense.weight");
            let model = case.load(config.init(&case.device))?;
            let hidden = model.hidden(case.ints("input_ids")?, case.maybe_ints("token_type_ids"), mask(case));
            encoder(case, hidden.clone(), model.pooled(hidden.clone()), |_| model.logits(hidden.clone()))
        }
        "bert" => {
            let mut config: zoo::bert::Config = case.config()?;
            config.heads = zoo::bert::Heads {
                pooler: case.has("pooler.output.weight"),
                language_model: case.has("lm_head.dense.weight"),
                classes: case.width("classifier.bias"),
                spans: case.has("qa_outputs.weight"),
            };
            let model = case.load(config.init(&case.device))?;
            let hidden = model.hidden(case.ints("input_ids")?, case.maybe_ints("token_type_ids"), mask(case));
            let pooled = model.pooler.as_ref().map(|pooler| pooler.forward(hidden.clone()));
            encoder(case, hidden.clone(), pooled.clone(), |output| match output {
                "logits" => match (&model.lm_head, &model.classifier, pooled.clone()) {
                    (Some(head), ..) => Some(head.forward(hidden.clone())),
                    (_, Some(head), Some(pooled)) => Some(head.forward(pooled.unsqueeze_dim::<3>(1))),
                    (_, Some(head), None) => Some(head.forward(hidden.clone())),
                    _ => None,
                },
                _ => model.qa_outputs.as_ref().map(|head| head.forward(hidden.clone())),
            })
        }
        "bloom" => decoder!(bloom),
        "deberta-v2" => {
            let mut config: zoo::deberta_v2::Config = case.config()?;
            config.heads = zoo::deberta_v2::Heads {
                pooler: case.has("pooler.dense.weight"),
                language_model: case.has("lm_head.dense.weight"),
                discriminator: case.has("mask_predictions.dense.weight"),
                classes: case.width("classifier.bias"),
                spans: case.has("qa_outputs.weight"),
            };
            let model = case.load(config.init(&case.device))?;
            let hidden = model.hidden(case.ints("input_ids")?, case.maybe_ints("token_type_ids"), full_mask(case)?);
            encoder(case, hidden, None, |_| None)
        }
        "distilbert" => {
            let mut config: zoo::distilbert::Config = case.config()?;
            config.heads = zoo::distilbert::Heads {
                language_model: case.has("lm_head.dense.weight"),
                pre_classifier: case.has("pre_classifier.weight"),
                classes: case.width("classifier.bias"),
                spans: case.has("qa_outputs.weight"),
            };
            let model = case.load(config.init(&case.device))?;
            let hidden = model.hidden(case.ints("input_ids")?, mask(case));
            encoder(case, hidden.clone(), None, |output| match output {
                "logits" => match &model.lm_head {
                    Some(head) => Some(head.forward(hidden.clone())),
                    None => model.classify(hidden.clone()),
                },
                _ => model.qa_outputs.as_ref().map(|head| head.forward(hidden.clone())),
            })
        }
        "falcon" => decoder!(falcon),
        "gemma2" => decoder!(gemma2),
        "gemma3" => decoder!(gemma3),
        "gpt-neox" => {
            let config: zoo::gpt_neox::Config = case.config()?;
            let headed = case.has("lm_head.weight");
            let fresh = if headed { config.init(&case.device) } else { config.init_without_head(&case.device) };
            let model = case.load(fresh)?;
            decoder(case, |ids| model.forward(ids), |ids| model.hidden(ids))
        }
        "gpt2" => decoder!(gpt2),
        "llama" => decoder!(llama),
        "minilm" => {
            let model = case.load(case.config::<zoo::minilm::Config>()?.init(&case.device))?;
            let types = case.maybe_ints("token_type_ids");
            let hidden = model.hidden(case.ints("input_ids")?, types, full_mask(case)?);
            encoder(case, hidden, None, |_| None)
        }
        "mistral" => decoder!(mistral),
        "mixtral" => decoder!(mixtral),
        "modernbert" => {
            let mut config: zoo::modernbert::Config = case.config()?;
            config.heads = zoo::modernbert::Heads {
                dense: case.has("head.dense.weight"),
                language_model: case.has("head.decoder.weight"),
                classes: case.width("head.classifier.bias"),
            };
            let model = case.load(config.init(&case.device))?;
            let hidden = model.hidden(case.ints("input_ids")?, full_mask(case)?);
            encoder(case, hidden.clone(), None, |_| {
                let head = model.head.as_ref()?;
                let x = head.transform(hidden.clone());
                Some(head.decoder.as_ref().or(head.classifier.as_ref())?.forward(x))
            })
        }
        "mpnet" => {
            let mut config: zoo::mpnet::Config = case.config()?;
            config.heads = zoo::mpnet::Heads {
                pooler: case.has("pooler.output.weight"),
                language_model: case.has("lm_head.dense.weight"),
                classes: case.width("classifier.out_proj.bias"),
            };
            let model = case.load(config.init(&case.device))?;
            let hidden = model.hidden(case.ints("input_ids")?, full_mask(case)?);
            let pooled = model.pooler.as_ref().map(|pooler| pooler.forward(hidden.clone()));
            encoder(case, hidden.clone(), pooled, |_| match (&model.lm_head, &model.classifier) {
                (Some(head), _) => Some(head.forward(hidden.clone())),
                (None, Some(head)) => Some(head.forward(hidden.clone())),
                (None, None) => None,
            })
        }
        "olmo2" => decoder!(olmo2),
        "opt" => decoder!(opt),
        "phi3" => decoder!(phi3),
        "qwen2" => decoder!(qwen2),
        "qwen3" => decoder!(qwen3),
        "qwen3-moe" => decoder!(qwen3_moe),
        "roberta" => {
            let mut config: zoo::roberta::Config = case.config()?;
            let (ids, types) = (case.ints("input_ids")?, case.maybe_ints("token_type_ids"));
            if case.has("bert.embeddings.word_embeddings.weight") {
                let model = case.load(config.init_masked_lm(&case.device))?;
                let logits = model.forward(ids, types, mask(case));
                return Ok(vec![case.compare("logits", logits)?]);
            }
            config.heads = zoo::roberta::Heads {
                pooler: case.has("pooler.output.weight"),
                language_model: case.has("lm_head.dense.weight"),
                classes: case.width("classifier.out_proj.bias"),
                tags: case.width("classifier.bias"),
                spans: case.has("qa_outputs.weight"),
            };
            let model = case.load(config.init(&case.device))?;
            let hidden = model.hidden(ids, types, mask(case));
            let pooled = model.pooler.as_ref().map(|pooler| pooler.forward(hidden.clone()));
            encoder(case, hidden.clone(), pooled, |output| match (output, &model.lm_head) {
                ("logits", Some(head)) => Some(head.forward(hidden.clone())),
                ("logits", None) => model.classify(hidden.clone()),
                _ => model.qa_outputs.as_ref().map(|head| head.forward(hidden.clone())),
            })
        }
        _ => Err("no Burn model for this family".into()),
    }
}

fn decoder(
    case: &Case,
    logits: impl Fn(Tensor<2, Int>) -> Tensor<3>,
    hidden: impl Fn(Tensor<2, Int>) -> Tensor<3>,
) -> Result<Vec<Verdict>, Problem> {
    let ids = case.ints("input_ids")?;
    let verdict = |output: &str| match output {
        "logits" => case.compare(output, logits(ids.clone())),
        "last_hidden_state" => case.compare(output, hidden(ids.clone())),
        other => Err(format!("{other}: no such output of this model").into()),
    };
    case.outputs().map(verdict).collect()
}

/// The tokenizer's `attention_mask`, if one was recorded.
fn mask(case: &Case) -> Option<Tensor<2, Int>> {
    case.maybe_ints("attention_mask")
}

/// The same, all ones if none was recorded.
fn full_mask(case: &Case) -> Result<Tensor<2, Int>, Problem> {
    Ok(match mask(case) {
        Some(mask) => mask,
        None => case.ints::<2>("input_ids")?.ones_like(),
    })
}

/// An encoder's outputs: hidden states, the pooled first token, and what `head` gives for any other name: logits of tokens,
/// or of the whole text with a sequence of one, or the two columns of start and end.
fn encoder(
    case: &Case,
    hidden: Tensor<3>,
    pooled: Option<Tensor<2>>,
    head: impl Fn(&str) -> Option<Tensor<3>>,
) -> Result<Vec<Verdict>, Problem> {
    let mut verdicts = vec![];
    for output in case.outputs() {
        let absent = || format!("{output}: the converted file has no layer for it");
        match output {
            "last_hidden_state" => verdicts.push(case.compare(output, hidden.clone())?),
            "pooler_output" => match &pooled {
                Some(pooled) => verdicts.push(case.compare(output, pooled.clone())?),
                None => println!("{}: left out", absent()),
            },
            "start_logits" | "end_logits" => {
                let column = usize::from(output == "end_logits");
                let logits = head(output).ok_or_else(absent)?;
                verdicts.push(case.compare(output, logits.narrow(2, column, 1).squeeze_dim::<2>(2))?);
            }
            _ => {
                let logits = head(output).ok_or_else(absent)?;
                verdicts.push(match case.output_rank(output)? {
                    2 => case.compare(output, logits.squeeze_dim::<2>(1))?,
                    _ => case.compare(output, logits)?,
                });
            }
        }
    }
    if verdicts.is_empty() { Err("nothing recorded can be compared".into()) } else { Ok(verdicts) }
}
