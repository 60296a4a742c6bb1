//! A dense float64 reconstructor on one thread: slow, simple, and the reference for the task-based
//! one.

use crate::covariance::{Covariance, Kind};
use crate::{Error, Matrix};
use faer::linalg::cholesky::llt::factor::LltError;
use faer::linalg::solvers::Llt;

/// Cholesky factorisation of `Cmm` in float64; one factorisation serves every target.
#[derive(Debug)]
pub struct Factor {
    llt: Llt<f64>,
    order: usize,
}

impl Factor {
    /// Generates and factorises `Cmm` (`8 n^2` bytes for the matrix and as many for the factor,
    /// `n^3 / 3` flops).
    ///
    /// # Errors
    /// `Cmm` is not positive definite.
    pub fn new(cov: &Covariance) -> Result<Self, Error> {
        let cmm = cov.matrix(Kind::Cmm)?;
        let llt = zellige_faer::cholesky(cmm.view()).map_err(|e| match e {
            LltError::NonPositivePivot { index } => {
                Error::NotPositiveDefinite { what: "Cmm".into(), order: index + 1 }
            }
        })?;
        Ok(Factor { llt, order: cmm.rows() })
    }

    /// Returns `L` with `L L^T = Cmm`.
    pub fn lower(&self) -> Matrix {
        let l = self.llt.L();
        Matrix::from_fn(self.order, self.order, |i, j| if i >= j { l[(i, j)] } else { 0.0 })
    }

    /// Computes `Cmm^-1 B` for an `n x k` matrix `B`.
    ///
    /// # Errors
    /// `B` does not have `n` rows.
    pub fn solve(&self, b: &Matrix) -> Result<Matrix, Error> {
        if b.rows() != self.order {
            return Err(Error::shape(
                "right-hand side",
                format!("{} rows, Cmm has {}", b.rows(), self.order),
            ));
        }
        let mut x = b.clone();
        zellige_faer::cholesky_solve(&self.llt, x.view_mut());
        Ok(x)
    }

    /// Computes `R = Ctm Cmm^-1` for one target, `m x n`.
    ///
    /// # Errors
    /// The target does not exist.
    pub fn reconstruct(&self, cov: &Covariance, target: usize) -> Result<Matrix, Error> {
        Ok(self.solve(&cov.matrix(Kind::Ctm(target))?.transposed())?.transposed())
    }
}

/// Computes `R = Ctm Cmm^-1` in float64 for one target, `m x n`.
///
/// # Errors
/// `Cmm` is not positive definite, or the target does not exist.
pub fn reconstruct(cov: &Covariance, target: usize) -> Result<Matrix, Error> {
    Factor::new(cov)?.reconstruct(cov, target)
}
