//! Memory layout of a task: first the common part, then its body.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};

use smallvec::SmallVec;
use zellige_model::{CachedId, TaskInfo};

use super::{Body, Implementations, Only, PlanCell, StageCell, Successor, Tally, TaskPtr, TaskRef, pointer};
use crate::deps::{Edge, Membership, Successors, UpTo};
use crate::error::{Cause, Failure, format_coords};
use crate::sync::{AtomicU32, Ordering};

/// Data of a task for scheduling, traces and errors.
pub(crate) struct Header {
    pub(crate) id: u64,
    /// The runtime it was submitted to.
    pub(crate) runtime: u32,
    pub(crate) name: &'static str,
    /// Priority at submission; see [`priority`](Header::priority).
    pub(crate) priority: i32,
    pub(crate) info: TaskInfo,
    /// Restriction to some workers, if there is one.
    pub(crate) only: Option<Box<Only>>,
    /// Cached identifier in the performance models.
    pub(crate) model: CachedId,
    /// Its implementations.
    pub(crate) implementations: Implementations,
    /// Counter of the body or group that has submitted it.
    pub(crate) tally: Option<Arc<Tally>>,
}

impl Header {
    /// Returns its priority, or that of the body that waits for it if this is higher.
    #[inline]
    pub(crate) fn priority(&self) -> i32 {
        self.tally.as_ref().map_or(self.priority, |tally| tally.inherited().max(self.priority))
    }

    /// Returns name and coordinates, as errors and traces print them.
    pub(crate) fn title(&self) -> String {
        match self.info.coords {
            Some(c) => format!("{}[{}]", self.name, format_coords(c)),
            None => self.name.to_string(),
        }
    }
}

/// Action when the last predecessor completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A scheduling policy gets the task and a worker runs it.
    Work,
    /// A user's thread waits for it and completes it by dropping a guard.
    Gate,
    /// It represents a whole replay, whose last task completes it.
    Replay,
}

/// A task with a body of type `B`. The fields before the body have the same offsets for every body.
/// Fields that predecessors touch are adjacent: the task is cold memory by then.
#[repr(C)]
pub(crate) struct TaskCell<B: ?Sized> {
    /// Number of pointers to it, and its offset in the chunk of its memory.
    pub(super) references: atomic::AtomicU32,
    pub(super) offset: u32,
    /// Predecessors that have not completed, plus one while the submitter links.
    pending: AtomicU32,
    pub(crate) role: Role,
    /// True once the links are complete; they do not change before the task completes.
    linked: AtomicBool,
    /// Handle of the task that callers keep.
    pub(crate) ticket: TaskRef,
    /// Memory of up to [`FEW_EDGES`] edges, and of all if there are more. They are separate from
    /// the rest of the links: once an edge is published, other threads read it while the submitter
    /// goes on linking.
    edges: UnsafeCell<[MaybeUninit<Edge<Successor>>; FEW_EDGES]>,
    more_edges: UnsafeCell<Vec<Edge<Successor>>>,
    links: UnsafeCell<TaskLinks>,
    pub(crate) header: Header,
    pub(crate) stage: StageCell,
    pub(crate) planned: PlanCell,
    pub(crate) body: B,
}

/// Number of edges that are stored in the task.
const FEW_EDGES: usize = 4;

/// A task with any body.
pub(crate) type Task = TaskCell<dyn Body>;

#[derive(Default)]
struct TaskLinks {
    /// Address of the edges, their capacity, and the number of pushed ones.
    first: Option<NonNull<Edge<Successor>>>,
    room: u32,
    pushed: u32,
    groups: SmallVec<[Membership<Successor>; 4]>,
    /// True if the watchdog has a reference to the task.
    listed: bool,
}

// SAFETY: `links` is touched by the submitter until `end_links`, and afterwards only by the thread
// that completes the task, which the count-down orders after the submitter (AcqRel); everything
// else is Sync.
unsafe impl<B: ?Sized + Sync> Sync for TaskCell<B> {}
// SAFETY: the pointers in `links` and `edges` are to the task's own edges, and to successors that
// are alive while they wait for it.
unsafe impl<B: ?Sized + Send> Send for TaskCell<B> {}

impl<B: Body + 'static> TaskCell<B> {
    /// Creates a task that is being linked: nobody can run it before `end_links`.
    #[inline]
    pub(crate) fn make(header: Header, role: Role, body: B) -> TaskPtr {
        let ticket = TaskRef::new(&header);
        let (cell, offset) = pointer::allocate::<B>();
        let at = cell.as_ptr();
        // Field by field: the compiler would copy a value of the whole.
        // SAFETY: new memory, of which every field is written once.
        unsafe {
            (&raw mut (*at).references).write(atomic::AtomicU32::new(1));
            (&raw mut (*at).offset).write(offset);
            (&raw mut (*at).pending).write(AtomicU32::new(1));
            (&raw mut (*at).role).write(role);
            (&raw mut (*at).linked).write(AtomicBool::new(false));
            (&raw mut (*at).ticket).write(ticket);
            (&raw mut (*at).more_edges).write(UnsafeCell::default());
            (&raw mut (*at).links).write(UnsafeCell::default());
            (&raw mut (*at).header).write(header);
            (&raw mut (*at).stage).write(StageCell::default());
            (&raw mut (*at).planned).write(PlanCell::default());
            (&raw mut (*at).body).write(body);
            TaskPtr::from_raw(at as *const Task)
        }
    }
}

impl<B: ?Sized> TaskCell<B> {
    /// Describes the events that it waits for.
    pub(crate) fn waits_for(&self) -> String {
        match self.pending.load(Ordering::Relaxed) {
            _ if self.role == Role::Replay => "some of its tasks have not completed".into(),
            0 => "ready, and its scheduling policy has not handed it out".into(),
            n => format!("waits for {n} of its predecessors"),
        }
    }
}

impl Task {
    /// Reserves memory for `count` edges.
    #[inline(always)]
    pub(crate) fn begin_links(&self, count: usize) {
        // SAFETY: only the submitter knows the task's links before `end_links`.
        let (links, more_edges) = unsafe { (&mut *self.links.get(), &mut *self.more_edges.get()) };
        links.first = if count <= FEW_EDGES {
            NonNull::new(self.edges.get().cast())
        } else {
            // The length stays 0: edges need no drop.
            more_edges.reserve_exact(count);
            NonNull::new(more_edges.as_mut_ptr())
        };
        links.room = count as u32;
        // Nobody else knows the task before its first edge is pushed.
        self.pending.store(count as u32 + 1, Ordering::Relaxed);
    }

    /// Makes `task` wait for the node that owns `successors`, unless that has completed.
    pub(crate) fn follow(task: &TaskPtr, successors: &Successors<Successor>) {
        // SAFETY: only the submitter touches the links; the room for edges never moves again, and
        // lives as long as the task, which nobody runs or frees before every pushed edge has been
        // counted down.
        unsafe {
            let links = &mut *task.links.get();
            assert!(links.pushed < links.room, "room was made for every edge");
            let edge = links.first.expect("room was made").as_ptr().add(links.pushed as usize);
            edge.write(Edge::new(Successor::Task(TaskPtr::as_ptr(task))));
            links.pushed += u32::from(successors.push(edge));
        }
    }

    /// Records that the task is a member of a group.
    pub(crate) fn join(&self, group: Membership<Successor>) {
        // SAFETY: only the submitter touches the links.
        unsafe { &mut *self.links.get() }.groups.push(group);
    }

    /// Returns true if some predecessor had not completed when the task was linked. For its
    /// submitter and its executor only.
    pub(crate) fn had_to_wait(&self) -> bool {
        // SAFETY: linking is over or the caller is the submitter; only the thread that completes
        // the task touches the links later.
        unsafe { &*self.links.get() }.pushed > 0
    }

    /// Gives the watchdog a reference to the task, which is being linked; returns its address with
    /// the type of the body erased.
    pub(crate) fn list(task: &TaskPtr) -> *const TaskCell<()> {
        // SAFETY: the caller is still the submitter.
        unsafe { &mut *task.links.get() }.listed = true;
        TaskPtr::into_raw(TaskPtr::clone(task)).cast()
    }

    /// Returns true if the watchdog has a reference to the task. For its executor only.
    pub(crate) fn is_listed(&self) -> bool {
        // SAFETY: linking is over; only the thread that completes the task touches the links.
        unsafe { &*self.links.get() }.listed
    }

    /// Takes the watchdog's reference back.
    pub(crate) fn unlist(task: &TaskPtr) {
        // SAFETY: as above.
        if std::mem::take(&mut unsafe { &mut *task.links.get() }.listed) {
            // SAFETY: the reference that `list` gave.
            drop(unsafe { TaskPtr::from_raw(TaskPtr::as_ptr(task)) });
        }
    }

    /// Ends linking; returns true if the task is ready at once.
    ///
    /// # Safety
    /// The caller is its submitter. The task is alive until its predecessors are counted down:
    /// unless this returns true, another thread may free it at any moment.
    pub(crate) unsafe fn end_links(task: *const Task) -> bool {
        // SAFETY: still the submitter, so that the task is alive; as in `count_down`, there is only
        // a reference to the counter while that changes.
        unsafe {
            (*task).linked.store(true, Ordering::Release);
            let TaskLinks { room, pushed, .. } = *(*task).links.get();
            if pushed == 0 {
                // All predecessors have completed, so nobody else counts.
                (*task).pending.store(0, Ordering::Relaxed);
                return true;
            }
            let unneeded = room - pushed + 1;
            (*task).pending.fetch_sub(unneeded, Ordering::AcqRel) == unneeded
        }
    }

    /// Returns the number of predecessors that have not completed, plus one while it is being
    /// linked.
    pub(crate) fn pending(&self) -> u32 {
        self.pending.load(Ordering::Acquire)
    }

    /// Returns the submitted tasks that wait for this one, once per edge: all of them, or those
    /// that were there when `as_of` was returned. The task has been launched, and does not complete
    /// meanwhile.
    pub(crate) fn waiting(
        &self,
        as_of: Option<UpTo<Successor>>,
    ) -> (SmallVec<[TaskPtr; 8]>, UpTo<Successor>) {
        let mut waiting = SmallVec::new();
        let each = |successor| {
            let Successor::Task(task) = successor else { return };
            // SAFETY: a task that waits is kept alive by its submitter while it is linked, then by
            // the reference that `link` gave up until all that it waits for has completed, which
            // this one has not.
            waiting.push(unsafe { TaskPtr::share(task) });
        };
        // SAFETY: the caller launches the task or is about to complete it, and is the one that
        // completes it.
        let up_to = unsafe { self.ticket.successors().look(as_of, each) };
        (waiting, up_to)
    }

    /// Calls `each` with the successors that have been submitted so far.
    ///
    /// # Safety
    /// The task does not complete meanwhile.
    pub(crate) unsafe fn each_after(&self, mut each: impl FnMut(Successor)) {
        // SAFETY: by the caller's promise.
        unsafe { self.ticket.successors().look(None, &mut each) };
        if self.linked.load(Ordering::Acquire) {
            // SAFETY: linking is over, and only the thread that completes the task touches the
            // links later.
            for group in &unsafe { &*self.links.get() }.groups {
                // SAFETY: by the caller's promise.
                unsafe { group.each_after(&mut each) };
            }
        }
    }

    /// Counts down one completed predecessor; returns true if it was the last.
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

    /// Returns the failure for `cause`, with this task's name and operands.
    pub(crate) fn describe(&self, cause: Cause) -> Arc<Failure> {
        let operands = self.body.operand_names();
        Arc::new(Failure { task: self.header.title(), operands, cause })
    }
}
