//! The life of a task: its submission, its execution, and its end.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;
use zellige_runtime::internal::ranks::Event;
use zellige_runtime::internal::untyped::{self, TokenAccess, Untyped, UntypedOptions};
use zellige_runtime::sched::ReadyTask;
use zellige_runtime::{Mode, TaskError, TaskRef};

use crate::acquire::Slot;
use crate::data::{Carried, data, leave, mode_of, prepare, starpu_data_register_same};
use crate::gate::{Edge, Gate, Parked, Passage};
use crate::instance::{Instance, as_task, complain, errno, get, must_not_wait, needed};
use crate::reduction::{Copies, Reduction};
use crate::types::*;

unsafe extern "C" {
    pub fn malloc(size: usize) -> *mut c_void;
    pub fn free(pointer: *mut c_void);
}

/// TaskState of a task beside its structure, at `starpu_private`.
pub struct TaskState {
    /// Number of the task, for the application.
    pub number: std::ffi::c_long,
    pub inner: Mutex<Inner>,
    changed: Condvar,
    /// The task, ready, while a policy of the application has it.
    pub ready: Mutex<Option<ReadyTask>>,
}

/// A task that has declared another one as its predecessor. It may be gone by the time that one
/// runs again.
#[derive(Clone)]
pub struct Successor {
    pub task: Carried<starpu_task>,
    pub state: Weak<TaskState>,
}

impl TaskState {
    fn new() -> Self {
        TaskState {
            number: crate::extras::next_number(),
            inner: Mutex::default(),
            changed: Condvar::default(),
            ready: Mutex::default(),
        }
    }
}

#[derive(Default)]
pub struct Inner {
    pub submitted: bool,
    pub ended: bool,
    /// Tasks that it comes after.
    pub gate: Gate,
    /// Declarations that name it.
    pub successors: Vec<Edge<Successor>>,
    /// True once its run has fired for its successors.
    pub fired: bool,
    /// Tasks that do not end before this one.
    pub holds_back: Vec<Carried<starpu_task>>,
    /// Number of ends that this one waits for.
    pub ends_missing: usize,
    /// The turn that it keeps, once its body has ended before they have come.
    pub body_ended: Option<Option<Slot>>,
}

/// Returns the state of a task; made at its first use.
pub unsafe fn state(task: *mut starpu_task) -> Arc<TaskState> {
    let place = AtomicPtr::from_ptr((&raw mut (*task).starpu_private).cast::<*mut TaskState>());
    let mut found = place.load(Ordering::Acquire);
    if found.is_null() {
        let made = Arc::into_raw(Arc::new(TaskState::new())).cast_mut();
        match place.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => found = made,
            Err(other) => {
                drop(Arc::from_raw(made));
                found = other;
            }
        }
    }
    Arc::increment_strong_count(found);
    Arc::from_raw(found)
}

/// Buffer of a task.
struct Buffer {
    data: starpu_data_handle_t,
    source: Source,
}

/// Place of a buffer's memory.
enum Source {
    /// In the handle; with the number of the access.
    Value(u32),
    /// In a copy of the worker.
    Scratch,
    /// In a copy of the worker, for a reduction.
    Copy(Box<(Arc<Copies>, Reduction)>),
}

/// A submitted task.
pub struct Work {
    task: *mut starpu_task,
    state: Arc<TaskState>,
    accesses: SmallVec<[TokenAccess; 3]>,
    buffers: SmallVec<[Buffer; 3]>,
    /// Handles that it uses without an order.
    users: Vec<starpu_data_handle_t>,
    /// The turn on its data, if it is held apart.
    slot: Option<Slot>,
    /// Says whether it runs, for a task of a transaction.
    runs: Option<Arc<AtomicBool>>,
    /// True if nothing can notice whether the task ends before or after its data are released.
    plain: bool,
}

// SAFETY: the task's structure and its data are the application's, which leaves them alone until
// the task has ended.
unsafe impl Send for Work {}
// SAFETY: as above.
unsafe impl Sync for Work {}

impl Work {
    /// Returns the task and its state, for policies.
    pub fn parts(&self) -> (*mut starpu_task, &TaskState) {
        (self.task, &self.state)
    }
}

/// Returns CPU function `at` of a codelet.
pub unsafe fn cpu_function(codelet: *mut starpu_codelet, at: usize) -> starpu_cpu_func_t {
    let function = (*codelet).cpu_funcs[at];
    let single = (*codelet).cpu_func;
    // The old field holds one function, or a mark that says that there are several.
    if at == 0 && function.is_none() && single.is_some_and(|f| f as usize != usize::MAX) {
        return single;
    }
    function
}

unsafe fn may_run(task: *mut starpu_task, worker: usize, implementation: usize) -> bool {
    let codelet = (*task).cl;
    if cpu_function(codelet, implementation).is_none() {
        return false;
    }
    (*codelet).can_execute.is_none_or(|can| can(worker as c_uint, task, implementation as c_uint) != 0)
}

/// Returns true if the task may run on this worker.
pub unsafe fn allowed(task: *mut starpu_task, worker: usize) -> bool {
    if (*task).execute_on_a_specific_worker != 0 && (*task).workerid as usize != worker {
        return false;
    }
    if !(*task).workerids.is_null() && (*task).workerids_len > 0 {
        let words = slice::from_raw_parts((*task).workerids, (*task).workerids_len as usize);
        if words.get(worker / 32).is_none_or(|word| word >> (worker % 32) & 1 == 0) {
            return false;
        }
    }
    implementation(task, worker).is_some()
}

/// Returns the implementation that runs on a worker.
pub unsafe fn implementation(task: *mut starpu_task, worker: usize) -> Option<usize> {
    (0..STARPU_MAXIMPLEMENTATIONS).find(|&at| may_run(task, worker, at))
}

impl Work {
    /// Prepares all data of a task that is being submitted.
    unsafe fn prepare(
        instance: &Instance,
        task: *mut starpu_task,
        state: Arc<TaskState>,
    ) -> Result<Box<Work>, String> {
        let mut this = Box::new(Work {
            task,
            state,
            accesses: SmallVec::new(),
            buffers: SmallVec::new(),
            users: Vec::new(),
            slot: None,
            runs: None,
            plain: false,
        });
        if let Some(epoch) = crate::extras::epoch(task) {
            this.accesses.push(epoch.access);
            this.runs = Some(epoch.runs);
        }
        let codelet = (*task).cl;
        if codelet.is_null() {
            return Ok(this);
        }
        let variable = (*codelet).nbuffers == STARPU_VARIABLE_NBUFFERS;
        let count = if variable { (*task).nbuffers } else { (*codelet).nbuffers };
        for at in 0..count.max(0) as usize {
            if let Err(why) = this.add_buffer(instance, variable, at) {
                this.undo();
                return Err(why);
            }
        }
        Ok(this)
    }

    unsafe fn add_buffer(&mut self, instance: &Instance, variable: bool, at: usize) -> Result<(), String> {
        let task = self.task;
        let handle = if (*task).dyn_handles.is_null() {
            *(*task).handles.get(at).ok_or("more buffers than STARPU_NMAXBUFS need dyn_handles")?
        } else {
            *(*task).dyn_handles.add(at)
        };
        let mode = mode_at(task, variable, at)?;
        let each = (*task).handles_sequential_consistency;
        let ordered = (*task).sequential_consistency != 0 && (each.is_null() || *each.add(at) != 0);
        self.add(instance, handle, mode, ordered)
    }

    unsafe fn add(
        &mut self,
        instance: &Instance,
        handle: starpu_data_handle_t,
        mode: starpu_data_access_mode,
        ordered: bool,
    ) -> Result<(), String> {
        prepare(instance, handle, mode)?;
        let of = data(handle);
        let Some(access) = mode_of(mode) else {
            of.users.add();
            self.users.push(handle);
            self.buffers.push(Buffer { data: handle, source: Source::Scratch });
            return Ok(());
        };
        let known = self.buffers.iter().find_map(|buffer| match buffer.source {
            Source::Value(access) if buffer.data == handle => Some(access),
            _ => None,
        });
        if let Some(known) = known {
            // One access in the stronger mode stands for both.
            let first = &mut self.accesses[known as usize].mode;
            *first = if *first == access { access } else { Mode::Update };
            self.buffers.push(Buffer { data: handle, source: Source::Value(known) });
            return Ok(());
        }
        let mut source = Source::Value(self.accesses.len() as u32);
        if mode & STARPU_REDUX != 0 {
            let reduction = of.order.lock().reduction.clone();
            if let Some(copies) = reduction.copies().cloned() {
                source = Source::Copy(Box::new((copies, reduction.without_copies())));
            }
        }
        self.buffers.push(Buffer { data: handle, source });
        let ordered = ordered && of.is_ordered();
        if !ordered {
            of.users.add();
            self.users.push(handle);
        }
        self.accesses.push(TokenAccess { ordered, ..of.access(access) });
        Ok(())
    }

    /// Takes back what a task that does not run has announced.
    unsafe fn undo(&self) {
        self.users.iter().for_each(|&user| leave(user));
    }
}

impl Untyped for Box<Work> {
    fn accesses(&self) -> &[TokenAccess] {
        &self.accesses
    }

    fn can_execute(&self, worker: usize) -> bool {
        // SAFETY: the task has not ended.
        unsafe { allowed(self.task, worker) }
    }

    fn run(&self, worker: usize) -> Result<(), TaskError> {
        // SAFETY: its turn has come, on this worker.
        unsafe { self.execute(worker) };
        Ok(())
    }
}

impl Work {
    unsafe fn execute(&self, worker: usize) {
        let task = self.task;
        crate::instance::is_worker(worker);
        as_task(task, || {
            if let Some(callback) = (*task).prologue_callback_pop_func {
                callback((*task).prologue_callback_pop_arg);
            }
            self.call(worker);
            if let Some(callback) = (*task).epilogue_callback_func {
                callback((*task).epilogue_callback_arg);
            }
        });
        self.undo();
        next_in_order(task);
        if self.plain {
            end(task, &self.state, None);
        } else {
            let ended = Ended { task, state: Arc::clone(&self.state), slot: self.slot.clone() };
            ENDED.with_borrow_mut(|all| all.push_back(ended));
        }
    }

    unsafe fn call(&self, worker: usize) {
        let task = self.task;
        if self.runs.as_ref().is_some_and(|runs| !runs.load(Ordering::Acquire)) {
            return;
        }
        let chosen = if (*task).execute_on_a_specific_worker != 0 || (*(*task).cl).can_execute.is_some() {
            implementation(task, worker).unwrap_or(0)
        } else {
            0
        };
        let Some(function) = cpu_function((*task).cl, chosen) else { return };
        let mut interfaces: SmallVec<[*mut c_void; 8]> =
            self.buffers.iter().map(|buffer| buffer.interface(worker)).collect();
        for (place, interface) in (*task).interfaces.iter_mut().zip(&interfaces) {
            *place = *interface;
        }
        (*task).status = STARPU_TASK_RUNNING;
        let started = crate::perfmodel::wanted().then(std::time::Instant::now);
        crate::policy::at_start(task);
        crate::profiling::at_start(task, worker);
        function(interfaces.as_mut_ptr(), (*task).cl_arg);
        crate::profiling::at_end(task, worker);
        crate::policy::at_end(task);
        if let Some(started) = started {
            crate::perfmodel::record(task, worker, chosen, started.elapsed().as_secs_f64() * 1e6);
        }
    }
}

impl Buffer {
    unsafe fn interface(&self, worker: usize) -> *mut c_void {
        let of = data(self.data);
        match &self.source {
            Source::Value(_) => of.value(),
            Source::Copy(round) => round.0.of_worker(of, &round.1, worker),
            Source::Scratch => {
                let copy = *of.scratch.lock().entry(worker).or_insert_with(|| {
                    let mut made = ptr::null_mut();
                    starpu_data_register_same(&raw mut made, self.data);
                    made
                });
                data(copy).value()
            }
        }
    }
}

/// A task whose body has ended and whose end has not been told.
struct Ended {
    task: *mut starpu_task,
    state: Arc<TaskState>,
    slot: Option<Slot>,
}

thread_local! {
    static ENDED: RefCell<VecDeque<Ended>> = const { RefCell::new(VecDeque::new()) };
    /// Tasks without a body whose turn has come while the thread ends another one.
    static EMPTY: RefCell<(bool, VecDeque<Ended>)> = const { RefCell::new((false, VecDeque::new())) };
}

/// True if tasks of the calling worker have ended whose ends have not been told.
pub fn is_any_ended() -> bool {
    ENDED.with_borrow(|all| !all.is_empty())
}

/// Tells the ends of the calling worker's tasks: their data have been released.
pub fn tell_ends() {
    while let Some(ended) = ENDED.with_borrow_mut(VecDeque::pop_front) {
        // SAFETY: its body has ended, and nobody else ends it.
        unsafe { end(ended.task, &ended.state, ended.slot) };
    }
}

/// Ends a task whose body has ended, unless it waits for the ends of others.
pub unsafe fn end(task: *mut starpu_task, state: &Arc<TaskState>, slot: Option<Slot>) {
    {
        let mut inner = state.inner.lock();
        if inner.ends_missing > 0 {
            inner.body_ended = Some(slot);
            return;
        }
    }
    if let Some(slot) = slot {
        slot.release();
    }
    tell(task, state);
}

/// Tells the end of a task: successors, tag, callback, waiting threads.
unsafe fn tell(task: *mut starpu_task, state: &Arc<TaskState>) {
    let Some(instance) = get() else { return };
    (*task).status = STARPU_TASK_FINISHED;
    let (successors, held_back) = {
        let mut inner = state.inner.lock();
        inner.fired = true;
        (inner.successors.clone(), std::mem::take(&mut inner.holds_back))
    };
    for edge in successors {
        let Some(later) = edge.of.state.upgrade() else { continue };
        let parked = later.inner.lock().gate.fire(edge.at);
        parked.into_iter().for_each(Parked::release);
    }
    held_back.iter().for_each(|earlier| starpu_task_end_dep_release(earlier.0));
    if (*task).use_tag != 0 {
        instance.tags.fire((*task).tag_id, false);
    }
    let callback = (*task).callback_func.map(|f| (f, (*task).callback_arg)).or_else(|| {
        (*task).cl.as_ref().and_then(|codelet| codelet.callback_func).map(|f| (f, (*task).callback_arg))
    });
    if let Some((callback, argument)) = callback {
        as_task(task, || callback(argument));
    }
    if (*task).regenerate != 0 {
        // It is submitted anew before this run is counted as ended, so that nobody sees zero.
        starpu_task_submit_again(task);
        instance.unfinished.remove();
        return;
    }
    // After the lock is released the waiting thread may destroy the task.
    let destroys = (*task).detach != 0 && (*task).destroy != 0 && (*task).synchronous == 0;
    let mut inner = state.inner.lock();
    inner.submitted = false;
    inner.ended = true;
    state.changed.notify_all();
    drop(inner);
    if destroys {
        free_task(task);
    }
    instance.unfinished.remove();
}

unsafe fn starpu_task_submit_again(task: *mut starpu_task) {
    if submit(task) != 0 {
        complain(format_args!("a regenerated task could not be submitted again"));
    }
}

pub unsafe fn free_task(task: *mut starpu_task) {
    starpu_task_clean(task);
    free(task.cast());
}

/// Returns name `name` with the lifetime of the process.
fn lasting(name: &CStr) -> &'static str {
    thread_local! {
        static KNOWN: RefCell<Vec<(usize, &'static str)>> = const { RefCell::new(Vec::new()) };
    }
    let address = name.as_ptr() as usize;
    KNOWN.with_borrow_mut(|known| {
        let found = known.iter().find(|(at, text)| *at == address && text.as_bytes() == name.to_bytes());
        if let Some((_, text)) = found {
            return *text;
        }
        let text = crate::names::keep(&name.to_string_lossy());
        if known.len() >= 64 {
            known.clear();
        }
        known.push((address, text));
        text
    })
}

unsafe fn name_of(task: *mut starpu_task) -> &'static str {
    let name = starpu_task_get_name(task);
    if name.is_null() { "task" } else { lasting(CStr::from_ptr(name)) }
}

unsafe fn mode_at(
    task: *mut starpu_task,
    variable: bool,
    at: usize,
) -> Result<starpu_data_access_mode, String> {
    let missing = || format!("buffer {at} has no mode: fill modes or dyn_modes");
    let codelet = (*task).cl;
    let found = |array: &[starpu_data_access_mode], dynamic: *mut starpu_data_access_mode| {
        if dynamic.is_null() { array.get(at).copied() } else { Some(*dynamic.add(at)) }
    };
    let of_codelet = if variable { None } else { found(&(*codelet).modes, (*codelet).dyn_modes) };
    // A codelet may leave the modes to its tasks.
    let of_task = || found(&(*task).modes, (*task).dyn_modes);
    let mode = of_codelet.filter(|&mode| mode != 0).or_else(of_task).ok_or_else(missing)?;
    let kinds = STARPU_RW | STARPU_SCRATCH | STARPU_REDUX;
    if mode & kinds == 0 && mode & STARPU_NONE == 0 { Err(missing()) } else { Ok(mode) }
}

/// True for a task that no worker runs.
unsafe fn is_empty(task: *mut starpu_task) -> bool {
    let codelet = (*task).cl;
    codelet.is_null() || place(task) == STARPU_NOWHERE
}

/// Returns the kinds of worker on which the task may run; 0: those that have a function.
unsafe fn place(task: *mut starpu_task) -> u32 {
    if (*task).where_ >= 0 { (*task).where_ as u32 } else { (*(*task).cl).where_ }
}

/// Returns true if some worker may run the task.
unsafe fn has_worker(instance: &Instance, task: *mut starpu_task) -> bool {
    let place = place(task);
    (place == 0 || place & STARPU_CPU != 0) && (0..instance.workers).any(|worker| allowed(task, worker))
}

/// Submits a task. Returns 0 or a negative error number; then nothing has been submitted.
pub unsafe fn submit(task: *mut starpu_task) -> c_int {
    let Some(instance) = needed("starpu_task_submit") else { return -errno::ENODEV };
    let synchronous = (*task).synchronous != 0;
    if synchronous && must_not_wait("starpu_task_submit of a synchronous task") {
        return -errno::EDEADLK;
    }
    if !is_empty(task) && !has_worker(instance, task) {
        return -errno::ENODEV;
    }
    let state = state(task);
    let work = match Work::prepare(instance, task, Arc::clone(&state)) {
        Ok(work) => work,
        Err(why) => {
            complain(format_args!("starpu_task_submit of {}: {why}", name_of(task)));
            return -errno::EINVAL;
        }
    };
    if synchronous {
        (*task).detach = 0;
    }
    let ends_missing = {
        let mut inner = state.inner.lock();
        (inner.submitted, inner.ended, inner.fired) = (true, false, false);
        inner.ends_missing
    };
    (*task).status = STARPU_TASK_BLOCKED;
    crate::profiling::at_submit(task);
    crate::policy::at_submit(task);
    instance.unfinished.add();
    let apart = is_empty(task) || (*task).prologue_callback_func.is_some() || ends_missing > 0;
    let before = ordered_behind(instance, task).into_iter().collect();
    let submission =
        Submission { work, before, apart, tag_passed: (*task).use_tag == 0, tasks_passed: false };
    let submitted = submission.advance(instance);
    if let Err(code) = submitted {
        instance.unfinished.remove();
        state.inner.lock().submitted = false;
        return code;
    }
    if synchronous {
        wait_for(instance, &state);
        if (*task).destroy != 0 {
            free_task(task);
        }
    }
    0
}

/// A task that is being submitted, with its declared predecessors.
pub struct Submission {
    work: Box<Work>,
    before: Vec<TaskRef>,
    /// True if its data are held apart: for a task that no worker runs, one whose prologue runs
    /// when they are there, and one that ends later than its body.
    apart: bool,
    /// True once it need not wait for other tags.
    tag_passed: bool,
    /// True once it need not wait for declared tasks.
    tasks_passed: bool,
}

impl Submission {
    /// Submits the task, unless it has no data and has to wait: then it is parked. One with data
    /// takes its place in their order at once, behind events.
    pub unsafe fn advance(mut self, instance: &Instance) -> Result<(), c_int> {
        let task = self.work.task;
        let state = Arc::clone(&self.work.state);
        if !self.work.accesses.is_empty() {
            let mut event = |name| {
                let event = Event::of(&instance.rt, name).ok()?;
                self.before.push(event.task().clone());
                Some(Parked::Event(event))
            };
            if !self.tag_passed {
                let _ = instance.tags.give((*task).tag_id, task, || event("tag"));
            }
            let _ = state.inner.lock().gate.arrive(|| event("tasks"));
            return self.submit(instance);
        }
        if !std::mem::replace(&mut self.tag_passed, true) {
            let park = || Some(Parked::Task(self));
            return match instance.tags.give((*task).tag_id, task, park) {
                Passage::Parked => Ok(()),
                Passage::Free(park) => park().map_or(Ok(()), |parked| parked.go_on(instance)),
            };
        }
        if !std::mem::replace(&mut self.tasks_passed, true) {
            let park = || Some(Parked::Task(self));
            let passage = state.inner.lock().gate.arrive(park);
            return match passage {
                Passage::Parked => Ok(()),
                Passage::Free(park) => park().map_or(Ok(()), |parked| parked.go_on(instance)),
            };
        }
        self.submit(instance)
    }

    unsafe fn submit(self, instance: &Instance) -> Result<(), c_int> {
        if self.apart {
            submit_apart(instance, self.work, &self.before)
        } else {
            submit_work(instance, self.work, &self.before)
        }
    }
}

/// Order of tasks on one worker.
struct WorkerOrder {
    /// Number of the task that runs next.
    next: u32,
    /// Events that tasks with later numbers wait for.
    waiting: BTreeMap<u32, Event>,
}

static ORDER: Mutex<BTreeMap<usize, WorkerOrder>> = Mutex::new(BTreeMap::new());

/// Forgets the orders of tasks on workers, at the end of an instance.
pub fn forget_order() {
    ORDER.lock().clear();
}

/// Returns the predecessor of a task that has a number in the order of its worker, unless it is the
/// next one.
unsafe fn ordered_behind(instance: &Instance, task: *mut starpu_task) -> Option<TaskRef> {
    let number = (*task).workerorder;
    if number == 0 || (*task).execute_on_a_specific_worker == 0 {
        return None;
    }
    let mut order = ORDER.lock();
    let first = || WorkerOrder { next: 1, waiting: BTreeMap::new() };
    let of_worker = order.entry((*task).workerid as usize).or_insert_with(first);
    if number <= of_worker.next {
        return None;
    }
    let event = Event::of(&instance.rt, "order").ok()?;
    let before = event.task().clone();
    of_worker.waiting.insert(number, event);
    Some(before)
}

/// Lets the task that follows in the order of the worker run.
unsafe fn next_in_order(task: *mut starpu_task) {
    let number = (*task).workerorder;
    if number == 0 || (*task).execute_on_a_specific_worker == 0 {
        return;
    }
    let released = ORDER.lock().get_mut(&((*task).workerid as usize)).and_then(|of_worker| {
        of_worker.next = of_worker.next.max(number + 1);
        of_worker.waiting.remove(&(number + 1))
    });
    drop(released);
}

/// Submits the part of a task that a worker runs.
unsafe fn submit_work(instance: &Instance, mut work: Box<Work>, before: &[TaskRef]) -> Result<(), c_int> {
    let task = work.task;
    let codelet = (*task).cl;
    let restricted = (*task).execute_on_a_specific_worker != 0
        || !(*task).workerids.is_null()
        || (*codelet).can_execute.is_some();
    work.plain = work.slot.is_none()
        && (*task).detach != 0
        && (*task).destroy != 0
        && (*task).use_tag == 0
        && (*task).regenerate == 0
        && (*task).callback_func.is_none()
        && (*codelet).callback_func.is_none();
    let name = name_of(task);
    let options =
        UntypedOptions { name, priority: (*task).priority, after: before, restricted, flops: (*task).flops };
    match untyped::submit(&instance.rt, options, work) {
        Ok(_) => Ok(()),
        Err(error) => {
            complain(format_args!("starpu_task_submit of {name}: {error}"));
            Err(-errno::EINVAL)
        }
    }
}

/// Submits a task whose data are held apart.
unsafe fn submit_apart(instance: &Instance, mut work: Box<Work>, before: &[TaskRef]) -> Result<(), c_int> {
    let slot = Slot::default();
    let mut held = Vec::new();
    for access in std::mem::take(&mut work.accesses) {
        // A turn among tasks that commute is the worker's; its place in the order is held here.
        if access.mode == Mode::Commute || !access.ordered {
            let token = access.handle.clone();
            work.accesses.push(TokenAccess { handle: token, mode: Mode::Commute, ordered: false });
        }
        if access.ordered {
            held.push(access);
        }
    }
    work.slot = Some(slot.clone());
    // SAFETY: the turn has come, and the task has not begun.
    let hold = untyped::hold(&instance.rt, held, before, move || unsafe { begin(work) });
    match hold {
        Ok(hold) => {
            slot.keep(hold);
            Ok(())
        }
        Err(error) => {
            complain(format_args!("starpu_task_submit: {error}"));
            Err(-errno::EINVAL)
        }
    }
}

/// Begins a task whose data are held apart: their turn has come.
unsafe fn begin(work: Box<Work>) {
    let (task, state, slot) = (work.task, Arc::clone(&work.state), work.slot.clone());
    if let Some(prologue) = (*task).prologue_callback_func {
        as_task(task, || prologue((*task).prologue_callback_arg));
    }
    if !is_empty(task) {
        let Some(instance) = get() else { return };
        if submit_work(instance, work, &[]).is_err() {
            end(task, &state, slot);
        }
        return;
    }
    as_task(task, || {
        if let Some(callback) = (*task).prologue_callback_pop_func {
            callback((*task).prologue_callback_pop_arg);
        }
        if let Some(callback) = (*task).epilogue_callback_func {
            callback((*task).epilogue_callback_arg);
        }
    });
    work.undo();
    end_empty(Ended { task, state, slot });
}

/// Ends an empty task. One that becomes ready by the end of another one waits for that, so that the
/// stack does not grow with the length of a chain.
unsafe fn end_empty(ended: Ended) {
    let first = EMPTY.with_borrow_mut(|(busy, waiting)| {
        waiting.push_back(ended);
        !std::mem::replace(busy, true)
    });
    if !first {
        return;
    }
    while let Some(next) = EMPTY.with_borrow_mut(|(_, waiting)| waiting.pop_front()) {
        end(next.task, &next.state, next.slot);
    }
    EMPTY.with_borrow_mut(|(busy, _)| *busy = false);
}

pub fn wait_for(instance: &Instance, state: &TaskState) {
    untyped::rouse(&instance.rt);
    let mut inner = state.inner.lock();
    while !inner.ended {
        state.changed.wait(&mut inner);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_clean(task: *mut starpu_task) {
    let task = &mut *task;
    let arguments = [
        (task.cl_arg_free, &mut task.cl_arg),
        (task.cl_ret_free, &mut task.cl_ret),
        (task.callback_arg_free, &mut task.callback_arg),
        (task.soon_callback_arg_free, &mut task.soon_callback_arg),
        (task.prologue_callback_arg_free, &mut task.prologue_callback_arg),
        (task.prologue_callback_pop_arg_free, &mut task.prologue_callback_pop_arg),
        (task.epilogue_callback_arg_free, &mut task.epilogue_callback_arg),
    ];
    for (owned, pointer) in arguments {
        if owned != 0 {
            free(std::mem::replace(pointer, ptr::null_mut()));
        }
    }
    free(std::mem::replace(&mut task.dyn_handles, ptr::null_mut()).cast());
    free(std::mem::replace(&mut task.dyn_interfaces, ptr::null_mut()).cast());
    free(std::mem::replace(&mut task.dyn_modes, ptr::null_mut()).cast());
    free(std::mem::replace(&mut task.dyn_nodes, ptr::null_mut()).cast());
    free(std::mem::replace(&mut task.workerids, ptr::null_mut()).cast());
    crate::profiling::forget(task);
    let state = std::mem::replace(&mut task.starpu_private, ptr::null_mut());
    if !state.is_null() {
        drop(Arc::from_raw(state.cast::<TaskState>()));
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_end_dep_release(task: *mut starpu_task) {
    let state = state(task);
    let ended = {
        let mut inner = state.inner.lock();
        inner.ends_missing = inner.ends_missing.saturating_sub(1);
        if inner.ends_missing == 0 { inner.body_ended.take() } else { None }
    };
    if let Some(slot) = ended {
        end(task, &state, slot);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_get_name(task: *mut starpu_task) -> *const c_char {
    let Some(task) = task.as_ref() else { return ptr::null() };
    if !task.name.is_null() {
        return task.name;
    }
    let Some(codelet) = task.cl.as_ref() else { return ptr::null() };
    if !codelet.name.is_null() {
        return codelet.name;
    }
    starpu_task_get_model_name(ptr::from_ref(task).cast_mut())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_get_model_name(task: *mut starpu_task) -> *const c_char {
    let model = task.as_ref().and_then(|task| task.cl.as_ref()).and_then(|cl| cl.model.as_ref());
    model.map_or(ptr::null(), |model| model.symbol)
}
