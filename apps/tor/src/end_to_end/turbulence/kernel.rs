//! The kernel that converts white noise to the coefficients of a screen.
//!
//! Lengths are in pixels. A screen is a cubic B-spline, with one coefficient at each whole
//! position. The coefficients are white noise of variance 1 convolved with the kernel.

use crate::image::Fft2;
use crate::turbulence::{Table, k1, k2};
use rustfft::num_complex::Complex64;
use std::f64::consts::{PI, TAU};

/// Side of the transforms.
pub(super) const SIDE: usize = 400;
/// Reach of the kernel.
pub(super) const MARGIN: usize = 80;
/// Side of a tile: the part of a transform that the kernel reaches from inside.
pub(super) const TILE: usize = SIDE - 2 * MARGIN;
/// Largest outer scale that one level holds. The kernel falls as `exp(-2 pi r / outer)`, to
/// `exp(-7.9)` at its reach.
pub(super) const LARGEST_OUTER_SCALE: f64 = 64.0;
/// Ratio of the pixels of neighbouring levels.
pub(super) const COARSENING: f64 = 4.0;
/// Width in pixels of the kernel's edge, in which it falls to 0.
const EDGE: f64 = 16.0;

/// Transform of a kernel. The noise's transform is multiplied by it.
#[derive(Debug)]
pub(super) struct Kernel {
    transform: Vec<f64>,
}

impl Kernel {
    /// Computes the kernel of the von Karman spectrum of `outer_scale`, less that of
    /// `finer_outer_scale` (0: nothing), for a strength of 1 per pixel^(5/3), in rad at 500 nm.
    ///
    /// The spectrum of the screen follows from the samples of the covariance, so that the power
    /// above the sampling frequency is kept. Averaged over the positions between pixels, the screen
    /// then has the exact structure function at whole separations.
    pub(super) fn new(fft: &Fft2, outer_scale: f64, finer_outer_scale: f64) -> Self {
        let distance = |k: usize| k.min(SIDE - k) as f64;
        let squared = |k: usize| distance(k % SIDE).powi(2) + distance(k / SIDE).powi(2);
        let samples: Vec<f64> = (0..SIDE * SIDE)
            .map(|k| covariance(squared(k), outer_scale) - covariance(squared(k), finer_outer_scale))
            .collect();
        let spline: Vec<f64> = (0..SIDE).map(spline_power).collect();
        let amplitude: Vec<Complex64> = (fft.forward(&samples).iter().enumerate())
            .map(|(k, z)| (z.re / (spline[k % SIDE] * spline[k / SIDE])).max(0.0).sqrt().into())
            .collect();
        let mut kernel = fft.inverse(amplitude);
        for (k, value) in kernel.iter_mut().enumerate() {
            *value *= edge(squared(k).sqrt());
        }
        Kernel { transform: fft.forward(&kernel).iter().map(|z| z.re).collect() }
    }

    /// Returns the middle part of the convolution of `SIDE x SIDE` noise with the kernel, times
    /// `amplitude`: `TILE x TILE` values.
    pub(super) fn convolve(&self, fft: &Fft2, noise: &[f64], amplitude: f64) -> Vec<f64> {
        let mut transform = fft.forward(noise);
        for (z, k) in transform.iter_mut().zip(&self.transform) {
            *z *= k * amplitude;
        }
        let whole = fft.inverse(transform);
        let rows = whole.chunks_exact(SIDE).skip(MARGIN).take(TILE);
        rows.flat_map(|row| &row[MARGIN..MARGIN + TILE]).copied().collect()
    }

    /// Returns the covariance of coefficients by their offset, x fastest, negative offsets at the
    /// end.
    #[cfg(test)]
    pub(super) fn covariance(&self, fft: &Fft2) -> Vec<f64> {
        fft.inverse(self.transform.iter().map(|k| (k * k).into()).collect())
    }
}

/// Returns the von Karman covariance at the squared separation, for a strength of 1.
fn covariance(squared: f64, outer_scale: f64) -> f64 {
    if outer_scale == 0.0 {
        return 0.0;
    }
    let g = Table::get().g_of_square(squared * (TAU / outer_scale).powi(2));
    0.5 * k1() * outer_scale.powf(5.0 / 3.0) * (k2() - g)
}

/// Returns the power of the cubic B-spline at frequency `k / SIDE` and its images: the transform of
/// its autocorrelation at whole offsets.
fn spline_power(k: usize) -> f64 {
    let cos = |m: f64| (TAU * m * k as f64 / SIDE as f64).cos();
    (2416.0 + 2.0 * (1191.0 * cos(1.0) + 120.0 * cos(2.0) + cos(3.0))) / 5040.0
}

/// Returns the factor of the kernel at distance `r` from its centre.
fn edge(r: f64) -> f64 {
    let depth = (MARGIN as f64 - r) / EDGE;
    if depth <= 0.0 { 0.0 } else { (0.5 * PI * depth.min(1.0)).sin().powi(2) }
}
