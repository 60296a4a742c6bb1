//! Data interfaces: what data looks like, and how it is allocated, copied and packed.
//!
//! [`dense`] holds everything with strides, from a variable to an array of any number of
//! dimensions, [`sparse`] the matrices of three arrays, [`other`] data without content and data
//! in several formats.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

use crate::gpus::{CopyRun, copy_runs_between};
pub(crate) use crate::handles::{
    starpu_data_get_interface_on_node, starpu_data_get_interface_ops, starpu_data_ptr_register,
    starpu_data_register, starpu_subdata_ptr_register,
};
pub(crate) use crate::instance::errno::ENOMEM;
use crate::types::*;
use crate::variadic::report;
pub(crate) use crate::workers::places::starpu_worker_get_local_memory_node;

mod dense;
mod other;
mod sparse;

#[cfg(feature = "mpi")]
pub(crate) use dense::append_packed;
pub(crate) use dense::{
    Dense, Strided, starpu_interface_block_ops, starpu_interface_matrix_ops, starpu_interface_tensor_ops,
    starpu_interface_variable_ops, starpu_interface_vector_ops,
};
pub(crate) use sparse::starpu_bcsr_get_nnz;

const ENOSYS: c_int = 38;

/// Ends the program with the reason why it cannot go on: the functions where this is called have
/// no result that could say it.
pub(crate) fn misuse(function: &str, message: &str) -> ! {
    report(function, message);
    std::process::abort();
}

/// The interface of a handle on a node, as a structure of Rust.
///
/// # Safety
/// `handle` is registered with an interface of type `T`.
pub(crate) unsafe fn on_node<'a, T>(handle: starpu_data_handle_t, node: c_uint) -> &'a mut T {
    // SAFETY: the caller's promise; the structure lives as long as the handle.
    unsafe { &mut *starpu_data_get_interface_on_node(handle, node).cast::<T>() }
}

/// Writes text that ends with 0 into a buffer of C, and gives its length as `snprintf` does.
///
/// # Safety
/// `buffer` has room for `size` bytes.
pub(crate) unsafe fn write_text(text: &str, buffer: *mut c_char, size: usize) -> starpu_ssize_t {
    if size > 0 {
        let n = text.len().min(size - 1);
        // SAFETY: the buffer has room for `n + 1` bytes.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast::<u8>(), n);
            *buffer.add(n) = 0;
        }
    }
    text.len() as starpu_ssize_t
}

/// Writes text to a stream of C.
///
/// # Safety
/// `stream` is open.
pub(crate) unsafe fn print(text: &str, stream: *mut FILE) {
    if let Ok(text) = std::ffi::CString::new(text) {
        // SAFETY: the text ends with 0, and the stream is open.
        unsafe { crate::c::fputs(text.as_ptr(), stream) };
    }
}

/// No operations at all, from which the tables of the interfaces are filled.
pub(crate) const NO_OPS: starpu_data_interface_ops = starpu_data_interface_ops {
    register_data_handle: None,
    unregister_data_handle: None,
    allocate_data_on_node: None,
    free_data_on_node: None,
    cache_data_on_node: None,
    reuse_data_on_node: None,
    map_data: None,
    unmap_data: None,
    update_map: None,
    init: None,
    copy_methods: ptr::null(),
    handle_to_pointer: None,
    to_pointer: None,
    pointer_is_inside: None,
    get_size: None,
    get_alloc_size: None,
    get_max_size: None,
    footprint: None,
    alloc_footprint: None,
    compare: None,
    alloc_compare: None,
    display: None,
    describe: None,
    interfaceid: STARPU_UNKNOWN_INTERFACE_ID,
    interface_size: 0,
    is_multiformat: 0,
    dontcache: 0,
    get_mf_ops: None,
    pack_data: None,
    peek_data: None,
    unpack_data: None,
    pack_meta: None,
    unpack_meta: None,
    free_meta: None,
    name: ptr::null_mut(),
};

// ---- Packing through the table of a handle -----------------------------------------------------

/// Packs the data of a handle on a node into a block from `starpu_malloc_on_node_flags`.
///
/// # Safety
/// All pointers are valid; `ptr` may be null, then only the size is asked for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_pack_node(
    handle: starpu_data_handle_t,
    node: c_uint,
    ptr: *mut *mut c_void,
    count: *mut starpu_ssize_t,
) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { (*starpu_data_get_interface_ops(handle)).pack_data } {
        // SAFETY: as above.
        Some(pack) => unsafe { pack(handle, node, ptr, count) },
        None => no_function("starpu_data_pack", "pack_data"),
    }
}

/// Packs the data of a handle on the node of the calling thread.
///
/// # Safety
/// As for [`starpu_data_pack_node`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_pack(
    handle: starpu_data_handle_t,
    ptr: *mut *mut c_void,
    count: *mut starpu_ssize_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { starpu_data_pack_node(handle, starpu_worker_get_local_memory_node(), ptr, count) }
}

/// Reads packed data into a handle on a node; the block stays the caller's.
///
/// # Safety
/// `ptr` points at `count` packed bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_peek_node(
    handle: starpu_data_handle_t,
    node: c_uint,
    ptr: *mut c_void,
    count: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { (*starpu_data_get_interface_ops(handle)).peek_data } {
        // SAFETY: as above.
        Some(peek) => unsafe { peek(handle, node, ptr, count) },
        None => no_function("starpu_data_peek", "peek_data"),
    }
}

/// Reads packed data into a handle on the node of the calling thread.
///
/// # Safety
/// As for [`starpu_data_peek_node`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_peek(
    handle: starpu_data_handle_t,
    ptr: *mut c_void,
    count: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { starpu_data_peek_node(handle, starpu_worker_get_local_memory_node(), ptr, count) }
}

/// Reads packed data into a handle on a node and frees the block.
///
/// # Safety
/// `ptr` is a block from `starpu_malloc_on_node_flags` with `count` packed bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_unpack_node(
    handle: starpu_data_handle_t,
    node: c_uint,
    ptr: *mut c_void,
    count: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { (*starpu_data_get_interface_ops(handle)).unpack_data } {
        // SAFETY: as above.
        Some(unpack) => unsafe { unpack(handle, node, ptr, count) },
        None => no_function("starpu_data_unpack", "unpack_data"),
    }
}

/// Reads packed data into a handle on the node of the calling thread and frees the block.
///
/// # Safety
/// As for [`starpu_data_unpack_node`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_unpack(
    handle: starpu_data_handle_t,
    ptr: *mut c_void,
    count: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { starpu_data_unpack_node(handle, starpu_worker_get_local_memory_node(), ptr, count) }
}

fn no_function(function: &str, member: &str) -> c_int {
    report(function, &format!("the interface of the data has no {member}"));
    -ENOSYS
}

// ---- What interfaces are written with ----------------------------------------------------------

/// An array on a memory node: its first element, and the distances of its dimensions in elements.
pub(crate) struct Placed<'a> {
    pub node: c_uint,
    pub at: usize,
    pub ld: &'a [usize],
}

/// Copies `n[0] x n[1] x ...` elements between arrays, and returns 0.
///
/// # Safety
/// Both arrays hold all elements and do not overlap.
pub(crate) unsafe fn copy_array(to: Placed<'_>, from: Placed<'_>, n: &[usize], elemsize: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        copy_runs_between(to.node as usize, from.node as usize, |copy| {
            copy_with(copy, to.at as *mut u8, to.ld, from.at as *const u8, from.ld, n, elemsize);
        });
    }
    0
}

/// Copies `n[0] x n[1] x ...` elements between arrays of the host whose dimensions have the
/// distances `to_ld` and `from_ld`, in elements.
///
/// # Safety
/// Both arrays hold all elements and do not overlap.
pub(crate) unsafe fn copy_strided(
    to: *mut u8,
    to_ld: &[usize],
    from: *const u8,
    from_ld: &[usize],
    n: &[usize],
    elemsize: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        copy_runs_between(0, 0, |copy| copy_with(copy, to, to_ld, from, from_ld, n, elemsize));
    }
}

/// # Safety
/// As for [`copy_strided`].
unsafe fn copy_with(
    copy: CopyRun<'_>,
    to: *mut u8,
    to_ld: &[usize],
    from: *const u8,
    from_ld: &[usize],
    n: &[usize],
    elemsize: usize,
) {
    if n.contains(&0) || elemsize == 0 {
        return;
    }
    // Dimensions that follow each other without a gap in both arrays are one run of bytes.
    let mut run = elemsize;
    let mut d = 0;
    while d < n.len() && (n[d] == 1 || (to_ld[d] * elemsize == run && from_ld[d] * elemsize == run)) {
        run *= n[d];
        d += 1;
    }
    // SAFETY: the caller's promise, on the part of the array that the dimensions from `d` step
    // through.
    unsafe { copy_runs(copy, to, &to_ld[d..], from, &from_ld[d..], &n[d..], elemsize, run) };
}

/// # Safety
/// As for [`copy_strided`], where `run` bytes are copied at each place.
#[allow(clippy::too_many_arguments, reason = "two arrays, their lengths, and what copies")]
unsafe fn copy_runs(
    copy: CopyRun<'_>,
    to: *mut u8,
    to_ld: &[usize],
    from: *const u8,
    from_ld: &[usize],
    n: &[usize],
    elemsize: usize,
    run: usize,
) {
    let Some(last) = n.len().checked_sub(1) else {
        copy(to, from, run);
        return;
    };
    for i in 0..n[last] {
        // SAFETY: `i` is below the length of this dimension in both arrays.
        unsafe {
            copy_runs(
                copy,
                to.add(i * to_ld[last] * elemsize),
                &to_ld[..last],
                from.add(i * from_ld[last] * elemsize),
                &from_ld[..last],
                &n[..last],
                elemsize,
                run,
            );
        }
    }
}

/// Copies bytes.
///
/// # Safety
/// Both places are valid and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_interface_copy(
    src: usize,
    src_offset: usize,
    src_node: c_uint,
    dst: usize,
    dst_offset: usize,
    dst_node: c_uint,
    size: usize,
    _async_data: *mut c_void,
) -> c_int {
    let (to, from) = ((dst + dst_offset) as *mut u8, (src + src_offset) as *const u8);
    if size == 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { copy_runs_between(dst_node as usize, src_node as usize, |copy| copy(to, from, size)) };
    0
}

/// Copies blocks of bytes that lie some distance apart, in bytes.
///
/// # Safety
/// Both places are valid and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_interface_copy2d(
    src: usize,
    src_offset: usize,
    src_node: c_uint,
    dst: usize,
    dst_offset: usize,
    dst_node: c_uint,
    blocksize: usize,
    numblocks: usize,
    ld_src: usize,
    ld_dst: usize,
    _async_data: *mut c_void,
) -> c_int {
    let to = Placed { node: dst_node, at: dst + dst_offset, ld: &[1, ld_dst] };
    let from = Placed { node: src_node, at: src + src_offset, ld: &[1, ld_src] };
    // SAFETY: the caller's promise.
    unsafe { copy_array(to, from, &[blocksize, numblocks], 1) }
}

/// Copies blocks of bytes in two more dimensions.
///
/// # Safety
/// Both places are valid and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_interface_copy3d(
    src: usize,
    src_offset: usize,
    src_node: c_uint,
    dst: usize,
    dst_offset: usize,
    dst_node: c_uint,
    blocksize: usize,
    numblocks1: usize,
    ld1_src: usize,
    ld1_dst: usize,
    numblocks2: usize,
    ld2_src: usize,
    ld2_dst: usize,
    _async_data: *mut c_void,
) -> c_int {
    let to = Placed { node: dst_node, at: dst + dst_offset, ld: &[1, ld1_dst, ld2_dst] };
    let from = Placed { node: src_node, at: src + src_offset, ld: &[1, ld1_src, ld2_src] };
    // SAFETY: the caller's promise.
    unsafe { copy_array(to, from, &[blocksize, numblocks1, numblocks2], 1) }
}

/// Copies blocks of bytes in three more dimensions.
///
/// # Safety
/// Both places are valid and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_interface_copy4d(
    src: usize,
    src_offset: usize,
    src_node: c_uint,
    dst: usize,
    dst_offset: usize,
    dst_node: c_uint,
    blocksize: usize,
    numblocks1: usize,
    ld1_src: usize,
    ld1_dst: usize,
    numblocks2: usize,
    ld2_src: usize,
    ld2_dst: usize,
    numblocks3: usize,
    ld3_src: usize,
    ld3_dst: usize,
    _async_data: *mut c_void,
) -> c_int {
    let to = Placed { node: dst_node, at: dst + dst_offset, ld: &[1, ld1_dst, ld2_dst, ld3_dst] };
    let from = Placed { node: src_node, at: src + src_offset, ld: &[1, ld1_src, ld2_src, ld3_src] };
    // SAFETY: the caller's promise.
    unsafe { copy_array(to, from, &[blocksize, numblocks1, numblocks2, numblocks3], 1) }
}

/// Copies an array of `ndim` dimensions, whose distances count elements.
///
/// # Safety
/// Both places are valid and do not overlap; the lists have `ndim` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_interface_copynd(
    src: usize,
    src_offset: usize,
    src_node: c_uint,
    dst: usize,
    dst_offset: usize,
    dst_node: c_uint,
    elemsize: usize,
    ndim: usize,
    nn: *mut usize,
    ldn_src: *mut usize,
    ldn_dst: *mut usize,
    _async_data: *mut c_void,
) -> c_int {
    let list = |p: *mut usize| {
        // SAFETY: the caller's promise.
        if ndim == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(p, ndim) } }
    };
    let to = Placed { node: dst_node, at: dst + dst_offset, ld: list(ldn_dst) };
    let from = Placed { node: src_node, at: src + src_offset, ld: list(ldn_src) };
    // SAFETY: the caller's promise.
    unsafe { copy_array(to, from, list(nn), elemsize) }
}

/// Takes note that data went from node to node, which nobody asks for yet.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_interface_data_copy(_src_node: c_uint, _dst_node: c_uint, _size: usize) {}

/// Takes note of the time before an asynchronous copy.
///
/// # Safety
/// `start` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_interface_start_driver_copy_async(
    _src_node: c_uint,
    _dst_node: c_uint,
    start: *mut f64,
) {
    if !start.is_null() {
        // SAFETY: the caller's promise.
        unsafe { *start = crate::util::starpu_timing_now() };
    }
}

/// Takes note of the time before an asynchronous copy between devices.
///
/// # Safety
/// `start` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_interface_start_driver_copy_async_devid(
    _src_dev: c_int,
    _src_kind: starpu_node_kind,
    _dst_dev: c_int,
    _dst_kind: starpu_node_kind,
    start: *mut f64,
) {
    // SAFETY: the caller's promise.
    unsafe { starpu_interface_start_driver_copy_async(0, 0, start) };
}

/// Takes note of the end of the submission of an asynchronous copy.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_interface_end_driver_copy_async(_src_node: c_uint, _dst_node: c_uint, _start: f64) {}

/// Takes note of the end of the submission of an asynchronous copy between devices.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_interface_end_driver_copy_async_devid(
    _src_dev: c_int,
    _src_kind: starpu_node_kind,
    _dst_dev: c_int,
    _dst_kind: starpu_node_kind,
    _start: f64,
) {
}

/// Gives the place of data for another node of the host's memory: the same one.
///
/// # Safety
/// `ret` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_interface_map(
    src: usize,
    src_offset: usize,
    _src_node: c_uint,
    _dst_node: c_uint,
    _size: usize,
    ret: *mut c_int,
) -> usize {
    if !ret.is_null() {
        // SAFETY: the caller's promise.
        unsafe { *ret = 0 };
    }
    src + src_offset
}

/// Ends what [`starpu_interface_map`] began, which took nothing.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_interface_unmap(
    _src: usize,
    _src_offset: usize,
    _src_node: c_uint,
    _dst: usize,
    _dst_node: c_uint,
    _size: usize,
) -> c_int {
    0
}

/// Makes what was written visible on the other node, where it is already.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_interface_update_map(
    _src: usize,
    _src_offset: usize,
    _src_node: c_uint,
    _dst: usize,
    _dst_offset: usize,
    _dst_node: c_uint,
    _size: usize,
) -> c_int {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_stay_as_they_are() {
        // Columns of 2 elements, 3 apart in the source and 4 in the destination.
        let from: Vec<u16> = (0..9).collect();
        let mut to = [99_u16; 12];
        // SAFETY: both arrays hold 3 columns.
        unsafe {
            copy_strided(to.as_mut_ptr().cast(), &[1, 4], from.as_ptr().cast(), &[1, 3], &[2, 3], 2);
        }
        assert_eq!(to, [0, 1, 99, 99, 3, 4, 99, 99, 6, 7, 99, 99]);
    }

    #[test]
    fn arrays_without_gaps_and_empty_ones() {
        let from = [1_u8, 2, 3, 4];
        let mut to = [0_u8; 4];
        // SAFETY: both arrays hold 4 bytes, and empty ones are not touched.
        unsafe {
            copy_strided(to.as_mut_ptr(), &[1, 2], from.as_ptr(), &[1, 2], &[2, 2], 1);
            copy_strided(ptr::null_mut(), &[1, 2], ptr::null(), &[1, 2], &[0, 2], 1);
        }
        assert_eq!(to, from);
    }
}
