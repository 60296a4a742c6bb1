//! Data interfaces and filters.

use super::*;

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
    pub ram_to_cuda_async: starpu_any_copy_t,
    pub cuda_to_ram_async: starpu_any_copy_t,
    pub cuda_to_cuda_async: starpu_any_copy_t,
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
    pub any_to_any: starpu_any_copy_t,
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
