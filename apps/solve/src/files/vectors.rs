//! Vectors in files: Matrix Market, or arrays.

use std::io::{self, Write};
use std::path::Path;

use num_complex::Complex;
use zellige_files::array::{self, Array, is_array};
use zellige_sparse::{Error, market};

/// Reads vectors, the columns of a matrix: of a file that ends in `.npy`, of `FILE.npz/NAME` and of `FILE.h5/NAME`, an array of numbers with
/// one dimension or two; of any other, a Matrix Market file, compressed or not. They have to have `rows` rows where that is known: a sparse vector
/// takes memory for all of its rows, which its file does not answer for. Where `complex` says so, numbers may be complex (`complex64`, `complex128`), and vectors
/// have the real and the imaginary part of each in turn.
///
/// # Errors
/// [`Error::File`] for a file that cannot be read, [`Error::Content`] for content that is no vectors.
pub fn read_vectors(path: &Path, rows: Option<usize>, complex: bool) -> Result<Vec<Vec<f64>>, Error> {
    match complex {
        _ if is_array(path) => read_array(path, rows, complex),
        true => market::read_vectors_as_real(path, rows),
        false => market::read_vectors(path, rows),
    }
    .map_err(|error| match error {
        // Text of NumPy, say.
        Error::Content { file, line: Some(1), problem } => {
            let problem = format!(
                "{problem}; vectors are arrays (.npy, as numpy.save writes them) or Matrix Market files"
            );
            Error::Content { file, line: Some(1), problem }
        }
        other => other,
    })
}

fn read_array(path: &Path, wanted: Option<usize>, complex: bool) -> Result<Vec<Vec<f64>>, Error> {
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
    if let Some(wanted) = wanted.filter(|&wanted| wanted != rows) {
        return wrong(format!("columns of {rows} numbers where the matrix needs {wanted}"));
    }
    let values = match array.kind() {
        "c8" if complex => {
            array.values::<Complex<f32>>()?.iter().flat_map(|z| [z.re.into(), z.im.into()]).collect()
        }
        "c16" if complex => array.values::<Complex<f64>>()?.iter().flat_map(|z| [z.re, z.im]).collect(),
        _ if complex => array.reals()?.into_iter().flat_map(|re| [re, 0.0]).collect(),
        _ => array.reals()?,
    };
    let each = if complex { 2 } else { 1 };
    let number = |i: usize, j: usize| &values[each * (i * columns + j)..][..each];
    Ok((0..columns).map(|j| (0..rows).flat_map(|i| number(i, j).iter().copied()).collect()).collect())
}

/// Writes vectors of one length, as columns, in the format that `name` ends in: npy (`float64`; one dimension for one vector), or a Matrix Market array
/// with every digit; complex ones (`complex128`) where `complex` says that vectors have real and imaginary parts in turn. Errors call the place by that name, too.
///
/// # Errors
/// [`Error::File`].
///
/// # Panics
/// If their lengths differ.
pub fn write_vectors_to(
    to: &mut dyn Write,
    name: &Path,
    vectors: &[Vec<f64>],
    complex: bool,
) -> Result<(), Error> {
    let length = vectors.first().map_or(0, Vec::len);
    assert!(vectors.iter().all(|vector| vector.len() == length), "vectors of one length");
    let is_npy = name.extension().is_some_and(|end| end.eq_ignore_ascii_case("npy"));
    let written = if is_npy {
        write_array(to, length, vectors, complex)
    } else {
        write_text(to, length, vectors, complex)
    };
    written.map_err(|source| Error::File {
        path: name.to_owned(),
        problem: "cannot write the vectors",
        source,
    })
}

fn write_array(to: &mut dyn Write, length: usize, vectors: &[Vec<f64>], complex: bool) -> io::Result<()> {
    let sides = [if complex { length / 2 } else { length }, vectors.len()];
    let sides = if vectors.len() == 1 { &sides[..1] } else { &sides };
    match complex {
        true => {
            let numbers = vectors.iter().flat_map(|vector| vector.chunks_exact(2));
            array::put_columns(to, sides, numbers.map(|z| Complex::new(z[0], z[1])))
        }
        false => array::put_columns(to, sides, vectors.iter().flatten().copied()),
    }
}

fn write_text(to: &mut dyn Write, length: usize, vectors: &[Vec<f64>], complex: bool) -> io::Result<()> {
    let (field, each) = if complex { ("complex", 2) } else { ("real", 1) };
    writeln!(to, "%%MatrixMarket matrix array {field} general\n{} {}", length / each, vectors.len())?;
    for number in vectors.iter().flat_map(|vector| vector.chunks_exact(each)) {
        let parts: Vec<String> = number.iter().map(|part| format!("{part:e}")).collect();
        writeln!(to, "{}", parts.join(" "))?;
    }
    Ok(())
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
            write_vectors_to(&mut File::create(&path).expect("a file"), &path, &vectors[..count], false)?;
            assert_eq!(read_vectors(&path, None, false)?, &vectors[..count], "{name}");
            // Real numbers are complex ones, too.
            let with_zeros = |vector: &Vec<f64>| vector.iter().flat_map(|&re| [re, 0.0]).collect();
            let complex: Vec<Vec<f64>> = vectors[..count].iter().map(with_zeros).collect();
            assert_eq!(read_vectors(&path, None, true)?, complex, "{name}");
            let pairs: Vec<Vec<f64>> = vectors[..count].iter().map(|vector| vector[..4].to_vec()).collect();
            write_vectors_to(&mut File::create(&path).expect("a file"), &path, &pairs, true)?;
            assert_eq!(read_vectors(&path, None, true)?, pairs, "{name}");
            assert!(read_vectors(&path, None, false).expect_err("complex").to_string().contains("complex"));
        }
        // As NumPy writes unless it is told otherwise: row after row.
        let path = folder.path().join("r.npy");
        array::write(&path, &[2, 3], [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("a file");
        assert_eq!(read_vectors(&path, None, false)?, [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]);
        array::write(&path, &[3], [1i64, -2, 3]).expect("a file");
        assert_eq!(read_vectors(&path, Some(3), false)?, [[1.0, -2.0, 3.0]]);
        Ok(())
    }

    #[test]
    fn what_is_no_vector_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("v.npy");
        let problem = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("a file");
            read_vectors(&path, None, false).expect_err("no vectors").to_string()
        };
        let mut whole = Vec::new();
        write_vectors_to(&mut whole, &path, &[vec![1.0; 100]], false).expect("memory");
        assert!(problem(&whole[..200]).contains("cut off"));
        assert!(problem(&whole[..whole.len() - 8]).contains("v.npy"));
        assert!(problem(&whole[..20]).contains("v.npy"));
        array::write(&path, &[2], [true, false]).expect("a file");
        assert!(problem(&std::fs::read(&path).expect("there")).contains("float64"));
        // Who reads brackets within brackets takes time that doubles with each.
        let nested = [b"\x93NUMPY\x01\x00\x40\x00", &[b'['; 64][..]].concat();
        assert!(problem(&nested).contains("no npy file"));
    }
}
