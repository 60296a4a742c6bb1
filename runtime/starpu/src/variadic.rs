//! Public names of the functions of `src/variadic.c`.
//!
//! A `cdylib` exports what Rust defines and nothing of the C objects in it, and Rust defines no
//! functions with variable arguments. Each function here is a jump: registers and stack arrive
//! in C as the caller left them.

use std::arch::naked_asm;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};

use crate::types::*;

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
    zellige_starpu_backtrace => zellige_c_backtrace;
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

// ---- The C library, as far as this crate calls it ---------------------------------------------

unsafe extern "C" {
    pub(crate) fn malloc(size: usize) -> *mut c_void;
    pub(crate) fn calloc(n: usize, size: usize) -> *mut c_void;
    pub(crate) fn realloc(pointer: *mut c_void, size: usize) -> *mut c_void;
    pub(crate) fn free(pointer: *mut c_void);
    pub(crate) fn posix_memalign(pointer: *mut *mut c_void, align: usize, size: usize) -> c_int;
    pub(crate) fn fputs(text: *const c_char, stream: *mut FILE) -> c_int;
    pub(crate) fn getenv(name: *const c_char) -> *mut c_char;
}

// ---- What the other parts of this crate define, as C sees it -----------------------------------

unsafe extern "C" {
    pub(crate) fn starpu_task_create() -> *mut starpu_task;
    pub(crate) fn starpu_task_destroy(task: *mut starpu_task);
    pub(crate) fn starpu_task_submit(task: *mut starpu_task) -> c_int;
    pub(crate) fn starpu_task_end_dep_add(task: *mut starpu_task, ndeps: c_int);
    pub(crate) fn starpu_task_declare_deps_array(
        task: *mut starpu_task,
        ndeps: c_uint,
        tasks: *mut *mut starpu_task,
    );
    pub(crate) fn starpu_task_declare_end_deps_array(
        task: *mut starpu_task,
        ndeps: c_uint,
        tasks: *mut *mut starpu_task,
    );
}
