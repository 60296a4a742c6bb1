//! Sets of formats that an adaptive matrix may use.

use std::fmt;
use std::str::FromStr;

use zellige_kernels::packed::PackedFormat::{
    self, Fp32, Fp64, Rp16, Rp24, Rp40, Rp48, Rp56, Rpre8, Rpre16, Rpre32, Rpre40, Rpre48, Rpreu8, Rpreu16,
    Rpreu32, Rpreu40, Rpreu48,
};

/// Set of formats: those of the thesis (Tables 3.1, 4.1 and 4.2), and one format alone, for all
/// nonzeros or for all but the negligible ones (`Ap1`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are the thesis'; `formats` says what is in them
pub enum FormatSet {
    Fp64,
    Rp56,
    Rp48,
    Rp40,
    Fp32,
    Rp24,
    Rp16,
    Ap1,
    Ap2,
    Ap3,
    Ap4,
    Ap7,
    Ap7Re,
    Ap7Reu,
}

impl FormatSet {
    /// Sets of the thesis.
    pub const ALL: [Self; 6] = [Self::Ap2, Self::Ap3, Self::Ap4, Self::Ap7, Self::Ap7Re, Self::Ap7Reu];

    /// Sets of one format for all nonzeros, the most accurate first.
    pub const UNIFORM: [Self; 7] =
        [Self::Fp64, Self::Rp56, Self::Rp48, Self::Rp40, Self::Fp32, Self::Rp24, Self::Rp16];

    /// Returns true for one format for all nonzeros, of which none is dropped.
    pub fn is_uniform(self) -> bool {
        Self::UNIFORM.contains(&self)
    }

    /// Returns the name that [`FromStr`] reads back.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fp64 => "FP64",
            Self::Rp56 => "RP56",
            Self::Rp48 => "RP48",
            Self::Rp40 => "RP40",
            Self::Fp32 => "FP32",
            Self::Rp24 => "RP24",
            Self::Rp16 => "RP16",
            Self::Ap1 => "AP1",
            Self::Ap2 => "AP2",
            Self::Ap3 => "AP3",
            Self::Ap4 => "AP4",
            Self::Ap7 => "AP7",
            Self::Ap7Re => "AP7RE",
            Self::Ap7Reu => "AP7REU",
        }
    }

    /// Returns true if the set has formats with a scale.
    pub fn has_scales(self) -> bool {
        self.formats().iter().any(|format| format.is_scaled())
    }

    /// Returns the formats, the most accurate first. `fp32` replaces the scaled format of 24 bits,
    /// which takes longer to read.
    pub const fn formats(self) -> &'static [PackedFormat] {
        match self {
            Self::Fp64 | Self::Ap1 => &[Fp64],
            Self::Rp56 => &[Rp56],
            Self::Rp48 => &[Rp48],
            Self::Rp40 => &[Rp40],
            Self::Fp32 => &[Fp32],
            Self::Rp24 => &[Rp24],
            Self::Rp16 => &[Rp16],
            Self::Ap2 => &[Fp64, Fp32],
            Self::Ap3 => &[Fp64, Fp32, Rp16],
            Self::Ap4 => &[Fp64, Rp48, Fp32, Rp16],
            Self::Ap7 => &[Fp64, Rp56, Rp48, Rp40, Fp32, Rp24, Rp16],
            Self::Ap7Re => &[Fp64, Rpre48, Rpre40, Rpre32, Fp32, Rpre16, Rpre8],
            Self::Ap7Reu => &[Fp64, Rpreu48, Rpreu40, Rpreu32, Fp32, Rpreu16, Rpreu8],
        }
    }
}

impl fmt::Display for FormatSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no set has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown format set {0:?}: use ap1, ap2, ap3, ap4, ap7, ap7re or ap7reu, or one format: fp64, rp56, rp48, rp40, fp32, rp24 or \
     rp16"
)]
pub struct UnknownSet(pub String);

impl FromStr for FormatSet {
    type Err = UnknownSet;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let is_named = |set: &FormatSet| set.name().eq_ignore_ascii_case(s);
        Self::ALL
            .into_iter()
            .chain([Self::Ap1])
            .chain(Self::UNIFORM)
            .find(is_named)
            .ok_or_else(|| UnknownSet(s.to_owned()))
    }
}
