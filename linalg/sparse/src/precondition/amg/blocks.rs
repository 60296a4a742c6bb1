//! Sparse matrices of small dense blocks, the form in which levels are set up.

use std::ops::Range;

use pulp::Arch;
use zellige_files::memory::NotEnoughMemory;

use crate::concurrent::concurrent_map;
use crate::csr::{Csr, abs_sum};
use crate::precondition::chebyshev::Rows;
use zellige_krylov::Error;

/// A sparse matrix whose nonzeros are dense blocks of `size[0] x size[1]`, row by row. Its rows and
/// columns are those of blocks.
#[derive(Clone, Debug, PartialEq)]
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
/// Maximum numbers in a block that is read.
const MOST_AREA: usize = 1 << 12;

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
        if parts == 1 {
            // A copy of the only part would take as long as making it.
            let made = made.into_iter().next().expect("a part");
            let starts = [0].into_iter().chain(made.ends).collect();
            return Ok(Blocks { size, columns, starts, column: made.column, value: made.value });
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
        let blocks = [a.rows() / size, a.columns() / size];
        // With a size that the compiler knows, columns are divided by it without a division.
        Blocks::by_rows(threads, blocks, [size; 2], |range, made| match size {
            1 => blocks_of(a, 1, range, made),
            2 => blocks_of(a, 2, range, made),
            3 => blocks_of(a, 3, range, made),
            _ => blocks_of(a, size, range, made),
        })
    }

    /// Returns the size of a block, the number of block columns, the position of each row's first
    /// block and of the end, and the column and the numbers of each block.
    pub fn arrays(&self) -> ([usize; 2], usize, &[usize], &[u32], &[f64]) {
        (self.size, self.columns, &self.starts, &self.column, &self.value)
    }

    /// Makes a matrix of such arrays.
    ///
    /// # Errors
    /// [`Error::Shape`] for arrays that do not fit each other, columns that do not increase, and
    /// numbers that are not finite.
    pub fn from_arrays(
        size: [usize; 2],
        columns: usize,
        starts: Vec<usize>,
        column: Vec<u32>,
        value: Vec<f64>,
    ) -> Result<Blocks, Error> {
        let area = size[0].checked_mul(size[1]).filter(|area| (1..=MOST_AREA).contains(area));
        if area.and_then(|area| area.checked_mul(column.len())) != Some(value.len()) {
            let problem = format!("{} numbers for {} blocks of {size:?}", value.len(), column.len());
            return Err(Error::shape("blocks", problem));
        }
        let fits = starts.first() == Some(&0) && starts.is_sorted() && starts.last() == Some(&column.len());
        let is_row = |ends: &[usize]| {
            let row = &column[ends[0]..ends[1]];
            row.is_sorted_by(|a, b| a < b) && row.last().is_none_or(|&last| (last as usize) < columns)
        };
        if !fits || !starts.windows(2).all(is_row) {
            let problem = format!("columns that do not rise within a row, or are {columns} or more");
            return Err(Error::shape("blocks", problem));
        }
        if value.iter().any(|value| !value.is_finite()) {
            return Err(Error::shape("blocks", "numbers that are not finite"));
        }
        Ok(Blocks { size, columns, starts, column, value })
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

    /// Returns the part of a [row](Blocks::row) from a column on.
    #[inline(always)]
    fn blocks_from(&self, node: usize, first: usize, area: usize) -> impl Iterator<Item = (usize, &[f64])> {
        let column = &self.column[self.starts[node]..self.starts[node + 1]];
        let before = if first == 0 { 0 } else { column.partition_point(|&j| (j as usize) < first) };
        let at = self.starts[node] + before..self.starts[node + 1];
        let blocks = self.value[at.start * area..at.end * area].chunks_exact(area);
        column[before..].iter().map(|&j| j as usize).zip(blocks)
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
}

impl Rows for Blocks {
    fn rows(&self) -> usize {
        self.rows() * self.size[0]
    }

    fn block(&self) -> usize {
        self.size[0]
    }

    fn abs_sums(&self, first: usize, sums: &mut [f64]) {
        abs_sums(self.size[0], |node| self.row(node), first, sums);
    }

    fn multiply_rows(&self, first: usize, x: &[f64], y: &mut [f64]) {
        multiply_rows(self.size[0], |node| self.row(node), first, x, y);
    }
}

/// Computes the sums of magnitudes of rows from `first` on, of a matrix of square blocks of `size`
/// that `row` lists.
#[inline(always)]
pub fn abs_sums<'a, I: Iterator<Item = (usize, &'a [f64])>>(
    size: usize,
    row: impl Fn(usize) -> I,
    first: usize,
    sums: &mut [f64],
) {
    sums.fill(0.0);
    for (node, sums) in (first / size..).zip(sums.chunks_exact_mut(size)) {
        for (_, block) in row(node) {
            sums.iter_mut().zip(block.chunks_exact(size)).for_each(|(sum, row)| *sum += abs_sum(row));
        }
    }
}

/// Computes rows of `A x` from `first` on, of a matrix of square blocks of `size` that `row` lists.
#[inline(always)]
pub fn multiply_rows<'a, I: Iterator<Item = (usize, &'a [f64])>>(
    size: usize,
    row: impl Fn(usize) -> I,
    first: usize,
    x: &[f64],
    y: &mut [f64],
) {
    match size {
        1 => multiply_blocks::<1, I>(row, first, x, y),
        3 => multiply_blocks::<3, I>(row, first, x, y),
        6 => multiply_blocks::<6, I>(row, first, x, y),
        _ => {
            y.fill(0.0);
            for (node, y) in (first / size..).zip(y.chunks_exact_mut(size)) {
                for (j, block) in row(node) {
                    for (y, row) in y.iter_mut().zip(block.chunks_exact(size)) {
                        row.iter().zip(&x[j * size..]).for_each(|(value, x)| *y += value * x);
                    }
                }
            }
        }
    }
}

/// Does this for blocks of `B` rows.
#[inline(always)]
fn multiply_blocks<'a, const B: usize, I: Iterator<Item = (usize, &'a [f64])>>(
    row: impl Fn(usize) -> I,
    first: usize,
    x: &[f64],
    y: &mut [f64],
) {
    let x = x.as_chunks::<B>().0;
    for (node, y) in (first / B..).zip(y.as_chunks_mut::<B>().0) {
        *y = [0.0; B];
        for (j, block) in row(node) {
            for (sum, row) in y.iter_mut().zip(block.as_chunks::<B>().0) {
                row.iter().zip(&x[j]).for_each(|(value, x)| *sum += value * x);
            }
        }
    }
}

/// Makes some rows of blocks of `size x size`.
#[inline(always)]
fn blocks_of(a: &Csr, size: usize, range: Range<usize>, made: &mut RowBuilder) {
    let edge = size as u32;
    let mut rows: Vec<(&[u32], &[f64])> = Vec::with_capacity(size);
    let mut block = vec![0.0; size * size];
    for node in range {
        rows.clear();
        rows.extend((0..size).map(|i| a.row(node * size + i)));
        while let Some(first) = rows.iter().filter_map(|(column, _)| column.first()).min() {
            let at = first / edge;
            let (begin, end) = (at * edge, at * edge + edge);
            block.fill(0.0);
            for ((column, value), block) in rows.iter_mut().zip(block.chunks_exact_mut(size)) {
                let mut count = 0;
                while count < column.len() && column[count] < end {
                    block[(column[count] - begin) as usize] = value[count];
                    count += 1;
                }
                (*column, *value) = (&column[count..], &value[count..]);
            }
            made.push(at, &block);
        }
        made.end_row();
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
    check_sizes(a, b)?;
    let sizes = [a.size[0], a.size[1], b.size[1]];
    product_of_rows(threads, a.rows(), sizes, |i| a.row(i), b, |_| 0, |_, _, _| ())
}

/// Returns `P^T A P`, exactly symmetric, for a symmetric `A` and `P` with its transpose.
///
/// # Errors
/// Those of [`product`].
pub fn symmetric_product(
    threads: usize,
    a: &Blocks,
    p: &Blocks,
    transposed: &Blocks,
) -> Result<Blocks, Error> {
    check_sizes(a, p)?;
    check_sizes(transposed, a)?;
    // Blocks before the diagonal mirror those behind it. Of a row of `A P` such a block needs what
    // is before the first column of this row of `P`.
    let first = |i: usize| p.column[p.starts[i]..p.starts[i + 1]].first().map_or(0, |&j| j as usize);
    let sizes = [a.size[0], a.size[1], p.size[1]];
    let right = product_of_rows(threads, a.rows(), sizes, |i| a.row(i), p, first, |_, _, _| ())?;
    let sizes = [p.size[1], p.size[0], p.size[1]];
    let left = |i: usize| transposed.row(i);
    let half = product_of_rows(threads, transposed.rows(), sizes, left, &right, |i| i, |_, _, _| ())?;
    drop(right);
    Error::if_too_large(|| "amg's next level".to_owned(), 3 * half.memory())?;
    let mirrored = half.transposed();
    let n = half.size[0];
    Blocks::by_rows(threads, [half.rows(), half.columns], half.size, |range, made| {
        let mut own = vec![0.0; n * n];
        for i in range {
            mirrored.row(i).filter(|(j, _)| *j < i).for_each(|(j, block)| made.push(j as u32, block));
            for (j, block) in half.row(i) {
                if j > i {
                    made.push(j as u32, block);
                    continue;
                }
                for (k, own) in own.iter_mut().enumerate() {
                    *own = 0.5 * (block[k] + block[k % n * n + k / n]);
                }
                made.push(j as u32, &own);
            }
            made.end_row();
        }
    })
}

fn check_sizes(a: &Blocks, b: &Blocks) -> Result<(), Error> {
    if (a.columns, a.size[1]) == (b.rows(), b.size[0]) {
        return Ok(());
    }
    let problem = format!("{} columns of the left one, {} rows of the right one", a.columns, b.rows());
    Err(Error::shape("matrices of a product", problem))
}

/// Returns the product of a matrix of `rows` rows, whose blocks `left` lists row by row, with `B`:
/// the blocks of row `i` from column `first(i)` on, each changed by `finish(i, column, block)`.
/// `sizes` are the rows and columns of a block of the left one, and the columns of one of `B`.
///
/// # Errors
/// [`Error::Memory`].
pub fn product_of_rows<'a, L: Iterator<Item = (usize, &'a [f64])>>(
    threads: usize,
    rows: usize,
    [r, k, c]: [usize; 3],
    left: impl Fn(usize) -> L + Sync,
    b: &Blocks,
    first: impl Fn(usize) -> usize + Sync,
    finish: impl Fn(usize, usize, &mut [f64]) + Sync,
) -> Result<Blocks, Error> {
    let machine = Arch::new();
    // With sizes that the compiler knows, blocks are multiplied without loops, by the instructions
    // that the machine has. Nothing is fused, so that every machine computes the same bits.
    Blocks::by_rows(threads, [rows, b.columns], [r, c], |range, made| {
        let rows = RowsOfProduct { left: &left, b, first: &first, finish: &finish };
        machine.dispatch(|| match [r, k, c] {
            [1, 1, 1] => rows.make(range, made, [1, 1, 1], add_block::<1, 1>),
            [3, 3, 3] => rows.make(range, made, [3, 3, 3], add_block::<3, 3>),
            [3, 3, 6] => rows.make(range, made, [3, 3, 6], add_block::<3, 6>),
            [6, 3, 6] => rows.make(range, made, [6, 3, 6], add_block::<3, 6>),
            [6, 6, 6] => rows.make(range, made, [6, 6, 6], add_block::<6, 6>),
            sizes => rows.make(range, made, sizes, |left, right, sum| {
                add_any_block([k, c], left, right, sum);
            }),
        });
    })
}

/// Adds the product of two blocks, of `K` columns and rows and of `C` columns.
#[inline(always)]
fn add_block<const K: usize, const C: usize>(left: &[f64], right: &[f64], sum: &mut [f64]) {
    let (left, right) = (left.as_chunks::<K>().0, right.as_chunks::<C>().0);
    for (sum, left) in sum.as_chunks_mut::<C>().0.iter_mut().zip(left) {
        let mut local = *sum;
        for (factor, right) in left.iter().zip(right) {
            local.iter_mut().zip(right).for_each(|(sum, right)| *sum += factor * right);
        }
        *sum = local;
    }
}

/// Adds the product of two blocks, of `k` columns and rows and of `c` columns.
#[inline(always)]
fn add_any_block([k, c]: [usize; 2], left: &[f64], right: &[f64], sum: &mut [f64]) {
    for (sum, left) in sum.chunks_exact_mut(c).zip(left.chunks_exact(k)) {
        for (factor, right) in left.iter().zip(right.chunks_exact(c)) {
            sum.iter_mut().zip(right).for_each(|(sum, right)| *sum += factor * right);
        }
    }
}

/// A product whose rows are made.
struct RowsOfProduct<'r, L, F, G> {
    left: &'r L,
    b: &'r Blocks,
    first: &'r F,
    finish: &'r G,
}

impl<'a, L, I, F, G> RowsOfProduct<'_, L, F, G>
where
    L: Fn(usize) -> I,
    I: Iterator<Item = (usize, &'a [f64])>,
    F: Fn(usize) -> usize,
    G: Fn(usize, usize, &mut [f64]),
{
    /// Makes some rows; `add` adds the product of two blocks.
    #[inline(always)]
    fn make(
        &self,
        range: Range<usize>,
        made: &mut RowBuilder,
        [r, k, c]: [usize; 3],
        add: impl Fn(&[f64], &[f64], &mut [f64]),
    ) {
        // The row that a column was last met in, and its place among the blocks of this row.
        let mut seen = vec![(u32::MAX, 0u32); self.b.columns];
        let (mut row, mut sums): (Vec<(u32, u32)>, Vec<f64>) = (Vec::new(), Vec::new());
        for i in range {
            row.clear();
            sums.clear();
            let first = (self.first)(i);
            for (middle, left) in (self.left)(i) {
                for (j, right) in self.b.blocks_from(middle, first, k * c) {
                    if seen[j].0 != i as u32 {
                        seen[j] = (i as u32, row.len() as u32);
                        row.push((j as u32, row.len() as u32));
                        sums.resize(sums.len() + r * c, 0.0);
                    }
                    let at = seen[j].1 as usize * r * c;
                    add(left, right, &mut sums[at..at + r * c]);
                }
            }
            row.sort_unstable();
            for &(j, at) in &row {
                let block = &mut sums[at as usize * r * c..(at as usize + 1) * r * c];
                (self.finish)(i, j as usize, block);
                made.push(j, block);
            }
            made.end_row();
        }
    }
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
