//! A GPU as seen by its worker.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use zellige_runtime::Subnormals;
use zellige_runtime::device::{
    Device, DeviceMemory, Done, LaunchDepth, LinkSpec, Mark, NodeId, Op, Span, Stream, StreamId,
};
use zellige_runtime::internal::threads::{SMALL_STACK, start_thread};

use super::landing::Landing;
use super::mark::GpuMark;
use super::memory::{GpuMemory, GpuStream};

/// A GPU in use. Each stream has two threads: one submits operations to it as they arrive, the
/// other waits for their ends.
pub(super) struct GpuDevice {
    memory: Arc<GpuMemory>,
    /// Streams for bodies; if there is an urgent one it is the last.
    computes: Vec<Load>,
    has_urgent: bool,
    /// Start of the search for the least loaded stream, so that idle streams take turns.
    turn: AtomicUsize,
    depth: LaunchDepth,
    lanes: Mutex<HashMap<(StreamId, usize), Lane>>,
    start: Start,
}

/// Operations in progress on a stream for bodies.
#[derive(Default)]
struct Load {
    operations: Arc<AtomicUsize>,
    /// The highest priority of the last operations submitted to it.
    priority: AtomicI32,
}

/// Settings of the threads of streams.
#[derive(Clone)]
struct Start {
    /// Polling time of a thread for an end before it sleeps until then.
    spins: Duration,
    /// Treatment of subnormal numbers in their computations: conversions on the host, ends of
    /// bodies.
    mode: Subnormals,
    /// The CPUs of the thread that built the runtime. A thread inherits those of the thread that
    /// starts it, and that may be a worker bound to one CPU.
    cpus: Option<CpuSet>,
}

/// One stream's threads.
struct Lane {
    ops: Sender<Launch>,
    launcher: JoinHandle<()>,
    waiter: JoinHandle<()>,
}

/// An operation, and its count in the load of its stream.
type Launch = (Op, Option<UnderWay>);

/// One of the operations of a [`Load`], until this is dropped.
struct UnderWay(Arc<AtomicUsize>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An operation in progress.
struct Flying {
    load: Option<UnderWay>,
    /// Keeps the stream alive until its last operation has ended.
    stream: Arc<GpuStream>,
    mark: Arc<GpuMark>,
    /// Marks of its predecessors on other streams, which may wait for them until it has ended.
    after: Vec<Arc<dyn Mark>>,
    began: Instant,
    kept: Vec<Box<dyn Any + Send>>,
    landing: Vec<Landing>,
    done: Done,
}

impl GpuDevice {
    /// Creates the device with `streams` streams for bodies; the last one is for urgent ones if
    /// `has_urgent`.
    pub(super) fn new(
        memory: Arc<GpuMemory>,
        streams: usize,
        has_urgent: bool,
        depth: LaunchDepth,
        spins: Duration,
        mode: Subnormals,
    ) -> Self {
        let start = Start { spins, mode, cpus: sched_getaffinity(None).ok() };
        let computes = (0..streams).map(|_| Load::default()).collect();
        let (turn, lanes) = (AtomicUsize::new(0), Mutex::default());
        GpuDevice { memory, computes, has_urgent, turn, depth, lanes, start }
    }

    /// Chooses the stream for a body without predecessors on other streams: the least loaded one,
    /// or the urgent one if its priority is above that of all operations in progress.
    fn choose(&self, priority: i32) -> usize {
        let plain = self.computes.len() - usize::from(self.has_urgent);
        let is_above = |load: &Load| {
            load.operations.load(Ordering::Relaxed) > 0 && priority > load.priority.load(Ordering::Relaxed)
        };
        let is_idle = |load: &Load| load.operations.load(Ordering::Relaxed) == 0;
        let others = &self.computes[..plain];
        if self.has_urgent
            && others.iter().any(is_above)
            && others.iter().all(|load| is_idle(load) || is_above(load))
        {
            return plain;
        }
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let load = |nth: &usize| self.computes[*nth].operations.load(Ordering::Relaxed);
        (first..first + plain).map(|nth| nth % plain).min_by_key(load).unwrap_or(0)
    }
}

impl Device for GpuDevice {
    fn link(&self, _from: NodeId, _to: NodeId) -> Option<LinkSpec> {
        let (bandwidth, latency) = self.memory.driver.links()?;
        Some(LinkSpec { bandwidth, latency_ns: (latency * 1e9).round() as u64 })
    }

    fn enqueue(&self, stream: StreamId, op: Op) {
        let nth = match stream {
            // An operation with predecessors is put on the stream of the last of them, so that it
            // delays no other.
            StreamId::Compute => match op.after.last() {
                Some(mark) => of_gpu(mark).lane,
                None => self.choose(op.priority),
            },
            StreamId::Link(..) => 0,
        };
        let load = match stream {
            StreamId::Compute => {
                let load = &self.computes[nth];
                load.priority.store(op.priority, Ordering::Relaxed);
                load.operations.fetch_add(1, Ordering::Relaxed);
                Some(UnderWay(Arc::clone(&load.operations)))
            }
            StreamId::Link(..) => None,
        };
        let urgent = self.has_urgent && stream == StreamId::Compute && nth + 1 == self.computes.len();
        let mut lanes = self.lanes.lock();
        let lane =
            lanes.entry((stream, nth)).or_insert_with(|| Lane::start(&self.memory, nth, urgent, &self.start));
        // Sending fails only if the thread has ended, and threads end when their sender does.
        let _ = lane.ops.send((op, load));
    }

    fn memory(&self) -> Option<Arc<dyn DeviceMemory>> {
        Some(Arc::<GpuMemory>::clone(&self.memory))
    }

    fn orders_launches(&self) -> bool {
        true
    }

    fn depth(&self) -> LaunchDepth {
        self.depth
    }

    fn close(&self) -> bool {
        let lanes = std::mem::take(&mut *self.lanes.lock());
        let were_open = !lanes.is_empty();
        for Lane { ops, launcher, waiter } in lanes.into_values() {
            drop(ops);
            // The last owner of the device may be one of them. A panic has been reported by the
            // thread's own message.
            let me = thread::current().id();
            if launcher.thread().id() == me {
                continue;
            }
            let _ = launcher.join();
            if waiter.thread().id() != me {
                let _ = waiter.join();
            }
        }
        were_open
    }
}

/// Returns a mark of this device's operations as a `GpuMark`.
fn of_gpu(mark: &Arc<dyn Mark>) -> &GpuMark {
    mark.downcast().expect("operations come after those of their own device")
}

impl Drop for GpuDevice {
    fn drop(&mut self) {
        self.close();
    }
}

impl Lane {
    fn start(memory: &Arc<GpuMemory>, nth: usize, urgent: bool, how: &Start) -> Self {
        let ((ops, queue), (flying, landing)) = (channel::<Launch>(), channel::<Flying>());
        let (launches, ends) = (Arc::clone(memory), Arc::clone(memory));
        let which = (nth, urgent);
        let launcher =
            start("zellige-gpu", how, move || launch_all(&launches, which, queue.into_iter(), &flying));
        let spins = how.spins;
        let waiter = start("zellige-gpu-end", how, move || wait_for_ends(&ends, spins, landing.into_iter()));
        Lane { ops, launcher, waiter }
    }
}

fn start(name: &str, how: &Start, work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let Start { mode, cpus, .. } = how.clone();
    let work = move || {
        if let Some(Err(error)) = cpus.map(|cpus| sched_setaffinity(None, &cpus)) {
            tracing::debug!(%error, "a stream's thread stays on the CPUs of the thread that started it");
        }
        mode.set();
        work();
    };
    let thread = start_thread(name.into(), SMALL_STACK, work);
    thread.expect("a thread for a stream can be started")
}

/// Puts operations on a stream of their own, the `nth` of its kind, one after the other.
fn launch_all(
    memory: &Arc<GpuMemory>,
    (nth, urgent): (usize, bool),
    ops: impl Iterator<Item = Launch>,
    flying: &Sender<Flying>,
) {
    // Values made here are transferred: those that come to the host, and conversions there.
    let _serving = memory.pinned.serve();
    let mut stream: Option<Arc<GpuStream>> = None;
    for (Op { run, after, launched: notify, done, .. }, load) in ops {
        let began = Instant::now();
        let made = match &stream {
            Some(stream) => Ok(Arc::clone(stream)),
            None => GpuStream::new(memory, urgent).map(Arc::new),
        };
        let launched = made.map_err(|error| memory.failure(&error)).and_then(|made| {
            stream = Some(Arc::clone(&made));
            let preceded = after.iter().try_for_each(|mark| of_gpu(mark).precede(&made));
            preceded.map_err(|error| memory.failure(&error))?;
            let erased: Arc<dyn Stream> = Arc::<GpuStream>::clone(&made);
            run(Some(&erased))?;
            GpuMark::at_end_of(&made, nth).map_err(|error| memory.failure(&error)).map(|mark| (made, mark))
        });
        match launched {
            Ok((stream, mark)) => {
                let (kept, landing) = (stream.take_kept(), stream.take_landing());
                if let Some(notify) = notify {
                    let mark: Arc<dyn Mark> = Arc::<GpuMark>::clone(&mark);
                    notify(&mark);
                }
                let _ = flying.send(Flying { load, stream, mark, after, began, kept, landing, done });
            }
            Err(error) => {
                // Operations queued before the error may still use the kept objects.
                if let Some(stream) = &stream {
                    let _ = stream.driver().synchronize(stream.stream);
                    drop((stream.take_kept(), stream.take_landing()));
                }
                drop(load);
                done(Err(error));
            }
        }
    }
}

/// Waits for the ends of the operations on one stream, and reports them.
fn wait_for_ends(memory: &Arc<GpuMemory>, spins: Duration, flying: impl Iterator<Item = Flying>) {
    // The work at the end makes values too, e.g. sums of reductions.
    let _serving = memory.pinned.serve();
    let mut last: Option<Instant> = None;
    let mut used = None;
    for Flying { load, stream, mark, after, began, kept, landing, done } in flying {
        used = Some(stream);
        let waited = mark.wait(spins);
        if waited.is_ok() {
            landing.into_iter().for_each(Landing::land);
        }
        drop(kept);
        let end = Instant::now();
        mark.ends(end);
        // An operation begins when its predecessor on the stream and those on other streams have
        // ended.
        let before = after.iter().filter_map(|mark| mark.ended()).chain(last);
        let start = before.fold(began, Instant::max).min(end);
        last = Some(end);
        drop((after, load));
        done(waited.map(|()| Span { start, end }).map_err(|error| memory.failure(&error)));
    }
    drop(used);
}
