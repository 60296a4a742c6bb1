//! Dense symmetric positive definite systems.

use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2};
use pyo3::prelude::*;
use zellige_dense::{self as dense, GemmPrecision, NotPositiveDefinite, Rule};

use crate::stochastic::{judged, options};
use crate::{error, on_runtime};

/// Default number of rows of a tile.
const TILE: usize = 256;

/// A matrix and its Cholesky factor.
#[pyclass(frozen)]
pub struct Cholesky {
    #[pyo3(get)]
    tile: usize,
    factor: dense::Cholesky<'static>,
}

/// Returns the columns of an array, concatenated.
fn columns(array: &PyReadonlyArray2<'_, f64>) -> Vec<f64> {
    let array = array.as_array();
    array.columns().into_iter().flat_map(|column| column.to_vec()).collect()
}

/// Describes the position at which positive definiteness was lost, with suitable advice. No product
/// precedes the first tile.
fn lost(lost: &NotPositiveDefinite, rule: &Rule) -> String {
    let is_of = |precision| *rule == Rule::uniform(precision);
    if lost.tile > 0 && !is_of(GemmPrecision::Sp) && !is_of(GemmPrecision::Dp) {
        return lost.to_string();
    }
    let pivot = match lost.value {
        value if value.is_nan() => "no positive pivot".to_owned(),
        value => format!("pivot {value:e}"),
    };
    let (format, remedy) = match is_of(GemmPrecision::Dp) {
        true => ("float64", ""),
        false => ("float32", "take the rule fp64, "),
    };
    format!(
        "not positive definite in {format}: row {} of the matrix (from 0) has {pivot}; {remedy}add to its diagonal, or take zellige.solve where it is \
         indefinite",
        lost.row
    )
}

#[pymethods]
impl Cholesky {
    #[new]
    #[pyo3(signature = (a, rule, tile))]
    fn new(py: Python<'_>, a: PyReadonlyArray2<'_, f64>, rule: &str, tile: Option<usize>) -> PyResult<Self> {
        let (n, width) = a.as_array().dim();
        if n != width {
            return Err(error(format!("a matrix of {n} x {width} is not square")));
        }
        let (parsed, a) = (rule.parse::<Rule>().map_err(error)?, columns(&a));
        let tile = tile.unwrap_or(TILE);
        let said = |error: dense::Error| match error.not_positive_definite() {
            Some(at) => lost(at, &parsed),
            None => error.to_string(),
        };
        let factor =
            on_runtime(py, || (), |rt| dense::Cholesky::factor_tiled(rt, n, &a, rule, tile).map_err(said))?;
        Ok(Cholesky { tile, factor })
    }

    /// Returns the share of tile products in each precision.
    #[getter]
    fn shares(&self) -> Vec<(&'static str, f64)> {
        self.factor.shares().iter().map(|(precision, share)| (precision.name(), *share)).collect()
    }

    /// Solves with the accuracy of the factor.
    fn solve<'py>(
        &self,
        py: Python<'py>,
        b: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (count, b) = (b.as_array().dim().1, columns(&b));
        let x = on_runtime(py, || (), |_| self.factor.solve(&b))?;
        self.array(py, count, x)
    }

    /// Solves with refinement in float64. Returns `x`, the largest relative residual of a column,
    /// and the number of steps.
    fn refine<'py>(
        &self,
        py: Python<'py>,
        b: PyReadonlyArray2<'py, f64>,
        tolerance: f64,
    ) -> PyResult<(Bound<'py, PyArray2<f64>>, f64, usize)> {
        let (count, b) = (b.as_array().dim().1, columns(&b));
        let (x, found) = on_runtime(py, || (), |_| self.factor.refine(&b, tolerance))?;
        Ok((self.array(py, count, x)?, found.residual, found.before.len()))
    }

    /// Judges the digits of the factor, and of a solution if there are right-hand sides. Returns
    /// JSON.
    fn trust(
        &self,
        py: Python<'_>,
        b: Option<PyReadonlyArray2<'_, f64>>,
        samples: usize,
        seed: u64,
    ) -> PyResult<String> {
        let (b, options) = (b.as_ref().map(columns), options(samples, seed)?);
        judged(py, |rt| self.factor.trust(rt, b.as_deref(), &options))
    }
}

impl Cholesky {
    /// Returns an array whose columns are the solutions, from concatenated columns.
    fn array<'py>(&self, py: Python<'py>, count: usize, x: Vec<f64>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let n = self.factor.n();
        let by_rows = (0..n * count).map(|at| x[at / count + at % count * n]).collect();
        PyArray1::from_vec(py, by_rows).reshape([n, count])
    }
}
