//! The compiled part of the Python package `zellige`; `python/zellige` has the part that users see.

mod dense;
mod graph;
mod interrupt;
mod sparse;
mod tor;

use std::sync::OnceLock;

use pyo3::create_exception;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use zellige_runtime::{Runtime, Subnormals};

create_exception!(zellige, Error, PyRuntimeError, "What zellige could not do, in the words of the command and the libraries.");

/// An error of one of the libraries.
fn error(error: impl std::fmt::Display) -> PyErr {
    Error::new_err(error.to_string())
}

/// The runtime of dense and sparse systems and of reconstructors: one worker per core, as long as the process lives.
fn default_runtime() -> PyResult<&'static Runtime> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let build = || Runtime::builder().subnormals(Subnormals::Flush).build().map_err(|error| error.to_string());
    RUNTIME.get_or_init(build).as_ref().map_err(error)
}

#[pymodule]
fn _zellige(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Error", module.py().get_type::<Error>())?;
    module.add_class::<graph::Runtime>()?;
    module.add_class::<graph::Handle>()?;
    module.add_class::<graph::Task>()?;
    module.add_class::<dense::Cholesky>()?;
    module.add_function(wrap_pyfunction!(sparse::solve, module)?)?;
    module.add_function(wrap_pyfunction!(tor::reconstruct, module)?)?;
    Ok(())
}
