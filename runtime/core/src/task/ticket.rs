//! What callers keep of a task.

use std::cell::Cell;
use std::fmt;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{self, AtomicPtr};

use super::{Header, Successor, format_coords};
use crate::deps::Successors;
use crate::error::Failure;
use crate::sync::{AtomicU32, Ordering};

/// So many tickets are allocated at once, for tasks that one thread submits one after another: an
/// allocation for each costs more than the rest of a ticket. They are freed together, so who keeps
/// few of many tasks keeps up to so many tickets for each.
const TOGETHER: usize = 8;

const WAITED: u32 = 1;
const CANCELLED: u32 = 2;
const OPEN_GATE: u32 = 4;
const NOBODY_BEHIND: u32 = 8;
/// From here on the flags say at which place the ticket is.
const PLACE: u32 = 8;

/// What others need of a task once it may have ended; apart from the rest, which is freed at its
/// end.
struct Ticket {
    successors: Successors<Successor>,
    flags: AtomicU32,
    /// How many `TaskRef`s there are.
    references: atomic::AtomicU32,
    /// From an Arc, once the task has failed.
    failure: AtomicPtr<Failure>,
}

/// What a task is called.
struct Label {
    id: u64,
    name: &'static str,
    /// `u32::MAX` where there are none.
    coords: [u32; 3],
    runtime: u32,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let failure = *self.failure.get_mut();
        if !failure.is_null() {
            // SAFETY: the reference that `fail` gave.
            drop(unsafe { Arc::from_raw(failure) });
        }
    }
}

/// Tickets that are allocated together.
struct Tickets {
    /// Those that have not been given back.
    left: atomic::AtomicU32,
    places: [MaybeUninit<Ticket>; TOGETHER],
    /// Apart: what runs a task does not look at its ticket's.
    labels: [MaybeUninit<Label>; TOGETHER],
}

impl Tickets {
    #[cold]
    fn allocate(count: usize) -> *mut Tickets {
        Box::into_raw(Box::new(Tickets {
            left: atomic::AtomicU32::new(count as u32),
            places: [const { MaybeUninit::uninit() }; TOGETHER],
            labels: [const { MaybeUninit::uninit() }; TOGETHER],
        }))
    }

    /// Gives back some of them.
    ///
    /// # Safety
    /// They are not used any more, nor given back twice.
    unsafe fn give_back(this: *mut Tickets, count: usize) {
        // SAFETY: by the caller's promise the last to do this is the last who knows of them.
        unsafe {
            if (*this).left.fetch_sub(count as u32, Ordering::AcqRel) == count as u32 {
                drop(Box::from_raw(this));
            }
        }
    }
}

/// What is left of the tickets that a thread has allocated for the tasks that it submits.
struct Unused {
    of: Cell<*mut Tickets>,
    next: Cell<usize>,
}

impl Unused {
    /// A place for a ticket.
    #[inline]
    fn take(&self) -> (*mut Tickets, usize) {
        if self.next.get() == TOGETHER {
            self.of.set(Tickets::allocate(TOGETHER));
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
            // SAFETY: nobody else knows of these.
            unsafe { Tickets::give_back(self.of.get(), TOGETHER - self.next.get()) };
        }
    }
}

thread_local! {
    static UNUSED: Unused = const { Unused { of: Cell::new(ptr::null_mut()), next: Cell::new(TOGETHER) } };
}

/// A submitted task: something to wait for, to cancel, or to run after.
///
/// Keeping one costs less than 100 bytes, whatever the task was; tasks that nobody has to name are
/// waited for with [`Runtime::group`](crate::Runtime::group), which counts them.
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
pub struct TaskRef(NonNull<Ticket>);

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
    /// What callers keep of the task with this header.
    #[inline]
    pub(crate) fn new(header: &Header) -> Self {
        // Where thread-local variables are gone it is allocated alone.
        let (of, place) = UNUSED.try_with(Unused::take).unwrap_or_else(|_| (Tickets::allocate(1), 0));
        let ticket = Ticket {
            successors: Successors::new(),
            flags: AtomicU32::new((place as u32) << PLACE),
            references: atomic::AtomicU32::new(1),
            failure: AtomicPtr::new(ptr::null_mut()),
        };
        let coords = header.info.coords.unwrap_or([u32::MAX; 3]);
        let label = Label { id: header.id, name: header.name, coords, runtime: header.runtime };
        // SAFETY: nobody else knows of this place.
        unsafe {
            let at = (&raw mut (*of).places[place]).cast::<Ticket>();
            at.write(ticket);
            (*of).labels[place].write(label);
            TaskRef(NonNull::new_unchecked(at))
        }
    }

    /// Where it lies: in these, at this place.
    #[inline]
    fn place(&self) -> (*mut Tickets, usize) {
        let place = (self.ticket().flags.load(Ordering::Relaxed) >> PLACE) as usize;
        // SAFETY: its address was made from theirs, in `new`.
        let of = unsafe { self.0.sub(place).byte_sub(offset_of!(Tickets, places)) };
        (of.as_ptr().cast(), place)
    }

    /// The last reference goes.
    fn give_back(&self) {
        atomic::fence(Ordering::Acquire);
        let (of, _) = self.place();
        // SAFETY: this was the last reference to it.
        unsafe {
            self.0.drop_in_place();
            Tickets::give_back(of, 1);
        }
    }

    fn label(&self) -> &Label {
        let (of, place) = self.place();
        // SAFETY: written in `new`, and given back with the ticket.
        unsafe { (*of).labels[place].assume_init_ref() }
    }

    #[inline]
    fn ticket(&self) -> &Ticket {
        // SAFETY: a ticket is given back with its last reference.
        unsafe { self.0.as_ref() }
    }

    /// True if both are of one task.
    #[inline]
    pub(crate) fn is(&self, other: &TaskRef) -> bool {
        self.0 == other.0
    }

    /// True if it was submitted to `runtime`: a recorded task belongs to none.
    pub(crate) fn belongs_to(&self, runtime: u32) -> bool {
        self.label().runtime == runtime
    }

    #[inline]
    pub(crate) fn successors(&self) -> &Successors<Successor> {
        &self.ticket().successors
    }

    /// True if a thread waits for the task's end, or for its gate. Asked after the task's
    /// successors have been taken.
    pub(super) fn is_waited_for(&self) -> bool {
        // A thread that waits sets its mark and then looks at the successors. All four accesses are
        // SeqCst, so that one of the two sees the other. There is no model of this: loom takes such
        // accesses for AcqRel, with which it would be wrong.
        self.ticket().flags.load(Ordering::SeqCst) & WAITED != 0
    }

    /// Announces a waiting thread, which afterwards looks whether the task is complete.
    pub(crate) fn mark_waited(&self) {
        self.ticket().flags.fetch_or(WAITED, Ordering::SeqCst);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.ticket().flags.load(Ordering::Relaxed) & CANCELLED != 0
    }

    /// Lets the thread behind a gate through. False if it has gone away: then the caller closes the
    /// gate.
    pub(crate) fn open_gate(&self) -> bool {
        self.ticket().flags.fetch_or(OPEN_GATE, Ordering::AcqRel) & NOBODY_BEHIND == 0
    }

    /// The thread behind a gate goes away. True if the gate is open by now: then the caller closes
    /// it.
    pub(crate) fn leave_gate(&self) -> bool {
        self.ticket().flags.fetch_or(NOBODY_BEHIND, Ordering::AcqRel) & OPEN_GATE != 0
    }

    pub(crate) fn is_gate_open(&self) -> bool {
        self.ticket().flags.load(Ordering::Acquire) & OPEN_GATE != 0
    }

    /// Notes its failure. A second one of one task cannot happen; if it did, the first is the
    /// cause.
    pub(crate) fn fail(&self, failure: Arc<Failure>) {
        let new = Arc::into_raw(failure).cast_mut();
        let failed = &self.ticket().failure;
        if failed.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // SAFETY: the reference above, which nobody took.
            drop(unsafe { Arc::from_raw(new) });
        }
    }

    /// Its failure, also before it has completed.
    pub(crate) fn cause(&self) -> Option<Arc<Failure>> {
        let failure = NonNull::new(self.ticket().failure.load(Ordering::Acquire))?;
        // SAFETY: the reference that `fail` gave is the ticket's, which is there: this is one more.
        unsafe {
            Arc::increment_strong_count(failure.as_ptr());
            Some(Arc::from_raw(failure.as_ptr()))
        }
    }

    /// Name, coordinates and number, as errors print them.
    pub(crate) fn title(&self) -> String {
        let Label { id, name, coords, .. } = self.label();
        if *coords == [u32::MAX; 3] {
            format!("{name} #{id}")
        } else {
            format!("{name}[{}] #{id}", format_coords(*coords))
        }
    }

    /// The task's number, as in traces.
    pub fn id(&self) -> u64 {
        self.label().id
    }

    /// The task's name.
    pub fn name(&self) -> &'static str {
        self.label().name
    }

    /// True once the task has completed, failed or been discarded.
    pub fn is_done(&self) -> bool {
        self.successors().is_closed()
    }

    /// Asks that the task not run: if it has not started, it is discarded and poisons what it would
    /// have written.
    pub fn cancel(&self) {
        self.ticket().flags.fetch_or(CANCELLED, Ordering::Relaxed);
    }

    /// Why it failed, if it is done and did.
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
