//! Tiled matrices and mixed-precision tile algorithms on the zellige runtime.
//!
//! A matrix is a grid of tiles, one runtime handle each, filled by tasks. Algorithms submit tasks
//! over these handles. A [`PrecisionPolicy`] chooses the precision of every tile product, from its
//! position or from the norms of its finished operands.
//!
//! ```
//! use zellige_dense::{RectTiled, Rule, SharedPolicy, SymmetricTiled, TileGrid, cholesky, generator, solve};
//! use zellige_runtime::Runtime;
//!
//! let rt = Runtime::builder().workers(2).build()?;
//! let rule: Rule = "hp1:operand=1e-2".parse()?; // half precision where both operands are small, single elsewhere
//! let policy: SharedPolicy = rule.into();
//!
//! // A = I + 1/(1 + |i - j|), generated tile by tile where and when it is needed.
//! let entry = |i: usize, j: usize| 1.0 / (1.0 + i.abs_diff(j) as f32) + f32::from(i == j);
//! let fill = generator(move |rows, cols, out: &mut [f32], ld: usize| {
//!     for (c, j) in cols.enumerate() {
//!         for (r, i) in rows.clone().enumerate() {
//!             out[r + c * ld] = entry(i, j);
//!         }
//!     }
//! });
//! let a = SymmetricTiled::generate(&rt, TileGrid::uniform(200, 64)?, &fill)?;
//! let factor = cholesky(&rt, &a, &policy)?;
//!
//! // X A = B with one row of ones in B.
//! let ones = generator(|_rows, _cols, out: &mut [f32], _ld: usize| out.fill(1.0));
//! let x = RectTiled::generate(&rt, "B", TileGrid::uniform(1, 1)?, a.grid().clone(), &ones)?;
//! solve(&rt, &a, &x, &policy)?.wait(&rt)?;
//!
//! let x = x.gather(&rt)?;
//! let b: f32 = (0..200).map(|j| x[j] * entry(j, 100)).sum();
//! assert!((b - 1.0).abs() < 1e-2);
//! assert!(factor.counts().low_share() > 0.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | task | items |
//! | --- | --- |
//! | solve a system from plain arrays | [`Cholesky`] |
//! | cut a matrix into tiles | [`TileGrid`], [`Block`] |
//! | hold tiles, fill and gather them | [`Tile`], [`SymmetricTiled`], [`RectTiled`], [`generator`], [`from_dense`], [`GpuGenerator`] |
//! | choose precisions | [`Rule`] (text), [`TileMap`] (a file), `Script` (a file, cargo feature `script`), [`PrecisionPolicy`] (any closure) |
//! | factor and solve | [`cholesky`], [`solve`], [`refine`] |
//! | multiply and precondition in Krylov methods | [`SymmetricOperator`], [`FactorOperator`] |
//! | put several products on a tile in one task | [`Submission`], [`cholesky_with`], [`solve_with`] |
//! | recover from lost definiteness | [`NotPositiveDefinite`], [`RetryLadder`] |
//! | give every tile a fixed owner | [`Owners`], a scheduling policy |
//! | assess a result | [`backward_error`], [`GemmCounts`], [`Work`] |
//! | know the exact digits of a factor and of a solution | [`trust`] |
//! | write another tiled algorithm | [`tasks`] |
//!
//! Every algorithm is written over [`Submit`](zellige_runtime::Submit): it runs, or is recorded and
//! replayed. Results depend on the matrix, the tiles and the policy's decisions. They are bitwise
//! identical for any number of workers, scheduling policy and replay.
//!
//! Factorisations, solves and refinements flush subnormal numbers to zero, unless the runtime [is
//! configured](zellige_runtime::RuntimeBuilder::subnormals) to keep them. Matrices whose entries
//! decay are full of them in single precision, and products then take ten to a hundred times as
//! long; relative to the rounding errors of the rest they are negligible.
#![deny(unsafe_code)]

mod driver;
mod error;
mod factor;
pub mod format;
mod gpu;
mod grid;
mod operators;
mod owners;
mod policy;
mod refine;
pub mod residual;
mod rounding;
mod scalar;
mod scale;
mod solve;
pub mod tasks;
mod tile;
mod tiled;
pub mod trust;
mod work;

/// Treatment of subnormal numbers by the codelets of factorisations, solves and refinements.
const SUBNORMALS: Option<zellige_runtime::Subnormals> = Some(zellige_runtime::Subnormals::Flush);

pub use driver::Cholesky;
pub use error::{Error, NotPositiveDefinite};
pub use factor::{Factorisation, GemmCounts, Submission, cholesky, cholesky_with, products_of_cholesky};
pub use gpu::{DescribeLaunch, GpuGenerator, GpuMatrix, GpuProducts, capability_for};
pub use grid::{Block, TileGrid};
pub use operators::{FactorOperator, SymmetricOperator};
pub use owners::Owners;
#[cfg(feature = "script")]
pub use policy::Script;
pub use policy::{
    AtSubmission, GemmQuery, LoadError, Phase, PolicyError, PrecisionPolicy, RetryLadder, Rule, RuleError,
    SharedPolicy, Test, TileMap, When, at_submission,
};
pub use refine::{RefineEnd, RefineUntil, Refinement, refine, refine_bytes, widened};
pub use residual::{BackwardError, backward_error};
pub use rounding::{RoundedTile, RoundedTiles, Rounding, RoundingBlock};
pub use scalar::TileScalar;
pub use scale::unit_scale;
pub use solve::{Solution, solve, solve_with};
pub use tile::{MatrixNorm, Tile, TileHeader};
pub use tiled::{Generator, RectTiled, SymmetricTiled, from_dense, generator};
pub use work::Work;
pub use zellige_kernels::GemmPrecision;
pub use zellige_kernels::precision::PanelPrecision;
