//! Simulated events: charges at known positions, as an experiment would record them.
//!
//! Positions are uniform in the crystal, not restricted to those of a basis, and each signal is
//! simulated by a drift from its position. Every event has random numbers of its own. Therefore
//! events are identical, to the bit, for any number of workers, and the first ones do not depend on
//! the number of those that follow.

mod choice;
mod draw;

use std::sync::Arc;

use zellige_runtime::{Runtime, Submit, write};

use crate::Error;
use crate::basis::Sampling;
use crate::channels::{CHANNELS, Segment};
use crate::detector::Detector;
use crate::error::memory_plan;
use crate::observe::Observer;
pub use choice::{Energies, Within};
use draw::{DrawnHit, draw, times};

/// Specification of simulated events.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Number of events.
    pub count: usize,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Distribution of the energy of an event, which its hits share.
    pub energies: Energies,
    /// Number of charges of an event.
    pub hits: usize,
    /// Region of the hits.
    pub within: Within,
    /// Noise of a sample (keV rms).
    pub noise: f64,
    /// Correlation of the noise of a sample with that of the one before.
    pub correlation: f64,
    /// Step of the digitiser (keV); 0 for none.
    pub adc_step: f64,
    /// Standard deviation of the time at which charges begin to move (ns).
    pub jitter: f64,
    /// Mean rate of events (1/s).
    pub rate: f64,
    /// Sampling of the signals.
    pub sampling: Sampling,
}

impl Default for Spec {
    /// 1000 events of one hit of 15 keV to 5 MeV, noise of 2.5 keV with a correlation of 0.55,
    /// steps of 0.4 keV, no jitter, 10 000 events a second, 60 samples of 10 ns, 2 of them before
    /// charges move.
    fn default() -> Self {
        Spec {
            count: 1000,
            seed: 1,
            energies: Energies::LogUniform { from: 15.0, to: 5000.0 },
            hits: 1,
            within: Within::Crystal,
            noise: 2.5,
            correlation: 0.55,
            adc_step: 0.4,
            jitter: 0.0,
            rate: 1e4,
            sampling: Sampling { samples: 60, step: 10.0, before: 2 },
        }
    }
}

/// Limit of the hits of an event.
pub const MOST_HITS: usize = 16;

impl Spec {
    /// Refuses invalid specifications.
    ///
    /// # Errors
    /// [`Error::Parameter`] with the invalid parameter.
    fn check(&self) -> Result<(), Error> {
        let range = |name, value: f64, low: f64, high: f64| match value >= low && value <= high {
            true => Ok(()),
            false => Err(Error::Parameter {
                name,
                problem: format!("{value:?}: give a number from {low} to {high}"),
            }),
        };
        self.energies.check()?;
        range("hits", self.hits as f64, 1.0, MOST_HITS as f64)?;
        range("noise", self.noise, 0.0, 1e6)?;
        range("correlation", self.correlation, 0.0, 0.999)?;
        // Smaller steps than those of any converter are refused: values divided by them overflow.
        if self.adc_step != 0.0 {
            range("adc_step", self.adc_step, 1e-9, 1e6)?;
        }
        range("jitter", self.jitter, 0.0, 1e4)?;
        range("rate", self.rate, 1e-6, 1e9)?;
        range("samples", self.sampling.samples as f64, 1.0, 1e5)?;
        range("sampling step", self.sampling.step, 1e-3, 1e6)
    }
}

/// Simulated events with their true hits.
#[derive(Clone, Debug, PartialEq)]
pub struct Events {
    /// Sampling of the signals.
    pub sampling: Sampling,
    /// Number of hits of each event.
    pub hits: usize,
    /// Signals (keV) by event, channel (37) and sample.
    pub signals: Vec<f32>,
    /// Energies (keV) by event and hit.
    pub energies: Vec<f64>,
    /// Positions of the hits (mm), by event and hit.
    pub positions: Vec<[f32; 3]>,
    /// Segments that collect the hits, by event and hit.
    pub segments: Vec<Segment>,
    /// Time of each event (ns since the start).
    pub timestamps: Vec<u64>,
}

impl Events {
    /// Returns the number of events.
    pub fn count(&self) -> usize {
        self.timestamps.len()
    }
}

/// Number of events of one task.
const BLOCK: usize = 32;

/// Simulates events in a crystal; each task simulates a block of them.
///
/// # Errors
/// [`Error::Parameter`] for an invalid specification; errors of tasks, for example in a crystal
/// in which no charge reaches a contact.
pub fn simulate(
    rt: &Runtime,
    detector: &Arc<Detector>,
    spec: &Spec,
    observer: &dyn Observer,
) -> Result<Events, Error> {
    spec.check()?;
    let mut plan = memory_plan();
    let values = (CHANNELS * spec.sampling.samples) as u64;
    // Signals exist twice: in the blocks and gathered. The rest is energy, position, segment and
    // time, and a task for each block.
    let each = (2 * 4 * values).saturating_add(64 * spec.hits as u64 + 64);
    plan.add(format!("signals of {} events", spec.count), each.saturating_mul(spec.count as u64));
    plan.check("take fewer events (--count)")?;
    observer.stage("events", spec.count as u64);
    let mut blocks = Vec::new();
    for begin in (0..spec.count).step_by(BLOCK) {
        let range = begin..(begin + BLOCK).min(spec.count);
        let (hits, signals) = (rt.register_empty::<Vec<DrawnHit>>(), rt.register_empty::<Vec<f32>>());
        let (detector, spec) = (Arc::clone(detector), spec.clone());
        rt.task("events")
            .operands((write(&hits), write(&signals)))
            .cpu(move |(mut hits, mut signals)| {
                let length = CHANNELS * spec.sampling.samples;
                let (mut all, mut values) = (Vec::new(), vec![0.0; range.len() * length]);
                for (event, values) in range.clone().zip(values.chunks_mut(length)) {
                    all.extend(draw(&detector, &spec, event, values)?);
                }
                hits.put(all);
                signals.put(values);
                Ok::<(), Error>(())
            })
            .submit()?;
        blocks.push((hits, signals));
    }
    let mut all = Events {
        sampling: spec.sampling,
        hits: spec.hits,
        signals: Vec::with_capacity(spec.count * CHANNELS * spec.sampling.samples),
        energies: Vec::new(),
        positions: Vec::new(),
        segments: Vec::new(),
        timestamps: times(spec),
    };
    for (hits, signals) in blocks {
        all.signals.extend(rt.take(signals)?);
        for hit in rt.take(hits)? {
            all.energies.push(hit.energy);
            all.positions.push(hit.place.map(|at| at as f32));
            all.segments.push(hit.segment);
        }
        observer.advance((all.energies.len() / spec.hits) as u64);
    }
    Ok(all)
}
