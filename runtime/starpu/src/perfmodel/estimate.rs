//! Expectations of models for a task.

use std::ffi::{c_int, c_uint};

use super::{devices, fit, load, minimum, set_for, with_table};
use crate::data::data;
use crate::gpus;
use crate::handles::{starpu_data_get_interface_ops, starpu_data_get_size};
use crate::policy::starpu_worker_can_execute_task_impl;
use crate::residency;
use crate::types::*;
use crate::util::{starpu_hash_crc32c_be, starpu_hash_crc32c_be_n};
use crate::workers::starpu_worker_get_count;

/// The handles of a task with their modes.
///
/// # Safety
///
/// `task` is a task whose codelet is one or null.
pub unsafe fn buffers(
    task: *const starpu_task,
) -> impl Iterator<Item = (starpu_data_handle_t, starpu_data_access_mode)> {
    // SAFETY: a task has as many handles and modes as its codelet or it itself says.
    unsafe {
        let codelet = (*task).cl;
        let variable = codelet.is_null() || (*codelet).nbuffers == STARPU_VARIABLE_NBUFFERS;
        let count = match (codelet.is_null(), variable) {
            (true, _) => 0,
            (_, true) => (*task).nbuffers,
            _ => (*codelet).nbuffers,
        };
        (0..usize::try_from(count).unwrap_or(0)).map(move |at| {
            let handle = if (*task).dyn_handles.is_null() {
                let handles = &(*task).handles;
                handles.get(at).copied().unwrap_or(std::ptr::null_mut())
            } else {
                *(*task).dyn_handles.add(at)
            };
            let (own, fixed) = if variable {
                ((*task).dyn_modes, &(*task).modes)
            } else {
                ((*codelet).dyn_modes, &(*codelet).modes)
            };
            let mode = if own.is_null() { fixed.get(at).copied().unwrap_or(0) } else { *own.add(at) };
            (handle, mode)
        })
    }
}

/// The size of a task for its model, in bytes where the model does not say otherwise.
///
/// # Safety
///
/// All pointers are null or valid, `task` is a task.
pub unsafe fn size_of_task(
    model: *mut starpu_perfmodel,
    task: *mut starpu_task,
    arch: *mut starpu_perfmodel_arch,
    implementation: c_uint,
) -> usize {
    // SAFETY: as the caller vouches; the functions are the program's.
    unsafe {
        if !model.is_null() {
            if let (_, Some(size)) = set_for(model, arch, implementation) {
                return size(task, arch, implementation);
            }
            if let Some(size) = (*model).size_base {
                return size(task, implementation);
            }
        }
        buffers(task)
            .filter(|(handle, mode)| !handle.is_null() && mode & STARPU_NOFOOTPRINT == 0)
            .map(|(handle, _)| starpu_data_get_size(handle))
            .sum()
    }
}

/// Returns a number for the data of a task: the same for the same interfaces and sizes.
///
/// # Safety
///
/// `task` is a task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_data_footprint(task: *mut starpu_task) -> u32 {
    let mut footprint = 0;
    // SAFETY: as the caller vouches; each handle has its interface.
    unsafe {
        for (handle, mode) in buffers(task) {
            if handle.is_null() || mode & STARPU_NOFOOTPRINT != 0 {
                continue;
            }
            let of_data = match starpu_data_get_interface_ops(handle).as_ref() {
                Some(ops) => {
                    let own = ops.footprint.map_or(0, |footprint| footprint(handle));
                    starpu_hash_crc32c_be(own, ops.interfaceid as u32)
                }
                None => 0,
            };
            footprint = starpu_hash_crc32c_be(of_data, footprint);
        }
    }
    footprint
}

/// Returns a number for the work of a task: the one that its model says, or one of the size that
/// its model says, or one of its data.
///
/// # Safety
///
/// All pointers are null or valid, `task` is a task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_footprint(
    model: *mut starpu_perfmodel,
    task: *mut starpu_task,
    arch: *mut starpu_perfmodel_arch,
    implementation: c_uint,
) -> u32 {
    // SAFETY: as the caller vouches; the functions are the program's.
    unsafe {
        if !model.is_null() {
            if let Some(footprint) = (*model).footprint {
                return footprint(task);
            }
            if (*model).size_base.is_some() || set_for(model, arch, implementation).1.is_some() {
                let size = size_of_task(model, task, arch, implementation);
                return starpu_hash_crc32c_be_n((&raw const size).cast(), size_of::<usize>(), 0);
            }
        }
        starpu_task_data_footprint(task)
    }
}

/// The products of a task's parameters that its model adds up: a one, then one for each combination
/// of exponents.
///
/// # Safety
///
/// `model` and `task` are valid.
pub unsafe fn products(model: *mut starpu_perfmodel, task: *mut starpu_task) -> Option<Vec<f64>> {
    // SAFETY: as the caller vouches; the combinations have one exponent for each parameter.
    unsafe {
        let model = &*model;
        let (Some(parameters), count) = (model.parameters, model.nparameters as usize) else { return None };
        if model.type_ != STARPU_MULTIPLE_REGRESSION_BASED || count == 0 || model.combinations.is_null() {
            return None;
        }
        let mut values = vec![0.0; count];
        parameters(task, values.as_mut_ptr());
        let mut row = vec![1.0];
        for combination in 0..model.ncombinations as usize {
            let exponents = *model.combinations.add(combination);
            row.push((0..count).map(|at| values[at].powf(f64::from(*exponents.add(at)))).product());
        }
        Some(row)
    }
}

/// Returns the time that a model expects of a task, in microseconds; NaN where it does not know.
///
/// # Safety
///
/// All pointers are null or valid, `task` is a task.
unsafe fn expected(
    model: *mut starpu_perfmodel,
    task: *mut starpu_task,
    arch: *mut starpu_perfmodel_arch,
    worker: c_uint,
    implementation: c_uint,
) -> f64 {
    if model.is_null() {
        return 0.0;
    }
    // SAFETY: as the caller vouches; the functions are the program's and are called without a lock.
    unsafe {
        load(model, None);
        let arch = if arch.is_null() { devices::core() } else { arch };
        let cost = match (*model).type_ {
            STARPU_PER_WORKER => (*model).worker_cost_function.map(|cost| cost(task, worker, implementation)),
            STARPU_PER_ARCH => (*model)
                .arch_cost_function
                .or_else(|| set_for(model, arch, implementation).0)
                .map(|cost| cost(task, arch, implementation)),
            STARPU_COMMON => (*model)
                .cost_function
                .map(|cost| cost(task, implementation) / devices::starpu_worker_get_relative_speedup(arch)),
            STARPU_HISTORY_BASED | STARPU_NL_REGRESSION_BASED => {
                let footprint = starpu_task_footprint(model, task, arch, implementation);
                let regression = (*model).type_ == STARPU_NL_REGRESSION_BASED;
                let size =
                    if regression { size_of_task(model, task, arch, implementation) as f64 } else { 0.0 };
                with_table(model, arch, implementation, |table| {
                    table.expected(footprint, minimum()).or_else(|| {
                        let (a, b, c) = if regression { table.nonlinear(minimum()) } else { None }?;
                        Some(a * size.powf(b) + c)
                    })
                })
                .flatten()
            }
            STARPU_REGRESSION_BASED => {
                let size = size_of_task(model, task, arch, implementation) as f64;
                with_table(model, arch, implementation, |table| table.linear(minimum()))
                    .flatten()
                    .map(|(alpha, beta)| alpha * size.powf(beta))
            }
            STARPU_MULTIPLE_REGRESSION_BASED => products(model, task).and_then(|row| {
                let coefficients = with_table(model, arch, implementation, |table| {
                    if table.sums.count < minimum() && table.samples.len() < minimum() as usize {
                        return None;
                    }
                    fit::linear(&table.samples)
                })
                .flatten()?;
                Some(coefficients.iter().zip(&row).map(|(c, x)| c * x).sum::<f64>().max(0.0))
            }),
            _ => None,
        };
        cost.unwrap_or(f64::NAN)
    }
}

/// Whether a task runs no function.
///
/// # Safety
///
/// `task` is a task.
unsafe fn is_empty(task: *const starpu_task) -> bool {
    // SAFETY: as the caller vouches.
    unsafe { (*task).cl.is_null() || (*(*task).cl).where_ == STARPU_NOWHERE }
}

/// Defines the three questions that there are for times and for energies.
macro_rules! expectations {
    ($model:ident, $what:literal, $on_arch:ident, $on_worker:ident, $average:ident) => {
        #[doc = concat!("Returns ", $what, " that is expected of a task on a kind of device.")]
        ///
        /// # Safety
        ///
        /// `task` is a task, `arch` is null or valid.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $on_arch(
            task: *mut starpu_task,
            arch: *mut starpu_perfmodel_arch,
            implementation: c_uint,
        ) -> f64 {
            // SAFETY: as the caller vouches.
            unsafe {
                if is_empty(task) { 0.0 } else { expected((*(*task).cl).$model, task, arch, 0, implementation) }
            }
        }

        #[doc = concat!("Returns ", $what, " that is expected of a task on a worker.")]
        ///
        /// # Safety
        ///
        /// `task` is a task.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $on_worker(
            task: *mut starpu_task,
            worker: c_uint,
            _context: c_uint,
            implementation: c_uint,
        ) -> f64 {
            // SAFETY: as the caller vouches.
            unsafe {
                if is_empty(task) {
                    return 0.0;
                }
                let arch = devices::of_worker(worker as usize);
                expected((*(*task).cl).$model, task, arch, worker, implementation)
            }
        }

        #[doc = concat!("Returns ", $what, " that is expected of a task in the harmonic mean of the workers.")]
        ///
        /// # Safety
        ///
        /// `task` is a task.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $average(task: *mut starpu_task, context: c_uint) -> f64 {
            // SAFETY: as the caller vouches.
            unsafe {
                if is_empty(task) {
                    return 0.0;
                }
                let (mut sum, mut count) = (0.0, 0.0);
                for worker in 0..starpu_worker_get_count() {
                    let mut mask = 0;
                    if starpu_worker_can_execute_task_impl(worker, task, &raw mut mask) == 0 {
                        continue;
                    }
                    let best = (0..STARPU_MAXIMPLEMENTATIONS as c_uint)
                        .filter(|implementation| mask & (1 << implementation) != 0)
                        .map(|implementation| $on_worker(task, worker, context, implementation))
                        .fold(f64::NAN, f64::min);
                    sum += 1.0 / best;
                    count += 1.0;
                }
                count / sum
            }
        }
    };
}
expectations!(
    model,
    "the time, in microseconds,",
    starpu_task_expected_length,
    starpu_task_worker_expected_length,
    starpu_task_expected_length_average
);
expectations!(
    energy_model,
    "the energy, in joules,",
    starpu_task_expected_energy,
    starpu_task_worker_expected_energy,
    starpu_task_expected_energy_average
);

/// Returns 0: no data are converted for a worker.
///
/// # Safety
///
/// As C demands of the pointers, which are not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_expected_conversion_time(
    _task: *mut starpu_task,
    _arch: *mut starpu_perfmodel_arch,
    _implementation: c_uint,
) -> f64 {
    0.0
}

/// Returns the microseconds that the data of a task would take to a memory node.
///
/// # Safety
///
/// `task` is a task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_expected_data_transfer_time(
    node: c_uint,
    task: *mut starpu_task,
) -> f64 {
    // SAFETY: as the caller vouches.
    unsafe {
        buffers(task).map(|(handle, mode)| starpu_data_expected_transfer_time(handle, node, mode)).sum()
    }
}

/// Returns the microseconds that the data of a task would take to the memory node of a worker.
///
/// # Safety
///
/// `task` is a task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_expected_data_transfer_time_for(
    task: *mut starpu_task,
    worker: c_uint,
) -> f64 {
    // SAFETY: as the caller vouches.
    unsafe { starpu_task_expected_data_transfer_time(gpus::node_of(worker as usize) as c_uint, task) }
}

/// Returns the microseconds that data would take to a memory node for an access of this mode; 0 if
/// they are there.
///
/// # Safety
///
/// `handle` is null or registered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_expected_transfer_time(
    handle: starpu_data_handle_t,
    node: c_uint,
    mode: starpu_data_access_mode,
) -> f64 {
    // SAFETY: as the caller vouches.
    unsafe {
        if !residency::is_lacking(handle, node as usize, mode) {
            return 0.0;
        }
        let from = gpus::nodes().find(|&from| data(handle).residency.is_valid(from)).unwrap_or(0);
        starpu_transfer_predict(from as c_uint, node, starpu_data_get_size(handle))
    }
}

/// Returns the microseconds that so many bytes take from one memory node to another; NaN if one of
/// them does not exist.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_transfer_predict(from: c_uint, to: c_uint, bytes: usize) -> f64 {
    link(from, to).map_or(f64::NAN, |link| link.seconds(bytes as u64) * 1e6)
}

/// Returns the MB/s from one memory node to another; NaN within one, and if one does not exist.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_transfer_bandwidth(from: c_uint, to: c_uint) -> f64 {
    link(from, to).filter(|_| from != to).map_or(f64::NAN, |link| link.bandwidth * 1e-6)
}

/// Returns the microseconds until the first byte arrives; 0 within a node, NaN if one does not
/// exist.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_transfer_latency(from: c_uint, to: c_uint) -> f64 {
    link(from, to).map_or(f64::NAN, |link| link.latency * 1e6)
}

fn link(from: c_uint, to: c_uint) -> Option<gpus::CopySpeed> {
    gpus::link(from as usize, to as usize)
}

/// Refuses to measure energy: returns -1, as no counter of it is read.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_energy_start(_worker: c_int, _kind: starpu_worker_archtype) -> c_int {
    -1
}

/// Refuses to measure energy: returns -1.
///
/// # Safety
///
/// As C demands of the pointers, which are not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_energy_stop(
    _model: *mut starpu_perfmodel,
    _task: *mut starpu_task,
    _implementation: c_uint,
    _tasks: c_uint,
    _worker: c_int,
    _kind: starpu_worker_archtype,
) -> c_int {
    -1
}

/// The energy that the program has told, in joules, as the bits of a number.
static ENERGY: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Adds to the energy that the program has used.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_energy_use(joules: f32) {
    let order = std::sync::atomic::Ordering::Relaxed;
    let _ =
        ENERGY.fetch_update(order, order, |bits| Some((f64::from_bits(bits) + f64::from(joules)).to_bits()));
}

/// Returns the energy that the program has told, in joules.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_energy_used() -> f64 {
    f64::from_bits(ENERGY.load(std::sync::atomic::Ordering::Relaxed))
}
