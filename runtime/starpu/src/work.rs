//! The life of a task: its submission, its execution, and its end.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_uint, c_void};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;
use zellige_runtime::internal::untyped::{self, TokenAccess, Untyped};
use zellige_runtime::sched::ReadyTask;
use zellige_runtime::{Mode, TaskError};

use crate::acquire::Slot;
use crate::c::free;
use crate::data::{Carried, data, leave, mode_of, prepare};
use crate::gate::{Edge, Gate, Parked};
use crate::handles::starpu_data_register_same;
use crate::instance::{Instance, as_task, complain, get};
use crate::reduction::{Copies, Reduction};
use crate::submission::{next_in_order, submit};
use crate::types::*;

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
    pub task: *mut starpu_task,
    pub state: Arc<TaskState>,
    pub accesses: SmallVec<[TokenAccess; 3]>,
    buffers: SmallVec<[Buffer; 3]>,
    /// Handles that it uses without an order.
    users: Vec<starpu_data_handle_t>,
    /// The turn on its data, if it is held apart.
    pub slot: Option<Slot>,
    /// Says whether it runs, for a task of a transaction.
    runs: Option<Arc<AtomicBool>>,
    /// True if nothing can notice whether the task ends before or after its data are released.
    pub plain: bool,
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
    pub unsafe fn prepare(
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
    pub unsafe fn undo(&self) {
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
pub struct Ended {
    pub task: *mut starpu_task,
    pub state: Arc<TaskState>,
    pub slot: Option<Slot>,
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

pub unsafe fn name_of(task: *mut starpu_task) -> &'static str {
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

/// Ends an empty task. One that becomes ready by the end of another one waits for that, so that the
/// stack does not grow with the length of a chain.
pub unsafe fn end_empty(ended: Ended) {
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
