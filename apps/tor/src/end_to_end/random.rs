//! Random numbers by a counter, so that a number depends on nothing but its place.

use super::elementary::{ln, sin_cos};
use zellige_runtime::internal::splitmix::{STEP, scramble};

/// A family of sequences of random numbers, one for each counter.
#[derive(Debug, Clone, Copy)]
pub(super) struct CounterRandom {
    key: u64,
}

impl CounterRandom {
    /// Returns the family of a seed and of the numbers that distinguish it from the others of this
    /// seed. Neighbouring seeds and numbers give independent families.
    pub(super) fn new(seed: u64, numbers: &[u64]) -> Self {
        let start = scramble(seed.wrapping_add(STEP));
        CounterRandom { key: numbers.iter().fold(start, |key, &n| next(key, n)) }
    }

    /// Returns the sequence of a counter.
    pub(super) fn sequence(self, counter: u64) -> RandomSequence {
        RandomSequence { state: next(self.key, counter) }
    }
}

/// A sequence of random numbers with random access: `SplitMix64` from a state that is itself
/// random.
#[derive(Debug, Clone, Copy)]
pub(super) struct RandomSequence {
    state: u64,
}

impl RandomSequence {
    /// Returns number `n`, uniform in `[0, 1)`.
    #[inline(always)]
    pub(super) fn uniform(self, n: u64) -> f64 {
        (self.word(n) >> 11) as f64 * TO_UNIT
    }

    /// Returns two independent normal numbers of variance 1 (Box and Muller) from the uniform
    /// numbers `2 n` and `2 n + 1`.
    #[inline(always)]
    pub(super) fn normals(self, n: u64) -> [f64; 2] {
        let first = n.wrapping_mul(2);
        let positive = ((self.word(first) >> 11) + 1) as f64 * TO_UNIT;
        let [sin, cos] = sin_cos(self.uniform(first.wrapping_add(1)));
        let radius = (-2.0 * ln(positive)).sqrt();
        [radius * cos, radius * sin]
    }

    #[inline(always)]
    fn word(self, n: u64) -> u64 {
        next(self.state, n)
    }
}

/// Returns number `n` after a state.
#[inline(always)]
fn next(state: u64, n: u64) -> u64 {
    scramble(state.wrapping_add(n.wrapping_add(1).wrapping_mul(STEP)))
}

const TO_UNIT: f64 = 1.0 / (1u64 << 53) as f64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_numbers_have_the_moments_of_the_normal_distribution() {
        let family = CounterRandom::new(1, &[2, 3]);
        let numbers: Vec<f64> =
            (0..400).flat_map(|row| (0..250).flat_map(move |n| family.sequence(row).normals(n))).collect();
        let moment = |k: i32| numbers.iter().map(|x| x.powi(k)).sum::<f64>() / numbers.len() as f64;
        // Variances of x, x^2, x^3 and x^4 are 1, 2, 15 and 96.
        let error = (1.0 / numbers.len() as f64).sqrt();
        for (k, wanted, variance) in [(1, 0.0, 1.0f64), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
            assert!((moment(k) - wanted).abs() < 4.0 * error * variance.sqrt(), "{k}: {}", moment(k));
        }
    }

    #[test]
    fn neighbouring_seeds_numbers_and_counters_are_independent() {
        let draw = |seed, layer, row| -> Vec<f64> {
            let sequence = CounterRandom::new(seed, &[layer, 0]).sequence(row);
            (0..20_000).map(|n| sequence.normals(n)[0]).collect()
        };
        let first = draw(1, 2, 3);
        for other in [draw(2, 1, 3), draw(1, 3, 2), draw(2, 3, 1), draw(1, 2, 4), draw(3, 2, 1)] {
            let product: f64 = first.iter().zip(&other).map(|(a, b)| a * b).sum::<f64>() / 20_000.0;
            assert!(product.abs() < 4.0 / 20_000f64.sqrt(), "{product}");
        }
        assert_eq!(first, draw(1, 2, 3));
    }
}
