//! The slots of a replay as nodes of the dependency engine: much lighter than tasks, since a replay
//! may have more slots than tasks.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{ReplayRun, Successor};
use crate::deps::{Edge, Membership, Successors};

/// A slot of a replay, with its access in the chain of its handle. Its predecessor notifies the
/// replay's tasks that they may use the handle; the last of them on the slot completes it. The
/// slots of a replay are one allocation, which the chains of their handles share.
pub(crate) struct ReplaySlot {
    successors: Successors<Successor>,
    /// Edge to this slot, from the one node that it may wait for.
    edge: UnsafeCell<MaybeUninit<Edge<Successor>>>,
    group: UnsafeCell<Option<Membership<Successor>>>,
    /// Alive until the slot has been completed.
    run: NonNull<ReplayRun>,
    /// The number of edges to it in a trace; edges from it have the next one.
    entry: u64,
    at: u32,
    /// True if it is about to complete. Set while the list of blocked threads is locked, so that a
    /// search for cycles sees slots that stay.
    leaves: AtomicBool,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<ReplaySlot>() <= 64, "a replay has one for each of its slots");

// SAFETY: `edge` and `group` are accessed by the submitter until the run has begun, and afterwards
// only by the thread that completes the slot, which the run's counters order after it (AcqRel). A
// search for cycles reads `group` in between, once the run is linked. A run is Sync.
unsafe impl Sync for ReplaySlot {}
// SAFETY: `run` is the address of a value that is Sync; the rest may go to any thread.
unsafe impl Send for ReplaySlot {}

impl ReplaySlot {
    /// Creates the slot at this position of a run.
    pub(crate) fn new(run: NonNull<ReplayRun>, at: usize, entry: u64) -> Self {
        ReplaySlot {
            successors: Successors::new(),
            edge: UnsafeCell::new(MaybeUninit::uninit()),
            group: UnsafeCell::new(None),
            run,
            entry,
            at: at as u32,
            leaves: AtomicBool::new(false),
        }
    }

    pub(crate) fn successors(&self) -> &Successors<Successor> {
        &self.successors
    }

    pub(crate) fn entry(&self) -> u64 {
        self.entry
    }

    pub(crate) fn exit(&self) -> u64 {
        self.entry + 1
    }

    /// Makes it wait for the node that owns `successors`; false if that has completed.
    ///
    /// # Safety
    /// The caller is its submitter, and calls this once.
    pub(crate) unsafe fn follow(&self, successors: &Successors<Successor>) -> bool {
        // SAFETY: only the submitter touches the edge before it is pushed. It does not move, and
        // lives until the slot has been completed, for which it has to be counted down first.
        unsafe {
            let edge = (*self.edge.get()).write(Edge::new(Successor::Slot(self)));
            successors.push(edge)
        }
    }

    /// Remembers that it is a member of a group.
    ///
    /// # Safety
    /// The caller is its submitter.
    pub(crate) unsafe fn join(&self, group: Membership<Successor>) {
        // SAFETY: only the submitter touches it before the run begins.
        unsafe { *self.group.get() = Some(group) };
    }

    /// Returns its run, and its position there.
    pub(crate) fn owner(&self) -> (NonNull<ReplayRun>, usize) {
        (self.run, self.at as usize)
    }

    /// Marks it as about to be completed.
    pub(crate) fn leaves(&self) {
        self.leaves.store(true, Ordering::Relaxed);
    }

    /// Completes it: `each` gets every successor to be counted down.
    ///
    /// # Safety
    /// The run has begun, and nobody else calls this.
    pub(crate) unsafe fn complete(&self, mut each: impl FnMut(Successor)) {
        // SAFETY: the submitter is done, and so is any search for cycles, since the slot is marked
        // as leaving.
        if let Some(group) = unsafe { &mut *self.group.get() }.take() {
            group.leave(&mut each);
        }
        self.successors.close(each);
    }

    /// Shows its successors, unless it is about to be completed.
    ///
    /// # Safety
    /// The caller searches for cycles, so that no slot starts to leave. `is_linked`: the submitter
    /// is done.
    pub(crate) unsafe fn each_after(&self, is_linked: bool, mut each: impl FnMut(Successor)) {
        if self.leaves.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: it is not completed meanwhile; its group is not touched before that.
        unsafe {
            self.successors.look(None, &mut each);
            if let Some(group) = is_linked.then(|| &*self.group.get()).and_then(Option::as_ref) {
                group.each_after(each);
            }
        }
    }
}
