//! The accesses of submitted tasks to one handle. See `README.md`.

use std::sync::{Arc, Weak};

use super::order::{Links, Node, Order};
use super::{AccessRights, Group};
use crate::data::AnyHandle;
use crate::operand::Mode;
use crate::task::{Task, TaskCell};

/// The chain of one handle; behind the handle's lock.
pub(crate) struct Chain {
    order: Order<Arc<Task>, Arc<Group>>,
    /// A value was registered, or a submitted task will write one.
    pub(crate) written: bool,
    /// Who may still name the handle.
    pub(crate) rights: AccessRights,
    /// How many accesses there were that write: each may leave a value of another size.
    pub(crate) writers: u32,
}

/// What linking needs to know of its surroundings.
pub(crate) trait Linker {
    /// A fresh number for a group.
    fn next_id(&self) -> u64;
    /// Notified of every dependency, also those already satisfied, by the numbers of both ends, which it may
    /// not want to know.
    fn edge(&self, ends: impl FnOnce() -> (u64, u64));
    /// A group was left by everybody at the moment of closing: complete it once no chain is locked.
    fn finish_later(&self, group: Arc<Group>);
}

impl Chain {
    pub(crate) fn new(written: bool) -> Self {
        Chain { order: Order::default(), written, rights: AccessRights::Open, writers: 0 }
    }

    /// Lets go of `task`, which has completed and holds this chain's handle.
    pub(crate) fn forget(&mut self, task: &Arc<Task>) {
        self.order.forget(|last| Arc::ptr_eq(last, task));
    }

    /// Puts an access of `task` at the end of the chain.
    #[inline]
    pub(crate) fn access(
        &mut self,
        handle: &dyn AnyHandle,
        task: &Arc<Task>,
        mode: Mode,
        linker: &impl Linker,
    ) {
        self.order.access(mode, &mut Live { handle, task, linker });
        self.written |= mode.writes();
        self.writers = self.writers.saturating_add(u32::from(mode.writes()));
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        // The chain does not keep the group open any longer.
        if let Some((_, group)) = self.order.take_open()
            && group.close()
        {
            // SAFETY: everybody has left. The handle is gone, so that nothing is combined and nobody comes
            // after the group.
            unsafe { Group::complete(Arc::as_ptr(&group), |_| unreachable!("nobody came after the group")) };
        }
    }
}

/// An access of a task that is being submitted.
struct Live<'a, L> {
    handle: &'a dyn AnyHandle,
    task: &'a Arc<Task>,
    linker: &'a L,
}

impl<L: Linker> Links for Live<'_, L> {
    type Task = Arc<Task>;
    type Group = Arc<Group>;

    fn task(&self) -> Arc<Task> {
        Arc::clone(self.task)
    }

    #[inline]
    fn follow(&mut self, node: &Node<Arc<Task>, Arc<Group>>) {
        let successors = match node {
            Node::Task(task) => task.ticket.successors(),
            Node::Group(group) => &group.successors,
        };
        let from = || match node {
            Node::Task(task) => task.header.id,
            Node::Group(group) => group.id,
        };
        self.linker.edge(|| (from(), self.task.header.id));
        TaskCell::follow(self.task, successors);
    }

    fn open(&mut self, mode: Mode) -> Arc<Group> {
        let reduced: Option<Weak<dyn AnyHandle>> =
            (mode == Mode::Reduce).then(|| Arc::downgrade(&self.handle.arc()));
        Group::open(self.linker.next_id(), reduced)
    }

    #[inline]
    fn join(&mut self, group: &Arc<Group>) {
        self.linker.edge(|| (self.task.header.id, group.id));
        self.task.join(group.join());
    }

    fn close(&mut self, group: &Arc<Group>) {
        if group.close() {
            self.linker.finish_later(Arc::clone(group));
        }
    }
}
