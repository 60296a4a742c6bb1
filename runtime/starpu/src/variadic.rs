//! Public names of the functions of `src/variadic.c`.
//!
//! A `cdylib` exports what Rust defines and nothing of the C objects in it, and Rust defines no
//! functions with variable arguments. Each function here is a jump: registers and stack arrive
//! in C as the caller left them.

use std::arch::naked_asm;
use std::ffi::{CString, c_char};

macro_rules! jumps {
    ($($name:ident => $target:ident;)*) => {
        unsafe extern "C" {
            $(fn $target();)*
        }
        $(
            #[doc = concat!("Jumps to `", stringify!($target), "`, whose arguments stand in `starpu.h`.")]
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() {
                #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
                naked_asm!("jmp {}", sym $target);
                #[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
                naked_asm!("b {}", sym $target);
                #[cfg(target_arch = "riscv64")]
                naked_asm!("tail {}", sym $target);
            }
        )*
    };
}

jumps! {
    starpu_task_insert => zellige_c_task_insert;
    starpu_insert_task => zellige_c_insert_task;
    starpu_task_build => zellige_c_task_build;
    starpu_task_set => zellige_c_task_set;
    starpu_codelet_pack_args => zellige_c_codelet_pack_args;
    starpu_codelet_unpack_args => zellige_c_codelet_unpack_args;
    starpu_codelet_unpack_args_and_copyleft => zellige_c_codelet_unpack_args_and_copyleft;
    starpu_task_declare_deps => zellige_c_task_declare_deps;
    starpu_task_declare_end_deps => zellige_c_task_declare_end_deps;
    starpu_tag_declare_deps => zellige_c_tag_declare_deps;
    starpu_data_get_sub_data => zellige_c_data_get_sub_data;
    starpu_data_vget_sub_data => zellige_c_data_vget_sub_data;
    starpu_data_map_filters => zellige_c_data_map_filters;
    starpu_data_vmap_filters => zellige_c_data_vmap_filters;
    starpu_data_set_coordinates => zellige_c_data_set_coordinates;
    zellige_starpu_report => zellige_c_report;
    starpu_sched_ctx_create => zellige_c_sched_ctx_create;
    starpu_perfmodel_get_model_per_devices => zellige_c_perfmodel_get;
    starpu_perfmodel_set_per_devices_cost_function => zellige_c_perfmodel_set_cost;
    starpu_perfmodel_set_per_devices_size_base => zellige_c_perfmodel_set_size;
    zellige_starpu_backtrace => zellige_c_backtrace;
}

#[cfg(feature = "mpi")]
jumps! {
    starpu_mpi_task_insert => zellige_c_mpi_task_insert;
    starpu_mpi_insert_task => zellige_c_mpi_insert_task;
    starpu_mpi_tasks_insert => zellige_c_mpi_tasks_insert;
    starpu_mpi_task_build => zellige_c_mpi_task_build;
    starpu_mpi_task_build_v => zellige_c_mpi_task_build_v;
    starpu_mpi_task_post_build => zellige_c_mpi_task_post_build;
    starpu_mpi_task_post_build_v => zellige_c_mpi_task_post_build_v;
}

unsafe extern "C" {
    fn zellige_c_say(function: *const c_char, message: *const c_char);
}

/// Writes what went wrong in `function` and the calls that led there on the error stream.
pub(crate) fn report(function: &str, message: &str) {
    let text = |s: &str| CString::new(s.replace('\0', " ")).unwrap_or_default();
    let (function, message) = (text(function), text(message));
    // SAFETY: both strings end with 0.
    unsafe { zellige_c_say(function.as_ptr(), message.as_ptr()) };
}
