//! State of the calling thread: its worker, the tasks that it runs, and the guards that it holds.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::engine::Engine;
use crate::task::{Accesses, Tally, Task, TaskPtr, TaskRef};

/// One body on the thread's stack.
struct Frame {
    /// Its task; for a replay, the task of the whole. A thread that waits for it waits for this
    /// thread.
    task: *const TaskPtr,
    /// Its priority when it began.
    priority: i32,
    /// Counter of the tasks that the body has submitted, if any.
    tally: Option<Arc<Tally>>,
}

thread_local! {
    /// The runtime whose body on this thread must not wait, and a description of the forbidden
    /// action.
    static IN_HASTE: Cell<Option<(u32, &'static str)>> = const { Cell::new(None) };
    static WORKER: Cell<Option<(u32, usize)>> = const { Cell::new(None) };
    /// Address at which the stack of a worker's thread begins.
    static STACK_BEGIN: Cell<usize> = const { Cell::new(usize::MAX) };
    /// The bodies that this thread runs, innermost last.
    static RUNNING: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
    /// The gates of the guards that this thread holds.
    static GUARDS: RefCell<Vec<TaskPtr>> = const { RefCell::new(Vec::new()) };
}

/// An address on the calling thread's stack.
fn stack_address() -> usize {
    let here = 0u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}

/// Makes the calling thread worker `index` of `shared`.
pub(in crate::engine) fn set(engine: &Engine, index: usize) {
    WORKER.set(Some((engine.id, index)));
    STACK_BEGIN.set(stack_address());
}

/// Returns the stack use of a worker's thread [bytes].
pub(super) fn stack_used() -> usize {
    // Stacks grow downwards on every machine that Rust runs on.
    STACK_BEGIN.get().saturating_sub(stack_address())
}

/// Marks the calling thread as running bodies for a device, until the guard is dropped: a wait in
/// them may need the device itself.
pub(crate) fn on_device(engine: &Engine) -> InHaste {
    InHaste(IN_HASTE.replace(Some((engine.id, "waiting in a body on a device"))))
}

/// Marks the calling thread as running a body for several tasks at once, until the guard is
/// dropped: an awaited event may come after one of them.
pub(in crate::engine) fn in_batch(engine: &Engine) -> InHaste {
    InHaste(IN_HASTE.replace(Some((engine.id, "waiting in a body that runs several tasks"))))
}

/// Describes the forbidden action of the calling thread, if it runs a body of `shared` that must
/// not wait.
pub(super) fn cannot_wait(engine: &Engine) -> Option<&'static str> {
    IN_HASTE.get().filter(|(id, _)| *id == engine.id).map(|(_, what)| what)
}

/// Guard of [`on_device`] and [`in_batch`]. It holds the previous mark.
pub(crate) struct InHaste(Option<(u32, &'static str)>);

impl Drop for InHaste {
    fn drop(&mut self) {
        IN_HASTE.set(self.0);
    }
}

/// The calling thread's worker number, if it is a worker of `shared`.
pub(in crate::engine) fn worker_of(engine: &Engine) -> Option<usize> {
    WORKER.get().filter(|(id, _)| *id == engine.id).map(|(_, index)| index)
}

/// Notes that this thread runs a body of this priority, until the guard is dropped. `task`: the
/// task of the body, or the one that stands for the whole replay.
#[inline]
pub(crate) fn enter(task: &TaskPtr, priority: i32) -> Entered<'_> {
    let frame = Frame { task: std::ptr::from_ref(task), priority, tally: None };
    RUNNING.with_borrow_mut(|running| running.push(frame));
    Entered(PhantomData)
}

/// Calls `each` with every task whose body this thread runs, outermost first.
fn each_running(mut each: impl FnMut(&TaskPtr)) {
    // SAFETY: a task is in the list only while `Entered` borrows it.
    RUNNING.with_borrow(|running| running.iter().for_each(|frame| each(unsafe { &*frame.task })));
}

/// True if `which` holds for one of the tasks that this thread runs.
fn any_running(which: impl Fn(&Task) -> bool) -> bool {
    let mut any = false;
    each_running(|task| any |= which(task));
    any
}

/// Returns the tasks of `shared` that this thread runs, outermost first, each once.
pub(super) fn stack(engine: &Engine) -> SmallVec<[TaskPtr; 2]> {
    let mut stack: SmallVec<[TaskPtr; 2]> = SmallVec::new();
    each_running(|task| {
        if task.header.runtime == engine.id && !stack.last().is_some_and(|last| last.is(task)) {
            stack.push(TaskPtr::clone(task));
        }
    });
    stack
}

/// Calls `with` on the tally of the innermost body, if the thread runs a body of `shared`.
#[inline]
fn with_tally<R>(engine: &Engine, with: impl FnOnce(&mut Option<Arc<Tally>>) -> R) -> Option<R> {
    RUNNING.with_borrow_mut(|running| {
        let frame = running.last_mut()?;
        // SAFETY: as in `each_running`: `Entered` borrows the task.
        let runtime = unsafe { &*frame.task }.header.runtime;
        (runtime == engine.id).then(|| with(&mut frame.tally))
    })
}

/// Returns the tally of the tasks that the innermost body of this thread submits; `None` outside of
/// any body.
#[inline]
pub(in crate::engine) fn tally(engine: &Engine) -> Option<Arc<Tally>> {
    with_tally(engine, |tally| Arc::clone(tally.get_or_insert_with(|| Tally::within(None))))
}

/// Returns the priority of the innermost body of this thread, or its inherited priority if that is
/// higher.
pub(super) fn priority(engine: &Engine) -> Option<i32> {
    RUNNING.with_borrow(|running| {
        let frame = running.last()?;
        // SAFETY: as in `each_running`: `Entered` borrows the task.
        let header = unsafe { &(&*frame.task).header };
        let inherited = header.tally.as_ref().map_or(i32::MIN, |tally| tally.inherited());
        (header.runtime == engine.id).then_some(inherited.max(frame.priority))
    })
}

/// Returns the tally of the innermost body, if the body has submitted any task.
pub(super) fn tally_so_far(engine: &Engine) -> Option<Arc<Tally>> {
    with_tally(engine, |tally| tally.clone()).flatten()
}

/// True if this thread runs `task`.
pub(in crate::engine) fn runs(task: &TaskRef) -> bool {
    any_running(|running| running.ticket.is(task))
}

/// True if this thread runs a task of the runtime with this number.
pub(super) fn runs_any_of(runtime: u32) -> bool {
    any_running(|running| running.header.runtime == runtime)
}

/// True if this thread runs a task that accesses the handle with this number.
pub(in crate::engine) fn accesses(handle: u64) -> bool {
    any_running(|running| {
        let mut accesses = Accesses::new();
        running.body.declare(&mut accesses);
        accesses.iter().any(|access| access.base.id == handle)
    })
}

/// See [`enter`].
pub(crate) struct Entered<'t>(PhantomData<&'t Task>);

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        RUNNING.with_borrow_mut(Vec::pop);
    }
}

/// Notes that the calling thread holds a guard behind this gate.
pub(crate) fn holds_guard(gate: &TaskPtr) {
    GUARDS.with_borrow_mut(|guards| guards.push(gate.clone()));
}

/// Notes that the guard of this gate is dropped, by the thread that made it: guards do not move
/// between threads.
pub(crate) fn drops_guard(gate: &TaskPtr) {
    // A guard in a thread-local variable may outlive this one.
    let _ = GUARDS.try_with(|guards| guards.borrow_mut().retain(|other| !other.is(gate)));
}

/// Returns the gates of this runtime whose guards the calling thread holds.
pub(super) fn guards(engine: &Engine) -> SmallVec<[TaskPtr; 2]> {
    GUARDS.with_borrow(|guards| {
        guards.iter().filter(|gate| gate.header.runtime == engine.id).cloned().collect()
    })
}

/// True if the calling thread holds a guard of this runtime.
pub(super) fn holds_guards(engine: &Engine) -> bool {
    GUARDS.with_borrow(|guards| guards.iter().any(|gate| gate.header.runtime == engine.id))
}
