//! Sparse matrices of small dense blocks, the form in which levels are set up.

use std::ops::Range;

use zellige_files::memory::NotEnoughMemory;

use crate::concurrent::concurrent_map;
use crate::csr::Csr;
use zellige_krylov::Error;

/// A sparse matrix whose nonzeros are dense blocks of `size[0] x size[1]`, row by row. Its rows and
/// columns are those of blocks.
#[derive(Clone, Debug)]
pub struct Blocks {
    size: [usize; 2],
    columns: usize,
    starts: Vec<usize>,
    column: Vec<u32>,
    value: Vec<f64>,
}

/// Block rows that are being made.
pub struct RowBuilder {
    /// Numbers in a block.
    area: usize,
    /// End of each row.
    ends: Vec<usize>,
    column: Vec<u32>,
    value: Vec<f64>,
    /// Bytes that the system refused: later blocks are not stored.
    refused: Option<u64>,
}

impl RowBuilder {
    /// Appends the next block of the row.
    pub fn push(&mut self, column: u32, block: &[f64]) {
        let is_full = self.column.len() == self.column.capacity()
            || self.value.len() + self.area > self.value.capacity();
        if is_full {
            self.grow();
        }
        if self.refused.is_none() {
            self.column.push(column);
            self.value.extend_from_slice(block);
        }
    }

    /// Doubles the capacity, if there is memory for it.
    #[cold]
    fn grow(&mut self) {
        let more = self.column.len().max(FEW);
        let is_there =
            self.column.try_reserve(more).is_ok() && self.value.try_reserve(more * self.area).is_ok();
        if !is_there {
            self.refused = Some((more * (size_of::<u32>() + self.area * size_of::<f64>())) as u64);
        }
    }

    pub fn end_row(&mut self) {
        self.ends.push(self.column.len());
    }
}

/// Minimum number of rows for a thread.
const FEW: usize = 4096;

impl Blocks {
    /// Builds a matrix of `rows x columns` blocks whose rows `make` computes, with this number of
    /// threads; the result does not depend on it.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system has no memory for them.
    pub fn by_rows(
        threads: usize,
        [rows, columns]: [usize; 2],
        size: [usize; 2],
        make: impl Fn(Range<usize>, &mut RowBuilder) + Sync,
    ) -> Result<Blocks, Error> {
        // Several for each thread, since some are more work.
        let parts = (rows * size[0] / FEW).clamp(1, if threads > 1 { 4 * threads } else { 1 });
        let ranges = (0..parts).map(|part| part * rows / parts..(part + 1) * rows / parts);
        let area = size[0] * size[1];
        let made = concurrent_map(threads, ranges, |range| {
            let none = (Vec::new(), Vec::new(), Vec::new());
            let mut made = RowBuilder { area, ends: none.0, column: none.1, value: none.2, refused: None };
            make(range, &mut made);
            made
        });
        if let Some(bytes) = made.iter().find_map(|part| part.refused) {
            return Err(no_memory(bytes));
        }
        let nonzeros: usize = made.iter().map(|part| part.column.len()).sum();
        let (mut starts, mut column, mut value) = (Vec::new(), Vec::new(), Vec::new());
        let is_there = starts.try_reserve_exact(rows + 1).is_ok()
            && column.try_reserve_exact(nonzeros).is_ok()
            && value.try_reserve_exact(nonzeros * area).is_ok();
        if !is_there {
            return Err(no_memory((nonzeros * (4 + 8 * area)) as u64));
        }
        starts.push(0);
        for part in made {
            let before = column.len();
            starts.extend(part.ends.iter().map(|end| end + before));
            column.extend(part.column);
            value.extend(part.value);
        }
        Ok(Blocks { size, columns, starts, column, value })
    }

    /// Returns a matrix in blocks of `size x size`, which divides its rows and columns.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn of(threads: usize, a: &Csr, size: usize) -> Result<Blocks, Error> {
        Blocks::by_rows(threads, [a.rows() / size, a.columns() / size], [size; 2], |range, made| {
            let mut rows: Vec<(&[u32], &[f64])> = Vec::with_capacity(size);
            let mut block = vec![0.0; size * size];
            for node in range {
                rows.clear();
                rows.extend((0..size).map(|i| a.row(node * size + i)));
                while let Some(first) = rows.iter().filter_map(|(column, _)| column.first()).min() {
                    let at = first / size as u32;
                    block.fill(0.0);
                    for ((column, value), block) in rows.iter_mut().zip(block.chunks_exact_mut(size)) {
                        let end = column.iter().take_while(|&&j| j / size as u32 == at).count();
                        for (&j, &value) in column[..end].iter().zip(&value[..end]) {
                            block[j as usize % size] = value;
                        }
                        (*column, *value) = (&column[end..], &value[end..]);
                    }
                    made.push(at, &block);
                }
                made.end_row();
            }
        })
    }

    /// Returns the matrix without the zeros of its blocks.
    ///
    /// # Errors
    /// [`Error::Memory`], and [`Error::Shape`] for values that have become infinite.
    pub fn csr(&self) -> Result<Csr, Error> {
        let [r, c] = self.size;
        let zeros = self.value.iter().filter(|value| **value == 0.0).count();
        let nonzeros = self.value.len() - zeros;
        let (mut starts, mut column, mut value) = (Vec::new(), Vec::new(), Vec::new());
        let is_there = starts.try_reserve_exact(self.rows() * r + 1).is_ok()
            && column.try_reserve_exact(nonzeros).is_ok()
            && value.try_reserve_exact(nonzeros).is_ok();
        if !is_there {
            return Err(no_memory(12 * nonzeros as u64));
        }
        starts.push(0);
        for node in 0..self.rows() {
            for i in 0..r {
                for (at, block) in self.row(node) {
                    let row = block[i * c..(i + 1) * c].iter().enumerate();
                    for (j, entry) in row.filter(|(_, entry)| **entry != 0.0) {
                        column.push((at * c + j) as u32);
                        value.push(*entry);
                    }
                }
                starts.push(column.len());
            }
        }
        Csr::new(self.columns * c, starts, column, value)
    }

    /// Returns the number of block rows.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the rows and columns of a block.
    pub fn size(&self) -> [usize; 2] {
        self.size
    }

    /// Returns the bytes in memory.
    pub fn memory(&self) -> u64 {
        (8 * (self.starts.len() + self.value.len()) + 4 * self.column.len()) as u64
    }

    /// Returns the block columns and the blocks of a row, in increasing order.
    pub fn row(&self, node: usize) -> impl ExactSizeIterator<Item = (usize, &[f64])> {
        self.blocks(node, self.size[0] * self.size[1])
    }

    /// Returns a [row](Blocks::row); the compiler may know the numbers of a block.
    #[inline(always)]
    fn blocks(&self, node: usize, area: usize) -> impl ExactSizeIterator<Item = (usize, &[f64])> {
        let range = self.starts[node]..self.starts[node + 1];
        let blocks = self.value[range.start * area..range.end * area].chunks_exact(area);
        self.column[range].iter().map(|&j| j as usize).zip(blocks)
    }

    /// Returns the block at a position, if it is stored.
    pub fn get(&self, i: usize, j: usize) -> Option<&[f64]> {
        let range = self.starts[i]..self.starts[i + 1];
        let at = range.start + self.column[range].binary_search(&u32::try_from(j).ok()?).ok()?;
        let area = self.size[0] * self.size[1];
        Some(&self.value[at * area..(at + 1) * area])
    }

    /// Changes every block in place; `change` gets its row and column as well.
    pub fn map_blocks(&mut self, mut change: impl FnMut(usize, usize, &mut [f64])) {
        let area = self.size[0] * self.size[1];
        let mut blocks = self.column.iter().zip(self.value.chunks_exact_mut(area));
        for (node, ends) in self.starts.windows(2).enumerate() {
            blocks.by_ref().take(ends[1] - ends[0]).for_each(|(&j, block)| change(node, j as usize, block));
        }
    }

    /// Returns the transpose.
    pub fn transposed(&self) -> Blocks {
        let [r, c] = self.size;
        let mut starts = vec![0; self.columns + 1];
        self.column.iter().for_each(|&j| starts[j as usize + 1] += 1);
        (0..self.columns).for_each(|j| starts[j + 1] += starts[j]);
        let mut next = starts.clone();
        let (mut column, mut value) = (vec![0; self.column.len()], vec![0.0; self.value.len()]);
        for i in 0..self.rows() {
            for (j, block) in self.row(i) {
                let at = next[j];
                next[j] += 1;
                column[at] = i as u32;
                let to = &mut value[at * r * c..(at + 1) * r * c];
                to.iter_mut().enumerate().for_each(|(k, to)| *to = block[k % r * c + k / r]);
            }
        }
        Blocks { size: [c, r], columns: self.rows(), starts, column, value }
    }

    /// Gives rows of zeros the largest diagonal entry of their block. They are directions that an
    /// aggregate lacks.
    pub fn fill_diagonal(&mut self) {
        let n = self.size[0];
        self.map_blocks(|i, j, block| {
            if i == j {
                let largest = (0..n).map(|k| block[k * n + k].abs()).fold(0.0, f64::max);
                let is_missing = |k: &usize| block[k * n..(k + 1) * n].iter().all(|value| *value == 0.0);
                let missing: Vec<usize> = (0..n).filter(is_missing).collect();
                missing.into_iter().for_each(|k| block[k * n + k] = largest);
            }
        });
    }

    /// Makes a nearly symmetric matrix with a symmetric pattern symmetric: the mean with its
    /// transpose.
    pub fn symmetrise(&mut self) {
        let n = self.size[0];
        let before = self.clone();
        self.map_blocks(|i, j, block| {
            if let Some(other) = before.get(j, i) {
                let mean = |(k, to): (usize, &mut f64)| *to = 0.5 * (*to + other[k % n * n + k / n]);
                block.iter_mut().enumerate().for_each(mean);
            }
        });
    }
}

/// Returns the error for bytes that the system refused.
fn no_memory(bytes: u64) -> Error {
    NotEnoughMemory::refused("a coarser level of amg", bytes, zellige_runtime::topology::available_memory())
        .into()
}

/// Returns `A B`, computed row by row (Gustavson 1978).
///
/// # Errors
/// [`Error::Shape`] if the columns of `A` are not the rows of `B`; [`Error::Memory`].
pub fn product(threads: usize, a: &Blocks, b: &Blocks) -> Result<Blocks, Error> {
    if (a.columns, a.size[1]) != (b.rows(), b.size[0]) {
        let problem = format!("{} columns of the left one, {} rows of the right one", a.columns, b.rows());
        return Err(Error::shape("matrices of a product", problem));
    }
    // With sizes that the compiler knows, blocks are multiplied without loops.
    match [a.size[0], a.size[1], b.size[1]] {
        [1, 1, 1] => product_of(threads, a, b, [1, 1, 1]),
        [3, 3, 3] => product_of(threads, a, b, [3, 3, 3]),
        [3, 3, 6] => product_of(threads, a, b, [3, 3, 6]),
        [6, 3, 6] => product_of(threads, a, b, [6, 3, 6]),
        [6, 6, 6] => product_of(threads, a, b, [6, 6, 6]),
        sizes => product_of(threads, a, b, sizes),
    }
}

#[inline(always)]
fn product_of(threads: usize, a: &Blocks, b: &Blocks, [r, k, c]: [usize; 3]) -> Result<Blocks, Error> {
    Blocks::by_rows(threads, [a.rows(), b.columns], [r, c], |range, made| {
        // The row that a column was last met in, and its place among the blocks of this row.
        let mut seen = vec![(u32::MAX, 0u32); b.columns];
        let (mut row, mut sums): (Vec<(u32, u32)>, Vec<f64>) = (Vec::new(), Vec::new());
        for i in range {
            row.clear();
            sums.clear();
            for (middle, left) in a.blocks(i, r * k) {
                for (j, right) in b.blocks(middle, k * c) {
                    if seen[j].0 != i as u32 {
                        seen[j] = (i as u32, row.len() as u32);
                        row.push((j as u32, row.len() as u32));
                        sums.resize(sums.len() + r * c, 0.0);
                    }
                    let at = seen[j].1 as usize * r * c;
                    let sum = &mut sums[at..at + r * c];
                    for x in 0..r {
                        for y in 0..k {
                            let factor = left[x * k + y];
                            for z in 0..c {
                                sum[x * c + z] += factor * right[y * c + z];
                            }
                        }
                    }
                }
            }
            row.sort_unstable();
            for &(j, at) in &row {
                made.push(j, &sums[at as usize * r * c..(at as usize + 1) * r * c]);
            }
            made.end_row();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a matrix with about a third of its entries.
    fn some(rows: usize, columns: usize, seed: usize) -> Csr {
        let entry = |i: usize, j: usize| ((i * 31 + j * 17 + seed) * 7919 % 101) as f64 - 50.0;
        let all = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
        let kept = all.filter(|&(i, j)| (i * 5 + j * 3 + seed).is_multiple_of(3));
        let triplets: Vec<_> = kept.map(|(i, j)| (i as u32, j as u32, entry(i, j))).collect();
        Csr::from_triplets(rows, columns, &triplets).expect("entries are inside")
    }

    #[test]
    fn products_and_transposes_are_those_of_dense_matrices() -> Result<(), Error> {
        for (r, k, c) in [(1, 1, 1), (3, 3, 3), (2, 2, 2), (6, 6, 6)] {
            let (a, b) = (some(12 * r, 18 * k, 1), some(18 * k, 24 * c, 2));
            let (left, right) = (Blocks::of(2, &a, r)?, Blocks::of(2, &b, k)?);
            let found = product(2, &left, &right)?.csr()?;
            assert_eq!((found.rows(), found.columns()), (a.rows(), b.columns()));
            for i in 0..a.rows() {
                for j in 0..b.columns() {
                    let expected: f64 = (0..a.columns()).map(|k| a.get(i, k) * b.get(k, j)).sum();
                    assert_eq!(found.get(i, j), expected, "{i} {j}");
                }
            }
            assert_eq!(left.csr()?, a.clone().without_zeros());
            assert_eq!(left.transposed().csr()?, a.transposed().without_zeros());
        }
        Ok(())
    }

    #[test]
    fn other_shapes_are_refused() -> Result<(), Error> {
        let (a, b) = (Blocks::of(1, &some(6, 6, 1), 3)?, Blocks::of(1, &some(6, 6, 2), 2)?);
        assert!(matches!(product(1, &a, &b), Err(Error::Shape { .. })));
        Ok(())
    }

    #[test]
    fn rows_do_not_depend_on_the_number_of_threads() -> Result<(), Error> {
        let make = |range: Range<usize>, made: &mut RowBuilder| {
            for i in range {
                made.push((i % 7) as u32, &[i as f64 + 1.0]);
                made.end_row();
            }
        };
        let [one, five] = [1, 5].map(|threads| Blocks::by_rows(threads, [50_000, 7], [1, 1], make));
        assert_eq!(one?.csr()?, five?.csr()?);
        Ok(())
    }
}
