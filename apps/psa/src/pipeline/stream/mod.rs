//! Stream of events from a file, a pipe or a socket, with hits written as they are found.
//!
//! | module | content |
//! |---|---|
//! | [`record`] | traces of an event as a frame |
//! | [`source`] | files and pipes as sources of frames |
//! | [`socket`] | sender and receiver, without loss of frames if a connection is lost |
//! | [`journal`] | progress in input and output |
//! | [`output`] | output of hits |
//!
//! A thread reads frames into a buffer. If the buffer is full, the thread blocks, and with it the
//! writer, or it discards events and counts them ([`Overload`]). Answers leave in the order of the
//! events. Periodically the output is synchronised to disk, and the position in the input is
//! recorded in the journal. After a kill the output is truncated to that point, and the input
//! continues from there.

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
use crate::consistency::BasisComparison;
use crate::files::geb::Frame;
use crate::observe::Observer;
use crate::search::{Answer, EventPipeline};
use output::Output;
use record::Traces;
use source::{Mark, Next, Source};
use zellige_runtime::internal::threads::{SMALL_STACK, start_thread};

/// Behaviour if events arrive faster than they are searched for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overload {
    /// The writer blocks, and nothing is lost.
    #[default]
    Block,
    /// Events are discarded and counted.
    Shed,
}

/// Options of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Latency beyond which answers count as late.
    pub latency: Duration,
    /// Limit of the events in the buffer, and also of those in flight.
    pub buffer: usize,
    /// Behaviour if the buffer is full.
    pub overload: Overload,
    /// Time between two commits, from which a killed run can resume.
    pub commit: Duration,
}

impl Default for Options {
    /// 10 ms, 4096 events, no loss of events, 1 s.
    fn default() -> Self {
        Options {
            latency: Duration::from_millis(10),
            buffer: 4096,
            overload: Overload::Block,
            commit: Duration::from_secs(1),
        }
    }
}

/// Summary of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Summary {
    /// Number of events that were answered.
    pub events: u64,
    /// Number of their hits.
    pub hits: u64,
    /// Number of events that were discarded.
    pub shed: u64,
    /// Number of invalid events, which are answered without hits.
    pub broken: u64,
    /// Number of frames without events.
    pub foreign: u64,
    /// Number of events with clipped samples.
    pub saturated: u64,
    /// Number of answers that took longer than the bound.
    pub late: u64,
    /// Median latency, from the end of reading a frame to the writing of its hits (ms).
    pub latency_p50_ms: f64,
    /// 99th percentile of the latency (ms).
    pub latency_p99_ms: f64,
    /// Largest latency (ms).
    pub latency_most_ms: f64,
    /// Duration of the stream (s).
    pub seconds: f64,
}

/// Message of the reader.
enum Item {
    Event {
        traces: Result<Traces, Error>,
        end: Mark,
        arrived: Instant,
    },
    /// The connection was lost: reply when everything received is safe.
    Lost(SyncSender<()>),
    End(Result<(), Error>),
}

/// Counters of the reader.
#[derive(Default)]
struct Counts {
    shed: AtomicU64,
    foreign: AtomicU64,
}

/// Searches for all events of a source and writes their hits. `pipeline` must be without events.
///
/// # Errors
/// [`Error::Stream`] if the source cannot be read further; everything before that is answered and
/// safe. [`Error::File`] for the output; errors of the runtime.
pub fn run(
    source: impl Source + 'static,
    output: &mut Output<'_>,
    pipeline: &mut EventPipeline<'_, '_>,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Summary, Error> {
    let (to, from) = sync_channel(options.buffer.max(1));
    let counts = Arc::new(Counts::default());
    let acknowledger = source.acknowledger();
    let begin = Instant::now();
    let rules = pipeline.rules();
    let comparison =
        Some(BasisComparison::new(pipeline.basis(), if rules.align { usize::MAX } else { rules.shifts }));
    let mut pump = Pump {
        output,
        pipeline,
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
    // The reader runs on a detached thread: if tasks fail, nothing waits for a sender that may be
    // silent forever.
    let (shared, overload) = (Arc::clone(&counts), options.overload);
    start_thread("psa-reader".into(), SMALL_STACK, move || read(source, &to, &shared, overload))
        .map_err(|error| Error::Connection(format!("the reader of frames does not start: {error}")))?;
    let ended = pump.run(&from);
    let mut summary = pump.end();
    summary.shed = counts.shed.load(Ordering::Relaxed);
    summary.foreign = counts.foreign.load(Ordering::Relaxed);
    summary.seconds = begin.elapsed().as_secs_f64();
    ended.map(|()| summary)
}

/// Reads until the source ends or the receiver is gone.
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

/// An event in flight: the input position after it, its time of arrival, and its crystal.
struct Pending {
    end: Mark,
    arrived: Instant,
    crystal: i32,
    is_broken: bool,
}

/// Limit of recorded latencies (us), an hour; longer ones count as this.
const LONGEST: u64 = 3_600_000_000;

/// Loop that moves events from the buffer through the search to the output.
struct Pump<'a, 'o, 'rt, 'b> {
    output: &'a mut Output<'o>,
    pipeline: &'a mut EventPipeline<'rt, 'b>,
    options: &'a Options,
    observer: &'a dyn Observer,
    pending: VecDeque<Pending>,
    answers: Vec<Answer>,
    latencies: Histogram<u64>,
    summary: Summary,
    /// Input position after the last event that is answered.
    safe: Option<Mark>,
    acknowledge: &'a dyn Fn(u64),
    /// Comparison with the basis, until enough events have come.
    comparison: Option<BasisComparison<'b>>,
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
                    // A reader that is gone needs no reply.
                    let _ = safe.send(());
                }
                Ok(Item::End(ended)) => break ended,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break Ok(()),
            }
            let now = Instant::now();
            if self.pipeline.pending() >= self.options.buffer.max(1) {
                self.pipeline.wait(now, &mut self.answers)?;
                self.write()?;
            } else if now - polled >= tick {
                self.pipeline.poll(now, &mut self.answers)?;
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
        self.pipeline.doubt().into_iter().for_each(|doubt| self.observer.warn(&doubt));
        ended
    }

    fn push(&mut self, traces: Result<Traces, Error>, end: Mark, arrived: Instant) -> Result<(), Error> {
        let (crystal, refused) = match traces {
            Ok(Traces { crystal, event }) => {
                let timestamp = event.timestamp;
                if event.hit.is_none() && self.comparison.as_mut().is_some_and(|c| c.add(&event.signals)) {
                    self.compare();
                }
                match self.pipeline.push(event, arrived) {
                    Ok(()) => (crystal, None),
                    Err(Error::Runtime(e)) => return Err(e.into()),
                    Err(problem) => (crystal, Some((timestamp, problem))),
                }
            }
            Err(problem) => (0, Some((0, problem))),
        };
        let is_broken = refused.is_some();
        if let Some((timestamp, problem)) = refused {
            // Only the first broken event is reported: an error in a file usually affects most of
            // its events.
            if self.summary.broken == 0 {
                let number = self.summary.events + self.pending.len() as u64;
                self.observer.warn(&format!("event {number} is invalid and gets no hits: {problem}"));
            }
            self.summary.broken += 1;
            self.pipeline.pass(timestamp);
        }
        self.pending.push_back(Pending { end, arrived, crystal, is_broken });
        Ok(())
    }

    /// Warns about the change that the events seem to have undergone, once.
    fn compare(&mut self) {
        let doubt = self.comparison.take().and_then(|comparison| comparison.doubt());
        doubt.into_iter().for_each(|doubt| self.observer.warn(&doubt));
    }

    /// Answers everything that was received, and makes it safe.
    fn settle(&mut self) -> Result<(), Error> {
        self.pipeline.finish(Instant::now(), &mut self.answers)?;
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
            self.summary.hits += answer.hits.len() as u64;
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
