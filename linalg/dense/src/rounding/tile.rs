//! A tile of integers of few bits with scales.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use zellige_kernels::few_bits::{FewBits, ROWS, largest};
use zellige_kernels::{MatMut, MatRef, Scalar};
use zellige_runtime::{Data, Meta};

/// Format of rounded numbers: integers of few bits times a scale for each row of a group of
/// columns; and how they are chosen.
#[derive(Clone, Debug)]
pub struct Rounding {
    bits: Bits,
    group: usize,
    nearest: bool,
    matrix_rows: usize,
}

/// Numbers of bits of the blocks of a matrix.
#[derive(Clone)]
enum Bits {
    Same(u32),
    ByBlock(Arc<dyn Fn(&RoundingBlock) -> u32 + Send + Sync>),
}

impl fmt::Debug for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bits::Same(bits) => write!(f, "{bits}"),
            Bits::ByBlock(_) => write!(f, "by block"),
        }
    }
}

/// Description of a block of at most 64 rows of a group of columns, before it is rounded.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundingBlock {
    /// Rows of the solution.
    pub rows: Range<usize>,
    /// Columns of the solution.
    pub cols: Range<usize>,
    /// Mean of `x_i^2 L_jj^2 / 12` over the entries, `x_i` the largest magnitude of a row.
    squares: f64,
}

impl RoundingBlock {
    /// Returns the expected share of an entry in the loss `tr((X - Q) A (X - Q)^T)`, `A = L L^T`,
    /// in integers of `bits` bits: the mean of `d^2 L_jj^2 / 12` for numbers that are `d` apart.
    pub fn loss(&self, bits: u32) -> f64 {
        self.squares / f64::from(largest(bits)).powi(2)
    }
}

impl Rounding {
    /// Fewest and most bits.
    pub const BITS: std::ops::RangeInclusive<u32> = FewBits::BITS;

    /// Integers of `bits` bits with scales for groups of `group` columns, where later columns make
    /// up for the errors of earlier ones; `None` if `bits` is not in [`BITS`](Rounding::BITS) or
    /// `group` is 0.
    pub fn new(bits: u32, group: usize) -> Option<Rounding> {
        (Rounding::BITS.contains(&bits) && group > 0).then(|| Rounding::of(Bits::Same(bits), group))
    }

    /// Integers of as many bits as `bits` returns for each block of 64 rows of a group of columns,
    /// moved into [`BITS`](Rounding::BITS). `bits` is called by the tasks that round, in any order;
    /// its result may only depend on its argument.
    ///
    /// # Panics
    /// `group` is 0.
    pub fn by_block(group: usize, bits: impl Fn(&RoundingBlock) -> u32 + Send + Sync + 'static) -> Rounding {
        assert!(group > 0, "a group has columns");
        Rounding::of(Bits::ByBlock(Arc::new(bits)), group)
    }

    /// Integers of the fewest bits with which the [expected loss](RoundingBlock::loss) of an entry
    /// is at most `loss` in each block. For a given number of bytes the loss of the matrix is then
    /// about the least: a bit more takes the same from the loss in every block.
    ///
    /// # Panics
    /// `group` is 0.
    pub fn within(loss: f64, group: usize) -> Rounding {
        let most = *Rounding::BITS.end();
        Rounding::by_block(group, move |block| {
            Rounding::BITS.into_iter().find(|&bits| block.loss(bits) <= loss).unwrap_or(most)
        })
    }

    fn of(bits: Bits, group: usize) -> Rounding {
        Rounding { bits, group, nearest: false, matrix_rows: usize::MAX }
    }

    /// Rounds each number to the nearest one instead.
    #[must_use]
    pub fn to_nearest(self) -> Self {
        Rounding { nearest: true, ..self }
    }

    /// Begins blocks of 64 rows anew at every multiple of `rows`, for a solution that consists of
    /// matrices with so many rows.
    #[must_use]
    pub fn for_matrices_of(self, rows: usize) -> Self {
        Rounding { matrix_rows: rows.max(1), ..self }
    }

    /// Returns whether each number is rounded to the nearest one.
    pub fn is_nearest(&self) -> bool {
        self.nearest
    }

    /// Returns the number of columns of a group.
    pub fn group(&self) -> usize {
        self.group
    }

    /// Returns the columns of the groups of `cols` columns.
    fn groups(&self, cols: usize) -> impl DoubleEndedIterator<Item = Range<usize>> + use<> {
        let group = self.group;
        (0..cols.div_ceil(group)).map(move |g| g * group..((g + 1) * group).min(cols))
    }

    /// Returns the blocks of `rows` rows from row `first` of the solution on.
    fn blocks(&self, first: usize, rows: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let matrix_rows = self.matrix_rows;
        let mut start = 0;
        std::iter::from_fn(move || {
            let in_matrix = (first + start) % matrix_rows;
            let left = (ROWS - in_matrix % ROWS).min(matrix_rows - in_matrix);
            let block = start..(start + left).min(rows);
            start = block.end;
            (!block.is_empty()).then_some(block)
        })
    }

    /// Returns the bits of a block with these largest magnitudes of its rows, for columns with the
    /// mean `diagonal` of `L_jj^2`.
    fn bits_of(&self, rows: Range<usize>, cols: Range<usize>, largest: &[f32], diagonal: f64) -> u32 {
        match &self.bits {
            Bits::Same(bits) => *bits,
            Bits::ByBlock(choose) => {
                let squares = largest.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
                let squares = squares * diagonal / 12.0 / largest.len() as f64;
                choose(&RoundingBlock { rows, cols, squares })
                    .clamp(*Rounding::BITS.start(), *Rounding::BITS.end())
            }
        }
    }
}

/// A tile of rounded numbers: `codes[i, j] * scales[i, j / group]`.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundedTile {
    rows: usize,
    cols: usize,
    /// Column by column.
    codes: Vec<i16>,
    /// Group by group, bits of the integers of each row.
    bits: Vec<u8>,
    /// Group by group, a scale for each row; representable in bfloat16.
    scales: Vec<f32>,
}

/// Returns the size of a rounded tile.
pub(super) fn bytes(rows: usize, cols: usize, group: usize) -> usize {
    rows * (cols * size_of::<i16>() + cols.div_ceil(group) * (size_of::<f32>() + size_of::<u8>()))
}

/// Describes a rounded tile that has `bytes` bytes.
pub(super) fn meta(bytes: usize) -> Meta {
    Meta { bytes, ..Meta::default() }
}

impl Data for RoundedTile {
    type Ref<'v> = &'v RoundedTile;
    type Mut<'v> = &'v mut RoundedTile;

    fn view(&self) -> &RoundedTile {
        self
    }

    fn view_mut(&mut self) -> &mut RoundedTile {
        self
    }

    fn meta(&self) -> Meta {
        meta(size_of_val(&self.codes[..]) + self.bits.len() + size_of_val(&self.scales[..]))
    }
}

impl RoundedTile {
    /// Rounds `x` (`m x n`) so that `||(X - Q) L||` is small, `l` lower triangular (`n x n`), or to
    /// the nearest numbers, and replaces it by the rounded numbers. Numbers that are not finite
    /// become 0. `first` are the row and column of the solution where `x` begins.
    ///
    /// # Panics
    /// Shapes do not fit.
    pub fn round<T: Scalar>(
        rounding: &Rounding,
        first: (usize, usize),
        l: MatRef<'_, T>,
        mut x: MatMut<'_, T>,
    ) -> RoundedTile {
        let (rows, cols) = (x.rows(), x.cols());
        let (first_row, first_col) = first;
        let count = rows * cols.div_ceil(rounding.group);
        let mut tile = RoundedTile {
            rows,
            cols,
            codes: vec![0; rows * cols],
            bits: vec![0; count],
            scales: vec![0.0; count],
        };
        // Errors of the groups that are rounded, column by column.
        let mut errors = vec![T::ZERO; if rounding.nearest { 0 } else { rows * cols }];
        for columns in rounding.groups(cols).rev() {
            let first = columns.start;
            let mut group: Vec<T> = columns.clone().flat_map(|j| x.col_mut(j).to_vec()).collect();
            if !rounding.nearest {
                compensate(l, &errors[rows * columns.end..], &columns, &mut group);
            }
            let of_group = rows * (first / rounding.group)..rows * (first / rounding.group + 1);
            let (bits, scales) = (&mut tile.bits[of_group.clone()], &mut tile.scales[of_group]);
            let magnitudes = magnitudes(rows, &group);
            let diagonal = columns.clone().map(|j| l.col(j)[j].to_f64().powi(2)).sum::<f64>();
            for block in rounding.blocks(first_row, rows) {
                let of_solution = |start: usize, part: &Range<usize>| start + part.start..start + part.end;
                let chosen = rounding.bits_of(
                    of_solution(first_row, &block),
                    of_solution(first_col, &columns),
                    &magnitudes[block.clone()],
                    diagonal / columns.len() as f64,
                );
                bits[block].fill(chosen as u8);
            }
            let largest: Vec<f32> = bits.iter().map(|&bits| largest(bits.into()).into()).collect();
            let l = (!rounding.nearest).then_some(l);
            let codes = &mut tile.codes[rows * first..rows * columns.end];
            Group { l, columns: columns.clone(), numbers: &group, largest: &largest }.round(
                &magnitudes,
                scales,
                codes,
            );
            for (j, codes) in columns.zip(codes.chunks_exact(rows)) {
                for (i, x) in x.col_mut(j).iter_mut().enumerate() {
                    // Exact: 16 bits times 8 bits.
                    let rounded = T::from_f64((f32::from(codes[i]) * scales[i]).into());
                    if !rounding.nearest {
                        errors[rows * j + i] = *x - rounded;
                    }
                    *x = rounded;
                }
            }
        }
        tile
    }

    /// Returns `(rows, columns)`.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// Returns the integers, column by column.
    pub fn codes(&self) -> &[i16] {
        &self.codes
    }

    /// Returns the bits of the integers, group by group, a number for each row.
    pub fn bits(&self) -> &[u8] {
        &self.bits
    }

    /// Returns the scales, group by group, one for each row; they are representable in bfloat16.
    pub fn scales(&self) -> &[f32] {
        &self.scales
    }
}

/// Adds to a group of columns what makes up for the errors of the columns after it:
/// `E L[after, group] L[group, group]^-1`.
fn compensate<T: Scalar>(l: MatRef<'_, T>, errors: &[T], columns: &Range<usize>, group: &mut [T]) {
    let rows = group.len() / columns.len();
    let mut sums = vec![T::ZERO; group.len()];
    for (j, sum) in columns.clone().zip(sums.chunks_exact_mut(rows)) {
        for (k, error) in (columns.end..).zip(errors.chunks_exact(rows)) {
            add_scaled(l.col(j)[k], error, sum);
        }
    }
    for j in columns.clone().rev() {
        let (earlier, sum) = sums.split_at_mut(rows * (j - columns.start));
        let sum = &mut sum[..rows];
        sum.iter_mut().for_each(|s| *s = *s / l.col(j)[j]);
        for (k, earlier) in columns.clone().zip(earlier.chunks_exact_mut(rows)) {
            add_scaled(-l.col(k)[j], sum, earlier);
        }
    }
    group.iter_mut().zip(&sums).for_each(|(x, s)| *x += *s);
}

/// Computes `y += a x`.
fn add_scaled<T: Scalar>(a: T, x: &[T], y: &mut [T]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += a * *x);
}

/// Returns the largest magnitude of each row of a group; 0 if it is not finite.
fn magnitudes<T: Scalar>(rows: usize, group: &[T]) -> Vec<f32> {
    let mut most = vec![0.0f32; rows];
    for column in group.chunks_exact(rows) {
        for (most, x) in most.iter_mut().zip(column) {
            let x = x.to_f64().abs() as f32;
            *most = if x > *most { x } else { *most };
        }
    }
    most.iter_mut().filter(|most| !most.is_finite()).for_each(|most| *most = 0.0);
    most
}

/// Returns multiples of the scale with which the largest integer stands for the largest magnitude.
/// Smaller scales cut off numbers and round the others more finely. Slightly larger ones, in steps
/// of bfloat16, round all numbers differently, and some of them with a smaller loss.
fn multiples() -> impl Iterator<Item = f32> {
    [0.8, 0.85, 0.9, 0.95].into_iter().chain((0..12u8).map(|step| 1.0 + f32::from(step) / 128.0))
}

/// A group of columns to be rounded.
struct Group<'a, T> {
    /// The factor, or `None` for the nearest numbers.
    l: Option<MatRef<'a, T>>,
    /// Columns of the group in the factor.
    columns: Range<usize>,
    /// Column by column.
    numbers: &'a [T],
    /// Largest integer of each row.
    largest: &'a [f32],
}

/// A group that is rounded with one scale for each row.
struct Trial<T> {
    /// Integers, column by column.
    codes: Vec<f32>,
    /// Sums over the columns that are rounded, without the factor `1 / L_jj`.
    sums: Vec<T>,
    /// Errors of a column.
    errors: Vec<T>,
    /// Loss of each row.
    losses: Vec<f64>,
}

impl<T: Scalar> Group<'_, T> {
    /// Sets the scale of each row to the one with the least loss of all [`multiples`], and sets its
    /// integers.
    fn round(&self, magnitudes: &[f32], scales: &mut [f32], codes: &mut [i16]) {
        let (rows, count) = (scales.len(), self.numbers.len());
        let mut trial = Trial {
            codes: vec![0.0; count],
            sums: vec![T::ZERO; count],
            errors: vec![T::ZERO; rows],
            losses: vec![0.0; rows],
        };
        let mut least = vec![f64::INFINITY; rows];
        for (number, multiple) in multiples().enumerate() {
            let scale = |(most, largest): (&f32, &f32)| bfloat16_above(multiple * most / largest);
            let tried: Vec<f32> = magnitudes.iter().zip(self.largest).map(scale).collect();
            self.round_with(&tried, &mut trial);
            for i in 0..rows {
                // A loss that is not a number is never smaller.
                if number == 0 || trial.losses[i] < least[i] {
                    (least[i], scales[i]) = (trial.losses[i], tried[i]);
                    for at in (i..count).step_by(rows) {
                        codes[at] = trial.codes[at] as i16;
                    }
                }
            }
        }
    }

    fn round_with(&self, scales: &[f32], trial: &mut Trial<T>) {
        let rows = scales.len();
        let inverse =
            |scale: &f32| if *scale > 0.0 { T::ONE / T::from_f64((*scale).into()) } else { T::ZERO };
        let inverses: Vec<T> = scales.iter().map(inverse).collect();
        trial.sums.fill(T::ZERO);
        trial.losses.fill(0.0);
        for j in (0..self.columns.len()).rev() {
            let weight = self.l.map_or(T::ONE, |l| l.col(self.columns.start + j)[self.columns.start + j]);
            let of_column = rows * j..rows * (j + 1);
            let (earlier, sums) = trial.sums.split_at_mut(of_column.start);
            let (numbers, codes) = (&self.numbers[of_column.clone()], &mut trial.codes[of_column]);
            let per_weight = T::ONE / weight;
            for i in 0..rows {
                let target = numbers[i] + per_weight * sums[i];
                codes[i] = nearest((target * inverses[i]).to_f64(), self.largest[i]);
                let rounded = T::from_f64((codes[i] * scales[i]).into());
                trial.losses[i] += ((target - rounded) * weight).to_f64().powi(2);
                trial.errors[i] = numbers[i] - rounded;
            }
            if let Some(l) = self.l {
                for (k, sum) in self.columns.clone().zip(earlier.chunks_exact_mut(rows)) {
                    add_scaled(l.col(k)[self.columns.start + j], &trial.errors, sum);
                }
            }
        }
    }
}

/// Returns the nearest integer from `-largest` to `largest`; 0 if `x` is not a number.
#[inline(always)]
fn nearest(x: f64, largest: f32) -> f32 {
    /// Rounds to an integer where it is added.
    const ROUND: f64 = 1.5 * (1u64 << 52) as f64;
    let rounded = x.clamp(-f64::from(largest), f64::from(largest)) + ROUND - ROUND;
    if rounded.is_nan() { 0.0 } else { rounded as f32 }
}

/// Returns the least bfloat16 number that is not below a positive one.
fn bfloat16_above(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0xffff == 0 { bits } else { (bits & 0xffff_0000) + 0x1_0000 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(seed: u64, count: usize) -> Vec<f32> {
        let mut state = seed;
        let next = |_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        (0..count).map(next).collect()
    }

    /// A lower triangular matrix with strong correlation of neighbours.
    fn lower(n: usize) -> Vec<f32> {
        let noise = random(3, n * n);
        let entry = |i: usize, j: usize| match i.cmp(&j) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => 0.7,
            std::cmp::Ordering::Greater => 0.9f32.powi((i - j) as i32) + 0.1 * noise[i + j * n],
        };
        (0..n * n).map(|at| entry(at % n, at / n)).collect()
    }

    /// `||(X - Q) L||_F^2` in float64.
    fn loss(x: &[f32], q: &[f32], l: &[f32], (m, n): (usize, usize)) -> f64 {
        let of = |i: usize, j: usize| -> f64 {
            (j..n).map(|k| f64::from(x[i + k * m] - q[i + k * m]) * f64::from(l[k + j * n])).sum()
        };
        (0..m * n).map(|at| of(at % m, at / m).powi(2)).sum()
    }

    fn rounded(rounding: &Rounding, x: &[f32], (m, n): (usize, usize)) -> (RoundedTile, Vec<f32>) {
        let (mut q, l) = (x.to_vec(), lower(n));
        let l = MatRef::new(&l, n, n, n).unwrap();
        (RoundedTile::round(rounding, (0, 0), l, MatMut::new(&mut q, m, n, m).unwrap()), q)
    }

    /// Columns one after the other, from the formula, with the scales that the tile has.
    #[test]
    fn targets_are_those_of_the_formula() {
        let (m, n, rounding) = (5, 75, Rounding::new(4, 32).unwrap());
        let (x, l) = (random(1, m * n), lower(n));
        let (tile, q) = rounded(&rounding, &x, (m, n));
        for i in 0..m {
            let mut error = vec![0.0f64; n];
            for j in (0..n).rev() {
                let later: f64 = (j + 1..n).map(|k| error[k] * f64::from(l[k + j * n])).sum();
                let target = f64::from(x[i + j * m]) + later / f64::from(l[j + j * n]);
                let scale = f64::from(tile.scales()[i + j / 32 * m]);
                let code = f64::from(tile.codes()[i + j * m]);
                let exact = (target / scale).clamp(-7.0, 7.0);
                assert!((code - exact).abs() < 0.5 + 1e-3, "row {i}, column {j}: {code} for {exact}");
                assert_eq!(q[i + j * m], (code * scale) as f32);
                error[j] = f64::from(x[i + j * m]) - code * scale;
            }
        }
    }

    #[test]
    fn losses_are_smaller_than_those_of_the_nearest_numbers() {
        let (m, n) = (40, 130);
        let (x, l) = (random(2, m * n), lower(n));
        for bits in [3, 5, 8] {
            let rounding = Rounding::new(bits, 32).unwrap();
            let [by_columns, nearest] = [rounding.clone(), rounding.to_nearest()]
                .map(|rounding| loss(&x, &rounded(&rounding, &x, (m, n)).1, &l, (m, n)));
            assert!(by_columns < 0.3 * nearest, "{bits} bits: {by_columns} and {nearest}");
        }
    }

    /// With one scale for each row of a group, errors of `d L_jj / sqrt(12)` are expected for
    /// numbers that are `d` apart.
    #[test]
    fn losses_are_smaller_than_expected_of_the_scales() {
        let (m, n) = (64, 128);
        let (x, l) = (random(4, m * n), lower(n));
        for bits in [6, 8] {
            let rounding = Rounding::new(bits, 32).unwrap();
            let (tile, q) = rounded(&rounding, &x, (m, n));
            let scales = tile.scales().iter().map(|&scale| f64::from(scale).powi(2)).sum::<f64>();
            let expected = 32.0 * scales * 0.7f64.powi(2) / 12.0;
            let loss = loss(&x, &q, &l, (m, n));
            assert!(loss < 0.85 * expected, "{bits} bits: {loss} of {expected}");
        }
    }

    /// Rows and columns of very different sizes.
    fn uneven(m: usize, n: usize) -> Vec<f32> {
        let size = |i: usize, j: usize| 10f32.powi((i / ROWS) as i32 - (j / 32) as i32);
        random(7, m * n).iter().enumerate().map(|(at, x)| x * size(at % m, at / m)).collect()
    }

    #[test]
    fn blocks_get_the_bits_that_the_functor_chooses() {
        let (m, n) = (150, 70);
        let choose = |block: &RoundingBlock| 4 + (block.rows.start / 10 + block.cols.start / 8) as u32;
        let rounding = Rounding::by_block(32, choose).for_matrices_of(100);
        let (mut q, l) = (uneven(m, n), lower(n));
        let l = MatRef::new(&l, n, n, n).unwrap();
        let tile = RoundedTile::round(&rounding, (30, 8), l, MatMut::new(&mut q, m, n, m).unwrap());
        // Blocks of 64 rows from rows 0 and 100 of the solution on.
        let starts = |row: usize| match row + 30 {
            0..64 => 30,
            64..100 => 64,
            100..164 => 100,
            _ => 164,
        };
        for (at, &bits) in tile.bits().iter().enumerate() {
            let (row, group) = (at % m, at / m);
            assert_eq!(u32::from(bits), (4 + starts(row) as u32 / 10 + 1 + 4 * group as u32).min(16));
            let most = (0..32.min(n - 32 * group)).map(|k| tile.codes()[row + m * (32 * group + k)].abs());
            assert!(most.max().unwrap() <= largest(bits.into()));
        }
    }

    /// At equal bytes, bits by block lose less than the same ones everywhere; the expected loss is
    /// about the loss.
    #[test]
    fn bits_by_block_lose_less_than_the_same_ones_everywhere() {
        let (m, n) = (192, 96);
        let (x, l) = (uneven(m, n), lower(n));
        let all = |rounding: &Rounding| {
            let (tile, q) = rounded(rounding, &x, (m, n));
            let bits = tile.bits().iter().map(|&bits| u64::from(bits)).sum::<u64>();
            (bits as f64 / tile.bits().len() as f64, loss(&x, &q, &l, (m, n)))
        };
        let (_, same) = all(&Rounding::new(8, 32).unwrap());
        let expected = same / (m * n) as f64;
        let (bits, mixed) = all(&Rounding::within(expected, 32));
        assert!(bits < 6.0 && mixed < same && mixed > 0.05 * same, "{bits} bits, {mixed:e} of {same:e}");
    }

    #[test]
    fn nearest_numbers_are_within_half_a_unit() {
        let (m, n, rounding) = (7, 33, Rounding::new(8, 16).unwrap().to_nearest());
        let x = random(5, m * n);
        let (tile, q) = rounded(&rounding, &x, (m, n));
        for (at, (x, q)) in x.iter().zip(&q).enumerate() {
            let scale = tile.scales()[at % m + at / m / 16 * m];
            let clipped = f32::from(largest(8)) * scale;
            assert!((x.clamp(-clipped, clipped) - q).abs() <= 0.5001 * scale);
        }
        assert_eq!(tile.scales().len(), m * 3);
    }

    #[test]
    fn zeros_stay_and_numbers_that_are_not_finite_become_zeros() {
        let rounding = Rounding::new(6, 4).unwrap().to_nearest();
        let (tile, q) = rounded(&rounding, &[0.0, f32::NAN, 0.0, 1.0], (2, 2));
        assert_eq!(q[0], 0.0);
        assert_eq!((q[2], tile.codes()[1]), (0.0, 0));
    }

    #[test]
    fn scales_are_rounded_up_to_bfloat16() {
        assert_eq!(bfloat16_above(1.0), 1.0);
        assert_eq!(bfloat16_above(1.0 + f32::EPSILON), 1.0078125);
        assert!(Rounding::new(17, 32).is_none() && Rounding::new(1, 32).is_none());
        assert!(Rounding::new(4, 0).is_none());
    }
}
