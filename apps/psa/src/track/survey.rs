//! Quality of the tracking of simulated gamma rays, by multiplicity.

use std::ops::Range;

use serde::Serialize;
use zellige_runtime::Runtime;

use super::blocks::in_blocks;
use super::montecarlo::{EmissionSpec, Simulated};
use super::{Settings, Spectrum, Tracked, check_steps, range, track};
use crate::Error;
use crate::observe::Observer;

/// Parameters of the counting.
#[derive(Clone, Debug, PartialEq)]
pub struct Counting {
    /// Number of events of each multiplicity.
    pub events: usize,
    /// Half width of the peak: accepted deviation of an energy from the emitted energy (keV).
    pub window: f64,
    /// Width of the steps of spectra (keV).
    pub step: f64,
    /// End of the spectra (keV).
    pub most: f64,
}

impl Counting {
    fn check(&self) -> Result<(), Error> {
        range("events", self.events as f64, 1.0, 1e9, "")?;
        range("window", self.window, 0.0, 1e4, " keV")?;
        check_steps(self.step, self.most)
    }
}

/// Counts of events of one multiplicity.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Tally {
    /// Number of gamma rays of an event.
    pub multiplicity: usize,
    /// Number of events.
    pub events: u64,
    /// Number of emitted gamma rays.
    pub emitted: u64,
    /// Number of gamma rays that deposited some energy in the germanium.
    pub seen: u64,
    /// Number of gamma rays that were absorbed completely.
    pub absorbed: u64,
    /// Number of reconstructed gamma rays.
    pub tracked: u64,
    /// Number of reconstructed gamma rays with the energy of an emitted one. Each emitted one
    /// counts once.
    pub peak: u64,
    /// Energies of the reconstructed gamma rays (keV).
    pub energies: Spectrum,
    /// Energies of the reconstructed gamma rays in the frame of the source (keV).
    pub corrected: Spectrum,
    /// Sums of all points of an event (keV).
    pub calorimetric: Spectrum,
}

impl Tally {
    fn new(multiplicity: usize, counting: &Counting) -> Tally {
        let spectrum = |most: f64| Spectrum::new(counting.step, most);
        Tally {
            multiplicity,
            events: 0,
            emitted: 0,
            seen: 0,
            absorbed: 0,
            tracked: 0,
            peak: 0,
            energies: spectrum(counting.most),
            corrected: spectrum(counting.most),
            calorimetric: spectrum(counting.most),
        }
    }

    /// Counts an event and its reconstruction.
    fn add(&mut self, event: &Simulated, tracked: &Tracked, window: f64) {
        self.events += 1;
        self.emitted += event.gammas.len() as u64;
        self.absorbed += event.gammas.iter().filter(|gamma| gamma.absorbed).count() as u64;
        let mut touched = vec![false; event.gammas.len()];
        event.interactions.iter().for_each(|at| touched[at.gamma] = true);
        self.seen += touched.into_iter().filter(|&touched| touched).count() as u64;
        self.tracked += tracked.gammas.len() as u64;
        self.peak += in_peak(event, tracked, window) as u64;
        for gamma in &tracked.gammas {
            self.energies.add(gamma.energy);
            self.corrected.add(gamma.corrected);
        }
        self.calorimetric.add(event.points.iter().map(|point| point.energy).sum());
    }

    fn join(&mut self, other: &Tally) {
        self.events += other.events;
        self.emitted += other.emitted;
        self.seen += other.seen;
        self.absorbed += other.absorbed;
        self.tracked += other.tracked;
        self.peak += other.peak;
        self.energies.join(&other.energies);
        self.corrected.join(&other.corrected);
        self.calorimetric.join(&other.calorimetric);
    }

    /// Returns the photopeak efficiency: gamma rays in the peak divided by emitted ones.
    pub fn efficiency(&self) -> f64 {
        self.peak as f64 / self.emitted.max(1) as f64
    }

    /// Returns the peak-to-total ratio: gamma rays in the peak divided by reconstructed ones.
    pub fn peak_to_total(&self) -> f64 {
        self.peak as f64 / self.tracked.max(1) as f64
    }

    /// Returns the fraction of the emitted gamma rays that were absorbed completely, an upper limit
    /// of the efficiency of any tracking.
    pub fn absorbed_share(&self) -> f64 {
        self.absorbed as f64 / self.emitted.max(1) as f64
    }
}

/// Counts the reconstructed gamma rays with the energy of an emitted one, within `window` (keV).
/// Each emitted one counts once.
pub(crate) fn in_peak(event: &Simulated, tracked: &Tracked, window: f64) -> usize {
    let mut left: Vec<f64> = event.gammas.iter().map(|gamma| gamma.energy).collect();
    let mut count = 0;
    for gamma in &tracked.gammas {
        let off = |energy: &f64| (energy - gamma.corrected).abs();
        let nearest = (0..left.len()).min_by(|&a, &b| off(&left[a]).total_cmp(&off(&left[b])));
        if let Some(at) = nearest.filter(|&at| off(&left[at]) <= window) {
            left.swap_remove(at);
            count += 1;
        }
    }
    count
}

/// Limit of the blocks of events of one multiplicity: each block holds spectra until all are
/// joined.
const BLOCKS: usize = 256;

/// Minimum number of events of a block.
const LEAST: usize = 16;

/// Simulates and tracks events of each multiplicity, with the same event numbers for each.
///
/// # Errors
/// [`Error::Parameter`] for invalid parameters; errors of tasks.
pub fn survey(
    rt: &Runtime,
    spec: &EmissionSpec,
    settings: &Settings,
    multiplicities: &[usize],
    counting: &Counting,
    observer: &dyn Observer,
) -> Result<Vec<Tally>, Error> {
    settings.check()?;
    counting.check()?;
    let each = |&multiplicity: &usize| {
        let (spec, settings, counting) =
            (EmissionSpec { multiplicity, ..spec.clone() }, settings.clone(), counting.clone());
        spec.check()?;
        let mut all = Tally::new(multiplicity, &counting);
        let sizes = [counting.events, counting.events.div_ceil(BLOCKS).max(LEAST)];
        let block = move |range: Range<usize>| {
            let mut tally = Tally::new(multiplicity, &counting);
            for number in range {
                let event = spec.event(number as u64);
                tally.add(&event, &track(&event.points, &settings), counting.window);
            }
            tally
        };
        in_blocks(rt, "simulating and tracking", sizes, observer, block, |tally| all.join(&tally))?;
        Ok(all)
    };
    multiplicities.iter().map(each).collect()
}
