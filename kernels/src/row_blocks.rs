//! Products with float32 matrices, stored in the order in which they are read: block of 64 rows,
//! then column by column. Sums are in the order of the columns on every machine.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use crate::few_bits::ROWS;

/// A float32 matrix in blocks of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct RowBlocks {
    rows: usize,
    cols: usize,
    /// Block after block, column after column; rows beyond the last one are 0.
    values: Vec<f32>,
}

impl RowBlocks {
    /// Makes a matrix of the entries `entry(row, column)`.
    pub fn new(rows: usize, cols: usize, entry: impl Fn(usize, usize) -> f32) -> Self {
        let blocks = rows.div_ceil(ROWS);
        let mut values = Vec::with_capacity(blocks * ROWS * cols);
        for block in 0..blocks {
            for j in 0..cols {
                let of_row = |i: usize| if i < rows { entry(i, j) } else { 0.0 };
                values.extend((block * ROWS..(block + 1) * ROWS).map(of_row));
            }
        }
        RowBlocks { rows, cols, values }
    }

    /// Returns `(rows, columns)`.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// Returns the entries, block after block and column after column.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Adds the products of a block of rows with `columns` to `y`, `x` with an entry for each
    /// column of the matrix.
    ///
    /// # Panics
    /// There is no such block or column, or `x` does not fit.
    pub fn multiply_block(&self, block: usize, columns: Range<usize>, x: &[f32], y: &mut [f32; ROWS]) {
        assert_eq!(x.len(), self.cols, "entries of x");
        let block = &self.values[block * ROWS * self.cols..][..ROWS * self.cols];
        let values = &block[ROWS * columns.start..ROWS * columns.end];
        Arch::new().dispatch(Columns { values, x: &x[columns], y });
    }
}

/// The product of a block with columns.
struct Columns<'a> {
    values: &'a [f32],
    x: &'a [f32],
    y: &'a mut [f32; ROWS],
}

impl WithSimd for Columns<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let mut sums = *self.y;
        for (&x, column) in self.x.iter().zip(self.values.chunks_exact(ROWS)) {
            for (sum, &a) in sums.iter_mut().zip(column) {
                *sum = a.mul_add(x, *sum);
            }
        }
        *self.y = sums;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_blocks_and_parts_are_those_in_float64() {
        let (rows, cols) = (150, 37);
        let entry = |i: usize, j: usize| ((i * 31 + j * 17) % 23) as f32 - 11.0;
        let matrix = RowBlocks::new(rows, cols, entry);
        let x: Vec<f32> = (0..cols).map(|j| (j as f32 * 0.7).sin()).collect();
        for block in 0..3 {
            let (mut whole, mut parts) = ([0.0; ROWS], [0.0; ROWS]);
            matrix.multiply_block(block, 0..cols, &x, &mut whole);
            matrix.multiply_block(block, 0..10, &x, &mut parts);
            matrix.multiply_block(block, 10..cols, &x, &mut parts);
            assert_eq!(whole, parts);
            for (i, &y) in (block * ROWS..rows).zip(&whole) {
                let term = |j: usize| f64::from(entry(i, j)) * f64::from(x[j]);
                let exact: f64 = (0..cols).map(term).sum();
                let size: f64 = (0..cols).map(|j| term(j).abs()).sum();
                assert!((f64::from(y) - exact).abs() <= 1e-6 * size, "row {i}: {y} of {exact}");
            }
        }
    }
}
