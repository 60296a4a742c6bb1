//! Storage formats of the numbers of a site.

use std::fmt;
use std::str::FromStr;

use super::COMPONENTS;

/// Storage format of the three complex numbers of a site. Integers are multiples of a scale that
/// the six components of a site share.
///
/// | format | bytes | bits |
/// | --- | --- | --- |
/// | `Fp64`, `Fp32` | 48, 24 | six numbers, real parts before imaginary parts |
/// | `Half` | 16 | six 16-bit integers, then the scale in `f32`: the largest magnitude divided by 32767 |
/// | `Int20` | 16 | six 20-bit integers from the lowest bit of four 32-bit words on, then the biased exponent of the scale |
/// | `Int30` | 24 | six words: 30 bits of an integer below, above it two bits of the biased exponent of the scale in each of the first four |
/// | `Packed(N)` | 8, 16, 24 or 32 | six `N`-bit integers, one after the other from the lowest bit of 64-bit words on, then the biased exponent of the scale |
///
/// The scale of integers of `N` bits, except of `Half`, is `2^(floor(log2(m / S)) + 1)` for the
/// largest magnitude `m`, with `S = 2^(N - 1) - 1`: multiplication by it and division are exact.
/// GPUs have kernels for all formats but `Packed`. Integers are
/// rounded to nearest, ties to even. Sites of zeros are records of zeros. The scale is at least
/// `2^-126`: below, components lose bits and become zero. If a component of a site is non-finite or
/// too large for `f32`, all six are NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SiteFormat {
    /// Float64. For several columns, the numbers of a row are contiguous, not those of a site.
    Fp64,
    /// Float32.
    Fp32,
    /// 16-bit integers.
    Half,
    /// 20-bit integers.
    Int20,
    /// 30-bit integers.
    Int30,
    /// Integers of 8 to 31 bits, other than 20 and 30; made by [`SiteFormat::integers`].
    Packed(Bits),
}

/// Number of bits of packed integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bits(u8);

impl Bits {
    pub(super) const fn count(self) -> u32 {
        self.0 as u32
    }
}

/// Smallest and largest number of bits of packed integers.
const BITS: [u8; 2] = [8, 31];
/// Number of widths of packed integers: all but two have no layout of their own.
const PACKED: usize = (BITS[1] - BITS[0] - 1) as usize;
/// Names of the formats of integers, from the smallest one on.
const NAMES: [&str; PACKED + 2] = [
    "int8", "int9", "int10", "int11", "int12", "int13", "int14", "int15", "int16", "int17", "int18", "int19",
    "int20", "int21", "int22", "int23", "int24", "int25", "int26", "int27", "int28", "int29", "int30",
    "int31",
];

impl SiteFormat {
    /// Formats with a layout of their own, which GPUs have kernels for.
    pub const WITH_KERNELS: [SiteFormat; 5] =
        [SiteFormat::Fp64, SiteFormat::Fp32, SiteFormat::Half, SiteFormat::Int20, SiteFormat::Int30];

    /// All formats: those with kernels, and packed integers by their number of bits.
    pub const ALL: [SiteFormat; 5 + PACKED] = {
        let mut all = [SiteFormat::Fp64; 5 + PACKED];
        let (mut at, mut bits) = (0, BITS[0]);
        while at < SiteFormat::WITH_KERNELS.len() {
            all[at] = SiteFormat::WITH_KERNELS[at];
            at += 1;
        }
        while bits <= BITS[1] {
            if let Some(packed @ SiteFormat::Packed(_)) = SiteFormat::integers(bits) {
                all[at] = packed;
                at += 1;
            }
            bits += 1;
        }
        all
    };

    /// Returns the format of integers of this many bits, 8 to 31.
    pub const fn integers(bits: u8) -> Option<SiteFormat> {
        match bits {
            20 => Some(SiteFormat::Int20),
            30 => Some(SiteFormat::Int30),
            _ if BITS[0] <= bits && bits <= BITS[1] => Some(SiteFormat::Packed(Bits(bits))),
            _ => None,
        }
    }

    /// Returns whether GPUs have kernels for this format.
    pub const fn has_kernels(self) -> bool {
        !matches!(self, SiteFormat::Packed(_))
    }

    /// Bytes of a site.
    pub const fn bytes(self) -> usize {
        match self {
            SiteFormat::Fp64 => 48,
            SiteFormat::Fp32 | SiteFormat::Int30 => 24,
            SiteFormat::Half | SiteFormat::Int20 => 16,
            SiteFormat::Packed(bits) => (COMPONENTS * bits.0 as usize + 8).div_ceil(64) * size_of::<f64>(),
        }
    }

    /// Returns the 64-bit words of `sites` sites.
    pub const fn words(self, sites: usize) -> usize {
        sites * self.bytes() / size_of::<f64>()
    }

    /// Returns the name of the format.
    pub const fn name(self) -> &'static str {
        match self {
            SiteFormat::Fp64 => "double",
            SiteFormat::Fp32 => "single",
            SiteFormat::Half => "half",
            SiteFormat::Int20 => "int20",
            SiteFormat::Int30 => "int30",
            SiteFormat::Packed(bits) => NAMES[(bits.0 - BITS[0]) as usize],
        }
    }

    /// Returns the largest relative error of the largest component of a site.
    pub const fn unit_roundoff(self) -> f64 {
        match self {
            SiteFormat::Fp64 => f64::EPSILON / 2.0,
            SiteFormat::Fp32 => f32::EPSILON as f64 / 2.0,
            SiteFormat::Half => 1.0 / 65534.0,
            // Half a step. The largest component of integers of N bits is between 2^(N - 2) and
            // 2^(N - 1) steps.
            SiteFormat::Int20 => 1.0 / (1 << 19) as f64,
            SiteFormat::Int30 => 1.0 / (1 << 29) as f64,
            SiteFormat::Packed(bits) => 1.0 / (1_u32 << (bits.0 - 1)) as f64,
        }
    }
}

impl fmt::Display for SiteFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SiteFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<SiteFormat, String> {
        let found = SiteFormat::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| "double, single, half, and int8 to int31 are possible".to_owned())
    }
}
