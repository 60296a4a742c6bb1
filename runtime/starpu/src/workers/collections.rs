//! Collections of workers, which are lists here, and the machine as a tree.

use std::ffi::{c_int, c_uint};
use std::ptr;
use std::sync::OnceLock;

use super::c;
use super::places::processors;
use crate::types::*;

/// Prepares an empty collection.
///
/// # Safety
///
/// `workers` is a collection; `deinit` releases what it holds.
unsafe extern "C" fn list_init(workers: *mut starpu_worker_collection) {
    // SAFETY: a collection, as the caller vouches; all-zero bytes are valid in these fields.
    unsafe {
        let list = &mut *workers;
        list.workerids = c::calloc(STARPU_NMAXWORKERS, size_of::<c_int>()).cast();
        list.collection_private = ptr::null_mut();
        list.nworkers = 0;
        list.unblocked_workers = ptr::null_mut();
        list.nunblocked_workers = 0;
        list.primaries = ptr::null_mut();
        list.nprimaries = 0;
        list.present = [0; STARPU_NMAXWORKERS];
        list.is_unblocked = [0; STARPU_NMAXWORKERS];
        list.is_primary = [0; STARPU_NMAXWORKERS];
    }
}

/// Releases what a collection holds.
///
/// # Safety
///
/// `workers` was prepared by `init`.
unsafe extern "C" fn list_deinit(workers: *mut starpu_worker_collection) {
    // SAFETY: the array comes from calloc.
    unsafe {
        c::free((*workers).workerids.cast());
        (*workers).workerids = ptr::null_mut();
        (*workers).nworkers = 0;
    }
}

/// Adds a worker; returns it, or -1 if it is there already.
///
/// # Safety
///
/// `workers` was prepared by `init`.
unsafe extern "C" fn list_add(workers: *mut starpu_worker_collection, worker: c_int) -> c_int {
    // SAFETY: a collection, as the caller vouches.
    let list = unsafe { &mut *workers };
    let Some(present) = usize::try_from(worker).ok().and_then(|at| list.present.get_mut(at)) else {
        return -1;
    };
    if *present != 0 || list.workerids.is_null() {
        return -1;
    }
    *present = 1;
    // SAFETY: each worker stands in the array once, so that there is room for this one.
    unsafe { list.workerids.add(list.nworkers as usize).write(worker) };
    list.nworkers += 1;
    worker
}

/// Removes a worker; returns it, or -1 if it is not there.
///
/// # Safety
///
/// `workers` was prepared by `init`.
unsafe extern "C" fn list_remove(workers: *mut starpu_worker_collection, worker: c_int) -> c_int {
    // SAFETY: a collection, as the caller vouches.
    let list = unsafe { &mut *workers };
    let Some(present) = usize::try_from(worker).ok().and_then(|at| list.present.get_mut(at)) else {
        return -1;
    };
    if *present == 0 || list.workerids.is_null() {
        return -1;
    }
    *present = 0;
    // SAFETY: the array has `nworkers` numbers.
    let numbers = unsafe { std::slice::from_raw_parts_mut(list.workerids, list.nworkers as usize) };
    if let Some(at) = numbers.iter().position(|&number| number == worker) {
        numbers.copy_within(at + 1.., at);
        list.nworkers -= 1;
    }
    worker
}

/// Places an iterator before the first worker.
///
/// # Safety
///
/// Both pointers are valid.
unsafe extern "C" fn list_iterate(
    _workers: *mut starpu_worker_collection,
    it: *mut starpu_sched_ctx_iterator,
) {
    // SAFETY: valid for writes, as the caller vouches.
    unsafe {
        it.write(starpu_sched_ctx_iterator {
            cursor: 0,
            value: ptr::null_mut(),
            possible_value: ptr::null_mut(),
            visited: [0; STARPU_NMAXWORKERS],
            possibly_parallel: -1,
        });
    }
}

/// Places an iterator before the first worker, for a task that may be parallel.
///
/// # Safety
///
/// All pointers are valid.
unsafe extern "C" fn list_iterate_parallel(
    workers: *mut starpu_worker_collection,
    it: *mut starpu_sched_ctx_iterator,
    task: *mut starpu_task,
) {
    // SAFETY: valid, as the caller vouches.
    unsafe {
        list_iterate(workers, it);
        (*it).possibly_parallel = c_int::from(!task.is_null() && (*task).possibly_parallel != 0);
    }
}

/// Returns 1 if the iterator has another worker.
///
/// # Safety
///
/// Both pointers are valid.
unsafe extern "C" fn list_has_next(
    workers: *mut starpu_worker_collection,
    it: *mut starpu_sched_ctx_iterator,
) -> c_uint {
    // SAFETY: valid, as the caller vouches.
    unsafe { c_uint::from(!workers.is_null() && ((*it).cursor as c_uint) < (*workers).nworkers) }
}

/// Returns the next worker of the iterator; -1 after the last.
///
/// # Safety
///
/// Both pointers are valid.
unsafe extern "C" fn list_get_next(
    workers: *mut starpu_worker_collection,
    it: *mut starpu_sched_ctx_iterator,
) -> c_int {
    // SAFETY: the position is below the number of workers.
    unsafe {
        if list_has_next(workers, it) == 0 {
            return -1;
        }
        let at = (*it).cursor as usize;
        (*it).cursor += 1;
        (*workers).workerids.add(at).read()
    }
}

const fn collection(kind: starpu_worker_collection_type) -> starpu_worker_collection {
    starpu_worker_collection {
        workerids: ptr::null_mut(),
        collection_private: ptr::null_mut(),
        nworkers: 0,
        unblocked_workers: ptr::null_mut(),
        nunblocked_workers: 0,
        primaries: ptr::null_mut(),
        nprimaries: 0,
        present: [0; STARPU_NMAXWORKERS],
        is_unblocked: [0; STARPU_NMAXWORKERS],
        is_primary: [0; STARPU_NMAXWORKERS],
        type_: kind,
        has_next: Some(list_has_next),
        get_next: Some(list_get_next),
        add: Some(list_add),
        remove: Some(list_remove),
        init: Some(list_init),
        deinit: Some(list_deinit),
        init_iterator: Some(list_iterate),
        init_iterator_for_parallel_tasks: Some(list_iterate_parallel),
    }
}

/// The functions of a collection that is a list.
#[unsafe(no_mangle)]
pub static mut starpu_worker_list: starpu_worker_collection = collection(STARPU_WORKER_LIST);

/// The functions of a collection that is a tree. It goes through the workers in their order.
#[unsafe(no_mangle)]
pub static mut starpu_worker_tree: starpu_worker_collection = collection(STARPU_WORKER_TREE);

/// Returns a new collection of this kind with these workers.
pub(crate) fn new_collection(
    kind: starpu_worker_collection_type,
    workers: &[c_int],
) -> Box<starpu_worker_collection> {
    let mut list = Box::new(collection(kind));
    // SAFETY: a collection, prepared before it is filled.
    unsafe {
        list_init(&raw mut *list);
        for &worker in workers {
            list_add(&raw mut *list, worker);
        }
    }
    list
}

/// Releases a collection.
pub(crate) fn delete_collection(mut list: Box<starpu_worker_collection>) {
    // SAFETY: it was prepared by `new_collection`.
    unsafe { list_deinit(&raw mut *list) };
}

/// A node of the machine, in the tree of `starpu_workers_get_tree`.
#[repr(C)]
pub struct starpu_tree {
    nodes: *mut starpu_tree,
    parent: *mut starpu_tree,
    arity: c_int,
    id: c_int,
    level: c_int,
    is_pu: c_int,
}

/// Returns the machine as a tree: a root with the workers as its leaves. It stays the library's.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_workers_get_tree() -> *mut starpu_tree {
    static TREE: OnceLock<usize> = OnceLock::new();
    *TREE.get_or_init(|| {
        let root = Box::into_raw(Box::new(starpu_tree {
            nodes: ptr::null_mut(),
            parent: ptr::null_mut(),
            arity: processors() as c_int,
            id: 0,
            level: 0,
            is_pu: 0,
        }));
        let leaves: Vec<starpu_tree> = (0..processors() as c_int)
            .map(|id| starpu_tree { nodes: ptr::null_mut(), parent: root, arity: 0, id, level: 1, is_pu: 1 })
            .collect();
        // SAFETY: the root is still this function's alone. Both live as long as the process.
        unsafe { (*root).nodes = Box::leak(leaves.into_boxed_slice()).as_mut_ptr() };
        root as usize
    }) as *mut starpu_tree
}
