//! Tasks that a policy dropped instead of handing them out, and tasks that no worker can run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::Work;
use crate::error::Cause;

/// The runtimes that have not ended, by number. A task knows its runtime's number only, and a
/// policy may drop a task after the runtime has gone.
static RUNTIMES: Mutex<BTreeMap<u32, Weak<LostTasks>>> = Mutex::new(BTreeMap::new());

/// True if the runtime with this number has not ended: it may have tasks on a handle.
pub(crate) fn is_alive(runtime: u32) -> bool {
    RUNTIMES.lock().contains_key(&runtime)
}

/// Accepts a task that will not run. Its runtime completes the task as failed as soon as one of its
/// threads [collects](LostTasks::take) it.
pub(crate) fn discard(work: Work, cause: Cause) {
    let lost = RUNTIMES.lock().get(&work.runtime()).and_then(Weak::upgrade);
    if let Some(lost) = lost {
        lost.add(work, cause);
    }
}

/// The tasks of one runtime that will not run and have not been collected.
#[derive(Default)]
pub(crate) struct LostTasks {
    list: Mutex<Vec<(Work, Cause)>>,
    count: AtomicUsize,
}

impl LostTasks {
    /// Creates the list of a runtime, which is alive until [`end`](Self::end).
    pub(crate) fn of_runtime(id: u32) -> Arc<Self> {
        let lost = Arc::<LostTasks>::default();
        RUNTIMES.lock().insert(id, Arc::downgrade(&lost));
        lost
    }

    /// Notes that the runtime has ended: other runtimes may use its handles.
    pub(crate) fn end(id: u32) {
        RUNTIMES.lock().remove(&id);
    }

    /// Adds a task that will not run.
    pub(crate) fn add(&self, work: Work, cause: Cause) {
        self.list.lock().push((work, cause));
        self.count.fetch_add(1, Ordering::Release);
    }

    /// True if there may be a task to collect.
    pub(crate) fn is_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0
    }

    /// Takes all tasks out.
    pub(crate) fn take(&self) -> Vec<(Work, Cause)> {
        let taken = std::mem::take(&mut *self.list.lock());
        self.count.fetch_sub(taken.len(), Ordering::AcqRel);
        taken
    }
}
