//! Solves with sparse triangular factors whose elements are dense blocks in `f32`; sums are in
//! `f64`.
//!
//! Loops are compiled for the instructions that the machine has; sums are made in one order, and no
//! product is fused with a sum, so that every machine computes the same bits.
//!
//! ```
//! use zellige_kernels::triangular::{BlockRows, substitute};
//!
//! // z_1 = r_1 - 2 z_0, in blocks of 1 x 1.
//! let mut z = [3.0, 10.0];
//! let rows = BlockRows { rows: &[[0, 0], [1, 1]], columns: &[0], values: &[2.0] };
//! substitute::<1, 1>(&rows, &mut z);
//! assert_eq!(z, [3.0, 4.0]);
//! ```

use pulp::{Arch, Simd, WithSimd};

/// Number of interleaved rows: as many as numbers fit into a vector of 256 bits.
pub const LANES: usize = 4;

/// Flag in the count of a row: it and the `LANES - 1` rows after it have that many blocks each and
/// are independent. Their blocks are interleaved, `LANES` at a time: the first of each row, then
/// the second, and so on. Rows with fewer blocks are padded with zeros.
pub const SIDE_BY_SIDE: u32 = 1 << 31;

/// Some rows of a matrix of dense blocks, in the order in which they are processed.
#[derive(Clone, Copy, Debug)]
pub struct BlockRows<'a> {
    /// The number of each row of blocks, and how many blocks it has, [`SIDE_BY_SIDE`] with others
    /// or alone.
    pub rows: &'a [[u32; 2]],
    /// The column of each block, counted in blocks.
    pub columns: &'a [u32],
    /// The elements of each block, by columns.
    pub values: &'a [f32],
}

/// Computes `z = z - R x` for the given rows. `z` and `x` are counted in blocks of `B` rows and
/// have `K` columns; the numbers of a row are contiguous. The bits of a column do not depend on the
/// other columns.
///
/// # Panics
/// If a row or column is outside the vectors, and if the lengths of the arrays do not match.
pub fn subtract<const B: usize, const K: usize>(rows: &BlockRows<'_>, x: &[f64], z: &mut [f64]) {
    Arch::new().dispatch(Work::<'_, B, K> { rows, x: Some(x), z });
}

/// `z = z - R z`, row after row: each sees what those before it have left, as in a triangular solve
/// with ones on the diagonal.
///
/// # Panics
/// In the cases of [`subtract`].
pub fn substitute<const B: usize, const K: usize>(rows: &BlockRows<'_>, z: &mut [f64]) {
    Arch::new().dispatch(Work::<'_, B, K> { rows, x: None, z });
}

/// Number of independent sums of block products, which hide the latency of an addition.
const CHAINS: usize = 4;

/// `B` rows of `K` columns.
type RowBlock<const B: usize, const K: usize> = [[f64; K]; B];

struct Work<'a, const B: usize, const K: usize> {
    rows: &'a BlockRows<'a>,
    /// Vector that is multiplied; `z` itself if there is none.
    x: Option<&'a [f64]>,
    z: &'a mut [f64],
}

impl<const B: usize, const K: usize> WithSimd for Work<'_, B, K> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Work { rows: &BlockRows { rows, mut columns, mut values }, x, z } = self;
        let (z, of_columns) = z.as_chunks_mut::<K>();
        let (z, of_rows) = z.as_chunks_mut::<B>();
        assert!(of_columns.is_empty() && of_rows.is_empty(), "whole blocks");
        let x = x.map(|x| x.as_chunks::<K>().0.as_chunks::<B>().0);
        let mut heads = rows;
        while let Some(&[row, count]) = heads.first() {
            if count & SIDE_BY_SIDE == 0 {
                let (here, behind) = columns.split_at(count as usize);
                let (blocks, blocks_behind) = values.split_at(here.len() * B * B);
                let sum = match x {
                    Some(x) => row_times(here, blocks, x),
                    None => row_times(here, blocks, z),
                };
                take(&mut z[row as usize], &sum);
                (heads, columns, values) = (&heads[1..], behind, blocks_behind);
            } else {
                let (rows, rest) = heads.split_first_chunk::<LANES>().expect("rows come in whole groups");
                let (here, behind) = columns.split_at((count ^ SIDE_BY_SIDE) as usize * LANES);
                let (blocks, blocks_behind) = values.split_at(here.len() * B * B);
                let sums = match x {
                    Some(x) => rows_times(here, blocks, x),
                    None => rows_times(here, blocks, z),
                };
                rows.iter().zip(&sums).for_each(|(&[row, _], sum)| take(&mut z[row as usize], sum));
                (heads, columns, values) = (rest, behind, blocks_behind);
            }
        }
    }
}

#[inline(always)]
fn take<const B: usize, const K: usize>(z: &mut RowBlock<B, K>, sum: &RowBlock<B, K>) {
    for (z, sum) in z.as_flattened_mut().iter_mut().zip(sum.as_flattened()) {
        *z -= sum;
    }
}

/// Multiplies interleaved rows: each has one sum.
#[inline(always)]
fn rows_times<const B: usize, const K: usize>(
    columns: &[u32],
    values: &[f32],
    x: &[RowBlock<B, K>],
) -> [RowBlock<B, K>; LANES] {
    let mut sums = [[[0.0; K]; B]; LANES];
    let (columns, _) = columns.as_chunks::<LANES>();
    for (columns, values) in columns.iter().zip(values.chunks_exact(LANES * B * B)) {
        for lane in 0..LANES {
            add_block(&mut sums[lane], &values[lane * B * B..][..B * B], &x[columns[lane] as usize]);
        }
    }
    sums
}

/// The sum of a row's blocks times blocks of `x`.
#[inline(always)]
fn row_times<const B: usize, const K: usize>(
    columns: &[u32],
    values: &[f32],
    x: &[RowBlock<B, K>],
) -> RowBlock<B, K> {
    let mut sums = [[[0.0; K]; B]; CHAINS];
    let (fours, rest) = columns.as_chunks::<CHAINS>();
    let (of_fours, of_rest) = values.split_at(fours.len() * CHAINS * B * B);
    for (columns, values) in fours.iter().zip(of_fours.chunks_exact(CHAINS * B * B)) {
        for chain in 0..CHAINS {
            add_block(&mut sums[chain], &values[chain * B * B..][..B * B], &x[columns[chain] as usize]);
        }
    }
    for ((&column, values), sum) in rest.iter().zip(of_rest.chunks_exact(B * B)).zip(&mut sums) {
        add_block(sum, values, &x[column as usize]);
    }
    let sum = |i: usize, c: usize| (sums[0][i][c] + sums[1][i][c]) + (sums[2][i][c] + sums[3][i][c]);
    std::array::from_fn(|i| std::array::from_fn(|c| sum(i, c)))
}

#[inline(always)]
fn add_block<const B: usize, const K: usize>(sum: &mut RowBlock<B, K>, values: &[f32], x: &RowBlock<B, K>) {
    for (column, x) in values.chunks_exact(B).zip(x) {
        for (sum, &value) in sum.iter_mut().zip(column) {
            for c in 0..K {
                sum[c] += f64::from(value) * x[c];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lower triangle with whole numbers, whose products are exact in any order: row `i` has
    /// blocks in columns `0 .. i`.
    fn check<const B: usize>(rows: usize) {
        let heads: Vec<[u32; 2]> = (0..rows).map(|i| [i as u32, i as u32]).collect();
        let columns: Vec<u32> = (0..rows as u32).flat_map(|i| 0..i).collect();
        let values: Vec<f32> = (0..columns.len() * B * B).map(|k| (k * 7 % 5) as f32 - 2.0).collect();
        let matrix = BlockRows { rows: &heads, columns: &columns, values: &values };
        let element = |i: usize, j: usize| {
            let block = (i / B) * (i / B).saturating_sub(1) / 2 + j / B;
            f64::from(values[block * B * B + j % B * B + i % B])
        };
        let r: Vec<f64> = (0..rows * B).map(|i| (i * 3 % 11) as f64).collect();
        let (mut solved, mut left) = (r.clone(), r.clone());
        substitute::<B, 1>(&matrix, &mut solved);
        subtract::<B, 1>(&matrix, &r, &mut left);
        for i in 0..rows * B {
            let of = |x: &[f64]| (0..i / B * B).map(|j| element(i, j) * x[j]).sum::<f64>();
            assert_eq!(solved[i] + of(&solved), r[i], "row {i} of {rows}, blocks of {B}");
            assert_eq!(left[i] + of(&r), r[i], "row {i} of {rows}, blocks of {B}");
        }
    }

    /// Checks that the bits of a column do not depend on the other columns.
    fn columns_agree<const B: usize, const K: usize>(rows: usize) {
        let heads: Vec<[u32; 2]> = (0..rows).map(|i| [i as u32, i as u32]).collect();
        let columns: Vec<u32> = (0..rows as u32).flat_map(|i| 0..i).collect();
        let values: Vec<f32> = (0..columns.len() * B * B).map(|k| 1.0 / (k % 13 + 3) as f32).collect();
        let matrix = BlockRows { rows: &heads, columns: &columns, values: &values };
        let r: Vec<f64> = (0..rows * B * K).map(|i| (i * 3 % 11) as f64 / 7.0).collect();
        let (mut solved, mut left) = (r.clone(), r.clone());
        substitute::<B, K>(&matrix, &mut solved);
        subtract::<B, K>(&matrix, &r, &mut left);
        for c in 0..K {
            let column = |v: &[f64]| v.iter().skip(c).step_by(K).copied().collect::<Vec<f64>>();
            let (mut alone, mut left_alone) = (column(&r), column(&r));
            substitute::<B, 1>(&matrix, &mut alone);
            subtract::<B, 1>(&matrix, &column(&r), &mut left_alone);
            assert_eq!(
                (column(&solved), column(&left)),
                (alone, left_alone),
                "column {c} of {K}, blocks of {B}"
            );
        }
    }

    #[test]
    fn columns_have_the_bits_that_they_have_alone() {
        columns_agree::<1, 2>(11);
        columns_agree::<3, 4>(7);
        columns_agree::<2, 8>(9);
        columns_agree::<4, 8>(6);
    }

    #[test]
    fn solves_are_undone_by_products() {
        check::<1>(7);
        check::<2>(6);
        check::<3>(6);
        check::<4>(6);
    }

    #[test]
    fn rows_side_by_side_are_as_one_after_the_other() {
        // Rows 4 .. 8 need rows 0 .. 4, two elements each but the last, which has one; then a row
        // that needs them.
        let count = 2 | SIDE_BY_SIDE;
        let rows = [[4, count], [7, count], [5, count], [6, count], [8, 2]];
        let columns = [0, 1, 2, 3, 1, 2, 3, 3, 4, 6];
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0, 8.0, 9.0];
        let rows = BlockRows { rows: &rows, columns: &columns, values: &values };
        let r = [1.0, 2.0, 3.0, 4.0, 50.0, 60.0, 70.0, 80.0, 1000.0];
        let expected = [50.0 - 11.0, 60.0 - 37.0, 70.0 - 16.0, 80.0 - 22.0];
        let mut z = r;
        substitute::<1, 1>(&rows, &mut z);
        assert_eq!(z[4..8], expected);
        assert_eq!(z[8], 1000.0 - 8.0 * expected[0] - 9.0 * expected[2]);
        let mut z = r;
        subtract::<1, 1>(&rows, &r, &mut z);
        assert_eq!(z[4..8], expected);
        assert_eq!(z[8], 1000.0 - 8.0 * 50.0 - 9.0 * 70.0);
    }

    #[test]
    fn rows_are_worked_on_in_their_order() {
        let rows = BlockRows { rows: &[[2, 0], [1, 1], [0, 1]], columns: &[2, 1], values: &[2.0, 3.0] };
        let mut z = [100.0, 10.0, 1.0];
        substitute::<1, 1>(&rows, &mut z);
        assert_eq!(z, [100.0 - 3.0 * 8.0, 8.0, 1.0]);
    }
}
