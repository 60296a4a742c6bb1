//! Vectors that options name.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Source of one or several vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VectorSource {
    /// All ones.
    Ones,
    /// Random numbers with this seed.
    Random(u64),
    /// File of vectors.
    File(PathBuf),
}

impl VectorSource {
    /// Returns the file, if the source is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            VectorSource::File(path) => Some(path),
            VectorSource::Ones | VectorSource::Random(_) => None,
        }
    }
}

impl fmt::Display for VectorSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VectorSource::Ones => f.pad("ones"),
            VectorSource::Random(seed) => write!(f, "random:{seed}"),
            VectorSource::File(file) => file.display().fmt(f),
        }
    }
}

impl FromStr for VectorSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("random:") {
            Some(seed) => {
                let seed = seed.parse().map_err(|_| format!("{seed:?} is not a seed: use a whole number"))?;
                Ok(VectorSource::Random(seed))
            }
            None if text == "ones" => Ok(VectorSource::Ones),
            None => Ok(VectorSource::File(text.into())),
        }
    }
}

/// Near null space that `--near-null` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NearNullSource {
    /// The constants of each component.
    Constant,
    /// Found from the matrix.
    Search,
    /// File of vectors.
    File(PathBuf),
}

impl NearNullSource {
    /// Returns the file, if the source is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            NearNullSource::File(path) => Some(path),
            NearNullSource::Constant | NearNullSource::Search => None,
        }
    }
}

impl FromStr for NearNullSource {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "constant" => NearNullSource::Constant,
            "search" => NearNullSource::Search,
            file => NearNullSource::File(file.into()),
        })
    }
}
