//! Which worker the calling thread is, and what it runs.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

use super::Shared;
use crate::operand::Accesses;
use crate::task::Task;

thread_local! {
    /// The runtime whose body this thread runs that cannot wait, and in words, what it would do.
    static IN_HASTE: Cell<Option<(u32, &'static str)>> = const { Cell::new(None) };
    static WORKER: Cell<Option<(u32, usize)>> = const { Cell::new(None) };
    /// The tasks that this thread runs, innermost last: a wait on one of them would wait for the waiter.
    static RUNNING: RefCell<Vec<*const Task>> = const { RefCell::new(Vec::new()) };
}

/// Makes the calling thread worker `index` of `shared`.
pub(super) fn set(shared: &Shared, index: usize) {
    WORKER.set(Some((shared.id, index)));
}

/// Notes that the calling thread runs bodies for a device, until the guard is dropped: what they wait for may need the device.
pub(crate) fn on_device(shared: &Shared) -> InHaste {
    InHaste(IN_HASTE.replace(Some((shared.id, "waiting in a body on a device"))))
}

/// The same for the body of several tasks at once: what it waits for may come after one of them.
pub(super) fn in_batch(shared: &Shared) -> InHaste {
    InHaste(IN_HASTE.replace(Some((shared.id, "waiting in a body that runs several tasks"))))
}

/// In words, what the calling thread would do that runs a body of `shared` which cannot wait.
pub(super) fn cannot_wait(shared: &Shared) -> Option<&'static str> {
    IN_HASTE.get().filter(|(id, _)| *id == shared.id).map(|(_, what)| what)
}

/// See [`on_device`] and [`in_batch`]. Holds what was noted before.
pub(crate) struct InHaste(Option<(u32, &'static str)>);

impl Drop for InHaste {
    fn drop(&mut self) {
        IN_HASTE.set(self.0);
    }
}

/// The calling thread's worker number, if it is a worker of `shared`.
pub(super) fn worker_of(shared: &Shared) -> Option<usize> {
    WORKER.get().filter(|(id, _)| *id == shared.id).map(|(_, index)| index)
}

/// Notes that this thread runs `task`, until the guard is dropped. For a task of a replay it is the one that stands for the
/// replay: whoever waits for that one, or for the handles it accesses, waits for himself.
pub(crate) fn enter(task: &Task) -> Entered<'_> {
    RUNNING.with_borrow_mut(|running| running.push(std::ptr::from_ref(task)));
    Entered(PhantomData)
}

/// How many tasks this thread runs inside one another.
pub(super) fn nesting() -> usize {
    RUNNING.with_borrow(Vec::len)
}

/// True if `which` holds for one of the tasks that this thread runs.
fn any_running(which: impl Fn(&Task) -> bool) -> bool {
    // SAFETY: a task is in the list only while `Entered` borrows it.
    RUNNING.with_borrow(|running| running.iter().any(|&task| which(unsafe { &*task })))
}

/// True if this thread runs `task`.
pub(super) fn runs(task: &Task) -> bool {
    any_running(|running| std::ptr::eq(running, task))
}

/// True if this thread runs a task of the runtime with this number.
pub(super) fn runs_any_of(runtime: u32) -> bool {
    any_running(|running| running.header.runtime == runtime)
}

/// True if this thread runs a task that accesses the handle with this number.
pub(super) fn accesses(handle: u64) -> bool {
    any_running(|running| {
        let mut accesses = Accesses::new();
        running.body.declare(&mut accesses);
        accesses.iter().any(|access| access.base.id == handle)
    })
}

/// See [`enter`].
pub(crate) struct Entered<'t>(PhantomData<&'t Task>);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        RUNNING.with_borrow_mut(Vec::pop);
    }
}
