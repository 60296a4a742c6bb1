//! The functions on tasks: creation, submission, waiting, dependencies, copies.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::Arc;

use parking_lot::Mutex;
use zellige_runtime::Mode;
use zellige_runtime::internal::untyped;

use crate::c::malloc;
use crate::data::{Carried, data, prepare};
use crate::functions::{implementation, node_of_buffer};
use crate::gate::{Edge, Parked};
use crate::handles::starpu_data_register_same;
use crate::instance::{complain, current_task, errno, get, must_not_wait, needed};
use crate::state::{Successor, state};
use crate::submission::submit;
use crate::types::*;
use crate::work::free_task;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_init(task: *mut starpu_task) {
    ptr::write_bytes(task, 0, 1);
    let task = &mut *task;
    task.where_ = -1;
    task.sequential_consistency = 1;
    task.detach = 1;
    task.predicted = f64::NAN;
    task.predicted_transfer = f64::NAN;
    task.predicted_start = f64::NAN;
    task.magic = STARPU_TASK_MAGIC;
    task.sched_ctx = STARPU_NMAX_SCHED_CTXS;
    task.workerid = u32::MAX;
    task.iterations = ITERATION.get();
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_create() -> *mut starpu_task {
    let task = crate::pool::allocate();
    if !task.is_null() {
        starpu_task_init(task);
        (*task).destroy = 1;
    }
    task
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_create_sync(
    handle: starpu_data_handle_t,
    mode: starpu_data_access_mode,
) -> *mut starpu_task {
    let task = starpu_task_create();
    static SYNCS: Mutex<Vec<(starpu_data_access_mode, Carried<starpu_codelet>)>> = Mutex::new(Vec::new());
    let mut known = SYNCS.lock();
    let found = known.iter().find(|(of, _)| *of == mode).map(|(_, codelet)| codelet.0);
    let codelet = found.unwrap_or_else(|| {
        // SAFETY: all zeros is a codelet without functions.
        let mut codelet: Box<starpu_codelet> = Box::new(std::mem::zeroed());
        codelet.where_ = STARPU_NOWHERE;
        codelet.nbuffers = 1;
        codelet.modes[0] = mode;
        let codelet = Box::into_raw(codelet);
        known.push((mode, Carried(codelet)));
        codelet
    });
    (*task).cl = codelet;
    (*task).handles[0] = handle;
    task
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_destroy(task: *mut starpu_task) {
    if task.is_null() {
        return;
    }
    if task == current_task() {
        // Its code runs: it goes at its end.
        (*task).destroy = 1;
        (*task).detach = 1;
        return;
    }
    if crate::state::is_submitted(task) {
        return complain(format_args!(
            "starpu_task_destroy: the task has been submitted and has not ended; set its destroy flag instead"
        ));
    }
    free_task(task);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_set_destroy(task: *mut starpu_task) {
    let state = state(task);
    let inner = state.inner.lock();
    if inner.ended && !inner.submitted {
        drop(inner);
        return free_task(task);
    }
    (*task).destroy = 1;
    (*task).detach = 1;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_submit(task: *mut starpu_task) -> c_int {
    submit(task)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_submit_nodeps(task: *mut starpu_task) -> c_int {
    (*task).sequential_consistency = 0;
    submit(task)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_submit_to_ctx(task: *mut starpu_task, context: c_uint) -> c_int {
    (*task).sched_ctx = context;
    submit(task)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_finished(task: *mut starpu_task) -> c_int {
    c_int::from(state(task).inner.lock().ended)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_wait(task: *mut starpu_task) -> c_int {
    let Some(instance) = needed("starpu_task_wait") else { return -errno::EINVAL };
    if must_not_wait("starpu_task_wait") {
        return -errno::EDEADLK;
    }
    if (*task).detach != 0 || (*task).synchronous != 0 {
        complain(format_args!("starpu_task_wait: set detach to 0 before the task is submitted"));
        return -errno::EINVAL;
    }
    let state = state(task);
    let known = {
        let inner = state.inner.lock();
        inner.submitted || inner.ended
    };
    if !known {
        complain(format_args!("starpu_task_wait: the task has not been submitted"));
        return -errno::EINVAL;
    }
    state.wait(instance);
    if (*task).destroy != 0 {
        free_task(task);
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_wait_array(tasks: *mut *mut starpu_task, count: c_uint) -> c_int {
    for at in 0..count as usize {
        let result = starpu_task_wait(*tasks.add(at));
        if result != 0 {
            return result;
        }
    }
    0
}

/// Waits until at most `most` tasks are left.
fn wait_until(function: &str, most: usize) -> c_int {
    let Some(instance) = needed(function) else { return -errno::EINVAL };
    if must_not_wait(function) {
        return -errno::EDEADLK;
    }
    untyped::rouse(&instance.rt);
    if most == 0 {
        // Failures cannot happen: functions of C return nothing.
        let _ = instance.rt.wait_all();
    }
    instance.unfinished.wait(most);
    if most == 0 {
        let _ = instance.rt.wait_all();
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_task_wait_for_all() -> c_int {
    wait_until("starpu_task_wait_for_all", 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_task_wait_for_n_submitted(count: c_uint) -> c_int {
    wait_until("starpu_task_wait_for_n_submitted", count as usize)
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_task_wait_for_all_in_ctx(_context: c_uint) -> c_int {
    wait_until("starpu_task_wait_for_all_in_ctx", 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_task_wait_for_n_submitted_in_ctx(_context: c_uint, count: c_uint) -> c_int {
    wait_until("starpu_task_wait_for_n_submitted_in_ctx", count as usize)
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_task_wait_for_no_ready() -> c_int {
    wait_until("starpu_task_wait_for_no_ready", 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_task_nready() -> c_int {
    crate::policy::ready() as c_int
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_task_nsubmitted() -> c_int {
    get().map_or(0, |instance| instance.unfinished.get() as c_int)
}

thread_local! {
    static ITERATION: std::cell::Cell<[std::ffi::c_long; 2]> = const { std::cell::Cell::new([-1, -1]) };
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_iteration_push(iteration: std::ffi::c_ulong) {
    let [outer, _] = ITERATION.get();
    let iteration = iteration as std::ffi::c_long;
    ITERATION.set(if outer == -1 { [iteration, -1] } else { [outer, iteration] });
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_iteration_pop() {
    let [outer, inner] = ITERATION.get();
    ITERATION.set(if inner == -1 { [-1, -1] } else { [outer, -1] });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_codelet_init(codelet: *mut starpu_codelet) {
    ptr::write_bytes(codelet, 0, 1);
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_task_get_current() -> *mut starpu_task {
    current_task()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_get_current_data_node(buffer: c_uint) -> c_int {
    let (task, local) = (current_task(), crate::gpus::node_here());
    if task.is_null() || (*task).cl.is_null() {
        return STARPU_MAIN_RAM;
    }
    node_of_buffer(task, buffer as usize, local).map_or(-1, |node| node as c_int)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_dup(task: *mut starpu_task) -> *mut starpu_task {
    let copy = crate::pool::allocate();
    if copy.is_null() {
        return copy;
    }
    ptr::copy_nonoverlapping(task, copy, 1);
    let twin = &mut *copy;
    twin.starpu_private = ptr::null_mut();
    twin.status = STARPU_TASK_INIT;
    twin.profiling_info = ptr::null_mut();
    twin.destroy = 1;
    // Two tasks must not free one argument.
    twin.cl_arg_free = 0;
    twin.callback_arg_free = 0;
    twin.prologue_callback_arg_free = 0;
    twin.prologue_callback_pop_arg_free = 0;
    twin.epilogue_callback_arg_free = 0;
    twin.soon_callback_arg_free = 0;
    if (*task).cl_arg_free != 0 && (*task).cl_arg_size > 0 {
        twin.cl_arg = malloc((*task).cl_arg_size);
        ptr::copy_nonoverlapping((*task).cl_arg.cast::<u8>(), twin.cl_arg.cast::<u8>(), (*task).cl_arg_size);
        twin.cl_arg_free = 1;
    }
    let buffers = (*task).nbuffers.max(0) as usize;
    twin.dyn_handles = copied((*task).dyn_handles, buffers.max(buffers_of(task)));
    twin.dyn_modes = copied((*task).dyn_modes, buffers.max(buffers_of(task)));
    twin.dyn_interfaces = ptr::null_mut();
    twin.workerids = copied((*task).workerids, (*task).workerids_len as usize);
    copy
}

unsafe fn buffers_of(task: *mut starpu_task) -> usize {
    (*task).cl.as_ref().map_or(0, |codelet| codelet.nbuffers.max(0) as usize)
}

unsafe fn copied<T>(from: *mut T, count: usize) -> *mut T {
    if from.is_null() || count == 0 {
        return ptr::null_mut();
    }
    let to = malloc(count * size_of::<T>()).cast::<T>();
    ptr::copy_nonoverlapping(from, to, count);
    to
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_task_set_implementation(_task: *mut starpu_task, _implementation: c_uint) {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_get_implementation(task: *mut starpu_task) -> c_uint {
    implementation(task, crate::instance::current_worker().unwrap_or(0)).unwrap_or(0) as c_uint
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_declare_deps_array(
    task: *mut starpu_task,
    count: c_uint,
    tasks: *mut *mut starpu_task,
) {
    let state = state(task);
    if state.inner.lock().submitted {
        return complain(format_args!(
            "starpu_task_declare_deps_array: the task has been submitted; declare what it depends on before"
        ));
    }
    for number in 0..count as usize {
        let earlier = crate::state::state(*tasks.add(number));
        let at = state.inner.lock().gate.declare();
        let mut before = earlier.inner.lock();
        let over = before.ended || before.fired;
        let of = Successor { task: Carried(task), state: Arc::downgrade(&state) };
        before.successors.push(Edge { of, at });
        drop(before);
        if over {
            // It does not fire any more for the next run.
            let parked = state.inner.lock().gate.fire(at);
            parked.into_iter().for_each(Parked::release);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_declare_end_deps_array(
    task: *mut starpu_task,
    count: c_uint,
    tasks: *mut *mut starpu_task,
) {
    for at in 0..count as usize {
        let earlier = state(*tasks.add(at));
        let mut inner = earlier.inner.lock();
        if !inner.ended {
            inner.holds_back.push(Carried(task));
            drop(inner);
            starpu_task_end_dep_add(task, 1);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_end_dep_add(task: *mut starpu_task, count: c_int) {
    state(task).inner.lock().ends_missing += count.max(0) as usize;
}

unsafe fn successors(
    task: *mut starpu_task,
    count: c_uint,
    array: *mut *mut starpu_task,
    only: impl Fn(*mut starpu_task) -> bool,
) -> c_int {
    let state = state(task);
    let inner = state.inner.lock();
    let found: Vec<_> =
        inner.successors.iter().map(|later| later.of.task.0).filter(|&later| only(later)).collect();
    for (at, later) in found.iter().take(count as usize).enumerate() {
        *array.add(at) = *later;
    }
    found.len() as c_int
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_get_task_succs(
    task: *mut starpu_task,
    count: c_uint,
    array: *mut *mut starpu_task,
) -> c_int {
    successors(task, count, array, |_| true)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_get_task_scheduled_succs(
    task: *mut starpu_task,
    count: c_uint,
    array: *mut *mut starpu_task,
) -> c_int {
    successors(task, count, array, |later| (*later).cl.as_ref().is_some_and(|cl| cl.where_ != STARPU_NOWHERE))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_create_sync_task(
    tag: starpu_tag_t,
    count: c_uint,
    tags: *mut starpu_tag_t,
    callback: starpu_callback_t,
    argument: *mut c_void,
) {
    crate::tags::starpu_tag_declare_deps_array(tag, count, tags);
    let task = starpu_task_create();
    (*task).use_tag = 1;
    (*task).tag_id = tag;
    (*task).callback_func = callback;
    (*task).callback_arg = argument;
    if submit(task) != 0 {
        free_task(task);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_create_callback_task(callback: starpu_callback_t, argument: *mut c_void) {
    let task = starpu_task_create();
    (*task).callback_func = callback;
    (*task).callback_arg = argument;
    if submit(task) != 0 {
        free_task(task);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_task_watchdog_set_hook(_hook: starpu_callback_t, _argument: *mut c_void) {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_ft_failed(task: *mut starpu_task) {
    (*task).failed = 1;
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_task_status_get_as_string(status: starpu_task_status) -> *const c_char {
    let name = match status {
        STARPU_TASK_INIT => c"STARPU_TASK_INIT",
        STARPU_TASK_BLOCKED => c"STARPU_TASK_BLOCKED",
        STARPU_TASK_READY => c"STARPU_TASK_READY",
        STARPU_TASK_RUNNING => c"STARPU_TASK_RUNNING",
        STARPU_TASK_FINISHED => c"STARPU_TASK_FINISHED",
        STARPU_TASK_BLOCKED_ON_TAG => c"STARPU_TASK_BLOCKED_ON_TAG",
        STARPU_TASK_BLOCKED_ON_TASK => c"STARPU_TASK_BLOCKED_ON_TASK",
        STARPU_TASK_BLOCKED_ON_DATA => c"STARPU_TASK_BLOCKED_ON_DATA",
        STARPU_TASK_STOPPED => c"STARPU_TASK_STOPPED",
        _ => c"unknown",
    };
    name.as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_set_limit_min_submitted_tasks(_limit: c_int) {}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_get_limit_min_submitted_tasks() -> c_int {
    -1
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_set_limit_max_submitted_tasks(_limit: c_int) {}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_get_limit_max_submitted_tasks() -> c_int {
    -1
}

/// Copies the value of one handle into another as a task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_cpy(
    target: starpu_data_handle_t,
    source: starpu_data_handle_t,
    asynchronous: c_int,
    callback: starpu_callback_t,
    argument: *mut c_void,
) -> c_int {
    let Some(instance) = needed("starpu_data_cpy") else { return -errno::EINVAL };
    let argument = Carried(argument);
    let call = move || {
        if let Some(callback) = callback {
            // SAFETY: the application's callback with its argument.
            unsafe { callback(argument.get()) };
        }
    };
    if target == source {
        call();
        return 0;
    }
    if asynchronous == 0 && must_not_wait("starpu_data_cpy") {
        return -errno::EDEADLK;
    }
    let prepared = prepare(instance, source, STARPU_R).and_then(|()| prepare(instance, target, STARPU_W));
    if let Err(why) = prepared {
        complain(format_args!("starpu_data_cpy: {why}"));
        return -errno::EINVAL;
    }
    let done = Arc::new(crate::instance::Signal::default());
    let told = Arc::clone(&done);
    let (to, from) = (Carried(target), Carried(source));
    let accesses = vec![data(target).access(Mode::Update), data(source).access(Mode::Read)];
    crate::reduction::submit(instance, "copy", accesses, move || {
        // SAFETY: the task has its turn on both.
        unsafe { data(to.get()).copy_from(data(from.get())) };
        call();
        told.set();
    });
    if asynchronous == 0 {
        done.wait(instance);
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_dup_ro(
    target: *mut starpu_data_handle_t,
    source: starpu_data_handle_t,
    asynchronous: c_int,
) -> c_int {
    starpu_data_register_same(target, source);
    starpu_data_cpy(*target, source, asynchronous, None, ptr::null_mut())
}
