//! C types of the interface, laid out as in `include/starpu.h`.
//!
//! Every structure and field has the name that it has in C. Enumerations are integers here, since
//! C programs may store any value in them, and flags are bytes.
#![allow(non_camel_case_types, dead_code, clippy::upper_case_acronyms, clippy::type_complexity)]

use std::ffi::{c_char, c_double, c_int, c_long, c_uint, c_ulong, c_void};

/// The most buffers that a task holds without `dyn_handles`.
pub const STARPU_NMAXBUFS: usize = 16;
/// The most workers.
pub const STARPU_NMAXWORKERS: usize = 64;
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
pub type starpu_copy_t = Option<unsafe extern "C" fn(*mut c_void, c_uint, *mut c_void, c_uint) -> c_int>;
/// The place of an asynchronous copy for a device that is absent.
pub type starpu_no_copy_t = Option<unsafe extern "C" fn() -> c_int>;

/// The copies that an interface knows.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_data_copy_methods {
    pub can_copy: Option<unsafe extern "C" fn(*mut c_void, c_uint, *mut c_void, c_uint, c_uint) -> c_int>,
    pub ram_to_ram: starpu_copy_t,
    pub ram_to_cuda: starpu_copy_t,
    pub ram_to_hip: starpu_copy_t,
    pub ram_to_sycl: starpu_copy_t,
    pub ram_to_opencl: starpu_copy_t,
    pub ram_to_max_fpga: starpu_copy_t,
    pub cuda_to_ram: starpu_copy_t,
    pub cuda_to_cuda: starpu_copy_t,
    pub hip_to_ram: starpu_copy_t,
    pub hip_to_hip: starpu_copy_t,
    pub sycl_to_ram: starpu_copy_t,
    pub sycl_to_sycl: starpu_copy_t,
    pub opencl_to_ram: starpu_copy_t,
    pub opencl_to_opencl: starpu_copy_t,
    pub max_fpga_to_ram: starpu_copy_t,
    pub ram_to_cuda_async: starpu_no_copy_t,
    pub cuda_to_ram_async: starpu_no_copy_t,
    pub cuda_to_cuda_async: starpu_no_copy_t,
    pub ram_to_hip_async: starpu_no_copy_t,
    pub hip_to_ram_async: starpu_no_copy_t,
    pub hip_to_hip_async: starpu_no_copy_t,
    pub ram_to_sycl_async: starpu_no_copy_t,
    pub sycl_to_ram_async: starpu_no_copy_t,
    pub sycl_to_sycl_async: starpu_no_copy_t,
    pub ram_to_opencl_async: starpu_no_copy_t,
    pub opencl_to_ram_async: starpu_no_copy_t,
    pub opencl_to_opencl_async: starpu_no_copy_t,
    pub ram_to_max_fpga_async: starpu_copy_t,
    pub max_fpga_to_ram_async: starpu_copy_t,
    pub any_to_any:
        Option<unsafe extern "C" fn(*mut c_void, c_uint, *mut c_void, c_uint, *mut c_void) -> c_int>,
}

impl starpu_data_copy_methods {
    /// No copy at all.
    pub const NONE: Self = Self {
        can_copy: None,
        ram_to_ram: None,
        ram_to_cuda: None,
        ram_to_hip: None,
        ram_to_sycl: None,
        ram_to_opencl: None,
        ram_to_max_fpga: None,
        cuda_to_ram: None,
        cuda_to_cuda: None,
        hip_to_ram: None,
        hip_to_hip: None,
        sycl_to_ram: None,
        sycl_to_sycl: None,
        opencl_to_ram: None,
        opencl_to_opencl: None,
        max_fpga_to_ram: None,
        ram_to_cuda_async: None,
        cuda_to_ram_async: None,
        cuda_to_cuda_async: None,
        ram_to_hip_async: None,
        hip_to_ram_async: None,
        hip_to_hip_async: None,
        ram_to_sycl_async: None,
        sycl_to_ram_async: None,
        sycl_to_sycl_async: None,
        ram_to_opencl_async: None,
        opencl_to_ram_async: None,
        opencl_to_opencl_async: None,
        ram_to_max_fpga_async: None,
        max_fpga_to_ram_async: None,
        any_to_any: None,
    };
}

/// Functions of a data interface.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_data_interface_ops {
    pub register_data_handle: Option<unsafe extern "C" fn(starpu_data_handle_t, c_int, *mut c_void)>,
    pub unregister_data_handle: Option<unsafe extern "C" fn(starpu_data_handle_t)>,
    pub allocate_data_on_node: Option<unsafe extern "C" fn(*mut c_void, c_uint) -> starpu_ssize_t>,
    pub free_data_on_node: Option<unsafe extern "C" fn(*mut c_void, c_uint)>,
    pub cache_data_on_node: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, c_uint)>,
    pub reuse_data_on_node: Option<unsafe extern "C" fn(*mut c_void, *const c_void, c_uint)>,
    pub map_data: starpu_copy_t,
    pub unmap_data: starpu_copy_t,
    pub update_map: starpu_copy_t,
    pub init: Option<unsafe extern "C" fn(*mut c_void)>,
    pub copy_methods: *const starpu_data_copy_methods,
    pub handle_to_pointer: Option<unsafe extern "C" fn(starpu_data_handle_t, c_uint) -> *mut c_void>,
    pub to_pointer: Option<unsafe extern "C" fn(*mut c_void, c_uint) -> *mut c_void>,
    pub pointer_is_inside: Option<unsafe extern "C" fn(*mut c_void, c_uint, *mut c_void) -> c_int>,
    pub get_size: Option<unsafe extern "C" fn(starpu_data_handle_t) -> usize>,
    pub get_alloc_size: Option<unsafe extern "C" fn(starpu_data_handle_t) -> usize>,
    pub get_max_size: Option<unsafe extern "C" fn(starpu_data_handle_t) -> usize>,
    pub footprint: Option<unsafe extern "C" fn(starpu_data_handle_t) -> u32>,
    pub alloc_footprint: Option<unsafe extern "C" fn(starpu_data_handle_t) -> u32>,
    pub compare: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>,
    pub alloc_compare: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>,
    pub display: Option<unsafe extern "C" fn(starpu_data_handle_t, *mut FILE)>,
    pub describe: Option<unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> starpu_ssize_t>,
    pub interfaceid: starpu_data_interface_id,
    pub interface_size: usize,
    pub is_multiformat: c_char,
    pub dontcache: c_char,
    pub get_mf_ops: Option<unsafe extern "C" fn(*mut c_void) -> *mut starpu_multiformat_data_interface_ops>,
    pub pack_data: Option<
        unsafe extern "C" fn(starpu_data_handle_t, c_uint, *mut *mut c_void, *mut starpu_ssize_t) -> c_int,
    >,
    pub peek_data: Option<unsafe extern "C" fn(starpu_data_handle_t, c_uint, *mut c_void, usize) -> c_int>,
    pub unpack_data: Option<unsafe extern "C" fn(starpu_data_handle_t, c_uint, *mut c_void, usize) -> c_int>,
    pub pack_meta: Option<unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut starpu_ssize_t) -> c_int>,
    pub unpack_meta:
        Option<unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *mut starpu_ssize_t) -> c_int>,
    pub free_meta: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    pub name: *mut c_char,
}

/// Rule by which data are cut into parts.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_data_filter {
    pub filter_func:
        Option<unsafe extern "C" fn(*mut c_void, *mut c_void, *mut starpu_data_filter, c_uint, c_uint)>,
    pub nchildren: c_uint,
    pub get_nchildren: Option<unsafe extern "C" fn(*mut starpu_data_filter, starpu_data_handle_t) -> c_uint>,
    pub get_child_ops:
        Option<unsafe extern "C" fn(*mut starpu_data_filter, c_uint) -> *mut starpu_data_interface_ops>,
    pub filter_arg: usize,
    pub filter_arg_ptr: *mut c_void,
}

/// A matrix: `nx` contiguous elements in each of `ny` columns, which are `ld` elements apart.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_matrix_interface {
    pub id: starpu_data_interface_id,
    pub ptr: usize,
    pub dev_handle: usize,
    pub offset: usize,
    pub nx: usize,
    pub ny: usize,
    pub ld: usize,
    pub elemsize: usize,
    pub allocsize: usize,
}

/// A block of three dimensions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_block_interface {
    pub id: starpu_data_interface_id,
    pub ptr: usize,
    pub dev_handle: usize,
    pub offset: usize,
    pub nx: usize,
    pub ny: usize,
    pub nz: usize,
    pub ldy: usize,
    pub ldz: usize,
    pub elemsize: usize,
}

/// A block of four dimensions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_tensor_interface {
    pub id: starpu_data_interface_id,
    pub ptr: usize,
    pub dev_handle: usize,
    pub offset: usize,
    pub nx: usize,
    pub ny: usize,
    pub nz: usize,
    pub nt: usize,
    pub ldy: usize,
    pub ldz: usize,
    pub ldt: usize,
    pub elemsize: usize,
}

/// A block of any number of dimensions; both arrays have `ndim` entries.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_ndim_interface {
    pub id: starpu_data_interface_id,
    pub ptr: usize,
    pub dev_handle: usize,
    pub offset: usize,
    pub allocsize: usize,
    pub nn: *mut usize,
    pub ldn: *mut usize,
    pub ndim: usize,
    pub elemsize: usize,
}

/// A vector.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_vector_interface {
    pub id: starpu_data_interface_id,
    pub ptr: usize,
    pub dev_handle: usize,
    pub offset: usize,
    pub nx: usize,
    pub elemsize: usize,
    pub slice_base: usize,
    pub allocsize: usize,
}

/// A single value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_variable_interface {
    pub id: starpu_data_interface_id,
    pub ptr: usize,
    pub dev_handle: usize,
    pub offset: usize,
    pub elemsize: usize,
}

/// A sparse matrix by rows.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_csr_interface {
    pub id: starpu_data_interface_id,
    pub nnz: u32,
    pub nrow: u32,
    pub nzval: usize,
    pub colind: *mut u32,
    pub rowptr: *mut u32,
    pub ram_colind: *mut u32,
    pub ram_rowptr: *mut u32,
    pub firstentry: u32,
    pub elemsize: usize,
}

/// A sparse matrix by rows of blocks of `r` by `c` elements.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_bcsr_interface {
    pub id: starpu_data_interface_id,
    pub nnz: u32,
    pub nrow: u32,
    pub nzval: usize,
    pub colind: *mut u32,
    pub rowptr: *mut u32,
    pub ram_colind: *mut u32,
    pub ram_rowptr: *mut u32,
    pub firstentry: u32,
    pub r: u32,
    pub c: u32,
    pub elemsize: usize,
}

/// A sparse matrix as a list of entries with their coordinates.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_coo_interface {
    pub id: starpu_data_interface_id,
    pub columns: *mut u32,
    pub rows: *mut u32,
    pub values: usize,
    pub nx: u32,
    pub ny: u32,
    pub n_values: u32,
    pub elemsize: usize,
}

/// Sizes of the formats of a multiformat vector, and the codelets that convert between them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_multiformat_data_interface_ops {
    pub cpu_elemsize: usize,
    pub opencl_elemsize: usize,
    pub cpu_to_opencl_cl: *mut starpu_codelet,
    pub opencl_to_cpu_cl: *mut starpu_codelet,
    pub cuda_elemsize: usize,
    pub cpu_to_cuda_cl: *mut starpu_codelet,
    pub cuda_to_cpu_cl: *mut starpu_codelet,
}

/// A vector whose elements look different on each kind of device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_multiformat_interface {
    pub id: starpu_data_interface_id,
    pub cpu_ptr: *mut c_void,
    pub cuda_ptr: *mut c_void,
    pub hip_ptr: *mut c_void,
    pub sycl_ptr: *mut c_void,
    pub opencl_ptr: *mut c_void,
    pub nx: usize,
    pub ops: *mut starpu_multiformat_data_interface_ops,
}

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
