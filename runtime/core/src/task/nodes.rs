//! The nodes of the dependency engine: submitted tasks, and the slots of replays.

use std::sync::Arc;

use super::Task;
use crate::deps::{self, Successors};
use crate::engine::ReplaySlot;

/// A node that the next access to a handle waits for, as the handle's chain keeps it.
#[derive(Clone)]
pub(crate) enum Predecessor {
    Task(Arc<Task>),
    /// One of the slots of a replay, by its place.
    Slot(Arc<[ReplaySlot]>, u32),
}

/// A node that waits, as edges name it: it lives until it has been counted down.
#[derive(Clone, Copy)]
pub(crate) enum Successor {
    Task(*const Task),
    Slot(*const ReplaySlot),
}

// SAFETY: addresses, followed only as those say who count down; Task and ReplaySlot are Sync.
unsafe impl Send for Successor {}
// SAFETY: as above.
unsafe impl Sync for Successor {}

pub(crate) type Chain = deps::Chain<Predecessor, Successor>;
pub(crate) type Group = deps::Group<Successor>;

impl Predecessor {
    #[inline(always)]
    pub(crate) fn successors(&self) -> &Successors<Successor> {
        match self {
            Predecessor::Task(task) => task.ticket.successors(),
            Predecessor::Slot(slots, at) => slots[*at as usize].successors(),
        }
    }

    /// The number that edges from it have in a trace.
    pub(crate) fn number(&self) -> u64 {
        match self {
            Predecessor::Task(task) => task.header.id,
            Predecessor::Slot(slots, at) => slots[*at as usize].exit(),
        }
    }

    pub(crate) fn is_task(&self, task: &Arc<Task>) -> bool {
        matches!(self, Predecessor::Task(own) if Arc::ptr_eq(own, task))
    }
}
