//! Products with matrices of integers of 2 to 16 bits, with a scale for each row of a group of
//! columns.
//!
//! Such a product takes as long as its bytes take from memory, so integers are packed without gaps,
//! in the order in which they are read. Each block of 64 rows of a group of columns has its own
//! number of bits:
//!
//! ```text
//! block of 64 rows -> group of columns -> 64 scales (bfloat16), then columns of 64 integers:
//!     64 bytes: the low 8 bits, and 64 bytes: the high ones                    (16 bits)
//!     64 bytes: the low 8 bits                                                 (8 to 15 bits)
//!     32 bytes: 4 bits more, of rows 0 to 31 in low halves of bytes and 32 to 63 in high ones
//!     16 bytes: 2 bits more, of rows k, k + 16, k + 32, k + 48 in byte k
//!      8 bytes: 1 bit more, of rows k, k + 8, ..., k + 56 in byte k
//! ```
//!
//! The last three are there if the number of bits has the binary digit 4, 2 or 1. Integers are
//! stored with the offset `2^(bits - 1)`. The arithmetic is in `f32`: sums within a group, then
//! sums over groups, in the same order on every machine.

use std::ops::{Range, RangeInclusive};

use pulp::{Arch, Simd, WithSimd};

/// Number of rows of a block.
pub const ROWS: usize = 64;

/// Returns the largest integer of `bits` bits; the smallest one is its negative.
pub fn largest(bits: u32) -> i16 {
    ((1i32 << (bits - 1)) - 1) as i16
}

/// A packed matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct FewBits {
    rows: usize,
    /// First column of each group, and the number of columns.
    edges: Vec<usize>,
    /// Bits of an integer, for each group of each block of rows, block after block.
    bits: Vec<u8>,
    /// First byte of each group of each block, and the number of bytes.
    starts: Vec<usize>,
    /// Block after block.
    bytes: Vec<u8>,
}

impl FewBits {
    /// Numbers of bits of an integer.
    pub const BITS: RangeInclusive<u32> = 2..=16;

    /// Packs `codes` and `scales`, both row by row. `edges` has the first column of each group, and
    /// the number of columns; `bits` has the number of bits of each group of each block of [`ROWS`]
    /// rows, block after block.
    ///
    /// # Panics
    /// A number of bits is not in [`BITS`](FewBits::BITS), sizes do not fit, or an integer has more
    /// bits.
    pub fn new(rows: usize, bits: Vec<u8>, edges: Vec<usize>, codes: &[i16], scales: &[f32]) -> Self {
        let (cols, groups, blocks) = (edges[edges.len() - 1], edges.len() - 1, rows.div_ceil(ROWS));
        assert_eq!((codes.len(), scales.len()), (rows * cols, rows * groups), "codes and scales");
        assert_eq!(bits.len(), blocks * groups, "numbers of bits");
        let size = |(at, &bits): (usize, &u8)| {
            assert!(FewBits::BITS.contains(&bits.into()), "{bits} bits");
            2 * ROWS + (edges[at % groups + 1] - edges[at % groups]) * column_bytes(bits.into())
        };
        let mut starts = vec![0];
        starts.extend(bits.iter().enumerate().map(size).scan(0, |end, size| {
            *end += size;
            Some(*end)
        }));
        let mut bytes = Vec::with_capacity(starts[bits.len()]);
        for (at, &bits) in bits.iter().enumerate() {
            let (block, g) = (at / groups, at % groups);
            let rows_of = block * ROWS..rows.min((block + 1) * ROWS);
            let mut of_rows = [0u16; ROWS];
            for (to, i) in of_rows.iter_mut().zip(rows_of.clone()) {
                *to = (scales[i * groups + g].to_bits() >> 16) as u16;
            }
            bytes.extend(of_rows.iter().flat_map(|scale| scale.to_le_bytes()));
            for j in edges[g]..edges[g + 1] {
                let mut column = [0i16; ROWS];
                for (to, i) in column.iter_mut().zip(rows_of.clone()) {
                    *to = codes[i * cols + j];
                }
                pack(&column, bits.into(), &mut bytes);
            }
        }
        FewBits { rows, edges, bits, starts, bytes }
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

    /// Returns the bits of an integer, for each group of each block of rows, block after block.
    pub fn bits(&self) -> &[u8] {
        &self.bits
    }

    /// Returns the size of the packed matrix.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the packed matrix.
    pub fn data(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds the products of a block of rows with the columns of `groups` to `y`, `x` with an entry
    /// for each column of the matrix.
    ///
    /// # Panics
    /// There is no such block or group, or `x` does not fit.
    pub fn multiply_block(&self, block: usize, groups: Range<usize>, x: &[f32], y: &mut [f32; ROWS]) {
        assert_eq!(x.len(), self.shape().1, "entries of x");
        assert!(block < self.blocks() && groups.end <= self.groups(), "block {block}, groups {groups:?}");
        Arch::new().dispatch(Block { matrix: self, block, groups, x, y });
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
#[inline(always)]
fn column_bytes(bits: u32) -> usize {
    ROWS / 8 * bits as usize
}

/// Appends a column of a block.
fn pack(column: &[i16; ROWS], bits: u32, out: &mut Vec<u8>) {
    let offset = 1 << (bits - 1);
    let unsigned = column.map(|code| {
        let shifted = i32::from(code) + offset;
        assert!((0..2 * offset).contains(&shifted), "{code} has more than {bits} bits");
        shifted as u16
    });
    let mut from = 0;
    for width in [8, 8, 4, 2, 1] {
        if bits - from < width {
            continue;
        }
        // Bits `from` on, of `8 / width` rows in each byte.
        let (per_byte, mask) = (8 / width as usize, (1 << width) - 1);
        let count = ROWS / per_byte;
        out.extend((0..count).map(|k| {
            let part = |r: usize| ((unsigned[k + r * count] >> from) & mask) << (r * width as usize);
            (0..per_byte).fold(0, |byte, r| byte | part(r)) as u8
        }));
        from += width;
    }
}

/// Unpacks a column of up to 8 bits, without the offset.
#[inline(always)]
fn unpack(bits: u32, bytes: &[u8], column: &mut [u8; ROWS]) {
    if bits == 8 {
        return column.copy_from_slice(&bytes[..ROWS]);
    }
    let mut rest = bytes;
    if bits & 4 != 0 {
        for k in 0..32 {
            column[k] = rest[k] & 15;
            column[k + 32] = rest[k] >> 4;
        }
        rest = &rest[32..];
    } else {
        *column = [0; ROWS];
    }
    if bits & 2 != 0 {
        for r in 0..4 {
            for k in 0..16 {
                column[k + 16 * r] |= ((rest[k] >> (2 * r)) & 3) << (bits & 4);
            }
        }
        rest = &rest[16..];
    }
    if bits & 1 != 0 {
        // There are no shifts of bytes in vector registers, but comparisons.
        let mut spread = [0u8; ROWS];
        spread.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&rest[..8]));
        for (i, code) in column.iter_mut().enumerate() {
            *code |= if spread[i] & (1 << (i / 8)) == 0 { 0 } else { 1 << (bits - 1) };
        }
    }
}

/// Adds the products of the columns of a group with `x`, without the scales.
#[inline(always)]
fn add_columns(bits: u32, columns: &[u8], x: &[f32], sums: &mut [f32; ROWS]) {
    let (mut low, mut high) = ([0u8; ROWS], [0u8; ROWS]);
    for (&x, bytes) in x.iter().zip(columns.chunks_exact(column_bytes(bits))) {
        if bits <= 8 {
            unpack(bits, bytes, &mut low);
            for (sum, code) in sums.iter_mut().zip(low) {
                *sum = f32::from(code.wrapping_sub(1 << (bits - 1)) as i8).mul_add(x, *sum);
            }
        } else {
            unpack(8, bytes, &mut low);
            unpack(bits - 8, &bytes[ROWS..], &mut high);
            for ((sum, low), high) in sums.iter_mut().zip(low).zip(high) {
                let code = (u16::from(high) << 8 | u16::from(low)).wrapping_sub(1 << (bits - 1));
                *sum = f32::from(code as i16).mul_add(x, *sum);
            }
        }
    }
}

/// The product of a block with groups of columns.
struct Block<'a> {
    matrix: &'a FewBits,
    block: usize,
    groups: Range<usize>,
    x: &'a [f32],
    y: &'a mut [f32; ROWS],
}

/// Calls [`add_columns`] with a number of bits that the compiler knows.
macro_rules! with_constant_bits {
    ($bits:expr, $columns:expr, $x:expr, $sums:expr, $($constant:literal)*) => {
        match $bits {
            $($constant => add_columns($constant, $columns, $x, $sums),)*
            bits => unreachable!("{bits} bits"),
        }
    };
}

impl WithSimd for Block<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let matrix = self.matrix;
        let first = self.block * matrix.groups();
        for group in self.groups {
            let (scales, columns) = matrix.bytes[matrix.starts[first + group]..].split_at(2 * ROWS);
            let x = &self.x[matrix.edges[group]..matrix.edges[group + 1]];
            let mut sums = [0.0f32; ROWS];
            let bits = matrix.bits[first + group];
            with_constant_bits!(bits, columns, x, &mut sums, 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
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
    fn value(at: usize, bits: u32) -> i16 {
        let span = (1 << bits) - 1;
        ((at * 7919 % span) as i32 - span as i32 / 2) as i16
    }

    /// Integers of all values, scales that are powers of two, and products in float64. The numbers
    /// of bits differ between blocks and groups.
    #[test]
    fn products_are_those_of_the_integers() {
        let (rows, edges, cols) = (150, vec![0, 32, 40, 71], 71);
        let x: Vec<f32> = (0..cols).map(|j| (j as f32 * 0.7).sin()).collect();
        let scales: Vec<f32> = (0..rows * 3).map(|at| 2f32.powi(at as i32 % 9 - 4)).collect();
        let group_of = |j: usize| edges.iter().filter(|&&edge| edge <= j).count() - 1;
        for (first, step) in (2..=16).map(|bits| (bits, 0)).chain([(2, 1), (5, 7)]) {
            let bits: Vec<u8> = (0..9).map(|at| 2 + (first - 2 + step * at) % 15).collect();
            let bits_at = |i: usize, j: usize| u32::from(bits[i / ROWS * 3 + group_of(j)]);
            let codes: Vec<i16> =
                (0..rows * cols).map(|at| value(at, bits_at(at / cols, at % cols))).collect();
            let matrix = FewBits::new(rows, bits.clone(), edges.clone(), &codes, &scales);
            let columns = |g: usize| edges[g + 1] - edges[g];
            let bytes = bits.iter().enumerate().map(|(at, &bits)| 128 + columns(at % 3) * 8 * bits as usize);
            assert_eq!(matrix.bytes(), bytes.sum::<usize>());
            let mut y = vec![0.0; rows];
            matrix.multiply(&x, &mut y);
            for (i, &y) in y.iter().enumerate() {
                let term = |j: usize| {
                    let scale = f64::from(scales[i * 3 + group_of(j)]);
                    f64::from(codes[i * cols + j]) * scale * f64::from(x[j])
                };
                let (exact, size) = (0..cols).map(term).fold((0.0, 0.0), |(s, m), t| (s + t, m + t.abs()));
                assert!((f64::from(y) - exact).abs() <= 1e-6 * size, "{bits:?}, row {i}: {y} of {exact}");
            }
        }
    }

    #[test]
    fn parts_of_the_columns_add_up() {
        let (rows, edges, bits) = (64, vec![0, 16, 32, 48], vec![6, 9, 4]);
        let codes: Vec<i16> = (0..rows * 48).map(|at| (at % 15) as i16 - 7).collect();
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
        FewBits::new(1, vec![4], vec![0, 1], &[8], &[1.0]);
    }
}
