//! Noise of slopes and of detector pixels.

use crate::end_to_end::random::{CounterRandom, RandomSequence};
use crate::noise::SlopeNoise;

/// Mean above which a Poisson number is drawn as a normal one, rounded. Their skewness is 0.125
/// there, and less above.
pub(super) const LARGEST_EXACT_MEAN: f64 = 64.0;

/// Distinguishes the noise of sensors from turbulence of the same seed.
const SENSOR_NOISE: u64 = 0x5e45;

/// Returns the random numbers of the sensor of a star.
pub(super) fn random(seed: u64, star: usize) -> CounterRandom {
    CounterRandom::new(seed, &[SENSOR_NOISE, star as u64])
}

/// Normal noise of slopes, correlated between x and y.
#[derive(Debug)]
pub(super) struct NormalSlopeNoise {
    /// Cholesky factor `[l11, l21, l22]` of each sub-aperture, in arcsec.
    factors: Vec<[f64; 3]>,
    random: CounterRandom,
}

impl NormalSlopeNoise {
    pub(super) fn new(noise: &[SlopeNoise], seed: u64, star: usize) -> Self {
        let factor = |n: &SlopeNoise| {
            let first = n.xx.sqrt();
            let mixed = if first > 0.0 { n.xy / first } else { 0.0 };
            [first, mixed, (n.yy - mixed * mixed).max(0.0).sqrt()]
        };
        NormalSlopeNoise { factors: noise.iter().map(factor).collect(), random: random(seed, star) }
    }

    /// Adds the noise of a frame.
    pub(super) fn add(&self, frame: u64, out: &mut [f64]) {
        let sequence = self.random.sequence(frame);
        let (x, y) = out.split_at_mut(self.factors.len());
        for (i, ([a, b, c], (x, y))) in self.factors.iter().zip(x.iter_mut().zip(y)).enumerate() {
            let [p, q] = sequence.normals(i as u64);
            *x += a * p;
            *y += b * p + c * q;
        }
    }
}

/// Adds noise to the means of pixels: Poisson numbers if `photon_noise`, and the read noise. The
/// first pixel is the first one of pair `first`.
#[inline(always)]
pub(super) fn add_noise(
    sequence: RandomSequence,
    first: u64,
    pixels: &mut [f64],
    photon_noise: bool,
    read_noise: f64,
) {
    // Eight uniform numbers for two pixels: two for Poisson numbers, a pair for the read noise, and
    // a pair for the light of each bright pixel.
    if photon_noise {
        for (k, value) in (0..).zip(pixels.iter_mut()) {
            let n = first + k / 2;
            *value = if *value < LARGEST_EXACT_MEAN {
                poisson(sequence.uniform(8 * n + k % 2), *value)
            } else {
                (*value + value.sqrt() * sequence.normals(4 * n + 2 + k % 2)[0]).round().max(0.0)
            };
        }
    }
    if read_noise > 0.0 {
        for (n, pair) in (first..).zip(pixels.chunks_mut(2)) {
            for (value, read) in pair.iter_mut().zip(sequence.normals(4 * n + 1)) {
                *value += read_noise * read;
            }
        }
    }
}

/// Returns the Poisson number whose cumulative probability is the first one above `uniform`.
pub(super) fn poisson(uniform: f64, mean: f64) -> f64 {
    let mut probability = (-mean).exp();
    let mut rest = uniform - probability;
    let mut count = 0.0;
    while rest >= 0.0 && probability > 0.0 {
        count += 1.0;
        probability *= mean / count;
        rest -= probability;
    }
    count
}
