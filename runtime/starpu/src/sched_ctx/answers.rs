//! Data of programs in contexts, priorities, collections of workers, and what contexts do not do.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use super::{EINVAL, MAIN, list, needed, starpu_sched_ctx_get_workers_list, with};
use crate::instance::complain;
use crate::policy;
use crate::types::*;
use crate::workers::{delete_collection, new_collection};

/// Defines functions that keep and give back a pointer of the program's.
macro_rules! kept {
    ($field:ident, $set:ident, $get:ident) => {
        /// Keeps a pointer for the program.
        #[unsafe(no_mangle)]
        pub extern "C" fn $set(context: c_uint, data: *mut c_void) {
            needed(stringify!($set), context, |context| context.$field = data);
        }

        /// Returns the pointer that the program has kept; null if there is none.
        #[unsafe(no_mangle)]
        pub extern "C" fn $get(context: c_uint) -> *mut c_void {
            with(context, |context| context.$field).unwrap_or(ptr::null_mut())
        }
    };
}
kept!(user, starpu_sched_ctx_set_user_data, starpu_sched_ctx_get_user_data);
kept!(policy_data, starpu_sched_ctx_set_policy_data, starpu_sched_ctx_get_policy_data);

/// Returns the policy of the program's own, which all contexts share; null if it is zellige's.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_get_sched_policy(_context: c_uint) -> *mut starpu_sched_policy {
    policy::starpu_sched_get_sched_policy()
}

/// Returns null: no context has a function that is told of its start.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_get_sched_policy_callback(
    _context: c_uint,
) -> Option<unsafe extern "C" fn(c_uint)> {
    None
}

/// Returns 1: every context schedules tasks.
///
/// # Safety
///
/// `awake` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_sched_ctx_has_starpu_scheduler(
    _context: c_uint,
    awake: *mut c_uint,
) -> c_uint {
    // SAFETY: as the caller vouches.
    if let Some(awake) = unsafe { awake.as_mut() } {
        *awake = 0;
    }
    1
}

/// Calls a function of the program on the calling thread and returns what it returns.
///
/// # Safety
///
/// `function` may be called with `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_sched_ctx_exec_parallel_code(
    function: Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>,
    argument: *mut c_void,
    _context: c_uint,
) -> *mut c_void {
    // SAFETY: as the caller vouches.
    function.map_or(ptr::null_mut(), |function| unsafe { function(argument) })
}

/// Gives a new array of the processors of a context's workers, which the caller frees.
///
/// # Safety
///
/// Both pointers are valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_sched_ctx_get_available_cpuids(
    context: c_uint,
    processors: *mut *mut c_int,
    count: *mut c_int,
) {
    // SAFETY: as the caller vouches. A worker's processor has its number.
    unsafe { count.write(starpu_sched_ctx_get_workers_list(context, processors) as c_int) };
}

/// Binds the calling thread to a processor.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_bind_current_thread_to_cpuid(processor: c_uint) {
    crate::workers::starpu_bind_thread_on_cpu(processor as c_int);
}

/// Returns the worker that a task would run on: the first of the list; -1 if it is empty.
///
/// # Safety
///
/// `workers` points at `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_sched_ctx_book_workers_for_task(
    _context: c_uint,
    workers: *mut c_int,
    count: c_int,
) -> c_int {
    // SAFETY: as the caller vouches.
    unsafe { list(workers, count.max(0) as usize) }.first().copied().unwrap_or(-1)
}

/// Does nothing: workers are not kept for a task.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_unbook_workers_for_task(_context: c_uint, _worker: c_int) {}

/// Returns 0: no worker stands for a context within another.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_worker_is_primary_for_child_ctx(
    _worker: c_int,
    _context: c_uint,
) -> c_uint {
    0
}

/// Returns `STARPU_NMAX_SCHED_CTXS`: no worker stands for a context.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_primary_get_context(_worker: c_int) -> c_uint {
    STARPU_NMAX_SCHED_CTXS
}

/// Returns the number of tasks that are ready to run.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_get_nready_tasks(_context: c_uint) -> c_int {
    policy::ready() as c_int
}

/// Returns 0: the operations of ready tasks are not counted.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_get_nready_flops(_context: c_uint) -> f64 {
    0.0
}

/// Defines functions that do nothing, as nothing is counted by context.
macro_rules! nothing {
    ($($name:ident($($type:ty),*);)*) => {$(
        /// Does nothing: nothing is counted or moved by context.
        ///
        /// # Safety
        ///
        /// As C demands of the arguments, which are not used.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($(_: $type),*) {}
    )*};
}
nothing! {
    starpu_sched_ctx_list_task_counters_increment(c_uint, c_int);
    starpu_sched_ctx_list_task_counters_decrement(c_uint, c_int);
    starpu_sched_ctx_list_task_counters_reset(c_uint, c_int);
    starpu_sched_ctx_list_task_counters_increment_all_ctx_locked(*mut starpu_task, c_uint);
    starpu_sched_ctx_list_task_counters_decrement_all_ctx_locked(*mut starpu_task, c_uint);
    starpu_sched_ctx_list_task_counters_reset_all(*mut starpu_task, c_uint);
    starpu_sched_ctx_revert_task_counters_ctx_locked(c_uint, f64);
    starpu_sched_ctx_move_task_to_ctx_locked(*mut starpu_task, c_uint, c_uint);
    starpu_sched_ctx_worker_shares_tasks_lists(c_int, c_int);
    starpu_sched_ctx_set_priority(*mut c_int, c_int, c_uint, c_uint);
    starpu_sched_ctx_call_pushed_task_cb(c_int, c_uint);
    starpu_sched_ctx_notify_hypervisor_exists();
    starpu_sched_ctx_update_start_resizing_sample(c_uint, f64);
}

/// Returns 1: every worker looks at every context alike.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_get_priority(_worker: c_int, _context: c_uint) -> c_uint {
    1
}

/// Returns the least priority of a context.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_get_min_priority(context: c_uint) -> c_int {
    with(context, |context| context.least).flatten().unwrap_or_else(|| policy::priority_range().0)
}

/// Returns the highest priority of a context.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_get_max_priority(context: c_uint) -> c_int {
    with(context, |context| context.most).flatten().unwrap_or_else(|| policy::priority_range().1)
}

/// Sets the least priority of a context.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_set_min_priority(context: c_uint, priority: c_int) -> c_int {
    if context == MAIN as c_uint {
        return policy::starpu_sched_set_min_priority(priority);
    }
    let set = needed("starpu_sched_ctx_set_min_priority", context, |context| context.least = Some(priority));
    set.map_or(-EINVAL, |()| 0)
}

/// Sets the highest priority of a context.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_set_max_priority(context: c_uint, priority: c_int) -> c_int {
    if context == MAIN as c_uint {
        return policy::starpu_sched_set_max_priority(priority);
    }
    let set = needed("starpu_sched_ctx_set_max_priority", context, |context| context.most = Some(priority));
    set.map_or(-EINVAL, |()| 0)
}

/// Returns 1 if the least priority of a context was set.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_min_priority_is_set(context: c_uint) -> c_int {
    c_int::from(with(context, |context| context.least.is_some()).unwrap_or(false))
}

/// Returns 1 if the highest priority of a context was set.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_max_priority_is_set(context: c_uint) -> c_int {
    c_int::from(with(context, |context| context.most.is_some()).unwrap_or(false))
}

/// Returns -1: no context has a stream of a device.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_get_stream_worker(_context: c_uint) -> c_int {
    -1
}

/// Returns 0: no context has multiprocessors of a device.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_get_nsms(_context: c_uint) -> c_int {
    0
}

/// Gives an empty interval: no worker has multiprocessors of a device.
///
/// # Safety
///
/// Both pointers are valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_sched_ctx_get_sms_interval(
    _worker: c_int,
    start: *mut c_int,
    end: *mut c_int,
) {
    // SAFETY: as the caller vouches.
    unsafe {
        start.write(-1);
        end.write(-1);
    }
}

/// Gives a context a collection of its workers and returns it.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_create_worker_collection(
    context: c_uint,
    kind: starpu_worker_collection_type,
) -> *mut starpu_worker_collection {
    needed("starpu_sched_ctx_create_worker_collection", context, |context| {
        if let Some(old) = context.collection.take() {
            delete_collection(old);
        }
        let list = context.collection.insert(new_collection(kind, &context.workers));
        &raw mut **list
    })
    .unwrap_or(ptr::null_mut())
}

/// Returns the collection of the workers of a context.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_get_worker_collection(context: c_uint) -> *mut starpu_worker_collection {
    needed("starpu_sched_ctx_get_worker_collection", context, |context| {
        let workers = &context.workers;
        let list = context.collection.get_or_insert_with(|| new_collection(STARPU_WORKER_LIST, workers));
        &raw mut **list
    })
    .unwrap_or(ptr::null_mut())
}

/// Releases the collection of a context.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_delete_worker_collection(context: c_uint) {
    needed("starpu_sched_ctx_delete_worker_collection", context, |context| {
        if let Some(list) = context.collection.take() {
            delete_collection(list);
        }
    });
}

/// Says that there is no hypervisor to be told of a context.
///
/// # Safety
///
/// As C demands of the pointer, which is not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_sched_ctx_set_perf_counters(_context: c_uint, _counters: *mut c_void) {
    complain(format_args!(
        "starpu_sched_ctx_set_perf_counters: there is no hypervisor of scheduling contexts"
    ));
}

/// Returns 0: there is no hypervisor.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_check_if_hypervisor_exists() -> c_uint {
    0
}
