//! Data with strides: variables, vectors, matrices, blocks, tensors, and arrays of any dimension.
//!
//! All of them are read into and written from one form, [`Strided`], so that each operation and
//! each filter is written once.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use smallvec::SmallVec;

use super::*;
use crate::c::{calloc, free};
use crate::instance::errno::EINVAL;
use crate::memory::*;
use crate::util::starpu_hash_crc32c_be;

pub(crate) type Dims = SmallVec<[usize; 6]>;

/// Place of data, and the length of each dimension with the distance of its neighbours, both in
/// elements.
#[derive(Clone, Debug)]
pub(crate) struct Strided {
    pub ptr: usize,
    pub dev_handle: usize,
    pub offset: usize,
    pub elemsize: usize,
    pub n: Dims,
    pub ld: Dims,
}

impl Strided {
    /// Address of the first element, or 0 if nothing is allocated.
    pub fn address(&self) -> usize {
        match (self.ptr, self.dev_handle) {
            (0, 0) => 0,
            (0, dev_handle) => dev_handle + self.offset,
            (ptr, _) => ptr,
        }
    }

    pub fn is_allocated(&self) -> bool {
        self.ptr != 0 || self.dev_handle != 0
    }

    /// Moves the first element.
    pub fn advance(&mut self, elements: usize) {
        let bytes = elements * self.elemsize;
        if self.ptr != 0 {
            self.ptr += bytes;
        }
        if self.dev_handle != 0 {
            self.offset += bytes;
        }
    }

    /// Bytes without gaps.
    pub fn size(&self) -> usize {
        self.n.iter().product::<usize>() * self.elemsize
    }

    /// Bytes with the gaps of the last dimension where it is allocated.
    pub fn extent(&self) -> usize {
        match (self.n.last(), self.ld.last()) {
            (Some(n), Some(ld)) if self.is_allocated() => n * ld * self.elemsize,
            _ => self.size(),
        }
    }

    /// Distances of an array without gaps.
    pub fn packed(&self) -> Dims {
        let mut step = 1;
        self.n
            .iter()
            .map(|n| {
                let ld = step;
                step *= n;
                ld
            })
            .collect()
    }
}

/// An interface with strides.
pub(crate) trait Dense: Copy + 'static {
    const ID: starpu_data_interface_id;
    /// Name of the kind in messages.
    const KIND: &'static str;
    const NAME: &'static CStr;
    /// The letter that descriptions begin with.
    const LETTER: char;
    /// Functions that copy data of this kind.
    const COPIES: &'static starpu_data_copy_methods = &starpu_data_copy_methods {
        any_to_any: Some(copy_any_to_any::<Self>),
        ..starpu_data_copy_methods::NONE
    };

    fn id(&self) -> starpu_data_interface_id;
    fn read(&self) -> Strided;
    /// Becomes what `form` says; the place and the distances only where that is allocated.
    fn write(&mut self, form: &Strided);
    fn place(&mut self) -> [&mut usize; 3];
    fn set_ld(&mut self, ld: &[usize]);
    /// Bytes that an allocation of its own takes.
    fn allocsize(&self) -> usize {
        self.read().size()
    }
    /// Becomes a copy of `other` that shares nothing with it.
    fn adopt(&mut self, other: &Self) {
        *self = *other;
    }
    /// Frees what `adopt` and `write` allocated beside the data.
    fn discard(&mut self) {}
}

/// Bytes to allocate for data of `size` bytes. Filters of programs may leave the room that they
/// want open, or at nothing.
fn whole(allocsize: usize, size: usize) -> usize {
    if allocsize == usize::MAX { size } else { allocsize.max(size) }
}

macro_rules! dense {
    ($type:ident, $id:ident, $kind:literal, $name:literal, $letter:literal, [$($n:ident)*], [$($ld:ident)*]
        $(, $allocsize:ident)?) => {
        impl Dense for $type {
            const ID: starpu_data_interface_id = $id;
            const KIND: &'static str = $kind;
            const NAME: &'static CStr = $name;
            const LETTER: char = $letter;

            fn id(&self) -> starpu_data_interface_id {
                self.id
            }

            fn read(&self) -> Strided {
                // The first dimension has no gaps.
                #[allow(unused_mut)]
                let mut ld = Dims::new();
                let n: Dims = [$(self.$n),*].into_iter().collect();
                if !n.is_empty() {
                    ld.push(1);
                }
                $(ld.push(self.$ld);)*
                Strided {
                    ptr: self.ptr,
                    dev_handle: self.dev_handle,
                    offset: self.offset,
                    elemsize: self.elemsize,
                    n,
                    ld,
                }
            }

            fn write(&mut self, form: &Strided) {
                self.id = $id;
                self.elemsize = form.elemsize;
                let [$($n),*] = form.n[..] else { misuse(concat!("a filter for a ", $kind), "other dimensions") };
                $(self.$n = $n;)*
                if form.is_allocated() {
                    (self.ptr, self.dev_handle, self.offset) = (form.ptr, form.dev_handle, form.offset);
                    self.set_ld(&form.ld);
                }
                $(self.$allocsize = form.extent();)?
            }

            fn place(&mut self) -> [&mut usize; 3] {
                [&mut self.ptr, &mut self.dev_handle, &mut self.offset]
            }

            #[allow(unused_mut, unused_variables)]
            fn set_ld(&mut self, ld: &[usize]) {
                let mut of = ld.iter().skip(1);
                $(self.$ld = of.next().copied().unwrap_or(0);)*
            }

            $(
                fn allocsize(&self) -> usize {
                    whole(self.$allocsize, self.read().size())
                }
            )?
        }
    };
}

dense!(
    starpu_variable_interface,
    STARPU_VARIABLE_INTERFACE_ID,
    "variable",
    c"STARPU_VARIABLE_INTERFACE",
    'v',
    [],
    []
);
dense!(
    starpu_vector_interface,
    STARPU_VECTOR_INTERFACE_ID,
    "vector",
    c"STARPU_VECTOR_INTERFACE",
    'V',
    [nx],
    [],
    allocsize
);
dense!(
    starpu_matrix_interface,
    STARPU_MATRIX_INTERFACE_ID,
    "matrix",
    c"STARPU_MATRIX_INTERFACE",
    'M',
    [nx ny],
    [ld],
    allocsize
);
dense!(
    starpu_block_interface,
    STARPU_BLOCK_INTERFACE_ID,
    "block",
    c"STARPU_BLOCK_INTERFACE",
    'B',
    [nx ny nz],
    [ldy ldz]
);
dense!(
    starpu_tensor_interface,
    STARPU_TENSOR_INTERFACE_ID,
    "tensor",
    c"STARPU_TENSOR_INTERFACE",
    'T',
    [nx ny nz nt],
    [ldy ldz ldt]
);

/// A list of C of `n` numbers, all `value`s of the iterator.
fn list(values: impl ExactSizeIterator<Item = usize>) -> *mut usize {
    let n = values.len();
    // SAFETY: any number may be asked for; one more keeps the list of no dimensions from being
    // null.
    let list = unsafe { calloc(n + 1, size_of::<usize>()) }.cast::<usize>();
    if list.is_null() {
        misuse("starpu_ndim_interface", &format!("no memory for {n} dimensions"));
    }
    for (i, value) in values.enumerate() {
        // SAFETY: the list has `n + 1` entries.
        unsafe { *list.add(i) = value };
    }
    list
}

/// # Safety
/// `list` is null or has `n` entries.
unsafe fn dims(list: *const usize, n: usize) -> Dims {
    if list.is_null() {
        return std::iter::repeat_n(0, n).collect();
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(list, n) }.iter().copied().collect()
}

impl Dense for starpu_ndim_interface {
    const ID: starpu_data_interface_id = STARPU_NDIM_INTERFACE_ID;
    const KIND: &'static str = "array";
    const NAME: &'static CStr = c"STARPU_NDIM_INTERFACE";
    const LETTER: char = 'N';

    fn id(&self) -> starpu_data_interface_id {
        self.id
    }

    fn read(&self) -> Strided {
        Strided {
            ptr: self.ptr,
            dev_handle: self.dev_handle,
            offset: self.offset,
            elemsize: self.elemsize,
            // SAFETY: both lists of an array have an entry for each dimension.
            n: unsafe { dims(self.nn, self.ndim) },
            // SAFETY: as above.
            ld: unsafe { dims(self.ldn, self.ndim) },
        }
    }

    fn write(&mut self, form: &Strided) {
        // Filters write into the same part again when its parent has moved.
        if self.id == STARPU_NDIM_INTERFACE_ID {
            self.discard();
        }
        self.id = STARPU_NDIM_INTERFACE_ID;
        self.ndim = form.n.len();
        self.elemsize = form.elemsize;
        self.allocsize = form.extent();
        self.nn = list(form.n.iter().copied());
        if form.is_allocated() {
            (self.ptr, self.dev_handle, self.offset) = (form.ptr, form.dev_handle, form.offset);
            self.ldn = list(form.ld.iter().copied());
        } else {
            self.ldn = list(std::iter::repeat_n(0, form.n.len()));
        }
    }

    fn place(&mut self) -> [&mut usize; 3] {
        [&mut self.ptr, &mut self.dev_handle, &mut self.offset]
    }

    fn set_ld(&mut self, ld: &[usize]) {
        for (i, ld) in ld.iter().enumerate().take(self.ndim) {
            if !self.ldn.is_null() {
                // SAFETY: the list has an entry for each dimension.
                unsafe { *self.ldn.add(i) = *ld };
            }
        }
    }

    fn allocsize(&self) -> usize {
        whole(self.allocsize, self.read().size())
    }

    fn adopt(&mut self, other: &Self) {
        *self = *other;
        let form = other.read();
        self.nn = list(form.n.iter().copied());
        self.ldn = list(form.ld.iter().copied());
    }

    fn discard(&mut self) {
        // SAFETY: both lists are null or from `list`, and are forgotten here.
        unsafe {
            free(std::mem::replace(&mut self.nn, std::ptr::null_mut()).cast());
            free(std::mem::replace(&mut self.ldn, std::ptr::null_mut()).cast());
        }
    }
}

// ---- The operations of the table ---------------------------------------------------------------

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
fn move_memory<T: Dense>(to: &mut T, mut from: T) {
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
unsafe fn form<T: Dense>(handle: starpu_data_handle_t) -> Strided {
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

unsafe extern "C" fn copy_any_to_any<T: Dense>(
    src: *mut c_void,
    src_node: c_uint,
    dst: *mut c_void,
    dst_node: c_uint,
    _async_data: *mut c_void,
) -> c_int {
    // SAFETY: the library gives two interfaces of this kind.
    let (from, to) = unsafe { ((*src.cast::<T>()).read(), (*dst.cast::<T>()).read()) };
    if from.address() != to.address() {
        // SAFETY: both are allocated and have the same size.
        unsafe {
            copy_strided(
                to.address() as *mut u8,
                &to.ld,
                from.address() as *const u8,
                &from.ld,
                &from.n,
                from.elemsize,
            );
        }
        starpu_interface_data_copy(src_node, dst_node, from.size());
    }
    0
}

/// The table of a kind.
const fn ops<T: Dense>() -> starpu_data_interface_ops {
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
const fn ops_with_allocsize<T: Dense>() -> starpu_data_interface_ops {
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

// ---- Registration ------------------------------------------------------------------------------

/// Registers data with an interface of any kind.
///
/// # Safety
/// `handle` is valid, and the table is that of `T`.
unsafe fn register_as<T>(
    handle: *mut starpu_data_handle_t,
    home_node: c_int,
    mut interface: T,
    ops: *mut starpu_data_interface_ops,
) {
    // SAFETY: the caller's promise; the interface is copied.
    unsafe { starpu_data_register(handle, home_node, (&raw mut interface).cast(), ops) };
}

/// Distances that are too short would let rows overlap.
fn check_ld(function: &str, pairs: &[(usize, usize)]) {
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

// ---- Questions about handles -------------------------------------------------------------------

/// The interface of a handle on the main node, if it is of this kind.
///
/// # Safety
/// `handle` is registered.
unsafe fn checked<'a, T: Dense>(handle: starpu_data_handle_t, node: c_uint, function: &str) -> &'a mut T {
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
