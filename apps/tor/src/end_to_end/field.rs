//! Correction of a field by mirrors that all targets share.
//!
//! The truth sensor towards target `t` has the slopes `A_t u` for the commands `u`, and those of
//! the turbulence are estimated as `R_t s` from the measurements `s`. Commands are `u = V s`, where
//! `V` minimises `sum_t |R_t s - A_t u|^2 + a |u|^2`:
//!
//! `V = (sum_t A_t^T A_t + a I)^-1 sum_t A_t^T R_t`
//!
//! (Fusco, Conan, Rousset, Mugnier & Michau, J. Opt. Soc. Am. A 18, 2001, 2527, with slopes in
//! place of phases). With one mirror in the pupil, all `A_t` are equal and `V` averages the
//! estimates over the field: ground-layer adaptive optics. The error towards `t` is that of the
//! reconstructor `A_t V`, so that [`crate::evaluate`] judges it from covariances alone.

use super::conjugate::LoopMirror;
use super::surface::MirrorSurface;
use super::{GeometricSensor, WavefrontSensor};
use crate::dm::{self, DeformableMirror};
use crate::geometry::{Geometry, truth_star};
use crate::matrix::gemm;
use crate::system::System;
use crate::{Error, Matrix};

/// Returns the slopes of the truth sensor towards each target for each command of all mirrors:
/// truth-sensor slopes x commands, arcsec per volt.
///
/// # Errors
/// A sensor has no valid sub-aperture.
pub fn field_responses(system: &System) -> Result<Vec<Matrix>, Error> {
    let sensor = GeometricSensor::edge_middles(Geometry::new(system)?.truth());
    let mirrors = LoopMirror::of_system(system);
    let towards = |target: &[f64; 2]| {
        let star = truth_star(system.nssp, *target);
        response(&MirrorSurface::new(&mirrors, system.diameter / 2.0, &star, sensor.grid()), &sensor)
    };
    Ok(system.targets.iter().map(towards).collect())
}

fn response(mirrors: &MirrorSurface, sensor: &GeometricSensor) -> Matrix {
    let mut out = Matrix::zeros(sensor.slopes(), mirrors.actuators());
    let mut commands = vec![0.0; mirrors.actuators()];
    let mut wavefront = vec![0.0; sensor.grid().len()];
    for a in 0..commands.len() {
        commands[a] = -1.0;
        wavefront.fill(0.0);
        mirrors.subtract(&commands, &mut wavefront);
        sensor.measure(&wavefront, 0, out.col_mut(a));
        commands[a] = 0.0;
    }
    out
}

/// Computes the command matrix `V` (commands x measurements, volts per arcsec) of the mirrors that
/// all targets share, from the reconstructors of the targets. `regularisation` is `a` as a fraction
/// of the mean diagonal entry of `sum_t A_t^T A_t`.
///
/// # Errors
/// There is not one reconstructor of the same size for each target, or the regularisation is too
/// small for the normal matrix to be positive definite.
pub fn fit_field(
    responses: &[Matrix],
    reconstructors: &[Matrix],
    regularisation: f64,
) -> Result<Matrix, Error> {
    let (Some(first), Some(model)) = (responses.first(), reconstructors.first()) else {
        return Err(Error::shape("reconstructors", "the fit needs at least one target"));
    };
    let shape = (first.rows(), model.cols());
    if responses.len() != reconstructors.len() || reconstructors.iter().any(|r| (r.rows(), r.cols()) != shape)
    {
        let problem = format!("the fit needs {} of {} x {}", responses.len(), shape.0, shape.1);
        return Err(Error::shape("reconstructors", problem));
    }
    let commands = first.cols();
    let mut normal = Matrix::zeros(commands, commands);
    let mut right = Matrix::zeros(commands, shape.1);
    for (a, r) in responses.iter().zip(reconstructors) {
        gemm(normal.view_mut(), true, a.view().transpose(), a.view(), 1.0);
        gemm(right.view_mut(), true, a.view().transpose(), r.view(), 1.0);
    }
    let shift = regularisation * normal.trace() / commands as f64;
    (0..commands).for_each(|i| normal[(i, i)] += shift);
    let factor = zellige_faer::cholesky(normal.view()).map_err(|_| {
        let problem = "the mirrors' normal matrix is not positive definite: raise field.regularisation";
        Error::numeric("command matrix", problem)
    })?;
    zellige_faer::cholesky_solve(&factor, right.view_mut());
    Ok(right)
}

/// Computes the command matrix of the system's mirror in the pupil with the loop's own cutoff: the
/// usual one filters tip and tilt of mirrors with many actuators.
pub(super) fn pupil_commands(system: &System, geometry: &Geometry) -> Result<Matrix, Error> {
    let interaction = DeformableMirror::new(system).interaction(system, geometry.truth());
    Ok(dm::pseudo_inverse(&interaction, system.simulation.cutoff)?.dx)
}
