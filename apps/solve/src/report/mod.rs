//! Pages of results.

mod residuals;

pub use residuals::of_solved;
