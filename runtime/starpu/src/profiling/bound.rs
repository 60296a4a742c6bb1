//! The lower bound of the time in which the recorded tasks can be run, by their measured times.
//!
//! All workers are taken as alike, so that the linear programme over how many tasks of each kind
//! run where has a closed answer: the sum of all times by the number of workers. With whole tasks
//! it is no less than the longest of them.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::instance;
use crate::perfmodel::starpu_task_data_footprint;
use crate::types::*;
use crate::workers::print;

static RECORDED: AtomicBool = AtomicBool::new(false);

/// The tasks of one kind: a codelet and the size of its data.
#[derive(Clone, Default)]
struct Kind {
    name: String,
    count: u64,
    /// Microseconds of all together and of the longest.
    sum: f64,
    longest: f64,
}

static KINDS: Mutex<BTreeMap<(usize, u32), Kind>> = Mutex::new(BTreeMap::new());

pub(super) fn recorded() -> bool {
    RECORDED.load(Ordering::Relaxed)
}

/// Notes that a task took some microseconds.
///
/// # Safety
///
/// `task` is a task whose codelet and data are still there.
pub(super) unsafe fn record(task: *mut starpu_task, microseconds: f64) {
    if !recorded() {
        return;
    }
    // SAFETY: as the caller vouches; names are texts of C or null.
    unsafe {
        let key = ((*task).cl as usize, starpu_task_data_footprint(task));
        let mut kinds = KINDS.lock();
        let kind = kinds.entry(key).or_default();
        if kind.name.is_empty() {
            let codelet = (*task).cl.as_ref();
            let model = codelet.and_then(|codelet| codelet.model.as_ref());
            let names = [codelet.map(|codelet| codelet.name), model.map(|model| model.symbol)];
            let name = names.into_iter().flatten().find(|name| !name.is_null());
            kind.name =
                name.map_or_else(|| "unnamed".into(), |name| CStr::from_ptr(name).to_string_lossy().into());
        }
        kind.count += 1;
        kind.sum += microseconds;
        kind.longest = kind.longest.max(microseconds);
    }
}

fn kinds() -> Vec<Kind> {
    KINDS.lock().values().cloned().collect()
}

/// The bound in milliseconds, of parts of tasks and of whole tasks.
fn bounds() -> (f64, f64) {
    let kinds = kinds();
    let area = kinds.iter().map(|kind| kind.sum).sum::<f64>() / instance::workers().max(1) as f64;
    let longest = kinds.iter().map(|kind| kind.longest).fold(0.0, f64::max);
    (area * 1e-3, area.max(longest) * 1e-3)
}

/// Begins to record tasks. Dependencies and priorities are not used.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_bound_start(_dependencies: c_int, _priorities: c_int) {
    KINDS.lock().clear();
    RECORDED.store(true, Ordering::SeqCst);
}

/// Ends the recording of tasks.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_bound_stop() {
    RECORDED.store(false, Ordering::SeqCst);
}

/// Computes the bound in milliseconds; the second one, of whole tasks, if it is asked for.
///
/// # Safety
///
/// Both pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_bound_compute(result: *mut f64, whole: *mut f64, integer: c_int) {
    let bounds = bounds();
    // SAFETY: null or valid, as the caller vouches.
    unsafe {
        if let Some(result) = result.as_mut() {
            *result = bounds.0;
        }
        if integer != 0
            && let Some(whole) = whole.as_mut()
        {
            *whole = bounds.1;
        }
    }
}

/// Prints the bound and what it is made of.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_bound_print(stream: *mut FILE, integer: c_int) {
    let bounds = bounds();
    let bound = if integer == 0 { bounds.0 } else { bounds.1 };
    let mut text = format!("bound: {bound:.3} ms on {} workers\n", instance::workers());
    for kind in kinds() {
        let mean = kind.sum / kind.count as f64;
        let _ = writeln!(text, "{}: {} tasks of {mean:.1} us", kind.name, kind.count);
    }
    print(stream, &text);
}

/// Prints the recorded tasks as a graph for dot: one node for each kind, without dependencies.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_bound_print_dot(stream: *mut FILE) {
    let mut text = String::from("digraph bound {\n\t// dependencies are not recorded\n");
    for (at, kind) in kinds().iter().enumerate() {
        let name = kind.name.replace('\\', "\\\\").replace('"', "\\\"");
        let _ = writeln!(text, "\tk{at} [label=\"{} x {name}\"]", kind.count);
    }
    text.push_str("}\n");
    print(stream, &text);
}

/// Prints the linear programme of the bound in the format of lp_solve: `n_k_w` tasks of kind k run
/// on worker w.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_bound_print_lp(stream: *mut FILE) {
    let (kinds, workers) = (kinds(), instance::workers());
    let mut text =
        String::from("/* the least time in which the workers can run all tasks, in us */\nmin: tmax;\n");
    for worker in 0..workers {
        let terms: Vec<String> = kinds
            .iter()
            .enumerate()
            .map(|(at, kind)| format!("{:.6} n_{at}_{worker}", kind.sum / kind.count as f64))
            .collect();
        if !terms.is_empty() {
            let _ = writeln!(text, "{} <= tmax;", terms.join(" + "));
        }
    }
    for (at, kind) in kinds.iter().enumerate() {
        let terms: Vec<String> = (0..workers).map(|worker| format!("n_{at}_{worker}")).collect();
        let _ = writeln!(
            text,
            "/* {} */ {} = {};",
            kind.name.replace("*/", "* /"),
            terms.join(" + "),
            kind.count
        );
    }
    print(stream, &text);
}

/// Prints the linear programme of the bound in the format MPS.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_bound_print_mps(stream: *mut FILE) {
    let (kinds, workers) = (kinds(), instance::workers());
    let mut text = String::from("NAME           BOUND\nROWS\n N  TIME\n");
    (0..workers).for_each(|worker| _ = writeln!(text, " L  W{worker}"));
    (0..kinds.len()).for_each(|at| _ = writeln!(text, " E  K{at}"));
    text.push_str("COLUMNS\n    TMAX      TIME      1\n");
    (0..workers).for_each(|worker| _ = writeln!(text, "    TMAX      W{worker}      -1"));
    for (at, kind) in kinds.iter().enumerate() {
        for worker in 0..workers {
            let mean = kind.sum / kind.count as f64;
            let _ = writeln!(text, "    N{at}_{worker}      W{worker}      {mean:.6}   K{at}      1");
        }
    }
    text.push_str("RHS\n");
    kinds
        .iter()
        .enumerate()
        .for_each(|(at, kind)| _ = writeln!(text, "    RHS       K{at}      {}", kind.count));
    text.push_str("ENDATA\n");
    print(stream, &text);
}
