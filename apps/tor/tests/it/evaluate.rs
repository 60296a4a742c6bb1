//! Evaluation of reconstructors: correct for any reconstructor and any panel width.

use crate::common;
use crate::common::close;
use std::path::Path;
use std::sync::Arc;
use zellige_tor::dm::{self, DeformableMirror, command_matrix};
use zellige_tor::evaluate::{self, panels};
use zellige_tor::image::{self, ExactStrehl, Pupil};
use zellige_tor::params::{Mode, parse};
use zellige_tor::{Covariance, Kind, Matrix, reference};

fn prepared() -> (zellige_tor::System, Covariance, Matrix) {
    let (system, atmosphere) = common::laser_and_star();
    let cov = Covariance::new(&system, &atmosphere).unwrap();
    let r = reference::reconstruct(&cov, 0).unwrap();
    (system, cov, r)
}

/// Returns `R` with a pseudo-random error.
fn perturbed(r: &Matrix) -> Matrix {
    Matrix::from_fn(r.rows(), r.cols(), |i, j| {
        r[(i, j)] + 0.01 * (((i * 31 + j * 17) % 13) as f64 - 6.0) / 6.0
    })
}

/// Computes `Ctt - R Ctm^T - Ctm R^T + R Cmm R^T`, term by term.
fn by_definition(cov: &Covariance, r: &Matrix) -> Matrix {
    let (cmm, ctm, ctt) =
        (cov.matrix(Kind::Cmm).unwrap(), cov.matrix(Kind::Ctm(0)).unwrap(), cov.matrix(Kind::Ctt).unwrap());
    let cross = r.times(&ctm.transposed()).unwrap();
    let square = r.times(&cmm).unwrap().times(&r.transposed()).unwrap();
    Matrix::from_fn(ctt.rows(), ctt.cols(), |i, j| {
        ctt[(i, j)] - cross[(i, j)] - cross[(j, i)] + square[(i, j)]
    })
}

#[test]
fn any_reconstructor_and_any_panels() {
    let (_, cov, exact) = prepared();
    for r in [exact.clone(), perturbed(&exact), Matrix::zeros(exact.rows(), exact.cols())] {
        let want = by_definition(&cov, &r);
        for width in [1000, 77, 8] {
            let terms = panels(cov.measurements(), width)
                .into_iter()
                .map(|cols| evaluate::cee_panel(&cov, 0, &r, cols).unwrap());
            let got = evaluate::cee_sum(&cov, terms).unwrap();
            for i in 0..got.rows() {
                for j in 0..got.cols() {
                    assert!((got[(i, j)] - want[(i, j)]).abs() < 1e-12, "{i} {j}");
                    assert_eq!(got[(i, j)], got[(j, i)]);
                }
            }
        }
    }
    // The exact reconstructor is optimal and has no residual.
    let cee = |r: &Matrix| evaluate::cee(&cov, 0, r).unwrap().trace();
    assert!(cee(&exact) < cee(&perturbed(&exact)));
    let residual = evaluate::residual(&cov, 0, &exact, 30..200).unwrap();
    assert!(residual.max_abs() < 1e-12, "{:e}", residual.max_abs());
    assert!(evaluate::residual(&cov, 0, &perturbed(&exact), 30..200).unwrap().max_abs() > 1e-4);
}

#[test]
fn wrong_sizes_are_errors() {
    let (system, cov, r) = prepared();
    assert!(evaluate::cee(&cov, 0, &r.transposed()).is_err());
    assert!(evaluate::cee(&cov, 1, &r).is_err());
    assert!(evaluate::cee_panel(&cov, 0, &r, 200..300).is_err());
    assert!(evaluate::cee_sum(&cov, [Matrix::zeros(2, 2)]).is_err());
    assert!(evaluate::relative_error(&cov, &r).is_err());
    let cee = evaluate::cee(&cov, 0, &r).unwrap();
    assert!(evaluate::judge(&system, &cov, &Matrix::zeros(3, 104), &cee, false).is_err());
    let broken = Matrix::from_fn(104, 104, |_, _| f64::NAN);
    let dx = command_matrix(&system, cov.geometry()).unwrap().dx;
    let message = evaluate::judge(&system, &cov, &dx, &broken, false).unwrap_err().to_string();
    assert!(message.contains("not finite"), "{message}");
}

#[test]
fn noise_that_is_missing_is_reported() {
    let (mut system, atmosphere) = common::two_stars();
    system.noise = zellige_tor::system::NoiseModel::Uniform { variance: 0.0 };
    // Two sensors that look at the same star measure the same values twice.
    system.stars[1] = system.stars[0].clone();
    assert!(!system.check().unwrap().is_empty());
    let cov = Covariance::new(&system, &atmosphere).unwrap();
    let message = reference::reconstruct(&cov, 0).unwrap_err().to_string();
    assert!(message.contains("Cmm is not positive definite") && message.contains("noise"), "{message}");
}

/// The reference is the exact Strehl ratio by its definition, with the full matrix over the pupil.
#[test]
fn exact_strehl_is_the_mean_over_all_pairs() {
    let (system, cov, r) = prepared();
    let mirror = DeformableMirror::new(&system);
    // The covariance has no symmetry of the pupil, so that transposed axes would be detected.
    let dx = command_matrix(&system, cov.geometry()).unwrap().dx;
    let tilted = Matrix::from_fn(mirror.len(), mirror.len(), |i, j| {
        let slope = |k: usize| {
            0.05 * f64::from(mirror.cells[k][0]) + 0.01 * f64::from(mirror.cells[k][1] * mirror.cells[k][0])
        };
        slope(i) * slope(j)
    });
    let real = evaluate::cvv(&dx, &evaluate::cee(&cov, 0, &r).unwrap()).unwrap();
    let cvv = Matrix::from_fn(mirror.len(), mirror.len(), |i, j| real[(i, j)] + tilted[(i, j)]);
    let pupil = Arc::new(Pupil::new(&system, &mirror));
    let at = |k: usize| (2.0 * k as f64 + 1.0) / (4 * system.nssp) as f64 - 1.0;
    let mut f = Vec::new();
    for (y, line) in pupil.lines.iter().enumerate() {
        for &x in line {
            for cell in &mirror.cells {
                let [dx, dy] =
                    [at(x) - mirror.coordinate(cell[0].into()), at(y) - mirror.coordinate(cell[1].into())];
                f.push(dm::STROKE * (-(dx * dx + dy * dy) / (2.0 * mirror.width * mirror.width)).exp());
            }
        }
    }
    let f = Matrix::from_vec(mirror.len(), pupil.points(), f).unwrap().transposed();
    let p = f.times(&cvv).unwrap().times(&f.transposed()).unwrap();
    let k2 = (2.0 * std::f64::consts::PI / system.wavelength).powi(2);
    let mut sum = 0.0;
    for i in 0..p.rows() {
        for j in 0..p.rows() {
            sum += (-k2 / 2.0 * (p[(i, i)] + p[(j, j)] - 2.0 * p[(i, j)])).exp();
        }
    }
    let exact = ExactStrehl::new(&pupil, &cvv).unwrap();
    close("exact Strehl", exact.run().unwrap(), sum / (p.rows() as f64).powi(2), 1e-11);
    let (_, verdict) =
        evaluate::judge(&system, &cov, &dx, &evaluate::cee(&cov, 0, &r).unwrap(), true).unwrap();
    assert!(verdict.strehl_exact.unwrap() > verdict.strehl);
    // The references are the mean variance and its part without piston, from the same matrix.
    let points = p.rows() as f64;
    let piston = p.data().iter().sum::<f64>() / (points * points);
    let wfe = zellige_tor::image::residual(&pupil, &cvv).unwrap();
    close("wfe", wfe.wfe_nm, 1e9 * (p.trace() / points).sqrt(), 1e-10);
    close("wfe without piston", wfe.wfe_nm_piston_removed, 1e9 * (p.trace() / points - piston).sqrt(), 1e-9);
}

/// One slope at the edge is reconstructed wrongly. On pairs of distant actuators the average of the
/// residual then exceeds the variance, although no two points of the pupil do.
#[test]
fn a_hopeless_slope_leaves_finite_strehl_ratios() {
    let demo = include_str!("../../systems/demo.toml").replace("nssp = 16 ", "nssp = 6 ");
    let input = parse(Path::new("system.toml"), &demo, None, Mode::Strict).unwrap();
    let cov = Covariance::new(&input.system, &input.atmosphere).unwrap();
    let exact = reference::reconstruct(&cov, 0).unwrap();
    let dx = command_matrix(&input.system, cov.geometry()).unwrap().dx;
    let judge = |error: f64| {
        let r = Matrix::from_fn(exact.rows(), exact.cols(), |i, j| {
            let random = ((j * 7919 + 13) % 101) as f64 / 50.0 - 1.0;
            exact[(i, j)] + if i == 0 { error * random } else { 0.0 }
        });
        evaluate::judge(&input.system, &cov, &dx, &evaluate::cee(&cov, 0, &r)?, true)
    };
    let (_, good) = judge(0.0).unwrap();
    let mut before = good.strehl;
    for error in [0.1, 1.0, 10.0, 1e3, 1e6, 1e30] {
        let (psf, bad) = judge(error).unwrap();
        assert!(bad.strehl > 0.0 && bad.strehl <= before, "{error:e}: {bad:?}");
        let exact = bad.strehl_exact.unwrap();
        assert!(exact > 0.0 && exact < good.strehl_exact.unwrap(), "{error:e}: {bad:?}");
        assert!(psf.image.iter().all(|v| v.is_finite()), "{error:e}");
        before = bad.strehl;
    }
    // An image whose values would overflow is an error.
    let message = judge(1e100).unwrap_err().to_string();
    assert!(message.contains("reconstructor") && message.contains("broken"), "{message}");
}

/// Two actuators at opposite edges move together. Averaged over equal offsets, their few pairs
/// exceed the variance.
#[test]
fn a_residual_that_no_stationary_one_explains_is_told() {
    let (system, cov, r) = prepared();
    let mirror = DeformableMirror::new(&system);
    let row = mirror.cells.iter().map(|c| c[1]).max().unwrap() / 2;
    let line = |k: &usize| mirror.cells[*k][1] == row;
    let ends = [(0..mirror.len()).find(line).unwrap(), (0..mirror.len()).rfind(line).unwrap()];
    for volts in [0.3, 3.0, 300.0] {
        let at = |k: usize| if ends.contains(&k) { volts } else { 0.0 };
        let cvv = Matrix::from_fn(mirror.len(), mirror.len(), |i, j| at(i) * at(j));
        let psf = image::psf(&system, &mirror, &cvv).unwrap();
        assert!(psf.contradiction > 0.0 && psf.contradiction < 0.5, "{volts} V: {}", psf.contradiction);
        assert!(psf.strehl > 0.0 && psf.strehl < 1.0, "{volts} V: {}", psf.strehl);
    }
    // A real residual has no such contradiction.
    let dx = command_matrix(&system, cov.geometry()).unwrap().dx;
    let (psf, _) = evaluate::judge(&system, &cov, &dx, &evaluate::cee(&cov, 0, &r).unwrap(), false).unwrap();
    assert_eq!(psf.contradiction, 0.0);
}
