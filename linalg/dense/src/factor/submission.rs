//! How the tasks of a factorisation and of the solves with its factor are cut and what they read.

use zellige_kernels::GemmPrecision;

use super::Factorisation;
use super::codelets::ColumnWays;
use super::product::is_of;
use crate::policy::{SharedPolicy, When};
use crate::scalar::TileScalar;

/// How a factorisation and the solves with its factor are submitted. Results are the same bits
/// whatever is said here, on CPUs and on GPUs, but for [`by_inverses`](Submission::by_inverses).
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
    /// For solves: what the factorisation has said of its columns.
    pub(crate) ways: Option<ColumnWays>,
}

impl Default for Submission {
    /// A task for each product.
    fn default() -> Self {
        Submission { fuse_updates: 1, by_inverses: false, ways: None }
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
    /// There are fewer tasks, and the tile is moved, kept and waited for less often; but a product
    /// waits for the operands of the last of its task, and all of these have to have room on the
    /// task's device at once.
    ///
    /// For `fp32`, `hp1`, `bf1`, `x3` and `tf32`, whose result stays in `f32`; products in other
    /// precisions stay alone (`hp2` and `hp3` round the tile once per product). From a policy that
    /// is asked at submission, those of one task have one precision. One that is asked late is
    /// asked for each product, and products are put together where it [may
    /// choose](crate::PrecisionPolicy::may_select) two of these precisions at most.
    #[must_use]
    pub fn fuse_updates(self, products: usize) -> Self {
        Submission { fuse_updates: products.clamp(1, Self::MOST), ..self }
    }

    /// Triangular solves of a factorisation in `f32` on GPUs multiply with the inverses of diagonal
    /// blocks of 512, which are made once for each tile column, in place of substituting: products
    /// are faster there. How they do that depends on the roundoff of `f32` times `|L_jj| |L_jj^-1|`
    /// (Frobenius), in units of `sqrt(512)`, which the end of the tile's factorisation tells; so
    /// the solves of a column wait for that. Up to `2^-18` they multiply in X3 where the rule has
    /// `panel=x3`, up to `2^-16` in `f32`, up to `2^-12` with a step of iterative refinement, and
    /// above that they substitute. On CPU workers and in `f64` they always substitute; so do solves
    /// with the factor, but for those [`with_inverses_of`](Submission::with_inverses_of) it.
    #[must_use]
    pub fn by_inverses(self, by_inverses: bool) -> Self {
        Submission { by_inverses, ..self }
    }

    /// For solves with the factor that `factor` has made or will make: with the blocks with which
    /// its own solves were [`by_inverses`](Submission::by_inverses), these are, too, and wait for
    /// the same ends.
    #[must_use]
    pub fn with_inverses_of(self, factor: &Factorisation) -> Self {
        Submission { ways: factor.ways.clone(), ..self }
    }

    /// The most products in one task under `policy`.
    pub(crate) fn together<T: TileScalar>(&self, policy: &SharedPolicy) -> usize {
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

/// True if the products on a tile can be one task's: their sums and their result are in `f32`.
pub(super) fn accumulates(precision: GemmPrecision) -> bool {
    use GemmPrecision::{Bf1, Hp1, Sp, Tf32, X3};
    matches!(precision, Sp | Hp1 | Bf1 | X3 | Tf32)
}
