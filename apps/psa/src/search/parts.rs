//! The basis of a crystal by segments, with the channels and points that each segment compares.

use std::collections::BTreeMap;

use super::THOUSAND;
use super::crosstalk::CrossTalk;
use super::engine::Map;
use super::pair::PairPlan;
use super::saturation::Saturated;
use crate::Error;
use crate::basis::{Basis, SegmentBasis};
use crate::channels::{CHANNELS, Channel, ChannelSet, Segment};
use crate::drift::Trapping;

/// Number of the last samples that determine the charge collected by a segment.
pub(super) const SETTLED: usize = 4;

/// Rules for the processing of the events of a crystal.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Channels that are compared.
    pub channels: ChannelSet,
    /// Number of samples that are compared, from the first on.
    pub window: usize,
    /// Energy below which hits are dropped (keV).
    pub threshold: f64,
    /// Energy (keV) below which only coarse points are compared, for the third and later hits of an
    /// event.
    pub coarse_below: f64,
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
    /// below 50 keV, no shifts.
    pub const DEFAULT: Rules = Rules {
        channels: ChannelSet::Neighbours,
        window: 40,
        threshold: 10.0,
        coarse_below: 50.0,
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
    fn check(&self, basis: &Basis) -> Result<(), Error> {
        let samples = basis.sampling().samples;
        let wrong = |name, problem: String| Err(Error::Parameter { name, problem });
        if !(self.threshold > 0.0 && self.threshold.is_finite()) {
            return wrong("threshold", format!("{} keV: an energy above 0 is needed", self.threshold));
        }
        if self.coarse_below.is_nan() || self.coarse_below < 0.0 {
            return wrong("coarse_below", format!("{} keV: an energy is needed", self.coarse_below));
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

/// A hit: the segment and its collected charge (keV).
pub(super) type Charge = (Segment, f64);

/// Returns the charge that each segment of a crystal has collected (keV), from its last samples.
pub(super) fn charges(signals: &[f32]) -> impl Iterator<Item = Charge> + '_ {
    let samples = signals.len() / CHANNELS;
    let settled = SETTLED.min(samples);
    Segment::all().map(move |segment| {
        let signal = &signals[segment.index() * samples..][samples - settled..samples];
        (segment, signal.iter().map(|&x| f64::from(x)).sum::<f64>() / settled as f64)
    })
}

/// Basis of a crystal, by segments.
pub(super) struct Parts<'b> {
    basis: &'b Basis,
    rules: Rules,
    segments: BTreeMap<Segment, Part>,
}

/// A segment of the crystal.
struct Part {
    channels: Vec<Channel>,
    /// Indices of its points in the basis of the crystal.
    points: Vec<usize>,
    /// Initial point of a hit before it has been searched for.
    begin: usize,
}

impl<'b> Parts<'b> {
    /// Splits the basis of all points into segments. Each segment with points is passed to `host`
    /// with the part of the basis that it compares.
    ///
    /// # Errors
    /// [`Error::Parameter`] for invalid rules, or signals shorter than the window; those of `host`.
    pub fn new(
        basis: &'b Basis,
        rules: Rules,
        mut host: impl FnMut(Segment, &SegmentBasis) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        rules.check(basis)?;
        let mut segments = BTreeMap::new();
        for segment in Segment::all() {
            let of_segment = basis.of_segment(segment, rules.channels, rules.window)?;
            if of_segment.positions().is_empty() {
                continue;
            }
            host(segment, &of_segment)?;
            let points = (0..basis.segments().len()).filter(|&i| basis.segments()[i] == segment).collect();
            let begin = Map::new(of_segment.positions()).lattice.coarse[0];
            segments.insert(segment, Part { channels: rules.channels.of(segment), points, begin });
        }
        Ok(Parts { basis, rules, segments })
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the channels that are compared for a hit; `None` if the basis has no point of the
    /// segment.
    pub fn channels(&self, segment: Segment) -> Option<&[Channel]> {
        self.segments.get(&segment).map(|part| &part.channels[..])
    }

    /// Returns the initial point of a hit before it has been searched for.
    pub fn begin(&self, segment: Segment) -> usize {
        self.segments[&segment].begin
    }

    /// Returns the index in the basis of the crystal of a segment's point.
    pub fn point(&self, segment: Segment, index: usize) -> usize {
        self.segments[&segment].points[index]
    }

    /// Returns the number of points of a segment.
    pub fn points(&self, segment: Segment) -> usize {
        self.segments.get(&segment).map_or(0, |part| part.points.len())
    }

    /// Returns the signal of a point of the crystal.
    pub fn signal(&self, point: usize, channel: Channel) -> &[f32] {
        self.basis.signal(point, channel)
    }

    /// Returns the number of samples of a signal of the basis.
    pub fn samples(&self) -> usize {
        self.basis.sampling().samples
    }

    /// Returns the basis.
    pub fn basis(&self) -> &'b Basis {
        self.basis
    }

    /// Returns the position of a point of the crystal (mm).
    pub fn position(&self, point: usize) -> [f32; 3] {
        self.basis.positions()[point]
    }

    /// Returns the energy (keV) of a hit at a point of the crystal, corrected for the charge that
    /// was trapped.
    pub fn whole(&self, energy: f64, point: usize) -> f64 {
        let lost = self.rules.trapping.zip(self.basis.sensitivities());
        lost.map_or(energy, |(trapping, points)| energy / (1.0 - trapping.lost(points[point])))
    }

    /// Returns the hits in descending order of energy: the charges of segments that reach the
    /// threshold.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a hit in a segment without points.
    pub fn hits(&self, charges: impl Iterator<Item = Charge>) -> Result<Vec<Charge>, Error> {
        let mut hits: Vec<Charge> = charges.filter(|&(_, energy)| energy >= self.rules.threshold).collect();
        if let Some((segment, _)) = hits.iter().find(|(segment, _)| !self.segments.contains_key(segment)) {
            let problem = format!("a hit in segment {}: the basis has no point there", segment.index());
            return Err(Error::Parameter { name: "event", problem });
        }
        hits.sort_by(|a, b| b.1.total_cmp(&a.1));
        Ok(hits)
    }

    /// Adds the signals (keV) of hits at points of their segments in a channel to `sum`.
    pub fn add<'a>(
        &self,
        hits: impl Iterator<Item = (&'a Charge, usize)>,
        channel: Channel,
        sum: &mut [f64],
    ) {
        for (&(segment, energy), at) in hits {
            let signal = self.basis.signal(self.segments[&segment].points[at], channel);
            sum.iter_mut().zip(signal).for_each(|(sum, &b)| *sum += energy * f64::from(b));
        }
    }

    /// Returns the remainder of the channels of hit `i` after subtraction of the signals of the
    /// other hits at their points, in thousandths of its energy. `signal` returns the signals of
    /// the event.
    pub fn left<'a>(
        &self,
        hits: &[Charge],
        at: &[usize],
        i: usize,
        signal: impl Fn(Channel) -> &'a [f32],
    ) -> Vec<f64> {
        let (segment, energy) = hits[i];
        let window = self.rules.window;
        let mut others = vec![0.0; window];
        let mut left = Vec::with_capacity(self.segments[&segment].channels.len() * window);
        for &channel in &self.segments[&segment].channels {
            others.fill(0.0);
            let all = hits.iter().zip(at.iter().copied()).enumerate();
            self.add(all.filter(|&(j, _)| j != i).map(|(_, other)| other), channel, &mut others);
            let samples = signal(channel).iter().zip(&others);
            left.extend(samples.map(|(&x, other)| (f64::from(x) - other) * THOUSAND / energy));
        }
        left
    }
}
