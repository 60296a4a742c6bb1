//! Slots of a replay on their way: their predecessors have completed.

use super::replay::Replay;
use crate::task::{ReadyTask, ReplaySlot, TaskPtr};

impl ReplaySlot {
    /// Processes the completion of the one node that it waits for.
    ///
    /// # Safety
    /// Only one caller may do so. The slot may be freed when this returns.
    pub(crate) unsafe fn acquire(this: *const ReplaySlot, ready: impl FnMut(ReadyTask)) {
        // SAFETY: by the caller's promise the run waits for this.
        unsafe {
            let (run, at) = (*this).owner();
            Replay::acquire_slot(run.cast(), at, ready);
        }
    }

    /// Returns the task that stands for its replay.
    ///
    /// # Safety
    /// The slot has not been completed, and is not meanwhile.
    pub(crate) unsafe fn whole<'r>(this: *const ReplaySlot) -> &'r TaskPtr {
        // SAFETY: so the run is alive.
        unsafe { (*this).owner().0.cast::<Replay>().as_ref() }.gate()
    }
}
