//! Task granularity and operands of a factorisation and of the solves with its factor.

use zellige_kernels::GemmPrecision;

use super::Factorisation;
use super::codelets::ColumnSolves;
use super::product::is_of;
use crate::policy::{SharedPolicy, When};
use crate::rounding::Rounding;
use crate::scalar::TileScalar;

/// Submission options of a factorisation and of the solves with its factor. Results are bitwise
/// identical for all options, on CPUs and on GPUs, except for
/// [`by_inverses`](Submission::by_inverses) and [`round`](Submission::round).
///
/// ```
/// use zellige_dense::Submission;
///
/// let submission = Submission::default().fuse_updates(4).by_inverses(true);
/// # let _ = submission;
/// ```
#[derive(Debug)]
pub struct Submission {
    fuse_updates: usize,
    pub(crate) by_inverses: bool,
    /// For solves, the solution methods that the factorisation found for its columns.
    pub(crate) solves: Option<ColumnSolves>,
    /// For solves, the format to which the solution is rounded.
    pub(crate) rounding: Option<Rounding>,
}

impl Default for Submission {
    /// A task for each product.
    fn default() -> Self {
        Submission { fuse_updates: 1, by_inverses: false, solves: None, rounding: None }
    }
}

impl Submission {
    /// The most products on one tile that [`fuse_updates`](Submission::fuse_updates) puts in one
    /// task.
    pub const MOST: usize = 24;

    /// Up to so many consecutive products on one tile in one task, from 1 to
    /// [`MOST`](Submission::MOST): `C -= A_1 op(B_1) + .. + A_p op(B_p)`, one after the other, the
    /// updated tile where it is. 1 is right-looking: each product as soon as its operands are
    /// finished.
    ///
    /// There are fewer tasks, and the tile is moved, kept and waited for less often. But a product
    /// waits for the operands of the last one of its task, and all of these need memory on the
    /// task's device at once.
    ///
    /// Products in `fp32`, `hp1`, `bf1`, `x3` and `tf32`, whose result stays in `f32`, can share a
    /// task; products in other precisions stay alone (`hp2` and `hp3` round the tile once per
    /// product). With a policy that decides at submission, the products of a task have one
    /// precision. With deferred selection, the policy decides for each product, and products share
    /// a task if it [may choose](crate::PrecisionPolicy::may_select) at most two of these
    /// precisions.
    #[must_use]
    pub fn fuse_updates(self, products: usize) -> Self {
        Submission { fuse_updates: products.clamp(1, Self::MOST), ..self }
    }

    /// Enables triangular solves by inverses in a factorisation in `f32` on GPUs.
    ///
    /// These solves multiply with the inverses of diagonal blocks of 512, computed once for each
    /// tile column, instead of substituting: products are faster there. The method depends on the
    /// roundoff of `f32` times `|L_jj| |L_jj^-1|` (Frobenius), in units of `sqrt(512)`, which is
    /// known at the end of the tile's factorisation; so the solves of a column wait for that. Up to
    /// `2^-18` they multiply in X3 if the rule has `panel=x3`, up to `2^-16` in `f32`, up to
    /// `2^-12` with a step of iterative refinement, and above that they substitute. On CPU workers
    /// and in `f64` they always substitute. So do solves with the factor, except for those
    /// [`with_inverses_of`](Submission::with_inverses_of) it.
    #[must_use]
    pub fn by_inverses(self, by_inverses: bool) -> Self {
        Submission { by_inverses, ..self }
    }

    /// Sets the factorisation whose inverses the solves use, which may be submitted or not yet run.
    /// Blocks whose solves in the factorisation were [`by_inverses`](Submission::by_inverses) are
    /// solved by inverses here, too, and wait for the ends of the same tasks.
    #[must_use]
    pub fn with_inverses_of(self, factor: &Factorisation) -> Self {
        Submission { solves: factor.solves.clone(), ..self }
    }

    /// Rounds the solution of a solve to few bits. `tr((X - Q) A (X - Q)^T)` is small for the
    /// rounded solution `Q`, since columns make up for the errors of others, unless it is rounded
    /// to the nearest numbers. `b` has the rounded numbers at the end, and
    /// [`Solution::rounded`](crate::Solution::rounded) has them as integers.
    #[must_use]
    pub fn round(self, rounding: Rounding) -> Self {
        Submission { rounding: Some(rounding), ..self }
    }

    /// The most products in one task under `policy`.
    pub(crate) fn products_per_task<T: TileScalar>(&self, policy: &SharedPolicy) -> usize {
        let known = match policy.when() {
            When::AtSubmission => true,
            When::OperandsReady => {
                let possible =
                    || GemmPrecision::ALL.into_iter().filter(|&p| is_of::<T>(p) && policy.may_select(p));
                possible().all(accumulates) && possible().count() <= 2
            }
        };
        if known { self.fuse_updates } else { 1 }
    }
}

/// Returns true if the products on a tile can share a task: their sums and their result are in
/// `f32`.
pub(super) fn accumulates(precision: GemmPrecision) -> bool {
    use GemmPrecision::{Bf1, Hp1, Sp, Tf32, X3};
    matches!(precision, Sp | Hp1 | Bf1 | X3 | Tf32)
}
