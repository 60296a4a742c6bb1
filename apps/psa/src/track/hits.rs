//! Events of hits in the laboratory, and spectra of their energies.

use std::sync::Arc;

use serde::Serialize;

use super::{Point, Spectrum, Tracked};
use crate::Error;

/// Events of hits in crystals, as points in the laboratory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hits {
    /// Numbers of the events, in ascending order.
    pub numbers: Vec<usize>,
    /// Times of the events: the earliest of their hits (ns).
    pub timestamps: Vec<u64>,
    /// Points of the events.
    pub points: Arc<Vec<Vec<Point>>>,
}

/// Spectra of the events of a file.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Spectra {
    /// Energies of reconstructed gamma rays (keV).
    pub tracked: Spectrum,
    /// Energies in the frame of a moving source (keV).
    pub corrected: Spectrum,
    /// Sums of all hits of an event (keV).
    pub calorimetric: Spectrum,
}

impl Spectra {
    /// Creates the spectra of events and their reconstruction, up to `most` (keV) in steps of
    /// `step` (keV).
    ///
    /// # Errors
    /// [`Error::Parameter`] for invalid steps.
    pub fn of(hits: &Hits, tracked: &[Tracked], step: f64, most: f64) -> Result<Spectra, Error> {
        super::check_steps(step, most)?;
        let mut spectra = Spectra {
            tracked: Spectrum::new(step, most),
            corrected: Spectrum::new(step, most),
            calorimetric: Spectrum::new(step, most),
        };
        for gamma in tracked.iter().flat_map(|event| &event.gammas) {
            spectra.tracked.add(gamma.energy);
            spectra.corrected.add(gamma.corrected);
        }
        for points in hits.points.iter() {
            spectra.calorimetric.add(points.iter().map(|point| point.energy).sum());
        }
        Ok(spectra)
    }
}
