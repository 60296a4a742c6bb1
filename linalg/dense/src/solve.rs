//! `X A = B` with the factor `A = L L^T`: `Y L^T = B`, then `X L = Y` (Doucet et al., Algorithm 2).

use std::sync::Arc;

use zellige_kernels::Op;
use zellige_runtime::{Runtime, Submit, TaskRef, read};

use crate::error::Error;
use crate::factor::product::{OrderKey, Products, Source, Tiles, check_policy};
use crate::factor::{GemmCounts, Submission, Trsm, native_update, panel};
use crate::policy::{GemmQuery, Phase, SharedPolicy};
use crate::rounding::RoundedTiles;
use crate::scalar::TileScalar;
use crate::tiled::{RectTiled, SymmetricTiled};

/// A solve that has been submitted.
#[derive(Clone, Debug)]
pub struct Solution {
    /// The last task of each row of tiles: all failures of the row reach it.
    last: Vec<TaskRef>,
    counts: Arc<GemmCounts>,
    rounded: Option<RoundedTiles>,
}

impl Solution {
    /// Waits for the solution. For a recorded solve, wait for its replays instead.
    ///
    /// # Errors
    /// The first error, including those of the factorisation before it.
    pub fn wait(&self, rt: &Runtime) -> Result<(), Error> {
        for task in &self.last {
            rt.wait(task)?;
        }
        Ok(())
    }

    /// Returns the products that have run, by precision.
    pub fn counts(&self) -> &GemmCounts {
        &self.counts
    }

    /// Returns the solution as integers, if the solve [rounds](Submission::round) it.
    pub fn rounded(&self) -> Option<&RoundedTiles> {
        self.rounded.as_ref()
    }
}

/// Submits the solution of `X A = B` in place of `b` (`m x n`), with `l` the factor of `A` from
/// [`cholesky`](crate::cholesky), which may not have run yet: this function does not wait.
///
/// The policy receives each product as [`Phase::Solve`]: `||B_ij||` and `||B||` are norms before
/// each of the two solves, `norm_l_ik` is the norm of the finished tile of `X`, `norm_l_jk` that of
/// the tile of `L`.
///
/// # Errors
/// [`Error::Shape`] if the columns of `b` are not tiled like `l`; [`Error::Elements`],
/// [`Error::Precision`], [`Error::Panel`], [`Error::Policy`] and [`Error::Runtime`] as for
/// [`cholesky`](crate::cholesky).
pub fn solve<T: TileScalar, S: Submit>(
    s: &S,
    l: &SymmetricTiled<T>,
    b: &RectTiled<T>,
    policy: &SharedPolicy,
) -> Result<Solution, Error> {
    solve_with(s, l, b, policy, &Submission::default(), |_| Ok(()))
}

/// Submits [`solve`] with these submission options: results are bitwise identical, except for
/// [`Submission::with_inverses_of`] and [`Submission::round`]. `between` is called after `Y` has
/// been submitted and before the second solve is.
///
/// # Errors
/// Those of [`solve`], and those of `between`; [`Error::Format`] for a solution in `f64` that is to
/// be rounded.
pub fn solve_with<T: TileScalar, S: Submit>(
    s: &S,
    l: &SymmetricTiled<T>,
    b: &RectTiled<T>,
    policy: &SharedPolicy,
    submission: &Submission,
    between: impl FnOnce(&RectTiled<T>) -> Result<(), Error>,
) -> Result<Solution, Error> {
    check_policy::<T>(policy, l.tiles())?;
    if l.grid().edges() != b.col_grid().edges() {
        return Err(Error::Shape {
            what: "solving X A = B",
            got: format!("B with column edges {:?}", b.col_grid().edges()),
            want: format!("A with edges {:?}", l.grid().edges()),
        });
    }
    let counts = Arc::new(GemmCounts::new(b.row_grid().tiles(), l.tiles()));
    let rounded =
        submission.rounding.clone().map(|format| RoundedTiles::new(s, format, b.row_grid(), b.col_grid()));
    half(s, l, b, policy, submission, &counts, Op::Trans, None)?;
    between(b)?;
    let last = half(s, l, b, policy, submission, &counts, Op::None, rounded.as_ref())?;
    Ok(Solution { last, counts, rounded })
}

/// Submits `X op(L) = B`, with the solution rounded if `rounded` is there; returns the last task of
/// each row of tiles.
fn half<T: TileScalar, S: Submit>(
    s: &S,
    l: &SymmetricTiled<T>,
    b: &RectTiled<T>,
    policy: &SharedPolicy,
    submission: &Submission,
    counts: &Arc<GemmCounts>,
    op: Op,
    rounded: Option<&RoundedTiles>,
) -> Result<Vec<TaskRef>, Error> {
    let panel = panel::<T>(policy)?;
    let (mt, nt) = (b.row_grid().tiles(), l.tiles());
    let mut products = Products::new(s, policy, || b.norm(s), counts, submission, op)?;
    let mut last = Vec::new();
    for step in 0..nt {
        // From the first column on for L^T, from the last one on for L.
        let k = match op {
            Op::Trans => step,
            Op::None => nt - 1 - step,
        };
        let left = nt - 1 - step;
        s.announce_step(mt * (left + 1));
        last.clear();
        for m in 0..mt {
            let rows = b.row_grid().width(m);
            let shape = (rows, l.grid().width(k));
            let codelet = Trsm::<T>::of_solution(panel, op, (m, k), shape, submission.solves.clone());
            let operands = (read(l.tile(k, k)), native_update(b.tile(m, k)), codelet.scratch());
            let urgent = priority(op, left, left + 1);
            let task = s.codelet(codelet, operands).priority(urgent).submit()?;
            let round = |rounded: &RoundedTiles| rounded.submit(s, (l, b), (m, k), urgent);
            // Rounded columns make up for the errors of later ones, nearest numbers do not.
            let at_once = rounded.filter(|rounded| !rounded.rounding().is_nearest());
            last.push(at_once.map_or(Ok(task), round)?);
            for n in remaining(op, k, nt) {
                let query = GemmQuery::unmeasured(Phase::Solve, [m, n, k], nt);
                let at = (n.max(k), n.min(k));
                let tiles = Tiles {
                    a: Source { tile: b.tile(m, k), shape: (rows, l.grid().width(k)) },
                    b: Source {
                        tile: l.tile(at.0, at.1),
                        shape: (l.grid().width(at.0), l.grid().width(at.1)),
                    },
                    c: b.tile(m, n),
                };
                let columns = match op {
                    Op::Trans => nt - n,
                    Op::None => n + 1,
                };
                let order = OrderKey { priority: priority(op, left, columns), last: n.abs_diff(k) == 1 };
                let answer = products.ask(&query)?;
                products.submit(query, answer, &tiles, order)?;
            }
            if let Some(rounded) = rounded.filter(|rounded| rounded.rounding().is_nearest()) {
                last.push(round(rounded)?);
            }
        }
    }
    Ok(last)
}

/// Returns the columns that step `k` updates, the next one first.
fn remaining(op: Op, k: usize, nt: usize) -> Box<dyn Iterator<Item = usize>> {
    match op {
        Op::Trans => Box::new(k + 1..nt),
        Op::None => Box::new((0..k).rev()),
    }
}

/// Returns the priority of a task: below every task of a factorisation; the first half before the
/// second; within one, the higher the more columns wait for the task (`columns` of the updated
/// tile, then `left` steps).
fn priority(op: Op, left: usize, columns: usize) -> i32 {
    let base = match op {
        Op::Trans => -(1 << 29),
        Op::None => -(1 << 30),
    };
    let small = |x: usize| x.min(1 << 13) as i32;
    base + (small(columns) << 14) + small(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_half_comes_first_and_early_columns_before_late_ones() {
        assert!(priority(Op::Trans, 0, 1) > priority(Op::None, usize::MAX, usize::MAX));
        assert!(priority(Op::Trans, 3, 5) > priority(Op::Trans, 3, 4));
        assert!(priority(Op::Trans, usize::MAX, usize::MAX) < -(1 << 21));
    }
}
