//! Counters that a program reads while it runs, and the listeners that are called with them.

use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::tables::{DOUBLE, INT64, Meter, entry};
use crate::data::Carried;
use crate::held;
use crate::instance::complain;
use crate::types::*;

const GLOBAL: c_int = 2;
const PER_WORKER: c_int = 4;
const PER_CODELET: c_int = 6;
pub(super) static SCOPES: [(&CStr, c_int); 3] =
    [(c"global", GLOBAL), (c"per_worker", PER_WORKER), (c"per_codelet", PER_CODELET)];

const fn of(id: c_int, scope: c_int, kind: c_int, name: &'static CStr, help: &'static CStr) -> Meter {
    Meter { id, scope, kind, name, help }
}

const SUBMITTED: &CStr = c"tasks that were submitted since the collection began";
const PEAK_SUBMITTED: &CStr = c"most tasks at a time that were submitted and not ready";
const PEAK_READY: &CStr = c"most tasks at a time that were ready and not running";
const EXECUTED: &CStr = c"tasks that were executed since the collection began";
const TIME: &CStr = c"time of their functions, in microseconds";

pub(super) static COUNTERS: [Meter; 10] = [
    of(1, GLOBAL, INT64, c"starpu.task.g_total_submitted", SUBMITTED),
    of(2, GLOBAL, INT64, c"starpu.task.g_peak_submitted", PEAK_SUBMITTED),
    of(3, GLOBAL, INT64, c"starpu.task.g_peak_ready", PEAK_READY),
    of(4, PER_WORKER, INT64, c"starpu.task.w_total_executed", EXECUTED),
    of(5, PER_WORKER, DOUBLE, c"starpu.task.w_cumul_execution_time", TIME),
    of(6, PER_CODELET, INT64, c"starpu.task.c_total_submitted", SUBMITTED),
    of(7, PER_CODELET, INT64, c"starpu.task.c_peak_submitted", PEAK_SUBMITTED),
    of(8, PER_CODELET, INT64, c"starpu.task.c_peak_ready", PEAK_READY),
    of(9, PER_CODELET, INT64, c"starpu.task.c_total_executed", EXECUTED),
    of(10, PER_CODELET, DOUBLE, c"starpu.task.c_cumul_execution_time", TIME),
];

/// Numbers of tasks of a scope.
#[derive(Clone, Copy, Default)]
struct Tally {
    submitted: i64,
    waiting: i64,
    peak_waiting: i64,
    ready: i64,
    peak_ready: i64,
    executed: i64,
    microseconds: f64,
}

impl Tally {
    fn submit(&mut self) {
        self.submitted += 1;
        self.waiting += 1;
        self.peak_waiting = self.peak_waiting.max(self.waiting);
    }

    // Tasks from before the collection were not counted.
    fn become_ready(&mut self) {
        self.waiting = (self.waiting - 1).max(0);
        self.ready += 1;
        self.peak_ready = self.peak_ready.max(self.ready);
    }

    fn start(&mut self) {
        self.ready = (self.ready - 1).max(0);
    }

    fn end(&mut self, microseconds: f64) {
        self.executed += 1;
        self.microseconds += microseconds;
    }

    /// Returns the value of a counter.
    fn value(&self, id: c_int) -> f64 {
        match id {
            1 | 6 => self.submitted as f64,
            2 | 7 => self.peak_waiting as f64,
            3 | 8 => self.peak_ready as f64,
            4 | 9 => self.executed as f64,
            _ => self.microseconds,
        }
    }
}

/// Counters of all scopes, and who listens to them.
#[derive(Default)]
struct Tallies {
    global: Tally,
    workers: HashMap<usize, Tally>,
    codelets: HashMap<usize, Tally>,
    of_global: Option<Carried<Listener>>,
    of_workers: HashMap<usize, Carried<Listener>>,
    of_codelets: HashMap<usize, Carried<Listener>>,
}

static ALL: Mutex<Option<Tallies>> = Mutex::new(None);
static COLLECTING: AtomicBool = AtomicBool::new(false);

/// True while values are collected.
#[inline]
pub fn is_collecting() -> bool {
    COLLECTING.load(Ordering::Relaxed)
}

fn with_all<R>(f: impl FnOnce(&mut Tallies) -> R) -> R {
    f(ALL.lock().get_or_insert_default())
}

/// Changes the numbers of all and those of a codelet.
unsafe fn change(task: *mut starpu_task, f: impl Fn(&mut Tally)) {
    let codelet = (*task).cl as usize;
    with_all(|all| {
        f(&mut all.global);
        f(all.codelets.entry(codelet).or_default());
    });
}

/// Notes that a task is submitted.
#[inline]
pub(crate) unsafe fn at_submit(task: *mut starpu_task) {
    if is_collecting() {
        change(task, Tally::submit);
    }
}

/// Notes that a policy gets a task.
#[inline]
pub(crate) unsafe fn at_ready(task: *mut starpu_task) {
    if is_collecting() {
        change(task, Tally::become_ready);
    }
}

/// Notes that a worker begins the function of a task.
pub(super) unsafe fn at_start(task: *mut starpu_task) {
    change(task, Tally::start);
}

/// Notes that a worker has ended the function of a task, and calls those who listen.
pub(super) unsafe fn at_end(task: *mut starpu_task, worker: usize, microseconds: f64) {
    let codelet = (*task).cl;
    change(task, |tally| tally.end(microseconds));
    let samples = with_all(|all| {
        let of_worker = all.workers.entry(worker).or_default();
        of_worker.end(microseconds);
        let of_codelet = all.codelets.entry(codelet as usize).or_default();
        [
            (all.of_global, all.global, ptr::null_mut()),
            (all.of_workers.get(&worker).copied(), *of_worker, ptr::null_mut()),
            (all.of_codelets.get(&(codelet as usize)).copied(), *of_codelet, codelet.cast::<c_void>()),
        ]
    });
    for (listener, tally, codelet) in samples {
        let Some(listener) = listener else { continue };
        let Listener { enabled, callback, argument } = *listener.get();
        if let Some(callback) = callback {
            let mut sample = Sample { tally, enabled: (*enabled).enabled };
            let context = if codelet.is_null() { argument } else { codelet };
            callback(listener.get(), &raw mut sample, context);
        }
    }
}

/// Counters of one scope that a program wants.
pub struct Set {
    scope: c_int,
    /// A bit for each number of a counter.
    enabled: u32,
}

/// Values at one moment.
pub struct Sample {
    tally: Tally,
    enabled: u32,
}

type Callback = Option<unsafe extern "C" fn(*mut Listener, *mut Sample, *mut c_void)>;

/// A callback of the program with the counters that it reads.
#[derive(Clone, Copy)]
pub struct Listener {
    enabled: *const Set,
    callback: Callback,
    argument: *mut c_void,
}

/// Begins to collect values, anew.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_perf_counter_collection_start() {
    with_all(|all| {
        all.global = Tally::default();
        all.workers.clear();
        all.codelets.clear();
    });
    COLLECTING.store(true, Ordering::SeqCst);
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_perf_counter_collection_stop() {
    COLLECTING.store(false, Ordering::SeqCst);
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_perf_counter_set_alloc(scope: c_int) -> *mut Set {
    if SCOPES.iter().all(|known| known.1 != scope) {
        complain(format_args!("starpu_perf_counter_set_alloc: there is no scope {scope}"));
        return ptr::null_mut();
    }
    Box::into_raw(Box::new(Set { scope, enabled: 0 }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perf_counter_set_free(set: *mut Set) {
    if !set.is_null() {
        drop(Box::from_raw(set));
    }
}

unsafe fn enable(function: &str, set: *mut Set, id: c_int, on: bool) {
    let (Some(set), Some(counter)) = (set.as_mut(), entry(function, &COUNTERS, id)) else { return };
    if counter.scope != set.scope {
        return complain(format_args!("{function}: {} has another scope", counter.name.to_string_lossy()));
    }
    set.enabled = if on { set.enabled | 1 << id } else { set.enabled & !(1 << id) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perf_counter_set_enable_id(set: *mut Set, id: c_int) {
    enable("starpu_perf_counter_set_enable_id", set, id, true);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perf_counter_set_disable_id(set: *mut Set, id: c_int) {
    enable("starpu_perf_counter_set_disable_id", set, id, false);
}

/// Returns a listener; `callback` gets `argument`, or the codelet if it listens to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perf_counter_listener_init(
    set: *mut Set,
    callback: Callback,
    argument: *mut c_void,
) -> *mut Listener {
    if set.is_null() {
        complain(format_args!("starpu_perf_counter_listener_init: the set is NULL"));
        return ptr::null_mut();
    }
    Box::into_raw(Box::new(Listener { enabled: set, callback, argument }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perf_counter_listener_exit(listener: *mut Listener) {
    if !listener.is_null() {
        drop(Box::from_raw(listener));
    }
}

unsafe fn is_of(function: &str, listener: *mut Listener, scope: c_int) -> Option<Carried<Listener>> {
    let fits = listener.as_ref().is_some_and(|listener| (*listener.enabled).scope == scope);
    if !fits {
        complain(format_args!("{function}: the listener is NULL or of another scope"));
    }
    fits.then_some(Carried(listener))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perf_counter_set_global_listener(listener: *mut Listener) {
    let listener = is_of("starpu_perf_counter_set_global_listener", listener, GLOBAL);
    with_all(|all| all.of_global = listener);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perf_counter_set_per_worker_listener(
    worker: c_uint,
    listener: *mut Listener,
) {
    let listener = is_of("starpu_perf_counter_set_per_worker_listener", listener, PER_WORKER);
    if let (Some(worker), Some(listener)) = (held::known(worker), listener) {
        with_all(|all| all.of_workers.insert(worker, listener));
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perf_counter_set_all_per_worker_listeners(listener: *mut Listener) {
    for worker in 0..crate::instance::workers() {
        starpu_perf_counter_set_per_worker_listener(worker as c_uint, listener);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perf_counter_set_per_codelet_listener(
    codelet: *mut starpu_codelet,
    listener: *mut Listener,
) {
    if let Some(listener) = is_of("starpu_perf_counter_set_per_codelet_listener", listener, PER_CODELET) {
        with_all(|all| all.of_codelets.insert(codelet as usize, listener));
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_perf_counter_unset_global_listener() {
    with_all(|all| all.of_global = None);
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_perf_counter_unset_per_worker_listener(worker: c_uint) {
    with_all(|all| all.of_workers.remove(&(worker as usize)));
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_perf_counter_unset_all_per_worker_listeners() {
    with_all(|all| all.of_workers.clear());
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perf_counter_unset_per_codelet_listener(codelet: *mut starpu_codelet) {
    with_all(|all| all.of_codelets.remove(&(codelet as usize)));
}

unsafe fn value(function: &str, sample: *mut Sample, id: c_int, kind: c_int) -> f64 {
    let (Some(sample), Some(counter)) = (sample.as_ref(), entry(function, &COUNTERS, id)) else { return 0.0 };
    if counter.kind != kind || sample.enabled & 1 << id == 0 {
        let name = counter.name.to_string_lossy();
        complain(format_args!("{function}: {name} has another type or is not in the listener's set"));
        return 0.0;
    }
    sample.tally.value(id)
}

/// Defines functions that read a value of a sample.
macro_rules! values {
    ($($name:ident: $type:ty, $kind:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(sample: *mut Sample, id: c_int) -> $type {
            value(stringify!($name), sample, id, $kind) as $type
        }
    )*};
}

values! {
    starpu_perf_counter_sample_get_int32_value: i32, 1;
    starpu_perf_counter_sample_get_int64_value: i64, INT64;
    starpu_perf_counter_sample_get_float_value: f32, 3;
    starpu_perf_counter_sample_get_double_value: f64, DOUBLE;
}
