//! A crystal with its fields and its electronics: what makes a signal of a point.

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
/// As [`Grid::around`] and [`Fields::solve`].
pub fn fields(rt: &Runtime, crystal: &Crystal, step: f64, observer: &dyn Observer) -> Result<Fields, Error> {
    let grid = Grid::around(crystal, step)?;
    let mut voltages = [0.0; CHANNELS];
    voltages[Channel::CORE.index()] = crystal.bias;
    let charge = |[_, _, z]: Vec3| crystal.space_charge(z);
    Fields::solve(rt, &Problem { body: crystal, grid: &grid, voltages: &voltages, charge: &charge }, observer)
}

/// Whether the potential has its extremes on the contacts: elsewhere it has one only where charge
/// stays that the bias should have swept out.
pub fn is_depleted(crystal: &Crystal, fields: &Fields) -> bool {
    // What solving leaves is no charge.
    let slack = 1e-5 * crystal.bias.abs();
    let (low, high) = (crystal.bias.min(0.0) - slack, crystal.bias.max(0.0) + slack);
    // The values outside continue those inside: they may go beyond.
    let inside = (0..fields.grid().len()).filter(|&node| crystal.contains(fields.grid().position(node)));
    inside.map(|node| f64::from(fields.potential()[node])).all(|volts| (low..=high).contains(&volts))
}

/// Makes signals of points.
#[derive(Clone, Debug)]
pub struct Detector {
    crystal: Arc<Crystal>,
    drift: Drift,
    electronics: Electronics,
    speed: f64,
    trapping: Trapping,
}

impl Detector {
    /// A crystal with its fields; charges are faster than the laws say by the factor `speed`.
    ///
    /// # Errors
    /// [`Error::Parameter`] for electronics or a speed without meaning.
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

    /// With charge trapping.
    ///
    /// # Errors
    /// [`Error::Parameter`] for ways that are too short.
    pub fn with_trapping(self, trapping: Trapping) -> Result<Self, Error> {
        trapping.check()?;
        Ok(Detector { drift: self.drift.with_trapping(trapping), trapping, ..self })
    }

    /// The crystal.
    pub fn crystal(&self) -> &Crystal {
        &self.crystal
    }

    /// Its electronics.
    pub fn electronics(&self) -> Electronics {
        self.electronics
    }

    /// How much faster than the laws say its charges are.
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// How far its charges come.
    pub fn trapping(&self) -> Trapping {
        self.trapping
    }

    /// What the contacts see of a unit pair that is made at a point (mm).
    pub fn pulse(&self, point: Vec3) -> Pulse {
        self.drift.pulse(point)
    }

    /// The segment that collects a pulse: the one with the largest charge at its end.
    pub fn collects(&self, pulse: &Pulse) -> Segment {
        let ends = &pulse.charges[(pulse.times() - 1) * CHANNELS..];
        Segment::with_largest(|segment| self.polarity() * ends[segment.index()])
    }

    /// The trapping sensitivities of electrons and of holes (mm) where a pulse is collected.
    pub fn sensitivities(&self, pulse: &Pulse) -> [f32; 2] {
        pulse.sensitivities[self.collects(pulse).index()].map(|mm| self.polarity() * mm)
    }

    /// Adds the signals of a pulse of so much charge to samples, by channel; it begins `late` (ns)
    /// after charges are said to move.
    ///
    /// # Panics
    /// If there are not [`CHANNELS`] traces.
    pub fn add(&self, pulse: &Pulse, charge: f32, late: f64, sampling: Sampling, samples: &mut [f32]) {
        self.electronics.add(pulse, self.polarity(), charge, late, sampling, samples);
    }

    /// The sign of the charges that segments collect.
    fn polarity(&self) -> f32 {
        self.crystal.bias.signum() as f32
    }
}
