//! Stream of the events of a crystal, one after the other, through queues and tasks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use zellige_runtime::Runtime;

use super::crystal_basis::{Charge, CrystalBasis};
use super::event::{Answer, Event, LocatedHit};
use super::hit_search::{HitSearch, shifts};
use super::pending::{PendingEvent, Ticket, hit};
use super::prepare::PreparedEvent;
use super::rules::Rules;
use super::statistics::ChargeStatistics;
use crate::Error;
use crate::basis::Basis;
use crate::channels::Channel;
use crate::search::batch::{AcceptedPair, Batching, PairSearcher, SearchRule, Searcher};
use crate::search::matching::{Flags, Match};

/// Searches the events of a crystal as they arrive, and returns answers in their order.
///
/// A segment that has collected enough charge ([`Rules::threshold`]) has a hit. Every hit is
/// searched for in the remainder of the event after subtraction of the signals of the others. Each
/// answer determines the next request, while batches of requests of other events run. In an event
/// with more than 12 hits, each hit is searched for as if it were alone, and flagged. Answers are
/// identical, to the bit, for any number of workers, batch size and devices.
///
/// It does not read a clock, and holds only the events in flight: the caller that pushes events
/// must take answers.
pub struct EventPipeline<'rt, 'b> {
    crystal: CrystalBasis<'b>,
    searcher: Searcher<'rt, Ticket>,
    /// Search for pairs of hits, if requested.
    pairs: Option<PairSearcher<'rt, Ticket>>,
    /// Events in flight, and the number of events before the first of them.
    events: VecDeque<PendingEvent>,
    answered: u64,
    statistics: ChargeStatistics,
}

impl std::fmt::Debug for EventPipeline<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EventPipeline({} events in flight after {})", self.events.len(), self.answered)
    }
}

impl<'rt, 'b> EventPipeline<'rt, 'b> {
    /// Creates a pipeline for a crystal with the basis of all its points. The basis is registered
    /// with the runtime segment by segment; `rule` selects the plan of each segment.
    ///
    /// # Errors
    /// [`Error::Parameter`] for invalid plans and rules, or signals of the basis that are shorter
    /// than the window.
    pub fn new(
        rt: &'rt Runtime,
        rule: &'rt dyn SearchRule,
        batching: Batching,
        basis: &'b Basis,
        rules: Rules,
    ) -> Result<Self, Error> {
        let mut searcher = Searcher::new(rt, rule, batching);
        let mut pairs = rules.pairs.map(|plan| PairSearcher::new(rt, plan, batching));
        let crystal = CrystalBasis::new(basis, rules, |segment, basis| {
            if let Some(pairs) = &mut pairs {
                pairs.host(segment, basis);
            }
            searcher.host(segment, basis)
        })?;
        let statistics = ChargeStatistics::default();
        Ok(EventPipeline { crystal, searcher, pairs, events: VecDeque::new(), answered: 0, statistics })
    }

    /// Returns the basis.
    pub fn basis(&self) -> &'b Basis {
        self.crystal.basis()
    }

    /// Returns the rules.
    pub fn rules(&self) -> &Rules {
        self.crystal.rules()
    }

    /// Returns the number of events in flight.
    pub fn pending(&self) -> usize {
        self.events.len()
    }

    /// Adds an event; `now` is the current time.
    ///
    /// # Errors
    /// [`Error::Shape`] for signals that are shorter than the window or not those of all channels.
    /// [`Error::Parameter`] for hits in a segment without points, energies that are not above 0 and
    /// samples that are non-finite. Errors of the runtime. A refused event has no answer.
    pub fn push(&mut self, event: Event, now: Instant) -> Result<(), Error> {
        let timestamp = event.timestamp;
        let PreparedEvent { signals, channels, hits, saturated } =
            PreparedEvent::new(event, &self.crystal, &mut self.statistics)?;
        let samples = signals.len() / channels.len();
        let bit = |&at: &u32| 1 << channels[at as usize / samples].index();
        let clipped = saturated.iter().map(bit).fold(0, |bits: u64, bit: u64| bits | bit);
        let search =
            |shift| HitSearch::new(&self.crystal, signals.clone(), channels.clone(), hits.clone(), shift);
        let mut searches: Vec<_> = shifts(self.crystal.rules().shifts).into_iter().map(search).collect();
        let number = self.answered + self.events.len() as u64;
        for (variant, search) in searches.iter_mut().enumerate() {
            for request in search.start(&self.crystal) {
                self.searcher.push(hit(number, variant, &request), &request.samples, now)?;
            }
        }
        let saturated = saturated.len();
        self.events.push_back(PendingEvent {
            timestamp,
            searches,
            searches_pairs: false,
            saturated,
            clipped,
        });
        Ok(())
    }

    /// Adds an event without a search: its answer has no hits.
    pub fn pass(&mut self, timestamp: u64) {
        let channels = Channel::all().collect();
        let searches = vec![HitSearch::new(&self.crystal, Arc::new([]), channels, Vec::new(), 0)];
        let searches_pairs = false;
        self.events.push_back(PendingEvent { timestamp, searches, searches_pairs, saturated: 0, clipped: 0 });
    }

    /// Submits batches whose batching delay has passed; appends available answers.
    ///
    /// # Errors
    /// Errors of the runtime.
    pub fn poll(&mut self, now: Instant, answers: &mut Vec<Answer>) -> Result<(), Error> {
        let matches = self.searcher.poll(now)?;
        self.accept(matches, now)?;
        if let Some(pairs) = &mut self.pairs {
            let answers = pairs.poll(now)?;
            self.accept_pairs(answers);
        }
        self.collect(answers);
        Ok(())
    }

    /// Waits for at least one batch, if any event is in flight; appends available answers.
    ///
    /// # Errors
    /// Errors of the runtime.
    pub fn wait(&mut self, now: Instant, answers: &mut Vec<Answer>) -> Result<(), Error> {
        let matches = self.searcher.wait()?;
        match &mut self.pairs {
            // Pairs come last: while other searches run, their batches may fill up.
            Some(pairs) if matches.is_empty() => {
                let answers = pairs.wait()?;
                self.accept_pairs(answers);
            }
            _ => self.accept(matches, now)?,
        }
        self.collect(answers);
        Ok(())
    }

    /// Waits until no event is in flight; appends the answers.
    ///
    /// # Errors
    /// Errors of the runtime.
    pub fn finish(&mut self, now: Instant, answers: &mut Vec<Answer>) -> Result<(), Error> {
        self.collect(answers);
        while !self.events.is_empty() {
            self.wait(now, answers)?;
        }
        Ok(())
    }

    /// Returns a warning if hardly any event of a crystal has had a hit, or if energies are
    /// implausible.
    pub fn doubt(&self) -> Option<String> {
        self.statistics.doubt(self.crystal.rules().threshold)
    }

    fn accept(&mut self, matches: Vec<(Ticket, Match)>, now: Instant) -> Result<(), Error> {
        for (ticket, best) in matches {
            let Ticket { event, variant, .. } = ticket;
            let search = &mut self.events[(event - self.answered) as usize].searches[variant];
            match search.accept(&self.crystal, ticket.hit, best) {
                Some(request) => self.searcher.push(hit(event, variant, &request), &request.samples, now)?,
                None => self.request_pairs(event, now)?,
            }
        }
        Ok(())
    }

    /// Starts the search for pairs if it is requested and all hits of the event have answers.
    fn request_pairs(&mut self, number: u64, now: Instant) -> Result<(), Error> {
        let event = &mut self.events[(number - self.answered) as usize];
        let Some(pairs) = self.pairs.as_mut().filter(|_| event.is_answered() && !event.searches_pairs) else {
            return Ok(());
        };
        let mut best = event.best();
        for (request, single) in best.pair_requests(&self.crystal) {
            let ticket = Ticket { event: number, variant: 0, hit: request.hit };
            pairs.push(ticket, request.charge.0, request.samples, single, now)?;
        }
        (event.searches, event.searches_pairs) = (vec![best], true);
        Ok(())
    }

    fn accept_pairs(&mut self, answers: Vec<(Ticket, Option<AcceptedPair>)>) {
        for (Ticket { event, hit, .. }, pair) in answers {
            self.events[(event - self.answered) as usize].searches[0].accept_pair(hit, pair);
        }
    }

    /// Appends the answers of the first events, up to one that is not done.
    fn collect(&mut self, answers: &mut Vec<Answer>) {
        while let Some(mut event) = self.events.pop_front_if(|event| event.is_answered()) {
            let (hits, shift) = event.best().into_hits();
            let hits = hits.into_iter().map(|hit| located(&self.crystal, hit, event.clipped)).collect();
            let PendingEvent { timestamp, saturated, .. } = event;
            answers.push(Answer { number: self.answered, timestamp, hits, shift, saturated });
            self.answered += 1;
        }
    }
}

/// Returns a hit with the position, the energy and the points of the whole crystal; `clipped` has a
/// bit for each channel with clipped samples.
fn located(
    crystal: &CrystalBasis<'_>,
    ((segment, energy), best): (Charge, Match),
    clipped: u64,
) -> LocatedHit {
    let point = |index| crystal.point(segment, index);
    let compared = crystal.channels(segment).unwrap_or_default();
    let is_clipped = compared.iter().any(|channel| clipped >> channel.index() & 1 == 1);
    let flags = best.flags.with_if(is_clipped, Flags::SATURATED);
    let best = Match { index: point(best.index), second: best.second.map(point), flags, ..best };
    let energy = crystal.corrected_energy(energy, best.index);
    LocatedHit { segment, energy, best, position: crystal.position(best.index) }
}

#[cfg(test)]
mod tests {
    use zellige_runtime::Runtime;

    use super::*;
    use crate::basis::Sampling;
    use crate::channels::{CHANNELS, ChannelSet, SEGMENTS, Segment};
    use crate::search::{Method, PairPlan, Plan};

    const SAMPLES: usize = 24;

    /// 27 points in each of two segments that touch, and one point in each of the others. The
    /// position of a point determines the rise times of its segment's and of the core's signal, and
    /// the size of the transients of the others.
    fn basis() -> Basis {
        basis_of(1.0)
    }

    /// Returns the basis with distances between the points multiplied by a factor.
    fn basis_of(distance: f32) -> Basis {
        let (mut positions, mut segments, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for segment in Segment::all() {
            let points = if [14, 20].contains(&segment.index()) { 27 } else { 1 };
            for i in 0..points {
                let cell = [i % 3, i / 3 % 3, i / 9].map(|x| x as f32 * 2.0);
                let [x, y, z] = cell.map(|x| distance * x);
                positions.push([x + 50.0 * segment.index() as f32, y, z]);
                segments.push(segment);
                for channel in 0..CHANNELS {
                    values.extend((0..SAMPLES).map(|t| {
                        let rise = |late: f32| 1.0 / (1.0 + (4.0 + late - t as f32).exp());
                        match channel {
                            c if c == segment.index() => rise(cell[0]),
                            SEGMENTS => rise(cell[1] + 0.3 * cell[2]),
                            c => {
                                0.02 * (cell[2] + 1.0)
                                    * (1.0 + c as f32 % 5.0)
                                    * (rise(cell[0]) - rise(cell[1] + 1.0))
                            }
                        }
                    }));
                }
            }
        }
        let sampling = Sampling { samples: SAMPLES, step: 10.0, before: 2 };
        Basis::new(sampling, positions, segments, values).expect("sizes that fit")
    }

    fn event(basis: &Basis, hits: &[(usize, f32)]) -> Vec<f32> {
        let all = Channel::all();
        let sample =
            |channel: Channel, t: usize| hits.iter().map(|&(i, e)| e * basis.signal(i, channel)[t]).sum();
        all.flat_map(|channel| (0..SAMPLES).map(move |t| sample(channel, t))).collect()
    }

    fn search(basis: &Basis, plan: &Plan, rules: Rules, events: &[Vec<f32>]) -> Vec<Answer> {
        let mut answers = Vec::new();
        for (workers, size) in [(1, 1), (2, 5)] {
            let rt = Runtime::builder().workers(workers).build().expect("a runtime");
            let batching = Batching { size, ..Batching::default() };
            let mut pipeline =
                EventPipeline::new(&rt, plan, batching, basis, rules.clone()).expect("a crystal");
            let (now, mut of_run) = (Instant::now(), Vec::new());
            for (i, signals) in events.iter().enumerate() {
                let timestamp = 10 * i as u64;
                let event = Event { timestamp, hit: None, signals: signals.clone(), saturated: Vec::new() };
                pipeline.push(event, now).expect("an event");
                pipeline.poll(now, &mut of_run).expect("answers");
            }
            pipeline.finish(now, &mut of_run).expect("answers");
            assert!(pipeline.pending() == 0 && (answers.is_empty() || answers == of_run));
            answers = of_run;
        }
        assert!(
            answers.iter().enumerate().all(|(i, a)| (a.number, a.timestamp) == (i as u64, 10 * i as u64))
        );
        answers
    }

    const FULL: Plan = Plan { method: Method::Full, ..Plan::DEFAULT };
    const RULES: Rules = Rules { window: SAMPLES, ..Rules::DEFAULT };

    fn points(basis: &Basis, segment: usize) -> Vec<usize> {
        (0..basis.segments().len()).filter(|&i| basis.segments()[i].index() == segment).collect()
    }

    #[test]
    fn two_hits_are_taken_apart() {
        let basis = basis();
        let (first, second) = (points(&basis, 14), points(&basis, 20));
        let pairs = [(0, 26), (13, 5), (22, 17)];
        let events = pairs.map(|(i, j)| event(&basis, &[(first[i], 300.0), (second[j], 800.0)]));
        for (answer, (i, j)) in search(&basis, &FULL, RULES, &events).iter().zip(pairs) {
            let hits: Vec<_> = answer.hits.iter().map(|hit| (hit.segment.index(), hit.best.index)).collect();
            assert_eq!(hits, [(20, second[j]), (14, first[i])]);
            assert_eq!(answer.hits[0].position, basis.positions()[second[j]]);
            assert!((answer.hits[0].energy - 800.0).abs() < 5.0, "{}", answer.hits[0].energy);
        }
    }

    #[test]
    fn what_is_too_small_is_dropped_and_too_many_are_flagged() {
        let basis = basis();
        let plan = Plan { method: Method::CoarseFine { cells: 1 }, ..Plan::default() };
        let at = |segment: usize| points(&basis, segment)[0];
        let small = [(at(0), 500.0), (at(7), 5.0), (at(9), 200.0), (at(11), 30.0)];
        let many: Vec<(usize, f32)> = (0..13).map(|segment| (at(segment), 100.0)).collect();
        let events = [event(&basis, &small), event(&basis, &many), vec![0.0; CHANNELS * SAMPLES]];
        let rules = Rules { channels: ChannelSet::HitCore, ..RULES };
        let answers = search(&basis, &plan, rules.clone(), &events);
        assert_eq!(answers[0].hits.iter().map(|hit| hit.segment.index()).collect::<Vec<_>>(), [0, 9, 11]);
        let flags =
            |hits: &[LocatedHit], flag| hits.iter().map(|hit| hit.best.flags.has(flag)).collect::<Vec<_>>();
        let coarse = flags(&answers[0].hits, Flags::COARSE_ONLY);
        assert_eq!(coarse, [false, false, true], "the third hit, and below 50 keV");
        let any = Rules { coarse_below: 400.0, always_fine: 0, ..rules.clone() };
        let coarse = flags(&search(&basis, &plan, any, &events[..1])[0].hits, Flags::COARSE_ONLY);
        assert_eq!(coarse, [false, true, true], "any hit below 400 keV");
        assert_eq!(flags(&answers[1].hits, Flags::TOO_MANY_SEGMENTS), [true; 13]);
        assert!(answers[2].hits.is_empty());
        let other = Rules { threshold: 250.0, coarse_below: 0.0, ..rules };
        assert_eq!(search(&basis, &plan, other, &events[..1])[0].hits.len(), 1);
    }

    #[test]
    fn what_is_no_event_is_refused_and_what_is_passed_over_has_no_hits() {
        let basis = basis();
        let rt = Runtime::builder().workers(1).build().expect("a runtime");
        let mut pipeline =
            EventPipeline::new(&rt, &FULL, Batching::default(), &basis, RULES).expect("a crystal");
        let now = Instant::now();
        let hit = Segment::from_index(14).expect("a segment");
        for (hit, signals) in [
            (None, vec![0.0; 7]),
            (None, vec![f32::NAN; CHANNELS * SAMPLES]),
            (None, vec![0.0; CHANNELS * (SAMPLES - 1)]),
            (Some((hit, 100.0)), vec![0.0; CHANNELS * SAMPLES]),
            (Some((hit, f64::NAN)), vec![0.0; 10 * SAMPLES]),
        ] {
            pipeline
                .push(Event { timestamp: 0, hit, signals, saturated: Vec::new() }, now)
                .expect_err("no event");
        }
        pipeline.pass(5);
        let (hit, signals) = (Some((hit, 100.0)), vec![0.0; 10 * SAMPLES]);
        pipeline.push(Event { timestamp: 9, hit, signals, saturated: Vec::new() }, now).expect("an event");
        let mut answers = Vec::new();
        pipeline.finish(now, &mut answers).expect("answers");
        let hits: Vec<_> = answers.iter().map(|answer| (answer.timestamp, answer.hits.len())).collect();
        assert_eq!(hits, [(5, 0), (9, 1)]);
        let wrong = Rules { shifts: 1000, ..RULES };
        EventPipeline::new(&rt, &FULL, Batching::default(), &basis, wrong).expect_err("no rules");
    }

    /// Returns the signals delayed by a number of samples, which may be fractional.
    fn late(signals: &[f32], by: f32) -> Vec<f32> {
        let moved = |signal: &[f32]| -> Vec<f32> {
            let at = |t: f32| signal[(t.max(0.0) as usize).min(SAMPLES - 1)];
            (0..SAMPLES)
                .map(|t| {
                    let from = t as f32 - by;
                    let part = from - from.floor();
                    at(from.floor()) * (1.0 - part) + at(from.floor() + 1.0) * part
                })
                .collect()
        };
        signals.chunks(SAMPLES).flat_map(moved).collect()
    }

    #[test]
    fn late_events_are_found_where_they_are() {
        let basis = basis();
        let (first, second) = (points(&basis, 14), points(&basis, 20));
        let hits = |i: usize| vec![(first[i], 300.0), (second[26 - i], 800.0)];
        let truth: Vec<[usize; 2]> = (0..27).map(|i| [second[26 - i], first[i]]).collect();
        let right = |rules: Rules, by: f32| {
            let events: Vec<_> = (0..27).map(|i| late(&event(&basis, &hits(i)), by)).collect();
            let answers = search(&basis, &FULL, rules, &events);
            let is_right = |(answer, truth): (&Answer, &[usize; 2])| {
                (answer.shift + f64::from(by)).abs() < 0.1
                    && answer.hits.iter().map(|hit| hit.best.index).eq(truth.iter().copied())
            };
            answers.iter().zip(&truth).filter(|&both| is_right(both)).count()
        };
        let on_time = right(RULES, 0.0);
        // Hits that are searched for in turn are not always the best pair.
        assert!(on_time > 20, "{on_time}");
        assert_eq!(right(RULES, 2.0), 0);
        assert_eq!(right(Rules { shifts: 3, ..RULES }, 2.0), on_time);
        // An early event lacks the samples that it has lost at its end.
        assert!(right(Rules { shifts: 3, ..RULES }, -1.0) + 4 > on_time);
        let aligned = right(Rules { align: true, ..RULES }, 0.4);
        assert!(aligned > right(RULES, 0.4) + 12, "{aligned}");
    }

    /// An event with all channels and one with the channels of a known hit, its own first, have the
    /// same answer.
    #[test]
    fn known_hits_have_their_channels_in_their_order() {
        let basis = basis();
        let hit = Segment::from_index(14).expect("a segment");
        let rules = Rules { channels: ChannelSet::All, ..RULES };
        let whole: Vec<Vec<f32>> = points(&basis, 14).iter().map(|&i| event(&basis, &[(i, 300.0)])).collect();
        let rt = Runtime::builder().workers(1).build().expect("a runtime");
        let (now, mut answers) = (Instant::now(), Vec::new());
        let mut pipeline =
            EventPipeline::new(&rt, &FULL, Batching::default(), &basis, rules).expect("a crystal");
        for signals in &whole {
            let of = |channel: &Channel| &signals[channel.index() * SAMPLES..][..SAMPLES];
            let signals = ChannelSet::All.of(hit).iter().flat_map(of).copied().collect();
            let hit = Some((hit, 300.0));
            pipeline
                .push(Event { timestamp: 0, hit, signals, saturated: Vec::new() }, now)
                .expect("an event");
        }
        pipeline.finish(now, &mut answers).expect("answers");
        let best: Vec<usize> = answers.iter().map(|answer| answer.hits[0].best.index).collect();
        assert_eq!(best, points(&basis, 14));
    }

    #[test]
    fn two_hits_in_one_segment_are_two_hits_of_the_answer() {
        let basis = basis_of(3.0);
        let of = points(&basis, 14);
        let far = points(&basis, 20)[13];
        let (first, second) = (of[0], of[26]);
        let events = [
            event(&basis, &[(first, 400.0), (second, 600.0)]),
            event(&basis, &[(first, 400.0)]),
            event(&basis, &[(first, 500.0), (second, 500.0), (far, 300.0)]),
        ];
        let pairs = Some(PairPlan { single: FULL, ..PairPlan::default() });
        let answers = search(&basis, &FULL, Rules { pairs, ..RULES }, &events);
        let hits = |answer: &Answer| {
            let hit =
                |hit: &LocatedHit| (hit.best.index, hit.energy.round(), hit.best.flags.has(Flags::PAIR));
            answer.hits.iter().map(hit).collect::<Vec<_>>()
        };
        assert_eq!(hits(&answers[0]), [(second, 600.0, true), (first, 400.0, true)]);
        assert_eq!(hits(&answers[1]), [(first, 400.0, false)]);
        let mut third: Vec<usize> = hits(&answers[2]).iter().map(|hit| hit.0).collect();
        third.sort_unstable();
        assert_eq!((&third[..2], basis.segments()[third[2]].index()), (&[first, second][..], 20));
    }
}
