//! The sampled pupil and the wavefront error over it.

use super::{check_cvv, sampled};
use crate::dm::{DeformableMirror, STROKE};
use crate::matrix::gemm;
use crate::system::System;
use crate::{Error, Matrix};
use std::f64::consts::PI;

/// Pupil points: centres of a `(4 nssp) x (4 nssp)` grid over the pupil's square, those with
/// `obstruction < r <= 1` (pupil radii).
#[derive(Debug, Clone)]
pub struct Pupil {
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
    /// Samples the pupil of a system with this mirror.
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
        Pupil { across, lines, factor, dense }
    }

    /// Returns the number of points.
    pub fn points(&self) -> usize {
        self.lines.iter().map(Vec::len).sum()
    }

    /// Returns the coordinate of grid column (or row) `k` in pupil radii.
    fn coordinate(&self, k: usize) -> f64 {
        (2.0 * k as f64 + 1.0) / self.across as f64 - 1.0
    }

    /// Returns `diag(F Cvv F^T)` in units of `STROKE^2`, on the whole `across x across` grid (0
    /// outside the pupil; x inner).
    pub(super) fn variance(&self, mirror: &DeformableMirror, cvv: &Matrix) -> Vec<f64> {
        if let Some(dense) = &self.dense {
            return self.on_grid(&sampled::variance(dense, cvv));
        }
        // Beyond 5 pitches an influence function is below 0.2^25, less than rounding, so that each
        // point has few actuators.
        let negligible = 1e-18;
        let near: Vec<Vec<usize>> = (0..self.across)
            .map(|p| (0..mirror.across).filter(|&k| self.factor[(p, k)] > negligible).collect())
            .collect();
        let mut index = vec![usize::MAX; mirror.across * mirror.across];
        for (a, c) in mirror.cells.iter().enumerate() {
            index[c[0] as usize + mirror.across * c[1] as usize] = a;
        }
        let mut out = vec![0.0; self.across * self.across];
        let mut local = Vec::new();
        for (y, line) in self.lines.iter().enumerate() {
            for &x in line {
                local.clear();
                for &ky in &near[y] {
                    for &kx in &near[x] {
                        let a = index[kx + mirror.across * ky];
                        let f = self.factor[(x, kx)] * self.factor[(y, ky)];
                        if a != usize::MAX && f > negligible {
                            local.push((a, f));
                        }
                    }
                }
                let mut sum = 0.0;
                for &(b, fb) in &local {
                    let column = cvv.col(b);
                    let mut inner = 0.0;
                    for &(a, fa) in &local {
                        inner += column[a] * fa;
                    }
                    sum += inner * fb;
                }
                out[x + self.across * y] = sum;
            }
        }
        out
    }

    /// Returns the values of the points on the whole grid, 0 outside the pupil.
    fn on_grid(&self, values: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.across * self.across];
        let places = self
            .lines
            .iter()
            .enumerate()
            .flat_map(|(y, line)| line.iter().map(move |&x| x + self.across * y));
        places.zip(values).for_each(|(at, value)| out[at] = *value);
        out
    }

    /// Computes `F^T u` (per actuator, in units of `STROKE`) of a function `u` on the grid that
    /// vanishes outside the pupil.
    fn project(&self, mirror: &DeformableMirror, u: &Matrix) -> Matrix {
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
pub fn residual(system: &System, mirror: &DeformableMirror, cvv: &Matrix) -> Result<Residual, Error> {
    check_cvv(cvv, mirror)?;
    let pupil = Pupil::new(system, mirror);
    let count = pupil.points() as f64;
    let total = pupil.variance(mirror, cvv).iter().sum::<f64>() / count;

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
        let w = pupil.project(mirror, &u);
        let cw = cvv.times(&w)?;
        shares.push(w.data().iter().zip(cw.data()).map(|(a, b)| a * b).sum::<f64>() / count);
        modes.push(u);
    }
    let rms = |variance: f64| STROKE * variance.max(0.0).sqrt();
    let marechal = |sigma: f64| (-(2.0 * PI * sigma / system.wavelength).powi(2)).exp();
    let piston = rms(total - shares[0]);
    let ptt = rms(total - shares[0] - shares[1] - shares[2]);
    Ok(Residual {
        wfe_nm: rms(total) * 1e9,
        wfe_nm_piston_removed: piston * 1e9,
        wfe_nm_ptt_removed: ptt * 1e9,
        marechal_piston_removed: marechal(piston),
        marechal_ptt_removed: marechal(ptt),
    })
}
