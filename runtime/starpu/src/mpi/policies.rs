//! Choice of the node of a task that writes data of several owners.

use std::ffi::c_int;

use parking_lot::Mutex;

use super::owners::{PER_NODE, rank_of};
use crate::data::data;
use crate::instance::{complain, errno};
use crate::types::*;

/// Largest number of policies, with the predefined one.
const MOST: usize = 24;
/// The policy that is in use.
pub const CURRENT: c_int = -1;

type Policy = unsafe extern "C" fn(c_int, c_int, *mut starpu_data_descr, c_int) -> c_int;

struct Policies {
    registered: [Option<Policy>; MOST],
    current: c_int,
}

static POLICIES: Mutex<Policies> = Mutex::new(Policies { registered: [None; MOST], current: 0 });

/// The node with most bytes of the data: what is read counts once, and so does what is written.
unsafe fn with_most_data(ranks: c_int, all: &[starpu_data_descr]) -> c_int {
    let mut bytes = vec![0usize; ranks.max(1) as usize];
    for one in all.iter().filter(|one| !one.handle.is_null()) {
        let Some(rank) = rank_of(one.handle).filter(|&rank| rank != PER_NODE) else { continue };
        let data = data(one.handle);
        let size = (*data.ops).get_size.map_or(0, |size| size(one.handle));
        let times = usize::from(one.mode & STARPU_R != 0) + usize::from(one.mode & STARPU_W != 0);
        if let Some(bytes) = bytes.get_mut(rank as usize) {
            *bytes += times * size;
        }
    }
    // The first one of equals.
    let mut best = 0;
    for (rank, &held) in bytes.iter().enumerate() {
        if held > bytes[best] {
            best = rank;
        }
    }
    best as c_int
}

/// Chooses the node of a task.
pub unsafe fn choose(policy: c_int, me: c_int, ranks: c_int, all: &mut [starpu_data_descr]) -> c_int {
    let (policy, chosen) = {
        let policies = POLICIES.lock();
        let policy = if policy == CURRENT { policies.current } else { policy };
        (policy, policies.registered.get(policy as usize).copied().flatten())
    };
    if let Some(chosen) = chosen {
        return chosen(me, ranks, all.as_mut_ptr(), all.len() as c_int);
    }
    if policy != 0 {
        complain(format_args!(
            "starpu_mpi_task_insert: there is no policy {policy} of this program: that of most data is used"
        ));
    }
    with_most_data(ranks, all)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_node_selection_register_policy(policy: Option<Policy>) -> c_int {
    let mut policies = POLICIES.lock();
    let free = policies.registered.iter().skip(1).position(Option::is_none);
    match (free, policy) {
        (Some(at), Some(_)) => {
            policies.registered[at + 1] = policy;
            at as c_int + 1
        }
        _ => {
            complain(format_args!(
                "starpu_mpi_node_selection_register_policy: there are {} policies already: unregister one",
                MOST - 1
            ));
            -errno::ENOMEM
        }
    }
}

/// Returns the place of a policy of the program.
fn registered(function: &str, policies: &Policies, policy: c_int) -> Option<usize> {
    let at =
        usize::try_from(policy).ok().filter(|&at| policies.registered.get(at).is_some_and(Option::is_some));
    if at.is_none() {
        complain(format_args!("{function}: there is no policy {policy} of this program"));
    }
    at
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_mpi_node_selection_unregister_policy(policy: c_int) -> c_int {
    let mut policies = POLICIES.lock();
    let Some(at) = registered("starpu_mpi_node_selection_unregister_policy", &policies, policy) else {
        return -errno::EINVAL;
    };
    policies.registered[at] = None;
    if policies.current == policy {
        policies.current = 0;
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_mpi_node_selection_get_current_policy() -> c_int {
    POLICIES.lock().current
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_mpi_node_selection_set_current_policy(policy: c_int) -> c_int {
    let mut policies = POLICIES.lock();
    if policy != 0 && registered("starpu_mpi_node_selection_set_current_policy", &policies, policy).is_none()
    {
        return -errno::EINVAL;
    }
    policies.current = policy;
    0
}
