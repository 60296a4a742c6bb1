//! The life of a task: its submission, its execution, and its end.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;
use zellige_runtime::internal::untyped::{TokenAccess, Untyped};
use zellige_runtime::{Mode, TaskError};

use crate::acquire::Slot;
use crate::c::free;
use crate::data::{Data, data, leave, mode_of, prepare};
use crate::functions::{
    allowed, cpu_function, cuda_function, handle_at, implementation, mode_at, node_of_buffer,
};
use crate::gate::Parked;
use crate::gpus::{self, Gpu, gpu_of};
use crate::handles::starpu_data_register_same;
use crate::instance::{Instance, as_task, as_task_of, complain, get};
use crate::reduction::{Copies, Reduction};
use crate::state::{TaskState, known, over, state};
use crate::submission::{next_in_order, submit};
use crate::types::*;

/// Memory of a buffer that is not in its handle.
enum Source {
    /// In a copy of the worker.
    Scratch,
    /// In a copy of the worker, for a reduction.
    Copy(Arc<Copies>, Reduction),
}

/// A submitted task.
pub struct Work {
    pub task: *mut starpu_task,
    pub accesses: SmallVec<[TokenAccess; 3]>,
    rest: Option<Box<Rest>>,
    /// Number of buffers.
    buffers: u32,
    /// Accesses that take turns though they are ordered, a bit each; the last bit is for all
    /// further ones.
    turns: u64,
    /// True if nothing can notice whether the task ends before or after its data are released.
    pub plain: bool,
}

/// The parts of a task that few have.
#[derive(Default)]
struct Rest {
    /// Buffers whose memory is not in their handles.
    sources: Vec<(usize, Source)>,
    /// Handles that it uses without an order.
    users: Vec<starpu_data_handle_t>,
    /// The turn on its data, if it is held apart.
    slot: Option<Slot>,
    /// Says whether it runs, for a task of a transaction.
    runs: Option<Arc<AtomicBool>>,
}

// SAFETY: the task's structure and its data are the application's, which leaves them alone until
// the task has ended.
unsafe impl Send for Work {}
// SAFETY: as above.
unsafe impl Sync for Work {}

impl Work {
    /// Returns the work of a task without data.
    pub fn of(task: *mut starpu_task) -> Work {
        Work { task, accesses: SmallVec::new(), rest: None, buffers: 0, turns: 0, plain: false }
    }

    /// True if it is no more than that.
    pub fn is_bare(&self) -> bool {
        self.accesses.is_empty() && self.rest.is_none() && self.buffers == 0
    }

    /// Prepares all data of a task that is being submitted.
    #[inline]
    pub unsafe fn prepare(instance: &Instance, task: *mut starpu_task) -> Result<Work, String> {
        let mut this = Work::of(task);
        if !(*task).transaction.is_null()
            && let Some(epoch) = crate::extras::epoch(task)
        {
            this.accesses.push(epoch.access);
            this.rest().runs = Some(epoch.runs);
        }
        let codelet = (*task).cl;
        if codelet.is_null() {
            return Ok(this);
        }
        let variable = (*codelet).nbuffers == STARPU_VARIABLE_NBUFFERS;
        let count = if variable { (*task).nbuffers } else { (*codelet).nbuffers };
        this.buffers = count.max(0) as u32;
        for at in 0..this.buffers as usize {
            if let Err(why) = this.add_buffer(instance, variable, at) {
                this.undo();
                return Err(why);
            }
        }
        Ok(this)
    }

    fn rest(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }

    /// Keeps the turn on the data with the task.
    pub fn hold_apart(&mut self, slot: Slot) {
        self.rest().slot = Some(slot);
    }

    /// Returns the turn on its data, if it is held apart.
    pub fn slot(&self) -> Option<Slot> {
        self.rest.as_ref().and_then(|rest| rest.slot.clone())
    }

    #[inline]
    unsafe fn add_buffer(&mut self, instance: &Instance, variable: bool, at: usize) -> Result<(), String> {
        let task = self.task;
        let Some(handle) = handle_at(task, at) else {
            return Err("more buffers than STARPU_NMAXBUFS need dyn_handles".into());
        };
        let mode = mode_at(task, variable, at)?;
        prepare(instance, handle, mode)?;
        let of = data(handle);
        let Some(access) = mode_of(mode) else {
            of.users.add();
            self.rest().users.push(handle);
            self.rest().sources.push((at, Source::Scratch));
            return Ok(());
        };
        if mode & STARPU_REDUX != 0 {
            let reduction = of.order().reduction.clone();
            if let Some(copies) = reduction.copies().cloned() {
                self.rest().sources.push((at, Source::Copy(copies, reduction.without_copies())));
            }
        }
        if let Some(known) = (0..at).find(|&earlier| handle_at(task, earlier) == Some(handle))
            && self.strengthen(known, variable, access)
        {
            return Ok(());
        }
        let each = (*task).handles_sequential_consistency;
        let ordered = (*task).sequential_consistency != 0 && (each.is_null() || *each.add(at) != 0);
        let ordered = ordered && of.is_ordered();
        if !ordered {
            of.takes_turns.store(true, Ordering::Relaxed);
            of.users.add();
            self.rest().users.push(handle);
        } else if of.takes_turns.load(Ordering::Relaxed) {
            self.turns |= 1 << self.accesses.len().min(63);
        }
        self.accesses.push(TokenAccess { ordered, ..of.access(access) });
        Ok(())
    }

    /// Lets the access of buffer `known` stand for another one to the same handle, too, in the
    /// stronger mode; returns false if that buffer has none.
    #[cold]
    unsafe fn strengthen(&mut self, known: usize, variable: bool, access: Mode) -> bool {
        let task = self.task;
        let orders = |at: usize| mode_at(task, variable, at).is_ok_and(|mode| mode_of(mode).is_some());
        if !orders(known) {
            return false;
        }
        let is_first = |at: &usize| {
            let handle = handle_at(task, *at);
            orders(*at) && (0..*at).all(|earlier| !orders(earlier) || handle_at(task, earlier) != handle)
        };
        let before = self.rest.as_ref().is_some_and(|rest| rest.runs.is_some());
        let number = usize::from(before) + (0..known).filter(is_first).count();
        let first = &mut self.accesses[number].mode;
        *first = if *first == access { access } else { Mode::Update };
        true
    }

    /// Takes back what a task that does not run has announced.
    pub unsafe fn undo(&self) {
        if let Some(rest) = &self.rest {
            rest.users.iter().for_each(|&user| leave(user));
        }
    }
}

impl Untyped for Work {
    fn accesses(&self) -> &[TokenAccess] {
        &self.accesses
    }

    fn takes_turn(&self, access: usize) -> bool {
        self.turns >> access.min(63) & 1 != 0
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
        // Calls of the application on this thread are for its GPU.
        gpu_of(worker).into_iter().for_each(Gpu::make_current);
        as_task_of(worker, task, || {
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
            end(task, None);
        } else {
            ENDED.with_borrow_mut(|all| all.push_back(Ended { task, slot: self.slot() }));
            ANY_ENDED.set(true);
        }
    }

    unsafe fn call(&self, worker: usize) {
        let task = self.task;
        let runs = self.rest.as_ref().and_then(|rest| rest.runs.as_ref());
        if runs.is_some_and(|runs| !runs.load(Ordering::Acquire)) {
            return;
        }
        let gpu = gpu_of(worker);
        let codelet = (*task).cl;
        let is_usual = (*task).execute_on_a_specific_worker == 0 && (*codelet).can_execute.is_none();
        let is_first = is_usual && gpu.is_none() && cpu_function(codelet, 0).is_some();
        let chosen = if is_first { 0 } else { implementation(task, worker).unwrap_or(0) };
        let function =
            if gpu.is_some() { cuda_function(codelet, chosen) } else { cpu_function(codelet, chosen) };
        let Some(function) = function else {
            complain(format_args!(
                "{} was given to worker {worker}, for which it has no function",
                name_of(task)
            ));
            std::process::abort()
        };
        let mut many = SmallVec::<[*mut c_void; 0]>::new();
        let interfaces = self.interfaces(worker, gpu, &mut many);
        (*task).status = STARPU_TASK_RUNNING;
        let started = crate::perfmodel::wanted().then(std::time::Instant::now);
        crate::policy::at_start(task);
        crate::profiling::at_start(task, worker);
        function(interfaces, (*task).cl_arg);
        if let Some(gpu) = gpu {
            gpu.ends_task();
        }
        crate::profiling::at_end(task, worker);
        crate::policy::at_end(task);
        if let Some(started) = started {
            crate::perfmodel::record(task, worker, chosen, started.elapsed().as_secs_f64() * 1e6);
        }
    }

    /// Fills the interfaces of the buffers into the task, or into `many` if they are too many.
    unsafe fn interfaces(
        &self,
        worker: usize,
        gpu: Option<&Gpu>,
        many: &mut SmallVec<[*mut c_void; 0]>,
    ) -> *mut *mut c_void {
        let task = self.task;
        let count = self.buffers as usize;
        let mut to = (&raw mut (*task).interfaces).cast::<*mut c_void>();
        if count > STARPU_NMAXBUFS {
            many.resize(count, ptr::null_mut());
            to = many.as_mut_ptr();
        }
        let mut handles = (&raw mut (*task).handles).cast::<starpu_data_handle_t>();
        if !(*task).dyn_handles.is_null() {
            handles = (*task).dyn_handles;
        }
        let sources = self.rest.as_ref().map_or(&[][..], |rest| &rest.sources);
        let mode =
            |at| mode_at(task, (*(*task).cl).nbuffers == STARPU_VARIABLE_NBUFFERS, at).unwrap_or(STARPU_RW);
        if gpu.is_none() && sources.is_empty() && (*(*task).cl).specific_nodes == 0 {
            for at in 0..count {
                *to.add(at) = data(*handles.add(at)).value_for(|| mode(at));
            }
            return to;
        }
        gpu.into_iter().for_each(Gpu::begins_task);
        let local = gpus::node_of(worker);
        for at in 0..count {
            let source = sources.iter().find(|(of, _)| *of == at).map(|(_, source)| source);
            let of = data(*handles.add(at));
            let of = source.map_or(of, |source| data(source.handle(of, worker)));
            *to.add(at) = match node_of_buffer(task, at, local) {
                Some(node) => of.value_on(node, mode(at)),
                None => of.interface(local),
            };
        }
        // The function launches on its own GPU.
        gpu.into_iter().for_each(Gpu::make_current);
        to
    }
}

impl Source {
    /// Returns the handle of the copy.
    unsafe fn handle(&self, of: &Data, worker: usize) -> starpu_data_handle_t {
        match self {
            Source::Copy(copies, reduction) => copies.of_worker(of, reduction, worker),
            Source::Scratch => *of.scratch.lock().entry(worker).or_insert_with(|| {
                let mut made = ptr::null_mut();
                starpu_data_register_same(&raw mut made, of.handle());
                made
            }),
        }
    }
}

/// A task whose body has ended and whose end has not been told.
pub struct Ended {
    pub task: *mut starpu_task,
    pub slot: Option<Slot>,
}

thread_local! {
    static ENDED: RefCell<VecDeque<Ended>> = const { RefCell::new(VecDeque::new()) };
    static ANY_ENDED: Cell<bool> = const { Cell::new(false) };
    /// Tasks without a body whose turn has come while the thread ends another one.
    static EMPTY: RefCell<(bool, VecDeque<Ended>)> = const { RefCell::new((false, VecDeque::new())) };
}

/// Tells the ends of the calling worker's tasks: their data have been released.
#[inline]
pub fn tell_ends() {
    if ANY_ENDED.replace(false) {
        tell_all_ends();
    }
}

fn tell_all_ends() {
    while let Some(ended) = ENDED.with_borrow_mut(VecDeque::pop_front) {
        // SAFETY: its body has ended, and nobody else ends it.
        unsafe { end(ended.task, ended.slot) };
    }
}

/// Ends a task whose body has ended, unless it waits for the ends of others.
pub unsafe fn end(task: *mut starpu_task, slot: Option<Slot>) {
    let state = known(task);
    if let Some(state) = &state {
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

/// Lets the tasks go on that have declared this one as their predecessor.
#[inline(never)]
unsafe fn fire(state: &TaskState) {
    let (successors, held_back) = {
        let mut inner = state.inner.lock();
        if std::mem::replace(&mut inner.fired, true) {
            return;
        }
        (inner.successors.clone(), std::mem::take(&mut inner.holds_back))
    };
    for edge in successors {
        let Some(later) = edge.of.state.upgrade() else { continue };
        let parked = later.inner.lock().gate.fire(edge.at);
        parked.into_iter().for_each(Parked::release);
    }
    held_back.iter().for_each(|earlier| starpu_task_end_dep_release(earlier.0));
}

/// Tells the end of a task: successors, tag, callback, waiting threads.
unsafe fn tell(task: *mut starpu_task, state: Option<Arc<TaskState>>) {
    let Some(instance) = get() else { return };
    (*task).status = STARPU_TASK_FINISHED;
    if let Some(state) = &state {
        fire(state);
    }
    if (*task).use_tag != 0 {
        instance.tags.fire((*task).tag_id, false);
    }
    let of_codelet = || (*task).cl.as_ref().and_then(|codelet| codelet.callback_func);
    if let Some(callback) = (*task).callback_func.or_else(of_codelet) {
        as_task(task, || callback((*task).callback_arg));
    }
    if (*task).regenerate != 0 {
        // It is submitted anew before this run is counted as ended, so that nobody sees zero.
        starpu_task_submit_again(task);
        instance.unfinished.remove();
        return;
    }
    // After its end is known the waiting thread may destroy the task.
    let destroys = (*task).detach != 0 && (*task).destroy != 0 && (*task).synchronous == 0;
    if state.is_some() || !(if destroys { known(task).is_none() } else { over(task) }) {
        let state = self::state(task);
        // For those who have asked while this was under way.
        fire(&state);
        state.set_ended(state.inner.lock());
    }
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
    crate::pool::give_back(task);
}

/// Returns name `name` with the lifetime of the process.
unsafe fn lasting(name: *const c_char) -> &'static str {
    thread_local! {
        /// Names by address, of which the last one is looked at first.
        static KNOWN: RefCell<Vec<(*const c_char, &'static str)>> = const { RefCell::new(Vec::new()) };
        static LAST: Cell<(*const c_char, &'static str)> = const { Cell::new((ptr::null(), "")) };
    }
    let is = |(at, text): &(*const c_char, &'static str)| *at == name && is_text(name, text);
    let last = LAST.get();
    if is(&last) {
        return last.1;
    }
    let text = KNOWN.with_borrow_mut(|known| {
        if let Some((_, text)) = known.iter().find(|&entry| is(entry)) {
            return *text;
        }
        let text = crate::names::keep(&CStr::from_ptr(name).to_string_lossy());
        if known.len() >= 64 {
            known.clear();
        }
        known.push((name, text));
        text
    });
    LAST.set((name, text));
    text
}

/// True if the string of C is this text: the program may have put another one there.
#[inline]
unsafe fn is_text(name: *const c_char, text: &str) -> bool {
    let same = |(at, &byte): (usize, &u8)| *name.add(at) as u8 == byte;
    text.as_bytes().iter().enumerate().all(same) && *name.add(text.len()) == 0
}

pub unsafe fn name_of(task: *mut starpu_task) -> &'static str {
    let name = starpu_task_get_name(task);
    if name.is_null() { "task" } else { lasting(name) }
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
        end(next.task, next.slot);
    }
    EMPTY.with_borrow_mut(|(busy, _)| *busy = false);
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
    drop_array(&mut task.dyn_handles);
    drop_array(&mut task.dyn_interfaces);
    drop_array(&mut task.dyn_modes);
    drop_array(&mut task.dyn_nodes);
    drop_array(&mut task.workerids);
    crate::profiling::forget(task);
    crate::state::clean(task);
}

/// Frees an array of C, if there is one: most tasks have none.
#[inline]
unsafe fn drop_array<T>(array: &mut *mut T) {
    if !array.is_null() {
        free(std::mem::replace(array, ptr::null_mut()).cast());
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
        end(task, slot);
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
