//! Times of tasks and workers, traces, bounds and counters.

mod bound;
mod counters;
mod fxt;
mod knobs;
mod tables;

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::instance;
use crate::instance::errno::EINVAL;
use crate::types::*;

pub(crate) use counters::{
    at_ready, is_collecting, starpu_perf_counter_collection_start, starpu_perf_counter_collection_stop,
};
pub(crate) use fxt::{at_shutdown, trace_wanted};

/// Times are taken: of every task that is submitted from now on, and of the workers.
static STATUS: AtomicBool = AtomicBool::new(false);

/// The work of a worker since it was asked last.
#[derive(Clone, Copy)]
struct Done {
    since: Time,
    executing: u64,
    tasks: c_int,
    flops: f64,
}

static DONE: [Mutex<Done>; STARPU_NMAXWORKERS] =
    [const { Mutex::new(Done { since: Time(0), executing: 0, tasks: 0, flops: 0.0 }) }; STARPU_NMAXWORKERS];

/// A time of the monotonic clock, in nanoseconds.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Time(u64);

unsafe extern "C" {
    fn clock_gettime(clock: c_int, time: *mut timespec) -> c_int;
}

impl Time {
    fn now() -> Time {
        const CLOCK_MONOTONIC: c_int = 1;
        let mut time = timespec::default();
        // SAFETY: the place is valid, and the clock exists on every Linux.
        unsafe { clock_gettime(CLOCK_MONOTONIC, &raw mut time) };
        Time(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    fn c(self) -> timespec {
        timespec { tv_sec: (self.0 / 1_000_000_000) as i64, tv_nsec: (self.0 % 1_000_000_000) as _ }
    }

    fn of(time: timespec) -> Time {
        Time(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

fn wanted() -> bool {
    STATUS.load(Ordering::Relaxed)
}

/// Whether anything of a task's run is recorded.
fn observed() -> bool {
    wanted() || bound::recorded() || is_collecting()
}

// ---- What the runtime tells ---------------------------------------------------------------------

/// Notes that a task is submitted.
///
/// # Safety
///
/// `task` is a task.
pub(crate) unsafe fn at_submit(task: *mut starpu_task) {
    // SAFETY: as the caller vouches.
    unsafe { counters::at_submit(task) };
    if !wanted() {
        return;
    }
    // SAFETY: as the caller vouches; the record is the task's alone.
    unsafe {
        if (*task).profiling_info.is_null() {
            (*task).profiling_info = Box::into_raw(Box::default());
        }
        let now = Time::now().c();
        (*(*task).profiling_info) = starpu_profiling_task_info {
            submit_time: now,
            push_start_time: now,
            push_end_time: now,
            workerid: -1,
            ..Default::default()
        };
    }
}

thread_local! {
    static STARTED: std::cell::Cell<Time> = const { std::cell::Cell::new(Time(0)) };
}

/// Notes that a worker begins the function of a task.
///
/// # Safety
///
/// `task` is a task.
pub(crate) unsafe fn at_start(task: *mut starpu_task, worker: usize) {
    if !observed() {
        return;
    }
    let now = Time::now();
    STARTED.set(now);
    if is_collecting() {
        // SAFETY: as the caller vouches.
        unsafe { counters::at_start(task) };
    }
    // SAFETY: the record is the task's alone.
    if let Some(info) = unsafe { (*task).profiling_info.as_mut() } {
        let now = now.c();
        (info.pop_start_time, info.pop_end_time) = (now, now);
        (info.acquire_data_start_time, info.acquire_data_end_time) = (now, now);
        info.start_time = now;
        info.workerid = worker as c_int;
    }
}

/// Notes that a worker has ended the function of a task.
///
/// # Safety
///
/// `task` is a task whose codelet and data are still there.
pub(crate) unsafe fn at_end(task: *mut starpu_task, worker: usize) {
    // SAFETY: as the caller vouches.
    count(unsafe { (*task).cl } as usize, worker);
    if !observed() {
        return;
    }
    let (start, end) = (STARTED.get(), Time::now());
    let lasted = end.0.saturating_sub(start.0);
    // SAFETY: as the caller vouches; the record is the task's alone.
    unsafe {
        if let Some(info) = (*task).profiling_info.as_mut() {
            let now = end.c();
            info.end_time = now;
            (info.release_data_start_time, info.release_data_end_time) = (now, now);
            (info.callback_start_time, info.callback_end_time) = (now, now);
        }
        bound::record(task, lasted as f64 * 1e-3);
        if is_collecting() {
            counters::at_end(task, worker, lasted as f64 * 1e-3);
        }
        if wanted()
            && let Some(done) = DONE.get(worker)
        {
            let mut done = done.lock();
            done.executing += lasted;
            done.tasks += 1;
            done.flops += (*task).flops;
        }
    }
}

/// Numbers of executions, by worker and codelet. They are not kept in the codelets themselves:
/// those of a program may be constants, and neighbouring workers share a cache line there.
static COUNTS: [Counts; STARPU_NMAXWORKERS] = [const { Counts::new() }; STARPU_NMAXWORKERS];

#[repr(align(128))]
struct Counts {
    /// The codelet that the worker has executed last, and how often in a row; the worker alone
    /// writes them, the number after the codelet.
    last: AtomicUsize,
    row: AtomicU64,
    before: Mutex<Vec<(usize, u64)>>,
}

impl Counts {
    const fn new() -> Self {
        Counts { last: AtomicUsize::new(0), row: AtomicU64::new(0), before: Mutex::new(Vec::new()) }
    }

    /// Counts an execution by the calling worker.
    #[inline]
    fn count(&self, codelet: usize) {
        if self.last.load(Ordering::Relaxed) != codelet {
            self.change(codelet);
        }
        self.row.store(self.row.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn change(&self, codelet: usize) {
        let mut before = self.before.lock();
        let (last, row) = (self.last.load(Ordering::Relaxed), self.row.load(Ordering::Relaxed));
        match before.iter_mut().find(|count| count.0 == last) {
            Some(count) => count.1 += row,
            None => before.push((last, row)),
        }
        self.row.store(0, Ordering::Relaxed);
        self.last.store(codelet, Ordering::Relaxed);
    }

    /// Returns the number of executions of a codelet.
    fn of(&self, codelet: usize) -> u64 {
        let before = self.before.lock();
        let earlier = before.iter().find(|count| count.0 == codelet).map_or(0, |count| count.1);
        let last = self.last.load(Ordering::Relaxed) == codelet;
        earlier + if last { self.row.load(Ordering::Relaxed) } else { 0 }
    }
}

fn count(codelet: usize, worker: usize) {
    if let Some(counts) = COUNTS.get(worker) {
        counts.count(codelet);
    }
}

/// Frees the times of a task.
///
/// # Safety
///
/// `task` is a task whose record came from [`at_submit`], or is null.
pub(crate) unsafe fn forget(task: *mut starpu_task) {
    // SAFETY: the record comes from Box::into_raw.
    unsafe {
        let info = std::mem::replace(&mut (*task).profiling_info, ptr::null_mut());
        if !info.is_null() {
            drop(Box::from_raw(info));
        }
    }
}

// ---- What programs call -------------------------------------------------------------------------

/// Forgets what the workers have done so far.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_profiling_init() {
    for done in &DONE {
        *done.lock() = Done { since: Time::now(), executing: 0, tasks: 0, flops: 0.0 };
    }
}

/// Does nothing: files of traces are named by process.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_profiling_set_id(_id: c_int) {}

/// Switches profiling on or off and returns what it was before.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_profiling_status_set(status: c_int) -> c_int {
    let before = STATUS.swap(status != 0, Ordering::SeqCst);
    if status != 0 && !before {
        starpu_profiling_init();
    }
    c_int::from(before)
}

/// Returns 1 if profiling is on.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_profiling_status_get() -> c_int {
    c_int::from(STATUS.load(Ordering::SeqCst))
}

/// Writes what a worker did since the last call, and begins anew; with a null pointer it only does
/// the latter. Returns 0, or `-EINVAL` if there is no such worker.
///
/// # Safety
///
/// `info` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_profiling_worker_get_info(
    worker: c_int,
    info: *mut starpu_profiling_worker_info,
) -> c_int {
    let at = usize::try_from(worker).unwrap_or(usize::MAX);
    if at >= instance::workers() {
        return -EINVAL;
    }
    let now = Time::now();
    let done = {
        let mut done = DONE[at].lock();
        std::mem::replace(&mut *done, Done { since: now, executing: 0, tasks: 0, flops: 0.0 })
    };
    let total = now.0.saturating_sub(done.since.0);
    // A task that runs across the moment of the call belongs to the next period whole.
    let executing = Time(done.executing.min(total)).c();
    let sleeping = Time(total.saturating_sub(done.executing)).c();
    // SAFETY: null or valid, as the caller vouches.
    if let Some(info) = unsafe { info.as_mut() } {
        *info = starpu_profiling_worker_info {
            start_time: done.since.c(),
            total_time: Time(total).c(),
            executing_time: executing,
            sleeping_time: sleeping,
            all_executing_time: executing,
            all_sleeping_time: sleeping,
            executed_tasks: done.tasks,
            flops: done.flops,
            ..Default::default()
        };
    }
    0
}

/// Returns the time from one moment to another, in microseconds.
///
/// # Safety
///
/// Both pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_timing_timespec_delay_us(start: *mut timespec, end: *mut timespec) -> f64 {
    // SAFETY: as the caller vouches.
    unsafe { (Time::of(*end).0 as f64 - Time::of(*start).0 as f64) * 1e-3 }
}

/// Returns a time in microseconds.
///
/// # Safety
///
/// The pointer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_timing_timespec_to_us(time: *mut timespec) -> f64 {
    // SAFETY: as the caller vouches.
    unsafe { Time::of(*time).0 as f64 * 1e-3 }
}

/// Prints what the workers did since they were asked last, if STARPU_WORKER_STATS asks for it.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_profiling_worker_helper_display_summary() {
    if !asked("STARPU_WORKER_STATS") {
        return;
    }
    let mut all = 0;
    for worker in 0..instance::workers() as c_int {
        let mut info = starpu_profiling_worker_info::default();
        // SAFETY: the place is valid.
        unsafe { starpu_profiling_worker_get_info(worker, &raw mut info) };
        let (total, executing) = (Time::of(info.total_time).0, Time::of(info.executing_time).0);
        all += info.executed_tasks;
        eprintln!(
            "CPU {worker}: {} tasks, {:.2} of {:.2} ms in tasks ({:.1} %)",
            info.executed_tasks,
            executing as f64 * 1e-6,
            total as f64 * 1e-6,
            100.0 * executing as f64 / total.max(1) as f64
        );
    }
    eprintln!("all workers: {all} tasks");
}

/// Says that transfers between memory nodes are not counted, if STARPU_BUS_STATS asks for them.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_profiling_bus_helper_display_summary() {
    if asked("STARPU_BUS_STATS") {
        eprintln!("transfers: not counted");
    }
}

/// Says that memory is not counted by data, if STARPU_MEMORY_STATS asks for it.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_data_display_memory_stats() {
    if asked("STARPU_MEMORY_STATS") {
        eprintln!("memory of data: not counted");
    }
}

/// Prints what the variables STARPU_WORKER_STATS, STARPU_BUS_STATS and STARPU_MEMORY_STATS ask for.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_display_stats() {
    starpu_profiling_bus_helper_display_summary();
    starpu_profiling_worker_helper_display_summary();
    starpu_data_display_memory_stats();
}

fn asked(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| value.trim().parse::<i64>().is_ok_and(|value| value > 0))
}

/// Prints how often each worker ran a codelet.
///
/// # Safety
///
/// `codelet` is a codelet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_codelet_display_stats(codelet: *mut starpu_codelet) {
    // SAFETY: as the caller vouches.
    let codelet = unsafe { &*codelet };
    let mut name = codelet.name;
    // SAFETY: names are texts of C or null, and the model is one or null.
    unsafe {
        if name.is_null()
            && let Some(model) = codelet.model.as_ref()
        {
            name = model.symbol;
        }
        let name = if name.is_null() { "(no name)".into() } else { CStr::from_ptr(name).to_string_lossy() };
        eprintln!("Statistics for codelet {name}");
    }
    let address = ptr::from_ref(codelet) as usize;
    let counts: Vec<u64> = COUNTS.iter().map(|counts| counts.of(address)).collect();
    let total: u64 = counts.iter().sum();
    for (worker, &count) in counts.iter().enumerate().take(instance::workers()) {
        let share = if total == 0 { 0.0 } else { 100.0 * count as f64 / total as f64 };
        eprintln!("\tCPU {worker} -> {count} / {total} ({share:.2} %)");
    }
}

// ---- The bus between memory nodes ---------------------------------------------------------------

/// Returns 0: there are no links between memory nodes.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_bus_get_count() -> c_int {
    0
}

/// Returns -1: there is no link from one node to another.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_bus_get_id(_from: c_int, _to: c_int) -> c_int {
    -1
}

/// Defines functions that answer `-EINVAL`, as no link has the number.
macro_rules! no_link {
    ($($name:ident)*) => {$(
        /// Returns `-EINVAL`: there is no such link.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(_link: c_int) -> c_int {
            -EINVAL
        }
    )*};
}
no_link!(starpu_bus_get_src starpu_bus_get_dst starpu_bus_get_direct starpu_bus_get_ngpus);

/// Does nothing: there is no such link.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_bus_set_direct(_link: c_int, _direct: c_int) {}

/// Does nothing: there is no such link.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_bus_set_ngpus(_link: c_int, _gpus: c_int) {}

/// Returns `-EINVAL`: there is no such link.
///
/// # Safety
///
/// As C demands of the pointer, which is not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_bus_get_profiling_info(
    _link: c_int,
    _info: *mut starpu_profiling_bus_info,
) -> c_int {
    -EINVAL
}
