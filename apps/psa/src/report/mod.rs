//! Report pages of results.

mod comparison;
mod gammas;
pub mod pictures;
mod search;

pub use comparison::of_comparison;
pub use gammas::{of_hits, of_simulation};
pub use search::{Shown, of_search};
