//! The tasks that a worker has taken and not ended.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};

use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};

use super::{Placed, PlacedBatch};
use crate::device::{Device, LaunchDepth};
use crate::memory::{NodeId, Ticket};
use crate::task::WorkerLocal;

/// The working sets of the tasks that run in one call.
pub(super) type Tickets = SmallVec<[Ticket; 1]>;

/// See [`Lane::begins_launch`].
pub(super) struct LaunchInProgress(Arc<AtomicUsize>);

impl Drop for LaunchInProgress {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the last of the calls that run on this thread.
fn innermost(running: &[(ThreadId, Tickets)]) -> Option<usize> {
    let here = thread::current().id();
    running.iter().rposition(|(thread, _)| *thread == here)
}

/// The lane of one worker.
pub(crate) struct Lane {
    pub(super) node: NodeId,
    /// The device that runs its bodies; `None`: the worker itself.
    pub(super) device: Option<Arc<dyn Device>>,
    depth: LaunchDepth,
    state: Mutex<LaneState>,
    /// Private state of the bodies that run on the device, one for each stream in use: a long
    /// launch on one stream, as cuSOLVER's are, delays no other stream.
    locals: Mutex<Vec<WorkerLocal>>,
    /// Calls of bodies that are being put on a device's streams, or are there and have not ended.
    in_progress: Arc<AtomicUsize>,
    /// Working sets of the running calls, including those whose bodies wait, and the thread of
    /// each, if the host's memory is limited.
    running: Mutex<Vec<(ThreadId, Tickets)>>,
}

#[derive(Default)]
struct LaneState {
    /// Working sets requested and not complete.
    gathering: usize,
    /// Tasks with all their operands.
    staged: VecDeque<Placed>,
    /// Bodies launched on the device that have not ended.
    launched: usize,
    /// Bodies launched in stream order, which are not counted above.
    stream_ordered: usize,
}

impl LaneState {
    /// Returns the counter for this batch.
    fn count(&mut self, batch: &PlacedBatch) -> &mut usize {
        if batch[0].stream_ordered.is_some() { &mut self.stream_ordered } else { &mut self.launched }
    }
}

impl Lane {
    pub(super) fn new(node: NodeId, device: Option<Arc<dyn Device>>, depth: LaunchDepth) -> Self {
        let (state, locals, in_progress, running) = Default::default();
        Lane { node, device, depth, state, locals, in_progress, running }
    }

    /// Takes the private state for a body on the device; calls `new` if all are in use.
    pub(super) fn take_local(&self, new: impl FnOnce() -> WorkerLocal) -> WorkerLocal {
        let spare = self.locals.lock().pop();
        spare.unwrap_or_else(new)
    }

    pub(super) fn give_local(&self, local: WorkerLocal) {
        self.locals.lock().push(local);
    }

    pub(super) fn enters(&self, tickets: Tickets) {
        self.running.lock().push((thread::current().id(), tickets));
    }

    pub(super) fn leaves(&self) {
        let mut running = self.running.lock();
        if let Some(at) = innermost(&running) {
            running.remove(at);
        }
    }

    /// Returns the working sets of the call that runs on this thread, if any does.
    pub(super) fn innermost(&self) -> Option<Tickets> {
        let running = self.running.lock();
        innermost(&running).map(|at| running[at].1.clone())
    }

    /// Returns the next task with all its operands, and those that can run in one call with it,
    /// unless the device has enough.
    pub(super) fn take(&self, on_device: bool) -> Option<PlacedBatch> {
        let mut state = self.state.lock();
        if state.launched >= self.depth.launched {
            return None;
        }
        let first = state.staged.pop_front()?;
        let most = first.task.batch(on_device);
        let mut batch: PlacedBatch = smallvec![first];
        let mut at = 0;
        while batch.len() < most && at < state.staged.len() {
            if state.staged[at].is_like(&batch[0]) {
                batch.extend(state.staged.remove(at));
            } else {
                at += 1;
            }
        }
        Some(batch)
    }

    /// True if another task's operands may be gathered.
    pub(super) fn has_room(&self) -> bool {
        let state = self.state.lock();
        state.gathering + state.staged.len() < self.depth.ahead.max(usize::from(state.launched == 0))
    }

    /// True if it waits for operands and has no task to run.
    pub(super) fn waits(&self) -> bool {
        let state = self.state.lock();
        state.gathering > 0 && state.staged.is_empty() && state.launched + state.stream_ordered == 0
    }

    /// True if its device has bodies.
    pub(super) fn runs(&self) -> bool {
        self.state.lock().launched > 0
    }

    /// Describes its contents, if there are any.
    pub(super) fn describe(&self) -> Option<String> {
        let state = self.state.lock();
        let LaneState { gathering, staged, launched, stream_ordered } = &*state;
        let any = gathering + staged.len() + launched + stream_ordered > 0;
        let words = || {
            format!(
                "gathers {gathering}, has {} ready, launched {launched} and {stream_ordered} in stream order",
                staged.len()
            )
        };
        any.then(words)
    }

    pub(super) fn gathers(&self) {
        self.state.lock().gathering += 1;
    }

    /// Notes that a working set will not be complete.
    pub(super) fn gave_up(&self) {
        self.state.lock().gathering -= 1;
    }

    /// Notes that a working set is complete.
    pub(super) fn gathered(&self, task: Placed) {
        let mut state = self.state.lock();
        state.gathering -= 1;
        // Tasks run in the order in which they were popped.
        let after = state.staged.iter().rposition(|other| other.ticket < task.ticket);
        state.staged.insert(after.map_or(0, |at| at + 1), task);
    }

    /// Notes that a call of bodies is put on a device's stream. The returned guard is dropped once
    /// its operations have ended.
    pub(super) fn begins_launch(&self) -> LaunchInProgress {
        self.in_progress.fetch_add(1, Ordering::Relaxed);
        LaunchInProgress(Arc::clone(&self.in_progress))
    }

    /// Returns the number of such calls that have not ended.
    pub(super) fn in_progress(&self) -> usize {
        self.in_progress.load(Ordering::Relaxed)
    }

    /// True if its device may be given another body in stream order.
    pub(super) fn may_follow(&self) -> bool {
        self.state.lock().stream_ordered < self.depth.ordered
    }

    pub(super) fn launches(&self, batch: &PlacedBatch) {
        *self.state.lock().count(batch) += 1;
    }

    pub(super) fn landed(&self, batch: &PlacedBatch) {
        *self.state.lock().count(batch) -= 1;
    }

    /// Takes all tasks that have not been launched: the device is lost.
    pub(super) fn clear(&self) -> VecDeque<Placed> {
        std::mem::take(&mut self.state.lock().staged)
    }
}
