//! Registration of dense data.

use super::operations::*;
use super::*;

/// Registers data with an interface of any kind.
///
/// # Safety
/// `handle` is valid, and the table is that of `T`.
pub(super) unsafe fn register_as<T>(
    handle: *mut starpu_data_handle_t,
    home_node: c_int,
    mut interface: T,
    ops: *mut starpu_data_interface_ops,
) {
    // SAFETY: the caller's promise; the interface is copied.
    unsafe { starpu_data_register(handle, home_node, (&raw mut interface).cast(), ops) };
}

/// Distances that are too short would let rows overlap.
pub(super) fn check_ld(function: &str, pairs: &[(usize, usize)]) {
    for (ld, n) in pairs {
        if ld < n {
            misuse(function, &format!("a distance of {ld} is shorter than what it is to step over, {n}"));
        }
    }
}

/// Registers a variable of `size` bytes.
///
/// # Safety
/// `handle` is valid; `ptr` is where the data lies, unless the home node is -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_variable_data_register(
    handle: *mut starpu_data_handle_t,
    home_node: c_int,
    ptr: usize,
    size: usize,
) {
    let id = STARPU_VARIABLE_INTERFACE_ID;
    let interface = starpu_variable_interface { id, ptr, dev_handle: ptr, offset: 0, elemsize: size };
    // SAFETY: the caller's promise.
    unsafe { register_as(handle, home_node, interface, &raw mut starpu_interface_variable_ops) };
}

/// Registers a vector.
///
/// # Safety
/// As for [`starpu_variable_data_register`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_vector_data_register(
    handle: *mut starpu_data_handle_t,
    home_node: c_int,
    ptr: usize,
    nx: usize,
    elemsize: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { starpu_vector_data_register_allocsize(handle, home_node, ptr, nx, elemsize, nx * elemsize) };
}

/// Registers a vector whose allocations have `allocsize` bytes.
///
/// # Safety
/// As for [`starpu_variable_data_register`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_vector_data_register_allocsize(
    handle: *mut starpu_data_handle_t,
    home_node: c_int,
    ptr: usize,
    nx: usize,
    elemsize: usize,
    allocsize: usize,
) {
    let interface = starpu_vector_interface {
        id: STARPU_VECTOR_INTERFACE_ID,
        ptr,
        dev_handle: ptr,
        offset: 0,
        nx,
        elemsize,
        slice_base: 0,
        allocsize,
    };
    // SAFETY: the caller's promise.
    unsafe { register_as(handle, home_node, interface, &raw mut starpu_interface_vector_ops) };
}

/// Registers a matrix of `ny` columns, each of `nx` elements and `ld` elements after the last.
///
/// # Safety
/// As for [`starpu_variable_data_register`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_matrix_data_register(
    handle: *mut starpu_data_handle_t,
    home_node: c_int,
    ptr: usize,
    ld: usize,
    nx: usize,
    ny: usize,
    elemsize: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        starpu_matrix_data_register_allocsize(
            handle,
            home_node,
            ptr,
            ld,
            nx,
            ny,
            elemsize,
            nx * ny * elemsize,
        );
    }
}

/// Registers a matrix whose allocations have `allocsize` bytes.
///
/// # Safety
/// As for [`starpu_variable_data_register`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_matrix_data_register_allocsize(
    handle: *mut starpu_data_handle_t,
    home_node: c_int,
    ptr: usize,
    ld: usize,
    nx: usize,
    ny: usize,
    elemsize: usize,
    allocsize: usize,
) {
    check_ld("starpu_matrix_data_register", &[(ld, nx)]);
    let interface = starpu_matrix_interface {
        id: STARPU_MATRIX_INTERFACE_ID,
        ptr,
        dev_handle: ptr,
        offset: 0,
        nx,
        ny,
        ld,
        elemsize,
        allocsize,
    };
    // SAFETY: the caller's promise.
    unsafe { register_as(handle, home_node, interface, &raw mut starpu_interface_matrix_ops) };
}

/// Registers a block of three dimensions.
///
/// # Safety
/// As for [`starpu_variable_data_register`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_block_data_register(
    handle: *mut starpu_data_handle_t,
    home_node: c_int,
    ptr: usize,
    ldy: usize,
    ldz: usize,
    nx: usize,
    ny: usize,
    nz: usize,
    elemsize: usize,
) {
    check_ld("starpu_block_data_register", &[(ldy, nx), (ldz, ldy * ny.min(1))]);
    let interface = starpu_block_interface {
        id: STARPU_BLOCK_INTERFACE_ID,
        ptr,
        dev_handle: ptr,
        offset: 0,
        nx,
        ny,
        nz,
        ldy,
        ldz,
        elemsize,
    };
    // SAFETY: the caller's promise.
    unsafe { register_as(handle, home_node, interface, &raw mut starpu_interface_block_ops) };
}

/// Registers a tensor of four dimensions.
///
/// # Safety
/// As for [`starpu_variable_data_register`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_tensor_data_register(
    handle: *mut starpu_data_handle_t,
    home_node: c_int,
    ptr: usize,
    ldy: usize,
    ldz: usize,
    ldt: usize,
    nx: usize,
    ny: usize,
    nz: usize,
    nt: usize,
    elemsize: usize,
) {
    check_ld("starpu_tensor_data_register", &[(ldy, nx), (ldz, ldy * ny.min(1)), (ldt, ldz * nz.min(1))]);
    let interface = starpu_tensor_interface {
        id: STARPU_TENSOR_INTERFACE_ID,
        ptr,
        dev_handle: ptr,
        offset: 0,
        nx,
        ny,
        nz,
        nt,
        ldy,
        ldz,
        ldt,
        elemsize,
    };
    // SAFETY: the caller's promise.
    unsafe { register_as(handle, home_node, interface, &raw mut starpu_interface_tensor_ops) };
}

/// Registers an array of `ndim` dimensions; both lists are copied.
///
/// # Safety
/// As for [`starpu_variable_data_register`], and both lists have `ndim` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_ndim_data_register(
    handle: *mut starpu_data_handle_t,
    home_node: c_int,
    ptr: usize,
    ldn: *mut usize,
    nn: *mut usize,
    ndim: usize,
    elemsize: usize,
) {
    let mut interface = starpu_ndim_interface {
        id: STARPU_NDIM_INTERFACE_ID,
        ptr,
        dev_handle: ptr,
        offset: 0,
        allocsize: 0,
        nn,
        ldn,
        ndim,
        elemsize,
    };
    let form = interface.read();
    let pairs: Vec<_> =
        (1..ndim).map(|i| (form.ld[i], if form.n[i - 1] == 0 { 0 } else { form.ld[i - 1] })).collect();
    check_ld("starpu_ndim_data_register", &pairs);
    interface.allocsize = form.size();
    // SAFETY: the caller's promise.
    unsafe { register_as(handle, home_node, interface, &raw mut starpu_interface_ndim_ops) };
}

macro_rules! ptr_registers {
    ($($function:ident: $type:ident ($($ld:ident)*), $register:ident;)*) => {$(
        /// Tells where the data of a handle lies on a node.
        ///
        /// # Safety
        /// The handle is of this kind, and the memory is as large as its data.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(
            handle: starpu_data_handle_t,
            node: c_uint,
            ptr: usize,
            dev_handle: usize,
            offset: usize,
            $($ld: usize,)*
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                $register(handle, node);
                let interface = on_node::<$type>(handle, node);
                (interface.ptr, interface.dev_handle, interface.offset) = (ptr, dev_handle, offset);
                $(interface.$ld = $ld;)*
            }
        }
    )*};
}

ptr_registers! {
    starpu_variable_ptr_register: starpu_variable_interface (), starpu_data_ptr_register;
    starpu_vector_ptr_register: starpu_vector_interface (), starpu_data_ptr_register;
    starpu_matrix_ptr_register: starpu_matrix_interface (ld), starpu_data_ptr_register;
    starpu_submatrix_ptr_register: starpu_matrix_interface (ld), starpu_subdata_ptr_register;
    starpu_block_ptr_register: starpu_block_interface (ldy ldz), starpu_data_ptr_register;
    starpu_tensor_ptr_register: starpu_tensor_interface (ldy ldz ldt), starpu_data_ptr_register;
}

/// Tells where the data of an array lies on a node.
///
/// # Safety
/// The handle is an array; `ldn` has an entry for each dimension.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_ndim_ptr_register(
    handle: starpu_data_handle_t,
    node: c_uint,
    ptr: usize,
    dev_handle: usize,
    offset: usize,
    ldn: *mut usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        starpu_data_ptr_register(handle, node);
        let interface = on_node::<starpu_ndim_interface>(handle, node);
        (interface.ptr, interface.dev_handle, interface.offset) = (ptr, dev_handle, offset);
        let ld = dims(ldn, interface.ndim);
        interface.set_ld(&ld);
    }
}
