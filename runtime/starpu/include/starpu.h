/*
 * The interface that programs written for StarPU 1.4 are compiled against.
 *
 * Names, fields and constants are those of StarPU's documentation; the library behind them is
 * zellige. Binary compatibility is no aim: the flags of a task are bytes, where StarPU has bit
 * fields. The members of the structures that programs fill in stand in the documented order,
 * because designated initialisers of C++ are accepted in the order of declaration alone.
 */
#ifndef ZELLIGE_STARPU_H
#define ZELLIGE_STARPU_H

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#ifdef STARPU_USE_CUDA
#include <cuda_runtime_api.h>
#endif

/* ---- What this library is, and its limits ---------------------------------------------------- */

#define STARPU_MAJOR_VERSION 1
#define STARPU_MINOR_VERSION 4
#define STARPU_RELEASE_VERSION 99

#define STARPU_USE_CPU 1
#define STARPU_LINUX_SYS 1
#define STARPU_HAVE_SETENV 1
#define STARPU_HAVE_UNSETENV 1
#define STARPU_HAVE_UNISTD_H 1
#define STARPU_HAVE_STRERROR_R 1
#define STARPU_HAVE_STRUCT_TIMESPEC 1
#define STARPU_HAVE_NEARBYINTF 1
#define STARPU_HAVE_RINTF 1
#define STARPU_HAVE_PTHREAD_BARRIER 1
#define STARPU_HAVE_PTHREAD_SPIN_LOCK 1
#define STARPU_HAVE_PTHREAD_SETNAME_NP 1
#define STARPU_USE_DRAND48 1
#define STARPU_USE_ERAND48_R 1
#define STARPU_PROF_TOOL 1

#define STARPU_NMAXBUFS 16
#define STARPU_NMAXWORKERS 64
#define STARPU_MAXCPUS 64
#define STARPU_MAXNODES 8
#define STARPU_MAXNUMANODES 2
#define STARPU_MAXIMPLEMENTATIONS 4
#define STARPU_NMAX_SCHED_CTXS 10
#define STARPU_FXT_MAX_FILES 64
/* Devices that this build has none of; the arrays of programs still need a length. */
#define STARPU_MAXCUDADEVS 4
#define STARPU_MAXOPENCLDEVS 8
#define STARPU_MAXHIPDEVS 4
#define STARPU_MAXSYCLDEVS 4
#define STARPU_MAXMAXFPGADEVS 12

#define __starpu_func__ __func__
#ifdef __cplusplus
#define __starpu_inline inline
#define STARPU_INLINE inline
#else
#define __starpu_inline __inline__
#define STARPU_INLINE __inline__
#endif

typedef ssize_t starpu_ssize_t;

/* ---- Attributes and hints for the compiler --------------------------------------------------- */

#if defined __GNUC__
#define STARPU_GNUC_PREREQ(major, minor) (__GNUC__ > (major) || (__GNUC__ == (major) && __GNUC_MINOR__ >= (minor)))
#define ZELLIGE_ATTRIBUTE_(list) __attribute__(list)
#define STARPU_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define STARPU_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#else
#define STARPU_GNUC_PREREQ(major, minor) 0
#define ZELLIGE_ATTRIBUTE_(list)
#define STARPU_LIKELY(condition) (condition)
#define STARPU_UNLIKELY(condition) (condition)
#endif
#define STARPU_ATTRIBUTE_UNUSED ZELLIGE_ATTRIBUTE_((unused))
#define STARPU_ATTRIBUTE_NORETURN ZELLIGE_ATTRIBUTE_((noreturn))
#define STARPU_ATTRIBUTE_PURE ZELLIGE_ATTRIBUTE_((pure))
#define STARPU_ATTRIBUTE_MALLOC ZELLIGE_ATTRIBUTE_((malloc))
#define STARPU_ATTRIBUTE_ALIGNED(bytes) ZELLIGE_ATTRIBUTE_((aligned(bytes)))
#define STARPU_ATTRIBUTE_FORMAT(kind, text, first) ZELLIGE_ATTRIBUTE_((format(kind, text, first)))
#define STARPU_ATTRIBUTE_ALLOC_SIZE(argument) ZELLIGE_ATTRIBUTE_((alloc_size(argument)))
#define STARPU_ATTRIBUTE_CALLOC_SIZE(count, bytes) ZELLIGE_ATTRIBUTE_((alloc_size(count, bytes)))
#define STARPU_ATTRIBUTE_VISIBILITY_DEFAULT ZELLIGE_ATTRIBUTE_((visibility("default")))
#define STARPU_ATTRIBUTE_WARN_UNUSED_RESULT ZELLIGE_ATTRIBUTE_((warn_unused_result))
#define STARPU_WARN_UNUSED_RESULT STARPU_ATTRIBUTE_WARN_UNUSED_RESULT
#define STARPU_VISIBILITY_PUSH_HIDDEN
#define STARPU_VISIBILITY_POP
#if defined STARPU_USE_DEPRECATED_API || defined STARPU_USE_DEPRECATED_ONE_ZERO_API
#define STARPU_DEPRECATED
#else
#define STARPU_DEPRECATED ZELLIGE_ATTRIBUTE_((deprecated))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Members that StarPU 1.4 knows by another name than its successor. */
#if defined __GNUC__
#define ZELLIGE_ALSO_(first, second)                                                               \
	__extension__ union                                                                        \
	{                                                                                          \
		first;                                                                             \
		second;                                                                            \
	}
#else
#define ZELLIGE_ALSO_(first, second) first
#endif

/* ---- The names that everything else is built from -------------------------------------------- */

struct starpu_task;
struct starpu_codelet;
struct starpu_perfmodel;
struct starpu_perfmodel_arch;
struct starpu_data_interface_ops;
struct starpu_data_filter;
struct starpu_multiformat_data_interface_ops;
struct starpu_sched_policy;
struct starpu_driver;
struct starpu_transaction;
struct starpu_profiling_task_info;
struct starpu_perf_counter_sample;
struct starpu_perf_counter_sample_cl_values;

typedef struct _starpu_data_state *starpu_data_handle_t;
typedef struct _starpu_task_bundle *starpu_task_bundle_t;
typedef struct _starpu_trs_epoch *starpu_trs_epoch_t;
typedef struct starpu_arbiter *starpu_arbiter_t;
typedef uint64_t starpu_tag_t;

/* How a task uses a piece of data. */
enum starpu_data_access_mode
{
	STARPU_R = 0x1,
	STARPU_W = 0x2,
	STARPU_RW = STARPU_R | STARPU_W,
	STARPU_SCRATCH = 0x4,
	STARPU_REDUX = 0x8,
	STARPU_COMMUTE = 0x10,
	STARPU_SSEND = 0x20,
	STARPU_LOCALITY = 0x40,
	STARPU_MPI_REDUX = 0x80 | STARPU_RW | STARPU_COMMUTE,
	STARPU_NOPLAN = 0x100,
	STARPU_UNMAP = 0x200,
	STARPU_NOFOOTPRINT = 0x400,
	STARPU_NONE = 0x800,
	STARPU_RECURSIVE_TASK_STRONG = 0x1000,
	STARPU_MPI_SAME = 0x2000,
	STARPU_ACCESS_MODE_MAX = 0x4000
};

enum starpu_worker_archtype
{
	STARPU_CPU_WORKER = 0,
	STARPU_CUDA_WORKER = 1,
	STARPU_OPENCL_WORKER = 2,
	STARPU_MAX_FPGA_WORKER = 4,
	STARPU_MPI_SC_WORKER = 5,
	STARPU_TCPIP_SC_WORKER = 6,
	STARPU_HIP_WORKER = 7,
	STARPU_SYCL_WORKER = 8,
	STARPU_NARCH = 9,
	STARPU_ANY_WORKER = 255
};
#define STARPU_UNKNOWN_WORKER ((enum starpu_worker_archtype) -1)

enum starpu_node_kind
{
	STARPU_UNUSED = 0,
	STARPU_CPU_RAM = 1,
	STARPU_CUDA_RAM = 2,
	STARPU_OPENCL_RAM = 3,
	STARPU_MAX_FPGA_RAM = 4,
	STARPU_DISK_RAM = 5,
	STARPU_MPI_SC_RAM = 6,
	STARPU_TCPIP_SC_RAM = 7,
	STARPU_HIP_RAM = 8,
	STARPU_SYCL_RAM = 9,
	STARPU_MAX_RAM = 9,
	STARPU_NRAM = 10
};
/* The memory node that the program's own arrays are in. */
#define STARPU_MAIN_RAM 0

/* Kinds of workers as bits of `where`. */
#define STARPU_NOWHERE 1ULL
#define STARPU_WORKER_TO_MASK(type) (2ULL << (type))
#define STARPU_CPU STARPU_WORKER_TO_MASK(STARPU_CPU_WORKER)
#define STARPU_CUDA STARPU_WORKER_TO_MASK(STARPU_CUDA_WORKER)
#define STARPU_OPENCL STARPU_WORKER_TO_MASK(STARPU_OPENCL_WORKER)
#define STARPU_HIP STARPU_WORKER_TO_MASK(STARPU_HIP_WORKER)
#define STARPU_SYCL STARPU_WORKER_TO_MASK(STARPU_SYCL_WORKER)
#define STARPU_MAX_FPGA STARPU_WORKER_TO_MASK(STARPU_MAX_FPGA_WORKER)
#define STARPU_MPI_SC STARPU_WORKER_TO_MASK(STARPU_MPI_SC_WORKER)
#define STARPU_TCPIP_SC STARPU_WORKER_TO_MASK(STARPU_TCPIP_SC_WORKER)

/* ---- Codelets -------------------------------------------------------------------------------- */

enum starpu_codelet_type
{
	STARPU_SEQ,
	STARPU_SPMD,
	STARPU_FORKJOIN
};

#define STARPU_CODELET_SIMGRID_EXECUTE 1
#define STARPU_CODELET_SIMGRID_EXECUTE_AND_INJECT 2
#define STARPU_CODELET_NOPLANS 4

#define STARPU_CUDA_ASYNC 1
#define STARPU_HIP_ASYNC 1
#define STARPU_SYCL_ASYNC 1
#define STARPU_OPENCL_ASYNC 1

/* The number of buffers is known by the task alone. */
#define STARPU_VARIABLE_NBUFFERS (-1)

/* Where a buffer is to lie, in `nodes`. */
#define STARPU_SPECIFIC_NODE_LOCAL (-1)
#define STARPU_SPECIFIC_NODE_CPU (-2)
#define STARPU_SPECIFIC_NODE_SLOW (-3)
#define STARPU_SPECIFIC_NODE_FAST (-4)
#define STARPU_SPECIFIC_NODE_LOCAL_OR_CPU (-5)
#define STARPU_SPECIFIC_NODE_LOCAL_OR_SIMILAR_OR_CPU (-6)
#define STARPU_SPECIFIC_NODE_NONE (-7)

typedef void (*starpu_cpu_func_t)(void *buffers[], void *cl_arg);
typedef void (*starpu_cuda_func_t)(void *buffers[], void *cl_arg);
typedef void (*starpu_hip_func_t)(void *buffers[], void *cl_arg);
typedef void (*starpu_sycl_func_t)(void *buffers[], void *cl_arg);
typedef void (*starpu_opencl_func_t)(void *buffers[], void *cl_arg);
typedef void (*starpu_max_fpga_func_t)(void *buffers[], void *cl_arg);
typedef int (*starpu_recursive_task_func_t)(struct starpu_task *task, void *arg, void *buffers[]);
typedef void (*starpu_recursive_task_gen_dag_func_t)(struct starpu_task *task, void *arg, void *buffers[]);

typedef starpu_recursive_task_func_t starpu_bubble_func_t;
typedef starpu_recursive_task_gen_dag_func_t starpu_bubble_gen_dag_func_t;

/* What the single functions of a codelet once held to point at the arrays. */
#define STARPU_MULTIPLE_CPU_IMPLEMENTATIONS ((starpu_cpu_func_t) -1)
#define STARPU_MULTIPLE_CUDA_IMPLEMENTATIONS ((starpu_cuda_func_t) -1)
#define STARPU_MULTIPLE_HIP_IMPLEMENTATIONS ((starpu_hip_func_t) -1)
#define STARPU_MULTIPLE_OPENCL_IMPLEMENTATIONS ((starpu_opencl_func_t) -1)

struct starpu_codelet
{
	uint32_t where;
	int (*can_execute)(unsigned workerid, struct starpu_task *task, unsigned nimpl);
	enum starpu_codelet_type type;
	int max_parallelism;
	starpu_cpu_func_t cpu_func;
	starpu_cuda_func_t cuda_func;
	starpu_opencl_func_t opencl_func;
	starpu_cpu_func_t cpu_funcs[STARPU_MAXIMPLEMENTATIONS];
	starpu_cuda_func_t cuda_funcs[STARPU_MAXIMPLEMENTATIONS];
	char cuda_flags[STARPU_MAXIMPLEMENTATIONS];
	starpu_hip_func_t hip_funcs[STARPU_MAXIMPLEMENTATIONS];
	char hip_flags[STARPU_MAXIMPLEMENTATIONS];
	starpu_sycl_func_t sycl_funcs[STARPU_MAXIMPLEMENTATIONS];
	char sycl_flags[STARPU_MAXIMPLEMENTATIONS];
	starpu_opencl_func_t opencl_funcs[STARPU_MAXIMPLEMENTATIONS];
	char opencl_flags[STARPU_MAXIMPLEMENTATIONS];
	starpu_max_fpga_func_t max_fpga_funcs[STARPU_MAXIMPLEMENTATIONS];
	const char *cpu_funcs_name[STARPU_MAXIMPLEMENTATIONS];
	ZELLIGE_ALSO_(starpu_recursive_task_func_t recursive_task_func, starpu_bubble_func_t bubble_func);
	ZELLIGE_ALSO_(starpu_recursive_task_gen_dag_func_t recursive_task_gen_dag_func,
		      starpu_bubble_gen_dag_func_t bubble_gen_dag_func);
	unsigned long recursive_task_splitter_register_ind;
	int nbuffers;
	enum starpu_data_access_mode modes[STARPU_NMAXBUFS];
	enum starpu_data_access_mode *dyn_modes;
	unsigned specific_nodes;
	int nodes[STARPU_NMAXBUFS];
	int *dyn_nodes;
	struct starpu_perfmodel *model;
	struct starpu_perfmodel *energy_model;
	unsigned long per_worker_stats[STARPU_NMAXWORKERS];
	const char *name;
	unsigned color;
	void (*callback_func)(void *arg);
	int flags;
	struct starpu_perf_counter_sample *perf_counter_sample;
	struct starpu_perf_counter_sample_cl_values *perf_counter_values;
	/* 0 until the library has looked at the codelet for the first time. */
	int checked;
};

/* ---- Tasks ----------------------------------------------------------------------------------- */

enum starpu_task_status
{
	STARPU_TASK_INIT,
	STARPU_TASK_BLOCKED,
	STARPU_TASK_READY,
	STARPU_TASK_RUNNING,
	STARPU_TASK_FINISHED,
	STARPU_TASK_BLOCKED_ON_TAG,
	STARPU_TASK_BLOCKED_ON_TASK,
	STARPU_TASK_BLOCKED_ON_DATA,
	STARPU_TASK_STOPPED
};
#define STARPU_TASK_INVALID STARPU_TASK_INIT

#define STARPU_TASK_TYPE_NORMAL 0
#define STARPU_TASK_TYPE_INTERNAL 1
#define STARPU_TASK_TYPE_DATA_ACQUIRE 2

struct starpu_data_descr
{
	starpu_data_handle_t handle;
	enum starpu_data_access_mode mode;
};

struct starpu_task
{
	const char *name;
	long iterations[2];
	const char *file;
	int line;
	struct starpu_codelet *cl;
	int32_t where;
	int nbuffers;
	starpu_data_handle_t *dyn_handles;
	void **dyn_interfaces;
	enum starpu_data_access_mode *dyn_modes;
	int *dyn_nodes;
	starpu_data_handle_t handles[STARPU_NMAXBUFS];
	void *interfaces[STARPU_NMAXBUFS];
	enum starpu_data_access_mode modes[STARPU_NMAXBUFS];
	int nodes[STARPU_NMAXBUFS];
	unsigned specific_nodes;
	unsigned char *handles_sequential_consistency;

	void *cl_arg;
	size_t cl_arg_size;
	void *cl_ret;
	size_t cl_ret_size;

	void (*soon_callback_func)(void *arg, double delay);
	void *soon_callback_arg;
	void (*prologue_callback_func)(void *arg);
	void *prologue_callback_arg;
	void (*prologue_callback_pop_func)(void *arg);
	void *prologue_callback_pop_arg;
	void (*epilogue_callback_func)(void *arg);
	void *epilogue_callback_arg;
	void (*callback_func)(void *arg);
	void *callback_arg;

	struct starpu_transaction *transaction;
	starpu_trs_epoch_t trs_epoch;
	starpu_tag_t tag_id;

	unsigned char cl_arg_free;
	unsigned char cl_ret_free;
	unsigned char soon_callback_arg_free;
	unsigned char prologue_callback_arg_free;
	unsigned char prologue_callback_pop_arg_free;
	unsigned char epilogue_callback_arg_free;
	unsigned char callback_arg_free;
	unsigned char use_tag;
	unsigned char sequential_consistency;
	unsigned char synchronous;
	unsigned char execute_on_a_specific_worker;
	unsigned char detach;
	unsigned char destroy;
	unsigned char regenerate;
	unsigned char no_submitorder;
	unsigned char mf_skip;
	unsigned char failed;
	unsigned char scheduled;
	unsigned char prefetched;

	unsigned workerid;
	unsigned workerorder;
	uint32_t *workerids;
	unsigned workerids_len;
	int priority;
	enum starpu_task_status status;
	/* 42 in every task that was initialised. */
	int magic;
	unsigned type;
	unsigned color;
	unsigned sched_ctx;
	int hypervisor_tag;
	unsigned possibly_parallel;
	starpu_task_bundle_t bundle;
	struct starpu_profiling_task_info *profiling_info;
	double flops;
	double predicted;
	double predicted_transfer;
	double predicted_start;
	struct starpu_task *prev;
	struct starpu_task *next;
	/* The library's own record of the task. */
	void *starpu_private;
	void *omp_task;

	unsigned char recursive_task_is_sync_task;
	ZELLIGE_ALSO_(unsigned long recursive_task_parent, unsigned long bubble_parent);
	ZELLIGE_ALSO_(starpu_recursive_task_func_t recursive_task_func, starpu_bubble_func_t bubble_func);
	ZELLIGE_ALSO_(void *recursive_task_func_arg, void *bubble_func_arg);
	ZELLIGE_ALSO_(starpu_recursive_task_gen_dag_func_t recursive_task_gen_dag_func,
		      starpu_bubble_gen_dag_func_t bubble_gen_dag_func);
	ZELLIGE_ALSO_(void *recursive_task_gen_dag_func_arg, void *bubble_gen_dag_func_arg);
	unsigned recursive_task_communication_already_made;
	unsigned nb_termination_call_required;
	void *sched_data;
};

#define STARPU_DEFAULT_PRIO 0

#define ZELLIGE_NAN_ (__builtin_nan(""))
/* What starpu_task_init makes of a task; members that are not named are zero. */
#define STARPU_TASK_INITIALIZER                                                                    \
	{                                                                                          \
		.where = -1, .sequential_consistency = 1, .detach = 1,                             \
		.priority = STARPU_DEFAULT_PRIO, .status = STARPU_TASK_INIT, .magic = 42,          \
		.sched_ctx = STARPU_NMAX_SCHED_CTXS, .predicted = ZELLIGE_NAN_,                    \
		.predicted_transfer = ZELLIGE_NAN_, .predicted_start = ZELLIGE_NAN_                \
	}

/* ---- Starting and stopping ------------------------------------------------------------------- */

struct starpu_conf
{
	int magic;
	int will_use_mpi;
	const char *sched_policy_name;
	struct starpu_sched_policy *sched_policy;
	void (*sched_policy_callback)(unsigned sched_ctx_id);
	int precedence_over_environment_variables;

	int ncpus;
	int reserve_ncpus;
	int ncuda;
	int nhip;
	int nsycl;
	int nopencl;
	int nmax_fpga;
	ZELLIGE_ALSO_(int nmpi_sc, int nmpi_ms);
	ZELLIGE_ALSO_(int ntcpip_sc, int ntcpip_ms);

	unsigned use_explicit_workers_bindid;
	unsigned workers_bindid[STARPU_NMAXWORKERS];
	unsigned use_explicit_workers_cuda_gpuid;
	unsigned workers_cuda_gpuid[STARPU_NMAXWORKERS];
	unsigned use_explicit_workers_hip_gpuid;
	unsigned workers_hip_gpuid[STARPU_NMAXWORKERS];
	unsigned use_explicit_workers_sycl_gpuid;
	unsigned workers_sycl_gpuid[STARPU_NMAXWORKERS];
	unsigned use_explicit_workers_opencl_gpuid;
	unsigned workers_opencl_gpuid[STARPU_NMAXWORKERS];
	unsigned use_explicit_workers_max_fpga_deviceid;
	unsigned workers_max_fpga_deviceid[STARPU_NMAXWORKERS];
	void *max_fpga_load;
	ZELLIGE_ALSO_(unsigned use_explicit_workers_mpi_sc_deviceid, unsigned use_explicit_workers_mpi_ms_deviceid);
	ZELLIGE_ALSO_(unsigned workers_mpi_sc_deviceid[STARPU_NMAXWORKERS],
		      unsigned workers_mpi_ms_deviceid[STARPU_NMAXWORKERS]);

	int bus_calibrate;
	int calibrate;
	int data_locality_enforce;
	int single_combined_worker;
	int disable_asynchronous_copy;
	int disable_asynchronous_cuda_copy;
	int disable_asynchronous_hip_copy;
	int disable_asynchronous_sycl_copy;
	int disable_asynchronous_opencl_copy;
	ZELLIGE_ALSO_(int disable_asynchronous_mpi_sc_copy, int disable_asynchronous_mpi_ms_copy);
	ZELLIGE_ALSO_(int disable_asynchronous_tcpip_sc_copy, int disable_asynchronous_tcpip_ms_copy);
	int disable_asynchronous_max_fpga_copy;
	int enable_map;
	unsigned *cuda_opengl_interoperability;
	unsigned n_cuda_opengl_interoperability;
	struct starpu_driver *not_launched_drivers;
	unsigned n_not_launched_drivers;
	uint64_t trace_buffer_size;
	int global_sched_ctx_min_priority;
	int global_sched_ctx_max_priority;
	void (*callback_worker_going_to_sleep)(unsigned workerid);
	void (*callback_worker_waking_up)(unsigned workerid);
	int catch_signals;
	unsigned start_perf_counter_collection;
	unsigned driver_spinning_backoff_min;
	unsigned driver_spinning_backoff_max;
	int cuda_only_fast_alloc_other_memnodes;
};

/* ---- Data: interfaces and filters ------------------------------------------------------------ */

enum starpu_data_interface_id
{
	STARPU_UNKNOWN_INTERFACE_ID = -1,
	STARPU_MATRIX_INTERFACE_ID,
	STARPU_BLOCK_INTERFACE_ID,
	STARPU_VECTOR_INTERFACE_ID,
	STARPU_CSR_INTERFACE_ID,
	STARPU_BCSR_INTERFACE_ID,
	STARPU_VARIABLE_INTERFACE_ID,
	STARPU_VOID_INTERFACE_ID,
	STARPU_MULTIFORMAT_INTERFACE_ID,
	STARPU_COO_INTERFACE_ID,
	STARPU_TENSOR_INTERFACE_ID,
	STARPU_NDIM_INTERFACE_ID,
	/* The first number that starpu_data_interface_get_next_id gives to an own interface. */
	STARPU_MAX_INTERFACE_ID
};

/* Copies a piece of data from one node to another. */
typedef int (*zellige_starpu_copy_t)(void *src_interface, unsigned src_node, void *dst_interface, unsigned dst_node);
/* The same in the order of a stream of CUDA (cudaStream_t); 0 or -EAGAIN. */
struct CUstream_st;
typedef int (*zellige_starpu_cuda_copy_t)(void *src_interface, unsigned src_node, void *dst_interface, unsigned dst_node,
					  struct CUstream_st *stream);
/* The place of an asynchronous copy for a device that this build has none of. */
typedef int (*zellige_starpu_no_copy_t)(void);

struct starpu_data_copy_methods
{
	int (*can_copy)(void *src_interface, unsigned src_node, void *dst_interface, unsigned dst_node,
			unsigned handling_node);
	zellige_starpu_copy_t ram_to_ram;
	zellige_starpu_copy_t ram_to_cuda, ram_to_hip, ram_to_sycl, ram_to_opencl, ram_to_max_fpga;
	zellige_starpu_copy_t cuda_to_ram, cuda_to_cuda;
	zellige_starpu_copy_t hip_to_ram, hip_to_hip;
	zellige_starpu_copy_t sycl_to_ram, sycl_to_sycl;
	zellige_starpu_copy_t opencl_to_ram, opencl_to_opencl;
	zellige_starpu_copy_t max_fpga_to_ram;
	zellige_starpu_cuda_copy_t ram_to_cuda_async, cuda_to_ram_async, cuda_to_cuda_async;
	zellige_starpu_no_copy_t ram_to_hip_async, hip_to_ram_async, hip_to_hip_async;
	zellige_starpu_no_copy_t ram_to_sycl_async, sycl_to_ram_async, sycl_to_sycl_async;
	zellige_starpu_no_copy_t ram_to_opencl_async, opencl_to_ram_async, opencl_to_opencl_async;
	zellige_starpu_copy_t ram_to_max_fpga_async, max_fpga_to_ram_async;
	int (*any_to_any)(void *src_interface, unsigned src_node, void *dst_interface, unsigned dst_node,
			  void *async_data);
};

struct starpu_data_interface_ops
{
	void (*register_data_handle)(starpu_data_handle_t handle, int home_node, void *data_interface);
	void (*unregister_data_handle)(starpu_data_handle_t handle);
	starpu_ssize_t (*allocate_data_on_node)(void *data_interface, unsigned node);
	void (*free_data_on_node)(void *data_interface, unsigned node);
	void (*cache_data_on_node)(void *cached_interface, void *src_interface, unsigned node);
	void (*reuse_data_on_node)(void *dst_interface, const void *cached_interface, unsigned node);
	zellige_starpu_copy_t map_data;
	zellige_starpu_copy_t unmap_data;
	zellige_starpu_copy_t update_map;
	void (*init)(void *data_interface);
	const struct starpu_data_copy_methods *copy_methods;
	void *(*handle_to_pointer)(starpu_data_handle_t handle, unsigned node);
	void *(*to_pointer)(void *data_interface, unsigned node);
	int (*pointer_is_inside)(void *data_interface, unsigned node, void *ptr);
	size_t (*get_size)(starpu_data_handle_t handle);
	size_t (*get_alloc_size)(starpu_data_handle_t handle);
	size_t (*get_max_size)(starpu_data_handle_t handle);
	uint32_t (*footprint)(starpu_data_handle_t handle);
	uint32_t (*alloc_footprint)(starpu_data_handle_t handle);
	int (*compare)(void *data_interface_a, void *data_interface_b);
	int (*alloc_compare)(void *data_interface_a, void *data_interface_b);
	void (*display)(starpu_data_handle_t handle, FILE *stream);
	starpu_ssize_t (*describe)(void *data_interface, char *text, size_t size);
	enum starpu_data_interface_id interfaceid;
	size_t interface_size;
	char is_multiformat;
	char dontcache;
	struct starpu_multiformat_data_interface_ops *(*get_mf_ops)(void *data_interface);
	int (*pack_data)(starpu_data_handle_t handle, unsigned node, void **ptr, starpu_ssize_t *count);
	int (*peek_data)(starpu_data_handle_t handle, unsigned node, void *ptr, size_t count);
	int (*unpack_data)(starpu_data_handle_t handle, unsigned node, void *ptr, size_t count);
	int (*pack_meta)(void *data_interface, void **ptr, starpu_ssize_t *count);
	int (*unpack_meta)(void **data_interface, void *ptr, starpu_ssize_t *count);
	int (*free_meta)(void *data_interface);
	char *name;
};

struct starpu_data_filter
{
	void (*filter_func)(void *parent_interface, void *child_interface, struct starpu_data_filter *filter,
			    unsigned id, unsigned nparts);
	unsigned nchildren;
	unsigned (*get_nchildren)(struct starpu_data_filter *filter, starpu_data_handle_t handle);
	struct starpu_data_interface_ops *(*get_child_ops)(struct starpu_data_filter *filter, unsigned id);
	size_t filter_arg;
	void *filter_arg_ptr;
};

/* ---- Checks, as programs write them ---------------------------------------------------------- */

#define STARPU_MIN(a, b) ((b) < (a) ? (b) : (a))
#define STARPU_MAX(a, b) ((a) < (b) ? (b) : (a))
#define STARPU_POISON_PTR ((void *) 0xdeadbeef)

/* Writes what went wrong, where, and the calls that led there; it returns. */
void zellige_starpu_report(const char *file, int line, const char *function, const char *format, ...)
	STARPU_ATTRIBUTE_FORMAT(printf, 4, 5);
void zellige_starpu_backtrace(void);
#define ZELLIGE_REPORT_(...) zellige_starpu_report(__FILE__, __LINE__, __func__, __VA_ARGS__)

#define STARPU_BACKTRACE_LENGTH 32
#define STARPU_BACKTRACE_FILE stderr
#define STARPU_DUMP_BACKTRACE() zellige_starpu_backtrace()
#define STARPU_SIMGRID_ASSERT(condition)

#define STARPU_ABORT()                                                                             \
	do                                                                                         \
	{                                                                                          \
		ZELLIGE_REPORT_("aborted");                                                        \
		abort();                                                                           \
	} while (0)
#define STARPU_ABORT_MSG(format, ...)                                                              \
	do                                                                                         \
	{                                                                                          \
		ZELLIGE_REPORT_("aborted: " format, ##__VA_ARGS__);                                \
		abort();                                                                           \
	} while (0)
#define STARPU_ASSERT_MSG_ALWAYS(condition, format, ...)                                           \
	do                                                                                         \
	{                                                                                          \
		if (STARPU_UNLIKELY(!(condition)))                                                 \
		{                                                                                  \
			ZELLIGE_REPORT_("`%s' does not hold: " format, #condition, ##__VA_ARGS__); \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#ifdef STARPU_NO_ASSERT
#define STARPU_ASSERT(condition) ((void) sizeof(!(condition)))
#define STARPU_ASSERT_MSG(condition, ...) ((void) sizeof(!(condition)))
#define STARPU_ASSERT_ACCESSIBLE(pointer) ((void) sizeof(pointer))
#else
#define STARPU_ASSERT(condition)                                                                   \
	do                                                                                         \
	{                                                                                          \
		if (STARPU_UNLIKELY(!(condition)))                                                 \
		{                                                                                  \
			ZELLIGE_REPORT_("`%s' does not hold", #condition);                         \
			abort();                                                                   \
		}                                                                                  \
	} while (0)
#define STARPU_ASSERT_MSG STARPU_ASSERT_MSG_ALWAYS
#define STARPU_ASSERT_ACCESSIBLE(pointer) ((void) *(volatile const char *) (pointer))
#endif
#if !defined __cplusplus && !defined __STRICT_ANSI__ && STARPU_GNUC_PREREQ(4, 6)
#define STARPU_STATIC_ASSERT(condition) _Static_assert(condition, #condition)
#else
#define STARPU_STATIC_ASSERT(condition) STARPU_ASSERT(condition)
#endif

/* Programs write both of these without a semicolon, too: each is a block. */
#define STARPU_CHECK_RETURN_VALUE(value, format, ...)                                              \
	{                                                                                          \
		if (STARPU_UNLIKELY((value) != 0))                                                 \
		{                                                                                  \
			ZELLIGE_REPORT_("%d (%s) from " format, (int) (value),                     \
					strerror(abs((int) (value))), ##__VA_ARGS__);              \
			abort();                                                                   \
		}                                                                                  \
	}
#define STARPU_CHECK_RETURN_VALUE_IS(value, expected, format, ...)                                 \
	{                                                                                          \
		if (STARPU_UNLIKELY((value) != (expected)))                                        \
		{                                                                                  \
			ZELLIGE_REPORT_("%d (%s) instead of %d from " format, (int) (value),       \
					strerror(abs((int) (value))), (int) (expected),            \
					##__VA_ARGS__);                                            \
			abort();                                                                   \
		}                                                                                  \
	}
#define starpu_strerror_r(number, text, length) ((void) snprintf((text), (length), "%s", strerror(number)))

/* ---- Atomic operations ----------------------------------------------------------------------- */

#define STARPU_CACHELINE_SIZE 64

/* Sums give the new value, unions the old one. */
#define STARPU_ATOMIC_ADD(pointer, value) __sync_add_and_fetch((pointer), (value))
#define STARPU_ATOMIC_ADDL STARPU_ATOMIC_ADD
#define STARPU_ATOMIC_ADD64 STARPU_ATOMIC_ADD
#define STARPU_ATOMIC_OR(pointer, value) __sync_fetch_and_or((pointer), (value))
#define STARPU_ATOMIC_ORL STARPU_ATOMIC_OR
#define STARPU_ATOMIC_OR64 STARPU_ATOMIC_OR
#define STARPU_BOOL_COMPARE_AND_SWAP(pointer, old, value) __sync_bool_compare_and_swap((pointer), (old), (value))
#define STARPU_BOOL_COMPARE_AND_SWAP32 STARPU_BOOL_COMPARE_AND_SWAP
#define STARPU_BOOL_COMPARE_AND_SWAP64 STARPU_BOOL_COMPARE_AND_SWAP
#define STARPU_BOOL_COMPARE_AND_SWAP_PTR(pointer, old, value)                                      \
	__sync_bool_compare_and_swap((uintptr_t *) (pointer), (uintptr_t) (old), (uintptr_t) (value))
#define STARPU_VAL_COMPARE_AND_SWAP(pointer, old, value) __sync_val_compare_and_swap((pointer), (old), (value))
#define STARPU_VAL_COMPARE_AND_SWAP32 STARPU_VAL_COMPARE_AND_SWAP
#define STARPU_VAL_COMPARE_AND_SWAP64 STARPU_VAL_COMPARE_AND_SWAP
#define STARPU_VAL_COMPARE_AND_SWAP_PTR(pointer, old, value)                                       \
	((void *) __sync_val_compare_and_swap((uintptr_t *) (pointer), (uintptr_t) (old), (uintptr_t) (value)))
#define STARPU_VAL_EXCHANGE(pointer, value) __atomic_exchange_n((pointer), (value), __ATOMIC_SEQ_CST)
#define STARPU_VAL_EXCHANGEL STARPU_VAL_EXCHANGE
#define STARPU_VAL_EXCHANGE32 STARPU_VAL_EXCHANGE
#define STARPU_VAL_EXCHANGE64 STARPU_VAL_EXCHANGE
#define STARPU_TEST_AND_SET(pointer, value) __sync_lock_test_and_set((pointer), (value))
#define STARPU_RELEASE(pointer) __sync_lock_release(pointer)
#define STARPU_SYNCHRONIZE() __sync_synchronize()
#define STARPU_RMB() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define STARPU_WMB() __atomic_thread_fence(__ATOMIC_RELEASE)
#define STARPU_HAVE_SYNC_FETCH_AND_ADD 1
#define STARPU_HAVE_SYNC_FETCH_AND_OR 1
#define STARPU_HAVE_SYNC_BOOL_COMPARE_AND_SWAP 1
#define STARPU_HAVE_SYNC_VAL_COMPARE_AND_SWAP 1
#define STARPU_HAVE_SYNC_LOCK_TEST_AND_SET 1
#define STARPU_HAVE_SYNC_SYNCHRONIZE 1

/* ---- Threads: those of POSIX under other names ----------------------------------------------- */

typedef pthread_t starpu_pthread_t;
typedef pthread_attr_t starpu_pthread_attr_t;
typedef pthread_key_t starpu_pthread_key_t;
typedef pthread_mutex_t starpu_pthread_mutex_t;
typedef pthread_mutexattr_t starpu_pthread_mutexattr_t;
typedef pthread_cond_t starpu_pthread_cond_t;
typedef pthread_condattr_t starpu_pthread_condattr_t;
typedef sem_t starpu_sem_t;
/* Without these feature macros glibc hides locks for readers, barriers and spin locks. */
#if !defined __GLIBC__ || defined __USE_UNIX98 || defined __USE_XOPEN2K
typedef pthread_rwlock_t starpu_pthread_rwlock_t;
typedef pthread_rwlockattr_t starpu_pthread_rwlockattr_t;
#define STARPU_PTHREAD_RWLOCK_INITIALIZER PTHREAD_RWLOCK_INITIALIZER
#endif
#if !defined __GLIBC__ || defined __USE_XOPEN2K
typedef pthread_barrier_t starpu_pthread_barrier_t;
typedef pthread_barrierattr_t starpu_pthread_barrierattr_t;
typedef pthread_spinlock_t starpu_pthread_spinlock_t;
#define STARPU_PTHREAD_BARRIER_SERIAL_THREAD PTHREAD_BARRIER_SERIAL_THREAD
#endif
#define STARPU_PTHREAD_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define STARPU_PTHREAD_COND_INITIALIZER PTHREAD_COND_INITIALIZER

#define starpu_pthread_create pthread_create
#define starpu_pthread_create_on(name, thread, attributes, function, argument, where)              \
	pthread_create((thread), (attributes), (function), (argument))
#define starpu_pthread_join pthread_join
#define starpu_pthread_detach pthread_detach
#define starpu_pthread_exit pthread_exit
#define starpu_pthread_self pthread_self
#define starpu_pthread_equal pthread_equal
#ifdef __USE_GNU
#define starpu_pthread_setname(name) pthread_setname_np(pthread_self(), name)
#else
#define starpu_pthread_setname(name) ((void) (name))
#endif
#define starpu_pthread_attr_init pthread_attr_init
#define starpu_pthread_attr_destroy pthread_attr_destroy
#define starpu_pthread_attr_setdetachstate pthread_attr_setdetachstate
#define starpu_pthread_attr_setstacksize pthread_attr_setstacksize
#define starpu_pthread_key_create pthread_key_create
#define starpu_pthread_key_delete pthread_key_delete
#define starpu_pthread_setspecific pthread_setspecific
#define starpu_pthread_getspecific pthread_getspecific
#define starpu_pthread_mutexattr_init pthread_mutexattr_init
#define starpu_pthread_mutexattr_destroy pthread_mutexattr_destroy
#define starpu_pthread_mutexattr_gettype pthread_mutexattr_gettype
#define starpu_pthread_mutexattr_settype pthread_mutexattr_settype
#define starpu_pthread_mutex_init pthread_mutex_init
#define starpu_pthread_mutex_destroy pthread_mutex_destroy
#define starpu_pthread_mutex_lock pthread_mutex_lock
#define starpu_pthread_mutex_unlock pthread_mutex_unlock
#define starpu_pthread_mutex_trylock pthread_mutex_trylock
#define starpu_pthread_mutex_lock_sched pthread_mutex_lock
#define starpu_pthread_mutex_unlock_sched pthread_mutex_unlock
#define starpu_pthread_mutex_trylock_sched pthread_mutex_trylock
#define starpu_pthread_mutex_check_sched(mutex, file, line) ((void) (mutex))
#define starpu_pthread_cond_init pthread_cond_init
#define starpu_pthread_cond_destroy pthread_cond_destroy
#define starpu_pthread_cond_wait pthread_cond_wait
#define starpu_pthread_cond_timedwait pthread_cond_timedwait
#define starpu_pthread_cond_signal pthread_cond_signal
#define starpu_pthread_cond_broadcast pthread_cond_broadcast
#define starpu_pthread_rwlock_init pthread_rwlock_init
#define starpu_pthread_rwlock_destroy pthread_rwlock_destroy
#define starpu_pthread_rwlock_rdlock pthread_rwlock_rdlock
#define starpu_pthread_rwlock_tryrdlock pthread_rwlock_tryrdlock
#define starpu_pthread_rwlock_wrlock pthread_rwlock_wrlock
#define starpu_pthread_rwlock_trywrlock pthread_rwlock_trywrlock
#define starpu_pthread_rwlock_unlock pthread_rwlock_unlock
#define starpu_pthread_barrier_init pthread_barrier_init
#define starpu_pthread_barrier_destroy pthread_barrier_destroy
#define starpu_pthread_barrier_wait pthread_barrier_wait
#define starpu_pthread_spin_init pthread_spin_init
#define starpu_pthread_spin_destroy pthread_spin_destroy
#define starpu_pthread_spin_lock pthread_spin_lock
#define starpu_pthread_spin_trylock pthread_spin_trylock
#define starpu_pthread_spin_unlock pthread_spin_unlock
#define starpu_sem_init sem_init
#define starpu_sem_destroy sem_destroy
#define starpu_sem_getvalue sem_getvalue
#define starpu_sem_post sem_post
int starpu_sem_wait(starpu_sem_t *semaphore);
int starpu_sem_trywait(starpu_sem_t *semaphore);

/* Calls that have to succeed, or that may give the one other value without ending the program. */
static __starpu_inline int zellige_starpu_must_(int value, int allowed, const char *call, const char *file, int line)
{
	if (STARPU_UNLIKELY(value != 0 && value != allowed))
	{
		zellige_starpu_report(file, line, call, "%d (%s)", value, strerror(value));
		abort();
	}
	return value;
}
#define ZELLIGE_MAY_(call, allowed) zellige_starpu_must_((call), (allowed), #call, __FILE__, __LINE__)
#define ZELLIGE_MUST_(call) ((void) ZELLIGE_MAY_(call, 0))

#define STARPU_PTHREAD_CREATE(thread, attributes, function, argument)                              \
	ZELLIGE_MUST_(pthread_create((thread), (attributes), (function), (argument)))
#define STARPU_PTHREAD_CREATE_ON(name, thread, attributes, function, argument, where)              \
	STARPU_PTHREAD_CREATE(thread, attributes, function, argument)
#define STARPU_PTHREAD_JOIN(thread, result) ZELLIGE_MUST_(pthread_join((thread), (result)))
#define STARPU_PTHREAD_KEY_CREATE(key, destructor) ZELLIGE_MUST_(pthread_key_create((key), (destructor)))
#define STARPU_PTHREAD_KEY_DELETE(key) ZELLIGE_MUST_(pthread_key_delete(key))
#define STARPU_PTHREAD_SETSPECIFIC(key, pointer) ZELLIGE_MUST_(pthread_setspecific((key), (pointer)))
#define STARPU_PTHREAD_GETSPECIFIC(key) pthread_getspecific(key)
#define STARPU_PTHREAD_MUTEX_INIT(mutex, attributes) ZELLIGE_MUST_(pthread_mutex_init((mutex), (attributes)))
#define STARPU_PTHREAD_MUTEX_INIT0 STARPU_PTHREAD_MUTEX_INIT
#define STARPU_PTHREAD_MUTEX_DESTROY(mutex) ZELLIGE_MUST_(pthread_mutex_destroy(mutex))
#define STARPU_PTHREAD_MUTEX_LOCK(mutex) ZELLIGE_MUST_(pthread_mutex_lock(mutex))
#define STARPU_PTHREAD_MUTEX_UNLOCK(mutex) ZELLIGE_MUST_(pthread_mutex_unlock(mutex))
#define STARPU_PTHREAD_MUTEX_TRYLOCK(mutex) ZELLIGE_MAY_(pthread_mutex_trylock(mutex), EBUSY)
#define STARPU_PTHREAD_MUTEX_LOCK_SCHED STARPU_PTHREAD_MUTEX_LOCK
#define STARPU_PTHREAD_MUTEX_UNLOCK_SCHED STARPU_PTHREAD_MUTEX_UNLOCK
#define STARPU_PTHREAD_MUTEX_TRYLOCK_SCHED STARPU_PTHREAD_MUTEX_TRYLOCK
#define STARPU_PTHREAD_COND_INIT(condition, attributes) ZELLIGE_MUST_(pthread_cond_init((condition), (attributes)))
#define STARPU_PTHREAD_COND_INIT0 STARPU_PTHREAD_COND_INIT
#define STARPU_PTHREAD_COND_DESTROY(condition) ZELLIGE_MUST_(pthread_cond_destroy(condition))
#define STARPU_PTHREAD_COND_SIGNAL(condition) ZELLIGE_MUST_(pthread_cond_signal(condition))
#define STARPU_PTHREAD_COND_BROADCAST(condition) ZELLIGE_MUST_(pthread_cond_broadcast(condition))
#define STARPU_PTHREAD_COND_WAIT(condition, mutex) ZELLIGE_MUST_(pthread_cond_wait((condition), (mutex)))
#define STARPU_PTHREAD_COND_TIMEDWAIT(condition, mutex, until)                                     \
	ZELLIGE_MAY_(pthread_cond_timedwait((condition), (mutex), (until)), ETIMEDOUT)
#define STARPU_PTHREAD_RWLOCK_INIT(lock, attributes) ZELLIGE_MUST_(pthread_rwlock_init((lock), (attributes)))
#define STARPU_PTHREAD_RWLOCK_INIT0 STARPU_PTHREAD_RWLOCK_INIT
#define STARPU_PTHREAD_RWLOCK_DESTROY(lock) ZELLIGE_MUST_(pthread_rwlock_destroy(lock))
#define STARPU_PTHREAD_RWLOCK_RDLOCK(lock) ZELLIGE_MUST_(pthread_rwlock_rdlock(lock))
#define STARPU_PTHREAD_RWLOCK_WRLOCK(lock) ZELLIGE_MUST_(pthread_rwlock_wrlock(lock))
#define STARPU_PTHREAD_RWLOCK_TRYRDLOCK(lock) ZELLIGE_MAY_(pthread_rwlock_tryrdlock(lock), EBUSY)
#define STARPU_PTHREAD_RWLOCK_TRYWRLOCK(lock) ZELLIGE_MAY_(pthread_rwlock_trywrlock(lock), EBUSY)
#define STARPU_PTHREAD_RWLOCK_UNLOCK(lock) ZELLIGE_MUST_(pthread_rwlock_unlock(lock))
#define STARPU_PTHREAD_BARRIER_INIT(barrier, attributes, count)                                    \
	ZELLIGE_MUST_(pthread_barrier_init((barrier), (attributes), (count)))
#define STARPU_PTHREAD_BARRIER_DESTROY(barrier) ZELLIGE_MUST_(pthread_barrier_destroy(barrier))
#define STARPU_PTHREAD_BARRIER_WAIT(barrier)                                                       \
	ZELLIGE_MAY_(pthread_barrier_wait(barrier), PTHREAD_BARRIER_SERIAL_THREAD)

/* ---- The library itself ---------------------------------------------------------------------- */

int starpu_conf_init(struct starpu_conf *conf);
int starpu_conf_noworker(struct starpu_conf *conf);
int starpu_init(struct starpu_conf *conf) STARPU_WARN_UNUSED_RESULT;
int starpu_initialize(struct starpu_conf *conf, int *argc, char ***argv);
int starpu_is_initialized(void);
void starpu_wait_initialized(void);
void starpu_shutdown(void);
void starpu_pause(void);
void starpu_resume(void);
int starpu_is_paused(void);
void starpu_get_version(int *major, int *minor, int *release);
void starpu_display_stats(void);
void starpu_topology_print(FILE *stream);
void starpu_display_bindings(void);
int starpu_map_enabled(void);

int starpu_asynchronous_copy_disabled(void);
int starpu_asynchronous_copy_disabled_for(enum starpu_node_kind kind);
int starpu_asynchronous_cuda_copy_disabled(void);
int starpu_asynchronous_hip_copy_disabled(void);
int starpu_asynchronous_sycl_copy_disabled(void);
int starpu_asynchronous_opencl_copy_disabled(void);
int starpu_asynchronous_max_fpga_copy_disabled(void);
int starpu_asynchronous_mpi_sc_copy_disabled(void);
int starpu_asynchronous_tcpip_sc_copy_disabled(void);

#define STARPU_THREAD_ACTIVE 1
unsigned starpu_get_next_bindid(unsigned flags, unsigned *preferred, unsigned npreferred);
int starpu_bind_thread_on(int cpuid, unsigned flags, const char *name);
void starpu_bind_thread_on_worker(unsigned workerid);
void starpu_bind_thread_on_main(void);
void starpu_bind_thread_on_cpu(int cpuid);
int starpu_cpu_os_index(int cpuid);
int starpu_get_pu_os_index(unsigned logical_index);
long starpu_get_memory_location_bitmap(void *ptr, size_t size);

/* A worker that the program drives from a thread of its own. */
struct starpu_driver
{
	enum starpu_worker_archtype type;
	union
	{
		unsigned cpu_id;
		unsigned cuda_id;
		unsigned hip_id;
		unsigned sycl_id;
	} id;
};
void starpu_drivers_preinit(void);
int starpu_driver_run(struct starpu_driver *driver);
int starpu_driver_init(struct starpu_driver *driver);
int starpu_driver_run_once(struct starpu_driver *driver);
int starpu_driver_deinit(struct starpu_driver *driver);
void starpu_drivers_request_termination(void);

void starpu_wake_all_blocked_workers(void);
int starpu_progression_hook_register(unsigned (*hook)(void *arg), void *arg);
void starpu_progression_hook_deregister(int hook_id);
int starpu_idle_hook_register(unsigned (*hook)(void *arg), void *arg);
void starpu_idle_hook_deregister(int hook_id);
void starpu_sink_common_worker(int argc, char **argv);

/* ---- Submitting tasks ------------------------------------------------------------------------ */

extern struct starpu_codelet starpu_codelet_nop;
void starpu_codelet_init(struct starpu_codelet *cl);
void starpu_codelet_display_stats(struct starpu_codelet *cl);

void starpu_task_init(struct starpu_task *task);
void starpu_task_clean(struct starpu_task *task);
struct starpu_task *starpu_task_create(void) STARPU_ATTRIBUTE_MALLOC;
struct starpu_task *starpu_task_create_sync(starpu_data_handle_t handle, enum starpu_data_access_mode mode)
	STARPU_ATTRIBUTE_MALLOC;
struct starpu_task *starpu_task_dup(struct starpu_task *task);
void starpu_task_destroy(struct starpu_task *task);
void starpu_task_set_destroy(struct starpu_task *task);

int starpu_task_submit(struct starpu_task *task) STARPU_WARN_UNUSED_RESULT;
int starpu_task_submit_nodeps(struct starpu_task *task) STARPU_WARN_UNUSED_RESULT;
int starpu_task_submit_to_ctx(struct starpu_task *task, unsigned sched_ctx_id);

int starpu_task_finished(struct starpu_task *task) STARPU_WARN_UNUSED_RESULT;
int starpu_task_wait(struct starpu_task *task) STARPU_WARN_UNUSED_RESULT;
int starpu_task_wait_array(struct starpu_task **tasks, unsigned ntasks) STARPU_WARN_UNUSED_RESULT;
int starpu_task_wait_for_all(void);
int starpu_task_wait_for_all_in_ctx(unsigned sched_ctx_id);
int starpu_task_wait_for_n_submitted(unsigned n);
int starpu_task_wait_for_n_submitted_in_ctx(unsigned sched_ctx_id, unsigned n);
int starpu_task_wait_for_no_ready(void);
int starpu_task_nready(void);
int starpu_task_nsubmitted(void);
void starpu_do_schedule(void);
void starpu_reset_scheduler(void);
void starpu_iteration_push(unsigned long iteration);
void starpu_iteration_pop(void);

struct starpu_task *starpu_task_get_current(void);
int starpu_task_get_current_data_node(unsigned i);
unsigned long starpu_task_get_job_id(struct starpu_task *task);
const char *starpu_task_get_name(struct starpu_task *task);
const char *starpu_task_get_model_name(struct starpu_task *task);
void starpu_task_set_implementation(struct starpu_task *task, unsigned nimpl);
unsigned starpu_task_get_implementation(struct starpu_task *task);
char *starpu_task_status_get_as_string(enum starpu_task_status status);
void starpu_task_watchdog_set_hook(void (*hook)(void *arg), void *arg);

int starpu_get_limit_min_submitted_tasks(void);
int starpu_get_limit_max_submitted_tasks(void);
void starpu_set_limit_min_submitted_tasks(int limit);
void starpu_set_limit_max_submitted_tasks(int limit);

void starpu_create_sync_task(starpu_tag_t tag, unsigned ndeps, starpu_tag_t *deps, void (*callback)(void *arg),
			     void *arg);
void starpu_create_callback_task(void (*callback)(void *arg), void *arg);

void starpu_task_ft_prologue(void *check_ft);
struct starpu_task *starpu_task_ft_create_retry(const struct starpu_task *meta_task,
						const struct starpu_task *template_task, void (*check_ft)(void *arg));
void starpu_task_ft_failed(struct starpu_task *task);
void starpu_task_ft_success(struct starpu_task *meta_task);

struct starpu_transaction *starpu_transaction_open(int (*do_start)(void *buffer, void *arg), void *arg);
void starpu_transaction_next_epoch(struct starpu_transaction *transaction, void *arg);
void starpu_transaction_close(struct starpu_transaction *transaction);

/* A task's buffers stand in its arrays or, when it has them, in the dynamic ones. */
#define ZELLIGE_VARIABLE_(task) ((task)->cl->nbuffers == STARPU_VARIABLE_NBUFFERS)
#define ZELLIGE_MANY_(task) (ZELLIGE_VARIABLE_(task) || (task)->cl->nbuffers > STARPU_NMAXBUFS)
#define ZELLIGE_PICK_(dynamic, fixed) ((dynamic) ? (dynamic) : (fixed))
#define STARPU_TASK_GET_NBUFFERS(task)                                                             \
	((unsigned) ((task)->cl && !ZELLIGE_VARIABLE_(task) ? (task)->cl->nbuffers : (task)->nbuffers))
#define STARPU_TASK_GET_HANDLES(task) ZELLIGE_PICK_((task)->dyn_handles, (task)->handles)
#define STARPU_TASK_GET_HANDLE(task, i) (STARPU_TASK_GET_HANDLES(task)[i])
#define STARPU_TASK_SET_HANDLE(task, value, i) ((void) (STARPU_TASK_GET_HANDLES(task)[i] = (value)))
#define STARPU_CODELET_GET_MODE(codelet, i) (ZELLIGE_PICK_((codelet)->dyn_modes, (codelet)->modes)[i])
#define STARPU_CODELET_SET_MODE(codelet, value, i) ((void) (STARPU_CODELET_GET_MODE(codelet, i) = (value)))
#define STARPU_CODELET_GET_NODE(codelet, i) (ZELLIGE_PICK_((codelet)->dyn_nodes, (codelet)->nodes)[i])
#define STARPU_CODELET_SET_NODE(codelet, value, i) ((void) (STARPU_CODELET_GET_NODE(codelet, i) = (value)))
#define STARPU_TASK_GET_MODE(task, i)                                                              \
	(ZELLIGE_VARIABLE_(task) || (task)->dyn_modes ? ZELLIGE_PICK_((task)->dyn_modes, (task)->modes)[i] \
						      : STARPU_CODELET_GET_MODE((task)->cl, i))
#define STARPU_TASK_SET_MODE(task, value, i)                                                       \
	do                                                                                         \
	{                                                                                          \
		if (ZELLIGE_MANY_(task))                                                           \
			ZELLIGE_PICK_((task)->dyn_modes, (task)->modes)[i] = (value);              \
		else                                                                               \
			STARPU_ASSERT_MSG(STARPU_CODELET_GET_MODE((task)->cl, i) == (value),       \
					  "buffer %d of codelet %s has another mode than %d",      \
					  (int) (i), (task)->cl->name, (int) (value));             \
	} while (0)
#define STARPU_TASK_GET_NODE(task, i)                                                              \
	((task)->specific_nodes && (ZELLIGE_VARIABLE_(task) || (task)->dyn_nodes)                  \
		 ? ZELLIGE_PICK_((task)->dyn_nodes, (task)->nodes)[i]                              \
		 : STARPU_CODELET_GET_NODE((task)->cl, i))
#define STARPU_TASK_SET_NODE(task, value, i)                                                       \
	do                                                                                         \
	{                                                                                          \
		if (ZELLIGE_MANY_(task))                                                           \
		{                                                                                  \
			(task)->specific_nodes = 1;                                                \
			ZELLIGE_PICK_((task)->dyn_nodes, (task)->nodes)[i] = (value);              \
		}                                                                                  \
		else                                                                               \
			STARPU_ASSERT_MSG(STARPU_CODELET_GET_NODE((task)->cl, i) == (value),       \
					  "buffer %d of codelet %s is for another node than %d",   \
					  (int) (i), (task)->cl->name, (int) (value));             \
	} while (0)

/* Tasks in a list; a task is in one list at most. */
struct starpu_task_list
{
	struct starpu_task *head;
	struct starpu_task *tail;
};
void starpu_task_list_init(struct starpu_task_list *list);
int starpu_task_list_empty(const struct starpu_task_list *list);
void starpu_task_list_push_front(struct starpu_task_list *list, struct starpu_task *task);
void starpu_task_list_push_back(struct starpu_task_list *list, struct starpu_task *task);
struct starpu_task *starpu_task_list_pop_front(struct starpu_task_list *list);
struct starpu_task *starpu_task_list_pop_back(struct starpu_task_list *list);
struct starpu_task *starpu_task_list_front(const struct starpu_task_list *list);
struct starpu_task *starpu_task_list_back(const struct starpu_task_list *list);
struct starpu_task *starpu_task_list_begin(const struct starpu_task_list *list);
struct starpu_task *starpu_task_list_end(const struct starpu_task_list *list);
struct starpu_task *starpu_task_list_next(const struct starpu_task *task);
int starpu_task_list_ismember(const struct starpu_task_list *list, const struct starpu_task *task);
void starpu_task_list_erase(struct starpu_task_list *list, struct starpu_task *task);
void starpu_task_list_move(struct starpu_task_list *to, struct starpu_task_list *from);

void starpu_task_bundle_create(starpu_task_bundle_t *bundle);
int starpu_task_bundle_insert(starpu_task_bundle_t bundle, struct starpu_task *task);
int starpu_task_bundle_remove(starpu_task_bundle_t bundle, struct starpu_task *task);
void starpu_task_bundle_close(starpu_task_bundle_t bundle);
double starpu_task_bundle_expected_length(starpu_task_bundle_t bundle, struct starpu_perfmodel_arch *arch,
					  unsigned nimpl);
double starpu_task_bundle_expected_data_transfer_time(starpu_task_bundle_t bundle, unsigned memory_node);
double starpu_task_bundle_expected_energy(starpu_task_bundle_t bundle, struct starpu_perfmodel_arch *arch,
					  unsigned nimpl);

/* ---- Dependencies between tasks, and tags ---------------------------------------------------- */

void starpu_task_declare_deps(struct starpu_task *task, unsigned ndeps, ...);
void starpu_task_declare_deps_array(struct starpu_task *task, unsigned ndeps, struct starpu_task *tasks[]);
void starpu_task_declare_end_deps(struct starpu_task *task, unsigned ndeps, ...);
void starpu_task_declare_end_deps_array(struct starpu_task *task, unsigned ndeps, struct starpu_task *tasks[]);
void starpu_task_end_dep_add(struct starpu_task *task, int ndeps);
void starpu_task_end_dep_release(struct starpu_task *task);
int starpu_task_get_task_succs(struct starpu_task *task, unsigned ndeps, struct starpu_task *tasks[]);
int starpu_task_get_task_scheduled_succs(struct starpu_task *task, unsigned ndeps, struct starpu_task *tasks[]);

void starpu_tag_declare_deps(starpu_tag_t tag, unsigned ndeps, ...);
void starpu_tag_declare_deps_array(starpu_tag_t tag, unsigned ndeps, starpu_tag_t *tags);
int starpu_tag_wait(starpu_tag_t tag);
int starpu_tag_wait_array(unsigned ntags, starpu_tag_t *tags);
void starpu_tag_restart(starpu_tag_t tag);
void starpu_tag_remove(starpu_tag_t tag);
void starpu_tag_clear(void);
void starpu_tag_notify_from_apps(starpu_tag_t tag);
void starpu_tag_notify_restart_from_apps(starpu_tag_t tag);
struct starpu_task *starpu_tag_get_task(starpu_tag_t tag);

/* ---- Tasks from lists of arguments ----------------------------------------------------------- */

/* The markers of starpu_task_insert lie above all access modes. */
#define STARPU_MODE_SHIFT 17
#define ZELLIGE_MARKER_(number) ((number) << STARPU_MODE_SHIFT)
#define STARPU_VALUE ZELLIGE_MARKER_(1)
#define STARPU_CL_ARGS ZELLIGE_MARKER_(26)
#define STARPU_CL_ARGS_NFREE ZELLIGE_MARKER_(27)
/* Data and where it is to be. */
#define STARPU_DATA_ARRAY ZELLIGE_MARKER_(8)
#define STARPU_DATA_MODE_ARRAY ZELLIGE_MARKER_(9)
#define STARPU_NODE_ARRAY ZELLIGE_MARKER_(10)
/* Functions called on the way. */
#define STARPU_CALLBACK ZELLIGE_MARKER_(2)
#define STARPU_CALLBACK_WITH_ARG ZELLIGE_MARKER_(3)
#define STARPU_CALLBACK_ARG ZELLIGE_MARKER_(4)
#define STARPU_CALLBACK_ARG_NFREE ZELLIGE_MARKER_(38)
#define STARPU_CALLBACK_WITH_ARG_NFREE ZELLIGE_MARKER_(39)
#define STARPU_PROLOGUE_CALLBACK ZELLIGE_MARKER_(15)
#define STARPU_PROLOGUE_CALLBACK_ARG ZELLIGE_MARKER_(16)
#define STARPU_PROLOGUE_CALLBACK_ARG_NFREE ZELLIGE_MARKER_(40)
#define STARPU_PROLOGUE_CALLBACK_POP ZELLIGE_MARKER_(17)
#define STARPU_PROLOGUE_CALLBACK_POP_ARG ZELLIGE_MARKER_(18)
#define STARPU_PROLOGUE_CALLBACK_POP_ARG_NFREE ZELLIGE_MARKER_(41)
#define STARPU_EPILOGUE_CALLBACK ZELLIGE_MARKER_(46)
#define STARPU_EPILOGUE_CALLBACK_ARG ZELLIGE_MARKER_(47)
#define STARPU_SOON_CALLBACK ZELLIGE_MARKER_(54)
#define STARPU_SOON_CALLBACK_ARG ZELLIGE_MARKER_(55)
#define STARPU_SOON_CALLBACK_ARG_NFREE ZELLIGE_MARKER_(56)
/* Order. */
#define STARPU_PRIORITY ZELLIGE_MARKER_(5)
#define STARPU_TAG ZELLIGE_MARKER_(11)
#define STARPU_TAG_ONLY ZELLIGE_MARKER_(21)
#define STARPU_TASK_DEPS_ARRAY ZELLIGE_MARKER_(28)
#define STARPU_TASK_END_DEPS_ARRAY ZELLIGE_MARKER_(32)
#define STARPU_TASK_END_DEP ZELLIGE_MARKER_(33)
#define STARPU_HANDLES_SEQUENTIAL_CONSISTENCY ZELLIGE_MARKER_(30)
#define STARPU_SEQUENTIAL_CONSISTENCY ZELLIGE_MARKER_(35)
#define STARPU_TASK_SYNCHRONOUS ZELLIGE_MARKER_(31)
#define STARPU_TASK_NO_SUBMITORDER ZELLIGE_MARKER_(37)
#define STARPU_TRANSACTION ZELLIGE_MARKER_(43)
/* Who executes. */
#define STARPU_EXECUTE_ON_NODE ZELLIGE_MARKER_(6)
#define STARPU_EXECUTE_ON_DATA ZELLIGE_MARKER_(7)
#define STARPU_NODE_SELECTION_POLICY ZELLIGE_MARKER_(24)
#define STARPU_EXECUTE_ON_WORKER ZELLIGE_MARKER_(19)
#define STARPU_EXECUTE_WHERE ZELLIGE_MARKER_(20)
#define STARPU_WORKER_ORDER ZELLIGE_MARKER_(23)
#define STARPU_TASK_WORKERIDS ZELLIGE_MARKER_(34)
#define STARPU_POSSIBLY_PARALLEL ZELLIGE_MARKER_(22)
#define STARPU_SCHED_CTX ZELLIGE_MARKER_(14)
#define STARPU_TASK_SCHED_DATA ZELLIGE_MARKER_(42)
#define STARPU_HYPERVISOR_TAG ZELLIGE_MARKER_(12)
/* What is said about the task. */
#define STARPU_NAME ZELLIGE_MARKER_(25)
#define STARPU_FLOPS ZELLIGE_MARKER_(13)
#define STARPU_TASK_COLOR ZELLIGE_MARKER_(29)
#define STARPU_TASK_PROFILING_INFO ZELLIGE_MARKER_(36)
#define STARPU_TASK_FILE ZELLIGE_MARKER_(44)
#define STARPU_TASK_LINE ZELLIGE_MARKER_(45)
/* Recursive tasks. */
#define STARPU_RECURSIVE_TASK_FUNC ZELLIGE_MARKER_(48)
#define STARPU_RECURSIVE_TASK_FUNC_ARG ZELLIGE_MARKER_(49)
#define STARPU_RECURSIVE_TASK_GEN_DAG_FUNC ZELLIGE_MARKER_(50)
#define STARPU_RECURSIVE_TASK_GEN_DAG_FUNC_ARG ZELLIGE_MARKER_(51)
#define STARPU_RECURSIVE_TASK_PARENT ZELLIGE_MARKER_(52)
#define STARPU_RECURSIVE_TASK_NO_PRUNE ZELLIGE_MARKER_(53)
#define STARPU_SHIFTED_MODE_MAX ZELLIGE_MARKER_(57)

int starpu_task_insert(struct starpu_codelet *cl, ...);
int starpu_insert_task(struct starpu_codelet *cl, ...);
struct starpu_task *starpu_task_build(struct starpu_codelet *cl, ...);
int starpu_task_set(struct starpu_task *task, struct starpu_codelet *cl, ...);

void starpu_task_insert_data_make_room(struct starpu_codelet *cl, struct starpu_task *task, int *allocated_buffers,
				       int current_buffer, int room);
void starpu_task_insert_data_process_arg(struct starpu_codelet *cl, struct starpu_task *task, int *allocated_buffers,
					 int *current_buffer, int mode, starpu_data_handle_t handle);
void starpu_task_insert_data_process_array_arg(struct starpu_codelet *cl, struct starpu_task *task,
					       int *allocated_buffers, int *current_buffer, int nhandles,
					       starpu_data_handle_t *handles);
void starpu_task_insert_data_process_mode_array_arg(struct starpu_codelet *cl, struct starpu_task *task,
						    int *allocated_buffers, int *current_buffer, int ndescrs,
						    struct starpu_data_descr *descrs);
void starpu_task_insert_data_make_node_room(struct starpu_codelet *cl, struct starpu_task *task, int *allocated_nodes,
					    int current_node, int room);
void starpu_task_insert_process_node_array_arg(struct starpu_codelet *cl, struct starpu_task *task,
					       int *allocated_nodes, int *current_node, int nnodes, int *nodes);

struct starpu_codelet_pack_arg_data
{
	char *arg_buffer;
	size_t arg_buffer_size;
	size_t arg_buffer_used;
	size_t current_offset;
	int nargs;
};
void starpu_codelet_pack_args(void **arg_buffer, size_t *arg_buffer_size, ...);
void starpu_codelet_pack_arg_init(struct starpu_codelet_pack_arg_data *state);
void starpu_codelet_pack_arg(struct starpu_codelet_pack_arg_data *state, const void *ptr, size_t size);
void starpu_codelet_pack_arg_fini(struct starpu_codelet_pack_arg_data *state, void **cl_arg, size_t *cl_arg_size);
void starpu_codelet_unpack_args(void *cl_arg, ...);
void starpu_codelet_unpack_args_and_copyleft(void *cl_arg, void *buffer, size_t buffer_size, ...);
void starpu_codelet_unpack_arg_init(struct starpu_codelet_pack_arg_data *state, void *cl_arg, size_t cl_arg_size);
void starpu_codelet_unpack_arg(struct starpu_codelet_pack_arg_data *state, void *ptr, size_t size);
void starpu_codelet_unpack_discard_arg(struct starpu_codelet_pack_arg_data *state);
void starpu_codelet_dup_arg(struct starpu_codelet_pack_arg_data *state, void **ptr, size_t *size);
void starpu_codelet_pick_arg(struct starpu_codelet_pack_arg_data *state, void **ptr, size_t *size);
void starpu_codelet_unpack_arg_fini(struct starpu_codelet_pack_arg_data *state);

/* ---- Data handles ---------------------------------------------------------------------------- */

enum starpu_is_prefetch
{
	STARPU_FETCH,
	STARPU_TASK_PREFETCH,
	STARPU_PREFETCH,
	STARPU_IDLEFETCH,
	STARPU_NFETCH
};
#define STARPU_ACQUIRE_NO_NODE -1
#define STARPU_ACQUIRE_NO_NODE_LOCK_ALL -2

void starpu_data_register(starpu_data_handle_t *handle, int home_node, void *data_interface,
			  struct starpu_data_interface_ops *ops);
void starpu_data_register_ops(struct starpu_data_interface_ops *ops);
void starpu_data_register_same(starpu_data_handle_t *handle, starpu_data_handle_t like);
void starpu_data_ptr_register(starpu_data_handle_t handle, unsigned node);
void starpu_subdata_ptr_register(starpu_data_handle_t handle, unsigned node);
int starpu_data_interface_get_next_id(void);
void starpu_data_unregister(starpu_data_handle_t handle);
void starpu_data_unregister_no_coherency(starpu_data_handle_t handle);
void starpu_data_unregister_submit(starpu_data_handle_t handle);
void starpu_data_deinitialize(starpu_data_handle_t handle);
void starpu_data_deinitialize_submit(starpu_data_handle_t handle);
void starpu_data_invalidate(starpu_data_handle_t handle);
void starpu_data_invalidate_submit(starpu_data_handle_t handle);

void starpu_data_set_name(starpu_data_handle_t handle, const char *name);
const char *starpu_data_get_name(starpu_data_handle_t handle);
void starpu_data_set_coordinates(starpu_data_handle_t handle, unsigned dimensions, ...);
void starpu_data_set_coordinates_array(starpu_data_handle_t handle, unsigned dimensions, int dims[]);
unsigned starpu_data_get_coordinates_array(starpu_data_handle_t handle, unsigned dimensions, int dims[]);
void starpu_data_set_user_data(starpu_data_handle_t handle, void *user_data);
void *starpu_data_get_user_data(starpu_data_handle_t handle);
void starpu_data_set_sched_data(starpu_data_handle_t handle, void *sched_data);
void *starpu_data_get_sched_data(starpu_data_handle_t handle);

void *starpu_data_get_interface_on_node(starpu_data_handle_t handle, unsigned memory_node);
struct starpu_data_interface_ops *starpu_data_get_interface_ops(starpu_data_handle_t handle);
enum starpu_data_interface_id starpu_data_get_interface_id(starpu_data_handle_t handle);
void *starpu_data_handle_to_pointer(starpu_data_handle_t handle, unsigned node);
void *starpu_data_handle_to_pointer_ref(starpu_data_handle_t handle, unsigned node);
void starpu_data_handle_to_pointer_unref(starpu_data_handle_t handle, unsigned node);
void *starpu_data_get_local_ptr(starpu_data_handle_t handle);
starpu_data_handle_t starpu_data_lookup(const void *ptr);
int starpu_data_get_home_node(starpu_data_handle_t handle);
size_t starpu_data_get_size(starpu_data_handle_t handle);
size_t starpu_data_get_alloc_size(starpu_data_handle_t handle);
starpu_ssize_t starpu_data_get_max_size(starpu_data_handle_t handle);
void starpu_data_print(starpu_data_handle_t handle, unsigned node, FILE *stream);

int starpu_data_pack(starpu_data_handle_t handle, void **ptr, starpu_ssize_t *count);
int starpu_data_pack_node(starpu_data_handle_t handle, unsigned node, void **ptr, starpu_ssize_t *count);
int starpu_data_peek(starpu_data_handle_t handle, void *ptr, size_t count);
int starpu_data_peek_node(starpu_data_handle_t handle, unsigned node, void *ptr, size_t count);
int starpu_data_unpack(starpu_data_handle_t handle, void *ptr, size_t count);
int starpu_data_unpack_node(starpu_data_handle_t handle, unsigned node, void *ptr, size_t count);

/* Holding data in the program. */
int starpu_data_acquire(starpu_data_handle_t handle, enum starpu_data_access_mode mode);
int starpu_data_acquire_on_node(starpu_data_handle_t handle, int node, enum starpu_data_access_mode mode);
int starpu_data_acquire_try(starpu_data_handle_t handle, enum starpu_data_access_mode mode);
int starpu_data_acquire_on_node_try(starpu_data_handle_t handle, int node, enum starpu_data_access_mode mode);
int starpu_data_acquire_to_node(starpu_data_handle_t handle, unsigned node);
int starpu_data_acquire_cb(starpu_data_handle_t handle, enum starpu_data_access_mode mode,
			   void (*callback)(void *arg), void *arg);
int starpu_data_acquire_on_node_cb(starpu_data_handle_t handle, int node, enum starpu_data_access_mode mode,
				   void (*callback)(void *arg), void *arg);
int starpu_data_acquire_cb_sequential_consistency(starpu_data_handle_t handle, enum starpu_data_access_mode mode,
						  void (*callback)(void *arg), void *arg, int sequential_consistency);
int starpu_data_acquire_on_node_cb_sequential_consistency(starpu_data_handle_t handle, int node,
							  enum starpu_data_access_mode mode,
							  void (*callback)(void *arg), void *arg,
							  int sequential_consistency);
int starpu_data_acquire_on_node_cb_sequential_consistency_sync_jobids(
	starpu_data_handle_t handle, starpu_data_handle_t *real_handle, int node, enum starpu_data_access_mode mode,
	void (*callback_soon)(void *arg, double delay),
	void (*callback_acquired)(void *arg, int *node, enum starpu_data_access_mode mode),
	void (*callback)(void *arg), void *arg, int sequential_consistency, int quick, long *pre_sync_jobid,
	long *post_sync_jobid, int prio);
int starpu_data_get_on_node_cb_prio(starpu_data_handle_t handle, int node, enum starpu_data_access_mode mode,
				    void (*callback)(void *arg), void *arg, enum starpu_is_prefetch prefetch,
				    int prio);
void starpu_data_release(starpu_data_handle_t handle);
void starpu_data_release_on_node(starpu_data_handle_t handle, int node);
void starpu_data_release_to(starpu_data_handle_t handle, enum starpu_data_access_mode down_to_mode);
void starpu_data_release_to_on_node(starpu_data_handle_t handle, enum starpu_data_access_mode down_to_mode, int node);
#if defined __GNUC__ && !defined __clang__ && !defined __cplusplus
/* Runs `code` when the data is there; a function within a function, so for GCC's C alone. */
#define STARPU_DATA_ACQUIRE_CB(handle, mode, code)                                                 \
	do                                                                                         \
	{                                                                                          \
		void zellige_when_acquired_(void *zellige_unused_ STARPU_ATTRIBUTE_UNUSED)         \
		{                                                                                  \
			code;                                                                      \
			starpu_data_release(handle);                                               \
		}                                                                                  \
		starpu_data_acquire_cb(handle, mode, zellige_when_acquired_, NULL);                \
	} while (0)
#endif

starpu_arbiter_t starpu_arbiter_create(void) STARPU_ATTRIBUTE_MALLOC;
void starpu_arbiter_destroy(starpu_arbiter_t arbiter);
void starpu_data_assign_arbiter(starpu_data_handle_t handle, starpu_arbiter_t arbiter);

/* Where data lies. */
int starpu_data_request_allocation(starpu_data_handle_t handle, unsigned node);
int starpu_data_fetch_on_node(starpu_data_handle_t handle, unsigned node, unsigned async);
int starpu_data_prefetch_on_node(starpu_data_handle_t handle, unsigned node, unsigned async);
int starpu_data_prefetch_on_node_prio(starpu_data_handle_t handle, unsigned node, unsigned async, int prio);
int starpu_data_idle_prefetch_on_node(starpu_data_handle_t handle, unsigned node, unsigned async);
int starpu_data_idle_prefetch_on_node_prio(starpu_data_handle_t handle, unsigned node, unsigned async, int prio);
unsigned starpu_data_is_on_node(starpu_data_handle_t handle, unsigned node);
unsigned starpu_data_is_on_node_excluding_prefetch(starpu_data_handle_t handle, unsigned node);
void starpu_data_wont_use(starpu_data_handle_t handle);
void starpu_data_advise_as_important(starpu_data_handle_t handle, unsigned is_important);
int starpu_data_evict_from_node(starpu_data_handle_t handle, unsigned node);
int starpu_data_can_evict(starpu_data_handle_t handle, unsigned node, enum starpu_is_prefetch is_prefetch);
void starpu_data_set_wt_mask(starpu_data_handle_t handle, uint32_t wt_mask);
void starpu_data_set_gathering_node(starpu_data_handle_t handle, unsigned node);
void starpu_data_set_ooc_flag(starpu_data_handle_t handle, unsigned flag);
unsigned starpu_data_get_ooc_flag(starpu_data_handle_t handle);
unsigned starpu_data_test_if_allocated_on_node(starpu_data_handle_t handle, unsigned node);
unsigned starpu_data_test_if_mapped_on_node(starpu_data_handle_t handle, unsigned node);
void starpu_data_query_status(starpu_data_handle_t handle, int node, int *is_allocated, int *is_valid,
			      int *is_requested);
void starpu_data_query_status2(starpu_data_handle_t handle, int node, int *is_allocated, int *is_valid,
			       int *is_loading, int *is_requested);
void starpu_memchunk_tidy(unsigned node);
void starpu_data_get_node_data(unsigned node, starpu_data_handle_t **handles, int **valid, unsigned *n);
#define STARPU_DATA_NO_VICTIM ((starpu_data_handle_t) -1)
typedef starpu_data_handle_t starpu_data_victim_selector(starpu_data_handle_t toload, unsigned node,
							 enum starpu_is_prefetch is_prefetch, void *data);
typedef void starpu_data_victim_eviction_failed(starpu_data_handle_t victim, unsigned node, void *data);
void starpu_data_register_victim_selector(starpu_data_victim_selector selector,
					  starpu_data_victim_eviction_failed evicted, void *data);

/* Consistency and reductions. */
void starpu_data_set_sequential_consistency_flag(starpu_data_handle_t handle, unsigned flag);
unsigned starpu_data_get_sequential_consistency_flag(starpu_data_handle_t handle);
void starpu_data_set_default_sequential_consistency_flag(unsigned flag);
unsigned starpu_data_get_default_sequential_consistency_flag(void);
void starpu_data_set_reduction_methods(starpu_data_handle_t handle, struct starpu_codelet *redux_cl,
				       struct starpu_codelet *init_cl);
void starpu_data_set_reduction_methods_with_args(starpu_data_handle_t handle, struct starpu_codelet *redux_cl,
						 void *redux_cl_arg, struct starpu_codelet *init_cl,
						 void *init_cl_arg);
void starpu_data_set_reduction_scratch(starpu_data_handle_t handle, starpu_data_handle_t scratch);
unsigned starpu_data_has_reduction_methods(starpu_data_handle_t handle);

int starpu_data_cpy(starpu_data_handle_t dst, starpu_data_handle_t src, int asynchronous,
		    void (*callback)(void *arg), void *arg);
int starpu_data_cpy_priority(starpu_data_handle_t dst, starpu_data_handle_t src, int asynchronous,
			     void (*callback)(void *arg), void *arg, int priority);
int starpu_data_dup_ro(starpu_data_handle_t *dst, starpu_data_handle_t src);
starpu_data_handle_t starpu_data_dup_ro_get(starpu_data_handle_t handle);

/* ---- Partitions ------------------------------------------------------------------------------ */

void starpu_data_partition(starpu_data_handle_t handle, struct starpu_data_filter *filter);
void starpu_data_unpartition(starpu_data_handle_t handle, unsigned gathering_node);
int starpu_data_get_nb_children(starpu_data_handle_t handle);
starpu_data_handle_t starpu_data_get_child(starpu_data_handle_t handle, unsigned i);
starpu_data_handle_t starpu_data_get_sub_data(starpu_data_handle_t handle, unsigned depth, ...);
starpu_data_handle_t starpu_data_vget_sub_data(starpu_data_handle_t handle, unsigned depth, va_list list);
void starpu_data_map_filters(starpu_data_handle_t handle, unsigned nfilters, ...);
void starpu_data_vmap_filters(starpu_data_handle_t handle, unsigned nfilters, va_list list);
void starpu_data_map_filters_array(starpu_data_handle_t handle, int nfilters, struct starpu_data_filter *filters);
void starpu_data_map_filters_parray(starpu_data_handle_t handle, int nfilters, struct starpu_data_filter **filters);

void starpu_data_partition_plan(starpu_data_handle_t handle, struct starpu_data_filter *filter,
				starpu_data_handle_t *children);
int starpu_data_partition_get_nplans(starpu_data_handle_t handle);
void starpu_data_partition_clean(starpu_data_handle_t handle, unsigned nparts, starpu_data_handle_t *children);
void starpu_data_partition_clean_node(starpu_data_handle_t handle, unsigned nparts, starpu_data_handle_t *children,
				      int gathering_node);
void starpu_data_partition_submit(starpu_data_handle_t handle, unsigned nparts, starpu_data_handle_t *children);
void starpu_data_partition_readonly_submit(starpu_data_handle_t handle, unsigned nparts,
					   starpu_data_handle_t *children);
void starpu_data_partition_readwrite_upgrade_submit(starpu_data_handle_t handle, unsigned nparts,
						    starpu_data_handle_t *children);
void starpu_data_partition_readonly_downgrade_submit(starpu_data_handle_t handle, unsigned nparts,
						     starpu_data_handle_t *children);
void starpu_data_partition_submit_sequential_consistency(starpu_data_handle_t handle, unsigned nparts,
							 starpu_data_handle_t *children,
							 int sequential_consistency);
void starpu_data_partition_readonly_submit_sequential_consistency(starpu_data_handle_t handle, unsigned nparts,
								  starpu_data_handle_t *children,
								  int sequential_consistency);
void starpu_data_unpartition_submit(starpu_data_handle_t handle, unsigned nparts, starpu_data_handle_t *children,
				    int gathering_node);
void starpu_data_unpartition_readonly_submit(starpu_data_handle_t handle, unsigned nparts,
					     starpu_data_handle_t *children, int gathering_node);
void starpu_data_unpartition_submit_sequential_consistency(starpu_data_handle_t handle, unsigned nparts,
							   starpu_data_handle_t *children, int gathering_node,
							   int sequential_consistency);
void starpu_data_unpartition_submit_sequential_consistency_cb(starpu_data_handle_t handle, unsigned nparts,
							      starpu_data_handle_t *children, int gathering_node,
							      int sequential_consistency,
							      void (*callback)(void *arg), void *arg);

/* All filters, and the functions that say what kind of data their parts are, have these forms. */
#define ZELLIGE_FILTER_(name)                                                                      \
	void name(void *parent_interface, void *child_interface, struct starpu_data_filter *filter, \
		  unsigned id, unsigned nparts);
#define ZELLIGE_CHILD_OPS_(name)                                                                   \
	struct starpu_data_interface_ops *name(struct starpu_data_filter *filter, unsigned child);

ZELLIGE_FILTER_(starpu_vector_filter_block)
ZELLIGE_FILTER_(starpu_vector_filter_block_shadow)
ZELLIGE_FILTER_(starpu_vector_filter_list)
ZELLIGE_FILTER_(starpu_vector_filter_list_long)
ZELLIGE_FILTER_(starpu_vector_filter_divide_in_2)
ZELLIGE_FILTER_(starpu_vector_filter_pick_variable)
ZELLIGE_CHILD_OPS_(starpu_vector_filter_pick_variable_child_ops)

ZELLIGE_FILTER_(starpu_matrix_filter_block)
ZELLIGE_FILTER_(starpu_matrix_filter_block_shadow)
ZELLIGE_FILTER_(starpu_matrix_filter_vertical_block)
ZELLIGE_FILTER_(starpu_matrix_filter_vertical_block_shadow)
ZELLIGE_FILTER_(starpu_matrix_filter_pick_vector_y)
ZELLIGE_CHILD_OPS_(starpu_matrix_filter_pick_vector_child_ops)
ZELLIGE_FILTER_(starpu_matrix_filter_pick_variable)
ZELLIGE_CHILD_OPS_(starpu_matrix_filter_pick_variable_child_ops)

ZELLIGE_FILTER_(starpu_block_filter_block)
ZELLIGE_FILTER_(starpu_block_filter_block_shadow)
ZELLIGE_FILTER_(starpu_block_filter_vertical_block)
ZELLIGE_FILTER_(starpu_block_filter_vertical_block_shadow)
ZELLIGE_FILTER_(starpu_block_filter_depth_block)
ZELLIGE_FILTER_(starpu_block_filter_depth_block_shadow)
ZELLIGE_FILTER_(starpu_block_filter_pick_matrix_z)
ZELLIGE_FILTER_(starpu_block_filter_pick_matrix_y)
ZELLIGE_CHILD_OPS_(starpu_block_filter_pick_matrix_child_ops)
ZELLIGE_FILTER_(starpu_block_filter_pick_variable)
ZELLIGE_CHILD_OPS_(starpu_block_filter_pick_variable_child_ops)

ZELLIGE_FILTER_(starpu_tensor_filter_block)
ZELLIGE_FILTER_(starpu_tensor_filter_block_shadow)
ZELLIGE_FILTER_(starpu_tensor_filter_vertical_block)
ZELLIGE_FILTER_(starpu_tensor_filter_vertical_block_shadow)
ZELLIGE_FILTER_(starpu_tensor_filter_depth_block)
ZELLIGE_FILTER_(starpu_tensor_filter_depth_block_shadow)
ZELLIGE_FILTER_(starpu_tensor_filter_time_block)
ZELLIGE_FILTER_(starpu_tensor_filter_time_block_shadow)
ZELLIGE_FILTER_(starpu_tensor_filter_pick_block_t)
ZELLIGE_FILTER_(starpu_tensor_filter_pick_block_z)
ZELLIGE_FILTER_(starpu_tensor_filter_pick_block_y)
ZELLIGE_CHILD_OPS_(starpu_tensor_filter_pick_block_child_ops)
ZELLIGE_FILTER_(starpu_tensor_filter_pick_variable)
ZELLIGE_CHILD_OPS_(starpu_tensor_filter_pick_variable_child_ops)

ZELLIGE_FILTER_(starpu_ndim_filter_block)
ZELLIGE_FILTER_(starpu_ndim_filter_block_shadow)
ZELLIGE_FILTER_(starpu_ndim_filter_to_tensor)
ZELLIGE_FILTER_(starpu_ndim_filter_to_block)
ZELLIGE_FILTER_(starpu_ndim_filter_to_matrix)
ZELLIGE_FILTER_(starpu_ndim_filter_to_vector)
ZELLIGE_FILTER_(starpu_ndim_filter_to_variable)
ZELLIGE_FILTER_(starpu_ndim_filter_pick_ndim)
ZELLIGE_FILTER_(starpu_ndim_filter_5d_pick_tensor)
ZELLIGE_FILTER_(starpu_ndim_filter_4d_pick_block)
ZELLIGE_FILTER_(starpu_ndim_filter_3d_pick_matrix)
ZELLIGE_FILTER_(starpu_ndim_filter_2d_pick_vector)
ZELLIGE_FILTER_(starpu_ndim_filter_1d_pick_variable)
ZELLIGE_FILTER_(starpu_ndim_filter_pick_variable)
ZELLIGE_CHILD_OPS_(starpu_ndim_filter_to_tensor_child_ops)
ZELLIGE_CHILD_OPS_(starpu_ndim_filter_to_block_child_ops)
ZELLIGE_CHILD_OPS_(starpu_ndim_filter_to_matrix_child_ops)
ZELLIGE_CHILD_OPS_(starpu_ndim_filter_to_vector_child_ops)
ZELLIGE_CHILD_OPS_(starpu_ndim_filter_to_variable_child_ops)
ZELLIGE_CHILD_OPS_(starpu_ndim_filter_pick_tensor_child_ops)
ZELLIGE_CHILD_OPS_(starpu_ndim_filter_pick_block_child_ops)
ZELLIGE_CHILD_OPS_(starpu_ndim_filter_pick_matrix_child_ops)
ZELLIGE_CHILD_OPS_(starpu_ndim_filter_pick_vector_child_ops)
ZELLIGE_CHILD_OPS_(starpu_ndim_filter_pick_variable_child_ops)

ZELLIGE_FILTER_(starpu_csr_filter_vertical_block)
ZELLIGE_FILTER_(starpu_bcsr_filter_vertical_block)
ZELLIGE_FILTER_(starpu_bcsr_filter_canonical_block)
ZELLIGE_CHILD_OPS_(starpu_bcsr_filter_canonical_block_child_ops)
unsigned starpu_bcsr_filter_canonical_block_get_nchildren(struct starpu_data_filter *filter,
							  starpu_data_handle_t handle);
#undef ZELLIGE_FILTER_
#undef ZELLIGE_CHILD_OPS_

void starpu_filter_nparts_compute_chunk_size_and_offset(unsigned n, unsigned nparts, size_t elemsize, unsigned id,
							size_t blocksize, size_t *chunk_size, size_t *offset);

/* ---- Predefined kinds of data ---------------------------------------------------------------- */

extern struct starpu_data_interface_ops starpu_interface_variable_ops;
extern struct starpu_data_interface_ops starpu_interface_vector_ops;
extern struct starpu_data_interface_ops starpu_interface_matrix_ops;
extern struct starpu_data_interface_ops starpu_interface_block_ops;
extern struct starpu_data_interface_ops starpu_interface_tensor_ops;
extern struct starpu_data_interface_ops starpu_interface_ndim_ops;
extern struct starpu_data_interface_ops starpu_interface_csr_ops;
extern struct starpu_data_interface_ops starpu_interface_bcsr_ops;
extern struct starpu_data_interface_ops starpu_interface_coo_ops;
extern struct starpu_data_interface_ops starpu_interface_void_ops;
extern struct starpu_data_interface_ops starpu_interface_multiformat_ops;

#define ZELLIGE_AS_(kind, pointer) ((struct starpu_##kind##_interface *) (pointer))

struct starpu_variable_interface
{
	enum starpu_data_interface_id id;
	uintptr_t ptr;
	uintptr_t dev_handle;
	size_t offset;
	size_t elemsize;
};
void starpu_variable_data_register(starpu_data_handle_t *handle, int home_node, uintptr_t ptr, size_t size);
void starpu_variable_ptr_register(starpu_data_handle_t handle, unsigned node, uintptr_t ptr, uintptr_t dev_handle,
				  size_t offset);
size_t starpu_variable_get_elemsize(starpu_data_handle_t handle);
uintptr_t starpu_variable_get_local_ptr(starpu_data_handle_t handle);
#define STARPU_VARIABLE_GET_PTR(pointer) (ZELLIGE_AS_(variable, pointer)->ptr)
#define STARPU_VARIABLE_GET_DEV_HANDLE(pointer) (ZELLIGE_AS_(variable, pointer)->ptr)
#define STARPU_VARIABLE_GET_OFFSET(pointer) (ZELLIGE_AS_(variable, pointer)->offset)
#define STARPU_VARIABLE_GET_ELEMSIZE(pointer) (ZELLIGE_AS_(variable, pointer)->elemsize)

struct starpu_vector_interface
{
	enum starpu_data_interface_id id;
	uintptr_t ptr;
	uintptr_t dev_handle;
	size_t offset;
	size_t nx;
	size_t elemsize;
	size_t slice_base;
	size_t allocsize;
};
void starpu_vector_data_register(starpu_data_handle_t *handle, int home_node, uintptr_t ptr, size_t nx,
				 size_t elemsize);
void starpu_vector_data_register_allocsize(starpu_data_handle_t *handle, int home_node, uintptr_t ptr, size_t nx,
					   size_t elemsize, size_t allocsize);
void starpu_vector_ptr_register(starpu_data_handle_t handle, unsigned node, uintptr_t ptr, uintptr_t dev_handle,
				size_t offset);
size_t starpu_vector_get_nx(starpu_data_handle_t handle);
size_t starpu_vector_get_elemsize(starpu_data_handle_t handle);
size_t starpu_vector_get_allocsize(starpu_data_handle_t handle);
uintptr_t starpu_vector_get_local_ptr(starpu_data_handle_t handle);
#define STARPU_VECTOR_GET_PTR(pointer) (ZELLIGE_AS_(vector, pointer)->ptr)
#define STARPU_VECTOR_GET_DEV_HANDLE(pointer) (ZELLIGE_AS_(vector, pointer)->dev_handle)
#define STARPU_VECTOR_GET_OFFSET(pointer) (ZELLIGE_AS_(vector, pointer)->offset)
#define STARPU_VECTOR_GET_NX(pointer) (ZELLIGE_AS_(vector, pointer)->nx)
#define STARPU_VECTOR_GET_ELEMSIZE(pointer) (ZELLIGE_AS_(vector, pointer)->elemsize)
#define STARPU_VECTOR_GET_SLICE_BASE(pointer) (ZELLIGE_AS_(vector, pointer)->slice_base)
#define STARPU_VECTOR_GET_ALLOCSIZE(pointer) (ZELLIGE_AS_(vector, pointer)->allocsize)
#define STARPU_VECTOR_SET_NX(pointer, value) ((void) (ZELLIGE_AS_(vector, pointer)->nx = (value)))

struct starpu_matrix_interface
{
	enum starpu_data_interface_id id;
	uintptr_t ptr;
	uintptr_t dev_handle;
	size_t offset;
	size_t nx;
	size_t ny;
	size_t ld;
	size_t elemsize;
	size_t allocsize;
};
void starpu_matrix_data_register(starpu_data_handle_t *handle, int home_node, uintptr_t ptr, size_t ld, size_t nx,
				 size_t ny, size_t elemsize);
void starpu_matrix_data_register_allocsize(starpu_data_handle_t *handle, int home_node, uintptr_t ptr, size_t ld,
					   size_t nx, size_t ny, size_t elemsize, size_t allocsize);
void starpu_matrix_ptr_register(starpu_data_handle_t handle, unsigned node, uintptr_t ptr, uintptr_t dev_handle,
				size_t offset, size_t ld);
void starpu_submatrix_ptr_register(starpu_data_handle_t handle, unsigned node, uintptr_t ptr, uintptr_t dev_handle,
				   size_t offset, size_t ld);
size_t starpu_matrix_get_nx(starpu_data_handle_t handle);
size_t starpu_matrix_get_ny(starpu_data_handle_t handle);
size_t starpu_matrix_get_elemsize(starpu_data_handle_t handle);
size_t starpu_matrix_get_allocsize(starpu_data_handle_t handle);
size_t starpu_matrix_get_local_ld(starpu_data_handle_t handle);
uintptr_t starpu_matrix_get_local_ptr(starpu_data_handle_t handle);
#define STARPU_MATRIX_GET_PTR(pointer) (ZELLIGE_AS_(matrix, pointer)->ptr)
#define STARPU_MATRIX_GET_DEV_HANDLE(pointer) (ZELLIGE_AS_(matrix, pointer)->dev_handle)
#define STARPU_MATRIX_GET_OFFSET(pointer) (ZELLIGE_AS_(matrix, pointer)->offset)
#define STARPU_MATRIX_GET_NX(pointer) (ZELLIGE_AS_(matrix, pointer)->nx)
#define STARPU_MATRIX_GET_NY(pointer) (ZELLIGE_AS_(matrix, pointer)->ny)
#define STARPU_MATRIX_GET_LD(pointer) (ZELLIGE_AS_(matrix, pointer)->ld)
#define STARPU_MATRIX_GET_ELEMSIZE(pointer) (ZELLIGE_AS_(matrix, pointer)->elemsize)
#define STARPU_MATRIX_GET_ALLOCSIZE(pointer) (ZELLIGE_AS_(matrix, pointer)->allocsize)
#define STARPU_MATRIX_SET_NX(pointer, value) ((void) (ZELLIGE_AS_(matrix, pointer)->nx = (value)))
#define STARPU_MATRIX_SET_NY(pointer, value) ((void) (ZELLIGE_AS_(matrix, pointer)->ny = (value)))
#define STARPU_MATRIX_SET_LD(pointer, value) ((void) (ZELLIGE_AS_(matrix, pointer)->ld = (value)))

struct starpu_block_interface
{
	enum starpu_data_interface_id id;
	uintptr_t ptr;
	uintptr_t dev_handle;
	size_t offset;
	size_t nx;
	size_t ny;
	size_t nz;
	size_t ldy;
	size_t ldz;
	size_t elemsize;
};
void starpu_block_data_register(starpu_data_handle_t *handle, int home_node, uintptr_t ptr, size_t ldy, size_t ldz,
				size_t nx, size_t ny, size_t nz, size_t elemsize);
void starpu_block_ptr_register(starpu_data_handle_t handle, unsigned node, uintptr_t ptr, uintptr_t dev_handle,
			       size_t offset, size_t ldy, size_t ldz);
size_t starpu_block_get_nx(starpu_data_handle_t handle);
size_t starpu_block_get_ny(starpu_data_handle_t handle);
size_t starpu_block_get_nz(starpu_data_handle_t handle);
size_t starpu_block_get_elemsize(starpu_data_handle_t handle);
size_t starpu_block_get_local_ldy(starpu_data_handle_t handle);
size_t starpu_block_get_local_ldz(starpu_data_handle_t handle);
uintptr_t starpu_block_get_local_ptr(starpu_data_handle_t handle);
#define STARPU_BLOCK_GET_PTR(pointer) (ZELLIGE_AS_(block, pointer)->ptr)
#define STARPU_BLOCK_GET_DEV_HANDLE(pointer) (ZELLIGE_AS_(block, pointer)->dev_handle)
#define STARPU_BLOCK_GET_OFFSET(pointer) (ZELLIGE_AS_(block, pointer)->offset)
#define STARPU_BLOCK_GET_NX(pointer) (ZELLIGE_AS_(block, pointer)->nx)
#define STARPU_BLOCK_GET_NY(pointer) (ZELLIGE_AS_(block, pointer)->ny)
#define STARPU_BLOCK_GET_NZ(pointer) (ZELLIGE_AS_(block, pointer)->nz)
#define STARPU_BLOCK_GET_LDY(pointer) (ZELLIGE_AS_(block, pointer)->ldy)
#define STARPU_BLOCK_GET_LDZ(pointer) (ZELLIGE_AS_(block, pointer)->ldz)
#define STARPU_BLOCK_GET_ELEMSIZE(pointer) (ZELLIGE_AS_(block, pointer)->elemsize)

struct starpu_tensor_interface
{
	enum starpu_data_interface_id id;
	uintptr_t ptr;
	uintptr_t dev_handle;
	size_t offset;
	size_t nx;
	size_t ny;
	size_t nz;
	size_t nt;
	size_t ldy;
	size_t ldz;
	size_t ldt;
	size_t elemsize;
};
void starpu_tensor_data_register(starpu_data_handle_t *handle, int home_node, uintptr_t ptr, size_t ldy, size_t ldz,
				 size_t ldt, size_t nx, size_t ny, size_t nz, size_t nt, size_t elemsize);
void starpu_tensor_ptr_register(starpu_data_handle_t handle, unsigned node, uintptr_t ptr, uintptr_t dev_handle,
				size_t offset, size_t ldy, size_t ldz, size_t ldt);
size_t starpu_tensor_get_nx(starpu_data_handle_t handle);
size_t starpu_tensor_get_ny(starpu_data_handle_t handle);
size_t starpu_tensor_get_nz(starpu_data_handle_t handle);
size_t starpu_tensor_get_nt(starpu_data_handle_t handle);
size_t starpu_tensor_get_elemsize(starpu_data_handle_t handle);
size_t starpu_tensor_get_local_ldy(starpu_data_handle_t handle);
size_t starpu_tensor_get_local_ldz(starpu_data_handle_t handle);
size_t starpu_tensor_get_local_ldt(starpu_data_handle_t handle);
uintptr_t starpu_tensor_get_local_ptr(starpu_data_handle_t handle);
#define STARPU_TENSOR_GET_PTR(pointer) (ZELLIGE_AS_(tensor, pointer)->ptr)
#define STARPU_TENSOR_GET_DEV_HANDLE(pointer) (ZELLIGE_AS_(tensor, pointer)->dev_handle)
#define STARPU_TENSOR_GET_OFFSET(pointer) (ZELLIGE_AS_(tensor, pointer)->offset)
#define STARPU_TENSOR_GET_NX(pointer) (ZELLIGE_AS_(tensor, pointer)->nx)
#define STARPU_TENSOR_GET_NY(pointer) (ZELLIGE_AS_(tensor, pointer)->ny)
#define STARPU_TENSOR_GET_NZ(pointer) (ZELLIGE_AS_(tensor, pointer)->nz)
#define STARPU_TENSOR_GET_NT(pointer) (ZELLIGE_AS_(tensor, pointer)->nt)
#define STARPU_TENSOR_GET_LDY(pointer) (ZELLIGE_AS_(tensor, pointer)->ldy)
#define STARPU_TENSOR_GET_LDZ(pointer) (ZELLIGE_AS_(tensor, pointer)->ldz)
#define STARPU_TENSOR_GET_LDT(pointer) (ZELLIGE_AS_(tensor, pointer)->ldt)
#define STARPU_TENSOR_GET_ELEMSIZE(pointer) (ZELLIGE_AS_(tensor, pointer)->elemsize)

struct starpu_ndim_interface
{
	enum starpu_data_interface_id id;
	uintptr_t ptr;
	uintptr_t dev_handle;
	size_t offset;
	size_t allocsize;
	size_t *nn;
	size_t *ldn;
	size_t ndim;
	size_t elemsize;
};
void starpu_ndim_data_register(starpu_data_handle_t *handle, int home_node, uintptr_t ptr, size_t *ldn, size_t *nn,
			       size_t ndim, size_t elemsize);
void starpu_ndim_ptr_register(starpu_data_handle_t handle, unsigned node, uintptr_t ptr, uintptr_t dev_handle,
			      size_t offset, size_t *ldn);
size_t starpu_ndim_get_ndim(starpu_data_handle_t handle);
size_t *starpu_ndim_get_nn(starpu_data_handle_t handle);
size_t starpu_ndim_get_ni(starpu_data_handle_t handle, size_t i);
size_t starpu_ndim_get_elemsize(starpu_data_handle_t handle);
size_t *starpu_ndim_get_local_ldn(starpu_data_handle_t handle);
size_t starpu_ndim_get_local_ldi(starpu_data_handle_t handle, size_t i);
uintptr_t starpu_ndim_get_local_ptr(starpu_data_handle_t handle);
#define STARPU_NDIM_GET_PTR(pointer) (ZELLIGE_AS_(ndim, pointer)->ptr)
#define STARPU_NDIM_GET_DEV_HANDLE(pointer) (ZELLIGE_AS_(ndim, pointer)->dev_handle)
#define STARPU_NDIM_GET_OFFSET(pointer) (ZELLIGE_AS_(ndim, pointer)->offset)
#define STARPU_NDIM_GET_NN(pointer) (ZELLIGE_AS_(ndim, pointer)->nn)
#define STARPU_NDIM_GET_LDN(pointer) (ZELLIGE_AS_(ndim, pointer)->ldn)
#define STARPU_NDIM_GET_NDIM(pointer) (ZELLIGE_AS_(ndim, pointer)->ndim)
#define STARPU_NDIM_GET_ELEMSIZE(pointer) (ZELLIGE_AS_(ndim, pointer)->elemsize)

struct starpu_csr_interface
{
	enum starpu_data_interface_id id;
	uint32_t nnz;
	uint32_t nrow;
	uintptr_t nzval;
	uint32_t *colind;
	uint32_t *rowptr;
	uint32_t *ram_colind;
	uint32_t *ram_rowptr;
	uint32_t firstentry;
	size_t elemsize;
};
void starpu_csr_data_register(starpu_data_handle_t *handle, int home_node, uint32_t nnz, uint32_t nrow,
			      uintptr_t nzval, uint32_t *colind, uint32_t *rowptr, uint32_t firstentry,
			      size_t elemsize);
uint32_t starpu_csr_get_nnz(starpu_data_handle_t handle);
uint32_t starpu_csr_get_nrow(starpu_data_handle_t handle);
uint32_t starpu_csr_get_firstentry(starpu_data_handle_t handle);
size_t starpu_csr_get_elemsize(starpu_data_handle_t handle);
uintptr_t starpu_csr_get_local_nzval(starpu_data_handle_t handle);
uint32_t *starpu_csr_get_local_colind(starpu_data_handle_t handle);
uint32_t *starpu_csr_get_local_rowptr(starpu_data_handle_t handle);
#define STARPU_CSR_GET_NNZ(pointer) (ZELLIGE_AS_(csr, pointer)->nnz)
#define STARPU_CSR_GET_NROW(pointer) (ZELLIGE_AS_(csr, pointer)->nrow)
#define STARPU_CSR_GET_NZVAL(pointer) (ZELLIGE_AS_(csr, pointer)->nzval)
#define STARPU_CSR_GET_NZVAL_DEV_HANDLE STARPU_CSR_GET_NZVAL
#define STARPU_CSR_GET_COLIND(pointer) (ZELLIGE_AS_(csr, pointer)->colind)
#define STARPU_CSR_GET_COLIND_DEV_HANDLE STARPU_CSR_GET_COLIND
#define STARPU_CSR_GET_RAM_COLIND(pointer) (ZELLIGE_AS_(csr, pointer)->ram_colind)
#define STARPU_CSR_GET_ROWPTR(pointer) (ZELLIGE_AS_(csr, pointer)->rowptr)
#define STARPU_CSR_GET_ROWPTR_DEV_HANDLE STARPU_CSR_GET_ROWPTR
#define STARPU_CSR_GET_RAM_ROWPTR(pointer) (ZELLIGE_AS_(csr, pointer)->ram_rowptr)
#define STARPU_CSR_GET_FIRSTENTRY(pointer) (ZELLIGE_AS_(csr, pointer)->firstentry)
#define STARPU_CSR_GET_ELEMSIZE(pointer) (ZELLIGE_AS_(csr, pointer)->elemsize)
#define STARPU_CSR_GET_OFFSET 0

struct starpu_bcsr_interface
{
	enum starpu_data_interface_id id;
	uint32_t nnz;
	uint32_t nrow;
	uintptr_t nzval;
	uint32_t *colind;
	uint32_t *rowptr;
	uint32_t *ram_colind;
	uint32_t *ram_rowptr;
	uint32_t firstentry;
	uint32_t r;
	uint32_t c;
	size_t elemsize;
};
void starpu_bcsr_data_register(starpu_data_handle_t *handle, int home_node, uint32_t nnz, uint32_t nrow,
			       uintptr_t nzval, uint32_t *colind, uint32_t *rowptr, uint32_t firstentry, uint32_t r,
			       uint32_t c, size_t elemsize);
uint32_t starpu_bcsr_get_nnz(starpu_data_handle_t handle);
uint32_t starpu_bcsr_get_nrow(starpu_data_handle_t handle);
uint32_t starpu_bcsr_get_firstentry(starpu_data_handle_t handle);
uint32_t starpu_bcsr_get_r(starpu_data_handle_t handle);
uint32_t starpu_bcsr_get_c(starpu_data_handle_t handle);
size_t starpu_bcsr_get_elemsize(starpu_data_handle_t handle);
uintptr_t starpu_bcsr_get_local_nzval(starpu_data_handle_t handle);
uint32_t *starpu_bcsr_get_local_colind(starpu_data_handle_t handle);
uint32_t *starpu_bcsr_get_local_rowptr(starpu_data_handle_t handle);
#define STARPU_BCSR_GET_NNZ(pointer) (ZELLIGE_AS_(bcsr, pointer)->nnz)
#define STARPU_BCSR_GET_NROW(pointer) (ZELLIGE_AS_(bcsr, pointer)->nrow)
#define STARPU_BCSR_GET_NZVAL(pointer) (ZELLIGE_AS_(bcsr, pointer)->nzval)
#define STARPU_BCSR_GET_NZVAL_DEV_HANDLE STARPU_BCSR_GET_NZVAL
#define STARPU_BCSR_GET_COLIND(pointer) (ZELLIGE_AS_(bcsr, pointer)->colind)
#define STARPU_BCSR_GET_COLIND_DEV_HANDLE STARPU_BCSR_GET_COLIND
#define STARPU_BCSR_GET_RAM_COLIND(pointer) (ZELLIGE_AS_(bcsr, pointer)->ram_colind)
#define STARPU_BCSR_GET_ROWPTR(pointer) (ZELLIGE_AS_(bcsr, pointer)->rowptr)
#define STARPU_BCSR_GET_ROWPTR_DEV_HANDLE STARPU_BCSR_GET_ROWPTR
#define STARPU_BCSR_GET_RAM_ROWPTR(pointer) (ZELLIGE_AS_(bcsr, pointer)->ram_rowptr)
#define STARPU_BCSR_GET_FIRSTENTRY(pointer) (ZELLIGE_AS_(bcsr, pointer)->firstentry)
#define STARPU_BCSR_GET_R(pointer) (ZELLIGE_AS_(bcsr, pointer)->r)
#define STARPU_BCSR_GET_C(pointer) (ZELLIGE_AS_(bcsr, pointer)->c)
#define STARPU_BCSR_GET_ELEMSIZE(pointer) (ZELLIGE_AS_(bcsr, pointer)->elemsize)
#define STARPU_BCSR_GET_OFFSET 0

struct starpu_coo_interface
{
	enum starpu_data_interface_id id;
	uint32_t *columns;
	uint32_t *rows;
	uintptr_t values;
	uint32_t nx;
	uint32_t ny;
	uint32_t n_values;
	size_t elemsize;
};
void starpu_coo_data_register(starpu_data_handle_t *handle, int home_node, uint32_t nx, uint32_t ny,
			      uint32_t n_values, uint32_t *columns, uint32_t *rows, uintptr_t values,
			      size_t elemsize);
#define STARPU_COO_GET_COLUMNS(pointer) (ZELLIGE_AS_(coo, pointer)->columns)
#define STARPU_COO_GET_COLUMNS_DEV_HANDLE STARPU_COO_GET_COLUMNS
#define STARPU_COO_GET_ROWS(pointer) (ZELLIGE_AS_(coo, pointer)->rows)
#define STARPU_COO_GET_ROWS_DEV_HANDLE STARPU_COO_GET_ROWS
#define STARPU_COO_GET_VALUES(pointer) (ZELLIGE_AS_(coo, pointer)->values)
#define STARPU_COO_GET_VALUES_DEV_HANDLE STARPU_COO_GET_VALUES
#define STARPU_COO_GET_NX(pointer) (ZELLIGE_AS_(coo, pointer)->nx)
#define STARPU_COO_GET_NY(pointer) (ZELLIGE_AS_(coo, pointer)->ny)
#define STARPU_COO_GET_NVALUES(pointer) (ZELLIGE_AS_(coo, pointer)->n_values)
#define STARPU_COO_GET_ELEMSIZE(pointer) (ZELLIGE_AS_(coo, pointer)->elemsize)
#define STARPU_COO_GET_OFFSET 0

void starpu_void_data_register(starpu_data_handle_t *handle);

struct starpu_multiformat_data_interface_ops
{
	size_t cpu_elemsize;
	size_t opencl_elemsize;
	struct starpu_codelet *cpu_to_opencl_cl;
	struct starpu_codelet *opencl_to_cpu_cl;
	size_t cuda_elemsize;
	struct starpu_codelet *cpu_to_cuda_cl;
	struct starpu_codelet *cuda_to_cpu_cl;
};
struct starpu_multiformat_interface
{
	enum starpu_data_interface_id id;
	void *cpu_ptr;
	void *cuda_ptr;
	void *hip_ptr;
	void *sycl_ptr;
	void *opencl_ptr;
	size_t nx;
	struct starpu_multiformat_data_interface_ops *ops;
};
void starpu_multiformat_data_register(starpu_data_handle_t *handle, int home_node, void *ptr, size_t nx,
				      struct starpu_multiformat_data_interface_ops *ops);
#define STARPU_MULTIFORMAT_GET_CPU_PTR(pointer) (ZELLIGE_AS_(multiformat, pointer)->cpu_ptr)
#define STARPU_MULTIFORMAT_GET_CUDA_PTR(pointer) (ZELLIGE_AS_(multiformat, pointer)->cuda_ptr)
#define STARPU_MULTIFORMAT_GET_HIP_PTR(pointer) (ZELLIGE_AS_(multiformat, pointer)->hip_ptr)
#define STARPU_MULTIFORMAT_GET_SYCL_PTR(pointer) (ZELLIGE_AS_(multiformat, pointer)->sycl_ptr)
#define STARPU_MULTIFORMAT_GET_OPENCL_PTR(pointer) (ZELLIGE_AS_(multiformat, pointer)->opencl_ptr)
#define STARPU_MULTIFORMAT_GET_NX(pointer) (ZELLIGE_AS_(multiformat, pointer)->nx)

/* ---- What interfaces are written with -------------------------------------------------------- */

int starpu_interface_copy(uintptr_t src, size_t src_offset, unsigned src_node, uintptr_t dst, size_t dst_offset,
			  unsigned dst_node, size_t size, void *async_data);
int starpu_interface_copy2d(uintptr_t src, size_t src_offset, unsigned src_node, uintptr_t dst, size_t dst_offset,
			    unsigned dst_node, size_t blocksize, size_t numblocks, size_t ld_src, size_t ld_dst,
			    void *async_data);
int starpu_interface_copy3d(uintptr_t src, size_t src_offset, unsigned src_node, uintptr_t dst, size_t dst_offset,
			    unsigned dst_node, size_t blocksize, size_t numblocks1, size_t ld1_src, size_t ld1_dst,
			    size_t numblocks2, size_t ld2_src, size_t ld2_dst, void *async_data);
int starpu_interface_copy4d(uintptr_t src, size_t src_offset, unsigned src_node, uintptr_t dst, size_t dst_offset,
			    unsigned dst_node, size_t blocksize, size_t numblocks1, size_t ld1_src, size_t ld1_dst,
			    size_t numblocks2, size_t ld2_src, size_t ld2_dst, size_t numblocks3, size_t ld3_src,
			    size_t ld3_dst, void *async_data);
int starpu_interface_copynd(uintptr_t src, size_t src_offset, unsigned src_node, uintptr_t dst, size_t dst_offset,
			    unsigned dst_node, size_t elemsize, size_t ndim, size_t *nn, size_t *ldn_src,
			    size_t *ldn_dst, void *async_data);
void starpu_interface_data_copy(unsigned src_node, unsigned dst_node, size_t size);
void starpu_interface_start_driver_copy_async(unsigned src_node, unsigned dst_node, double *start);
void starpu_interface_start_driver_copy_async_devid(int src_dev, enum starpu_node_kind src_kind, int dst_dev,
						    enum starpu_node_kind dst_kind, double *start);
void starpu_interface_end_driver_copy_async(unsigned src_node, unsigned dst_node, double start);
void starpu_interface_end_driver_copy_async_devid(int src_dev, enum starpu_node_kind src_kind, int dst_dev,
						  enum starpu_node_kind dst_kind, double start);
uintptr_t starpu_interface_map(uintptr_t src, size_t src_offset, unsigned src_node, unsigned dst_node, size_t size,
			       int *ret);
int starpu_interface_unmap(uintptr_t src, size_t src_offset, unsigned src_node, uintptr_t dst, unsigned dst_node,
			   size_t size);
int starpu_interface_update_map(uintptr_t src, size_t src_offset, unsigned src_node, uintptr_t dst,
				size_t dst_offset, unsigned dst_node, size_t size);

uint32_t starpu_hash_crc32c_be_n(const void *input, size_t n, uint32_t crc);
uint32_t starpu_hash_crc32c_be_ptr(void *input, uint32_t crc);
uint32_t starpu_hash_crc32c_be(uint32_t input, uint32_t crc);
uint32_t starpu_hash_crc32c_string(const char *text, uint32_t crc);

/* ---- Memory ---------------------------------------------------------------------------------- */

#define STARPU_MALLOC_PINNED (1ULL << 1)
#define STARPU_MALLOC_COUNT (1ULL << 2)
#define STARPU_MALLOC_NORECLAIM (1ULL << 3)
#define STARPU_MEMORY_WAIT (1ULL << 4)
#define STARPU_MEMORY_OVERFLOW (1ULL << 5)
#define STARPU_MALLOC_SIMULATION_FOLDED (1ULL << 6)
#define STARPU_MALLOC_SIMULATION_UNIQUE (1ULL << 7)

void starpu_malloc_set_align(size_t align);
int starpu_malloc(void **pointer, size_t size);
int starpu_malloc_flags(void **pointer, size_t size, int flags);
int starpu_free(void *pointer) STARPU_DEPRECATED;
int starpu_free_flags(void *pointer, size_t size, int flags);
int starpu_free_noflag(void *pointer, size_t size);
#define starpu_data_malloc_pinned_if_possible starpu_malloc
#define starpu_data_free_pinned_if_possible starpu_free
typedef int (*starpu_malloc_hook)(unsigned node, void **pointer, size_t size, int flags);
typedef int (*starpu_free_hook)(unsigned node, void *pointer, size_t size, int flags);
void starpu_malloc_set_hooks(starpu_malloc_hook malloc_hook, starpu_free_hook free_hook);

uintptr_t starpu_malloc_on_node(unsigned node, size_t size);
uintptr_t starpu_malloc_on_node_flags(unsigned node, size_t size, int flags);
void starpu_malloc_on_node_set_default_flags(unsigned node, int flags);
void starpu_free_on_node(unsigned node, uintptr_t address, size_t size);
void starpu_free_on_node_flags(unsigned node, uintptr_t address, size_t size, int flags);
void starpu_check_on_node(unsigned node, uintptr_t address, size_t size);
int starpu_memory_pin(void *address, size_t size);
int starpu_memory_unpin(void *address, size_t size);

starpu_ssize_t starpu_memory_get_total(unsigned node);
starpu_ssize_t starpu_memory_get_available(unsigned node);
size_t starpu_memory_get_used(unsigned node);
starpu_ssize_t starpu_memory_get_total_all_nodes(void);
starpu_ssize_t starpu_memory_get_available_all_nodes(void);
size_t starpu_memory_get_used_all_nodes(void);
int starpu_memory_allocate(unsigned node, size_t size, int flags);
void starpu_memory_deallocate(unsigned node, size_t size);
void starpu_memory_wait_available(unsigned node, size_t size);

/* Memory on disks. */
struct starpu_disk_ops
{
	void *(*plug)(void *parameter, starpu_ssize_t size);
	void (*unplug)(void *base);
	int (*bandwidth)(unsigned node, void *base);
	void *(*alloc)(void *base, size_t size);
	void (*free)(void *base, void *obj, size_t size);
	void *(*open)(void *base, void *pos, size_t size);
	void (*close)(void *base, void *obj, size_t size);
	int (*read)(void *base, void *obj, void *buf, off_t offset, size_t size);
	int (*write)(void *base, void *obj, const void *buf, off_t offset, size_t size);
	int (*full_read)(void *base, void *obj, void **ptr, size_t *size, unsigned dst_node);
	int (*full_write)(void *base, void *obj, void *ptr, size_t size);
	void *(*async_write)(void *base, void *obj, void *buf, off_t offset, size_t size);
	void *(*async_read)(void *base, void *obj, void *buf, off_t offset, size_t size);
	void *(*async_full_read)(void *base, void *obj, void **ptr, size_t *size, unsigned dst_node);
	void *(*async_full_write)(void *base, void *obj, void *ptr, size_t size);
	void *(*copy)(void *base_src, void *obj_src, off_t offset_src, void *base_dst, void *obj_dst,
		      off_t offset_dst, size_t size);
	void (*wait_request)(void *channel);
	int (*test_request)(void *channel);
	void (*free_request)(void *channel);
};
extern struct starpu_disk_ops starpu_disk_stdio_ops;
extern struct starpu_disk_ops starpu_disk_unistd_ops;
extern struct starpu_disk_ops starpu_disk_unistd_o_direct_ops;
extern struct starpu_disk_ops starpu_disk_leveldb_ops;
extern struct starpu_disk_ops starpu_disk_hdf5_ops;
extern int starpu_disk_swap_node;
#define STARPU_DISK_SIZE_MIN (16 << 20)
int starpu_disk_register(struct starpu_disk_ops *ops, void *parameter, starpu_ssize_t size);
void *starpu_disk_open(unsigned node, void *pos, size_t size);
void starpu_disk_close(unsigned node, void *obj, size_t size);

/* ---- Workers and memory nodes ---------------------------------------------------------------- */

unsigned starpu_worker_get_count(void);
unsigned starpu_cpu_worker_get_count(void);
unsigned starpu_cuda_worker_get_count(void);
unsigned starpu_hip_worker_get_count(void);
unsigned starpu_sycl_worker_get_count(void);
unsigned starpu_opencl_worker_get_count(void);
unsigned starpu_mpi_sc_worker_get_count(void);
unsigned starpu_tcpip_sc_worker_get_count(void);
int starpu_worker_get_count_by_type(enum starpu_worker_archtype type);
unsigned starpu_worker_get_ids_by_type(enum starpu_worker_archtype type, int *workerids, unsigned maxsize);
int starpu_worker_get_by_type(enum starpu_worker_archtype type, int num);
int starpu_worker_get_by_devid(enum starpu_worker_archtype type, int devid);
int starpu_worker_get_devids(enum starpu_worker_archtype type, int *devids, int num);
int starpu_worker_get_stream_workerids(unsigned devid, int *workerids, enum starpu_worker_archtype type);

int starpu_worker_get_id(void);
/* The number of the calling worker, for which the caller has to be one. */
unsigned _starpu_worker_get_id_check(const char *file, int line);
#define starpu_worker_get_id_check() _starpu_worker_get_id_check(__FILE__, __LINE__)
enum starpu_worker_archtype starpu_worker_get_type(int id);
void starpu_worker_get_name(int id, char *text, size_t maxlen);
int starpu_worker_get_devid(int id);
int starpu_worker_get_devnum(int id);
int starpu_worker_get_subworkerid(int id);
int starpu_worker_get_bindid(int workerid);
int starpu_bindid_get_workerids(int bindid, int **workerids);
void starpu_worker_wait_for_initialisation(void);
void starpu_worker_display_all(FILE *stream);
void starpu_worker_display_names(FILE *stream, enum starpu_worker_archtype type);
void starpu_worker_display_count(FILE *stream, enum starpu_worker_archtype type);
unsigned starpu_worker_archtype_is_valid(enum starpu_worker_archtype type);
enum starpu_worker_archtype starpu_arch_mask_to_worker_archtype(unsigned mask);
const char *starpu_worker_get_type_as_string(enum starpu_worker_archtype type);
enum starpu_worker_archtype starpu_worker_get_type_from_string(const char *type);
const char *starpu_worker_get_type_as_env_var(enum starpu_worker_archtype type);
unsigned starpu_worker_type_can_execute_task(enum starpu_worker_archtype type, const struct starpu_task *task);

void starpu_execute_on_each_worker(void (*function)(void *arg), void *arg, uint32_t where);
void starpu_execute_on_each_worker_ex(void (*function)(void *arg), void *arg, uint32_t where, const char *name);
void starpu_execute_on_specific_workers(void (*function)(void *arg), void *arg, unsigned nworkers,
					unsigned *workers, const char *name);

unsigned starpu_combined_worker_get_count(void);
unsigned starpu_worker_is_combined_worker(int id);
int starpu_combined_worker_get_id(void);
int starpu_combined_worker_get_size(void);
int starpu_combined_worker_get_rank(void);
int starpu_combined_worker_assign_workerid(int nworkers, int workerids[]);
int starpu_combined_worker_get_description(int workerid, int *worker_size, int **combined_workerid);
int starpu_combined_worker_can_execute_task(unsigned workerid, struct starpu_task *task, unsigned nimpl);
void starpu_parallel_task_barrier_init(struct starpu_task *task, int workerid);
void starpu_parallel_task_barrier_init_n(struct starpu_task *task, int worker_size);
void starpu_sched_find_all_worker_combinations(void);
unsigned starpu_worker_is_blocked_in_parallel(int workerid);
unsigned starpu_worker_is_sub_worker_somewhere(int workerid);

unsigned starpu_memory_nodes_get_count(void);
unsigned starpu_memory_nodes_get_count_by_kind(enum starpu_node_kind kind);
unsigned starpu_memory_nodes_get_numa_count(void);
unsigned starpu_memory_node_get_ids_by_type(enum starpu_node_kind kind, unsigned *nodes, unsigned maxsize);
int starpu_memory_node_get_name(unsigned node, char *name, size_t size);
int starpu_memory_node_get_devid(unsigned node);
unsigned starpu_memory_devid_find_node(int devid, enum starpu_node_kind kind);
int starpu_memory_nodes_numa_id_to_devid(int osid);
int starpu_memory_nodes_numa_devid_to_id(unsigned id);
enum starpu_node_kind starpu_node_get_kind(unsigned node);
int starpu_node_needs_offset(unsigned node);
unsigned starpu_worker_get_memory_node(unsigned workerid);
unsigned starpu_worker_get_local_memory_node(void);
enum starpu_worker_archtype starpu_memory_node_get_worker_archtype(enum starpu_node_kind kind);
enum starpu_node_kind starpu_worker_get_memory_node_kind(enum starpu_worker_archtype type);

/* Sets of workers, and walks over them. */
struct starpu_sched_ctx_iterator
{
	int cursor;
	void *value;
	void *possible_value;
	char visited[STARPU_NMAXWORKERS];
	int possibly_parallel;
};
enum starpu_worker_collection_type
{
	STARPU_WORKER_TREE,
	STARPU_WORKER_LIST
};
struct starpu_worker_collection
{
	int *workerids;
	void *collection_private;
	unsigned nworkers;
	void *unblocked_workers;
	unsigned nunblocked_workers;
	ZELLIGE_ALSO_(void *primaries, void *masters);
	ZELLIGE_ALSO_(unsigned nprimaries, unsigned nmasters);
	char present[STARPU_NMAXWORKERS];
	char is_unblocked[STARPU_NMAXWORKERS];
	ZELLIGE_ALSO_(char is_primary[STARPU_NMAXWORKERS], char is_master[STARPU_NMAXWORKERS]);
	enum starpu_worker_collection_type type;
	unsigned (*has_next)(struct starpu_worker_collection *workers, struct starpu_sched_ctx_iterator *it);
	int (*get_next)(struct starpu_worker_collection *workers, struct starpu_sched_ctx_iterator *it);
	int (*add)(struct starpu_worker_collection *workers, int worker);
	int (*remove)(struct starpu_worker_collection *workers, int worker);
	void (*init)(struct starpu_worker_collection *workers);
	void (*deinit)(struct starpu_worker_collection *workers);
	void (*init_iterator)(struct starpu_worker_collection *workers, struct starpu_sched_ctx_iterator *it);
	void (*init_iterator_for_parallel_tasks)(struct starpu_worker_collection *workers,
						 struct starpu_sched_ctx_iterator *it, struct starpu_task *task);
};
extern struct starpu_worker_collection starpu_worker_list;
extern struct starpu_worker_collection starpu_worker_tree;

struct starpu_tree
{
	struct starpu_tree *nodes;
	ZELLIGE_ALSO_(struct starpu_tree *parent, struct starpu_tree *father);
	int arity;
	int id;
	int level;
	int is_pu;
};
struct starpu_tree *starpu_workers_get_tree(void);
struct starpu_tree *starpu_tree_get(struct starpu_tree *tree, int id);
struct starpu_tree *starpu_tree_get_neighbour(struct starpu_tree *tree, struct starpu_tree *node, char *visited,
					      char *present);
void starpu_tree_insert(struct starpu_tree *tree, int id, int level, int is_pu, int arity,
			struct starpu_tree *parent);
void starpu_tree_prepare_children(unsigned arity, struct starpu_tree *parent);
void starpu_tree_reset_visited(struct starpu_tree *tree, char *visited);
void starpu_tree_free(struct starpu_tree *tree);

struct starpu_bitmap
{
	unsigned long bits[STARPU_NMAXWORKERS / (8 * sizeof(unsigned long))];
	int cardinal;
};
struct starpu_bitmap *starpu_bitmap_create(void) STARPU_ATTRIBUTE_MALLOC;
void starpu_bitmap_destroy(struct starpu_bitmap *bitmap);
void starpu_bitmap_init(struct starpu_bitmap *bitmap);
void starpu_bitmap_set(struct starpu_bitmap *bitmap, int bit);
void starpu_bitmap_unset(struct starpu_bitmap *bitmap, int bit);
void starpu_bitmap_unset_all(struct starpu_bitmap *bitmap);
void starpu_bitmap_unset_and(struct starpu_bitmap *into, struct starpu_bitmap *a, struct starpu_bitmap *b);
void starpu_bitmap_or(struct starpu_bitmap *into, struct starpu_bitmap *from);
int starpu_bitmap_get(struct starpu_bitmap *bitmap, int bit);
int starpu_bitmap_and_get(struct starpu_bitmap *a, struct starpu_bitmap *b, int bit);
int starpu_bitmap_cardinal(struct starpu_bitmap *bitmap);
int starpu_bitmap_first(struct starpu_bitmap *bitmap);
int starpu_bitmap_last(struct starpu_bitmap *bitmap);
int starpu_bitmap_next(struct starpu_bitmap *bitmap, int bit);
int starpu_bitmap_has_next(struct starpu_bitmap *bitmap, int bit);

/* ---- Performance models ---------------------------------------------------------------------- */

struct starpu_perfmodel_device
{
	enum starpu_worker_archtype type;
	int devid;
	int ncores;
};
struct starpu_perfmodel_arch
{
	int ndevices;
	struct starpu_perfmodel_device *devices;
};
struct starpu_perfmodel_history_entry
{
	double mean;
	double deviation;
	double sum;
	double sum2;
	unsigned nsample;
	unsigned nerror;
	uint32_t footprint;
	size_t size;
	double flops;
	double duration;
	starpu_tag_t tag;
	double *parameters;
};
struct starpu_perfmodel_history_list
{
	struct starpu_perfmodel_history_list *next;
	struct starpu_perfmodel_history_entry *entry;
};
struct starpu_perfmodel_history_table;
struct starpu_perfmodel_regression_model
{
	double sumlny;
	double sumlnx;
	double sumlnx2;
	unsigned long minx;
	unsigned long maxx;
	double sumlnxlny;
	double alpha;
	double beta;
	unsigned valid;
	double a;
	double b;
	double c;
	unsigned nl_valid;
	unsigned nsample;
	double *coeff;
	unsigned ncoeff;
	unsigned multi_valid;
};
typedef double (*starpu_perfmodel_per_arch_cost_function)(struct starpu_task *task,
							  struct starpu_perfmodel_arch *arch, unsigned nimpl);
typedef size_t (*starpu_perfmodel_per_arch_size_base)(struct starpu_task *task, struct starpu_perfmodel_arch *arch,
						      unsigned nimpl);
struct starpu_perfmodel_per_arch
{
	starpu_perfmodel_per_arch_cost_function cost_function;
	starpu_perfmodel_per_arch_size_base size_base;
	struct starpu_perfmodel_history_table *history;
	struct starpu_perfmodel_history_list *list;
	struct starpu_perfmodel_regression_model regression;
	char debug_path[256];
};
#define starpu_per_arch_perfmodel starpu_perfmodel_per_arch

enum starpu_perfmodel_type
{
	STARPU_PERFMODEL_INVALID,
	STARPU_PER_WORKER,
	STARPU_PER_ARCH,
	STARPU_COMMON,
	STARPU_HISTORY_BASED,
	STARPU_REGRESSION_BASED,
	STARPU_NL_REGRESSION_BASED,
	STARPU_MULTIPLE_REGRESSION_BASED
};
typedef struct _starpu_perfmodel_state *starpu_perfmodel_state_t;
struct starpu_recursive_perfmodel_subgraph_list;
#define STARPU_RECURSIVE_TASKS_NMAX_LEVELS 16

struct starpu_perfmodel
{
	enum starpu_perfmodel_type type;
	double (*cost_function)(struct starpu_task *task, unsigned nimpl);
	double (*arch_cost_function)(struct starpu_task *task, struct starpu_perfmodel_arch *arch, unsigned nimpl);
	double (*worker_cost_function)(struct starpu_task *task, unsigned workerid, unsigned nimpl);
	size_t (*size_base)(struct starpu_task *task, unsigned nimpl);
	uint32_t (*footprint)(struct starpu_task *task);
	const char *symbol;
	char *path;
	unsigned is_loaded;
	unsigned benchmarking;
	unsigned is_init;
	unsigned is_recorded_recursive;
	struct starpu_recursive_perfmodel_subgraph_list *recursive_graphs;
	void (*parameters)(struct starpu_task *task, double *parameters);
	const char **parameters_names;
	unsigned nparameters;
	unsigned **combinations;
	unsigned ncombinations;
	starpu_perfmodel_state_t state;
	uint32_t footprint_per_level[STARPU_RECURSIVE_TASKS_NMAX_LEVELS];
};
extern struct starpu_perfmodel starpu_perfmodel_nop;

void starpu_perfmodel_initialize(void);
void starpu_perfmodel_init(struct starpu_perfmodel *model);
int starpu_perfmodel_deinit(struct starpu_perfmodel *model);
int starpu_perfmodel_load_file(const char *filename, struct starpu_perfmodel *model);
int starpu_perfmodel_load_symbol(const char *symbol, struct starpu_perfmodel *model);
int starpu_perfmodel_unload_model(struct starpu_perfmodel *model);
void starpu_save_history_based_model(struct starpu_perfmodel *model);
void starpu_perfmodel_get_model_path(const char *symbol, char *path, size_t maxlen);
void starpu_perfmodel_free_sampling(void);
int starpu_perfmodel_get_narch_combs(void);
int starpu_perfmodel_arch_comb_add(int ndevices, struct starpu_perfmodel_device *devices);
int starpu_perfmodel_arch_comb_get(int ndevices, struct starpu_perfmodel_device *devices);
struct starpu_perfmodel_arch *starpu_perfmodel_arch_comb_fetch(int comb);
struct starpu_perfmodel_arch *starpu_worker_get_perf_archtype(int workerid, unsigned sched_ctx_id);
struct starpu_perfmodel_per_arch *starpu_perfmodel_get_model_per_arch(struct starpu_perfmodel *model,
								      struct starpu_perfmodel_arch *arch,
								      unsigned nimpl);
struct starpu_perfmodel_per_arch *starpu_perfmodel_get_model_per_devices(struct starpu_perfmodel *model, int nimpl,
									 ...);
int starpu_perfmodel_set_per_devices_cost_function(struct starpu_perfmodel *model, int nimpl,
						   starpu_perfmodel_per_arch_cost_function function, ...);
int starpu_perfmodel_set_per_devices_size_base(struct starpu_perfmodel *model, int nimpl,
					       starpu_perfmodel_per_arch_size_base function, ...);
void starpu_perfmodel_debugfilepath(struct starpu_perfmodel *model, struct starpu_perfmodel_arch *arch, char *path,
				    size_t maxlen, unsigned nimpl);
const char *starpu_perfmodel_get_archtype_name(enum starpu_worker_archtype type);
void starpu_perfmodel_get_arch_name(struct starpu_perfmodel_arch *arch, char *name, size_t maxlen, unsigned nimpl);
double starpu_perfmodel_history_based_expected_perf(struct starpu_perfmodel *model,
						    struct starpu_perfmodel_arch *arch, uint32_t footprint);
void starpu_perfmodel_update_history(struct starpu_perfmodel *model, struct starpu_task *task,
				     struct starpu_perfmodel_arch *arch, unsigned cpuid, unsigned nimpl,
				     double measured);
void starpu_perfmodel_update_history_n(struct starpu_perfmodel *model, struct starpu_task *task,
				       struct starpu_perfmodel_arch *arch, unsigned cpuid, unsigned nimpl,
				       double average_measured, unsigned number);
void starpu_perfmodel_directory(FILE *stream);
int starpu_perfmodel_list(FILE *stream);
int starpu_perfmodel_list_combs(FILE *stream, struct starpu_perfmodel *model);
void starpu_perfmodel_dump_xml(FILE *stream, struct starpu_perfmodel *model);
void starpu_perfmodel_print(struct starpu_perfmodel *model, struct starpu_perfmodel_arch *arch, unsigned nimpl,
			    char *parameter, uint32_t *footprint, FILE *stream);
int starpu_perfmodel_print_all(struct starpu_perfmodel *model, char *arch, char *parameter, uint32_t *footprint,
			       FILE *stream);
int starpu_perfmodel_print_estimations(struct starpu_perfmodel *model, uint32_t footprint, FILE *stream);

uint32_t starpu_task_footprint(struct starpu_perfmodel *model, struct starpu_task *task,
			       struct starpu_perfmodel_arch *arch, unsigned nimpl);
uint32_t starpu_task_data_footprint(struct starpu_task *task);
double starpu_task_expected_length(struct starpu_task *task, struct starpu_perfmodel_arch *arch, unsigned nimpl);
double starpu_task_expected_length_average(struct starpu_task *task, unsigned sched_ctx_id);
double starpu_task_worker_expected_length(struct starpu_task *task, unsigned workerid, unsigned sched_ctx_id,
					  unsigned nimpl);
double starpu_task_expected_energy(struct starpu_task *task, struct starpu_perfmodel_arch *arch, unsigned nimpl);
double starpu_task_expected_energy_average(struct starpu_task *task, unsigned sched_ctx_id);
double starpu_task_worker_expected_energy(struct starpu_task *task, unsigned workerid, unsigned sched_ctx_id,
					  unsigned nimpl);
double starpu_task_expected_conversion_time(struct starpu_task *task, struct starpu_perfmodel_arch *arch,
					    unsigned nimpl);
double starpu_task_expected_data_transfer_time(unsigned memory_node, struct starpu_task *task);
double starpu_task_expected_data_transfer_time_for(struct starpu_task *task, unsigned worker);
double starpu_data_expected_transfer_time(starpu_data_handle_t handle, unsigned memory_node,
					  enum starpu_data_access_mode mode);
double starpu_worker_get_relative_speedup(struct starpu_perfmodel_arch *arch);

double starpu_transfer_bandwidth(unsigned src_node, unsigned dst_node);
double starpu_transfer_latency(unsigned src_node, unsigned dst_node);
double starpu_transfer_predict(unsigned src_node, unsigned dst_node, size_t size);
void starpu_bus_print_bandwidth(FILE *stream);
void starpu_bus_print_affinity(FILE *stream);
void starpu_bus_print_filenames(FILE *stream);

int starpu_energy_start(int workerid, enum starpu_worker_archtype type);
int starpu_energy_stop(struct starpu_perfmodel *model, struct starpu_task *task, unsigned nimpl, unsigned ntasks,
		       int workerid, enum starpu_worker_archtype type);
void starpu_energy_use(float joules);
double starpu_energy_used(void);

/* ---- Scheduling ------------------------------------------------------------------------------ */

struct starpu_sched_policy
{
	void (*init_sched)(unsigned sched_ctx_id);
	void (*deinit_sched)(unsigned sched_ctx_id);
	int (*push_task)(struct starpu_task *task);
	double (*simulate_push_task)(struct starpu_task *task);
	void (*push_task_notify)(struct starpu_task *task, int workerid, int perf_workerid, unsigned sched_ctx_id);
	struct starpu_task *(*pop_task)(unsigned sched_ctx_id);
	void (*submit_hook)(struct starpu_task *task);
	void (*pre_exec_hook)(struct starpu_task *task, unsigned sched_ctx_id);
	void (*post_exec_hook)(struct starpu_task *task, unsigned sched_ctx_id);
	void (*do_schedule)(unsigned sched_ctx_id);
	void (*reset_scheduler)(unsigned sched_ctx_id);
	void (*add_workers)(unsigned sched_ctx_id, int *workerids, unsigned nworkers);
	void (*remove_workers)(unsigned sched_ctx_id, int *workerids, unsigned nworkers);
	int prefetches;
	const char *policy_name;
	const char *policy_description;
	enum starpu_worker_collection_type worker_type;
};
struct starpu_sched_policy **starpu_sched_get_predefined_policies(void);
struct starpu_sched_policy **starpu_sched_get_predefined_policies_non_default(void);
struct starpu_sched_policy *starpu_get_sched_lib_policy(const char *name);
struct starpu_sched_policy **starpu_get_sched_lib_policies(void);
struct starpu_sched_policy *starpu_sched_get_sched_policy(void);
struct starpu_sched_policy *starpu_sched_get_sched_policy_in_ctx(unsigned sched_ctx_id);

int starpu_sched_get_min_priority(void);
int starpu_sched_get_max_priority(void);
int starpu_sched_set_min_priority(int priority);
int starpu_sched_set_max_priority(int priority);
#define STARPU_MIN_PRIO (starpu_sched_get_min_priority())
#define STARPU_MAX_PRIO (starpu_sched_get_max_priority())

int starpu_worker_can_execute_task(unsigned workerid, struct starpu_task *task, unsigned nimpl);
int starpu_worker_can_execute_task_impl(unsigned workerid, struct starpu_task *task, unsigned *impl_mask);
int starpu_worker_can_execute_task_first_impl(unsigned workerid, struct starpu_task *task, unsigned *nimpl);
int starpu_push_local_task(int workerid, struct starpu_task *task, int back);
int starpu_push_task_end(struct starpu_task *task);
int starpu_get_prefetch_flag(void);
int starpu_prefetch_task_input_on_node(struct starpu_task *task, unsigned node);
int starpu_prefetch_task_input_on_node_prio(struct starpu_task *task, unsigned node, int prio);
int starpu_prefetch_task_input_for(struct starpu_task *task, unsigned worker);
int starpu_prefetch_task_input_for_prio(struct starpu_task *task, unsigned worker, int prio);
int starpu_idle_prefetch_task_input_on_node(struct starpu_task *task, unsigned node);
int starpu_idle_prefetch_task_input_on_node_prio(struct starpu_task *task, unsigned node, int prio);
int starpu_idle_prefetch_task_input_for(struct starpu_task *task, unsigned worker);
int starpu_idle_prefetch_task_input_for_prio(struct starpu_task *task, unsigned worker, int prio);
typedef void (*starpu_notify_ready_soon_func)(void *data, struct starpu_task *task, double delay);
void starpu_task_notify_ready_soon_register(starpu_notify_ready_soon_func function, void *data);
void starpu_sched_task_break(struct starpu_task *task);
void starpu_worker_get_current_task_exp_end(unsigned workerid, struct timespec *date);
void starpu_worker_get_sched_condition(int workerid, starpu_pthread_mutex_t **sched_mutex,
				       starpu_pthread_cond_t **sched_cond);

int starpu_wake_worker_relax(int workerid);
int starpu_wake_worker_relax_light(int workerid);
int starpu_wake_worker_no_relax(int workerid);
int starpu_wake_worker_locked(int workerid);
int starpu_worker_sched_op_pending(void);
void starpu_worker_relax_on(void);
void starpu_worker_relax_off(void);
int starpu_worker_get_relax_state(void);
void starpu_worker_lock(int workerid);
int starpu_worker_trylock(int workerid);
void starpu_worker_unlock(int workerid);
void starpu_worker_lock_self(void);
void starpu_worker_unlock_self(void);
void starpu_worker_set_going_to_sleep_callback(void (*callback)(unsigned workerid));
void starpu_worker_set_waking_up_callback(void (*callback)(unsigned workerid));

/* Options of the heteroprio policy. */
void starpu_heteroprio_set_nb_prios(unsigned sched_ctx_id, enum starpu_worker_archtype type, unsigned max_prio);
void starpu_heteroprio_set_mapping(unsigned sched_ctx_id, enum starpu_worker_archtype type, unsigned source,
				   unsigned destination);
void starpu_heteroprio_set_faster_arch(unsigned sched_ctx_id, enum starpu_worker_archtype type, unsigned prio);
void starpu_heteroprio_set_arch_slow_factor(unsigned sched_ctx_id, enum starpu_worker_archtype type, unsigned prio,
					    float slow_factor);
void starpu_heteroprio_set_use_locality(unsigned sched_ctx_id, unsigned use_locality);
void starpu_heteroprio_map_wgroup_memory_nodes(unsigned sched_ctx_id);
void starpu_heteroprio_print_wgroups(FILE *stream, unsigned sched_ctx_id);

/* Scheduling contexts. */
#define ZELLIGE_CONTEXT_(number) ((number) << 16)
#define STARPU_SCHED_CTX_POLICY_NAME ZELLIGE_CONTEXT_(1)
#define STARPU_SCHED_CTX_POLICY_STRUCT ZELLIGE_CONTEXT_(2)
#define STARPU_SCHED_CTX_POLICY_MIN_PRIO ZELLIGE_CONTEXT_(3)
#define STARPU_SCHED_CTX_POLICY_MAX_PRIO ZELLIGE_CONTEXT_(4)
#define STARPU_SCHED_CTX_HIERARCHY_LEVEL ZELLIGE_CONTEXT_(5)
#define STARPU_SCHED_CTX_NESTED ZELLIGE_CONTEXT_(6)
#define STARPU_SCHED_CTX_AWAKE_WORKERS ZELLIGE_CONTEXT_(7)
#define STARPU_SCHED_CTX_POLICY_INIT ZELLIGE_CONTEXT_(8)
#define STARPU_SCHED_CTX_USER_DATA ZELLIGE_CONTEXT_(9)
#define STARPU_SCHED_CTX_CUDA_NSMS ZELLIGE_CONTEXT_(10)
#define STARPU_SCHED_CTX_SUB_CTXS ZELLIGE_CONTEXT_(11)

unsigned starpu_sched_ctx_create(int *workerids, int nworkers, const char *name, ...);
unsigned starpu_sched_ctx_create_inside_interval(const char *policy_name, const char *name, int min_ncpus,
						 int max_ncpus, int min_ngpus, int max_ngpus,
						 unsigned allow_overlap);
void starpu_sched_ctx_delete(unsigned sched_ctx_id);
void starpu_sched_ctx_register_close_callback(unsigned sched_ctx_id,
					      void (*callback)(unsigned sched_ctx_id, void *args), void *args);
void starpu_sched_ctx_add_workers(int *workerids, unsigned nworkers, unsigned sched_ctx_id);
void starpu_sched_ctx_remove_workers(int *workerids, unsigned nworkers, unsigned sched_ctx_id);
void starpu_sched_ctx_display_workers(unsigned sched_ctx_id, FILE *stream);
unsigned starpu_sched_ctx_get_workers_list(unsigned sched_ctx_id, int **workerids);
unsigned starpu_sched_ctx_get_workers_list_raw(unsigned sched_ctx_id, int **workerids);
unsigned starpu_sched_ctx_get_nworkers(unsigned sched_ctx_id);
unsigned starpu_sched_ctx_get_nshared_workers(unsigned sched_ctx_id, unsigned sched_ctx_id2);
unsigned starpu_sched_ctx_contains_worker(int workerid, unsigned sched_ctx_id);
unsigned starpu_sched_ctx_contains_type_of_worker(enum starpu_worker_archtype type, unsigned sched_ctx_id);
unsigned starpu_sched_ctx_worker_get_id(unsigned sched_ctx_id);
int starpu_sched_ctx_get_worker_rank(unsigned sched_ctx_id);
unsigned starpu_worker_get_sched_ctx_list(int worker, unsigned **sched_ctx);
unsigned starpu_worker_get_sched_ctx_id_stream(unsigned stream_workerid);
unsigned starpu_sched_ctx_overlapping_ctxs_on_worker(int workerid);
void starpu_sched_ctx_set_inheritor(unsigned sched_ctx_id, unsigned inheritor);
unsigned starpu_sched_ctx_get_inheritor(unsigned sched_ctx_id);
unsigned starpu_sched_ctx_get_hierarchy_level(unsigned sched_ctx_id);
void starpu_sched_ctx_set_context(unsigned *sched_ctx_id);
unsigned starpu_sched_ctx_get_context(void);
unsigned starpu_sched_ctx_get_ctx_for_task(struct starpu_task *task);
void starpu_sched_ctx_stop_task_submission(void);
void starpu_sched_ctx_finished_submit(unsigned sched_ctx_id);
void starpu_sched_ctx_set_user_data(unsigned sched_ctx_id, void *user_data);
void *starpu_sched_ctx_get_user_data(unsigned sched_ctx_id);
void starpu_sched_ctx_set_policy_data(unsigned sched_ctx_id, void *policy_data);
void *starpu_sched_ctx_get_policy_data(unsigned sched_ctx_id);
struct starpu_sched_policy *starpu_sched_ctx_get_sched_policy(unsigned sched_ctx_id);
void (*starpu_sched_ctx_get_sched_policy_callback(unsigned sched_ctx_id))(unsigned);
unsigned starpu_sched_ctx_has_starpu_scheduler(unsigned sched_ctx_id, unsigned *awake_workers);
void *starpu_sched_ctx_exec_parallel_code(void *(*function)(void *), void *param, unsigned sched_ctx_id);
void starpu_sched_ctx_get_available_cpuids(unsigned sched_ctx_id, int **cpuids, int *ncpuids);
void starpu_sched_ctx_bind_current_thread_to_cpuid(unsigned cpuid);
int starpu_sched_ctx_book_workers_for_task(unsigned sched_ctx_id, int *workerids, int nworkers);
void starpu_sched_ctx_unbook_workers_for_task(unsigned sched_ctx_id, int primary);
unsigned starpu_sched_ctx_worker_is_primary_for_child_ctx(int workerid, unsigned sched_ctx_id);
unsigned starpu_sched_ctx_primary_get_context(int primaryid);
int starpu_sched_ctx_get_nready_tasks(unsigned sched_ctx_id);
double starpu_sched_ctx_get_nready_flops(unsigned sched_ctx_id);
void starpu_sched_ctx_list_task_counters_increment(unsigned sched_ctx_id, int workerid);
void starpu_sched_ctx_list_task_counters_decrement(unsigned sched_ctx_id, int workerid);
void starpu_sched_ctx_list_task_counters_reset(unsigned sched_ctx_id, int workerid);
void starpu_sched_ctx_list_task_counters_increment_all_ctx_locked(struct starpu_task *task, unsigned sched_ctx_id);
void starpu_sched_ctx_list_task_counters_decrement_all_ctx_locked(struct starpu_task *task, unsigned sched_ctx_id);
void starpu_sched_ctx_list_task_counters_reset_all(struct starpu_task *task, unsigned sched_ctx_id);
void starpu_sched_ctx_revert_task_counters_ctx_locked(unsigned sched_ctx_id, double flops);
void starpu_sched_ctx_move_task_to_ctx_locked(struct starpu_task *task, unsigned sched_ctx, unsigned with_repush);
void starpu_sched_ctx_worker_shares_tasks_lists(int workerid, int sched_ctx_id);
void starpu_sched_ctx_set_priority(int *workers, int nworkers, unsigned sched_ctx_id, unsigned priority);
unsigned starpu_sched_ctx_get_priority(int worker, unsigned sched_ctx_id);
int starpu_sched_ctx_get_min_priority(unsigned sched_ctx_id);
int starpu_sched_ctx_get_max_priority(unsigned sched_ctx_id);
int starpu_sched_ctx_set_min_priority(unsigned sched_ctx_id, int priority);
int starpu_sched_ctx_set_max_priority(unsigned sched_ctx_id, int priority);
int starpu_sched_ctx_min_priority_is_set(unsigned sched_ctx_id);
int starpu_sched_ctx_max_priority_is_set(unsigned sched_ctx_id);
int starpu_sched_ctx_get_stream_worker(unsigned sub_ctx);
int starpu_sched_ctx_get_nsms(unsigned sched_ctx_id);
void starpu_sched_ctx_get_sms_interval(int stream_workerid, int *start, int *end);
struct starpu_worker_collection *starpu_sched_ctx_create_worker_collection(unsigned sched_ctx_id,
									   enum starpu_worker_collection_type type)
	STARPU_ATTRIBUTE_MALLOC;
struct starpu_worker_collection *starpu_sched_ctx_get_worker_collection(unsigned sched_ctx_id);
void starpu_sched_ctx_delete_worker_collection(unsigned sched_ctx_id);

struct starpu_sched_ctx_performance_counters
{
	void (*notify_idle_cycle)(unsigned sched_ctx_id, int worker, double idle_time);
	void (*notify_poped_task)(unsigned sched_ctx_id, int worker);
	void (*notify_pushed_task)(unsigned sched_ctx_id, int worker);
	void (*notify_post_exec_task)(struct starpu_task *task, size_t data_size, uint32_t footprint,
				      int hypervisor_tag, double flops);
	void (*notify_submitted_job)(struct starpu_task *task, uint32_t footprint, size_t data_size);
	void (*notify_empty_ctx)(unsigned sched_ctx_id, struct starpu_task *task);
	void (*notify_delete_context)(unsigned sched_ctx_id);
};
void starpu_sched_ctx_set_perf_counters(unsigned sched_ctx_id, void *perf_counters);
void starpu_sched_ctx_call_pushed_task_cb(int workerid, unsigned sched_ctx_id);
void starpu_sched_ctx_notify_hypervisor_exists(void);
unsigned starpu_sched_ctx_check_if_hypervisor_exists(void);
void starpu_sched_ctx_update_start_resizing_sample(unsigned sched_ctx_id, double start_sample);

/* Modular schedulers. */
struct starpu_sched_tree;
enum starpu_sched_component_properties
{
	STARPU_SCHED_COMPONENT_HOMOGENEOUS = 0x1,
	STARPU_SCHED_COMPONENT_SINGLE_MEMORY_NODE = 0x2
};
struct starpu_sched_component
{
	struct starpu_sched_tree *tree;
	struct starpu_bitmap workers;
	struct starpu_bitmap workers_in_ctx;
	void *data;
	char *name;
	unsigned nchildren;
	struct starpu_sched_component **children;
	unsigned nparents;
	struct starpu_sched_component **parents;
	void (*add_child)(struct starpu_sched_component *component, struct starpu_sched_component *child);
	void (*remove_child)(struct starpu_sched_component *component, struct starpu_sched_component *child);
	void (*add_parent)(struct starpu_sched_component *component, struct starpu_sched_component *parent);
	void (*remove_parent)(struct starpu_sched_component *component, struct starpu_sched_component *parent);
	int (*push_task)(struct starpu_sched_component *component, struct starpu_task *task);
	struct starpu_task *(*pull_task)(struct starpu_sched_component *from, struct starpu_sched_component *to);
	int (*can_push)(struct starpu_sched_component *from, struct starpu_sched_component *to);
	int (*can_pull)(struct starpu_sched_component *component);
	void (*do_schedule)(struct starpu_sched_component *component);
	int (*notify)(struct starpu_sched_component *component, int message, void *arg);
	double (*estimated_load)(struct starpu_sched_component *component);
	double (*estimated_end)(struct starpu_sched_component *component);
	void (*deinit_data)(struct starpu_sched_component *component);
	void (*notify_change_workers)(struct starpu_sched_component *component);
	int properties;
	void *obj;
};
struct starpu_sched_tree
{
	struct starpu_sched_component *root;
	struct starpu_bitmap workers;
	unsigned sched_ctx_id;
	starpu_pthread_mutex_t lock;
};
#define STARPU_SCHED_COMPONENT_IS_HOMOGENEOUS(component)                                           \
	((component)->properties & STARPU_SCHED_COMPONENT_HOMOGENEOUS)
#define STARPU_SCHED_COMPONENT_IS_SINGLE_MEMORY_NODE(component)                                    \
	((component)->properties & STARPU_SCHED_COMPONENT_SINGLE_MEMORY_NODE)
typedef struct starpu_sched_component *(*starpu_sched_component_create_t)(struct starpu_sched_tree *tree, void *data);

struct starpu_sched_tree *starpu_sched_tree_create(unsigned sched_ctx_id) STARPU_ATTRIBUTE_MALLOC;
struct starpu_sched_tree *starpu_sched_tree_get(unsigned sched_ctx_id);
void starpu_sched_tree_destroy(struct starpu_sched_tree *tree);
void starpu_sched_tree_deinitialize(unsigned sched_ctx_id);
void starpu_sched_tree_update_workers(struct starpu_sched_tree *tree);
void starpu_sched_tree_update_workers_in_ctx(struct starpu_sched_tree *tree);
int starpu_sched_tree_push_task(struct starpu_task *task);
int starpu_sched_tree_work_stealing_push_task(struct starpu_task *task);
struct starpu_task *starpu_sched_tree_pop_task(unsigned sched_ctx_id);
void starpu_sched_tree_add_workers(unsigned sched_ctx_id, int *workerids, unsigned nworkers);
void starpu_sched_tree_remove_workers(unsigned sched_ctx_id, int *workerids, unsigned nworkers);
void starpu_sched_tree_do_schedule(unsigned sched_ctx_id);

struct starpu_sched_component *starpu_sched_component_create(struct starpu_sched_tree *tree, const char *name)
	STARPU_ATTRIBUTE_MALLOC;
void starpu_sched_component_destroy(struct starpu_sched_component *component);
void starpu_sched_component_destroy_rec(struct starpu_sched_component *component);
void starpu_sched_component_connect(struct starpu_sched_component *parent, struct starpu_sched_component *child);
void starpu_sched_component_add_child(struct starpu_sched_component *component, struct starpu_sched_component *child);
int starpu_sched_component_push_task(struct starpu_sched_component *from, struct starpu_sched_component *to,
				     struct starpu_task *task);
struct starpu_task *starpu_sched_component_pull_task(struct starpu_sched_component *from,
						     struct starpu_sched_component *to);
struct starpu_task *starpu_sched_component_parents_pull_task(struct starpu_sched_component *component,
							     struct starpu_sched_component *to);
struct starpu_task *starpu_sched_component_pump_to(struct starpu_sched_component *component,
						   struct starpu_sched_component *to, int *success);
struct starpu_task *starpu_sched_component_pump_downstream(struct starpu_sched_component *component, int *success);
int starpu_sched_component_send_can_push_to_parents(struct starpu_sched_component *component);
int starpu_sched_component_can_push(struct starpu_sched_component *component, struct starpu_sched_component *to);
int starpu_sched_component_can_pull(struct starpu_sched_component *component);
int starpu_sched_component_can_pull_all(struct starpu_sched_component *component);
int starpu_sched_component_can_execute_task(struct starpu_sched_component *component, struct starpu_task *task);
int starpu_sched_component_execute_preds(struct starpu_sched_component *component, struct starpu_task *task,
					 double *length) STARPU_WARN_UNUSED_RESULT;
double starpu_sched_component_transfer_length(struct starpu_sched_component *component, struct starpu_task *task);
void starpu_sched_component_prefetch_on_node(struct starpu_sched_component *component, struct starpu_task *task);
double starpu_sched_component_estimated_load(struct starpu_sched_component *component);
double starpu_sched_component_estimated_end_min(struct starpu_sched_component *component);
double starpu_sched_component_estimated_end_min_add(struct starpu_sched_component *component, double length);
double starpu_sched_component_estimated_end_average(struct starpu_sched_component *component);

struct starpu_sched_component *starpu_sched_component_worker_get(unsigned sched_ctx_id, int workerid);
struct starpu_sched_component *starpu_sched_component_worker_new(unsigned sched_ctx_id, int workerid);
struct starpu_sched_component *starpu_sched_component_parallel_worker_create(struct starpu_sched_tree *tree,
									     unsigned nworkers, unsigned *workers);
int starpu_sched_component_worker_get_workerid(struct starpu_sched_component *component);
int starpu_sched_component_is_worker(struct starpu_sched_component *component);
int starpu_sched_component_is_simple_worker(struct starpu_sched_component *component);
int starpu_sched_component_is_combined_worker(struct starpu_sched_component *component);
void starpu_sched_component_worker_pre_exec_hook(struct starpu_task *task, unsigned sched_ctx_id);
void starpu_sched_component_worker_post_exec_hook(struct starpu_task *task, unsigned sched_ctx_id);

struct starpu_sched_component_fifo_data
{
	unsigned ntasks_threshold;
	double exp_len_threshold;
	int ready;
	int exp;
	int ready_first;
};
struct starpu_sched_component_prio_data
{
	unsigned ntasks_threshold;
	double exp_len_threshold;
	int ready;
	int exp;
};
struct starpu_sched_component_mct_data
{
	double alpha;
	double beta;
	double _gamma;
	double idle_power;
	int nolock;
};
struct starpu_sched_component_heteroprio_data
{
	struct starpu_sched_component_mct_data *mct;
	unsigned batch;
};
struct starpu_sched_component_perfmodel_select_data
{
	struct starpu_sched_component *calibrator_component;
	struct starpu_sched_component *no_perfmodel_component;
	struct starpu_sched_component *perfmodel_component;
};
/* A kind of component: how to make one with its data, and whether one is of the kind. */
#define ZELLIGE_COMPONENT_(kind, data_type)                                                        \
	struct starpu_sched_component *starpu_sched_component_##kind##_create(struct starpu_sched_tree *tree, \
									      data_type *data)     \
		STARPU_ATTRIBUTE_MALLOC;                                                           \
	int starpu_sched_component_is_##kind(struct starpu_sched_component *component);
ZELLIGE_COMPONENT_(fifo, struct starpu_sched_component_fifo_data)
ZELLIGE_COMPONENT_(prio, struct starpu_sched_component_prio_data)
ZELLIGE_COMPONENT_(mct, struct starpu_sched_component_mct_data)
ZELLIGE_COMPONENT_(heft, struct starpu_sched_component_mct_data)
ZELLIGE_COMPONENT_(heteroprio, struct starpu_sched_component_heteroprio_data)
ZELLIGE_COMPONENT_(perfmodel_select, struct starpu_sched_component_perfmodel_select_data)
ZELLIGE_COMPONENT_(work_stealing, void)
ZELLIGE_COMPONENT_(random, void)
ZELLIGE_COMPONENT_(eager, void)
ZELLIGE_COMPONENT_(eager_prio, void)
ZELLIGE_COMPONENT_(eager_calibration, void)
ZELLIGE_COMPONENT_(stage, void)
ZELLIGE_COMPONENT_(userchoice, void)
#undef ZELLIGE_COMPONENT_
struct starpu_sched_component *starpu_sched_component_splitter_create(struct starpu_sched_tree *tree);
struct starpu_sched_component *starpu_sched_component_best_implementation_create(struct starpu_sched_tree *tree,
										 void *arg)
	STARPU_ATTRIBUTE_MALLOC;

struct starpu_sched_component_composed_recipe;
struct starpu_sched_component_composed_recipe *starpu_sched_component_composed_recipe_create(void)
	STARPU_ATTRIBUTE_MALLOC;
struct starpu_sched_component_composed_recipe *
starpu_sched_component_composed_recipe_create_singleton(starpu_sched_component_create_t create, void *arg)
	STARPU_ATTRIBUTE_MALLOC;
void starpu_sched_component_composed_recipe_add(struct starpu_sched_component_composed_recipe *recipe,
						starpu_sched_component_create_t create, void *arg);
void starpu_sched_component_composed_recipe_destroy(struct starpu_sched_component_composed_recipe *recipe);
struct starpu_sched_component *
starpu_sched_component_composed_component_create(struct starpu_sched_tree *tree,
						 struct starpu_sched_component_composed_recipe *recipe)
	STARPU_ATTRIBUTE_MALLOC;

#define STARPU_SCHED_SIMPLE_DECIDE_MASK 0x3
#define STARPU_SCHED_SIMPLE_DECIDE_WORKERS 0x1
#define STARPU_SCHED_SIMPLE_DECIDE_MEMNODES 0x2
#define STARPU_SCHED_SIMPLE_DECIDE_ARCHS 0x3
#define STARPU_SCHED_SIMPLE_DECIDE_ALWAYS 0x8
#define STARPU_SCHED_SIMPLE_PERFMODEL 0x10
#define STARPU_SCHED_SIMPLE_IMPL 0x20
#define STARPU_SCHED_SIMPLE_FIFO_ABOVE 0x40
#define STARPU_SCHED_SIMPLE_FIFO_ABOVE_PRIO 0x80
#define STARPU_SCHED_SIMPLE_FIFOS_BELOW 0x100
#define STARPU_SCHED_SIMPLE_FIFOS_BELOW_PRIO 0x200
#define STARPU_SCHED_SIMPLE_FIFOS_BELOW_READY 0x400
#define STARPU_SCHED_SIMPLE_WS_BELOW 0x800
#define STARPU_SCHED_SIMPLE_COMBINED_WORKERS 0x1000
#define STARPU_SCHED_SIMPLE_FIFOS_BELOW_EXP 0x2000
#define STARPU_SCHED_SIMPLE_PRE_DECISION 0x4000
#define STARPU_SCHED_SIMPLE_FIFOS_BELOW_READY_FIRST 0x8000
#define STARPU_SCHED_SIMPLE_FIFOS_BELOW_NOLIMIT 0x10000
void starpu_sched_component_initialize_simple_scheduler(starpu_sched_component_create_t create, void *data,
							unsigned flags, unsigned sched_ctx_id);
void starpu_sched_component_initialize_simple_schedulers(unsigned sched_ctx_id, unsigned ndecisions, ...);

#define STARPU_COMPONENT_MUTEX_LOCK(mutex)                                                         \
	do                                                                                         \
	{                                                                                          \
		int zellige_was_relaxed_ = starpu_worker_get_relax_state();                        \
		if (!zellige_was_relaxed_)                                                         \
			starpu_worker_relax_on();                                                  \
		STARPU_PTHREAD_MUTEX_LOCK(mutex);                                                  \
		if (!zellige_was_relaxed_)                                                         \
			starpu_worker_relax_off();                                                 \
	} while (0)
#define STARPU_COMPONENT_MUTEX_TRYLOCK STARPU_PTHREAD_MUTEX_TRYLOCK
#define STARPU_COMPONENT_MUTEX_UNLOCK STARPU_PTHREAD_MUTEX_UNLOCK

/* ---- Measuring ------------------------------------------------------------------------------- */

#define STARPU_PROFILING_DISABLE 0
#define STARPU_PROFILING_ENABLE 1
struct starpu_profiling_task_info
{
	struct timespec submit_time;
	struct timespec push_start_time;
	struct timespec push_end_time;
	struct timespec pop_start_time;
	struct timespec pop_end_time;
	struct timespec acquire_data_start_time;
	struct timespec acquire_data_end_time;
	struct timespec start_time;
	struct timespec end_time;
	struct timespec release_data_start_time;
	struct timespec release_data_end_time;
	struct timespec callback_start_time;
	struct timespec callback_end_time;
	int workerid;
	uint64_t used_cycles;
	uint64_t stall_cycles;
	double energy_consumed;
};
struct starpu_profiling_worker_info
{
	struct timespec start_time;
	struct timespec total_time;
	struct timespec executing_time;
	struct timespec callback_time;
	struct timespec waiting_time;
	struct timespec sleeping_time;
	struct timespec scheduling_time;
	struct timespec all_executing_time;
	struct timespec all_callback_time;
	struct timespec all_waiting_time;
	struct timespec all_sleeping_time;
	struct timespec all_scheduling_time;
	int executed_tasks;
	uint64_t used_cycles;
	uint64_t stall_cycles;
	double energy_consumed;
	double flops;
};
struct starpu_profiling_bus_info
{
	struct timespec start_time;
	struct timespec total_time;
	long long transferred_bytes;
	int transfer_count;
};
void starpu_profiling_init(void);
void starpu_profiling_set_id(int id);
int starpu_profiling_status_set(int status);
int starpu_profiling_status_get(void);
int starpu_profiling_worker_get_info(int workerid, struct starpu_profiling_worker_info *info);
void starpu_profiling_bus_helper_display_summary(void);
void starpu_profiling_worker_helper_display_summary(void);
void starpu_data_display_memory_stats(void);
int starpu_bus_get_count(void);
int starpu_bus_get_id(int src, int dst);
int starpu_bus_get_src(int busid);
int starpu_bus_get_dst(int busid);
void starpu_bus_set_direct(int busid, int direct);
int starpu_bus_get_direct(int busid);
void starpu_bus_set_ngpus(int busid, int ngpus);
int starpu_bus_get_ngpus(int busid);
int starpu_bus_get_profiling_info(int busid, struct starpu_profiling_bus_info *info);

double starpu_timing_now(void);
double starpu_timing_get_reference(void);
double starpu_timing_timespec_to_us(struct timespec *time);
double starpu_timing_timespec_delay_us(struct timespec *start, struct timespec *end);
void starpu_timespec_clear(struct timespec *time);
void starpu_timespec_add(struct timespec *a, struct timespec *b, struct timespec *result);
void starpu_timespec_accumulate(struct timespec *result, struct timespec *a);
void starpu_timespec_sub(const struct timespec *a, const struct timespec *b, struct timespec *result);
#define STARPU_NS_PER_S 1000000000
#define starpu_timespec_cmp(a, b, operator_)                                                       \
	((a)->tv_sec != (b)->tv_sec ? (a)->tv_sec operator_ (b)->tv_sec : (a)->tv_nsec operator_ (b)->tv_nsec)

void starpu_bound_start(int deps, int prio);
void starpu_bound_stop(void);
void starpu_bound_compute(double *result, double *integer_result, int integer);
void starpu_bound_print(FILE *stream, int integer);
void starpu_bound_print_dot(FILE *stream);
void starpu_bound_print_lp(FILE *stream);
void starpu_bound_print_mps(FILE *stream);

/* Traces. */
struct starpu_fxt_codelet_event
{
	char symbol[2048];
	int workerid;
	char perfmodel_archname[256];
	uint32_t hash;
	size_t size;
	float time;
};
struct starpu_fxt_mpi_offset
{
	uint64_t local_time_start;
	int64_t offset_start;
	uint64_t local_time_end;
	int64_t offset_end;
	int nb_barriers;
};
struct starpu_fxt_options
{
	unsigned per_task_colour;
	unsigned no_events;
	unsigned no_counter;
	unsigned no_bus;
	unsigned no_flops;
	unsigned ninputfiles;
	unsigned no_smooth;
	unsigned no_acquire;
	unsigned memory_states;
	unsigned internal;
	unsigned label_deps;
	unsigned use_task_color;
	unsigned show_workers;
	unsigned iter_clusters;
	char *filenames[STARPU_FXT_MAX_FILES];
	char *out_paje_path;
	char *distrib_time_path;
	char *activity_path;
	char *sched_tasks_path;
	char *dag_path;
	char *tasks_path;
	char *data_path;
	char *papi_path;
	char *comms_path;
	char *number_events_path;
	char *anim_path;
	char *states_path;
	char *dir;
	char worker_names[STARPU_NMAXWORKERS][256];
	int nworkers;
	struct starpu_perfmodel_arch worker_archtypes[STARPU_NMAXWORKERS];
	char *file_prefix;
	struct starpu_fxt_mpi_offset file_offset;
	int file_rank;
	struct starpu_fxt_codelet_event **dumped_codelets;
	long dumped_codelets_count;
};
void starpu_fxt_options_init(struct starpu_fxt_options *options);
void starpu_fxt_options_shutdown(struct starpu_fxt_options *options);
void starpu_fxt_generate_trace(struct starpu_fxt_options *options);
int starpu_fxt_is_enabled(void);
void starpu_fxt_autostart_profiling(int autostart);
void starpu_fxt_start_profiling(void);
void starpu_fxt_stop_profiling(void);
void starpu_fxt_write_data_trace(char *filename);
void starpu_fxt_write_data_trace_in_dir(char *filename, char *dir);
void starpu_fxt_trace_user_event(unsigned long code);
void starpu_fxt_trace_user_event_string(const char *text);
void starpu_fxt_trace_user_meta_string(const char *text);

/* Counters. */
enum starpu_perf_counter_scope
{
	starpu_perf_counter_scope_undefined = 0,
	starpu_perf_counter_scope_global = 2,
	starpu_perf_counter_scope_per_worker = 4,
	starpu_perf_counter_scope_per_codelet = 6
};
enum starpu_perf_counter_type
{
	starpu_perf_counter_type_undefined,
	starpu_perf_counter_type_int32,
	starpu_perf_counter_type_int64,
	starpu_perf_counter_type_float,
	starpu_perf_counter_type_double
};
struct starpu_perf_counter_listener;
struct starpu_perf_counter_set;
void starpu_perf_counter_collection_start(void);
void starpu_perf_counter_collection_stop(void);
int starpu_perf_counter_scope_name_to_id(const char *name);
const char *starpu_perf_counter_scope_id_to_name(enum starpu_perf_counter_scope scope);
int starpu_perf_counter_type_name_to_id(const char *name);
const char *starpu_perf_counter_type_id_to_name(enum starpu_perf_counter_type type);
int starpu_perf_counter_nb(enum starpu_perf_counter_scope scope);
int starpu_perf_counter_name_to_id(enum starpu_perf_counter_scope scope, const char *name);
int starpu_perf_counter_nth_to_id(enum starpu_perf_counter_scope scope, int nth);
const char *starpu_perf_counter_id_to_name(int id);
int starpu_perf_counter_get_type_id(int id);
const char *starpu_perf_counter_get_help_string(int id);
void starpu_perf_counter_list_avail(enum starpu_perf_counter_scope scope);
void starpu_perf_counter_list_all_avail(void);
struct starpu_perf_counter_set *starpu_perf_counter_set_alloc(enum starpu_perf_counter_scope scope);
void starpu_perf_counter_set_free(struct starpu_perf_counter_set *set);
void starpu_perf_counter_set_enable_id(struct starpu_perf_counter_set *set, int id);
void starpu_perf_counter_set_disable_id(struct starpu_perf_counter_set *set, int id);
struct starpu_perf_counter_listener *starpu_perf_counter_listener_init(
	struct starpu_perf_counter_set *set,
	void (*callback)(struct starpu_perf_counter_listener *listener, struct starpu_perf_counter_sample *sample,
			 void *context),
	void *user_arg);
void starpu_perf_counter_listener_exit(struct starpu_perf_counter_listener *listener);
void starpu_perf_counter_set_global_listener(struct starpu_perf_counter_listener *listener);
void starpu_perf_counter_set_per_worker_listener(unsigned workerid, struct starpu_perf_counter_listener *listener);
void starpu_perf_counter_set_all_per_worker_listeners(struct starpu_perf_counter_listener *listener);
void starpu_perf_counter_set_per_codelet_listener(struct starpu_codelet *cl,
						  struct starpu_perf_counter_listener *listener);
void starpu_perf_counter_unset_global_listener(void);
void starpu_perf_counter_unset_per_worker_listener(unsigned workerid);
void starpu_perf_counter_unset_all_per_worker_listeners(void);
void starpu_perf_counter_unset_per_codelet_listener(struct starpu_codelet *cl);
int32_t starpu_perf_counter_sample_get_int32_value(struct starpu_perf_counter_sample *sample, const int id);
int64_t starpu_perf_counter_sample_get_int64_value(struct starpu_perf_counter_sample *sample, const int id);
float starpu_perf_counter_sample_get_float_value(struct starpu_perf_counter_sample *sample, const int id);
double starpu_perf_counter_sample_get_double_value(struct starpu_perf_counter_sample *sample, const int id);

/* Knobs. */
enum starpu_perf_knob_scope
{
	starpu_perf_knob_scope_undefined = 0,
	starpu_perf_knob_scope_global = 1,
	starpu_perf_knob_scope_per_worker = 3,
	starpu_perf_knob_scope_per_scheduler = 5
};
enum starpu_perf_knob_type
{
	starpu_perf_knob_type_undefined,
	starpu_perf_knob_type_int32,
	starpu_perf_knob_type_int64,
	starpu_perf_knob_type_float,
	starpu_perf_knob_type_double
};
int starpu_perf_knob_scope_name_to_id(const char *name);
const char *starpu_perf_knob_scope_id_to_name(enum starpu_perf_knob_scope scope);
int starpu_perf_knob_type_name_to_id(const char *name);
const char *starpu_perf_knob_type_id_to_name(enum starpu_perf_knob_type type);
int starpu_perf_knob_nb(enum starpu_perf_knob_scope scope);
int starpu_perf_knob_name_to_id(enum starpu_perf_knob_scope scope, const char *name);
int starpu_perf_knob_nth_to_id(enum starpu_perf_knob_scope scope, int nth);
const char *starpu_perf_knob_id_to_name(int id);
int starpu_perf_knob_get_type_id(int id);
const char *starpu_perf_knob_get_help_string(int id);
void starpu_perf_knob_list_avail(enum starpu_perf_knob_scope scope);
void starpu_perf_knob_list_all_avail(void);
/* Each knob is read and set as one of four types, for all, for a worker or for a policy. */
#define ZELLIGE_KNOB_(type, name)                                                                  \
	type starpu_perf_knob_get_global_##name##_value(const int id);                             \
	void starpu_perf_knob_set_global_##name##_value(const int id, type value);                 \
	type starpu_perf_knob_get_per_worker_##name##_value(const int id, unsigned workerid);      \
	void starpu_perf_knob_set_per_worker_##name##_value(const int id, unsigned workerid, type value); \
	type starpu_perf_knob_get_per_scheduler_##name##_value(const int id, const char *policy);  \
	void starpu_perf_knob_set_per_scheduler_##name##_value(const int id, const char *policy, type value);
ZELLIGE_KNOB_(int32_t, int32)
ZELLIGE_KNOB_(int64_t, int64)
ZELLIGE_KNOB_(float, float)
ZELLIGE_KNOB_(double, double)
#undef ZELLIGE_KNOB_

/* Tools that are told of events. */
enum starpu_prof_tool_event
{
	starpu_prof_tool_event_none,
	starpu_prof_tool_event_init,
	starpu_prof_tool_event_terminate,
	starpu_prof_tool_event_init_begin,
	starpu_prof_tool_event_init_end,
	starpu_prof_tool_event_driver_init,
	starpu_prof_tool_event_driver_deinit,
	starpu_prof_tool_event_driver_init_start,
	starpu_prof_tool_event_driver_init_end,
	starpu_prof_tool_event_start_cpu_exec,
	starpu_prof_tool_event_end_cpu_exec,
	starpu_prof_tool_event_start_gpu_exec,
	starpu_prof_tool_event_end_gpu_exec,
	starpu_prof_tool_event_start_transfer,
	starpu_prof_tool_event_end_transfer,
	starpu_prof_tool_event_user_start,
	starpu_prof_tool_event_user_end
};
enum starpu_prof_tool_driver_type
{
	starpu_prof_tool_driver_cpu,
	starpu_prof_tool_driver_gpu,
	starpu_prof_tool_driver_hip,
	starpu_prof_tool_driver_ocl
};
enum starpu_prof_tool_command
{
	starpu_prof_tool_command_reg,
	starpu_prof_tool_command_toggle,
	starpu_prof_tool_command_toggle_per_thread
};
struct starpu_prof_tool_data_info
{
	starpu_data_handle_t handle;
	unsigned dimensions;
	int coordinates[5];
	enum starpu_data_access_mode mode;
};
struct starpu_prof_tool_info
{
	struct starpu_conf *conf;
	enum starpu_prof_tool_event event_type;
	unsigned starpu_version[3];
	int thread_id;
	int worker_id;
	const char *task_name;
	const char *model_name;
	int device_number;
	enum starpu_prof_tool_driver_type driver_type;
	unsigned memnode;
	unsigned bytes_to_transfer;
	unsigned bytes_transfered;
	void *fun_ptr;
	long iterations[2];
	int nbuffers;
	struct starpu_prof_tool_data_info *buffers;
	double flops;
};
union starpu_prof_tool_event_info
{
	enum starpu_prof_tool_event event_type;
};
struct starpu_prof_tool_api_info
{
	char unused;
};
typedef void (*starpu_prof_tool_cb_func)(struct starpu_prof_tool_info *info,
					 union starpu_prof_tool_event_info *event_info,
					 struct starpu_prof_tool_api_info *api_info);
typedef void (*starpu_prof_tool_entry_register_func)(enum starpu_prof_tool_event event,
						     starpu_prof_tool_cb_func callback,
						     enum starpu_prof_tool_command command);
/* A function of the tool, not of this library. */
extern void starpu_prof_tool_library_register(starpu_prof_tool_entry_register_func reg,
					      starpu_prof_tool_entry_register_func unreg);

/* ---- The environment, time and chance -------------------------------------------------------- */

char *starpu_getenv(const char *name);
int starpu_get_env_number(const char *name);
int starpu_get_env_number_default(const char *name, int value);
float starpu_get_env_float_default(const char *name, float value);
int starpu_get_env_size_default(const char *name, int value);
int starpu_get_env_string_var_default(const char *name, const char *strings[], int value);
#define starpu_getenv_number(name) starpu_get_env_number(name)
#define starpu_getenv_number_default(name, value) starpu_get_env_number_default((name), (value))
#define starpu_getenv_float_default(name, value) starpu_get_env_float_default((name), (value))
#define starpu_getenv_size_default(name, value) starpu_get_env_size_default((name), (value))
#define starpu_getenv_string_var_default(name, strings, value)                                     \
	starpu_get_env_string_var_default((name), (strings), (value))

void starpu_sleep(float seconds);
void starpu_usleep(float microseconds);

/* The generators of 48 bits of POSIX; the seed gives way to STARPU_RAND_SEED. */
typedef struct zellige_starpu_drand48
{
	uint64_t state;
} starpu_drand48_data;
int starpu_seed(int seed);
void starpu_srand48(long seed);
double starpu_drand48(void);
long starpu_lrand48(void);
double starpu_erand48(unsigned short xsubi[3]);
int starpu_srand48_r(long seed, starpu_drand48_data *data);
int starpu_drand48_r(starpu_drand48_data *data, double *result);
int starpu_lrand48_r(starpu_drand48_data *data, long *result);
int starpu_erand48_r(unsigned short xsubi[3], starpu_drand48_data *data, double *result);

/* ---- GPUs ------------------------------------------------------------------------------------ */

/* With STARPU_USE_CUDA defined, CUDA's headers are included and its own types used. */
#ifdef STARPU_USE_CUDA
int starpu_cuda_copy_async_sync(void *src_ptr, unsigned src_node, void *dst_ptr, unsigned dst_node, size_t ssize,
				cudaStream_t stream, enum cudaMemcpyKind kind);
void starpu_cuda_report_error(const char *func, const char *file, int line, cudaError_t status);
#define STARPU_CUDA_REPORT_ERROR(status) starpu_cuda_report_error(__func__, __FILE__, __LINE__, status)
#endif
struct CUstream_st *starpu_cuda_get_local_stream(void);
void starpu_cuda_set_device(int devid);
void starpu_cublas_init(void);
void starpu_cublas_set_stream(void);
void starpu_cublas_shutdown(void);
void starpu_cublas_report_error(const char *func, const char *file, int line, int status);
#define STARPU_CUBLAS_REPORT_ERROR(status) starpu_cublas_report_error(__func__, __FILE__, __LINE__, status)
struct cublasContext *starpu_cublas_get_local_handle(void);
void starpu_cusparse_init(void);
void starpu_cusparse_shutdown(void);
struct cusparseContext *starpu_cusparse_get_local_handle(void);

/* ---- Devices that this build has none of ----------------------------------------------------- */

void starpu_cublasLt_init(void);
void starpu_cublasLt_shutdown(void);
void starpu_cusolver_init(void);
void starpu_cusolver_shutdown(void);
void starpu_hipblas_init(void);
void starpu_hipblas_shutdown(void);
void starpu_hipsolver_init(void);
void starpu_hipsolver_shutdown(void);

/* ---- Names of earlier versions --------------------------------------------------------------- */

#define starpu_permodel_history_based_expected_perf starpu_perfmodel_history_based_expected_perf
#define STARPU_MPI_MS STARPU_MPI_SC
#define STARPU_MPI_MS_WORKER STARPU_MPI_SC_WORKER
#define STARPU_MPI_MS_RAM STARPU_MPI_SC_RAM
#define STARPU_TCPIP_MS STARPU_TCPIP_SC
#define STARPU_TCPIP_MS_WORKER STARPU_TCPIP_SC_WORKER
#define STARPU_TCPIP_MS_RAM STARPU_TCPIP_SC_RAM
#define STARPU_BUBBLE_FUNC STARPU_RECURSIVE_TASK_FUNC
#define STARPU_BUBBLE_FUNC_ARG STARPU_RECURSIVE_TASK_FUNC_ARG
#define STARPU_BUBBLE_GEN_DAG_FUNC STARPU_RECURSIVE_TASK_GEN_DAG_FUNC
#define STARPU_BUBBLE_GEN_DAG_FUNC_ARG STARPU_RECURSIVE_TASK_GEN_DAG_FUNC_ARG
#define STARPU_BUBBLE_PARENT STARPU_RECURSIVE_TASK_PARENT
#define starpu_mpi_ms_worker_get_count starpu_mpi_sc_worker_get_count
#define starpu_tcpip_ms_worker_get_count starpu_tcpip_sc_worker_get_count
#define starpu_asynchronous_mpi_ms_copy_disabled starpu_asynchronous_mpi_sc_copy_disabled
#define starpu_asynchronous_tcpip_ms_copy_disabled starpu_asynchronous_tcpip_sc_copy_disabled
#define starpu_sched_ctx_master_get_context starpu_sched_ctx_primary_get_context
#define starpu_sched_ctx_worker_is_master_for_child_ctx starpu_sched_ctx_worker_is_primary_for_child_ctx
#define starpu_worker_is_slave_somewhere starpu_worker_is_sub_worker_somewhere
#if defined STARPU_USE_DEPRECATED_API || defined STARPU_USE_DEPRECATED_ONE_ZERO_API
#define starpu_access_mode starpu_data_access_mode
#define starpu_archtype starpu_worker_archtype
#define starpu_buffer_descr starpu_data_descr
#define starpu_task_profiling_info starpu_profiling_task_info
#define starpu_worker_profiling_info starpu_profiling_worker_info
#define starpu_bus_profiling_info starpu_profiling_bus_info
#define starpu_perf_archtype starpu_perfmodel_archtype
#define starpu_allocate_buffer_on_node starpu_malloc_on_node
#define starpu_free_buffer_on_node starpu_free_on_node
#define starpu_crc32_be starpu_hash_crc32c_be
#define starpu_crc32_be_n starpu_hash_crc32c_be_n
#define starpu_crc32_string starpu_hash_crc32c_string
#define starpu_helper_cublas_init starpu_cublas_init
#define starpu_helper_cublas_shutdown starpu_cublas_shutdown
#define starpu_display_codelet_stats starpu_codelet_display_stats
#define starpu_history_based_expected_perf starpu_perfmodel_history_based_expected_perf
#define starpu_set_profiling_id starpu_profiling_set_id
#define starpu_worker_get_profiling_info starpu_profiling_worker_get_info
#define starpu_bus_profiling_helper_display_summary starpu_profiling_bus_helper_display_summary
#define starpu_worker_profiling_helper_display_summary starpu_profiling_worker_helper_display_summary
#define starpu_memory_display_stats starpu_data_display_memory_stats
#define starpu_handle_get_interface_id starpu_data_get_interface_id
#define starpu_handle_get_local_ptr starpu_data_get_local_ptr
#define starpu_handle_get_size starpu_data_get_size
#define starpu_handle_pack_data starpu_data_pack
#define starpu_handle_unpack_data starpu_data_unpack
#define starpu_handle_to_pointer starpu_data_handle_to_pointer
#define starpu_vector_list_filter_func starpu_vector_filter_list
#define starpu_vector_divide_in_2_filter_func starpu_vector_filter_divide_in_2
#define starpu_block_filter_func_vector starpu_vector_filter_block
#define starpu_block_shadow_filter_func_vector starpu_vector_filter_block_shadow
#define starpu_block_filter_func starpu_matrix_filter_block
#define starpu_block_shadow_filter_func starpu_matrix_filter_block_shadow
#define starpu_vertical_block_filter_func starpu_matrix_filter_vertical_block
#define starpu_vertical_block_shadow_filter_func starpu_matrix_filter_vertical_block_shadow
#define starpu_block_filter_func_block starpu_block_filter_block
#define starpu_block_shadow_filter_func_block starpu_block_filter_block_shadow
#define starpu_vertical_block_filter_func_block starpu_block_filter_vertical_block
#define starpu_vertical_block_shadow_filter_func_block starpu_block_filter_vertical_block_shadow
#define starpu_depth_block_filter_func_block starpu_block_filter_depth_block
#define starpu_depth_block_shadow_filter_func_block starpu_block_filter_depth_block_shadow
#define starpu_vertical_block_filter_func_csr starpu_csr_filter_vertical_block
#define starpu_canonical_block_filter_bcsr starpu_bcsr_filter_canonical_block
#endif
#ifdef STARPU_USE_DEPRECATED_API
typedef starpu_data_handle_t starpu_data_handle;
typedef struct starpu_codelet starpu_codelet;
typedef struct starpu_codelet starpu_codelet_t;
typedef struct starpu_vector_interface starpu_vector_interface_t;
typedef struct starpu_matrix_interface starpu_matrix_interface_t;
typedef struct starpu_block_interface starpu_block_interface_t;
typedef struct starpu_variable_interface starpu_variable_interface_t;
typedef struct starpu_csr_interface starpu_csr_interface_t;
typedef struct starpu_bcsr_interface starpu_bcsr_interface_t;
typedef struct starpu_multiformat_interface starpu_multiformat_interface_t;
#define starpu_buffer_descr_t starpu_buffer_descr
#define starpu_history_list_t starpu_perfmodel_history_list
#define starpu_regression_model_t starpu_perfmodel_regression_model
#define starpu_per_arch_perfmodel_t starpu_perfmodel_per_arch
#define starpu_perfmodel_t starpu_perfmodel
#define starpu_sched_policy_s starpu_sched_policy
#define starpu_data_interface_ops_t starpu_data_interface_ops
#define starpu_print_bus_bandwidth starpu_bus_print_bandwidth
#define starpu_get_handle_interface_id starpu_data_get_interface_id
#define starpu_get_current_task starpu_task_get_current
#define starpu_pack_cl_args starpu_codelet_pack_args
#define starpu_unpack_cl_args starpu_codelet_unpack_args
#define starpu_task_deinit starpu_task_clean
#endif

#ifdef __cplusplus
}
#endif

#endif
