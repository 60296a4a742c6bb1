//! Variance of the slopes from photons and detector.
//!
//! With `F` electrons per sub-aperture and frame, `s` the seeing at the sensor's wavelength, and
//! `f1 = 0.32 / F`, `f2 = 0.82 (read noise / (F pixel))^2` (photon and read noise of a centroid,
//! with MOAO's coefficients):
//!
//! * natural star: `F = 10^(2.9 - 0.4 mag) throughput pitch^2 frame bandwidth[angstrom] 1e4`,
//!   variance `f1 s^2 + f2 s^4` on both axes;
//! * laser star: `F = flux frame pitch^2 throughput / throughput_atmosphere`, spot `w^2 = s^2 +
//!   spot^2`, elongated by `e = depth / altitude^2 * distance to the launcher`; across `f1 w^2 + f2
//!   w^4`, along `f1 (w^2 + e^2) + f2 (w^2 + e^2)^1.5 w`, turned into x and y by the direction of
//!   the launcher.

use crate::geometry::SubApertures;
use crate::system::{Atmosphere, GuideStar, NoiseModel, Photometry, StarKind, System};
use crate::{ARCSEC_PER_RADIAN, Error};

/// `log10` of the photon rate constant of a magnitude-0 star, in the units of the formula above.
const ZERO_POINT: f64 = 2.9;

/// Photons in 1/(m^2 s) of a star of magnitude 0 per m of bandwidth: `10^2.9` per angstrom and
/// cm^2.
pub(crate) const PHOTONS_PER_METRE: f64 = 794.328_234_724_281_5 * 1e14;

/// Noise of one sub-aperture, in arcsec^2.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SlopeNoise {
    /// Variance of the x slope.
    pub xx: f64,
    /// Variance of the y slope.
    pub yy: f64,
    /// Covariance of the x and y slopes.
    pub xy: f64,
}

/// Computes the noise of every valid sub-aperture of one measuring sensor.
///
/// # Errors
/// The photometry gives a non-finite value.
///
/// # Panics
/// `star` is not a star of the system.
pub fn of_sensor(
    system: &System,
    atmosphere: &Atmosphere,
    star: usize,
    grid: &SubApertures,
) -> Result<Vec<SlopeNoise>, Error> {
    let star_index = star;
    let star = &system.stars[star];
    let noise = match &system.noise {
        NoiseModel::Uniform { variance } => {
            vec![SlopeNoise { xx: *variance, yy: *variance, xy: 0.0 }; grid.len()]
        }
        NoiseModel::Photometric(p) => match star.kind {
            StarKind::Ngs => vec![natural(p, star, atmosphere.r0(), grid.pitch); grid.len()],
            StarKind::Lgs => {
                let launcher = launcher_on_sensor(system, star);
                let (r0, electrons) = (atmosphere.r0(), electrons(p, star, grid.pitch));
                (0..grid.len()).map(|i| laser(p, launcher, r0, electrons, grid.centre(i))).collect()
            }
        },
    };
    if noise.iter().any(|n| !(n.xx.is_finite() && n.yy.is_finite() && n.xy.is_finite())) {
        return Err(Error::numeric(
            format!("noise of sensor {}", star_index + 1),
            "the photometry gives a variance that is not finite: check magnitude, flux and throughput",
        ));
    }
    Ok(noise)
}

/// Returns the position of the laser launcher in m.
pub fn launcher(diameter: f64, star: &GuideStar) -> [f64; 2] {
    star.launcher.unwrap_or_else(|| {
        let [x, y] = star.direction;
        let r = x.hypot(y);
        if r == 0.0 { [0.0, 0.0] } else { [x / r * diameter / 2.0, y / r * diameter / 2.0] }
    })
}

/// Returns the square of the seeing in arcsec^2 at `wavelength`.
fn seeing2(r0: f64, wavelength: f64) -> f64 {
    (0.5e-6 / r0 * (0.5e-6 / wavelength).powf(0.2) * ARCSEC_PER_RADIAN).powi(2)
}

fn factors(p: &Photometry, electrons: f64, pixel: f64) -> (f64, f64) {
    (0.32 / electrons, 0.82 * (p.read_noise / (electrons * pixel)).powi(2))
}

/// Returns the electrons that a whole sub-aperture of side `pitch` \[m\] gives in a frame.
pub fn electrons(p: &Photometry, star: &GuideStar, pitch: f64) -> f64 {
    match star.kind {
        StarKind::Ngs => {
            10f64.powf(ZERO_POINT - 0.4 * star.magnitude.unwrap_or(f64::NAN))
                * p.throughput_ngs
                * pitch
                * pitch
                * p.frame_time
                * (p.bandwidth * 1e10)
                * 1e4
        }
        StarKind::Lgs => {
            p.lgs_flux * p.frame_time * pitch * pitch * p.throughput_lgs / p.throughput_atmosphere
        }
    }
}

/// Returns the covariance `[xx, yy, xy]` in arcsec^2 of the Gaussian spot of a laser star in each
/// sub-aperture, without turbulence. Widths and elongations are FWHM.
pub fn laser_spots(system: &System, star: &GuideStar, p: &Photometry, grid: &SubApertures) -> Vec<[f64; 3]> {
    let launcher = launcher_on_sensor(system, star);
    let to_variance = 1.0 / (8.0 * 2f64.ln());
    let spot = |i| {
        let (elongation, [cos, sin]) = elongation(p, launcher, grid.centre(i));
        let (width2, long2) = (p.spot_width * p.spot_width, elongation * elongation);
        [width2 + long2 * cos * cos, width2 + long2 * sin * sin, long2 * sin * cos].map(|x| x * to_variance)
    };
    (0..grid.len()).map(spot).collect()
}

/// Returns the elongation of a laser spot in arcsec, seen from `centre`, and its direction.
fn elongation(p: &Photometry, launcher: [f64; 2], centre: [f64; 2]) -> (f64, [f64; 2]) {
    let [dx, dy] = [centre[0] - launcher[0], centre[1] - launcher[1]];
    let distance = dx.hypot(dy);
    let elongation = ARCSEC_PER_RADIAN * p.sodium_depth / (p.sodium_altitude * p.sodium_altitude) * distance;
    (elongation, if distance > 0.0 { [dx / distance, dy / distance] } else { [1.0, 0.0] })
}

/// Returns the position of the launcher along the axes of the sensor.
fn launcher_on_sensor(system: &System, star: &GuideStar) -> [f64; 2] {
    let [x, y] = launcher(system.diameter, star);
    if !star.slopes_turn {
        return [x, y];
    }
    // Slopes are along the axes of the rotated sensor, so the position is rotated back.
    let (sin, cos) = star.rotation.to_radians().sin_cos();
    [cos * x + sin * y, cos * y - sin * x]
}

fn natural(p: &Photometry, star: &GuideStar, r0: f64, pitch: f64) -> SlopeNoise {
    let (f1, f2) = factors(p, electrons(p, star, pitch), p.pixel_ngs);
    let s2 = seeing2(r0, p.wavelength_ngs);
    let variance = f1 * s2 + f2 * s2 * s2;
    SlopeNoise { xx: variance, yy: variance, xy: 0.0 }
}

fn laser(p: &Photometry, launcher: [f64; 2], r0: f64, electrons: f64, centre: [f64; 2]) -> SlopeNoise {
    let (f1, f2) = factors(p, electrons, p.pixel_lgs);
    let w2 = seeing2(r0, p.wavelength_lgs) + p.spot_width * p.spot_width;
    let (elongation, [cos, sin]) = elongation(p, launcher, centre);
    let long2 = w2 + elongation * elongation;
    let short = f1 * w2 + f2 * w2 * w2;
    let long = f1 * long2 + f2 * long2.powf(1.5) * w2.sqrt();
    SlopeNoise {
        xx: long * cos * cos + short * sin * sin,
        yy: long * sin * sin + short * cos * cos,
        xy: (long - short) * sin * cos,
    }
}
