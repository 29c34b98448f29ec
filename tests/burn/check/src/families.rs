//! Which Burn model stands for which family.

use burn_examples::llama;

use crate::case::{Case, Problem, Verdict};

/// Compute the recorded outputs of a case with the family's model.
pub fn run(family: &str, case: &Case) -> Result<Vec<Verdict>, Problem> {
    match family {
        "llama" => {
            let model = case.load(case.config::<llama::Config>()?.init(&case.device))?;
            Ok(vec![case.compare("logits", model.forward(case.ints("input_ids")?))?])
        }
        _ => Err("no Burn model for this family".into()),
    }
}
