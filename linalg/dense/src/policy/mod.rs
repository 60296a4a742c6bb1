//! Precision policies: which precision each tile product gets.
//!
//! A policy is a functor from a [`GemmQuery`] to a [`GemmPrecision`]. One that looks at positions
//! only is asked when the task is submitted; one that looks at norms is asked when the operands are
//! there. All norms are Frobenius norms, of whole matrices: `||A||` of a symmetric matrix counts
//! both triangles.

mod rule;
#[cfg(feature = "script")]
mod script;

use std::fmt;
use std::sync::Arc;

use zellige_kernels::GemmPrecision;
use zellige_kernels::precision::PanelPrecision;

pub use rule::{RetryLadder, Rule, RuleError, Test};
#[cfg(feature = "script")]
pub use script::{Script, ScriptError};

/// When a policy is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// When the product is submitted: positions are known, norms are NaN.
    AtSubmission,
    /// When both operands of the product are finished: everything is known. Asked again at every
    /// replay.
    OperandsReady,
}

/// In which algorithm a product occurs.
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
    /// In which algorithm.
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
    /// The product at `(i, j, k)` while no norm is known.
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
    /// Step.
    pub k: usize,
    /// Error message.
    pub message: String,
}

impl PolicyError {
    /// An error of `policy` about `query`.
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

/// Chooses the precision of each tile product.
///
/// Every closure `Fn(&GemmQuery) -> GemmPrecision` is one; it is asked when the operands are ready.
/// [`at_submission`] makes one that looks at positions only.
///
/// Results are the same in every run only if the answers depend on nothing but the query.
pub trait PrecisionPolicy: Send + Sync + 'static {
    /// The precision of one product.
    ///
    /// # Errors
    /// A policy that cannot decide fails the product's task with its error.
    fn choose(&self, query: &GemmQuery) -> Result<GemmPrecision, PolicyError>;

    /// When [`select`](PrecisionPolicy::choose) is asked.
    fn when(&self) -> When {
        When::OperandsReady
    }

    /// Whether [`select`](PrecisionPolicy::choose) may ever answer `precision`; what is not known
    /// counts as yes. An answer for which it said no may fail its product. Of use to a policy that
    /// is asked late: see [`Submission::fuse_updates`](crate::Submission::fuse_updates).
    fn may_select(&self, precision: GemmPrecision) -> bool {
        let _ = precision;
        true
    }

    /// The precision of the products inside diagonal updates and triangular solves, the same for
    /// all of them. Asked at submission; anything but [`Native`](PanelPrecision::Native) is for
    /// `f32` tiles.
    fn panel(&self) -> PanelPrecision {
        PanelPrecision::Native
    }

    /// All that [`select`](PrecisionPolicy::choose) may answer, where that is known: a GPU that
    /// lacks one of them is given no task whose precision is chosen late.
    fn precisions(&self) -> Option<Vec<GemmPrecision>> {
        None
    }

    /// The policy in a few words, for reports and errors.
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

/// A policy that asks `choose` when products are submitted, with positions and no norms.
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
