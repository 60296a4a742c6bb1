//! The formats in which a tile's elements are stored.

use core::{fmt, str::FromStr};

/// Storage format of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StorageFormat {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// IEEE binary16: 11 significant bits, `2^-14 ..= 65504`, subnormals to `2^-24`.
    F16,
    /// The upper half of a binary32: 8 significant bits, the range of `f32`.
    BF16,
    /// A number as the sum of two `f16`: 22 significant bits or more.
    F16x2,
    /// The 8-bit format E4M3: 4 significant bits, `2^-6 ..= 448`, subnormals to `2^-9`, no
    /// infinities.
    E4M3,
}

impl StorageFormat {
    /// Every format, widest first.
    pub const ALL: [Self; 6] = [Self::F64, Self::F32, Self::F16x2, Self::F16, Self::BF16, Self::E4M3];

    /// The name that [`FromStr`] reads back.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "fp64",
            Self::F32 => "fp32",
            Self::F16 => "fp16",
            Self::BF16 => "bf16",
            Self::F16x2 => "fp16x2",
            Self::E4M3 => "e4m3",
        }
    }

    /// Bytes per element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::F16x2 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::E4M3 => 1,
        }
    }

    /// Unit roundoff: the largest relative error of rounding a number within the normal range.
    ///
    /// For `F16x2` the bound `2^-22` of two successive roundings to 11 bits; see
    /// [`split_scale_exponent`](crate::formats::split_scale_exponent) for the range in which it
    /// holds.
    pub const fn unit_roundoff(self) -> f64 {
        match self {
            Self::F64 => 1.0 / (1u64 << 53) as f64,
            Self::F32 => 1.0 / (1u64 << 24) as f64,
            Self::F16 => 1.0 / (1u64 << 11) as f64,
            Self::BF16 => 1.0 / (1u64 << 8) as f64,
            Self::F16x2 => 1.0 / (1u64 << 22) as f64,
            Self::E4M3 => 1.0 / (1u64 << 4) as f64,
        }
    }
}

impl fmt::Display for StorageFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is none of [`StorageFormat::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown storage format {0:?}: one of fp64, fp32, fp16x2, fp16, bf16, e4m3 is needed")]
pub struct UnknownFormat(pub String);

impl FromStr for StorageFormat {
    type Err = UnknownFormat;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|f| f.name().eq_ignore_ascii_case(s))
            .ok_or_else(|| UnknownFormat(s.to_owned()))
    }
}
