//! Products of reconstructors with slopes in real time.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use zellige_tor::rtc::{Packed, Rtc as Product, Swapper};
use zellige_tor::{Error, Matrix};

use crate::error;

/// A reconstructor: its file, or its entries.
#[derive(FromPyObject)]
pub enum Source<'py> {
    Entries(PyReadonlyArray2<'py, f64>),
    File(PathBuf),
}

impl Source<'_> {
    fn pack(&self) -> PyResult<Packed> {
        match self {
            Source::File(file) => Packed::read(file).map_err(error),
            Source::Entries(array) => {
                let array = array.as_array();
                let (rows, columns) = array.dim();
                let matrix = Matrix::from_fn(rows, columns, |i, j| array[[i, j]]);
                Packed::of_matrix(&matrix).map_err(refused)
            }
        }
    }
}

/// Converts an error about arrays of the caller.
fn refused(problem: Error) -> PyErr {
    PyValueError::new_err(problem.to_string())
}

/// A product of a reconstructor with the slopes of one frame after the other.
#[pyclass(frozen)]
pub struct Rtc {
    product: Mutex<Product>,
    /// Number of the last reconstructor.
    swaps: Mutex<(Swapper, u64)>,
    shape: (usize, usize),
}

#[pymethods]
impl Rtc {
    #[new]
    fn new(source: Source<'_>, workers: usize) -> PyResult<Self> {
        let product = Product::new(source.pack()?, workers, false).map_err(error)?;
        let (swapper, shape) = (product.swapper(), product.matrix().shape());
        Ok(Rtc { product: Mutex::new(product), swaps: Mutex::new((swapper, 0)), shape })
    }

    #[getter]
    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn step<'py>(
        &self,
        py: Python<'py>,
        slopes: PyReadonlyArray1<'_, f32>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let slopes = slopes.as_slice()?;
        let commands = py.detach(|| {
            let mut product = self.product.lock().unwrap_or_else(PoisonError::into_inner);
            product.step(slopes).map(<[f32]>::to_vec)
        });
        Ok(PyArray1::from_vec(py, commands.map_err(refused)?))
    }

    fn swap(&self, py: Python<'_>, source: Source<'_>) -> PyResult<()> {
        let matrix = source.pack()?;
        py.detach(|| {
            let checksum = matrix.checksum();
            let mut swaps = self.swaps.lock().unwrap_or_else(PoisonError::into_inner);
            swaps.1 += 1;
            swaps.0.offer(matrix, swaps.1, checksum).map_err(refused)
        })
    }
}
