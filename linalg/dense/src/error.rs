//! Errors of the dense algorithms.

use std::sync::Arc;

use zellige_gpu::GpuError;
use zellige_kernels::precision::PanelPrecision;
use zellige_kernels::{GemmPrecision, KernelError, StorageFormat};

use crate::policy::{PolicyError, RuleError};

/// A Cholesky factorisation met a pivot that is not a positive finite number.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "not positive definite: diagonal tile {tile}, row {row} of the matrix (row {pivot} of the tile), has {}; \
     use more precision for the products that update this tile, or add to its diagonal", pivot_text(*value)
)]
pub struct NotPositiveDefinite {
    /// The diagonal tile, from 0.
    pub tile: usize,
    /// The failing row within the tile, from 0.
    pub pivot: usize,
    /// The failing row of the whole matrix, from 0.
    pub row: usize,
    /// The pivot before its square root; also NaN if a GPU found it, because its library does not
    /// report the value.
    pub value: f64,
}

fn pivot_text(value: f64) -> String {
    if value.is_nan() { "no positive pivot".into() } else { format!("pivot {value:e}") }
}

/// The array of [`Error::NotFinite`] that is not given.
pub(crate) const SOLUTION: &str = "solution";

fn beyond(what: &str) -> &'static str {
    if what == SOLUTION {
        ": it is beyond the range of float64; divide the right-hand side by a power of two"
    } else {
        ""
    }
}

/// An error of this crate.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A factorisation lost positive definiteness.
    #[error(transparent)]
    NotPositiveDefinite(#[from] NotPositiveDefinite),
    /// The runtime refused a task, or a task failed.
    #[error(transparent)]
    Runtime(zellige_runtime::Error),
    /// A kernel refused its operands.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A GPU's driver refused an operation.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// A precision policy could not decide.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A rule's text is wrong.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// A Krylov method cannot be used, or its vectors do not fit the memory.
    #[error(transparent)]
    Krylov(Arc<zellige_krylov::Error>),
    /// Tiles, or tilings, that do not fit each other.
    #[error("{what}: {got} does not fit {want}")]
    Shape {
        /// The requested object or operation.
        what: &'static str,
        /// The size that was found.
        got: String,
        /// The size that is needed.
        want: String,
    },
    /// Edges that do not define a tiling.
    #[error("invalid tiling: {0}")]
    Grid(String),
    /// A generator could not fill a block.
    #[error("generating a block: {0}")]
    Generator(String),
    /// A tile is stored in another format than its user needs.
    #[error("a tile is stored in {got}, but its task needs {want}: request the operand with `as_format`")]
    Format {
        /// Format found.
        got: StorageFormat,
        /// Format needed.
        want: StorageFormat,
    },
    /// A policy requires a precision of diagonal updates and solves that tiles of this type do not
    /// support.
    #[error(
        "diagonal updates and triangular solves of {have} tiles cannot run in {got}: leave their precision out, or use fp32 \
         tiles"
    )]
    Panel {
        /// Precision that the policy requires.
        got: PanelPrecision,
        /// Storage format of the tiles.
        have: StorageFormat,
    },
    /// A rule names a precision that tiles of this type do not support.
    #[error(
        "precision rule {policy} is not available for {have} tiles: use fp64 alone on fp64 tiles, anything else on fp32 tiles"
    )]
    Elements {
        /// The rule.
        policy: String,
        /// Storage format of the tiles.
        have: StorageFormat,
    },
    /// A non-finite number, in an input or in a solution.
    #[error("{what}: row {row}, column {column} (from 0) is {value}{}", beyond(what))]
    NotFinite {
        /// The array.
        what: &'static str,
        /// Row of the number, from 0.
        row: usize,
        /// Column of the number, from 0.
        column: usize,
        /// NaN or an infinity.
        value: f64,
    },
    /// A policy requires a product precision that tiles of this type do not support.
    #[error(
        "product ({i}, {j}, {k}): precision {got} is not available for {have} tiles: use fp64 alone on fp64 tiles, \
         anything else on fp32 tiles"
    )]
    Precision {
        /// Row of the updated tile.
        i: usize,
        /// Column of the updated tile.
        j: usize,
        /// Step of the algorithm.
        k: usize,
        /// Precision that the policy chose.
        got: GemmPrecision,
        /// Storage format of the tiles.
        have: StorageFormat,
    },
}

impl From<zellige_runtime::Error> for Error {
    /// Finds the crate's own errors again that travelled as a task's error.
    fn from(error: zellige_runtime::Error) -> Self {
        let Some(failure) = error.failure() else {
            return Error::Runtime(error);
        };
        if let Some(lost) = failure.downcast_ref::<NotPositiveDefinite>() {
            return Error::NotPositiveDefinite(*lost);
        }
        if let Some(policy) = failure.downcast_ref::<PolicyError>() {
            return Error::Policy(policy.clone());
        }
        match failure.downcast_ref::<Error>() {
            Some(own) => own.clone(),
            None => Error::Runtime(error),
        }
    }
}

impl From<zellige_krylov::Error> for Error {
    fn from(error: zellige_krylov::Error) -> Self {
        match error {
            zellige_krylov::Error::Runtime(error) => error.into(),
            other => Error::Krylov(Arc::new(other)),
        }
    }
}

impl From<Error> for zellige_krylov::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Runtime(error) => error.into(),
            other => zellige_krylov::Error::unsolvable("factor", other.to_string()),
        }
    }
}

impl Error {
    /// Returns the position at which positive definiteness was lost, for that error.
    pub fn not_positive_definite(&self) -> Option<&NotPositiveDefinite> {
        match self {
            Error::NotPositiveDefinite(lost) => Some(lost),
            _ => None,
        }
    }
}
