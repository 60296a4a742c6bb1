//! Buffers and their nodes in the lists of `starpu_task_insert`.

use super::*;

/// Lets an array of C grow to `n` elements, of which the first `kept` keep their values.
///
/// # Safety
/// `array` is null or from `malloc`, and holds `kept` values if it is not null; `first` points at
/// `kept` values otherwise.
pub(super) unsafe fn grow<T: Copy>(array: &mut *mut T, n: usize, first: *const T, kept: usize) -> bool {
    // SAFETY: `*array` is null or from `malloc`.
    let more = unsafe { realloc((*array).cast(), n * size_of::<T>()) }.cast::<T>();
    if more.is_null() {
        return false;
    }
    if array.is_null() {
        // SAFETY: the new array has room for `n >= kept` values.
        unsafe { ptr::copy_nonoverlapping(first, more, kept) };
    }
    *array = more;
    true
}

/// Makes place for `room` more buffers after the first `current_buffer`, in dynamic arrays where
/// the ones of the task are too short.
///
/// # Safety
/// All pointers are valid; `task` has `current_buffer` buffers, and its dynamic arrays are from
/// `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_insert_data_make_room(
    cl: *mut starpu_codelet,
    task: *mut starpu_task,
    allocated_buffers: *mut c_int,
    current_buffer: c_int,
    room: c_int,
) {
    // SAFETY: the caller's promise.
    let (cl, task, allocated) = unsafe { (&*cl, &mut *task, &mut *allocated_buffers) };
    let kept = current_buffer.max(0) as usize;
    let wanted = kept + room.max(0) as usize;
    if wanted <= STARPU_NMAXBUFS || wanted <= (*allocated).max(0) as usize {
        return;
    }
    let n = 2 * wanted;
    // SAFETY: `task` has `kept` handles, in one place or the other.
    let mut fits = unsafe { grow(&mut task.dyn_handles, n, task.handles.as_ptr(), kept) };
    if cl.nbuffers == STARPU_VARIABLE_NBUFFERS || cl.dyn_modes.is_null() {
        // SAFETY: `task` has `kept` modes, in one place or the other.
        fits &= unsafe { grow(&mut task.dyn_modes, n, task.modes.as_ptr(), kept) };
    }
    if fits {
        *allocated = n as c_int;
    } else {
        report("starpu_task_insert", &format!("no memory for {n} buffers"));
        std::process::abort();
    }
}

/// Stores one handle as buffer `i`.
///
/// # Safety
/// The task has place for buffer `i`.
pub(super) unsafe fn set_handle(task: &mut starpu_task, i: usize, handle: starpu_data_handle_t) {
    if task.dyn_handles.is_null() {
        task.handles[i] = handle;
    } else {
        // SAFETY: the caller's promise.
        unsafe { *task.dyn_handles.add(i) = handle };
    }
}

/// Stores the mode of buffer `i` where it belongs: in the task where the codelet leaves it open,
/// in the codelet where that has none yet. `false` says that the codelet has another one.
///
/// # Safety
/// The task has place for buffer `i`, and so has the codelet unless its number of buffers varies.
pub(super) unsafe fn set_mode(
    cl: *mut starpu_codelet,
    task: &mut starpu_task,
    i: usize,
    mode: starpu_data_access_mode,
) -> bool {
    // These bits say how a buffer is sent or counted, and nothing about its use by the codelet.
    const BESIDE: starpu_data_access_mode = STARPU_SSEND
        | STARPU_NOFOOTPRINT
        | STARPU_MPI_SAME
        | (STARPU_MPI_REDUX & !STARPU_RW & !STARPU_COMMUTE);
    // SAFETY: the caller's promise; a codelet whose modes are all set is only read.
    unsafe {
        if (*cl).nbuffers == STARPU_VARIABLE_NBUFFERS
            || ((*cl).nbuffers > STARPU_NMAXBUFS as c_int && (*cl).dyn_modes.is_null())
        {
            let mode = mode & !(STARPU_SSEND | STARPU_NOFOOTPRINT | STARPU_MPI_SAME);
            if task.dyn_modes.is_null() {
                task.modes[i] = mode;
            } else {
                *task.dyn_modes.add(i) = mode;
            }
            return true;
        }
        let place = if (*cl).dyn_modes.is_null() {
            (&raw mut (*cl).modes).cast::<starpu_data_access_mode>().add(i)
        } else {
            (*cl).dyn_modes.add(i)
        };
        if *place == 0 {
            *place = mode & !(STARPU_SSEND | STARPU_NOFOOTPRINT | STARPU_MPI_SAME);
            true
        } else {
            *place & !BESIDE == mode & !BESIDE
        }
    }
}

/// Adds a buffer that the codelet has with this mode, in the arrays of task and codelet; returns
/// false, and adds nothing, if it is another one.
///
/// # Safety
/// `cl` is null or a codelet.
#[inline]
pub(super) unsafe fn add_expected(
    cl: *const starpu_codelet,
    task: &mut starpu_task,
    current: &mut c_int,
    handle: starpu_data_handle_t,
    mode: starpu_data_access_mode,
) -> bool {
    let at = *current as usize;
    // SAFETY: the caller's promise.
    let Some(codelet) = (unsafe { cl.as_ref() }) else { return false };
    let expected = *current < codelet.nbuffers
        && codelet.dyn_modes.is_null()
        && task.dyn_handles.is_null()
        && codelet.modes.get(at) == Some(&mode);
    if expected && let Some(place) = task.handles.get_mut(at) {
        *place = handle;
        *current += 1;
        return true;
    }
    false
}

/// Adds buffers to a task; with `modes` each has its own, else all keep the codelet's.
///
/// # Safety
/// All pointers are valid, and `handles` and `modes` give `n` values each.
pub(super) unsafe fn add_buffers(
    cl: *mut starpu_codelet,
    task: *mut starpu_task,
    allocated: *mut c_int,
    current: &mut c_int,
    n: usize,
    of: impl Fn(usize) -> (starpu_data_handle_t, Option<starpu_data_access_mode>),
) -> c_int {
    if cl.is_null() {
        // SAFETY: null is allowed.
        return unsafe { refuse(cl, "a task without a codelet was given data") };
    }
    // SAFETY: `cl` is valid.
    let most = unsafe { (*cl).nbuffers };
    if most != STARPU_VARIABLE_NBUFFERS && i64::from(*current) + n as i64 > i64::from(most) {
        // SAFETY: `cl` is valid.
        return unsafe { refuse(cl, &format!("it has {most} buffers and was given more data")) };
    }
    // SAFETY: the caller's promise.
    unsafe { starpu_task_insert_data_make_room(cl, task, allocated, *current, n as c_int) };
    for k in 0..n {
        let i = *current as usize;
        let (handle, mode) = of(k);
        // SAFETY: there is place for `n` buffers after the first `current`.
        unsafe {
            set_handle(&mut *task, i, handle);
            if let Some(mode) = mode
                && !set_mode(cl, &mut *task, i, mode)
            {
                return refuse(cl, &format!("buffer {i} has another mode than {mode}, which was given"));
            }
        }
        *current += 1;
    }
    0
}

/// Adds one buffer with its mode to a task.
///
/// # Safety
/// All pointers are valid; see [`starpu_task_insert_data_make_room`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_insert_data_process_arg(
    cl: *mut starpu_codelet,
    task: *mut starpu_task,
    allocated_buffers: *mut c_int,
    current_buffer: *mut c_int,
    mode: c_int,
    handle: starpu_data_handle_t,
) {
    // SAFETY: the caller's promise.
    unsafe {
        add_buffers(cl, task, allocated_buffers, &mut *current_buffer, 1, |_| (handle, Some(mode as c_uint)));
    }
}

/// Adds buffers to a task, which the codelet knows the modes of.
///
/// # Safety
/// As above, and `handles` holds `nhandles` handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_insert_data_process_array_arg(
    cl: *mut starpu_codelet,
    task: *mut starpu_task,
    allocated_buffers: *mut c_int,
    current_buffer: *mut c_int,
    nhandles: c_int,
    handles: *mut starpu_data_handle_t,
) {
    // SAFETY: the caller's promise.
    unsafe {
        add_buffers(cl, task, allocated_buffers, &mut *current_buffer, nhandles.max(0) as usize, |k| {
            (*handles.add(k), None)
        });
    }
}

/// Adds buffers with their modes to a task.
///
/// # Safety
/// As above, and `descrs` holds `ndescrs` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_insert_data_process_mode_array_arg(
    cl: *mut starpu_codelet,
    task: *mut starpu_task,
    allocated_buffers: *mut c_int,
    current_buffer: *mut c_int,
    ndescrs: c_int,
    descrs: *mut starpu_data_descr,
) {
    // SAFETY: the caller's promise.
    unsafe {
        add_buffers(cl, task, allocated_buffers, &mut *current_buffer, ndescrs.max(0) as usize, |k| {
            ((*descrs.add(k)).handle, Some((*descrs.add(k)).mode))
        });
    }
}

/// Makes place for `room` more nodes of buffers after the first `current_node`.
///
/// # Safety
/// All pointers are valid, and the dynamic nodes of `task` are from `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_insert_data_make_node_room(
    cl: *mut starpu_codelet,
    task: *mut starpu_task,
    allocated_nodes: *mut c_int,
    current_node: c_int,
    room: c_int,
) {
    // SAFETY: the caller's promise.
    let (cl, task, allocated) = unsafe { (&*cl, &mut *task, &mut *allocated_nodes) };
    task.specific_nodes = 1;
    let kept = current_node.max(0) as usize;
    let wanted = kept + room.max(0) as usize;
    if wanted <= STARPU_NMAXBUFS || wanted <= (*allocated).max(0) as usize || !cl.dyn_nodes.is_null() {
        return;
    }
    // SAFETY: `task` has `kept` nodes, in one place or the other.
    if unsafe { grow(&mut task.dyn_nodes, 2 * wanted, task.nodes.as_ptr(), kept) } {
        *allocated = 2 * wanted as c_int;
    } else {
        report("starpu_task_insert", &format!("no memory for the nodes of {wanted} buffers"));
        std::process::abort();
    }
}

/// Says for each buffer on which node it is to be.
///
/// # Safety
/// All pointers are valid, and `nodes` holds `nnodes` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_insert_process_node_array_arg(
    cl: *mut starpu_codelet,
    task: *mut starpu_task,
    allocated_nodes: *mut c_int,
    current_node: *mut c_int,
    nnodes: c_int,
    nodes: *mut c_int,
) {
    if cl.is_null() || nnodes <= 0 {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        if (*cl).specific_nodes == 0 {
            refuse(cl, "nodes were given, but its buffers have none (specific_nodes is 0); they are ignored");
            return;
        }
        starpu_task_insert_data_make_node_room(cl, task, allocated_nodes, *current_node, nnodes);
        for k in 0..nnodes as usize {
            let i = *current_node as usize;
            if (*task).dyn_nodes.is_null() && i < STARPU_NMAXBUFS {
                (*task).nodes[i] = *nodes.add(k);
            } else if !(*task).dyn_nodes.is_null() {
                *(*task).dyn_nodes.add(i) = *nodes.add(k);
            }
            *current_node += 1;
        }
    }
}
