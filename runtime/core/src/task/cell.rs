//! One task in memory: what is common to all, then its body.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use smallvec::SmallVec;
use zellige_model::{CachedId, TaskInfo};

use super::{Body, Implementations, Only, Successor, Tally, TaskRef};
use crate::deps::{Edge, Member, Successors, UpTo};
use crate::engine::StageCell;
use crate::engine::transfer::plan::PlanCell;
use crate::error::{Cause, Failure};
use crate::sync::{AtomicU32, Ordering};

/// What scheduling, tracing and errors read of a task.
pub(crate) struct Header {
    pub(crate) id: u64,
    /// The runtime it was submitted to.
    pub(crate) runtime: u32,
    pub(crate) name: &'static str,
    /// As it was submitted; see [`priority`](Header::priority).
    pub(crate) priority: i32,
    pub(crate) info: TaskInfo,
    /// Where the task may run, if not anywhere.
    pub(crate) only: Option<Box<Only>>,
    /// What models call it.
    pub(crate) model: CachedId,
    /// How it may be run.
    pub(crate) implementations: Implementations,
    /// What counts it, where a body or a group has submitted it.
    pub(crate) tally: Option<Arc<Tally>>,
}

impl Header {
    /// Its priority, or that of the body which waits for it where this is higher.
    #[inline]
    pub(crate) fn priority(&self) -> i32 {
        self.tally.as_ref().map_or(self.priority, |tally| tally.inherited().max(self.priority))
    }

    /// Name and coordinates, as errors and traces print them.
    pub(crate) fn title(&self) -> String {
        match self.info.coords {
            Some(c) => format!("{}[{}]", self.name, format_coords(c)),
            None => self.name.to_string(),
        }
    }
}

/// Coordinates without those that are not used (`u32::MAX`).
pub(crate) fn format_coords(coords: [u32; 3]) -> String {
    let used: Vec<String> = coords.iter().filter(|&&c| c != u32::MAX).map(u32::to_string).collect();
    used.join(", ")
}

/// What happens when the last predecessor completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A scheduling policy gets it and a worker runs it.
    Work,
    /// A user's thread waits for it and completes it by dropping a guard.
    Gate,
    /// Stands for a whole replay, whose last task completes it.
    Replay,
}

/// A task with a body of type `B`. What comes before the body lies in the same places whatever the
/// body is, and what those touch that come before the task lies together: by then it is cold
/// memory.
#[repr(C)]
pub(crate) struct TaskCell<B: ?Sized> {
    /// Predecessors that have not completed, plus one while the submitter links.
    pending: AtomicU32,
    pub(crate) role: Role,
    /// The links are complete and change no more before the task completes.
    linked: AtomicBool,
    /// What callers keep of it.
    pub(crate) ticket: TaskRef,
    /// Apart from the rest of the links: once an edge is published, others read it while the
    /// submitter goes on linking.
    edges: UnsafeCell<SmallVec<[Edge<Successor>; 4]>>,
    links: UnsafeCell<Links>,
    pub(crate) header: Header,
    pub(crate) stage: StageCell,
    pub(crate) planned: PlanCell,
    pub(crate) body: B,
}

/// A task with any body.
pub(crate) type Task = TaskCell<dyn Body>;

#[derive(Default)]
struct Links {
    /// Where the edges are, for how many there is room, and how many have been pushed.
    first: Option<NonNull<Edge<Successor>>>,
    room: u32,
    pushed: u32,
    groups: SmallVec<[Member<Successor>; 4]>,
    /// The watchdog has a reference to the task.
    listed: bool,
}

// SAFETY: `links` is touched by the submitter until `end_links`, and afterwards only by whoever
// completes the task, which the count-down orders after the submitter (AcqRel); everything else is
// Sync.
unsafe impl<B: ?Sized + Sync> Sync for TaskCell<B> {}
// SAFETY: the pointers in `links` and `edges` are to the task's own edges, and to successors that
// are alive while they wait for it.
unsafe impl<B: ?Sized + Send> Send for TaskCell<B> {}

impl<B: Body + 'static> TaskCell<B> {
    /// A task that is being linked: nobody can run it before `end_links`.
    #[inline]
    pub(crate) fn make(header: Header, role: Role, body: B) -> Arc<Task> {
        Arc::new(TaskCell {
            ticket: TaskRef::new(&header),
            header,
            role,
            stage: StageCell::default(),
            planned: PlanCell::default(),
            pending: AtomicU32::new(1),
            links: UnsafeCell::default(),
            linked: AtomicBool::new(false),
            edges: UnsafeCell::default(),
            body,
        })
    }
}

impl<B: ?Sized> TaskCell<B> {
    /// What it waits for, in words.
    pub(crate) fn waits_for(&self) -> String {
        match self.pending.load(Ordering::Relaxed) {
            _ if self.role == Role::Replay => "some of its tasks have not completed".into(),
            0 => "ready, and its scheduling policy has not handed it out".into(),
            n => format!("waits for {n} of its predecessors"),
        }
    }
}

impl Task {
    /// Makes room for `count` edges.
    pub(crate) fn begin_links(&self, count: usize) {
        // SAFETY: only the submitter knows the task's links before `end_links`.
        let (links, edges) = unsafe { (&mut *self.links.get(), &mut *self.edges.get()) };
        // Never counted as its elements: edges have nothing to be dropped.
        edges.reserve_exact(count);
        (links.first, links.room) = (NonNull::new(edges.as_mut_ptr()), count as u32);
        // Nobody else knows the task before its first edge is pushed.
        self.pending.store(count as u32 + 1, Ordering::Relaxed);
    }

    /// Makes `task` wait for the node that owns `successors`, unless that has completed.
    pub(crate) fn follow(task: &Arc<Task>, successors: &Successors<Successor>) {
        // SAFETY: only the submitter touches the links; the room for edges never moves again, and
        // lives as long as the task, which nobody runs or frees before every pushed edge has been
        // counted down.
        unsafe {
            let links = &mut *task.links.get();
            assert!(links.pushed < links.room, "room was made for every edge");
            let edge = links.first.expect("room was made").as_ptr().add(links.pushed as usize);
            edge.write(Edge::new(Successor::Task(Arc::as_ptr(task))));
            links.pushed += u32::from(successors.push(edge));
        }
    }

    /// Remembers that the task is a member of a group.
    pub(crate) fn join(&self, group: Member<Successor>) {
        // SAFETY: only the submitter touches the links.
        unsafe { &mut *self.links.get() }.groups.push(group);
    }

    /// True if some predecessor had not completed when the task was linked. For its submitter and
    /// its executor only.
    pub(crate) fn had_to_wait(&self) -> bool {
        // SAFETY: linking is over or the submitter asks; only whoever completes the task touches
        // the links later.
        unsafe { &*self.links.get() }.pushed > 0
    }

    /// Gives the watchdog a reference to the task, which is being linked: its address as that of a
    /// task with any body.
    pub(crate) fn list(task: &Arc<Task>) -> *const TaskCell<()> {
        // SAFETY: still the submitter.
        unsafe { &mut *task.links.get() }.listed = true;
        Arc::into_raw(Arc::clone(task)).cast()
    }

    /// True if the watchdog has a reference to the task. For its executor only.
    pub(crate) fn is_listed(&self) -> bool {
        // SAFETY: linking is over; only whoever completes the task touches the links.
        unsafe { &*self.links.get() }.listed
    }

    /// Takes the watchdog's reference back.
    pub(crate) fn unlist(task: &Arc<Task>) {
        // SAFETY: as above.
        if std::mem::take(&mut unsafe { &mut *task.links.get() }.listed) {
            // SAFETY: the reference that `list` gave.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(task)) };
        }
    }

    /// Ends linking; true if the task is ready at once.
    ///
    /// # Safety
    /// The caller is its submitter. The task is alive until its predecessors are counted down:
    /// unless this returns true, another thread may free it at any moment.
    pub(crate) unsafe fn end_links(task: *const Task) -> bool {
        // SAFETY: still the submitter, so that the task is alive; as in `count_down`, there is only
        // a reference to the counter while that changes.
        unsafe {
            (*task).linked.store(true, Ordering::Release);
            let Links { room, pushed, .. } = *(*task).links.get();
            if pushed == 0 {
                // So nobody else counts.
                (*task).pending.store(0, Ordering::Relaxed);
                return true;
            }
            let unneeded = room - pushed + 1;
            (*task).pending.fetch_sub(unneeded, Ordering::AcqRel) == unneeded
        }
    }

    /// How many predecessors have not completed, plus one while it is being linked.
    pub(crate) fn pending(&self) -> u32 {
        self.pending.load(Ordering::Acquire)
    }

    /// The submitted tasks that wait for this one, those twice that do so twice: all of them, or
    /// those that were there when `as_of` was answered. It has been launched, and does not complete
    /// meanwhile.
    pub(crate) fn waiting(
        &self,
        as_of: Option<UpTo<Successor>>,
    ) -> (SmallVec<[Arc<Task>; 8]>, UpTo<Successor>) {
        let mut waiting = SmallVec::new();
        let each = |successor| {
            let Successor::Task(task) = successor else { return };
            // SAFETY: a task that waits is kept alive by its submitter while it is linked, then by
            // the reference that `link` gave up until all that it waits for has completed, which
            // this one has not.
            waiting.push(unsafe {
                Arc::increment_strong_count(task);
                Arc::from_raw(task)
            });
        };
        // SAFETY: whoever launches a task, or is about to complete it, is the one who completes it.
        let up_to = unsafe { self.ticket.successors().look(as_of, each) };
        (waiting, up_to)
    }

    /// Shows what comes after this one, as far as it has been submitted.
    ///
    /// # Safety
    /// The task does not complete meanwhile.
    pub(crate) unsafe fn each_after(&self, mut each: impl FnMut(Successor)) {
        // SAFETY: by the caller's promise.
        unsafe { self.ticket.successors().look(None, &mut each) };
        if self.linked.load(Ordering::Acquire) {
            // SAFETY: linking is over, and only whoever completes the task touches the links later.
            for group in &unsafe { &*self.links.get() }.groups {
                // SAFETY: by the caller's promise.
                unsafe { group.each_after(&mut each) };
            }
        }
    }

    /// One predecessor has completed; true if that was the last.
    ///
    /// # Safety
    /// The caller counts down an edge of `task` that nobody else does: until then the task is
    /// alive. Afterwards another thread may free it at any moment, unless this has returned true.
    pub(crate) unsafe fn count_down(task: *const Task) -> bool {
        // SAFETY: the task is alive until the count has changed. No reference to it as a whole is
        // made, since that would have to stay valid until this returns; the one to the counter need
        // not, since a counter is changed through shared references.
        unsafe { (*task).pending.fetch_sub(1, Ordering::AcqRel) == 1 }
    }

    /// Leaves its groups and completes: `each` gets every successor to be counted down. Returns
    /// true if a thread waits.
    pub(crate) fn complete(&self, mut each: impl FnMut(Successor)) -> bool {
        // SAFETY: the task has run (or was discarded): linking is over, and only its one executor
        // completes it.
        let links = unsafe { &mut *self.links.get() };
        links.groups.drain(..).for_each(|group| group.leave(&mut each));
        self.ticket.successors().close(each);
        self.ticket.is_waited_for()
    }

    /// The failure that `cause` is, with this task's name and operands.
    pub(crate) fn describe(&self, cause: Cause) -> Arc<Failure> {
        let operands = self.body.operand_names();
        Arc::new(Failure { task: self.header.title(), operands, cause })
    }
}
