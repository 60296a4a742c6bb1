//! Tasks from lists of arguments, and the arguments that are packed for codelets.
//!
//! `src/variadic.c` reads the lists into [`Item`]s; here they become tasks. Packed values are an
//! `int` with their number, then for each its size as a `size_t` and its bytes, without padding.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;

use crate::c::{malloc, realloc};
use crate::instance::errno::{EINVAL, ENODEV};
use crate::task::{
    starpu_task_create, starpu_task_declare_deps_array, starpu_task_declare_end_deps_array,
    starpu_task_destroy, starpu_task_end_dep_add, starpu_task_submit,
};
use crate::types::*;
use crate::variadic::report;

/// One entry of the list of `starpu_task_insert`, as `src/variadic.c` lays it out.
#[repr(C)]
pub struct Item {
    marker: c_int,
    number: c_int,
    pointer: *mut c_void,
    word: u64,
    real: f64,
}

/// Markers of `starpu.h`, as numbers before the shift.
mod marker {
    pub const SHIFT: u32 = 17;
    pub const VALUE: i32 = 1;
    pub const CALLBACK: i32 = 2;
    pub const CALLBACK_WITH_ARG: i32 = 3;
    pub const CALLBACK_ARG: i32 = 4;
    pub const PRIORITY: i32 = 5;
    pub const DATA_ARRAY: i32 = 8;
    pub const DATA_MODE_ARRAY: i32 = 9;
    pub const NODE_ARRAY: i32 = 10;
    pub const TAG: i32 = 11;
    pub const HYPERVISOR_TAG: i32 = 12;
    pub const FLOPS: i32 = 13;
    pub const SCHED_CTX: i32 = 14;
    pub const PROLOGUE_CALLBACK: i32 = 15;
    pub const PROLOGUE_CALLBACK_ARG: i32 = 16;
    pub const PROLOGUE_CALLBACK_POP: i32 = 17;
    pub const PROLOGUE_CALLBACK_POP_ARG: i32 = 18;
    pub const EXECUTE_ON_WORKER: i32 = 19;
    pub const EXECUTE_WHERE: i32 = 20;
    pub const TAG_ONLY: i32 = 21;
    pub const POSSIBLY_PARALLEL: i32 = 22;
    pub const WORKER_ORDER: i32 = 23;
    pub const NAME: i32 = 25;
    pub const CL_ARGS: i32 = 26;
    pub const CL_ARGS_NFREE: i32 = 27;
    pub const TASK_DEPS_ARRAY: i32 = 28;
    pub const TASK_COLOR: i32 = 29;
    pub const HANDLES_SEQUENTIAL_CONSISTENCY: i32 = 30;
    pub const TASK_SYNCHRONOUS: i32 = 31;
    pub const TASK_END_DEPS_ARRAY: i32 = 32;
    pub const TASK_END_DEP: i32 = 33;
    pub const TASK_WORKERIDS: i32 = 34;
    pub const SEQUENTIAL_CONSISTENCY: i32 = 35;
    pub const TASK_PROFILING_INFO: i32 = 36;
    pub const TASK_NO_SUBMITORDER: i32 = 37;
    pub const CALLBACK_ARG_NFREE: i32 = 38;
    pub const CALLBACK_WITH_ARG_NFREE: i32 = 39;
    pub const PROLOGUE_CALLBACK_ARG_NFREE: i32 = 40;
    pub const PROLOGUE_CALLBACK_POP_ARG_NFREE: i32 = 41;
    pub const TASK_SCHED_DATA: i32 = 42;
    pub const TRANSACTION: i32 = 43;
    pub const TASK_FILE: i32 = 44;
    pub const TASK_LINE: i32 = 45;
    pub const EPILOGUE_CALLBACK: i32 = 46;
    pub const EPILOGUE_CALLBACK_ARG: i32 = 47;
    pub const RECURSIVE_TASK_FUNC: i32 = 48;
    pub const RECURSIVE_TASK_FUNC_ARG: i32 = 49;
    pub const RECURSIVE_TASK_GEN_DAG_FUNC: i32 = 50;
    pub const RECURSIVE_TASK_GEN_DAG_FUNC_ARG: i32 = 51;
    pub const SOON_CALLBACK: i32 = 54;
    pub const SOON_CALLBACK_ARG: i32 = 55;
    pub const SOON_CALLBACK_ARG_NFREE: i32 = 56;
}

/// The name by which messages speak of a codelet.
///
/// # Safety
/// `cl` is null or points at a codelet.
unsafe fn codelet_name(cl: *const starpu_codelet) -> String {
    if cl.is_null() {
        return "none".to_owned();
    }
    // SAFETY: `cl` points at a codelet, whose names are null or strings and whose model is null
    // or valid.
    let name = unsafe {
        if !(*cl).name.is_null() {
            (*cl).name
        } else if !(*cl).model.is_null() {
            (*(*cl).model).symbol
        } else {
            ptr::null()
        }
    };
    if name.is_null() {
        "without a name".to_owned()
    } else {
        // SAFETY: names end with 0.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}

/// Says why a task cannot be made, and gives the code of the error.
///
/// # Safety
/// `cl` is null or points at a codelet.
unsafe fn refuse(cl: *const starpu_codelet, why: &str) -> c_int {
    // SAFETY: the caller's promise.
    let name = unsafe { codelet_name(cl) };
    report("starpu_task_insert", &format!("codelet {name}: {why}"));
    -EINVAL
}

// ---- Buffers of a task --------------------------------------------------------------------------

/// Lets an array of C grow to `n` elements, of which the first `kept` keep their values.
///
/// # Safety
/// `array` is null or from `malloc`, and holds `kept` values if it is not null; `first` points at
/// `kept` values otherwise.
unsafe fn grow<T: Copy>(array: &mut *mut T, n: usize, first: *const T, kept: usize) -> bool {
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
unsafe fn set_handle(task: &mut starpu_task, i: usize, handle: starpu_data_handle_t) {
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
unsafe fn set_mode(
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

/// Adds buffers to a task; with `modes` each has its own, else all keep the codelet's.
///
/// # Safety
/// All pointers are valid, and `handles` and `modes` give `n` values each.
unsafe fn add_buffers(
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

// ---- Tasks -------------------------------------------------------------------------------------

/// A callback out of a pointer of the list.
///
/// # Safety
/// `pointer` is null or a function of that type.
unsafe fn callback(pointer: *mut c_void) -> starpu_callback_t {
    // SAFETY: null is `None`; the rest is the caller's promise.
    unsafe { std::mem::transmute::<*mut c_void, starpu_callback_t>(pointer) }
}

/// A callback with the time that is left.
type SoonCallback = Option<unsafe extern "C" fn(*mut c_void, f64)>;

/// # Safety
/// `pointer` is null or a function of that type.
unsafe fn soon_callback(pointer: *mut c_void) -> SoonCallback {
    // SAFETY: null is `None`; the rest is the caller's promise.
    unsafe { std::mem::transmute::<*mut c_void, SoonCallback>(pointer) }
}

/// # Safety
/// `pointer` is null or a function of that type.
unsafe fn recursive(pointer: *mut c_void) -> starpu_recursive_task_func_t {
    // SAFETY: null is `None`; the rest is the caller's promise.
    unsafe { std::mem::transmute::<*mut c_void, starpu_recursive_task_func_t>(pointer) }
}

/// # Safety
/// `pointer` is null or a function of that type.
unsafe fn generator(pointer: *mut c_void) -> starpu_recursive_task_gen_dag_func_t {
    // SAFETY: null is `None`; the rest is the caller's promise.
    unsafe { std::mem::transmute::<*mut c_void, starpu_recursive_task_gen_dag_func_t>(pointer) }
}

/// Writes what the list says into the task.
///
/// # Safety
/// `task` is initialised, and the items are what a valid list of arguments was read into.
unsafe fn fill(
    cl: *mut starpu_codelet,
    task: *mut starpu_task,
    items: &[Item],
    unknown: c_int,
    names: bool,
) -> c_int {
    if unknown != 0 {
        // SAFETY: `cl` is null or a codelet.
        return unsafe { refuse(cl, &format!("{unknown} is no argument; does the list end with 0?")) };
    }
    let (mut buffers, mut allocated) = (0, 0);
    let (mut nodes, mut allocated_nodes) = (0, 0);
    let mut values = 0;
    // SAFETY: `task` is valid and nobody else has it yet.
    let t = unsafe { &mut *task };
    t.cl = cl;
    for item in items {
        let (pointer, number, word) = (item.pointer, item.number, item.word);
        if item.marker < STARPU_ACCESS_MODE_MAX as c_int {
            let mode = item.marker as starpu_data_access_mode;
            // STARPU_NONE alone names data that is not used.
            if mode & (STARPU_RW | STARPU_SCRATCH | STARPU_REDUX) != 0 {
                // SAFETY: this is one handle with its mode.
                let refused = unsafe {
                    add_buffers(cl, task, &mut allocated, &mut buffers, 1, |_| (pointer.cast(), Some(mode)))
                };
                if refused != 0 {
                    return refused;
                }
            } else if mode != STARPU_NONE {
                // SAFETY: `cl` is null or a codelet.
                return unsafe { refuse(cl, &format!("{mode} is no way to use data")) };
            }
            continue;
        }
        match item.marker >> marker::SHIFT {
            marker::VALUE => values += 1,
            marker::CL_ARGS | marker::CL_ARGS_NFREE => {
                t.cl_arg = pointer;
                t.cl_arg_size = word as usize;
                t.cl_arg_free = u8::from(item.marker >> marker::SHIFT == marker::CL_ARGS);
            }
            marker::DATA_ARRAY | marker::DATA_MODE_ARRAY => {
                let n = number.max(0) as usize;
                let refused = if item.marker >> marker::SHIFT == marker::DATA_ARRAY {
                    let handles = pointer.cast::<starpu_data_handle_t>();
                    // SAFETY: the list gave `n` handles.
                    unsafe {
                        add_buffers(cl, task, &mut allocated, &mut buffers, n, |k| (*handles.add(k), None))
                    }
                } else {
                    let descrs = pointer.cast::<starpu_data_descr>();
                    // SAFETY: the list gave `n` entries.
                    unsafe {
                        add_buffers(cl, task, &mut allocated, &mut buffers, n, |k| {
                            ((*descrs.add(k)).handle, Some((*descrs.add(k)).mode))
                        })
                    }
                };
                if refused != 0 {
                    return refused;
                }
            }
            // SAFETY: the list gave `number` nodes.
            marker::NODE_ARRAY => unsafe {
                starpu_task_insert_process_node_array_arg(
                    cl,
                    task,
                    &mut allocated_nodes,
                    &mut nodes,
                    number,
                    pointer.cast(),
                );
            },
            // SAFETY: the list gave a function of this type.
            marker::CALLBACK => t.callback_func = unsafe { callback(pointer) },
            marker::CALLBACK_ARG | marker::CALLBACK_ARG_NFREE => {
                t.callback_arg = pointer;
                t.callback_arg_free = u8::from(item.marker >> marker::SHIFT == marker::CALLBACK_ARG);
            }
            marker::CALLBACK_WITH_ARG | marker::CALLBACK_WITH_ARG_NFREE => {
                // SAFETY: the list gave a function of this type.
                t.callback_func = unsafe { callback(pointer) };
                t.callback_arg = word as usize as *mut c_void;
                t.callback_arg_free = u8::from(item.marker >> marker::SHIFT == marker::CALLBACK_WITH_ARG);
            }
            // SAFETY: the list gave a function of this type.
            marker::PROLOGUE_CALLBACK => t.prologue_callback_func = unsafe { callback(pointer) },
            marker::PROLOGUE_CALLBACK_ARG | marker::PROLOGUE_CALLBACK_ARG_NFREE => {
                t.prologue_callback_arg = pointer;
                t.prologue_callback_arg_free =
                    u8::from(item.marker >> marker::SHIFT == marker::PROLOGUE_CALLBACK_ARG);
            }
            // SAFETY: the list gave a function of this type.
            marker::PROLOGUE_CALLBACK_POP => t.prologue_callback_pop_func = unsafe { callback(pointer) },
            marker::PROLOGUE_CALLBACK_POP_ARG | marker::PROLOGUE_CALLBACK_POP_ARG_NFREE => {
                t.prologue_callback_pop_arg = pointer;
                t.prologue_callback_pop_arg_free =
                    u8::from(item.marker >> marker::SHIFT == marker::PROLOGUE_CALLBACK_POP_ARG);
            }
            // SAFETY: the list gave a function of this type.
            marker::EPILOGUE_CALLBACK => t.epilogue_callback_func = unsafe { callback(pointer) },
            marker::EPILOGUE_CALLBACK_ARG => {
                t.epilogue_callback_arg = pointer;
                t.epilogue_callback_arg_free = 1;
            }
            // SAFETY: the list gave a function of this type, or null.
            marker::SOON_CALLBACK => t.soon_callback_func = unsafe { soon_callback(pointer) },
            marker::SOON_CALLBACK_ARG | marker::SOON_CALLBACK_ARG_NFREE => {
                t.soon_callback_arg = pointer;
                t.soon_callback_arg_free =
                    u8::from(item.marker >> marker::SHIFT == marker::SOON_CALLBACK_ARG);
            }
            marker::PRIORITY => t.priority = number,
            marker::TAG => {
                t.tag_id = word;
                t.use_tag = 1;
            }
            marker::TAG_ONLY => t.tag_id = word,
            // SAFETY: `task` is initialised.
            marker::TASK_END_DEP => unsafe { starpu_task_end_dep_add(task, number) },
            marker::HANDLES_SEQUENTIAL_CONSISTENCY => t.handles_sequential_consistency = pointer.cast(),
            marker::SEQUENTIAL_CONSISTENCY => t.sequential_consistency = u8::from(number != 0),
            marker::TASK_SYNCHRONOUS => t.synchronous = u8::from(number != 0),
            marker::TASK_NO_SUBMITORDER => t.no_submitorder = u8::from(number != 0),
            marker::TRANSACTION => t.transaction = pointer,
            // -1 leaves the choice.
            marker::EXECUTE_ON_WORKER if number != -1 => {
                t.workerid = number as c_uint;
                t.execute_on_a_specific_worker = 1;
            }
            marker::EXECUTE_WHERE => t.where_ = word as i32,
            marker::WORKER_ORDER => {
                if number != 0 && t.execute_on_a_specific_worker == 0 {
                    // SAFETY: `cl` is null or a codelet.
                    return unsafe { refuse(cl, "an order of execution was given before a worker") };
                }
                t.workerorder = number as c_uint;
            }
            marker::TASK_WORKERIDS => {
                t.workerids_len = number as c_uint;
                t.workerids = pointer.cast();
            }
            marker::POSSIBLY_PARALLEL => t.possibly_parallel = number as c_uint,
            marker::SCHED_CTX => t.sched_ctx = number as c_uint,
            marker::TASK_SCHED_DATA => t.sched_data = pointer,
            marker::HYPERVISOR_TAG => t.hypervisor_tag = number,
            marker::NAME => t.name = pointer.cast::<c_char>(),
            marker::FLOPS => t.flops = item.real,
            marker::TASK_COLOR => t.color = number as c_uint,
            marker::TASK_PROFILING_INFO => t.profiling_info = pointer.cast(),
            marker::TASK_FILE => t.file = pointer.cast::<c_char>(),
            marker::TASK_LINE => t.line = number,
            // SAFETY: the list gave functions of these types, or null.
            marker::RECURSIVE_TASK_FUNC => t.recursive_task_func = unsafe { recursive(pointer) },
            marker::RECURSIVE_TASK_FUNC_ARG => t.recursive_task_func_arg = pointer,
            marker::RECURSIVE_TASK_GEN_DAG_FUNC => {
                // SAFETY: as above.
                t.recursive_task_gen_dag_func = unsafe { generator(pointer) };
            }
            marker::RECURSIVE_TASK_GEN_DAG_FUNC_ARG => t.recursive_task_gen_dag_func_arg = pointer,
            // Markers for other processes, and the arrays of dependencies, which follow below.
            _ => {}
        }
    }
    if names && t.name.is_null() {
        t.name = c"task_build".as_ptr();
    }
    if !cl.is_null() {
        // SAFETY: `cl` points at a codelet.
        let expected = unsafe { (*cl).nbuffers };
        if expected == STARPU_VARIABLE_NBUFFERS {
            t.nbuffers = buffers;
            if nodes != 0 && nodes != buffers {
                let why = format!("{buffers} buffers and nodes for {nodes} were given");
                // SAFETY: `cl` points at a codelet.
                return unsafe { refuse(cl, &why) };
            }
        } else if expected != buffers {
            // SAFETY: `cl` points at a codelet.
            return unsafe { refuse(cl, &format!("it has {expected} buffers and was given {buffers}")) };
        }
    }
    if values > 0 {
        if !t.cl_arg.is_null() {
            // SAFETY: `cl` is null or a codelet.
            return unsafe { refuse(cl, "STARPU_VALUE and STARPU_CL_ARGS exclude each other") };
        }
        // SAFETY: the values are those of the list, and the task has no argument yet.
        if unsafe { pack(items, &mut t.cl_arg, &mut t.cl_arg_size) } != 0 {
            std::process::abort();
        }
        t.cl_arg_free = 1;
    }
    for item in items {
        let n = item.number as c_uint;
        match item.marker >> marker::SHIFT {
            // SAFETY: the list gave `n` tasks, and `task` is not submitted.
            marker::TASK_DEPS_ARRAY => unsafe {
                starpu_task_declare_deps_array(task, n, item.pointer.cast());
            },
            // SAFETY: as above.
            marker::TASK_END_DEPS_ARRAY => unsafe {
                starpu_task_declare_end_deps_array(task, n, item.pointer.cast());
            },
            _ => {}
        }
    }
    0
}

/// The items as a slice.
///
/// # Safety
/// `items` points at `n` items, which outlive the result.
unsafe fn slice<'a>(items: *const Item, n: usize) -> &'a [Item] {
    if n == 0 {
        &[]
    } else {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(items, n) }
    }
}

/// Frees a task that will never be submitted, with everything that it was to free.
///
/// # Safety
/// `task` is from `starpu_task_create` and was not submitted.
unsafe fn drop_task(task: *mut starpu_task) {
    // SAFETY: the caller's promise; a task that destroys itself may not be destroyed by hand.
    unsafe {
        (*task).destroy = 0;
        starpu_task_destroy(task);
    }
}

/// Makes a task from a list of arguments and submits it.
///
/// # Safety
/// The items are what a valid list of arguments was read into.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zellige_starpu_insert(
    cl: *mut starpu_codelet,
    items: *const Item,
    n: usize,
    unknown: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let task = starpu_task_create();
        if task.is_null() {
            return -12;
        }
        (*task).cl_arg_free = 1;
        let mut result = fill(cl, task, slice(items, n), unknown, false);
        if result == 0 {
            result = starpu_task_submit(task);
            if result == 0 {
                return 0;
            }
            if result == -ENODEV {
                eprintln!("zellige-starpu: codelet {}: no worker can execute the task", codelet_name(cl));
            }
            // A task that was refused is nobody's: the caller has no pointer to it.
        }
        drop_task(task);
        result
    }
}

/// Makes a task from a list of arguments; null where the list is wrong.
///
/// # Safety
/// As for [`zellige_starpu_insert`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zellige_starpu_build(
    cl: *mut starpu_codelet,
    items: *const Item,
    n: usize,
    unknown: c_int,
) -> *mut starpu_task {
    // SAFETY: the caller's promise.
    unsafe {
        let task = starpu_task_create();
        if task.is_null() {
            return task;
        }
        if fill(cl, task, slice(items, n), unknown, true) != 0 {
            drop_task(task);
            return ptr::null_mut();
        }
        task
    }
}

/// Writes a list of arguments into a task that the program has.
///
/// # Safety
/// As for [`zellige_starpu_insert`], and `task` is initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zellige_starpu_set(
    task: *mut starpu_task,
    cl: *mut starpu_codelet,
    items: *const Item,
    n: usize,
    unknown: c_int,
) -> c_int {
    if task.is_null() {
        return -EINVAL;
    }
    // SAFETY: the caller's promise.
    unsafe {
        (*task).cl_arg_free = 1;
        fill(cl, task, slice(items, n), unknown, false)
    }
}

// ---- Packed arguments --------------------------------------------------------------------------

/// Offset of the first value, after the number of values.
const COUNT: usize = size_of::<c_int>();

/// Packs the values among the items into one block from `malloc`, null where there is none.
///
/// # Safety
/// Each value of the items points at as many bytes as it says.
unsafe fn pack(items: &[Item], buffer: &mut *mut c_void, size: &mut usize) -> c_int {
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
unsafe fn next(state: &mut starpu_codelet_pack_arg_data, function: &str) -> (*mut u8, usize) {
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
