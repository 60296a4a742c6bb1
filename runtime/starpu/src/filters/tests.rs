//! Tests of filters.

use super::*;

fn filter(arg: usize, pointer: *mut c_void) -> starpu_data_filter {
    starpu_data_filter {
        filter_func: None,
        nchildren: 0,
        get_nchildren: None,
        get_child_ops: None,
        filter_arg: arg,
        filter_arg_ptr: pointer,
    }
}

/// An interface of zeros, as handles have before they are registered.
fn empty<T>() -> T {
    // SAFETY: interfaces hold numbers and raw pointers only.
    unsafe { std::mem::zeroed() }
}

fn vector(nx: usize) -> starpu_vector_interface {
    starpu_vector_interface {
        id: STARPU_VECTOR_INTERFACE_ID,
        ptr: 0x1000,
        dev_handle: 0x1000,
        nx,
        elemsize: 8,
        allocsize: 8 * nx,
        ..empty()
    }
}

fn matrix() -> starpu_matrix_interface {
    starpu_matrix_interface {
        id: STARPU_MATRIX_INTERFACE_ID,
        ptr: 0x1000,
        dev_handle: 0x1000,
        nx: 10,
        ny: 6,
        ld: 16,
        elemsize: 4,
        ..empty()
    }
}

type Filter = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut starpu_data_filter, c_uint, c_uint);

fn part<P, C>(f: Filter, parent: &P, filter: &mut starpu_data_filter, id: u32, parts: u32) -> C {
    let mut child = empty::<C>();
    // SAFETY: filters read the parent and write the child, both of the kinds that the test
    // names.
    unsafe {
        let parent = std::ptr::from_ref(parent).cast_mut().cast();
        f(parent, (&raw mut child).cast(), filter, id, parts);
    }
    child
}

#[test]
fn ten_elements_in_four_parts() {
    let mut f = filter(0, std::ptr::null_mut());
    let parts: Vec<starpu_vector_interface> =
        (0..4).map(|id| part(starpu_vector_filter_block, &vector(10), &mut f, id, 4)).collect();
    assert_eq!(parts.iter().map(|p| p.nx).collect::<Vec<_>>(), [3, 3, 2, 2]);
    assert_eq!(parts[2].ptr, 0x1000 + 6 * 8);
    assert_eq!((parts[2].dev_handle, parts[2].offset, parts[2].allocsize), (0x1000, 48, 16));
}

#[test]
fn neighbours_share_their_shadow() {
    let mut f = filter(0, std::ptr::without_provenance_mut(1));
    let second: starpu_vector_interface = part(starpu_vector_filter_block_shadow, &vector(10), &mut f, 1, 4);
    assert_eq!((second.nx, second.ptr), (4, 0x1000 + 2 * 8));
}

#[test]
fn lists_may_have_empty_parts() {
    let mut lengths = [0_u32, 3, 0];
    let mut f = filter(0, lengths.as_mut_ptr().cast());
    let of = |id| part::<_, starpu_vector_interface>(starpu_vector_filter_list, &vector(3), &mut f, id, 3);
    let sizes: Vec<_> = (0..3).map(of).map(|p| (p.nx, p.ptr - 0x1000)).collect();
    assert_eq!(sizes, [(0, 0), (3, 0), (0, 24)]);
}

#[test]
fn columns_keep_the_distance_of_the_whole_matrix() {
    let mut f = filter(0, std::ptr::null_mut());
    let lower: starpu_matrix_interface = part(starpu_matrix_filter_block, &matrix(), &mut f, 1, 2);
    assert_eq!((lower.nx, lower.ny, lower.ld, lower.ptr), (5, 6, 16, 0x1000 + 5 * 4));
    let right: starpu_matrix_interface = part(starpu_matrix_filter_vertical_block, &matrix(), &mut f, 2, 3);
    assert_eq!((right.nx, right.ny, right.ld, right.ptr), (10, 2, 16, 0x1000 + 4 * 16 * 4));
    f = filter(0, std::ptr::without_provenance_mut(2));
    let column: starpu_vector_interface = part(starpu_matrix_filter_pick_vector_y, &matrix(), &mut f, 1, 2);
    assert_eq!((column.nx, column.ptr), (10, 0x1000 + 3 * 16 * 4));
}

#[test]
fn arrays_are_cut_and_picked_along_any_dimension() {
    let (mut nn, mut ldn) = ([4_usize, 6, 5], [1_usize, 4, 24]);
    let array = starpu_ndim_interface {
        id: STARPU_NDIM_INTERFACE_ID,
        ptr: 0x1000,
        dev_handle: 0x1000,
        offset: 0,
        allocsize: 480,
        nn: nn.as_mut_ptr(),
        ldn: ldn.as_mut_ptr(),
        ndim: 3,
        elemsize: 4,
    };
    let mut f = filter(1, std::ptr::null_mut());
    let mut half: starpu_ndim_interface = part(starpu_ndim_filter_block, &array, &mut f, 1, 2);
    assert_eq!(half.read().n[..], [4, 3, 5]);
    assert_eq!((half.read().ld[1], half.ptr), (4, 0x1000 + 3 * 4 * 4));
    half.discard();
    f = filter(1, std::ptr::without_provenance_mut(2));
    let slice: starpu_matrix_interface = part(starpu_ndim_filter_3d_pick_matrix, &array, &mut f, 0, 1);
    assert_eq!((slice.nx, slice.ny, slice.ld, slice.ptr), (4, 5, 24, 0x1000 + 2 * 4 * 4));
    let mut at = [3_usize, 2, 1];
    f = filter(0, at.as_mut_ptr().cast());
    let value: starpu_variable_interface = part(starpu_ndim_filter_pick_variable, &array, &mut f, 0, 1);
    assert_eq!((value.elemsize, value.ptr), (4, 0x1000 + (3 + 2 * 4 + 24) * 4));
}

#[test]
fn rows_of_a_part_count_from_its_first_entry() {
    let (mut colind, mut rowptr) = ([0_u32, 1, 0, 2, 3], [0_u32, 2, 3, 3, 5]);
    let mut values = [1.0_f32, 2.0, 3.0, 4.0, 5.0];
    let csr = starpu_csr_interface {
        id: STARPU_CSR_INTERFACE_ID,
        nnz: 5,
        nrow: 4,
        nzval: values.as_mut_ptr() as usize,
        colind: colind.as_mut_ptr(),
        rowptr: rowptr.as_mut_ptr(),
        ram_colind: colind.as_mut_ptr(),
        ram_rowptr: rowptr.as_mut_ptr(),
        firstentry: 0,
        elemsize: 4,
    };
    let mut f = filter(0, std::ptr::null_mut());
    let half: starpu_csr_interface = part(starpu_csr_filter_vertical_block, &csr, &mut f, 1, 2);
    assert_eq!((half.nnz, half.nrow, half.firstentry), (2, 2, 3));
    assert_eq!(half.nzval, csr.nzval + 3 * 4);
    // SAFETY: the list of rows goes on after the second one.
    assert_eq!(unsafe { *half.rowptr.add(1) } - half.firstentry, 0);
    // A part of the part counts from there.
    let quarter: starpu_csr_interface = part(starpu_csr_filter_vertical_block, &half, &mut f, 1, 2);
    assert_eq!((quarter.nnz, quarter.firstentry, quarter.nzval), (2, 3, half.nzval));
}
