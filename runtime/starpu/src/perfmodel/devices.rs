//! Kinds of devices that models speak of, with their numbers and names.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::fmt::Write as _;
use std::ptr;

use parking_lot::Mutex;

use super::store::Device;
use crate::types::*;
use crate::workers::{copy_text, starpu_worker_get_type_as_string};

/// The kinds of devices that have a number, each with its place in memory. The first is a core.
static KNOWN: Mutex<Vec<(Vec<Device>, usize)>> = Mutex::new(Vec::new());

const CORE: Device = (STARPU_CPU_WORKER, 0, 1);

/// A place in memory for a kind of devices, which stays.
fn place(devices: &[Device]) -> usize {
    let list: Box<[starpu_perfmodel_device]> =
        devices.iter().map(|d| starpu_perfmodel_device { type_: d.0, devid: d.1, ncores: d.2 }).collect();
    let ndevices = list.len() as c_int;
    let devices = Box::leak(list).as_mut_ptr();
    ptr::from_mut(Box::leak(Box::new(starpu_perfmodel_arch { ndevices, devices }))) as usize
}

/// Calls `f` with the kinds that have a number.
fn with_known<R>(f: impl FnOnce(&mut Vec<(Vec<Device>, usize)>) -> R) -> R {
    let mut known = KNOWN.lock();
    if known.is_empty() {
        known.push((vec![CORE], place(&[CORE])));
    }
    f(&mut known)
}

/// The number of a kind of devices, a new one if it has none.
fn number(devices: &[Device]) -> c_int {
    with_known(|known| {
        let at = known.iter().position(|kind| kind.0 == devices).unwrap_or_else(|| {
            known.push((devices.to_vec(), place(devices)));
            known.len() - 1
        });
        at as c_int
    })
}

/// A kind of devices in a fixed order; a core where nothing is named.
///
/// # Safety
///
/// `devices` points at `count` devices.
unsafe fn read(count: c_int, devices: *const starpu_perfmodel_device) -> Vec<Device> {
    if count <= 0 || devices.is_null() {
        return vec![CORE];
    }
    // SAFETY: as the caller vouches.
    let devices = unsafe { std::slice::from_raw_parts(devices, count as usize) };
    let mut list: Vec<Device> = devices.iter().map(|d| (d.type_, d.devid, d.ncores)).collect();
    list.sort_unstable();
    list
}

/// The devices of `arch`; a core where it is null.
pub fn key_of(arch: *const starpu_perfmodel_arch) -> Vec<Device> {
    // SAFETY: the callers' pointers are null or valid.
    unsafe {
        match arch.as_ref() {
            Some(arch) => read(arch.ndevices, arch.devices),
            None => vec![CORE],
        }
    }
}

/// The number of the devices of `arch`.
pub fn number_of(arch: *const starpu_perfmodel_arch) -> c_int {
    number(&key_of(arch))
}

/// Returns the kind of device that cores are.
pub fn core() -> *mut starpu_perfmodel_arch {
    with_known(|known| known[0].1 as *mut starpu_perfmodel_arch)
}

/// Returns the kind of device that a worker is.
pub fn of_worker(worker: usize) -> *mut starpu_perfmodel_arch {
    let Some(gpu) = crate::gpus::gpu_of(worker) else { return core() };
    let at = number(&[(STARPU_CUDA_WORKER, gpu.number() as c_int, 1)]);
    with_known(|known| known[at as usize].1 as *mut starpu_perfmodel_arch)
}

/// The name of a kind of devices and an implementation.
pub fn name(arch: *const starpu_perfmodel_arch, implementation: c_uint) -> String {
    let mut text = String::new();
    for (kind, device, cores) in key_of(arch) {
        // SAFETY: the function returns a text that stays.
        let kind = unsafe { CStr::from_ptr(starpu_worker_get_type_as_string(kind)) }
            .to_string_lossy()
            .to_lowercase();
        let _ = write!(text, "{kind}{device}_ncore{cores}_");
    }
    let _ = write!(text, "impl{implementation}");
    text
}

/// Returns the kind of device that a worker is.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_get_perf_archtype(
    worker: c_int,
    _context: c_uint,
) -> *mut starpu_perfmodel_arch {
    of_worker(worker.max(0) as usize)
}

/// Returns the number of kinds of devices that have a number.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_perfmodel_get_narch_combs() -> c_int {
    with_known(|known| known.len() as c_int)
}

/// Returns the number of devices that work together, a new one if they have none.
///
/// # Safety
///
/// `devices` points at `count` devices.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perfmodel_arch_comb_add(
    count: c_int,
    devices: *mut starpu_perfmodel_device,
) -> c_int {
    // SAFETY: as the caller vouches.
    number(&unsafe { read(count, devices) })
}

/// Returns the number of devices that work together; -1 if they have none.
///
/// # Safety
///
/// `devices` points at `count` devices.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perfmodel_arch_comb_get(
    count: c_int,
    devices: *mut starpu_perfmodel_device,
) -> c_int {
    // SAFETY: as the caller vouches.
    let wanted = unsafe { read(count, devices) };
    with_known(|known| known.iter().position(|kind| kind.0 == wanted).map_or(-1, |at| at as c_int))
}

/// Returns the devices of a number; null if there is no such number.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_perfmodel_arch_comb_fetch(number: c_int) -> *mut starpu_perfmodel_arch {
    let at = usize::try_from(number).unwrap_or(usize::MAX);
    with_known(|known| known.get(at).map_or(ptr::null_mut(), |kind| kind.1 as *mut starpu_perfmodel_arch))
}

/// Returns the name of a kind of workers.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_perfmodel_get_archtype_name(kind: starpu_worker_archtype) -> *const c_char {
    match kind {
        STARPU_CPU_WORKER => c"cpu".as_ptr(),
        STARPU_CUDA_WORKER => c"cuda".as_ptr(),
        STARPU_OPENCL_WORKER => c"opencl".as_ptr(),
        STARPU_HIP_WORKER => c"hip".as_ptr(),
        _ => starpu_worker_get_type_as_string(kind),
    }
}

/// Writes the name of a kind of devices and an implementation into `room` bytes.
///
/// # Safety
///
/// `arch` is null or valid, `name` has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perfmodel_get_arch_name(
    arch: *mut starpu_perfmodel_arch,
    to: *mut c_char,
    room: usize,
    implementation: c_uint,
) {
    // SAFETY: as the caller vouches.
    unsafe { copy_text(&name(arch, implementation), to, room) };
}

/// Returns how much faster than a core devices are: their number of cores.
///
/// # Safety
///
/// `arch` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_worker_get_relative_speedup(arch: *mut starpu_perfmodel_arch) -> f64 {
    key_of(arch).iter().map(|device| f64::from(device.2.max(1))).sum()
}
