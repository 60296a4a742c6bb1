//! The layout of the structures in Rust is that of C.

use std::ffi::{CStr, c_char};
use std::mem::{offset_of, size_of};

use crate::types::*;

#[repr(C)]
struct Entry {
    name: *const c_char,
    value: usize,
}

unsafe extern "C" {
    static zellige_c_layout: Entry;
}

/// The names and values of `src/layout.h`.
fn of_c() -> Vec<(String, usize)> {
    let mut all = Vec::new();
    let mut entry = &raw const zellige_c_layout;
    // SAFETY: the table is constant and ends with an entry whose name is null.
    while !unsafe { (*entry).name }.is_null() {
        // SAFETY: as above; every name is a string literal.
        let (name, value) = unsafe { (CStr::from_ptr((*entry).name), (*entry).value) };
        all.push((name.to_str().unwrap().to_owned(), value));
        // SAFETY: this entry is not the last one.
        entry = unsafe { entry.add(1) };
    }
    all
}

macro_rules! of_rust {
    ($($type:ident { $($field:ident)* })*) => {
        vec![$(
            (stringify!($type).to_owned(), size_of::<$type>()),
            $((
                concat!(stringify!($type), ".", stringify!($field)).trim_end_matches('_').to_owned(),
                offset_of!($type, $field),
            ),)*
        )*]
    };
}

#[test]
fn structures_are_laid_out_as_in_c() {
    let ours = of_rust! {
        timespec {
            tv_sec tv_nsec
        }
        starpu_codelet {
            where_ can_execute type_ max_parallelism cpu_func cuda_func opencl_func cpu_funcs
            cuda_funcs cuda_flags hip_funcs hip_flags sycl_funcs sycl_flags opencl_funcs opencl_flags
            max_fpga_funcs cpu_funcs_name recursive_task_func recursive_task_gen_dag_func
            recursive_task_splitter_register_ind nbuffers modes dyn_modes specific_nodes nodes
            dyn_nodes model energy_model per_worker_stats name color callback_func flags
            perf_counter_sample perf_counter_values checked
        }
        starpu_data_descr {
            handle mode
        }
        starpu_task {
            name iterations file line cl where_ nbuffers dyn_handles dyn_interfaces dyn_modes
            dyn_nodes handles interfaces modes nodes specific_nodes handles_sequential_consistency
            cl_arg cl_arg_size cl_ret cl_ret_size soon_callback_func soon_callback_arg
            prologue_callback_func prologue_callback_arg prologue_callback_pop_func
            prologue_callback_pop_arg epilogue_callback_func epilogue_callback_arg callback_func
            callback_arg transaction trs_epoch tag_id cl_arg_free cl_ret_free soon_callback_arg_free
            prologue_callback_arg_free prologue_callback_pop_arg_free epilogue_callback_arg_free
            callback_arg_free use_tag sequential_consistency synchronous execute_on_a_specific_worker
            detach destroy regenerate no_submitorder mf_skip failed scheduled prefetched workerid
            workerorder workerids workerids_len priority status magic type_ color sched_ctx
            hypervisor_tag possibly_parallel bundle profiling_info flops predicted predicted_transfer
            predicted_start prev next starpu_private omp_task recursive_task_is_sync_task
            recursive_task_parent recursive_task_func recursive_task_func_arg
            recursive_task_gen_dag_func recursive_task_gen_dag_func_arg
            recursive_task_communication_already_made nb_termination_call_required sched_data
        }
        starpu_conf {
            magic will_use_mpi sched_policy_name sched_policy sched_policy_callback
            precedence_over_environment_variables ncpus reserve_ncpus ncuda nhip nsycl nopencl
            nmax_fpga nmpi_sc ntcpip_sc use_explicit_workers_bindid workers_bindid
            use_explicit_workers_cuda_gpuid workers_cuda_gpuid use_explicit_workers_hip_gpuid
            workers_hip_gpuid use_explicit_workers_sycl_gpuid workers_sycl_gpuid
            use_explicit_workers_opencl_gpuid workers_opencl_gpuid
            use_explicit_workers_max_fpga_deviceid workers_max_fpga_deviceid max_fpga_load
            use_explicit_workers_mpi_sc_deviceid workers_mpi_sc_deviceid bus_calibrate calibrate
            data_locality_enforce single_combined_worker disable_asynchronous_copy
            disable_asynchronous_cuda_copy disable_asynchronous_hip_copy
            disable_asynchronous_sycl_copy disable_asynchronous_opencl_copy
            disable_asynchronous_mpi_sc_copy disable_asynchronous_tcpip_sc_copy
            disable_asynchronous_max_fpga_copy enable_map cuda_opengl_interoperability
            n_cuda_opengl_interoperability not_launched_drivers n_not_launched_drivers
            trace_buffer_size global_sched_ctx_min_priority global_sched_ctx_max_priority
            callback_worker_going_to_sleep callback_worker_waking_up catch_signals
            start_perf_counter_collection driver_spinning_backoff_min driver_spinning_backoff_max
            cuda_only_fast_alloc_other_memnodes
        }
        starpu_driver {
            type_ id
        }
        starpu_data_copy_methods {
            can_copy ram_to_ram ram_to_cuda ram_to_hip ram_to_sycl ram_to_opencl ram_to_max_fpga
            cuda_to_ram cuda_to_cuda hip_to_ram hip_to_hip sycl_to_ram sycl_to_sycl opencl_to_ram
            opencl_to_opencl max_fpga_to_ram ram_to_cuda_async cuda_to_ram_async cuda_to_cuda_async
            ram_to_hip_async hip_to_ram_async hip_to_hip_async ram_to_sycl_async sycl_to_ram_async
            sycl_to_sycl_async ram_to_opencl_async opencl_to_ram_async opencl_to_opencl_async
            ram_to_max_fpga_async max_fpga_to_ram_async any_to_any
        }
        starpu_data_interface_ops {
            register_data_handle unregister_data_handle allocate_data_on_node free_data_on_node
            cache_data_on_node reuse_data_on_node map_data unmap_data update_map init copy_methods
            handle_to_pointer to_pointer pointer_is_inside get_size get_alloc_size get_max_size footprint
            alloc_footprint compare alloc_compare display describe interfaceid interface_size
            is_multiformat dontcache get_mf_ops pack_data peek_data unpack_data pack_meta unpack_meta
            free_meta name
        }
        starpu_data_filter {
            filter_func nchildren get_nchildren get_child_ops filter_arg filter_arg_ptr
        }
        starpu_matrix_interface {
            id ptr dev_handle offset nx ny ld elemsize allocsize
        }
        starpu_block_interface {
            id ptr dev_handle offset nx ny nz ldy ldz elemsize
        }
        starpu_tensor_interface {
            id ptr dev_handle offset nx ny nz nt ldy ldz ldt elemsize
        }
        starpu_ndim_interface {
            id ptr dev_handle offset allocsize nn ldn ndim elemsize
        }
        starpu_vector_interface {
            id ptr dev_handle offset nx elemsize slice_base allocsize
        }
        starpu_variable_interface {
            id ptr dev_handle offset elemsize
        }
        starpu_csr_interface {
            id nnz nrow nzval colind rowptr ram_colind ram_rowptr firstentry elemsize
        }
        starpu_bcsr_interface {
            id nnz nrow nzval colind rowptr ram_colind ram_rowptr firstentry r c elemsize
        }
        starpu_coo_interface {
            id columns rows values nx ny n_values elemsize
        }
        starpu_multiformat_data_interface_ops {
            cpu_elemsize opencl_elemsize cpu_to_opencl_cl opencl_to_cpu_cl cuda_elemsize
            cpu_to_cuda_cl cuda_to_cpu_cl
        }
        starpu_multiformat_interface {
            id cpu_ptr cuda_ptr hip_ptr sycl_ptr opencl_ptr nx ops
        }
        starpu_codelet_pack_arg_data {
            arg_buffer arg_buffer_size arg_buffer_used current_offset nargs
        }
        starpu_profiling_task_info {
            submit_time push_start_time push_end_time pop_start_time pop_end_time
            acquire_data_start_time acquire_data_end_time start_time end_time release_data_start_time
            release_data_end_time callback_start_time callback_end_time workerid used_cycles
            stall_cycles energy_consumed
        }
        starpu_profiling_worker_info {
            start_time total_time executing_time callback_time waiting_time sleeping_time
            scheduling_time all_executing_time all_callback_time all_waiting_time all_sleeping_time
            all_scheduling_time executed_tasks used_cycles stall_cycles energy_consumed flops
        }
        starpu_profiling_bus_info {
            start_time total_time transferred_bytes transfer_count
        }
        starpu_perfmodel_device {
            type_ devid ncores
        }
        starpu_perfmodel_arch {
            ndevices devices
        }
        starpu_perfmodel_history_entry {
            mean deviation sum sum2 nsample nerror footprint size flops duration tag parameters
        }
        starpu_perfmodel_history_list {
            next entry
        }
        starpu_perfmodel_regression_model {
            sumlny sumlnx sumlnx2 minx maxx sumlnxlny alpha beta valid a b c nl_valid nsample coeff
            ncoeff multi_valid
        }
        starpu_perfmodel_per_arch {
            cost_function size_base history list regression debug_path
        }
        starpu_perfmodel {
            type_ cost_function arch_cost_function worker_cost_function size_base footprint symbol
            path is_loaded benchmarking is_init is_recorded_recursive recursive_graphs parameters
            parameters_names nparameters combinations ncombinations state footprint_per_level
        }
        starpu_sched_ctx_iterator {
            cursor value possible_value visited possibly_parallel
        }
        starpu_worker_collection {
            workerids collection_private nworkers unblocked_workers nunblocked_workers primaries
            nprimaries present is_unblocked is_primary type_ has_next get_next add remove init deinit
            init_iterator init_iterator_for_parallel_tasks
        }
        starpu_sched_policy {
            init_sched deinit_sched push_task simulate_push_task push_task_notify pop_task submit_hook
            pre_exec_hook post_exec_hook do_schedule reset_scheduler add_workers remove_workers
            prefetches policy_name policy_description worker_type
        }
        starpu_task_list {
            head tail
        }
    };
    assert_eq!(of_c(), ours);
}
