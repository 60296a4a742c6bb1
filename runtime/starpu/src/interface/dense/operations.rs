//! Operations of dense interfaces: allocation, copies, packing, printing.

use super::*;

unsafe extern "C" fn init<T: Dense>(interface: *mut c_void) {
    // SAFETY: the library gives an interface of this kind. Its size is unknown until it is
    // registered.
    let interface = unsafe { &mut *interface.cast::<starpu_vector_interface>() };
    interface.allocsize = usize::MAX;
}

unsafe extern "C" fn init_matrix(interface: *mut c_void) {
    // SAFETY: the library gives an interface of this kind.
    unsafe { (*interface.cast::<starpu_matrix_interface>()).allocsize = usize::MAX };
}

unsafe extern "C" fn register<T: Dense>(handle: starpu_data_handle_t, home: c_int, interface: *mut c_void) {
    // SAFETY: the library gives a handle with interfaces of this kind, and the one that it was
    // registered with.
    let given = unsafe { &*interface.cast::<T>() };
    for node in 0..STARPU_MAXNODES {
        // SAFETY: as above.
        let local = unsafe { on_node::<T>(handle, node as c_uint) };
        local.adopt(given);
        if node as c_int != home {
            for part in local.place() {
                *part = 0;
            }
            let nothing: Dims = given.read().ld.iter().map(|_| 0).collect();
            local.set_ld(&nothing);
        }
    }
}

unsafe extern "C" fn unregister<T: Dense>(handle: starpu_data_handle_t) {
    for node in 0..STARPU_MAXNODES {
        // SAFETY: the library gives a handle with interfaces of this kind.
        unsafe { on_node::<T>(handle, node as c_uint) }.discard();
    }
}

unsafe extern "C" fn allocate<T: Dense>(interface: *mut c_void, node: c_uint) -> starpu_ssize_t {
    // SAFETY: the library gives an interface of this kind.
    let interface = unsafe { &mut *interface.cast::<T>() };
    let bytes = interface.allocsize();
    let address = starpu_malloc_on_node(node, bytes);
    if address == 0 {
        return -ENOMEM as starpu_ssize_t;
    }
    let [ptr, dev_handle, offset] = interface.place();
    (*ptr, *dev_handle, *offset) = (address, address, 0);
    let ld = interface.read().packed();
    interface.set_ld(&ld);
    bytes as starpu_ssize_t
}

unsafe extern "C" fn free_data<T: Dense>(interface: *mut c_void, node: c_uint) {
    // SAFETY: the library gives an interface of this kind, allocated by `allocate`.
    let interface = unsafe { &mut *interface.cast::<T>() };
    let bytes = interface.allocsize();
    let [ptr, dev_handle, _] = interface.place();
    // SAFETY: as above.
    unsafe { starpu_free_on_node(node, *dev_handle, bytes) };
    (*ptr, *dev_handle) = (0, 0);
}

/// Moves the memory of `from` to `to`, which has the same size.
pub(super) fn move_memory<T: Dense>(to: &mut T, mut from: T) {
    let [ptr, dev_handle, _] = from.place();
    let (p, d) = (*ptr, *dev_handle);
    let [ptr, dev_handle, offset] = to.place();
    (*ptr, *dev_handle, *offset) = (p, d, 0);
    let ld = to.read().packed();
    to.set_ld(&ld);
}

unsafe extern "C" fn cache<T: Dense>(cached: *mut c_void, from: *mut c_void, _node: c_uint) {
    // SAFETY: the library gives two interfaces of this kind.
    let (cached, from) = unsafe { (&mut *cached.cast::<T>(), &mut *from.cast::<T>()) };
    move_memory(cached, *from);
    let [ptr, dev_handle, _] = from.place();
    (*ptr, *dev_handle) = (0, 0);
}

unsafe extern "C" fn reuse<T: Dense>(to: *mut c_void, cached: *const c_void, _node: c_uint) {
    // SAFETY: the library gives two interfaces of this kind.
    let (to, cached) = unsafe { (&mut *to.cast::<T>(), *cached.cast::<T>()) };
    move_memory(to, cached);
}

unsafe extern "C" fn map<T: Dense>(
    src: *mut c_void,
    _src_node: c_uint,
    dst: *mut c_void,
    _dst_node: c_uint,
) -> c_int {
    // SAFETY: the library gives two interfaces of this kind.
    let (src, dst) = unsafe { (&*src.cast::<T>(), &mut *dst.cast::<T>()) };
    let form = src.read();
    let [ptr, dev_handle, offset] = dst.place();
    (*ptr, *dev_handle, *offset) = (form.address(), form.address(), 0);
    dst.set_ld(&form.ld);
    0
}

unsafe extern "C" fn unmap<T: Dense>(
    _src: *mut c_void,
    _src_node: c_uint,
    dst: *mut c_void,
    _dst_node: c_uint,
) -> c_int {
    // SAFETY: the library gives an interface of this kind.
    let [ptr, dev_handle, offset] = unsafe { &mut *dst.cast::<T>() }.place();
    (*ptr, *dev_handle, *offset) = (0, 0, 0);
    0
}

unsafe extern "C" fn update_map(_: *mut c_void, _: c_uint, _: *mut c_void, _: c_uint) -> c_int {
    0
}

unsafe extern "C" fn to_pointer<T: Dense>(interface: *mut c_void, _node: c_uint) -> *mut c_void {
    // SAFETY: the library gives an interface of this kind.
    unsafe { &*interface.cast::<T>() }.read().ptr as *mut c_void
}

unsafe extern "C" fn pointer_is_inside<T: Dense>(
    interface: *mut c_void,
    _node: c_uint,
    ptr: *mut c_void,
) -> c_int {
    // SAFETY: the library gives an interface of this kind.
    let form = unsafe { &*interface.cast::<T>() }.read();
    let start = form.address();
    c_int::from(start != 0 && (start..start + form.extent()).contains(&(ptr as usize)))
}

/// The form of a handle's data on the main node, where sizes stand even if nothing is allocated.
///
/// # Safety
/// `handle` has interfaces of this kind.
pub(super) unsafe fn form<T: Dense>(handle: starpu_data_handle_t) -> Strided {
    // SAFETY: the caller's promise.
    unsafe { on_node::<T>(handle, STARPU_MAIN_RAM as c_uint) }.read()
}

unsafe extern "C" fn get_size<T: Dense>(handle: starpu_data_handle_t) -> usize {
    // SAFETY: the library gives a handle with interfaces of this kind.
    unsafe { form::<T>(handle) }.size()
}

unsafe extern "C" fn get_alloc_size<T: Dense>(handle: starpu_data_handle_t) -> usize {
    // SAFETY: the library gives a handle with interfaces of this kind.
    unsafe { on_node::<T>(handle, STARPU_MAIN_RAM as c_uint) }.allocsize()
}

unsafe extern "C" fn footprint<T: Dense>(handle: starpu_data_handle_t) -> u32 {
    // SAFETY: the library gives a handle with interfaces of this kind.
    let form = unsafe { form::<T>(handle) };
    let mut sizes = form.n.iter().rev().map(|n| *n as u32);
    if T::ID == STARPU_NDIM_INTERFACE_ID {
        let start = starpu_hash_crc32c_be(form.elemsize as u32, 0);
        return form.n.iter().fold(start, |hash, n| starpu_hash_crc32c_be(*n as u32, hash));
    }
    match (form.n.len(), sizes.next()) {
        (_, None) => starpu_hash_crc32c_be(form.elemsize as u32, 0),
        (1, Some(nx)) => starpu_hash_crc32c_be(nx, 0),
        (_, Some(last)) => sizes.fold(last, |hash, n| starpu_hash_crc32c_be(n, hash)),
    }
}

unsafe extern "C" fn alloc_footprint<T: Dense>(handle: starpu_data_handle_t) -> u32 {
    // SAFETY: the library gives a handle with interfaces of this kind.
    starpu_hash_crc32c_be(unsafe { get_alloc_size::<T>(handle) } as u32, 0)
}

unsafe extern "C" fn compare<T: Dense>(a: *mut c_void, b: *mut c_void) -> c_int {
    // SAFETY: the library gives two interfaces of this kind.
    let (a, b) = unsafe { ((*a.cast::<T>()).read(), (*b.cast::<T>()).read()) };
    c_int::from(a.n == b.n && a.elemsize == b.elemsize)
}

unsafe extern "C" fn alloc_compare<T: Dense>(a: *mut c_void, b: *mut c_void) -> c_int {
    // SAFETY: the library gives two interfaces of this kind.
    let (a, b) = unsafe { (&*a.cast::<T>(), &*b.cast::<T>()) };
    c_int::from(a.allocsize() == b.allocsize())
}

unsafe extern "C" fn display<T: Dense>(handle: starpu_data_handle_t, stream: *mut FILE) {
    // SAFETY: the library gives a handle with interfaces of this kind.
    let form = unsafe { form::<T>(handle) };
    let text = if form.n.is_empty() {
        format!("{}\t", form.elemsize)
    } else {
        form.n.iter().map(|n| format!("{n}\t")).collect()
    };
    // SAFETY: the stream is the caller's, and open.
    unsafe { print(&text, stream) };
}

unsafe extern "C" fn describe<T: Dense>(
    interface: *mut c_void,
    text: *mut c_char,
    size: usize,
) -> starpu_ssize_t {
    // SAFETY: the library gives an interface of this kind.
    let form = unsafe { &*interface.cast::<T>() }.read();
    let numbers: Vec<String> = form.n.iter().chain([&form.elemsize]).map(usize::to_string).collect();
    // SAFETY: the buffer is as long as the caller says.
    unsafe { write_text(&format!("{}{}", T::LETTER, numbers.join("x")), text, size) }
}

unsafe extern "C" fn pack<T: Dense>(
    handle: starpu_data_handle_t,
    node: c_uint,
    ptr: *mut *mut c_void,
    count: *mut starpu_ssize_t,
) -> c_int {
    // SAFETY: the library gives a handle with interfaces of this kind.
    let form = unsafe { on_node::<T>(handle, node) }.read();
    let size = form.size();
    // SAFETY: `count` is valid, and `ptr` is if it is not null.
    unsafe {
        *count = size as starpu_ssize_t;
        if ptr.is_null() {
            return 0;
        }
        let block = starpu_malloc_on_node_flags(node, size, 0) as *mut u8;
        *ptr = block.cast();
        if block.is_null() {
            return -ENOMEM;
        }
        copy_strided(block, &form.packed(), form.address() as *const u8, &form.ld, &form.n, form.elemsize);
    }
    0
}

/// Appends the bytes that `pack_data` would write; false for data of another kind.
///
/// # Safety
/// `handle` has an interface of the kind `id`, with memory behind it.
#[cfg(feature = "mpi")]
pub(crate) unsafe fn append_packed(
    handle: starpu_data_handle_t,
    id: starpu_data_interface_id,
    to: &mut Vec<u8>,
) -> bool {
    // SAFETY: the caller's promise.
    let form = unsafe {
        match id {
            STARPU_VARIABLE_INTERFACE_ID => on_node::<starpu_variable_interface>(handle, 0).read(),
            STARPU_VECTOR_INTERFACE_ID => on_node::<starpu_vector_interface>(handle, 0).read(),
            STARPU_MATRIX_INTERFACE_ID => on_node::<starpu_matrix_interface>(handle, 0).read(),
            STARPU_BLOCK_INTERFACE_ID => on_node::<starpu_block_interface>(handle, 0).read(),
            STARPU_TENSOR_INTERFACE_ID => on_node::<starpu_tensor_interface>(handle, 0).read(),
            _ => return false,
        }
    };
    let (begin, size) = (to.len(), form.size());
    to.reserve(size);
    // SAFETY: there is room for `size` bytes, which are all written.
    unsafe {
        let from = form.address() as *const u8;
        copy_strided(to.as_mut_ptr().add(begin), &form.packed(), from, &form.ld, &form.n, form.elemsize);
        to.set_len(begin + size);
    }
    true
}

unsafe extern "C" fn peek<T: Dense>(
    handle: starpu_data_handle_t,
    node: c_uint,
    ptr: *mut c_void,
    count: usize,
) -> c_int {
    // SAFETY: the library gives a handle with interfaces of this kind.
    let form = unsafe { on_node::<T>(handle, node) }.read();
    if count != form.size() {
        report("starpu_data_unpack", &format!("{count} bytes were given for {}", form.size()));
        return -EINVAL;
    }
    // SAFETY: the block has as many bytes as the data.
    unsafe {
        copy_strided(form.address() as *mut u8, &form.ld, ptr.cast(), &form.packed(), &form.n, form.elemsize);
    }
    0
}

unsafe extern "C" fn unpack<T: Dense>(
    handle: starpu_data_handle_t,
    node: c_uint,
    ptr: *mut c_void,
    count: usize,
) -> c_int {
    // SAFETY: the caller's promise; the block is from `starpu_malloc_on_node_flags`.
    unsafe {
        let result = peek::<T>(handle, node, ptr, count);
        starpu_free_on_node_flags(node, ptr as usize, count, 0);
        result
    }
}

pub(super) unsafe extern "C" fn copy_any_to_any<T: Dense>(
    src: *mut c_void,
    src_node: c_uint,
    dst: *mut c_void,
    dst_node: c_uint,
    _async_data: *mut c_void,
) -> c_int {
    // SAFETY: the library gives two interfaces of this kind.
    let (from, to) = unsafe { ((*src.cast::<T>()).read(), (*dst.cast::<T>()).read()) };
    if from.address() != to.address() {
        let source = Placed { node: src_node, at: from.address(), ld: &from.ld };
        let target = Placed { node: dst_node, at: to.address(), ld: &to.ld };
        // SAFETY: both are allocated and have the same size.
        unsafe { copy_array(target, source, &from.n, from.elemsize) };
        starpu_interface_data_copy(src_node, dst_node, from.size());
    }
    0
}

/// The table of a kind.
pub(super) const fn ops<T: Dense>() -> starpu_data_interface_ops {
    starpu_data_interface_ops {
        register_data_handle: Some(register::<T>),
        allocate_data_on_node: Some(allocate::<T>),
        free_data_on_node: Some(free_data::<T>),
        cache_data_on_node: Some(cache::<T>),
        reuse_data_on_node: Some(reuse::<T>),
        map_data: Some(map::<T>),
        unmap_data: Some(unmap::<T>),
        update_map: Some(update_map),
        copy_methods: T::COPIES,
        to_pointer: Some(to_pointer::<T>),
        pointer_is_inside: Some(pointer_is_inside::<T>),
        get_size: Some(get_size::<T>),
        footprint: Some(footprint::<T>),
        compare: Some(compare::<T>),
        display: Some(display::<T>),
        describe: Some(describe::<T>),
        interfaceid: T::ID,
        interface_size: size_of::<T>(),
        pack_data: Some(pack::<T>),
        peek_data: Some(peek::<T>),
        unpack_data: Some(unpack::<T>),
        name: T::NAME.as_ptr().cast_mut(),
        ..NO_OPS
    }
}

/// The table of a kind whose allocations may be larger than what is used of them.
pub(super) const fn ops_with_allocsize<T: Dense>() -> starpu_data_interface_ops {
    starpu_data_interface_ops {
        get_alloc_size: Some(get_alloc_size::<T>),
        alloc_footprint: Some(alloc_footprint::<T>),
        alloc_compare: Some(alloc_compare::<T>),
        ..ops::<T>()
    }
}

/// The table of variables.
#[unsafe(no_mangle)]
pub static mut starpu_interface_variable_ops: starpu_data_interface_ops = ops::<starpu_variable_interface>();
/// The table of vectors.
#[unsafe(no_mangle)]
pub static mut starpu_interface_vector_ops: starpu_data_interface_ops = starpu_data_interface_ops {
    init: Some(init::<starpu_vector_interface>),
    ..ops_with_allocsize::<starpu_vector_interface>()
};
/// The table of matrices.
#[unsafe(no_mangle)]
pub static mut starpu_interface_matrix_ops: starpu_data_interface_ops =
    starpu_data_interface_ops { init: Some(init_matrix), ..ops_with_allocsize::<starpu_matrix_interface>() };
/// The table of blocks.
#[unsafe(no_mangle)]
pub static mut starpu_interface_block_ops: starpu_data_interface_ops = ops::<starpu_block_interface>();
/// The table of tensors.
#[unsafe(no_mangle)]
pub static mut starpu_interface_tensor_ops: starpu_data_interface_ops = ops::<starpu_tensor_interface>();
/// The table of arrays of any number of dimensions.
#[unsafe(no_mangle)]
pub static mut starpu_interface_ndim_ops: starpu_data_interface_ops = starpu_data_interface_ops {
    unregister_data_handle: Some(unregister::<starpu_ndim_interface>),
    alloc_compare: Some(alloc_compare::<starpu_ndim_interface>),
    ..ops::<starpu_ndim_interface>()
};
