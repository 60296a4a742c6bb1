//! Mixed-precision tile Cholesky factorisation, `A = L L^T` (Doucet et al., Algorithm 1).
//!
//! The algorithm is lower and right-looking: each product runs as soon as its operands are
//! finished. Several products on one tile may share a task ([`Submission::fuse_updates`]). The
//! master copy of `L` stays in the element type, for triangular solves and diagonal updates; its
//! narrow forms are replicas that the runtime makes once per tile. A tile whose products are HP2 or
//! HP3 *is* `f16`, with its own scale, until a product in another precision or its triangular solve
//! converts it back.

pub(crate) mod codelets;
pub(crate) mod copies;
mod counts;
mod deferred;
mod levels;
mod long;
pub(crate) mod product;
mod submission;
mod together;

use std::sync::Arc;

use zellige_kernels::precision::PanelPrecision;
use zellige_kernels::{GemmPrecision, Op};
use zellige_runtime::{Runtime, Submit, TaskRef, read, update};

pub use copies::Copies;
pub use counts::GemmCounts;
pub use submission::Submission;

use crate::error::Error;
use crate::format::format_of;
use crate::policy::{GemmQuery, Phase, SharedPolicy};
use crate::scalar::TileScalar;
use crate::tiled::SymmetricTiled;
use codelets::{ColumnWays, Potrf, Syrk};
pub(crate) use codelets::{Trsm, native_update};
use copies::{Side, Source};
use levels::Levels;
use product::{Asked, Products, Tiles, Turn};

/// A factorisation that has been submitted.
#[derive(Clone, Debug)]
pub struct Factorisation {
    /// The last tile's factorisation: every other task precedes it, and every failure reaches it.
    last: Option<TaskRef>,
    counts: Arc<GemmCounts>,
    /// Solution methods of the diagonal blocks, if solves may use inverses.
    ways: Option<ColumnWays>,
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
/// Those of [`cholesky`], and [`Error::Copies`] for a policy or a precision that second copies do
/// not support.
pub fn cholesky_with<T: TileScalar, S: Submit>(
    s: &S,
    a: &SymmetricTiled<T>,
    policy: &SharedPolicy,
    submission: &Submission<T>,
) -> Result<Factorisation, Error> {
    let copies = &submission.copies;
    copies.check_policy(policy)?;
    product::check_policy::<T>(policy)?;
    let panel = panel::<T>(policy)?;
    let squares = panel.gemm(T::FULL);
    let (nt, grid) = (a.tiles(), a.grid());
    let counts = Arc::new(GemmCounts::new(nt, nt));
    let native = format_of(T::FORMAT);
    let levels = Levels::new(grid);
    let ways = (submission.by_inverses && T::FULL == GemmPrecision::Sp).then(|| ColumnWays::new(nt));
    let mut products = Products::new(s, policy, || a.norm(s), &counts, submission, Op::Trans)?;
    // A rank that has the form of a tile for diagonal updates converts it to the form for its other
    // products, so it need not receive both. If all products need the same form, the owner of the
    // diagonal tile should not always be the first, which forwards it to others.
    let is_same = |precision: &GemmPrecision| precision.operand_format() == squares.operand_format();
    let mixed = !policy.precisions().is_some_and(|all| all.iter().all(is_same));
    let (mut last, mut others) = (None, Vec::new());
    for k in 0..nt {
        let below = nt - k - 1;
        s.announce_step(below * (below + 1) / 2 + below + 1);
        let potrf = Potrf::<T>::new(k, grid.range(k), ways.clone());
        let task =
            s.codelet(potrf, (update(a.tile(k, k)).as_format(native),)).priority(levels.potrf(k)).submit()?;
        last = Some(task);
        for i in k + 1..nt {
            let shape = (grid.width(i), grid.width(k));
            let trsm = Trsm::<T>::of_factor(panel, (i, k), shape, ways.clone());
            let operands = (read(a.tile(k, k)), native_update(a.tile(i, k)), trsm.scratch());
            s.codelet(trsm, operands).priority(levels.trsm(i, k)).submit()?;
            copies.outdated(Side::Factor, (i, k));
        }
        let finished = |i| Source {
            tile: a.tile(i, k),
            side: Side::Factor,
            at: (i, k),
            shape: (grid.width(i), grid.width(k)),
        };
        let diagonal = |j: usize| -> Result<(), Error> {
            let syrk = Syrk::<T>::new(panel, j, k, (grid.width(j), grid.width(k)));
            let l = copies.operand(s, &finished(j), squares, levels.trsm(j, k))?;
            let operands = (
                read(&l).as_format(format_of(squares.operand_format())),
                native_update(a.tile(j, j)),
                syrk.scratch(),
            );
            s.codelet(syrk, operands).priority(levels.syrk(j, k)).submit()?;
            Ok(())
        };
        if mixed {
            (k + 1..nt).try_for_each(diagonal)?;
        }
        let query = |i, j| GemmQuery::unmeasured(Phase::Factor, [i, j, k], nt);
        let product = |products: &mut Products<'_, T, S>, (i, j): (usize, usize), asked: Asked| {
            let tiles = Tiles { a: finished(i), b: finished(j), c: a.tile(i, j) };
            // Whoever waits for the tile waits for its second copy.
            let converted = [levels.trsm(i, k), levels.trsm(j, k)];
            let turn = Turn { priority: levels.gemm(i, j, k), converted, last: k + 1 == j };
            products.submit(query(i, j), asked, &tiles, turn)
        };
        for j in k + 1..nt {
            if !mixed {
                diagonal(j)?;
            }
            for i in j + 1..nt {
                let asked = products.ask(&query(i, j))?;
                if mixed && !asked.precision().as_ref().is_some_and(is_same) {
                    others.push(((i, j), asked));
                } else {
                    product(&mut products, (i, j), asked)?;
                }
            }
        }
        others.drain(..).try_for_each(|(at, asked)| product(&mut products, at, asked))?;
    }
    Ok(Factorisation { last, counts, ways })
}
