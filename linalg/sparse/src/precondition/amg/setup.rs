//! Set-ups: what the levels of a matrix are made of.

use std::sync::Arc;

use flate2::Crc;

use super::aggregate::{Aggregates, aggregate, strong};
use super::blocks::{Blocks, product, symmetric_product};
use super::formats::{Formats, least_energy};
use super::near_null::{NearNull, Smooth};
use super::smooth::ProlongationSmoother;
use super::{Amg, Grid, search};
use crate::adaptive::FormatSet;
use crate::csr::Csr;
use crate::precondition::chebyshev::Interval;
use crate::precondition::jacobi::inverse_diagonal;
use crate::stored::check_square;
use zellige_krylov::{Error, Executor, Space};

/// A matrix that is so small is solved with directly.
pub(super) const SMALL: usize = 400;
/// A coarser level has at most this share of the rows of the one above, or coarsening stops.
const SHRINKS: f64 = 0.8;
pub(super) const MOST_LEVELS: usize = 20;
/// Degree of the polynomial smoother before and after each coarser level, and the largest
/// eigenvalue over the smallest that it damps.
const SMOOTHING: (usize, f64) = (2, 4.0);
/// Strength threshold and its factor from level to level: an off-diagonal entry (or block) is
/// strong if it exceeds this relative to its diagonals (Vanek, Mandel and Brezina 1996, equation
/// 20).
const STRENGTH: (f64, f64) = (0.08, 0.5);
/// Those for more than constants, chosen for elasticity with 49 000 to 986 000 rows.
const MORE_SMOOTHING: (usize, f64) = (4, 20.0);
const MORE_STRENGTH: (f64, f64) = (0.04, 1.0);

/// Set-up of [`Amg`]: the transfers between all levels, and their matrices. It can be kept in a
/// file, and serves for the same matrix or for one with other values of the same nonzeros.
///
/// ```
/// use zellige_krylov::Space;
/// use zellige_runtime::Runtime;
/// use zellige_sparse::generate::{Flow, flow};
/// use zellige_sparse::precondition::{Amg, NearNull};
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let a = flow(&Flow { cells: [12, 10, 8], ..Flow::default() })?;
/// let space = Space::new(a.rows(), a.bytes());
/// let ones = vec![1.0; a.rows()];
/// let (levels, setup) = Amg::with_setup(&rt, &space, &a, 1, &ones, &NearNull::Constants)?;
/// let twice = a.clone().scaled(1)?;
/// assert!(setup.is_of(&a) && !setup.is_of(&twice));
/// let others = Amg::of_setup(&rt, &space, &twice, &setup)?; // with the transfers of `a`
/// # Ok::<(), zellige_sparse::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AmgSetup {
    pub(super) of: MatrixSums,
    /// Size of the blocks that the rows come in.
    pub(super) block: usize,
    /// Whether there is more in the near null space than constants.
    pub(super) has_more: bool,
    /// `None` for a matrix that is solved with directly.
    pub(super) finest: Option<FinestLevel>,
    /// All levels but the finest.
    pub(super) levels: Vec<SetupLevel>,
}

/// Size and check sums of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MatrixSums {
    pub rows: usize,
    pub nonzeros: usize,
    /// CRC-32 of the positions and of the values of the nonzeros.
    pub positions: u32,
    pub values: u32,
}

impl MatrixSums {
    pub fn of(a: &Csr) -> MatrixSums {
        let (mut positions, mut values) = (Crc::new(), Crc::new());
        for (column, value) in a.iter() {
            positions.update(&(column.len() as u64).to_le_bytes());
            positions.update(bytemuck::cast_slice(column));
            values.update(bytemuck::cast_slice(value));
        }
        let (positions, values) = (positions.sum(), values.sum());
        MatrixSums { rows: a.rows(), nonzeros: a.nonzeros(), positions, values }
    }
}

/// The finest level, except for its matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FinestLevel {
    /// Eigenvalues that the smoother damps.
    pub interval: Interval,
    /// Smallest energy of vectors of the coarsest level, relative to the diagonal of this one. It
    /// defines the format of the matrix.
    pub least_energy: f64,
}

impl FinestLevel {
    pub fn format(&self) -> FormatSet {
        Formats::of(self.least_energy).matrix
    }

    /// Returns the ends of the interval, and the energy.
    pub fn numbers(&self) -> [f64; 3] {
        let [least, most] = self.interval.ends();
        [least, most, self.least_energy]
    }
}

/// A level below the finest.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SetupLevel {
    /// The prolongation to the next finer level.
    pub prolongation: Blocks,
    pub a: Csr,
    /// Eigenvalues that the smoother damps; `None` for the coarsest level.
    pub interval: Option<Interval>,
    /// Smallest energy of its vectors, relative to the diagonal of the next finer level.
    pub least_energy: f64,
}

/// A matrix that is about to be coarsened.
struct Coarsening {
    a: Blocks,
    aggregates: Aggregates,
    smoother: ProlongationSmoother,
}

/// The transfer to the next level, its matrix and its smooth vectors.
struct Next {
    prolongation: Blocks,
    a: Blocks,
    smooth: Smooth,
    least_energy: f64,
}

/// Options of all levels.
struct Coarsener {
    threads: usize,
    is_symmetric: bool,
    has_more: bool,
}

/// Returns the degree of the smoothers, and the largest eigenvalue over the smallest that they
/// damp.
fn smoothing(has_more: bool) -> (usize, f64) {
    if has_more { MORE_SMOOTHING } else { SMOOTHING }
}

/// Returns the matrix of the next level, and the smallest energy of its vectors.
fn coarser(
    threads: usize,
    is_symmetric: bool,
    a: &Blocks,
    prolongation: &Blocks,
) -> Result<(Blocks, f64), Error> {
    Error::if_too_large(|| "amg's restriction".to_owned(), prolongation.memory())?;
    let restriction = prolongation.transposed();
    let mut next = if is_symmetric {
        symmetric_product(threads, a, prolongation, &restriction)
    } else {
        product(threads, &restriction, &product(threads, a, prolongation)?)
    }?;
    let least_energy = least_energy(a, prolongation, &next);
    next.fill_diagonal();
    Ok((next, least_energy))
}

impl Coarsener {
    /// Aggregates the nodes of a matrix; nothing if that would hardly make it smaller.
    fn coarsening(&self, a: Blocks, smooth: &Smooth, level: usize) -> Result<Option<Coarsening>, Error> {
        let strength = if self.has_more { MORE_STRENGTH } else { STRENGTH };
        let graph = strong(&a, strength.0 * strength.1.powi(level as i32));
        let aggregates = aggregate(&graph);
        let (rows, coarser) = (a.rows() * a.size()[0], aggregates.count() * smooth.unknowns());
        if coarser as f64 > SHRINKS * rows as f64 {
            return Ok(None);
        }
        let smoother = ProlongationSmoother::new(self.threads, &a, graph, &smooth.constants);
        Ok(Some(Coarsening { a, aggregates, smoother }))
    }

    /// Returns the transfer to the next level, its matrix and its smooth vectors.
    fn next(&self, level: &Coarsening, smooth: &Smooth) -> Result<Next, Error> {
        let (threads, Coarsening { a, aggregates, smoother }) = (self.threads, level);
        let (tentative, smooth) = smooth.tentative(a.size()[0], aggregates)?;
        let prolongation = smoother.smoothed(threads, a, &tentative)?;
        let (a, least_energy) = coarser(threads, self.is_symmetric, a, &prolongation)?;
        Ok(Next { prolongation, a, smooth, least_energy })
    }

    /// Returns the eigenvalues that a smoother damps.
    fn interval(&self, a: &Csr, blocks: &Blocks) -> Result<Interval, Error> {
        let ratio = smoothing(self.has_more).1;
        Ok(Interval::below_largest(self.threads, blocks, &inverse_diagonal(a)?, ratio))
    }

    /// Returns the levels below the finest one for these smooth vectors of it.
    fn levels(&self, finest: &Coarsening, smooth: &Smooth) -> Result<Vec<SetupLevel>, Error> {
        let mut next = self.next(finest, smooth)?;
        let mut levels = Vec::new();
        loop {
            let a = next.a.csr()?;
            let is_last = a.rows() <= SMALL || levels.len() + 1 == MOST_LEVELS;
            let coarsening = if is_last {
                None
            } else {
                check_level(&a)?;
                self.coarsening(next.a, &next.smooth, levels.len() + 1)?
            };
            let interval = coarsening.as_ref().map(|coarsening| self.interval(&a, &coarsening.a));
            let interval = interval.transpose()?;
            let Next { prolongation, least_energy, smooth, .. } = next;
            levels.push(SetupLevel { prolongation, a, interval, least_energy });
            match coarsening {
                Some(coarsening) => next = self.next(&coarsening, &smooth)?,
                None => return Ok(levels),
            }
        }
    }
}

impl AmgSetup {
    /// Makes a set-up, and returns the finest level, too, if a search has stored it.
    pub(super) fn with_grid(
        rt: &dyn Executor,
        space: &Space,
        a: &Csr,
        block: usize,
        constants: &[f64],
        near_null: &NearNull,
    ) -> Result<(AmgSetup, Option<Arc<Grid>>), Error> {
        if block == 0 || !a.rows().is_multiple_of(block) {
            let problem = format!("a block size of {block} does not divide {} rows: use 1", a.rows());
            return Err(Error::parameter("block", problem));
        }
        if constants.len() != a.rows() || constants.iter().any(|part| *part == 0.0 || !part.is_finite()) {
            let problem = format!("it must have {} finite entries, none of them zero", a.rows());
            return Err(Error::parameter("constants", problem));
        }
        let given = near_null.vectors(a.rows(), block)?;
        let has_more = *near_null != NearNull::Constants;
        let threads = rt.runtime().workers();
        let coarsener = Coarsener { threads, is_symmetric: a.is_symmetric(), has_more };
        let smooth = Smooth::new(block, constants, &given, given.len());
        let of = MatrixSums::of(a);
        let mut setup = AmgSetup { of, block, has_more, finest: None, levels: Vec::new() };
        if a.rows() <= SMALL {
            return Ok((setup, None));
        }
        check_level(a)?;
        let Some(finest) = coarsener.coarsening(Blocks::of(threads, a, block)?, &smooth, 0)? else {
            return Ok((setup, None));
        };
        let interval = coarsener.interval(a, &finest.a)?;
        setup.levels = coarsener.levels(&finest, &smooth)?;
        setup.finest = Some(FinestLevel { interval, least_energy: setup.least_energy() });
        if *near_null != NearNull::Search {
            return Ok((setup, None));
        }
        let amg = Amg::stored(rt, space, a, &setup, None)?;
        let grid = amg.levels.first().map(|level| Arc::clone(&level.grid));
        let stored = grid.as_ref().map(|grid| &grid.a).expect("a level");
        let found = search::vectors(rt, &amg, stored, a)?;
        drop(amg);
        let smooth = Smooth::new(block, constants, &found, search::directions(block));
        setup.levels = coarsener.levels(&finest, &smooth)?;
        Ok((setup, grid))
    }

    /// Returns whether the set-up was made for these nonzeros and values.
    pub fn is_of(&self, a: &Csr) -> bool {
        self.of == MatrixSums::of(a)
    }

    /// Returns a set-up with the transfers of this one and the matrices of another with the same
    /// nonzeros. That takes less time than a new set-up, and its levels suit values that differ
    /// little.
    ///
    /// # Errors
    /// [`Error::Shape`] for other nonzeros; [`Error::Unsolvable`] for a zero on a diagonal;
    /// [`Error::Memory`].
    pub fn refilled(&self, threads: usize, a: &Csr) -> Result<AmgSetup, Error> {
        let of = MatrixSums::of(a);
        if of != (MatrixSums { values: of.values, ..self.of }) {
            let found = |of: &MatrixSums| format!("{} rows and {} nonzeros", of.rows, of.nonzeros);
            let [own, other] = [&self.of, &of].map(found);
            let problem = match own == other {
                true => {
                    "its matrix has nonzeros at other positions (or another order of unknowns)".to_owned()
                }
                false => format!("it is of a matrix with {own}, not {other}"),
            };
            return Err(Error::shape("amg's set-up", problem));
        }
        let mut refilled = AmgSetup { of, levels: Vec::new(), ..*self };
        if self.finest.is_none() {
            return Ok(refilled);
        }
        check_level(a)?;
        let coarsener = Coarsener { threads, is_symmetric: a.is_symmetric(), has_more: self.has_more };
        let mut finer = Blocks::of(threads, a, self.block)?;
        let interval = coarsener.interval(a, &finer)?;
        for SetupLevel { prolongation, interval, .. } in &self.levels {
            let (next, least_energy) = coarser(threads, coarsener.is_symmetric, &finer, prolongation)?;
            let a = next.csr()?;
            let interval = interval.map(|_| coarsener.interval(&a, &next)).transpose()?;
            let prolongation = prolongation.clone();
            refilled.levels.push(SetupLevel { prolongation, a, interval, least_energy });
            finer = next;
        }
        refilled.finest = Some(FinestLevel { interval, least_energy: refilled.least_energy() });
        Ok(refilled)
    }

    /// Returns the options of the smoothers.
    pub(super) fn smoothing(&self) -> (usize, f64) {
        smoothing(self.has_more)
    }

    /// Returns the smallest energy of vectors of the coarsest level.
    fn least_energy(&self) -> f64 {
        self.levels.iter().map(|level| level.least_energy).product()
    }

    /// Returns the formats of each level but the coarsest. Vectors of a level are as smooth as
    /// those of the next one that stand for them, in which parts of it are alike: the smallest
    /// energies multiply.
    pub(super) fn formats(&self) -> Vec<Formats> {
        let mut least = 1.0;
        let below = self.levels.iter().rev().map(|level| {
            least *= level.least_energy;
            Formats::of(least)
        });
        below.collect::<Vec<_>>().into_iter().rev().collect()
    }
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
