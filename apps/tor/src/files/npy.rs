//! NumPy files: two-dimensional arrays of `f4` or `f8`, either byte order, C or Fortran order.

use super::write_whole;
use crate::{Error, Matrix};
use npyz::{DType, Order, WriterBuilder};
use std::io::BufReader;
use std::path::Path;

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

fn write<T: npyz::Serialize + npyz::AutoSerialize>(
    path: &Path,
    matrix: &Matrix,
    convert: impl Fn(f64) -> T,
) -> Result<(), Error> {
    write_whole(path, |out| {
        let mut npy = npyz::WriteOptions::new()
            .default_dtype()
            .shape(&[matrix.rows() as u64, matrix.cols() as u64])
            .writer(out)
            .begin_nd()?;
        for i in 0..matrix.rows() {
            for j in 0..matrix.cols() {
                npy.push(&convert(matrix[(i, j)]))?;
            }
        }
        npy.finish()
    })
}

/// Reads a two-dimensional array of `float32` or `float64`.
///
/// # Errors
/// The file cannot be read, is not npy, is shorter than its header says, or holds something else.
pub fn read(path: &Path) -> Result<Matrix, Error> {
    let cannot = |e| Error::io(path, "cannot read the npy file", e);
    let file = std::fs::File::open(path).map_err(cannot)?;
    let size = file.metadata().map_err(cannot)?.len();
    let npy = zellige_files::npy::open(BufReader::with_capacity(1 << 20, file), size).map_err(cannot)?;
    let shape = npy.shape().to_vec();
    let [rows, cols] = shape[..] else {
        return Err(Error::content(
            path,
            format!("an array of shape {shape:?}; a matrix needs two dimensions"),
        ));
    };
    let width = match npy.dtype() {
        DType::Plain(t) if t.type_char() == npyz::TypeChar::Float && matches!(t.size_field(), 4 | 8) => {
            t.size_field()
        }
        other => {
            return Err(Error::content(
                path,
                format!("elements of type {}; convert them to float32 or float64", other.descr()),
            ));
        }
    };
    // The header is not to be trusted with an allocation: the file must be long enough first.
    let bytes = rows.checked_mul(cols).and_then(|n| n.checked_mul(width));
    if bytes.is_none_or(|b| b > size) {
        return Err(Error::content(
            path,
            format!("{rows} x {cols} elements of {width} bytes do not fit a file of {size}: truncated"),
        ));
    }
    let fortran = npy.order() == Order::Fortran;
    let values: Vec<f64> = if width == 4 {
        npy.into_vec::<f32>().map_err(cannot)?.into_iter().map(f64::from).collect()
    } else {
        npy.into_vec::<f64>().map_err(cannot)?
    };
    let (rows, cols) = (rows as usize, cols as usize);
    if fortran {
        Matrix::from_vec(rows, cols, values)
    } else {
        Ok(Matrix::from_vec(cols, rows, values)?.transposed())
    }
}
