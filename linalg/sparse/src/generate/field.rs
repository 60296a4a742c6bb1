//! Gaussian fields.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// Standard deviations of the smoothing, in cells.
const SMOOTHING: [f64; 3] = [4.0, 4.0, 2.0];
/// Cut-off of the smoothing, in standard deviations.
const REACH: f64 = 4.0;

/// Returns a field of mean 0 and variance 1 on cells, the last axis fastest.
pub(super) fn gaussian(cells: [usize; 3], seed: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut field: Vec<f64> = (0..cells.iter().product()).map(|_| StandardNormal.sample(&mut rng)).collect();
    for (axis, sigma) in SMOOTHING.into_iter().enumerate() {
        smooth(&mut field, cells, axis, sigma);
    }
    let n = field.len() as f64;
    let mean = field.iter().sum::<f64>() / n;
    let deviation = (field.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / n).sqrt();
    // A single cell does not vary.
    let to_one = if deviation > 0.0 { 1.0 / deviation } else { 0.0 };
    field.iter_mut().for_each(|g| *g = (*g - mean) * to_one);
    field
}

fn smooth(field: &mut [f64], cells: [usize; 3], axis: usize, sigma: f64) {
    let reach = (REACH * sigma).round() as isize;
    let weight = |k: isize| (-0.5 * (k as f64 / sigma).powi(2)).exp();
    let weights: Vec<f64> = (-reach..=reach).map(weight).collect();
    let sum: f64 = weights.iter().sum();
    let stride: usize = cells[axis + 1..].iter().product();
    let length = cells[axis];
    let mut line = vec![0.0; length];
    for block in field.chunks_exact_mut(stride * length) {
        for first in 0..stride {
            for (k, value) in line.iter_mut().enumerate() {
                *value = block[first + k * stride];
            }
            for k in 0..length {
                let at = |shift: usize| line[reflected(k as isize + shift as isize - reach, length)];
                let smooth: f64 = weights.iter().enumerate().map(|(shift, w)| w * at(shift)).sum();
                block[first + k * stride] = smooth / sum;
            }
        }
    }
}

/// Returns the index within `length` that an index beyond its ends mirrors: `b a | a b c | c b`.
fn reflected(k: isize, length: usize) -> usize {
    let k = k.rem_euclid(2 * length as isize) as usize;
    if k < length { k } else { 2 * length - 1 - k }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_mean_0_variance_1_and_neighbours_alike() {
        let cells = [30, 20, 10];
        let field = gaussian(cells, 3);
        let n = field.len() as f64;
        let mean = field.iter().sum::<f64>() / n;
        let variance = field.iter().map(|g| g * g).sum::<f64>() / n;
        assert!(mean.abs() < 1e-12 && (variance - 1.0).abs() < 1e-12);
        // Smoothing with deviation s makes neighbours correlate as exp(-1 / (4 s^2)): 0.94 along
        // the last axis, where s is 2.
        let alike: f64 = field.chunks_exact(10).flat_map(|line| line.windows(2)).map(|w| w[0] * w[1]).sum();
        assert!((0.85..0.99).contains(&(alike / (n * 0.9))), "{}", alike / (n * 0.9));
        assert_eq!(field, gaussian(cells, 3));
        assert_ne!(field, gaussian(cells, 4));
        assert_eq!(gaussian([1, 1, 1], 0), [0.0]);
    }

    #[test]
    fn ends_reflect() {
        assert_eq!([-3, -2, -1, 0, 2, 3, 4, 7].map(|k| reflected(k, 3)), [2, 1, 0, 0, 2, 2, 1, 1]);
    }
}
