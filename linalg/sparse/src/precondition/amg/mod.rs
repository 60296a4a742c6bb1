//! Smoothed aggregation.

mod aggregate;
mod blocks;
mod coarse;
mod file;
mod formats;
mod near_null;
mod search;
mod setup;
mod smooth;

use std::sync::Arc;

pub use self::near_null::NearNull;
pub use self::setup::AmgSetup;

use self::coarse::Coarse;
use self::formats::stored;
use self::setup::SetupLevel;
use super::chebyshev::{Interval, Smoother};
use super::jacobi::inverse_diagonal;
use crate::adaptive::FormatSet;
use crate::csr::Csr;
use crate::stored::Stored;
use zellige_krylov::method::{Steps, Workspace, times};
use zellige_krylov::{Error, Executor, MultiVector, Operator, Space};

/// A level is visited twice as often as the one above unless all visits would read more than this
/// many times the bytes of the finest matrix.
const MOST_VISITED: u64 = 2;

/// Algebraic multigrid by smoothed aggregation (Vanek, Mandel and Brezina 1996): one W-cycle, with
/// Chebyshev polynomials as smoothers, for symmetric positive definite matrices and nearly such
/// ones.
///
/// Rows may come in blocks (displacements of one node): a block is aggregated as a whole, and every
/// component of it has its own constant vector. Further vectors of the [near null space](NearNull),
/// such as rotations, are given or found from the matrix.
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
    grid: Arc<Grid>,
    /// Prolongation from the next level, and restriction to it.
    prolong: Stored,
    restrict: Stored,
    /// Whether each visit of this level visits the next one twice.
    is_twice: bool,
    /// The right-hand side and the solution of the next level.
    next: Workspace<[MultiVector; 2]>,
}

/// The part of a level that does not depend on the next one.
#[derive(Debug)]
struct Grid {
    space: Space,
    a: Stored,
    smoother: Smoother,
}

impl Grid {
    fn new(
        rt: &dyn Executor,
        space: &Space,
        a: &Csr,
        interval: Interval,
        format: FormatSet,
        degree: usize,
    ) -> Result<Grid, Error> {
        let smoother = Smoother::new(rt, space, &inverse_diagonal(a)?, interval, degree);
        Ok(Grid { space: space.clone(), a: stored(rt, space, space, a, format)?, smoother })
    }
}

impl Amg {
    /// Sets up the levels for a matrix whose rows come in blocks of `block`, and whose near null
    /// space consists of the vectors that are constant in a component.
    ///
    /// # Errors
    /// Those of [`for_near_null`](Amg::for_near_null).
    pub fn new(rt: &dyn Executor, space: &Space, a: &Csr, block: usize) -> Result<Amg, Error> {
        Amg::for_near_null(rt, space, a, block, &vec![1.0; a.rows()], &NearNull::Constants)
    }

    /// Sets up AMG for a matrix whose products with the components of `constants` are nearly zero,
    /// and those with further vectors. No number of `constants` is zero; they are not ones for a
    /// matrix whose columns were divided by these numbers. Given vectors are of such a matrix, too.
    ///
    /// # Errors
    /// [`Error::Unsolvable`] for a matrix that is not square, and for a zero diagonal entry;
    /// [`Error::Parameter`] for blocks that do not fill the rows, and for constants that do not
    /// fit or have a zero; those of [`NearNull::vectors`].
    pub fn for_near_null(
        rt: &dyn Executor,
        space: &Space,
        a: &Csr,
        block: usize,
        constants: &[f64],
        near_null: &NearNull,
    ) -> Result<Amg, Error> {
        Amg::with_setup(rt, space, a, block, constants, near_null).map(|(amg, _)| amg)
    }

    /// Sets up AMG like [`for_near_null`](Amg::for_near_null), and returns its set-up, too.
    ///
    /// # Errors
    /// Those of [`for_near_null`](Amg::for_near_null).
    pub fn with_setup(
        rt: &dyn Executor,
        space: &Space,
        a: &Csr,
        block: usize,
        constants: &[f64],
        near_null: &NearNull,
    ) -> Result<(Amg, AmgSetup), Error> {
        let (setup, grid) = AmgSetup::with_grid(rt, space, a, block, constants, near_null)?;
        Ok((Amg::stored(rt, space, a, &setup, grid)?, setup))
    }

    /// Makes the levels of a set-up for a matrix with the nonzeros of the one that it was made for.
    /// If values differ, the transfers stay, and the matrices of the levels are those of `a`.
    ///
    /// # Errors
    /// [`Error::Shape`] for a set-up of a matrix with other nonzeros; those of
    /// [`AmgSetup::refilled`].
    pub fn of_setup(rt: &dyn Executor, space: &Space, a: &Csr, setup: &AmgSetup) -> Result<Amg, Error> {
        match setup.is_of(a) {
            true => Amg::stored(rt, space, a, setup, None),
            false => Amg::stored(rt, space, a, &setup.refilled(rt.runtime().workers(), a)?, None),
        }
    }

    /// Stores the levels of a set-up for its matrix; `grid` is the finest one if it is stored
    /// already.
    fn stored(
        rt: &dyn Executor,
        space: &Space,
        a: &Csr,
        setup: &AmgSetup,
        grid: Option<Arc<Grid>>,
    ) -> Result<Amg, Error> {
        let degree = setup.smoothing().0;
        let mut grid = match (&setup.finest, grid) {
            (None, _) => return Ok(Amg::of(space.clone(), Vec::new(), Coarse::new(rt, space, a)?)),
            (_, Some(grid)) => grid,
            (Some(finest), None) => {
                Arc::new(Grid::new(rt, space, a, finest.interval, finest.format(), degree)?)
            }
        };
        let formats = setup.formats();
        let mut levels = Vec::with_capacity(formats.len());
        for (at, SetupLevel { prolongation, a, interval, .. }) in setup.levels.iter().enumerate() {
            let (next, transfers) = (Space::new(a.rows(), a.bytes()), formats[at].transfers);
            levels.push(Level {
                prolong: stored(rt, &grid.space, &next, &prolongation.csr()?, transfers)?,
                restrict: stored(rt, &next, &grid.space, &prolongation.transposed().csr()?, transfers)?,
                is_twice: false,
                next: Workspace::default(),
                grid,
            });
            let Some(interval) = *interval else {
                return Ok(Amg::of(space.clone(), levels, Coarse::new(rt, &next, a)?));
            };
            let format = formats.get(at + 1).map_or(FormatSet::Fp32, |next| next.matrix);
            grid = Arc::new(Grid::new(rt, &next, a, interval, format, degree)?);
        }
        Err(Error::unsolvable("preconditioner", "amg made no level"))
    }

    fn of(space: Space, mut levels: Vec<Level>, coarse: Coarse) -> Amg {
        let twice = visited_twice(&levels.iter().map(|level| level.grid.a.bytes()).collect::<Vec<_>>());
        let (mut visits, mut bytes) = (1, 0);
        for (level, is_twice) in levels.iter_mut().zip(twice) {
            let Level { grid, prolong, restrict, .. } = level;
            // The second visit begins with a product more.
            let products = 2 * grid.smoother.degree() as u64 * visits + visits / 2;
            bytes += products * grid.a.bytes() + visits * (prolong.bytes() + restrict.bytes());
            visits *= 1 + u64::from(is_twice);
            level.is_twice = is_twice;
        }
        bytes += visits * coarse.bytes();
        Amg { space, levels, coarse, bytes }
    }

    /// Records a visit of a level, which adds to `x`, or to zero.
    fn cycle(
        &self,
        level: usize,
        steps: &Steps<'_>,
        b: &MultiVector,
        x: &MultiVector,
        is_zero: bool,
    ) -> Result<(), Error> {
        let Some(here) = self.levels.get(level) else { return self.coarse.apply(steps, b, x) };
        let Grid { space, a, smoother } = &*here.grid;
        let steps = steps.on(space);
        smoother.apply(&steps, a, b, x, is_zero)?;
        smoother.settle(&steps, a)?;
        let vectors = smoother.vectors(&steps);
        let coarser = here.prolong.domain();
        let zeros = || MultiVector::zeros(steps.executor(), coarser, steps.columns());
        let next = here.next.of(steps.columns(), || [zeros(), zeros()]);
        let [next_b, next_x] = &*next;
        here.restrict.apply(&steps, &vectors.residual, next_b)?;
        self.cycle(level + 1, &steps, next_b, next_x, true)?;
        if here.is_twice {
            self.cycle(level + 1, &steps, next_b, next_x, false)?;
        }
        here.prolong.apply(&steps, next_x, &vectors.product)?;
        steps.task("amg.correct").add(x, times(1.0, &vectors.product)).submit()?;
        smoother.apply(&steps, a, b, x, false)
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
            let matrices =
                [&level.grid.a, &level.prolong, &level.restrict].map(Stored::bytes).iter().sum::<u64>();
            matrices + level.grid.smoother.memory()
        };
        let coarse = if self.levels.is_empty() { self.coarse.bytes() } else { self.coarse.memory() };
        // The right-hand sides and the solutions of all levels except the finest.
        let below = self.levels.iter().skip(1).map(|level| level.grid.space.bytes(2)).sum::<u64>();
        self.levels.iter().map(of_level).sum::<u64>() + below + coarse
    }

    fn apply(&self, steps: &Steps<'_>, r: &MultiVector, z: &MultiVector) -> Result<(), Error> {
        self.cycle(0, steps, r, z, true)
    }
}

/// Returns for each level whether each visit of it visits the next one twice, by the bytes of the
/// levels' matrices. The coarsest one is solved with directly, so once is enough.
fn visited_twice(bytes: &[u64]) -> Vec<bool> {
    let mut visits = 1;
    let next = bytes.iter().skip(1).map(|next| {
        let is_twice = 2 * visits * next <= MOST_VISITED * bytes[0];
        visits *= 1 + u64::from(is_twice);
        is_twice
    });
    next.chain(bytes.first().map(|_| false)).collect()
}

#[cfg(test)]
mod tests {
    use zellige_runtime::Runtime;

    use super::*;
    use crate::generate::{Flow, flow};
    use crate::precondition::tests::applied;

    /// A cycle for the Poisson equation reduces errors by a factor that does not depend on the
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
            assert!(factor < 0.1, "{cells:?}: {factor}");
        }
        Ok(())
    }

    /// Each level reads at most twice as many bytes as one visit of the finest.
    #[test]
    fn levels_are_visited_twice_unless_they_hardly_shrink() {
        assert!(visited_twice(&[]).is_empty());
        assert_eq!(visited_twice(&[100]), [false]);
        assert_eq!(visited_twice(&[100, 20, 4]), [true, true, false]);
        assert_eq!(visited_twice(&[100, 80, 64, 51, 41]), [true, false, false, true, false]);
    }

    #[test]
    fn matrices_without_levels_are_refused() -> Result<(), Error> {
        let rt = Runtime::builder().workers(1).build()?;
        let n = 2 * setup::SMALL as u32;
        let diagonal = |row: u32| if row == 7 { 0.0 } else { 2.0 };
        let tridiagonal = |i: u32| [(i, i, diagonal(i)), (i, (i + 1) % n, -1.0), ((i + 1) % n, i, -1.0)];
        let square: Vec<_> = (0..n).flat_map(tridiagonal).collect();
        for (columns, word) in [(n, "row 8"), (n + 3, "square")] {
            let a = Csr::from_triplets(n as usize, columns as usize, &square)?;
            let found = Amg::new(&rt, &Space::new(a.rows(), 0), &a, 1);
            let error = found.expect_err(word).to_string();
            assert!(error.contains(word), "{error}");
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
        let make =
            |rt: &Runtime, space: &Space| Amg::for_near_null(rt, space, &a, 1, &smooth, &NearNull::Constants);
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
