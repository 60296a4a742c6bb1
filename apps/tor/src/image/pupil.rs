//! The sampled pupil and the wavefront error over it.

use super::{check_cvv, sampled};
use crate::dm::{DeformableMirror, STROKE};
use crate::matrix::gemm;
use crate::system::System;
use crate::{Error, Matrix};
use std::f64::consts::PI;
use std::ops::Range;

/// Pupil points: centres of a `(4 nssp) x (4 nssp)` grid over the pupil's square, those with
/// `obstruction < r <= 1` (pupil radii).
#[derive(Debug, Clone)]
pub struct Pupil {
    mirror: DeformableMirror,
    /// Imaging wavelength in m.
    pub(super) wavelength: f64,
    /// Number of points across the square.
    pub across: usize,
    /// Valid columns of each row of the grid.
    pub lines: Vec<Vec<usize>>,
    /// Influence of actuator column (or row) `k` at grid column (or row) `p`, `across x
    /// mirror.across`: the influence function is the product of one factor in x and one in y.
    pub(super) factor: Matrix,
    /// Influence functions of a mirror with sampled functions: points x actuators, in units of
    /// `STROKE`, line by line.
    pub(super) dense: Option<Matrix>,
}

impl Pupil {
    /// Samples the pupil of a system with this mirror, for its imaging wavelength.
    pub fn new(system: &System, mirror: &DeformableMirror) -> Self {
        let across = 4 * system.nssp;
        let at = |k: usize| (2.0 * k as f64 + 1.0) / across as f64 - 1.0;
        let lines: Vec<Vec<usize>> = (0..across)
            .map(|y| {
                (0..across)
                    .filter(|&x| {
                        let r = at(x).hypot(at(y));
                        r > system.obstruction && r <= 1.0
                    })
                    .collect()
            })
            .collect();
        let factor =
            Matrix::from_fn(across, mirror.across, |p, k| mirror.profile(at(p) - mirror.coordinate(k)));
        let points =
            || lines.iter().enumerate().flat_map(|(y, line)| line.iter().map(move |&x| [at(x), at(y)]));
        let dense =
            mirror.sampled().map(|functions| sampled::at_points(functions, &points().collect::<Vec<_>>()));
        Pupil { mirror: mirror.clone(), wavelength: system.wavelength, across, lines, factor, dense }
    }

    /// Returns the number of points.
    pub fn points(&self) -> usize {
        self.lines.iter().map(Vec::len).sum()
    }

    /// Returns the coordinate of grid column (or row) `k` in pupil radii.
    fn coordinate(&self, k: usize) -> f64 {
        (2.0 * k as f64 + 1.0) / self.across as f64 - 1.0
    }

    /// Returns the actuator columns (or rows) that move any of the grid columns (or rows) `points`.
    ///
    /// Beyond 5 pitches an influence function is below 0.2^25, less than rounding.
    pub(super) fn near(&self, points: Range<usize>) -> Range<usize> {
        let moves = |k: &usize| points.clone().any(|p| self.factor[(p, *k)] > 1e-18);
        let first = (0..self.factor.cols()).find(moves).unwrap_or(0);
        let last = (0..self.factor.cols()).rfind(moves).map_or(first, |last| last + 1);
        first..last
    }

    /// Checks that `cvv` fits the mirror and is finite.
    pub(super) fn check(&self, cvv: &Matrix) -> Result<(), Error> {
        check_cvv(cvv, &self.mirror)
    }

    /// Returns `Cvv` with the actuators of its rows contracted with the influence in y at grid row
    /// `y`: actuator columns x actuators, which are placed on the mirror's whole grid (x inner).
    pub(super) fn contracted(&self, cvv: &Matrix, y: usize) -> Matrix {
        let mirror = &self.mirror;
        let side = mirror.across;
        let near = self.near(y..y + 1);
        // Actuators are sorted by rows of the grid.
        let row = |cell: &[u16; 2]| usize::from(cell[1]);
        let first = mirror.cells.partition_point(|cell| row(cell) < near.start);
        let end = mirror.cells.partition_point(|cell| row(cell) < near.end);
        let cells: Vec<(usize, f64)> =
            mirror.cells[first..end].iter().map(|c| (c[0].into(), self.factor[(y, row(c))])).collect();
        let mut out = Matrix::zeros(side, side * side);
        for (b, cell) in mirror.cells.iter().enumerate() {
            let target = out.col_mut(usize::from(cell[0]) + side * row(cell));
            for (value, (x, factor)) in cvv.col(b)[first..end].iter().zip(&cells) {
                target[*x] += factor * value;
            }
        }
        out
    }

    /// Returns `diag(F Cvv F^T)` in units of `STROKE^2` at every point, line by line.
    pub(super) fn variance(&self, cvv: &Matrix) -> Vec<f64> {
        if let Some(dense) = &self.dense {
            return sampled::variance(dense, cvv);
        }
        let side = self.mirror.across;
        let near: Vec<_> = (0..self.across).map(|k| self.near(k..k + 1)).collect();
        let mut out = Vec::with_capacity(self.points());
        let mut of_line = Matrix::zeros(side, side);
        for (y, line) in self.lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
            let rows = self.contracted(cvv, y);
            of_line.data_mut().fill(0.0);
            for ky in near[y].clone() {
                let factor = self.factor[(y, ky)];
                let part = &rows.data()[side * side * ky..side * side * (ky + 1)];
                of_line.data_mut().iter_mut().zip(part).for_each(|(sum, v)| *sum += factor * v);
            }
            out.extend(line.iter().map(|&x| {
                let near = &near[x];
                let inner =
                    |b: usize| -> f64 { near.clone().map(|a| self.factor[(x, a)] * of_line[(a, b)]).sum() };
                near.clone().map(|b| self.factor[(x, b)] * inner(b)).sum::<f64>()
            }));
        }
        out
    }

    /// Computes `F^T u` (per actuator, in units of `STROKE`) of a function `u` on the grid that
    /// vanishes outside the pupil.
    fn project(&self, u: &Matrix) -> Matrix {
        let mirror = &self.mirror;
        if let Some(dense) = &self.dense {
            let places =
                self.lines.iter().enumerate().flat_map(|(y, line)| line.iter().map(move |&x| (x, y)));
            let values: Vec<f64> = places.map(|(x, y)| u[(x, y)]).collect();
            return Matrix::from_fn(mirror.len(), 1, |a, _| {
                dense.col(a).iter().zip(&values).map(|(f, u)| f * u).sum()
            });
        }
        let mut rows = Matrix::zeros(mirror.across, self.across);
        gemm(rows.view_mut(), false, self.factor.view().transpose(), u.view(), 1.0);
        let mut grid = Matrix::zeros(mirror.across, mirror.across);
        gemm(grid.view_mut(), false, rows.view(), self.factor.view(), 1.0);
        Matrix::from_fn(mirror.len(), 1, |a, _| {
            let c = mirror.cells[a];
            grid[(c[0] as usize, c[1] as usize)]
        })
    }
}

/// Wavefront error over the pupil.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Residual {
    /// Wavefront error, rms in nm, including piston.
    pub wfe_nm: f64,
    /// Wavefront error, rms in nm, without piston.
    pub wfe_nm_piston_removed: f64,
    /// Wavefront error, rms in nm, without piston, tip and tilt.
    pub wfe_nm_ptt_removed: f64,
    /// Marechal approximation `exp(-(2 pi sigma / lambda)^2)` without piston.
    pub marechal_piston_removed: f64,
    /// Marechal approximation without piston, tip and tilt.
    pub marechal_ptt_removed: f64,
}

/// Computes the wavefront error of a residual `cvv` \[volts^2\] averaged over the pupil, and
/// Marechal's Strehl ratio at the imaging wavelength.
///
/// # Errors
/// `cvv` does not fit the mirror or is not finite.
pub fn residual(pupil: &Pupil, cvv: &Matrix) -> Result<Residual, Error> {
    pupil.check(cvv)?;
    let rms = |variance: f64| STROKE * variance.max(0.0).sqrt();
    let marechal = |sigma: f64| (-(2.0 * PI * sigma / pupil.wavelength).powi(2)).exp();
    let [total, piston, ptt] = variances(pupil, cvv)?.map(rms);
    Ok(Residual {
        wfe_nm: total * 1e9,
        wfe_nm_piston_removed: piston * 1e9,
        wfe_nm_ptt_removed: ptt * 1e9,
        marechal_piston_removed: marechal(piston),
        marechal_ptt_removed: marechal(ptt),
    })
}

/// Computes the mean variance over the pupil in units of `STROKE^2`: all of it, without piston, and
/// without piston, tip and tilt. Each is linear in `cvv`.
///
/// # Errors
/// `cvv` does not fit the mirror.
pub(crate) fn variances(pupil: &Pupil, cvv: &Matrix) -> Result<[f64; 3], Error> {
    let count = pupil.points() as f64;
    let total = pupil.variance(cvv).iter().sum::<f64>() / count;

    // The modes are orthonormal piston, tip and tilt on the sampled pupil (Gram-Schmidt). Each
    // takes its part of the variance.
    let mut modes: Vec<Matrix> = Vec::new();
    let mut shares = Vec::new();
    for power in 0..3 {
        let mut u = Matrix::zeros(pupil.across, pupil.across);
        for (y, line) in pupil.lines.iter().enumerate() {
            for &x in line {
                u[(x, y)] = match power {
                    0 => 1.0,
                    1 => pupil.coordinate(x),
                    _ => pupil.coordinate(y),
                };
            }
        }
        for m in &modes {
            let dot: f64 = m.data().iter().zip(u.data()).map(|(a, b)| a * b).sum();
            for (a, b) in u.data_mut().iter_mut().zip(m.data()) {
                *a -= dot * b;
            }
        }
        let norm = u.norm();
        if norm > 0.0 {
            for a in u.data_mut() {
                *a /= norm;
            }
        }
        let w = pupil.project(&u);
        let cw = cvv.times(&w)?;
        shares.push(w.data().iter().zip(cw.data()).map(|(a, b)| a * b).sum::<f64>() / count);
        modes.push(u);
    }
    let piston = total - shares[0];
    Ok([total, piston, piston - shares[1] - shares[2]])
}
