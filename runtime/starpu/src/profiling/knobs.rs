//! Knobs that a program turns while it runs.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::sync::atomic::{AtomicI32, Ordering};

use super::tables::{INT32, Meter, entry};
use crate::instance::complain;
use crate::{held, perfmodel, policy};

const GLOBAL: c_int = 1;
const PER_WORKER: c_int = 3;
const PER_SCHEDULER: c_int = 5;
pub(super) static SCOPES: [(&CStr, c_int); 3] =
    [(c"global", GLOBAL), (c"per_worker", PER_WORKER), (c"per_scheduler", PER_SCHEDULER)];

const CALIBRATE: c_int = 1;
const CATCH: c_int = 2;
const BIND: c_int = 3;
const ENABLE: c_int = 4;
const MAX: c_int = 5;
const MIN: c_int = 6;

const fn knob(id: c_int, scope: c_int, name: &'static CStr, help: &'static CStr) -> Meter {
    Meter { id, scope, kind: INT32, name, help }
}

pub(super) static KNOBS: [Meter; 6] = [
    knob(CALIBRATE, GLOBAL, c"starpu.global.g_calibrate_knob", c"1: times of tasks are measured for models"),
    knob(CATCH, GLOBAL, c"starpu.global.g_enable_catch_signal_knob", c"kept only: signals are never caught"),
    knob(BIND, PER_WORKER, c"starpu.worker.w_bind_to_pu_knob", c"processor of the worker; to be read only"),
    knob(
        ENABLE,
        PER_WORKER,
        c"starpu.worker.w_enable_worker_knob",
        c"1: the worker takes tasks; 0: it does not",
    ),
    knob(MAX, PER_SCHEDULER, c"starpu.task.s_max_priority_cap_knob", c"highest priority that tasks have"),
    knob(MIN, PER_SCHEDULER, c"starpu.task.s_min_priority_cap_knob", c"lowest priority that tasks have"),
];

static CATCHES: AtomicI32 = AtomicI32::new(1);

/// Tells whether a knob has this scope, and reports it if not.
fn has(function: &str, id: c_int, scope: c_int) -> bool {
    let Some(knob) = entry(function, &KNOBS, id) else { return false };
    if knob.scope != scope {
        complain(format_args!("{function}: {} has another scope", knob.name.to_string_lossy()));
    }
    knob.scope == scope
}

fn worker_of(function: &str, worker: c_uint) -> Option<usize> {
    let known = held::known(worker);
    if known.is_none() {
        complain(format_args!("{function}: there is no worker {worker}"));
    }
    known
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_perf_knob_get_global_int32_value(id: c_int) -> i32 {
    match has("starpu_perf_knob_get_global_int32_value", id, GLOBAL) {
        true if id == CALIBRATE => i32::from(perfmodel::wanted()),
        true => CATCHES.load(Ordering::Relaxed),
        false => 0,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_perf_knob_set_global_int32_value(id: c_int, value: i32) {
    match has("starpu_perf_knob_set_global_int32_value", id, GLOBAL) {
        true if id == CALIBRATE => perfmodel::want(value > 0),
        true => CATCHES.store(value, Ordering::Relaxed),
        false => {}
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_perf_knob_get_per_worker_int32_value(id: c_int, worker: c_uint) -> i32 {
    const NAME: &str = "starpu_perf_knob_get_per_worker_int32_value";
    if !has(NAME, id, PER_WORKER) {
        return 0;
    }
    match worker_of(NAME, worker) {
        Some(worker) if id == ENABLE => i32::from(held::is_on(worker)),
        Some(worker) => crate::workers::starpu_worker_get_bindid(worker as c_int),
        None => -1,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_perf_knob_set_per_worker_int32_value(id: c_int, worker: c_uint, value: i32) {
    const NAME: &str = "starpu_perf_knob_set_per_worker_int32_value";
    if !has(NAME, id, PER_WORKER) {
        return;
    }
    match worker_of(NAME, worker) {
        Some(worker) if id == ENABLE => held::set_on(worker, value != 0),
        Some(_) => complain(format_args!("{NAME}: a worker stays where it is; use STARPU_WORKERS_CPUID")),
        None => {}
    }
}

/// Returns the highest or lowest priority of tasks; there is one pair for all policies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perf_knob_get_per_scheduler_int32_value(
    id: c_int,
    _policy: *const c_char,
) -> i32 {
    match has("starpu_perf_knob_get_per_scheduler_int32_value", id, PER_SCHEDULER) {
        true if id == MAX => policy::caps().1,
        true => policy::caps().0,
        false => 0,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perf_knob_set_per_scheduler_int32_value(
    id: c_int,
    _policy: *const c_char,
    value: i32,
) {
    const NAME: &str = "starpu_perf_knob_set_per_scheduler_int32_value";
    if has(NAME, id, PER_SCHEDULER) {
        let (min, max) = policy::caps();
        let (min, max) = if id == MAX { (min, value) } else { (value, max) };
        if min > max {
            return complain(format_args!(
                "{NAME}: the lowest priority {min} would be above the highest, {max}"
            ));
        }
        policy::set_caps(min, max);
    }
}

/// Defines access to knobs of a type that none has.
macro_rules! others {
    ($($type:ty: $get:ident $set:ident $get_worker:ident $set_worker:ident $get_policy:ident $set_policy:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $get(id: c_int) -> $type {
            wrong(stringify!($get), id);
            0 as $type
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $set(id: c_int, _value: $type) {
            wrong(stringify!($set), id);
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $get_worker(id: c_int, _worker: c_uint) -> $type {
            wrong(stringify!($get_worker), id);
            0 as $type
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn $set_worker(id: c_int, _worker: c_uint, _value: $type) {
            wrong(stringify!($set_worker), id);
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get_policy(id: c_int, _policy: *const c_char) -> $type {
            wrong(stringify!($get_policy), id);
            0 as $type
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set_policy(id: c_int, _policy: *const c_char, _value: $type) {
            wrong(stringify!($set_policy), id);
        }
    )*};
}

fn wrong(function: &str, id: c_int) {
    if let Some(knob) = entry(function, &KNOBS, id) {
        complain(format_args!("{function}: {} is an int32", knob.name.to_string_lossy()));
    }
}

others! {
    i64: starpu_perf_knob_get_global_int64_value starpu_perf_knob_set_global_int64_value
        starpu_perf_knob_get_per_worker_int64_value starpu_perf_knob_set_per_worker_int64_value
        starpu_perf_knob_get_per_scheduler_int64_value starpu_perf_knob_set_per_scheduler_int64_value;
    f32: starpu_perf_knob_get_global_float_value starpu_perf_knob_set_global_float_value
        starpu_perf_knob_get_per_worker_float_value starpu_perf_knob_set_per_worker_float_value
        starpu_perf_knob_get_per_scheduler_float_value starpu_perf_knob_set_per_scheduler_float_value;
    f64: starpu_perf_knob_get_global_double_value starpu_perf_knob_set_global_double_value
        starpu_perf_knob_get_per_worker_double_value starpu_perf_knob_set_per_worker_double_value
        starpu_perf_knob_get_per_scheduler_double_value starpu_perf_knob_set_per_scheduler_double_value;
}
