//! Two-dimensional FFTs of square images on one thread.

use rustfft::num_complex::Complex64;
use rustfft::{Fft, FftPlanner};
use std::sync::Arc;

/// Plans for square images of one size.
pub(crate) struct Fft2 {
    size: usize,
    forward: Arc<dyn Fft<f64>>,
    inverse: Arc<dyn Fft<f64>>,
}

impl std::fmt::Debug for Fft2 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fft2").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Fft2 {
    pub(crate) fn new(size: usize) -> Self {
        let mut planner = FftPlanner::new();
        Fft2 { size, forward: planner.plan_fft_forward(size), inverse: planner.plan_fft_inverse(size) }
    }

    /// Transforms a real image. The result is transposed, which does not matter because callers
    /// treat all images alike.
    pub(crate) fn forward(&self, image: &[f64]) -> Vec<Complex64> {
        self.transform(image.iter().map(|&x| Complex64::new(x, 0.0)).collect())
    }

    /// Transforms a complex image; the result is transposed, too.
    pub(crate) fn transform(&self, mut data: Vec<Complex64>) -> Vec<Complex64> {
        self.both(&self.forward, &mut data);
        data
    }

    /// Computes the inverse of [`Fft2::forward`], normalised by `1 / size^2`; returns the real
    /// part.
    pub(crate) fn inverse(&self, mut data: Vec<Complex64>) -> Vec<f64> {
        self.both(&self.inverse, &mut data);
        let scale = 1.0 / (self.size * self.size) as f64;
        data.iter().map(|z| z.re * scale).collect()
    }

    fn both(&self, fft: &Arc<dyn Fft<f64>>, data: &mut [Complex64]) {
        fft.process(data);
        transpose(data, self.size);
        fft.process(data);
    }
}

/// Number of rows and columns whose cache lines are used together.
const BLOCK: usize = 16;

fn transpose(data: &mut [Complex64], n: usize) {
    for first in (0..n).step_by(BLOCK) {
        for other in (0..=first).step_by(BLOCK) {
            for i in first..(first + BLOCK).min(n) {
                for j in other..(other + BLOCK).min(i) {
                    data.swap(i * n + j, j * n + i);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverse_undoes_forward() {
        let n = 36;
        let image: Vec<f64> = (0..n * n).map(|k| ((k * 7919) % 101) as f64).collect();
        let fft = Fft2::new(n);
        let back = fft.inverse(fft.forward(&image));
        assert!(image.iter().zip(&back).all(|(a, b)| (a - b).abs() < 1e-10));
    }
}
