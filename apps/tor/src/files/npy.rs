//! Matrices in array files: `float32` or `float64`, whatever their order.

use crate::{Error, Matrix};
use std::path::Path;
use zellige_files::array::{self, Array, Number};

/// Writes a matrix as a C-ordered `float64` array of shape `(rows, cols)`.
///
/// # Errors
/// The file cannot be written; nothing is left behind.
pub fn write_f64(path: &Path, matrix: &Matrix) -> Result<(), Error> {
    write(path, matrix, |x| x)
}

/// Writes a matrix as a C-ordered `float32` array of shape `(rows, cols)`.
///
/// # Errors
/// The file cannot be written; nothing is left behind.
pub fn write_f32(path: &Path, matrix: &Matrix) -> Result<(), Error> {
    write(path, matrix, |x| x as f32)
}

/// Rows turned at a time: a cache line or two of every column.
const TURN: usize = 16;

fn write<T: Number>(path: &Path, matrix: &Matrix, convert: impl Fn(f64) -> T) -> Result<(), Error> {
    let (rows, cols) = (matrix.rows(), matrix.cols());
    let turned = |first: usize| {
        let count = TURN.min(rows - first);
        let mut block = vec![convert(0.0); count * cols];
        for (j, column) in matrix.data().chunks_exact(rows).enumerate() {
            for (i, value) in column[first..first + count].iter().enumerate() {
                block[i * cols + j] = convert(*value);
            }
        }
        block
    };
    let written = array::write(path, &[rows, cols], (0..rows).step_by(TURN).flat_map(turned));
    written.map_err(|error| Error::io(path, error.problem, error.source))
}

/// Reads a two-dimensional array of `float32` or `float64`: npy, `FILE.npz/NAME` or `FILE.h5/NAME`.
///
/// # Errors
/// The file cannot be read, is no array, is shorter or longer than its header says, or holds something else.
pub fn read(path: &Path) -> Result<Matrix, Error> {
    let array = Array::open(path)?.of(&["f4", "f8"], 2)?;
    let (rows, cols) = (array.sides()[0], array.sides()[1]);
    Ok(Matrix::from_vec(cols, rows, array.reals()?)?.transposed())
}
