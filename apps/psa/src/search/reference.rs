//! Figures of merit in `f64`.

use super::THOUSAND;
use super::block::Block;

/// The sum of `|1000 b - v|^p` over the samples of a point: eq. (5.1) of the formulas in `docs/psa.md`, channel after channel.
pub(super) fn figure_of_merit(block: &Block, point: usize, event: &[f64], p: f64) -> f64 {
    let difference = |(term, v): (usize, &f64)| (f64::from(block.sample(point, term)) * THOUSAND - v).abs();
    let differences = event.iter().enumerate().map(difference);
    if p == 0.25 {
        differences.map(|d| d.sqrt().sqrt()).sum()
    } else if p == 0.5 {
        differences.map(f64::sqrt).sum()
    } else if p == 1.0 {
        differences.sum()
    } else if p == 2.0 {
        differences.map(|d| d * d).sum()
    } else {
        differences.map(|d| d.powf(p)).sum()
    }
}
