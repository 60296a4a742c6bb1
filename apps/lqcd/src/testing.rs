//! Random fields for tests.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::gauge::Gauge;
use crate::geometry::Geometry;
use crate::su3::{Matrix, from_numbers};

/// Returns `count` random matrices in SU(3).
pub(crate) fn random_matrices(count: usize, seed: u64) -> Vec<Matrix> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|_| from_numbers(|| random.random_range(-1.0..1.0))).collect()
}

/// Returns a gauge field of random matrices.
pub(crate) fn random_gauge(geometry: Geometry, seed: u64) -> Gauge {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    Gauge::from_fn(geometry, |_, _| from_numbers(|| random.random_range(-1.0..1.0)))
}
