//! Pages of results.

mod residuals;
mod storage;

pub use residuals::of_solved;
pub use storage::of_storage;
