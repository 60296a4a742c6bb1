//! Reference figures of merit in `f64`.

use super::block::{Block, THOUSAND};

/// Returns the sum of `|1000 b - v|^p` over the samples of a point: eq. (5.1) of the formulas in
/// `docs/explanation/psa-search.md`, channel after channel.
pub(in crate::search) fn figure_of_merit(block: &Block, point: usize, event: &[f64], p: f64) -> f64 {
    let difference = |(term, v): (usize, &f64)| (f64::from(block.sample(point, term)) * THOUSAND - v).abs();
    power_sum(event.iter().enumerate().map(difference), p)
}

/// Returns the sum of the `p`-th powers of magnitudes, one after the other.
pub(in crate::search) fn power_sum(magnitudes: impl Iterator<Item = f64>, p: f64) -> f64 {
    if p == 0.25 {
        magnitudes.map(|d| d.sqrt().sqrt()).sum()
    } else if p == 0.5 {
        magnitudes.map(f64::sqrt).sum()
    } else if p == 1.0 {
        magnitudes.sum()
    } else if p == 2.0 {
        magnitudes.map(|d| d * d).sum()
    } else {
        magnitudes.map(|d| d.powf(p)).sum()
    }
}
