//! Performance models: what they are told, what they measure, and what they expect of a task.
//!
//! Times are microseconds. Measurements are kept by model, kind of device, implementation and
//! footprint of the data ([`store`]), and are read from and written to a file for each model.

mod calls;
mod devices;
mod estimate;
mod fit;
mod print;
mod store;

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::instance::complain;
use crate::types::*;
use crate::workers::copy_text;
use calls::set_for;
use devices::key_of;
use store::{Table, Tables};

pub(crate) use estimate::{
    buffers, starpu_task_data_footprint, starpu_task_expected_data_transfer_time,
    starpu_task_worker_expected_length,
};

/// The library's knowledge of a model, behind its member `state`.
#[derive(Default)]
struct Knowledge {
    tables: Tables,
    /// Settings of programs for a kind of device and an implementation; the places stay the same.
    per: BTreeMap<(c_int, u32), Box<starpu_perfmodel_per_arch>>,
    changed: bool,
}

/// The models that have a state. The lock also guards all states.
static LOADED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The policy asks models, or the program wants calibration: executions are measured.
static WANTED: AtomicBool = AtomicBool::new(false);

/// The measurements of earlier runs are dropped: the program wants calibration from the start.
static AFRESH: AtomicBool = AtomicBool::new(false);

/// The number in an environment variable, or another one.
fn number(name: &str, otherwise: i64) -> i64 {
    std::env::var(name).ok().and_then(|value| value.trim().parse().ok()).unwrap_or(otherwise)
}

/// A number from the environment that is read once for each start of the library.
struct Setting {
    name: &'static str,
    otherwise: u32,
    /// The number, or `UNREAD`.
    value: AtomicU32,
}

const UNREAD: u32 = u32::MAX;

impl Setting {
    const fn new(name: &'static str, otherwise: u32) -> Setting {
        Setting { name, otherwise, value: AtomicU32::new(UNREAD) }
    }

    fn get(&self) -> u32 {
        match self.value.load(Ordering::Relaxed) {
            UNREAD => {
                let value =
                    u32::try_from(number(self.name, i64::from(self.otherwise))).unwrap_or(self.otherwise);
                self.value.store(value, Ordering::Relaxed);
                value
            }
            value => value,
        }
    }
}

/// The least number of measurements that an expectation needs.
static MINIMUM: Setting = Setting::new("STARPU_CALIBRATE_MINIMUM", 10);
/// The relative distance to the mean beyond which a measurement is a stranger, in percent.
static MAX_ERROR: Setting = Setting::new("STARPU_HISTORY_MAX_ERROR", 50);

/// The least number of measurements that an expectation needs.
fn minimum() -> u32 {
    MINIMUM.get()
}

/// Whether the policy of a name decides by models.
pub(crate) fn is_asked_by(policy: &str) -> bool {
    policy.starts_with("dm") || policy.contains("heft")
}

/// Says whether executions are measured: `calibrate` is the number of the configuration, and
/// `asks` whether the policy uses models. To be called at every start of the library.
pub(crate) fn at_init(calibrate: c_int, asks: bool) {
    for setting in [&MINIMUM, &MAX_ERROR] {
        setting.value.store(UNREAD, Ordering::Relaxed);
    }
    let calibrate = number("STARPU_CALIBRATE", i64::from(calibrate));
    WANTED.store(asks || calibrate > 0, Ordering::Relaxed);
    AFRESH.store(calibrate == 2, Ordering::Relaxed);
}

/// Whether the times of executions are wanted.
pub(crate) fn wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// Switches the measurement of executions on or off.
pub(crate) fn want(wanted: bool) {
    WANTED.store(wanted, Ordering::Relaxed);
}

/// Notes that a task took a number of microseconds.
///
/// # Safety
///
/// `task` is a task whose codelet and data are still there.
pub(crate) unsafe fn record(task: *mut starpu_task, worker: usize, implementation: usize, microseconds: f64) {
    // SAFETY: as the caller vouches.
    unsafe {
        let codelet = (*task).cl;
        if codelet.is_null() || (*codelet).model.is_null() {
            return;
        }
        update((*codelet).model, task, devices::of_worker(worker), implementation as u32, microseconds, 1);
    }
}

/// Writes the files of all models that have learnt something, and forgets the models.
pub(crate) fn at_shutdown() {
    let models = LOADED.lock().clone();
    for model in models {
        let model = model as *mut starpu_perfmodel;
        // SAFETY: a model stays valid until it is unloaded or the library is shut down.
        unsafe {
            save(model);
            forget(model);
        }
    }
    WANTED.store(false, Ordering::Relaxed);
}

/// The state of a model.
///
/// # Safety
///
/// The lock is held, and no other reference to the state is in use.
unsafe fn state<'a>(model: *mut starpu_perfmodel) -> Option<&'a mut Knowledge> {
    // SAFETY: the member is null or comes from Box::into_raw.
    unsafe { (*model).state.cast::<Knowledge>().as_mut() }
}

/// The name of a model, if it has one.
///
/// # Safety
///
/// `model` is a model.
unsafe fn symbol(model: *const starpu_perfmodel) -> Option<String> {
    // SAFETY: the member is null or a text of C.
    unsafe {
        let symbol = (*model).symbol;
        (!symbol.is_null()).then(|| CStr::from_ptr(symbol).to_string_lossy().into_owned())
    }
}

/// Whether a model learns from measurements.
fn measures(kind: starpu_perfmodel_type) -> bool {
    (STARPU_HISTORY_BASED..=STARPU_MULTIPLE_REGRESSION_BASED).contains(&kind)
}

/// Gives a model its state, if it has none.
///
/// # Safety
///
/// `model` is a model.
unsafe fn begin(model: *mut starpu_perfmodel) {
    let mut loaded = LOADED.lock();
    // SAFETY: as the caller vouches, and the lock is held.
    unsafe {
        if (*model).state.is_null() || !loaded.contains(&(model as usize)) {
            (*model).state = Box::into_raw(Box::<Knowledge>::default()).cast();
            (*model).is_init = 1;
            (*model).is_loaded = 0;
            loaded.push(model as usize);
        }
    }
}

/// Gives a model its state and what its file knows, if that has not been done. Returns true if the
/// file was there.
///
/// # Safety
///
/// `model` is a model.
unsafe fn load(model: *mut starpu_perfmodel, file: Option<PathBuf>) -> bool {
    // SAFETY: as the caller vouches.
    unsafe {
        begin(model);
        if (*model).is_loaded != 0 && file.is_none() {
            return true;
        }
        (*model).is_loaded = 1;
        if file.is_none() && (!measures((*model).type_) || AFRESH.load(Ordering::Relaxed)) {
            return false;
        }
        let Some(path) = file.or_else(|| store::path(&symbol(model)?)) else {
            return false;
        };
        match store::read(&path) {
            Ok(Some(tables)) => {
                let _lock = LOADED.lock();
                if let Some(state) = state(model) {
                    state.tables = tables;
                }
                true
            }
            Ok(None) => false,
            Err(error) => {
                complain(format_args!("{}: the model is not read: {error}", path.display()));
                false
            }
        }
    }
}

/// Writes the file of a model, if it has a name and has learnt something.
///
/// # Safety
///
/// `model` is a model.
unsafe fn save(model: *mut starpu_perfmodel) {
    // SAFETY: as the caller vouches.
    unsafe {
        let Some(symbol) = symbol(model) else { return };
        let tables = {
            let _lock = LOADED.lock();
            match state(model) {
                Some(state) if measures((*model).type_) && (state.changed || wanted()) => {
                    state.changed = false;
                    state.tables.clone()
                }
                _ => return,
            }
        };
        let Some(path) = store::path(&symbol) else { return };
        if let Err(error) = store::save(&path, &tables) {
            complain(format_args!("{}: the model is not written: {error}", path.display()));
        }
    }
}

/// Takes its state from a model.
///
/// # Safety
///
/// `model` is a model.
unsafe fn forget(model: *mut starpu_perfmodel) {
    let mut loaded = LOADED.lock();
    if let Some(at) = loaded.iter().position(|&known| known == model as usize) {
        loaded.swap_remove(at);
        // SAFETY: the state of a known model comes from Box::into_raw.
        unsafe {
            drop(Box::from_raw((*model).state.cast::<Knowledge>()));
            (*model).state = ptr::null_mut();
            (*model).is_loaded = 0;
            (*model).is_init = 0;
        }
    }
}

/// Tells a model that a task took a number of microseconds, `count` times.
///
/// # Safety
///
/// `model` and `task` are valid, and so is what the task holds.
unsafe fn update(
    model: *mut starpu_perfmodel,
    task: *mut starpu_task,
    arch: *mut starpu_perfmodel_arch,
    implementation: u32,
    microseconds: f64,
    count: u32,
) {
    // SAFETY: as the caller vouches; functions of the program are called without the lock.
    unsafe {
        if !measures((*model).type_) || !microseconds.is_finite() || microseconds < 0.0 {
            return;
        }
        load(model, None);
        let footprint = estimate::starpu_task_footprint(model, task, arch, implementation);
        let size = estimate::size_of_task(model, task, arch, implementation);
        let products = estimate::products(model, task);
        let key = (key_of(arch), implementation);
        let _lock = LOADED.lock();
        let Some(state) = state(model) else { return };
        state.changed = true;
        let table = state.tables.entry(key).or_default();
        if table.add(footprint, size, (*task).flops, microseconds, count)
            && let Some(mut row) = products
        {
            row.push(microseconds);
            table.sample(row);
        }
    }
}

/// Calls `f` with what a model has measured, if it has measured anything there.
///
/// # Safety
///
/// `model` is a model.
unsafe fn with_table<R>(
    model: *mut starpu_perfmodel,
    arch: *mut starpu_perfmodel_arch,
    implementation: u32,
    f: impl FnOnce(&Table) -> R,
) -> Option<R> {
    // SAFETY: as the caller vouches, and the lock is held.
    unsafe {
        load(model, None);
        let key = (key_of(arch), implementation);
        let _lock = LOADED.lock();
        Some(f(state(model)?.tables.get(&key)?))
    }
}
