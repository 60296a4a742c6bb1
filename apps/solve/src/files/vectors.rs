//! Output of vectors: Matrix Market, or arrays.

use std::io::{self, Write};
use std::path::Path;

use num_complex::Complex;
use zellige_files::array;
use zellige_sparse::Error;

/// Writes vectors of equal length, as columns, in the format of the ending of `name`. The formats
/// are npy (`float64`; one dimension for one vector), and a Matrix Market array with every digit.
/// With `complex`, vectors have real and imaginary parts in turn, and are written as complex ones
/// (`complex128`). `name` also appears in errors.
///
/// # Errors
/// [`Error::File`].
///
/// # Panics
/// The lengths differ.
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

    use zellige_sparse::files::{Vectors, read_vectors};

    use super::*;

    #[test]
    fn vectors_come_back_to_the_bit() -> Result<(), Error> {
        let folder = tempfile::tempdir().expect("a folder");
        let vectors = [vec![1.0 / 3.0, -0.0, 5e-324, f64::MAX], vec![1.0, 2.0, 3.0, 0.1]];
        let bits = |read: Vectors| -> Vec<Vec<u64>> {
            read.columns.iter().map(|x| x.iter().map(|x| x.to_bits()).collect()).collect()
        };
        for (name, count) in [("v.npy", 1), ("v.npy", 2), ("v.mtx", 1), ("v.mtx", 2)] {
            let path = folder.path().join(name);
            for complex in [false, true] {
                let written = Vectors { columns: vectors[..count].to_vec(), complex };
                write_vectors_to(
                    &mut File::create(&path).expect("a file"),
                    &path,
                    &written.columns,
                    complex,
                )?;
                let read = read_vectors(&path, None)?;
                assert_eq!(read.complex, complex, "{name}");
                assert_eq!(read, written, "{name}");
                // The sign of a zero is preserved for real numbers.
                assert!(complex || bits(read) == bits(written), "{name}");
            }
        }
        let real = Vectors { columns: vec![vec![1.0, 2.0]], complex: false };
        assert_eq!(real.into_complex(), [[1.0, 0.0, 2.0, 0.0]]);
        // NumPy's default is row-major order.
        let path = folder.path().join("r.npy");
        array::write(&path, &[2, 3], [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("a file");
        assert_eq!(read_vectors(&path, None)?.columns, [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]);
        array::write(&path, &[3], [1i64, -2, 3]).expect("a file");
        assert_eq!(read_vectors(&path, Some(3))?.columns, [[1.0, -2.0, 3.0]]);
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
        write_vectors_to(&mut whole, &path, &[vec![1.0; 100]], false).expect("memory");
        assert!(problem(&whole[..200]).contains("cut off"));
        assert!(problem(&whole[..whole.len() - 8]).contains("v.npy"));
        assert!(problem(&whole[..20]).contains("v.npy"));
        // A parser with recursion on brackets would take time that doubles with each of them.
        let nested = [b"\x93NUMPY\x01\x00\x40\x00", &[b'['; 64][..]].concat();
        assert!(problem(&nested).contains("no npy file"));
    }
}
