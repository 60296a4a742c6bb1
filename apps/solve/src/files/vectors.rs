//! Vectors in files: Matrix Market, or arrays.

use std::io::{self, Write};
use std::path::Path;

use zellige_files::array::{self, Array, is_array};
use zellige_sparse::{Error, market};

/// Reads vectors, the columns of a matrix: of a file that ends in `.npy`, of `FILE.npz/NAME` and of `FILE.h5/NAME`, an array of `float32` or `float64` with
/// one dimension or two; of any other, a Matrix Market file, compressed or not, which has to have `rows` rows where that is known: a sparse vector
/// takes memory for all of its rows, which its file does not answer for.
///
/// # Errors
/// [`Error::File`] for a file that cannot be read, [`Error::Content`] for content that is no vectors.
pub fn read_vectors(path: &Path, rows: Option<usize>) -> Result<Vec<Vec<f64>>, Error> {
    if is_array(path) { read_array(path) } else { market::read_vectors(path, rows) }
}

fn read_array(path: &Path) -> Result<Vec<Vec<f64>>, Error> {
    let array = Array::open(path)?;
    let wrong = |problem: String| Err(Error::Content { file: path.to_owned(), line: None, problem });
    let (rows, columns) = match *array.sides() {
        [rows] | [1, rows] => (rows, 1),
        [rows, columns] => (rows, columns),
        _ => return wrong(format!("an array of shape {:?} where columns are needed", array.sides())),
    };
    if rows == 0 || columns == 0 {
        return wrong(format!("an array of shape {:?} is empty", array.sides()));
    }
    let values = array.reals()?;
    Ok((0..columns).map(|j| (0..rows).map(|i| values[i * columns + j]).collect()).collect())
}

/// Writes vectors of one length, as columns, in the format that `name` ends in: npy (`float64`; one dimension for one vector), or a Matrix Market array
/// with every digit. Errors call the place by that name, too.
///
/// # Errors
/// [`Error::File`].
///
/// # Panics
/// If their lengths differ.
pub fn write_vectors_to(to: &mut dyn Write, name: &Path, vectors: &[Vec<f64>]) -> Result<(), Error> {
    let rows = vectors.first().map_or(0, Vec::len);
    assert!(vectors.iter().all(|vector| vector.len() == rows), "vectors of one length");
    let is_npy = name.extension().is_some_and(|end| end.eq_ignore_ascii_case("npy"));
    let written = if is_npy { write_array(to, rows, vectors) } else { write_text(to, rows, vectors) };
    written.map_err(|source| Error::File {
        path: name.to_owned(),
        problem: "cannot write the vectors",
        source,
    })
}

fn write_array(to: &mut dyn Write, rows: usize, vectors: &[Vec<f64>]) -> io::Result<()> {
    let sides = [rows, vectors.len()];
    let sides = if vectors.len() == 1 { &sides[..1] } else { &sides };
    array::put_columns(to, sides, vectors.iter().flatten().copied())
}

fn write_text(to: &mut dyn Write, rows: usize, vectors: &[Vec<f64>]) -> io::Result<()> {
    writeln!(to, "%%MatrixMarket matrix array real general\n{rows} {}", vectors.len())?;
    vectors.iter().flatten().try_for_each(|value| writeln!(to, "{value:e}"))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn vectors_come_back_to_the_bit() -> Result<(), Error> {
        let folder = tempfile::tempdir().expect("a folder");
        let vectors = [vec![1.0 / 3.0, -0.0, 5e-324, f64::MAX, -7.0], vec![1.0, 2.0, 3.0, 4.0, 0.1]];
        for (name, count) in [("v.npy", 1), ("v.npy", 2), ("v.mtx", 1), ("v.mtx", 2)] {
            let path = folder.path().join(name);
            write_vectors_to(&mut File::create(&path).expect("a file"), &path, &vectors[..count])?;
            assert_eq!(read_vectors(&path, None)?, &vectors[..count], "{name}");
        }
        // As NumPy writes unless it is told otherwise: row after row.
        let path = folder.path().join("r.npy");
        array::write(&path, &[2, 3], [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("a file");
        assert_eq!(read_vectors(&path, None)?, [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]);
        Ok(())
    }

    #[test]
    fn what_is_no_vector_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("v.npy");
        let problem = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("a file");
            read_vectors(&path, None).expect_err("no vectors").to_string()
        };
        let mut whole = Vec::new();
        write_vectors_to(&mut whole, &path, &[vec![1.0; 100]]).expect("memory");
        assert!(problem(&whole[..200]).contains("cut off"));
        assert!(problem(&whole[..whole.len() - 8]).contains("v.npy"));
        assert!(problem(&whole[..20]).contains("v.npy"));
        array::write(&path, &[2], [1i32, 2]).expect("a file");
        assert!(problem(&std::fs::read(&path).expect("there")).contains("float64"));
        // Who reads brackets within brackets takes time that doubles with each.
        let nested = [b"\x93NUMPY\x01\x00\x40\x00", &[b'['; 64][..]].concat();
        assert!(problem(&nested).contains("no npy file"));
    }
}
