//! C types of the interface, laid out as in `include/starpu.h`.
//!
//! Every structure and field has the name that it has in C. Enumerations are integers here, since
//! C programs may store any value in them, and flags are bytes.
#![allow(non_camel_case_types, dead_code, clippy::upper_case_acronyms, clippy::type_complexity)]

mod interface;
mod model;

use std::ffi::{c_char, c_double, c_int, c_long, c_uint, c_ulong, c_void};

pub use self::interface::*;
pub use self::model::*;

/// The most buffers that a task holds without `dyn_handles`.
pub const STARPU_NMAXBUFS: usize = 16;
/// The most workers.
pub const STARPU_NMAXWORKERS: usize = 64;
/// The most GPUs that have a worker.
pub const STARPU_MAXCUDADEVS: usize = 4;
/// The most memory nodes.
pub const STARPU_MAXNODES: usize = 8;
/// The most implementations that a codelet has for one kind of worker.
pub const STARPU_MAXIMPLEMENTATIONS: usize = 4;
/// One more than the highest number of a scheduling context; in a task it says "none was named".
pub const STARPU_NMAX_SCHED_CTXS: c_uint = 10;
/// The length of the list of trace files.
pub const STARPU_FXT_MAX_FILES: usize = 64;

/// Mode in which a task uses data: `STARPU_R`, `STARPU_W`, ... of C.
pub type starpu_data_access_mode = c_uint;
pub const STARPU_R: starpu_data_access_mode = 0x1;
pub const STARPU_W: starpu_data_access_mode = 0x2;
pub const STARPU_RW: starpu_data_access_mode = 0x3;
pub const STARPU_SCRATCH: starpu_data_access_mode = 0x4;
pub const STARPU_REDUX: starpu_data_access_mode = 0x8;
pub const STARPU_COMMUTE: starpu_data_access_mode = 0x10;
pub const STARPU_SSEND: starpu_data_access_mode = 0x20;
pub const STARPU_LOCALITY: starpu_data_access_mode = 0x40;
pub const STARPU_MPI_REDUX: starpu_data_access_mode = 0x80 | STARPU_RW | STARPU_COMMUTE;
pub const STARPU_NOPLAN: starpu_data_access_mode = 0x100;
pub const STARPU_UNMAP: starpu_data_access_mode = 0x200;
pub const STARPU_NOFOOTPRINT: starpu_data_access_mode = 0x400;
pub const STARPU_NONE: starpu_data_access_mode = 0x800;
pub const STARPU_RECURSIVE_TASK_STRONG: starpu_data_access_mode = 0x1000;
pub const STARPU_MPI_SAME: starpu_data_access_mode = 0x2000;
pub const STARPU_ACCESS_MODE_MAX: starpu_data_access_mode = 0x4000;

/// The kind of a worker.
pub type starpu_worker_archtype = c_uint;
pub const STARPU_CPU_WORKER: starpu_worker_archtype = 0;
pub const STARPU_CUDA_WORKER: starpu_worker_archtype = 1;
pub const STARPU_OPENCL_WORKER: starpu_worker_archtype = 2;
pub const STARPU_MAX_FPGA_WORKER: starpu_worker_archtype = 4;
pub const STARPU_MPI_SC_WORKER: starpu_worker_archtype = 5;
pub const STARPU_TCPIP_SC_WORKER: starpu_worker_archtype = 6;
pub const STARPU_HIP_WORKER: starpu_worker_archtype = 7;
pub const STARPU_SYCL_WORKER: starpu_worker_archtype = 8;
pub const STARPU_NARCH: starpu_worker_archtype = 9;
pub const STARPU_ANY_WORKER: starpu_worker_archtype = 255;
pub const STARPU_UNKNOWN_WORKER: starpu_worker_archtype = u32::MAX;

/// The kind of a memory node.
pub type starpu_node_kind = c_uint;
pub const STARPU_UNUSED: starpu_node_kind = 0;
pub const STARPU_CPU_RAM: starpu_node_kind = 1;
pub const STARPU_CUDA_RAM: starpu_node_kind = 2;
pub const STARPU_OPENCL_RAM: starpu_node_kind = 3;
pub const STARPU_MAX_FPGA_RAM: starpu_node_kind = 4;
pub const STARPU_DISK_RAM: starpu_node_kind = 5;
pub const STARPU_MPI_SC_RAM: starpu_node_kind = 6;
pub const STARPU_TCPIP_SC_RAM: starpu_node_kind = 7;
pub const STARPU_HIP_RAM: starpu_node_kind = 8;
pub const STARPU_SYCL_RAM: starpu_node_kind = 9;
pub const STARPU_MAX_RAM: starpu_node_kind = 9;
pub const STARPU_NRAM: starpu_node_kind = 10;

/// The memory node of the program's own arrays.
pub const STARPU_MAIN_RAM: c_int = 0;

/// Bits of `where` in codelets and tasks.
pub const STARPU_NOWHERE: u32 = 1;
pub const STARPU_CPU: u32 = 1 << (STARPU_CPU_WORKER + 1);
pub const STARPU_CUDA: u32 = 1 << (STARPU_CUDA_WORKER + 1);
pub const STARPU_OPENCL: u32 = 1 << (STARPU_OPENCL_WORKER + 1);
pub const STARPU_MAX_FPGA: u32 = 1 << (STARPU_MAX_FPGA_WORKER + 1);
pub const STARPU_MPI_SC: u32 = 1 << (STARPU_MPI_SC_WORKER + 1);
pub const STARPU_TCPIP_SC: u32 = 1 << (STARPU_TCPIP_SC_WORKER + 1);
pub const STARPU_HIP: u32 = 1 << (STARPU_HIP_WORKER + 1);
pub const STARPU_SYCL: u32 = 1 << (STARPU_SYCL_WORKER + 1);

/// Whether a codelet runs on one worker or on several at once.
pub type starpu_codelet_type = c_uint;
pub const STARPU_SEQ: starpu_codelet_type = 0;
pub const STARPU_SPMD: starpu_codelet_type = 1;
pub const STARPU_FORKJOIN: starpu_codelet_type = 2;

pub const STARPU_CODELET_SIMGRID_EXECUTE: c_int = 1;
pub const STARPU_CODELET_SIMGRID_EXECUTE_AND_INJECT: c_int = 2;
pub const STARPU_CODELET_NOPLANS: c_int = 4;

pub const STARPU_VARIABLE_NBUFFERS: c_int = -1;

pub const STARPU_SPECIFIC_NODE_LOCAL: c_int = -1;
pub const STARPU_SPECIFIC_NODE_CPU: c_int = -2;
pub const STARPU_SPECIFIC_NODE_SLOW: c_int = -3;
pub const STARPU_SPECIFIC_NODE_FAST: c_int = -4;
pub const STARPU_SPECIFIC_NODE_LOCAL_OR_CPU: c_int = -5;
pub const STARPU_SPECIFIC_NODE_LOCAL_OR_SIMILAR_OR_CPU: c_int = -6;
pub const STARPU_SPECIFIC_NODE_NONE: c_int = -7;

/// State of a task.
pub type starpu_task_status = c_uint;
pub const STARPU_TASK_INIT: starpu_task_status = 0;
pub const STARPU_TASK_BLOCKED: starpu_task_status = 1;
pub const STARPU_TASK_READY: starpu_task_status = 2;
pub const STARPU_TASK_RUNNING: starpu_task_status = 3;
pub const STARPU_TASK_FINISHED: starpu_task_status = 4;
pub const STARPU_TASK_BLOCKED_ON_TAG: starpu_task_status = 5;
pub const STARPU_TASK_BLOCKED_ON_TASK: starpu_task_status = 6;
pub const STARPU_TASK_BLOCKED_ON_DATA: starpu_task_status = 7;
pub const STARPU_TASK_STOPPED: starpu_task_status = 8;

pub const STARPU_TASK_TYPE_NORMAL: c_uint = 0;
pub const STARPU_TASK_TYPE_INTERNAL: c_uint = 1;
pub const STARPU_TASK_TYPE_DATA_ACQUIRE: c_uint = 2;

/// The number that every initialised task carries.
pub const STARPU_TASK_MAGIC: c_int = 42;

/// Number of a data interface.
pub type starpu_data_interface_id = c_int;
pub const STARPU_UNKNOWN_INTERFACE_ID: starpu_data_interface_id = -1;
pub const STARPU_MATRIX_INTERFACE_ID: starpu_data_interface_id = 0;
pub const STARPU_BLOCK_INTERFACE_ID: starpu_data_interface_id = 1;
pub const STARPU_VECTOR_INTERFACE_ID: starpu_data_interface_id = 2;
pub const STARPU_CSR_INTERFACE_ID: starpu_data_interface_id = 3;
pub const STARPU_BCSR_INTERFACE_ID: starpu_data_interface_id = 4;
pub const STARPU_VARIABLE_INTERFACE_ID: starpu_data_interface_id = 5;
pub const STARPU_VOID_INTERFACE_ID: starpu_data_interface_id = 6;
pub const STARPU_MULTIFORMAT_INTERFACE_ID: starpu_data_interface_id = 7;
pub const STARPU_COO_INTERFACE_ID: starpu_data_interface_id = 8;
pub const STARPU_TENSOR_INTERFACE_ID: starpu_data_interface_id = 9;
pub const STARPU_NDIM_INTERFACE_ID: starpu_data_interface_id = 10;
pub const STARPU_MAX_INTERFACE_ID: starpu_data_interface_id = 11;

pub type starpu_tag_t = u64;
pub type starpu_ssize_t = isize;

/// A registered piece of data; what it points at is the library's own.
pub type starpu_data_handle_t = *mut _starpu_data_state;
/// Target of a data handle, as C sees it.
#[repr(C)]
pub struct _starpu_data_state {
    _opaque: [u8; 0],
}
pub type starpu_task_bundle_t = *mut c_void;
pub type starpu_trs_epoch_t = *mut c_void;
pub type starpu_arbiter_t = *mut c_void;

/// The `FILE` of the C library.
#[repr(C)]
pub struct FILE {
    _opaque: [u8; 0],
}

/// A time of the C library.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct timespec {
    pub tv_sec: i64,
    pub tv_nsec: c_long,
}

pub type starpu_cpu_func_t = Option<unsafe extern "C" fn(*mut *mut c_void, *mut c_void)>;
pub type starpu_recursive_task_func_t =
    Option<unsafe extern "C" fn(*mut starpu_task, *mut c_void, *mut *mut c_void) -> c_int>;
pub type starpu_recursive_task_gen_dag_func_t =
    Option<unsafe extern "C" fn(*mut starpu_task, *mut c_void, *mut *mut c_void)>;
/// A callback with its argument.
pub type starpu_callback_t = Option<unsafe extern "C" fn(*mut c_void)>;

/// A kind of task: its functions, its buffers and how it uses them.
#[repr(C)]
pub struct starpu_codelet {
    pub where_: u32,
    pub can_execute: Option<unsafe extern "C" fn(c_uint, *mut starpu_task, c_uint) -> c_int>,
    pub type_: starpu_codelet_type,
    pub max_parallelism: c_int,
    pub cpu_func: starpu_cpu_func_t,
    pub cuda_func: starpu_cpu_func_t,
    pub opencl_func: starpu_cpu_func_t,
    pub cpu_funcs: [starpu_cpu_func_t; STARPU_MAXIMPLEMENTATIONS],
    pub cuda_funcs: [starpu_cpu_func_t; STARPU_MAXIMPLEMENTATIONS],
    pub cuda_flags: [c_char; STARPU_MAXIMPLEMENTATIONS],
    pub hip_funcs: [starpu_cpu_func_t; STARPU_MAXIMPLEMENTATIONS],
    pub hip_flags: [c_char; STARPU_MAXIMPLEMENTATIONS],
    pub sycl_funcs: [starpu_cpu_func_t; STARPU_MAXIMPLEMENTATIONS],
    pub sycl_flags: [c_char; STARPU_MAXIMPLEMENTATIONS],
    pub opencl_funcs: [starpu_cpu_func_t; STARPU_MAXIMPLEMENTATIONS],
    pub opencl_flags: [c_char; STARPU_MAXIMPLEMENTATIONS],
    pub max_fpga_funcs: [starpu_cpu_func_t; STARPU_MAXIMPLEMENTATIONS],
    pub cpu_funcs_name: [*const c_char; STARPU_MAXIMPLEMENTATIONS],
    pub recursive_task_func: starpu_recursive_task_func_t,
    pub recursive_task_gen_dag_func: starpu_recursive_task_gen_dag_func_t,
    pub recursive_task_splitter_register_ind: c_ulong,
    pub nbuffers: c_int,
    pub modes: [starpu_data_access_mode; STARPU_NMAXBUFS],
    pub dyn_modes: *mut starpu_data_access_mode,
    pub specific_nodes: c_uint,
    pub nodes: [c_int; STARPU_NMAXBUFS],
    pub dyn_nodes: *mut c_int,
    pub model: *mut starpu_perfmodel,
    pub energy_model: *mut starpu_perfmodel,
    pub per_worker_stats: [c_ulong; STARPU_NMAXWORKERS],
    pub name: *const c_char,
    pub color: c_uint,
    pub callback_func: starpu_callback_t,
    pub flags: c_int,
    pub perf_counter_sample: *mut c_void,
    pub perf_counter_values: *mut c_void,
    pub checked: c_int,
}

/// A handle and how it is used.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_data_descr {
    pub handle: starpu_data_handle_t,
    pub mode: starpu_data_access_mode,
}

/// A task.
#[repr(C)]
pub struct starpu_task {
    pub name: *const c_char,
    pub iterations: [c_long; 2],
    pub file: *const c_char,
    pub line: c_int,
    pub cl: *mut starpu_codelet,
    pub where_: i32,
    pub nbuffers: c_int,
    pub dyn_handles: *mut starpu_data_handle_t,
    pub dyn_interfaces: *mut *mut c_void,
    pub dyn_modes: *mut starpu_data_access_mode,
    pub dyn_nodes: *mut c_int,
    pub handles: [starpu_data_handle_t; STARPU_NMAXBUFS],
    pub interfaces: [*mut c_void; STARPU_NMAXBUFS],
    pub modes: [starpu_data_access_mode; STARPU_NMAXBUFS],
    pub nodes: [c_int; STARPU_NMAXBUFS],
    pub specific_nodes: c_uint,
    pub handles_sequential_consistency: *mut u8,
    pub cl_arg: *mut c_void,
    pub cl_arg_size: usize,
    pub cl_ret: *mut c_void,
    pub cl_ret_size: usize,
    pub soon_callback_func: Option<unsafe extern "C" fn(*mut c_void, c_double)>,
    pub soon_callback_arg: *mut c_void,
    pub prologue_callback_func: starpu_callback_t,
    pub prologue_callback_arg: *mut c_void,
    pub prologue_callback_pop_func: starpu_callback_t,
    pub prologue_callback_pop_arg: *mut c_void,
    pub epilogue_callback_func: starpu_callback_t,
    pub epilogue_callback_arg: *mut c_void,
    pub callback_func: starpu_callback_t,
    pub callback_arg: *mut c_void,
    pub transaction: *mut c_void,
    pub trs_epoch: starpu_trs_epoch_t,
    pub tag_id: starpu_tag_t,
    pub cl_arg_free: u8,
    pub cl_ret_free: u8,
    pub soon_callback_arg_free: u8,
    pub prologue_callback_arg_free: u8,
    pub prologue_callback_pop_arg_free: u8,
    pub epilogue_callback_arg_free: u8,
    pub callback_arg_free: u8,
    pub use_tag: u8,
    pub sequential_consistency: u8,
    pub synchronous: u8,
    pub execute_on_a_specific_worker: u8,
    pub detach: u8,
    pub destroy: u8,
    pub regenerate: u8,
    pub no_submitorder: u8,
    pub mf_skip: u8,
    pub failed: u8,
    pub scheduled: u8,
    pub prefetched: u8,
    pub workerid: c_uint,
    pub workerorder: c_uint,
    pub workerids: *mut u32,
    pub workerids_len: c_uint,
    pub priority: c_int,
    pub status: starpu_task_status,
    pub magic: c_int,
    pub type_: c_uint,
    pub color: c_uint,
    pub sched_ctx: c_uint,
    pub hypervisor_tag: c_int,
    pub possibly_parallel: c_uint,
    pub bundle: starpu_task_bundle_t,
    pub profiling_info: *mut starpu_profiling_task_info,
    pub flops: c_double,
    pub predicted: c_double,
    pub predicted_transfer: c_double,
    pub predicted_start: c_double,
    pub prev: *mut starpu_task,
    pub next: *mut starpu_task,
    pub starpu_private: *mut c_void,
    pub omp_task: *mut c_void,
    pub recursive_task_is_sync_task: u8,
    pub recursive_task_parent: c_ulong,
    pub recursive_task_func: starpu_recursive_task_func_t,
    pub recursive_task_func_arg: *mut c_void,
    pub recursive_task_gen_dag_func: starpu_recursive_task_gen_dag_func_t,
    pub recursive_task_gen_dag_func_arg: *mut c_void,
    pub recursive_task_communication_already_made: c_uint,
    pub nb_termination_call_required: c_uint,
    pub sched_data: *mut c_void,
}

/// Configuration with which the library starts.
#[repr(C)]
pub struct starpu_conf {
    pub magic: c_int,
    pub will_use_mpi: c_int,
    pub sched_policy_name: *const c_char,
    pub sched_policy: *mut starpu_sched_policy,
    pub sched_policy_callback: Option<unsafe extern "C" fn(c_uint)>,
    pub precedence_over_environment_variables: c_int,
    pub ncpus: c_int,
    pub reserve_ncpus: c_int,
    pub ncuda: c_int,
    pub nhip: c_int,
    pub nsycl: c_int,
    pub nopencl: c_int,
    pub nmax_fpga: c_int,
    pub nmpi_sc: c_int,
    pub ntcpip_sc: c_int,
    pub use_explicit_workers_bindid: c_uint,
    pub workers_bindid: [c_uint; STARPU_NMAXWORKERS],
    pub use_explicit_workers_cuda_gpuid: c_uint,
    pub workers_cuda_gpuid: [c_uint; STARPU_NMAXWORKERS],
    pub use_explicit_workers_hip_gpuid: c_uint,
    pub workers_hip_gpuid: [c_uint; STARPU_NMAXWORKERS],
    pub use_explicit_workers_sycl_gpuid: c_uint,
    pub workers_sycl_gpuid: [c_uint; STARPU_NMAXWORKERS],
    pub use_explicit_workers_opencl_gpuid: c_uint,
    pub workers_opencl_gpuid: [c_uint; STARPU_NMAXWORKERS],
    pub use_explicit_workers_max_fpga_deviceid: c_uint,
    pub workers_max_fpga_deviceid: [c_uint; STARPU_NMAXWORKERS],
    pub max_fpga_load: *mut c_void,
    pub use_explicit_workers_mpi_sc_deviceid: c_uint,
    pub workers_mpi_sc_deviceid: [c_uint; STARPU_NMAXWORKERS],
    pub bus_calibrate: c_int,
    pub calibrate: c_int,
    pub data_locality_enforce: c_int,
    pub single_combined_worker: c_int,
    pub disable_asynchronous_copy: c_int,
    pub disable_asynchronous_cuda_copy: c_int,
    pub disable_asynchronous_hip_copy: c_int,
    pub disable_asynchronous_sycl_copy: c_int,
    pub disable_asynchronous_opencl_copy: c_int,
    pub disable_asynchronous_mpi_sc_copy: c_int,
    pub disable_asynchronous_tcpip_sc_copy: c_int,
    pub disable_asynchronous_max_fpga_copy: c_int,
    pub enable_map: c_int,
    pub cuda_opengl_interoperability: *mut c_uint,
    pub n_cuda_opengl_interoperability: c_uint,
    pub not_launched_drivers: *mut starpu_driver,
    pub n_not_launched_drivers: c_uint,
    pub trace_buffer_size: u64,
    pub global_sched_ctx_min_priority: c_int,
    pub global_sched_ctx_max_priority: c_int,
    pub callback_worker_going_to_sleep: Option<unsafe extern "C" fn(c_uint)>,
    pub callback_worker_waking_up: Option<unsafe extern "C" fn(c_uint)>,
    pub catch_signals: c_int,
    pub start_perf_counter_collection: c_uint,
    pub driver_spinning_backoff_min: c_uint,
    pub driver_spinning_backoff_max: c_uint,
    pub cuda_only_fast_alloc_other_memnodes: c_int,
}

/// A worker that the program drives itself.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_driver {
    pub type_: starpu_worker_archtype,
    /// The number of the device; in C a union of names for it.
    pub id: c_uint,
}

/// Copies between two nodes.
/// The same with what makes it asynchronous: a stream of CUDA, or null.
pub type starpu_any_copy_t =
    Option<unsafe extern "C" fn(*mut c_void, c_uint, *mut c_void, c_uint, *mut c_void) -> c_int>;
pub type starpu_copy_t = Option<unsafe extern "C" fn(*mut c_void, c_uint, *mut c_void, c_uint) -> c_int>;
/// The place of an asynchronous copy for a device that is absent.
pub type starpu_no_copy_t = Option<unsafe extern "C" fn() -> c_int>;

/// Progress of packing or unpacking arguments.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_codelet_pack_arg_data {
    pub arg_buffer: *mut c_char,
    pub arg_buffer_size: usize,
    pub arg_buffer_used: usize,
    pub current_offset: usize,
    pub nargs: c_int,
}
