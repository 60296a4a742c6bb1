//! Storage formats of the numbers of a site.

use std::fmt;
use std::str::FromStr;

/// Storage format of the three complex numbers of a site. Integers are multiples of a scale that
/// the six components of a site share.
///
/// | format | bytes | bits |
/// | --- | --- | --- |
/// | `Fp64`, `Fp32` | 48, 24 | six numbers, real parts before imaginary parts |
/// | `Half` | 16 | six 16-bit integers, then the scale in `f32`: the largest magnitude divided by 32767 |
/// | `Int20` | 16 | six 20-bit integers from the lowest bit of four 32-bit words on, then the biased exponent of the scale |
/// | `Int30` | 24 | six words: 30 bits of an integer below, above it two bits of the biased exponent of the scale in each of the first four |
///
/// The scale of `Int20` and `Int30` is `2^(floor(log2(m / S)) + 1)` for the largest magnitude `m`,
/// with `S = 2^19 - 1` and `2^29 - 1`: multiplication by it and division are exact. Integers are
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
}

impl SiteFormat {
    /// All formats.
    pub const ALL: [SiteFormat; 5] =
        [SiteFormat::Fp64, SiteFormat::Fp32, SiteFormat::Half, SiteFormat::Int20, SiteFormat::Int30];

    /// Bytes of a site.
    pub const fn bytes(self) -> usize {
        match self {
            SiteFormat::Fp64 => 48,
            SiteFormat::Fp32 | SiteFormat::Int30 => 24,
            SiteFormat::Half | SiteFormat::Int20 => 16,
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
        }
    }

    /// Returns the largest relative error of the largest component of a site.
    pub const fn unit_roundoff(self) -> f64 {
        match self {
            SiteFormat::Fp64 => f64::EPSILON / 2.0,
            SiteFormat::Fp32 => f32::EPSILON as f64 / 2.0,
            SiteFormat::Half => 1.0 / 65534.0,
            // Half a step. The largest component is between 2^18 and 2^19 steps, or between 2^28
            // and 2^29 steps.
            SiteFormat::Int20 => 1.0 / (1 << 19) as f64,
            SiteFormat::Int30 => 1.0 / (1 << 29) as f64,
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
        found.ok_or_else(|| "double, single, half, int20 and int30 are possible".to_owned())
    }
}
