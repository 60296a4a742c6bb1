//! A frame of a loop in detail, for pictures.

use super::simulation::Simulation;

/// Wavefront and slopes of one frame.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Number of the frame, from 0.
    pub frame: u64,
    /// Pixels across the pupil.
    pub across: usize,
    /// Residual of the first target in m without piston, row by row (y ascending); NaN outside of
    /// the pupil.
    pub residual: Vec<f64>,
    /// Slopes of the first star's sensor in arcsec: all x, then all y.
    pub slopes: Vec<f64>,
}

impl Snapshot {
    /// Returns the rms of the residual in m.
    pub fn rms(&self) -> f64 {
        let lit = self.residual.iter().filter(|w| w.is_finite());
        let (count, sum) = lit.fold((0, 0.0), |(count, sum), w| (count + 1, sum + w * w));
        (sum / f64::from(count.max(1))).sqrt()
    }
}

impl Simulation {
    /// Returns the next frame in detail, without simulating it; the pseudo-random numbers are those
    /// that it will have.
    pub fn snapshot(&self) -> Snapshot {
        let setup = &self.setup;
        let slopes = self.slopes();
        let mut commands = self.mirrors[0].clone();
        if setup.is_immediate() {
            self.controllers[0].clone().step(&slopes, &mut commands);
        }
        let mut wavefront = vec![0.0; setup.target_points()];
        setup.target_wavefront(0, self.frame, &mut wavefront);
        setup.correct_target(0, &commands, &mut wavefront);
        let lit = &self.pupil().lit;
        let mean = lit.iter().map(|p| wavefront[*p]).sum::<f64>() / lit.len().max(1) as f64;
        let mut residual = vec![f64::NAN; wavefront.len()];
        lit.iter().for_each(|p| residual[*p] = wavefront[*p] - mean);
        Snapshot {
            frame: self.frame,
            across: setup.across(),
            residual,
            slopes: slopes[setup.range(0)].to_vec(),
        }
    }
}
