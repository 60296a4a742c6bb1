//! A GPU made of host threads: its own memory, real copies that take their time, and failures on
//! demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Device, DeviceSpec, Op, Opening, Span, StreamId, Streams};
use crate::error::DeviceError;
use crate::memory::{HOST, LinkSpec, NodeId};
use crate::splitmix::fraction;

/// Describes an emulated device: a memory of its own with a capacity, links that take time, and the
/// CPU implementations of codelets, run on copies of the data in that memory.
///
/// It is there so that coherence, eviction, prefetch, conversion at the sender and four-GPU
/// schedules can be tested on any machine. How fast a schedule would be on GPUs is virtual time's
/// to say (`zellige-sim`).
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
    /// Whether the runtime is told how fast its links are.
    declares: bool,
    late: Option<(u64, Duration)>,
    pub(crate) fails_at: Option<u64>,
}

impl Emulated {
    /// A device of `capacity` bytes, reached at 10 GB/s without latency.
    pub fn new(capacity: u64) -> Self {
        let link = LinkSpec { bandwidth: 10e9, latency_ns: 0 };
        let kind = "emulated".into();
        Emulated { kind, capacity, staging: 2, link, declares: true, late: None, fails_at: None }
    }

    /// Bytes of its memory.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// What kind of device it is to be called: devices of one kind share their performance models.
    #[must_use]
    pub fn kind(mut self, kind: &str) -> Self {
        self.kind = kind.into();
        self
    }

    /// Rate of its link to the host, each way (bytes per second).
    #[must_use]
    pub fn bandwidth(mut self, bytes_per_second: f64) -> Self {
        self.link.bandwidth = bytes_per_second;
        self
    }

    /// Time before the first byte of a transfer arrives.
    #[must_use]
    pub fn latency(mut self, latency: Duration) -> Self {
        self.link.latency_ns = latency.as_nanos() as u64;
        self
    }

    /// The runtime is not told how fast its links are, those to peers among them: it measures each
    /// when it is first used, or takes what its [models](crate::RuntimeBuilder::models) know. They
    /// are no faster than was said, and by the time of a copy slower.
    #[must_use]
    pub fn measured_links(mut self) -> Self {
        self.declares = false;
        self
    }

    /// Conversions that can be under way at a time in memory that does not count as capacity
    /// (default 2).
    #[must_use]
    pub fn staging(mut self, conversions: u32) -> Self {
        self.staging = conversions;
        self
    }

    /// The ends of operations are told late, by a random time up to `at_most`: what counts on an
    /// order that no stream promises is found out.
    #[must_use]
    pub fn late(mut self, seed: u64, at_most: Duration) -> Self {
        self.late = Some((seed, at_most));
        self
    }

    /// It fails for good when it is asked for its operation number `operation` (transfers and
    /// bodies, from 0).
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

/// An emulated device at work.
struct EmulatedDevice {
    state: Arc<State>,
    streams: Streams,
}

struct State {
    name: String,
    spec: Emulated,
    /// Its links to other devices, if there are any.
    peers: Option<LinkSpec>,
    operations: AtomicU64,
    dead: AtomicBool,
}

impl EmulatedDevice {
    fn new(spec: Emulated, opening: Opening) -> Self {
        let Opening { name, subnormals, pool, peers } = opening;
        let streams = Streams::new(&name, pool, subnormals);
        let (operations, dead) = (AtomicU64::new(0), AtomicBool::new(false));
        EmulatedDevice { state: Arc::new(State { name, spec, peers, operations, dead }), streams }
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

impl State {
    /// How fast what is on a stream moves.
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
            // The bytes move at the end of the transfer's time: whoever changes the source, or uses
            // the target, too early is found out.
            ran = (op.run)(None);
            if let Some((seed, at_most)) = self.spec.late {
                wait(at_most.mul_f64(fraction(seed ^ number)));
            }
        } else {
            // What it keeps is for `done` to have.
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

/// Lets the time pass: asleep as long as the system's clock can be trusted, then looking.
fn wait(time: Duration) {
    /// What a sleep may overshoot by.
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
