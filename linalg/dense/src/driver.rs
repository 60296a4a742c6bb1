//! Dense systems from plain arrays.

use std::sync::Arc;

use zellige_kernels::GemmPrecision;
use zellige_krylov::{Gmres, Logger, Solution, Solve, Stop, StoppingCriterion, solve_columns};
use zellige_runtime::Runtime;

use crate::error::Error;
use crate::factor::cholesky;
use crate::grid::TileGrid;
use crate::operators::{FactorOperator, SymmetricOperator};
use crate::policy::{Rule, SharedPolicy};
use crate::refine::{RefineUntil, Refinement, refine, widened};
use crate::solve::solve;
use crate::tiled::{Generator, RectTiled, SymmetricTiled, generator};

/// Rows of a tile: a product of tiles takes much longer than starting it, and most matrices have many.
const TILE: usize = 256;

/// The Cholesky factorisation `A = L L^T` of a symmetric positive definite matrix, with the precision of each tile product chosen by a [`Rule`], as LAPACK's
/// `potrf` and `potrs` are for one precision.
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
    /// Column by column.
    a: Arc<[f64]>,
    l: SymmetricTiled<f32>,
    policy: SharedPolicy,
    shares: Vec<(GemmPrecision, f64)>,
}

impl<'r> Cholesky<'r> {
    /// Factors an `n x n` matrix, column by column, whose lower triangle is read. Waits for the factor.
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of elements, [`Error::Rule`] for a rule that is none, [`Error::NotPositiveDefinite`] with the row where the
    /// factorisation, in this precision, finds that the matrix is not.
    pub fn factor(rt: &'r Runtime, n: usize, a: &[f64], rule: &str) -> Result<Self, Error> {
        Self::factor_shifted(rt, n, a, rule, 0.0)
    }

    /// Factors the matrix with its diagonal multiplied by `1 + shift`, for one that is so ill-conditioned that it is not positive definite in this precision
    /// (Higham and Pranesh 2021): a small multiple of the precision's unit roundoff. Refinements are of the matrix itself, and most
    /// need [`refine_gmres`](Cholesky::refine_gmres).
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
        check("matrix", a.len(), n * n)?;
        let policy: SharedPolicy = rule.parse::<Rule>()?.into();
        let a: Arc<[f64]> = a.into();
        let shifted: Arc<[f64]> = match shift {
            0.0 => Arc::clone(&a),
            _ => {
                let of_diagonal = |at: usize| if at.is_multiple_of(n + 1) { 1.0 + shift } else { 1.0 };
                a.iter().enumerate().map(|(at, a)| a * of_diagonal(at)).collect()
            }
        };
        let fill = block::<f32>(&shifted, n, |x| x as f32);
        let l = SymmetricTiled::generate(rt, TileGrid::uniform(n, TILE)?, &fill)?;
        let factor = cholesky(rt, &l, &policy)?;
        factor.wait(rt)?;
        let shares = factor.counts().shares();
        Ok(Cholesky { rt, n, a, l, policy, shares })
    }

    /// Rows of the matrix.
    pub fn n(&self) -> usize {
        self.n
    }

    /// The share of tile products that ran in each precision.
    pub fn shares(&self) -> &[(GemmPrecision, f64)] {
        &self.shares
    }

    /// `A^-1 B`, as accurate as the factor: `b` has `n` elements for each column, column by column, and so has the answer.
    ///
    /// # Errors
    /// [`Error::Shape`] for elements that are no whole columns; what went wrong in a task.
    pub fn solve(&self, b: &[f64]) -> Result<Vec<f64>, Error> {
        let x = self.solved(b)?.gather(self.rt)?;
        Ok(turned(&x, self.columns(b)?, |x| f64::from(*x)))
    }

    /// `A^-1 B` by iterative refinement in float64, until the residual is `tolerance` beside `B` (in the Frobenius norm), or no longer halved by a step;
    /// and what refinement came to. It needs a condition number below the inverse of the factor's unit roundoff: some 1e7 in single precision, 1e3 in half.
    ///
    /// # Errors
    /// As [`solve`](Cholesky::solve).
    pub fn refine(&self, b: &[f64], tolerance: f64) -> Result<(Vec<f64>, Refinement), Error> {
        let x = widened(self.rt, &self.solved(b)?)?;
        let (a, b_rows) = (block::<f64>(&self.a, self.n, |x| x), rows::<f64>(b, self.n, |x| x));
        let until = RefineUntil { steps: MOST_STEPS, tolerance };
        let refinement = refine(self.rt, (&self.l, &self.policy), (&a, &b_rows), &x, until)?;
        let x = x.gather(self.rt)?;
        Ok((turned(&x, self.columns(b)?, |x| *x), refinement))
    }

    /// `A^-1 B` by iterative refinement in float64 whose corrections are found by GMRES with the factor as preconditioner (GMRES-IR: Carson and Higham 2018),
    /// until the residual of each column is `tolerance` beside it; and what came of each column, by
    /// [`reason`](zellige_krylov::Solution::reason). It converges for condition numbers for which [`refine`](Cholesky::refine) does not.
    ///
    /// It ends where residuals do not become smaller any more. Each correction is solved for to four digits of its residual.
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
    /// As [`solve`](Cholesky::solve); [`Error::Krylov`] for right-hand sides with numbers that are not finite.
    pub fn refine_gmres(&self, b: &[f64], tolerance: f64) -> Result<(Vec<f64>, Vec<Solution>), Error> {
        let columns = self.columns(b)?;
        if columns == 0 {
            return Ok((Vec::new(), Vec::new()));
        }
        let a = SymmetricOperator::new(self.l.grid(), &block::<f64>(&self.a, self.n, |x| x))?;
        let m = FactorOperator::new(&self.l, &self.policy)?;
        let problem =
            Solve { preconditioner: Some(&m), reduction: INNER_REDUCTION, ..Solve::new(self.rt, &a) };
        // Flexible: the factor is applied in its own precision, and what that rounds is no error then.
        let gmres = Gmres { restart: RESTART.min(self.n), flexible: true, ..Gmres::default() };
        let stop = &[Stop::RelativeToRhs(tolerance), Stop::Steps(MOST_INNER_STEPS)][..];
        let (mut x, mut logs) = (vec![0.0; b.len()], vec![(); columns]);
        let mut of_column: Vec<&mut [f64]> = x.chunks_exact_mut(self.n).collect();
        let b: Vec<&[f64]> = b.chunks_exact(self.n).collect();
        let stops = vec![&stop as &dyn StoppingCriterion; columns];
        let mut logs: Vec<&mut dyn Logger> = logs.iter_mut().map(|log| log as _).collect();
        let found = solve_columns(&problem, &gmres, &b, &mut of_column, &stops, &mut logs)?;
        Ok((x, found))
    }

    fn columns(&self, b: &[f64]) -> Result<usize, Error> {
        let columns = b.len().checked_div(self.n).unwrap_or(0);
        check("right-hand sides", b.len(), columns * self.n)?;
        Ok(columns)
    }

    /// `X A = B`, with the right-hand sides as rows.
    fn solved(&self, b: &[f64]) -> Result<RectTiled<f32>, Error> {
        let columns = self.columns(b)?;
        let rows = rows::<f32>(b, self.n, |x| x as f32);
        let grid = TileGrid::uniform(columns, TILE)?;
        let x = RectTiled::generate(self.rt, "B", grid, self.l.grid().clone(), &rows)?;
        solve(self.rt, &self.l, &x, &self.policy)?.wait(self.rt)?;
        Ok(x)
    }
}

/// Refinement halves the residual in each step: more are not needed for any number of digits.
const MOST_STEPS: usize = 60;

/// Of GMRES for a correction: what its residual is reduced by, steps between restarts, and steps in all.
const INNER_REDUCTION: f64 = 1e-4;
const RESTART: usize = 60;
const MOST_INNER_STEPS: usize = 2000;

fn check(what: &'static str, found: usize, wanted: usize) -> Result<(), Error> {
    if found == wanted {
        return Ok(());
    }
    Err(Error::Shape { what, got: format!("{found} elements"), want: format!("{wanted}") })
}

/// Blocks of a symmetric matrix whose lower triangle is given.
fn block<T: crate::TileScalar>(a: &Arc<[f64]>, n: usize, convert: fn(f64) -> T) -> Generator<T> {
    let a = Arc::clone(a);
    generator(move |rows, columns, out: &mut [T], ld: usize| {
        for (c, j) in columns.enumerate() {
            for (r, i) in rows.clone().enumerate() {
                out[r + c * ld] = convert(a[i.max(j) + i.min(j) * n]);
            }
        }
    })
}

/// Right-hand sides as rows.
fn rows<T: crate::TileScalar>(b: &[f64], n: usize, convert: fn(f64) -> T) -> Generator<T> {
    let b: Arc<[f64]> = b.into();
    generator(move |rows, columns, out: &mut [T], ld: usize| {
        for (c, j) in columns.enumerate() {
            for (r, i) in rows.clone().enumerate() {
                out[r + c * ld] = convert(b[j + i * n]);
            }
        }
    })
}

/// The rows of a matrix, given column by column, one after the other.
fn turned<T>(x: &[T], rows: usize, convert: impl Fn(&T) -> f64) -> Vec<f64> {
    (0..rows).flat_map(|i| x.iter().skip(i).step_by(rows)).map(convert).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(n: usize) -> Vec<f64> {
        let element = |i: usize, j: usize| 1.0 / (1.0 + i.abs_diff(j) as f64) + f64::from(u8::from(i == j));
        (0..n * n).map(|at| element(at % n, at / n)).collect()
    }

    /// The product of the matrix and columns.
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
