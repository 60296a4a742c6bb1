//! The stationary long-exposure image.
//!
//! `Cvv` is averaged over equal actuator offsets. Convolved with the autocorrelation of the
//! influence function it gives the covariance `C(r)` of the residual phase. From `C` follow the
//! structure function `2 (2 pi / lambda)^2 (C(0) - C(r))` and the optical transfer function
//! `OTF_telescope exp(-D/2)`. With `OTF_telescope` (autocorrelation of the pupil) normalised to the
//! sum 1, the sum of the product is the Strehl ratio.
//!
//! At large offsets the average is over few pairs, and it is not necessarily a covariance function.
//! If the error is concentrated in one place, `C(r) > C(0)`. The structure function is then below
//! 0, and its exponential grows without bound. But `exp(-D/2)` is the modulus of a mean of phasors,
//! at most 1. `D` is therefore taken as 0 there, and [`Psf::contradiction`] is the fraction of the
//! transfer function for which this happened.

use super::fft::Fft2;
use super::{check_cvv, sampled};
use crate::dm::{DeformableMirror, STROKE};
use crate::system::{Atmosphere, System};
use crate::turbulence::{Table, k1};
use crate::{Error, Matrix};
use std::f64::consts::PI;

/// A long-exposure image.
#[derive(Debug, Clone)]
pub struct Psf {
    /// Number of pixels across.
    pub size: usize,
    /// Size of one pixel on the sky in arcsec.
    pub pixel: f64,
    /// The image, row by row (y outer), peak of the diffraction-limited image = 1, centre at
    /// `(size/2, size/2)`.
    pub image: Vec<f64>,
    /// Strehl ratio: the image's value at the centre.
    pub strehl: f64,
    /// rms wavefront error in nm of the stationary residual, `sqrt(C(0))`.
    pub wfe_nm: f64,
    /// Fraction of the telescope's transfer function, 0 to 1, on which the averaged residual has a
    /// structure function below 0. If it is above 0 the residual is far from stationary, and
    /// `strehl` and `image` are not meaningful.
    pub contradiction: f64,
}

/// Sampling of the pupil plane: `size` pixels of `pixel` m, `step` pixels per actuator pitch.
pub(super) struct Sampling {
    pub(super) size: usize,
    step: usize,
    pixel: f64,
}

/// Returns the number of pixels across the image of a system.
pub fn size(system: &System) -> usize {
    Sampling::new(system).size
}

impl Sampling {
    fn new(system: &System) -> Self {
        let across = (system.nssp + 1) as f64;
        let size = 512.max(8 << (across.log2() + 0.5) as usize);
        let pitch = system.diameter / system.nssp as f64;
        let step = (pitch / (3.0 * system.diameter / size as f64) + 1.0) as usize;
        Sampling { size, step, pixel: pitch / step as f64 }
    }

    /// Returns the distance of index `k` from the origin in pixels. The origin is index 0 and the
    /// image is periodic.
    fn distance(&self, k: usize) -> f64 {
        if k <= self.size / 2 { k as f64 } else { k as f64 - self.size as f64 }
    }

    fn wrap(&self, k: isize) -> usize {
        k.rem_euclid(self.size as isize) as usize
    }

    /// Returns the pixels of the pupil with their positions in pupil radii.
    pub(super) fn pupil(&self, system: &System) -> Vec<(usize, [f64; 2])> {
        let radius = system.diameter / 2.0;
        let at = |k: usize| self.distance(k) * self.pixel / radius;
        let place = |k: usize| (k, [at(k % self.size), at(k / self.size)]);
        let inside = |(_, [x, y]): &(usize, [f64; 2])| {
            let r = x.hypot(*y);
            r > system.obstruction && r <= 1.0
        };
        (0..self.size * self.size).map(place).filter(inside).collect()
    }

    /// Computes the transfer function of the telescope, origin at index 0, sum 1.
    fn telescope(&self, system: &System, fft: &Fft2) -> Vec<f64> {
        let mut pupil = vec![0.0; self.size * self.size];
        self.pupil(system).iter().for_each(|(k, _)| pupil[*k] = 1.0);
        let mut spectrum = fft.forward(&pupil);
        for z in &mut spectrum {
            *z = (z.norm_sqr()).into();
        }
        let mut otf = fft.inverse(spectrum);
        // The values are numbers of pairs of pupil pixels. Rounding removes the FFT's errors, so
        // that the function is 0 beyond the largest distance.
        otf.iter_mut().for_each(|v| *v = v.round());
        let sum: f64 = otf.iter().sum();
        for v in &mut otf {
            *v /= sum;
        }
        otf
    }
}

impl Sampling {
    /// Computes the image of a transfer function, for a residual of `variance` m^2.
    fn image(&self, system: &System, fft: &Fft2, otf: &[f64], variance: f64, contradiction: f64) -> Psf {
        let n = self.size;
        // The transform of an even function is real; the origin is moved to the centre.
        let spectrum = fft.forward(otf);
        let mut image = vec![0.0; n * n];
        for y in 0..n {
            for x in 0..n {
                // `forward` returns the transform transposed.
                image[(x + n / 2) % n + n * ((y + n / 2) % n)] = spectrum[y + n * x].re;
            }
        }
        Psf {
            size: n,
            pixel: system.wavelength / (n as f64 * self.pixel) * crate::ARCSEC_PER_RADIAN,
            image,
            strehl: otf.iter().sum(),
            wfe_nm: variance.max(0.0).sqrt() * 1e9,
            contradiction,
        }
    }
}

/// Computes the stationary image of a residual `cvv` \[volts^2\] on the given mirror, at the
/// system's imaging wavelength.
///
/// # Errors
/// `cvv` does not fit the mirror or is not finite.
pub fn psf(system: &System, mirror: &DeformableMirror, cvv: &Matrix) -> Result<Psf, Error> {
    check_cvv(cvv, mirror)?;
    let s = Sampling::new(system);
    let n = s.size;
    let fft = Fft2::new(n);
    if let Some(functions) = mirror.sampled() {
        let structure = sampled::structure_function(functions, &s.pupil(system), cvv, n, &fft)?;
        let k2 = (2.0 * PI / system.wavelength).powi(2);
        let mut otf = s.telescope(system, &fft);
        otf.iter_mut().zip(&structure.values).for_each(|(v, d)| *v *= (-0.5 * k2 * d).exp());
        return Ok(s.image(system, &fft, &otf, structure.variance, 0.0));
    }

    let across = mirror.across as isize;
    let side = 2 * across - 1;
    let mut sums = vec![(0.0, 0u32); (side * side) as usize];
    let linear: Vec<isize> = mirror.cells.iter().map(|c| c[0] as isize + c[1] as isize * side).collect();
    let centre = (across - 1) * (side + 1);
    for (j, lj) in linear.iter().enumerate() {
        for (v, li) in cvv.col(j).iter().zip(&linear) {
            let slot = &mut sums[(centre + li - lj) as usize];
            slot.0 += v;
            slot.1 += 1;
        }
    }
    let mut map = vec![0.0; n * n];
    for (k, (sum, count)) in sums.iter().enumerate().filter(|(_, s)| s.1 > 0) {
        let dx = k as isize % side - (across - 1);
        let dy = k as isize / side - (across - 1);
        map[s.wrap(dx * s.step as isize) + n * s.wrap(dy * s.step as isize)] = sum / f64::from(*count);
    }

    let radius = system.diameter / 2.0;
    let line: Vec<f64> = (0..n).map(|k| mirror.profile(s.distance(k) * s.pixel / radius)).collect();
    let influence: Vec<f64> = (0..n * n).map(|k| STROKE * line[k % n] * line[k / n]).collect();
    let influence = fft.forward(&influence);
    let mut spectrum = fft.forward(&map);
    let per_cell = 1.0 / (s.step * s.step) as f64;
    for (z, f) in spectrum.iter_mut().zip(&influence) {
        *z *= f.norm_sqr() * per_cell;
    }
    let covariance = fft.inverse(spectrum);

    let k2 = (2.0 * PI / system.wavelength).powi(2);
    let mut otf = s.telescope(system, &fft);
    // Rounding error of the FFTs in a structure function of 0.
    let rounding = 1e-12 * k2 * covariance.iter().fold(0.0, |most: f64, c| most.max(c.abs()));
    let mut contradiction = 0.0;
    for (v, c) in otf.iter_mut().zip(&covariance) {
        let exponent = -k2 * (covariance[0] - c);
        if exponent > rounding {
            contradiction += *v;
        }
        *v *= exponent.min(0.0).exp();
    }
    Ok(s.image(system, &fft, &otf, covariance[0], contradiction))
}

/// Returns the Strehl ratio at the system's imaging wavelength without any correction, as a
/// baseline for the reconstructor.
pub fn uncorrected(system: &System, atmosphere: &Atmosphere) -> f64 {
    let s = Sampling::new(system);
    let fft = Fft2::new(s.size);
    let otf = s.telescope(system, &fft);
    let table = Table::get();
    let chromatic = (500e-9 / system.wavelength).powi(2);
    let mut sum = 0.0;
    for (k, v) in otf.iter().enumerate() {
        let (x, y) = (s.distance(k % s.size) * s.pixel, s.distance(k / s.size) * s.pixel);
        let r2 = x * x + y * y;
        let d: f64 = atmosphere
            .layers
            .iter()
            .map(|l| {
                let stretch = (2.0 * PI / l.outer_scale).powi(2);
                l.cn2 * k1() * l.outer_scale.powf(5.0 / 3.0) * table.g_of_square(r2 * stretch)
            })
            .sum();
        sum += v * (-0.5 * chromatic * d).exp();
    }
    sum
}
