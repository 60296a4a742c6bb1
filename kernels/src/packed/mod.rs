//! Packed entries of adaptive matrices: 8 to 64 bits each, stored contiguously.
//!
//! Products compute in `f64`; only storage is narrow. Entries that are small compared with a norm
//! of the matrix are stored with fewer bits. Their larger relative error then has as little effect
//! as that of a large entry in `f64` (Molina, thesis 2024, chapters 3 and 4).
//!
//! | family | what is stored |
//! |---|---|
//! | `fp64`, `rp56`, `rp48`, `rp40` | the leading 8, 7, 6, 5 bytes of an `f64` |
//! | `fp32`, `rp24`, `rp16` | the leading 4, 3, 2 bytes of an `f32` |
//! | `rpre48` ... `rpre8` | sign, 3 bits of exponent, the rest of the significand; of magnitudes in `[1, 2^8)` |
//! | `rpreu48` ... `rpreu8` | the same without a sign: one more bit of significand |
//!
//! A number of the last two families is `a = scale * alpha`: its bucket knows the scale, and codes
//! are those of `alpha`. [`block`] shares one exponent among eight numbers.
//!
//! ```
//! use zellige_kernels::packed::{PackedFormat, Rounding, pack, unpack};
//!
//! let values = [0.1, -0.2, 1e-9];
//! let mut bytes = [0; 15];
//! pack(&values, PackedFormat::Rp40, Rounding::Nearest, &mut bytes)?;
//! let mut back = [0.0; 3];
//! unpack(&bytes, PackedFormat::Rp40, &mut back)?;
//! assert!((back[1] / -0.2 - 1.0).abs() <= PackedFormat::Rp40.unit_roundoff());
//! # Ok::<(), zellige_kernels::KernelError>(())
//! ```

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub(crate) mod avx512;
pub mod block;
pub(crate) mod code;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub(crate) mod x86;

use core::fmt;
use core::str::FromStr;

use crate::error::check_shape;
use crate::{KernelError, RealNumber};

/// Storage format of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // the name says family and bits; the module has the table
pub enum PackedFormat {
    Fp64,
    Rp56,
    Rp48,
    Rp40,
    Fp32,
    Rp24,
    Rp16,
    Rpre48,
    Rpre40,
    Rpre32,
    Rpre24,
    Rpre16,
    Rpre8,
    Rpreu48,
    Rpreu40,
    Rpreu32,
    Rpreu24,
    Rpreu16,
    Rpreu8,
}

/// Format family: the encoding whose leading bits are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// An `f64`.
    Double,
    /// An `f32`.
    Single,
    /// Sign, three bits of exponent, significand.
    Reduced,
    /// Three bits of exponent and significand, without a sign.
    Unsigned,
}

/// Rounding of a number that the format does not represent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Rounding {
    /// The nearest number, ties to even, in one rounding from `f64`.
    #[default]
    Nearest,
    /// Truncation as in the thesis (chapter 3, section on casts). `fp32` is rounded to nearest, and
    /// `rp24` and `rp16` are truncated from it. Errors are up to twice as large, and all towards
    /// zero.
    Chop,
}

use PackedFormat::{
    Fp32, Fp64, Rp16, Rp24, Rp40, Rp48, Rp56, Rpre8, Rpre16, Rpre24, Rpre32, Rpre40, Rpre48, Rpreu8, Rpreu16,
    Rpreu24, Rpreu32, Rpreu40, Rpreu48,
};

impl PackedFormat {
    /// Every format, by family, widest first.
    pub const ALL: [Self; 19] = [
        Fp64, Rp56, Rp48, Rp40, Fp32, Rp24, Rp16, Rpre48, Rpre40, Rpre32, Rpre24, Rpre16, Rpre8, Rpreu48,
        Rpreu40, Rpreu32, Rpreu24, Rpreu16, Rpreu8,
    ];

    /// The name that [`FromStr`] reads back.
    pub const fn name(self) -> &'static str {
        match self {
            Fp64 => "fp64",
            Rp56 => "rp56",
            Rp48 => "rp48",
            Rp40 => "rp40",
            Fp32 => "fp32",
            Rp24 => "rp24",
            Rp16 => "rp16",
            Rpre48 => "rpre48",
            Rpre40 => "rpre40",
            Rpre32 => "rpre32",
            Rpre24 => "rpre24",
            Rpre16 => "rpre16",
            Rpre8 => "rpre8",
            Rpreu48 => "rpreu48",
            Rpreu40 => "rpreu40",
            Rpreu32 => "rpreu32",
            Rpreu24 => "rpreu24",
            Rpreu16 => "rpreu16",
            Rpreu8 => "rpreu8",
        }
    }

    /// Bytes per element.
    pub const fn bytes(self) -> usize {
        match self {
            Fp64 => 8,
            Rp56 => 7,
            Rp48 | Rpre48 | Rpreu48 => 6,
            Rp40 | Rpre40 | Rpreu40 => 5,
            Fp32 | Rpre32 | Rpreu32 => 4,
            Rp24 | Rpre24 | Rpreu24 => 3,
            Rp16 | Rpre16 | Rpreu16 => 2,
            Rpre8 | Rpreu8 => 1,
        }
    }

    pub(crate) const fn family(self) -> Family {
        match self {
            Fp64 | Rp56 | Rp48 | Rp40 => Family::Double,
            Fp32 | Rp24 | Rp16 => Family::Single,
            Rpre48 | Rpre40 | Rpre32 | Rpre24 | Rpre16 | Rpre8 => Family::Reduced,
            Rpreu48 | Rpreu40 | Rpreu32 | Rpreu24 | Rpreu16 | Rpreu8 => Family::Unsigned,
        }
    }

    /// Bits of the significand that are stored, without the leading one.
    pub(crate) const fn fraction_bits(self) -> u32 {
        let besides = match self.family() {
            Family::Double => 12,
            Family::Single => 9,
            Family::Reduced => 4,
            Family::Unsigned => 3,
        };
        8 * self.bytes() as u32 - besides
    }

    /// Returns `log2` of the unit roundoff `u`: the largest relative error of rounding a number to
    /// nearest, in the range of the format's normal numbers (thesis, Tables 3.1 and 4.1). Chopping
    /// has twice that.
    pub const fn roundoff_log2(self) -> i32 {
        -(self.fraction_bits() as i32) - 1
    }

    /// `2^`[`roundoff_log2`](Self::roundoff_log2).
    pub fn unit_roundoff(self) -> f64 {
        code::power_of_two(self.roundoff_log2())
    }

    /// Returns true for the formats of magnitudes in `[1, 2^8)`, whose numbers are multiples of a
    /// scale.
    pub const fn is_scaled(self) -> bool {
        matches!(self.family(), Family::Reduced | Family::Unsigned)
    }

    /// False for the formats that store no sign.
    pub const fn has_sign(self) -> bool {
        !matches!(self.family(), Family::Unsigned)
    }

    /// The code of a number, in the lowest `8 * bytes()` bits.
    ///
    /// A finite number that is too large gets the largest code, never one of another format. Scaled
    /// formats store the magnitude 1 for anything smaller; unsigned ones store the magnitude.
    #[inline]
    pub fn encode(self, value: f64, rounding: Rounding) -> u64 {
        // The usual cases without asking how the format is made up.
        match self {
            PackedFormat::Fp64 => value.to_bits(),
            PackedFormat::Fp32 if value.is_finite() => {
                u64::from((value as f32).clamp(-f32::MAX, f32::MAX).to_bits())
            }
            _ => code::encode(self, value, rounding),
        }
    }

    /// Returns the number that a code encodes. Higher bits are ignored.
    pub fn decode(self, code: u64) -> f64 {
        code::decode(self, code)
    }
}

impl fmt::Display for PackedFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is none of [`PackedFormat::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown storage format {0:?}: one of fp64, rp56, rp48, rp40, fp32, rp24, rp16, rpre48 .. rpre8, \
     rpreu48 .. rpreu8 is needed"
)]
pub struct UnknownPacked(pub String);

impl FromStr for PackedFormat {
    type Err = UnknownPacked;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let is_named = |format: &PackedFormat| format.name().eq_ignore_ascii_case(s);
        Self::ALL.into_iter().find(is_named).ok_or_else(|| UnknownPacked(s.to_owned()))
    }
}

/// Stores `src` in `dst`, code after code, lowest byte first.
///
/// # Errors
/// [`KernelError::Shape`] unless `dst` has `src.len() * format.bytes()` bytes.
pub fn pack(
    src: &[f64],
    format: PackedFormat,
    rounding: Rounding,
    dst: &mut [u8],
) -> Result<(), KernelError> {
    check_shape("pack", "dst", (dst.len(), 1), (src.len().saturating_mul(format.bytes()), 1))?;
    // A loop for each format and rounding, which are constants in it.
    macro_rules! each {
        ($format:ident, $rounding:ident) => {
            for (code, &value) in dst.chunks_exact_mut(const { $format.bytes() }).zip(src) {
                let whole = code::encode($format, value, Rounding::$rounding).to_le_bytes();
                code.copy_from_slice(&whole[..const { $format.bytes() }]);
            }
        };
    }
    macro_rules! of {
        ($($format:ident)*) => {
            match (format, rounding) {
                $(
                    ($format, Rounding::Nearest) => each!($format, Nearest),
                    ($format, Rounding::Chop) => each!($format, Chop),
                )*
            }
        };
    }
    of!(Fp64 Rp56 Rp48 Rp40 Fp32 Rp24 Rp16 Rpre48 Rpre40 Rpre32 Rpre24 Rpre16 Rpre8
        Rpreu48 Rpreu40 Rpreu32 Rpreu24 Rpreu16 Rpreu8);
    Ok(())
}

/// The numbers of `src`, without their scale.
///
/// # Errors
/// [`KernelError::Shape`] unless `src` has `dst.len() * format.bytes()` bytes.
pub fn unpack(src: &[u8], format: PackedFormat, dst: &mut [f64]) -> Result<(), KernelError> {
    let bytes = format.bytes();
    check_shape("unpack", "src", (src.len(), 1), (dst.len().saturating_mul(bytes), 1))?;
    unpack_apart(src, format, (dst.len(), 0), dst);
    Ok(())
}

/// Decodes codes with gaps: after each `count` codes the next ones begin `stride` bytes after the
/// first of these. It is faster if `src` continues for 64 more bytes.
pub(crate) fn unpack_apart(
    src: &[u8],
    format: PackedFormat,
    (count, stride): (usize, usize),
    dst: &mut [f64],
) {
    #[cfg(target_arch = "x86_64")]
    let done = x86::unpack(src, format, (count, stride), dst);
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    for (at, value) in dst.iter_mut().enumerate().skip(done) {
        let code = at / count * stride + at % count * format.bytes();
        *value = code::decode_bytes(format, &src[code..][..format.bytes()]);
    }
}

/// Returns `sum_k alpha_k x[columns[k]]`, from left to right, for the numbers `alpha_k` that
/// `codes` encodes.
///
/// # Errors
/// [`KernelError::Shape`] unless `codes` has `columns.len() * format.bytes()` bytes.
///
/// # Panics
/// If a column is beyond `x`.
#[inline(always)]
pub fn dot<R: RealNumber>(
    codes: &[u8],
    format: PackedFormat,
    columns: &[u32],
    x: &[R],
) -> Result<R, KernelError> {
    check_shape("dot", "codes", (codes.len(), 1), (columns.len().saturating_mul(format.bytes()), 1))?;
    // A loop for each format, in which its width is a constant.
    macro_rules! of {
        ($($format:ident)*) => {
            match format {
                $($format => {
                    let codes = codes.chunks_exact(const { $format.bytes() });
                    codes.zip(columns).fold(R::from(0.0), |sum, (code, &j)| {
                        sum + R::from(code::decode_bytes($format, code)) * x[j as usize]
                    })
                })*
            }
        };
    }
    Ok(of!(Fp64 Rp56 Rp48 Rp40 Fp32 Rp24 Rp16 Rpre48 Rpre40 Rpre32 Rpre24 Rpre16 Rpre8
        Rpreu48 Rpreu40 Rpreu32 Rpreu24 Rpreu16 Rpreu8))
}

#[cfg(test)]
mod tests;
