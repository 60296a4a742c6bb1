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

fn write<T: Number>(path: &Path, matrix: &Matrix, convert: impl Fn(f64) -> T) -> Result<(), Error> {
    let sides = [matrix.rows(), matrix.cols()];
    let at = |at: usize| convert(matrix[(at / sides[1].max(1), at % sides[1].max(1))]);
    let written = array::write(path, &sides, (0..sides[0] * sides[1]).map(at));
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
