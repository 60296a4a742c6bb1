//! Polynomials of the matrix.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_runtime::Runtime;

use super::jacobi::inverse_diagonal;
use crate::adaptive::{Accuracy, Adaptation, Criterion, FormatSet};
use crate::csr::Csr;
use crate::error::Error;
use crate::krylov::{Operator, Preconditioner, Scalars, Steps, Stored, best_edge};
use crate::space::{Space, Vector};

/// Where the eigenvalues of `D^-1 A` are taken to lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    least: f64,
    most: f64,
}

/// Steps of the power method, and how much further its answer is taken to reach.
const POWER_STEPS: usize = 15;
const BEYOND: f64 = 1.1;

impl Interval {
    /// From the largest eigenvalue, by the power method, down to that by `ratio`.
    pub(super) fn below_largest(a: &Csr, inverse: &[f64], ratio: f64) -> Interval {
        let most = BEYOND * largest_eigenvalue(a, inverse);
        Interval { least: most / ratio, most }
    }
}

/// The largest eigenvalue of `D^-1 A` in magnitude, from below and only about.
pub(super) fn largest_eigenvalue(a: &Csr, inverse: &[f64]) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut x: Vec<f64> = (0..a.rows()).map(|_| random.random_range(-1.0..1.0)).collect();
    let (mut y, mut estimate) = (vec![0.0; a.rows()], 0.0);
    for _ in 0..POWER_STEPS {
        let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
        x.iter_mut().for_each(|x| *x /= norm);
        a.multiply(&x, &mut y).expect("a square matrix");
        x.iter_mut().zip(y.iter().zip(inverse)).for_each(|(x, (y, inverse))| *x = inverse * y);
        estimate = x.iter().map(|x| x * x).sum::<f64>().sqrt();
    }
    estimate
}

/// So many steps of Chebyshev's method towards `A x = b` (Saad, "Iterative methods for sparse linear systems", 2003, algorithm 12.1, with the
/// diagonal as its preconditioner).
#[derive(Debug)]
pub(super) struct Smoother {
    degree: usize,
    interval: Interval,
    inverse: Vector,
    residual: Vector,
    direction: Vector,
    product: Vector,
}

impl Smoother {
    pub(super) fn new(
        rt: &Runtime,
        space: &Space,
        inverse: Vec<f64>,
        interval: Interval,
        degree: usize,
    ) -> Self {
        Smoother {
            degree,
            interval,
            inverse: space.vector(rt, inverse),
            residual: space.zeros(rt),
            direction: space.zeros(rt),
            product: space.zeros(rt),
        }
    }

    /// `b - A x` after [`apply`](Smoother::apply), but for the last direction: that of before it.
    pub(super) fn residual(&self) -> &Vector {
        &self.residual
    }

    /// Room for a product, between applications.
    pub(super) fn product(&self) -> &Vector {
        &self.product
    }

    /// Records the steps that improve `x`; from zero, whatever `x` is, where `from_zero`.
    pub(super) fn apply(
        &self,
        steps: &Steps<'_>,
        a: &dyn Operator,
        b: &Vector,
        x: &Vector,
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

    /// `r = b - A x`, `d = step D^-1 r`, `x += d`.
    fn first(
        &self,
        steps: &Steps<'_>,
        a: &dyn Operator,
        b: &Vector,
        x: &Vector,
        from_zero: bool,
        step: f64,
    ) -> Result<(), Error> {
        let (r, d, inverse) = (&self.residual, &self.direction, &self.inverse);
        if from_zero {
            return steps.each(
                "chebyshev.first",
                |i| (steps.scalars(), b.read(i), inverse.read(i), r.update(i), d.update(i), x.update(i)),
                move |(s, b, inverse, r, d, x)| {
                    if !Scalars::new(s).is_done() {
                        r.copy_from_slice(&b);
                        d.iter_mut()
                            .zip(b.iter().zip(&*inverse))
                            .for_each(|(d, (b, inverse))| *d = step * inverse * b);
                        x.copy_from_slice(d);
                    }
                },
            );
        }
        a.apply(steps, x, &self.product)?;
        steps.each(
            "chebyshev.residual",
            |i| (steps.scalars(), b.read(i), self.product.read(i), r.update(i)),
            |(s, b, product, r)| {
                if !Scalars::new(s).is_done() {
                    r.iter_mut().zip(b.iter().zip(&*product)).for_each(|(r, (b, product))| *r = b - product);
                }
            },
        )?;
        steps.each(
            "chebyshev.first",
            |i| (steps.scalars(), r.read(i), inverse.read(i), d.update(i), x.update(i)),
            move |(s, r, inverse, d, x)| {
                if !Scalars::new(s).is_done() {
                    d.iter_mut()
                        .zip(r.iter().zip(&*inverse))
                        .for_each(|(d, (r, inverse))| *d = step * inverse * r);
                    x.iter_mut().zip(&*d).for_each(|(x, d)| *x += d);
                }
            },
        )
    }

    /// `r -= A d`, `d = keep d + turn D^-1 r`, `x += d`.
    fn next(
        &self,
        steps: &Steps<'_>,
        a: &dyn Operator,
        x: &Vector,
        keep: f64,
        turn: f64,
    ) -> Result<(), Error> {
        let (r, d, inverse) = (&self.residual, &self.direction, &self.inverse);
        self.settle(steps, a)?;
        steps.each(
            "chebyshev.next",
            |i| (steps.scalars(), r.read(i), inverse.read(i), d.update(i), x.update(i)),
            move |(s, r, inverse, d, x)| {
                if !Scalars::new(s).is_done() {
                    let corrected = r.iter().zip(&*inverse).map(|(r, inverse)| turn * inverse * r);
                    d.iter_mut().zip(corrected).for_each(|(d, new)| *d = keep * *d + new);
                    x.iter_mut().zip(&*d).for_each(|(x, d)| *x += d);
                }
            },
        )
    }

    /// `r -= A d`: the residual with the last direction.
    pub(super) fn settle(&self, steps: &Steps<'_>, a: &dyn Operator) -> Result<(), Error> {
        a.apply(steps, &self.direction, &self.product)?;
        steps.each(
            "chebyshev.residual",
            |i| (steps.scalars(), self.residual.update(i), self.product.read(i)),
            |(s, r, product)| {
                if !Scalars::new(s).is_done() {
                    r.iter_mut().zip(&*product).for_each(|(r, product)| *r -= product);
                }
            },
        )
    }
}

/// A polynomial of `D^-1 A` that is small where its eigenvalues lie: nothing but products, which all workers share.
///
/// For symmetric positive definite matrices. Eigenvalues below the largest by more than `1 / RATIO` are damped less.
#[derive(Debug)]
pub struct Chebyshev {
    a: Stored,
    smoother: Smoother,
}

/// A matrix of a preconditioner: `f32` is enough.
pub(super) fn narrow(rt: &Runtime, to: &Space, from: &Space, a: &Csr) -> Result<Stored, Error> {
    let accuracy = Accuracy::new(f64::from(f32::EPSILON) / 2.0)?;
    let adaptation = Adaptation::new(FormatSet::Ap2, Criterion::Componentwise, accuracy);
    Stored::between(rt, to, from, a, best_edge(a), &adaptation)
}

/// Between the largest and the smallest eigenvalue that are damped.
const RATIO: f64 = 30.0;

impl Chebyshev {
    /// A polynomial of this degree, at least 1, by so many products less one.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a degree of 0, [`Error::Unsolvable`] for a diagonal element that is zero, and for a matrix that is not square.
    pub fn new(rt: &Runtime, space: &Space, a: &Csr, degree: usize) -> Result<Chebyshev, Error> {
        if degree == 0 {
            return Err(Error::parameter("degree", "a polynomial of degree 0 is none: take 1 or more"));
        }
        let inverse = inverse_diagonal(a)?;
        let interval = Interval::below_largest(a, &inverse, RATIO);
        Ok(Chebyshev {
            a: narrow(rt, space, space, a)?,
            smoother: Smoother::new(rt, space, inverse, interval, degree),
        })
    }
}

impl Preconditioner for Chebyshev {
    fn bytes(&self) -> u64 {
        (self.smoother.degree as u64 - 1) * self.a.bytes() + 8 * self.a.rows() as u64
    }

    fn apply(&self, steps: &Steps<'_>, r: &Vector, z: &Vector) -> Result<(), Error> {
        self.smoother.apply(steps, &self.a, r, z, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::krylov::precondition::tests::applied;

    /// With `A = D`, all eigenvalues are 1: the residual is the polynomial `T_k((c - 1) / h) / T_k(c / h)`.
    #[test]
    fn residuals_are_chebyshev_polynomials() -> Result<(), Error> {
        let triplets: Vec<_> = (0..500).map(|i| (i, i, f64::from(i + 1))).collect();
        let a = Csr::from_triplets(500, 500, &triplets)?;
        for degree in 1..6 {
            let z = applied(&a, |rt, space| Chebyshev::new(rt, space, &a, degree), &vec![1.0; 500])?;
            let (most, least) = (BEYOND, BEYOND / RATIO);
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
