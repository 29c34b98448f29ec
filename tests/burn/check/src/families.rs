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
        "gemma2" => decoder!(gemma2),
        "gemma3" => decoder!(gemma3),
        "llama" => decoder!(llama),
        "mistral" => decoder!(mistral),
        "mixtral" => decoder!(mixtral),
        "olmo2" => decoder!(olmo2),
        "phi3" => decoder!(phi3),
        "qwen2" => decoder!(qwen2),
        "qwen3" => decoder!(qwen3),
        "qwen3-moe" => decoder!(qwen3_moe),
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
