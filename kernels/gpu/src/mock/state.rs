//! State of the mock, under one lock.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::call::Call;
use super::capture::{Capture, Recording};
use super::clock::{Clock, Point};
use super::history::History;
use super::memory::{Block, Space};
use super::run::Bound;
use super::{Fault, Options};
use crate::error::GpuError;
use crate::info::GpuInfo;

/// Tokens of streams and events hold their GPU above this bit, so that one is known after it was
/// destroyed.
const NUMBER_BITS: u32 = 48;

/// A GPU.
#[derive(Debug)]
pub(super) struct Gpu {
    pub(super) info: GpuInfo,
    /// Why everything fails.
    pub(super) lost: Option<GpuError>,
    /// Faults to come, each with how many more of its kind pass.
    faults: Vec<(FaultKind, u64)>,
}

/// Kind of operation that a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    Operation,
    Allocation,
    Launch,
}

/// Item of a stream's queue.
#[derive(Debug)]
pub(super) enum Item {
    /// An operation to be executed; it faults if `fails`.
    Run {
        call: Call,
        bound: Vec<Bound>,
        fails: bool,
    },
    Record(Arc<Record>),
    Wait(Arc<Record>),
}

/// A position in a stream that others can wait for.
#[derive(Debug)]
pub(super) struct Record {
    /// Clock of the record, which includes the record itself.
    pub(super) clock: Clock,
    /// Time at which it was reached, or the error of an operation before it.
    pub(super) ended: OnceLock<Result<Instant, GpuError>>,
}

/// A stream.
#[derive(Debug)]
pub(super) struct StreamState {
    pub(super) gpu: u32,
    /// Number of its last item.
    pub(super) items: u64,
    /// Clock before the next item of the stream.
    pub(super) clock: Clock,
    pub(super) queue: VecDeque<Item>,
    /// A worker executes its first item.
    pub(super) busy: bool,
    pub(super) destroyed: bool,
    pub(super) capture: Option<u64>,
    /// An error that the next record reports.
    pub(super) fault: Option<GpuError>,
    /// Priority among the ready streams.
    pub(super) rank: u64,
    /// Bytes that it has for library routines.
    pub(super) workspace: u64,
}

/// State of an event.
#[derive(Clone, Debug)]
pub(super) enum Mark {
    Live(Arc<Record>),
    Captured { capture: u64, slot: usize },
}

/// An event.
#[derive(Debug)]
pub(super) struct EventState {
    pub(super) timed: bool,
    pub(super) last: Option<Mark>,
    /// Positions of streams that wait for it.
    pub(super) waits: Vec<Point>,
}

/// Host memory that copies reach.
#[derive(Debug)]
pub(super) enum Locked {
    Ours { _block: Block },
    Callers,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) gpus: Vec<Gpu>,
    pub(super) streams: HashMap<u64, StreamState>,
    /// Streams that were destroyed and have ended.
    swept: Vec<u64>,
    pub(super) events: HashMap<u64, EventState>,
    pub(super) captures: HashMap<u64, Capture>,
    pub(super) graphs: HashMap<u64, Recording>,
    /// The GPU of each module.
    pub(super) modules: Vec<u32>,
    /// The GPU and name of each kernel.
    pub(super) kernels: Vec<(u32, Arc<str>)>,
    pub(super) space: Space,
    /// Clock of what the host knows to have ended.
    pub(super) host: Clock,
    /// Copies from and to host memory.
    pub(super) host_history: History,
    /// Host memory that was allocated here or pinned, with its bytes.
    pub(super) locked: BTreeMap<u64, (u64, Locked)>,
    /// Number of allocations of page-locked host memory.
    pub(super) pinned_allocations: u64,
    /// Bytes of each copy from or to host memory that is not locked.
    pub(super) pageable: Vec<u64>,
    /// Bytes that each stream takes for library routines.
    pub(super) workspace: u64,
    pub(super) violations: Vec<String>,
    pub(super) closing: bool,
    next: u64,
    random: u64,
}

impl State {
    pub(super) fn new(options: &Options, infos: &[GpuInfo]) -> State {
        let gpus = infos.iter().map(|info| Gpu { info: info.clone(), lost: None, faults: Vec::new() });
        State {
            gpus: gpus.collect(),
            streams: HashMap::new(),
            swept: Vec::new(),
            events: HashMap::new(),
            captures: HashMap::new(),
            graphs: HashMap::new(),
            modules: Vec::new(),
            kernels: Vec::new(),
            space: Space::default(),
            host: Clock::default(),
            host_history: History::default(),
            locked: BTreeMap::new(),
            pinned_allocations: 0,
            pageable: Vec::new(),
            workspace: options.workspace,
            violations: Vec::new(),
            closing: false,
            next: 1,
            random: options.seed,
        }
    }

    /// splitmix64 (Steele, Lea, Flood 2014).
    pub(super) fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number that no other token has, with its GPU.
    pub(super) fn token(&mut self, gpu: u32) -> u64 {
        self.next += 1;
        (u64::from(gpu) << NUMBER_BITS) | (self.next - 1)
    }

    /// The GPU, unless it is lost.
    ///
    /// # Errors
    /// Its sticky error; [`GpuError::NoGpu`].
    pub(super) fn usable(&mut self, gpu: u32) -> Result<&mut Gpu, GpuError> {
        let there = self.gpus.len();
        match self.gpus.get_mut(gpu as usize) {
            None => Err(GpuError::NoGpu { gpu, there }),
            Some(Gpu { lost: Some(error), .. }) => Err(error.clone()),
            Some(gpu) => Ok(gpu),
        }
    }

    /// Checks that some GPU is not lost: this suffices for host memory.
    pub(super) fn any_usable(&mut self) -> Result<(), GpuError> {
        let usable = self.gpus.iter().position(|gpu| gpu.lost.is_none()).unwrap_or_default();
        self.usable(usable as u32).map(drop)
    }

    /// A stream that can be used.
    pub(super) fn stream(&mut self, token: u64, call: &'static str) -> Result<&mut StreamState, GpuError> {
        let gpu = gpu_of(token);
        self.usable(gpu)?;
        if self.streams.get(&token).is_none_or(|stream| stream.destroyed) {
            let reason = format!("{} was destroyed, or never created", stream_name(token));
            return Err(self.violation(gpu, call, reason));
        }
        Ok(self.streams.get_mut(&token).expect("seen above"))
    }

    /// An event that can be used.
    pub(super) fn event(&mut self, token: u64, call: &'static str) -> Result<&mut EventState, GpuError> {
        let gpu = gpu_of(token);
        self.usable(gpu)?;
        if !self.events.contains_key(&token) {
            let reason = format!("{} was destroyed, or never created", event_name(token));
            return Err(self.violation(gpu, call, reason));
        }
        Ok(self.events.get_mut(&token).expect("seen above"))
    }

    /// The driver was used wrongly: the GPU is lost, and the fault is remembered.
    pub(super) fn violation(&mut self, gpu: u32, call: &'static str, reason: String) -> GpuError {
        self.violations.push(format!("GPU {gpu}: {call}: {reason}"));
        let error = GpuError::Failed { gpu, call, reason, sticky: true };
        self.lose(gpu, error.clone());
        error
    }

    /// Marks a GPU as lost: everything on it fails from now on, and its memory is gone. Its streams
    /// continue without executing anything, since other streams may wait for their events.
    pub(super) fn lose(&mut self, gpu: u32, error: GpuError) {
        let Some(Gpu { lost: lost @ None, .. }) = self.gpus.get_mut(gpu as usize) else {
            return;
        };
        *lost = Some(error);
        self.space.lose(gpu);
        // After the error the host knows that nothing of this GPU is executed any more; events
        // cannot show it.
        let there = self.streams.keys().chain(&self.swept).copied().filter(|token| gpu_of(*token) == gpu);
        for stream in there {
            self.host.learn(Point { stream, item: u64::MAX });
        }
    }

    pub(super) fn inject(&mut self, gpu: u32, fault: Fault) -> Result<(), GpuError> {
        let (kind, n) = match fault {
            Fault::Operation(n) => (FaultKind::Operation, n),
            Fault::Allocation(n) => (FaultKind::Allocation, n),
            Fault::Launch(n) => (FaultKind::Launch, n),
        };
        self.usable(gpu)?.faults.push((kind, n.saturating_sub(1)));
        Ok(())
    }

    /// Returns true if a fault hits this operation.
    pub(super) fn fault_hits(&mut self, gpu: u32, kind: FaultKind) -> bool {
        let faults = &mut self.gpus[gpu as usize].faults;
        let mut hit = false;
        faults.retain_mut(|(of, left)| {
            let due = *of == kind && *left == 0;
            if *of == kind && !due {
                *left -= 1;
            }
            hit |= due;
            !due
        });
        hit
    }

    /// Returns true if a lost GPU still executes something.
    pub(super) fn is_dying(&self) -> bool {
        let lost = |gpu: u32| self.gpus[gpu as usize].lost.is_some();
        self.gpus.iter().any(|gpu| gpu.lost.is_some())
            && self.streams.values().any(|stream| stream.busy && lost(stream.gpu))
    }

    /// A stream's place in the tables.
    pub(super) fn add_stream(&mut self, gpu: u32) -> u64 {
        let token = self.token(gpu);
        let rank = self.random();
        let stream = StreamState {
            gpu,
            items: 0,
            clock: Clock::default(),
            queue: VecDeque::new(),
            busy: false,
            destroyed: false,
            capture: None,
            fault: None,
            rank,
            workspace: 0,
        };
        self.streams.insert(token, stream);
        token
    }

    /// Takes memory for a stream's library routines, once.
    pub(super) fn make_workspace(&mut self, token: u64, call: &'static str) -> Result<(), GpuError> {
        let bytes = self.workspace;
        let stream = self.stream(token, call)?;
        let gpu = stream.gpu;
        if stream.workspace == bytes {
            return Ok(());
        }
        if bytes > self.gpus[gpu as usize].info.memory.saturating_sub(self.space.used(gpu)) {
            return Err(GpuError::OutOfMemory { gpu, bytes });
        }
        self.stream(token, call)?.workspace = bytes;
        self.space.reserve(gpu, bytes);
        Ok(())
    }

    /// A stream is destroyed, and its library routines have no memory any more.
    pub(super) fn give_workspace(&mut self, token: u64) {
        if let Some(stream) = self.streams.get_mut(&token) {
            let bytes = std::mem::take(&mut stream.workspace);
            self.space.release(gpu_of(token), bytes);
        }
    }

    /// Forgets a destroyed stream that has nothing left to do.
    pub(super) fn sweep(&mut self, token: u64) {
        let over = |stream: &StreamState| stream.destroyed && stream.queue.is_empty() && !stream.busy;
        if self.streams.get(&token).is_some_and(over) {
            self.streams.remove(&token);
            self.swept.push(token);
        }
    }
}

/// The GPU that a token holds.
pub(super) fn gpu_of(token: u64) -> u32 {
    (token >> NUMBER_BITS) as u32
}

fn number_of(token: u64) -> u64 {
    token & ((1 << NUMBER_BITS) - 1)
}

/// Returns the name of a stream in messages.
pub(super) fn stream_name(token: u64) -> String {
    format!("stream {} of GPU {}", number_of(token), gpu_of(token))
}

/// Returns the name of an event in messages.
pub(super) fn event_name(token: u64) -> String {
    format!("event {} of GPU {}", number_of(token), gpu_of(token))
}

/// An error that leaves the GPU as it was.
pub(super) fn refused(gpu: u32, call: &'static str, reason: impl Into<String>) -> GpuError {
    GpuError::Failed { gpu, call, reason: reason.into(), sticky: false }
}
