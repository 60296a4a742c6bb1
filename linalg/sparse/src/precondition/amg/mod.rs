//! Smoothed aggregation.

mod aggregate;
mod blocks;
mod coarse;
mod formats;
mod near_null;
mod search;
mod smooth;

use std::sync::Arc;

pub use self::near_null::NearNull;

use self::aggregate::{Aggregates, aggregate, strong};
use self::blocks::{Blocks, product, symmetric_product};
use self::coarse::Coarse;
use self::formats::{Formats, least_energy, stored};
use self::near_null::Smooth;
use self::smooth::ProlongationSmoother;
use super::chebyshev::{Interval, Smoother};
use super::jacobi::inverse_diagonal;
use crate::csr::Csr;
use crate::stored::{Stored, check_square};
use zellige_krylov::method::{Steps, Workspace, times};
use zellige_krylov::{Error, Executor, MultiVector, Operator, Space};

/// A matrix that is so small is solved with directly.
const SMALL: usize = 400;
/// A coarser level has at most this share of the rows of the one above, or coarsening stops.
const SHRINKS: f64 = 0.8;
const MOST_LEVELS: usize = 20;
/// Degree of the polynomial smoother before and after each coarser level, and the largest
/// eigenvalue over the smallest that it damps.
const SMOOTHING: (usize, f64) = (2, 4.0);
/// A level is visited twice as often as the one above unless all visits would read more than this
/// many times the bytes of the finest matrix.
const MOST_VISITED: u64 = 2;
/// Strength threshold and its factor from level to level: an off-diagonal entry (or block) is
/// strong if it exceeds this relative to its diagonals (Vanek, Mandel and Brezina 1996, equation
/// 20).
const STRENGTH: (f64, f64) = (0.08, 0.5);
/// Those for more than constants, chosen for elasticity with 49 000 to 986 000 rows.
const MORE_SMOOTHING: (usize, f64) = (4, 20.0);
const MORE_STRENGTH: (f64, f64) = (0.04, 1.0);

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

/// A matrix that is about to be coarsened.
struct Coarsening {
    a: Blocks,
    aggregates: Aggregates,
    smoother: ProlongationSmoother,
}

/// The transfers to the next level, its matrix and its smooth vectors.
struct Next {
    prolongation: Blocks,
    restriction: Blocks,
    a: Blocks,
    smooth: Smooth,
    least_energy: f64,
}

/// The finest level while levels are made.
struct Finest<'a> {
    space: &'a Space,
    a: &'a Csr,
    coarsening: Coarsening,
    /// Made with the first levels, which decide its format.
    grid: Option<Arc<Grid>>,
}

/// A level that is not stored yet: its format depends on the coarser ones.
struct Open {
    prolong: Csr,
    restrict: Csr,
    /// The space, the matrix and the smoother of the next level; the coarsest has none.
    space: Space,
    a: Csr,
    smoother: Option<Smoother>,
    least_energy: f64,
}

/// Options of all levels, and what runs their tasks.
struct Setup<'r> {
    rt: &'r dyn Executor,
    threads: usize,
    is_symmetric: bool,
    smoothing: (usize, f64),
    strength: (f64, f64),
}

impl Setup<'_> {
    /// Aggregates the nodes of a matrix; nothing if that would hardly make it smaller.
    fn coarsening(&self, a: Blocks, smooth: &Smooth, level: usize) -> Result<Option<Coarsening>, Error> {
        let graph = strong(&a, self.strength.0 * self.strength.1.powi(level as i32));
        let aggregates = aggregate(&graph);
        let (rows, coarser) = (a.rows() * a.size()[0], aggregates.count() * smooth.unknowns());
        if coarser as f64 > SHRINKS * rows as f64 {
            return Ok(None);
        }
        let smoother = ProlongationSmoother::new(self.threads, &a, graph, &smooth.constants);
        Ok(Some(Coarsening { a, aggregates, smoother }))
    }

    /// Returns the transfers to the next level, its matrix and its smooth vectors.
    fn next(&self, level: &Coarsening, smooth: &Smooth) -> Result<Next, Error> {
        let (threads, Coarsening { a, aggregates, smoother }) = (self.threads, level);
        let (tentative, smooth) = smooth.tentative(a.size()[0], aggregates)?;
        let prolongation = smoother.smoothed(threads, a, &tentative)?;
        Error::if_too_large(|| "amg's restriction".to_owned(), prolongation.memory())?;
        let restriction = prolongation.transposed();
        let mut matrix = if self.is_symmetric {
            symmetric_product(threads, a, &prolongation, &restriction)
        } else {
            product(threads, &restriction, &product(threads, a, &prolongation)?)
        }?;
        let least_energy = least_energy(a, &prolongation, &matrix);
        matrix.fill_diagonal();
        Ok(Next { prolongation, restriction, a: matrix, smooth, least_energy })
    }

    fn smoother(&self, space: &Space, a: &Csr, blocks: &Blocks) -> Result<Smoother, Error> {
        let (degree, ratio) = self.smoothing;
        let inverse = inverse_diagonal(a)?;
        let interval = Interval::below_largest(self.threads, blocks, &inverse, ratio);
        Ok(Smoother::new(self.rt, space, &inverse, interval, degree))
    }

    /// Returns the levels for these smooth vectors of the finest one.
    fn levels(&self, finest: &mut Finest<'_>, smooth: &Smooth) -> Result<Amg, Error> {
        let mut next = self.next(&finest.coarsening, smooth)?;
        let mut open: Vec<Open> = Vec::new();
        loop {
            let a = next.a.csr()?;
            let space = Space::new(a.rows(), a.bytes());
            let (prolong, restrict) = (next.prolongation.csr()?, next.restriction.csr()?);
            let is_last = a.rows() <= SMALL || open.len() + 1 == MOST_LEVELS;
            let coarsening = if is_last {
                None
            } else {
                check_level(&a)?;
                self.coarsening(next.a, &next.smooth, open.len() + 1)?
            };
            let smoother = match &coarsening {
                Some(coarsening) => Some(self.smoother(&space, &a, &coarsening.a)?),
                None => None,
            };
            let least_energy = next.least_energy;
            open.push(Open { prolong, restrict, space, a, smoother, least_energy });
            match coarsening {
                Some(coarsening) => next = self.next(&coarsening, &next.smooth)?,
                None => return self.stored_levels(finest, open),
            }
        }
    }

    /// Stores the levels. Vectors of a level are as smooth as those of the next one that stand for
    /// them, in which parts of it are alike: the smallest energies multiply.
    fn stored_levels(&self, finest: &mut Finest<'_>, open: Vec<Open>) -> Result<Amg, Error> {
        let (rt, mut least) = (self.rt, 1.0);
        let below = open.iter().rev().map(|level| {
            least *= level.least_energy;
            Formats::of(least)
        });
        let formats: Vec<Formats> = below.collect::<Vec<_>>().into_iter().rev().collect();
        let mut grid = match &finest.grid {
            Some(grid) => Arc::clone(grid),
            None => {
                let Finest { space, a, ref coarsening, .. } = *finest;
                let smoother = self.smoother(space, a, &coarsening.a)?;
                let a = stored(rt, space, space, a, formats[0].matrix)?;
                Arc::clone(finest.grid.insert(Arc::new(Grid { space: space.clone(), a, smoother })))
            }
        };
        let mut levels = Vec::with_capacity(open.len());
        for (at, Open { prolong, restrict, space, a, smoother, .. }) in open.into_iter().enumerate() {
            let format = formats[at].transfers;
            levels.push(Level {
                prolong: stored(rt, &grid.space, &space, &prolong, format)?,
                restrict: stored(rt, &space, &grid.space, &restrict, format)?,
                is_twice: false,
                next: Workspace::default(),
                grid: Arc::clone(&grid),
            });
            let Some(smoother) = smoother else {
                return Ok(Amg::of(finest.space.clone(), levels, Coarse::new(rt, &space, &a)?));
            };
            let a = stored(rt, &space, &space, &a, formats[at + 1].matrix)?;
            grid = Arc::new(Grid { space, a, smoother });
        }
        Err(Error::unsolvable("preconditioner", "amg made no level"))
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
        if block == 0 || !a.rows().is_multiple_of(block) {
            let problem = format!("a block size of {block} does not divide {} rows: use 1", a.rows());
            return Err(Error::parameter("block", problem));
        }
        if constants.len() != a.rows() || constants.iter().any(|part| *part == 0.0 || !part.is_finite()) {
            let problem = format!("it must have {} finite entries, none of them zero", a.rows());
            return Err(Error::parameter("constants", problem));
        }
        let given = near_null.vectors(a.rows(), block)?;
        let threads = rt.runtime().workers();
        let has_more = *near_null != NearNull::Constants;
        let setup = Setup {
            rt,
            threads,
            is_symmetric: a.is_symmetric(),
            smoothing: if has_more { MORE_SMOOTHING } else { SMOOTHING },
            strength: if has_more { MORE_STRENGTH } else { STRENGTH },
        };
        let smooth = Smooth::new(block, constants, &given, given.len());
        let first = if a.rows() <= SMALL {
            None
        } else {
            check_level(a)?;
            setup.coarsening(Blocks::of(threads, a, block)?, &smooth, 0)?
        };
        let Some(first) = first else {
            return Ok(Amg::of(space.clone(), Vec::new(), Coarse::new(rt, space, a)?));
        };
        let mut finest = Finest { space, a, coarsening: first, grid: None };
        let amg = setup.levels(&mut finest, &smooth)?;
        let grid = match &finest.grid {
            Some(grid) if *near_null == NearNull::Search => Arc::clone(grid),
            _ => return Ok(amg),
        };
        let found = search::vectors(rt, &amg, &grid.a, a)?;
        drop(amg);
        setup.levels(&mut finest, &Smooth::new(block, constants, &found, search::directions(block)))
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

/// Refuses a matrix that cannot be a level: one that is not square, one with a zero diagonal entry,
/// by which rows are divided, and one whose blocks, graph and smoothed prolongation do not fit the
/// memory. Each nonzero has at most a strong neighbour and three copies while the next level is
/// made; each row has its diagonal, its aggregate and its row of the tentative prolongation. The
/// sizes of products of levels are unknown; they are refused while they grow.
fn check_level(a: &Csr) -> Result<(), Error> {
    check_square(a)?;
    inverse_diagonal(a)?;
    let bytes = 40 * a.nonzeros() as u64 + 60 * a.rows() as u64;
    Error::if_too_large(|| format!("a level of amg with {} rows", a.rows()), bytes)
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
        let n = 2 * SMALL as u32;
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
