//! Functions that only Fortran programs call: `include/fstarpu_mod.f90` declares them, and beside
//! them those of C that it can call as they are.
//!
//! Fortran sets no member of a structure of C and has no lists of any length. So codelets and
//! models are made and filled by functions, and a list is an array of addresses.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use crate::acquire::starpu_data_acquire;
use crate::c::{calloc, free, strdup};
use crate::instance::errno::ENODEV;
use crate::task::starpu_codelet_init;
use crate::types::*;
use crate::variadic::report;

unsafe extern "C" {
    fn zellige_c_insert_addresses(cl: *mut starpu_codelet, list: *mut *mut c_void) -> c_int;
}

/// Ends the program, as there is no code that a subroutine could return.
fn end(function: &str, why: &str) -> ! {
    report(function, why);
    std::process::abort();
}

/// Returns zeroed memory for a structure, which `free` takes back.
fn zeroed<T>(function: &str) -> *mut T {
    // SAFETY: any size may be asked for.
    let memory = unsafe { calloc(1, size_of::<T>()) }.cast::<T>();
    if memory.is_null() {
        end(function, &format!("no memory for {} bytes", size_of::<T>()));
    }
    memory
}

// ---- Tasks ------------------------------------------------------------------------------------

/// Submits a task: the list has its codelet, then markers with their arguments, then null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstarpu_task_insert(list: *mut *mut c_void) {
    // SAFETY: the list begins with a codelet, and ends with null after it.
    let result = unsafe { zellige_c_insert_addresses((*list).cast(), list.add(1)) };
    match result {
        0 => {}
        code if code == -ENODEV => end("fstarpu_task_insert", "no worker can run the task"),
        code => end("fstarpu_task_insert", &format!("the task was not submitted: error {code}")),
    }
}

/// Copies the packed values of a task, each to the address at its place in a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstarpu_unpack_arg(packed: *const c_void, list: *const *mut c_void) {
    // SAFETY: the packed values begin with their number, each has its size before it, and the list
    // has an address for each that has that much memory.
    unsafe {
        let count = packed.cast::<c_int>().read_unaligned();
        let mut at = packed.cast::<u8>().add(size_of::<c_int>());
        for k in 0..count.max(0) as usize {
            let size = at.cast::<usize>().read_unaligned();
            at = at.add(size_of::<usize>());
            ptr::copy_nonoverlapping(at, (*list.add(k)).cast::<u8>(), size);
            at = at.add(size);
        }
    }
}

// ---- Codelets and models ----------------------------------------------------------------------

/// Makes an empty codelet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstarpu_codelet_allocate() -> *mut starpu_codelet {
    let codelet = zeroed::<starpu_codelet>("fstarpu_codelet_allocate");
    // SAFETY: it is memory for a codelet.
    unsafe { starpu_codelet_init(codelet) };
    codelet
}

/// Frees a codelet of [`fstarpu_codelet_allocate`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstarpu_codelet_free(codelet: *mut starpu_codelet) {
    // SAFETY: it is from `calloc`; the name is a copy of this module, or null.
    unsafe {
        free((*codelet).name.cast_mut().cast());
        free(codelet.cast());
    }
}

/// Sets the name, of which a copy is kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstarpu_codelet_set_name(codelet: *mut starpu_codelet, name: *const c_char) {
    // SAFETY: the codelet is one of this module, and the name ends with 0.
    unsafe {
        free((*codelet).name.cast_mut().cast());
        (*codelet).name = copy_of(name);
    }
}

/// Returns a copy of a name, which `free` takes back.
///
/// # Safety
/// The name ends with 0.
unsafe fn copy_of(name: *const c_char) -> *const c_char {
    // SAFETY: the caller's promise.
    let copy = unsafe { strdup(name) };
    if copy.is_null() {
        end("fstarpu_mod", "no memory for a name");
    }
    copy
}

/// Sets the performance model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstarpu_codelet_set_model(
    codelet: *mut starpu_codelet,
    model: *mut starpu_perfmodel,
) {
    // SAFETY: the codelet is valid.
    unsafe { (*codelet).model = model };
}

/// Adds an implementation for CPU workers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstarpu_codelet_add_cpu_func(
    codelet: *mut starpu_codelet,
    function: starpu_cpu_func_t,
) {
    // SAFETY: the codelet is valid.
    let functions = unsafe { &mut (*codelet).cpu_funcs };
    match functions.iter_mut().find(|slot| slot.is_none()) {
        Some(slot) => *slot = function,
        None => end(
            "fstarpu_codelet_add_cpu_func",
            &format!("a codelet has at most {STARPU_MAXIMPLEMENTATIONS} implementations"),
        ),
    }
}

/// Adds a buffer with a mode.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstarpu_codelet_add_buffer(codelet: *mut starpu_codelet, mode: usize) {
    // SAFETY: the codelet is valid.
    let codelet = unsafe { &mut *codelet };
    let at = codelet.nbuffers.max(0) as usize;
    if at >= STARPU_NMAXBUFS {
        end("fstarpu_codelet_add_buffer", &format!("a codelet has at most {STARPU_NMAXBUFS} buffers"));
    }
    codelet.modes[at] = mode as starpu_data_access_mode;
    codelet.nbuffers += 1;
}

/// Sets the kinds of workers that may run it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstarpu_codelet_set_where(codelet: *mut starpu_codelet, places: usize) {
    // SAFETY: the codelet is valid.
    unsafe { (*codelet).where_ = places as u32 };
}

/// Sets how many threads run it as one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstarpu_codelet_set_type(codelet: *mut starpu_codelet, kind: usize) {
    // SAFETY: the codelet is valid.
    unsafe { (*codelet).type_ = kind as starpu_codelet_type };
}

/// Sets the maximum number of threads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstarpu_codelet_set_max_parallelism(codelet: *mut starpu_codelet, most: c_int) {
    // SAFETY: the codelet is valid.
    unsafe { (*codelet).max_parallelism = most };
}

/// Makes an empty performance model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstarpu_perfmodel_allocate() -> *mut starpu_perfmodel {
    zeroed("fstarpu_perfmodel_allocate")
}

/// Frees a model of [`fstarpu_perfmodel_allocate`], after `fstarpu_shutdown`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstarpu_perfmodel_free(model: *mut starpu_perfmodel) {
    // SAFETY: it is from `calloc`; the symbol is a copy of this module, or null.
    unsafe {
        free((*model).symbol.cast_mut().cast());
        free(model.cast());
    }
}

/// Sets the name of its file, of which a copy is kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstarpu_perfmodel_set_symbol(model: *mut starpu_perfmodel, symbol: *const c_char) {
    // SAFETY: the model is one of this module, and the symbol ends with 0.
    unsafe {
        free((*model).symbol.cast_mut().cast());
        (*model).symbol = copy_of(symbol);
    }
}

/// Sets the kind of model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstarpu_perfmodel_set_type(model: *mut starpu_perfmodel, kind: usize) {
    // SAFETY: the model is valid.
    unsafe { (*model).type_ = kind as starpu_perfmodel_type };
}

// ---- Data -------------------------------------------------------------------------------------

/// Waits for a handle, and keeps it for the program until it is released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fstarpu_data_acquire(handle: starpu_data_handle_t, mode: usize) -> c_int {
    // SAFETY: the handle is registered.
    unsafe { starpu_data_acquire(handle, mode as starpu_data_access_mode) }
}

/// Returns interface `i` of a task's buffers.
///
/// # Safety
/// There is such a buffer, and it has this interface.
unsafe fn interface<'a, T>(buffers: *mut *mut c_void, i: c_int) -> &'a T {
    // SAFETY: the buffer has this interface.
    unsafe { &*(*buffers.add(i as usize)).cast::<T>() }
}

macro_rules! members {
    ($($function:ident: $interface:ty, $member:ident as $type:ty, $what:literal;)*) => {$(
        #[doc = concat!("Returns ", $what, " of buffer `i`, counted from 0.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(buffers: *mut *mut c_void, i: c_int) -> $type {
            // SAFETY: the buffer has this interface.
            unsafe { interface::<$interface>(buffers, i) }.$member as $type
        }
    )*};
}

members! {
    fstarpu_variable_get_ptr: starpu_variable_interface, ptr as usize, "the address of the variable";
    fstarpu_vector_get_ptr: starpu_vector_interface, ptr as usize, "the address of the vector";
    fstarpu_vector_get_nx: starpu_vector_interface, nx as c_int, "the number of elements";
    fstarpu_matrix_get_ptr: starpu_matrix_interface, ptr as usize, "the address of the matrix";
    fstarpu_matrix_get_ld: starpu_matrix_interface, ld as c_int, "the leading dimension";
    fstarpu_matrix_get_nx: starpu_matrix_interface, nx as c_int, "the number of elements in the first dimension";
    fstarpu_matrix_get_ny: starpu_matrix_interface, ny as c_int, "the number of elements in the second dimension";
}
