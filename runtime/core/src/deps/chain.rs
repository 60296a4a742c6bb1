//! The order of accesses to one handle. See `README.md`.

use std::sync::{Arc, Weak};

use super::{Standing, Successors};
use crate::data::AnyHandle;
use crate::operand::Mode;
use crate::sync::{AtomicU32, Ordering};
use crate::task::{Task, TaskCell, TaskRef};

/// Accesses of one kind that need no order among themselves.
pub(crate) struct Group {
    id: u64,
    mode: Mode,
    /// The handle, where completion has partial results to combine. Weak: the handle's chain holds the group. While a member
    /// or a submitter is there the handle is; once it is gone nobody can ask for the sum.
    handle: Option<Weak<dyn AnyHandle>>,
    members: AtomicU32,
    successors: Successors<Task>,
}

impl Group {
    fn open(id: u64, mode: Mode, handle: Option<Weak<dyn AnyHandle>>) -> Arc<Self> {
        let members = AtomicU32::new(1);
        Arc::new(Group { id, mode, handle, members, successors: Successors::new() })
    }

    /// Adds a member; only while the chain's lock is held and the group is open.
    fn join(&self) {
        self.members.fetch_add(1, Ordering::Relaxed);
    }

    /// True if nobody but the chain holds the group open.
    fn is_idle(&self) -> bool {
        self.members.load(Ordering::Acquire) == 1
    }

    /// A member completed, or the chain closed the group; true for whoever comes last and must then `complete` it.
    pub(crate) fn leave(&self) -> bool {
        self.members.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Shows the tasks that wait for the group.
    ///
    /// # Safety
    /// It does not complete meanwhile.
    pub(crate) unsafe fn each_after(&self, each: impl FnMut(*const Task)) {
        // SAFETY: by the caller's promise.
        unsafe { self.successors.look(None, each) };
    }

    /// Hands out the successors of a group that everybody has left, after combining its partial results.
    pub(crate) fn complete(&self, each: impl FnMut(*const Task)) {
        if let Some(handle) = self.handle.as_ref().and_then(Weak::upgrade) {
            handle.combine_partials(None);
        }
        self.successors.close(each);
    }
}

/// What an access waits for.
#[derive(Clone)]
pub(crate) enum NodeRef {
    Task(TaskRef),
    Group(Arc<Group>),
}

impl NodeRef {
    fn successors(&self) -> &Successors<Task> {
        match self {
            NodeRef::Task(task) => task.cell().successors(),
            NodeRef::Group(group) => &group.successors,
        }
    }

    /// The number that edges in a trace name.
    pub(crate) fn id(&self) -> u64 {
        match self {
            NodeRef::Task(task) => task.id(),
            NodeRef::Group(group) => group.id,
        }
    }
}

/// The chain of one handle; behind the handle's lock.
pub(crate) struct Chain {
    last: Option<NodeRef>,
    open: Option<Arc<Group>>,
    /// A value was registered, or a submitted task will write one.
    pub(crate) written: bool,
    /// Who may still name the handle.
    pub(crate) standing: Standing,
    /// How many accesses there were that write: each may leave a value of another size.
    pub(crate) writers: u32,
}

/// What linking needs to know of its surroundings.
pub(crate) trait Linker {
    /// A fresh number for a group.
    fn next_id(&self) -> u64;
    /// Told of every dependency, also those already satisfied.
    fn edge(&self, from: u64, to: u64);
    /// A group was left by everybody at the moment of closing: complete it once no chain is locked.
    fn finish_later(&self, group: Arc<Group>);
}

impl Chain {
    pub(crate) fn new(written: bool) -> Self {
        Chain { last: None, open: None, written, standing: Standing::Open, writers: 0 }
    }

    /// Lets go of `task`, which has completed and holds this chain's handle.
    pub(crate) fn forget(&mut self, task: &Arc<Task>) {
        self.last.take_if(|last| matches!(last, NodeRef::Task(last) if Arc::ptr_eq(last.cell(), task)));
    }

    /// Puts the access `slot` of `task` at the end of the chain.
    pub(crate) fn access(
        &mut self,
        handle: &dyn AnyHandle,
        task: &TaskRef,
        slot: usize,
        mode: Mode,
        linker: &dyn Linker,
    ) {
        if mode.is_exclusive() {
            self.access_exclusive(task, slot, linker);
        } else {
            let reduced = (mode == Mode::Reduce).then(|| Arc::downgrade(&handle.arc()));
            self.access_shared(reduced, task, slot, mode, linker);
        }
        self.written |= mode.writes();
        self.writers = self.writers.saturating_add(u32::from(mode.writes()));
    }

    fn access_exclusive(&mut self, task: &TaskRef, slot: usize, linker: &dyn Linker) {
        match self.open.take() {
            Some(group) => self.close_before(group, Some((task.cell(), slot)), linker),
            None => self.follow_last(task.cell(), slot, linker),
        }
        self.last = Some(NodeRef::Task(task.clone()));
    }

    fn access_shared(
        &mut self,
        reduced: Option<Weak<dyn AnyHandle>>,
        task: &TaskRef,
        slot: usize,
        mode: Mode,
        linker: &dyn Linker,
    ) {
        if self.open.as_ref().is_some_and(|group| group.mode != mode) {
            let group = self.open.take().expect("just seen");
            self.last = Some(NodeRef::Group(Arc::clone(&group)));
            self.close_before(group, None, linker);
        }
        let group = self.open.get_or_insert_with(|| Group::open(linker.next_id(), mode, reduced));
        group.join();
        linker.edge(task.id(), group.id);
        task.cell().join(Arc::clone(group));
        self.follow_last(task.cell(), slot, linker);
    }

    fn follow_last(&self, task: &Arc<Task>, slot: usize, linker: &dyn Linker) {
        if let Some(last) = &self.last {
            linker.edge(last.id(), task.header.id);
            TaskCell::follow(task, slot, last.successors());
        }
    }

    /// Closes `group`; `next` waits for it.
    fn close_before(&mut self, group: Arc<Group>, next: Option<(&Arc<Task>, usize)>, linker: &dyn Linker) {
        if let Some((task, _)) = next {
            linker.edge(group.id, task.header.id);
        }
        // Nobody can join while the chain is locked, so an idle group stays idle: no edge, no counting. A group that reduces
        // has partial results to combine first, which is user code and must not run under the chain's lock.
        if group.is_idle() && group.handle.is_none() {
            group.complete(|_| unreachable!("an open group has no successors"));
            return;
        }
        if let Some((task, slot)) = next {
            TaskCell::follow(task, slot, &group.successors);
        }
        if group.leave() {
            linker.finish_later(group);
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;

    /// Two members leave while the chain closes the group: it is completed exactly once.
    #[test]
    fn a_group_is_completed_once() {
        loom::model(|| {
            let group = loom::sync::Arc::new(Group {
                id: 0,
                mode: Mode::Read,
                handle: None,
                members: AtomicU32::new(1),
                successors: Successors::new(),
            });
            group.join();
            group.join();
            let members: Vec<_> = (0..2)
                .map(|_| {
                    let group = loom::sync::Arc::clone(&group);
                    loom::thread::spawn(move || group.leave())
                })
                .collect();
            let by_chain = group.is_idle() || group.leave();
            let by_members = members.into_iter().map(|member| member.join().unwrap());
            let completions = by_members.filter(|last| *last).count() + usize::from(by_chain);
            assert_eq!(completions, 1);
        });
    }
}
