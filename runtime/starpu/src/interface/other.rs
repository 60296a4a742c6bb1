//! Data without content, and vectors whose elements look different on each kind of device.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::*;
use crate::instance::errno::EINVAL;
use crate::memory::*;
use crate::util::starpu_hash_crc32c_be;

// ---- Without content ---------------------------------------------------------------------------

unsafe extern "C" fn void_register(_: starpu_data_handle_t, _: c_int, _: *mut c_void) {}

unsafe extern "C" fn void_allocate(_: *mut c_void, _: c_uint) -> starpu_ssize_t {
    0
}

unsafe extern "C" fn void_free(_: *mut c_void, _: c_uint) {}

unsafe extern "C" fn void_cache(_: *mut c_void, _: *mut c_void, _: c_uint) {}

unsafe extern "C" fn void_reuse(_: *mut c_void, _: *const c_void, _: c_uint) {}

unsafe extern "C" fn void_map(_: *mut c_void, _: c_uint, _: *mut c_void, _: c_uint) -> c_int {
    0
}

unsafe extern "C" fn void_copy(
    _: *mut c_void,
    _: c_uint,
    _: *mut c_void,
    _: c_uint,
    _: *mut c_void,
) -> c_int {
    0
}

unsafe extern "C" fn void_size(_: starpu_data_handle_t) -> usize {
    0
}

unsafe extern "C" fn void_footprint(_: starpu_data_handle_t) -> u32 {
    0
}

unsafe extern "C" fn void_compare(_: *mut c_void, _: *mut c_void) -> c_int {
    1
}

unsafe extern "C" fn void_display(_: starpu_data_handle_t, stream: *mut FILE) {
    // SAFETY: the library gives an open stream.
    unsafe { print("void\t", stream) };
}

unsafe extern "C" fn void_describe(_: *mut c_void, text: *mut c_char, size: usize) -> starpu_ssize_t {
    // SAFETY: the library gives a buffer of that size.
    unsafe { write_text("0", text, size) }
}

unsafe extern "C" fn void_pack(
    _: starpu_data_handle_t,
    _: c_uint,
    ptr: *mut *mut c_void,
    count: *mut starpu_ssize_t,
) -> c_int {
    // SAFETY: `count` is valid, and `ptr` is if it is not null.
    unsafe {
        *count = 0;
        if !ptr.is_null() {
            *ptr = std::ptr::null_mut();
        }
    }
    0
}

unsafe extern "C" fn void_unpack(_: starpu_data_handle_t, _: c_uint, _: *mut c_void, _: usize) -> c_int {
    0
}

static VOID_COPIES: starpu_data_copy_methods =
    starpu_data_copy_methods { any_to_any: Some(void_copy), ..starpu_data_copy_methods::NONE };

/// The table of data without content.
#[unsafe(no_mangle)]
pub static mut starpu_interface_void_ops: starpu_data_interface_ops = starpu_data_interface_ops {
    register_data_handle: Some(void_register),
    allocate_data_on_node: Some(void_allocate),
    free_data_on_node: Some(void_free),
    cache_data_on_node: Some(void_cache),
    reuse_data_on_node: Some(void_reuse),
    map_data: Some(void_map),
    unmap_data: Some(void_map),
    update_map: Some(void_map),
    copy_methods: &raw const VOID_COPIES,
    get_size: Some(void_size),
    footprint: Some(void_footprint),
    compare: Some(void_compare),
    display: Some(void_display),
    describe: Some(void_describe),
    interfaceid: STARPU_VOID_INTERFACE_ID,
    interface_size: 0,
    pack_data: Some(void_pack),
    peek_data: Some(void_unpack),
    unpack_data: Some(void_unpack),
    name: c"STARPU_VOID_INTERFACE".as_ptr().cast_mut(),
    ..NO_OPS
};

/// Registers data without content, which only orders tasks.
///
/// # Safety
/// `handle` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_void_data_register(handle: *mut starpu_data_handle_t) {
    // SAFETY: the caller's promise.
    unsafe {
        starpu_data_register(
            handle,
            STARPU_MAIN_RAM,
            std::ptr::null_mut(),
            &raw mut starpu_interface_void_ops,
        );
    }
}

// ---- Several formats ---------------------------------------------------------------------------

type Multi = starpu_multiformat_interface;

/// Bytes of the data as the CPU sees it.
///
/// # Safety
/// The sizes of the formats are still there.
unsafe fn size(interface: &Multi) -> usize {
    // SAFETY: the caller's promise.
    interface.nx * unsafe { (*interface.ops).cpu_elemsize }
}

unsafe extern "C" fn register(handle: starpu_data_handle_t, home: c_int, interface: *mut c_void) {
    // SAFETY: the library gives the interface that the handle was registered with.
    let given = unsafe { *interface.cast::<Multi>() };
    for node in 0..STARPU_MAXNODES {
        // SAFETY: all interfaces of the handle are of this kind.
        let local = unsafe { on_node::<Multi>(handle, node as c_uint) };
        *local = given;
        if node as c_int != home {
            local.cpu_ptr = std::ptr::null_mut();
        }
    }
}

unsafe extern "C" fn allocate(interface: *mut c_void, node: c_uint) -> starpu_ssize_t {
    // SAFETY: the library gives an interface of this kind.
    unsafe {
        let interface = &mut *interface.cast::<Multi>();
        let bytes = size(interface);
        let address = starpu_malloc_on_node(node, bytes);
        if address == 0 {
            return -ENOMEM as starpu_ssize_t;
        }
        interface.cpu_ptr = address as *mut c_void;
        bytes as starpu_ssize_t
    }
}

unsafe extern "C" fn free_data(interface: *mut c_void, node: c_uint) {
    // SAFETY: the library gives an interface of this kind, allocated by `allocate`.
    unsafe {
        let interface = &mut *interface.cast::<Multi>();
        starpu_free_on_node(node, interface.cpu_ptr as usize, size(interface));
        interface.cpu_ptr = std::ptr::null_mut();
    }
}

unsafe extern "C" fn to_pointer(interface: *mut c_void, _node: c_uint) -> *mut c_void {
    // SAFETY: the library gives an interface of this kind.
    unsafe { (*interface.cast::<Multi>()).cpu_ptr }
}

unsafe extern "C" fn get_size(handle: starpu_data_handle_t) -> usize {
    // SAFETY: the library gives a handle with interfaces of this kind.
    unsafe { size(on_node::<Multi>(handle, STARPU_MAIN_RAM as c_uint)) }
}

unsafe extern "C" fn footprint(handle: starpu_data_handle_t) -> u32 {
    // SAFETY: the library gives a handle with interfaces of this kind.
    let nx = unsafe { on_node::<Multi>(handle, STARPU_MAIN_RAM as c_uint) }.nx;
    starpu_hash_crc32c_be(nx as u32, 0)
}

unsafe extern "C" fn compare(a: *mut c_void, b: *mut c_void) -> c_int {
    // SAFETY: the library gives two interfaces of this kind.
    unsafe {
        let (a, b) = (&*a.cast::<Multi>(), &*b.cast::<Multi>());
        c_int::from(a.nx == b.nx && size(a) == size(b))
    }
}

unsafe extern "C" fn display(handle: starpu_data_handle_t, stream: *mut FILE) {
    // SAFETY: the library gives a handle with interfaces of this kind, and an open stream.
    unsafe {
        let nx = on_node::<Multi>(handle, STARPU_MAIN_RAM as c_uint).nx;
        print(&format!("{nx}\t"), stream);
    }
}

unsafe extern "C" fn describe(interface: *mut c_void, text: *mut c_char, room: usize) -> starpu_ssize_t {
    // SAFETY: the library gives an interface of this kind, and a buffer of that size.
    unsafe { write_text(&format!("F{}", (*interface.cast::<Multi>()).nx), text, room) }
}

unsafe extern "C" fn pack(
    handle: starpu_data_handle_t,
    node: c_uint,
    ptr: *mut *mut c_void,
    count: *mut starpu_ssize_t,
) -> c_int {
    // SAFETY: the library gives a handle with interfaces of this kind; `ptr` may be null.
    unsafe {
        let interface = on_node::<Multi>(handle, node);
        let bytes = size(interface);
        *count = bytes as starpu_ssize_t;
        if !ptr.is_null() {
            *ptr = starpu_malloc_on_node_flags(node, bytes, 0) as *mut c_void;
            if (*ptr).is_null() {
                return -ENOMEM;
            }
            std::ptr::copy_nonoverlapping(interface.cpu_ptr.cast::<u8>(), (*ptr).cast::<u8>(), bytes);
        }
    }
    0
}

unsafe extern "C" fn peek(
    handle: starpu_data_handle_t,
    node: c_uint,
    ptr: *mut c_void,
    count: usize,
) -> c_int {
    // SAFETY: the library gives a handle with interfaces of this kind, and `count` bytes.
    unsafe {
        let interface = on_node::<Multi>(handle, node);
        let bytes = size(interface);
        if count != bytes {
            report("starpu_data_unpack", &format!("{count} bytes were given for {bytes}"));
            return -EINVAL;
        }
        std::ptr::copy_nonoverlapping(ptr.cast::<u8>(), interface.cpu_ptr.cast::<u8>(), bytes);
    }
    0
}

unsafe extern "C" fn unpack(
    handle: starpu_data_handle_t,
    node: c_uint,
    ptr: *mut c_void,
    count: usize,
) -> c_int {
    // SAFETY: the caller's promise; the block is from `starpu_malloc_on_node_flags`.
    unsafe {
        let result = peek(handle, node, ptr, count);
        starpu_free_on_node_flags(node, ptr as usize, count, 0);
        result
    }
}

unsafe extern "C" fn get_mf_ops(interface: *mut c_void) -> *mut starpu_multiformat_data_interface_ops {
    // SAFETY: the library gives an interface of this kind.
    unsafe { (*interface.cast::<Multi>()).ops }
}

unsafe extern "C" fn copy(
    src: *mut c_void,
    src_node: c_uint,
    dst: *mut c_void,
    dst_node: c_uint,
    _async_data: *mut c_void,
) -> c_int {
    // SAFETY: the library gives two interfaces of this kind, both allocated.
    unsafe {
        let (from, to) = (&*src.cast::<Multi>(), &*dst.cast::<Multi>());
        let bytes = size(from);
        if from.cpu_ptr != to.cpu_ptr && bytes > 0 {
            std::ptr::copy_nonoverlapping(from.cpu_ptr.cast::<u8>(), to.cpu_ptr.cast::<u8>(), bytes);
        }
        starpu_interface_data_copy(src_node, dst_node, bytes);
    }
    0
}

static COPIES: starpu_data_copy_methods =
    starpu_data_copy_methods { any_to_any: Some(copy), ..starpu_data_copy_methods::NONE };

/// The table of data in several formats.
#[unsafe(no_mangle)]
pub static mut starpu_interface_multiformat_ops: starpu_data_interface_ops = starpu_data_interface_ops {
    register_data_handle: Some(register),
    allocate_data_on_node: Some(allocate),
    free_data_on_node: Some(free_data),
    copy_methods: &raw const COPIES,
    to_pointer: Some(to_pointer),
    get_size: Some(get_size),
    footprint: Some(footprint),
    compare: Some(compare),
    display: Some(display),
    describe: Some(describe),
    interfaceid: STARPU_MULTIFORMAT_INTERFACE_ID,
    interface_size: size_of::<Multi>(),
    is_multiformat: 1,
    get_mf_ops: Some(get_mf_ops),
    pack_data: Some(pack),
    peek_data: Some(peek),
    unpack_data: Some(unpack),
    name: c"STARPU_MULTIFORMAT_INTERFACE".as_ptr().cast_mut(),
    ..NO_OPS
};

/// Registers a vector of `nx` elements in several formats; `ptr` is that of the CPU.
///
/// # Safety
/// All pointers are valid; `ops` outlives the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_multiformat_data_register(
    handle: *mut starpu_data_handle_t,
    home_node: c_int,
    ptr: *mut c_void,
    nx: usize,
    ops: *mut starpu_multiformat_data_interface_ops,
) {
    let nowhere = std::ptr::null_mut();
    let mut interface = Multi {
        id: STARPU_MULTIFORMAT_INTERFACE_ID,
        cpu_ptr: ptr,
        cuda_ptr: nowhere,
        hip_ptr: nowhere,
        sycl_ptr: nowhere,
        opencl_ptr: nowhere,
        nx,
        ops,
    };
    // SAFETY: the caller's promise; the interface is copied.
    unsafe {
        starpu_data_register(
            handle,
            home_node,
            (&raw mut interface).cast(),
            &raw mut starpu_interface_multiformat_ops,
        );
    }
}
