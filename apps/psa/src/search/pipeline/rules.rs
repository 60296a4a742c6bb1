//! Rules for the processing of the events of a crystal.

use super::crosstalk::CrossTalk;
use super::saturation::Saturated;
use crate::Error;
use crate::basis::Basis;
use crate::channels::ChannelSet;
use crate::drift::Trapping;
use crate::search::matching::PairPlan;

/// Rules for the processing of the events of a crystal.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Channels that are compared.
    pub channels: ChannelSet,
    /// Number of samples that are compared, from the first on.
    pub window: usize,
    /// Energy below which hits are dropped (keV).
    pub threshold: f64,
    /// Energy (keV) below which only coarse points are compared.
    pub coarse_below: f64,
    /// Number of hits of an event, in descending order of energy, that are compared with all points
    /// whatever their energy.
    pub always_fine: usize,
    /// Largest shift: events are searched for unshifted and shifted by up to this number of samples
    /// each way.
    pub shifts: usize,
    /// Whether events are aligned, by fractions of a sample, to the core's signal of the points
    /// found.
    pub align: bool,
    /// Plan that distinguishes two hits in one segment from one; `None` disables this. Its plan for
    /// single hits is that of the search.
    pub pairs: Option<PairPlan>,
    /// Cross-talk that is removed from the signals of whole crystals.
    pub cross_talk: Option<CrossTalk>,
    /// Charge trapping in the crystal: the energies of hits are corrected for the charge that is
    /// lost between their position and the contacts. `None` keeps the collected energies.
    pub trapping: Option<Trapping>,
    /// Treatment of events with clipped samples.
    pub saturated: Saturated,
}

impl Default for Rules {
    fn default() -> Self {
        Rules::DEFAULT
    }
}

/// Limit of the fraction of lost charge for which energies are corrected.
const MOST_LOST: f64 = 0.5;

/// Limit of the shift of events (samples).
const MOST_SHIFTS: usize = 31;

impl Rules {
    /// The hit segment, its neighbours and the core, 40 samples, hits from 10 keV on, coarse points
    /// below 50 keV for the third and later hits of an event, no shifts.
    pub const DEFAULT: Rules = Rules {
        channels: ChannelSet::Neighbours,
        window: 40,
        threshold: 10.0,
        coarse_below: 50.0,
        always_fine: 2,
        shifts: 0,
        align: false,
        pairs: None,
        cross_talk: None,
        trapping: None,
        saturated: Saturated::Fit,
    };

    /// Refuses invalid rules.
    ///
    /// # Errors
    /// [`Error::Parameter`] with the invalid rule.
    pub(super) fn check(&self, basis: &Basis) -> Result<(), Error> {
        let samples = basis.sampling().samples;
        let wrong = |name, problem: String| Err(Error::Parameter { name, problem });
        if !(self.threshold > 0.0 && self.threshold.is_finite()) {
            return wrong("threshold", format!("{} keV: an energy above 0 is needed", self.threshold));
        }
        if self.coarse_below.is_nan() || self.coarse_below < 0.0 {
            return wrong("coarse-below", format!("{} keV: an energy is needed", self.coarse_below));
        }
        if self.shifts > (samples / 2).min(MOST_SHIFTS) {
            let problem = format!("{}: at most {MOST_SHIFTS}, and half of {samples} samples", self.shifts);
            return wrong("shifts", problem);
        }
        if let Some(pairs) = &self.pairs {
            pairs.check()?;
        }
        if let Some(trapping) = &self.trapping {
            trapping.check()?;
            let Some(points) = basis.sensitivities() else {
                let problem = "this basis has no trapping sensitivities: simulate it again";
                return wrong("trapping", problem.into());
            };
            if let Some(point) = points.iter().position(|&point| trapping.lost(point).abs() > MOST_LOST) {
                let lost = 100.0 * trapping.lost(points[point]);
                return wrong(
                    "trapping",
                    format!("a charge at point {point} of the basis would lose {lost} %"),
                );
            }
        }
        Ok(())
    }
}
