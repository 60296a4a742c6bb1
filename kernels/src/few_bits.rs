//! Products with matrices of integers of 4 to 8 bits, with a scale for each row of a group of
//! columns.
//!
//! Such a product takes as long as its bytes take from memory, so integers are packed without gaps,
//! in the order in which they are read:
//!
//! ```text
//! block of 64 rows -> group of columns -> 64 scales (bfloat16), then columns of 64 integers:
//!     32 bytes: the low 4 bits, of rows 0 to 31 in low halves of bytes and 32 to 63 in high ones
//!     16 bytes: 2 bits more, of rows k, k + 16, k + 32, k + 48 in byte k        (6 and 7 bits)
//!      8 bytes: 1 bit more, of rows k, k + 8, ..., k + 56 in byte k             (5 and 7 bits)
//! or 64 bytes for 8 bits.
//! ```
//!
//! Integers are stored with the offset `2^(bits - 1)`. The arithmetic is in `f32`: sums within a
//! group, then sums over groups, in the same order on every machine.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

/// Number of rows of a block.
pub const ROWS: usize = 64;

/// A packed matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct FewBits {
    rows: usize,
    bits: u32,
    /// First column of each group, and the number of columns.
    edges: Vec<usize>,
    /// Block after block.
    bytes: Vec<u8>,
}

impl FewBits {
    /// Numbers of bits of an integer.
    pub const BITS: std::ops::RangeInclusive<u32> = 4..=8;

    /// Packs `codes` and `scales`, both row by row. `edges` has the first column of each group, and
    /// the number of columns.
    ///
    /// # Panics
    /// `bits` is not in [`BITS`](FewBits::BITS), sizes do not fit, or an integer has more bits.
    pub fn new(rows: usize, bits: u32, edges: Vec<usize>, codes: &[i8], scales: &[f32]) -> Self {
        let (cols, groups) = (edges[edges.len() - 1], edges.len() - 1);
        assert!(FewBits::BITS.contains(&bits), "{bits} bits");
        assert_eq!((codes.len(), scales.len()), (rows * cols, rows * groups), "codes and scales");
        let mut packed = FewBits { rows, bits, edges, bytes: Vec::new() };
        packed.bytes.reserve_exact(packed.blocks() * packed.block_bytes());
        for block in 0..packed.blocks() {
            let rows_of = block * ROWS..rows.min((block + 1) * ROWS);
            for g in 0..groups {
                let mut of_rows = [0u16; ROWS];
                for (to, i) in of_rows.iter_mut().zip(rows_of.clone()) {
                    *to = (scales[i * groups + g].to_bits() >> 16) as u16;
                }
                packed.bytes.extend(of_rows.iter().flat_map(|scale| scale.to_le_bytes()));
                for j in packed.edges[g]..packed.edges[g + 1] {
                    let mut column = [0i8; ROWS];
                    for (to, i) in column.iter_mut().zip(rows_of.clone()) {
                        *to = codes[i * cols + j];
                    }
                    pack(&column, bits, &mut packed.bytes);
                }
            }
        }
        packed
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

    /// Returns the first column of each group, and the number of columns.
    pub fn edges(&self) -> &[usize] {
        &self.edges
    }

    /// Returns the number of bits of an integer.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns the size of the packed matrix.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the packed matrix.
    pub fn data(&self) -> &[u8] {
        &self.bytes
    }

    fn block_bytes(&self) -> usize {
        self.group_start(self.groups())
    }

    /// Returns where a group begins within a block.
    fn group_start(&self, group: usize) -> usize {
        group * 2 * ROWS + self.edges[group] * column_bytes(self.bits)
    }

    /// Adds the products of a block of rows with the columns of `groups` to `y`, `x` with an entry
    /// for each column of the matrix.
    ///
    /// # Panics
    /// There is no such block or group, or `x` does not fit.
    pub fn multiply_block(&self, block: usize, groups: Range<usize>, x: &[f32], y: &mut [f32; ROWS]) {
        assert_eq!(x.len(), self.shape().1, "entries of x");
        let bytes = &self.bytes[block * self.block_bytes()..][..self.block_bytes()];
        match self.bits {
            4 => Arch::new().dispatch(Block::<4> { matrix: self, bytes, groups, x, y }),
            5 => Arch::new().dispatch(Block::<5> { matrix: self, bytes, groups, x, y }),
            6 => Arch::new().dispatch(Block::<6> { matrix: self, bytes, groups, x, y }),
            7 => Arch::new().dispatch(Block::<7> { matrix: self, bytes, groups, x, y }),
            _ => Arch::new().dispatch(Block::<8> { matrix: self, bytes, groups, x, y }),
        }
    }

    /// Computes `y = A x`.
    ///
    /// # Panics
    /// Sizes do not fit.
    pub fn multiply(&self, x: &[f32], y: &mut [f32]) {
        assert_eq!(y.len(), self.rows, "entries of y");
        for (block, y) in y.chunks_mut(ROWS).enumerate() {
            let mut sums = [0.0; ROWS];
            self.multiply_block(block, 0..self.groups(), x, &mut sums);
            y.copy_from_slice(&sums[..y.len()]);
        }
    }
}

/// Returns the bytes of a column of a block.
fn column_bytes(bits: u32) -> usize {
    ROWS / 8 * bits as usize
}

/// Appends a column of a block.
fn pack(column: &[i8; ROWS], bits: u32, out: &mut Vec<u8>) {
    let offset = 1 << (bits - 1);
    let unsigned = column.map(|code| {
        let shifted = i32::from(code) + offset;
        assert!((0..2 * offset).contains(&shifted), "{code} has more than {bits} bits");
        shifted as u8
    });
    if bits == 8 {
        return out.extend(unsigned);
    }
    // Planes of `width` bits from bit `from` on, `8 / width` rows in each byte.
    let mut plane = |from: u32, width: usize| {
        let (per_byte, mask) = (8 / width, (1 << width) - 1);
        let count = ROWS / per_byte;
        out.extend((0..count).map(|k| {
            let part = |r: usize| ((unsigned[k + r * count] >> from) & mask) << (r * width);
            (0..per_byte).fold(0, |byte, r| byte | part(r))
        }));
    };
    plane(0, 4);
    if bits & 2 != 0 {
        plane(4, 2);
    }
    if bits & 1 != 0 {
        plane(bits - 1, 1);
    }
}

/// Unpacks a column of a block.
#[inline(always)]
fn unpack<const BITS: u32>(bytes: &[u8], column: &mut [i8; ROWS]) {
    let offset = 1u8 << (BITS - 1);
    let mut unsigned = [0u8; ROWS];
    if BITS == 8 {
        unsigned.copy_from_slice(&bytes[..ROWS]);
    } else {
        let (low, rest) = bytes.split_at(32);
        for k in 0..32 {
            unsigned[k] = low[k] & 15;
            unsigned[k + 32] = low[k] >> 4;
        }
        let mut rest = rest;
        if BITS & 2 != 0 {
            for r in 0..4 {
                for k in 0..16 {
                    unsigned[k + 16 * r] |= ((rest[k] >> (2 * r)) & 3) << 4;
                }
            }
            rest = &rest[16..];
        }
        if BITS & 1 != 0 {
            for r in 0..8 {
                for k in 0..8 {
                    unsigned[k + 8 * r] |= ((rest[k] >> r) & 1) << (BITS - 1);
                }
            }
        }
    }
    for (code, byte) in column.iter_mut().zip(unsigned) {
        *code = byte.wrapping_sub(offset) as i8;
    }
}

/// The product of a block with groups of columns.
struct Block<'a, const BITS: u32> {
    matrix: &'a FewBits,
    bytes: &'a [u8],
    groups: Range<usize>,
    x: &'a [f32],
    y: &'a mut [f32; ROWS],
}

impl<const BITS: u32> WithSimd for Block<'_, BITS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let width = column_bytes(BITS);
        let mut column = [0i8; ROWS];
        for group in self.groups {
            let (scales, columns) = self.bytes[self.matrix.group_start(group)..].split_at(2 * ROWS);
            let x = &self.x[self.matrix.edges[group]..self.matrix.edges[group + 1]];
            let mut sums = [0.0f32; ROWS];
            for (&x, bytes) in x.iter().zip(columns.chunks_exact(width)) {
                unpack::<BITS>(bytes, &mut column);
                for (sum, &code) in sums.iter_mut().zip(&column) {
                    *sum = f32::from(code).mul_add(x, *sum);
                }
            }
            for ((y, sum), scale) in self.y.iter_mut().zip(sums).zip(scales.chunks_exact(2)) {
                let scale = f32::from_bits(u32::from(u16::from_le_bytes([scale[0], scale[1]])) << 16);
                *y = sum.mul_add(scale, *y);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one of the integers that have so many bits.
    fn value(at: usize, bits: u32) -> i8 {
        let span = (1 << bits) - 1;
        ((at * 7919 % span) as i32 - span as i32 / 2) as i8
    }

    /// Integers of all values, scales that are powers of two, and products in float64.
    #[test]
    fn products_are_those_of_the_integers() {
        for bits in FewBits::BITS {
            let (rows, edges) = (150, vec![0, 32, 40, 71]);
            let cols = 71;
            let codes: Vec<i8> = (0..rows * cols).map(|at| value(at, bits)).collect();
            let scales: Vec<f32> = (0..rows * 3).map(|at| 2f32.powi(at as i32 % 9 - 4)).collect();
            let x: Vec<f32> = (0..cols).map(|j| (j as f32 * 0.7).sin()).collect();
            let matrix = FewBits::new(rows, bits, edges.clone(), &codes, &scales);
            let groups_of_three: usize = 3 * 2 * ROWS + cols * ROWS * bits as usize / 8;
            assert_eq!(matrix.bytes(), 3 * groups_of_three);
            let mut y = vec![0.0; rows];
            matrix.multiply(&x, &mut y);
            for (i, &y) in y.iter().enumerate() {
                let term = |j: usize| {
                    let group = edges.iter().filter(|&&edge| edge <= j).count() - 1;
                    f64::from(codes[i * cols + j]) * f64::from(scales[i * 3 + group]) * f64::from(x[j])
                };
                let (exact, size) = (0..cols).map(term).fold((0.0, 0.0), |(s, m), t| (s + t, m + t.abs()));
                assert!((f64::from(y) - exact).abs() <= 1e-6 * size, "{bits} bits, row {i}: {y} of {exact}");
            }
        }
    }

    #[test]
    fn parts_of_the_columns_add_up() {
        let (rows, edges, bits) = (64, vec![0, 16, 32, 48], 6);
        let codes: Vec<i8> = (0..rows * 48).map(|at| (at % 63) as i8 - 31).collect();
        let matrix = FewBits::new(rows, bits, edges, &codes, &vec![0.5; rows * 3]);
        let x: Vec<f32> = (0..48).map(|j| 1.0 / (1 + j) as f32).collect();
        let (mut whole, mut parts) = ([0.0; ROWS], [0.0; ROWS]);
        matrix.multiply_block(0, 0..3, &x, &mut whole);
        matrix.multiply_block(0, 0..1, &x, &mut parts);
        matrix.multiply_block(0, 1..3, &x, &mut parts);
        assert_eq!(whole, parts);
    }

    #[test]
    #[should_panic(expected = "8 has more than 4 bits")]
    fn integers_of_more_bits_are_refused() {
        FewBits::new(1, 4, vec![0, 1], &[8], &[1.0]);
    }
}
