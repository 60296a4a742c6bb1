//! Changes of a reconstructor, against evaluations of the changed one.

use crate::common::{self, close};
use std::sync::Arc;
use zellige_tor::change::ResidualChange;
use zellige_tor::dm::{DeformableMirror, command_matrix};
use zellige_tor::image::{ExactStrehl, Pupil, residual};
use zellige_tor::{Covariance, Matrix, evaluate, reference};

/// Rounds every other tile of 40 x 40 to the 11 bits of an f16.
fn rounded(r: &Matrix) -> Matrix {
    let round = |x: f64| f64::from(f32::from_bits(((x as f32).to_bits() + 0x1000) & !0x1fff));
    Matrix::from_fn(
        r.rows(),
        r.cols(),
        |i, j| {
            if (i / 40 + j / 40) % 2 == 0 { round(r[(i, j)]) } else { r[(i, j)] }
        },
    )
}

fn minus(a: &Matrix, b: &Matrix) -> Matrix {
    Matrix::from_fn(a.rows(), a.cols(), |i, j| a[(i, j)] - b[(i, j)])
}

#[test]
fn a_change_is_the_difference_of_two_evaluations() {
    let (system, atmosphere) = common::laser_and_star();
    let cov = Covariance::new(&system, &atmosphere).unwrap();
    let dx = command_matrix(&system, cov.geometry()).unwrap().dx;
    let pupil = Arc::new(Pupil::new(&system, &DeformableMirror::new(&system)));
    let judged = |r: &Matrix| {
        let cvv = evaluate::cvv(&dx, &evaluate::cee(&cov, 0, r).unwrap()).unwrap();
        let wfe = residual(&pupil, &cvv).unwrap().wfe_nm_piston_removed;
        (wfe * wfe, ExactStrehl::new(&pupil, &cvv).unwrap().run().unwrap())
    };
    let best = reference::reconstruct(&cov, 0).unwrap();
    // Of a reconstructor that is no minimiser, terms that are linear in the change remain.
    let poor = Matrix::from_fn(best.rows(), best.cols(), |i, j| 0.99 * best[(i, j)]);
    for r in [&best, &poor] {
        let residuals = ResidualChange::new(&system, &cov, 0, &dx, r).unwrap();
        let (before, _) = judged(r);
        for changed in [rounded(r), rounded(&rounded(&poor))] {
            let dr = minus(&changed, r);
            let got = residuals.of(&dr).unwrap();
            let (after, strehl) = judged(&changed);
            if r.data() != changed.data() {
                close("change of the variance", got.variance_nm2, after - before, 1e-6);
            }
            close("exact Strehl", got.exact().unwrap().run().unwrap(), strehl, 1e-11);
        }
    }
    let residuals = ResidualChange::new(&system, &cov, 0, &dx, &best).unwrap();
    let dr = minus(&rounded(&best), &best);
    let variance = |sign: f64| {
        let dr = Matrix::from_fn(dr.rows(), dr.cols(), |i, j| sign * dr[(i, j)]);
        residuals.of(&dr).unwrap().variance_nm2
    };
    assert!(variance(1.0) > 0.0 && variance(0.0) == 0.0);
    close("change of the other sign", variance(-1.0), variance(1.0), 1e-6);
    close("twice the change", variance(2.0), 4.0 * variance(1.0), 1e-6);
    assert!(residuals.of(&dx).is_err());
    assert!(ResidualChange::new(&system, &cov, 1, &dx, &best).is_err());
    assert!(ResidualChange::new(&system, &cov, 0, &best, &best).is_err());
}
