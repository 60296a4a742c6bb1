//! Submission: from a described task to a node of the dependency graph.

use std::sync::{Arc, Weak};

use smallvec::SmallVec;

use super::Engine;
use super::threads::current;
use crate::deps::{AccessRights, AtEnd, Links, Membership, OrderNode, Successors};
use crate::error::Error;
use crate::operand::Mode;
use crate::sync::MutexGuard;
use crate::task::{
    Accesses, AnyHandle, Body, Declared, HandleBase, Predecessor, ReadyTask, ReplaySlot, Role, Spec,
    Successor, Tally, Task, TaskCell, TaskChain, TaskGroup, TaskPtr, TaskRef, Work,
};

/// Controls whether a task may name handles that were taken or released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retired {
    /// Such tasks are refused.
    Refused,
    /// Allowed for a caller that waits for the remaining tasks of the handle.
    Allowed,
}

/// A node that is being linked.
trait Linked {
    fn as_predecessor(&self) -> Predecessor;

    /// The numbers that edges to it and from it have in a trace.
    fn numbers(&self) -> (u64, u64);

    fn follow(&mut self, successors: &Successors<Successor>);

    fn join(&mut self, group: Membership<Successor>);
}

impl Linked for &TaskPtr {
    fn as_predecessor(&self) -> Predecessor {
        Predecessor::Task(self.ticket.clone())
    }

    fn numbers(&self) -> (u64, u64) {
        (self.header.id, self.header.id)
    }

    #[inline(always)]
    fn follow(&mut self, successors: &Successors<Successor>) {
        Task::follow(self, successors);
    }

    #[inline(always)]
    fn join(&mut self, group: Membership<Successor>) {
        Task::join(self, group);
    }
}

/// A slot of a replay.
struct LinkedSlot<'s> {
    slots: &'s Arc<[ReplaySlot]>,
    at: u32,
    /// True if it has to wait.
    waits: bool,
}

impl Linked for LinkedSlot<'_> {
    fn as_predecessor(&self) -> Predecessor {
        Predecessor::Slot(Arc::clone(self.slots), self.at)
    }

    fn numbers(&self) -> (u64, u64) {
        let slot = &self.slots[self.at as usize];
        (slot.entry(), slot.exit())
    }

    fn follow(&mut self, successors: &Successors<Successor>) {
        // SAFETY: this is its submitter, and one access follows one node at most.
        self.waits = unsafe { self.slots[self.at as usize].follow(successors) };
    }

    fn join(&mut self, group: Membership<Successor>) {
        // SAFETY: this is its submitter.
        unsafe { self.slots[self.at as usize].join(group) };
    }
}

/// An access of a node that is being submitted, whose handle's chain is locked.
struct Linking<'s, N> {
    engine: &'s Engine,
    node: N,
    handle: &'s dyn AnyHandle,
    finished: &'s mut Finished,
}

type LockedChains<'a> = SmallVec<[MutexGuard<'a, TaskChain>; 4]>;
/// Groups that had no members left when they were closed. They are completed once no chain is
/// locked.
pub(crate) type Finished = Vec<Arc<TaskGroup>>;

impl<N> Linking<'_, N> {
    /// Notes a dependency, also one that is already satisfied, by the numbers of both ends.
    #[inline(always)]
    fn trace_edge(&self, ends: impl FnOnce(&N) -> (u64, u64)) {
        if let Some(recorder) = &self.engine.recorder {
            let (from, to) = ends(&self.node);
            recorder.edge(from, to);
        }
    }
}

impl<N: Linked> Links for Linking<'_, N> {
    type Task = Predecessor;
    type Group = Arc<TaskGroup>;

    #[inline(always)]
    fn task(&self) -> Predecessor {
        self.node.as_predecessor()
    }

    #[inline(always)]
    fn follow(&mut self, node: &OrderNode<Predecessor, Arc<TaskGroup>>) {
        let from = || match node {
            OrderNode::Task(before) => before.number(),
            OrderNode::Group(group) => group.id,
        };
        self.trace_edge(|to| (from(), to.numbers().0));
        self.node.follow(match node {
            OrderNode::Task(before) => before.successors(),
            OrderNode::Group(group) => &group.successors,
        });
    }

    fn open(&mut self, mode: Mode) -> Arc<TaskGroup> {
        // Weak: the handle's chain holds the group. While a member or a submitter exists the handle
        // does; once it is gone nobody can request the sum.
        let combine = |handle: Weak<dyn AnyHandle>| -> AtEnd {
            Box::new(move || {
                if let Some(handle) = handle.upgrade() {
                    handle.combine_partials(None);
                }
            })
        };
        let reduces = mode == Mode::Reduce;
        TaskGroup::open(
            self.engine.counters.next_ids(1),
            reduces.then(|| combine(Arc::downgrade(&self.handle.arc()))),
        )
    }

    #[inline(always)]
    fn join(&mut self, group: &Arc<TaskGroup>) {
        self.trace_edge(|from| (from.numbers().1, group.id));
        self.node.join(group.join());
    }

    fn close(&mut self, group: &Arc<TaskGroup>) {
        if group.close() {
            self.finished.push(Arc::clone(group));
        }
    }
}

/// Up to this number of accesses are sorted by insertion: tasks with more are rare.
const FEW: usize = 8;

/// Puts the accesses in the order of their handles' ids, in which chains are locked.
#[inline]
pub(crate) fn sort_by_handle(accesses: &mut [Declared<'_>]) {
    if accesses.len() > FEW {
        return accesses.sort_unstable_by_key(|access| access.base.id);
    }
    for end in 1..accesses.len() {
        for at in (1..=end).rev() {
            if accesses[at - 1].base.id <= accesses[at].base.id {
                break;
            }
            accesses.swap(at - 1, at);
        }
    }
}

/// Refuses a task that names one handle twice and writes it; the accesses are in the order of
/// handles.
pub(crate) fn check_aliases(task: &str, accesses: &[Declared<'_>]) -> Result<(), Error> {
    accesses.windows(2).try_for_each(|pair| is_alias(task, &pair[0], &pair[1]).map(drop))
}

/// True if both accesses are to one handle, which is an error if one of them writes.
#[inline]
fn is_alias(task: &str, a: &Declared<'_>, b: &Declared<'_>) -> Result<bool, Error> {
    let same = a.base.id == b.base.id;
    if same && (a.mode.writes() || b.mode.writes()) {
        return Err(Error::Aliased { task: task.into(), handle: a.base.name() });
    }
    Ok(same)
}

/// Refuses an access that cannot have a value, or that the handle's rights forbid. The chain's
/// `written` and `rights` are passed in.
#[inline(never)]
pub(crate) fn check_access(
    task: &str,
    access: &Declared<'_>,
    written: bool,
    rights: AccessRights,
) -> Result<(), Error> {
    let name = |base: &HandleBase| base.name();
    if !rights.allows(access.mode, access.inner) {
        return Err(rights.refusal(task, name(access.base)));
    }
    if access.mode.reads() && !written {
        return Err(Error::Unwritten { task: task.into(), handle: name(access.base) });
    }
    if access.mode == Mode::Reduce && !access.handle.has_reduction() {
        return Err(Error::NoReduction { task: task.into(), handle: name(access.base) });
    }
    Ok(())
}

impl Engine {
    /// Announces that an algorithm is about to submit a step of `tasks` tasks.
    pub(crate) fn announce_step(&self, tasks: usize) {
        self.waits.window.widen(tasks, self.counters.accepted());
    }

    /// Returns the tally that counts the tasks of the calling body, if it is called in one.
    pub(crate) fn tally_of_body(&self) -> Option<Arc<Tally>> {
        current::tally(self)
    }

    /// Accepts a task and counts it among those of the calling body, if it is called in one.
    pub(crate) fn submit<B: Body + 'static>(self: &Arc<Self>, spec: Spec<B>) -> Result<TaskRef, Error> {
        self.submit_in(spec, current::tally(self))
    }

    /// Accepts a task that `tally` counts.
    pub(crate) fn submit_in<B: Body + 'static>(
        self: &Arc<Self>,
        spec: Spec<B>,
        tally: Option<Arc<Tally>>,
    ) -> Result<TaskRef, Error> {
        self.wait_for_room()?;
        self.take_in(spec, tally)
    }

    /// Accepts a task whose submission must not wait.
    pub(crate) fn submit_now<B: Body + 'static>(self: &Arc<Self>, spec: Spec<B>) -> Result<TaskRef, Error> {
        self.take_in(spec, None)
    }

    fn take_in<B: Body + 'static>(
        self: &Arc<Self>,
        spec: Spec<B>,
        tally: Option<Arc<Tally>>,
    ) -> Result<TaskRef, Error> {
        let Spec { body, options } = spec;
        let (header, after) = options.into_header(self.counters.next_ids(1), self.id, tally);
        self.accept(TaskCell::make(header, Role::Work, body), &after)
    }

    /// Accepts a task whose type has been erased.
    #[inline(never)]
    fn accept(self: &Arc<Self>, task: TaskPtr, after: &[TaskRef]) -> Result<TaskRef, Error> {
        self.check_place(&task)?;
        let ticket = task.ticket.clone();
        self.link(task, after, Retired::Refused).map(|()| ticket)
    }

    /// Puts `task` into the chains of its handles and starts it if it has no pending predecessors.
    /// The submitter counts it.
    #[inline]
    pub(crate) fn link(
        self: &Arc<Self>,
        task: TaskPtr,
        after: &[TaskRef],
        retired: Retired,
    ) -> Result<(), Error> {
        let tally = task.header.tally.as_ref();
        if let Some(tally) = tally {
            tally.add(task.header.priority);
        }
        let mut finished = Finished::new();
        let linked = self.link_to_chains(&task, after, retired, &mut finished);
        if let (Err(_), Some(tally)) = (&linked, tally) {
            tally.remove(None, &|tally| self.wake_waiters_of_group(tally));
        }
        linked?;
        // From here on the task is the runtime's: this reference becomes the ReadyTask.
        let task = TaskPtr::into_raw(task);
        for group in &finished {
            self.complete_group(group);
        }
        // SAFETY: only its submitter knows the task until this.
        if unsafe { Task::end_links(task) } {
            // SAFETY: the reference above: nobody else counts the task down.
            self.start(unsafe { TaskPtr::from_raw(task) }, current::worker_of(self));
        }
        Ok(())
    }

    /// Links the task up to the point at which it belongs to the runtime.
    fn link_to_chains(
        self: &Arc<Self>,
        task: &TaskPtr,
        after: &[TaskRef],
        retired: Retired,
        finished: &mut Finished,
    ) -> Result<(), Error> {
        self.workers.check_process()?;
        if let Some(foreign) = after.iter().find(|earlier| !earlier.belongs_to(self.id)) {
            return Err(Error::Foreign { what: format!("task {}", foreign.name()) });
        }
        let mut declared = Accesses::new();
        task.body.declare(&mut declared);
        let accesses = declared.as_mut_slice();
        sort_by_handle(accesses);
        self.link_locked(task, accesses, after, retired, finished)?;

        if let Some(transfers) = self.transfers.as_ref().filter(|_| task.role != Role::Gate) {
            transfers.will_use(task, self.home_of(&task.header));
            if transfers.is_limited() {
                self.drain();
            }
        }
        self.remember(task);
        if task.role != Role::Gate {
            self.counters.accept();
        }
        Ok(())
    }

    /// Puts the slots of a replay into the chains of their handles, all or none. `accesses` holds
    /// the slots by the numbers of their handles, `order` their positions. `free` gets the slots
    /// without pending predecessors while chains are locked. The groups that were closed here are
    /// for [`accept_replay`](Self::accept_replay).
    pub(crate) fn link_slots(
        &self,
        slots: &Arc<[ReplaySlot]>,
        order: &[u32],
        accesses: &[Declared<'_>],
        free: impl Fn(usize),
    ) -> Result<Finished, Error> {
        self.workers.check_process()?;
        let mut finished = Finished::new();
        let mut chains = LockedChains::with_capacity(slots.len());
        self.lock_chains("replay", accesses, Retired::Refused, &mut chains)?;
        let mut chain = 0;
        for (at, (access, &slot)) in accesses.iter().zip(order).enumerate() {
            chain += usize::from(at > 0 && accesses[at - 1].base.id != access.base.id);
            let node = LinkedSlot { slots, at: slot, waits: false };
            let mut linking = Linking { engine: self, node, handle: access.handle, finished: &mut finished };
            chains[chain].access(access.mode, &mut linking);
            if !linking.node.waits {
                free(slot as usize);
            }
        }
        Ok(finished)
    }

    /// Accepts a replay, which has been linked and is about to begin. `finished`: the groups that
    /// [`link_slots`](Self::link_slots) returned.
    pub(crate) fn accept_replay(self: &Arc<Self>, gate: &TaskPtr, finished: &Finished) {
        self.remember(gate);
        self.counters.accept();
        if self.transfers.as_ref().is_some_and(|transfers| transfers.is_limited()) {
            self.drain();
        }
        for group in finished {
            self.complete_group(group);
        }
    }

    /// Locks the chains of all accessed handles, each once, and checks every access. The accesses
    /// are in the order of handles.
    #[inline(always)]
    fn lock_chains<'a>(
        &self,
        task: &str,
        accesses: &[Declared<'a>],
        retired: Retired,
        chains: &mut LockedChains<'a>,
    ) -> Result<(), Error> {
        for (at, access) in accesses.iter().enumerate() {
            let base = access.base;
            if at == 0 || !is_alias(task, &accesses[at - 1], access)? {
                chains.push(base.chain.lock());
            }
            let chain = chains.last().expect("just pushed");
            // Most accesses need none of the checks.
            let is_usual = chain.rights == AccessRights::Open
                && access.mode != Mode::Reduce
                && (chain.written || !access.mode.reads());
            if !is_usual {
                let rights = match chain.rights {
                    AccessRights::Gone if retired == Retired::Allowed => AccessRights::Open,
                    rights => rights,
                };
                check_access(task, access, chain.written, rights)?;
            }
            if !base.belongs_to(self.id) {
                return Err(Error::Foreign { what: base.name() });
            }
            if let Some(transfers) = &self.transfers {
                transfers.adopt(access.handle);
            }
        }
        Ok(())
    }

    /// Locks all chains of the task, checks every access, then links them all or none. The accesses
    /// are in the order of handles.
    fn link_locked(
        &self,
        task: &TaskPtr,
        accesses: &[Declared<'_>],
        after: &[TaskRef],
        retired: Retired,
        finished: &mut Finished,
    ) -> Result<(), Error> {
        let mut chains = LockedChains::new();
        self.lock_chains(task.header.name, accesses, retired, &mut chains)?;
        if let Some(transfers) = self.transfers.as_ref().filter(|_| task.role == Role::Work) {
            let mut locked: SmallVec<[u64; 8]> = accesses.iter().map(|access| access.base.id).collect();
            locked.dedup();
            let mut declared = Accesses::new();
            task.body.declare(&mut declared);
            // The registered size is valid until the handle is written. For an empty handle the
            // size that its first writer declares is accepted.
            let sized = |at: usize| {
                let Declared { base, handle, .. } = &declared[at];
                let chain = locked.binary_search(&base.id).expect("all chains are locked");
                chains[chain].writers <= u32::from(!handle.began_written())
            };
            transfers.check_fits(self, task, &declared, sized)?;
        }
        task.begin_links(accesses.len() + after.len());
        let mut chains = chains.iter_mut();
        let mut chain: Option<(u64, &mut TaskChain)> = None;
        for access in accesses {
            let id = access.base.id;
            let own = match chain.take() {
                Some((last, chain)) if last == id => chain,
                _ => chains.next().expect("a chain for each handle"),
            };
            let mut linking = Linking { engine: self, node: task, handle: access.handle, finished };
            own.access(access.mode, &mut linking);
            chain = Some((id, own));
        }
        for earlier in after {
            if let Some(recorder) = &self.recorder {
                recorder.edge(earlier.id(), task.header.id);
            }
            Task::follow(task, earlier.successors());
        }
        Ok(())
    }

    /// Starts `task`, whose predecessors have all completed.
    pub(crate) fn start(self: &Arc<Self>, task: TaskPtr, from: Option<usize>) {
        match task.role {
            Role::Work => self.push_ready(ReadyTask::new(Work::Task(task)), from),
            Role::Gate => {
                if task.body.passes() || !task.ticket.open_gate() {
                    self.close_gate(&task);
                }
                self.wake_waiters_of(&task.ticket);
            }
            Role::Replay => unreachable!("a replay is no task that starts"),
        }
    }
}
