//! Effect of changes of a reconstructor on the residual, for many changes of one reconstructor.
//!
//! A change `dR` of `R` changes the covariance of the residual on the actuators by `V Cmm V^T + V
//! Z^T + Z V^T`, `V = Dx dR`, `Z = Dx (R Cmm - Ctm)`. The linear terms are 0 where `R` is the
//! minimiser. With `T` the lower triangle of `Cmm` in blocks, its diagonal blocks halved, this is
//! `K + K^T`, `K = (V T + Z) V^T`. No part of it is a small difference of large numbers. So the
//! change of the variance is accurate however small it is.

use crate::covariance::{Covariance, Kind};
use crate::dm::{DeformableMirror, STROKE};
use crate::evaluate::{self, panels};
use crate::image::{ExactStrehl, Pupil, variances};
use crate::matrix::gemm;
use crate::system::System;
use crate::{Error, Matrix};
use std::sync::Arc;

/// Number of columns of a panel of `Cmm`.
const PANEL: usize = 256;

/// Everything that does not depend on the change, for one system and target: `4 n^2` bytes of `Cmm`
/// for the most part. Any number of threads may share it.
///
/// ```text
/// let residuals = ResidualChange::new(&system, &cov, target, &dx, &r)?;
/// let changed = residuals.of(&dr)?;           // 2 a n (m + n / 2 + a) operations for a actuators
/// let nm2 = changed.variance_nm2;             // how much the variance of the wavefront grows
/// let strehl = changed.exact()?.run()?;       // exact Strehl ratio of R + dR
/// ```
#[derive(Debug)]
pub struct ResidualChange {
    pupil: Arc<Pupil>,
    dx: Matrix,
    /// `Cvv` of `R`.
    cvv: Matrix,
    /// `Z`.
    linear: Matrix,
    /// Panels of `T`, from their diagonal block on.
    triangle: Vec<Matrix>,
}

/// Residual of a changed reconstructor.
#[derive(Debug)]
pub struct ChangedResidual {
    pupil: Arc<Pupil>,
    /// Change of the mean variance over the pupil without piston, in nm^2: the difference of the
    /// squares of [`wfe_nm_piston_removed`](crate::image::Residual::wfe_nm_piston_removed).
    pub variance_nm2: f64,
    /// Covariance of the residual on the actuators in volts^2.
    pub cvv: Matrix,
}

impl ResidualChange {
    /// Prepares for changes of `r`, through the command matrix `dx`.
    ///
    /// # Errors
    /// The target does not exist, or `r` or `dx` does not fit the system.
    pub fn new(
        system: &System,
        cov: &Covariance,
        target: usize,
        dx: &Matrix,
        r: &Matrix,
    ) -> Result<Self, Error> {
        let n = cov.measurements();
        let cvv = evaluate::cvv(dx, &evaluate::cee(cov, target, r)?)?;
        let mut linear = Matrix::zeros(dx.rows(), n);
        let mut triangle = Vec::new();
        for cols in panels(n, PANEL) {
            let error = evaluate::residual(cov, target, r, cols.clone())?;
            let part = linear.view_mut().subcols_mut(cols.start, cols.len());
            gemm(part, false, dx.view(), error.view(), 1.0);
            let (height, width) = (n - cols.start, cols.len());
            let mut panel = Matrix::zeros(height, width);
            cov.fill(Kind::Cmm, cols.start..n, cols, panel.data_mut(), height)?;
            for column in panel.data_mut().chunks_exact_mut(height) {
                column[..width].iter_mut().for_each(|v| *v *= 0.5);
            }
            triangle.push(panel);
        }
        let pupil = Arc::new(Pupil::new(system, &DeformableMirror::new(system)));
        Ok(ResidualChange { pupil, dx: dx.clone(), cvv, linear, triangle })
    }

    /// Computes the residual of `R + dR`.
    ///
    /// # Errors
    /// `dr` is not `m x n`, or the residual is not finite.
    pub fn of(&self, dr: &Matrix) -> Result<ChangedResidual, Error> {
        let n = self.linear.cols();
        if (dr.rows(), dr.cols()) != (self.dx.cols(), n) {
            return Err(Error::shape(
                "change of the reconstructor",
                format!("it is {} x {}, but R is {} x {n}", dr.rows(), dr.cols(), self.dx.cols()),
            ));
        }
        let v = self.dx.times(dr)?;
        let mut factor = self.linear.clone();
        for (panel, cols) in self.triangle.iter().zip(panels(n, PANEL)) {
            let rows = v.view().subcols(cols.start, panel.rows());
            gemm(factor.view_mut().subcols_mut(cols.start, cols.len()), true, rows, panel.view(), 1.0);
        }
        let mut half = Matrix::zeros(v.rows(), v.rows());
        gemm(half.view_mut(), false, factor.view(), v.view().transpose(), 1.0);
        let change = Matrix::from_fn(v.rows(), v.rows(), |i, j| half[(i, j)] + half[(j, i)]);
        let [_, variance, _] = variances(&self.pupil, &change)?;
        let mut cvv = change;
        cvv.data_mut().iter_mut().zip(self.cvv.data()).for_each(|(sum, v)| *sum += v);
        let variance_nm2 = variance * (STROKE * 1e9).powi(2);
        Ok(ChangedResidual { pupil: Arc::clone(&self.pupil), variance_nm2, cvv })
    }
}

impl ChangedResidual {
    /// Returns the parts of the exact Strehl ratio, for tasks.
    ///
    /// # Errors
    /// See [`ExactStrehl::new`].
    pub fn exact(&self) -> Result<ExactStrehl, Error> {
        ExactStrehl::new(&self.pupil, &self.cvv)
    }
}
