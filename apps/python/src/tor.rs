//! Tomographic reconstructors.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use zellige_runtime::Runtime;
use zellige_tor::Matrix;
use zellige_tor::image::Psf;
use zellige_tor::params::{Input, Mode, read};
use zellige_tor::pipeline::{Observer, Options, PipelineError, TileChoice, build, covariance};

use crate::{error, in_turn, on_runtime};

/// Observer without output, which cancels on request.
struct Quiet<'a>(&'a AtomicBool);

impl Observer for Quiet<'_> {
    fn stage(&self, _name: &str, _total: u64) {}
    fn advance(&self, _done: u64) {}
    fn warn(&self, text: &str) {
        let text = text.to_owned();
        Python::attach(|py| {
            let warn = py.import("warnings").and_then(|warnings| warnings.call_method1("warn", (text,)));
            // A warning that is turned into an exception cannot be raised here, so it is dropped.
            drop(warn);
        });
    }
    fn cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs `work` on the parameters in files, and cancels it on Ctrl-C.
fn on_parameters<R: Send>(
    py: Python<'_>,
    (system, atmosphere): (PathBuf, Option<PathBuf>),
    work: impl FnOnce(&'static Runtime, &Input, &dyn Observer) -> Result<R, PipelineError> + Send,
) -> PyResult<R> {
    let input = read(&system, atmosphere.as_deref(), Mode::Lenient).map_err(error)?;
    let cancelled = AtomicBool::new(false);
    let observer = Quiet(&cancelled);
    let cancel = || cancelled.store(true, Ordering::Relaxed);
    on_runtime(py, cancel, |rt| work(rt, &input, &observer))
}

/// Runs `work`, which ends by itself when its observer says so, and tells it of Ctrl-C.
pub fn observed<R: Send, E: std::fmt::Display + Send>(
    py: Python<'_>,
    rt: &'static Runtime,
    work: impl FnOnce(&dyn Observer) -> Result<R, E> + Send,
) -> PyResult<R> {
    let cancelled = AtomicBool::new(false);
    in_turn(py, rt, || cancelled.store(true, Ordering::Relaxed), || work(&Quiet(&cancelled)))
}

/// Converts concatenated columns of `rows` numbers to an array of two dimensions.
pub fn array(py: Python<'_>, rows: usize, columns: Vec<f64>) -> PyResult<Bound<'_, PyArray2<f64>>> {
    let width = columns.len() / rows.max(1);
    PyArray1::from_vec(py, columns).reshape([width, rows])?.transpose()
}

/// Results of a reconstructor as JSON, with its matrix and image (and the pixel size in arcsec) for
/// each target.
type Reconstructed<'py> = (String, Vec<Bound<'py, PyArray2<f64>>>, Vec<(Bound<'py, PyArray2<f64>>, f64)>);

#[pyfunction]
pub fn reconstruct<'py>(
    py: Python<'py>,
    files: (PathBuf, Option<PathBuf>),
    rule: String,
    targets: Option<Vec<[f64; 2]>>,
    tile: Option<usize>,
    refine: usize,
) -> PyResult<Reconstructed<'py>> {
    let tile = tile.map_or(TileChoice::Auto, TileChoice::Uniform);
    let rules = vec![rule];
    let options = Options { rules, targets, tile, refine, keep_images: true, ..Options::default() };
    let outcome = on_parameters(py, files, |rt, input, observer| build(rt, input, &options, observer))?;
    let result = outcome.results.into_iter().next().ok_or_else(|| error("no rule was run"))?;
    if let Some(lost) = &result.not_spd {
        return Err(error(format!("{}: {lost}", result.rule)));
    }
    let json = serde_json::to_string(&result).map_err(error)?;
    let matrix = |matrix: Arc<Matrix>| array(py, matrix.rows(), matrix.data().to_vec());
    let matrices = result.extras.reconstructors.into_iter().map(matrix).collect::<PyResult<_>>()?;
    let image = |psf: Psf| {
        let rows = PyArray1::from_vec(py, psf.image).reshape([psf.size, psf.size])?;
        Ok((rows, psf.pixel))
    };
    let images = result.extras.images.into_iter().map(image).collect::<PyResult<_>>()?;
    Ok((json, matrices, images))
}

/// Covariance matrices: `Cmm`, `Ctm` of each target, `Ctt`.
type Matrices<'py> = (Bound<'py, PyArray2<f64>>, Vec<Bound<'py, PyArray2<f64>>>, Bound<'py, PyArray2<f64>>);

#[pyfunction]
pub fn covariances<'py>(
    py: Python<'py>,
    files: (PathBuf, Option<PathBuf>),
    targets: Option<Vec<[f64; 2]>>,
) -> PyResult<Matrices<'py>> {
    let options = Options { targets, ..Options::default() };
    let all = on_parameters(py, files, |rt, input, observer| covariance(rt, input, &options, observer))?;
    let matrix = |matrix: Matrix| array(py, matrix.rows(), matrix.into_vec());
    let ctm = all.ctm.into_iter().map(matrix).collect::<PyResult<_>>()?;
    Ok((matrix(all.cmm)?, ctm, matrix(all.ctt)?))
}
