//! Which Burn model stands for which family.

use burn::tensor::{Int, Tensor};
use burn_examples as zoo;

use crate::case::{Case, Problem, Verdict};
use crate::layers;

/// Compute the recorded outputs of a case with the family's model. A variant is called after its family, with words behind:
/// `t5-gated` is for `t5`.
pub fn run(family: &str, case: &Case) -> Result<Vec<Verdict>, Problem> {
    match (run_as(family, case), family.rsplit_once('-')) {
        (Err(problem), Some((shorter, _))) if problem.to_string() == UNKNOWN => run(shorter, case),
        (outcome, _) => outcome,
    }
}

const UNKNOWN: &str = "no Burn model for this family";

fn run_as(family: &str, case: &Case) -> Result<Vec<Verdict>, Problem> {
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
        "bart" => {
            let mut config: zoo::bart::Config = case.config()?;
            config.lm_head = case.has("lm_head.weight");
            config.logits_bias = case.has("final_logits_bias");
            config.classes = case.width("classification_head.out_proj.bias");
            let model = case.load(config.init(&case.device))?;
            let memory = model.encode(case.ints("input_ids")?, mask(case));
            let states = model.decode(case.ints("decoder_input_ids")?, &memory);
            two_stacks(case, memory.0, states.clone(), |_| model.logits(states.clone()))
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
        "clip" => clip(case),
        "convnext" => {
            let mut config: zoo::convnext::Config = case.config()?;
            config.classes = case.width("classifier.bias");
            let model = case.load(config.init(&case.device))?;
            let features = model.features(case.floats("pixel_values")?);
            let pooled = model.pooled(features.clone());
            picture(case, |output| match output {
                "last_hidden_state" => Some(Any::Four(features.clone())),
                "pooler_output" => Some(Any::Two(pooled.clone())),
                _ => model.classify(pooled.clone()).map(Any::Two),
            })
        }
        "deberta-v2" | "deberta" => {
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
        "dinov2" => {
            let mut config: zoo::dinov2::Config = case.config()?;
            config.classes = case.width("classifier.bias");
            let model = case.load(config.init(&case.device))?;
            let hidden = model.hidden(case.floats("pixel_values")?);
            picture(case, |output| match output {
                "last_hidden_state" => Some(Any::Three(hidden.clone())),
                "pooler_output" => Some(Any::Two(hidden.clone().narrow(1, 0, 1).squeeze_dim(1))),
                _ => model.classify(hidden.clone()).map(Any::Two),
            })
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
        "efficientnet-timm" => {
            let shapes = case.sizes()?;
            // Strides are no tensors: those of timm's networks with as many stages.
            let strides: &[usize] = match shapes.count("blocks.{}.0.bn1.gamma") {
                7 => &[1, 2, 2, 2, 1, 2, 1],
                6 => &[1, 2, 2, 2, 1, 2],
                5 => &[1, 2, 2, 2, 2],
                stages => return Err(format!("no network of timm's has {stages} stages").into()),
            };
            let model = case.load(zoo::efficientnet_timm::Config::of(&shapes, strides).init(&case.device))?;
            Ok(vec![case.compare("logits", model.forward(case.floats("x")?))?])
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
        "mamba" => decoder!(mamba),
        "minilm" => {
            let model = case.load(case.config::<zoo::minilm::Config>()?.init(&case.device))?;
            let types = case.maybe_ints("token_type_ids");
            let hidden = model.hidden(case.ints("input_ids")?, types, full_mask(case)?);
            encoder(case, hidden, None, |_| None)
        }
        "mistral" => decoder!(mistral),
        "mixtral" => decoder!(mixtral),
        "mobilenet_v2" => {
            let model = case.load(zoo::mobilenet_v2::Config::of(&case.sizes()?).init(&case.device))?;
            Ok(vec![case.compare("logits", model.forward(case.floats("x")?))?])
        }
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
        "resnet" => {
            let (shapes, device) = (case.sizes()?, &case.device);
            let x = case.floats(if case.config.is_null() { "x" } else { "pixel_values" })?;
            let own = shapes.has("layer1.blocks.0.conv1.weight");
            let logits = match own {
                true => case.load(zoo::resnet_timm::Config::of(&shapes).init(device))?.forward(x),
                false => case.load(zoo::resnet::Config::of(&shapes).init(device))?.forward(x),
            };
            Ok(vec![case.compare("logits", logits)?])
        }
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
        "segformer" => {
            let mut config: zoo::segformer::Config = case.config()?;
            config.segments = case.width("decode_head.classifier.bias");
            config.classes = case.width("classifier.bias");
            let model = case.load(config.init(&case.device))?;
            let maps = model.features(case.floats("pixel_values")?);
            picture(case, |output| match output {
                "last_hidden_state" => maps.last().cloned().map(Any::Four),
                _ => model.segment(&maps).map(Any::Four).or_else(|| model.classify(&maps).map(Any::Two)),
            })
        }
        "siglip" | "siglip-vision" | "siglip-text" => siglip(case),
        "swin" => {
            let mut config: zoo::swin::Config = case.config()?;
            config.classes = case.width("classifier.bias");
            let model = case.load(config.init(&case.device))?;
            let hidden = model.hidden(case.floats("pixel_values")?);
            picture(case, |output| match output {
                "last_hidden_state" => Some(Any::Three(hidden.clone())),
                "pooler_output" => Some(Any::Two(model.pooled(hidden.clone()))),
                _ => model.classify(model.pooled(hidden.clone())).map(Any::Two),
            })
        }
        "t5" => {
            let mut config: zoo::t5::Config = case.config()?;
            config.decoder = case.has("decoder.norm.gamma");
            config.lm_head = case.has("lm_head.weight");
            let model = case.load(config.init(&case.device))?;
            let memory = model.encode(case.ints("input_ids")?, mask(case));
            let states = match case.maybe_ints("decoder_input_ids") {
                Some(ids) => model.decode(ids, &memory).ok_or("the converted file has no decoder")?,
                None => memory.0.clone(),
            };
            two_stacks(case, memory.0, states.clone(), |_| model.logits(states.clone()))
        }
        "vit" | "vit-timm" => vit(case),
        "wav2vec2" => {
            let mut config: zoo::wav2vec2::Config = case.config()?;
            config.tokens = case.width("lm_head.bias");
            config.classes = case.width("projector.bias").zip(case.width("classifier.bias")).map(|(a, b)| [a, b]);
            let model = case.load(config.init(&case.device))?;
            let hidden = model.hidden(case.floats("input_values")?);
            picture(case, |output| match output {
                "last_hidden_state" => Some(Any::Three(hidden.clone())),
                _ => {
                    let spoken = model.speak(hidden.clone()).map(Any::Three);
                    spoken.or_else(|| model.classify(hidden.clone()).map(Any::Two))
                }
            })
        }
        "whisper" => {
            let mut config: zoo::whisper::Config = case.config()?;
            config.key_bias = case.has("encoder.layers.0.attn.key.bias");
            let model = case.load(config.init(&case.device))?;
            let memory = model.encoder.forward(case.floats("input_features")?);
            let states = model.decoder.hidden(case.ints("decoder_input_ids")?, memory.clone());
            two_stacks(case, memory, states.clone(), |_| Some(model.decoder.proj_out.forward(states.clone())))
        }
        layer if layer.starts_with("torch-nn/") => layers::run(case),
        _ => Err(UNKNOWN.into()),
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

/// An encoder and a decoder: the states of both, and logits.
fn two_stacks(
    case: &Case,
    memory: Tensor<3>,
    states: Tensor<3>,
    logits: impl Fn(&str) -> Option<Tensor<3>>,
) -> Result<Vec<Verdict>, Problem> {
    picture(case, |output| match output {
        "encoder_last_hidden_state" => Some(Any::Three(memory.clone())),
        "last_hidden_state" => Some(Any::Three(states.clone())),
        "logits" => logits(output).map(Any::Three),
        _ => None,
    })
}

/// An output of some rank.
enum Any {
    Two(Tensor<2>),
    Three(Tensor<3>),
    Four(Tensor<4>),
}

/// Every recorded output, by name.
fn picture(case: &Case, found: impl Fn(&str) -> Option<Any>) -> Result<Vec<Verdict>, Problem> {
    let verdict = |output: &str| match found(output) {
        Some(Any::Two(x)) => case.compare(output, x),
        Some(Any::Three(x)) => case.compare(output, x),
        Some(Any::Four(x)) => case.compare(output, x),
        None => Err(format!("{output}: the converted file has no layer for it").into()),
    };
    case.outputs().map(verdict).collect()
}

fn vit(case: &Case) -> Result<Vec<Verdict>, Problem> {
    let mut config: zoo::vit::Config = if case.config.is_null() {
        let shapes = case.sizes()?;
        let d = shapes.size("cls_token", 2);
        let patches = shapes.size("position_embeddings", 1) - 1 - usize::from(shapes.has("distillation_token"));
        let patch = shapes.size("patch_embedding.weight", 2);
        zoo::vit::Config {
            hidden_size: d,
            intermediate_size: shapes.size("encoder.layers.0.pwff.linear_inner.weight", 1),
            num_hidden_layers: shapes.count("encoder.layers.{}.norm_1.gamma"),
            // Heads are no tensors: timm's have 64 elements, those of its test networks 32.
            num_attention_heads: if d < 192 { d / 32 } else { d / 64 },
            layer_norm_eps: 1e-6,
            patch_size: patch,
            image_size: patch * patches.isqrt(),
            num_channels: shapes.size("patch_embedding.weight", 1),
            ..zoo::vit::Config::default()
        }
    } else {
        case.config()?
    };
    config.distilled = case.has("distillation_token");
    config.pooler = case.has("pooler.weight");
    config.classes = case.width("classifier.bias");
    let model = case.load(config.init(&case.device))?;
    let hidden = model.hidden(case.floats(if case.config.is_null() { "x" } else { "pixel_values" })?);
    picture(case, |output| match output {
        "last_hidden_state" => Some(Any::Three(hidden.clone())),
        "pooler_output" => model.pooled(hidden.clone()).map(Any::Two),
        _ => model.classify(hidden.clone()).map(Any::Two),
    })
}

fn clip(case: &Case) -> Result<Vec<Verdict>, Problem> {
    let mut config: zoo::clip::Config = case.config()?;
    let parts = zoo::clip::Parts {
        text: case.has("text_model.post_norm.gamma"),
        vision: case.has("vision_model.post_norm.gamma"),
        text_projection: case.shapes.get("text_projection.weight").map(|shape| shape[1]),
        visual_projection: case.shapes.get("visual_projection.weight").map(|shape| shape[1]),
        scale: case.has("logit_scale"),
    };
    if case.config.get("text_config").is_none() && parts.text {
        config.text_config = case.config()?;
    }
    if case.config.get("vision_config").is_none() && parts.vision {
        config.vision_config = case.config()?;
    }
    let both = parts.text && parts.vision;
    config.parts = parts;
    let model = case.load(config.init(&case.device))?;
    let ids = case.maybe_ints::<2>("input_ids");
    let pixels = case.floats::<4>("pixel_values").ok();
    let unit = |x: Tensor<2>| if both { zoo::clip::unit(x) } else { x };
    let text = ids.clone().and_then(|ids| model.text(ids));
    let image = pixels.clone().and_then(|pixels| model.image(pixels));
    picture(case, |output| match output {
        "text_embeds" => text.clone().map(|x| Any::Two(unit(x))),
        "image_embeds" => image.clone().map(|x| Any::Two(unit(x))),
        "logits_per_image" => model.logits(image.clone()?, text.clone()?).map(Any::Two),
        "logits_per_text" => model.logits(image.clone()?, text.clone()?).map(|x| Any::Two(x.transpose())),
        "last_hidden_state" => match (&model.text_model, &model.vision_model) {
            (Some(tower), _) => Some(Any::Three(tower.hidden(ids.clone()?))),
            (None, Some(tower)) => Some(Any::Three(tower.hidden(pixels.clone()?))),
            (None, None) => None,
        },
        "pooler_output" => match (&model.text_model, &model.vision_model) {
            (Some(tower), _) => Some(Any::Two(tower.pooled(ids.clone()?, tower.hidden(ids.clone()?)))),
            (None, Some(tower)) => Some(Any::Two(tower.pooled(tower.hidden(pixels.clone()?)))),
            (None, None) => None,
        },
        _ => None,
    })
}

fn siglip(case: &Case) -> Result<Vec<Verdict>, Problem> {
    let mut config: zoo::siglip::Config = case.config()?;
    let parts = zoo::siglip::Parts {
        text: case.width("text_model.head.bias"),
        vision: case.has("vision_model.post_norm.gamma"),
        head: case.has("vision_model.head.probe"),
        logits: case.has("logit_scale"),
    };
    if case.config.get("text_config").is_none() && parts.text.is_some() {
        config.text_config = case.config()?;
    }
    if case.config.get("vision_config").is_none() && parts.vision {
        config.vision_config = case.config()?;
    }
    config.parts = parts;
    let model = case.load(config.init(&case.device))?;
    let read = case.maybe_ints::<2>("input_ids").and_then(|ids| Some(model.text_model.as_ref()?.hidden(ids)));
    let seen = case.floats("pixel_values").ok().and_then(|x| Some(model.vision_model.as_ref()?.hidden(x)));
    let text = || Some(model.text_model.as_ref()?.pooled(read.clone()?));
    let image = || model.vision_model.as_ref()?.pooled(seen.clone()?);
    picture(case, |output| match output {
        "text_embeds" => text().map(|x| Any::Two(zoo::siglip::unit(x))),
        "image_embeds" => image().map(|x| Any::Two(zoo::siglip::unit(x))),
        "logits_per_text" => model.logits(text()?, image()?).map(Any::Two),
        "logits_per_image" => model.logits(text()?, image()?).map(|x| Any::Two(x.transpose())),
        "last_hidden_state" => read.clone().or_else(|| seen.clone()).map(Any::Three),
        "pooler_output" => text().or_else(image).map(Any::Two),
        _ => None,
    })
}
