//! Models in print.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::fmt::Write as _;
use std::fs;

use super::store::{Device, Table, Tables};
use super::{LOADED, devices, load, minimum, state, store, symbol};
use crate::instance::complain;
use crate::types::*;
use crate::workers::print;

/// One word of a table: the value of the parameter for each line, or the coefficient.
fn parameter(table: &Table, name: &str, footprint: Option<u32>) -> Option<String> {
    let lines = || table.lines.iter().filter(move |line| footprint.is_none_or(|wanted| wanted == *line.0));
    let mut text = String::new();
    let value = match name {
        "mean" => {
            lines().for_each(|line| _ = writeln!(text, "{:e}", line.1.mean()));
            return Some(text);
        }
        "stddev" => {
            lines().for_each(|line| _ = writeln!(text, "{:e}", line.1.deviation()));
            return Some(text);
        }
        "a" => table.nonlinear(minimum()).map(|fit| fit.0),
        "b" => table.nonlinear(minimum()).map(|fit| fit.1),
        "c" => table.nonlinear(minimum()).map(|fit| fit.2),
        "alpha" => table.linear(minimum()).map(|fit| fit.0),
        "beta" => table.linear(minimum()).map(|fit| fit.1),
        _ => return None,
    };
    let _ = writeln!(text, "{:e}", value.unwrap_or(f64::NAN));
    Some(text)
}

/// A table with all that is known.
fn whole(name: &str, table: &Table, footprint: Option<u32>) -> String {
    let mut text = format!("# model of {name}: {} measurements\n", table.sums.count);
    if let Some((alpha, beta)) = table.linear(minimum()) {
        let _ = writeln!(text, "\ttime = {alpha:e} size^{beta:e}");
    }
    if let Some((a, b, c)) = table.nonlinear(minimum()) {
        let _ = writeln!(text, "\ttime = {a:e} size^{b:e} + {c:e}");
    }
    if !table.lines.is_empty() {
        text.push_str("# footprint\tsize\tflops\tmean (us)\tdeviation (us)\tn\n");
    }
    for (number, line) in &table.lines {
        if footprint.is_none_or(|wanted| wanted == *number) {
            let _ = writeln!(
                text,
                "{number:08x}\t{}\t{:e}\t{:e}\t{:e}\t{}",
                line.size,
                line.flops,
                line.mean(),
                line.deviation(),
                line.count
            );
        }
    }
    text
}

/// Returns the measurements of a model.
///
/// # Safety
///
/// `model` is a model.
unsafe fn tables(model: *mut starpu_perfmodel) -> Tables {
    // SAFETY: as the caller vouches, and the lock is held.
    unsafe {
        load(model, None);
        let _lock = LOADED.lock();
        state(model).map(|state| state.tables.clone()).unwrap_or_default()
    }
}

/// The name of the devices and the implementation of a table.
fn title(devices: &[Device], implementation: u32) -> String {
    let mut list: Vec<starpu_perfmodel_device> =
        devices.iter().map(|d| starpu_perfmodel_device { type_: d.0, devid: d.1, ncores: d.2 }).collect();
    let arch = starpu_perfmodel_arch { ndevices: list.len() as c_int, devices: list.as_mut_ptr() };
    devices::name(&raw const arch, implementation)
}

/// Prints a table, or one word of it.
///
/// # Safety
///
/// `word` is null or a text of C, `footprint` is null or valid.
unsafe fn show(
    title: &str,
    table: &Table,
    word: *const c_char,
    footprint: *const u32,
    stream: *mut FILE,
) -> c_int {
    // SAFETY: as the caller vouches.
    let footprint = unsafe { footprint.as_ref() }.copied();
    if word.is_null() {
        print(stream, &whole(title, table, footprint));
        return 0;
    }
    // SAFETY: as the caller vouches.
    let word = unsafe { CStr::from_ptr(word) }.to_string_lossy();
    match parameter(table, &word, footprint) {
        Some(text) => print(stream, &text),
        None => {
            complain(format_args!(
                "models have no parameter {word}: it is one of mean, stddev, a, b, c, alpha, beta"
            ));
            return 1;
        }
    }
    0
}

/// Prints what a model has measured on a kind of device, or one parameter of it.
///
/// # Safety
///
/// `model` is a model; the other pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perfmodel_print(
    model: *mut starpu_perfmodel,
    arch: *mut starpu_perfmodel_arch,
    implementation: c_uint,
    parameter: *mut c_char,
    footprint: *mut u32,
    stream: *mut FILE,
) {
    // SAFETY: as the caller vouches.
    unsafe {
        if let Some(table) = tables(model).get(&(devices::key_of(arch), implementation)) {
            show(&devices::name(arch, implementation), table, parameter, footprint, stream);
        }
    }
}

/// Prints what a model has measured on all devices whose name begins with `arch`, or on all.
///
/// # Safety
///
/// `model` is a model; the other pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perfmodel_print_all(
    model: *mut starpu_perfmodel,
    arch: *mut c_char,
    parameter: *mut c_char,
    footprint: *mut u32,
    stream: *mut FILE,
) -> c_int {
    // SAFETY: as the caller vouches.
    unsafe {
        let wanted =
            if arch.is_null() { String::new() } else { CStr::from_ptr(arch).to_string_lossy().into_owned() };
        let mut result = 0;
        for ((devices, implementation), table) in tables(model) {
            let title = title(&devices, implementation);
            if title.starts_with(&wanted) {
                result |= show(&title, &table, parameter, footprint, stream);
            }
        }
        result
    }
}

/// Prints what a model expects of a footprint on each kind of device.
///
/// # Safety
///
/// `model` is a model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perfmodel_print_estimations(
    model: *mut starpu_perfmodel,
    footprint: u32,
    stream: *mut FILE,
) -> c_int {
    // SAFETY: as the caller vouches.
    for ((devices, implementation), table) in unsafe { tables(model) } {
        let expected = table.expected(footprint, minimum()).unwrap_or(f64::NAN);
        print(stream, &format!("{}: {expected:e}\n", title(&devices, implementation)));
    }
    0
}

/// Prints the kinds of devices that a model has measurements of.
///
/// # Safety
///
/// `model` is a model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perfmodel_list_combs(
    stream: *mut FILE,
    model: *mut starpu_perfmodel,
) -> c_int {
    // SAFETY: as the caller vouches.
    for (devices, implementation) in unsafe { tables(model) }.keys() {
        print(stream, &format!("{}\n", title(devices, *implementation)));
    }
    0
}

/// Prints a model as XML.
///
/// # Safety
///
/// `model` is a model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_perfmodel_dump_xml(stream: *mut FILE, model: *mut starpu_perfmodel) {
    // SAFETY: as the caller vouches.
    let (tables, symbol) = unsafe { (tables(model), symbol(model).unwrap_or_default()) };
    let escaped = symbol.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<perfmodel version=\"45\" name=\"{escaped}\">\n"
    );
    for ((devices, implementation), table) in tables {
        let _ = writeln!(text, "  <implementation arch=\"{}\">", title(&devices, implementation));
        if let Some((alpha, beta)) = table.linear(minimum()) {
            let _ = writeln!(text, "    <l_regression alpha=\"{alpha:e}\" beta=\"{beta:e}\"/>");
        }
        if let Some((a, b, c)) = table.nonlinear(minimum()) {
            let _ = writeln!(text, "    <nl_regression a=\"{a:e}\" b=\"{b:e}\" c=\"{c:e}\"/>");
        }
        for (footprint, line) in &table.lines {
            let _ = writeln!(
                text,
                "    <entry footprint=\"{footprint:08x}\" size=\"{}\" flops=\"{:e}\" mean=\"{:e}\" deviation=\"{:e}\" \
                 nsample=\"{}\"/>",
                line.size,
                line.flops,
                line.mean(),
                line.deviation(),
                line.count
            );
        }
        text.push_str("  </implementation>\n");
    }
    text.push_str("</perfmodel>\n");
    print(stream, &text);
}

/// Prints the folder of the models' files.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_perfmodel_directory(stream: *mut FILE) {
    let folder = store::folder().map_or_else(|| "none".into(), |folder| folder.display().to_string());
    print(stream, &format!("directory: <{folder}>\n"));
}

/// Prints the names of the models' files; returns 1 if there is no folder.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_perfmodel_list(stream: *mut FILE) -> c_int {
    let Some(Ok(entries)) = store::folder().map(fs::read_dir) else {
        print(stream, "there are no models\n");
        return 1;
    };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names.iter().for_each(|name| print(stream, &format!("file: <{name}>\n")));
    0
}

/// Prints the bandwidths between memory nodes, of which there is one.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_bus_print_bandwidth(stream: *mut FILE) {
    print(stream, "from/to\tNUMA 0\nNUMA 0\t-\n");
}

/// Prints which processors are near which devices, of which there are none.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_bus_print_affinity(stream: *mut FILE) {
    print(stream, "there is no device with memory of its own\n");
}

/// Prints the files of bus measurements, of which there are none.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_bus_print_filenames(stream: *mut FILE) {
    print(stream, "the bus is not measured: there is no device with memory of its own\n");
}
