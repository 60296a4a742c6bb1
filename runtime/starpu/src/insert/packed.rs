//! Values that are packed for codelets.
//!
//! They are an `int` with their number, then for each its size as a `size_t` and its bytes, without
//! padding.

use super::*;

/// Offset of the first value, after the number of values.
pub(super) const COUNT: usize = size_of::<c_int>();

/// Packs the values among the items into one block from `malloc`, null where there is none.
///
/// # Safety
/// Each value of the items points at as many bytes as it says.
pub(super) unsafe fn pack(items: &[Item], buffer: &mut *mut c_void, size: &mut usize) -> c_int {
    let values = || items.iter().filter(|item| item.marker >> marker::SHIFT == marker::VALUE);
    let bytes = COUNT + values().map(|item| size_of::<usize>() + item.word as usize).sum::<usize>();
    let count = values().count();
    if count == 0 {
        *buffer = ptr::null_mut();
        *size = 0;
        return 0;
    }
    // SAFETY: any size may be asked for.
    let block = unsafe { malloc(bytes) }.cast::<u8>();
    if block.is_null() {
        report("starpu_codelet_pack_args", &format!("no memory for {bytes} bytes"));
        return -12;
    }
    // SAFETY: the block has room for the number and for each value with its size.
    unsafe {
        block.cast::<c_int>().write_unaligned(count as c_int);
        let mut at = block.add(COUNT);
        for item in values() {
            let n = item.word as usize;
            at.cast::<usize>().write_unaligned(n);
            at = at.add(size_of::<usize>());
            if n > 0 {
                ptr::copy_nonoverlapping(item.pointer.cast::<u8>(), at, n);
            }
            at = at.add(n);
        }
    }
    *buffer = block.cast();
    *size = bytes;
    0
}

/// Packs the values of a list; see [`pack`].
///
/// # Safety
/// The items are what a valid list was read into; the pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zellige_starpu_pack(
    items: *const Item,
    n: usize,
    buffer: *mut *mut c_void,
    size: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { pack(slice(items, n), &mut *buffer, &mut *size) }
}

/// Begins to pack.
///
/// # Safety
/// `state` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_codelet_pack_arg_init(state: *mut starpu_codelet_pack_arg_data) {
    // SAFETY: the caller's promise.
    unsafe {
        *state = starpu_codelet_pack_arg_data {
            arg_buffer: ptr::null_mut(),
            arg_buffer_size: 0,
            arg_buffer_used: 0,
            current_offset: COUNT,
            nargs: 0,
        };
    }
}

/// Packs one value.
///
/// # Safety
/// `state` was begun, and `pointer` points at `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_codelet_pack_arg(
    state: *mut starpu_codelet_pack_arg_data,
    pointer: *const c_void,
    size: usize,
) {
    // SAFETY: the caller's promise.
    let state = unsafe { &mut *state };
    if state.current_offset < COUNT {
        report("starpu_codelet_pack_arg", "the state was not begun by starpu_codelet_pack_arg_init");
        std::process::abort();
    }
    let end = state.current_offset + size_of::<usize>() + size;
    if end > state.arg_buffer_size {
        let room = (2 * state.arg_buffer_size).max(end).max(128);
        // SAFETY: the block is null or from `malloc`.
        let block = unsafe { realloc(state.arg_buffer.cast(), room) };
        if block.is_null() {
            report("starpu_codelet_pack_arg", &format!("no memory for {room} bytes"));
            std::process::abort();
        }
        state.arg_buffer = block.cast();
        state.arg_buffer_size = room;
    }
    // SAFETY: the block has room up to `end`.
    unsafe {
        let at = state.arg_buffer.cast::<u8>().add(state.current_offset);
        at.cast::<usize>().write_unaligned(size);
        if size > 0 {
            ptr::copy_nonoverlapping(pointer.cast::<u8>(), at.add(size_of::<usize>()), size);
        }
    }
    state.current_offset = end;
    state.arg_buffer_used = end;
    state.nargs += 1;
}

/// Ends packing and hands over the block, which is null when nothing was packed.
///
/// # Safety
/// `state` was begun; the other pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_codelet_pack_arg_fini(
    state: *mut starpu_codelet_pack_arg_data,
    cl_arg: *mut *mut c_void,
    cl_arg_size: *mut usize,
) {
    // SAFETY: the caller's promise; a block has room for the number.
    unsafe {
        if (*state).nargs > 0 {
            (*state).arg_buffer.cast::<c_int>().write_unaligned((*state).nargs);
        }
        *cl_arg = (*state).arg_buffer.cast();
        *cl_arg_size = (*state).arg_buffer_used;
    }
}

/// Begins to unpack.
///
/// # Safety
/// `state` is valid, and `cl_arg` points at `cl_arg_size` packed bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_codelet_unpack_arg_init(
    state: *mut starpu_codelet_pack_arg_data,
    cl_arg: *mut c_void,
    cl_arg_size: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        *state = starpu_codelet_pack_arg_data {
            arg_buffer: cl_arg.cast(),
            arg_buffer_size: cl_arg_size,
            arg_buffer_used: cl_arg_size,
            current_offset: COUNT,
            nargs: 0,
        };
    }
}

/// Steps over the next value and gives its place and size.
///
/// # Safety
/// `state` was begun over packed bytes.
pub(super) unsafe fn next(state: &mut starpu_codelet_pack_arg_data, function: &str) -> (*mut u8, usize) {
    let start = state.current_offset + size_of::<usize>();
    if start <= state.arg_buffer_size {
        // SAFETY: the size lies within the block.
        let (place, size) = unsafe {
            let at = state.arg_buffer.cast::<u8>().add(state.current_offset);
            (at.add(size_of::<usize>()), at.cast::<usize>().read_unaligned())
        };
        if size <= state.arg_buffer_size - start {
            state.current_offset = start + size;
            state.nargs += 1;
            return (place, size);
        }
    }
    report(function, &format!("there is no value after the first {}", state.nargs));
    std::process::abort();
}

/// Copies the next value, which has to be of that size.
///
/// # Safety
/// `state` was begun, and `pointer` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_codelet_unpack_arg(
    state: *mut starpu_codelet_pack_arg_data,
    pointer: *mut c_void,
    size: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let (place, packed) = next(&mut *state, "starpu_codelet_unpack_arg");
        if packed != size {
            let message = format!("the next value has {packed} bytes, {size} were asked for");
            report("starpu_codelet_unpack_arg", &message);
            std::process::abort();
        }
        ptr::copy_nonoverlapping(place, pointer.cast::<u8>(), size);
    }
}

/// Steps over the next value.
///
/// # Safety
/// `state` was begun.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_codelet_unpack_discard_arg(state: *mut starpu_codelet_pack_arg_data) {
    // SAFETY: the caller's promise.
    unsafe { next(&mut *state, "starpu_codelet_unpack_discard_arg") };
}

/// Gives the next value in a block of its own from `malloc`.
///
/// # Safety
/// `state` was begun; the other pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_codelet_dup_arg(
    state: *mut starpu_codelet_pack_arg_data,
    pointer: *mut *mut c_void,
    size: *mut usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let (place, packed) = next(&mut *state, "starpu_codelet_dup_arg");
        let block = malloc(packed.max(1));
        if block.is_null() {
            report("starpu_codelet_dup_arg", &format!("no memory for {packed} bytes"));
            std::process::abort();
        }
        ptr::copy_nonoverlapping(place, block.cast::<u8>(), packed);
        *pointer = block;
        *size = packed;
    }
}

/// Gives the place of the next value within the packed bytes.
///
/// # Safety
/// `state` was begun; the other pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_codelet_pick_arg(
    state: *mut starpu_codelet_pack_arg_data,
    pointer: *mut *mut c_void,
    size: *mut usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let (place, packed) = next(&mut *state, "starpu_codelet_pick_arg");
        *pointer = place.cast();
        *size = packed;
    }
}

/// Ends unpacking; says so when values are left.
///
/// # Safety
/// `state` was begun.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_codelet_unpack_arg_fini(state: *mut starpu_codelet_pack_arg_data) {
    // SAFETY: the caller's promise.
    let state = unsafe { &*state };
    if state.current_offset < state.arg_buffer_size {
        eprintln!(
            "zellige-starpu: starpu_codelet_unpack_arg_fini: {} bytes of arguments were not unpacked",
            state.arg_buffer_size - state.current_offset
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::c::free;

    fn value<T>(of: &T) -> Item {
        Item {
            marker: marker::VALUE << marker::SHIFT,
            number: 0,
            pointer: std::ptr::from_ref(of).cast_mut().cast(),
            word: size_of::<T>() as u64,
            real: 0.0,
        }
    }

    #[test]
    fn values_are_packed_without_padding() {
        let (x, seven, real) = (b'x', 7_i32, 2.5_f64);
        let items = [value(&x), value(&seven), value(&real)];
        let (mut buffer, mut size) = (ptr::null_mut(), 0);
        // SAFETY: the items point at the three values.
        assert_eq!(unsafe { pack(&items, &mut buffer, &mut size) }, 0);
        assert_eq!(size, 4 + 3 * 8 + 1 + 4 + 8);
        // SAFETY: `pack` gave a block of this size.
        let bytes = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), size) };
        assert_eq!(bytes[..13], [3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, b'x']);
        assert_eq!(bytes[13..25], [4, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0]);
        // SAFETY: the block is from `malloc`.
        unsafe { free(buffer) };
    }

    #[test]
    fn one_by_one_is_as_all_at_once() {
        let (a, b) = (1_u16, [2_u64, 3]);
        let (mut whole, mut whole_size) = (ptr::null_mut(), 0);
        let (mut block, mut size) = (ptr::null_mut(), 0);
        // SAFETY: all pointers are those of live values.
        unsafe {
            pack(&[value(&a), value(&b)], &mut whole, &mut whole_size);
            let mut state = std::mem::zeroed();
            starpu_codelet_pack_arg_init(&mut state);
            starpu_codelet_pack_arg(&mut state, (&raw const a).cast(), 2);
            starpu_codelet_pack_arg(&mut state, (&raw const b).cast(), 16);
            starpu_codelet_pack_arg_fini(&mut state, &mut block, &mut size);
            let bytes = |p: *mut c_void, n| std::slice::from_raw_parts(p.cast::<u8>(), n);
            assert_eq!(bytes(whole, whole_size), bytes(block, size));

            let (mut again, mut place, mut length) = (0_u16, ptr::null_mut(), 0);
            starpu_codelet_unpack_arg_init(&mut state, block, size);
            starpu_codelet_unpack_arg(&mut state, (&raw mut again).cast(), 2);
            starpu_codelet_pick_arg(&mut state, &mut place, &mut length);
            starpu_codelet_unpack_arg_fini(&mut state);
            assert_eq!((again, length, place.cast::<[u64; 2]>().read_unaligned()), (1, 16, [2, 3]));
            free(whole);
            free(block);
        }
    }
}
