//! Products with matrices of integers of 2 to 16 bits, with a scale for each row of a group of
//! columns.
//!
//! Such a product takes as long as its bytes take from memory, so integers are packed without gaps,
//! in the order in which they are read. Each block of 64 rows of a group of columns has its own
//! number of bits:
//!
//! ```text
//! run of groups -> block of 64 rows -> group of columns -> 64 scales (bfloat16), then integers:
//!     the low 8 bits of all, a byte for each            (9 to 16 bits)
//!     16 rows after the other: up to 8 bits that are left
//!         a byte for each                               (8 bits)
//!         4 bits, of the first half in low halves of bytes, of the second one in high ones
//!         2 bits more, of the first quarter in the lowest bits of bytes
//!         1 bit more, of the first eighth in the lowest bit
//! ```
//!
//! The last three are there if the number of bits has the binary digit 4, 2 or 1. Within 16 rows,
//! the integers of four columns follow each other, row by row; a group whose width is no multiple
//! of four ends with columns of zeros. Integers are stored with the offset `2^(bits - 1)`.
//! A product that takes all blocks of a run, a 16th of the groups, before those of the next one
//! reads bytes in the order in which they are stored, which is what processors fetch ahead.
//!
//! The vector is in fixed point ([`Digits`]), so that sums within a group are sums of integers,
//! which are exact. Sums over groups are in `f32`, in the same order on every machine.

mod digits;
#[allow(unsafe_code)]
mod dot;
#[allow(unsafe_code)]
mod gpu;
mod planes;

use std::ops::{Range, RangeInclusive};

pub use digits::{Digits, Records};
use dot::Dot;
pub use gpu::{GpuMatrix, GpuProduct};
use planes::pack;

/// Number of rows of a block.
pub const ROWS: usize = 64;

/// Number of rows whose integers are packed together.
const PART: usize = 16;

/// Largest number of columns of a group. Its sums of products are below 2^24: exact in `f32`, too.
const MOST_COLUMNS: usize = 128;

/// Number of runs of groups.
const RUNS: usize = 16;

/// Returns the largest integer of `bits` bits; the smallest one is its negative.
pub fn largest(bits: u32) -> i16 {
    ((1i32 << (bits - 1)) - 1) as i16
}

/// A cache line.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// A packed matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct FewBits {
    rows: usize,
    /// First column of each group, and the number of columns.
    edges: Vec<usize>,
    /// Bits of an integer, for each group of each block of rows, block after block.
    bits: Vec<u8>,
    /// First byte of each group of each block, block after block.
    starts: Vec<usize>,
    /// Packed integers and scales, aligned so that no load of 64 bytes straddles two cache lines.
    lines: Vec<Line>,
    /// Number of bytes.
    size: usize,
}

impl FewBits {
    /// Numbers of bits of an integer.
    pub const BITS: RangeInclusive<u32> = 2..=16;

    /// Packs `codes` and `scales`, both row by row. `edges` has the first column of each group, and
    /// the number of columns; `bits` has the number of bits of each group of each block of [`ROWS`]
    /// rows, block after block. Groups of more than 128 columns are divided.
    ///
    /// # Panics
    /// A number of bits is not in [`BITS`](FewBits::BITS), sizes do not fit, or an integer has more
    /// bits.
    pub fn new(rows: usize, bits: &[u8], edges: &[usize], codes: &[i16], scales: &[f32]) -> Self {
        let (cols, given, blocks) = (edges[edges.len() - 1], edges.len() - 1, rows.div_ceil(ROWS));
        assert_eq!((codes.len(), scales.len()), (rows * cols, rows * given), "codes and scales");
        assert_eq!(bits.len(), blocks * given, "numbers of bits");
        // Groups as they were given, and the columns of each part of them.
        let parts: Vec<(usize, Range<usize>)> = (0..given)
            .flat_map(|g| (edges[g]..edges[g + 1]).step_by(MOST_COLUMNS).map(move |first| (g, first)))
            .map(|(g, first)| (g, first..edges[g + 1].min(first + MOST_COLUMNS)))
            .collect();
        let (mut bits_of_parts, mut starts) = (vec![0; blocks * parts.len()], vec![0; blocks * parts.len()]);
        let mut bytes = Vec::new();
        let runs = (0..parts.len()).step_by(run_of(parts.len()));
        for (first, block) in runs.flat_map(|first| (0..blocks).map(move |block| (first, block))) {
            let of_block = block * ROWS..rows.min((block + 1) * ROWS);
            for (part, (g, columns)) in parts.iter().enumerate().skip(first).take(run_of(parts.len())) {
                let (bits, at) = (bits[block * given + g], block * parts.len() + part);
                assert!(FewBits::BITS.contains(&bits.into()), "{bits} bits");
                (bits_of_parts[at], starts[at]) = (bits, bytes.len());
                let mut of_rows = [0u16; ROWS];
                for (to, i) in of_rows.iter_mut().zip(of_block.clone()) {
                    *to = (scales[i * given + g].to_bits() >> 16) as u16;
                }
                bytes.extend(of_rows.iter().flat_map(|scale| scale.to_le_bytes()));
                let mut unsigned = vec![0u16; integers(columns)];
                let offset = 1i32 << (bits - 1);
                for (at, j) in columns.clone().enumerate() {
                    for (row, i) in of_block.clone().enumerate() {
                        let code = codes[i * cols + j];
                        let shifted = i32::from(code) + offset;
                        assert!((0..2 * offset).contains(&shifted), "{code} has more than {bits} bits");
                        // Four columns of 16 rows after those before them.
                        let four = row / PART * (columns.len().div_ceil(4)) + at / 4;
                        unsigned[(four * PART + row % PART) * 4 + at % 4] = shifted as u16;
                    }
                }
                pack(&unsigned, bits.into(), &mut bytes);
            }
        }
        let edges = parts.iter().map(|(_, columns)| columns.start).chain([cols]).collect();
        let mut lines = vec![Line([0; 64]); bytes.len().div_ceil(64)];
        bytemuck::cast_slice_mut(&mut lines)[..bytes.len()].copy_from_slice(&bytes);
        FewBits { rows, edges, bits: bits_of_parts, starts, lines, size: bytes.len() }
    }

    /// Returns `(rows, columns)`.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.edges[self.edges.len() - 1])
    }

    /// Returns the number of blocks of rows; the last one may have fewer than [`ROWS`].
    pub fn blocks(&self) -> usize {
        self.rows.div_ceil(ROWS)
    }

    /// Returns the number of groups of columns.
    pub fn groups(&self) -> usize {
        self.edges.len() - 1
    }

    /// Returns the number of groups of a run, the last one of which may have fewer. Products are
    /// fastest if they take all blocks of a run before those of the next one.
    pub fn run(&self) -> usize {
        run_of(self.groups())
    }

    /// Returns the first column of each group, and the number of columns.
    pub fn edges(&self) -> &[usize] {
        &self.edges
    }

    /// Returns the bits of an integer, for each group of each block of rows, block after block.
    pub fn bits(&self) -> &[u8] {
        &self.bits
    }

    /// Returns the size of the packed matrix.
    pub fn bytes(&self) -> usize {
        self.size
    }

    /// Returns the packed matrix.
    pub fn data(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.size]
    }

    /// Returns the first byte of each group of each block of rows, block after block.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// Adds the products of blocks of rows with the columns of `groups` to `sums`, which has those
    /// of each block; `x` has the entries of these columns.
    ///
    /// # Panics
    /// There is no such block or group, or `x` or `sums` do not fit.
    pub fn multiply_blocks(
        &self,
        blocks: Range<usize>,
        groups: Range<usize>,
        x: &Digits,
        sums: &mut [[f32; ROWS]],
    ) {
        assert_eq!((x.entries(), sums.len()), (self.shape().1, blocks.len()), "entries of x, blocks");
        let fits = blocks.end <= self.blocks() && groups.end <= self.groups();
        assert!(fits, "blocks {blocks:?}, groups {groups:?}");
        Blocks { matrix: self, first: blocks.start, groups, x, sums }.multiply();
    }

    /// Computes `y = A x`.
    ///
    /// # Panics
    /// Sizes do not fit.
    pub fn multiply(&self, x: &[f32], y: &mut [f32]) {
        assert_eq!(y.len(), self.rows, "entries of y");
        let mut digits = Digits::new(self.shape().1);
        digits.put(&self.edges, 0..self.groups(), x);
        let mut sums = vec![[0.0; ROWS]; self.blocks()];
        for first in (0..self.groups()).step_by(self.run()) {
            let groups = first..self.groups().min(first + self.run());
            self.multiply_blocks(0..self.blocks(), groups, &digits, &mut sums);
        }
        y.copy_from_slice(&sums.as_flattened()[..self.rows]);
    }
}

fn run_of(groups: usize) -> usize {
    groups.div_ceil(RUNS).max(1)
}

/// Returns the number of integers of a block of these columns.
#[inline(always)]
fn integers(columns: &Range<usize>) -> usize {
    ROWS * columns.len().next_multiple_of(4)
}

/// The products of blocks with groups of columns.
struct Blocks<'a> {
    matrix: &'a FewBits,
    first: usize,
    groups: Range<usize>,
    x: &'a Digits,
    sums: &'a mut [[f32; ROWS]],
}

impl Blocks<'_> {
    /// Adds products to the sums; `dot` adds those of a group.
    #[inline(always)]
    fn by(self, dot: impl Fn(Dot<'_>)) {
        let matrix = self.matrix;
        let mut workspace = [[0; 4 * PART]; MOST_COLUMNS / 4];
        for at in 0..self.sums.len() {
            let (sums, later) = self.sums[at..].split_at_mut(1);
            later.first().into_iter().for_each(dot::prefetch);
            let sums = &mut sums[0];
            for group in self.groups.clone() {
                let part = (self.first + at) * matrix.groups() + group;
                let (start, bits) = (matrix.starts[part], u32::from(matrix.bits[part]));
                let columns = matrix.edges[group]..matrix.edges[group + 1];
                let count = integers(&columns);
                let of_part = start..start + 2 * ROWS + count * bits as usize / 8;
                let later = dot::later(matrix.data(), of_part.clone());
                let (scales, bytes) = matrix.data()[of_part].split_at(2 * ROWS);
                // Beyond 8 bits, the low ones are multiplied apart.
                let (low, packed) = bytes.split_at(if bits > 8 { count } else { 0 });
                let bits = (bits - 1) % 8 + 1;
                dot(Dot {
                    bits,
                    packed,
                    low,
                    workspace: &mut workspace,
                    digits: self.x.of(columns),
                    start: self.x.sums(group).map(|sum| -sum << (bits - 1)),
                    unit: self.x.unit(group),
                    scales,
                    later,
                    sums,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one of the integers that have so many bits.
    fn value(at: usize, bits: u32) -> i16 {
        let span = (1 << bits) - 1;
        ((at * 7919 % span) as i32 - span as i32 / 2) as i16
    }

    /// Integers of all values and scales that are powers of two.
    pub(super) fn matrix(rows: usize, bits: &[u8], edges: &[usize]) -> (FewBits, Vec<i16>, Vec<f32>) {
        let (cols, groups) = (edges[edges.len() - 1], edges.len() - 1);
        let group_of = |j: usize| edges.iter().filter(|&&edge| edge <= j).count() - 1;
        let bits_at = |i: usize, j: usize| u32::from(bits[i / ROWS * groups + group_of(j)]);
        let codes: Vec<i16> = (0..rows * cols).map(|at| value(at, bits_at(at / cols, at % cols))).collect();
        let scales: Vec<f32> = (0..rows * groups).map(|at| 2f32.powi(at as i32 % 9 - 4)).collect();
        (FewBits::new(rows, bits, edges, &codes, &scales), codes, scales)
    }

    pub(super) fn vector(cols: usize) -> Vec<f32> {
        (0..cols).map(|j| (j as f32 * 0.7).sin()).collect()
    }

    /// Numbers of bits of nine blocks: the same, and different ones.
    pub(super) fn all_bits() -> impl Iterator<Item = Vec<u8>> {
        let steps = (2..=16).map(|bits| (bits, 0)).chain([(2, 1), (5, 7)]);
        steps.map(|(first, step)| (0..9).map(|at| 2 + (first - 2 + step * at) % 15).collect())
    }

    #[test]
    fn products_are_those_of_the_integers() {
        let (rows, edges, cols) = (150, [0, 32, 40, 71], 71);
        let x = vector(cols);
        for bits in all_bits() {
            let (matrix, codes, scales) = matrix(rows, &bits, &edges);
            // The last group has a column of zeros.
            let bytes =
                bits.iter().zip([32, 8, 32].into_iter().cycle()).map(|(&b, n)| 128 + n * 8 * usize::from(b));
            assert_eq!(matrix.bytes(), bytes.sum::<usize>());
            let mut y = vec![0.0; rows];
            matrix.multiply(&x, &mut y);
            for (i, &y) in y.iter().enumerate() {
                let term = |j: usize| {
                    let group = edges.iter().filter(|&&edge| edge <= j).count() - 1;
                    let scale = f64::from(scales[i * 3 + group]);
                    f64::from(codes[i * cols + j]) * scale * f64::from(x[j])
                };
                let (exact, size) = (0..cols).map(term).fold((0.0, 0.0), |(s, m), t| (s + t, m + t.abs()));
                assert!((f64::from(y) - exact).abs() <= 3e-7 * size, "{bits:?}, row {i}: {y} of {exact}");
            }
        }
    }

    #[test]
    fn wide_groups_are_divided() {
        let (whole, codes, scales) = matrix(20, &[6, 11], &[0, 300, 310]);
        let repeated: Vec<f32> = scales.chunks(2).flat_map(|s| [s[0], s[0], s[0], s[1]]).collect();
        let divided = FewBits::new(20, &[6, 6, 6, 11], &[0, 128, 256, 300, 310], &codes, &repeated);
        assert_eq!(whole, divided);
    }

    #[test]
    fn parts_of_the_columns_add_up() {
        let (matrix, ..) = matrix(64, &[6, 9, 4], &[0, 16, 32, 48]);
        let x: Vec<f32> = (0..48).map(|j| 1.0 / (1 + j) as f32).collect();
        let mut digits = Digits::new(48);
        digits.put(matrix.edges(), 1..3, &x);
        digits.put(matrix.edges(), 0..1, &x);
        let (mut whole, mut parts) = ([[0.0; ROWS]], [[0.0; ROWS]]);
        matrix.multiply_blocks(0..1, 0..3, &digits, &mut whole);
        matrix.multiply_blocks(0..1, 0..1, &digits, &mut parts);
        matrix.multiply_blocks(0..1, 1..3, &digits, &mut parts);
        assert_eq!(whole, parts);
    }

    #[test]
    fn a_group_with_an_entry_that_is_not_finite_has_no_product() {
        let (matrix, ..) = matrix(2, &[8], &[0, 8]);
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = vector(8);
            x[3] = wrong;
            let mut y = [0.0; 2];
            matrix.multiply(&x, &mut y);
            assert!(y.iter().all(|y| y.is_nan()), "{wrong}: {y:?}");
        }
    }

    #[test]
    #[should_panic(expected = "8 has more than 4 bits")]
    fn integers_of_more_bits_are_refused() {
        FewBits::new(1, &[4], &[0, 1], &[8], &[1.0]);
    }
}
