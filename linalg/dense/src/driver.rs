//! Dense systems from plain arrays.

use std::sync::Arc;

use zellige_kernels::{GemmPrecision, StorageFormat};
use zellige_krylov::{Gmres, Logger, Reason, Solution, Solve, Stop, StoppingCriterion, solve_columns};
use zellige_runtime::Runtime;
use zellige_stochastic::{Sample, Trust, TrustOptions};

use crate::error::{Error, SOLUTION};
use crate::factor::cholesky;
use crate::grid::TileGrid;
use crate::operators::{FactorOperator, SymmetricOperator};
use crate::policy::{Rule, SharedPolicy};
use crate::refine::{RefineEnd, RefineUntil, Refinement, Residual, refine_by, widened};
use crate::scalar::TileScalar;
use crate::scale::{exponent, norm, times_power};
use crate::solve::solve;
use crate::tiled::{Generator, RectTiled, SymmetricTiled, generator};
use crate::trust;

/// Rows of a tile: a product of tiles takes much longer than starting it, and most matrices have
/// many.
const TILE: usize = 256;

/// The Cholesky factorisation `A = L L^T` of a symmetric positive definite matrix, with the
/// precision of each tile product chosen by a [`Rule`], like LAPACK's `potrf` and `potrs` in one
/// precision. The rule `fp64` has a factor in float64, all others have one in float32.
///
/// Matrices and right-hand sides may have any finite numbers of float64. Rows and columns are
/// multiplied by powers of two, which causes no rounding, so that diagonal entries are in \[1, 4),
/// and so is each right-hand side. The factored matrix is `S A S`, and a rule uses its norms. Badly
/// scaled rows and columns of `A = D C D` have no effect if `C` is well-conditioned. In single
/// precision, `solve` treats entries below 1e-38 relative to the largest entry of a scaled
/// right-hand side as zero; refinement recovers them. Residuals are those of `A` and `B` as they
/// are given.
///
/// ```
/// use zellige_dense::Cholesky;
/// use zellige_runtime::Runtime;
///
/// let (rt, n) = (Runtime::new().expect("a runtime"), 300usize);
/// let a: Vec<f64> = (0..n * n).map(|at: usize| 1.0 / (1.0 + (at / n).abs_diff(at % n) as f64) + f64::from(at / n == at % n)).collect();
/// let factor = Cholesky::factor(&rt, n, &a, "hp1:operand=1e-2")?; // half precision where both operands are small
/// let b = vec![1.0; n];
/// let x = factor.solve(&b)?; // as accurate as the factor
/// let (y, refinement) = factor.refine(&b, 1e-12)?; // as accurate as float64
/// assert!(refinement.residual <= 1e-12 && (x[7] - y[7]).abs() < 1e-2);
/// # Ok::<(), zellige_dense::Error>(())
/// ```
pub struct Cholesky<'r> {
    rt: &'r Runtime,
    n: usize,
    /// `S A S`, column by column.
    a: Arc<[f64]>,
    /// `S` has these powers of two on its diagonal.
    s: Vec<i32>,
    l: Factor,
    policy: SharedPolicy,
    shares: Vec<(GemmPrecision, f64)>,
}

/// The factor `L`, in the format that the rule requires.
enum Factor {
    Single(SymmetricTiled<f32>),
    Double(SymmetricTiled<f64>),
}

/// Right-hand sides `B`, and `S B` with each column multiplied by its own power of two.
struct RightHandSides<'b> {
    given: &'b [f64],
    columns: usize,
    /// Column by column.
    scaled: Arc<[f64]>,
    /// The exponents of these powers.
    powers: Vec<i32>,
}

impl<'r> Cholesky<'r> {
    /// Factors an `n x n` column-major matrix; only its lower triangle is read. Waits for the
    /// factor.
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of entries, [`Error::NotFinite`] for a non-finite one,
    /// [`Error::Rule`] for an invalid rule, [`Error::NotPositiveDefinite`] with the row at which
    /// the factorisation, in this precision, finds that the matrix is not positive definite.
    pub fn factor(rt: &'r Runtime, n: usize, a: &[f64], rule: &str) -> Result<Self, Error> {
        Self::new(rt, (n, TILE), a, rule, 0.0)
    }

    /// Factors a matrix like [`factor`](Cholesky::factor), in tiles of `tile` rows. A rule needs
    /// three tiles along a side to have an effect; the default is 256.
    ///
    /// # Errors
    /// Those of [`factor`](Cholesky::factor); [`Error::Grid`] for tiles without rows.
    pub fn factor_tiled(
        rt: &'r Runtime,
        n: usize,
        a: &[f64],
        rule: &str,
        tile: usize,
    ) -> Result<Self, Error> {
        Self::new(rt, (n, tile), a, rule, 0.0)
    }

    /// Factors the matrix with its diagonal multiplied by `1 + shift`, for one that is so
    /// ill-conditioned that it is not positive definite in this precision (Higham and Pranesh
    /// 2021): a small multiple of the precision's unit roundoff. Refinements are of the matrix
    /// itself, and most need [`refine_gmres`](Cholesky::refine_gmres).
    ///
    /// # Errors
    /// As [`factor`](Cholesky::factor).
    pub fn factor_shifted(
        rt: &'r Runtime,
        n: usize,
        a: &[f64],
        rule: &str,
        shift: f64,
    ) -> Result<Self, Error> {
        Self::new(rt, (n, TILE), a, rule, shift)
    }

    fn new(
        rt: &'r Runtime,
        (n, tile): (usize, usize),
        a: &[f64],
        rule: &str,
        shift: f64,
    ) -> Result<Self, Error> {
        check("matrix", a.len(), n.saturating_mul(n))?;
        let rule: Rule = rule.parse()?;
        for (j, column) in a.chunks_exact(n.max(1)).enumerate() {
            check_finite("matrix", j, &column[j..], j)?;
        }
        // Symmetric scaling to a diagonal of like numbers has close to the least condition number
        // of all (van der Sluis 1969).
        let s: Vec<i32> = a.iter().step_by(n + 1).map(|a| -(exponent(*a) >> 1)).collect();
        let element = |(at, a): (usize, &f64)| times_power(*a, s[at % n] + s[at / n]);
        let a: Arc<[f64]> = a.iter().enumerate().map(element).collect();
        let shifted: Arc<[f64]> = match shift {
            0.0 => Arc::clone(&a),
            _ => {
                let of_diagonal = |at: usize| if at.is_multiple_of(n + 1) { 1.0 + shift } else { 1.0 };
                a.iter().enumerate().map(|(at, a)| a * of_diagonal(at)).collect()
            }
        };
        let (element, policy) = (rule.element(), SharedPolicy::from(rule));
        let grid = TileGrid::uniform(n, tile)?;
        let made = match element {
            StorageFormat::F64 => {
                let l = SymmetricTiled::generate(rt, grid, &block::<f64>(&shifted, n))?;
                factored(rt, &l, &policy).map(|shares| (Factor::Double(l), shares))
            }
            _ => {
                let l = SymmetricTiled::generate(rt, grid, &block::<f32>(&shifted, n))?;
                factored(rt, &l, &policy).map(|shares| (Factor::Single(l), shares))
            }
        };
        let (l, shares) = made.map_err(|error| match error {
            // The pivot of the matrix that was given.
            Error::NotPositiveDefinite(lost) => {
                let value = times_power(lost.value, -2 * s[lost.row]);
                Error::NotPositiveDefinite(crate::NotPositiveDefinite { value, ..lost })
            }
            other => other,
        })?;
        Ok(Cholesky { rt, n, a, s, l, policy, shares })
    }

    /// Rows of the matrix.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Returns the share of tile products that ran in each precision.
    pub fn shares(&self) -> &[(GemmPrecision, f64)] {
        &self.shares
    }

    /// Computes `A^-1 B` to the accuracy of the factor: `b` and the answer have `n` entries for
    /// each column, column-major.
    ///
    /// # Errors
    /// [`Error::Shape`] for an incomplete column, [`Error::NotFinite`] for a non-finite entry, or a
    /// solution beyond the range of float64; errors of tasks.
    pub fn solve(&self, b: &[f64]) -> Result<Vec<f64>, Error> {
        let b = self.right_hand_sides(b)?;
        let y = match &self.l {
            Factor::Single(l) => turned(&self.solved(l, &b)?.gather(self.rt)?, b.columns),
            Factor::Double(l) => turned(&self.solved(l, &b)?.gather(self.rt)?, b.columns),
        };
        self.solution(&b, &y)
    }

    /// Computes `A^-1 B` by iterative refinement in float64, until each column's residual is at
    /// most `tolerance` relative to it (`||b - A x||_2 <= tolerance ||b||_2`), or no longer halved
    /// by a step. Also returns the result of the refinement, with the residual of the column that
    /// has the largest. The tolerance is reached if and only if [`end`](Refinement::end) is
    /// [`RefineEnd::Converged`]. Refinement needs a condition number below the inverse of the
    /// factor's unit roundoff: about 1e7 in single precision, 1e3 in half.
    ///
    /// If numbers of the solution are subnormal, the residual is that of the rounded numbers.
    ///
    /// # Errors
    /// Those of [`solve`](Cholesky::solve).
    pub fn refine(&self, b: &[f64], tolerance: f64) -> Result<(Vec<f64>, Refinement), Error> {
        let b = self.right_hand_sides(b)?;
        match &self.l {
            Factor::Single(l) => self.refined(l, &b, tolerance),
            Factor::Double(l) => self.refined(l, &b, tolerance),
        }
    }

    fn refined<T: TileScalar>(
        &self,
        l: &SymmetricTiled<T>,
        b: &RightHandSides<'_>,
        tolerance: f64,
    ) -> Result<(Vec<f64>, Refinement), Error> {
        let y = widened(self.rt, &self.solved(l, b)?)?;
        let (a, rows) = (block::<f64>(&self.a, self.n), rows::<f64>(&b.scaled, self.n));
        let until = RefineUntil { steps: MOST_STEPS, tolerance };
        let measured = |r: &RectTiled<f64>| {
            let of_columns = self.residuals(b, &turned(&r.gather(self.rt)?, b.columns));
            Ok(Some(of_columns.into_iter().fold(0.0, |most, r| if r <= most { most } else { r })))
        };
        let mut refinement = refine_by(self.rt, (l, &self.policy), (&a, &rows), &y, until, &measured)?;
        let y = turned(&y.gather(self.rt)?, b.columns);
        let x = self.solution(b, &y)?;
        if let Some(rounded) = self.rounded(b, &x, &y) {
            refinement.residual =
                self.residuals(b, &self.residual(b, rounded)?).into_iter().fold(0.0, f64::max);
            if refinement.residual > tolerance && refinement.end == RefineEnd::Converged {
                refinement.end = RefineEnd::Stagnated;
            }
        }
        Ok((x, refinement))
    }

    /// Judges the digits of the factor, and of [`solve`](Cholesky::solve) where there are
    /// right-hand sides, on a runtime that keeps subnormal numbers. They are computed again, with
    /// all products in the format of the factor. The right-hand sides are the rows of the map `X`.
    ///
    /// # Errors
    /// Those of [`solve`](Cholesky::solve) and [`trust::solve`].
    pub fn trust(&self, rt: &Runtime, b: Option<&[f64]>, options: &TrustOptions) -> Result<Trust, Error> {
        let b = b.map(|b| self.right_hand_sides(b)).transpose()?;
        match &self.l {
            Factor::Single(l) => self.judged(rt, l, b.as_ref(), options),
            Factor::Double(l) => self.judged(rt, l, b.as_ref(), options),
        }
    }

    fn judged<T: TileScalar + Sample>(
        &self,
        rt: &Runtime,
        l: &SymmetricTiled<T>,
        b: Option<&RightHandSides<'_>>,
        options: &TrustOptions,
    ) -> Result<Trust, Error> {
        let a = block::<T>(&self.a, self.n);
        match b {
            None => trust::cholesky(rt, l.grid(), &a, options),
            Some(b) => {
                let (rows, right) = (TileGrid::uniform(b.columns, TILE)?, rows::<T>(&b.scaled, self.n));
                trust::solve(rt, l.grid(), &a, &rows, &right, options)
            }
        }
    }

    /// Computes `A^-1 B` by iterative refinement in float64 with corrections from GMRES,
    /// preconditioned by the factor (GMRES-IR: Carson and Higham 2018), until the residual of each
    /// column is at most `tolerance` relative to it. Also returns the result for each column, with
    /// its [`reason`](zellige_krylov::Solution::reason). It converges for condition numbers for
    /// which [`refine`](Cholesky::refine) does not.
    ///
    /// It ends when residuals do not decrease any more. Each correction is solved for to four
    /// digits of its residual.
    ///
    /// ```
    /// use zellige_dense::Cholesky;
    /// use zellige_runtime::Runtime;
    ///
    /// // The minimum of i and j: a condition number of 4 n^2, too much for half precision.
    /// let (rt, n) = (Runtime::new().expect("a runtime"), 100usize);
    /// let a: Vec<f64> = (0..n * n).map(|at| 1.0 + (at / n).min(at % n) as f64).collect();
    /// let factor = Cholesky::factor_shifted(&rt, n, &a, "hp1", 1e-3)?;
    /// let (x, found) = factor.refine_gmres(&vec![1.0; n], 1e-12)?;
    /// assert!(found[0].reason.is_converged() && (x[0] - 1.0).abs() < 1e-6 && x[50].abs() < 1e-6);
    /// # Ok::<(), zellige_dense::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`solve`](Cholesky::solve).
    pub fn refine_gmres(&self, b: &[f64], tolerance: f64) -> Result<(Vec<f64>, Vec<Solution>), Error> {
        let b = self.right_hand_sides(b)?;
        if b.columns == 0 {
            return Ok((Vec::new(), Vec::new()));
        }
        match &self.l {
            Factor::Single(l) => self.refined_by_gmres(l, &b, tolerance),
            Factor::Double(l) => self.refined_by_gmres(l, &b, tolerance),
        }
    }

    fn refined_by_gmres<T: TileScalar>(
        &self,
        l: &SymmetricTiled<T>,
        b: &RightHandSides<'_>,
        tolerance: f64,
    ) -> Result<(Vec<f64>, Vec<Solution>), Error> {
        let a = SymmetricOperator::new(l.grid(), &block::<f64>(&self.a, self.n))?;
        let m = FactorOperator::new(l, &self.policy)?;
        let problem =
            Solve { preconditioner: Some(&m), reduction: INNER_REDUCTION, ..Solve::new(self.rt, &a) };
        // The flexible variant, because the factor is applied in its own precision: its rounding is
        // then no error.
        let gmres = Gmres { restart: RESTART.min(self.n), flexible: true, ..Gmres::default() };
        let (mut y, mut goals) = (vec![0.0; b.given.len()], vec![tolerance; b.columns]);
        let columns: Vec<&[f64]> = b.scaled.chunks_exact(self.n).collect();
        let mut found: Vec<Solution> = Vec::new();
        let mut residuals = Vec::new();
        for _ in 0..MOST_ROUNDS {
            let stops: Vec<[Stop; 2]> = goals
                .iter()
                .map(|goal| [Stop::RelativeToRhs(*goal), Stop::Steps(MOST_INNER_STEPS)])
                .collect();
            let stops: Vec<&[Stop]> = stops.iter().map(|stop| &stop[..]).collect();
            let stops: Vec<&dyn StoppingCriterion> = stops.iter().map(|stop| stop as _).collect();
            let mut logs = vec![(); b.columns];
            let mut logs: Vec<&mut dyn Logger> = logs.iter_mut().map(|log| log as _).collect();
            let mut of_column: Vec<&mut [f64]> = y.chunks_exact_mut(self.n).collect();
            let now = solve_columns(&problem, &gmres, &columns, &mut of_column, &stops, &mut logs)?;
            let sum = |(now, was): (Solution, &Solution)| Solution {
                steps: was.steps + now.steps,
                updates: was.updates + now.updates,
                runs: was.runs + now.runs,
                ..now
            };
            found = if found.is_empty() { now } else { now.into_iter().zip(&found).map(sum).collect() };
            // Criteria use `S A S`: rows of `A` that are larger than others may have to continue.
            residuals = self.residuals(b, &self.residual(b, y.clone())?);
            let mut is_open = false;
            for ((found, residual), goal) in found.iter().zip(&residuals).zip(&mut goals) {
                if found.reason.is_converged() && *residual > tolerance && residual.is_finite() {
                    (*goal, is_open) = (*goal * (0.5 * tolerance / residual), true);
                }
            }
            if !is_open {
                break;
            }
        }
        let x = self.solution(b, &y)?;
        if let Some(rounded) = self.rounded(b, &x, &y) {
            residuals = self.residuals(b, &self.residual(b, rounded)?);
        }
        for ((found, residual), b) in found.iter_mut().zip(residuals).zip(b.given.chunks_exact(self.n)) {
            let (size, e) = norm(b.iter().map(|b| (*b, 0)));
            found.iterated_residual =
                times_power(found.iterated_residual / found.rhs.max(f64::MIN_POSITIVE) * size, e);
            (found.rhs, found.true_residual) = (times_power(size, e), times_power(residual * size, e));
            found.reason = match found.reason {
                _ if residual <= tolerance => Reason::Converged,
                Reason::Converged => Reason::Stagnated,
                other => other,
            };
        }
        Ok((x, found))
    }

    fn right_hand_sides<'b>(&self, b: &'b [f64]) -> Result<RightHandSides<'b>, Error> {
        let columns = b.len().checked_div(self.n).unwrap_or(0);
        check("right-hand sides", b.len(), columns * self.n)?;
        let (mut scaled, mut powers) = (Vec::with_capacity(b.len()), Vec::with_capacity(columns));
        for (k, column) in b.chunks_exact(self.n.max(1)).enumerate() {
            check_finite("right-hand sides", 0, column, k)?;
            let each = column.iter().zip(&self.s);
            let sizes = each.clone().filter(|(b, _)| **b != 0.0).map(|(b, s)| exponent(*b) + s);
            let power = -sizes.max().unwrap_or(0);
            scaled.extend(each.map(|(b, s)| times_power(*b, s + power)));
            powers.push(power);
        }
        Ok(RightHandSides { given: b, columns, scaled: scaled.into(), powers })
    }

    /// Solves `Y S A S = B^T`, with the right-hand sides as rows.
    fn solved<T: TileScalar>(
        &self,
        l: &SymmetricTiled<T>,
        b: &RightHandSides<'_>,
    ) -> Result<RectTiled<T>, Error> {
        let (rows, grid) = (rows::<T>(&b.scaled, self.n), TileGrid::uniform(b.columns, TILE)?);
        let x = RectTiled::generate(self.rt, "B", grid, l.grid().clone(), &rows)?;
        solve(self.rt, l, &x, &self.policy)?.wait(self.rt)?;
        Ok(x)
    }

    /// Returns `X` of the scaled system's `Y`, both column-major.
    fn solution(&self, b: &RightHandSides<'_>, y: &[f64]) -> Result<Vec<f64>, Error> {
        let x: Vec<f64> = self.by_columns(b, y).map(|(y, s, power)| times_power(y, s - power)).collect();
        for (k, column) in x.chunks_exact(self.n.max(1)).enumerate() {
            check_finite(SOLUTION, 0, column, k)?;
        }
        Ok(x)
    }

    /// Returns the scaled system's `Y` of `X`, if it differs from the `Y` that `X` was computed
    /// from: subnormal numbers are rounded.
    fn rounded(&self, b: &RightHandSides<'_>, x: &[f64], y: &[f64]) -> Option<Vec<f64>> {
        let rounded: Vec<f64> =
            self.by_columns(b, x).map(|(x, s, power)| times_power(x, power - s)).collect();
        (rounded != y).then_some(rounded)
    }

    /// Returns `B^T - Y S A S`, column by column.
    fn residual(&self, b: &RightHandSides<'_>, y: Vec<f64>) -> Result<Vec<f64>, Error> {
        let (a, rows_of_b) = (block::<f64>(&self.a, self.n), rows::<f64>(&b.scaled, self.n));
        let (y, grid) = (rows::<f64>(&y.into(), self.n), TileGrid::uniform(b.columns, TILE)?);
        let y = RectTiled::generate(self.rt, "X", grid, TileGrid::uniform(self.n, TILE)?, &y)?;
        let residual = Residual::new(self.rt, &a, &rows_of_b, &y, &|_| Ok(None))?;
        Ok(turned(&residual.r.gather(self.rt)?, b.columns))
    }

    /// Returns `||b - A x||_2 / ||b||_2` of each column, from the scaled system's residual, column
    /// by column.
    fn residuals(&self, b: &RightHandSides<'_>, r: &[f64]) -> Vec<f64> {
        let columns = r.chunks_exact(self.n.max(1)).zip(b.given.chunks_exact(self.n.max(1))).zip(&b.powers);
        let relative = |((r, b), power): ((&[f64], &[f64]), &i32)| {
            let (r, of_r) = norm(r.iter().zip(&self.s).map(|(r, s)| (*r, -s - power)));
            let (b, of_b) = norm(b.iter().map(|b| (*b, 0)));
            if r == 0.0 { 0.0 } else { times_power(r / b, of_r - of_b) }
        };
        columns.map(relative).collect()
    }

    /// Returns the numbers in column-major order, with the exponents of their rows and of their
    /// columns.
    fn by_columns(&self, b: &RightHandSides<'_>, v: &[f64]) -> impl Iterator<Item = (f64, i32, i32)> {
        let columns = v.chunks_exact(self.n.max(1)).zip(&b.powers);
        columns.flat_map(|(v, power)| v.iter().zip(&self.s).map(|(v, s)| (*v, *s, *power)))
    }
}

/// Refinement halves the residual in each step: more are not needed for any number of digits.
const MOST_STEPS: usize = 60;

/// Parameters of GMRES for a correction: reduction of its residual, steps between restarts, and
/// steps in total.
const INNER_REDUCTION: f64 = 1e-4;
const RESTART: usize = 60;
const MOST_INNER_STEPS: usize = 2000;
/// Maximum number of continuations of GMRES after the residual of the scaled system was small
/// enough but that of the given one was not.
const MOST_ROUNDS: usize = 4;

/// Factors in place, and waits; returns the share of tile products in each precision.
fn factored<T: TileScalar>(
    rt: &Runtime,
    l: &SymmetricTiled<T>,
    policy: &SharedPolicy,
) -> Result<Vec<(GemmPrecision, f64)>, Error> {
    let factor = cholesky(rt, l, policy)?;
    factor.wait(rt)?;
    Ok(factor.counts().shares())
}

fn check(what: &'static str, found: usize, wanted: usize) -> Result<(), Error> {
    if found == wanted {
        return Ok(());
    }
    Err(Error::Shape { what, got: format!("{found} elements"), want: format!("{wanted}") })
}

/// Refuses non-finite numbers, in a column from row `first` on.
fn check_finite(what: &'static str, first: usize, numbers: &[f64], column: usize) -> Result<(), Error> {
    match numbers.iter().position(|x| !x.is_finite()) {
        Some(at) => Err(Error::NotFinite { what, row: first + at, column, value: numbers[at] }),
        None => Ok(()),
    }
}

/// Returns a generator of blocks of a symmetric matrix with a given lower triangle.
fn block<T: TileScalar>(a: &Arc<[f64]>, n: usize) -> Generator<T> {
    let a = Arc::clone(a);
    generator(move |rows, columns, out: &mut [T], ld: usize| {
        for (c, j) in columns.enumerate() {
            for (r, i) in rows.clone().enumerate() {
                out[r + c * ld] = T::from_f64(a[i.max(j) + i.min(j) * n]);
            }
        }
    })
}

/// Returns a generator of right-hand sides as rows.
fn rows<T: TileScalar>(b: &Arc<[f64]>, n: usize) -> Generator<T> {
    let b = Arc::clone(b);
    generator(move |rows, columns, out: &mut [T], ld: usize| {
        for (c, j) in columns.enumerate() {
            for (r, i) in rows.clone().enumerate() {
                out[r + c * ld] = T::from_f64(b[j + i * n]);
            }
        }
    })
}

/// Converts a column-major matrix to row-major order.
fn turned<T: TileScalar>(x: &[T], rows: usize) -> Vec<f64> {
    (0..rows).flat_map(|i| x.iter().skip(i).step_by(rows)).map(|x| x.to_f64()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(n: usize) -> Vec<f64> {
        let element = |i: usize, j: usize| 1.0 / (1.0 + i.abs_diff(j) as f64) + f64::from(u8::from(i == j));
        (0..n * n).map(|at| element(at % n, at / n)).collect()
    }

    /// Returns the product of the matrix and columns.
    fn product(a: &[f64], n: usize, x: &[f64]) -> Vec<f64> {
        x.chunks_exact(n)
            .flat_map(|x| (0..n).map(move |i| (0..n).map(|j| a[i + j * n] * x[j]).sum()))
            .collect()
    }

    #[test]
    fn systems_are_solved_from_arrays() -> Result<(), Error> {
        let rt = Runtime::builder().workers(2).build().map_err(Error::Runtime)?;
        for (n, columns) in [(1, 1), (300, 1), (700, 3)] {
            let a = matrix(n);
            let expected: Vec<f64> = (0..n * columns).map(|i| (i * 37 % 101) as f64 / 50.0 - 1.0).collect();
            let b = product(&a, n, &expected);
            // Only the lower triangle is read.
            let lower: Vec<f64> =
                (0..n * n).map(|at| if at % n >= at / n { a[at] } else { f64::NAN }).collect();
            let factor = Cholesky::factor(&rt, n, &lower, "hp1:operand=1e-2")?;
            let error = |x: &[f64]| x.iter().zip(&expected).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
            let (x, (y, refinement)) = (factor.solve(&b)?, factor.refine(&b, 1e-13)?);
            assert!(error(&x) < 1e-2, "{n}: {:e}", error(&x));
            assert!(error(&y) < 1e-11 && refinement.residual <= 1e-13, "{n}: {:e} {refinement:?}", error(&y));
            assert_eq!(factor.n(), n);
        }
        Ok(())
    }

    #[test]
    fn what_is_wrong_is_named() -> Result<(), Error> {
        let rt = Runtime::builder().workers(1).build().map_err(Error::Runtime)?;
        let said =
            |n, a: &[f64], rule| Cholesky::factor(&rt, n, a, rule).err().map(|error| error.to_string());
        let wrong = said(2, &[1.0, 2.0, 2.0, 1.0], "fp32").unwrap_or_default();
        assert!(wrong.contains("not positive definite") && wrong.contains("row 1"), "{wrong}");
        assert!(said(2, &[1.0; 3], "fp32").unwrap_or_default().contains("3 elements"));
        assert!(said(1, &[1.0], "hp9").is_some());
        let factor = Cholesky::factor(&rt, 2, &[2.0, 1.0, 1.0, 2.0], "fp32")?;
        assert!(factor.solve(&[1.0; 3]).is_err());
        Ok(())
    }
}
