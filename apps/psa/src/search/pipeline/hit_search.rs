//! State machine of the search for one event with any number of hits: determines the next request
//! from the answers so far.

use std::sync::Arc;

use super::crystal_basis::{Charge, CrystalBasis};
use crate::channels::Channel;
use crate::search::batch::AcceptedPair;
use crate::search::matching::{Flags, Match};

/// Limit of the hit segments of an event whose hits are searched jointly.
const MOST_SEGMENTS: usize = 12;
/// Limit of the sweeps over all hits of an event.
const SWEEPS: usize = 4;
/// Limit of the alignments of an event to its core's signal.
const ALIGNMENTS: usize = 3;
/// Shift, in samples, below which an alignment is not worth another search.
const ALIGNED: f64 = 0.05;

/// A search that an event needs.
pub(super) struct HitRequest {
    /// Index of the hit.
    pub hit: usize,
    pub charge: Charge,
    pub coarse_only: bool,
    pub samples: Vec<f64>,
}

/// Search for all hits of an event that is shifted by some samples.
///
/// Each hit begins at the first coarse point of its segment. Then the hits are searched for in
/// turn, each in the remainder after subtraction of the signals of the others. There are at most
/// four sweeps: a sweep without changes is the last one.
pub(super) struct HitSearch {
    /// Signals as received, by channel.
    signals: Arc<[f32]>,
    /// Shifted signals, which are compared.
    shifted: Arc<[f32]>,
    /// Channels of the signals.
    channels: Vec<Channel>,
    hits: Vec<Charge>,
    /// Current point of each hit.
    at: Vec<usize>,
    answers: Vec<Option<Match>>,
    /// Shift of the event in samples; positive is later.
    shift: f64,
    /// Current hit, current sweep, and whether this sweep has changed a point.
    hit: usize,
    sweep: usize,
    changed: bool,
    alignments: usize,
    /// Number of outstanding answers.
    outstanding: usize,
    /// Answers of the search for pairs, one for each hit.
    pairs: Vec<Option<AcceptedPair>>,
}

impl HitSearch {
    /// Creates the search of an event from its signals (keV) in some channels and its known hits.
    /// The event is first shifted by `shift` samples; positive is later.
    pub fn new(
        crystal: &CrystalBasis<'_>,
        signals: Arc<[f32]>,
        channels: Vec<Channel>,
        hits: Vec<Charge>,
        shift: isize,
    ) -> HitSearch {
        let mut search = HitSearch {
            shifted: Arc::clone(&signals),
            signals,
            channels,
            at: hits.iter().map(|&(segment, _)| crystal.first_point(segment)).collect(),
            answers: vec![None; hits.len()],
            hits,
            shift: shift as f64,
            hit: 0,
            sweep: 0,
            changed: false,
            alignments: 0,
            outstanding: 0,
            pairs: Vec::new(),
        };
        search.shifted = search.shifted_by(search.shift);
        search
    }

    /// Returns the first requests; none for an event without hits.
    pub fn start(&mut self, crystal: &CrystalBasis<'_>) -> Vec<HitRequest> {
        self.outstanding = if self.is_crowd() { self.hits.len() } else { self.hits.len().min(1) };
        (0..self.outstanding).map(|hit| self.request(crystal, hit)).collect()
    }

    /// Processes the answer for a hit; returns the next request, if any.
    pub fn accept(&mut self, crystal: &CrystalBasis<'_>, hit: usize, best: Match) -> Option<HitRequest> {
        self.outstanding -= 1;
        if self.is_crowd() {
            self.answers[hit] = Some(best);
            return None;
        }
        let goes_on = self.advance(crystal, best);
        self.outstanding = usize::from(goes_on);
        goes_on.then(|| self.request(crystal, self.hit))
    }

    /// Returns whether no answer is outstanding.
    pub fn is_done(&self) -> bool {
        self.outstanding == 0
    }

    /// Returns the requests of the search for pairs, after all hits are found: the request and the
    /// single-hit answer of each hit. Returns none if the hits were not searched jointly.
    pub fn pair_requests(&mut self, crystal: &CrystalBasis<'_>) -> Vec<(HitRequest, Match)> {
        if self.is_crowd() {
            return Vec::new();
        }
        let request = |hit| Some((self.request(crystal, hit), self.answers[hit]?));
        let requests: Vec<_> = (0..self.hits.len()).filter_map(request).collect();
        self.outstanding = requests.len();
        self.pairs = vec![None; self.hits.len()];
        requests
    }

    /// Processes the answer of the search for pairs for a hit.
    pub fn accept_pair(&mut self, hit: usize, pair: Option<AcceptedPair>) {
        self.outstanding -= 1;
        self.pairs[hit] = pair;
    }

    /// Returns the sum of the figures of merit of all hits.
    pub fn sum(&self) -> f64 {
        self.answers.iter().flatten().map(|best| best.fom).sum()
    }

    /// Returns the hits with their answers in descending order of energy, two for each pair, and
    /// the shift of the event in samples.
    pub fn into_hits(self) -> (Vec<(Charge, Match)>, f64) {
        let flags = if self.is_crowd() { Flags::TOO_MANY_SEGMENTS } else { Flags::default() };
        let pairs = self.pairs.into_iter().chain(std::iter::repeat(None));
        let mut all = Vec::with_capacity(self.hits.len());
        for ((charge, best), pair) in self.hits.into_iter().zip(self.answers).zip(pairs) {
            let Some(best) = best else { continue };
            match pair {
                None => all.push((charge, Match { flags: best.flags.with(flags), ..best })),
                Some(pair) => all.extend(both(charge, &pair)),
            }
        }
        all.sort_by(|a, b| b.0.1.total_cmp(&a.0.1));
        (all, self.shift)
    }

    fn is_crowd(&self) -> bool {
        self.hits.len() > MOST_SEGMENTS
    }

    /// Advances to the next hit, the next sweep or the next alignment of the event; returns whether
    /// there is one.
    fn advance(&mut self, crystal: &CrystalBasis<'_>, best: Match) -> bool {
        self.changed |= self.answers[self.hit].is_none() || self.at[self.hit] != best.index;
        self.at[self.hit] = best.index;
        self.answers[self.hit] = Some(best);
        self.hit += 1;
        if self.hit < self.hits.len() {
            return true;
        }
        let is_settled = self.hits.len() == 1 || self.sweep + 1 == SWEEPS || !self.changed;
        (self.hit, self.sweep, self.changed) = (0, self.sweep + 1, false);
        !is_settled || self.align(crystal)
    }

    /// Aligns the event to the core's signal of the points found; returns whether the shift is
    /// worth a search.
    fn align(&mut self, crystal: &CrystalBasis<'_>) -> bool {
        if !crystal.rules().align || self.alignments == ALIGNMENTS {
            return false;
        }
        let delay = self.delay(crystal);
        if delay.abs() < ALIGNED {
            return false;
        }
        self.alignments += 1;
        self.sweep = 0;
        self.shift -= delay;
        self.shifted = self.shifted_by(self.shift);
        true
    }

    /// Returns the delay, in samples, of the core's signal relative to that of the points found:
    /// one step of a least-squares fit.
    fn delay(&self, crystal: &CrystalBasis<'_>) -> f64 {
        let window = crystal.rules().window;
        let mut fit = vec![0.0; window];
        crystal.add_signals(self.hits.iter().zip(self.at.iter().copied()), Channel::CORE, &mut fit);
        let measured = self.signal(Channel::CORE);
        let (mut product, mut square) = (0.0, 0.0);
        for t in 1..window.saturating_sub(1) {
            let slope = (fit[t + 1] - fit[t - 1]) / 2.0;
            product += (fit[t] - f64::from(measured[t])) * slope;
            square += slope * slope;
        }
        // Beyond one sample the slope is not meaningful.
        if square > 0.0 { (product / square).clamp(-1.0, 1.0) } else { 0.0 }
    }

    fn request(&self, crystal: &CrystalBasis<'_>, hit: usize) -> HitRequest {
        let charge = self.hits[hit];
        let samples = match self.is_crowd() {
            true => crystal.remainder(&[charge], &[0], 0, |channel| self.signal(channel)),
            false => crystal.remainder(&self.hits, &self.at, hit, |channel| self.signal(channel)),
        };
        let rules = crystal.rules();
        let coarse_only = hit >= rules.always_fine && charge.1 < rules.coarse_below;
        HitRequest { hit, charge, coarse_only, samples }
    }

    fn samples(&self) -> usize {
        self.signals.len() / self.channels.len()
    }

    fn signal(&self, channel: Channel) -> &[f32] {
        let index = self.channels.iter().position(|&other| other == channel);
        let index = index.expect("a channel that is compared");
        let samples = self.samples();
        &self.shifted[index * samples..][..samples]
    }

    /// Returns the signals delayed by `shift` samples, with linear interpolation. Samples from
    /// outside repeat the first or the last one.
    fn shifted_by(&self, shift: f64) -> Arc<[f32]> {
        if shift == 0.0 || self.signals.is_empty() {
            return Arc::clone(&self.signals);
        }
        let samples = self.samples();
        let last = (samples - 1) as f64;
        let mut shifted = Vec::with_capacity(self.signals.len());
        for signal in self.signals.chunks_exact(samples) {
            shifted.extend((0..samples).map(|t| {
                let from = (t as f64 - shift).clamp(0.0, last);
                let (whole, part) = (from as usize, from.fract());
                let next = (whole + 1).min(samples - 1);
                (f64::from(signal[whole]) * (1.0 - part) + f64::from(signal[next]) * part) as f32
            }));
        }
        shifted.into()
    }
}

/// Returns the two hits of a pair, the one with more energy first.
fn both((segment, energy): Charge, pair: &AcceptedPair) -> [(Charge, Match); 2] {
    let hit = |at: usize, share: f64| {
        let gap = pair.fom_of_one - pair.fom;
        let best = Match {
            index: pair.points[at],
            fom: pair.fom,
            second: None,
            gap,
            spread: 0.0,
            flags: Flags::PAIR,
        };
        ((segment, share * energy), best)
    };
    let hits = [hit(0, pair.share), hit(1, 1.0 - pair.share)];
    if pair.share < 0.5 { [hits[1], hits[0]] } else { hits }
}

/// Returns the shifts of an event that are tried: 0, then by magnitude, earlier ones first.
pub(super) fn shifts(most: usize) -> Vec<isize> {
    let most = most as isize;
    let mut shifts: Vec<isize> = (-most..=most).collect();
    shifts.sort_by_key(|shift| (shift.abs(), *shift));
    shifts
}
