//! The exact long-exposure Strehl ratio.
//!
//! `SR = mean over all pairs of pupil points of exp(-k^2/2 (P_ii + P_jj - 2 P_ij))`, `P = F Cvv
//! F^T`, `k = 2 pi / lambda`, with `F` the influence functions at the points (conventions of
//! [`Pupil`]). `P` is never stored: for 86 sub-apertures across it would have 8e9 entries.
//!
//! Because influence functions are Gaussian, `F` is the product of a factor in x and one in y. `P`
//! between one line of points and all later ones is then a product of two thin matrices: the factor
//! in x at the points of the line, and `F Cvv` with the actuators of the line's side contracted in
//! y only. Its inner size is the number of actuators across, or of those near the points if there
//! are fewer. Influence functions that are sampled need all actuators. A block is one line against
//! itself and all later ones; the blocks are independent.

use super::exponential::sum_exp;
use super::pupil::Pupil;
use crate::dm::STROKE;
use crate::matrix::gemm;
use crate::{Error, Matrix};
use faer::{MatMut, MatRef};
use std::f64::consts::PI;
use std::ops::Range;
use std::sync::Arc;

/// Number of later lines whose points share one factor.
const LINES: usize = 16;
/// Number of points of the block's line that share their near actuators.
const POINTS: usize = 48;
/// Number of pairs whose covariances are in the cache at once.
const PAIRS: usize = 1 << 15;

/// Computation of the exact Strehl ratio of one `Cvv`, as independent blocks. It owns its data, so
/// that tasks can share it.
///
/// ```text
/// let exact = ExactStrehl::new(&pupil, &cvv)?;
/// let partials: Vec<f64> = (0..exact.blocks()).map(|i| exact.block(i)).collect();     // in any order, on any thread
/// let strehl = exact.finish(&partials)?;
/// ```
#[derive(Debug)]
pub struct ExactStrehl {
    pupil: Arc<Pupil>,
    cvv: Matrix,
    /// `k^2 P_ii / 2` at every point, line by line.
    half_variance: Vec<f64>,
    /// `k^2 STROKE^2`.
    scale: f64,
}

impl ExactStrehl {
    /// Prepares the computation for a residual `cvv` \[volts^2\] on the mirror of `pupil`. Many
    /// residuals can share a pupil.
    ///
    /// # Errors
    /// `cvv` does not fit the mirror or is not finite, or no point lies in the pupil.
    pub fn new(pupil: &Arc<Pupil>, cvv: &Matrix) -> Result<Self, Error> {
        pupil.check(cvv)?;
        if pupil.points() == 0 {
            return Err(Error::numeric(
                "exact Strehl ratio",
                "no sampling point lies in the pupil: the obstruction is too large",
            ));
        }
        let scale = (2.0 * PI / pupil.wavelength * STROKE).powi(2);
        let half_variance = pupil.variance(cvv).iter().map(|v| 0.5 * scale * v).collect();
        Ok(ExactStrehl { pupil: Arc::clone(pupil), cvv: cvv.clone(), half_variance, scale })
    }

    /// Returns the number of blocks: lines of the sampled pupil. Early ones cost most.
    pub fn blocks(&self) -> usize {
        self.pupil.across
    }

    /// Returns the sum over the pairs of block `i`; 0 for a block that does not exist.
    pub fn block(&self, i: usize) -> f64 {
        let Some(count) = self.pupil.lines.get(i).map(Vec::len).filter(|count| *count > 0) else {
            return 0.0;
        };
        let first: usize = self.pupil.lines[..i].iter().map(Vec::len).sum();
        if let Some(dense) = &self.pupil.dense {
            let mut left = Matrix::zeros(count, self.cvv.cols());
            gemm(left.view_mut(), false, dense.view().subrows(first, count), self.cvv.view(), self.scale);
            let later = dense.view().subrows(first, dense.rows() - first).transpose();
            let all = 0..left.cols();
            let near = [(0..count, all)];
            let own = self.pairs(first..first + count, first, &near, left.view(), later.subcols(0, count));
            let others = later.subcols(count, later.ncols() - count);
            return own + 2.0 * self.pairs(first..first + count, first + count, &near, left.view(), others);
        }
        self.separable(i, first..first + count)
    }

    /// Returns the sum of block `i` for separable influence functions.
    fn separable(&self, i: usize, points: Range<usize>) -> f64 {
        let (pupil, across, side) = (&self.pupil, self.pupil.across, self.pupil.factor.cols());
        let line = &pupil.lines[i];
        let here = Matrix::from_fn(line.len(), side, |p, k| pupil.factor[(line[p], k)]);
        let near: Vec<_> = (0..line.len())
            .step_by(POINTS)
            .map(|p| p..(p + POINTS).min(line.len()))
            .map(|p| (p.clone(), pupil.near(line[p.start]..line[p.end - 1] + 1)))
            .collect();
        // Actuator columns of this line x (grid columns and actuator rows of the others).
        let rows = pupil.contracted(&self.cvv, i);
        let mut spread = Matrix::zeros(side * across, side);
        for k in 0..side {
            gemm(
                MatMut::from_column_major_slice_mut(spread.col_mut(k), side, across),
                false,
                rows.view().subcols(side * k, side),
                pupil.factor.view().transpose(),
                self.scale,
            );
        }
        let (mut at, mut sum) = (points.start, 0.0);
        let (mut on_grid, mut right) = (Vec::new(), Vec::new());
        let mut lines = i..i + 1;
        while !lines.is_empty() {
            let k = pupil.near(lines.clone());
            on_grid.resize(side * across * lines.len(), 0.0);
            gemm(
                MatMut::from_column_major_slice_mut(&mut on_grid, side * across, lines.len()),
                false,
                spread.view().subcols(k.start, k.len()),
                pupil.factor.view().submatrix(lines.start, k.start, lines.len(), k.len()).transpose(),
                1.0,
            );
            right.clear();
            for (columns, line) in on_grid.chunks_exact(side * across).zip(&pupil.lines[lines.clone()]) {
                line.iter().for_each(|x| right.extend_from_slice(&columns[side * x..side * (x + 1)]));
            }
            let count = right.len() / side;
            let right = MatRef::from_column_major_slice(&right, side, count);
            let part = self.pairs(points.clone(), at, &near, here.view(), right);
            sum += if lines.start == i { part } else { 2.0 * part };
            at += count;
            lines = lines.end..across.min(lines.end + LINES);
        }
        sum
    }

    /// Returns the sum of the exponentials of the pairs of `points` with those from `other` on.
    /// Their covariances are the product of `left` and `right`. `near` are parts of `points` with
    /// the columns of `left` in which they have entries.
    fn pairs(
        &self,
        points: Range<usize>,
        other: usize,
        near: &[(Range<usize>, Range<usize>)],
        left: MatRef<'_, f64>,
        right: MatRef<'_, f64>,
    ) -> f64 {
        let (rows, own) = (points.len(), &self.half_variance[points]);
        let width = (PAIRS / rows).max(1);
        let mut exponents = vec![0.0; rows * width.min(right.ncols())];
        let mut sum = 0.0;
        for first in (0..right.ncols()).step_by(width) {
            let count = width.min(right.ncols() - first);
            let exponents = &mut exponents[..rows * count];
            let others = &self.half_variance[other + first..];
            for (column, b) in exponents.chunks_exact_mut(rows).zip(others) {
                column.iter_mut().zip(own).for_each(|(e, a)| *e = -(a + b));
            }
            for (p, k) in near {
                gemm(
                    MatMut::from_column_major_slice_mut(exponents, rows, count).subrows_mut(p.start, p.len()),
                    true,
                    left.submatrix(p.start, k.start, p.len(), k.len()),
                    right.submatrix(k.start, first, k.len(), count),
                    1.0,
                );
            }
            // An exponent is minus half the variance of a difference, so that a positive value is a
            // rounding error, which counts as 0.
            sum += sum_exp(exponents);
        }
        sum
    }

    /// Returns the Strehl ratio from the sums of all blocks, in order.
    ///
    /// # Errors
    /// The number of sums differs from the number of blocks.
    pub fn finish(&self, partials: &[f64]) -> Result<f64, Error> {
        if partials.len() != self.blocks() {
            return Err(Error::shape(
                "exact Strehl ratio",
                format!("{} of {} blocks", partials.len(), self.blocks()),
            ));
        }
        Ok(partials.iter().sum::<f64>() / (self.pupil.points() as f64).powi(2))
    }

    /// Computes all blocks one after the other on this thread.
    ///
    /// # Errors
    /// None in practice: the signature is that of [`ExactStrehl::finish`].
    pub fn run(&self) -> Result<f64, Error> {
        let partials: Vec<f64> = (0..self.blocks()).map(|i| self.block(i)).collect();
        self.finish(&partials)
    }
}
