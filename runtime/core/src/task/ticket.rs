//! Handles of tasks for callers.

use std::cell::Cell;
use std::fmt;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{self, AtomicPtr};

use super::{Header, Successor};
use crate::deps::Successors;
use crate::error::{Failure, format_coords};
use crate::sync::{AtomicU32, Ordering};

/// Number of tickets per allocation, for tasks that one thread submits one after another: an
/// allocation for each would cost more than the rest of a ticket. They are freed together, so a
/// caller that keeps few of many tasks may keep up to this many tickets for each.
const TOGETHER: usize = 8;

const WAITED: u32 = 1;
const CANCELLED: u32 = 2;
const OPEN_GATE: u32 = 4;
const NOBODY_BEHIND: u32 = 8;
/// Shift of the ticket's index within the flags.
const PLACE: u32 = 8;

/// State of a task that is needed after its end; separate from the rest, which is freed at its end.
struct TaskTicket {
    successors: Successors<Successor>,
    flags: AtomicU32,
    /// Number of `TaskRef`s.
    references: atomic::AtomicU32,
    /// Failure from an Arc, once the task has failed.
    failure: AtomicPtr<Failure>,
}

/// Name of a task.
struct Label {
    id: u64,
    name: &'static str,
    /// Coordinates; `u32::MAX` if unused.
    coords: [u32; 3],
    runtime: u32,
}

impl Drop for TaskTicket {
    fn drop(&mut self) {
        let failure = *self.failure.get_mut();
        if !failure.is_null() {
            // SAFETY: the reference that `fail` gave.
            drop(unsafe { Arc::from_raw(failure) });
        }
    }
}

/// Tickets that are allocated together.
struct TicketBlock {
    /// Number of tickets that have not been given back.
    left: atomic::AtomicU32,
    places: [MaybeUninit<TaskTicket>; TOGETHER],
    /// Labels, separate from the tickets: the execution of a task does not read its label.
    labels: [MaybeUninit<Label>; TOGETHER],
}

impl TicketBlock {
    #[cold]
    fn allocate(count: usize) -> *mut TicketBlock {
        Box::into_raw(Box::new(TicketBlock {
            left: atomic::AtomicU32::new(count as u32),
            places: [const { MaybeUninit::uninit() }; TOGETHER],
            labels: [const { MaybeUninit::uninit() }; TOGETHER],
        }))
    }

    /// Gives some of the tickets back.
    ///
    /// # Safety
    /// They are not used any more, and not given back twice.
    unsafe fn give_back(this: *mut TicketBlock, count: usize) {
        // SAFETY: by the caller's promise the last caller is the last one with access to them.
        unsafe {
            if (*this).left.fetch_sub(count as u32, Ordering::AcqRel) == count as u32 {
                drop(Box::from_raw(this));
            }
        }
    }
}

/// Unused rest of the tickets that a thread has allocated for the tasks that it submits.
struct Unused {
    of: Cell<*mut TicketBlock>,
    next: Cell<usize>,
}

impl Unused {
    /// Returns memory for a ticket.
    #[inline]
    fn take(&self) -> (*mut TicketBlock, usize) {
        if self.next.get() == TOGETHER {
            self.of.set(TicketBlock::allocate(TOGETHER));
            self.next.set(0);
        }
        let next = self.next.get();
        self.next.set(next + 1);
        (self.of.get(), next)
    }
}

impl Drop for Unused {
    fn drop(&mut self) {
        if self.next.get() < TOGETHER {
            // SAFETY: nobody else has access to these.
            unsafe { TicketBlock::give_back(self.of.get(), TOGETHER - self.next.get()) };
        }
    }
}

thread_local! {
    static UNUSED: Unused = const { Unused { of: Cell::new(ptr::null_mut()), next: Cell::new(TOGETHER) } };
}

/// A handle of a submitted task, to wait for it, to cancel it, or to run other tasks after it.
///
/// Keeping one costs less than 100 bytes, for any task. To wait for tasks without naming them, use
/// [`Runtime::group`](crate::Runtime::group), which counts them.
///
/// ```
/// use zellige_runtime::{Runtime, Submit, TaskRef, update};
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let (x, y) = (rt.register(1i32), rt.register(2i32));
/// let first: TaskRef = rt.task("first").operands((update(&x),)).cpu(|(x,)| *x = 5).submit()?;
/// let second = rt.task("second").operands((update(&y),)).cpu(|(y,)| *y = 6).after(&first).submit()?;
/// rt.wait(&second)?;
/// assert!(first.is_done());
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub struct TaskRef(NonNull<TaskTicket>);

// SAFETY: a ticket is used through shared references alone, and everything in it is Sync: the
// pointers in `successors` are to edges of tasks that are alive while they wait.
unsafe impl Send for TaskRef {}
// SAFETY: as above.
unsafe impl Sync for TaskRef {}

impl Clone for TaskRef {
    #[inline]
    fn clone(&self) -> Self {
        self.ticket().references.fetch_add(1, Ordering::Relaxed);
        TaskRef(self.0)
    }
}

impl Drop for TaskRef {
    #[inline]
    fn drop(&mut self) {
        if self.ticket().references.fetch_sub(1, Ordering::Release) == 1 {
            self.give_back();
        }
    }
}

impl TaskRef {
    /// Creates the handle of the task with this header.
    #[inline]
    pub(crate) fn new(header: &Header) -> Self {
        // If thread-local variables are gone it is allocated alone.
        let (of, place) = UNUSED.try_with(Unused::take).unwrap_or_else(|_| (TicketBlock::allocate(1), 0));
        let ticket = TaskTicket {
            successors: Successors::new(),
            flags: AtomicU32::new((place as u32) << PLACE),
            references: atomic::AtomicU32::new(1),
            failure: AtomicPtr::new(ptr::null_mut()),
        };
        let coords = header.info.coords.unwrap_or([u32::MAX; 3]);
        let label = Label { id: header.id, name: header.name, coords, runtime: header.runtime };
        // SAFETY: nobody else has access to this element.
        unsafe {
            let at = (&raw mut (*of).places[place]).cast::<TaskTicket>();
            at.write(ticket);
            (*of).labels[place].write(label);
            TaskRef(NonNull::new_unchecked(at))
        }
    }

    /// Returns the allocation that contains it, and its index there.
    #[inline]
    fn place(&self) -> (*mut TicketBlock, usize) {
        let place = (self.ticket().flags.load(Ordering::Relaxed) >> PLACE) as usize;
        // SAFETY: its address was made from theirs, in `new`.
        let of = unsafe { self.0.sub(place).byte_sub(offset_of!(TicketBlock, places)) };
        (of.as_ptr().cast(), place)
    }

    /// Gives the ticket back with the last reference.
    fn give_back(&self) {
        atomic::fence(Ordering::Acquire);
        let (of, _) = self.place();
        // SAFETY: this was the last reference to it.
        unsafe {
            self.0.drop_in_place();
            TicketBlock::give_back(of, 1);
        }
    }

    fn label(&self) -> &Label {
        let (of, place) = self.place();
        // SAFETY: written in `new`, and given back with the ticket.
        unsafe { (*of).labels[place].assume_init_ref() }
    }

    #[inline]
    fn ticket(&self) -> &TaskTicket {
        // SAFETY: a ticket is given back with its last reference.
        unsafe { self.0.as_ref() }
    }

    /// Returns true if both refer to the same task.
    #[inline]
    pub(crate) fn is(&self, other: &TaskRef) -> bool {
        self.0 == other.0
    }

    /// Returns true if it was submitted to `runtime`: a recorded task belongs to none.
    pub(crate) fn belongs_to(&self, runtime: u32) -> bool {
        self.label().runtime == runtime
    }

    #[inline]
    pub(crate) fn successors(&self) -> &Successors<Successor> {
        &self.ticket().successors
    }

    /// Returns true if a thread waits for the task's end, or for its gate. It is called after the
    /// task's successors have been taken.
    pub(super) fn is_waited_for(&self) -> bool {
        // A waiting thread sets its mark and then reads the successors. All four accesses are
        // SeqCst, so that one of the two sees the other. There is no model of this: loom treats
        // such accesses as AcqRel, with which it would be wrong.
        self.ticket().flags.load(Ordering::SeqCst) & WAITED != 0
    }

    /// Announces a waiting thread, which afterwards checks if the task is complete.
    pub(crate) fn mark_waited(&self) {
        self.ticket().flags.fetch_or(WAITED, Ordering::SeqCst);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.ticket().flags.load(Ordering::Relaxed) & CANCELLED != 0
    }

    /// Opens the gate for the waiting thread. Returns false if that has gone away: the caller then
    /// closes the gate.
    pub(crate) fn open_gate(&self) -> bool {
        self.ticket().flags.fetch_or(OPEN_GATE, Ordering::AcqRel) & NOBODY_BEHIND == 0
    }

    /// Marks the thread at a gate as gone. Returns true if the gate is open by now: the caller then
    /// closes it.
    pub(crate) fn leave_gate(&self) -> bool {
        self.ticket().flags.fetch_or(NOBODY_BEHIND, Ordering::AcqRel) & OPEN_GATE != 0
    }

    pub(crate) fn is_gate_open(&self) -> bool {
        self.ticket().flags.load(Ordering::Acquire) & OPEN_GATE != 0
    }

    /// Stores the task's failure. A task fails only once; if it did twice, the first failure would
    /// be kept.
    pub(crate) fn fail(&self, failure: Arc<Failure>) {
        let new = Arc::into_raw(failure).cast_mut();
        let failed = &self.ticket().failure;
        if failed.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // SAFETY: the reference above, which nobody took.
            drop(unsafe { Arc::from_raw(new) });
        }
    }

    /// Returns its failure, also before it has completed.
    pub(crate) fn cause(&self) -> Option<Arc<Failure>> {
        let failure = NonNull::new(self.ticket().failure.load(Ordering::Acquire))?;
        // SAFETY: the reference that `fail` gave is the ticket's, which is there: this is one more.
        unsafe {
            Arc::increment_strong_count(failure.as_ptr());
            Some(Arc::from_raw(failure.as_ptr()))
        }
    }

    /// Returns name, coordinates and number, as errors print them.
    pub(crate) fn title(&self) -> String {
        let Label { id, name, coords, .. } = self.label();
        if *coords == [u32::MAX; 3] {
            format!("{name} #{id}")
        } else {
            format!("{name}[{}] #{id}", format_coords(*coords))
        }
    }

    /// Returns the task's number, as in traces.
    pub fn id(&self) -> u64 {
        self.label().id
    }

    /// Returns the task's name.
    pub fn name(&self) -> &'static str {
        self.label().name
    }

    /// Returns true once the task has completed, failed or been discarded.
    pub fn is_done(&self) -> bool {
        self.successors().is_closed()
    }

    /// Cancels the task: if it has not started, it is discarded and poisons its outputs.
    pub fn cancel(&self) {
        self.ticket().flags.fetch_or(CANCELLED, Ordering::Relaxed);
    }

    /// Returns the failure, if the task is done and failed.
    pub fn failure(&self) -> Option<&Failure> {
        let failure = self.is_done().then(|| self.ticket().failure.load(Ordering::Acquire))?;
        // SAFETY: the ticket has a reference to it, which it keeps.
        unsafe { failure.as_ref() }
    }
}

impl fmt::Debug for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskRef({})", self.title())
    }
}
