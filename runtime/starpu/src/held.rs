//! Workers that take tasks only when the program says so: those that it drives, and those that are
//! switched off.

use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};
use zellige_runtime::internal::untyped;

use crate::instance::errno::EINVAL;
use crate::instance::{complain, get, must_not_wait, needed};
use crate::types::*;

/// Progress of a driven worker with the one task that it was asked to run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    None,
    Asked,
    Runs,
}

/// State of a worker.
#[derive(Clone, Copy)]
struct WorkerHold {
    off: bool,
    driven: bool,
    /// True while `starpu_driver_run` lets it take tasks.
    lent: bool,
    step: Step,
}

/// States of all workers.
struct WorkerHolds {
    workers: [WorkerHold; STARPU_NMAXWORKERS],
    terminates: bool,
}

const FREE: WorkerHold = WorkerHold { off: false, driven: false, lent: false, step: Step::None };

static ALL: Mutex<WorkerHolds> =
    Mutex::new(WorkerHolds { workers: [FREE; STARPU_NMAXWORKERS], terminates: false });
static CHANGED: Condvar = Condvar::new();
/// True if some worker is not free.
static ANY: AtomicBool = AtomicBool::new(false);

/// True if some worker does not take tasks as it likes.
#[inline]
pub fn is_any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// True if a worker may take a task; what it has taken before has ended.
#[inline]
pub fn may_take(worker: usize) -> bool {
    !is_any() || may_take_now(worker)
}

#[cold]
fn may_take_now(worker: usize) -> bool {
    let mut all = ALL.lock();
    let held = &mut all.workers[worker];
    if held.step == Step::Runs {
        held.step = Step::None;
        CHANGED.notify_all();
    }
    !held.off && (!held.driven || held.lent || held.step == Step::Asked)
}

/// Notes whether a worker that may take a task has found one.
#[inline]
pub fn took(worker: usize, found: bool) {
    if is_any() {
        took_now(worker, found);
    }
}

#[cold]
fn took_now(worker: usize, found: bool) {
    let held = &mut ALL.lock().workers[worker];
    if held.step == Step::Asked {
        held.step = if found { Step::Runs } else { Step::None };
        CHANGED.notify_all();
    }
}

fn change(worker: usize, f: impl FnOnce(&mut WorkerHold)) {
    let mut all = ALL.lock();
    f(&mut all.workers[worker]);
    ANY.store(all.workers.iter().any(|held| held.off || held.driven), Ordering::SeqCst);
    drop(all);
    CHANGED.notify_all();
    if let Some(instance) = get() {
        untyped::wake(&instance.rt);
    }
}

/// Switches a worker on or off.
pub fn set_on(worker: usize, on: bool) {
    change(worker, |held| held.off = !on);
}

pub fn is_on(worker: usize) -> bool {
    !ALL.lock().workers[worker].off
}

/// Holds the workers that the configuration leaves to the program.
pub unsafe fn at_init(conf: &starpu_conf, workers: usize) {
    if conf.not_launched_drivers.is_null() {
        return;
    }
    for at in 0..conf.n_not_launched_drivers as usize {
        if let Some(worker) = worker_of(conf.not_launched_drivers.add(at)).filter(|&at| at < workers) {
            change(worker, |held| held.driven = true);
        }
    }
}

/// Lets all workers take tasks, at the end of an instance.
pub fn free_all() {
    let mut all = ALL.lock();
    *all = WorkerHolds { workers: [FREE; STARPU_NMAXWORKERS], terminates: false };
    ANY.store(false, Ordering::SeqCst);
    CHANGED.notify_all();
}

unsafe fn worker_of(driver: *const starpu_driver) -> Option<usize> {
    let driver = driver.as_ref().filter(|driver| driver.type_ == STARPU_CPU_WORKER)?;
    Some(driver.id as usize).filter(|&worker| worker < STARPU_NMAXWORKERS)
}

/// Returns the worker that a program may drive.
unsafe fn driven(function: &str, driver: *const starpu_driver) -> Result<usize, c_int> {
    if needed(function).is_none() || must_not_wait(function) {
        return Err(-EINVAL);
    }
    let found = worker_of(driver).filter(|&worker| ALL.lock().workers[worker].driven);
    found.ok_or_else(|| {
        complain(format_args!(
            "{function}: name this CPU worker in not_launched_drivers of the configuration"
        ));
        -EINVAL
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_drivers_preinit() {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_driver_init(driver: *mut starpu_driver) -> c_int {
    driven("starpu_driver_init", driver).map_or_else(|code| code, |_| 0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_driver_deinit(driver: *mut starpu_driver) -> c_int {
    driven("starpu_driver_deinit", driver).map_or_else(|code| code, |_| 0)
}

/// Lets a worker run one task, if there is one for it, and waits for the end of the task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_driver_run_once(driver: *mut starpu_driver) -> c_int {
    let worker = match driven("starpu_driver_run_once", driver) {
        Ok(worker) => worker,
        Err(code) => return code,
    };
    change(worker, |held| held.step = Step::Asked);
    let mut all = ALL.lock();
    while all.workers[worker].step != Step::None {
        CHANGED.wait(&mut all);
    }
    0
}

/// Lets a worker run tasks until `starpu_drivers_request_termination`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_driver_run(driver: *mut starpu_driver) -> c_int {
    let worker = match driven("starpu_driver_run", driver) {
        Ok(worker) => worker,
        Err(code) => return code,
    };
    change(worker, |held| held.lent = true);
    {
        let mut all = ALL.lock();
        while !all.terminates {
            CHANGED.wait(&mut all);
        }
    }
    change(worker, |held| held.lent = false);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_drivers_request_termination() {
    ALL.lock().terminates = true;
    CHANGED.notify_all();
}

/// Number of a worker of C, if there is such a worker.
pub fn known(worker: c_uint) -> Option<usize> {
    let worker = worker as usize;
    (worker < crate::instance::workers()).then_some(worker)
}
