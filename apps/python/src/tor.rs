//! Tomographic reconstructors.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use zellige_tor::params::{Mode, read};
use zellige_tor::pipeline::{Observer, Options, TileChoice, build};

use crate::{error, on_runtime};

/// Says nothing, and ends where it was told to.
struct Quiet<'a>(&'a AtomicBool);

impl Observer for Quiet<'_> {
    fn stage(&self, _name: &str, _total: u64) {}
    fn advance(&self, _done: u64) {}
    fn warn(&self, text: &str) {
        let text = text.to_owned();
        Python::attach(|py| {
            let warn = py.import("warnings").and_then(|warnings| warnings.call_method1("warn", (text,)));
            // Warnings that are errors here have nobody to go to.
            drop(warn);
        });
    }
    fn cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// For each rule its results as JSON, and the reconstructor of each target (none where the rule failed).
#[pyfunction]
#[pyo3(signature = (system, atmosphere, rules, targets, tile))]
pub fn reconstruct<'py>(
    py: Python<'py>,
    system: PathBuf,
    atmosphere: Option<PathBuf>,
    rules: Vec<String>,
    targets: Option<Vec<[f64; 2]>>,
    tile: Option<usize>,
) -> PyResult<Vec<(String, Vec<Bound<'py, PyArray2<f64>>>)>> {
    let input = read(&system, atmosphere.as_deref(), Mode::Lenient).map_err(error)?;
    let tile = tile.map_or(TileChoice::Auto, TileChoice::Uniform);
    let options = Options { rules, targets, tile, ..Options::default() };
    let cancelled = AtomicBool::new(false);
    let observer = Quiet(&cancelled);
    let cancel = || cancelled.store(true, Ordering::Relaxed);
    let outcome = on_runtime(py, cancel, |rt| build(rt, &input, &options, &observer))?;
    let of_rule = |result: zellige_tor::pipeline::RuleResult| {
        let json = serde_json::to_string(&result).map_err(error)?;
        let matrices = result.extras.reconstructors;
        let array = |matrix: Arc<zellige_tor::Matrix>| {
            let (rows, columns) = (matrix.rows(), matrix.cols());
            PyArray1::from_slice(py, matrix.data()).reshape([columns, rows])?.transpose()
        };
        Ok((json, matrices.into_iter().map(array).collect::<PyResult<Vec<_>>>()?))
    };
    outcome.results.into_iter().map(of_rule).collect()
}
