//! Smoothed aggregation.

mod aggregate;
mod coarse;
mod galerkin;
mod smooth;

use std::borrow::Cow;

use self::aggregate::{aggregate, strong};
use self::coarse::Coarse;
use self::galerkin::product;
use self::smooth::prolongation;
use super::chebyshev::{Interval, Smoother, narrow};
use super::jacobi::inverse_diagonal;
use crate::csr::Csr;
use crate::stored::Stored;
use zellige_krylov::method::{Steps, Workspace, times};
use zellige_krylov::{Error, Executor, MultiVector, Operator, Space};

/// A matrix that is so small is solved with directly.
const SMALL: usize = 400;
/// A coarser level has at most this share of the rows of the one above, or coarsening stops.
const SHRINKS: f64 = 0.8;
const MOST_LEVELS: usize = 20;
/// Degree of the polynomial smoother before and after each coarser level; `RATIO` defines the range
/// of eigenvalues that it damps.
const DEGREE: usize = 2;
const RATIO: f64 = 4.0;
/// Strength threshold: an off-diagonal entry (or block) is strong if it exceeds this relative to
/// its diagonals; the threshold is halved on each coarser level (Vanek, Mandel and Brezina 1996,
/// equation 20).
const STRENGTH: f64 = 0.08;

/// Algebraic multigrid by smoothed aggregation (Vanek, Mandel and Brezina 1996): one V-cycle, with
/// Chebyshev polynomials as smoothers, for symmetric positive definite matrices and nearly such
/// ones.
///
/// Rows may come in blocks (displacements of one node): a block is aggregated as a whole, and every
/// component of it has its own smooth vector.
#[derive(Debug)]
pub struct Amg {
    space: Space,
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
    /// Prolongation from the next level, and restriction to it.
    prolong: Stored,
    restrict: Stored,
    /// The right-hand side and the solution of the next level.
    next: Workspace<[MultiVector; 2]>,
}

impl Amg {
    /// Sets up the levels for a matrix whose rows come in blocks of `block`, and whose near null
    /// space consists of the vectors that are constant in a component.
    ///
    /// # Errors
    /// Those of [`for_smooth`](Amg::for_smooth).
    pub fn new(rt: &dyn Executor, space: &Space, a: &Csr, block: usize) -> Result<Amg, Error> {
        Amg::for_smooth(rt, space, a, block, &vec![1.0; a.rows()])
    }

    /// Sets up AMG for a matrix whose product with `smooth` is nearly zero; no number of `smooth`
    /// is zero. An example is a matrix whose columns were divided by these numbers.
    ///
    /// # Errors
    /// [`Error::Unsolvable`] for a matrix that is not square, and for a zero diagonal entry;
    /// [`Error::Parameter`] for blocks that do not fill the rows, and for a vector that does not
    /// fit or has a zero.
    pub fn for_smooth(
        rt: &dyn Executor,
        space: &Space,
        a: &Csr,
        block: usize,
        smooth: &[f64],
    ) -> Result<Amg, Error> {
        if block == 0 || !a.rows().is_multiple_of(block) {
            let problem = format!("a block size of {block} does not divide {} rows: use 1", a.rows());
            return Err(Error::parameter("block", problem));
        }
        if smooth.len() != a.rows() || smooth.iter().any(|part| *part == 0.0 || !part.is_finite()) {
            let problem = format!("it must have {} finite entries, none of them zero", a.rows());
            return Err(Error::parameter("smooth vector", problem));
        }
        let (mut levels, mut here, mut strength) = (Vec::new(), Cow::Borrowed(a), STRENGTH);
        let finest = space.clone();
        let (mut space, mut smooth, threads) = (space.clone(), smooth.to_vec(), rt.runtime().workers());
        while here.rows() > SMALL && levels.len() < MOST_LEVELS {
            check_level(&here)?;
            let inverse = inverse_diagonal(&here)?;
            let graph = strong(&here, block, strength);
            let aggregates = aggregate(&graph);
            let coarser = aggregates.count() * block;
            if coarser as f64 > SHRINKS * here.rows() as f64 {
                break;
            }
            let (prolongation, next_smooth) =
                prolongation(threads, &here, block, (&graph, &aggregates), &smooth)?;
            smooth = next_smooth;
            Error::if_too_large(|| "amg's restriction".to_owned(), prolongation.memory())?;
            let restriction = prolongation.transposed();
            let mut next = product(threads, &restriction, &product(threads, &here, &prolongation)?)?;
            if here.is_symmetric() {
                // Rounding has made it a little less so.
                next = next.map_values(|i, j, value| 0.5 * (value + next.get(j as usize, i)));
            }
            let next_space = Space::new(next.rows(), next.bytes());
            let interval = Interval::below_largest(threads, &here, &inverse, RATIO);
            levels.push(Level {
                a: narrow(rt, &space, &space, &here)?,
                smoother: Smoother::new(rt, &space, &inverse, interval, DEGREE),
                prolong: narrow(rt, &space, &next_space, &prolongation)?,
                restrict: narrow(rt, &next_space, &space, &restriction)?,
                next: Workspace::default(),
                space: std::mem::replace(&mut space, next_space),
            });
            (here, strength) = (Cow::Owned(next), strength / 2.0);
        }
        let coarse = Coarse::new(rt, &space, &here)?;
        let of_level = |level: &Level| 4 * level.a.bytes() + level.prolong.bytes() + level.restrict.bytes();
        let read = levels.iter().map(of_level).sum::<u64>() + coarse.bytes();
        Ok(Amg { space: finest, levels, coarse, bytes: read })
    }

    fn cycle(&self, level: usize, steps: &Steps<'_>, b: &MultiVector, x: &MultiVector) -> Result<(), Error> {
        let Some(here) = self.levels.get(level) else { return self.coarse.apply(steps, b, x) };
        let steps = steps.on(&here.space);
        let smoother = &here.smoother;
        smoother.apply(&steps, &here.a, b, x, true)?;
        smoother.settle(&steps, &here.a)?;
        let vectors = smoother.vectors(&steps);
        let coarser = here.prolong.domain();
        let zeros = || MultiVector::zeros(steps.executor(), coarser, steps.columns());
        let next = here.next.of(steps.columns(), || [zeros(), zeros()]);
        let [next_b, next_x] = &*next;
        here.restrict.apply(&steps, &vectors.residual, next_b)?;
        self.cycle(level + 1, &steps, next_b, next_x)?;
        here.prolong.apply(&steps, next_x, &vectors.product)?;
        steps.task("amg.correct").add(x, times(1.0, &vectors.product)).submit()?;
        smoother.apply(&steps, &here.a, b, x, false)
    }
}

impl Operator for Amg {
    fn domain(&self) -> &Space {
        &self.space
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn memory(&self) -> u64 {
        let of_level = |level: &Level| {
            let matrices = [&level.a, &level.prolong, &level.restrict].map(Stored::bytes).iter().sum::<u64>();
            matrices + level.smoother.memory()
        };
        let coarse = if self.levels.is_empty() { self.coarse.bytes() } else { self.coarse.memory() };
        // The right-hand sides and the solutions of all levels except the finest.
        let below = self.levels.iter().skip(1).map(|level| level.space.bytes(2)).sum::<u64>();
        self.levels.iter().map(of_level).sum::<u64>() + below + coarse
    }

    fn apply(&self, steps: &Steps<'_>, r: &MultiVector, z: &MultiVector) -> Result<(), Error> {
        self.cycle(0, steps, r, z)
    }
}

/// Refuses a level whose graph, aggregates and smoothed prolongation do not fit the memory. Each
/// nonzero has at most a strong neighbour and three copies while the prolongation is made; each row
/// has its diagonal, its aggregate and the tentative prolongation. Products of levels have unknown
/// sizes; they are refused while they grow.
fn check_level(a: &Csr) -> Result<(), Error> {
    let bytes = 40 * a.nonzeros() as u64 + 60 * a.rows() as u64;
    Error::if_too_large(|| format!("a level of amg with {} rows", a.rows()), bytes)
}

#[cfg(test)]
mod tests {
    use zellige_runtime::Runtime;

    use super::*;
    use crate::generate::{Flow, flow};
    use crate::precondition::tests::applied;

    /// A V-cycle for the Poisson equation reduces errors by a factor that does not depend on the
    /// size.
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

    /// Conjugate gradients need `u . M^-1 v = v . M^-1 u`, also if rows are of very different
    /// sizes.
    #[test]
    fn cycles_are_symmetric() -> Result<(), Error> {
        let scale = |i: usize| 2f64.powi((i * 7 % 23) as i32 - 11);
        let a = flow(&Flow { cells: [12, 12, 12], spread: 1.0, ..Flow::default() })?
            .map_values(|i, j, value| scale(i) * value * scale(j as usize));
        let smooth: Vec<f64> = (0..a.rows()).map(|i| 1.0 / scale(i)).collect();
        let make = |rt: &Runtime, space: &Space| Amg::for_smooth(rt, space, &a, 1, &smooth);
        let [u, v] = [31, 37]
            .map(|k| (0..a.rows()).map(|i| ((i * k) % 101) as f64 * scale(i) - 50.0).collect::<Vec<_>>());
        let (of_u, of_v) = (applied(&a, make, &u)?, applied(&a, make, &v)?);
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        let size = (dot(&u, &of_u) * dot(&v, &of_v)).sqrt();
        let difference = (dot(&u, &of_v) - dot(&v, &of_u)).abs() / size;
        assert!(difference < 1e-12, "{difference:e}");
        Ok(())
    }
}
