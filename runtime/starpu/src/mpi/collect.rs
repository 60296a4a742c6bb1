//! Reductions over processes, and scattering and gathering.
//!
//! A task that adds to data of another rank adds to a copy of its own. At the next access of
//! another kind, or when the program asks for it, the copies are sent along a tree to the owner,
//! which adds them in the order of the ranks.

use std::ffi::{c_int, c_void};

use ::mpi::ffi::MPI_Comm;
use parking_lot::Mutex;

use super::messages::{End, MessageCallback, receive_detached, send_detached};
use super::owners::{PER_NODE, rank_of, tag_of, unregistered, with_owned};
use super::world::needed;
use crate::data::data;
use crate::handles::{
    starpu_data_invalidate_submit, starpu_data_register_same, starpu_data_unregister_submit,
};
use crate::instance::{self, errno};
use crate::reduction;
use crate::types::*;

#[derive(Clone, Copy)]
struct Open {
    handle: usize,
    raw: MPI_Comm,
}

// SAFETY: a handle of MPI and a number.
unsafe impl Send for Open {}

/// Data to which tasks have added, in the order of the first of these tasks.
static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

/// True if this rank has not added to the data since the last reduction.
pub unsafe fn is_first(handle: starpu_data_handle_t, me: c_int) -> bool {
    !with_owned(handle, |owned| Some(owned.contributors.contains(&me))).unwrap_or(false)
}

/// Notes that a task on `node` adds to data.
pub unsafe fn contributes(raw: MPI_Comm, handle: starpu_data_handle_t, node: c_int) {
    data(handle).mpi.set(|owned| owned.contributors.insert(node));
    let mut open = OPEN.lock();
    if open.iter().all(|one| one.handle != handle as usize) {
        open.push(Open { handle: handle as usize, raw });
    }
}

/// Ends the reduction of data, if one is open.
pub unsafe fn finish(handle: starpu_data_handle_t) {
    let open = OPEN.lock().iter().find(|one| one.handle == handle as usize).copied();
    if let Some(open) = open {
        reduce(open.raw, handle, None);
    }
}

/// Ends all reductions.
pub fn finish_all() {
    let all = OPEN.lock().clone();
    for one in all {
        // SAFETY: a handle leaves the list before it is unregistered.
        unsafe { reduce(one.raw, one.handle as starpu_data_handle_t, None) };
    }
}

/// Forgets data that are unregistered.
pub fn forget(handle: starpu_data_handle_t) {
    OPEN.lock().retain(|one| one.handle != handle as usize);
}

/// Adds the copies of all ranks at the owner, along a tree in which a node has `arity - 1` others
/// below it; without an arity the owner adds all of them.
unsafe fn reduce(raw: MPI_Comm, handle: starpu_data_handle_t, arity: Option<usize>) -> c_int {
    const NAME: &str = "starpu_mpi_redux_data";
    let (Some((_, comm)), Some(instance)) = (needed(NAME, raw), instance::needed(NAME)) else {
        return -errno::EINVAL;
    };
    let (Some(owner), Some(tag)) = (rank_of(handle), tag_of(handle)) else {
        return unregistered(NAME, data(handle));
    };
    forget(handle);
    let contributors = data(handle).mpi.set(|owned| std::mem::take(&mut owned.contributors));
    if owner == PER_NODE || contributors.is_empty() {
        return 0;
    }
    let me = comm.me as c_int;
    let others = contributors.into_iter().filter(|&rank| rank != owner);
    let mut nodes: Vec<c_int> = std::iter::once(owner).chain(others).collect();
    let arity = arity.unwrap_or(nodes.len()).max(2);
    while nodes.len() > 1 {
        for group in nodes.chunks(arity) {
            for &other in &group[1..] {
                if me == other {
                    let result = send_detached(NAME, handle, group[0], tag, raw, false, End::default());
                    starpu_data_invalidate_submit(handle);
                    return result;
                }
                if me != group[0] {
                    continue;
                }
                let mut part = std::ptr::null_mut();
                starpu_data_register_same(&raw mut part, handle);
                let datatype = with_owned(handle, |owned| owned.datatype);
                data(part).mpi.set(|owned| owned.datatype = datatype);
                let result = receive_detached(NAME, part, other, tag, raw, true, End::default());
                if result == 0
                    && let Err(why) = reduction::submit_sum(instance, handle, part)
                {
                    crate::instance::complain(format_args!("{NAME}: {why}"));
                }
                starpu_data_unregister_submit(part);
                if result != 0 {
                    return result;
                }
            }
        }
        nodes = nodes.chunks(arity).map(|group| group[0]).collect();
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_redux_data(raw: MPI_Comm, handle: starpu_data_handle_t) -> c_int {
    reduce(raw, handle, None)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_redux_data_prio(
    raw: MPI_Comm,
    handle: starpu_data_handle_t,
    _priority: c_int,
) -> c_int {
    reduce(raw, handle, None)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_redux_data_tree(
    raw: MPI_Comm,
    handle: starpu_data_handle_t,
    arity: c_int,
) -> c_int {
    reduce(raw, handle, usize::try_from(arity).ok().filter(|&arity| arity > 1))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_redux_data_prio_tree(
    raw: MPI_Comm,
    handle: starpu_data_handle_t,
    _priority: c_int,
    arity: c_int,
) -> c_int {
    starpu_mpi_redux_data_tree(raw, handle, arity)
}

/// Callbacks of a scatter or gather, for the sends and for the receives of this process.
struct Ends {
    sent: (MessageCallback, *mut c_void),
    received: (MessageCallback, *mut c_void),
}

/// Moves data between a root and their owners.
unsafe fn between(
    function: &str,
    handles: *mut starpu_data_handle_t,
    count: c_int,
    root: c_int,
    raw: MPI_Comm,
    to_root: bool,
    ends: &Ends,
) -> c_int {
    let Some((_, comm)) = needed(function, raw) else { return -errno::EINVAL };
    let me = comm.me as c_int;
    for at in 0..count.max(0) as usize {
        let handle = *handles.add(at);
        if handle.is_null() {
            continue;
        }
        let (Some(owner), Some(tag)) = (rank_of(handle), tag_of(handle)) else {
            return unregistered(function, data(handle));
        };
        if owner == root {
            continue;
        }
        let (from, to) = if to_root { (owner, root) } else { (root, owner) };
        let result = if me == from {
            let end = End::calls(ends.sent.0, ends.sent.1);
            send_detached(function, handle, to, tag, raw, false, end)
        } else if me == to {
            let end = End::calls(ends.received.0, ends.received.1);
            receive_detached(function, handle, from, tag, raw, true, end)
        } else {
            0
        };
        if result != 0 {
            return result;
        }
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_scatter_detached(
    handles: *mut starpu_data_handle_t,
    count: c_int,
    root: c_int,
    raw: MPI_Comm,
    sent: MessageCallback,
    sent_argument: *mut c_void,
    received: MessageCallback,
    received_argument: *mut c_void,
) -> c_int {
    let ends = Ends { sent: (sent, sent_argument), received: (received, received_argument) };
    between("starpu_mpi_scatter_detached", handles, count, root, raw, false, &ends)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_gather_detached(
    handles: *mut starpu_data_handle_t,
    count: c_int,
    root: c_int,
    raw: MPI_Comm,
    sent: MessageCallback,
    sent_argument: *mut c_void,
    received: MessageCallback,
    received_argument: *mut c_void,
) -> c_int {
    let ends = Ends { sent: (sent, sent_argument), received: (received, received_argument) };
    between("starpu_mpi_gather_detached", handles, count, root, raw, true, &ends)
}
