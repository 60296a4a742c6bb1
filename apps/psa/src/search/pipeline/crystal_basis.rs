//! Basis of a crystal by segments, with the channels and points that each segment compares.

use std::collections::BTreeMap;

use super::rules::Rules;
use crate::Error;
use crate::basis::{Basis, SegmentBasis};
use crate::channels::{CHANNELS, Channel, Segment};
use crate::search::segment::{Lattice, THOUSAND};

/// Number of the last samples that determine the charge collected by a segment.
pub(super) const SETTLED: usize = 4;

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
pub(super) struct CrystalBasis<'b> {
    basis: &'b Basis,
    rules: Rules,
    segments: BTreeMap<Segment, CrystalSegment>,
}

/// A segment of the crystal.
struct CrystalSegment {
    channels: Vec<Channel>,
    /// Indices of its points in the basis of the crystal.
    points: Vec<usize>,
    /// Initial point of a hit before it has been searched for.
    first_point: usize,
}

impl<'b> CrystalBasis<'b> {
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
            let first_point = Lattice::new(of_segment.positions()).coarse[0];
            segments.insert(
                segment,
                CrystalSegment { channels: rules.channels.of(segment), points, first_point },
            );
        }
        Ok(CrystalBasis { basis, rules, segments })
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the channels that are compared for a hit; `None` if the basis has no point of the
    /// segment.
    pub fn channels(&self, segment: Segment) -> Option<&[Channel]> {
        self.segments.get(&segment).map(|of| &of.channels[..])
    }

    /// Returns the initial point of a hit before it has been searched for.
    pub fn first_point(&self, segment: Segment) -> usize {
        self.segments[&segment].first_point
    }

    /// Returns the index in the basis of the crystal of a segment's point.
    pub fn point(&self, segment: Segment, index: usize) -> usize {
        self.segments[&segment].points[index]
    }

    /// Returns the number of points of a segment.
    pub fn points(&self, segment: Segment) -> usize {
        self.segments.get(&segment).map_or(0, |of| of.points.len())
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
    pub fn corrected_energy(&self, energy: f64, point: usize) -> f64 {
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
    pub fn add_signals<'a>(
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
    pub fn remainder<'a>(
        &self,
        hits: &[Charge],
        at: &[usize],
        i: usize,
        signal: impl Fn(Channel) -> &'a [f32],
    ) -> Vec<f64> {
        let (segment, energy) = hits[i];
        let window = self.rules.window;
        let mut others = vec![0.0; window];
        let mut remainder = Vec::with_capacity(self.segments[&segment].channels.len() * window);
        for &channel in &self.segments[&segment].channels {
            others.fill(0.0);
            let all = hits.iter().zip(at.iter().copied()).enumerate();
            self.add_signals(all.filter(|&(j, _)| j != i).map(|(_, other)| other), channel, &mut others);
            let samples = signal(channel).iter().zip(&others);
            remainder.extend(samples.map(|(&x, other)| (f64::from(x) - other) * THOUSAND / energy));
        }
        remainder
    }
}
