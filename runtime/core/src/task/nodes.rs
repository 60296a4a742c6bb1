//! The nodes of the dependency engine: submitted tasks, and the slots of replays.

use std::sync::Arc;

use super::{ReplaySlot, Task, TaskRef};
use crate::deps::{self, Successors};

/// A node that the next access to a handle waits for, as stored in the handle's chain.
#[derive(Clone)]
pub(crate) enum Predecessor {
    /// A submitted task, whose memory the chain need not keep.
    Task(TaskRef),
    /// One of the slots of a replay, by its index.
    Slot(Arc<[ReplaySlot]>, u32),
}

/// A node that waits, as stored in edges: it is alive until it has been counted down.
#[derive(Clone, Copy)]
pub(crate) enum Successor {
    Task(*const Task),
    Slot(*const ReplaySlot),
}

// SAFETY: addresses that are dereferenced only under the rules of `count_down`; Task and ReplaySlot
// are Sync.
unsafe impl Send for Successor {}
// SAFETY: as above.
unsafe impl Sync for Successor {}

pub(crate) type TaskChain = deps::Chain<Predecessor, Successor>;
pub(crate) type TaskGroup = deps::AccessGroup<Successor>;

impl Predecessor {
    #[inline(always)]
    pub(crate) fn successors(&self) -> &Successors<Successor> {
        match self {
            Predecessor::Task(task) => task.successors(),
            Predecessor::Slot(slots, at) => slots[*at as usize].successors(),
        }
    }

    /// Returns the number of its edges in a trace.
    pub(crate) fn number(&self) -> u64 {
        match self {
            Predecessor::Task(task) => task.id(),
            Predecessor::Slot(slots, at) => slots[*at as usize].exit(),
        }
    }
}
