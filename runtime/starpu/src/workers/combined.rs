//! Workers that run a task together, of which there are none, and what policies say about workers.

use std::ffi::{c_int, c_uint, c_void};

use super::{EINVAL, ESRCH, starpu_worker_get_id};
use crate::instance;
use crate::policy::starpu_worker_can_execute_task;
use crate::types::*;

// ---- Combined workers ---------------------------------------------------------------------------

/// Returns 1 if this is the number of several workers together, of which there are none.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_is_combined_worker(worker: c_int) -> c_uint {
    c_uint::from(worker >= instance::workers() as c_int)
}

/// Returns the worker that the calling thread works for: itself.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_combined_worker_get_id() -> c_int {
    starpu_worker_get_id()
}

/// Returns the number of threads that run the current task together, which is 1.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_combined_worker_get_size() -> c_int {
    if instance::current_worker().is_some() { 1 } else { -1 }
}

/// Returns the number of the calling thread among those that run the current task together.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_combined_worker_get_rank() -> c_int {
    if instance::current_worker().is_some() { 0 } else { -1 }
}

/// Refuses to join workers: returns `-EINVAL`.
///
/// # Safety
///
/// As C demands of the array, which is not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_combined_worker_assign_workerid(
    _count: c_int,
    _workers: *mut c_int,
) -> c_int {
    instance::complain(format_args!(
        "starpu_combined_worker_assign_workerid: there are no combined workers; a parallel task runs on one"
    ));
    -EINVAL
}

/// Refuses to describe a combined worker, of which there are none: returns `-ESRCH`.
///
/// # Safety
///
/// As C demands of the pointers, which are not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_combined_worker_get_description(
    _worker: c_int,
    _size: *mut c_int,
    _workers: *mut *mut c_int,
) -> c_int {
    -ESRCH
}

/// Returns 1 if a worker can run a task in one of its implementations.
///
/// # Safety
///
/// `task` is a task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_combined_worker_can_execute_task(
    worker: c_uint,
    task: *mut starpu_task,
    implementation: c_uint,
) -> c_int {
    // SAFETY: as the caller vouches.
    unsafe { starpu_worker_can_execute_task(worker, task, implementation) }
}

/// Does nothing: a parallel task runs on one worker, which waits for nobody.
///
/// # Safety
///
/// As C demands of the task, which is not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_parallel_task_barrier_init(_task: *mut starpu_task, _worker: c_int) {}

/// Does nothing: a parallel task runs on one worker, which waits for nobody.
///
/// # Safety
///
/// As C demands of the task, which is not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_parallel_task_barrier_init_n(_task: *mut starpu_task, _size: c_int) {}

/// Does nothing: workers are not joined.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_find_all_worker_combinations() {}

// ---- What policies say around their own locks ---------------------------------------------------

thread_local! {
    static RELAXED: std::cell::Cell<c_uint> = const { std::cell::Cell::new(0) };
}

/// Returns 0: no operation of the scheduler hinders this worker.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_sched_op_pending() -> c_int {
    0
}

/// Notes that other threads may look at this worker's state. Nothing here depends on it.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_relax_on() {
    RELAXED.set(RELAXED.get() + 1);
}

/// Ends what `starpu_worker_relax_on` began.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_relax_off() {
    RELAXED.set(RELAXED.get().saturating_sub(1));
}

/// Returns 1 between `starpu_worker_relax_on` and `starpu_worker_relax_off`; 1 outside workers.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_get_relax_state() -> c_int {
    c_int::from(RELAXED.get() > 0 || instance::current_worker().is_none())
}

/// Does nothing: the state of a worker needs no lock, policies are called one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_lock(_worker: c_int) {}

/// Returns 0: the lock is always to be had.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_trylock(_worker: c_int) -> c_int {
    0
}

/// Does nothing, as `starpu_worker_lock`.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_unlock(_worker: c_int) {}

/// Does nothing, as `starpu_worker_lock`.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_lock_self() {}

/// Does nothing, as `starpu_worker_lock`.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_unlock_self() {}

// ---- The lock and the condition of a worker -----------------------------------------------------

/// Room for a `pthread_mutex_t` or a `pthread_cond_t`, whose initial value on Linux is all zero.
#[repr(C, align(16))]
struct Room(std::cell::UnsafeCell<[u64; 8]>);
// SAFETY: the contents are changed by the functions of POSIX threads alone.
unsafe impl Sync for Room {}

static MUTEXES: [Room; STARPU_NMAXWORKERS] =
    [const { Room(std::cell::UnsafeCell::new([0; 8])) }; STARPU_NMAXWORKERS];
static CONDITIONS: [Room; STARPU_NMAXWORKERS] =
    [const { Room(std::cell::UnsafeCell::new([0; 8])) }; STARPU_NMAXWORKERS];

/// Gives a policy the mutex and the condition of a worker, for its own use.
///
/// # Safety
///
/// Both pointers are valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_worker_get_sched_condition(
    worker: c_int,
    mutex: *mut *mut c_void,
    condition: *mut *mut c_void,
) {
    let at = usize::try_from(worker).unwrap_or(0).min(STARPU_NMAXWORKERS - 1);
    // SAFETY: as the caller vouches.
    unsafe {
        mutex.write(MUTEXES[at].0.get().cast());
        condition.write(CONDITIONS[at].0.get().cast());
    }
}
