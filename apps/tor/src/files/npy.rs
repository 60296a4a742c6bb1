//! Matrices in array files: `float32` or `float64`, in C or Fortran order.

use crate::{Error, Matrix};
use std::path::Path;
use zellige_files::array::{self, Array};

/// Number of rows transposed at a time: one or two cache lines of every column.
const TURN: usize = 16;

/// Writes a matrix as a C-ordered `float64` array of shape `(rows, cols)`.
///
/// # Errors
/// The file cannot be written. No partial file remains.
pub fn write_f64(path: &Path, matrix: &Matrix) -> Result<(), Error> {
    let (rows, cols) = (matrix.rows(), matrix.cols());
    let turned = |first: usize| {
        let count = TURN.min(rows - first);
        let mut block = vec![0.0; count * cols];
        for (j, column) in matrix.data().chunks_exact(rows).enumerate() {
            for (i, value) in column[first..first + count].iter().enumerate() {
                block[i * cols + j] = *value;
            }
        }
        block
    };
    let written = array::write(path, &[rows, cols], (0..rows).step_by(TURN).flat_map(turned));
    written.map_err(|error| Error::system(path, error.problem, error.source))
}

/// Reads a two-dimensional array of `float32` or `float64`, or one of AOT's, (rows, 2, half the
/// columns): npy, `FILE.npz/NAME` or `FILE.h5/NAME`.
///
/// # Errors
/// The file cannot be read, is no array, is shorter or longer than its header says, or holds
/// another type.
pub fn read(path: &Path) -> Result<Matrix, Error> {
    let array = Array::open(path)?;
    // Control matrices of AOT have the axes commands, x and y, sub-apertures.
    if let [rows, 2, cells] = *array.sides() {
        let array = array.of(&["f4", "f8"], 3)?;
        return Ok(Matrix::from_vec(2 * cells, rows, array.reals()?)?.transposed());
    }
    of(array, &["f4", "f8"])
}

/// Reads a mask like [`read`], also of flags and integers.
///
/// # Errors
/// See [`read`].
pub fn read_mask(path: &Path) -> Result<Matrix, Error> {
    let array = Array::open(path)?;
    if array.kind() == "b1" {
        let array = array.of(&["b1"], 2)?;
        let (rows, cols) = (array.sides()[0], array.sides()[1]);
        let flags = array.values::<bool>()?.into_iter().map(|flag| f64::from(u8::from(flag))).collect();
        return Ok(Matrix::from_vec(cols, rows, flags)?.transposed());
    }
    of(array, &["f4", "f8", "b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
}

fn of(array: Array, kinds: &[&str]) -> Result<Matrix, Error> {
    let array = array.of(kinds, 2)?;
    let (rows, cols) = (array.sides()[0], array.sides()[1]);
    Ok(Matrix::from_vec(cols, rows, array.reals()?)?.transposed())
}
