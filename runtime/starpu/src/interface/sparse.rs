//! Sparse matrices: rows (CSR), rows of blocks (BCSR), and lists of coordinates (COO).
//!
//! Each of them consists of three arrays, so that the operations are written once.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use super::*;
use crate::instance::errno::EINVAL;
use crate::memory::*;
use crate::util::starpu_hash_crc32c_be;

/// An array of a sparse matrix: where it lies, and its bytes.
#[derive(Clone, Copy)]
struct Part {
    address: usize,
    bytes: usize,
}

/// A sparse matrix of three arrays, in the order in which they are packed.
trait Sparse: Copy + 'static {
    const ID: starpu_data_interface_id;
    const NAME: &'static CStr;
    const COPIES: &'static starpu_data_copy_methods = &starpu_data_copy_methods {
        any_to_any: Some(copy_any_to_any::<Self>),
        ..starpu_data_copy_methods::NONE
    };

    fn id(&self) -> starpu_data_interface_id;
    fn parts(&self) -> [Part; 3];
    fn set_addresses(&mut self, addresses: [usize; 3]);
    /// Address of the values.
    fn values(&self) -> usize;
    /// Sizes that two matrices share if one can take the place of the other.
    fn sizes(&self) -> [u64; 6];
    /// Hash of the sizes, for a footprint.
    fn hash(&self) -> u32;
    fn describe(&self) -> String;
    fn display(&self) -> String;
    /// Keeps the indices that every node can read: those of the home node.
    fn keep_indices(&mut self, _of: Option<&Self>) {}
}

macro_rules! rows {
    ($type:ident, $id:ident, $name:literal, $values:expr, $sizes:expr, $hash:expr, $describe:expr) => {
        impl Sparse for $type {
            const ID: starpu_data_interface_id = $id;
            const NAME: &'static CStr = $name;

            fn id(&self) -> starpu_data_interface_id {
                self.id
            }

            fn parts(&self) -> [Part; 3] {
                let nnz = self.nnz as usize;
                [
                    Part { address: self.colind as usize, bytes: 4 * nnz },
                    Part { address: self.rowptr as usize, bytes: 4 * (self.nrow as usize + 1) },
                    Part { address: self.nzval, bytes: $values(self) },
                ]
            }

            fn set_addresses(&mut self, [colind, rowptr, nzval]: [usize; 3]) {
                (self.colind, self.rowptr, self.nzval) = (colind as *mut u32, rowptr as *mut u32, nzval);
            }

            fn values(&self) -> usize {
                self.nzval
            }

            fn sizes(&self) -> [u64; 6] {
                $sizes(self)
            }

            fn hash(&self) -> u32 {
                $hash(self)
            }

            fn describe(&self) -> String {
                $describe(self)
            }

            fn display(&self) -> String {
                format!("{}\t{}\t", self.nnz, self.nrow)
            }

            fn keep_indices(&mut self, of: Option<&Self>) {
                let nowhere = std::ptr::null_mut();
                (self.ram_colind, self.ram_rowptr) =
                    of.map_or((nowhere, nowhere), |of| (of.colind, of.rowptr));
            }
        }
    };
}

rows!(
    starpu_csr_interface,
    STARPU_CSR_INTERFACE_ID,
    c"STARPU_CSR_INTERFACE",
    |m: &Self| m.nnz as usize * m.elemsize,
    |m: &Self| [m.nnz.into(), m.nrow.into(), m.elemsize as u64, 0, 0, 0],
    |m: &Self| starpu_hash_crc32c_be(m.nnz, 0),
    |m: &Self| format!("C{}x{}x{}", m.nnz, m.nrow, m.elemsize)
);
rows!(
    starpu_bcsr_interface,
    STARPU_BCSR_INTERFACE_ID,
    c"STARPU_BCSR_INTERFACE",
    |m: &Self| m.nnz as usize * m.r as usize * m.c as usize * m.elemsize,
    |m: &Self| [m.nnz.into(), m.nrow.into(), m.elemsize as u64, m.r.into(), m.c.into(), 0],
    |m: &Self| [m.nnz, m.c, m.r].into_iter().fold(0, |hash, n| starpu_hash_crc32c_be(n, hash)),
    |m: &Self| format!("b{}x{}x{}x{}x{}", m.nnz, m.nrow, m.r, m.c, m.elemsize)
);

impl Sparse for starpu_coo_interface {
    const ID: starpu_data_interface_id = STARPU_COO_INTERFACE_ID;
    const NAME: &'static CStr = c"STARPU_COO_INTERFACE";

    fn id(&self) -> starpu_data_interface_id {
        self.id
    }

    fn parts(&self) -> [Part; 3] {
        let n = self.n_values as usize;
        [
            Part { address: self.columns as usize, bytes: 4 * n },
            Part { address: self.rows as usize, bytes: 4 * n },
            Part { address: self.values, bytes: n * self.elemsize },
        ]
    }

    fn set_addresses(&mut self, [columns, rows, values]: [usize; 3]) {
        (self.columns, self.rows, self.values) = (columns as *mut u32, rows as *mut u32, values);
    }

    fn values(&self) -> usize {
        self.values
    }

    fn sizes(&self) -> [u64; 6] {
        [self.n_values.into(), self.nx.into(), self.ny.into(), self.elemsize as u64, 0, 0]
    }

    fn hash(&self) -> u32 {
        starpu_hash_crc32c_be(self.nx, self.ny)
    }

    fn describe(&self) -> String {
        format!("M{}x{}x{}x{}", self.nx, self.ny, self.n_values, self.elemsize)
    }

    fn display(&self) -> String {
        format!("{}\t{}\t{}\t", self.nx, self.ny, self.n_values)
    }
}

// ---- The operations of the table ---------------------------------------------------------------

unsafe extern "C" fn register<T: Sparse>(handle: starpu_data_handle_t, home: c_int, interface: *mut c_void) {
    // SAFETY: the library gives the interface that the handle was registered with.
    let given = unsafe { *interface.cast::<T>() };
    for node in 0..STARPU_MAXNODES {
        // SAFETY: all interfaces of the handle are of this kind.
        let local = unsafe { on_node::<T>(handle, node as c_uint) };
        *local = given;
        if node as c_int != home {
            local.set_addresses([0; 3]);
        }
        local.keep_indices((home >= 0).then_some(&given));
    }
}

unsafe extern "C" fn allocate<T: Sparse>(interface: *mut c_void, node: c_uint) -> starpu_ssize_t {
    // SAFETY: the library gives an interface of this kind.
    let interface = unsafe { &mut *interface.cast::<T>() };
    let parts = interface.parts();
    let mut addresses = [0; 3];
    for i in 0..parts.len() {
        // An array without elements has no place.
        if parts[i].bytes == 0 {
            continue;
        }
        addresses[i] = starpu_malloc_on_node(node, parts[i].bytes);
        if addresses[i] == 0 {
            for k in 0..i {
                if addresses[k] != 0 {
                    // SAFETY: these are from the calls above.
                    unsafe { starpu_free_on_node(node, addresses[k], parts[k].bytes) };
                }
            }
            return -ENOMEM as starpu_ssize_t;
        }
    }
    interface.set_addresses(addresses);
    parts.iter().map(|part| part.bytes).sum::<usize>() as starpu_ssize_t
}

unsafe extern "C" fn free_data<T: Sparse>(interface: *mut c_void, node: c_uint) {
    // SAFETY: the library gives an interface of this kind, allocated by `allocate`.
    let interface = unsafe { &mut *interface.cast::<T>() };
    for part in interface.parts() {
        if part.address != 0 && part.bytes != 0 {
            // SAFETY: as above.
            unsafe { starpu_free_on_node(node, part.address, part.bytes) };
        }
    }
    interface.set_addresses([0; 3]);
}

unsafe extern "C" fn cache<T: Sparse>(cached: *mut c_void, from: *mut c_void, _node: c_uint) {
    // SAFETY: the library gives two interfaces of this kind.
    let (cached, from) = unsafe { (&mut *cached.cast::<T>(), &mut *from.cast::<T>()) };
    cached.set_addresses(from.parts().map(|part| part.address));
    from.set_addresses([0; 3]);
}

unsafe extern "C" fn reuse<T: Sparse>(to: *mut c_void, cached: *const c_void, _node: c_uint) {
    // SAFETY: the library gives two interfaces of this kind.
    let (to, cached) = unsafe { (&mut *to.cast::<T>(), &*cached.cast::<T>()) };
    to.set_addresses(cached.parts().map(|part| part.address));
}

unsafe extern "C" fn to_pointer<T: Sparse>(interface: *mut c_void, _node: c_uint) -> *mut c_void {
    // SAFETY: the library gives an interface of this kind.
    unsafe { &*interface.cast::<T>() }.values() as *mut c_void
}

unsafe extern "C" fn pointer_is_inside<T: Sparse>(
    interface: *mut c_void,
    _node: c_uint,
    ptr: *mut c_void,
) -> c_int {
    // SAFETY: the library gives an interface of this kind.
    let parts = unsafe { &*interface.cast::<T>() }.parts();
    let inside = |part: &Part| (part.address..part.address + part.bytes).contains(&(ptr as usize));
    c_int::from(parts.iter().any(inside))
}

/// The interface of a handle on the main node, where sizes stand even if nothing is allocated.
///
/// # Safety
/// `handle` has interfaces of this kind.
unsafe fn main_node<'a, T: Sparse>(handle: starpu_data_handle_t) -> &'a T {
    // SAFETY: the caller's promise.
    unsafe { on_node::<T>(handle, STARPU_MAIN_RAM as c_uint) }
}

fn size_of_parts<T: Sparse>(interface: &T) -> usize {
    interface.parts().iter().map(|part| part.bytes).sum()
}

unsafe extern "C" fn get_size<T: Sparse>(handle: starpu_data_handle_t) -> usize {
    // SAFETY: the library gives a handle with interfaces of this kind.
    size_of_parts(unsafe { main_node::<T>(handle) })
}

unsafe extern "C" fn footprint<T: Sparse>(handle: starpu_data_handle_t) -> u32 {
    // SAFETY: the library gives a handle with interfaces of this kind.
    unsafe { main_node::<T>(handle) }.hash()
}

unsafe extern "C" fn compare<T: Sparse>(a: *mut c_void, b: *mut c_void) -> c_int {
    // SAFETY: the library gives two interfaces of this kind.
    let (a, b) = unsafe { (&*a.cast::<T>(), &*b.cast::<T>()) };
    c_int::from(a.sizes() == b.sizes())
}

unsafe extern "C" fn display<T: Sparse>(handle: starpu_data_handle_t, stream: *mut FILE) {
    // SAFETY: the library gives a handle with interfaces of this kind, and an open stream.
    unsafe { print(&main_node::<T>(handle).display(), stream) };
}

unsafe extern "C" fn describe<T: Sparse>(
    interface: *mut c_void,
    text: *mut c_char,
    size: usize,
) -> starpu_ssize_t {
    // SAFETY: the library gives an interface of this kind, and a buffer of that size.
    unsafe { write_text(&(*interface.cast::<T>()).describe(), text, size) }
}

unsafe extern "C" fn pack<T: Sparse>(
    handle: starpu_data_handle_t,
    node: c_uint,
    ptr: *mut *mut c_void,
    count: *mut starpu_ssize_t,
) -> c_int {
    // SAFETY: the library gives a handle with interfaces of this kind.
    let interface = unsafe { on_node::<T>(handle, node) };
    let size = size_of_parts(interface);
    // SAFETY: `count` is valid, and `ptr` is if it is not null.
    unsafe {
        *count = size as starpu_ssize_t;
        if ptr.is_null() {
            return 0;
        }
        let mut at = starpu_malloc_on_node_flags(node, size, 0) as *mut u8;
        *ptr = at.cast();
        if at.is_null() {
            return -ENOMEM;
        }
        for part in interface.parts() {
            std::ptr::copy_nonoverlapping(part.address as *const u8, at, part.bytes);
            at = at.add(part.bytes);
        }
    }
    0
}

unsafe extern "C" fn peek<T: Sparse>(
    handle: starpu_data_handle_t,
    node: c_uint,
    ptr: *mut c_void,
    count: usize,
) -> c_int {
    // SAFETY: the library gives a handle with interfaces of this kind.
    let interface = unsafe { on_node::<T>(handle, node) };
    let size = size_of_parts(interface);
    if count != size {
        report("starpu_data_unpack", &format!("{count} bytes were given for {size}"));
        return -EINVAL;
    }
    let mut at = ptr.cast::<u8>().cast_const();
    for part in interface.parts() {
        // SAFETY: the block has as many bytes as the three arrays.
        unsafe {
            std::ptr::copy_nonoverlapping(at, part.address as *mut u8, part.bytes);
            at = at.add(part.bytes);
        }
    }
    0
}

unsafe extern "C" fn unpack<T: Sparse>(
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

unsafe extern "C" fn copy_any_to_any<T: Sparse>(
    src: *mut c_void,
    src_node: c_uint,
    dst: *mut c_void,
    dst_node: c_uint,
    _async_data: *mut c_void,
) -> c_int {
    // SAFETY: the library gives two interfaces of this kind.
    let (from, to) = unsafe { (&*src.cast::<T>(), &*dst.cast::<T>()) };
    for (from, to) in from.parts().iter().zip(to.parts()) {
        if from.address != to.address && from.bytes > 0 {
            // SAFETY: both matrices are allocated and have the same sizes.
            unsafe {
                let (to, from_at) = (to.address as *mut u8, from.address as *const u8);
                copy_runs_between(dst_node as usize, src_node as usize, |copy| copy(to, from_at, from.bytes));
            }
        }
    }
    starpu_interface_data_copy(src_node, dst_node, size_of_parts(from));
    0
}

/// The table of a kind.
const fn ops<T: Sparse>() -> starpu_data_interface_ops {
    starpu_data_interface_ops {
        register_data_handle: Some(register::<T>),
        allocate_data_on_node: Some(allocate::<T>),
        free_data_on_node: Some(free_data::<T>),
        cache_data_on_node: Some(cache::<T>),
        reuse_data_on_node: Some(reuse::<T>),
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

/// The table of sparse matrices by rows.
#[unsafe(no_mangle)]
pub static mut starpu_interface_csr_ops: starpu_data_interface_ops = ops::<starpu_csr_interface>();
/// The table of sparse matrices by rows of blocks.
#[unsafe(no_mangle)]
pub static mut starpu_interface_bcsr_ops: starpu_data_interface_ops = ops::<starpu_bcsr_interface>();
/// The table of lists of coordinates.
#[unsafe(no_mangle)]
pub static mut starpu_interface_coo_ops: starpu_data_interface_ops = ops::<starpu_coo_interface>();

// ---- Registration ------------------------------------------------------------------------------

/// Registers a sparse matrix by rows.
///
/// # Safety
/// All pointers are valid, and the arrays have the lengths that the sizes say, unless the home
/// node is -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_csr_data_register(
    handle: *mut starpu_data_handle_t,
    home_node: c_int,
    nnz: u32,
    nrow: u32,
    nzval: usize,
    colind: *mut u32,
    rowptr: *mut u32,
    firstentry: u32,
    elemsize: usize,
) {
    let mut interface = starpu_csr_interface {
        id: STARPU_CSR_INTERFACE_ID,
        nnz,
        nrow,
        nzval,
        colind,
        rowptr,
        ram_colind: colind,
        ram_rowptr: rowptr,
        firstentry,
        elemsize,
    };
    // SAFETY: the caller's promise; the interface is copied.
    unsafe {
        starpu_data_register(
            handle,
            home_node,
            (&raw mut interface).cast(),
            &raw mut starpu_interface_csr_ops,
        );
    }
}

/// Registers a sparse matrix by rows of blocks of `r` by `c` elements.
///
/// # Safety
/// As for [`starpu_csr_data_register`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_bcsr_data_register(
    handle: *mut starpu_data_handle_t,
    home_node: c_int,
    nnz: u32,
    nrow: u32,
    nzval: usize,
    colind: *mut u32,
    rowptr: *mut u32,
    firstentry: u32,
    r: u32,
    c: u32,
    elemsize: usize,
) {
    let mut interface = starpu_bcsr_interface {
        id: STARPU_BCSR_INTERFACE_ID,
        nnz,
        nrow,
        nzval,
        colind,
        rowptr,
        ram_colind: colind,
        ram_rowptr: rowptr,
        firstentry,
        r,
        c,
        elemsize,
    };
    // SAFETY: the caller's promise; the interface is copied.
    unsafe {
        starpu_data_register(
            handle,
            home_node,
            (&raw mut interface).cast(),
            &raw mut starpu_interface_bcsr_ops,
        );
    }
}

/// Registers a sparse matrix as a list of coordinates.
///
/// # Safety
/// As for [`starpu_csr_data_register`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_coo_data_register(
    handle: *mut starpu_data_handle_t,
    home_node: c_int,
    nx: u32,
    ny: u32,
    n_values: u32,
    columns: *mut u32,
    rows: *mut u32,
    values: usize,
    elemsize: usize,
) {
    let id = STARPU_COO_INTERFACE_ID;
    let mut interface = starpu_coo_interface { id, columns, rows, values, nx, ny, n_values, elemsize };
    // SAFETY: the caller's promise; the interface is copied.
    unsafe {
        starpu_data_register(
            handle,
            home_node,
            (&raw mut interface).cast(),
            &raw mut starpu_interface_coo_ops,
        );
    }
}

// ---- Questions about handles -------------------------------------------------------------------

macro_rules! properties {
    ($($function:ident: $type:ident.$field:ident -> $result:ty, $node:expr;)*) => {$(
        /// Gives this property of the data.
        ///
        /// # Safety
        /// `handle` is registered.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(handle: starpu_data_handle_t) -> $result {
            // SAFETY: the caller's promise; every interface begins with its number.
            let interface = unsafe { on_node::<$type>(handle, $node) };
            if interface.id() != <$type as Sparse>::ID {
                misuse(stringify!($function), "the data is no sparse matrix of this kind");
            }
            interface.$field
        }
    )*};
}

properties! {
    starpu_csr_get_nnz: starpu_csr_interface.nnz -> u32, 0;
    starpu_csr_get_nrow: starpu_csr_interface.nrow -> u32, 0;
    starpu_csr_get_firstentry: starpu_csr_interface.firstentry -> u32, 0;
    starpu_csr_get_elemsize: starpu_csr_interface.elemsize -> usize, 0;
    starpu_csr_get_local_nzval: starpu_csr_interface.nzval -> usize, starpu_worker_get_local_memory_node();
    starpu_csr_get_local_colind: starpu_csr_interface.colind -> *mut u32, starpu_worker_get_local_memory_node();
    starpu_csr_get_local_rowptr: starpu_csr_interface.rowptr -> *mut u32, starpu_worker_get_local_memory_node();
    starpu_bcsr_get_nnz: starpu_bcsr_interface.nnz -> u32, 0;
    starpu_bcsr_get_nrow: starpu_bcsr_interface.nrow -> u32, 0;
    starpu_bcsr_get_firstentry: starpu_bcsr_interface.firstentry -> u32, 0;
    starpu_bcsr_get_r: starpu_bcsr_interface.r -> u32, 0;
    starpu_bcsr_get_c: starpu_bcsr_interface.c -> u32, 0;
    starpu_bcsr_get_elemsize: starpu_bcsr_interface.elemsize -> usize, 0;
    starpu_bcsr_get_local_nzval: starpu_bcsr_interface.nzval -> usize, starpu_worker_get_local_memory_node();
    starpu_bcsr_get_local_colind: starpu_bcsr_interface.colind -> *mut u32, starpu_worker_get_local_memory_node();
    starpu_bcsr_get_local_rowptr: starpu_bcsr_interface.rowptr -> *mut u32, starpu_worker_get_local_memory_node();
}
