//! Reference figures of merit in `f64`, or in numbers in its place.

use std::iter::Sum;
use std::ops::{Mul, Sub};

use zellige_stochastic::{Samples, Stochastic};

use super::block::{Block, THOUSAND};

/// Number in which a figure of merit is summed: `f64`, or a stochastic one.
pub(in crate::search) trait Figure:
    Copy + From<f64> + Sub<f64, Output = Self> + Mul<Output = Self> + Sum
{
    fn magnitude(self) -> Self;
    fn root(self) -> Self;
    fn power(self, p: f64) -> Self;
}

impl Figure for f64 {
    fn magnitude(self) -> f64 {
        self.abs()
    }
    fn root(self) -> f64 {
        self.sqrt()
    }
    fn power(self, p: f64) -> f64 {
        self.powf(p)
    }
}

impl<S: Samples> Figure for Stochastic<f64, S> {
    #[inline(always)]
    fn magnitude(self) -> Self {
        self.abs()
    }
    #[inline(always)]
    fn root(self) -> Self {
        self.sqrt()
    }
    #[inline(always)]
    fn power(self, p: f64) -> Self {
        self.powf(p.into())
    }
}

/// Returns the sum of `|1000 b - v|^p` over the samples of a point: eq. (5.1) of the formulas in
/// `docs/explanation/psa-search.md`, channel after channel.
#[inline(always)]
pub(in crate::search) fn figure_of_merit<N: Figure>(block: &Block, point: usize, event: &[f64], p: f64) -> N {
    // The product is exact: a sample has 24 bits.
    let difference = |(term, v): (usize, &f64)| {
        (N::from(f64::from(block.sample(point, term)) * THOUSAND) - *v).magnitude()
    };
    power_sum(event.iter().enumerate().map(difference), p)
}

/// Returns the sum of the `p`-th powers of magnitudes, one after the other.
#[inline(always)]
pub(in crate::search) fn power_sum<N: Figure>(magnitudes: impl Iterator<Item = N>, p: f64) -> N {
    if p == 0.25 {
        magnitudes.map(|d| d.root().root()).sum()
    } else if p == 0.5 {
        magnitudes.map(N::root).sum()
    } else if p == 1.0 {
        magnitudes.sum()
    } else if p == 2.0 {
        magnitudes.map(|d| d * d).sum()
    } else {
        magnitudes.map(|d| d.power(p)).sum()
    }
}
