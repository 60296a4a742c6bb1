//! Evaluation of a reconstructor.
//!
//! `Cee = Ctt - R Ctm^T - Ctm R^T + R Cmm R^T` is the covariance of the error of the reconstructed
//! slopes for ANY `R`, however it was made. It is therefore the right measure for a
//! reduced-precision one. (The short form `Ctt - R Ctm^T` holds for the exact `R` only.) The
//! entries of `R` itself are no measure: they change a lot before the image does.
//!
//! The work is cut into panels `J` of columns of `R`. `Cee` is the symmetric part of `Ctt + sum_J
//! E_J R_J^T`, `E_J = sum_{I > J} 2 R_I Cmm_IJ + R_J Cmm_JJ - 2 Ctm_J`. So blocks of the lower
//! triangle of `Cmm` stand for both halves. Every term is independent and needs one panel of this
//! triangle only; the sum is taken in the order of the panels.

use crate::covariance::{Covariance, Kind};
use crate::image::{self, ExactStrehl, Psf, Pupil};
use crate::matrix::gemm;
use crate::{Error, Matrix};
use std::ops::Range;
use std::sync::Arc;

/// Columns of `Cmm` generated at a time inside a panel: bounds the memory to `8 n * 256` bytes.
const CHUNK: usize = 256;

/// Cuts `0..n` into consecutive panels of `width` (the last may be smaller).
pub fn panels(n: usize, width: usize) -> Vec<Range<usize>> {
    let width = width.max(1);
    (0..n.div_ceil(width)).map(|k| k * width..((k + 1) * width).min(n)).collect()
}

fn check(cov: &Covariance, r: &Matrix, cols: &Range<usize>) -> Result<(), Error> {
    let (m, n) = (cov.truth_slopes(), cov.measurements());
    if (r.rows(), r.cols()) != (m, n) {
        return Err(Error::shape(
            "reconstructor",
            format!("it is {} x {}, but the system needs {m} x {n}", r.rows(), r.cols()),
        ));
    }
    if cols.start > cols.end || cols.end > n {
        return Err(Error::shape("panel", format!("columns {cols:?} of {n}")));
    }
    Ok(())
}

/// Computes `R Cmm[:, cols] - Ctm[:, cols]`, the residual of the normal equations (`m x
/// cols.len()`, 0 for the exact `R`). Iterative refinement needs it, too.
///
/// # Errors
/// `r` is not `m x n`, the range or the target does not exist.
pub fn residual(cov: &Covariance, target: usize, r: &Matrix, cols: Range<usize>) -> Result<Matrix, Error> {
    check(cov, r, &cols)?;
    let (m, n) = (r.rows(), r.cols());
    let mut out = Matrix::zeros(m, cols.len());
    cov.fill(Kind::Ctm(target), 0..m, cols.clone(), out.data_mut(), m)?;
    let mut cmm = vec![0.0; n * CHUNK.min(cols.len())];
    for chunk in panels(cols.len(), CHUNK) {
        let width = chunk.len();
        cov.fill(
            Kind::Cmm,
            0..n,
            cols.start + chunk.start..cols.start + chunk.end,
            &mut cmm[..n * width],
            n,
        )?;
        let part = faer::MatRef::from_column_major_slice(&cmm[..n * width], n, width);
        let mut dst = out.view_mut().subcols_mut(chunk.start, width);
        for j in 0..width {
            for i in 0..m {
                dst[(i, j)] = -dst[(i, j)];
            }
        }
        gemm(dst, true, r.view(), part, 1.0);
    }
    Ok(out)
}

/// Computes the term of `Cee` for the columns `cols` of `R` (`m x m`, not symmetric by itself).
///
/// # Errors
/// See [`residual`].
pub fn cee_panel(cov: &Covariance, target: usize, r: &Matrix, cols: Range<usize>) -> Result<Matrix, Error> {
    check(cov, r, &cols)?;
    let (m, n) = (r.rows(), r.cols());
    let mut out = Matrix::zeros(m, m);
    for chunk in panels(cols.len(), CHUNK) {
        let cols = cols.start + chunk.start..cols.start + chunk.end;
        let (width, height) = (cols.len(), n - cols.start);
        let mut factor = Matrix::zeros(m, width);
        cov.fill(Kind::Ctm(target), 0..m, cols.clone(), factor.data_mut(), m)?;
        factor.data_mut().iter_mut().for_each(|v| *v *= -2.0);
        let mut cmm = Matrix::zeros(height, width);
        cov.fill(Kind::Cmm, cols.start..n, cols.clone(), cmm.data_mut(), height)?;
        let (diagonal, below) = cmm.view().split_at_row(width);
        let (part, rest) = r.view().subcols(cols.start, height).split_at_col(width);
        gemm(factor.view_mut(), true, part, diagonal, 1.0);
        gemm(factor.view_mut(), true, rest, below, 2.0);
        gemm(out.view_mut(), true, factor.view(), part.transpose(), 1.0);
    }
    Ok(out)
}

/// Computes `Ctt` plus the panel terms in the given order, made exactly symmetric.
///
/// # Errors
/// A term is not `m x m`.
pub fn cee_sum(cov: &Covariance, terms: impl IntoIterator<Item = Matrix>) -> Result<Matrix, Error> {
    let mut cee = cov.matrix(Kind::Ctt)?;
    for term in terms {
        if (term.rows(), term.cols()) != (cee.rows(), cee.cols()) {
            return Err(Error::shape("term of Cee", format!("{} x {}", term.rows(), term.cols())));
        }
        for (a, b) in cee.data_mut().iter_mut().zip(term.data()) {
            *a += b;
        }
    }
    symmetrise(&mut cee);
    Ok(cee)
}

/// Computes `Cee` of a reconstructor (`m x m`, arcsec^2), panel after panel on this thread.
///
/// # Errors
/// See [`residual`].
pub fn cee(cov: &Covariance, target: usize, r: &Matrix) -> Result<Matrix, Error> {
    let mut failure = None;
    // The iterator is lazy: one term is in memory at a time.
    let terms = panels(cov.measurements(), 2048)
        .into_iter()
        .map_while(|cols| cee_panel(cov, target, r, cols).map_err(|e| failure = Some(e)).ok());
    let sum = cee_sum(cov, terms);
    match failure {
        Some(e) => Err(e),
        None => sum,
    }
}

/// Computes `Cvv = Dx Cee Dx^T`, the covariance of the residual on the actuators in volts^2.
///
/// # Errors
/// `dx` does not have `m` columns.
pub fn cvv(dx: &Matrix, cee: &Matrix) -> Result<Matrix, Error> {
    let left = dx.times(cee)?;
    let mut out = Matrix::zeros(dx.rows(), dx.rows());
    gemm(out.view_mut(), false, left.view(), dx.view().transpose(), 1.0);
    symmetrise(&mut out);
    Ok(out)
}

/// Returns `trace(Cee) / trace(Ctt)`, the fraction of the slope variance on the target that remains
/// after the reconstruction (1: useless, 0: perfect).
///
/// # Errors
/// `cee` is not `m x m`.
pub fn relative_error(cov: &Covariance, cee: &Matrix) -> Result<f64, Error> {
    let m = cov.truth_slopes();
    if (cee.rows(), cee.cols()) != (m, m) {
        return Err(Error::shape("Cee", format!("{} x {}, expected {m} x {m}", cee.rows(), cee.cols())));
    }
    let mut total = 0.0;
    let mut entry = [0.0f64];
    for i in 0..m {
        cov.fill(Kind::Ctt, i..i + 1, i..i + 1, &mut entry, 1)?;
        total += entry[0];
    }
    Ok(cee.trace() / total)
}

/// Evaluation of a reconstructor for one target.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Verdict {
    /// Trace of `Cee` in arcsec^2.
    pub trace_cee: f64,
    /// Ratio `trace(Cee) / trace(Ctt)`.
    pub relative_error: f64,
    /// Strehl ratio of the stationary image, comparable with MOAO's.
    pub strehl: f64,
    /// Exact long-exposure Strehl ratio, if it was requested.
    pub strehl_exact: Option<f64>,
    /// Wavefront error and Marechal approximation.
    pub residual: image::Residual,
}

/// Judges `cee` \[arcsec^2\] through the command matrix `dx` of the default mirror: returns the
/// image and the verdict. The exact Strehl ratio costs about `300 nssp^5` flops on this thread. For
/// large pupils, split it into tasks with [`crate::image::ExactStrehl`].
///
/// # Errors
/// Sizes that do not match, or non-finite values.
pub fn judge(
    system: &crate::System,
    cov: &Covariance,
    dx: &Matrix,
    cee: &Matrix,
    exact: bool,
) -> Result<(Psf, Verdict), Error> {
    let mirror = crate::dm::DeformableMirror::new(system);
    let cvv = cvv(dx, cee)?;
    let psf = image::psf(system, &mirror, &cvv)?;
    let pupil = Arc::new(Pupil::new(system, &mirror));
    let strehl_exact = if exact { Some(ExactStrehl::new(&pupil, &cvv)?.run()?) } else { None };
    let verdict = Verdict {
        trace_cee: cee.trace(),
        relative_error: relative_error(cov, cee)?,
        strehl: psf.strehl,
        strehl_exact,
        residual: image::residual(&pupil, &cvv)?,
    };
    Ok((psf, verdict))
}

fn symmetrise(a: &mut Matrix) {
    for j in 0..a.cols() {
        for i in 0..j {
            let mean = 0.5 * (a[(i, j)] + a[(j, i)]);
            a[(i, j)] = mean;
            a[(j, i)] = mean;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_cover_the_range() {
        assert_eq!(panels(5, 2), vec![0..2, 2..4, 4..5]);
        assert_eq!(panels(0, 4), Vec::<Range<usize>>::new());
        assert_eq!(panels(3, 0).len(), 3);
    }
}
