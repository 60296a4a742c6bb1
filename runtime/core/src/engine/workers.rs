//! The workers of one runtime and their threads.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use zellige_model::KindId;

use super::threads::{Process, Running, Sleep, ThreadSlot};
use crate::error::Error;
use crate::topology::CoreInfo;

/// One worker, as others see it.
pub(crate) struct WorkerSlot {
    /// The core it drives.
    pub(crate) core: CoreInfo,
    /// The kind of device that it drives; what models call it, and their number for that.
    pub(crate) kind: String,
    pub(crate) model_name: String,
    pub(crate) model_kind: KindId,
    /// Compute capability, if it is a GPU.
    pub(crate) capability: Option<(u32, u32)>,
    /// The other workers, nearest first.
    pub(crate) neighbours: Arc<[usize]>,
    /// Tasks it has completed; only it writes.
    done: CachePadded<AtomicU64>,
    /// The task that it runs.
    pub(crate) running: CachePadded<Running>,
    /// The thread that acts as the worker.
    pub(super) slot: CachePadded<ThreadSlot>,
}

impl WorkerSlot {
    /// Creates the slot of a worker on a CPU core.
    pub(crate) fn new(core: CoreInfo, neighbours: Arc<[usize]>) -> Self {
        WorkerSlot {
            core,
            kind: "cpu".into(),
            model_name: "cpu".into(),
            model_kind: KindId::default(),
            capability: None,
            neighbours,
            done: CachePadded::default(),
            running: CachePadded::default(),
            slot: CachePadded::default(),
        }
    }

    /// Counts a task that the worker has completed. Only the worker itself calls this.
    pub(super) fn count_done(&self) {
        self.done.store(self.done.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Returns the number of tasks that the worker has completed, for itself.
    pub(super) fn own_done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

/// The workers, which it dereferences to, and the threads that act as them.
pub(crate) struct Workers {
    slots: Vec<WorkerSlot>,
    pub(crate) sleep: Sleep,
    /// Called when no worker has anything to run.
    pub(crate) when_idle: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Number of workers, counted from the first, that stay on their cores.
    pub(super) bound: usize,
    /// There are more workers than cores.
    pub(super) oversubscribed: bool,
    /// The process that started the threads.
    process: Process,
    stopping: AtomicBool,
    /// Threads that have not ended.
    alive: AtomicUsize,
    /// Number of spare threads that have been started, and their join handles.
    pub(super) spares: AtomicUsize,
    pub(super) spare_threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Deref for Workers {
    type Target = [WorkerSlot];

    #[inline]
    fn deref(&self) -> &[WorkerSlot] {
        &self.slots
    }
}

impl Workers {
    pub(super) fn new(slots: Vec<WorkerSlot>, bound: usize, oversubscribed: bool) -> Self {
        Workers {
            sleep: Sleep::new(slots.len()),
            slots,
            when_idle: OnceLock::new(),
            bound,
            oversubscribed,
            process: Process::this(),
            stopping: AtomicBool::new(false),
            alive: AtomicUsize::new(0),
            spares: AtomicUsize::new(0),
            spare_threads: Mutex::default(),
        }
    }

    /// Returns the number of tasks that the workers have completed.
    pub(super) fn done(&self) -> u64 {
        self.slots.iter().map(|worker| worker.done.load(Ordering::Acquire)).sum()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Makes the workers end once they find no work.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.sleep.notify_all();
    }

    /// Counts a thread that is about to start.
    pub(super) fn begin_thread(&self) {
        self.alive.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts a thread that ends.
    pub(super) fn end_thread(&self) {
        self.alive.fetch_sub(1, Ordering::AcqRel);
    }

    /// True once no thread acts as a worker any more.
    pub(super) fn are_dead(&self) -> bool {
        self.alive.load(Ordering::Acquire) == 0
    }

    /// True if no worker has a task to run; an estimate.
    pub(crate) fn are_idle(&self) -> bool {
        self.sleep.idle() >= self.slots.len()
    }

    /// Returns an error in a process that was forked from the one that started the workers: it has
    /// none.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.process.is_this() {
            return Ok(());
        }
        Err(Error::Forked { started: self.process.id(), process: std::process::id() })
    }
}
