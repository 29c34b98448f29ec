//! The recorded cases, and which Burn model stands for which family.

mod case;
mod families;
mod layers;
mod saved;

pub use case::{Case, Problem, Verdict};
pub use families::run;
