//! The functions of a task: which of them run on a worker, and where they want their buffers.

use std::ffi::{c_uint, c_void};
use std::slice;

use crate::data::data;
use crate::gpus::{gpu_of, is_node};
use crate::instance::Instance;
use crate::types::*;

/// Returns CPU function `at` of a codelet.
pub unsafe fn cpu_function(codelet: *mut starpu_codelet, at: usize) -> starpu_cpu_func_t {
    let function = (*codelet).cpu_funcs[at];
    let single = (*codelet).cpu_func;
    // The old field holds one function, or a mark that says that there are several.
    if at == 0 && function.is_none() && single.is_some_and(|f| f as usize != usize::MAX) {
        return single;
    }
    function
}

/// Returns CUDA function `at` of a codelet.
pub unsafe fn cuda_function(codelet: *mut starpu_codelet, at: usize) -> starpu_cpu_func_t {
    let (function, single) = ((*codelet).cuda_funcs[at], (*codelet).cuda_func);
    let is_single = |f: &unsafe extern "C" fn(*mut *mut c_void, *mut c_void)| *f as usize != usize::MAX;
    function.or_else(|| single.filter(|f| at == 0 && is_single(f)))
}

/// Returns function `at` of a task for the kind of a worker, if the task may run on that kind.
pub unsafe fn function_of(task: *mut starpu_task, worker: usize, at: usize) -> starpu_cpu_func_t {
    let codelet = (*task).cl;
    let place = if (*task).where_ >= 0 { (*task).where_ as u32 } else { (*codelet).where_ };
    let (kind, function) = match gpu_of(worker) {
        None => (STARPU_CPU, cpu_function(codelet, at)),
        Some(_) => (STARPU_CUDA, cuda_function(codelet, at)),
    };
    function.filter(|_| place == 0 || place & kind != 0)
}

/// Returns true if a task has a function for the kind of a worker, and may run on that kind.
pub unsafe fn has_function(task: *mut starpu_task, worker: usize) -> bool {
    (0..STARPU_MAXIMPLEMENTATIONS).any(|at| function_of(task, worker, at).is_some())
}

unsafe fn may_run(task: *mut starpu_task, worker: usize, implementation: usize) -> bool {
    if function_of(task, worker, implementation).is_none() {
        return false;
    }
    let can = (*(*task).cl).can_execute;
    can.is_none_or(|can| can(worker as c_uint, task, implementation as c_uint) != 0)
}

/// Returns true if a task has to be kept from some workers.
pub unsafe fn is_restricted(instance: &Instance, task: *mut starpu_task) -> bool {
    (*task).execute_on_a_specific_worker != 0
        || !(*task).workerids.is_null()
        || (*(*task).cl).can_execute.is_some()
        || !instance.gpus.is_empty()
            && [0, instance.workers - 1].iter().any(|&worker| function_of(task, worker, 0).is_none())
}

/// Returns true if the task may run on this worker.
pub unsafe fn allowed(task: *mut starpu_task, worker: usize) -> bool {
    if (*task).execute_on_a_specific_worker != 0 && (*task).workerid as usize != worker {
        return false;
    }
    if !(*task).workerids.is_null() && (*task).workerids_len > 0 {
        let words = slice::from_raw_parts((*task).workerids, (*task).workerids_len as usize);
        if words.get(worker / 32).is_none_or(|word| word >> (worker % 32) & 1 == 0) {
            return false;
        }
    }
    implementation(task, worker).is_some()
}

/// Returns the implementations that may run on a worker.
pub unsafe fn implementations(task: *mut starpu_task, worker: usize) -> impl Iterator<Item = usize> {
    (0..STARPU_MAXIMPLEMENTATIONS).filter(move |&at| may_run(task, worker, at))
}

/// Returns the implementation that runs on a worker.
pub unsafe fn implementation(task: *mut starpu_task, worker: usize) -> Option<usize> {
    implementations(task, worker).next()
}

/// Returns the handle of a buffer.
pub unsafe fn handle_at(task: *mut starpu_task, at: usize) -> Option<starpu_data_handle_t> {
    if (*task).dyn_handles.is_null() {
        (*task).handles.get(at).copied()
    } else {
        Some(*(*task).dyn_handles.add(at))
    }
}

/// Returns the memory node in which a task wants a buffer if it runs at node `local`; `None` if it
/// does not want its value.
pub unsafe fn node_of_buffer(task: *mut starpu_task, at: usize, local: usize) -> Option<usize> {
    let codelet = &*(*task).cl;
    let of = data(handle_at(task, at)?);
    if (*of.ops).is_multiformat != 0 {
        // Data in several formats are converted on the host.
        return Some(0);
    }
    if codelet.specific_nodes == 0 {
        return Some(local);
    }
    let (dynamic, fixed) = if codelet.nbuffers == STARPU_VARIABLE_NBUFFERS {
        ((*task).dyn_nodes, &(*task).nodes)
    } else {
        (codelet.dyn_nodes, &codelet.nodes)
    };
    let wanted = if dynamic.is_null() { fixed.get(at).copied() } else { Some(*dynamic.add(at)) };
    match wanted.unwrap_or(STARPU_SPECIFIC_NODE_LOCAL) {
        STARPU_SPECIFIC_NODE_NONE => None,
        STARPU_SPECIFIC_NODE_CPU => Some(0),
        STARPU_SPECIFIC_NODE_LOCAL_OR_CPU | STARPU_SPECIFIC_NODE_LOCAL_OR_SIMILAR_OR_CPU => {
            let reads = mode_at(task, codelet.nbuffers == STARPU_VARIABLE_NBUFFERS, at)
                .is_ok_and(|mode| mode & STARPU_R != 0);
            Some(if reads && !of.residency.is_valid(local) { 0 } else { local })
        }
        node if node >= 0 && is_node(node as usize) => Some(node as usize),
        _ => Some(local),
    }
}

/// Returns the mode of a buffer. `variable`: the task says how many there are.
///
/// # Errors
/// Says that there is none.
pub unsafe fn mode_at(
    task: *mut starpu_task,
    variable: bool,
    at: usize,
) -> Result<starpu_data_access_mode, String> {
    let missing = || format!("buffer {at} has no mode: fill modes or dyn_modes");
    let codelet = (*task).cl;
    let found = |array: &[starpu_data_access_mode], dynamic: *mut starpu_data_access_mode| {
        if dynamic.is_null() { array.get(at).copied() } else { Some(*dynamic.add(at)) }
    };
    let of_codelet = if variable { None } else { found(&(*codelet).modes, (*codelet).dyn_modes) };
    // A codelet may leave the modes to its tasks.
    let of_task = || found(&(*task).modes, (*task).dyn_modes);
    let mode = of_codelet.filter(|&mode| mode != 0).or_else(of_task).ok_or_else(missing)?;
    let kinds = STARPU_RW | STARPU_SCRATCH | STARPU_REDUX;
    if mode & kinds == 0 && mode & STARPU_NONE == 0 { Err(missing()) } else { Ok(mode) }
}
