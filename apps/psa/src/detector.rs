//! A crystal with its fields and its electronics, which computes the signals of a point.

use std::sync::Arc;

use zellige_runtime::Runtime;

use crate::Error;
use crate::basis::Sampling;
use crate::body::{Body, Vec3};
use crate::channels::{CHANNELS, Channel, Segment};
use crate::crystal::Crystal;
use crate::drift::{Drift, Mobility, Pulse, Trapping};
use crate::electronics::Electronics;
use crate::fields::{Fields, Problem};
use crate::grid::Grid;
use crate::observe::Observer;

/// Solves for the fields of a crystal on a grid with nodes `step` (mm) apart.
///
/// # Errors
/// Those of [`Grid::around`] and [`Fields::solve`].
pub fn fields(rt: &Runtime, crystal: &Crystal, step: f64, observer: &dyn Observer) -> Result<Fields, Error> {
    let grid = Grid::around(crystal, step)?;
    let mut voltages = [0.0; CHANNELS];
    voltages[Channel::CORE.index()] = crystal.bias;
    let charge = |[_, _, z]: Vec3| crystal.space_charge(z);
    Fields::solve(rt, &Problem { body: crystal, grid: &grid, voltages: &voltages, charge: &charge }, observer)
}

/// Returns whether the crystal is depleted: the potential has its extremes on the contacts. An
/// extreme elsewhere means that charge remains that the bias should have swept out.
pub fn is_depleted(crystal: &Crystal, fields: &Fields) -> bool {
    // The tolerance covers the error of the solver.
    let slack = 1e-5 * crystal.bias.abs();
    let (low, high) = (crystal.bias.min(0.0) - slack, crystal.bias.max(0.0) + slack);
    // Values outside extrapolate those inside and may exceed the range.
    let inside = (0..fields.grid().len()).filter(|&node| crystal.contains(fields.grid().position(node)));
    inside.map(|node| f64::from(fields.potential()[node])).all(|volts| (low..=high).contains(&volts))
}

/// A detector that computes the signals of points.
#[derive(Clone, Debug)]
pub struct Detector {
    crystal: Arc<Crystal>,
    drift: Drift,
    electronics: Electronics,
    speed: f64,
    trapping: Trapping,
}

impl Detector {
    /// Creates a detector from a crystal and its fields. Carriers are faster than the drift laws by
    /// the factor `speed`.
    ///
    /// # Errors
    /// [`Error::Parameter`] for electronics or a speed out of range.
    pub fn new(
        crystal: &Crystal,
        fields: Arc<Fields>,
        electronics: Electronics,
        speed: f64,
    ) -> Result<Self, Error> {
        let wrong = |name, problem| Err(Error::Parameter { name, problem });
        if !(electronics.tau >= 0.0 && electronics.tau < 1e6) {
            return wrong("tau", format!("{} ns: give a time from 0", electronics.tau));
        }
        for (name, value) in [
            ("cross_talk", electronics.cross_talk),
            ("differential_cross_talk", electronics.differential_cross_talk),
        ] {
            if !(-1.0..=1.0).contains(&value) {
                return wrong(name, format!("{value:?}: give a number from -1 to 1"));
            }
        }
        if !(0.1..=10.0).contains(&speed) {
            return wrong("speed", format!("{speed}: give a factor from 0.1 to 10"));
        }
        let (temperature, axis_angle) = (crystal.temperature, crystal.axis_angle);
        let mobility = match &crystal.drift {
            Some(table) => Mobility::of_table(table, temperature, axis_angle),
            None => Mobility::new(temperature, axis_angle),
        };
        let crystal = Arc::new(crystal.clone());
        let drift = Drift::new(Arc::clone(&crystal) as _, fields, &mobility, speed);
        Ok(Detector { crystal, drift, electronics, speed, trapping: Trapping::NONE })
    }

    /// Adds charge trapping.
    ///
    /// # Errors
    /// [`Error::Parameter`] for mean drift lengths that are too short.
    pub fn with_trapping(self, trapping: Trapping) -> Result<Self, Error> {
        trapping.check()?;
        Ok(Detector { drift: self.drift.with_trapping(trapping), trapping, ..self })
    }

    /// Returns the crystal.
    pub fn crystal(&self) -> &Crystal {
        &self.crystal
    }

    /// Returns the electronics.
    pub fn electronics(&self) -> Electronics {
        self.electronics
    }

    /// Returns the factor by which carriers are faster than the drift laws.
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// Returns the charge trapping.
    pub fn trapping(&self) -> Trapping {
        self.trapping
    }

    /// Returns the charges that a unit pair created at a point (mm) induces on the contacts.
    pub fn pulse(&self, point: Vec3) -> Pulse {
        self.drift.pulse(point)
    }

    /// Returns the segment that collects a pulse: the one with the largest charge at its end.
    pub fn collects(&self, pulse: &Pulse) -> Segment {
        let ends = &pulse.charges[(pulse.times() - 1) * CHANNELS..];
        Segment::with_largest(|segment| self.polarity() * ends[segment.index()])
    }

    /// Returns the trapping sensitivities of electrons and of holes (mm) in the segment that
    /// collects a pulse.
    pub fn sensitivities(&self, pulse: &Pulse) -> [f32; 2] {
        pulse.sensitivities[self.collects(pulse).index()].map(|mm| self.polarity() * mm)
    }

    /// Adds the signals of a pulse of charge `charge` to samples, by channel. The pulse begins
    /// `late` (ns) after the nominal start of the drift.
    ///
    /// # Panics
    /// If there are not [`CHANNELS`] traces.
    pub fn add(&self, pulse: &Pulse, charge: f32, late: f64, sampling: Sampling, samples: &mut [f32]) {
        self.electronics.add(pulse, self.polarity(), charge, late, sampling, samples);
    }

    /// Returns the sign of the charges that segments collect.
    fn polarity(&self) -> f32 {
        self.crystal.bias.signum() as f32
    }
}
