//! What is known of a crystal whose events are searched: the basis, and what of it each segment
//! compares.

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

/// How many of the last samples say what a segment has collected.
pub(super) const SETTLED: usize = 4;

/// What is done with the events of a crystal.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Which channels are compared.
    pub channels: ChannelSet,
    /// How many samples are compared, from the first on.
    pub window: usize,
    /// Hits below this energy are dropped (keV).
    pub threshold: f64,
    /// Of the third hit of an event and those after it, below this energy (keV) only coarse points
    /// are compared.
    pub coarse_below: f64,
    /// Events are searched for as they are and moved by up to so many samples each way.
    pub shifts: usize,
    /// Whether events are moved, by parts of a sample, to where the core's signal fits that of the
    /// points found best.
    pub align: bool,
    /// How two hits in one segment are told from one; none: they are not. The plan of its single
    /// hits is that of the search.
    pub pairs: Option<PairPlan>,
    /// Cross-talk that is taken out of the signals of whole crystals.
    pub cross_talk: Option<CrossTalk>,
    /// How far charges come in the crystal: the energies of hits are made whole by what is lost on
    /// the way from where they are. None: they are as collected.
    pub trapping: Option<Trapping>,
    /// What is done with events of which samples are clipped.
    pub saturated: Saturated,
}

impl Default for Rules {
    fn default() -> Self {
        Rules::DEFAULT
    }
}

/// Of what has lost more, energies are not made whole.
const MOST_LOST: f64 = 0.5;

/// Events are moved by that many samples at most.
const MOST_SHIFTS: usize = 31;

impl Rules {
    /// The hit segment, its neighbours and the core, 40 samples, hits from 10 keV on, coarse points
    /// below 50 keV, events as they are.
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

    /// # Errors
    /// [`Error::Parameter`] for what has no meaning.
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
                let problem = "this basis does not say where charge is lost: simulate it again";
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

/// A hit as signals say it: the segment and what it has collected (keV).
pub(super) type Charge = (Segment, f64);

/// What each segment has collected of a crystal's signals (keV), by its last samples.
pub(super) fn charges(signals: &[f32]) -> impl Iterator<Item = Charge> + '_ {
    let samples = signals.len() / CHANNELS;
    let settled = SETTLED.min(samples);
    Segment::all().map(move |segment| {
        let signal = &signals[segment.index() * samples..][samples - settled..samples];
        (segment, signal.iter().map(|&x| f64::from(x)).sum::<f64>() / settled as f64)
    })
}

/// A crystal's basis, by segments.
pub(super) struct Parts<'b> {
    basis: &'b Basis,
    rules: Rules,
    segments: BTreeMap<Segment, Part>,
}

/// A segment of it.
struct Part {
    channels: Vec<Channel>,
    /// Its points among all of the crystal.
    points: Vec<usize>,
    /// Where a hit is taken to be before it has been searched for.
    begin: usize,
}

impl<'b> Parts<'b> {
    /// Of the basis of all points; each segment that has some is handed to `host` with what is
    /// compared of it.
    ///
    /// # Errors
    /// [`Error::Parameter`] for rules without meaning, or signals shorter than the window; those of
    /// `host`.
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

    /// The channels that are compared for a hit; none where the basis has no point of the segment.
    pub fn channels(&self, segment: Segment) -> Option<&[Channel]> {
        self.segments.get(&segment).map(|part| &part.channels[..])
    }

    /// Where a hit is taken to be before it has been searched for.
    pub fn begin(&self, segment: Segment) -> usize {
        self.segments[&segment].begin
    }

    /// A segment's point among all of the crystal.
    pub fn point(&self, segment: Segment, index: usize) -> usize {
        self.segments[&segment].points[index]
    }

    /// How many points a segment has.
    pub fn points(&self, segment: Segment) -> usize {
        self.segments.get(&segment).map_or(0, |part| part.points.len())
    }

    /// The signal of a point of the crystal.
    pub fn signal(&self, point: usize, channel: Channel) -> &[f32] {
        self.basis.signal(point, channel)
    }

    /// Samples of a signal of the basis.
    pub fn samples(&self) -> usize {
        self.basis.sampling().samples
    }

    /// The basis.
    pub fn basis(&self) -> &'b Basis {
        self.basis
    }

    /// Where a point of the crystal is (mm).
    pub fn position(&self, point: usize) -> [f32; 3] {
        self.basis.positions()[point]
    }

    /// The energy (keV) of a hit at a point of the crystal of which so much was collected.
    pub fn whole(&self, energy: f64, point: usize) -> f64 {
        let lost = self.rules.trapping.zip(self.basis.sensitivities());
        lost.map_or(energy, |(trapping, points)| energy / (1.0 - trapping.lost(points[point])))
    }

    /// The hits of the charges of segments, the largest energy first: those at the threshold or
    /// above.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a hit in a segment without points.
    pub fn hits(&self, charges: impl Iterator<Item = Charge>) -> Result<Vec<Charge>, Error> {
        let mut hits: Vec<Charge> = charges.filter(|&(_, energy)| energy >= self.rules.threshold).collect();
        if let Some((segment, _)) = hits.iter().find(|(segment, _)| !self.segments.contains_key(segment)) {
            let problem = format!("a hit in segment {}, of which the basis has no point", segment.index());
            return Err(Error::Parameter { name: "event", problem });
        }
        hits.sort_by(|a, b| b.1.total_cmp(&a.1));
        Ok(hits)
    }

    /// Puts the signal of a channel into `sum`, of hits at points of their segments: keV.
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

    /// In thousandths of the energy of hit `i`: what is left of its channels when the signals of
    /// the others at their points are subtracted. `signal` has the event's.
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
