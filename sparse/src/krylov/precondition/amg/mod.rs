//! Smoothed aggregation.

mod aggregate;
mod coarse;
mod galerkin;

use zellige_runtime::Runtime;

use self::aggregate::{Aggregates, aggregate};
use self::coarse::Coarse;
use self::galerkin::product;
use super::chebyshev::{Interval, Smoother, largest_eigenvalue, narrow};
use super::jacobi::inverse_diagonal;
use crate::csr::Csr;
use crate::error::Error;
use crate::krylov::{Operator, Preconditioner, Scalars, Steps, Stored};
use crate::space::{Space, Vector};

/// A matrix that is so small is solved with directly.
const SMALL: usize = 400;
/// A coarser level has at most this share of the rows of the one above, or coarsening stops.
const SHRINKS: f64 = 0.8;
const MOST_LEVELS: usize = 20;
/// Of the polynomial before and after each coarser level, and the range of eigenvalues that it damps.
const DEGREE: usize = 2;
const RATIO: f64 = 4.0;
/// An off-diagonal element (or block) is strong if it is more than this beside its diagonals; half of it on each coarser level
/// (Vanek, Mandel and Brezina 1996, equation 20).
const STRENGTH: f64 = 0.08;

/// Algebraic multigrid by smoothed aggregation (Vanek, Mandel and Brezina 1996): one V-cycle, with Chebyshev polynomials as smoothers, for
/// symmetric positive definite matrices and what is near them.
///
/// Rows may come in blocks (displacements of one node): a block is aggregated as a whole, and every component of it has a constant of its own.
#[derive(Debug)]
pub struct Amg {
    levels: Vec<Level>,
    coarse: Coarse,
    bytes: u64,
}

/// A level but the coarsest.
#[derive(Debug)]
struct Level {
    space: Space,
    a: Stored,
    smoother: Smoother,
    /// From the next level, and to it.
    prolong: Stored,
    restrict: Stored,
    /// The next level's right-hand side and solution.
    b: Vector,
    x: Vector,
}

impl Amg {
    /// Makes the levels for a matrix whose rows come in blocks of `block`.
    ///
    /// # Errors
    /// [`Error::Unsolvable`] for a matrix that is not square, and for a diagonal element that is zero; [`Error::Parameter`] for blocks that do not
    /// fill the rows.
    pub fn new(rt: &Runtime, space: &Space, a: &Csr, block: usize) -> Result<Amg, Error> {
        if block == 0 || !a.rows().is_multiple_of(block) {
            let problem = format!("{block} rows in a block do not fill {}: take 1", a.rows());
            return Err(Error::parameter("block", problem));
        }
        let (mut levels, mut here, mut strength) = (Vec::new(), a.clone(), STRENGTH);
        let mut space = space.clone();
        while here.rows() > SMALL && levels.len() < MOST_LEVELS {
            let inverse = inverse_diagonal(&here)?;
            let aggregates = aggregate(&here, block, strength);
            let coarser = aggregates.count() * block;
            if coarser as f64 > SHRINKS * here.rows() as f64 {
                break;
            }
            let prolongation = prolongation(&here, &inverse, &aggregates, block)?;
            let restriction = prolongation.transposed();
            let next = product(&restriction, &product(&here, &prolongation)?)?;
            let next_space = Space::new(next.rows(), next.bytes());
            let interval = Interval::below_largest(&here, &inverse, RATIO);
            levels.push(Level {
                a: narrow(rt, &space, &space, &here)?,
                smoother: Smoother::new(rt, &space, inverse, interval, DEGREE),
                prolong: narrow(rt, &space, &next_space, &prolongation)?,
                restrict: narrow(rt, &next_space, &space, &restriction)?,
                b: next_space.zeros(rt),
                x: next_space.zeros(rt),
                space: std::mem::replace(&mut space, next_space),
            });
            (here, strength) = (next, strength / 2.0);
        }
        let coarse = Coarse::new(rt, &space, &here)?;
        let of_level = |level: &Level| 4 * level.a.bytes() + level.prolong.bytes() + level.restrict.bytes();
        let bytes = levels.iter().map(of_level).sum::<u64>() + coarse.bytes();
        Ok(Amg { levels, coarse, bytes })
    }

    fn cycle(&self, level: usize, steps: &Steps<'_>, b: &Vector, x: &Vector) -> Result<(), Error> {
        let Some(here) = self.levels.get(level) else { return self.coarse.apply(steps, b, x) };
        let steps = steps.on(&here.space);
        let smoother = &here.smoother;
        smoother.apply(&steps, &here.a, b, x, true)?;
        smoother.settle(&steps, &here.a)?;
        here.restrict.apply(&steps, smoother.residual(), &here.b)?;
        self.cycle(level + 1, &steps, &here.b, &here.x)?;
        here.prolong.apply(&steps, &here.x, smoother.product())?;
        steps.each(
            "amg.correct",
            |i| (steps.scalars(), x.update(i), smoother.product().read(i)),
            |(s, x, correction)| {
                if !Scalars::new(s).is_done() {
                    x.iter_mut().zip(&*correction).for_each(|(x, correction)| *x += correction);
                }
            },
        )?;
        smoother.apply(&steps, &here.a, b, x, false)
    }
}

impl Preconditioner for Amg {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn apply(&self, steps: &Steps<'_>, r: &Vector, z: &Vector) -> Result<(), Error> {
        self.cycle(0, steps, r, z)
    }
}

/// `P = (I - omega D^-1 A) P_0` with `omega = 4 / (3 lambda)`: the columns of `P_0` are constant on an aggregate.
fn prolongation(a: &Csr, inverse: &[f64], aggregates: &Aggregates, block: usize) -> Result<Csr, Error> {
    let tentative = aggregates.tentative(block)?;
    let omega = 4.0 / (3.0 * largest_eigenvalue(a, inverse).max(f64::MIN_POSITIVE));
    let smoothed = a.clone().map_elements(|i, j, value| {
        let identity = if i == j as usize { 1.0 } else { 0.0 };
        Some(identity - omega * inverse[i] * value)
    });
    product(&smoothed, &tentative)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Flow, flow};
    use crate::krylov::precondition::tests::applied;

    /// A V-cycle for the Poisson equation reduces errors by a factor that does not depend on the size.
    #[test]
    fn cycles_reduce_errors_at_any_size() -> Result<(), Error> {
        for cells in [[14, 14, 14], [28, 28, 28]] {
            let a = flow(&Flow { cells, spread: 0.0, ..Flow::default() })?;
            let x: Vec<f64> = (0..a.rows()).map(|i| ((i * 7919) % 1000) as f64 / 500.0 - 1.0).collect();
            let (mut error, mut b) = (x.clone(), vec![0.0; a.rows()]);
            let energy = |error: &[f64], product: &[f64]| {
                error.iter().zip(product).map(|(e, p)| e * p).sum::<f64>().sqrt()
            };
            a.multiply(&error, &mut b)?;
            let first = energy(&error, &b);
            for _ in 0..8 {
                let z = applied(&a, |rt, space| Amg::new(rt, space, &a, 1), &b)?;
                error.iter_mut().zip(&z).for_each(|(error, z)| *error -= z);
                a.multiply(&error, &mut b)?;
            }
            let factor = (energy(&error, &b) / first).powf(1.0 / 8.0);
            assert!(factor < 0.45, "{cells:?}: {factor}");
        }
        Ok(())
    }
}
