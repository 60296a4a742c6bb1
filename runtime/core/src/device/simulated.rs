//! Devices in simulated time: the end of an operation is an event, and one thread advances from
//! event to event.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, ReentrantMutex};

use super::{Device, Mark, Op, Span, StreamId};
use crate::clock::Clock;
use crate::error::DeviceError;
use crate::memory::{LinkSpec, NodeId};
use crate::numbered::Numbered;
use crate::splitmix::number as random;

/// Upper bound of the random durations (ns).
const RANDOM: u64 = 1000;

/// Operations in flight on all devices of a runtime, in the order of their ends. Operations that
/// end at the same time are in the order of their starts, so that every run is the same.
pub(crate) struct Events {
    clock: Arc<Clock>,
    /// Seed of the random durations of operations without a given duration.
    seed: u64,
    queue: Mutex<OperationQueue>,
    /// Ensures that one thread at a time advances the time; the action at an end may advance it
    /// further.
    passing: ReentrantMutex<()>,
}

#[derive(Default)]
struct OperationQueue {
    begun: BinaryHeap<OperationEnd>,
    /// End of the last operation of each stream (ns).
    streams: Numbered<(usize, StreamId), u64>,
    /// Number of operations that have been started.
    count: u64,
    drawn: u64,
}

/// The end of an operation.
struct OperationEnd {
    /// Start, end, and notification time on the host (ns), and number of the operation.
    start: u64,
    end: u64,
    told: u64,
    number: u64,
    op: Op,
    /// Error if the device has failed.
    failure: Option<DeviceError>,
}

impl OperationEnd {
    fn turn(&self) -> (u64, u64) {
        (self.told, self.number)
    }
}

impl Ord for OperationEnd {
    /// Orders events so that the one with the earliest notification is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.turn().cmp(&self.turn())
    }
}

impl PartialOrd for OperationEnd {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OperationEnd {
    fn eq(&self, other: &Self) -> bool {
        self.turn() == other.turn()
    }
}

impl Eq for OperationEnd {}

impl Events {
    pub(crate) fn new(clock: Arc<Clock>, seed: u64) -> Self {
        Events { clock, seed, queue: Mutex::default(), passing: ReentrantMutex::new(()) }
    }

    /// Returns the next of the random numbers below `bound`.
    pub(crate) fn draw(&self, bound: usize) -> usize {
        let mut queue = self.queue.lock();
        queue.drawn += 1;
        (random(self.seed ^ random(queue.drawn)) % bound as u64) as usize
    }

    /// Enqueues an operation on a stream. The host is notified `latency` after its end (ns).
    fn begin(
        &self,
        stream: (usize, StreamId),
        op: Op,
        latency: u64,
        failure: Option<DeviceError>,
    ) -> SimulatedMark {
        let now = self.clock.elapsed().as_nanos() as u64;
        let mut queue = self.queue.lock();
        let count = queue.count;
        queue.count += 1;
        let takes = op.takes.unwrap_or_else(|| 1 + random(!self.seed ^ count) % RANDOM);
        let free = queue.streams.entry(stream).or_default();
        let marks = op.after.iter().filter_map(|mark| mark.downcast::<SimulatedMark>());
        let start = marks.map(|mark| mark.end).fold(now.max(*free), u64::max);
        let end = start + takes;
        *free = end;
        queue.begun.push(OperationEnd { start, end, told: end + latency, number: count, op, failure });
        SimulatedMark { clock: Arc::clone(&self.clock), end, told: end + latency }
    }

    /// Returns the notification time of the next operation (ns), if one is in flight.
    pub(crate) fn next(&self) -> Option<u64> {
        self.queue.lock().begun.peek().map(|event| event.told)
    }

    /// Advances to the end of the next operation, does its work and notifies the host. Returns
    /// false if no operation is in flight.
    pub(crate) fn pass(&self) -> bool {
        let _one = self.passing.lock();
        let next = self.queue.lock().begun.pop();
        let Some(OperationEnd { start, end, told, op, failure, .. }) = next else { return false };
        self.clock.advance_to(told);
        let span = Span { start: self.clock.at(start), end: self.clock.at(end) };
        // The bytes move at the end of a transfer's time: this exposes code that changes the
        // source, or uses the target, too early.
        let ran = match failure {
            None => (op.run)(None),
            Some(error) => {
                drop(op.run);
                Err(error)
            }
        };
        (op.done)(ran.map(|()| span));
        true
    }
}

/// The end of an operation of a simulated device.
struct SimulatedMark {
    clock: Arc<Clock>,
    /// End of the operation, and its notification time on the host (ns).
    end: u64,
    told: u64,
}

impl fmt::Debug for SimulatedMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimulatedMark({} ns)", self.end)
    }
}

impl Mark for SimulatedMark {
    fn ended(&self) -> Option<Instant> {
        (self.clock.elapsed() >= Duration::from_nanos(self.told)).then(|| self.clock.at(self.end))
    }
}

/// A device whose operations are [`Events`].
pub(crate) struct SimulatedDevice {
    events: Arc<Events>,
    /// Distinguishes its streams from those of other devices.
    number: usize,
    name: String,
    link: Option<LinkSpec>,
    /// Latency between the end of an operation and its notification on the host (ns). If it is not
    /// zero, launches are ordered.
    latency: u64,
    /// Index of the operation at which the device fails permanently, counted from 0.
    fails_at: Option<u64>,
    operations: Mutex<u64>,
}

impl SimulatedDevice {
    pub(crate) fn new(events: &Arc<Events>, number: usize, name: &str) -> Self {
        SimulatedDevice {
            events: Arc::clone(events),
            number,
            name: name.into(),
            link: None,
            latency: 0,
            fails_at: None,
            operations: Mutex::new(0),
        }
    }

    /// Sets the speed of its links, and the operation at which it fails, if one is given.
    pub(crate) fn like(self, link: Option<LinkSpec>, fails_at: Option<u64>) -> Self {
        SimulatedDevice { link, fails_at, ..self }
    }

    /// Sets the latency between ends and their notifications on the host (ns).
    pub(crate) fn with_latency(self, latency: u64) -> Self {
        SimulatedDevice { latency, ..self }
    }
}

impl Device for SimulatedDevice {
    fn link(&self, _from: NodeId, _to: NodeId) -> Option<LinkSpec> {
        self.link
    }

    fn enqueue(&self, stream: StreamId, mut op: Op) {
        let mut operations = self.operations.lock();
        let fails = self.fails_at.is_some_and(|at| at <= *operations);
        *operations += 1;
        drop(operations);
        let reason = || format!("it was told to at operation {}", self.fails_at.unwrap_or(0));
        let failure = fails.then(|| DeviceError { device: self.name.clone(), reason: reason() });
        let launched = op.launched.take();
        let mark: Arc<dyn Mark> =
            Arc::new(self.events.begin((self.number, stream), op, self.latency, failure));
        if let Some(tell) = launched {
            tell(&mark);
        }
    }

    fn orders_launches(&self) -> bool {
        self.latency > 0
    }

    fn close(&self) -> bool {
        let mut any = false;
        while self.events.pass() {
            any = true;
        }
        any
    }
}
