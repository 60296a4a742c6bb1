//! The deformable mirror: actuators, influence functions, interaction matrix and command matrix
//! `Dx`.
//!
//! The model is that of MOAO's generator: a square grid of `nssp + 1` actuators across the pupil.
//! Those whose distance from the centre, in pupil radii, satisfies `obstruction - 1/nssp < r < 1 +
//! 1.4/nssp` are kept, or those of a map. The influence is the Gaussian `1 um * exp(-rho^2 / (2
//! x0^2))` per volt with `x0 = sqrt(-2 / ln coupling) / nssp`. A neighbour thus moves by `coupling`
//! of the peak (0.2 by default).
//!
//! A mirror that is conjugated to an altitude is such a grid, too, over the footprints of all beams
//! ([`DeformableMirror::over`]). [`InfluenceFunctions`] replace this model for a mirror with
//! measured functions.

use crate::geometry::{Geometry, SubApertures, truth_star};
use crate::matrix::gemm;
use crate::system::{GuideStar, InfluenceFunctions, MirrorModel, System};
use crate::{ARCSEC_PER_RADIAN, Error, Matrix};
use std::sync::Arc;

/// Stroke of one volt in m.
pub const STROKE: f64 = 1e-6;

/// A beam's cross-section at a mirror, in pupil radii.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Footprint {
    /// Centre.
    pub centre: [f64; 2],
    /// Radius.
    pub radius: f64,
}

impl Footprint {
    /// The pupil.
    pub const PUPIL: Footprint = Footprint { centre: [0.0; 2], radius: 1.0 };

    /// Returns the footprint of a star's light in a plane at `altitude` \[m\], for a pupil of
    /// `radius` m: a position `p` in the pupil is at `radius p + centre`.
    pub fn of(star: &GuideStar, altitude: f64, radius: f64) -> Self {
        let centre = star.direction.map(|angle| angle / ARCSEC_PER_RADIAN * altitude / radius);
        Footprint { centre, radius: 1.0 - altitude * star.inverse_altitude }
    }

    /// Returns the distance from the axis that the footprint reaches.
    pub fn reach(&self) -> f64 {
        self.centre[0].hypot(self.centre[1]) + self.radius
    }
}

/// Returns the footprints of the light of all stars and targets in a plane at `altitude` \[m\].
pub fn footprints(system: &System, altitude: f64) -> Vec<Footprint> {
    let of = |star: &GuideStar| Footprint::of(star, altitude, system.diameter / 2.0);
    let targets = system.targets.iter().map(|target| of(&truth_star(system.nssp, *target)));
    system.stars.iter().map(of).chain(targets).collect()
}

/// Actuators of a mirror on the truth sensor's grid, or of a mirror with sampled functions.
#[derive(Debug, Clone, PartialEq)]
pub struct DeformableMirror {
    /// Actuators across, `nssp + 1` unless a map differs; 0 for sampled functions.
    pub across: usize,
    /// Column and row of each actuator on the grid, row by row like sub-apertures.
    pub cells: Vec<[u16; 2]>,
    /// Width of the influence function in pupil radii.
    pub width: f64,
    nssp: f64,
    sampled: Option<Arc<InfluenceFunctions>>,
}

impl DeformableMirror {
    /// Builds the mirror of a system.
    pub fn new(system: &System) -> Self {
        let nssp = system.nssp as f64;
        let (coupling, map) = match &system.mirror {
            MirrorModel::Gaussian { coupling, actuators } => (*coupling, actuators.as_ref()),
            MirrorModel::Sampled(functions) => {
                return DeformableMirror {
                    across: 0,
                    cells: Vec::new(),
                    width: 0.0,
                    nssp,
                    sampled: Some(Arc::clone(functions)),
                };
            }
        };
        match map {
            Some(map) => {
                DeformableMirror::grid(nssp, map.across(), coupling, |_, cell| map.holds(cell[0], cell[1]))
            }
            None => DeformableMirror::over(system.obstruction, nssp, coupling, &[Footprint::PUPIL]),
        }
    }

    /// Builds a mirror with Gaussian influence functions, `nssp` pitches across the pupil, whose
    /// actuators are those around any of the footprints.
    pub fn over(obstruction: f64, nssp: f64, coupling: f64, footprints: &[Footprint]) -> Self {
        let sees = |[x, y]: [f64; 2], footprint: &Footprint| {
            let r = (x - footprint.centre[0]).hypot(y - footprint.centre[1]);
            r > obstruction * footprint.radius - 1.0 / nssp && r < footprint.radius + 1.4 / nssp
        };
        DeformableMirror::grid(nssp, lines(nssp, footprints), coupling, |place, _| {
            footprints.iter().any(|footprint| sees(place, footprint))
        })
    }

    /// Builds a mirror of the actuators that `holds` chooses by their place in pupil radii, and
    /// their column and row.
    fn grid(nssp: f64, across: usize, coupling: f64, holds: impl Fn([f64; 2], [usize; 2]) -> bool) -> Self {
        let width = (-2.0 / coupling.ln()).sqrt() / nssp;
        let mut mirror = DeformableMirror { across, cells: Vec::new(), width, nssp, sampled: None };
        for iy in 0..across {
            for ix in 0..across {
                if holds([mirror.coordinate(ix), mirror.coordinate(iy)], [ix, iy]) {
                    mirror.cells.push([ix as u16, iy as u16]);
                }
            }
        }
        mirror
    }

    /// Returns the sampled influence functions, if the mirror has them.
    pub fn sampled(&self) -> Option<&InfluenceFunctions> {
        self.sampled.as_deref()
    }

    /// Returns the number of actuators.
    pub fn len(&self) -> usize {
        self.sampled.as_ref().map_or(self.cells.len(), |functions| functions.actuators())
    }

    /// Returns whether there is no actuator (never for a valid system).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the coordinate of grid line `k` in pupil radii: from -1 to 1 for `nssp + 1` lines.
    pub fn coordinate(&self, k: usize) -> f64 {
        2.0 * k as f64 / self.nssp - (self.across as f64 - 1.0) / self.nssp
    }

    /// Returns one factor of the separable influence function (shape only, 1 at the actuator) at
    /// distance `d` in pupil radii.
    pub fn profile(&self, d: f64) -> f64 {
        (-d * d / (2.0 * self.width * self.width)).exp()
    }

    /// Returns the interaction matrix in arcsec per volt, `m x actuators`: the slopes of the truth
    /// sensor for each actuator.
    pub fn interaction(&self, system: &System, truth: &SubApertures) -> Matrix {
        let radius = system.diameter / 2.0;
        let half = truth.pitch / 2.0;
        let scale = STROKE / truth.pitch * ARCSEC_PER_RADIAN;
        let count = truth.len();
        let mut out = Matrix::zeros(2 * count, self.len());
        if let Some(functions) = self.sampled() {
            let scale = ARCSEC_PER_RADIAN / truth.pitch;
            for a in 0..self.len() {
                let at = |x: f64, y: f64| functions.at(a, [x / radius, y / radius]);
                let column = out.col_mut(a);
                for i in 0..count {
                    let [x, y] = truth.centre(i);
                    column[i] = scale * (at(x + half, y) - at(x - half, y));
                    column[count + i] = scale * (at(x, y + half) - at(x, y - half));
                }
            }
            return out;
        }
        for (a, cell) in self.cells.iter().enumerate() {
            let [ax, ay] = cell.map(|k| self.coordinate(k as usize));
            let column = out.col_mut(a);
            for i in 0..count {
                let [x, y] = truth.centre(i);
                let edge = |c: f64, a: f64| {
                    self.profile((c + half) / radius - a) - self.profile((c - half) / radius - a)
                };
                column[i] = scale * edge(x, ax) * self.profile(y / radius - ay);
                column[count + i] = scale * edge(y, ay) * self.profile(x / radius - ax);
            }
        }
        out
    }
}

/// Returns the number of actuators across a mirror with `nssp` pitches across the pupil that covers
/// these footprints. Its grid has the place of the pupil's.
pub fn lines(nssp: f64, footprints: &[Footprint]) -> usize {
    let reach = footprints.iter().map(Footprint::reach).fold(1.0, f64::max);
    // Rounding errors of a footprint's place add no line.
    let beyond = ((reach - 1.0) * nssp / 2.0 - 1e-9).ceil().max(0.0);
    nssp.ceil() as usize + 1 + 2 * beyond as usize
}

/// Command matrix and its singular values.
#[derive(Debug, Clone)]
pub struct CommandMatrix {
    /// `Dx`, actuators x m, volts per arcsec.
    pub dx: Matrix,
    /// Singular values of the interaction matrix, largest first. The smallest are only as accurate
    /// as the square root of the rounding error, because they come from the normal matrix. None of
    /// those is used.
    pub singular_values: Vec<f64>,
    /// Number of modes kept.
    pub kept: usize,
    /// Number of modes filtered.
    pub filtered: usize,
}

/// Computes the pseudo-inverse of an interaction matrix (`m x actuators`) that keeps the singular
/// values `>= largest * cutoff`.
///
/// It is `V S^-2 V^T A^T` from the eigendecomposition of `A^T A`. With the usual cutoff of `1 /
/// sqrt(30)` the kept part has a condition number of 5.5, so that squaring it loses no accuracy.
///
/// # Errors
/// The matrix is empty or not finite, `cutoff` is not in (1e-6, 1], or the eigenvalues do not
/// converge.
pub fn pseudo_inverse(interaction: &Matrix, cutoff: f64) -> Result<CommandMatrix, Error> {
    let failed = |problem: &str| Error::numeric("command matrix", problem);
    if interaction.rows() == 0 || interaction.cols() == 0 {
        return Err(failed("the interaction matrix is empty"));
    }
    if !interaction.data().iter().all(|x| x.is_finite()) {
        return Err(failed("the interaction matrix holds a value that is not finite"));
    }
    if !(cutoff > 1e-6 && cutoff <= 1.0) {
        return Err(failed("the cutoff must lie between 1e-6 and 1"));
    }
    let (m, actuators) = (interaction.rows(), interaction.cols());
    let mut normal = Matrix::zeros(actuators, actuators);
    gemm(normal.view_mut(), false, interaction.view().transpose(), interaction.view(), 1.0);
    let eigen = zellige_faer::eigen(normal.view()).map_err(|_| failed("the eigenvalues do not converge"))?;
    let values: Vec<f64> = (0..actuators).map(|i| eigen.S()[i]).collect();
    let largest = values.iter().copied().fold(0.0, f64::max);
    if largest <= 0.0 {
        return Err(failed("the interaction matrix is zero"));
    }
    let kept: Vec<usize> = (0..actuators).filter(|&i| values[i] >= largest * cutoff * cutoff).collect();
    let scaled = Matrix::from_fn(actuators, kept.len(), |i, k| eigen.U()[(i, kept[k])] / values[kept[k]]);
    let basis = Matrix::from_fn(actuators, kept.len(), |i, k| eigen.U()[(i, kept[k])]);
    let mut projected = Matrix::zeros(kept.len(), m);
    gemm(projected.view_mut(), false, basis.view().transpose(), interaction.view().transpose(), 1.0);
    let mut singular_values: Vec<f64> = values.iter().map(|v| v.max(0.0).sqrt()).collect();
    singular_values.sort_by(|a, b| b.total_cmp(a));
    let dx = scaled.times(&projected)?;
    Ok(CommandMatrix { dx, singular_values, filtered: actuators - kept.len(), kept: kept.len() })
}

/// Computes `Dx` of a system with the mirror of this module and the usual cutoff `1 / sqrt(30)`.
///
/// # Errors
/// See [`pseudo_inverse`].
pub fn command_matrix(system: &System, geometry: &Geometry) -> Result<CommandMatrix, Error> {
    let interaction = DeformableMirror::new(system).interaction(system, geometry.truth());
    pseudo_inverse(&interaction, 1.0 / 30f64.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pseudo_inverse_of_a_full_rank_matrix_inverts_it() {
        let a =
            Matrix::from_fn(7, 4, |i, j| if i == j { 2.0 + j as f64 } else { 0.1 * (i as f64 - j as f64) });
        let p = pseudo_inverse(&a, 1e-3).unwrap();
        assert_eq!((p.kept, p.filtered), (4, 0));
        let identity = p.dx.times(&a).unwrap();
        for i in 0..4 {
            for j in 0..4 {
                assert!((identity[(i, j)] - f64::from(u8::from(i == j))).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn filtered_modes_are_absent() {
        // Of the singular values 3 and 0.1, only the first survives a cutoff of 0.5.
        let a = Matrix::from_vec(2, 2, vec![3.0, 0.0, 0.0, 0.1]).unwrap();
        let p = pseudo_inverse(&a, 0.5).unwrap();
        assert_eq!((p.kept, p.filtered), (1, 1));
        assert!((p.dx[(0, 0)] - 1.0 / 3.0).abs() < 1e-14 && p.dx[(1, 1)].abs() < 1e-14);
        assert!(pseudo_inverse(&Matrix::zeros(2, 2), 0.5).is_err());
        assert!(pseudo_inverse(&Matrix::zeros(0, 0), 0.5).is_err());
        assert!(pseudo_inverse(&Matrix::from_fn(2, 2, |_, _| f64::NAN), 0.5).is_err());
    }
}
