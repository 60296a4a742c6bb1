//! The predefined filters, which make the parts of a piece of data as views into it.
//!
//! Filters of data with strides cut along one dimension, or leave one out; each kind of data only
//! says which. `STARPU_*_shadow` filters let neighbours share elements at their borders.

use std::ffi::{c_int, c_uint, c_void};

use crate::interface::{
    Dense, Strided, misuse, starpu_bcsr_get_nnz, starpu_interface_block_ops, starpu_interface_matrix_ops,
    starpu_interface_tensor_ops, starpu_interface_variable_ops, starpu_interface_vector_ops,
};
use crate::types::*;

unsafe extern "C" {
    fn starpu_data_get_nb_children(handle: starpu_data_handle_t) -> c_int;
    fn starpu_data_get_child(handle: starpu_data_handle_t, i: c_uint) -> starpu_data_handle_t;
    fn starpu_data_partition(handle: starpu_data_handle_t, filter: *mut starpu_data_filter);
}

/// Length and first element of part `id` when `n` elements are cut into `parts`: the first parts
/// have one element more where it doesn't come out even.
fn chunk(n: usize, parts: usize, id: usize) -> (usize, usize) {
    let (length, rest) = (n / parts, n % parts);
    (length + usize::from(id < rest), id * length + id.min(rest))
}

/// Gives the length of part `id` of `n` elements in `nparts`, and where it begins in bytes when
/// elements are `blocksize` apart.
///
/// # Safety
/// `chunk_size` is valid; `offset` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_filter_nparts_compute_chunk_size_and_offset(
    n: c_uint,
    nparts: c_uint,
    elemsize: usize,
    id: c_uint,
    blocksize: usize,
    chunk_size: *mut usize,
    offset: *mut usize,
) {
    if nparts == 0 {
        misuse("starpu_filter_nparts_compute_chunk_size_and_offset", "there are no parts");
    }
    let (length, first) = chunk(n as usize, nparts as usize, id as usize);
    // SAFETY: the caller's promise.
    unsafe {
        *chunk_size = length;
        if !offset.is_null() {
            *offset = first * blocksize * elemsize;
        }
    }
}

/// The form of the parent, if it is of the kind that the filter is for.
///
/// # Safety
/// `parent` is an interface.
unsafe fn parent_form<T: Dense>(parent: *mut c_void, function: &str) -> Strided {
    // SAFETY: every interface begins with its number.
    let parent = unsafe { &*parent.cast::<T>() };
    if parent.id() != T::ID {
        misuse(function, &format!("the data is no {}", T::KIND));
    }
    parent.read()
}

/// Writes the form of a part.
///
/// # Safety
/// `child` is an interface of this kind.
unsafe fn write<T: Dense>(child: *mut c_void, form: &Strided) {
    // SAFETY: the caller's promise.
    unsafe { &mut *child.cast::<T>() }.write(form);
}

/// Part `id` of `parts` along a dimension, with `shadow` elements of each neighbour.
fn block(mut form: Strided, d: usize, shadow: usize, id: usize, parts: usize, function: &str) -> Strided {
    let Some(n) = form.n[d].checked_sub(2 * shadow).filter(|n| parts <= *n && parts > 0) else {
        misuse(function, &format!("{} elements cannot be cut into {parts} parts", form.n[d]));
    };
    let (length, first) = chunk(n, parts, id);
    form.n[d] = length + 2 * shadow;
    form.advance(first * form.ld[d]);
    form
}

/// Returns the elements at one place of a dimension, without that dimension.
fn pick(mut form: Strided, d: usize, at: usize, parts: usize, function: &str) -> Strided {
    if at >= form.n[d] || parts > form.n[d] {
        misuse(function, &format!("{at} is beyond the {} elements of the dimension", form.n[d]));
    }
    form.advance(at * form.ld[d]);
    form.n.remove(d);
    form.ld.remove(d);
    form
}

/// The single element at a place.
fn element(mut form: Strided, at: impl Iterator<Item = usize>, function: &str) -> Strided {
    let mut step = 0;
    for (d, at) in at.enumerate().take(form.n.len()) {
        if at >= form.n[d] {
            misuse(function, &format!("{at} is beyond the {} elements of dimension {d}", form.n[d]));
        }
        step += at * form.ld[d];
    }
    form.advance(step);
    form.n.clear();
    form.ld.clear();
    form
}

macro_rules! filters {
    ($($name:ident($parent:ty => $child:ty, $form:ident, $filter:ident, $id:ident, $parts:ident) $body:block)*) => {$(
        /// Makes one part of a piece of data as a view into it.
        ///
        /// # Safety
        /// The interfaces are of the kinds that the filter is for, and the argument of the filter
        /// is what its documentation says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            parent: *mut c_void,
            child: *mut c_void,
            filter: *mut starpu_data_filter,
            id: c_uint,
            nparts: c_uint,
        ) {
            // SAFETY: the caller's promise.
            let $form = unsafe { parent_form::<$parent>(parent, stringify!($name)) };
            // SAFETY: as above; the library gives the filter itself.
            let $filter = unsafe { &*filter };
            let ($id, $parts) = (id as usize, nparts as usize);
            let _ = ($filter, $id, $parts);
            let part: Strided = $body;
            // SAFETY: as above.
            unsafe { write::<$child>(child, &part) };
        }
    )*};
}

macro_rules! blocks {
    ($($kind:ty: $($name:ident $shadow:ident $d:literal),*;)*) => {
        filters! {$($(
            $name($kind => $kind, form, filter, id, parts) { block(form, $d, 0, id, parts, stringify!($name)) }
            $shadow($kind => $kind, form, filter, id, parts) {
                block(form, $d, filter.filter_arg_ptr as usize, id, parts, stringify!($shadow))
            }
        )*)*}
    };
}

blocks! {
    starpu_vector_interface:
        starpu_vector_filter_block starpu_vector_filter_block_shadow 0;
    starpu_matrix_interface:
        starpu_matrix_filter_block starpu_matrix_filter_block_shadow 0,
        starpu_matrix_filter_vertical_block starpu_matrix_filter_vertical_block_shadow 1;
    starpu_block_interface:
        starpu_block_filter_block starpu_block_filter_block_shadow 0,
        starpu_block_filter_vertical_block starpu_block_filter_vertical_block_shadow 1,
        starpu_block_filter_depth_block starpu_block_filter_depth_block_shadow 2;
    starpu_tensor_interface:
        starpu_tensor_filter_block starpu_tensor_filter_block_shadow 0,
        starpu_tensor_filter_vertical_block starpu_tensor_filter_vertical_block_shadow 1,
        starpu_tensor_filter_depth_block starpu_tensor_filter_depth_block_shadow 2,
        starpu_tensor_filter_time_block starpu_tensor_filter_time_block_shadow 3;
}

/// The first of the places that parts are picked from.
fn first(filter: &starpu_data_filter) -> usize {
    filter.filter_arg_ptr as usize
}

/// The place of an element as a list of C.
///
/// # Safety
/// The argument of the filter is a list of `n` numbers of this type.
unsafe fn place<T: Copy>(filter: &starpu_data_filter, n: usize) -> Vec<T> {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(filter.filter_arg_ptr.cast::<T>(), n) }.to_vec()
}

macro_rules! picks {
    ($($name:ident: $parent:ty => $child:ty, $d:literal;)*) => {
        filters! {$(
            $name($parent => $child, form, filter, id, parts) {
                pick(form, $d, first(filter) + id, parts, stringify!($name))
            }
        )*}
    };
}

picks! {
    starpu_vector_filter_pick_variable: starpu_vector_interface => starpu_variable_interface, 0;
    starpu_matrix_filter_pick_vector_y: starpu_matrix_interface => starpu_vector_interface, 1;
    starpu_block_filter_pick_matrix_z: starpu_block_interface => starpu_matrix_interface, 2;
    starpu_block_filter_pick_matrix_y: starpu_block_interface => starpu_matrix_interface, 1;
    starpu_tensor_filter_pick_block_t: starpu_tensor_interface => starpu_block_interface, 3;
    starpu_tensor_filter_pick_block_z: starpu_tensor_interface => starpu_block_interface, 2;
    starpu_tensor_filter_pick_block_y: starpu_tensor_interface => starpu_block_interface, 1;
}

macro_rules! elements {
    ($($name:ident: $parent:ty;)*) => {
        filters! {$(
            $name($parent => starpu_variable_interface, form, filter, id, parts) {
                // SAFETY: the documentation asks for a number for each dimension.
                let at = unsafe { place::<u32>(filter, form.n.len()) };
                element(form, at.into_iter().map(|at| at as usize), stringify!($name))
            }
        )*}
    };
}

elements! {
    starpu_matrix_filter_pick_variable: starpu_matrix_interface;
    starpu_block_filter_pick_variable: starpu_block_interface;
    starpu_tensor_filter_pick_variable: starpu_tensor_interface;
}

// ---- Vectors by lists of lengths ---------------------------------------------------------------

/// The part of a vector between two elements.
fn range(mut form: Strided, first: usize, length: usize, function: &str) -> Strided {
    if first + length > form.n[0] {
        misuse(function, &format!("the parts have more than the {} elements of the vector", form.n[0]));
    }
    form.n[0] = length;
    form.advance(first);
    form
}

filters! {
    starpu_vector_filter_list(
        starpu_vector_interface => starpu_vector_interface, form, filter, id, parts
    ) {
        // SAFETY: the documentation asks for a length for each part.
        let lengths = unsafe { place::<u32>(filter, id + 1) };
        let before = lengths[..id].iter().map(|n| *n as usize).sum();
        range(form, before, lengths[id] as usize, "starpu_vector_filter_list")
    }
    starpu_vector_filter_list_long(
        starpu_vector_interface => starpu_vector_interface, form, filter, id, parts
    ) {
        // SAFETY: the documentation asks for a length for each part.
        let lengths = unsafe { place::<std::ffi::c_long>(filter, id + 1) };
        let before = lengths[..id].iter().map(|n| *n as usize).sum();
        range(form, before, lengths[id] as usize, "starpu_vector_filter_list_long")
    }
    starpu_vector_filter_divide_in_2(
        starpu_vector_interface => starpu_vector_interface, form, filter, id, parts
    ) {
        let (n, cut) = (form.n[0], filter.filter_arg);
        if id > 1 || cut >= n {
            misuse(
                "starpu_vector_filter_divide_in_2",
                &format!("part {id} of {n} elements, cut after {cut}, is none of two"),
            );
        }
        let (first, length) = if id == 0 { (0, cut) } else { (cut, n - cut) };
        range(form, first, length, "starpu_vector_filter_divide_in_2")
    }
}

// ---- Arrays of any number of dimensions --------------------------------------------------------

/// The dimension that a filter of arrays works on; with a single one there is no choice.
fn dimension(form: &Strided, filter: &starpu_data_filter, function: &str) -> usize {
    let d = if form.n.len() > 1 { filter.filter_arg } else { 0 };
    if d >= form.n.len() {
        misuse(function, &format!("an array of {} dimensions has no dimension {d}", form.n.len()));
    }
    d
}

/// The array, if it can be seen as data of another kind with `rank` dimensions.
fn of_rank(form: Strided, rank: usize, function: &str) -> Strided {
    if form.n.len() != rank {
        misuse(function, &format!("the array has {} dimensions, {rank} are needed", form.n.len()));
    }
    if rank > 0 && form.is_allocated() && form.ld[0] != 1 {
        misuse(function, "the first dimension of the array has gaps");
    }
    form
}

macro_rules! arrays {
    ($($to:ident $rank:literal, $from:ident $more:literal => $child:ty;)*) => {
        filters! {$(
            $to(starpu_ndim_interface => $child, form, filter, id, parts) {
                let form = of_rank(form, $rank, stringify!($to));
                let d = dimension(&form, filter, stringify!($to));
                block(form, d, 0, id, parts, stringify!($to))
            }
            $from(starpu_ndim_interface => $child, form, filter, id, parts) {
                let form = of_rank(form, $more, stringify!($from));
                let d = dimension(&form, filter, stringify!($from));
                pick(form, d, first(filter) + id, parts, stringify!($from))
            }
        )*}
    };
}

arrays! {
    starpu_ndim_filter_to_tensor 4, starpu_ndim_filter_5d_pick_tensor 5 => starpu_tensor_interface;
    starpu_ndim_filter_to_block 3, starpu_ndim_filter_4d_pick_block 4 => starpu_block_interface;
    starpu_ndim_filter_to_matrix 2, starpu_ndim_filter_3d_pick_matrix 3 => starpu_matrix_interface;
    starpu_ndim_filter_to_vector 1, starpu_ndim_filter_2d_pick_vector 2 => starpu_vector_interface;
}

filters! {
    starpu_ndim_filter_block(starpu_ndim_interface => starpu_ndim_interface, form, filter, id, parts) {
        let d = dimension(&form, filter, "starpu_ndim_filter_block");
        block(form, d, 0, id, parts, "starpu_ndim_filter_block")
    }
    starpu_ndim_filter_block_shadow(starpu_ndim_interface => starpu_ndim_interface, form, filter, id, parts) {
        let d = dimension(&form, filter, "starpu_ndim_filter_block_shadow");
        block(form, d, first(filter), id, parts, "starpu_ndim_filter_block_shadow")
    }
    starpu_ndim_filter_pick_ndim(starpu_ndim_interface => starpu_ndim_interface, form, filter, id, parts) {
        let d = dimension(&form, filter, "starpu_ndim_filter_pick_ndim");
        pick(form, d, first(filter) + id, parts, "starpu_ndim_filter_pick_ndim")
    }
    starpu_ndim_filter_1d_pick_variable(
        starpu_ndim_interface => starpu_variable_interface, form, filter, id, parts
    ) {
        let form = of_rank(form, 1, "starpu_ndim_filter_1d_pick_variable");
        pick(form, 0, first(filter) + id, parts, "starpu_ndim_filter_1d_pick_variable")
    }
    starpu_ndim_filter_to_variable(starpu_ndim_interface => starpu_variable_interface, form, filter, id, parts) {
        if id != 0 || parts != 1 {
            misuse("starpu_ndim_filter_to_variable", "a variable has one part");
        }
        of_rank(form, 0, "starpu_ndim_filter_to_variable")
    }
    starpu_ndim_filter_pick_variable(
        starpu_ndim_interface => starpu_variable_interface, form, filter, id, parts
    ) {
        // SAFETY: the documentation asks for a number for each dimension.
        let at = unsafe { place::<usize>(filter, form.n.len()) };
        element(form, at.into_iter(), "starpu_ndim_filter_pick_variable")
    }
}

// ---- What kind of data the parts are -----------------------------------------------------------

macro_rules! child_ops {
    ($($ops:ident: $($name:ident)*;)*) => {$($(
        /// Gives the table of the parts.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(
            _filter: *mut starpu_data_filter,
            _child: c_uint,
        ) -> *mut starpu_data_interface_ops {
            &raw mut $ops
        }
    )*)*};
}

child_ops! {
    starpu_interface_variable_ops:
        starpu_vector_filter_pick_variable_child_ops
        starpu_matrix_filter_pick_variable_child_ops
        starpu_block_filter_pick_variable_child_ops
        starpu_tensor_filter_pick_variable_child_ops
        starpu_ndim_filter_pick_variable_child_ops
        starpu_ndim_filter_to_variable_child_ops;
    starpu_interface_vector_ops:
        starpu_matrix_filter_pick_vector_child_ops
        starpu_ndim_filter_pick_vector_child_ops
        starpu_ndim_filter_to_vector_child_ops;
    starpu_interface_matrix_ops:
        starpu_block_filter_pick_matrix_child_ops
        starpu_ndim_filter_pick_matrix_child_ops
        starpu_ndim_filter_to_matrix_child_ops
        starpu_bcsr_filter_canonical_block_child_ops;
    starpu_interface_block_ops:
        starpu_tensor_filter_pick_block_child_ops
        starpu_ndim_filter_pick_block_child_ops
        starpu_ndim_filter_to_block_child_ops;
    starpu_interface_tensor_ops:
        starpu_ndim_filter_pick_tensor_child_ops
        starpu_ndim_filter_to_tensor_child_ops;
}

// ---- Sparse matrices ---------------------------------------------------------------------------

macro_rules! by_rows {
    ($($name:ident: $kind:ty, $id:ident, $row_bytes:expr;)*) => {$(
        /// Makes one part of a sparse matrix, some of its rows, as a view into it.
        ///
        /// # Safety
        /// The interfaces are sparse matrices of this kind, whose indices the host can read.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            parent: *mut c_void,
            child: *mut c_void,
            _filter: *mut starpu_data_filter,
            id: c_uint,
            nparts: c_uint,
        ) {
            // SAFETY: the caller's promise; every interface begins with its number.
            let (parent, child) = unsafe { (*parent.cast::<$kind>(), &mut *child.cast::<$kind>()) };
            if parent.id != $id || nparts == 0 {
                misuse(stringify!($name), "the data is no sparse matrix of this kind");
            }
            let (nrow, row) = chunk(parent.nrow as usize, nparts as usize, id as usize);
            // SAFETY: the indices have an entry for each row and one for the end.
            let (start, end) = unsafe {
                (*parent.ram_rowptr.add(row), *parent.ram_rowptr.add(row + nrow))
            };
            let skipped = (start - parent.firstentry) as usize;
            child.id = $id;
            child.nnz = end - start;
            child.nrow = nrow as u32;
            // Indices of rows stay those of the whole matrix, so entries count from here on.
            child.firstentry = start;
            child.elemsize = parent.elemsize;
            child.ram_colind = parent.ram_colind.wrapping_add(skipped);
            child.ram_rowptr = parent.ram_rowptr.wrapping_add(row);
            let value_bytes: usize = $row_bytes(&parent, child);
            if parent.nzval != 0 {
                child.nzval = parent.nzval + skipped * value_bytes;
                child.colind = parent.colind.wrapping_add(skipped);
                child.rowptr = parent.rowptr.wrapping_add(row);
            }
        }
    )*};
}

by_rows! {
    starpu_csr_filter_vertical_block: starpu_csr_interface, STARPU_CSR_INTERFACE_ID,
        |parent: &starpu_csr_interface, _: &mut starpu_csr_interface| parent.elemsize;
    starpu_bcsr_filter_vertical_block: starpu_bcsr_interface, STARPU_BCSR_INTERFACE_ID,
        |parent: &starpu_bcsr_interface, child: &mut starpu_bcsr_interface| {
            (child.r, child.c) = (parent.r, parent.c);
            parent.r as usize * parent.c as usize * parent.elemsize
        };
}

/// Makes one block of a sparse matrix of blocks, a matrix, as a view into it.
///
/// # Safety
/// The parent is a matrix of blocks, the child a matrix.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_bcsr_filter_canonical_block(
    parent: *mut c_void,
    child: *mut c_void,
    _filter: *mut starpu_data_filter,
    id: c_uint,
    _nparts: c_uint,
) {
    // SAFETY: the caller's promise; every interface begins with its number.
    let parent = unsafe { &*parent.cast::<starpu_bcsr_interface>() };
    if parent.id != STARPU_BCSR_INTERFACE_ID {
        misuse("starpu_bcsr_filter_canonical_block", "the data is no sparse matrix of blocks");
    }
    let (r, c) = (parent.r as usize, parent.c as usize);
    let mut form = Strided {
        ptr: parent.nzval,
        dev_handle: parent.nzval,
        offset: 0,
        elemsize: parent.elemsize,
        n: [c, r].into_iter().collect(),
        ld: [1, c].into_iter().collect(),
    };
    form.advance(id as usize * r * c);
    // The block is memory of its own for devices.
    (form.dev_handle, form.offset) = (form.ptr, 0);
    // SAFETY: as above.
    unsafe { write::<starpu_matrix_interface>(child, &form) };
}

/// Gives the number of blocks of a sparse matrix of blocks.
///
/// # Safety
/// `handle` is such a matrix.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_bcsr_filter_canonical_block_get_nchildren(
    _filter: *mut starpu_data_filter,
    handle: starpu_data_handle_t,
) -> c_uint {
    // SAFETY: the caller's promise.
    unsafe { starpu_bcsr_get_nnz(handle) }
}

// ---- Filters one after the other ---------------------------------------------------------------

/// Cuts data that has no parts, and else each of its parts.
///
/// # Safety
/// `handle` is registered, and `filter` is valid.
unsafe fn cut(handle: starpu_data_handle_t, filter: *mut starpu_data_filter) {
    // SAFETY: the caller's promise.
    unsafe {
        let children = starpu_data_get_nb_children(handle);
        if children == 0 {
            starpu_data_partition(handle, filter);
        }
        for i in 0..children.max(0) {
            cut(starpu_data_get_child(handle, i as c_uint), filter);
        }
    }
}

/// Applies filters one after the other, each to the parts that the last one made.
///
/// # Safety
/// `handle` is registered, and the list has `nfilters` filters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_map_filters_parray(
    handle: starpu_data_handle_t,
    nfilters: c_int,
    filters: *mut *mut starpu_data_filter,
) {
    for i in 0..nfilters.max(0) as usize {
        // SAFETY: the caller's promise.
        unsafe { cut(handle, *filters.add(i)) };
    }
}

/// Applies filters one after the other, each to the parts that the last one made.
///
/// # Safety
/// `handle` is registered, and the array has `nfilters` filters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_map_filters_array(
    handle: starpu_data_handle_t,
    nfilters: c_int,
    filters: *mut starpu_data_filter,
) {
    for i in 0..nfilters.max(0) as usize {
        // SAFETY: the caller's promise.
        unsafe { cut(handle, filters.add(i)) };
    }
}

#[cfg(test)]
mod tests;
