//! Vectors in files: Matrix Market, or NumPy's npy.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;

use npyz::{DType, NpyFile, TypeChar, WriterBuilder};

use crate::error::Error;
use crate::market;

fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"))
}

/// Reads a vector: of a file that ends in `.npy`, an array of `float32` or `float64` with one dimension (or a second one of 1); of any other, a
/// Matrix Market file with one column, compressed or not.
///
/// # Errors
/// [`Error::File`] for a file that cannot be read or is cut off, [`Error::Market`] for content that is no vector.
pub fn read_vector(path: &Path) -> Result<Vec<f64>, Error> {
    if is_npy(path) { read_npy(path) } else { market::read_vector(path) }
}

fn read_npy(path: &Path) -> Result<Vec<f64>, Error> {
    let cannot = |e| Error::file(path, "cannot read the vector", e);
    let wrong = |problem: String| Error::Market { file: path.to_owned(), line: None, problem };
    let file = File::open(path).map_err(cannot)?;
    let size = file.metadata().map_err(cannot)?.len();
    let npy = NpyFile::new(BufReader::with_capacity(1 << 18, file)).map_err(cannot)?;
    let length = match *npy.shape() {
        [length] | [length, 1] | [1, length] => length,
        _ => return Err(wrong(format!("an array of shape {:?} where a vector is needed", npy.shape()))),
    };
    let width = match npy.dtype() {
        DType::Plain(t) if t.type_char() == TypeChar::Float && matches!(t.size_field(), 4 | 8) => {
            t.size_field()
        }
        other => {
            let problem = format!("elements of type {}; convert them to float32 or float64", other.descr());
            return Err(wrong(problem));
        }
    };
    // The header is not to be trusted with an allocation: the file must be long enough first.
    if length.checked_mul(width).is_none_or(|bytes| bytes > size) {
        let problem =
            format!("{length} elements of {width} bytes do not fit a file of {size}: it is cut off");
        return Err(wrong(problem));
    }
    let values = match width {
        4 => npy.into_vec::<f32>().map_err(cannot)?.into_iter().map(f64::from).collect(),
        _ => npy.into_vec::<f64>().map_err(cannot)?,
    };
    Ok(values)
}

/// Writes a vector in the format that `name` ends in: npy (`float64`), or a Matrix Market array with every digit. Errors call the place by that
/// name, too.
///
/// # Errors
/// [`Error::File`].
pub fn write_vector_to(to: &mut dyn Write, name: &Path, vector: &[f64]) -> Result<(), Error> {
    let written = if is_npy(name) { write_npy(to, vector) } else { write_text(to, vector) };
    written.map_err(|e| Error::file(name, "cannot write the vector", e))
}

fn write_npy(to: &mut dyn Write, vector: &[f64]) -> std::io::Result<()> {
    let mut npy =
        npyz::WriteOptions::new().default_dtype().shape(&[vector.len() as u64]).writer(to).begin_nd()?;
    npy.extend(vector)?;
    npy.finish()
}

fn write_text(to: &mut dyn Write, vector: &[f64]) -> std::io::Result<()> {
    writeln!(to, "%%MatrixMarket matrix array real general\n{} 1", vector.len())?;
    vector.iter().try_for_each(|value| writeln!(to, "{value:e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_come_back_to_the_bit() -> Result<(), Error> {
        let folder = tempfile::tempdir().expect("a folder");
        let vector = [1.0 / 3.0, -0.0, 5e-324, f64::MAX, -7.0];
        for name in ["v.npy", "v.mtx"] {
            let path = folder.path().join(name);
            write_vector_to(&mut File::create(&path).expect("a file"), &path, &vector)?;
            let back = read_vector(&path)?;
            assert!(back.iter().zip(&vector).all(|(back, value)| back == value), "{name}: {back:?}");
            assert_eq!(back.len(), vector.len());
        }
        Ok(())
    }

    #[test]
    fn what_is_no_vector_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("v.npy");
        let problem = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("a file");
            read_vector(&path).expect_err("no vector").to_string()
        };
        let mut whole = Vec::new();
        write_vector_to(&mut whole, &path, &[1.0; 100]).expect("memory");
        assert!(problem(&whole[..200]).contains("cut off"));
        assert!(problem(&whole[..whole.len() - 8]).contains("v.npy"));
        assert!(problem(&whole[..20]).contains("v.npy"));
        let mut ints = Vec::new();
        let options = npyz::WriteOptions::new().default_dtype().shape(&[2]).writer(&mut ints);
        let mut npy = options.begin_nd().expect("memory");
        npy.extend([1i32, 2]).expect("memory");
        npy.finish().expect("memory");
        assert!(problem(&ints).contains("float64"));
    }
}
