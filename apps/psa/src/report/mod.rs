//! Report pages of results, and results as text.

mod comparison;
mod gammas;
pub mod pictures;
mod search;
pub mod text;

pub use comparison::of_comparison;
pub use gammas::{of_hits, of_simulation};
pub use search::{Shown, of_search};
