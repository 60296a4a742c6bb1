//! Digits of the results of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::sample::Sample;
use crate::samples::Samples;
use crate::{Report, Stochastic};

/// Exact digits of each number of one result: rows, tiles, channels or sites.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct DigitMap {
    /// Result, as `x` or `pivots of the factor`.
    pub name: String,
    /// Word for one row of the map, as `row` or `tile`, which texts use with its number.
    pub unit: String,
    /// Rows and columns of the map; a vector has one column.
    pub shape: [usize; 2],
    /// Digits row by row.
    pub digits: Vec<u8>,
    /// Digits that the type of the samples holds.
    pub all: u8,
}

impl DigitMap {
    /// The digits of the numbers of a vector.
    pub fn of_vector<T: Sample, S: Samples>(
        name: &str,
        unit: &str,
        numbers: &[Stochastic<T, S>],
    ) -> DigitMap {
        let digits = numbers.iter().map(|x| x.digits() as u8).collect();
        DigitMap::new(name, unit, [numbers.len(), 1], digits, T::DIGITS as u8)
    }

    /// Digits of a map of any shape.
    ///
    /// # Panics
    /// If there are not `shape[0] * shape[1]` digits.
    pub fn new(name: &str, unit: &str, shape: [usize; 2], digits: Vec<u8>, all: u8) -> DigitMap {
        assert_eq!(digits.len(), shape[0] * shape[1], "digits of a map of {} x {}", shape[0], shape[1]);
        DigitMap { name: name.to_owned(), unit: unit.to_owned(), shape, digits, all }
    }

    /// Fewest digits, and the row and column of the first number that has them; None if empty.
    pub fn worst(&self) -> Option<(u8, [usize; 2])> {
        let (at, &digits) = self.digits.iter().enumerate().min_by_key(|&(at, &digits)| (digits, at))?;
        Some((digits, [at / self.shape[1], at % self.shape[1]]))
    }

    /// The digits that half of the numbers have at least; None if empty.
    pub fn median(&self) -> Option<u8> {
        let mut sorted = self.digits.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len().saturating_sub(1) / 2).copied()
    }

    /// Count of the numbers with each number of digits.
    pub fn histogram(&self) -> BTreeMap<u8, usize> {
        let mut counts = BTreeMap::new();
        for &digits in &self.digits {
            *counts.entry(digits).or_default() += 1;
        }
        counts
    }
}

/// Digits of the results of a run, its instabilities, and what follows from them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Trust {
    /// Samples of each number.
    pub samples: usize,
    /// Seed of the random rounding.
    pub seed: u64,
    /// Digits of each result.
    pub maps: Vec<DigitMap>,
    /// True if the tolerance was reached; null for runs without one.
    pub converged: Option<bool>,
    /// Operations that cannot be trusted.
    pub instabilities: Report,
    /// Consequences in full sentences, the most important first.
    pub conclusions: Vec<String>,
    /// Seconds of the plain run, where one was made.
    pub plain_seconds: Option<f64>,
    /// Seconds of the stochastic run.
    pub seconds: f64,
}

/// Settings of a run that judges the digits of its results.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrustOptions {
    /// Samples of each number: 3, 8 or 16.
    pub samples: usize,
    /// Seed of the random rounding.
    pub seed: u64,
}

impl Default for TrustOptions {
    fn default() -> TrustOptions {
        TrustOptions { samples: 8, seed: 0 }
    }
}

/// Work that is compiled for each number of samples, see [`TrustOptions::dispatch`].
pub trait WithSamples {
    /// Result of the work.
    type Output;
    /// Runs the work on numbers of `S` samples.
    fn run<S: Samples>(self) -> Self::Output;
}

impl TrustOptions {
    /// Runs `work` on numbers of as many samples as the options say.
    ///
    /// # Panics
    /// If that is none of 3, 8 and 16: callers check what a user gives.
    pub fn dispatch<W: WithSamples>(&self, work: W) -> W::Output {
        match self.samples {
            3 => work.run::<crate::Three>(),
            8 => work.run::<crate::Eight>(),
            16 => work.run::<crate::Sixteen>(),
            other => panic!("{other} samples: 3, 8 or 16 are possible"),
        }
    }
}
