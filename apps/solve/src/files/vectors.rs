//! Vectors in files: Matrix Market, or NumPy's npy.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;

use npyz::{DType, Order, TypeChar, WriterBuilder};

use zellige_sparse::{Error, market};

fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"))
}

/// Reads vectors, the columns of a matrix: of a file that ends in `.npy`, an array of `float32` or `float64` with one dimension or two; of any other, a
/// Matrix Market file, compressed or not, which has to have `rows` rows where that is known: a sparse vector takes memory for all of its
/// rows, which its file does not answer for.
///
/// # Errors
/// [`Error::File`] for a file that cannot be read or is cut off, [`Error::Market`] for content that is no vectors.
pub fn read_vectors(path: &Path, rows: Option<usize>) -> Result<Vec<Vec<f64>>, Error> {
    if is_npy(path) { read_npy(path) } else { market::read_vectors(path, rows) }
}

fn read_npy(path: &Path) -> Result<Vec<Vec<f64>>, Error> {
    let cannot = |source| Error::File { path: path.to_owned(), problem: "cannot read the vectors", source };
    let wrong = |problem: String| Error::Market { file: path.to_owned(), line: None, problem };
    let file = File::open(path).map_err(cannot)?;
    let size = file.metadata().map_err(cannot)?.len();
    let npy = zellige_files::npy::open(BufReader::with_capacity(1 << 18, file), size).map_err(cannot)?;
    let [rows, columns] = match *npy.shape() {
        [rows] | [1, rows] => [rows, 1],
        [rows, columns] => [rows, columns],
        _ => return Err(wrong(format!("an array of shape {:?} where columns are needed", npy.shape()))),
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
    let bytes = rows.checked_mul(columns).and_then(|elements| elements.checked_mul(width));
    if rows == 0 || columns == 0 || bytes.is_none_or(|bytes| bytes > size) {
        let problem = format!(
            "{rows} x {columns} elements of {width} bytes in a file of {size}: it is empty, or cut off"
        );
        return Err(wrong(problem));
    }
    let (rows, columns, is_by_columns) = (rows as usize, columns as usize, npy.order() == Order::Fortran);
    let values = match width {
        4 => npy.into_vec::<f32>().map_err(cannot)?.into_iter().map(f64::from).collect(),
        _ => npy.into_vec::<f64>().map_err(cannot)?,
    };
    let at = |i: usize, j: usize| values[if is_by_columns { j * rows + i } else { i * columns + j }];
    Ok((0..columns).map(|j| (0..rows).map(|i| at(i, j)).collect()).collect())
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
    let written = if is_npy(name) { write_npy(to, rows, vectors) } else { write_text(to, rows, vectors) };
    written.map_err(|source| Error::File {
        path: name.to_owned(),
        problem: "cannot write the vectors",
        source,
    })
}

fn write_npy(to: &mut dyn Write, rows: usize, vectors: &[Vec<f64>]) -> std::io::Result<()> {
    let shape = [rows as u64, vectors.len() as u64];
    let shape = if vectors.len() == 1 { &shape[..1] } else { &shape };
    let options = npyz::WriteOptions::new().default_dtype().order(Order::Fortran).shape(shape);
    let mut npy = options.writer(to).begin_nd()?;
    npy.extend(vectors.iter().flatten())?;
    npy.finish()
}

fn write_text(to: &mut dyn Write, rows: usize, vectors: &[Vec<f64>]) -> std::io::Result<()> {
    writeln!(to, "%%MatrixMarket matrix array real general\n{rows} {}", vectors.len())?;
    vectors.iter().flatten().try_for_each(|value| writeln!(to, "{value:e}"))
}

#[cfg(test)]
mod tests {
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
        let (path, mut rows) = (folder.path().join("r.npy"), Vec::new());
        let options = npyz::WriteOptions::new().default_dtype().shape(&[2, 3]).writer(&mut rows);
        let mut npy = options.begin_nd().expect("memory");
        npy.extend([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("memory");
        npy.finish().expect("memory");
        std::fs::write(&path, rows).expect("a file");
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
        let mut ints = Vec::new();
        let options = npyz::WriteOptions::new().default_dtype().shape(&[2]).writer(&mut ints);
        let mut npy = options.begin_nd().expect("memory");
        npy.extend([1i32, 2]).expect("memory");
        npy.finish().expect("memory");
        assert!(problem(&ints).contains("float64"));
        // Who reads brackets within brackets takes time that doubles with each.
        let nested = [b"\x93NUMPY\x01\x00\x40\x00", &[b'['; 64][..]].concat();
        assert!(problem(&nested).contains("no npy file"));
    }
}
