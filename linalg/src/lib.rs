//! Tiled matrices and mixed-precision tile algorithms on the zellige runtime.
#![forbid(unsafe_code)]

pub mod bench;
mod error;
mod factor;
pub mod format;
mod grid;
mod policy;
mod refine;
pub mod residual;
mod scalar;
mod solve;
mod tile;
mod tiled;

pub use error::{Error, NotPositiveDefinite};
pub use factor::{Factorisation, GemmCounts, cholesky};
pub use grid::{Block, TileGrid};
pub use policy::{
    AtSubmission, GemmQuery, Phase, PolicyError, PrecisionPolicy, RetryLadder, Rule, RuleError, SharedPolicy,
    Test, When, at_submission,
};
#[cfg(feature = "script")]
pub use policy::{Script, ScriptError};
pub use refine::{Refinement, refine, widened};
pub use residual::{BackwardError, backward_error};
pub use scalar::TileScalar;
pub use solve::{Solution, solve};
pub use tile::{MatrixNorm, Tile};
pub use tiled::{Generator, RectTiled, SymmetricTiled, from_dense, generator};
pub use zellige_kernels::GemmPrecision;
