//! Images of a mirror with sampled influence functions, which are not separable in x and y.
//!
//! The structure function of the residual, averaged over the pupil, is `sum_k lambda_k V_kk` with
//! the eigenvalues `lambda_k` of `Cvv`. For the eigenmode `M_k`, `V_kk(r)` is the mean of
//! `(M_k(x) - M_k(x + r))^2` over all `x` with both points in the pupil (Gendron et al., A&A 457,
//! 2006, 359, after Véran et al., JOSA A 14, 1997, 3057). The structure function is at least 0
//! everywhere.

use super::fft::Fft2;
use crate::dm::STROKE;
use crate::matrix::gemm;
use crate::system::InfluenceFunctions;
use crate::{Error, Matrix};

/// Returns the influence functions at points in pupil radii, in units of `STROKE`: points x
/// actuators.
pub(super) fn at_points(functions: &InfluenceFunctions, points: &[[f64; 2]]) -> Matrix {
    Matrix::from_fn(points.len(), functions.actuators(), |p, a| functions.at(a, points[p]) / STROKE)
}

/// Returns `diag(F Cvv F^T)` in units of `STROKE^2`.
pub(super) fn variance(dense: &Matrix, cvv: &Matrix) -> Vec<f64> {
    let mut spread = Matrix::zeros(dense.rows(), cvv.cols());
    gemm(spread.view_mut(), false, dense.view(), cvv.view(), 1.0);
    let mut out = vec![0.0; dense.rows()];
    for a in 0..cvv.cols() {
        let values = spread.col(a).iter().zip(dense.col(a));
        out.iter_mut().zip(values).for_each(|(sum, (s, f))| *sum += s * f);
    }
    out
}

/// The structure function of a residual in m^2, averaged over the pupil.
pub(super) struct Structure {
    /// Values on the grid of the image, origin at index 0.
    pub(super) values: Vec<f64>,
    /// Mean variance over the pupil in m^2.
    pub(super) variance: f64,
}

/// Computes the structure function as described for the module. `pupil` are the pixels of the pupil
/// on a grid of `size`.
pub(super) fn structure_function(
    functions: &InfluenceFunctions,
    pupil: &[(usize, [f64; 2])],
    cvv: &Matrix,
    size: usize,
    fft: &Fft2,
) -> Result<Structure, Error> {
    let points: Vec<[f64; 2]> = pupil.iter().map(|(_, point)| *point).collect();
    let influence = at_points(functions, &points);
    let failed = |_| Error::numeric("image", "the eigenvalues of Cvv do not converge");
    let eigen = zellige_faer::eigen(cvv.view()).map_err(failed)?;
    let actuators = cvv.cols();
    let largest = (0..actuators).map(|k| eigen.S()[k]).fold(0.0, f64::max);
    // Smaller eigenvalues are rounding errors of either sign.
    let used: Vec<usize> = (0..actuators).filter(|&k| eigen.S()[k] > 1e-14 * largest).collect();
    let basis = Matrix::from_fn(actuators, used.len(), |a, k| {
        eigen.U()[(a, used[k])] * eigen.S()[used[k]].sqrt() * STROKE
    });
    let mut modes = Matrix::zeros(points.len(), used.len());
    gemm(modes.view_mut(), false, influence.view(), basis.view(), 1.0);

    let mut grid = vec![0.0; size * size];
    let mut powers = vec![0.0; size * size];
    let mut squares = vec![0.0; size * size];
    for k in 0..used.len() {
        for ((at, _), value) in pupil.iter().zip(modes.col(k)) {
            grid[*at] = *value;
            squares[*at] += value * value;
        }
        powers.iter_mut().zip(fft.forward(&grid)).for_each(|(sum, z)| *sum += z.norm_sqr());
    }
    grid.fill(0.0);
    pupil.iter().for_each(|(at, _)| grid[*at] = 1.0);
    let (ones, of_squares) = (fft.forward(&grid), fft.forward(&squares));
    let pairs: Vec<f64> =
        fft.inverse(ones.iter().map(|z| z.norm_sqr().into()).collect()).iter().map(|v| v.round()).collect();
    let spectrum = ones
        .iter()
        .zip(&of_squares)
        .zip(&powers)
        .map(|((p, v), c)| (2.0 * ((p.conj() * v).re - c)).into())
        .collect();
    let sums = fft.inverse(spectrum);
    // Rounding errors of the FFTs may leave a mean of squares below 0.
    let mean = |(sum, count): (&f64, &f64)| if *count > 0.0 { (sum / count).max(0.0) } else { 0.0 };
    let variance = squares.iter().sum::<f64>() / points.len().max(1) as f64;
    Ok(Structure { values: sums.iter().zip(&pairs).map(mean).collect(), variance })
}
