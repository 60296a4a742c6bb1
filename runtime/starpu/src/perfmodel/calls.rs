//! Functions of performance models that programs call.

use super::*;

/// Does nothing: models are ready when they are used.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_perfmodel_initialize() {}

/// Prepares a model.
///
/// # Safety
///
/// `model` is a model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perfmodel_init(model: *mut starpu_perfmodel) {
    if !model.is_null() {
        // SAFETY: as the caller vouches.
        unsafe { begin(model) };
    }
}

/// Releases what the library holds for a model, without writing its file.
///
/// # Safety
///
/// `model` is a model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perfmodel_deinit(model: *mut starpu_perfmodel) -> c_int {
    if !model.is_null() {
        // SAFETY: as the caller vouches.
        unsafe { forget(model) };
    }
    0
}

/// Releases what the library holds for a model that was loaded.
///
/// # Safety
///
/// `model` is a model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perfmodel_unload_model(model: *mut starpu_perfmodel) -> c_int {
    // SAFETY: as the caller vouches.
    unsafe { starpu_perfmodel_deinit(model) }
}

/// Reads a model from a file; returns 1 if that is not possible.
///
/// # Safety
///
/// `file` is a text of C and `model` a model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perfmodel_load_file(
    file: *const c_char,
    model: *mut starpu_perfmodel,
) -> c_int {
    if file.is_null() || model.is_null() {
        return 1;
    }
    // SAFETY: as the caller vouches.
    unsafe {
        let path = PathBuf::from(CStr::from_ptr(file).to_string_lossy().into_owned());
        c_int::from(!load(model, Some(path)))
    }
}

/// Reads the model of a name; returns 1 if there is none.
///
/// # Safety
///
/// `symbol` is a text of C that outlives the model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perfmodel_load_symbol(
    symbol: *const c_char,
    model: *mut starpu_perfmodel,
) -> c_int {
    if symbol.is_null() || model.is_null() {
        return 1;
    }
    // SAFETY: as the caller vouches.
    unsafe {
        (*model).symbol = symbol;
        let Some(path) = store::path(&CStr::from_ptr(symbol).to_string_lossy()) else { return 1 };
        c_int::from(!load(model, Some(path)))
    }
}

/// Writes the file of a model.
///
/// # Safety
///
/// `model` is a model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_save_history_based_model(model: *mut starpu_perfmodel) {
    if !model.is_null() {
        // SAFETY: as the caller vouches.
        unsafe { save(model) };
    }
}

/// Does nothing: what is kept of measurements belongs to models.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_perfmodel_free_sampling() {}

/// Writes the path of the file of a model into `room` bytes; an empty text if there is no folder.
///
/// # Safety
///
/// `symbol` is a text of C, `path` has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perfmodel_get_model_path(
    symbol: *const c_char,
    path: *mut c_char,
    room: usize,
) {
    // SAFETY: as the caller vouches.
    unsafe {
        let found =
            (!symbol.is_null()).then(|| store::path(&CStr::from_ptr(symbol).to_string_lossy())).flatten();
        copy_text(&found.map_or_else(String::new, |path| path.display().to_string()), path, room);
    }
}

/// Writes where a model's measurements could be written for a look at them.
///
/// # Safety
///
/// `model` is a model, `path` has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perfmodel_debugfilepath(
    model: *mut starpu_perfmodel,
    arch: *mut starpu_perfmodel_arch,
    path: *mut c_char,
    room: usize,
    implementation: c_uint,
) {
    // SAFETY: as the caller vouches.
    unsafe {
        let name = symbol(model).unwrap_or_else(|| "model".into());
        let file = format!("{name}.{}.debug", devices::name(arch, implementation));
        let text = store::folder().map_or(file.clone(), |folder| folder.join(&file).display().to_string());
        copy_text(&text, path, room);
    }
}

/// Tells a model that a task took a number of microseconds.
///
/// # Safety
///
/// All pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perfmodel_update_history(
    model: *mut starpu_perfmodel,
    task: *mut starpu_task,
    arch: *mut starpu_perfmodel_arch,
    _worker: c_uint,
    implementation: c_uint,
    measured: f64,
) {
    if !model.is_null() && !task.is_null() {
        // SAFETY: as the caller vouches.
        unsafe { update(model, task, arch, implementation, measured, 1) };
    }
}

/// Tells a model that a task took a number of microseconds in the mean of `count` executions.
///
/// # Safety
///
/// All pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perfmodel_update_history_n(
    model: *mut starpu_perfmodel,
    task: *mut starpu_task,
    arch: *mut starpu_perfmodel_arch,
    _worker: c_uint,
    implementation: c_uint,
    measured: f64,
    count: c_uint,
) {
    if !model.is_null() && !task.is_null() && count > 0 {
        // SAFETY: as the caller vouches.
        unsafe { update(model, task, arch, implementation, measured, count) };
    }
}

/// Returns what a model expects of a footprint, in microseconds; NaN if too little was measured.
///
/// # Safety
///
/// `model` is a model, `arch` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perfmodel_history_based_expected_perf(
    model: *mut starpu_perfmodel,
    arch: *mut starpu_perfmodel_arch,
    footprint: u32,
) -> f64 {
    // SAFETY: as the caller vouches.
    unsafe {
        with_table(model, arch, 0, |table| table.expected(footprint, minimum())).flatten().unwrap_or(f64::NAN)
    }
}

/// Returns what a program may set for a model on a kind of device, with the regressions as they
/// stand.
///
/// # Safety
///
/// `model` is a model, `arch` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perfmodel_get_model_per_arch(
    model: *mut starpu_perfmodel,
    arch: *mut starpu_perfmodel_arch,
    implementation: c_uint,
) -> *mut starpu_perfmodel_per_arch {
    if model.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: as the caller vouches; all-zero bytes are a valid value of the structure.
    unsafe {
        load(model, None);
        let comb = devices::number_of(arch);
        let key = (key_of(arch), implementation);
        let _lock = LOADED.lock();
        let Some(state) = state(model) else { return ptr::null_mut() };
        let table = state.tables.get(&key);
        let per = state.per.entry((comb, implementation)).or_insert_with(|| Box::new(std::mem::zeroed()));
        if let Some(table) = table {
            let sums = &table.sums;
            let regression = &mut per.regression;
            regression.nsample = sums.count;
            (regression.sumlnx, regression.sumlnx2) = (sums.x, sums.xx);
            (regression.sumlny, regression.sumlnxlny) = (sums.y, sums.xy);
            (regression.minx, regression.maxx) = (sums.least, sums.most);
            if let Some((alpha, beta)) = table.linear(minimum()) {
                (regression.alpha, regression.beta, regression.valid) = (alpha, beta, 1);
            }
            if let Some((a, b, c)) = table.nonlinear(minimum()) {
                (regression.a, regression.b, regression.c, regression.nl_valid) = (a, b, c, 1);
            }
        }
        &raw mut **per
    }
}

/// The part of a model for a list of devices, as `src/lists.c` has read it.
///
/// # Safety
///
/// `model` is a model, `devices` points at `count` devices.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zellige_model_for(
    model: *mut starpu_perfmodel,
    implementation: c_uint,
    count: c_int,
    devices: *mut starpu_perfmodel_device,
) -> *mut starpu_perfmodel_per_arch {
    let mut arch = starpu_perfmodel_arch { ndevices: count, devices };
    // SAFETY: as the caller vouches; the devices are copied.
    unsafe { starpu_perfmodel_get_model_per_arch(model, &raw mut arch, implementation) }
}

/// Returns the functions that a program set for a model on a kind of device: cost and size.
///
/// # Safety
///
/// `model` is a model, `arch` is null or valid.
pub(super) unsafe fn set_for(
    model: *mut starpu_perfmodel,
    arch: *mut starpu_perfmodel_arch,
    implementation: u32,
) -> (starpu_perfmodel_per_arch_cost_function, starpu_perfmodel_per_arch_size_base) {
    let comb = devices::number_of(arch);
    let _lock = LOADED.lock();
    // SAFETY: as the caller vouches, and the lock is held.
    let per = unsafe { state(model) }.and_then(|state| state.per.get(&(comb, implementation)));
    per.map_or((None, None), |per| (per.cost_function, per.size_base))
}

unsafe extern "C" fn nop_cost(_task: *mut starpu_task, _implementation: c_uint) -> f64 {
    1.0
}

/// A model that says one microsecond of every task.
#[unsafe(no_mangle)]
pub static mut starpu_perfmodel_nop: starpu_perfmodel = starpu_perfmodel {
    type_: STARPU_COMMON,
    cost_function: Some(nop_cost),
    arch_cost_function: None,
    worker_cost_function: None,
    size_base: None,
    footprint: None,
    symbol: ptr::null(),
    path: ptr::null_mut(),
    is_loaded: 0,
    benchmarking: 0,
    is_init: 0,
    is_recorded_recursive: 0,
    recursive_graphs: ptr::null_mut(),
    parameters: None,
    parameters_names: ptr::null_mut(),
    nparameters: 0,
    combinations: ptr::null_mut(),
    ncombinations: 0,
    state: ptr::null_mut(),
    footprint_per_level: [0; STARPU_RECURSIVE_TASKS_NMAX_LEVELS],
};
