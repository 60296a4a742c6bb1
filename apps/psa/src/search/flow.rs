//! Stream of the events of a crystal, one after the other, through queues and tasks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use zellige_runtime::Runtime;

use super::course::{Course, Request, all_channels, moves};
use super::found::{Flags, Found};
use super::pairs::{Pairs, Two};
use super::parts::{Charge, Parts, Rules, charges};
use super::saturation::{self, Clipped, Saturated};
use super::searcher::{Batching, Hit, SearchRule, Searcher};
use crate::Error;
use crate::basis::Basis;
use crate::channels::{CHANNELS, Channel, SEGMENTS, Segment};

/// An event as received.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Time of the event (ns).
    pub timestamp: u64,
    /// Segment and energy (keV) of the hit, if they are known. `None` if the signals are those of
    /// all 37 channels.
    pub hit: Option<(Segment, f64)>,
    /// Signals (keV) by channel and sample, positive where charge is collected. They are those of
    /// the compared channels if the hit is known, otherwise of all channels.
    pub signals: Vec<f32>,
    /// Indices of samples that are known to be clipped. Others are found by the flat tops of their
    /// traces ([`saturation::find`]).
    pub saturated: Vec<u32>,
}

/// Answer for an event: its hits with their positions.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Number of events before it.
    pub number: u64,
    /// Time of the event (ns).
    pub timestamp: u64,
    /// Hits in descending order of the collected charge; none for an event that was passed over.
    pub places: Vec<Place>,
    /// Shift of the event in samples; positive is later.
    pub shift: f64,
    /// Number of its clipped samples.
    pub saturated: usize,
}

/// One hit of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Segment of the hit.
    pub segment: Segment,
    /// Collected energy (keV), corrected for trapped charge ([`Rules::trapping`]).
    pub energy: f64,
    /// Answer of the search; its indices are those of points of the basis.
    pub found: Found,
    /// Position of the best point (mm).
    pub position: [f32; 3],
}

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
pub struct Flow<'rt, 'b> {
    searcher: Searcher<'rt>,
    /// Search for pairs of hits, if requested.
    pairs: Option<Pairs<'rt>>,
    parts: Parts<'b>,
    /// Events in flight, and the number of events before the first of them.
    events: VecDeque<OnTheWay>,
    passed: u64,
    seen: Seen,
}

/// Statistics of the charges of whole crystals.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    events: u64,
    /// Number of events with hits.
    with_hits: u64,
    /// Largest and smallest charge of a segment (keV).
    most: f64,
    least: f64,
}

/// An event in flight.
struct OnTheWay {
    timestamp: u64,
    /// Courses of the event, one for each shift; only the best one during the search for pairs.
    courses: Vec<Course>,
    searches_pairs: bool,
    /// Number of clipped samples, and a bit for each channel that has some.
    saturated: usize,
    clipped: u64,
}

impl OnTheWay {
    fn is_answered(&self) -> bool {
        self.courses.iter().all(Course::is_done)
    }

    /// Removes and returns the course with the smallest sum of figures of merit, the first of equal
    /// ones.
    fn best(&mut self) -> Course {
        let better = |best: Course, other: Course| if other.sum() < best.sum() { other } else { best };
        std::mem::take(&mut self.courses).into_iter().reduce(better).expect("one place at least")
    }
}

impl std::fmt::Debug for Flow<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Flow({} events in flight after {})", self.events.len(), self.passed)
    }
}

impl<'rt, 'b> Flow<'rt, 'b> {
    /// Creates a flow for a crystal with the basis of all its points. The basis is registered with
    /// the runtime segment by segment; `rule` selects the plan of each segment.
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
        let mut pairs = rules.pairs.map(|plan| Pairs::new(rt, plan, batching));
        let parts = Parts::new(basis, rules, |segment, basis| {
            if let Some(pairs) = &mut pairs {
                pairs.host(segment, basis);
            }
            searcher.host(segment, basis)
        })?;
        Ok(Flow { searcher, pairs, parts, events: VecDeque::new(), passed: 0, seen: Seen::default() })
    }

    /// Returns the basis.
    pub fn basis(&self) -> &'b Basis {
        self.parts.basis()
    }

    /// Returns the rules.
    pub fn rules(&self) -> &Rules {
        self.parts.rules()
    }

    /// Returns the number of events in flight.
    pub fn on_the_way(&self) -> usize {
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
        let Prepared { signals, channels, hits, saturated } = self.prepared(event)?;
        let samples = signals.len() / channels.len();
        let bit = |&at: &u32| 1 << channels[at as usize / samples].index();
        let clipped = saturated.iter().map(bit).fold(0, |bits: u64, bit: u64| bits | bit);
        let course = |shift| Course::new(&self.parts, signals.clone(), channels.clone(), hits.clone(), shift);
        let mut courses: Vec<_> = moves(self.parts.rules().shifts).into_iter().map(course).collect();
        let number = self.passed + self.events.len() as u64;
        for (variant, course) in courses.iter_mut().enumerate() {
            for request in course.begin(&self.parts) {
                self.searcher.push(hit(number, variant, &request), &request.samples, now)?;
            }
        }
        let saturated = saturated.len();
        self.events.push_back(OnTheWay { timestamp, courses, searches_pairs: false, saturated, clipped });
        Ok(())
    }

    /// Adds an event without a search: its answer has no hits.
    pub fn pass(&mut self, timestamp: u64) {
        let nothing = Course::new(&self.parts, Arc::new([]), all_channels(), Vec::new(), 0);
        let (courses, searches_pairs) = (vec![nothing], false);
        self.events.push_back(OnTheWay { timestamp, courses, searches_pairs, saturated: 0, clipped: 0 });
    }

    /// Submits batches whose batching delay has passed; appends available answers.
    ///
    /// # Errors
    /// Errors of the runtime.
    pub fn poll(&mut self, now: Instant, answers: &mut Vec<Answer>) -> Result<(), Error> {
        let found = self.searcher.poll(now)?;
        self.answered(found, now)?;
        if let Some(pairs) = &mut self.pairs {
            let found = pairs.poll(now)?;
            self.answered_pairs(found);
        }
        self.leave(answers);
        Ok(())
    }

    /// Waits for at least one batch, if any event is in flight; appends available answers.
    ///
    /// # Errors
    /// Errors of the runtime.
    pub fn wait(&mut self, now: Instant, answers: &mut Vec<Answer>) -> Result<(), Error> {
        let found = self.searcher.wait()?;
        match &mut self.pairs {
            // Pairs come last: while other searches run, their batches may fill up.
            Some(pairs) if found.is_empty() => {
                let found = pairs.wait()?;
                self.answered_pairs(found);
            }
            _ => self.answered(found, now)?,
        }
        self.leave(answers);
        Ok(())
    }

    /// Waits until no event is in flight; appends the answers.
    ///
    /// # Errors
    /// Errors of the runtime.
    pub fn finish(&mut self, now: Instant, answers: &mut Vec<Answer>) -> Result<(), Error> {
        self.leave(answers);
        while !self.events.is_empty() {
            self.wait(now, answers)?;
        }
        Ok(())
    }

    /// Checks an event, and determines its hits and its clipped samples.
    fn prepared(&mut self, event: Event) -> Result<Prepared, Error> {
        let known = event.saturated;
        let mut prepared = match event.hit {
            None => self.whole(event.signals)?,
            Some(hit) => self.known(hit, event.signals)?,
        };
        let samples = prepared.signals.len() / prepared.channels.len();
        let mut saturated = saturation::find(&prepared.signals, samples);
        if saturated.is_empty() && known.is_empty() {
            return Ok(prepared);
        }
        saturated.extend(known.into_iter().filter(|&at| (at as usize) < prepared.signals.len()));
        saturated.sort_unstable();
        saturated.dedup();
        match self.parts.rules().saturated {
            Saturated::Fit => {
                let Prepared { signals, channels, hits, .. } = &mut prepared;
                let mut restored = signals.to_vec();
                let is_known = event.hit.is_some();
                let mut clipped = Clipped { signals: &mut restored, channels, samples: &saturated, is_known };
                clipped.restore(&self.parts, hits);
                if !is_known {
                    *hits = self.parts.hits(charges(&restored))?;
                }
                *signals = restored.into();
            }
            Saturated::Skip => prepared.hits.clear(),
            Saturated::Refuse => {
                let count = saturated.len();
                let problem = format!(
                    "{count} samples are clipped at the end of their range: fit leaves them out, skip leaves out the event"
                );
                return Err(Error::Parameter { name: "saturated", problem });
            }
        }
        Ok(Prepared { saturated, ..prepared })
    }

    /// Prepares the signals of a whole crystal, and finds its hits.
    fn whole(&mut self, mut signals: Vec<f32>) -> Result<Prepared, Error> {
        let rules = self.parts.rules();
        check(&signals, CHANNELS, rules.window)?;
        if let Some(cross_talk) = &rules.cross_talk {
            let samples = signals.len() / CHANNELS;
            cross_talk.correct(&mut signals[..SEGMENTS * samples], samples)?;
        }
        let hits = self.parts.hits(charges(&signals))?;
        self.seen.events += 1;
        self.seen.with_hits += u64::from(!hits.is_empty());
        for (_, charge) in charges(&signals) {
            self.seen.most = self.seen.most.max(charge);
            self.seen.least = self.seen.least.min(charge);
        }
        Ok(Prepared { signals: signals.into(), channels: all_channels(), hits, saturated: Vec::new() })
    }

    /// Returns a warning if hardly any event of a crystal has had a hit, or if energies are
    /// implausible.
    pub fn doubt(&self) -> Option<String> {
        /// Largest plausible charge of a gamma ray (keV).
        const MOST: f64 = 1e5;
        let Seen { events, with_hits, most, least } = self.seen;
        let threshold = self.parts.rules().threshold;
        let few = 10 * with_hits < events;
        let counted = match with_hits {
            0 => format!("none of {events} events has a hit"),
            _ => format!("{with_hits} of {events} events have hits"),
        };
        if few && -least > 2.0 * most && -least >= threshold {
            return Some(format!(
                "{counted}: charges range from {least:.6} keV to {most:.6} keV, the opposite polarity: multiply signals by -1"
            ));
        }
        if events > 0 && with_hits == 0 {
            let remedy = match 1000.0 * most {
                kilo if kilo >= threshold && kilo < MOST => {
                    "signals in MeV have to be multiplied by 1000, signals of small charges need a lower --threshold"
                }
                _ => {
                    "a lower --threshold finds smaller ones; signals are in keV, and those of other units have to be multiplied"
                }
            };
            let what = "the largest charge of a segment is";
            return Some(format!(
                "{counted}: {what} {most:.6} keV, --threshold is {threshold} keV; {remedy}"
            ));
        }
        (most > MOST).then(|| {
            format!("a segment has collected {most:.3e} keV, more than any gamma ray has: signals are in keV, divide those in eV by 1000")
        })
    }

    /// Prepares the signals of a known hit.
    fn known(&self, (segment, energy): Charge, signals: Vec<f32>) -> Result<Prepared, Error> {
        let wrong = |problem| Err(Error::Parameter { name: "event", problem });
        let Some(channels) = self.parts.channels(segment) else {
            return wrong(format!("a hit in segment {}: the basis has no point there", segment.index()));
        };
        check(&signals, channels.len(), self.parts.rules().window)?;
        if !(energy.is_finite() && energy > 0.0) {
            return wrong(format!("an energy of {energy} keV: it must be above 0"));
        }
        let (channels, hits) = (channels.to_vec(), vec![(segment, energy)]);
        Ok(Prepared { signals: signals.into(), channels, hits, saturated: Vec::new() })
    }

    fn answered(&mut self, found: Vec<(usize, Found)>, now: Instant) -> Result<(), Error> {
        for (number, found) in found {
            let (event, variant, hit_of_event) = parts_of(number);
            let course = &mut self.events[(event - self.passed) as usize].courses[variant];
            match course.answered(&self.parts, hit_of_event, found) {
                Some(request) => self.searcher.push(hit(event, variant, &request), &request.samples, now)?,
                None => self.ask_for_pairs(event, now)?,
            }
        }
        Ok(())
    }

    /// Starts the search for pairs if it is requested and all hits of the event are found.
    fn ask_for_pairs(&mut self, number: u64, now: Instant) -> Result<(), Error> {
        let event = &mut self.events[(number - self.passed) as usize];
        let Some(pairs) = self.pairs.as_mut().filter(|_| event.is_answered() && !event.searches_pairs) else {
            return Ok(());
        };
        let mut best = event.best();
        for (request, single) in best.ask_for_pairs(&self.parts) {
            let number = hit(number, 0, &request).number;
            pairs.push(number, request.charge.0, request.samples, single, now)?;
        }
        (event.courses, event.searches_pairs) = (vec![best], true);
        Ok(())
    }

    fn answered_pairs(&mut self, found: Vec<(usize, Option<Two>)>) {
        for (number, two) in found {
            let (event, _, hit) = parts_of(number);
            self.events[(event - self.passed) as usize].courses[0].answered_pair(hit, two);
        }
    }

    /// Returns the answers of the first events, up to one that is not done.
    fn leave(&mut self, answers: &mut Vec<Answer>) {
        while let Some(mut event) = self.events.pop_front_if(|event| event.is_answered()) {
            let OnTheWay { timestamp, saturated, clipped, .. } = event;
            let (places, shift) = event.best().end();
            let place = |((segment, energy), found): ((Segment, f64), Found)| {
                let point = |index| self.parts.point(segment, index);
                let compared = self.parts.channels(segment).unwrap_or_default();
                let is_clipped = compared.iter().any(|channel| clipped >> channel.index() & 1 == 1);
                let flags = found.flags.with_if(is_clipped, Flags::SATURATED);
                let found =
                    Found { index: point(found.index), second: found.second.map(point), flags, ..found };
                let energy = self.parts.whole(energy, found.index);
                Place { segment, energy, found, position: self.parts.position(found.index) }
            };
            let places = places.into_iter().map(place).collect();
            answers.push(Answer { number: self.passed, timestamp, places, shift, saturated });
            self.passed += 1;
        }
    }
}

/// A prepared event: signals, channels and hits of the search.
struct Prepared {
    signals: Arc<[f32]>,
    channels: Vec<Channel>,
    hits: Vec<Charge>,
    /// Indices of the clipped samples.
    saturated: Vec<u32>,
}

fn check(signals: &[f32], channels: usize, window: usize) -> Result<(), Error> {
    let len = signals.len();
    if !len.is_multiple_of(channels) || len / channels < window {
        let problem = format!("{len} samples of {channels} channels: {window} or more of each are needed");
        return Err(Error::shape("signals of an event", problem));
    }
    if signals.iter().any(|sample| !sample.is_finite()) {
        let problem = "a sample is not a finite number".to_owned();
        return Err(Error::Parameter { name: "event", problem });
    }
    Ok(())
}

/// Number of bits of a hit's number for its index in the event, and also for the shift.
const BITS: u32 = 6;

/// Returns the searcher's hit of a request.
fn hit(event: u64, variant: usize, request: &Request) -> Hit {
    let number = (event as usize) << (2 * BITS) | variant << BITS | request.hit;
    let (segment, energy) = request.charge;
    Hit { number, segment, energy, coarse_only: request.coarse_only }
}

/// Returns the event, the index of the shift, and the hit of a number.
fn parts_of(number: usize) -> (u64, usize, usize) {
    const LOW: usize = (1 << BITS) - 1;
    ((number >> (2 * BITS)) as u64, number >> BITS & LOW, number & LOW)
}

#[cfg(test)]
mod tests {
    use zellige_runtime::Runtime;

    use super::*;
    use crate::basis::Sampling;
    use crate::channels::ChannelSet;
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
                let place = [i % 3, i / 3 % 3, i / 9].map(|x| x as f32 * 2.0);
                let [x, y, z] = place.map(|x| distance * x);
                positions.push([x + 50.0 * segment.index() as f32, y, z]);
                segments.push(segment);
                for channel in 0..CHANNELS {
                    values.extend((0..SAMPLES).map(|t| {
                        let rise = |late: f32| 1.0 / (1.0 + (4.0 + late - t as f32).exp());
                        match channel {
                            c if c == segment.index() => rise(place[0]),
                            SEGMENTS => rise(place[1] + 0.3 * place[2]),
                            c => {
                                0.02 * (place[2] + 1.0)
                                    * (1.0 + c as f32 % 5.0)
                                    * (rise(place[0]) - rise(place[1] + 1.0))
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
        let all = (0..CHANNELS).filter_map(Channel::from_index);
        let sample =
            |channel: Channel, t: usize| hits.iter().map(|&(i, e)| e * basis.signal(i, channel)[t]).sum();
        all.flat_map(|channel| (0..SAMPLES).map(move |t| sample(channel, t))).collect()
    }

    fn search(basis: &Basis, plan: &Plan, rules: Rules, events: &[Vec<f32>]) -> Vec<Answer> {
        let mut answers = Vec::new();
        for (workers, size) in [(1, 1), (2, 5)] {
            let rt = Runtime::builder().workers(workers).build().expect("a runtime");
            let batching = Batching { size, ..Batching::default() };
            let mut flow = Flow::new(&rt, plan, batching, basis, rules.clone()).expect("a crystal");
            let (now, mut of_run) = (Instant::now(), Vec::new());
            for (i, signals) in events.iter().enumerate() {
                let timestamp = 10 * i as u64;
                let event = Event { timestamp, hit: None, signals: signals.clone(), saturated: Vec::new() };
                flow.push(event, now).expect("an event");
                flow.poll(now, &mut of_run).expect("answers");
            }
            flow.finish(now, &mut of_run).expect("answers");
            assert!(flow.on_the_way() == 0 && (answers.is_empty() || answers == of_run));
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
            let found: Vec<_> =
                answer.places.iter().map(|place| (place.segment.index(), place.found.index)).collect();
            assert_eq!(found, [(20, second[j]), (14, first[i])]);
            assert_eq!(answer.places[0].position, basis.positions()[second[j]]);
            assert!((answer.places[0].energy - 800.0).abs() < 5.0, "{}", answer.places[0].energy);
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
        assert_eq!(
            answers[0].places.iter().map(|place| place.segment.index()).collect::<Vec<_>>(),
            [0, 9, 11]
        );
        let flags = |places: &[Place], flag| {
            places.iter().map(|place| place.found.flags.has(flag)).collect::<Vec<_>>()
        };
        let coarse = flags(&answers[0].places, Flags::COARSE_ONLY);
        assert_eq!(coarse, [false, false, true], "the third hit, and below 50 keV");
        assert_eq!(flags(&answers[1].places, Flags::TOO_MANY_SEGMENTS), [true; 13]);
        assert!(answers[2].places.is_empty());
        let other = Rules { threshold: 250.0, coarse_below: 0.0, ..rules };
        assert_eq!(search(&basis, &plan, other, &events[..1])[0].places.len(), 1);
    }

    #[test]
    fn what_is_no_event_is_refused_and_what_is_passed_over_has_no_hits() {
        let basis = basis();
        let rt = Runtime::builder().workers(1).build().expect("a runtime");
        let mut flow = Flow::new(&rt, &FULL, Batching::default(), &basis, RULES).expect("a crystal");
        let now = Instant::now();
        let hit = Segment::from_index(14).expect("a segment");
        for (hit, signals) in [
            (None, vec![0.0; 7]),
            (None, vec![f32::NAN; CHANNELS * SAMPLES]),
            (None, vec![0.0; CHANNELS * (SAMPLES - 1)]),
            (Some((hit, 100.0)), vec![0.0; CHANNELS * SAMPLES]),
            (Some((hit, f64::NAN)), vec![0.0; 10 * SAMPLES]),
        ] {
            flow.push(Event { timestamp: 0, hit, signals, saturated: Vec::new() }, now)
                .expect_err("no event");
        }
        flow.pass(5);
        let (hit, signals) = (Some((hit, 100.0)), vec![0.0; 10 * SAMPLES]);
        flow.push(Event { timestamp: 9, hit, signals, saturated: Vec::new() }, now).expect("an event");
        let mut answers = Vec::new();
        flow.finish(now, &mut answers).expect("answers");
        let hits: Vec<_> = answers.iter().map(|answer| (answer.timestamp, answer.places.len())).collect();
        assert_eq!(hits, [(5, 0), (9, 1)]);
        let wrong = Rules { shifts: 1000, ..RULES };
        Flow::new(&rt, &FULL, Batching::default(), &basis, wrong).expect_err("no rules");
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
                    && answer.places.iter().map(|place| place.found.index).eq(truth.iter().copied())
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
        let mut flow = Flow::new(&rt, &FULL, Batching::default(), &basis, rules).expect("a crystal");
        for signals in &whole {
            let of = |channel: &Channel| &signals[channel.index() * SAMPLES..][..SAMPLES];
            let signals = ChannelSet::All.of(hit).iter().flat_map(of).copied().collect();
            let hit = Some((hit, 300.0));
            flow.push(Event { timestamp: 0, hit, signals, saturated: Vec::new() }, now).expect("an event");
        }
        flow.finish(now, &mut answers).expect("answers");
        let found: Vec<usize> = answers.iter().map(|answer| answer.places[0].found.index).collect();
        assert_eq!(found, points(&basis, 14));
    }

    #[test]
    fn two_hits_in_one_segment_are_two_places() {
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
        let found = |answer: &Answer| {
            let place =
                |place: &Place| (place.found.index, place.energy.round(), place.found.flags.has(Flags::PAIR));
            answer.places.iter().map(place).collect::<Vec<_>>()
        };
        assert_eq!(found(&answers[0]), [(second, 600.0, true), (first, 400.0, true)]);
        assert_eq!(found(&answers[1]), [(first, 400.0, false)]);
        let mut third: Vec<usize> = found(&answers[2]).iter().map(|place| place.0).collect();
        third.sort_unstable();
        assert_eq!((&third[..2], basis.segments()[third[2]].index()), (&[first, second][..], 20));
    }
}
