//! State of a task beside its structure, made on demand: only tasks with dependencies, or for which
//! a thread waits, need one.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex, MutexGuard};
use zellige_runtime::sched::ReadyTask;

use crate::acquire::Slot;
use crate::data::Carried;
use crate::gate::{Edge, Gate};
use crate::instance::Instance;
use crate::types::*;

/// State of a task beside its structure, at `starpu_private`.
pub struct TaskState {
    /// Number of the task, for the application.
    pub number: std::ffi::c_long,
    pub inner: Mutex<Inner>,
    changed: Condvar,
    /// The task, ready, while a policy of the application has it.
    pub ready: Mutex<Option<ReadyTask>>,
}

/// A task that has declared another one as its predecessor. It may be gone by the time that one
/// runs again.
#[derive(Clone)]
pub struct Successor {
    pub task: Carried<starpu_task>,
    pub state: Weak<TaskState>,
}

#[derive(Default)]
pub struct Inner {
    pub submitted: bool,
    pub ended: bool,
    /// Tasks that it comes after.
    pub gate: Gate,
    /// Declarations that name it.
    pub successors: Vec<Edge<Successor>>,
    /// True once its run has fired for its successors.
    pub fired: bool,
    /// Tasks that do not end before this one.
    pub holds_back: Vec<Carried<starpu_task>>,
    /// Number of ends that this one waits for.
    pub ends_missing: usize,
    /// The turn that it keeps, once its body has ended before they have come.
    pub body_ended: Option<Option<Slot>>,
}

impl TaskState {
    /// Notes that a run has ended, and lets the threads go on that wait for it.
    pub fn set_ended(&self, mut inner: MutexGuard<'_, Inner>) {
        inner.submitted = false;
        inner.ended = true;
        self.changed.notify_all();
    }

    /// Waits for the end of the run.
    pub fn wait(&self, instance: &Instance) {
        zellige_runtime::internal::untyped::rouse(&instance.rt);
        let mut inner = self.inner.lock();
        while !inner.ended {
            self.changed.wait(&mut inner);
        }
    }
}

/// Value of `starpu_private` of a task that ended without a state.
const OVER: *mut TaskState = ptr::without_provenance_mut(1);

unsafe fn place<'a>(task: *mut starpu_task) -> &'a AtomicPtr<TaskState> {
    AtomicPtr::from_ptr((&raw mut (*task).starpu_private).cast::<*mut TaskState>())
}

unsafe fn share(state: *mut TaskState) -> Arc<TaskState> {
    Arc::increment_strong_count(state);
    Arc::from_raw(state)
}

fn is_state(found: *mut TaskState) -> bool {
    !found.is_null() && found != OVER
}

/// Returns the state of a task; made at its first use.
pub unsafe fn state(task: *mut starpu_task) -> Arc<TaskState> {
    let place = place(task);
    loop {
        let found = place.load(Ordering::Acquire);
        if is_state(found) {
            return share(found);
        }
        let ended = found == OVER;
        let submitted = !ended && (*task).status != STARPU_TASK_INIT;
        let made = Arc::into_raw(Arc::new(TaskState {
            number: crate::extras::next_number(),
            inner: Mutex::new(Inner { submitted, ended, fired: ended, ..Inner::default() }),
            changed: Condvar::default(),
            ready: Mutex::default(),
        }));
        if place.compare_exchange(found, made.cast_mut(), Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return share(made.cast_mut());
        }
        drop(Arc::from_raw(made));
    }
}

/// Returns the state of a task if it has one.
#[inline]
pub unsafe fn known(task: *mut starpu_task) -> Option<Arc<TaskState>> {
    let found = place(task).load(Ordering::Acquire);
    is_state(found).then(|| share(found))
}

/// True if the task has been submitted and has not ended.
pub unsafe fn is_submitted(task: *mut starpu_task) -> bool {
    match known(task) {
        Some(state) => state.inner.lock().submitted,
        None => place(task).load(Ordering::Acquire).is_null() && (*task).status != STARPU_TASK_INIT,
    }
}

/// Begins a run; returns the state if the task has one.
#[inline]
pub unsafe fn begin(task: *mut starpu_task) -> Option<Arc<TaskState>> {
    let state = known(task);
    match &state {
        Some(state) => {
            let mut inner = state.inner.lock();
            (inner.submitted, inner.ended, inner.fired) = (true, false, false);
        }
        None if place(task).load(Ordering::Relaxed) == OVER => {
            place(task).store(ptr::null_mut(), Ordering::Relaxed);
        }
        None => {}
    }
    (*task).status = STARPU_TASK_BLOCKED;
    state
}

/// Takes back that a run has begun.
pub unsafe fn undo(task: *mut starpu_task) {
    (*task).status = STARPU_TASK_INIT;
    if let Some(state) = known(task) {
        state.inner.lock().submitted = false;
    }
}

/// Ends a run without a state; returns false if the task has got one meanwhile.
pub unsafe fn over(task: *mut starpu_task) -> bool {
    place(task).compare_exchange(ptr::null_mut(), OVER, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Frees the state of a task.
#[inline]
pub unsafe fn clean(task: *mut starpu_task) {
    let found = place(task).load(Ordering::Acquire);
    if is_state(found) {
        let state = Arc::from_raw(found);
        let left = if state.inner.lock().ended { OVER } else { ptr::null_mut() };
        if left.is_null() {
            (*task).status = STARPU_TASK_INIT;
        }
        place(task).store(left, Ordering::Release);
    }
}
