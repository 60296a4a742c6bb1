//! Polynomials of the matrix.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

use super::jacobi::inverse_diagonal;
use crate::adaptive::Adaptation;
use crate::concurrent::concurrent_map;
use crate::csr::{Csr, abs_sum};
use crate::stored::Stored;
use zellige_krylov::method::{Steps, Workspace, times};
use zellige_krylov::{Error, Executor, MultiVector, Operator, Space};

/// Assumed range of the eigenvalues of `D^-1 A`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    least: f64,
    most: f64,
}

/// Rows that a thread multiplies at once.
const PIECE: usize = 1 << 14;
/// Number of steps of Lanczos' method; `BEYOND` is the safety factor on its result.
const LANCZOS_STEPS: usize = 8;
/// Number of bisections; each halves the interval of the result.
const BISECTIONS: usize = 30;
const BEYOND: f64 = 1.1;

impl Interval {
    /// Returns an interval of positive numbers; nothing for other numbers.
    pub(super) fn new(least: f64, most: f64) -> Option<Interval> {
        (0.0 < least && least < most && most.is_finite()).then_some(Interval { least, most })
    }

    /// Returns the least and the largest number.
    pub(super) fn ends(&self) -> [f64; 2] {
        [self.least, self.most]
    }

    /// Returns the interval from the largest eigenvalue, or a little more, down to that divided by
    /// `ratio`.
    pub(super) fn below_largest(threads: usize, a: &impl Rows, inverse: &[f64], ratio: f64) -> Interval {
        let most = largest_eigenvalue(threads, a, inverse);
        Interval { least: most / ratio, most }
    }
}

/// A square matrix whose products the method of Lanczos needs.
pub(super) trait Rows: Sync {
    fn rows(&self) -> usize;

    /// Returns the number of rows that are multiplied together.
    fn block(&self) -> usize;

    /// Computes the sums of magnitudes of the rows that begin at row `first`, which a block begins
    /// with.
    fn abs_sums(&self, first: usize, sums: &mut [f64]);

    /// Computes the rows of `A x` that begin at row `first`, which a block begins with.
    fn multiply_rows(&self, first: usize, x: &[f64], y: &mut [f64]);
}

impl Rows for Csr {
    fn rows(&self) -> usize {
        self.rows()
    }

    fn block(&self) -> usize {
        1
    }

    fn abs_sums(&self, first: usize, sums: &mut [f64]) {
        (first..).zip(sums).for_each(|(i, sum)| *sum = abs_sum(self.row(i).1));
    }

    fn multiply_rows(&self, first: usize, x: &[f64], y: &mut [f64]) {
        for (i, y) in (first..).zip(y) {
            let (column, value) = self.row(i);
            *y = column.iter().zip(value).map(|(&j, value)| value * x[j as usize]).sum();
        }
    }
}

/// Returns the largest eigenvalue of `D^-1 A`, or a little more: by the method of Lanczos for
/// `D^-1/2 A D^-1/2`, and at most the bound by row sums (Gershgorin).
pub(super) fn largest_eigenvalue(threads: usize, a: &impl Rows, inverse: &[f64]) -> f64 {
    let (piece, mut sums) = (piece(a), vec![0.0; a.rows()]);
    concurrent_map(threads, sums.chunks_mut(piece).enumerate(), |(at, sums)| a.abs_sums(at * piece, sums));
    let bound = sums.iter().zip(inverse).map(|(sum, inverse)| sum * inverse.abs()).fold(0.0, f64::max);
    bound.min(BEYOND * by_lanczos(threads, a, inverse))
}

/// Returns the number of rows that a thread multiplies at once: whole blocks.
fn piece(a: &impl Rows) -> usize {
    (PIECE / a.block()).max(1) * a.block()
}

fn by_lanczos(threads: usize, a: &impl Rows, inverse: &[f64]) -> f64 {
    let root: Vec<f64> = inverse.iter().map(|inverse| inverse.abs().sqrt()).collect();
    let piece = piece(a);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let norm = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
    let mut next: Vec<f64> = (0..a.rows()).map(|_| random.random_range(-1.0..1.0)).collect();
    let (mut before, mut here) = (vec![0.0; a.rows()], vec![0.0; a.rows()]);
    let (mut diagonal, mut beside) = (Vec::new(), vec![norm(&next)]);
    for _ in 0..LANCZOS_STEPS {
        let last = beside[diagonal.len()];
        if last == 0.0 {
            break;
        }
        // `here` becomes the next vector, scaled for the product, and `next` the remainder of the
        // product.
        std::mem::swap(&mut before, &mut here);
        here.iter_mut().zip(&next).for_each(|(here, next)| *here = next / last);
        let scaled: Vec<f64> = here.iter().zip(&root).map(|(here, root)| here * root).collect();
        let keep = if diagonal.is_empty() { 0.0 } else { last };
        concurrent_map(threads, next.chunks_mut(piece).enumerate(), |(at, next)| {
            let first = at * piece;
            a.multiply_rows(first, &scaled, next);
            for (i, next) in (first..).zip(next) {
                *next = root[i] * *next - keep * before[i];
            }
        });
        let along: f64 = next.iter().zip(&here).map(|(next, here)| next * here).sum();
        next.iter_mut().zip(&here).for_each(|(next, here)| *next -= along * here);
        diagonal.push(along);
        beside.push(norm(&next));
    }
    largest_of_tridiagonal(&diagonal, &beside[1..])
}

/// Returns the largest eigenvalue of a symmetric tridiagonal matrix, by bisection: it is below `x`
/// if all pivots of `T - x` are negative (Sturm).
fn largest_of_tridiagonal(diagonal: &[f64], beside: &[f64]) -> f64 {
    let around = |i: usize| if i == 0 { beside[0] } else { beside[i - 1] + beside[i] };
    let most = (0..diagonal.len()).map(|i| diagonal[i] + around(i)).fold(0.0, f64::max);
    let (mut low, mut high) = (0.0, most);
    for _ in 0..BISECTIONS {
        let middle = (low + high) / 2.0;
        let mut pivot = -1.0;
        let is_above = diagonal.iter().enumerate().all(|(i, &diagonal)| {
            let from_before = if i == 0 { 0.0 } else { beside[i - 1].powi(2) / pivot };
            pivot = diagonal - middle - from_before;
            pivot < 0.0
        });
        if is_above { high = middle } else { low = middle }
    }
    high
}

/// Chebyshev iteration of a fixed number of steps for `A x = b` (Saad, "Iterative methods for
/// sparse linear systems", 2003, algorithm 12.1, with the diagonal as its preconditioner).
#[derive(Debug)]
pub(super) struct Smoother {
    degree: usize,
    interval: Interval,
    inverse: MultiVector,
    vectors: Workspace<SmootherVectors>,
}

/// Vectors of a smoother.
#[derive(Debug)]
pub(super) struct SmootherVectors {
    /// `b - A x` after [`settle`](Smoother::settle).
    pub(super) residual: MultiVector,
    direction: MultiVector,
    /// Workspace for a product.
    pub(super) product: MultiVector,
}

impl Smoother {
    /// Bytes of its vectors, for one column.
    pub(super) fn memory(&self) -> u64 {
        self.inverse.space().bytes(4)
    }

    pub(super) fn new(
        rt: &dyn Executor,
        space: &Space,
        inverse: &[f64],
        interval: Interval,
        degree: usize,
    ) -> Self {
        let inverse = MultiVector::from_column(rt, space, inverse);
        Smoother { degree, interval, inverse, vectors: Workspace::default() }
    }

    pub(super) fn degree(&self) -> usize {
        self.degree
    }

    /// Returns its vectors for the columns of these steps.
    pub(super) fn vectors(&self, steps: &Steps<'_>) -> Arc<SmootherVectors> {
        let zeros = || MultiVector::zeros(steps.executor(), self.inverse.space(), steps.columns());
        let make = || SmootherVectors { residual: zeros(), direction: zeros(), product: zeros() };
        self.vectors.of(steps.columns(), make)
    }

    /// Records the steps that improve `x`; they start from zero instead of `x` if `from_zero` is
    /// true.
    pub(super) fn apply(
        &self,
        steps: &Steps<'_>,
        a: &dyn Operator,
        b: &MultiVector,
        x: &MultiVector,
        from_zero: bool,
    ) -> Result<(), Error> {
        let centre = (self.interval.most + self.interval.least) / 2.0;
        let half = (self.interval.most - self.interval.least) / 2.0;
        self.first(steps, a, b, x, from_zero, 1.0 / centre)?;
        let sigma = centre / half;
        let mut rho = 1.0 / sigma;
        for _ in 1..self.degree {
            let next = 1.0 / (2.0 * sigma - rho);
            self.next(steps, a, x, next * rho, 2.0 * next / half)?;
            rho = next;
        }
        Ok(())
    }

    /// Records `r = b - A x`, `d = step D^-1 r`, `x += d`.
    fn first(
        &self,
        steps: &Steps<'_>,
        a: &dyn Operator,
        b: &MultiVector,
        x: &MultiVector,
        from_zero: bool,
        step: f64,
    ) -> Result<(), Error> {
        let v = self.vectors(steps);
        let (r, d) = (&v.residual, &v.direction);
        let new = [times(step, r).scaled_by(&self.inverse)];
        let task = steps.task("chebyshev.first");
        if from_zero {
            return task.copy(r, b).assign(d, new).copy(x, d).submit();
        }
        a.apply(steps, x, &v.product)?;
        let residual = [times(1.0, b), times(-1.0, &v.product)];
        task.assign(r, residual).assign(d, new).add(x, times(1.0, d)).submit()
    }

    /// Records `r -= A d`, `d = keep d + turn D^-1 r`, `x += d`.
    fn next(
        &self,
        steps: &Steps<'_>,
        a: &dyn Operator,
        x: &MultiVector,
        keep: f64,
        turn: f64,
    ) -> Result<(), Error> {
        let v = self.vectors(steps);
        let (r, d) = (&v.residual, &v.direction);
        a.apply(steps, d, &v.product)?;
        let task = steps.task("chebyshev.next").add(r, times(-1.0, &v.product));
        let new = [times(keep, d), times(turn, r).scaled_by(&self.inverse)];
        task.assign(d, new).add(x, times(1.0, d)).submit()
    }

    /// Records `r -= A d`, which completes the residual with the last direction.
    pub(super) fn settle(&self, steps: &Steps<'_>, a: &dyn Operator) -> Result<(), Error> {
        let v = self.vectors(steps);
        a.apply(steps, &v.direction, &v.product)?;
        steps.task("chebyshev.residual").add(&v.residual, times(-1.0, &v.product)).submit()
    }
}

/// Chebyshev preconditioner: a polynomial of `D^-1 A` that is small on the range of its
/// eigenvalues. It consists of products only, which all workers share.
///
/// It is for symmetric positive definite matrices. Eigenvalues below the largest by more than `1 /
/// RATIO` are damped less.
#[derive(Debug)]
pub struct Chebyshev {
    a: Stored,
    smoother: Smoother,
}

/// Stores a matrix of a preconditioner in `f32`, which is sufficient. Each nonzero is rounded
/// independently, so that the stored transpose is the transpose of the stored matrix.
pub(super) fn narrow(rt: &dyn Executor, to: &Space, from: &Space, a: &Csr) -> Result<Stored, Error> {
    Stored::between(rt, to, from, a, a.block_size(), &Adaptation::single())
}

/// Between the largest and the smallest eigenvalue that are damped.
const RATIO: f64 = 30.0;

impl Chebyshev {
    /// Creates a polynomial of this degree, at least 1, with `degree - 1` products.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a degree of 0, [`Error::Unsolvable`] for a zero diagonal entry, and
    /// for a matrix that is not square.
    pub fn new(rt: &dyn Executor, space: &Space, a: &Csr, degree: usize) -> Result<Chebyshev, Error> {
        if degree == 0 {
            return Err(Error::parameter(
                "degree",
                "a polynomial of degree 0 is not possible: use 1 or more",
            ));
        }
        let inverse = inverse_diagonal(a)?;
        let interval = Interval::below_largest(rt.runtime().workers(), a, &inverse, RATIO);
        Ok(Chebyshev {
            a: narrow(rt, space, space, a)?,
            smoother: Smoother::new(rt, space, &inverse, interval, degree),
        })
    }
}

impl Operator for Chebyshev {
    fn domain(&self) -> &Space {
        self.smoother.inverse.space()
    }

    fn bytes(&self) -> u64 {
        (self.smoother.degree as u64 - 1) * self.a.bytes() + self.domain().bytes(1)
    }

    fn memory(&self) -> u64 {
        self.a.bytes() + self.smoother.memory()
    }

    fn apply(&self, steps: &Steps<'_>, r: &MultiVector, z: &MultiVector) -> Result<(), Error> {
        self.smoother.apply(steps, &self.a, r, z, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::precondition::tests::applied;

    /// `-1 2 -1` has the eigenvalues `2 - 2 cos(k pi / (n + 1))`, halved by its diagonal.
    #[test]
    fn largest_eigenvalues_are_found() -> Result<(), Error> {
        for n in [1, 2, 3, 8, 1000] {
            let row = |i: u32| [(i, i.wrapping_sub(1), -1.0), (i, i, 2.0), (i, i + 1, -1.0)];
            let all = (0..n).flat_map(row).filter(|&(_, j, _)| j < n).collect::<Vec<_>>();
            let a = Csr::from_triplets(n as usize, n as usize, &all)?;
            let known = 1.0 + (std::f64::consts::PI / f64::from(n + 1)).cos();
            let found = by_lanczos(2, &a, &vec![0.5; n as usize]);
            assert!((0.93..1.0 + 1e-6).contains(&(found / known)), "{n}: {found} {known}");
            assert!(n > 8 || (found / known - 1.0).abs() < 1e-6, "{n}: {found} {known}");
        }
        Ok(())
    }

    /// With `A = D`, all eigenvalues are 1: the residual is the polynomial `T_k((c - 1) / h) /
    /// T_k(c / h)`.
    #[test]
    fn residuals_are_chebyshev_polynomials() -> Result<(), Error> {
        let triplets: Vec<_> = (0..500).map(|i| (i, i, f64::from(i + 1))).collect();
        let a = Csr::from_triplets(500, 500, &triplets)?;
        for degree in 1..6 {
            let z = applied(&a, |rt, space| Chebyshev::new(rt, space, &a, degree), &vec![1.0; 500])?;
            let (most, least) = (1.0, 1.0 / RATIO);
            let (centre, half) = ((most + least) / 2.0, (most - least) / 2.0);
            let t = |x: f64| {
                if x.abs() <= 1.0 {
                    (degree as f64 * x.acos()).cos()
                } else {
                    (degree as f64 * x.acosh()).cosh()
                }
            };
            let expected = t((centre - 1.0) / half) / t(centre / half);
            for (i, z) in z.iter().enumerate() {
                let residual = 1.0 - z * (i + 1) as f64;
                assert!((residual - expected).abs() < 1e-7, "{degree}: {residual} {expected}");
            }
        }
        Ok(())
    }
}
