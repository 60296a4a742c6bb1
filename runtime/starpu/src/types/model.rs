//! Profiling, performance models, policies and lists.

use super::*;

/// The times of one task.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct starpu_profiling_task_info {
    pub submit_time: timespec,
    pub push_start_time: timespec,
    pub push_end_time: timespec,
    pub pop_start_time: timespec,
    pub pop_end_time: timespec,
    pub acquire_data_start_time: timespec,
    pub acquire_data_end_time: timespec,
    pub start_time: timespec,
    pub end_time: timespec,
    pub release_data_start_time: timespec,
    pub release_data_end_time: timespec,
    pub callback_start_time: timespec,
    pub callback_end_time: timespec,
    pub workerid: c_int,
    pub used_cycles: u64,
    pub stall_cycles: u64,
    pub energy_consumed: c_double,
}

/// Activity of one worker since the last question.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct starpu_profiling_worker_info {
    pub start_time: timespec,
    pub total_time: timespec,
    pub executing_time: timespec,
    pub callback_time: timespec,
    pub waiting_time: timespec,
    pub sleeping_time: timespec,
    pub scheduling_time: timespec,
    pub all_executing_time: timespec,
    pub all_callback_time: timespec,
    pub all_waiting_time: timespec,
    pub all_sleeping_time: timespec,
    pub all_scheduling_time: timespec,
    pub executed_tasks: c_int,
    pub used_cycles: u64,
    pub stall_cycles: u64,
    pub energy_consumed: c_double,
    pub flops: c_double,
}

/// Activity of one link between two nodes since the last question.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct starpu_profiling_bus_info {
    pub start_time: timespec,
    pub total_time: timespec,
    pub transferred_bytes: i64,
    pub transfer_count: c_int,
}

/// The kind of a performance model.
pub type starpu_perfmodel_type = c_uint;
pub const STARPU_PERFMODEL_INVALID: starpu_perfmodel_type = 0;
pub const STARPU_PER_WORKER: starpu_perfmodel_type = 1;
pub const STARPU_PER_ARCH: starpu_perfmodel_type = 2;
pub const STARPU_COMMON: starpu_perfmodel_type = 3;
pub const STARPU_HISTORY_BASED: starpu_perfmodel_type = 4;
pub const STARPU_REGRESSION_BASED: starpu_perfmodel_type = 5;
pub const STARPU_NL_REGRESSION_BASED: starpu_perfmodel_type = 6;
pub const STARPU_MULTIPLE_REGRESSION_BASED: starpu_perfmodel_type = 7;

/// The levels of recursive tasks that a model keeps footprints of.
pub const STARPU_RECURSIVE_TASKS_NMAX_LEVELS: usize = 16;

/// A device that models speak of.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_perfmodel_device {
    pub type_: starpu_worker_archtype,
    pub devid: c_int,
    pub ncores: c_int,
}

/// One or several devices that run a task together.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_perfmodel_arch {
    pub ndevices: c_int,
    pub devices: *mut starpu_perfmodel_device,
}

/// Measurements for one footprint.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_perfmodel_history_entry {
    pub mean: c_double,
    pub deviation: c_double,
    pub sum: c_double,
    pub sum2: c_double,
    pub nsample: c_uint,
    pub nerror: c_uint,
    pub footprint: u32,
    pub size: usize,
    pub flops: c_double,
    pub duration: c_double,
    pub tag: starpu_tag_t,
    pub parameters: *mut c_double,
}

/// A list of measurements.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_perfmodel_history_list {
    pub next: *mut starpu_perfmodel_history_list,
    pub entry: *mut starpu_perfmodel_history_entry,
}

/// Sums and coefficients of the regressions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_perfmodel_regression_model {
    pub sumlny: c_double,
    pub sumlnx: c_double,
    pub sumlnx2: c_double,
    pub minx: c_ulong,
    pub maxx: c_ulong,
    pub sumlnxlny: c_double,
    pub alpha: c_double,
    pub beta: c_double,
    pub valid: c_uint,
    pub a: c_double,
    pub b: c_double,
    pub c: c_double,
    pub nl_valid: c_uint,
    pub nsample: c_uint,
    pub coeff: *mut c_double,
    pub ncoeff: c_uint,
    pub multi_valid: c_uint,
}

pub type starpu_perfmodel_per_arch_cost_function =
    Option<unsafe extern "C" fn(*mut starpu_task, *mut starpu_perfmodel_arch, c_uint) -> c_double>;
pub type starpu_perfmodel_per_arch_size_base =
    Option<unsafe extern "C" fn(*mut starpu_task, *mut starpu_perfmodel_arch, c_uint) -> usize>;

/// The part of a model that belongs to one device and one implementation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_perfmodel_per_arch {
    pub cost_function: starpu_perfmodel_per_arch_cost_function,
    pub size_base: starpu_perfmodel_per_arch_size_base,
    pub history: *mut c_void,
    pub list: *mut starpu_perfmodel_history_list,
    pub regression: starpu_perfmodel_regression_model,
    pub debug_path: [c_char; 256],
}

/// A performance model.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_perfmodel {
    pub type_: starpu_perfmodel_type,
    pub cost_function: Option<unsafe extern "C" fn(*mut starpu_task, c_uint) -> c_double>,
    pub arch_cost_function: starpu_perfmodel_per_arch_cost_function,
    pub worker_cost_function: Option<unsafe extern "C" fn(*mut starpu_task, c_uint, c_uint) -> c_double>,
    pub size_base: Option<unsafe extern "C" fn(*mut starpu_task, c_uint) -> usize>,
    pub footprint: Option<unsafe extern "C" fn(*mut starpu_task) -> u32>,
    pub symbol: *const c_char,
    pub path: *mut c_char,
    pub is_loaded: c_uint,
    pub benchmarking: c_uint,
    pub is_init: c_uint,
    pub is_recorded_recursive: c_uint,
    pub recursive_graphs: *mut c_void,
    pub parameters: Option<unsafe extern "C" fn(*mut starpu_task, *mut c_double)>,
    pub parameters_names: *mut *const c_char,
    pub nparameters: c_uint,
    pub combinations: *mut *mut c_uint,
    pub ncombinations: c_uint,
    pub state: *mut c_void,
    pub footprint_per_level: [u32; STARPU_RECURSIVE_TASKS_NMAX_LEVELS],
}

/// Kind of a collection of workers.
pub type starpu_worker_collection_type = c_uint;
pub const STARPU_WORKER_TREE: starpu_worker_collection_type = 0;
pub const STARPU_WORKER_LIST: starpu_worker_collection_type = 1;

/// A place in a collection of workers.
#[repr(C)]
pub struct starpu_sched_ctx_iterator {
    pub cursor: c_int,
    pub value: *mut c_void,
    pub possible_value: *mut c_void,
    pub visited: [c_char; STARPU_NMAXWORKERS],
    pub possibly_parallel: c_int,
}

/// The workers of a scheduling context.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_worker_collection {
    pub workerids: *mut c_int,
    pub collection_private: *mut c_void,
    pub nworkers: c_uint,
    pub unblocked_workers: *mut c_void,
    pub nunblocked_workers: c_uint,
    pub primaries: *mut c_void,
    pub nprimaries: c_uint,
    pub present: [c_char; STARPU_NMAXWORKERS],
    pub is_unblocked: [c_char; STARPU_NMAXWORKERS],
    pub is_primary: [c_char; STARPU_NMAXWORKERS],
    pub type_: starpu_worker_collection_type,
    pub has_next:
        Option<unsafe extern "C" fn(*mut starpu_worker_collection, *mut starpu_sched_ctx_iterator) -> c_uint>,
    pub get_next:
        Option<unsafe extern "C" fn(*mut starpu_worker_collection, *mut starpu_sched_ctx_iterator) -> c_int>,
    pub add: Option<unsafe extern "C" fn(*mut starpu_worker_collection, c_int) -> c_int>,
    pub remove: Option<unsafe extern "C" fn(*mut starpu_worker_collection, c_int) -> c_int>,
    pub init: Option<unsafe extern "C" fn(*mut starpu_worker_collection)>,
    pub deinit: Option<unsafe extern "C" fn(*mut starpu_worker_collection)>,
    pub init_iterator:
        Option<unsafe extern "C" fn(*mut starpu_worker_collection, *mut starpu_sched_ctx_iterator)>,
    pub init_iterator_for_parallel_tasks: Option<
        unsafe extern "C" fn(*mut starpu_worker_collection, *mut starpu_sched_ctx_iterator, *mut starpu_task),
    >,
}

/// A scheduling policy of the program's own.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_sched_policy {
    pub init_sched: Option<unsafe extern "C" fn(c_uint)>,
    pub deinit_sched: Option<unsafe extern "C" fn(c_uint)>,
    pub push_task: Option<unsafe extern "C" fn(*mut starpu_task) -> c_int>,
    pub simulate_push_task: Option<unsafe extern "C" fn(*mut starpu_task) -> c_double>,
    pub push_task_notify: Option<unsafe extern "C" fn(*mut starpu_task, c_int, c_int, c_uint)>,
    pub pop_task: Option<unsafe extern "C" fn(c_uint) -> *mut starpu_task>,
    pub submit_hook: Option<unsafe extern "C" fn(*mut starpu_task)>,
    pub pre_exec_hook: Option<unsafe extern "C" fn(*mut starpu_task, c_uint)>,
    pub post_exec_hook: Option<unsafe extern "C" fn(*mut starpu_task, c_uint)>,
    pub do_schedule: Option<unsafe extern "C" fn(c_uint)>,
    pub reset_scheduler: Option<unsafe extern "C" fn(c_uint)>,
    pub add_workers: Option<unsafe extern "C" fn(c_uint, *mut c_int, c_uint)>,
    pub remove_workers: Option<unsafe extern "C" fn(c_uint, *mut c_int, c_uint)>,
    pub prefetches: c_int,
    pub policy_name: *const c_char,
    pub policy_description: *const c_char,
    pub worker_type: starpu_worker_collection_type,
}

/// A list of tasks, linked by their `prev` and `next`.
#[repr(C)]
pub struct starpu_task_list {
    pub head: *mut starpu_task,
    pub tail: *mut starpu_task,
}
