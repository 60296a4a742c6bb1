//! Prediction: gain and servo-lag error against closed forms for one layer.

use crate::common::{self, close, layers, star};
use std::f64::consts::PI;
use zellige_tor::system::{NoiseModel, StarKind};
use zellige_tor::turbulence::structure_function;
use zellige_tor::{ARCSEC_PER_RADIAN, Atmosphere, Covariance, Kind, Matrix, System, evaluate, reference};

const NSSP: usize = 8;
const VARIANCE: f64 = 1e-4;

/// Returns one natural star on the axis, which is the target, and one layer with that wind.
fn one_layer(wind: [f64; 2], lag: f64) -> (System, Atmosphere) {
    let (mut system, _) = common::two_stars();
    system.nssp = NSSP;
    system.stars = vec![star(StarKind::Ngs, 0.0, 0.0, NSSP)];
    system.noise = NoiseModel::Uniform { variance: VARIANCE };
    system.lag = lag;
    let mut atmosphere = layers(&[(5e3, 0.15f64.powf(-5.0 / 3.0), 25.0)]);
    atmosphere.layers[0].wind = Some(wind);
    (system, atmosphere)
}

/// Returns the error covariance of a reconstructor, by default the best one.
fn error_of((system, atmosphere): &(System, Atmosphere), r: Option<&Matrix>) -> Matrix {
    let cov = Covariance::new(system, atmosphere).unwrap();
    let best = reference::reconstruct(&cov, 0).unwrap();
    evaluate::cee(&cov, 0, r.unwrap_or(&best)).unwrap()
}

/// Computes the covariance of a slope along axis `k` with itself `shift` away.
fn covariance_of_slopes(atmosphere: &Atmosphere, pitch: f64, k: usize, shift: [f64; 2]) -> f64 {
    let layer = &atmosphere.layers[0];
    let at = |step: f64| {
        let mut point = shift;
        point[k] += step * pitch;
        structure_function(point[0].hypot(point[1]), layer.cn2, layer.outer_scale)
    };
    let scale = (500e-9 / (2.0 * PI) * ARCSEC_PER_RADIAN / pitch).powi(2);
    0.5 * scale * (at(1.0) + at(-1.0) - 2.0 * at(0.0))
}

#[test]
fn a_still_layer_or_no_lag_has_the_same_bits() {
    let (system, atmosphere) = common::awkward();
    let (mut still, mut calm) = common::moving(system.clone(), atmosphere.clone(), 0.02);
    calm.layers.iter_mut().for_each(|layer| layer.wind = Some([0.0; 2]));
    let plain = Covariance::new(&system, &atmosphere).unwrap();
    let lag = Covariance::new(&still, &calm).unwrap();
    still.lag = 0.0;
    let wind = Covariance::new(&still, &common::moving(system, atmosphere, 0.0).1).unwrap();
    for kind in [Kind::Cmm, Kind::Ctm(0), Kind::Ctm(1), Kind::Ctt] {
        let bits = |cov: &Covariance| -> Vec<u64> {
            cov.matrix(kind).unwrap().data().iter().map(|x| x.to_bits()).collect()
        };
        assert!(bits(&plain) == bits(&lag) && bits(&plain) == bits(&wind), "{kind:?}");
    }
}

#[test]
fn without_prediction_the_error_is_that_of_the_closed_form() {
    let (lag, wind) = (0.006, [-12.0, 20.0]);
    let moving = one_layer(wind, lag);
    let cov = Covariance::new(&moving.0, &moving.1).unwrap();
    let pitch = cov.geometry().truth().pitch;
    let m = cov.truth_slopes();
    let identity = Matrix::from_fn(m, m, |i, j| if i == j { 1.0 } else { 0.0 });
    // Each measurement is its own forecast: 2 (C(0) - C(v lag)), and the noise.
    let shift = wind.map(|v| v * lag);
    let terms = [0, 1].map(|k| {
        let c = |shift| covariance_of_slopes(&moving.1, pitch, k, shift);
        (m / 2) as f64 * (2.0 * (c([0.0; 2]) - c(shift)) + VARIANCE)
    });
    let want: f64 = terms.iter().sum();
    close("servo lag", error_of(&moving, Some(&identity)).trace(), want, 1e-9);
    // The best reconstructor for no lag is not far from the identity.
    let still = one_layer(wind, 0.0);
    let cov = Covariance::new(&still.0, &still.1).unwrap();
    let r = reference::reconstruct(&cov, 0).unwrap();
    close("best without a lag", error_of(&moving, Some(&r)).trace(), want, 0.05);
}

#[test]
fn prediction_leaves_noise_and_the_upwind_edge() {
    // The layer moves by one sub-aperture to larger x.
    let pitch = 8.0 / NSSP as f64;
    let moving = one_layer([pitch / 0.05, 0.0], 0.05);
    let error = error_of(&moving, None);
    let cov = Covariance::new(&moving.0, &moving.1).unwrap();
    let cells = &cov.geometry().truth().cells;
    let (mut inside, mut edge) = (0.0f64, 0.0f64);
    for (i, cell) in cells.iter().enumerate() {
        let measured = cell[0] > 0 && cells.contains(&[cell[0] - 1, cell[1]]);
        for k in [i, cells.len() + i] {
            let largest = if measured { &mut inside } else { &mut edge };
            *largest = largest.max(error[(k, k)]);
        }
    }
    // The neighbour measured the same turbulence, with its noise.
    assert!(inside <= VARIANCE * (1.0 + 1e-9), "{inside:e}");
    assert!(edge > 10.0 * VARIANCE, "{edge:e}");
    let still = error_of(&one_layer([0.0; 2], 0.05), None).trace();
    let r = Matrix::from_fn(error.rows(), error.rows(), |i, j| if i == j { 1.0 } else { 0.0 });
    let late = error_of(&moving, Some(&r)).trace();
    assert!(error.trace() < 0.35 * late && error.trace() > still, "{} {late} {still}", error.trace());
}

#[test]
fn the_opposite_wind_gives_the_mirrored_error() {
    let one = one_layer([16.0, 5.0], 0.03);
    let other = one_layer([-16.0, 5.0], 0.03);
    let (a, b) = (error_of(&one, None), error_of(&other, None));
    let grid = Covariance::new(&one.0, &one.1).unwrap().geometry().truth().clone();
    for (i, cell) in grid.cells.iter().enumerate() {
        let mirror = [NSSP as u16 - 1 - cell[0], cell[1]];
        let j = grid.cells.iter().position(|c| *c == mirror).unwrap();
        for k in [0, grid.len()] {
            close("mirrored", b[(j + k, j + k)], a[(i + k, i + k)], 1e-6);
        }
    }
    assert!((a.trace() - b.trace()).abs() < 1e-8 * a.trace());
}
