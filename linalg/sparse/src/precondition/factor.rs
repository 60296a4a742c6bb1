//! Incomplete factorisation.

use std::ops::Range;
use std::sync::OnceLock;

use super::block::{Block, inverse, narrow, product, take_product, transposed};
use super::sweep::Sweep;
use super::triangle::TriangleRows;
use crate::concurrent::concurrent_map;
use crate::csr::Csr;
use zellige_krylov::{Error, Space};

/// The rows of a part of `A`, about `L D U`, in blocks: `L` and `U` have ones on their diagonals,
/// which are not stored.
#[derive(Debug)]
pub struct IncompleteFactors<const B: usize> {
    /// Its block rows in elimination order, by their numbers in the part.
    pub made: Vec<u32>,
    /// Blocks before the diagonal in elimination order.
    pub lower: TriangleRows<B>,
    /// Blocks after the diagonal in elimination order.
    pub upper: TriangleRows<B>,
    /// The inverse of `D`, in the order of the rows.
    pub inverses: Vec<Block<B>>,
}

/// The first factor by which a diagonal is enlarged, and how often it is doubled (Manteuffel 1980).
const FIRST_SHIFT: f64 = 1e-3;
const SHIFTS: i32 = 12;
/// A pivot below this multiple of its diagonal entry has lost all its digits to cancellation.
const LEAST_PIVOT: f64 = 1e-10;

/// Factors a matrix on the pattern of its blocks, with independent parts of a space as far as the
/// sweep allows.
///
/// # Errors
/// [`Error::Unsolvable`] for a row without a diagonal entry, if no enlargement of the diagonal
/// helps, and for factors beyond the range of `f32`.
pub fn factors<const B: usize>(
    a: &Csr,
    space: &Space,
    sweep: &Sweep,
    kind: SymmetryClass,
    threads: usize,
) -> Result<Vec<IncompleteFactors<B>>, Error> {
    let diagonal = diagonal(a)?;
    let mut row = 0;
    for shift in [0.0].into_iter().chain((0..SHIFTS).map(|k| FIRST_SHIFT * f64::from(1 << k))) {
        let system = Elimination { a, space, sweep, kind, diagonal: &diagonal, shift };
        match system.factored(threads) {
            Ok(factors) => return narrow_enough(factors),
            Err(failed) => row = failed,
        }
    }
    let problem = format!(
        "incomplete factorisation failed: the pivot of row {} vanishes; use jacobi or chebyshev",
        row + 1
    );
    Err(Error::unsolvable("preconditioner", problem))
}

/// Symmetry class of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymmetryClass {
    /// Neither of the others.
    General,
    /// Equal to its transpose: half of the elimination is skipped, and `U` is the transpose of `L`
    /// to the last bit.
    Symmetric,
    /// Symmetric with a positive diagonal; the pivots have to be positive too.
    Positive,
}

impl SymmetryClass {
    /// Returns the kind of a matrix.
    pub fn of(a: &Csr) -> SymmetryClass {
        match a.is_symmetric() {
            false => SymmetryClass::General,
            true if (0..a.rows()).all(|i| a.get(i, i) > 0.0) => SymmetryClass::Positive,
            true => SymmetryClass::Symmetric,
        }
    }
}

fn diagonal(a: &Csr) -> Result<Vec<f64>, Error> {
    let of_row = |i| match a.get(i, i) {
        0.0 => {
            let problem =
                format!("row {} has no diagonal entry: ilu0 divides by it; take --scale matching", i + 1);
            Err(Error::unsolvable("preconditioner", problem))
        }
        diagonal => Ok(diagonal),
    };
    (0..a.rows()).map(of_row).collect()
}

fn narrow_enough<const B: usize>(
    factors: Vec<IncompleteFactors<B>>,
) -> Result<Vec<IncompleteFactors<B>>, Error> {
    if factors.iter().all(|factors| factors.lower.is_finite() && factors.upper.is_finite()) {
        return Ok(factors);
    }
    let problem = "its factors are beyond the range of f32: scale the system first";
    Err(Error::unsolvable("preconditioner", problem))
}

struct Elimination<'a> {
    a: &'a Csr,
    space: &'a Space,
    sweep: &'a Sweep,
    kind: SymmetryClass,
    diagonal: &'a [f64],
    shift: f64,
}

/// Result of the elimination of a part, as far as later rows need it.
struct Eliminated<const B: usize> {
    factors: IncompleteFactors<B>,
    /// For each row in elimination order, the start of its blocks in `columns` and the start of
    /// those of other parts.
    starts: Vec<[usize; 2]>,
    /// Columns of `U`: those of the part in elimination order, then the others.
    columns: Vec<u32>,
    values: Vec<Block<B>>,
    pivots: Vec<Block<B>>,
}

impl Elimination<'_> {
    /// Returns the factors of every part, or the first row whose pivot is useless.
    fn factored<const B: usize>(&self, threads: usize) -> Result<Vec<IncompleteFactors<B>>, usize> {
        let done: Vec<OnceLock<Eliminated<B>>> = (0..self.space.parts()).map(|_| OnceLock::new()).collect();
        let chain = |chain: Vec<usize>| -> Result<(), usize> {
            chain.into_iter().try_for_each(|part| {
                let eliminated = Work::new(self, part, &done).eliminated()?;
                done[part].set(eliminated).map_err(|_| ()).expect("every part is in one chain");
                Ok(())
            })
        };
        let (chains, last) = self.sweep.chains();
        concurrent_map(threads, chains.into_iter(), chain).into_iter().collect::<Result<(), usize>>()?;
        chain(last)?;
        Ok(done.into_iter().map(|done| done.into_inner().expect("it was set").factors).collect())
    }
}

impl Elimination<'_> {
    /// Returns the index of a block row within its part, and the number of rows of the part that
    /// are eliminated before it.
    fn place_of<const B: usize>(&self, block: u32, part: usize) -> (usize, usize) {
        let rows = self.space.range(part);
        let row = block as usize - rows.start / B;
        (row, if self.sweep.falls(part) { rows.len() / B - 1 - row } else { row })
    }
}

/// The elimination of a part.
struct Work<'w, const B: usize> {
    system: &'w Elimination<'w>,
    done: &'w [OnceLock<Eliminated<B>>],
    part: usize,
    /// Block rows of the part.
    blocks: Range<usize>,
    falls: bool,
    /// All block rows from this one on are eliminated before those of the part, unless it is
    /// eliminated backwards.
    before_from: usize,
    /// The part that was looked for last, and its rows of blocks.
    near: (usize, Range<usize>),
    made: Eliminated<B>,
    /// For each eliminated row of the part, the next block of `U` in a row that is not eliminated
    /// yet.
    next: Vec<usize>,
    /// For each row of other parts, by its number: the position of the last block found, counted
    /// from 1, or 0 if none has been requested.
    asked: Vec<u32>,
    row: Row<B>,
}

/// The row of blocks that is being eliminated.
struct Row<const B: usize> {
    columns: Vec<u32>,
    /// Values in column-major order. Columns that the row does not have contain values of other
    /// rows, which are never read: clearing them would take longer.
    values: Vec<Block<B>>,
    /// The last row of blocks that has had a column, counted from 1.
    seen: Vec<u32>,
}

/// Positions of a row's columns.
struct Order {
    before: [Range<usize>; 2],
    /// Columns after the diagonal, in the part.
    own: Range<usize>,
    /// Columns after the diagonal, in other parts.
    others: Range<usize>,
}

impl<'w, const B: usize> Work<'w, B> {
    fn new(system: &'w Elimination<'w>, part: usize, done: &'w [OnceLock<Eliminated<B>>]) -> Self {
        let rows = system.space.range(part);
        let blocks = rows.start / B..rows.end / B;
        let elements: usize = rows.clone().map(|i| system.a.row(i).0.len()).sum();
        // About half of them are before the diagonal.
        let half = elements / (2 * B * B);
        let factors = IncompleteFactors {
            made: Vec::with_capacity(blocks.len()),
            lower: TriangleRows::with_room(blocks.len(), half),
            upper: TriangleRows::with_room(blocks.len(), half),
            inverses: vec![[[0.0; B]; B]; blocks.len()],
        };
        let made = Eliminated {
            factors,
            starts: Vec::with_capacity(blocks.len()),
            columns: Vec::with_capacity(half),
            values: Vec::with_capacity(half),
            pivots: Vec::with_capacity(blocks.len()),
        };
        let columns = system.a.columns() / B;
        let row = Row { columns: Vec::new(), values: vec![[[0.0; B]; B]; columns], seen: vec![0; columns] };
        Work {
            system,
            done,
            part,
            falls: system.sweep.falls(part),
            before_from: system.sweep.before_from(part).map_or(usize::MAX, |row| row / B),
            near: (part, blocks.clone()),
            blocks,
            made,
            next: Vec::new(),
            asked: vec![0; columns],
            row,
        }
    }

    fn eliminated(mut self) -> Result<Eliminated<B>, usize> {
        let count = self.blocks.len();
        for k in 0..count {
            let row = if self.falls { count - 1 - k } else { k };
            self.eliminate(row)?;
            self.made.factors.made.push(row as u32);
        }
        Ok(self.made)
    }

    /// Eliminates a row of the part; the error is the first row whose pivot is useless.
    fn eliminate(&mut self, row: usize) -> Result<(), usize> {
        let block = self.blocks.start + row;
        self.row.gather(self.system.a, block);
        let shift = 1.0 + self.system.shift;
        (0..B).for_each(|i| self.row.values[block][i][i] *= shift);
        let order = self.order(block);
        for at in order.before.into_iter().flatten() {
            self.subtract(self.row.columns[at], block as u32);
        }
        self.made.factors.lower.end_row();
        let pivot = self.row.values[block];
        let inverse = self.inverse(&pivot, block)?;
        self.made.factors.inverses[row] = inverse;
        self.made.pivots.push(pivot);
        self.finish(order.own, order.others, &inverse);
        Ok(())
    }

    /// Takes the row of `U` of a column's block out of the row, and adds the block to `L`.
    fn subtract(&mut self, column: u32, block: u32) {
        let is_own = self.is_own(column);
        let part = if is_own { self.part } else { self.part_of(column as usize) };
        let above = match is_own {
            true => &self.made,
            false => self.done[part].get().expect("what is before was made before"),
        };
        let (row, made) = self.system.place_of::<B>(column, part);
        let [first, others] = above.starts[made];
        let end = above.starts.get(made + 1).map_or(above.columns.len(), |next| next[0]);
        let (lower, element, rest) = if self.system.kind == SymmetryClass::General {
            let element = self.row.values[column as usize];
            (product(&element, &above.factors.inverses[row]), element, first..end)
        } else {
            // Only that block of `U` and the blocks after it in elimination order are needed: those
            // before it are eliminated.
            let (found, rest) = if is_own {
                self.next[made] += 1;
                (self.next[made] - 1, self.next[made] - 1..end)
            } else {
                let falls = self.falls;
                let asked = &mut self.asked[column as usize];
                let found = match (*asked as usize).checked_sub(1) {
                    None => above.columns[others..end].binary_search(&block).expect("a symmetric pattern"),
                    Some(last) if falls => last - 1,
                    Some(last) => last + 1,
                };
                *asked = found as u32 + 1;
                let found = others + found;
                (found, if falls { others..found + 1 } else { found..end })
            };
            let lower = transposed(&above.values[found]);
            (lower, product(&lower, &above.pivots[made]), rest)
        };
        self.row.subtract(&element, &above.columns[rest.clone()], &above.values[rest]);
        self.made.factors.lower.push(column, narrow(&lower));
    }

    /// Returns the inverse of a pivot, or its first useless row.
    fn inverse(&self, pivot: &Block<B>, block: usize) -> Result<Block<B>, usize> {
        let kind = self.system.kind;
        let is_useful = |i: usize, pivot: f64| {
            let sign = if kind == SymmetryClass::Positive { pivot } else { pivot.abs() };
            let least = LEAST_PIVOT * self.system.diagonal[block * B + i].abs();
            sign > least && (1.0 / pivot).is_finite()
        };
        let mut inverse = inverse(pivot, is_useful).map_err(|i| block * B + i)?;
        if kind != SymmetryClass::General {
            (0..B).for_each(|i| (0..i).for_each(|j| inverse[j][i] = inverse[i][j]));
        }
        Ok(inverse)
    }

    /// Adds the blocks after the diagonal to `U`: the part's own in elimination order, then the
    /// others.
    fn finish(&mut self, own: Range<usize>, others: Range<usize>, inverse: &Block<B>) {
        let first = self.made.columns.len();
        for k in own.clone() {
            let at = if self.falls { own.end - 1 - (k - own.start) } else { k };
            self.add_upper(at, inverse);
        }
        let of_others = self.made.columns.len();
        others.for_each(|at| self.add_upper(at, inverse));
        self.made.factors.upper.end_row();
        self.made.starts.push([first, of_others]);
        self.next.push(first);
    }

    fn is_own(&self, column: u32) -> bool {
        self.blocks.contains(&(column as usize))
    }

    /// Returns the part that contains a block row.
    fn part_of(&mut self, block: usize) -> usize {
        if !self.near.1.contains(&block) {
            let space = self.system.space;
            let part = space.covering(block * B..block * B + 1).start;
            let rows = space.range(part);
            self.near = (part, rows.start / B..rows.end / B);
        }
        self.near.0
    }

    /// Returns the positions in the row of the columns before its diagonal in elimination order,
    /// and after it.
    fn order(&self, block: usize) -> Order {
        let columns = &self.row.columns;
        let up_to = |end: usize| columns.partition_point(|&column| (column as usize) < end);
        let (all, diagonal) = (columns.len(), up_to(block));
        if self.falls {
            let begin = up_to(self.blocks.start);
            return Order { before: [diagonal + 1..all, 0..0], own: begin..diagonal, others: 0..begin };
        }
        let (end, before) = (up_to(self.blocks.end), up_to(self.before_from));
        Order { before: [0..diagonal, before..all], own: diagonal + 1..end, others: end..before }
    }

    fn add_upper(&mut self, at: usize, inverse: &Block<B>) {
        let column = self.row.columns[at];
        let value = product(inverse, &self.row.values[column as usize]);
        self.made.columns.push(column);
        self.made.values.push(value);
        self.made.factors.upper.push(column, narrow(&value));
    }
}

impl<const B: usize> Row<B> {
    /// Gathers a block row of a matrix, with increasing columns.
    fn gather(&mut self, a: &Csr, block: usize) {
        self.columns.clear();
        for i in 0..B {
            let (column, value) = a.row(block * B + i);
            for (&j, &value) in column.iter().zip(value) {
                let at = j as usize / B;
                if self.seen[at] != block as u32 + 1 {
                    self.seen[at] = block as u32 + 1;
                    self.columns.push(at as u32);
                    self.values[at] = [[0.0; B]; B];
                }
                self.values[at][i][j as usize % B] = value;
            }
        }
        if !self.columns.is_sorted() {
            self.columns.sort_unstable();
        }
    }

    /// Subtracts `element` times these blocks from the row.
    fn subtract(&mut self, element: &Block<B>, columns: &[u32], values: &[Block<B>]) {
        for (&column, value) in columns.iter().zip(values) {
            take_product(&mut self.values[column as usize], element, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csr::Triplet;
    use crate::generate::{Elasticity, Elements, Flow, Transport, elasticity, flow, transport};

    /// Returns `L`, `U` and `D^-1` as matrices.
    fn assembled<const B: usize>(factors: &[IncompleteFactors<B>], space: &Space) -> Result<[Csr; 3], Error> {
        let n = space.len();
        let mut triplets: [Vec<Triplet>; 3] = Default::default();
        for (factors, range) in factors.iter().zip(space.ranges()) {
            for (at, &row) in factors.made.iter().enumerate() {
                let row = range.start + row as usize * B;
                let mut put = |into: usize, column: usize, get: &dyn Fn(usize, usize) -> f64| {
                    let places = (0..B * B).map(|k| (k / B, k % B));
                    triplets[into]
                        .extend(places.map(|(i, j)| ((row + i) as u32, (column * B + j) as u32, get(i, j))));
                };
                for (column, block) in factors.lower.blocks(at) {
                    put(0, column as usize, &|i, j| f64::from(block[j][i]));
                }
                for (column, block) in factors.upper.blocks(at) {
                    put(1, column as usize, &|i, j| f64::from(block[j][i]));
                }
                let inverse = &factors.inverses[(row - range.start) / B];
                put(2, row / B, &|i, j| inverse[i][j]);
            }
        }
        let [lower, upper, inverse] = triplets.map(|triplets| Csr::from_triplets(n, n, &triplets));
        Ok([lower?, upper?, inverse?])
    }

    /// Checks that `L D U` equals `A` on the pattern of `A`, which defines ILU(0). So `D^-1` times
    /// its block rows are known from those of `L` and `U`.
    fn check<const B: usize>(
        a: &Csr,
        sweep: impl Fn(&Space) -> Sweep,
        kind: SymmetryClass,
    ) -> Result<(), Error> {
        let space = Space::new(a.rows(), 1 << 40);
        assert!(space.parts() >= 3);
        let factors = factors::<B>(a, &space, &sweep(&space), kind, 2)?;
        let [lower, upper, inverse] = assembled(&factors, &space)?;
        if kind != SymmetryClass::General {
            assert_eq!(upper, lower.transposed());
            assert!(inverse.is_symmetric());
        }
        let pivot = |first: usize| -> Block<B> {
            let block = std::array::from_fn(|i| std::array::from_fn(|j| inverse.get(first + i, first + j)));
            super::inverse(&block, |_, _| true).expect("what was inverted")
        };
        let pivots: Vec<Block<B>> = (0..a.rows()).step_by(B).map(pivot).collect();
        for (i, (column, value)) in a.iter().enumerate() {
            let size = a.get(i, i).abs();
            for (&j, &a) in column.iter().zip(value) {
                let j = j as usize;
                // (L + I) D (U + I), with the rows of D U from its blocks.
                let of_row = |k: usize| -> f64 {
                    let pivot = &pivots[k / B];
                    let unit = |m: usize| if m == j { 1.0 } else { upper.get(m, j) };
                    (0..B).map(|m| pivot[k % B][m] * unit(k / B * B + m)).sum()
                };
                let (before, factor) = lower.row(i);
                let sum: f64 = before.iter().zip(factor).map(|(&k, l)| l * of_row(k as usize)).sum();
                let product = sum + of_row(i);
                assert!((product - a).abs() <= 1e-5 * size.max(a.abs()), "({i}, {j}): {product:e} {a:e}");
            }
        }
        Ok(())
    }

    fn solid() -> Result<Csr, Error> {
        elasticity(&Elasticity { elements: Elements([13, 12, 16]), ..Elasticity::default() })
    }

    #[test]
    fn products_of_factors_agree_on_the_pattern() -> Result<(), Error> {
        let cells = Flow { cells: [20, 21, 22], ..Flow::default() };
        let (a, t) = (flow(&cells)?, transport(&Transport { flow: cells, ..Transport::default() })?);
        check::<1>(&t, Sweep::natural, SymmetryClass::General)?;
        check::<1>(&a, Sweep::natural, SymmetryClass::Positive)?;
        let both = |space: &Space| Sweep::from_both_ends(space, &a);
        assert_ne!(both(&Space::new(a.rows(), 1 << 40)), Sweep::natural(&Space::new(a.rows(), 1 << 40)));
        check::<1>(&a, both, SymmetryClass::Positive)
    }

    #[test]
    fn factors_in_blocks_agree_too() -> Result<(), Error> {
        let a = solid()?;
        check::<3>(&a, Sweep::natural, SymmetryClass::General)?;
        check::<3>(&a, |space| Sweep::from_both_ends(space, &a), SymmetryClass::Positive)
    }

    #[test]
    fn factors_do_not_depend_on_the_threads() -> Result<(), Error> {
        let a = solid()?;
        let blocks = a.rows() / Space::new(a.rows(), 0).reduction_rows();
        let space = Space::new(a.rows(), blocks as u64 * a.bytes());
        let sweep = Sweep::from_both_ends(&space, &a);
        let of =
            |threads| assembled(&factors::<3>(&a, &space, &sweep, SymmetryClass::Positive, threads)?, &space);
        assert_eq!(of(1)?, of(2)?);
        Ok(())
    }

    #[test]
    fn a_missing_diagonal_is_named() -> Result<(), Error> {
        let a = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0)])?;
        let space = Space::new(2, a.bytes());
        let factors = factors::<1>(&a, &space, &Sweep::natural(&space), SymmetryClass::of(&a), 1);
        let error = factors.expect_err("row 2").to_string();
        assert!(error.contains("row 2 has no diagonal"), "{error}");
        Ok(())
    }

    #[test]
    fn diagonals_are_enlarged_where_pivots_are_not_positive() -> Result<(), Error> {
        let a = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (0, 1, 1.5), (1, 0, 1.5), (1, 1, 1.0)])?;
        let space = Space::new(2, a.bytes());
        let factors = factors::<1>(&a, &space, &Sweep::natural(&space), SymmetryClass::of(&a), 1)?;
        assert!(factors[0].inverses.iter().all(|inverse| inverse[0][0] > 0.0));
        Ok(())
    }
}
