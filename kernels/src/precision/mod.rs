//! GEMM precisions: formats of the operands, the sums and the result of one tile product.
//!
//! All functions of this module compute `C = C + sign A op(B)` with `A` `m x k`, `op(B)` `k x n`,
//! `C` `m x n`; the two uses in a tiled Cholesky factorisation and its solves are `C - A B^T` and
//! `C - A B`. They have the numerics of the tensor-core products of the same name. On a CPU they
//! cost as much as the `f32` product, plus the widening of the operands.
//!
//! Symmetric updates and triangular solves can run their products in X3 or TF32 as well:
//! [`PanelPrecision`].

mod hp3;
mod panel;
mod tensor;

use core::{fmt, str::FromStr};

pub use hp3::gemm_hp3;
pub use panel::{
    PanelPrecision, syrk_lower_tf32, syrk_lower_x3, syrk_scratch_len, trsm_right_lower_in, trsm_scratch_len,
};
pub use tensor::{gemm_fp8, gemm_half, gemm_hp2, gemm_tf32, gemm_x3};

use crate::StorageFormat;

/// Sign of the product in an update of `C`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sign {
    /// `C + A op(B)`.
    Plus,
    /// `C - A op(B)`.
    Minus,
}

impl Sign {
    /// 1 or -1.
    pub(crate) fn value(self) -> f32 {
        match self {
            Self::Plus => 1.0,
            Self::Minus => -1.0,
        }
    }
}

/// Operand, accumulation and output formats of one tile product.
///
/// `Sp`, `Hp1`, `Hp2`, `Hp3` are the four variants of Doucet, Ltaief, Gratadour, Keyes,
/// "Mixed-precision tomographic reconstructor computations on hardware accelerators" (IA3 2019),
/// Table I. `u16 = 2^-11`, `u32 = 2^-24` are the unit roundoffs. The error column is the leading
/// term per entry, relative to `|A| |B|` unless it says `C`. In the rows with `u22`, CPUs round
/// sums to nearest (`u32`), but tensor cores truncate them and keep few bits of the smaller term:
/// `u22 = 2^-22` for them (Fasi, Higham, Mikaitis and Pranesh 2021). For `X3` this is as large as
/// the error of the splitting. Ootomo and Yokota (2022) add outside of tensor cores to gain the two
/// bits.
///
/// | variant | name | A, B | sums | C | error | function |
/// |---|---|---|---|---|---|---|
/// | `Dp` | `fp64` | f64 | f64 | f64 | `k 2^-53` | [`gemm`](crate::gemm) |
/// | `Sp` | `fp32` | f32 | f32 | f32 | `k u32` | [`gemm`](crate::gemm) |
/// | `Hp1` | `hp1` | f16 | f32 | f32 | `2 u16 + k u22` | [`gemm_half`] |
/// | `Hp2` | `hp2` | f16 | f32 | f16 | as `Hp1`, and `u16 C` | [`gemm_hp2`] |
/// | `Hp3` | `hp3` | f16 | f16 | f16 | `(2 + k/4) u16`, and `u16 C` | [`gemm_hp3`] |
/// | `Bf1` | `bf1` | bf16 | f32 | f32 | `2^-7 + k u22` | [`gemm_half`] |
/// | `X3` | `x3` | f16 + f16 | f32 | f32 | `3 * 2^-22 + k u22` | [`gemm_x3`] |
/// | `Tf32` | `tf32` | f32, rounded to 11 bits | f32 | f32 | `2^-10 + k u22` | [`gemm_tf32`] |
/// | `Fp8` | `fp8` | E4M3 | f32 | f32 | `2^-3 + k u22` (13 bits on Hopper) | [`gemm_fp8`] |
///
/// Entries that are subnormal in a tile of `f16` or E4M3 add an error relative to the largest entry
/// of the tile: `k 2^-25` and `k 2^-17.8` times the largest magnitudes of both operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GemmPrecision {
    /// Double precision.
    Dp,
    /// Single precision.
    Sp,
    /// `f16` operands, `f32` sums, `f32` result.
    Hp1,
    /// `f16` operands, `f32` sums, `f16` result.
    Hp2,
    /// `f16` operands, sums and result.
    Hp3,
    /// `bf16` operands, `f32` sums, `f32` result.
    Bf1,
    /// Operands as sums of two `f16`, three products, `f32` sums, `f32` result.
    X3,
    /// `f32` operands rounded to 11 bits, `f32` sums, `f32` result.
    Tf32,
    /// E4M3 operands, `f32` sums, `f32` result.
    Fp8,
}

impl GemmPrecision {
    /// Every precision.
    pub const ALL: [Self; 9] =
        [Self::Dp, Self::Sp, Self::Hp1, Self::Hp2, Self::Hp3, Self::Bf1, Self::X3, Self::Tf32, Self::Fp8];

    /// The name that [`FromStr`] reads back.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dp => "fp64",
            Self::Sp => "fp32",
            Self::Hp1 => "hp1",
            Self::Hp2 => "hp2",
            Self::Hp3 => "hp3",
            Self::Bf1 => "bf1",
            Self::X3 => "x3",
            Self::Tf32 => "tf32",
            Self::Fp8 => "fp8",
        }
    }

    /// Returns the storage format of `A` and `B`.
    pub const fn operand_format(self) -> StorageFormat {
        match self {
            Self::Dp => StorageFormat::F64,
            Self::Sp | Self::Tf32 => StorageFormat::F32,
            Self::Hp1 | Self::Hp2 | Self::Hp3 => StorageFormat::F16,
            Self::Bf1 => StorageFormat::BF16,
            Self::X3 => StorageFormat::F16x2,
            Self::Fp8 => StorageFormat::E4M3,
        }
    }

    /// Returns the format of the sums.
    pub const fn accumulator_format(self) -> StorageFormat {
        match self {
            Self::Dp => StorageFormat::F64,
            Self::Hp3 => StorageFormat::F16,
            _ => StorageFormat::F32,
        }
    }

    /// Returns the storage format of `C`.
    pub const fn output_format(self) -> StorageFormat {
        match self {
            Self::Dp => StorageFormat::F64,
            Self::Hp2 | Self::Hp3 => StorageFormat::F16,
            _ => StorageFormat::F32,
        }
    }
}

impl fmt::Display for GemmPrecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is none of [`GemmPrecision::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown GEMM precision {0:?}: one of fp64, fp32, hp1, hp2, hp3, bf1, x3, tf32, fp8 is needed")]
pub struct UnknownPrecision(pub String);

impl FromStr for GemmPrecision {
    type Err = UnknownPrecision;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|p| p.name().eq_ignore_ascii_case(s))
            .ok_or_else(|| UnknownPrecision(s.to_owned()))
    }
}

/// Scratch that the product of this precision and shape needs, in `f32` elements. Zero for `Dp` and
/// `Sp`.
///
/// Saturates at `usize::MAX`, which no slice has.
pub fn scratch_len(precision: GemmPrecision, m: usize, n: usize, k: usize) -> usize {
    let area = |a: usize, b: usize| a.saturating_mul(b);
    let operands = area(m.saturating_add(n), k);
    match precision {
        GemmPrecision::Dp | GemmPrecision::Sp => 0,
        GemmPrecision::Hp1 | GemmPrecision::Bf1 | GemmPrecision::Tf32 | GemmPrecision::Fp8 => operands,
        GemmPrecision::Hp2 => operands.saturating_add(area(m, n)),
        GemmPrecision::Hp3 => hp3::scratch(m, n, k),
        GemmPrecision::X3 => operands.saturating_mul(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for p in GemmPrecision::ALL {
            assert_eq!(p.to_string().parse(), Ok(p));
        }
        for f in StorageFormat::ALL {
            assert_eq!(f.to_string().parse(), Ok(f));
        }
        assert_eq!("HP1".parse(), Ok(GemmPrecision::Hp1));
        assert!("hp4".parse::<GemmPrecision>().unwrap_err().to_string().contains("hp4"));
        assert!("fp8".parse::<StorageFormat>().is_err());
    }

    #[test]
    fn scratch_saturates() {
        for p in GemmPrecision::ALL {
            let huge = scratch_len(p, usize::MAX, usize::MAX, usize::MAX);
            assert!(huge == 0 || huge == usize::MAX);
            assert_eq!(scratch_len(p, 0, 0, 5), 0);
        }
    }
}
