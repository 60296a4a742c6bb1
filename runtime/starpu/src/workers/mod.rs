//! Questions about workers, memory nodes and the machine, and the collections of workers.
//!
//! Workers are processor cores and, behind them, GPUs. Worker `i` is `CPU i` if it is a core; a
//! worker counts as bound to the processor of its own number.

use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::fmt::Write as _;
use std::ops::Range;
use std::ptr;

mod collections;
mod combined;
pub(crate) mod places;

pub(crate) use collections::{delete_collection, new_collection};
pub(crate) use places::{forget_bindings, starpu_bind_thread_on_cpu};

use crate::c;
use crate::gpus::{self, gpu_of};
use crate::instance;
use crate::instance::errno::EINVAL;
use crate::types::*;
use places::processors;

/// The number of the only scheduling context that really exists.
const MAIN_CONTEXT: c_uint = 0;
const ERANGE: c_int = 34;
const ESRCH: c_int = 3;

/// Prints a text on a stream of C; a null stream and a text with a zero byte print nothing.
pub(crate) fn print(stream: *mut FILE, text: &str) {
    if let Ok(text) = CString::new(text)
        && !stream.is_null()
    {
        // SAFETY: the caller of the C function vouches for the stream; the text ends with a zero.
        unsafe { c::fputs(text.as_ptr(), stream) };
    }
}

/// Copies a text with its closing zero into the `room` bytes at `to`, cut where it is too long.
///
/// # Safety
///
/// `to` is valid for writes of `room` bytes, or `room` is 0.
pub(crate) unsafe fn copy_text(text: &str, to: *mut c_char, room: usize) {
    if to.is_null() || room == 0 {
        return;
    }
    let length = text.len().min(room - 1);
    // SAFETY: `length` + 1 bytes fit, as the caller vouches; the two do not overlap.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr(), to.cast::<u8>(), length);
        to.add(length).write(0);
    }
}

/// Whether there is a worker of this number.
fn exists(worker: c_int) -> bool {
    usize::try_from(worker).is_ok_and(|worker| worker < instance::workers())
}

fn count() -> c_uint {
    instance::workers() as c_uint
}

// ---- Numbers of workers -------------------------------------------------------------------------

/// Returns the number of workers.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_get_count() -> c_uint {
    count()
}

/// Returns the number of workers that are processor cores.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_cpu_worker_get_count() -> c_uint {
    of_kind(STARPU_CPU_WORKER).len() as c_uint
}

/// Returns the number of workers that are GPUs.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_cuda_worker_get_count() -> c_uint {
    gpus::all().len() as c_uint
}

/// Returns the workers of a kind.
fn of_kind(kind: starpu_worker_archtype) -> Range<usize> {
    let (cores, all) = (instance::workers() - gpus::all().len(), instance::workers());
    match kind {
        STARPU_CPU_WORKER => 0..cores,
        STARPU_CUDA_WORKER => cores..all,
        STARPU_ANY_WORKER => 0..all,
        _ => 0..0,
    }
}

/// Returns the device of a worker: the number of a GPU, or of a core among the workers.
fn device_of(worker: usize) -> usize {
    gpu_of(worker).map_or(worker, |gpu| gpu.number() as usize)
}

/// Returns the name of a worker.
fn name_of(worker: usize) -> String {
    match gpu_of(worker) {
        Some(gpu) => format!(
            "CUDA {}.0 ({} {:.1} GiB)",
            gpu.number(),
            gpu.name(),
            gpu.memory() as f64 / (1u64 << 30) as f64
        ),
        None => format!("CPU {worker}"),
    }
}

/// Defines functions that answer 0, for devices that this library has no workers for.
macro_rules! no_workers {
    ($($name:ident),*) => {$(
        /// Returns 0: there are no such workers.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> c_uint {
            0
        }
    )*};
}
no_workers!(
    starpu_hip_worker_get_count,
    starpu_sycl_worker_get_count,
    starpu_opencl_worker_get_count,
    starpu_max_fpga_worker_get_count,
    starpu_mpi_sc_worker_get_count,
    starpu_tcpip_sc_worker_get_count,
    starpu_combined_worker_get_count
);

/// Returns the number of workers of a kind; `-EINVAL` if there is no such kind.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_get_count_by_type(kind: starpu_worker_archtype) -> c_int {
    if kind == STARPU_ANY_WORKER || starpu_worker_archtype_is_valid(kind) != 0 {
        of_kind(kind).len() as c_int
    } else {
        -EINVAL
    }
}

/// Returns the worker that the calling thread is; -1 elsewhere.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_get_id() -> c_int {
    instance::current_worker().map_or(-1, |worker| worker as c_int)
}

/// Returns the worker that the calling thread is, and ends the program where it is none, as the
/// documentation promises.
///
/// # Safety
///
/// `file` is a text of C or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _starpu_worker_get_id_check(file: *const c_char, line: c_int) -> c_uint {
    if let Some(worker) = instance::current_worker() {
        return worker as c_uint;
    }
    let file = if file.is_null() {
        "?".into()
    } else {
        // SAFETY: a text of C, as the caller vouches.
        unsafe { CStr::from_ptr(file) }.to_string_lossy()
    };
    instance::complain(format_args!("starpu_worker_get_id_check at {file}:{line}: this thread is no worker"));
    std::process::abort()
}

/// Returns the kind of a worker; `STARPU_UNKNOWN_WORKER` if there is no such worker.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_get_type(worker: c_int) -> starpu_worker_archtype {
    match exists(worker) {
        false => STARPU_UNKNOWN_WORKER,
        true if gpu_of(worker as usize).is_some() => STARPU_CUDA_WORKER,
        true => STARPU_CPU_WORKER,
    }
}

/// Writes the workers of a kind into an array of `most` places and returns their number;
/// `-ERANGE` if they do not fit.
///
/// # Safety
///
/// `workers` has room for `most` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_worker_get_ids_by_type(
    kind: starpu_worker_archtype,
    workers: *mut c_int,
    most: c_uint,
) -> c_uint {
    let found = of_kind(kind).len() as c_uint;
    for (at, worker) in of_kind(kind).take(most as usize).enumerate() {
        // SAFETY: below `most`.
        unsafe { workers.add(at).write(worker as c_int) };
    }
    if found > most { (-ERANGE) as c_uint } else { found }
}

/// Returns the worker that is the `number`th of its kind; -1 if there are fewer.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_get_by_type(kind: starpu_worker_archtype, number: c_int) -> c_int {
    let at = usize::try_from(number).unwrap_or(usize::MAX);
    of_kind(kind).nth(at).map_or(-1, |worker| worker as c_int)
}

/// Returns the worker of a kind and a device; -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_get_by_devid(kind: starpu_worker_archtype, device: c_int) -> c_int {
    let is_that = |&worker: &usize| device_of(worker) as c_int == device;
    of_kind(kind).find(is_that).filter(|_| kind != STARPU_ANY_WORKER).map_or(-1, |worker| worker as c_int)
}

/// Returns the device of a worker: the number of the GPU, or of the core among the workers; -1 if
/// there is no such worker.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_get_devid(worker: c_int) -> c_int {
    if exists(worker) { device_of(worker as usize) as c_int } else { -1 }
}

/// Returns the number of a worker's device among those of its kind.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_get_devnum(worker: c_int) -> c_int {
    match exists(worker) {
        true => gpus::node_of(worker as usize).checked_sub(1).map_or(worker, |at| at as c_int),
        false => -1,
    }
}

/// Returns the number of a worker on its device: 0, as each has one.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_get_subworkerid(_worker: c_int) -> c_int {
    0
}

/// Returns the processor that a worker is bound to; -1 if there is no such worker.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_get_bindid(worker: c_int) -> c_int {
    if exists(worker) { worker } else { -1 }
}

/// Writes the devices of a kind into an array of `most` places and returns their number.
///
/// # Safety
///
/// `devices` has room for `most` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_worker_get_devids(
    kind: starpu_worker_archtype,
    devices: *mut c_int,
    most: c_int,
) -> c_int {
    let most = most.max(0) as usize;
    for (at, worker) in of_kind(kind).take(most).enumerate() {
        // SAFETY: below `most`.
        unsafe { devices.add(at).write(device_of(worker) as c_int) };
    }
    of_kind(kind).len().min(most) as c_int
}

/// Writes the workers of a device into an array and returns their number.
///
/// # Safety
///
/// `workers` has room for all workers of the device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_worker_get_stream_workerids(
    device: c_uint,
    workers: *mut c_int,
    kind: starpu_worker_archtype,
) -> c_int {
    let Some(worker) = of_kind(kind).find(|&worker| device_of(worker) == device as usize) else { return 0 };
    // SAFETY: one worker fits.
    unsafe { workers.write(worker as c_int) };
    1
}

/// Writes the name of a worker into `room` bytes.
///
/// # Safety
///
/// `name` has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_worker_get_name(worker: c_int, name: *mut c_char, room: usize) {
    let text = if exists(worker) { name_of(worker as usize) } else { String::from("(no such worker)") };
    // SAFETY: as the caller vouches.
    unsafe { copy_text(&text, name, room) };
}

/// Sets a time to 0: it is not known when a worker's task will end.
///
/// # Safety
///
/// `date` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_worker_get_current_task_exp_end(_worker: c_uint, date: *mut timespec) {
    // SAFETY: as the caller vouches.
    unsafe { date.write(timespec::default()) };
}

/// Returns the scheduling contexts of a worker in a new array, which the caller frees.
///
/// # Safety
///
/// `contexts` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_worker_get_sched_ctx_list(
    worker: c_int,
    contexts: *mut *mut c_uint,
) -> c_uint {
    if !exists(worker) {
        return 0;
    }
    // SAFETY: calloc gives room for one number or null; `contexts` is valid, as the caller vouches.
    unsafe {
        let list = c::calloc(1, size_of::<c_uint>()).cast::<c_uint>();
        if list.is_null() {
            return 0;
        }
        list.write(MAIN_CONTEXT);
        contexts.write(list);
    }
    1
}

/// Returns 0: no worker sleeps for the sake of a parallel task.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_is_blocked_in_parallel(_worker: c_int) -> c_uint {
    0
}

/// Returns 0: no worker serves another one.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_is_sub_worker_somewhere(_worker: c_int) -> c_uint {
    0
}

/// Returns at once: workers are there when `starpu_init` returns.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_wait_for_initialisation() {}

// ---- Kinds --------------------------------------------------------------------------------------

/// The kinds of workers: number, name, and the word in names of environment variables.
const KINDS: [(starpu_worker_archtype, &CStr, &CStr); 8] = [
    (STARPU_CPU_WORKER, c"CPU", c"CPU"),
    (STARPU_CUDA_WORKER, c"CUDA", c"CUDA"),
    (STARPU_OPENCL_WORKER, c"OpenCL", c"OPENCL"),
    (STARPU_MAX_FPGA_WORKER, c"FPGA", c"MAX_FPGA"),
    (STARPU_MPI_SC_WORKER, c"MPI_SC", c"MPI_SC"),
    (STARPU_TCPIP_SC_WORKER, c"TCPIP_SC", c"TCPIP_SC"),
    (STARPU_HIP_WORKER, c"HIP", c"HIP"),
    (STARPU_SYCL_WORKER, c"SYCL", c"SYCL"),
];

fn kind(
    of: starpu_worker_archtype,
) -> Option<&'static (starpu_worker_archtype, &'static CStr, &'static CStr)> {
    KINDS.iter().find(|kind| kind.0 == of)
}

/// Returns 1 if this is a kind of workers.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_archtype_is_valid(of: starpu_worker_archtype) -> c_uint {
    c_uint::from(kind(of).is_some())
}

/// Returns the kind of workers of one bit of `where`.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_arch_mask_to_worker_archtype(mask: c_uint) -> starpu_worker_archtype {
    KINDS.iter().map(|kind| kind.0).find(|&kind| mask & (2 << kind) != 0).unwrap_or(STARPU_UNKNOWN_WORKER)
}

/// Returns the name of a kind of workers.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_get_type_as_string(of: starpu_worker_archtype) -> *const c_char {
    kind(of).map_or(c"unknown", |kind| kind.1).as_ptr()
}

/// Returns the word that names a kind of workers in environment variables.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_get_type_as_env_var(of: starpu_worker_archtype) -> *const c_char {
    kind(of).map_or(c"UNKNOWN", |kind| kind.2).as_ptr()
}

/// Returns the kind of workers of a name.
///
/// # Safety
///
/// `name` is a text of C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_worker_get_type_from_string(name: *const c_char) -> starpu_worker_archtype {
    if name.is_null() {
        return STARPU_UNKNOWN_WORKER;
    }
    // SAFETY: as the caller vouches.
    let name = unsafe { CStr::from_ptr(name) };
    KINDS.iter().find(|kind| kind.1 == name).map_or(STARPU_UNKNOWN_WORKER, |kind| kind.0)
}

/// Returns 1 if a kind of workers is among those that a task may run on.
///
/// # Safety
///
/// `task` is a task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_worker_type_can_execute_task(
    of: starpu_worker_archtype,
    task: *const starpu_task,
) -> c_uint {
    if kind(of).is_none() {
        return 0;
    }
    // SAFETY: a task, whose codelet is one or null.
    let places = unsafe {
        match ((*task).where_, (*task).cl.as_ref()) {
            (_, None) => return 1,
            (-1, Some(codelet)) => codelet.where_,
            (places, _) => places as u32,
        }
    };
    c_uint::from(places & (2 << of) != 0)
}

// ---- What is printed ----------------------------------------------------------------------------

fn name_of_kind(of: starpu_worker_archtype) -> String {
    kind(of).map_or_else(|| "unknown".into(), |kind| kind.1.to_string_lossy().into_owned())
}

fn counted(of: starpu_worker_archtype) -> String {
    match starpu_worker_get_count_by_type(of) {
        ..=0 => format!("No {} worker", name_of_kind(of)),
        1 => format!("1 {} worker", name_of_kind(of)),
        count => format!("{count} {} workers", name_of_kind(of)),
    }
}

fn named(of: starpu_worker_archtype) -> String {
    let mut text = counted(of);
    if !of_kind(of).is_empty() {
        text.push(':');
    }
    text.push('\n');
    for worker in of_kind(of) {
        let _ = writeln!(text, "\t{}", name_of(worker));
    }
    text
}

/// Prints the names of all workers.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_display_all(stream: *mut FILE) {
    for kind in KINDS {
        print(stream, &named(kind.0));
    }
}

/// Prints the names of the workers of a kind.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_display_names(stream: *mut FILE, kind: starpu_worker_archtype) {
    print(stream, &named(kind));
}

/// Prints the number of workers of a kind.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_display_count(stream: *mut FILE, kind: starpu_worker_archtype) {
    print(stream, &format!("{}\n", counted(kind)));
}

/// Prints the processors with the workers on them.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_topology_print(stream: *mut FILE) {
    let mut text = String::new();
    for processor in 0..processors().max(instance::workers()) {
        let _ = write!(text, "processor {processor:<4}");
        if processor < instance::workers() {
            let _ = write!(text, " {}", name_of(processor));
        }
        text.push('\n');
    }
    print(stream, &text);
}

/// Prints the processors with the workers on them on the standard output.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_display_bindings() {
    for worker in 0..instance::workers() {
        println!("{}: processor {worker}", name_of(worker));
    }
}
