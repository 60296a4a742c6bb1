//! Members of dense interfaces by handle.

use super::*;

/// The interface of a handle on the main node, if it is of this kind.
///
/// # Safety
/// `handle` is registered.
pub(super) unsafe fn checked<'a, T: Dense>(
    handle: starpu_data_handle_t,
    node: c_uint,
    function: &str,
) -> &'a mut T {
    // SAFETY: every interface begins with its number.
    let interface = unsafe { on_node::<T>(handle, node) };
    if interface.id() != T::ID {
        misuse(function, &format!("the data is no {}", T::KIND));
    }
    interface
}

macro_rules! sizes {
    ($($function:ident: $type:ident.$field:ident -> $result:ty;)*) => {$(
        /// Gives this property of the data.
        ///
        /// # Safety
        /// `handle` is registered.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(handle: starpu_data_handle_t) -> $result {
            // SAFETY: the caller's promise.
            unsafe { checked::<$type>(handle, STARPU_MAIN_RAM as c_uint, stringify!($function)) }.$field
        }
    )*};
}

sizes! {
    starpu_variable_get_elemsize: starpu_variable_interface.elemsize -> usize;
    starpu_vector_get_nx: starpu_vector_interface.nx -> usize;
    starpu_vector_get_elemsize: starpu_vector_interface.elemsize -> usize;
    starpu_vector_get_allocsize: starpu_vector_interface.allocsize -> usize;
    starpu_matrix_get_nx: starpu_matrix_interface.nx -> usize;
    starpu_matrix_get_ny: starpu_matrix_interface.ny -> usize;
    starpu_matrix_get_elemsize: starpu_matrix_interface.elemsize -> usize;
    starpu_matrix_get_allocsize: starpu_matrix_interface.allocsize -> usize;
    starpu_block_get_nx: starpu_block_interface.nx -> usize;
    starpu_block_get_ny: starpu_block_interface.ny -> usize;
    starpu_block_get_nz: starpu_block_interface.nz -> usize;
    starpu_block_get_elemsize: starpu_block_interface.elemsize -> usize;
    starpu_tensor_get_nx: starpu_tensor_interface.nx -> usize;
    starpu_tensor_get_ny: starpu_tensor_interface.ny -> usize;
    starpu_tensor_get_nz: starpu_tensor_interface.nz -> usize;
    starpu_tensor_get_nt: starpu_tensor_interface.nt -> usize;
    starpu_tensor_get_elemsize: starpu_tensor_interface.elemsize -> usize;
    starpu_ndim_get_nn: starpu_ndim_interface.nn -> *mut usize;
    starpu_ndim_get_ndim: starpu_ndim_interface.ndim -> usize;
    starpu_ndim_get_elemsize: starpu_ndim_interface.elemsize -> usize;
}

macro_rules! local {
    ($($function:ident: $type:ident.$field:ident -> $result:ty;)*) => {$(
        /// Gives this property of the data on the node of the calling thread.
        ///
        /// # Safety
        /// `handle` is registered.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(handle: starpu_data_handle_t) -> $result {
            // SAFETY: the caller's promise.
            let interface = unsafe {
                let node = starpu_worker_get_local_memory_node();
                checked::<$type>(handle, node, stringify!($function))
            };
            if interface.ptr == 0 && interface.dev_handle == 0 && interface.read().size() > 0 {
                report(stringify!($function), "the data is not allocated on this node");
            }
            interface.$field
        }
    )*};
}

local! {
    starpu_variable_get_local_ptr: starpu_variable_interface.ptr -> usize;
    starpu_vector_get_local_ptr: starpu_vector_interface.ptr -> usize;
    starpu_matrix_get_local_ptr: starpu_matrix_interface.ptr -> usize;
    starpu_matrix_get_local_ld: starpu_matrix_interface.ld -> usize;
    starpu_block_get_local_ptr: starpu_block_interface.ptr -> usize;
    starpu_block_get_local_ldy: starpu_block_interface.ldy -> usize;
    starpu_block_get_local_ldz: starpu_block_interface.ldz -> usize;
    starpu_tensor_get_local_ptr: starpu_tensor_interface.ptr -> usize;
    starpu_tensor_get_local_ldy: starpu_tensor_interface.ldy -> usize;
    starpu_tensor_get_local_ldz: starpu_tensor_interface.ldz -> usize;
    starpu_tensor_get_local_ldt: starpu_tensor_interface.ldt -> usize;
    starpu_ndim_get_local_ptr: starpu_ndim_interface.ptr -> usize;
    starpu_ndim_get_local_ldn: starpu_ndim_interface.ldn -> *mut usize;
}

/// Gives the length of dimension `i` of an array.
///
/// # Safety
/// `handle` is registered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_ndim_get_ni(handle: starpu_data_handle_t, i: usize) -> usize {
    // SAFETY: the caller's promise.
    let form = unsafe {
        checked::<starpu_ndim_interface>(handle, STARPU_MAIN_RAM as c_uint, "starpu_ndim_get_ni").read()
    };
    match form.n.get(i) {
        Some(n) => *n,
        None => misuse("starpu_ndim_get_ni", &format!("the array has {} dimensions", form.n.len())),
    }
}

/// Gives the distance of neighbours in dimension `i` of an array, on the node of the calling
/// thread.
///
/// # Safety
/// `handle` is registered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_ndim_get_local_ldi(handle: starpu_data_handle_t, i: usize) -> usize {
    // SAFETY: the caller's promise.
    let form = unsafe {
        let node = starpu_worker_get_local_memory_node();
        checked::<starpu_ndim_interface>(handle, node, "starpu_ndim_get_local_ldi").read()
    };
    match form.ld.get(i) {
        Some(ld) => *ld,
        None => misuse("starpu_ndim_get_local_ldi", &format!("the array has {} dimensions", form.n.len())),
    }
}
