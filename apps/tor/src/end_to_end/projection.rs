//! Least-squares fit of wavefronts by the mirror.

use super::surface::MirrorSurface;
use crate::{Error, Matrix};

/// Added to the diagonal of the normal matrix, relative to its largest element. Actuators far
/// outside of the pupil hardly move the wavefront, and piston is no part of the fit.
const RIDGE: f64 = 1e-9;

/// Fit of the wavefront over the pupil, without piston, by the mirror's influence functions.
pub(super) struct Projector {
    /// Inverse of the normal matrix, actuators x actuators.
    inverse: Matrix,
    /// Positions of the grid in the pupil.
    lit: Vec<usize>,
}

impl Projector {
    /// Prepares the fit on a grid of `points` positions, of which those of `lit` count.
    ///
    /// # Errors
    /// Influence functions of which none reaches the pupil.
    pub(super) fn new(mirror: &MirrorSurface, lit: &[usize], points: usize) -> Result<Projector, Error> {
        let actuators = mirror.actuators();
        let mut normal = Matrix::zeros(actuators, actuators);
        let mut push = vec![0.0; actuators];
        let mut wavefront = vec![0.0; points];
        for a in 0..actuators {
            wavefront.fill(0.0);
            push[a] = -1.0;
            mirror.subtract(&push, &mut wavefront);
            push[a] = 0.0;
            normal.col_mut(a).copy_from_slice(&mirror.adjoint(&without_piston(&wavefront, lit)));
        }
        let largest = (0..actuators).map(|a| normal[(a, a)]).fold(0.0, f64::max);
        (0..actuators).for_each(|a| normal[(a, a)] += RIDGE * largest);
        let failed = |_| Error::numeric("mirror", "no influence function reaches the pupil");
        let factor = zellige_faer::cholesky(normal.view()).map_err(failed)?;
        let inverse = zellige_faer::cholesky_inverse(&factor);
        let inverse = Matrix::from_fn(actuators, actuators, |i, j| inverse[(i, j)]);
        Ok(Projector { inverse, lit: lit.to_vec() })
    }

    /// Returns the commands \[volts\] whose wavefront is closest to this one.
    pub(super) fn commands(&self, mirror: &MirrorSurface, wavefront: &[f64]) -> Vec<f64> {
        let products = mirror.adjoint(&without_piston(wavefront, &self.lit));
        let mut commands = vec![0.0; products.len()];
        for (column, product) in products.iter().enumerate() {
            let values = self.inverse.col(column);
            commands.iter_mut().zip(values).for_each(|(u, v)| *u += v * product);
        }
        commands
    }
}

/// Returns a wavefront less its mean over the pupil; it is 0 outside.
fn without_piston(wavefront: &[f64], lit: &[usize]) -> Vec<f64> {
    let mean = lit.iter().map(|p| wavefront[*p]).sum::<f64>() / lit.len().max(1) as f64;
    let mut out = vec![0.0; wavefront.len()];
    lit.iter().for_each(|p| out[*p] = wavefront[*p] - mean);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::end_to_end::conjugate::LoopMirror;
    use crate::end_to_end::{ImagePupil, PupilGrid};
    use crate::geometry::truth_star;
    use crate::params::{Mode, parse};
    use std::path::Path;

    /// The residual of a fit is orthogonal to every influence function, and the mirror's own shapes
    /// leave none.
    #[test]
    fn fits_are_the_best() {
        let text = include_str!("../../systems/scao.toml").replace("nssp = 20 ", "nssp = 6 ");
        let system = parse(Path::new("s.toml"), &text, None, Mode::Strict).unwrap().system;
        let grid = PupilGrid::centres(system.diameter, 32);
        let pupil = ImagePupil::new(system.diameter, system.obstruction, &grid);
        let (mirrors, star) = (LoopMirror::of_system(&system), truth_star(6, [0.0, 0.0]));
        let mirror = MirrorSurface::new(&mirrors, system.diameter / 2.0, &star, &grid);
        let projector = Projector::new(&mirror, &pupil.lit, grid.len()).unwrap();
        let square =
            |wavefront: &[f64]| -> f64 { without_piston(wavefront, &pupil.lit).iter().map(|w| w * w).sum() };
        let any: Vec<f64> =
            (0..grid.len()).map(|p| 1e-7 * (((p * 7919) % 101) as f64 - 50.0 + (p / 32) as f64)).collect();
        let mut residual = any.clone();
        mirror.subtract(&projector.commands(&mirror, &any), &mut residual);
        let best = square(&residual);
        assert!(best < square(&any));
        for a in 0..mirror.actuators() {
            for step in [-1e-3, 1e-3] {
                let mut push = vec![0.0; mirror.actuators()];
                push[a] = step;
                let mut other = residual.clone();
                mirror.subtract(&push, &mut other);
                assert!(square(&other) > best * (1.0 - 1e-9), "actuator {a}");
            }
        }
        let commands: Vec<f64> = (0..mirror.actuators()).map(|a| (a as f64).sin()).collect();
        let mut own = vec![0.0; grid.len()];
        mirror.subtract(&commands, &mut own);
        let before = square(&own);
        mirror.subtract(&projector.commands(&mirror, &own.clone()), &mut own);
        assert!(square(&own) < 1e-10 * before, "{} {before}", square(&own));
    }
}
