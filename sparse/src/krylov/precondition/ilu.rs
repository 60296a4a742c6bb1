//! Incomplete factors on the pattern of the matrix.

use std::ops::Range;

use zellige_runtime::{Data, Handle, Submit, read, reads};

use super::factor::{Factors, factors};
use super::rows::Rows;
use crate::csr::Csr;
use crate::error::Error;
use crate::krylov::{Preconditioner, Scalars, Steps};
use crate::space::{Space, Vector, joined};

/// `M = L D U` with `L` and `U` triangular, where the matrix has elements: ILU(0); IC(0) of a symmetric matrix, whose `M` is symmetric to the last
/// bit (Meijerink and van der Vorst 1977).
///
/// Factors are stored in `f32`, arithmetic is in `f64`: an approximation of an approximation. A stretch of a triangular solve waits for the one
/// before it, so that one worker at a time is busy with it.
#[derive(Debug)]
pub struct Ilu {
    panels: Vec<Panel>,
    /// `D^-1`.
    inverse: Vector,
    bytes: u64,
}

#[derive(Debug)]
struct Panel {
    lower: Triangle,
    upper: Triangle,
}

/// The rows of a stretch, and the stretches of the solution that they need besides their own.
#[derive(Debug)]
struct Triangle {
    rows: Handle<Rows<f32>>,
    needed: Range<usize>,
}

impl Ilu {
    /// Factors a matrix, with its diagonal enlarged as far as pivots of a symmetric one need it to be positive.
    ///
    /// # Errors
    /// [`Error::Unsolvable`] for a row without a diagonal element, or where no enlargement helps.
    pub fn new(target: &impl Submit, space: &Space, a: &Csr) -> Result<Ilu, Error> {
        let Factors { lower, upper, pivots, .. } = factors(a)?;
        let mut bytes = 8 * a.rows() as u64;
        let mut triangle = |factor: &Csr, i: usize, before: bool| {
            let range = space.range(i);
            let narrow: Vec<Vec<f32>> = range
                .clone()
                .map(|row| factor.row(row).1.iter().map(|&value| value as f32).collect())
                .collect();
            let columns = range.clone().map(|row| factor.row(row).0);
            let rows = Rows::of(columns.zip(narrow.iter().map(Vec::as_slice)));
            bytes += rows.meta().bytes as u64;
            let columns = rows.columns();
            let outside = if before {
                columns.start.min(range.start)..range.start
            } else {
                range.end..columns.end.max(range.end)
            };
            Triangle { rows: target.register(rows), needed: space.covering(outside) }
        };
        let panel = |i| Panel { lower: triangle(&lower, i, true), upper: triangle(&upper, i, false) };
        let panels = (0..space.stretches()).map(panel).collect();
        let inverse = pivots.iter().map(|pivot| 1.0 / pivot).collect();
        Ok(Ilu { panels, inverse: space.vector(target, inverse), bytes })
    }
}

impl Preconditioner for Ilu {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn apply(&self, steps: &Steps<'_>, r: &Vector, z: &Vector) -> Result<(), Error> {
        let space = steps.space();
        let others = |triangle: &Triangle| reads(&z.stretches()[triangle.needed.clone()]);
        for (i, panel) in self.panels.iter().enumerate() {
            let start = space.range(i).start;
            let lower = &panel.lower;
            let operands = (steps.scalars(), read(&lower.rows), r.read(i), others(lower), z.update(i));
            let first = space.first_of(&lower.needed);
            steps
                .graph()
                .task("ilu.lower")
                .operands(operands)
                .cpu(move |(s, rows, r, before, z)| {
                    if !Scalars::new(s).is_done() {
                        z.copy_from_slice(&r);
                        forward(rows, &joined(before), first, start, z);
                    }
                })
                .coords([i as u32])
                .submit()?;
        }
        for (i, panel) in self.panels.iter().enumerate().rev() {
            let start = space.range(i).start;
            let upper = &panel.upper;
            let operands =
                (steps.scalars(), read(&upper.rows), self.inverse.read(i), others(upper), z.update(i));
            steps
                .graph()
                .task("ilu.upper")
                .operands(operands)
                .cpu(move |(s, rows, inverse, behind, z)| {
                    if !Scalars::new(s).is_done() {
                        z.iter_mut().zip(&*inverse).for_each(|(z, inverse)| *z *= inverse);
                        backward(rows, &joined(behind), start, z);
                    }
                })
                .coords([i as u32])
                .submit()?;
        }
        Ok(())
    }
}

/// `z = L^-1 z` of the rows of a stretch that begins at `start`; `before` begins at element `first`, and ends at `start`.
fn forward(rows: &Rows<f32>, before: &[f64], first: usize, start: usize, z: &mut [f64]) {
    for i in 0..rows.len() {
        let (column, value) = rows.row(i);
        let products = column.iter().zip(value).map(|(&j, &l)| {
            let j = j as usize;
            f64::from(l) * if j < start { before[j - first] } else { z[j - start] }
        });
        z[i] -= products.sum::<f64>();
    }
}

/// `z = U^-1 z` of the rows of a stretch that begins at `start`; `behind` begins where it ends.
fn backward(rows: &Rows<f32>, behind: &[f64], start: usize, z: &mut [f64]) {
    for i in (0..rows.len()).rev() {
        let (column, value) = rows.row(i);
        let products = column.iter().zip(value).map(|(&j, &u)| {
            let j = j as usize - start;
            f64::from(u) * if j < z.len() { z[j] } else { behind[j - z.len()] }
        });
        z[i] -= products.sum::<f64>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Flow, flow};
    use crate::krylov::precondition::tests::applied;

    /// On a matrix whose exact factors have no other elements than it (tridiagonal), ILU(0) is the inverse.
    #[test]
    fn tridiagonal_systems_are_solved() -> Result<(), Error> {
        let n = 40_000;
        let triplets = (0..n as u32).flat_map(|i| {
            let beside = [i.checked_sub(1), Some(i + 1).filter(|&j| j < n as u32)];
            beside
                .into_iter()
                .flatten()
                .map(move |j| (i, j, -1.0 - f64::from(i % 7) / 8.0))
                .chain([(i, i, 4.5)])
        });
        let a = Csr::from_triplets(n, n, &triplets.collect::<Vec<_>>())?;
        let x: Vec<f64> = (0..n).map(|i| (i % 13) as f64 - 6.0).collect();
        let mut b = vec![0.0; n];
        a.multiply(&x, &mut b)?;
        let z = applied(&a, |rt, space| Ilu::new(rt, space, &a), &b)?;
        let error = z.iter().zip(&x).map(|(z, x)| (z - x).abs()).fold(0.0, f64::max);
        assert!(error < 1e-5, "{error:e}: factors are in f32");
        Ok(())
    }

    #[test]
    fn it_is_symmetric_for_a_symmetric_matrix() -> Result<(), Error> {
        let a = flow(&Flow { cells: [30, 30, 30], ..Flow::default() })?;
        let (mut x, mut y) = (vec![0.0; a.rows()], vec![0.0; a.rows()]);
        x.iter_mut().enumerate().for_each(|(i, x)| *x = (i % 17) as f64);
        y.iter_mut().enumerate().for_each(|(i, y)| *y = (i % 11) as f64 - 5.0);
        let ilu = |v: &[f64]| applied(&a, |rt, space| Ilu::new(rt, space, &a), v);
        let of = |u: &[f64], v: &[f64]| -> f64 { u.iter().zip(v).map(|(u, v)| u * v).sum() };
        let (left, right) = (of(&ilu(&x)?, &y), of(&x, &ilu(&y)?));
        assert!((left / right - 1.0).abs() < 1e-12, "{left:e} {right:e}");
        Ok(())
    }
}
