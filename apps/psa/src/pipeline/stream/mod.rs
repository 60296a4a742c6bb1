//! Events as they come, from a file, a pipe or a socket, and their hits as they are found.
//!
//! | module | what it holds |
//! |---|---|
//! | [`record`] | traces of an event as a frame |
//! | [`source`] | files and pipes that frames come from |
//! | [`socket`] | a sender and a receiver that lose nothing when a connection does |
//! | [`journal`] | how far input and output have come |
//! | [`output`] | where hits go |
//!
//! A thread reads frames into a buffer; where that is full it waits, and with it whoever writes, or
//! it leaves events out and counts them ([`Overload`]). Answers leave in the order of the events.
//! From time to time what has been written is made safe and the place in the input is kept beside
//! it: after a kill the output is cut back to that, and the input goes on from there.

pub mod journal;
pub mod output;
pub mod record;
pub mod socket;
pub mod source;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::Error;
use crate::consistency::Comparison;
use crate::files::geb::Frame;
use crate::observe::Observer;
use crate::search::{Answer, Flow};
use output::Output;
use record::Traces;
use source::{Mark, Next, Source};

/// What happens where events come faster than they are searched for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overload {
    /// Whoever writes waits: nothing is lost.
    #[default]
    Block,
    /// Events are left out, and counted.
    Shed,
}

/// How events are streamed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Answers that take longer than this are late: counted.
    pub latency: Duration,
    /// Events that wait in the buffer, and as many on their way, at most.
    pub buffer: usize,
    /// What happens where that is full.
    pub overload: Overload,
    /// Time between two places that a killed run goes on from.
    pub commit: Duration,
}

impl Default for Options {
    /// Ten milliseconds, 4096 events, nothing left out, a second.
    fn default() -> Self {
        Options {
            latency: Duration::from_millis(10),
            buffer: 4096,
            overload: Overload::Block,
            commit: Duration::from_secs(1),
        }
    }
}

/// What a stream was.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Summary {
    /// Events that were answered.
    pub events: u64,
    /// Hits in them.
    pub hits: u64,
    /// Events that were left out.
    pub shed: u64,
    /// Events that were none: they are answered without hits.
    pub broken: u64,
    /// Frames that were no events.
    pub foreign: u64,
    /// Events with clipped samples.
    pub saturated: u64,
    /// Answers that took longer than the bound.
    pub late: u64,
    /// Half of the answers took less, from the end of a frame's reading to the writing of its hits
    /// (ms).
    pub latency_p50_ms: f64,
    /// 99 of 100 took less (ms).
    pub latency_p99_ms: f64,
    /// All took less (ms).
    pub latency_most_ms: f64,
    /// How long it took (s).
    pub seconds: f64,
}

/// What the reader says.
enum Item {
    Event {
        traces: Result<Traces, Error>,
        end: Mark,
        arrived: Instant,
    },
    /// The connection was lost: answer when all that came is safe.
    Lost(SyncSender<()>),
    End(Result<(), Error>),
}

/// What the reader counts.
#[derive(Default)]
struct Counts {
    shed: AtomicU64,
    foreign: AtomicU64,
}

/// Searches for all events of a source and writes their hits. `flow` has to be one without events.
///
/// # Errors
/// [`Error::Stream`] where the source cannot be read further, after all that came before is
/// answered and safe; [`Error::File`] for the output; the runtime's.
pub fn run(
    source: impl Source + 'static,
    output: &mut Output<'_>,
    flow: &mut Flow<'_, '_>,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Summary, Error> {
    let (to, from) = sync_channel(options.buffer.max(1));
    let counts = Arc::new(Counts::default());
    let acknowledger = source.acknowledger();
    let begin = Instant::now();
    let rules = flow.rules();
    let comparison = Some(Comparison::new(flow.basis(), if rules.align { usize::MAX } else { rules.shifts }));
    let mut pump = Pump {
        output,
        flow,
        options,
        observer,
        pending: VecDeque::new(),
        answers: Vec::new(),
        latencies: Histogram::new_with_max(LONGEST, 3).expect("three digits"),
        summary: Summary::default(),
        safe: None,
        acknowledge: &|frames| acknowledger.send(frames),
        comparison,
    };
    // On its own: where tasks fail, nobody waits for a sender that may say nothing any more.
    let (shared, overload) = (Arc::clone(&counts), options.overload);
    std::thread::spawn(move || read(source, &to, &shared, overload));
    let ended = pump.run(&from);
    let mut summary = pump.end();
    summary.shed = counts.shed.load(Ordering::Relaxed);
    summary.foreign = counts.foreign.load(Ordering::Relaxed);
    summary.seconds = begin.elapsed().as_secs_f64();
    ended.map(|()| summary)
}

/// Reads until the source ends or nobody listens.
fn read(mut source: impl Source, to: &SyncSender<Item>, counts: &Counts, overload: Overload) {
    let mut frame = Frame::default();
    loop {
        match source.next(&mut frame) {
            Err(e) => return drop(to.send(Item::End(Err(e)))),
            Ok(Next::End) => return drop(to.send(Item::End(Ok(())))),
            Ok(Next::Lost) => {
                let (safe, is_safe) = sync_channel(1);
                if to.send(Item::Lost(safe)).is_err() || is_safe.recv().is_err() {
                    return;
                }
            }
            Ok(Next::Frame(_)) if frame.kind != record::KIND => {
                counts.foreign.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Next::Frame(end)) => {
                let item = Item::Event { traces: Traces::of(&frame), end, arrived: Instant::now() };
                let gone = match overload {
                    Overload::Block => to.send(item).is_err(),
                    Overload::Shed => match to.try_send(item) {
                        Err(TrySendError::Disconnected(_)) => true,
                        Err(TrySendError::Full(_)) => {
                            counts.shed.fetch_add(1, Ordering::Relaxed);
                            false
                        }
                        Ok(()) => false,
                    },
                };
                if gone {
                    return;
                }
            }
        }
    }
}

/// An event on its way: where the input stands behind it, when it came, and from which crystal.
struct Pending {
    end: Mark,
    arrived: Instant,
    crystal: i32,
    is_broken: bool,
}

/// Longer times are counted as this (us): an hour.
const LONGEST: u64 = 3_600_000_000;

/// From the buffer to the output.
struct Pump<'a, 'o, 'rt, 'b> {
    output: &'a mut Output<'o>,
    flow: &'a mut Flow<'rt, 'b>,
    options: &'a Options,
    observer: &'a dyn Observer,
    pending: VecDeque<Pending>,
    answers: Vec<Answer>,
    latencies: Histogram<u64>,
    summary: Summary,
    /// Where the input stands behind the last event that is answered.
    safe: Option<Mark>,
    acknowledge: &'a dyn Fn(u64),
    /// Until enough events have come.
    comparison: Option<Comparison<'b>>,
}

impl Pump<'_, '_, '_, '_> {
    fn run(&mut self, from: &Receiver<Item>) -> Result<(), Error> {
        let tick = (self.options.latency / 8).max(Duration::from_micros(100));
        let (mut polled, mut committed) = (Instant::now(), Instant::now());
        let ended = loop {
            match from.recv_timeout(tick) {
                Ok(Item::Event { traces, end, arrived }) => self.push(traces, end, arrived)?,
                Ok(Item::Lost(safe)) => {
                    self.settle()?;
                    // A reader that is gone needs no answer.
                    let _ = safe.send(());
                }
                Ok(Item::End(ended)) => break ended,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break Ok(()),
            }
            let now = Instant::now();
            if self.flow.on_the_way() >= self.options.buffer.max(1) {
                self.flow.wait(now, &mut self.answers)?;
                self.write()?;
            } else if now - polled >= tick {
                self.flow.poll(now, &mut self.answers)?;
                self.write()?;
                polled = now;
            }
            if now - committed >= self.options.commit {
                self.commit()?;
                committed = now;
            }
        };
        self.settle()?;
        self.compare();
        self.flow.doubt().into_iter().for_each(|doubt| self.observer.warn(&doubt));
        ended
    }

    fn push(&mut self, traces: Result<Traces, Error>, end: Mark, arrived: Instant) -> Result<(), Error> {
        let (crystal, refused) = match traces {
            Ok(Traces { crystal, event }) => {
                let timestamp = event.timestamp;
                if event.hit.is_none() && self.comparison.as_mut().is_some_and(|c| c.add(&event.signals)) {
                    self.compare();
                }
                match self.flow.push(event, arrived) {
                    Ok(()) => (crystal, None),
                    Err(Error::Runtime(e)) => return Err(e.into()),
                    Err(problem) => (crystal, Some((timestamp, problem))),
                }
            }
            Err(problem) => (0, Some((0, problem))),
        };
        let is_broken = refused.is_some();
        if let Some((timestamp, problem)) = refused {
            // One speaks for all: what is wrong with a file is wrong with most of its events.
            if self.summary.broken == 0 {
                let number = self.summary.events + self.pending.len() as u64;
                self.observer
                    .warn(&format!("event {number} is broken, and answered without hits: {problem}"));
            }
            self.summary.broken += 1;
            self.flow.pass(timestamp);
        }
        self.pending.push_back(Pending { end, arrived, crystal, is_broken });
        Ok(())
    }

    /// Says what seems to have happened to the events, once.
    fn compare(&mut self) {
        let doubt = self.comparison.take().and_then(|comparison| comparison.doubt());
        doubt.into_iter().for_each(|doubt| self.observer.warn(&doubt));
    }

    /// Everything that came is answered, and safe.
    fn settle(&mut self) -> Result<(), Error> {
        self.flow.finish(Instant::now(), &mut self.answers)?;
        self.write()?;
        self.commit()
    }

    fn write(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        for answer in self.answers.drain(..) {
            let event = self.pending.pop_front().expect("every answer has an event");
            self.output.answer(&answer, event.crystal, event.is_broken)?;
            let took = now.saturating_duration_since(event.arrived);
            self.latencies.saturating_record(took.as_micros() as u64);
            self.summary.late += u64::from(took > self.options.latency);
            self.summary.events += 1;
            self.summary.hits += answer.places.len() as u64;
            self.summary.saturated += u64::from(answer.saturated > 0);
            self.safe = Some(event.end);
        }
        self.observer.advance(self.summary.events);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Error> {
        if let Some(mark) = self.safe.take() {
            self.output.commit(mark)?;
            (self.acknowledge)(mark.frames);
        }
        Ok(())
    }

    fn end(self) -> Summary {
        let of = |share: f64| self.latencies.value_at_quantile(share) as f64 / 1000.0;
        Summary {
            latency_p50_ms: of(0.5),
            latency_p99_ms: of(0.99),
            latency_most_ms: of(1.0),
            ..self.summary
        }
    }
}
