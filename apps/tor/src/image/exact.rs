//! The exact long-exposure Strehl ratio.
//!
//! `SR = mean over all pairs of pupil points of exp(-k^2/2 (P_ii + P_jj - 2 P_ij))`, `P = F Cvv
//! F^T`, `k = 2 pi / lambda`, with `F` the influence functions at the points (conventions of
//! [`Pupil`]). `P` is never stored: for 86 sub-apertures across it would have 8e9 entries.
//!
//! Because influence functions are Gaussian, `F` is the product of a factor in x and one in y. With
//! `M_i` row `i` of `F Cvv` laid out on the actuator grid, all `P_ij` of one point are `X M_i Y^T`.
//! This takes about `1 / nssp` of the work of the dense product, which a mirror with sampled
//! influence functions needs. A block is one line of pupil points against this line and all later
//! ones; the blocks are independent.

use super::pupil::Pupil;
use super::{check_cvv, sampled};
use crate::dm::{DeformableMirror, STROKE};
use crate::matrix::gemm;
use crate::system::System;
use crate::{Error, Matrix};
use faer::{MatMut, MatRef};
use std::f64::consts::PI;

/// Number of points of a line that share one matrix product, which bounds the scratch memory.
const BATCH: usize = 16;

/// Computation of the exact Strehl ratio of one `Cvv`, as independent blocks. It owns its data, so
/// that tasks can share it.
///
/// ```text
/// let exact = ExactStrehl::new(&system, &mirror, &cvv)?;
/// let partials: Vec<f64> = (0..exact.blocks()).map(|i| exact.block(i)).collect();     // in any order, on any thread
/// let strehl = exact.finish(&partials)?;
/// ```
#[derive(Debug)]
pub struct ExactStrehl {
    pupil: Pupil,
    mirror: DeformableMirror,
    cvv: Matrix,
    /// `k^2 P_ii / 2` on the grid, x inner.
    half_variance: Vec<f64>,
    /// `k^2 STROKE^2`.
    scale: f64,
}

impl ExactStrehl {
    /// Prepares the computation for a residual `cvv` \[volts^2\] on `mirror`, at the system's
    /// imaging wavelength.
    ///
    /// # Errors
    /// `cvv` does not fit the mirror or is not finite, or no point lies in the pupil.
    pub fn new(system: &System, mirror: &DeformableMirror, cvv: &Matrix) -> Result<Self, Error> {
        check_cvv(cvv, mirror)?;
        let pupil = Pupil::new(system, mirror);
        if pupil.points() == 0 {
            return Err(Error::numeric(
                "exact Strehl ratio",
                "no sampling point lies in the pupil: the obstruction is too large",
            ));
        }
        let scale = (2.0 * PI / system.wavelength * STROKE).powi(2);
        let half_variance = pupil.variance(mirror, cvv).iter().map(|v| 0.5 * scale * v).collect();
        Ok(ExactStrehl { pupil, mirror: mirror.clone(), cvv: cvv.clone(), half_variance, scale })
    }

    /// Returns the number of blocks: lines of the sampled pupil. Early ones cost most.
    pub fn blocks(&self) -> usize {
        self.pupil.across
    }

    /// Returns the sum over the pairs of block `i`; 0 for a block that does not exist.
    pub fn block(&self, i: usize) -> f64 {
        let Some(points) = self.pupil.lines.get(i).filter(|line| !line.is_empty()) else {
            return 0.0;
        };
        if let Some(dense) = &self.pupil.dense {
            let first: usize = self.pupil.lines[..i].iter().map(Vec::len).sum();
            let half = |y: usize, x: usize| self.half_variance[x + self.pupil.across * y];
            let halves = self
                .pupil
                .lines
                .iter()
                .enumerate()
                .skip(i)
                .flat_map(|(y, line)| line.iter().map(move |&x| half(y, x)));
            return sampled::pairs(
                dense,
                &self.cvv,
                first,
                points.len(),
                &halves.collect::<Vec<_>>(),
                self.scale,
            );
        }
        let (across, side, actuators) = (self.pupil.across, self.mirror.across, self.mirror.len());
        let factor = &self.pupil.factor;

        // The actuator rows are contracted with this line's factor in y, then the actuator columns
        // with the factor in x.
        let mut rows = Matrix::zeros(side, actuators);
        for b in 0..actuators {
            let (source, target) = (self.cvv.col(b), rows.col_mut(b));
            for (value, cell) in source.iter().zip(&self.mirror.cells) {
                target[cell[0] as usize] += factor[(i, cell[1] as usize)] * value;
            }
        }
        let here = Matrix::from_fn(points.len(), side, |p, k| factor[(points[p], k)]);
        let mut line = Matrix::zeros(points.len(), actuators);
        gemm(line.view_mut(), false, here.view(), rows.view(), self.scale);

        let later = across - i;
        let y_factor = factor.view().subrows(i, later).transpose();
        let mut grids = vec![0.0; side * side * BATCH];
        let mut spread = vec![0.0; across * side * BATCH];
        let mut p = vec![0.0; across * later];
        let mut sum = 0.0;
        for first in (0..points.len()).step_by(BATCH) {
            let count = BATCH.min(points.len() - first);
            grids.fill(0.0);
            for (a, cell) in self.mirror.cells.iter().enumerate() {
                let at = cell[0] as usize + side * cell[1] as usize;
                for q in 0..count {
                    grids[at + side * side * q] = line[(first + q, a)];
                }
            }
            gemm(
                MatMut::from_column_major_slice_mut(
                    &mut spread[..across * side * count],
                    across,
                    side * count,
                ),
                false,
                factor.view(),
                MatRef::from_column_major_slice(&grids[..side * side * count], side, side * count),
                1.0,
            );
            for q in 0..count {
                let w = MatRef::from_column_major_slice(
                    &spread[across * side * q..across * side * (q + 1)],
                    across,
                    side,
                );
                gemm(MatMut::from_column_major_slice_mut(&mut p, across, later), false, w, y_factor, 1.0);
                let own = self.half_variance[points[first + q] + across * i];
                sum += self.pairs(i, own, &p);
            }
        }
        sum
    }

    /// Returns the sum of one point's exponentials. Later lines count twice, for the pairs in both
    /// orders.
    fn pairs(&self, i: usize, own: f64, p: &[f64]) -> f64 {
        let across = self.pupil.across;
        let mut sum = 0.0;
        for (y, line) in self.pupil.lines.iter().enumerate().skip(i) {
            let values = &p[(y - i) * across..(y - i + 1) * across];
            let variances = &self.half_variance[y * across..(y + 1) * across];
            // This is minus half the variance of a difference, so that a positive value is a
            // rounding error.
            let part: f64 = line.iter().map(|&x| (values[x] - (own + variances[x])).min(0.0).exp()).sum();
            sum += if y == i { part } else { 2.0 * part };
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
