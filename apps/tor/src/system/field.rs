//! Mirrors that correct a whole field.

use super::System;

/// Correction of all targets by the same mirrors: ground-layer and multi-conjugate adaptive optics.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldCorrection {
    /// Mirrors in the order of their commands. Without any, the system's mirror in the pupil is the
    /// only one.
    pub mirrors: Vec<ConjugateMirror>,
    /// Tikhonov regularisation of the least-squares fit of the mirrors to all targets, as a
    /// fraction of the mean diagonal entry of the normal matrix.
    pub regularisation: f64,
}

/// A mirror with Gaussian influence functions that is conjugated to an altitude.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConjugateMirror {
    /// Distance of the conjugate plane from the pupil along the line of sight in m.
    pub altitude: f64,
    /// Distance of the actuators in the conjugate plane in m; by default the side of the truth
    /// sensor's sub-apertures.
    pub pitch: Option<f64>,
    /// Fraction of the peak at a neighbouring actuator.
    pub coupling: f64,
}

impl ConjugateMirror {
    /// Returns the number of pitches across the pupil, which need not be whole.
    pub fn pitches(&self, system: &System) -> f64 {
        self.pitch.map_or(system.nssp as f64, |pitch| system.diameter / pitch)
    }
}
