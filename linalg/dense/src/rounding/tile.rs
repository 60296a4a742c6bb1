//! A tile of integers of few bits with scales.

use std::ops::Range;

use zellige_kernels::{MatMut, MatRef};
use zellige_runtime::{Data, Meta};

/// Format of rounded numbers: integers of `bits` bits, from `-(2^(bits - 1) - 1)` to
/// `2^(bits - 1) - 1`, times a scale for each row of a group of columns; and how they are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounding {
    bits: u32,
    group: usize,
    nearest: bool,
}

impl Rounding {
    /// Fewest and most bits.
    pub const BITS: std::ops::RangeInclusive<u32> = 2..=8;

    /// Numbers of `bits` bits with scales for groups of `group` columns, where later columns make
    /// up for the errors of earlier ones; `None` if `bits` is not in [`BITS`](Rounding::BITS) or
    /// `group` is 0.
    pub fn new(bits: u32, group: usize) -> Option<Rounding> {
        (Rounding::BITS.contains(&bits) && group > 0).then_some(Rounding { bits, group, nearest: false })
    }

    /// Rounds each number to the nearest one instead.
    #[must_use]
    pub fn to_nearest(self) -> Self {
        Rounding { nearest: true, ..self }
    }

    /// Returns whether each number is rounded to the nearest one.
    pub fn is_nearest(self) -> bool {
        self.nearest
    }

    /// Returns the number of bits.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// Returns the number of columns of a group.
    pub fn group(self) -> usize {
        self.group
    }

    /// Returns the largest integer.
    pub fn largest(self) -> i8 {
        ((1i32 << (self.bits - 1)) - 1) as i8
    }

    /// Returns the size in bytes of a tile whose integers are packed without gaps, with scales of
    /// 16 bits.
    pub fn bytes(self, rows: usize, cols: usize) -> usize {
        (rows * cols * self.bits as usize).div_ceil(8) + 2 * rows * cols.div_ceil(self.group)
    }

    /// Returns the columns of the groups of `cols` columns.
    fn groups(self, cols: usize) -> impl DoubleEndedIterator<Item = Range<usize>> {
        (0..cols.div_ceil(self.group)).map(move |g| g * self.group..((g + 1) * self.group).min(cols))
    }
}

/// A tile of rounded numbers: `codes[i, j] * scales[i, j / group]`.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundedTile {
    rows: usize,
    cols: usize,
    rounding: Rounding,
    /// Column by column.
    codes: Vec<i8>,
    /// Group by group, a scale for each row; representable in bfloat16.
    scales: Vec<f32>,
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
        meta(self.codes.len() + size_of_val(&self.scales[..]))
    }
}

impl RoundedTile {
    /// Rounds `x` (`m x n`) so that `||(X - Q) L||` is small, `l` lower triangular (`n x n`), or to
    /// the nearest numbers, and replaces it by the rounded numbers. Numbers that are not finite
    /// become 0.
    ///
    /// # Panics
    /// Shapes do not fit.
    pub fn round(rounding: Rounding, l: MatRef<'_, f32>, mut x: MatMut<'_, f32>) -> RoundedTile {
        let (rows, cols) = (x.rows(), x.cols());
        let l = (!rounding.nearest).then_some(l);
        let mut tile = RoundedTile {
            rows,
            cols,
            rounding,
            codes: vec![0; rows * cols],
            scales: vec![0.0; rows * cols.div_ceil(rounding.group)],
        };
        // Errors of the groups that are rounded, column by column.
        let mut errors = vec![0.0; if l.is_some() { rows * cols } else { 0 }];
        for columns in rounding.groups(cols).rev() {
            let first = columns.start;
            let mut group: Vec<f32> = columns.clone().flat_map(|j| x.col_mut(j).to_vec()).collect();
            if let Some(l) = l {
                compensate(l, &errors[rows * columns.end..], &columns, &mut group);
            }
            let scales = &mut tile.scales[rows * (first / rounding.group)..][..rows];
            scales_of(rounding, &group, scales);
            // Sums over the columns of the group that are rounded, without the factor 1 / L_jj.
            let mut sums = vec![0.0; if l.is_some() { group.len() } else { 0 }];
            for j in columns.clone().rev() {
                let wanted = &mut group[rows * (j - first)..][..rows];
                let codes = &mut tile.codes[rows * j..][..rows];
                match l {
                    Some(l) => {
                        let mut target = wanted.to_vec();
                        add_scaled(1.0 / l.col(j)[j], &sums[rows * (j - first)..][..rows], &mut target);
                        round_column(rounding, scales, &target, codes);
                    }
                    None => round_column(rounding, scales, wanted, codes),
                }
                for (i, x) in x.col_mut(j).iter_mut().enumerate() {
                    let rounded = f32::from(codes[i]) * scales[i];
                    wanted[i] -= rounded;
                    if l.is_some() {
                        errors[rows * j + i] = *x - rounded;
                    }
                    *x = rounded;
                }
                let Some(l) = l else { continue };
                for (k, sum) in (first..j).zip(sums.chunks_exact_mut(rows)) {
                    add_scaled(l.col(k)[j], wanted, sum);
                }
            }
        }
        tile
    }

    /// Returns `(rows, columns)`.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// Returns the format.
    pub fn rounding(&self) -> Rounding {
        self.rounding
    }

    /// Returns the integers, column by column.
    pub fn codes(&self) -> &[i8] {
        &self.codes
    }

    /// Returns the scales, group by group, one for each row; they are representable in bfloat16.
    pub fn scales(&self) -> &[f32] {
        &self.scales
    }
}

/// Adds to a group of columns what makes up for the errors of the columns after it:
/// `E L[after, group] L[group, group]^-1`.
fn compensate(l: MatRef<'_, f32>, errors: &[f32], columns: &Range<usize>, group: &mut [f32]) {
    let rows = group.len() / columns.len();
    let mut sums = vec![0.0; group.len()];
    for (j, sum) in columns.clone().zip(sums.chunks_exact_mut(rows)) {
        for (k, error) in (columns.end..).zip(errors.chunks_exact(rows)) {
            add_scaled(l.col(j)[k], error, sum);
        }
    }
    for j in columns.clone().rev() {
        let (earlier, sum) = sums.split_at_mut(rows * (j - columns.start));
        let sum = &mut sum[..rows];
        sum.iter_mut().for_each(|s| *s /= l.col(j)[j]);
        for (k, earlier) in columns.clone().zip(earlier.chunks_exact_mut(rows)) {
            add_scaled(-l.col(k)[j], sum, earlier);
        }
    }
    group.iter_mut().zip(&sums).for_each(|(x, s)| *x += s);
}

/// Computes `y += a x`.
fn add_scaled(a: f32, x: &[f32], y: &mut [f32]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
}

fn round_column(rounding: Rounding, scales: &[f32], targets: &[f32], codes: &mut [i8]) {
    let largest = f32::from(rounding.largest());
    for ((code, &target), &scale) in codes.iter_mut().zip(targets).zip(scales) {
        let units = if scale > 0.0 { target / scale } else { 0.0 };
        *code = units.round_ties_even().clamp(-largest, largest) as i8;
    }
}

/// Fractions of the largest magnitude that the largest integer may stand for: numbers above it are
/// cut off, and the others are rounded more finely.
const CUTS: [f32; 6] = [1.0, 0.95, 0.9, 0.85, 0.8, 0.7];

/// Sets the scale of each row of a group: of [`CUTS`], the one with the least squares of errors.
fn scales_of(rounding: Rounding, group: &[f32], scales: &mut [f32]) {
    let (rows, largest) = (scales.len(), f32::from(rounding.largest()));
    for (i, best) in scales.iter_mut().enumerate() {
        let row = || group[i..].iter().step_by(rows).copied();
        let most = row().fold(0.0, |most: f32, x| most.max(x.abs()));
        if most == 0.0 || !most.is_finite() {
            *best = 0.0;
            continue;
        }
        let loss = |scale: f32| -> f32 {
            row().map(|x| (x - (x / scale).round_ties_even().clamp(-largest, largest) * scale).powi(2)).sum()
        };
        let candidates = CUTS.map(|cut| bfloat16_above(cut * most / largest));
        let (mut least, mut chosen) = (f32::INFINITY, candidates[0]);
        for scale in candidates {
            let loss = loss(scale);
            if loss < least {
                (least, chosen) = (loss, scale);
            }
        }
        *best = chosen;
    }
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

    fn rounded(rounding: Rounding, x: &[f32], (m, n): (usize, usize)) -> (RoundedTile, Vec<f32>) {
        let (mut q, l) = (x.to_vec(), lower(n));
        let l = MatRef::new(&l, n, n, n).unwrap();
        (RoundedTile::round(rounding, l, MatMut::new(&mut q, m, n, m).unwrap()), q)
    }

    /// Columns one after the other, from the formula, with the scales that the tile has.
    #[test]
    fn targets_are_those_of_the_formula() {
        let (m, n, rounding) = (5, 75, Rounding::new(4, 32).unwrap());
        let (x, l) = (random(1, m * n), lower(n));
        let (tile, q) = rounded(rounding, &x, (m, n));
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
            let [by_columns, nearest] = [rounding, rounding.to_nearest()]
                .map(|rounding| loss(&x, &rounded(rounding, &x, (m, n)).1, &l, (m, n)));
            assert!(by_columns < 0.3 * nearest, "{bits} bits: {by_columns} and {nearest}");
        }
    }

    #[test]
    fn nearest_numbers_are_within_half_a_unit() {
        let (m, n, rounding) = (7, 33, Rounding::new(8, 16).unwrap().to_nearest());
        let x = random(5, m * n);
        let (tile, q) = rounded(rounding, &x, (m, n));
        for (at, (x, q)) in x.iter().zip(&q).enumerate() {
            let scale = tile.scales()[at % m + at / m / 16 * m];
            let clipped = f32::from(rounding.largest()) * scale;
            assert!((x.clamp(-clipped, clipped) - q).abs() <= 0.5001 * scale);
        }
        assert_eq!(tile.scales().len(), m * 3);
    }

    #[test]
    fn zeros_stay_and_numbers_that_are_not_finite_become_zeros() {
        let rounding = Rounding::new(6, 4).unwrap().to_nearest();
        let (tile, q) = rounded(rounding, &[0.0, f32::NAN, 0.0, 1.0], (2, 2));
        assert_eq!(q[0], 0.0);
        assert_eq!((q[2], tile.codes()[1]), (0.0, 0));
    }

    #[test]
    fn scales_are_rounded_up_to_bfloat16() {
        assert_eq!(bfloat16_above(1.0), 1.0);
        assert_eq!(bfloat16_above(1.0 + f32::EPSILON), 1.0078125);
        assert!(Rounding::new(9, 32).is_none() && Rounding::new(4, 0).is_none());
    }
}
