//! Devices and disks, which are absent.

use super::*;

macro_rules! nothing_to_do {
    ($($name:ident)*) => {$(
        /// Prepares or ends the library of a device, of which there is none.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() {}
    )*};
}

nothing_to_do! {
    starpu_cublasLt_init
    starpu_cublasLt_shutdown
    starpu_cusolver_init
    starpu_cusolver_shutdown
    starpu_hipblas_init
    starpu_hipblas_shutdown
    starpu_hipsolver_init
    starpu_hipsolver_shutdown
}

// ---- Memory on disks, which is absent ----------------------------------------------------------

/// Functions that keep data on a disk; programs may write tables of their own, so the members
/// stand in
/// `starpu.h` alone.
#[repr(C)]
pub struct starpu_disk_ops {
    functions: [*mut c_void; 19],
}

macro_rules! disks {
    ($($name:ident)*) => {$(
        /// The table of a kind of disk, of which there is none.
        #[unsafe(no_mangle)]
        pub static mut $name: starpu_disk_ops = starpu_disk_ops { functions: [std::ptr::null_mut(); 19] };
    )*};
}

disks! {
    starpu_disk_stdio_ops
    starpu_disk_unistd_ops
    starpu_disk_unistd_o_direct_ops
    starpu_disk_leveldb_ops
    starpu_disk_hdf5_ops
}

/// The node that memory is moved to when there is no more, of which there is none.
#[unsafe(no_mangle)]
pub static mut starpu_disk_swap_node: c_int = -1;

/// Makes a disk a memory node, which is not possible here: -ENOENT.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_disk_register(
    _ops: *mut starpu_disk_ops,
    _parameter: *mut c_void,
    _size: starpu_ssize_t,
) -> c_int {
    eprintln!("zellige-starpu: starpu_disk_register: memory on disks is not supported");
    -2
}

/// Opens a file of a disk, of which there is none: null.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_disk_open(_node: u32, _position: *mut c_void, _size: usize) -> *mut c_void {
    std::ptr::null_mut()
}

/// Closes a file of a disk, of which there is none.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_disk_close(_node: u32, _object: *mut c_void, _size: usize) {}
