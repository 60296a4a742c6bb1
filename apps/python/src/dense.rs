//! Dense symmetric positive definite systems.

use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2};
use pyo3::prelude::*;
use zellige_dense as dense;

use crate::{error, on_runtime};

/// A matrix and its factor.
#[pyclass(frozen)]
pub struct Cholesky(dense::Cholesky<'static>);

/// The columns of an array, one after the other.
fn columns(array: &PyReadonlyArray2<'_, f64>) -> Vec<f64> {
    let array = array.as_array();
    array.columns().into_iter().flat_map(|column| column.to_vec()).collect()
}

#[pymethods]
impl Cholesky {
    #[new]
    fn new(py: Python<'_>, a: PyReadonlyArray2<'_, f64>, rule: &str) -> PyResult<Self> {
        let (rows, width) = a.as_array().dim();
        if rows != width {
            return Err(error(format!("a matrix of {rows} x {width} is not square")));
        }
        let a = columns(&a);
        on_runtime(py, || (), |rt| dense::Cholesky::factor(rt, rows, &a, rule)).map(Cholesky)
    }

    /// The share of tile products in each precision.
    #[getter]
    fn shares(&self) -> Vec<(&'static str, f64)> {
        self.0.shares().iter().map(|(precision, share)| (precision.name(), *share)).collect()
    }

    /// As accurate as the factor.
    fn solve<'py>(
        &self,
        py: Python<'py>,
        b: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (count, b) = (b.as_array().dim().1, columns(&b));
        let x = on_runtime(py, || (), |_| self.0.solve(&b))?;
        self.array(py, count, x)
    }

    /// Refined in float64: `x`, its relative residual, and the steps.
    fn refine<'py>(
        &self,
        py: Python<'py>,
        b: PyReadonlyArray2<'py, f64>,
        tolerance: f64,
    ) -> PyResult<(Bound<'py, PyArray2<f64>>, f64, usize)> {
        let (count, b) = (b.as_array().dim().1, columns(&b));
        let (x, found) = on_runtime(py, || (), |_| self.0.refine(&b, tolerance))?;
        Ok((self.array(py, count, x)?, found.residual, found.before.len()))
    }
}

impl Cholesky {
    fn array<'py>(&self, py: Python<'py>, count: usize, x: Vec<f64>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        PyArray1::from_vec(py, x).reshape([count, self.0.n()])?.transpose()
    }
}
