//! Pages of results.

mod comparison;
mod gammas;
pub mod pictures;

pub use comparison::of_comparison;
pub use gammas::{of_hits, of_simulation};
