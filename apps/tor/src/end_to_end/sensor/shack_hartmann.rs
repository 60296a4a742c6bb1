//! The diffractive Shack-Hartmann sensor.
//!
//! The image of a lenslet is the Fourier transform of its field at the directions of the detector's
//! pixels: it equals that of a zero-padded FFT, for pixels of any size and number. Light outside of
//! the detector's field is lost (a field stop).

use super::noise::{add_noise, random};
use super::{WavefrontSensor, check_lengths};
use crate::end_to_end::elementary::sin_cos;
use crate::end_to_end::grid::PupilGrid;
use crate::end_to_end::random::{CounterRandom, RandomSequence};
use crate::geometry::SubApertures;
use crate::noise::{electrons, laser_spots};
use crate::system::{Photometry, StarKind, System};
use crate::{ARCSEC_PER_RADIAN, Error};
use std::f64::consts::PI;
use zellige_stochastic::vectorize;

/// Samples whose sums stay in registers.
const LANES: usize = 16;

/// Parameters of a diffractive sensor.
#[derive(Debug, Clone, PartialEq)]
pub struct ShackHartmannSettings {
    /// Wavelength in m.
    pub wavelength: f64,
    /// Pupil pixels across a lenslet.
    pub pupil_pixels: usize,
    /// Detector pixels across a lenslet's image.
    pub pixels: usize,
    /// Size of a detector pixel in arcsec.
    pub pixel: f64,
    /// Samples of the image across a detector pixel.
    pub samples: usize,
    /// Photons of a fully lit lenslet in a frame that the detector counts.
    pub photons: f64,
    /// Whether the number of photons is random.
    pub photon_noise: bool,
    /// Read noise in electrons rms per pixel.
    pub read_noise: f64,
    /// Number of electrons that is subtracted from every pixel before the centre of gravity; what
    /// is below counts as 0. With 0 nothing is subtracted, and negative pixels count.
    pub threshold: f64,
    /// FWHM in arcsec of the Gaussian weights of the centre of gravity; infinite for none.
    pub weights: f64,
    /// Covariance `[xx, yy, xy]` of the source in arcsec^2, for each lenslet; empty for a point.
    pub source: Vec<[f64; 3]>,
    /// Seed of the noise.
    pub seed: u64,
    /// Number of the star: each one has noise of its own.
    pub star: usize,
}

impl ShackHartmannSettings {
    /// Returns the settings of star number `star` of a system with this light and detector, for
    /// images of `pixels x pixels`. The spot of a laser star has its width and elongation. Pupil
    /// pixels and samples are as fine as the field and the diffraction need.
    ///
    /// # Panics
    /// There is no such star.
    pub fn photometric(
        system: &System,
        star: usize,
        light: &Photometry,
        cells: &SubApertures,
        pixels: usize,
        seed: u64,
    ) -> Self {
        let guide = &system.stars[star];
        let (wavelength, pixel, source) = match guide.kind {
            StarKind::Ngs => (light.wavelength_ngs, light.pixel_ngs, Vec::new()),
            StarKind::Lgs => {
                (light.wavelength_lgs, light.pixel_lgs, laser_spots(system, guide, light, cells))
            }
        };
        let diffraction = wavelength / cells.pitch * ARCSEC_PER_RADIAN;
        ShackHartmannSettings {
            wavelength,
            pupil_pixels: ((pixels as f64 * pixel / diffraction).ceil() as usize).max(8),
            pixels,
            pixel,
            samples: ((2.0 * pixel / diffraction).ceil() as usize).max(1),
            photons: electrons(light, guide, cells.pitch),
            photon_noise: true,
            read_noise: light.read_noise,
            threshold: 0.0,
            weights: f64::INFINITY,
            source,
            seed,
            star,
        }
    }
}

/// The diffractive Shack-Hartmann sensor of one star.
#[derive(Debug)]
pub struct ShackHartmann {
    settings: ShackHartmannSettings,
    grid: PupilGrid,
    cells: Vec<[u16; 2]>,
    /// Transmission of the pupil pixels of each lenslet.
    mask: Vec<f64>,
    /// Real and imaginary parts of the Fourier kernel, by pupil position and sample. Positions are
    /// those of a lenslet, or the non-negative distances in one for an extended source.
    kernel: [Vec<f64>; 2],
    /// Samples of the image, rounded up to whole [`LANES`].
    stride: usize,
    /// Transform of the source of each lenslet by distance in the pupil.
    source: Vec<f64>,
    /// Directions of the detector's pixels, in arcsec, and their weights.
    directions: Vec<f64>,
    weights: Vec<f64>,
    /// Counts per intensity.
    light: f64,
    /// Slopes of the flat wave, and factors of the slopes: x, then y.
    reference: Vec<f64>,
    gain: Vec<f64>,
    random: CounterRandom,
}

/// Memory for the images of one lenslet after another.
struct LensletScratch {
    field: [Vec<f64>; 2],
    rows: [Vec<f64>; 2],
    line: [Vec<f64>; 2],
    image: Vec<f64>,
}

impl ShackHartmann {
    /// Prepares the sensor with the sub-apertures `cells` behind a pupil with a central
    /// obstruction, as a fraction of its diameter, and calibrates it with tilts of a quarter of a
    /// pixel.
    ///
    /// # Errors
    /// A parameter has no physical meaning, or a lenslet receives no light.
    pub fn new(
        cells: &SubApertures,
        obstruction: f64,
        settings: ShackHartmannSettings,
    ) -> Result<Self, Error> {
        check(&settings, cells)?;
        let (q, count) = (settings.pupil_pixels, cells.len());
        let diameter = cells.pitch * cells.nssp as f64;
        let grid = PupilGrid::centres(diameter, cells.nssp * q);
        let inside = |x: f64, y: f64| {
            let r = x.hypot(y) * 2.0 / diameter;
            f64::from(u8::from(r < 1.0 && r >= obstruction))
        };
        let mut mask = Vec::with_capacity(count * q * q);
        for cell in &cells.cells {
            let [column, row] = cell.map(|k| usize::from(k) * q);
            mask.extend((0..q * q).map(|k| inside(grid.xs[column + k % q], grid.ys[row + k / q])));
        }
        if let Some(dark) = mask.chunks_exact(q * q).position(|lenslet| lenslet.iter().all(|m| *m == 0.0)) {
            return Err(Error::numeric("sensor", format!("lenslet {} receives no light", dark + 1)));
        }
        let extended = !settings.source.is_empty();
        let samples = settings.pixels * settings.samples;
        let stride = samples.next_multiple_of(LANES);
        let turns = cells.pitch / q as f64 / settings.wavelength / ARCSEC_PER_RADIAN;
        let step = settings.pixel / settings.samples as f64;
        let centred = |k: usize, n: usize, step: f64| (k as f64 - (n as f64 - 1.0) / 2.0) * step;
        let angles = (0..if extended { 2 * q - 1 } else { q }).flat_map(|a| {
            let a = if extended { a as f64 - (q as f64 - 1.0) } else { centred(a, q, 1.0) };
            (0..stride).map(move |k| sin_cos(-turns * a * centred(k, samples, step)))
        });
        let (imaginary, real): (Vec<f64>, Vec<f64>) = angles.map(|[sin, cos]| (sin, cos)).unzip();
        let directions: Vec<f64> =
            (0..settings.pixels).map(|k| centred(k, settings.pixels, settings.pixel)).collect();
        let weights = directions.iter().map(|d| (-4.0 * 2f64.ln() * (d / settings.weights).powi(2)).exp());
        let mut sensor = ShackHartmann {
            source: settings.source.iter().flat_map(|s| source_transform(q, turns, s)).collect(),
            weights: weights.collect(),
            light: settings.photons * (step * turns / q as f64).powi(2),
            random: random(settings.seed, settings.star),
            kernel: [real, imaginary],
            stride,
            reference: vec![0.0; 2 * count],
            gain: vec![1.0; 2 * count],
            cells: cells.cells.clone(),
            settings,
            grid,
            mask,
            directions,
        };
        sensor.calibrate();
        Ok(sensor)
    }

    /// Sets the reference slopes and the gains.
    fn calibrate(&mut self) {
        let stroke = self.settings.pixel / 2.0;
        let flat = self.of_tilt([0.0; 2]);
        let count = self.cells.len();
        for axis in 0..2 {
            let tilt = |t: f64| self.of_tilt(if axis == 0 { [t, 0.0] } else { [0.0, t] });
            let (more, less) = (tilt(stroke), tilt(-stroke));
            for i in axis * count..(axis + 1) * count {
                self.gain[i] = 2.0 * stroke / (more[i] - less[i]);
            }
        }
        self.reference = flat;
    }

    /// Returns the slopes without noise of a tilt in arcsec.
    fn of_tilt(&self, tilt: [f64; 2]) -> Vec<f64> {
        let [a, b] = tilt.map(|t| t / ARCSEC_PER_RADIAN);
        let rows = self.grid.ys.iter();
        let wavefront: Vec<f64> =
            rows.flat_map(|y| self.grid.xs.iter().map(move |x| a * x + b * y)).collect();
        let mut out = vec![0.0; self.slopes()];
        self.read(&wavefront, None, &mut out);
        out
    }

    /// Returns the image of a lenslet on the detector in counts, row by row, without noise.
    ///
    /// # Panics
    /// There is no such lenslet, or `wavefront` does not have the length of the grid.
    pub fn image(&self, wavefront: &[f64], lenslet: usize) -> Vec<f64> {
        let mut scratch = self.scratch();
        self.expose(wavefront, lenslet, &mut scratch);
        scratch.image
    }

    fn scratch(&self) -> LensletScratch {
        let (q, pixels) = (self.settings.pupil_pixels, self.settings.pixels);
        let zeros = |n: usize| [vec![0.0; n], vec![0.0; n]];
        LensletScratch {
            field: zeros(q * q),
            rows: zeros(q * self.stride),
            line: zeros(self.stride),
            image: vec![0.0; pixels * pixels],
        }
    }

    /// Measures all slopes, with the noise of `sequence` if there is one.
    fn read(&self, wavefront: &[f64], sequence: Option<RandomSequence>, out: &mut [f64]) {
        let mut scratch = self.scratch();
        let (x, y) = out.split_at_mut(self.cells.len());
        for (lenslet, (x, y)) in x.iter_mut().zip(y).enumerate() {
            self.expose(wavefront, lenslet, &mut scratch);
            if let Some(sequence) = sequence {
                self.add_noise(lenslet, sequence, &mut scratch.image);
            }
            [*x, *y] = self.centre_of_gravity(&scratch.image);
        }
        for ((slope, reference), gain) in out.iter_mut().zip(&self.reference).zip(&self.gain) {
            *slope = (*slope - reference) * gain;
        }
    }

    fn add_noise(&self, lenslet: usize, sequence: RandomSequence, image: &mut [f64]) {
        let first = lenslet * image.len().div_ceil(2);
        let ShackHartmannSettings { photon_noise, read_noise, .. } = self.settings;
        vectorize(
            #[inline(always)]
            || add_noise(sequence, first as u64, image, photon_noise, read_noise),
        );
    }

    /// Returns the centre of gravity in arcsec; the centre for an image without light.
    fn centre_of_gravity(&self, image: &[f64]) -> [f64; 2] {
        let threshold = self.settings.threshold;
        let (mut sum, mut x, mut y) = (0.0, 0.0, 0.0);
        for ((row, direction), weight) in
            image.chunks_exact(self.settings.pixels).zip(&self.directions).zip(&self.weights)
        {
            let (mut total, mut moment) = (0.0, 0.0);
            for ((value, direction), weight) in row.iter().zip(&self.directions).zip(&self.weights) {
                let value = if threshold > 0.0 { (value - threshold).max(0.0) } else { *value } * weight;
                total += value;
                moment += value * direction;
            }
            sum += weight * total;
            x += weight * moment;
            y += weight * total * direction;
        }
        if sum > 0.0 { [x / sum, y / sum] } else { [0.0; 2] }
    }

    /// Computes the image of a lenslet.
    fn expose(&self, wavefront: &[f64], lenslet: usize, scratch: &mut LensletScratch) {
        vectorize(
            #[inline(always)]
            || {
                self.set_field(wavefront, lenslet, &mut scratch.field);
                scratch.image.fill(0.0);
                if self.source.is_empty() {
                    self.image_of_point(scratch);
                } else {
                    self.image_of_source(lenslet, scratch);
                }
            },
        );
    }

    #[inline(always)]
    fn set_field(&self, wavefront: &[f64], lenslet: usize, [real, imaginary]: &mut [Vec<f64>; 2]) {
        let q = self.settings.pupil_pixels;
        let across = self.grid.xs.len();
        let [column, row] = self.cells[lenslet].map(|k| usize::from(k) * q);
        let per_metre = 1.0 / self.settings.wavelength;
        for k in 0..q {
            let part = &wavefront[(row + k) * across + column..][..q];
            let mask = &self.mask[(lenslet * q + k) * q..][..q];
            let (real, imaginary) = (&mut real[k * q..][..q], &mut imaginary[k * q..][..q]);
            for i in 0..q {
                let [sin, cos] = sin_cos(part[i] * per_metre);
                (real[i], imaginary[i]) = (mask[i] * cos, mask[i] * sin);
            }
        }
    }

    /// Computes the image of a point: the squared transform of the field, first along x, then y.
    #[inline(always)]
    fn image_of_point(&self, scratch: &mut LensletScratch) {
        let (q, stride) = (self.settings.pupil_pixels, self.stride);
        let [cos, sin] = &self.kernel;
        let LensletScratch { field: [u, v], rows, line, image } = scratch;
        for row in 0..q {
            let at = |a: usize| [u[row * q + a], v[row * q + a]];
            product(q, stride, at, [cos, sin], part(rows, row * stride, stride));
        }
        for sample in 0..self.settings.pixels * self.settings.samples {
            let at = |b: usize| [cos[b * stride + sample], sin[b * stride + sample]];
            product(q, stride, at, [&rows[0], &rows[1]], part(line, 0, stride));
            let [real, imaginary] = line;
            for (x, y) in real.iter_mut().zip(imaginary) {
                *x = *x * *x + *y * *y;
            }
            self.collect(sample, real, image);
        }
    }

    /// Computes the image of an extended source: the transform of the field's autocorrelation times
    /// that of the source. Distances along y below 0 follow by symmetry.
    #[inline(always)]
    fn image_of_source(&self, lenslet: usize, scratch: &mut LensletScratch) {
        let (q, stride) = (self.settings.pupil_pixels, self.stride);
        let wide = 2 * q - 1;
        let [cos, sin] = &self.kernel;
        let LensletScratch { field, rows, line, image } = scratch;
        for dy in 0..q {
            let source = &self.source[(lenslet * q + dy) * wide..][..wide];
            let at = |dx: usize| autocorrelation(field, q, dx, dy).map(|x| x * source[dx]);
            product(wide, stride, at, [cos, sin], part(rows, dy * stride, stride));
        }
        for sample in 0..self.settings.pixels * self.settings.samples {
            let at = |dy: usize| {
                let twice = if dy == 0 { 1.0 } else { 2.0 };
                let index = (dy + q - 1) * stride + sample;
                [twice * cos[index], twice * sin[index]]
            };
            product(q, stride, at, [&rows[0], &rows[1]], part(line, 0, stride));
            self.collect(sample, &line[0], image);
        }
    }

    /// Adds a row of samples to the pixels of the detector.
    #[inline(always)]
    fn collect(&self, sample: usize, intensities: &[f64], image: &mut [f64]) {
        let per_pixel = self.settings.samples;
        let row = &mut image[sample / per_pixel * self.settings.pixels..][..self.settings.pixels];
        for (pixel, values) in row.iter_mut().zip(intensities.chunks_exact(per_pixel)) {
            *pixel += self.light * values.iter().sum::<f64>();
        }
    }
}

impl WavefrontSensor for ShackHartmann {
    fn grid(&self) -> &PupilGrid {
        &self.grid
    }

    fn slopes(&self) -> usize {
        2 * self.cells.len()
    }

    fn measure(&self, wavefront: &[f64], frame: u64, out: &mut [f64]) {
        check_lengths(self, wavefront, out);
        let noisy = self.settings.photon_noise || self.settings.read_noise > 0.0;
        self.read(wavefront, noisy.then(|| self.random.sequence(frame)), out);
    }
}

/// Returns a part of both arrays.
#[inline(always)]
fn part([a, b]: &mut [Vec<f64>; 2], first: usize, len: usize) -> [&mut [f64]; 2] {
    [&mut a[first..first + len], &mut b[first..first + len]]
}

/// Computes the complex sums `out[k] = sum_a scalar(a) vector[a][k]` of `n` vectors, `stride`
/// numbers long, a multiple of [`LANES`].
#[inline(always)]
fn product(
    n: usize,
    stride: usize,
    scalar: impl Fn(usize) -> [f64; 2],
    [real, imaginary]: [&[f64]; 2],
    out: [&mut [f64]; 2],
) {
    for first in (0..stride).step_by(LANES) {
        let (mut x, mut y) = ([0.0; LANES], [0.0; LANES]);
        for a in 0..n {
            let [u, v] = scalar(a);
            let lanes = a * stride + first..a * stride + first + LANES;
            let (c, s) = (&real[lanes.clone()], &imaginary[lanes]);
            for k in 0..LANES {
                x[k] += u * c[k] - v * s[k];
                y[k] += u * s[k] + v * c[k];
            }
        }
        out[0][first..first + LANES].copy_from_slice(&x);
        out[1][first..first + LANES].copy_from_slice(&y);
    }
}

/// Returns the sum of the products of field values a distance apart, `dx - (q - 1)` and `dy`.
#[inline(always)]
fn autocorrelation(field: &[Vec<f64>; 2], q: usize, dx: usize, dy: usize) -> [f64; 2] {
    let (right, left) = (dx.saturating_sub(q - 1), (q - 1).saturating_sub(dx));
    let width = q - right - left;
    let (mut real, mut imaginary) = (0.0, 0.0);
    for row in 0..q - dy {
        let [near, far] = [row * q + left, (row + dy) * q + right];
        let [a, b] = [0, 1].map(|part: usize| &field[part][near..near + width]);
        let [c, d] = [0, 1].map(|part: usize| &field[part][far..far + width]);
        for k in 0..width {
            real += c[k] * a[k] + d[k] * b[k];
            imaginary += d[k] * a[k] - c[k] * b[k];
        }
    }
    [real, imaginary]
}

/// Returns the transform of a Gaussian source at the distances in a lenslet of `q` pixels: x from
/// `1 - q` on, y from 0 on. `turns` are those of one pixel and arcsec.
fn source_transform(q: usize, turns: f64, [xx, yy, xy]: &[f64; 3]) -> Vec<f64> {
    let wide = 2 * q - 1;
    let at = |k: usize| {
        let (x, y) = ((k % wide) as f64 - (q as f64 - 1.0), (k / wide) as f64);
        let form = xx * x * x + yy * y * y + 2.0 * xy * x * y;
        (-2.0 * (PI * turns).powi(2) * form).exp()
    };
    (0..wide * q).map(at).collect()
}

fn check(settings: &ShackHartmannSettings, cells: &SubApertures) -> Result<(), Error> {
    let positive = [
        ("wavelength", settings.wavelength),
        ("pixel", settings.pixel),
        ("photons", settings.photons),
        ("pupil_pixels", settings.pupil_pixels as f64),
        ("samples", settings.samples as f64),
        ("weights", settings.weights),
    ];
    let failed = |problem: String| Err(Error::numeric("sensor", problem));
    for (name, value) in positive {
        if !(value > 0.0 && (value.is_finite() || name == "weights")) {
            return failed(format!("{name} is {value}, and must be above 0"));
        }
    }
    for (name, value) in [("read_noise", settings.read_noise), ("threshold", settings.threshold)] {
        if !(value >= 0.0 && value.is_finite()) {
            return failed(format!("{name} is {value}, and must be 0 or more"));
        }
    }
    if settings.pixels < 2 {
        return failed(format!("{} pixels across an image cannot hold a position", settings.pixels));
    }
    let widest = settings.pupil_pixels as f64 * settings.wavelength / cells.pitch * ARCSEC_PER_RADIAN;
    let field = settings.pixels as f64 * settings.pixel;
    if field > widest * (1.0 + 1e-9) {
        let pixels = settings.pupil_pixels;
        return failed(format!(
            "{pixels} pupil pixels show {widest:.3} arcsec, the detector {field:.3}: take more of them"
        ));
    }
    if !settings.source.is_empty() && settings.source.len() != cells.len() {
        let lengths = (settings.source.len(), cells.len());
        return failed(format!("{} sources for {} lenslets", lengths.0, lengths.1));
    }
    Ok(())
}
