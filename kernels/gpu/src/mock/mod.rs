//! A driver without a GPU, which checks how it is used.
//!
//! Device memory is host memory, kernels and library routines are host functions ([`Twin`]).
//! Threads execute queued operations with delays, in any order that streams and events allow, drawn
//! from a seed. A wrong use is an error that names both operations and their bytes. The GPU is then
//! lost, as after a fault of a real one, and [`Mock::violations`] reports it even if the program
//! ignores the error:
//!
//! - two operations use the same bytes, one of them writes, and they are ordered neither by a
//!   stream, nor by an event, nor by the host, which saw the end of the first one; free and
//!   allocation count as writes. Host memory that copies use is checked too;
//! - memory is used after it was freed, or beyond its end, or freed twice, or was never allocated;
//! - a stream waits for an event that was never recorded; an event is destroyed while a wait for it
//!   may be queued; a stream, event or graph is used after it was destroyed;
//! - a range is ended that was never begun.
//!
//! Order means the order that the program requested, not the order of execution: a missing event is
//! found in every run, not only in an unlucky one. An end that one thread saw counts as seen by all
//! threads. A matrix uses all bytes from its first to its last entry, including those between its
//! columns. Uninitialized memory holds bytes of all ones, which are no number in any floating-point
//! type.

mod call;
mod capture;
mod clock;
mod driver;
mod engine;
mod history;
mod memory;
mod queue;
mod ranges;
mod run;
mod state;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::Mutex;

use self::engine::Shared;
use self::ranges::Ranges;
use self::run::{Kernels, Twins};
use self::state::{State, event_name, stream_name};
use crate::error::GpuError;
use crate::info::{GpuInfo, Library};
use crate::twin::{HostKernel, Reference, Twin, TwinArg};

/// Bandwidth (B/s) and latency (s) that are declared of links.
const LINKS: (f64, f64) = (10e9, 10e-6);

/// A fault to be injected. Counts begin at 1, with the next operation of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The n-th operation (copy, zero, launch, library routine) is refused, and the GPU is lost.
    Operation(u64),
    /// The n-th allocation runs out of memory.
    Allocation(u64),
    /// The n-th launch (kernel or library routine) is queued, fails when it is executed, and the
    /// GPU is lost.
    Launch(u64),
}

/// GPUs that are not there; see the [module](self).
#[derive(Debug)]
pub struct Mock {
    infos: Vec<GpuInfo>,
    without: Vec<Library>,
    without_8_bit_kernels: bool,
    libraries_keep: u64,
    /// GPUs on which libraries were loaded, a bit each.
    loaded: AtomicU64,
    began: Instant,
    links: Option<(f64, f64)>,
    /// `None` if ranges are disabled.
    ranges: Option<Mutex<Ranges>>,
    reads: Option<fn(&[u8]) -> bool>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Configuration of a [`Mock`].
#[derive(Debug)]
pub struct MockBuilder {
    options: Options,
    name: String,
    without: Vec<Library>,
    without_8_bit_kernels: bool,
    libraries_keep: u64,
    links: Option<(f64, f64)>,
    ranges: bool,
    reads: Option<fn(&[u8]) -> bool>,
    twins: Twins,
}

#[derive(Clone, Copy, Debug)]
struct Options {
    gpus: u32,
    memory: u64,
    workspace: u64,
    peers: bool,
    compute_capability: (u32, u32),
    seed: u64,
}

impl Options {
    fn info(&self, gpu: u32, name: &str) -> GpuInfo {
        GpuInfo {
            name: name.into(),
            uuid: format!("mock-{gpu}"),
            memory: self.memory,
            compute_capability: self.compute_capability,
            multiprocessors: 4,
            bus: format!("0000:{:02x}:00.0", gpu + 1),
            peers: (0..self.gpus).filter(|other| self.peers && *other != gpu).collect(),
        }
    }
}

impl MockBuilder {
    /// Sets the number of GPUs; the default is one.
    #[must_use]
    pub fn gpus(mut self, gpus: u32) -> MockBuilder {
        self.options.gpus = gpus;
        self
    }

    /// Sets the name of the GPUs; the default is `mock GPU`.
    #[must_use]
    pub fn name(mut self, name: &str) -> MockBuilder {
        self.name = name.into();
        self
    }

    /// Sets the bytes of each GPU's memory; the default is 1 GiB. Host memory is used only for
    /// allocations.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> MockBuilder {
        self.options.memory = bytes;
        self
    }

    /// Sets the bytes that each stream takes with its first library routine; the default is none.
    #[must_use]
    pub fn workspace(mut self, bytes: u64) -> MockBuilder {
        self.options.workspace = bytes;
        self
    }

    /// Sets whether GPUs can access each other's memory; the default is true.
    #[must_use]
    pub fn peers(mut self, peers: bool) -> MockBuilder {
        self.options.peers = peers;
        self
    }

    /// Sets the compute capability; the default is (9, 0). Products that older GPUs lack are
    /// refused.
    #[must_use]
    pub fn compute_capability(mut self, major: u32, minor: u32) -> MockBuilder {
        self.options.compute_capability = (major, minor);
        self
    }

    /// Sets the images of kernels that the mock accepts, which are then compiled as for a GPU. By
    /// default it accepts all and needs none.
    #[must_use]
    pub fn images(mut self, reads: fn(&[u8]) -> bool) -> MockBuilder {
        self.reads = Some(reads);
        self
    }

    /// Sets the seed of the order of execution.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> MockBuilder {
        self.options.seed = seed;
        self
    }

    /// The links are not declared, and so measured when they are first used, as those of GPUs that
    /// are there: copies up to 16 MiB.
    #[must_use]
    pub fn measured_links(mut self) -> MockBuilder {
        self.links = None;
        self
    }

    /// Makes a library missing.
    #[must_use]
    pub fn without(mut self, library: Library) -> MockBuilder {
        self.without.push(library);
        self
    }

    /// The library for 8-bit products has no kernel for any of them, as may be for some shapes.
    #[must_use]
    pub fn without_8_bit_kernels(mut self) -> MockBuilder {
        self.without_8_bit_kernels = true;
        self
    }

    /// Sets the bytes of each GPU's memory that libraries take once they are
    /// [loaded](crate::Driver::load_libraries). Only [`Driver::memory`](crate::Driver::memory)
    /// shows them.
    #[must_use]
    pub fn libraries_keep(mut self, bytes: u64) -> MockBuilder {
        self.libraries_keep = bytes;
        self
    }

    /// Enables ranges: [`Mock::ranges`] returns them.
    #[must_use]
    pub fn ranges(mut self) -> MockBuilder {
        self.ranges = true;
        self
    }

    /// Sets the host versions of library routines and of kernels that are not given one by one; the
    /// default is [`Reference`].
    #[must_use]
    pub fn twin(mut self, twin: impl Twin + 'static) -> MockBuilder {
        self.twins.twin = Box::new(twin);
        self
    }

    /// Adds the host version of a kernel, which receives the grid, the block and the arguments.
    #[must_use]
    pub fn kernel<F>(mut self, name: &str, run: F) -> MockBuilder
    where
        F: Fn([u32; 3], [u32; 3], &mut [TwinArg<'_>]) -> Result<(), String> + Send + Sync + 'static,
    {
        let run: HostKernel = Box::new(run);
        self.twins.kernels.0.insert(name.into(), run);
        self
    }

    /// Creates the driver. Its threads end with it.
    pub fn build(self) -> Mock {
        let infos: Vec<GpuInfo> =
            (0..self.options.gpus).map(|gpu| self.options.info(gpu, &self.name)).collect();
        let shared = Shared::new(State::new(&self.options, &infos), self.twins);
        let threads = shared.start();
        let ranges = self.ranges.then(Mutex::default);
        Mock {
            infos,
            without: self.without,
            without_8_bit_kernels: self.without_8_bit_kernels,
            libraries_keep: self.libraries_keep,
            loaded: AtomicU64::new(0),
            links: self.links,
            began: Instant::now(),
            ranges,
            reads: self.reads,
            shared,
            threads,
        }
    }
}

impl Mock {
    /// Returns a configuration with one GPU of 1 GiB.
    pub fn builder() -> MockBuilder {
        MockBuilder {
            options: Options {
                gpus: 1,
                memory: 1 << 30,
                workspace: 0,
                peers: true,
                compute_capability: (9, 0),
                seed: 0,
            },
            name: "mock GPU".into(),
            without: Vec::new(),
            without_8_bit_kernels: false,
            libraries_keep: 0,
            links: Some(LINKS),
            ranges: false,
            reads: None,
            twins: Twins { twin: Box::new(Reference), kernels: Kernels(HashMap::new()) },
        }
    }

    /// Injects a fault on a GPU.
    ///
    /// # Errors
    /// [`GpuError::NoGpu`]; the sticky error of a GPU that is lost already.
    pub fn inject(&self, gpu: u32, fault: Fault) -> Result<(), GpuError> {
        self.shared.with(|state| state.inject(gpu, fault))
    }

    /// Returns the number of copies from or to host memory, each of at least `least` bytes, whose
    /// host memory was not page-locked.
    pub fn pageable_copies(&self, least: u64) -> usize {
        self.shared.with(|state| state.pageable.iter().filter(|bytes| **bytes >= least).count())
    }

    /// Returns the number of [allocations](crate::Driver::allocate_pinned) of page-locked memory.
    pub fn pinned_allocations(&self) -> u64 {
        self.shared.with(|state| state.pinned_allocations)
    }

    /// Returns the wrong uses of the driver. Injected faults and failures of kernels are not
    /// included.
    pub fn violations(&self) -> Vec<String> {
        self.shared.with(|state| state.violations.clone())
    }

    /// Returns the ranges that have ended, in this order. Each is preceded by the enclosing ones,
    /// as in `outer / inner`. Empty unless the mock was [built for it](MockBuilder::ranges).
    pub fn ranges(&self) -> Vec<String> {
        self.ranges.as_ref().map_or_else(Vec::new, |ranges| ranges.lock().ended())
    }

    /// Returns the leaked objects: memory, streams, events, graphs, locked host memory, and ranges
    /// that have not ended. Objects of a lost GPU are not included.
    pub fn leaks(&self) -> Vec<String> {
        let open = self.ranges.as_ref().map_or_else(Vec::new, |ranges| ranges.lock().open());
        self.shared.with(|state| {
            let lost = |token: u64| state.gpus[state::gpu_of(token) as usize].lost.is_some();
            let mut leaks = open;
            for (at, allocation) in state.space.live() {
                leaks.push(format!(
                    "{} bytes of GPU {} at {at:#x}, from {}",
                    allocation.bytes, allocation.gpu, allocation.by
                ));
            }
            let lanes: Vec<u64> = state.graphs.values().flat_map(|graph| graph.lanes().to_vec()).collect();
            let streams =
                state.streams.iter().filter(|(token, stream)| !stream.destroyed && !lanes.contains(token));
            leaks.extend(streams.map(|(token, _)| *token).filter(|t| !lost(*t)).map(stream_name));
            leaks.extend(state.events.keys().copied().filter(|token| !lost(*token)).map(event_name));
            let graphs = state.graphs.keys().filter(|token| !lost(**token)).count();
            leaks.extend((graphs > 0).then(|| format!("{graphs} graphs")));
            leaks.extend(
                state
                    .locked
                    .iter()
                    .map(|(at, (bytes, _))| format!("{bytes} bytes of locked host memory at {at:#x}")),
            );
            leaks.sort(); // tables have no order
            leaks
        })
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.shared.close();
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // host versions that panic are caught where they run
        }
    }
}
