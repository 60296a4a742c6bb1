//! Sparse systems.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::{PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zellige_runtime::Runtime;
use zellige_sparse::Csr;
use zellige_sparse::krylov::{History, Stop};
use zellige_sparse::precondition::{AmgSetup, NearNull};
use zellige_sparse::system::{KeptSetup, Options, System};

use crate::stochastic::judged;
use crate::{error, on_runtime};

/// Index of the first element of each row, columns and values of a CSR matrix.
type Parts<'py> = (PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, f64>);

fn matrix((starts, column, value): &Parts<'_>, width: usize) -> PyResult<Csr> {
    let starts = starts.as_array().iter().map(|&start| usize::try_from(start)).collect::<Result<Vec<_>, _>>();
    let column = column.as_array().iter().map(|&column| u32::try_from(column)).collect::<Result<Vec<_>, _>>();
    Csr::new(width, starts.map_err(error)?, column.map_err(error)?, value.as_array().to_vec()).map_err(error)
}

fn columns(array: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<f64>>> {
    let array = array.extract::<PyReadonlyArray2<'_, f64>>()?;
    Ok(array.as_array().columns().into_iter().map(|column| column.to_vec()).collect())
}

/// Converts the near null space: a word, or vectors.
fn near_null(value: &Bound<'_, PyAny>) -> PyResult<NearNull> {
    match value.extract::<String>() {
        Ok(word) if word == "constant" => Ok(NearNull::Constants),
        Ok(word) if word == "search" => Ok(NearNull::Search),
        Ok(other) => Err(error(format!("near_null: constant, search or vectors, not {other}"))),
        Err(_) => Ok(NearNull::Vectors(columns(value)?)),
    }
}

/// Converts the options of a solve.
fn options(py_options: &Bound<'_, PyDict>) -> PyResult<Options> {
    let mut options = Options::default();
    let (mut tolerance, mut steps, mut seconds) = (1e-10, 10_000, None);
    for (key, value) in py_options {
        if value.is_none() {
            continue;
        }
        match key.extract::<String>()?.as_str() {
            "method" => options.method = value.extract::<String>()?.parse().map_err(error)?,
            "precond" => options.preconditioner = value.extract::<String>()?.parse().map_err(error)?,
            "operator" => options.inner = value.extract::<String>()?.parse().map_err(error)?,
            "near_null" => options.near_null = Some(near_null(&value)?),
            "setup" => {
                options.setup = Some(Arc::new(AmgSetup::read(&value.extract::<PathBuf>()?).map_err(error)?));
            }
            "save_setup" => options.kept_setup = Some(KeptSetup::default()),
            "coordinates" => options.near_null = Some(NearNull::Coordinates(columns(&value)?)),
            "scale" => options.scaling = value.extract::<String>()?.parse().map_err(error)?,
            "tol" => tolerance = value.extract()?,
            "max_steps" => steps = value.extract()?,
            "max_time" => seconds = Some(value.extract::<f64>()?),
            other => return Err(error(format!("no option is named {other}"))),
        }
    }
    options.stop = vec![Stop::RelativeToRhs(tolerance), Stop::Steps(steps)];
    let seconds =
        seconds.map(|seconds| std::time::Duration::try_from_secs_f64(seconds).map_err(error)).transpose()?;
    options.stop.extend(seconds.map(Stop::After));
    Ok(options)
}

/// Solves for every column of `b`. The answers are columns of `x`; each result is a dictionary of
/// statistics.
#[pyfunction]
pub fn solve<'py>(
    py: Python<'py>,
    parts: Parts<'py>,
    width: usize,
    b: PyReadonlyArray2<'py, f64>,
    x: &Bound<'py, PyArray2<f64>>,
    given: &Bound<'py, PyDict>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let (options, a) = (options(given)?, matrix(&parts, width)?);
    let b: Vec<Vec<f64>> = b.as_array().columns().into_iter().map(|column| column.to_vec()).collect();
    let mut answers = vec![vec![0.0; width]; b.len()];
    let solve = |rt: &Runtime| -> Result<Vec<_>, zellige_sparse::Error> {
        let mut histories = vec![History::default(); b.len()];
        let found = System::new(rt, &a, &options)?.solve_each(&b, &mut answers, &mut histories)?;
        Ok(found.into_iter().zip(histories).collect::<Vec<_>>())
    };
    let found = on_runtime(py, || (), solve)?;
    let kept = options.kept_setup.as_ref().and_then(KeptSetup::get);
    if let (Some(path), Some(setup)) = (given.get_item("save_setup")?, kept) {
        setup.write(&path.extract::<PathBuf>()?).map_err(error)?;
    }
    let mut out = x.try_readwrite()?;
    for (mut to, from) in out.as_array_mut().columns_mut().into_iter().zip(&answers) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    }
    let describe = |(answer, history): (zellige_sparse::system::Answer, History)| {
        let result = PyDict::new(py);
        let last = answer.attempts.last();
        result.set_item("converged", answer.solution.reason.is_converged())?;
        result.set_item("reason", answer.solution.reason.name())?;
        result.set_item("steps", answer.solution.steps)?;
        result.set_item("residual", answer.solution.true_residual)?;
        result.set_item("rhs_norm", answer.solution.rhs)?;
        result.set_item("backward_error", answer.backward_error)?;
        result.set_item("attainable_residual", answer.attainable)?;
        result.set_item("method", last.map(|attempt| attempt.method.clone()))?;
        result.set_item("precond", last.map(|attempt| attempt.preconditioner.to_string()))?;
        result.set_item("history", history.steps)?;
        result.set_item("true_residuals", history.checks)?;
        result.set_item("setup_seconds", answer.setup.as_secs_f64())?;
        result.set_item("solve_seconds", answer.solve.as_secs_f64())?;
        Ok(result)
    };
    found.into_iter().map(describe).collect()
}

/// Judges the digits of the solution for one right-hand side. Returns JSON.
#[pyfunction]
pub fn trust(
    py: Python<'_>,
    parts: Parts<'_>,
    width: usize,
    b: PyReadonlyArray1<'_, f64>,
    given: &Bound<'_, PyDict>,
    samples: usize,
    seed: u64,
) -> PyResult<String> {
    let (solver, a, b) = (options(given)?, matrix(&parts, width)?, b.as_array().to_vec());
    let options = crate::stochastic::options(samples, seed)?;
    judged(py, |rt| zellige_solve::trust::solve(rt, &a, &b, &solver, &options))
}
