//! The functions on data handles: registration, queries, settings, release.

use std::collections::hash_map::Entry;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::Ordering;

use zellige_runtime::Mode;
use zellige_runtime::internal::untyped;

use crate::data::{Carried, DEFAULT_ORDERED, Data, by_pointer, data, destroy, leave, pointer_of};
use crate::gpus::{self, is_node};
use crate::instance::{Instance, complain, errno, must_not_wait, needed};
use crate::types::*;
use crate::{partition, reduction};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_register(
    handle: *mut starpu_data_handle_t,
    home_node: c_int,
    data_interface: *mut c_void,
    ops: *mut starpu_data_interface_ops,
) {
    let data = Data::new(ops, home_node, None);
    let made = Box::into_raw(data).cast::<_starpu_data_state>();
    *handle = made;
    if let Some(register) = (*ops).register_data_handle {
        register(made, home_node, data_interface);
    }
    if home_node >= 0 {
        let node = if is_node(home_node as usize) { home_node as usize } else { 0 };
        let pointer = pointer_of(crate::data::data(made), node);
        if !pointer.is_null()
            && let Entry::Vacant(place) = by_pointer().lock().entry(pointer as usize)
        {
            place.insert(Carried(made));
            crate::data::data(made).address.store(pointer as usize, Ordering::Relaxed);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_register_same(
    handle: *mut starpu_data_handle_t,
    like: starpu_data_handle_t,
) {
    let like = data(like);
    starpu_data_register(handle, -1, like.interface(0), like.ops);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_ptr_register(handle: starpu_data_handle_t, node: c_uint) {
    let node = if is_node(node as usize) { node as usize } else { 0 };
    data(handle).residency.has_memory(node);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_subdata_ptr_register(handle: starpu_data_handle_t, node: c_uint) {
    starpu_data_ptr_register(handle, node);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_get_interface_on_node(
    handle: starpu_data_handle_t,
    node: c_uint,
) -> *mut c_void {
    data(handle).interface(node as usize)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_handle_to_pointer(
    handle: starpu_data_handle_t,
    node: c_uint,
) -> *mut c_void {
    pointer_of(data(handle), node as usize)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_get_local_ptr(handle: starpu_data_handle_t) -> *mut c_void {
    pointer_of(data(handle), gpus::node_here())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_pointer_is_inside(
    handle: starpu_data_handle_t,
    node: c_uint,
    pointer: *mut c_void,
) -> c_int {
    let start = starpu_data_handle_to_pointer(handle, node) as usize;
    let size = starpu_data_get_size(handle);
    c_int::from(start != 0 && (start..start + size.max(1)).contains(&(pointer as usize)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_get_interface_id(handle: starpu_data_handle_t) -> c_int {
    (*data(handle).ops).interfaceid
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_get_interface_ops(
    handle: starpu_data_handle_t,
) -> *mut starpu_data_interface_ops {
    data(handle).ops
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_get_size(handle: starpu_data_handle_t) -> usize {
    (*data(handle).ops).get_size.map_or(0, |size| size(handle))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_get_alloc_size(handle: starpu_data_handle_t) -> usize {
    let ops = &*data(handle).ops;
    ops.get_alloc_size.or(ops.get_size).map_or(0, |size| size(handle))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_get_max_size(handle: starpu_data_handle_t) -> isize {
    (*data(handle).ops).get_max_size.map_or(-1, |size| size(handle) as isize)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_get_home_node(handle: starpu_data_handle_t) -> c_int {
    data(handle).home.load(Ordering::Relaxed)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_print(handle: starpu_data_handle_t, _node: c_uint, stream: *mut FILE) {
    if let Some(display) = (*data(handle).ops).display {
        display(handle, stream);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_lookup(pointer: *const c_void) -> starpu_data_handle_t {
    by_pointer().lock().get(&(pointer as usize)).map_or(ptr::null_mut(), |found| found.0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_set_name(handle: starpu_data_handle_t, name: *const c_char) {
    *data(handle).settings.name.lock() = Some(std::ffi::CStr::from_ptr(name).into());
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_get_name(handle: starpu_data_handle_t) -> *const c_char {
    data(handle).settings.name.lock().as_ref().map_or(ptr::null(), |name| name.as_ptr())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_set_coordinates_array(
    handle: starpu_data_handle_t,
    dimensions: c_uint,
    dims: *const c_int,
) {
    let dims = if dimensions == 0 { &[] } else { std::slice::from_raw_parts(dims, dimensions as usize) };
    *data(handle).settings.coordinates.lock() = dims.to_vec();
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_get_coordinates_array(
    handle: starpu_data_handle_t,
    dimensions: c_uint,
    dims: *mut c_int,
) -> c_uint {
    let coordinates = data(handle).settings.coordinates.lock();
    let count = coordinates.len().min(dimensions as usize);
    ptr::copy_nonoverlapping(coordinates.as_ptr(), dims, count);
    count as c_uint
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_set_user_data(handle: starpu_data_handle_t, user: *mut c_void) {
    data(handle).settings.user.store(user, Ordering::Release);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_get_user_data(handle: starpu_data_handle_t) -> *mut c_void {
    data(handle).settings.user.load(Ordering::Acquire)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_set_sched_data(handle: starpu_data_handle_t, sched: *mut c_void) {
    data(handle).settings.sched.store(sched, Ordering::Release);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_get_sched_data(handle: starpu_data_handle_t) -> *mut c_void {
    data(handle).settings.sched.load(Ordering::Acquire)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_set_sequential_consistency_flag(
    handle: starpu_data_handle_t,
    flag: c_uint,
) {
    let data = data(handle);
    data.settings.ordered.store(flag != 0, Ordering::Relaxed);
    for part in data.order().parts.all() {
        starpu_data_set_sequential_consistency_flag(part, flag);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_get_sequential_consistency_flag(handle: starpu_data_handle_t) -> c_uint {
    c_uint::from(data(handle).is_ordered())
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_data_get_default_sequential_consistency_flag() -> c_uint {
    c_uint::from(DEFAULT_ORDERED.load(Ordering::Relaxed))
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_data_set_default_sequential_consistency_flag(flag: c_uint) {
    DEFAULT_ORDERED.store(flag != 0, Ordering::Relaxed);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_set_ooc_flag(handle: starpu_data_handle_t, flag: c_uint) {
    data(handle).settings.evictable.store(flag != 0, Ordering::Relaxed);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_get_ooc_flag(handle: starpu_data_handle_t) -> c_uint {
    c_uint::from(data(handle).settings.evictable.load(Ordering::Relaxed))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_set_wt_mask(handle: starpu_data_handle_t, mask: u32) {
    data(handle).settings.lazy_mask.store(mask, Ordering::Relaxed);
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_data_advise_as_important(_handle: starpu_data_handle_t, _important: c_uint) {}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_data_set_gathering_node(_handle: starpu_data_handle_t, _node: c_uint) {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_query_status2(
    handle: starpu_data_handle_t,
    memory_node: c_int,
    is_allocated: *mut c_int,
    is_valid: *mut c_int,
    is_loading: *mut c_int,
    is_requested: *mut c_int,
) {
    let data = data(handle);
    let node = memory_node.max(0) as usize;
    let here = data.residency.is_allocated(node);
    let valid = data.residency.is_valid(node) && data.order().initialized;
    let answers = [(is_allocated, here), (is_valid, valid), (is_loading, false), (is_requested, false)];
    for (place, answer) in answers {
        if let Some(place) = place.as_mut() {
            *place = c_int::from(answer);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_query_status(
    handle: starpu_data_handle_t,
    memory_node: c_int,
    is_allocated: *mut c_int,
    is_valid: *mut c_int,
    is_requested: *mut c_int,
) {
    starpu_data_query_status2(handle, memory_node, is_allocated, is_valid, ptr::null_mut(), is_requested);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_test_if_allocated_on_node(
    handle: starpu_data_handle_t,
    node: c_uint,
) -> c_uint {
    c_uint::from(data(handle).residency.is_allocated(node as usize))
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_data_test_if_mapped_on_node(_handle: starpu_data_handle_t, _node: c_uint) -> c_uint {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_is_on_node(handle: starpu_data_handle_t, node: c_uint) -> c_uint {
    starpu_data_test_if_allocated_on_node(handle, node)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_is_on_node_excluding_prefetch(
    handle: starpu_data_handle_t,
    node: c_uint,
) -> c_uint {
    starpu_data_is_on_node(handle, node)
}

/// Defines functions that ask for a transfer: values move when a task needs them.
macro_rules! no_transfer {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(#[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(_handle: starpu_data_handle_t, _node: c_uint $(, $argument: $type)*) -> c_int {
            0
        })*
    };
}

no_transfer! {
    starpu_data_fetch_on_node(_asynchronous: c_uint);
    starpu_data_prefetch_on_node(_asynchronous: c_uint);
    starpu_data_prefetch_on_node_prio(_asynchronous: c_uint, _priority: c_int);
    starpu_data_idle_prefetch_on_node(_asynchronous: c_uint);
    starpu_data_idle_prefetch_on_node_prio(_asynchronous: c_uint, _priority: c_int);
    starpu_data_acquire_to_node();
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_request_allocation(handle: starpu_data_handle_t, node: c_uint) -> c_int {
    if is_node(node as usize) && !data(handle).try_allocate(node as usize) { -errno::ENOMEM } else { 0 }
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_data_evict_from_node(_handle: starpu_data_handle_t, _node: c_uint) -> c_int {
    -1
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_data_can_evict(
    _handle: starpu_data_handle_t,
    _node: c_uint,
    _prefetch: c_uint,
) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_data_wont_use(_handle: starpu_data_handle_t) {}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_memchunk_tidy(_node: c_uint) {}

/// Submits what has to happen before a handle may go: its parts are joined, its partial results
/// added. Returns false if that is not possible.
unsafe fn settle(instance: &Instance, data: &Data, function: &str) -> bool {
    #[cfg(feature = "mpi")]
    crate::mpi::settle(data);
    let mut order = data.order();
    if order.parts.is_split() {
        complain(format_args!("{function}: {} is partitioned: unpartition it first", data.token_name()));
        return false;
    }
    partition::end_for_access(instance, data, &mut order, true);
    reduction::finish(instance, data, &mut order);
    true
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_unregister(handle: starpu_data_handle_t) {
    unregister(handle, true);
}

/// Unregisters a handle; without `keeps`, its home does not get the value.
unsafe fn unregister(handle: starpu_data_handle_t, keeps: bool) {
    let Some(instance) = needed("starpu_data_unregister") else { return };
    if must_not_wait("starpu_data_unregister") {
        return starpu_data_unregister_submit(handle);
    }
    let data = data(handle);
    if settle(instance, data, "starpu_data_unregister") {
        if !keeps {
            data.home.store(-1, Ordering::Relaxed);
        }
        data.wait_for_tasks(instance);
        partition::clean_all(instance, data);
        data.wait_for_tasks(instance);
        destroy(handle);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_unregister_no_coherency(handle: starpu_data_handle_t) {
    unregister(handle, false);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_unregister_submit(handle: starpu_data_handle_t) {
    let Some(instance) = needed("starpu_data_unregister_submit") else { return };
    let data = data(handle);
    if settle(instance, data, "starpu_data_unregister_submit") {
        partition::clean_all(instance, data);
        destroy_later(instance, data);
    }
}

/// Destroys a handle once the tasks on it have ended.
pub unsafe fn destroy_later(instance: &Instance, data: &Data) {
    let carried = Carried(data.handle());
    instance.unfinished.add();
    let gone = untyped::hold(&instance.rt, vec![data.access(Mode::Update)], &[], move || {
        let handle = carried.get();
        // SAFETY: the handle exists until this, and later tasks must not name it.
        unsafe { leave(handle) };
        if let Some(instance) = crate::instance::get() {
            instance.unfinished.remove();
        }
    });
    drop(gone);
}

unsafe fn invalidate(handle: starpu_data_handle_t, function: &str, wait: bool) {
    let Some(instance) = needed(function) else { return };
    let data = data(handle);
    if wait && must_not_wait(function) {
        return;
    }
    {
        let mut order = data.order();
        partition::end_for_access(instance, data, &mut order, true);
        reduction::finish(instance, data, &mut order);
        order.initialized = false;
    }
    let carried = Carried(handle);
    instance.unfinished.add();
    let free = move || {
        // SAFETY: the turn on the handle has come, so no task uses its memory.
        let data = unsafe { crate::data::data(carried.get()) };
        // Parts that are planned point into it.
        if !data.order().parts.are_planned() {
            // SAFETY: as above.
            unsafe { data.free_memory() };
        }
        if let Some(instance) = crate::instance::get() {
            instance.unfinished.remove();
        }
    };
    drop(untyped::hold(&instance.rt, vec![data.access(Mode::Update)], &[], free));
    if wait {
        data.wait_for_tasks(instance);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_invalidate(handle: starpu_data_handle_t) {
    invalidate(handle, "starpu_data_invalidate", true);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_invalidate_submit(handle: starpu_data_handle_t) {
    invalidate(handle, "starpu_data_invalidate_submit", false);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_deinitialize(handle: starpu_data_handle_t) {
    invalidate(handle, "starpu_data_deinitialize", true);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_deinitialize_submit(handle: starpu_data_handle_t) {
    invalidate(handle, "starpu_data_deinitialize_submit", false);
}
