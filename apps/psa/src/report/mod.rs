//! Pages of results.

mod comparison;
mod gammas;
mod pictures;
mod searches;

pub use comparison::of_comparison;
pub use gammas::{of_hits, of_simulation};
pub use searches::of_searches;
