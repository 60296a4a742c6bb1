//! Compiled part of the Python package `zellige`; the public part is in `python/zellige`.

mod dense;
mod graph;
mod interrupt;
mod psa;
mod sparse;
mod stochastic;
mod tor;
mod tor_loop;
mod tor_rtc;
mod tune;

use std::sync::{Mutex, OnceLock, PoisonError};

use pyo3::create_exception;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use zellige_runtime::{Runtime, Subnormals};

create_exception!(
    zellige,
    Error,
    PyRuntimeError,
    "What zellige could not do, in the words of the command and the libraries."
);

/// Converts an error of a library to an exception.
fn error(error: impl std::fmt::Display) -> PyErr {
    Error::new_err(error.to_string())
}

/// Returns the runtime of everything except Python's own task graphs: one worker per core, for the
/// lifetime of the process.
fn runtime() -> PyResult<&'static Runtime> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let build =
        || Runtime::builder().subnormals(Subnormals::Flush).build().map_err(|error| error.to_string());
    RUNTIME.get_or_init(build).as_ref().map_err(error)
}

/// Runs `work` on the runtime. Ctrl-C calls `cancel`, and cancels the tasks of the runtime.
fn on_runtime<R: Send, E: std::fmt::Display + Send>(
    py: Python<'_>,
    cancel: impl Fn() + Send + Sync,
    work: impl FnOnce(&'static Runtime) -> Result<R, E> + Send,
) -> PyResult<R> {
    let rt = runtime()?;
    let cancel_all = || {
        cancel();
        rt.cancel_all();
    };
    in_turn(py, rt, cancel_all, || work(rt))
}

/// Runs `work`, whose tasks are on `rt`. Calls are serialised, so that failed tasks of one are not
/// attributed to another. Ctrl-C calls `cancel`.
fn in_turn<R: Send, E: std::fmt::Display + Send>(
    py: Python<'_>,
    rt: &'static Runtime,
    cancel: impl Fn() + Send + Sync,
    work: impl FnOnce() -> Result<R, E> + Send,
) -> PyResult<R> {
    static TURN: Mutex<()> = Mutex::new(());
    let in_turn = || {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work();
        if result.is_err() {
            // The error was already reported, so it is cleared before the next call.
            drop(rt.wait_all());
        }
        result
    };
    interrupt::detached(py, cancel, in_turn)?.map_err(error)
}

#[pymodule]
fn _zellige(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Error", module.py().get_type::<Error>())?;
    module.add_class::<graph::Runtime>()?;
    module.add_class::<graph::Handle>()?;
    module.add_class::<graph::Task>()?;
    module.add_class::<graph::Graph>()?;
    module.add_class::<dense::Cholesky>()?;
    module.add_class::<psa::Search>()?;
    module.add_class::<psa::Crystal>()?;
    module.add_class::<stochastic::Scope>()?;
    module.add_class::<tor_loop::Loop>()?;
    module.add_class::<tor_rtc::Rtc>()?;
    module.add("CATEGORIES", stochastic::categories())?;
    module.add_function(wrap_pyfunction!(stochastic::digits, module)?)?;
    module.add_function(wrap_pyfunction!(stochastic::text, module)?)?;
    module.add_function(wrap_pyfunction!(stochastic::report_text, module)?)?;
    module.add_function(wrap_pyfunction!(stochastic::trust_text, module)?)?;
    module.add_function(wrap_pyfunction!(sparse::solve, module)?)?;
    module.add_function(wrap_pyfunction!(sparse::trust, module)?)?;
    module.add_function(wrap_pyfunction!(tor::reconstruct, module)?)?;
    module.add_function(wrap_pyfunction!(tor::covariances, module)?)?;
    module.add_function(wrap_pyfunction!(tune::tune, module)?)?;
    Ok(())
}
