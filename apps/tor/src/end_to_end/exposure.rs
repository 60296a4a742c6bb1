//! Images of a target: Strehl ratios and long-exposure point-spread functions.

use super::elementary::sin_cos;
use crate::ARCSEC_PER_RADIAN;
use crate::image::Fft2;
use rustfft::num_complex::Complex64;

/// Images at one wavelength, summed over frames.
#[derive(Debug, Clone)]
struct Band {
    /// Wavelength in m.
    wavelength: f64,
    /// Sum over frames of `|mean exp(2 pi i w / wavelength)|^2`.
    strehl: f64,
    /// Sum of the images.
    image: Vec<f64>,
    images: u64,
}

/// The pupil as the images see it, shared by all targets.
#[derive(Debug)]
pub struct ImagePupil {
    /// Positions of the grid in the pupil.
    pub lit: Vec<usize>,
    /// Coordinates of these in m, piston, tip and tilt being fitted to them.
    places: Vec<[f64; 2]>,
    across: usize,
    /// Pixels across the images.
    size: usize,
    /// Diameter in m.
    diameter: f64,
    fft: Fft2,
}

impl ImagePupil {
    /// Prepares images of an annular pupil on `grid`, the centres of pixels.
    pub fn new(diameter: f64, obstruction: f64, grid: &super::PupilGrid) -> Self {
        let across = grid.xs.len();
        let place = |p: usize| [grid.xs[p % across], grid.ys[p / across]];
        let lit: Vec<usize> = (0..grid.len())
            .filter(|&p| {
                let [x, y] = place(p);
                let r = 2.0 * x.hypot(y) / diameter;
                r > obstruction && r <= 1.0
            })
            .collect();
        let places = lit.iter().map(|&p| place(p)).collect();
        // Twice the pupil is enough for the image's transfer function.
        let size = (2 * across..).find(|n| is_smooth(*n)).unwrap_or(2 * across);
        ImagePupil { lit, places, across, size, diameter, fft: Fft2::new(size) }
    }

    /// Returns the variance of a wavefront over the pupil, without piston.
    pub fn variance(&self, wavefront: &[f64]) -> f64 {
        let values: Vec<f64> = self.lit.iter().map(|p| wavefront[*p]).collect();
        variances(&values, &self.places)[0]
    }

    /// Returns the size across of images in pixels.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the pixel size in arcsec of images at a wavelength \[m\].
    pub fn pixel(&self, wavelength: f64) -> f64 {
        wavelength * self.across as f64 / (self.diameter * self.size as f64) * ARCSEC_PER_RADIAN
    }
}

/// Returns whether a number has no prime factors but 2, 3 and 5.
fn is_smooth(mut n: usize) -> bool {
    for p in [2, 3, 5] {
        while n.is_multiple_of(p) {
            n /= p;
        }
    }
    n == 1
}

/// Long exposure of one target.
#[derive(Debug, Clone)]
pub struct Exposure {
    bands: Vec<Band>,
    frames: u64,
    /// Sums over frames of the variance in m^2 without piston, and without piston, tip and tilt.
    variances: [f64; 2],
    /// Strehl ratio at the first wavelength of each frame.
    history: Vec<f32>,
    /// Variance in m^2 without piston of each frame.
    variance_history: Vec<f64>,
}

/// Figures of a long exposure at one wavelength.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct LongExposure {
    /// Wavelength in m.
    pub wavelength: f64,
    /// Strehl ratio, the mean over frames of the squared modulus of the mean of `exp(2 pi i w /
    /// wavelength)` over the pupil.
    pub strehl: f64,
    /// Diameter in arcsec of the circle with half of the energy of the image's field.
    pub half_energy_diameter: Option<f64>,
}

impl Exposure {
    /// Makes an exposure without a frame at these wavelengths \[m\].
    pub fn new(wavelengths: &[f64]) -> Self {
        let band = |&wavelength: &f64| Band { wavelength, strehl: 0.0, image: Vec::new(), images: 0 };
        Exposure {
            bands: wavelengths.iter().map(band).collect(),
            frames: 0,
            variances: [0.0; 2],
            history: Vec::new(),
            variance_history: Vec::new(),
        }
    }

    /// Adds a frame of the residual `wavefront` \[m\]; with `image`, its point-spread function,
    /// too.
    pub fn add(&mut self, pupil: &ImagePupil, wavefront: &[f64], image: bool) {
        let values: Vec<f64> = pupil.lit.iter().map(|p| wavefront[*p]).collect();
        let variances = variances(&values, &pupil.places);
        self.variances.iter_mut().zip(variances).for_each(|(sum, v)| *sum += v);
        self.variance_history.push(variances[0]);
        self.frames += 1;
        for (i, band) in self.bands.iter_mut().enumerate() {
            let strehl = band.add(pupil, &values, image);
            if i == 0 {
                self.history.push(strehl as f32);
            }
        }
    }

    /// Adds the frames of another exposure with the same wavelengths and pupil.
    pub fn append(&mut self, other: &Exposure) {
        self.frames += other.frames;
        self.variances.iter_mut().zip(other.variances).for_each(|(sum, v)| *sum += v);
        self.history.extend_from_slice(&other.history);
        self.variance_history.extend_from_slice(&other.variance_history);
        for (band, other) in self.bands.iter_mut().zip(&other.bands) {
            band.strehl += other.strehl;
            band.images += other.images;
            band.image.resize(band.image.len().max(other.image.len()), 0.0);
            band.image.iter_mut().zip(&other.image).for_each(|(sum, v)| *sum += v);
        }
    }

    /// Returns the number of frames.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns the Strehl ratio of each frame at the first wavelength.
    pub fn history(&self) -> &[f32] {
        &self.history
    }

    /// Returns the variance in m^2 of each frame, without piston.
    pub fn variances(&self) -> &[f64] {
        &self.variance_history
    }

    /// Returns the rms of the residual in nm: the root of the mean variance over frames, without
    /// piston, and without piston, tip and tilt. NaN without a frame.
    pub fn rms_nm(&self) -> [f64; 2] {
        self.variances.map(|sum| 1e9 * (sum / self.frames as f64).max(0.0).sqrt())
    }

    /// Returns the figures at each wavelength.
    pub fn figures(&self, pupil: &ImagePupil) -> Vec<LongExposure> {
        let figures = |band: &Band| LongExposure {
            wavelength: band.wavelength,
            strehl: band.strehl / self.frames as f64,
            half_energy_diameter: band.half_energy(pupil),
        };
        self.bands.iter().map(figures).collect()
    }

    /// Returns the mean image at wavelength number `band`, `size * size` pixels whose centre is at
    /// `(size / 2, size / 2)`, relative to the peak of a perfect one. Empty if there was no image.
    pub fn image(&self, band: usize) -> Vec<f64> {
        let band = &self.bands[band];
        band.image.iter().map(|v| v / band.images as f64).collect()
    }
}

impl Band {
    /// Adds a frame and returns its Strehl ratio.
    fn add(&mut self, pupil: &ImagePupil, values: &[f64], image: bool) -> f64 {
        let count = values.len() as f64;
        let (mut re, mut im) = (0.0, 0.0);
        let mut field = if image { vec![Complex64::default(); pupil.size * pupil.size] } else { Vec::new() };
        for (p, w) in pupil.lit.iter().zip(values) {
            let [sin, cos] = sin_cos(w / self.wavelength);
            (re, im) = (re + cos, im + sin);
            if image {
                let place = p % pupil.across + pupil.size * (p / pupil.across);
                field[place] = Complex64::new(cos / count, sin / count);
            }
        }
        if image {
            self.add_image(&pupil.fft.transform(field), pupil.size);
        }
        let strehl = (re * re + im * im) / (count * count);
        self.strehl += strehl;
        strehl
    }

    /// Adds the squared modulus of a transform that is transposed, with its origin in the middle.
    fn add_image(&mut self, transform: &[Complex64], size: usize) {
        self.image.resize(size * size, 0.0);
        let half = size / 2;
        for (y, row) in self.image.chunks_exact_mut(size).enumerate() {
            for (x, pixel) in row.iter_mut().enumerate() {
                *pixel += transform[(y + half) % size + size * ((x + half) % size)].norm_sqr();
            }
        }
        self.images += 1;
    }

    /// Returns the diameter in arcsec of the circle that holds half of the image's energy.
    fn half_energy(&self, pupil: &ImagePupil) -> Option<f64> {
        let size = pupil.size;
        let mut pixels: Vec<(f64, f64)> = self
            .image
            .iter()
            .enumerate()
            .map(|(p, v)| {
                let at = |k: usize| k as f64 - (size / 2) as f64;
                (at(p % size).hypot(at(p / size)), *v)
            })
            .collect();
        pixels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let half = 0.5 * pixels.iter().map(|p| p.1).sum::<f64>();
        let mut sum = 0.0;
        let found = pixels.iter().find(|(_, v)| {
            sum += v;
            sum >= half
        })?;
        Some(2.0 * found.0 * pupil.pixel(self.wavelength))
    }
}

/// Returns the variance of `values` without their mean, and without their best plane.
fn variances(values: &[f64], places: &[[f64; 2]]) -> [f64; 2] {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let (mut square, mut products, mut moments) = (0.0, [0.0; 2], [0.0; 3]);
    for (value, [x, y]) in values.iter().zip(places) {
        let v = value - mean;
        square += v * v;
        products = [products[0] + v * x, products[1] + v * y];
        moments = [moments[0] + x * x, moments[1] + x * y, moments[2] + y * y];
    }
    let [a, b, c] = moments;
    let det = a * c - b * b;
    let [p, q] = products;
    let explained = if det > 0.0 { (c * p * p - 2.0 * b * p * q + a * q * q) / det } else { 0.0 };
    [square / count, (square - explained).max(0.0) / count]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::end_to_end::PupilGrid;

    fn pupil() -> (PupilGrid, ImagePupil) {
        let grid = PupilGrid::centres(8.0, 64);
        let pupil = ImagePupil::new(8.0, 0.0, &grid);
        (grid, pupil)
    }

    #[test]
    fn a_flat_wavefront_has_a_perfect_image() {
        let (grid, pupil) = pupil();
        let mut exposure = Exposure::new(&[1.65e-6, 2.2e-6]);
        exposure.add(&pupil, &vec![3e-7; grid.len()], true);
        for (band, figures) in exposure.figures(&pupil).iter().enumerate() {
            assert!((figures.strehl - 1.0).abs() < 1e-10);
            let image = exposure.image(band);
            let size = pupil.size;
            assert!((image[size / 2 * (size + 1)] - 1.0).abs() < 1e-10);
            // Half of the energy of an Airy pattern is within 0.535 wavelength / diameter.
            let wanted = 1.07 * figures.wavelength / 8.0 * ARCSEC_PER_RADIAN;
            let found = figures.half_energy_diameter.unwrap();
            assert!((found / wanted - 1.0).abs() < 0.2, "{found} {wanted}");
        }
        assert!(exposure.rms_nm()[0] < 1e-3);
    }

    #[test]
    fn exposures_are_appended_frame_by_frame() {
        let (grid, pupil) = pupil();
        let frame =
            |k: usize| -> Vec<f64> { (0..grid.len()).map(|p| 1e-7 * ((p * k) as f64).sin()).collect() };
        let mut parts = [0, 1].map(|_| Exposure::new(&[1.65e-6]));
        let mut whole = Exposure::new(&[1.65e-6]);
        for k in 1..4 {
            whole.add(&pupil, &frame(k), k != 2);
            parts[k / 3].add(&pupil, &frame(k), k != 2);
        }
        let [mut first, second] = parts;
        first.append(&second);
        assert_eq!((first.frames(), first.figures(&pupil)), (3, whole.figures(&pupil)));
        assert_eq!((first.history(), first.variances()), (whole.history(), whole.variances()));
        assert!((first.rms_nm()[1] - whole.rms_nm()[1]).abs() < 1e-9);
    }

    #[test]
    fn a_tilt_moves_the_image_and_is_no_other_error() {
        let (grid, pupil) = pupil();
        let tilt = 4.0 * pupil.pixel(1.65e-6) / ARCSEC_PER_RADIAN;
        let wavefront: Vec<f64> = (0..grid.len()).map(|p| tilt * grid.ys[p / 64]).collect();
        let mut exposure = Exposure::new(&[1.65e-6]);
        exposure.add(&pupil, &wavefront, true);
        let image = exposure.image(0);
        let (size, peak) =
            (pupil.size, image.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0);
        assert_eq!([peak % size, peak / size], [size / 2, size / 2 + 4]);
        let [all, rest] = exposure.rms_nm();
        assert!(all > 100.0 && rest < 1e-3, "{all} {rest}");
    }
}
