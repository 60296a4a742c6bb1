//! Processors, what is bound to them, and memory nodes.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{EINVAL, ERANGE, c, copy_text, exists};
use crate::gpus::{is_node, node_here, node_of, nodes, on_node};
use crate::instance;
use crate::types::*;

/// Returns the number of processors of the machine that this process may use.
pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

// ---- Processors and bindings --------------------------------------------------------------------

/// Returns the number by which the operating system knows a processor.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_get_pu_os_index(processor: c_uint) -> c_int {
    processor as c_int
}

/// Points `workers` at the workers of a processor and returns their number. The list stays the
/// library's.
///
/// # Safety
///
/// `workers` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_bindid_get_workerids(processor: c_int, workers: *mut *mut c_int) -> c_int {
    static NUMBERS: OnceLock<[c_int; STARPU_NMAXWORKERS]> = OnceLock::new();
    if !exists(processor) || processor as usize >= STARPU_NMAXWORKERS {
        return 0;
    }
    let numbers = NUMBERS.get_or_init(|| std::array::from_fn(|number| number as c_int));
    // SAFETY: `workers` is valid, as the caller vouches; the list has this position.
    unsafe { workers.write(numbers.as_ptr().add(processor as usize).cast_mut()) };
    1
}

/// The thread has a processor for itself, in `starpu_get_next_bindid` and `starpu_bind_thread_on`.
const STARPU_THREAD_ACTIVE: c_uint = 1;

/// Processors that were given out to threads of the program: the low half of the word counts those
/// of threads that want one for themselves, the high half is the shared one and 1, or 0.
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// Forgets which processors were given out; for a new start of the library.
pub(crate) fn forget_bindings() {
    GIVEN.store(0, Ordering::Relaxed);
}

/// Returns a processor for a thread of the program, beyond those of the workers as long as there
/// are any. Threads that are mostly idle share one.
///
/// # Safety
///
/// `preferred` points at `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_get_next_bindid(
    flags: c_uint,
    preferred: *const c_uint,
    count: c_uint,
) -> c_uint {
    let (workers, all) = (instance::workers() as u32, processors() as u32);
    let active = flags & STARPU_THREAD_ACTIVE != 0;
    if active && count > 0 && !preferred.is_null() {
        // SAFETY: at least one number, as the caller vouches.
        let wanted = unsafe { preferred.read() };
        if (workers..all).contains(&wanted) {
            return wanted;
        }
    }
    let next = |given: u32| (workers + (given & 0xffff)) % all.max(1);
    let before = GIVEN
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |given| {
            if active {
                Some(given + 1)
            } else if given >> 16 == 0 {
                Some((given + 1) | (next(given) + 1) << 16)
            } else {
                None
            }
        })
        .unwrap_or_else(|given| given);
    if active || before >> 16 == 0 { next(before) } else { (before >> 16) - 1 }
}

/// Binds the calling thread to a processor; returns 0, or -1 if the system refuses.
fn bind(processor: c_int) -> c_int {
    let mut mask = [0_u64; 16];
    let Some(word) = usize::try_from(processor).ok().and_then(|at| mask.get_mut(at / 64)) else {
        return -1;
    };
    *word |= 1 << (processor as usize % 64);
    // SAFETY: the mask is as long as said, and 0 means the calling thread.
    unsafe { c::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) }
}

/// Binds the calling thread to a processor.
///
/// # Safety
///
/// As C demands of the name, which is not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_bind_thread_on(
    processor: c_int,
    _flags: c_uint,
    _name: *const c_char,
) -> c_int {
    bind(processor)
}

/// Binds the calling thread to the processor of a worker.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_bind_thread_on_worker(worker: c_uint) {
    bind(worker as c_int);
}

/// Does nothing: no processor is kept for the main thread.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_bind_thread_on_main() {}

/// Binds the calling thread to a processor.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_bind_thread_on_cpu(processor: c_int) {
    bind(processor);
}

// ---- Memory nodes -------------------------------------------------------------------------------

/// Returns the number of memory nodes: the host's, and one for each GPU.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_memory_nodes_get_count() -> c_uint {
    nodes().len() as c_uint
}

/// Returns the number of memory nodes of a kind.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_memory_nodes_get_count_by_kind(kind: starpu_node_kind) -> c_uint {
    of_kind(kind).count() as c_uint
}

/// Writes the memory nodes of a kind into an array of `most` places and returns their number;
/// `-ERANGE` if they do not fit.
///
/// # Safety
///
/// `nodes` has room for `most` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_memory_node_get_ids_by_type(
    kind: starpu_node_kind,
    nodes: *mut c_uint,
    most: c_uint,
) -> c_uint {
    for (at, node) in of_kind(kind).take(most as usize).enumerate() {
        // SAFETY: below `most`.
        unsafe { nodes.add(at).write(node as c_uint) };
    }
    let found = of_kind(kind).count() as c_uint;
    if found > most { (-ERANGE) as c_uint } else { found }
}

/// Returns the memory nodes of a kind.
fn of_kind(kind: starpu_node_kind) -> impl Iterator<Item = usize> {
    nodes().filter(move |&node| starpu_node_get_kind(node as c_uint) == kind)
}

/// Returns the number of NUMA nodes that data are told apart by, which is 1.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_memory_nodes_get_numa_count() -> c_uint {
    1
}

/// Returns the memory node of a NUMA node of the operating system; -1 if it is none.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_memory_nodes_numa_id_to_devid(node: c_int) -> c_int {
    if node == 0 { 0 } else { -1 }
}

/// Returns the operating system's number of the NUMA node of a memory node; -1 if it is none.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_memory_nodes_numa_devid_to_id(node: c_uint) -> c_int {
    if node == 0 { 0 } else { -1 }
}

/// Returns the kind of a memory node.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_node_get_kind(node: c_uint) -> starpu_node_kind {
    match node as usize {
        0 => STARPU_CPU_RAM,
        node if is_node(node) => STARPU_CUDA_RAM,
        _ => STARPU_UNUSED,
    }
}

/// Returns 0: pointers into memory nodes are addresses.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_node_needs_offset(_node: c_uint) -> c_int {
    0
}

/// Returns the device of a memory node.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_memory_node_get_devid(node: c_uint) -> c_int {
    match node as usize {
        0 => 0,
        node => on_node(node).map_or(-1, |gpu| gpu.number() as c_int),
    }
}

/// Returns the memory node of a device; -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_memory_devid_find_node(device: c_int, kind: starpu_node_kind) -> c_uint {
    of_kind(kind)
        .find(|&node| starpu_memory_node_get_devid(node as c_uint) == device)
        .map_or(c_uint::MAX, |node| node as c_uint)
}

/// Writes the name of a memory node into `room` bytes; returns 0, or `-EINVAL` if there is no such
/// node.
///
/// # Safety
///
/// `name` has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_memory_node_get_name(node: c_uint, name: *mut c_char, room: usize) -> c_int {
    let text = match (node, on_node(node as usize)) {
        (0, _) => "NUMA 0".to_owned(),
        (_, Some(gpu)) => format!("CUDA {}", gpu.number()),
        (_, None) => return -EINVAL,
    };
    // SAFETY: as the caller vouches.
    unsafe { copy_text(&text, name, room) };
    0
}

/// Returns the memory node of the calling worker.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_get_local_memory_node() -> c_uint {
    node_here() as c_uint
}

/// Returns the memory node of a worker.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_get_memory_node(worker: c_uint) -> c_uint {
    node_of(worker as usize) as c_uint
}

/// The kinds of workers and of memory that belong together.
const MEMORIES: [(starpu_worker_archtype, starpu_node_kind); 8] = [
    (STARPU_CPU_WORKER, STARPU_CPU_RAM),
    (STARPU_CUDA_WORKER, STARPU_CUDA_RAM),
    (STARPU_OPENCL_WORKER, STARPU_OPENCL_RAM),
    (STARPU_MAX_FPGA_WORKER, STARPU_MAX_FPGA_RAM),
    (STARPU_MPI_SC_WORKER, STARPU_MPI_SC_RAM),
    (STARPU_TCPIP_SC_WORKER, STARPU_TCPIP_SC_RAM),
    (STARPU_HIP_WORKER, STARPU_HIP_RAM),
    (STARPU_SYCL_WORKER, STARPU_SYCL_RAM),
];

/// Returns the kind of workers that use a kind of memory.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_memory_node_get_worker_archtype(memory: starpu_node_kind) -> starpu_worker_archtype {
    MEMORIES.iter().find(|pair| pair.1 == memory).map_or(STARPU_UNKNOWN_WORKER, |pair| pair.0)
}

/// Returns the kind of memory that a kind of workers uses.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_get_memory_node_kind(kind: starpu_worker_archtype) -> starpu_node_kind {
    MEMORIES.iter().find(|pair| pair.0 == kind).map_or(STARPU_UNUSED, |pair| pair.1)
}
