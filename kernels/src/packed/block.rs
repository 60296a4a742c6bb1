//! Blocks of eight numbers that share an exponent.
//!
//! A block is one byte, the exponent `e` as an `i8`, and eight signed integers `q` of 8, 12, 16 or
//! 24 bits: the numbers are `q * 2^(e - bits + 1)`. The exponent is the smallest with all
//! magnitudes below `2^e`, so the error of each number is at most `2^(1 - bits)` times the largest
//! magnitude of the block. A number that is small compared with that loses its digits, as in a
//! bucket.

use core::fmt;

use super::code::power_of_two;
use crate::KernelError;
use crate::error::check_shape;

/// Numbers of a block.
pub const BLOCK: usize = 8;

/// Block format: bits of each number of a block, besides the shared exponent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // the name says the bits
pub enum BlockFormat {
    B24,
    B16,
    B12,
    B8,
}

impl BlockFormat {
    /// Every format, widest first.
    pub const ALL: [Self; 4] = [Self::B24, Self::B16, Self::B12, Self::B8];

    /// The name that [`FromStr`](core::str::FromStr) reads back.
    pub const fn name(self) -> &'static str {
        match self {
            Self::B24 => "block24",
            Self::B16 => "block16",
            Self::B12 => "block12",
            Self::B8 => "block8",
        }
    }

    /// Bits of one integer, with its sign.
    pub const fn bits(self) -> u32 {
        match self {
            Self::B24 => 24,
            Self::B16 => 16,
            Self::B12 => 12,
            Self::B8 => 8,
        }
    }

    /// Bytes of a block of eight numbers.
    pub const fn block_bytes(self) -> usize {
        1 + self.bits() as usize
    }

    /// Returns `2^(1 - bits)`, the largest error of a number relative to the largest magnitude of
    /// its block.
    pub fn unit_roundoff(self) -> f64 {
        power_of_two(1 - self.bits() as i32)
    }
}

impl fmt::Display for BlockFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Padding of an incomplete last block.
const PADDING: f64 = 0.0;

/// A name that is none of [`BlockFormat::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown block format {0:?}: one of block24, block16, block12, block8 is needed")]
pub struct UnknownBlock(pub String);

impl core::str::FromStr for BlockFormat {
    type Err = UnknownBlock;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let is_named = |format: &BlockFormat| format.name().eq_ignore_ascii_case(s);
        Self::ALL.into_iter().find(is_named).ok_or_else(|| UnknownBlock(s.to_owned()))
    }
}

/// Bytes of `len` numbers; the last block is filled up with zeros.
pub const fn blocks_bytes(format: BlockFormat, len: usize) -> usize {
    len.div_ceil(BLOCK).saturating_mul(format.block_bytes())
}

/// Stores finite numbers, to nearest (ties to even). Magnitudes of `2^127` and more become the
/// largest that there is, those far below `2^-127` zero.
///
/// # Errors
/// [`KernelError::Shape`] unless `dst` has [`blocks_bytes`].
pub fn pack_blocks(src: &[f64], format: BlockFormat, dst: &mut [u8]) -> Result<(), KernelError> {
    check_shape("pack_blocks", "dst", (dst.len(), 1), (blocks_bytes(format, src.len()), 1))?;
    for (values, bytes) in src.chunks(BLOCK).zip(dst.chunks_exact_mut(format.block_bytes())) {
        let mut whole = [PADDING; BLOCK];
        whole[..values.len()].copy_from_slice(values);
        pack_block(&whole, format, bytes);
    }
    Ok(())
}

/// The numbers of `src`.
///
/// # Errors
/// [`KernelError::Shape`] unless `src` has [`blocks_bytes`].
pub fn unpack_blocks(src: &[u8], format: BlockFormat, dst: &mut [f64]) -> Result<(), KernelError> {
    check_shape("unpack_blocks", "src", (src.len(), 1), (blocks_bytes(format, dst.len()), 1))?;
    for (bytes, values) in src.chunks_exact(format.block_bytes()).zip(dst.chunks_mut(BLOCK)) {
        let whole = unpack_block(bytes, format);
        values.copy_from_slice(&whole[..values.len()]);
    }
    Ok(())
}

/// The least `e` of an `i8` with `magnitude < 2^e`.
fn exponent(magnitude: f64) -> i8 {
    let biased = (magnitude.to_bits() >> 52) as i32;
    // A subnormal is far below what an i8 reaches.
    (biased - 1022).clamp(-127, 127) as i8
}

fn pack_block(values: &[f64; BLOCK], format: BlockFormat, dst: &mut [u8]) {
    let largest = values.iter().fold(0.0, |m: f64, value| m.max(value.abs()));
    let exponent = exponent(largest);
    let bits = format.bits();
    let to_integer = power_of_two(bits as i32 - 1 - i32::from(exponent));
    let limit = f64::from((1i32 << (bits - 1)) - 1);
    // A NaN becomes 0: casts of floats to integers saturate.
    let integer =
        |value: f64| (value * to_integer).round_ties_even().clamp(-limit, limit) as i32 as u32 & mask(bits);
    dst[0] = exponent as u8;
    for (pair, bytes) in values.as_chunks::<2>().0.iter().zip(dst[1..].chunks_exact_mut(bits as usize / 4)) {
        let both = u64::from(integer(pair[0])) | (u64::from(integer(pair[1])) << bits);
        bytes.copy_from_slice(&both.to_le_bytes()[..bytes.len()]);
    }
}

fn mask(bits: u32) -> u32 {
    (1 << bits) - 1
}

fn unpack_block(src: &[u8], format: BlockFormat) -> [f64; BLOCK] {
    let bits = format.bits();
    let unit = power_of_two(i32::from(src[0] as i8) + 1 - bits as i32);
    let number = |code: u32| f64::from(((code << (32 - bits)) as i32) >> (32 - bits)) * unit;
    let mut values = [0.0; BLOCK];
    for (pair, bytes) in
        values.as_chunks_mut::<2>().0.iter_mut().zip(src[1..].chunks_exact(bits as usize / 4))
    {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        let both = u64::from_le_bytes(whole);
        *pair = [number(both as u32 & mask(bits)), number((both >> bits) as u32 & mask(bits))];
    }
    values
}
