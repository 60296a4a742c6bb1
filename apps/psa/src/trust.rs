//! Exact digits of searches, by stochastic arithmetic: of the best figure of merit, and of its gap
//! to the second, which decides the point.
//!
//! All points are compared in `fp32` or `fp64` with numbers of several samples, each operation
//! rounded up or down at random ([`zellige_stochastic`]). Random bits depend on the number of the
//! event and of the point alone, so digits are the same on any number of workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use zellige_kernels::distance::Shape;
use zellige_runtime::{Handle, Runtime, Slot, Submit, write};
use zellige_stochastic::{DigitMap, Report, Samples, Scope, Trust, TrustOptions, WithSamples};

use crate::Error;
use crate::basis::{Basis, SegmentBasis};
use crate::channels::Segment;
use crate::pipeline::Input;
use crate::search::{
    Batching, Event, Hit, Match, Plan, Precision, Rules, Searcher, SegmentEvents, StochasticMatch,
    StochasticSearch, single_hits,
};

/// Hits whose searches are judged, with the points of their segments.
#[derive(Clone, Debug)]
pub struct Searches {
    segments: BTreeMap<Segment, SegmentBasis>,
    hits: Vec<(Hit, Vec<f64>)>,
    /// Events, those without a hit to judge included.
    events: usize,
}

impl Searches {
    /// Takes the events of one segment.
    pub fn of_segment(input: &Input) -> Searches {
        let hits = input.hits().map(|(hit, samples)| (hit, samples.to_vec())).collect();
        let segments = BTreeMap::from([(input.segment, input.basis.clone())]);
        Searches { segments, hits, events: input.events.len() }
    }

    /// Takes those events of a crystal that have one hit; they are neither shifted nor aligned, and
    /// not searched for pairs.
    ///
    /// # Errors
    /// Those of [`EventPipeline`](crate::search::EventPipeline) for the same rules and events.
    pub fn of_crystal(
        basis: &Basis,
        rules: Rules,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Searches, Error> {
        let mut count = 0;
        let (segments, hits) = single_hits(basis, rules, events.into_iter().inspect(|_| count += 1))?;
        Ok(Searches { segments, hits, events: count })
    }

    /// Returns the hits in two halves, every other one in each.
    pub fn halves(&self) -> [Searches; 2] {
        [0, 1].map(|first| {
            let hits: Vec<_> = self.hits.iter().skip(first).step_by(2).cloned().collect();
            let (segments, events) = (self.segments.clone(), hits.len());
            Searches { segments, hits, events }
        })
    }

    /// Returns the hits of each segment that has some, with the points of the segment.
    ///
    /// # Errors
    /// [`Error::Shape`] for hits with other samples than the points of their segment.
    pub(crate) fn by_segment(&self) -> Result<Vec<(SegmentBasis, SegmentEvents)>, Error> {
        let mut all = Vec::new();
        for (&segment, basis) in &self.segments {
            let hits = || self.hits.iter().filter(|(hit, _)| hit.segment == segment);
            let energies: Vec<f64> = hits().map(|(hit, _)| hit.energy).collect();
            if !energies.is_empty() {
                let samples = hits().flat_map(|(_, samples)| samples).copied().collect();
                let shape = Shape { channels: basis.channels(), samples: basis.samples() };
                all.push((basis.clone(), SegmentEvents::of_thousandths(shape, energies, samples)?));
            }
        }
        Ok(all)
    }

    /// Returns the hits that are judged; their tickets are the numbers of their events.
    pub fn hits(&self) -> impl Iterator<Item = &Hit> {
        self.hits.iter().map(|(hit, _)| hit)
    }

    /// Searches all hits by a plan in plain arithmetic; returns the answers in their order.
    ///
    /// # Errors
    /// Those of [`Searcher`].
    pub fn plain(&self, rt: &Runtime, plan: &Plan) -> Result<Vec<Match>, Error> {
        let mut searcher = Searcher::new(rt, plan, Batching::default());
        for (&segment, basis) in &self.segments {
            searcher.host(segment, basis)?;
        }
        let now = Instant::now();
        for (hit, samples) in &self.hits {
            searcher.push(*hit, samples, now)?;
        }
        Ok(searcher.finish()?.into_iter().map(|(_, found)| found).collect())
    }

    /// Searches all points for each hit in stochastic arithmetic, in the precision and with the
    /// metric of the plan; returns the answers in the order of the hits, and the instabilities.
    ///
    /// # Errors
    /// [`Error::Parameter`] for an invalid plan, for precisions other than `fp32` and `fp64`, and
    /// for other samples than 3, 8 or 16; [`Error::Shape`] for hits with other samples than the
    /// points of their segment; errors of the runtime.
    pub fn stochastic(
        &self,
        rt: &Runtime,
        plan: &Plan,
        options: &TrustOptions,
    ) -> Result<(Vec<StochasticMatch>, Report), Error> {
        if !matches!(options.samples, 3 | 8 | 16) {
            let problem = format!("{}: 3, 8 or 16 are possible", options.samples);
            return Err(Error::Parameter { name: "samples", problem });
        }
        options.dispatch(Work { searches: self, rt, plan, seed: options.seed })
    }
}

/// Hits of a task.
const BATCH: usize = 4;

/// Stochastic searches of all hits.
struct Work<'a> {
    searches: &'a Searches,
    rt: &'a Runtime,
    plan: &'a Plan,
    seed: u64,
}

impl WithSamples for Work<'_> {
    type Output = Result<(Vec<StochasticMatch>, Report), Error>;

    fn run<S: Samples>(self) -> Self::Output {
        let scope = Arc::new(Scope::new(self.seed));
        let mut tasks: Vec<Handle<Vec<StochasticMatch>>> = Vec::new();
        let mut prepared: BTreeMap<Segment, Arc<StochasticSearch>> = BTreeMap::new();
        for (&segment, basis) in &self.searches.segments {
            prepared.insert(segment, Arc::new(StochasticSearch::new(self.plan, basis)?));
        }
        // Precisions do not share bits.
        let replay = u64::from(self.plan.precision == Precision::Fp64);
        for hits in self.searches.hits.chunks(BATCH) {
            let find = |(hit, samples): &(Hit, Vec<f64>)| {
                let search = prepared.get(&hit.segment).ok_or_else(|| without_points(hit))?;
                search.check(samples)?;
                Ok((hit.ticket as u64, Arc::clone(search), samples.clone()))
            };
            let hits: Vec<_> = hits.iter().map(find).collect::<Result<_, Error>>()?;
            let (found, scope) = (self.rt.register_empty(), Arc::clone(&scope));
            let body = move |(mut found,): (Slot<'_, Vec<StochasticMatch>>,)| {
                let one = |(event, search, samples): &(u64, Arc<StochasticSearch>, Vec<f64>)| {
                    scope.task(*event, replay, || search.find::<S>(samples))
                };
                found.put(hits.iter().map(one).collect());
            };
            self.rt.task("stochastic search").operands((write(&found),)).cpu(body).submit()?;
            tasks.push(found);
        }
        let mut all = Vec::with_capacity(self.searches.hits.len());
        for found in tasks {
            all.extend(self.rt.take(found)?);
        }
        Ok((all, scope.report()))
    }
}

fn without_points(hit: &Hit) -> Error {
    let problem = format!("event {}: there is no basis of segment {}", hit.ticket, hit.segment.index());
    Error::Parameter { name: "segment", problem }
}

/// Judges searches by a plan: digits of each best figure of merit and of each gap to the second,
/// and the events in which rounding decides the point. The rows of their maps are the hits in
/// order; those of a third map are the channels of a segment in the order of its basis.
///
/// # Errors
/// Those of [`Searches::plain`] and [`Searches::stochastic`].
pub fn run(rt: &Runtime, searches: &Searches, plan: &Plan, options: &TrustOptions) -> Result<Trust, Error> {
    let begin = Instant::now();
    let plain = searches.plain(rt, plan)?;
    let plain_seconds = Some(begin.elapsed().as_secs_f64());
    let begin = Instant::now();
    let (found, instabilities) = searches.stochastic(rt, plan, options)?;
    let seconds = begin.elapsed().as_secs_f64();
    let all = if plan.precision == Precision::Fp64 { 15 } else { 7 };
    let map = |name: &str, digits: fn(&StochasticMatch) -> u8| {
        DigitMap::new(name, "hit", [found.len(), 1], found.iter().map(digits).collect(), all)
    };
    let mut maps = vec![
        map("the best figure of merit", |found| found.fom_digits),
        map("the gap to the second point", |found| found.gap_digits),
    ];
    let mut conclusions = conclusions(searches, &plain, &found, &maps, plan);
    let channels = by_channel(&found, all);
    conclusions.extend(channels.worst().map(|(least, [channel, _])| {
        format!("Channel {channel} has the fewest exact digits of a part of the figure of merit, {least} of {all}.")
    }));
    maps.push(channels);
    let (samples, seed) = (options.samples, options.seed);
    let converged = None;
    Ok(Trust { samples, seed, maps, converged, instabilities, conclusions, plain_seconds, seconds })
}

/// Returns the fewest digits of each channel's part of the best figure of merit.
fn by_channel(found: &[StochasticMatch], all: u8) -> DigitMap {
    let mut digits = Vec::new();
    for hit in found {
        digits.resize(digits.len().max(hit.channel_digits.len()), all);
        digits.iter_mut().zip(&*hit.channel_digits).for_each(|(least, &of)| *least = of.min(*least));
    }
    DigitMap::new("the best figure of merit by channel", "channel", [digits.len(), 1], digits, all)
}

fn conclusions(
    searches: &Searches,
    plain: &[Match],
    found: &[StochasticMatch],
    maps: &[DigitMap],
    plan: &Plan,
) -> Vec<String> {
    let count = found.len();
    // The number of hits that are meant, and the event of the first of them.
    let some = |is_meant: &dyn Fn(usize) -> bool| {
        let mut meant = (0..count).filter(|&hit| is_meant(hit));
        let first = meant.next()?;
        let of = 1 + meant.count();
        let share = 100.0 * of as f64 / count as f64;
        Some((format!("{of} of {count} hits ({share:.2} %)"), searches.hits[first].0.ticket))
    };
    let mut all = Vec::new();
    if let Some((hits, event)) = some(&|hit| found[hit].gap_digits == 0) {
        let remedy = match plan.precision {
            Precision::Fp64 => "the two points fit equally well",
            _ => "search these in fp64, or by the method exact",
        };
        all.push(format!(
            "The gap to the second point has no exact digit in {hits}, first in event {event}: rounding \
             decides between the two points; {remedy}."
        ));
    } else if count > 0 {
        all.push(format!("The gap to the second point has an exact digit in all {count} hits."));
    }
    if let Some((hits, event)) = some(&|hit| plain[hit].index != found[hit].index) {
        all.push(format!("The plain search finds another point in {hits}, first in event {event}."));
    } else if count > 0 {
        all.push(format!("The plain search finds the same point in all {count} hits."));
    }
    for map in maps {
        let (Some((least, [row, _])), Some(median)) = (map.worst(), map.median()) else { continue };
        let event = searches.hits[row].0.ticket;
        let (name, of) = (&map.name, map.all);
        all.push(format!(
            "{median} of {of} digits of {name} are exact in half of the hits, {least} at least (event {event})."
        ));
    }
    let left_out = searches.events - count;
    if left_out > 0 {
        let events = searches.events;
        all.push(format!("{left_out} of {events} events do not have exactly one hit and are not judged."));
    }
    all
}
