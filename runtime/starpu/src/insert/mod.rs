//! Tasks from lists of arguments, and the arguments that are packed for codelets.
//!
//! `src/variadic.c` reads the lists into [`Item`]s; here they become tasks. Packed values are an
//! `int` with their number, then for each its size as a `size_t` and its bytes, without padding.

mod buffers;
mod packed;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;

use self::buffers::{add_buffers, add_expected, starpu_task_insert_process_node_array_arg};
use self::packed::pack;
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
    pub marker: c_int,
    pub number: c_int,
    pub pointer: *mut c_void,
    word: u64,
    real: f64,
}

/// Markers of `starpu.h`, as numbers before the shift.
pub mod marker {
    pub const SHIFT: u32 = 17;
    pub const VALUE: i32 = 1;
    pub const CALLBACK: i32 = 2;
    pub const CALLBACK_WITH_ARG: i32 = 3;
    pub const CALLBACK_ARG: i32 = 4;
    pub const PRIORITY: i32 = 5;
    #[cfg(feature = "mpi")]
    pub const EXECUTE_ON_NODE: i32 = 6;
    #[cfg(feature = "mpi")]
    pub const EXECUTE_ON_DATA: i32 = 7;
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
    #[cfg(feature = "mpi")]
    pub const NODE_SELECTION_POLICY: i32 = 24;
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
                // SAFETY: `cl` is null or a codelet.
                if unsafe { add_expected(cl, t, &mut buffers, pointer.cast(), mode) } {
                    continue;
                }
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
