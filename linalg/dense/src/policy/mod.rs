//! Precision policies: the choice of the precision of each tile product.
//!
//! A policy is a function from a [`GemmQuery`] to a [`GemmPrecision`]. A policy of positions
//! decides when the task is submitted; a policy of norms decides when the operands are finished
//! (deferred selection). All norms are Frobenius norms, of whole matrices: `||A||` of a symmetric
//! matrix counts both triangles.

mod map;
mod rule;
#[cfg(feature = "script")]
mod script;

use std::fmt;
use std::sync::Arc;

use zellige_kernels::GemmPrecision;
use zellige_kernels::precision::PanelPrecision;

pub use map::TileMap;
pub use rule::{RetryLadder, Rule, RuleError, Test};
#[cfg(feature = "script")]
pub use script::Script;

/// Time of a policy's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At submission of the product: positions are known, norms are NaN.
    AtSubmission,
    /// Once both operands of the product are finished: everything is known. The query is repeated
    /// at every replay.
    OperandsReady,
}

/// Algorithm that a product belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// `A_ij -= L_ik L_jk^T`, `i > j > k`.
    Factor,
    /// `B_ij -= X_ik op(L)_kj`: a row of tiles of `B` and a tile of `L` off its diagonal, `j != k`.
    Solve,
}

/// Query to a policy about one tile product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GemmQuery {
    /// Algorithm of the product.
    pub phase: Phase,
    /// Tile row of the updated tile.
    pub i: usize,
    /// Tile column of the updated tile.
    pub j: usize,
    /// Step: tile column of the operands in a factorisation, tile row or column of `L` in a solve.
    pub k: usize,
    /// Tiles along the factored matrix.
    pub nt: usize,
    /// Norm of the updated tile before the algorithm began, `||A_ij||` or `||B_ij||`.
    pub norm_a_ij: f64,
    /// Norm of the first operand, `||L_ik||` or `||X_ik||`.
    pub norm_l_ik: f64,
    /// Norm of the second operand, `||L_jk||` or the norm of the solve's tile of `L`.
    pub norm_l_jk: f64,
    /// Norm of the matrix before the algorithm began, `||A||` or `||B||`.
    pub norm_a: f64,
}

impl GemmQuery {
    /// Returns the query of the product at `(i, j, k)` while no norm is known.
    pub fn unmeasured(phase: Phase, [i, j, k]: [usize; 3], nt: usize) -> Self {
        let unknown = f64::NAN;
        GemmQuery {
            phase,
            i,
            j,
            k,
            nt,
            norm_a_ij: unknown,
            norm_l_ik: unknown,
            norm_l_jk: unknown,
            norm_a: unknown,
        }
    }

    /// Tiles between the diagonal and the tile that matters to a band: `i - j` of the updated tile
    /// in a factorisation, `|j - k|` of the tile of `L` in a solve.
    pub fn distance(&self) -> usize {
        match self.phase {
            Phase::Factor => self.i.abs_diff(self.j),
            Phase::Solve => self.j.abs_diff(self.k),
        }
    }
}

/// A file of a policy, a map or a script, that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {message}")]
pub struct LoadError {
    /// The file.
    pub file: String,
    /// Error message, with the line or the key if it is known.
    pub message: String,
}

/// A policy could not decide.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("precision policy {policy}, product ({i}, {j}, {k}): {message}")]
pub struct PolicyError {
    /// The policy, as it describes itself.
    pub policy: String,
    /// Tile row of the updated tile.
    pub i: usize,
    /// Tile column of the updated tile.
    pub j: usize,
    /// Step of the algorithm.
    pub k: usize,
    /// Error message.
    pub message: String,
}

impl PolicyError {
    /// Creates an error of `policy` about `query`.
    pub fn new(policy: impl fmt::Display, query: &GemmQuery, message: impl Into<String>) -> PolicyError {
        PolicyError {
            policy: policy.to_string(),
            i: query.i,
            j: query.j,
            k: query.k,
            message: message.into(),
        }
    }
}

/// Policy that chooses the precision of each tile product.
///
/// Every closure `Fn(&GemmQuery) -> GemmPrecision` is one; it decides when the operands are ready.
/// [`at_submission`] makes one that uses positions only.
///
/// Results are reproducible only if the decisions depend on nothing but the query.
pub trait PrecisionPolicy: Send + Sync + 'static {
    /// Returns the precision of one product.
    ///
    /// # Errors
    /// A policy that cannot decide fails the product's task with its error.
    fn choose(&self, query: &GemmQuery) -> Result<GemmPrecision, PolicyError>;

    /// Returns the time at which [`choose`](PrecisionPolicy::choose) is called.
    fn when(&self) -> When {
        When::OperandsReady
    }

    /// Checks that the policy is for a matrix of so many tiles along a side. Factorisations and
    /// solves begin with it.
    ///
    /// # Errors
    /// The policy is for another number of tiles.
    fn check(&self, tiles: usize) -> Result<(), RuleError> {
        let _ = tiles;
        Ok(())
    }

    /// Returns whether [`choose`](PrecisionPolicy::choose) may ever return `precision`; true if
    /// unknown. A decision that it excludes may fail its product. It is useful for deferred
    /// selection: see [`Submission::fuse_updates`](crate::Submission::fuse_updates).
    fn may_select(&self, precision: GemmPrecision) -> bool {
        let _ = precision;
        true
    }

    /// Returns the precision of all products inside diagonal updates and triangular solves. It is
    /// called at submission; precisions other than [`Native`](PanelPrecision::Native) are for `f32`
    /// tiles.
    fn panel(&self) -> PanelPrecision {
        PanelPrecision::Native
    }

    /// Returns all precisions that [`choose`](PrecisionPolicy::choose) may return, if they are
    /// known: a GPU that lacks one of them gets no task with deferred selection.
    fn precisions(&self) -> Option<Vec<GemmPrecision>> {
        None
    }

    /// Returns a short description of the policy, for reports and errors.
    fn describe(&self) -> String {
        "closure".into()
    }
}

/// A policy that many tasks share.
pub type SharedPolicy = Arc<dyn PrecisionPolicy>;

impl From<Rule> for SharedPolicy {
    fn from(rule: Rule) -> SharedPolicy {
        Arc::new(rule)
    }
}

impl<F: Fn(&GemmQuery) -> GemmPrecision + Send + Sync + 'static> PrecisionPolicy for F {
    fn choose(&self, query: &GemmQuery) -> Result<GemmPrecision, PolicyError> {
        Ok(self(query))
    }
}

/// A policy made of a function of positions.
#[derive(Clone, Copy)]
pub struct AtSubmission<F>(F);

impl<F> fmt::Debug for AtSubmission<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AtSubmission(..)")
    }
}

/// Creates a policy that calls `choose` when products are submitted, with positions and no norms.
pub fn at_submission<F: Fn(&GemmQuery) -> GemmPrecision + Send + Sync + 'static>(
    choose: F,
) -> AtSubmission<F> {
    AtSubmission(choose)
}

impl<F: Fn(&GemmQuery) -> GemmPrecision + Send + Sync + 'static> PrecisionPolicy for AtSubmission<F> {
    fn choose(&self, query: &GemmQuery) -> Result<GemmPrecision, PolicyError> {
        Ok((self.0)(query))
    }

    fn when(&self) -> When {
        When::AtSubmission
    }
}
