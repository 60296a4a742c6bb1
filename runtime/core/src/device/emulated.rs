//! Emulated GPU that runs on host threads: own memory, real copies with a duration, and failures on
//! demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Device, DeviceSpec, Op, Opening, Span, StreamId, Streams};
use crate::error::DeviceError;
use crate::memory::{HOST, LinkSpec, NodeId};
use crate::splitmix::fraction;

/// Describes an emulated device: its memory has a capacity, its links have a duration, and it runs
/// the CPU implementations of codelets on copies of the data in that memory.
///
/// It serves to test coherence, eviction, prefetch, conversion at the sender and four-GPU schedules
/// on any machine. To predict the speed of a schedule on GPUs, use virtual time (`zellige-sim`).
///
/// ```
/// use zellige_runtime::{Emulated, Runtime, Submit, update};
///
/// let device = Emulated::new(1 << 20).bandwidth(1e9);
/// let rt = Runtime::builder().workers(0).device(device.clone()).device(device).build()?;
/// let x = rt.register(vec![1.0f64; 100]);
/// rt.task("double").operands((update(&x),)).cpu(|(x,)| x.iter_mut().for_each(|v| *v *= 2.0)).submit()?;
/// assert_eq!(rt.take(x)?, [2.0; 100]); // brought back from the device
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Emulated {
    pub(crate) kind: String,
    pub(crate) capacity: u64,
    pub(crate) staging: u32,
    link: LinkSpec,
    /// True if the runtime is given the speed of its links.
    declares: bool,
    late: Option<(u64, Duration)>,
    pub(crate) fails_at: Option<u64>,
}

impl Emulated {
    /// Creates a device of `capacity` bytes, with a link of 10 GB/s without latency.
    pub fn new(capacity: u64) -> Self {
        let link = LinkSpec { bandwidth: 10e9, latency_ns: 0 };
        let kind = "emulated".into();
        Emulated { kind, capacity, staging: 2, link, declares: true, late: None, fails_at: None }
    }

    /// Returns the capacity of its memory (bytes).
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Sets the kind of device: devices of one kind share their performance models.
    #[must_use]
    pub fn kind(mut self, kind: &str) -> Self {
        self.kind = kind.into();
        self
    }

    /// Sets the rate of its link to the host in each direction (bytes per second).
    #[must_use]
    pub fn bandwidth(mut self, bytes_per_second: f64) -> Self {
        self.link.bandwidth = bytes_per_second;
        self
    }

    /// Sets the time before the first byte of a transfer arrives.
    #[must_use]
    pub fn latency(mut self, latency: Duration) -> Self {
        self.link.latency_ns = latency.as_nanos() as u64;
        self
    }

    /// Hides the speed of its links from the runtime, including links to peers: the runtime
    /// measures each when it is first used, or takes the value in its
    /// [models](crate::RuntimeBuilder::models). The links have at most the configured speed; the
    /// real copy adds to the time.
    #[must_use]
    pub fn measured_links(mut self) -> Self {
        self.declares = false;
        self
    }

    /// Sets the maximum number of concurrent conversions in memory that does not count as capacity
    /// (default 2).
    #[must_use]
    pub fn staging(mut self, conversions: u32) -> Self {
        self.staging = conversions;
        self
    }

    /// Delays the notification of the end of each operation by a random time up to `at_most`. This
    /// exposes code that relies on an order that no stream guarantees.
    #[must_use]
    pub fn late(mut self, seed: u64, at_most: Duration) -> Self {
        self.late = Some((seed, at_most));
        self
    }

    /// Makes the device fail permanently at its operation number `operation` (transfers and bodies,
    /// from 0).
    #[must_use]
    pub fn fails_at(mut self, operation: u64) -> Self {
        self.fails_at = Some(operation);
        self
    }
}

impl From<Emulated> for Arc<dyn DeviceSpec> {
    fn from(emulated: Emulated) -> Self {
        Arc::new(emulated)
    }
}

impl DeviceSpec for Emulated {
    fn kind(&self) -> &str {
        &self.kind
    }

    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn title(&self) -> String {
        "made of host threads".into()
    }

    fn link(&self) -> Option<LinkSpec> {
        self.declares.then_some(self.link)
    }

    fn staging(&self) -> u32 {
        self.staging
    }

    fn open(&self, opening: Opening) -> Result<Arc<dyn Device>, String> {
        Ok(Arc::new(EmulatedDevice::new(self.clone(), opening)))
    }
}

/// A running emulated device.
struct EmulatedDevice {
    state: Arc<DeviceState>,
    streams: Streams,
}

struct DeviceState {
    name: String,
    spec: Emulated,
    /// Links to other devices, if there are any.
    peers: Option<LinkSpec>,
    operations: AtomicU64,
    dead: AtomicBool,
}

impl EmulatedDevice {
    fn new(spec: Emulated, opening: Opening) -> Self {
        let Opening { name, subnormals, pool, peers } = opening;
        let streams = Streams::new(&name, pool, subnormals);
        let (operations, dead) = (AtomicU64::new(0), AtomicBool::new(false));
        EmulatedDevice { state: Arc::new(DeviceState { name, spec, peers, operations, dead }), streams }
    }
}

impl Device for EmulatedDevice {
    fn link(&self, from: NodeId, to: NodeId) -> Option<LinkSpec> {
        self.state.spec.declares.then(|| self.state.link(StreamId::Link(from, to)))
    }

    fn enqueue(&self, stream: StreamId, op: Op) {
        let state = Arc::clone(&self.state);
        self.streams.push(stream, Box::new(move || state.perform(stream, op)));
    }

    fn close(&self) -> bool {
        self.streams.close()
    }
}

impl DeviceState {
    /// Returns the speed of the link of a stream.
    fn link(&self, stream: StreamId) -> LinkSpec {
        match stream {
            StreamId::Link(from, to) if from != HOST && to != HOST => self.peers.unwrap_or(self.spec.link),
            StreamId::Link(..) | StreamId::Compute => self.spec.link,
        }
    }

    fn perform(&self, stream: StreamId, op: Op) {
        let number = self.operations.fetch_add(1, Ordering::Relaxed);
        if self.spec.fails_at == Some(number) {
            self.dead.store(true, Ordering::Release);
        }
        let start = Instant::now();
        if crate::mutant::mutant(8) && op.bytes.is_some() {
            (op.done)(Ok(Span { start, end: start }));
            let _ = (op.run)(None);
            return;
        }
        let mut ran = Ok(());
        if !self.dead.load(Ordering::Acquire) {
            if let Some(bytes) = op.bytes {
                wait(Duration::from_nanos(self.link(stream).nanos(bytes)));
            }
            // The bytes move at the end of the transfer's time: this exposes code that changes the
            // source, or uses the target, too early.
            ran = (op.run)(None);
            if let Some((seed, at_most)) = self.spec.late {
                wait(at_most.mul_f64(fraction(seed ^ number)));
            }
        } else {
            // Values that the closure keeps must be released before `done` runs.
            drop(op.run);
        }
        let failure = || DeviceError {
            device: self.name.clone(),
            reason: format!("it was told to at operation {}", self.spec.fails_at.unwrap_or(0)),
        };
        let ended = Span { start, end: Instant::now() };
        (op.done)(if self.dead.load(Ordering::Acquire) { Err(failure()) } else { ran.map(|()| ended) });
    }
}

/// Waits for the given time: it sleeps for as long as the system's clock is precise enough, then
/// polls.
fn wait(time: Duration) {
    /// Maximum overshoot of a sleep.
    const SLACK: Duration = Duration::from_micros(80);
    if time.is_zero() {
        return;
    }
    let end = Instant::now() + time;
    if time > SLACK {
        thread::sleep(time - SLACK);
    }
    while Instant::now() < end {
        thread::yield_now();
    }
}
