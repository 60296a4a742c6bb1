//! Mixed-precision tile Cholesky factorisation, `A = L L^T` (Doucet et al., Algorithm 1).
//!
//! The algorithm is lower and right-looking: each product runs as soon as its operands are
//! finished. Several products on one tile may share a task ([`Submission::fuse_updates`]). The
//! master copy of `L` stays in the element type, for triangular solves and diagonal updates; its
//! narrow forms are replicas that the runtime makes once per tile. A tile whose products are HP2 or
//! HP3 *is* `f16`, with its own scale, until a product in another precision or its triangular solve
//! converts it back.

mod batched;
pub(crate) mod codelets;
mod counts;
mod deferred;
mod fused;
mod levels;
mod order;
pub(crate) mod product;
mod submission;

use std::sync::Arc;

use zellige_kernels::precision::PanelPrecision;
use zellige_kernels::{GemmPrecision, Op};
use zellige_runtime::{Runtime, Submit, TaskRef, read, update};

pub use counts::GemmCounts;
pub use submission::Submission;

use crate::error::Error;
use crate::format::format_of;
use crate::policy::{GemmQuery, Phase, SharedPolicy};
use crate::scalar::TileScalar;
use crate::tiled::SymmetricTiled;
use codelets::{ColumnSolves, Potrf, Syrk};
pub(crate) use codelets::{Trsm, native_update};
use levels::Levels;
use order::{Update, UpdateOrder};
use product::{OrderKey, Products, Source, Tiles};

/// A factorisation that has been submitted.
#[derive(Clone, Debug)]
pub struct Factorisation {
    /// The last tile's factorisation: every other task precedes it, and every failure reaches it.
    last: Option<TaskRef>,
    counts: Arc<GemmCounts>,
    /// Solution methods of the diagonal blocks, if solves may use inverses.
    solves: Option<ColumnSolves>,
}

impl Factorisation {
    /// Waits for the factor. For a recorded factorisation, wait for its replays instead.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`], [`Error::Policy`], or the first other error.
    pub fn wait(&self, rt: &Runtime) -> Result<(), Error> {
        match &self.last {
            Some(task) => Ok(rt.wait(task)?),
            None => Ok(()),
        }
    }

    /// Returns the products that have run, by precision.
    pub fn counts(&self) -> &GemmCounts {
        &self.counts
    }
}

/// Returns the priority of the generation of a tile in column `j`: below every task of a
/// factorisation, first columns first.
pub(crate) fn generation_priority(j: usize) -> i32 {
    -(j.min(1 << 20) as i32)
}

/// Returns the precision of diagonal updates and triangular solves on tiles of `T`.
///
/// # Errors
/// [`Error::Panel`] for a precision that such tiles do not support.
pub(crate) fn panel<T: TileScalar>(policy: &SharedPolicy) -> Result<PanelPrecision, Error> {
    let panel = policy.panel();
    if panel == PanelPrecision::Native || T::FULL == GemmPrecision::Sp {
        return Ok(panel);
    }
    Err(Error::Panel { got: panel, have: T::FORMAT })
}

/// Submits the factorisation of `a` in place: afterwards its tiles hold `L` (entries above the
/// diagonal of diagonal tiles are not part of it), and tile `(i, k)`, `i > k`, carries
/// `||L_ik||_F`.
///
/// A policy with deferred selection receives `||A_ij||`, from the tiles' writers, and `||A||`, from
/// a reduction in fixed order: all tiles must then be generated before the first product runs.
///
/// Results depend only on the matrix, its tiles and the policy's decisions.
///
/// # Errors
/// [`Error::Elements`] for a rule of other tiles, before anything is submitted;
/// [`Error::Precision`] and [`Error::Policy`] from a policy that decides at submission,
/// [`Error::Panel`], [`Error::Runtime`]. Some tasks have been submitted then, so fill the matrix
/// again before using it. Later errors come from [`Factorisation::wait`].
pub fn cholesky<T: TileScalar, S: Submit>(
    s: &S,
    a: &SymmetricTiled<T>,
    policy: &SharedPolicy,
) -> Result<Factorisation, Error> {
    cholesky_with(s, a, policy, &Submission::default())
}

/// Submits [`cholesky`] with these submission options: results are bitwise identical, except for
/// [`Submission::by_inverses`].
///
/// # Errors
/// Those of [`cholesky`].
pub fn cholesky_with<T: TileScalar, S: Submit>(
    s: &S,
    a: &SymmetricTiled<T>,
    policy: &SharedPolicy,
    submission: &Submission,
) -> Result<Factorisation, Error> {
    product::check_policy::<T>(policy, a.tiles())?;
    let panel = panel::<T>(policy)?;
    let squares = panel.gemm(T::FULL);
    let (nt, grid) = (a.tiles(), a.grid());
    let counts = Arc::new(GemmCounts::new(nt, nt));
    let native = format_of(T::FORMAT);
    let levels = Levels::new(grid);
    let solves = (submission.by_inverses && T::FULL == GemmPrecision::Sp).then(|| ColumnSolves::new(nt));
    let mut products = Products::new(s, policy, || a.norm(s), &counts, submission, Op::Trans)?;
    let order = UpdateOrder::new(policy, squares);
    let mut last = None;
    for k in 0..nt {
        let below = nt - k - 1;
        s.announce_step(below * (below + 1) / 2 + below + 1);

        // L_kk L_kk^T = A_kk
        let potrf = Potrf::<T>::new(k, grid.range(k), solves.clone());
        let operands = (update(a.tile(k, k)).as_format(native),);
        last = Some(s.codelet(potrf, operands).priority(levels.potrf(k)).submit()?);

        // L_ik = A_ik L_kk^-T
        for i in k + 1..nt {
            let shape = (grid.width(i), grid.width(k));
            let trsm = Trsm::<T>::of_factor(panel, (i, k), shape, solves.clone());
            let operands = (read(a.tile(k, k)), native_update(a.tile(i, k)), trsm.scratch());
            s.codelet(trsm, operands).priority(levels.trsm(i, k)).submit()?;
        }

        let query = |i, j| GemmQuery::unmeasured(Phase::Factor, [i, j, k], nt);
        let finished = |i| Source { tile: a.tile(i, k), shape: (grid.width(i), grid.width(k)) };
        for update in order.of_step(k + 1..nt, |i, j| products.ask(&query(i, j)))? {
            match update {
                // A_jj -= L_jk L_jk^T
                Update::Square(j) => {
                    let syrk = Syrk::<T>::new(panel, j, k, (grid.width(j), grid.width(k)));
                    let l = read(a.tile(j, k)).as_format(format_of(squares.operand_format()));
                    let operands = (l, native_update(a.tile(j, j)), syrk.scratch());
                    s.codelet(syrk, operands).priority(levels.syrk(j, k)).submit()?;
                }
                // A_ij -= L_ik L_jk^T, in the precision that the policy chooses
                Update::Product(i, j, answer) => {
                    let tiles = Tiles { a: finished(i), b: finished(j), c: a.tile(i, j) };
                    let order = OrderKey { priority: levels.gemm(i, j, k), last: k + 1 == j };
                    products.submit(query(i, j), answer, &tiles, order)?;
                }
            }
        }
    }
    Ok(Factorisation { last, counts, solves })
}

/// Submits the products `A_ij -= A_ik A_jk^T` of a Cholesky factorisation without its other tasks.
/// The result is no factor: it is for measuring and simulating how long the products take.
///
/// # Errors
/// Those of [`cholesky_with`].
pub fn products_of_cholesky<T: TileScalar, S: Submit>(
    s: &S,
    a: &SymmetricTiled<T>,
    policy: &SharedPolicy,
    submission: &Submission,
) -> Result<(), Error> {
    product::check_policy::<T>(policy, a.tiles())?;
    let (nt, grid, levels) = (a.tiles(), a.grid(), Levels::new(a.grid()));
    let counts = Arc::new(GemmCounts::new(nt, nt));
    let mut products = Products::new(s, policy, || a.norm(s), &counts, submission, Op::Trans)?;
    for k in 0..nt {
        let finished = |i| Source { tile: a.tile(i, k), shape: (grid.width(i), grid.width(k)) };
        for j in k + 1..nt {
            for i in j + 1..nt {
                let query = GemmQuery::unmeasured(Phase::Factor, [i, j, k], nt);
                let answer = products.ask(&query)?;
                let tiles = Tiles { a: finished(i), b: finished(j), c: a.tile(i, j) };
                let order = OrderKey { priority: levels.gemm(i, j, k), last: k + 1 == j };
                products.submit(query, answer, &tiles, order)?;
            }
        }
    }
    Ok(())
}
