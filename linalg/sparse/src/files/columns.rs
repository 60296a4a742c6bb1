//! Vectors: the columns of a matrix, of an array or of text.

use std::path::Path;

use zellige_files::array::{Array, Numbers, npz, text};

use super::{FileFormat, Matrix, Source, boeing, is_member, number, petsc, scipy, wrong};
use crate::files::market::{self, Field};
use zellige_krylov::Error;

/// Columns that files of vectors may have.
const MOST_VECTORS: usize = 1 << 16;

/// A file's vectors.
#[derive(Debug, Clone, PartialEq)]
pub struct Vectors {
    /// Each of them; of complex ones real and imaginary parts in turn.
    pub columns: Vec<Vec<f64>>,
    /// True if they are complex.
    pub complex: bool,
}

impl Vectors {
    /// Returns the columns, each with alternating real and imaginary parts.
    pub fn into_complex(self) -> Vec<Vec<f64>> {
        match self.complex {
            true => self.columns,
            false => self.columns.iter().map(|x| x.iter().flat_map(|&re| [re, 0.0]).collect()).collect(),
        }
    }
}

/// Reads vectors, which have to have `rows` rows if that is known: a sparse vector takes memory for
/// all of its rows, which the size of its file does not justify.
///
/// # Errors
/// Those of [`read`](super::read), and for too many columns, or another number of rows.
pub fn read_vectors(path: &Path, rows: Option<usize>) -> Result<Vectors, Error> {
    let vectors = read(path, rows)?;
    let each = if vectors.complex { 2 } else { 1 };
    let length = vectors.columns.first().map_or(0, |column| column.len() / each);
    if length == 0 {
        return Err(wrong(path, "no vector, or one without numbers"));
    }
    for (c, column) in vectors.columns.iter().enumerate() {
        if let Some(at) = column.iter().position(|value| !value.is_finite()) {
            let (row, value) = (at / each + 1, column[at]);
            return Err(wrong(path, format!("the entry in row {row} of column {} is {value}", c + 1)));
        }
    }
    match rows.filter(|&rows| rows != length) {
        None => Ok(vectors),
        Some(wanted) => {
            Err(wrong(path, format!("columns of {length} numbers where the matrix needs {wanted}")))
        }
    }
}

fn read(path: &Path, rows: Option<usize>) -> Result<Vectors, Error> {
    if is_member(path) {
        return of_array(path);
    }
    let source = Source::open(path)?;
    match source.kind() {
        FileFormat::Archive if npz::names(path)?.iter().any(|name| name == "format") => {
            columns_of(path, scipy::read(path)?)
        }
        FileFormat::Archive | FileFormat::Array => of_array(path),
        FileFormat::Petsc => {
            let petsc = petsc::read(source, path)?;
            match petsc.vectors.is_empty() {
                true => columns_of(path, petsc.matrix(path)?),
                false => petsc.into_vectors(path),
            }
        }
        FileFormat::Boeing => match boeing::read(source, path)? {
            (_, Some(vectors)) => Ok(vectors),
            (matrix, None) => columns_of(path, matrix),
        },
        FileFormat::Market => {
            let read = market::read_source(source, path, rows)?;
            columns_of(path, Matrix { csr: read.matrix, complex: read.field == Field::Complex })
        }
        FileFormat::Other => {
            let (sides, numbers) = text::table(&mut source.reader(), path).map_err(|error| {
                let hint = "vectors are numbers in columns, arrays (.npy, as numpy.save writes them) or Matrix Market files";
                hinted(error.into(), hint)
            })?;
            let vectors = of_numbers(path, &sides, &numbers)?;
            match rows.filter(|&rows| sides[0] == rows + 1 && sides != [1, rows]) {
                None => Ok(vectors),
                Some(wanted) => {
                    let problem = format!("columns of {} numbers where the matrix needs {wanted}", sides[0]);
                    Err(hinted(wrong(path, problem), "if the first line is a heading, remove it"))
                }
            }
        }
    }
}

/// Returns the error with a hint appended to it.
fn hinted(error: Error, hint: &str) -> Error {
    match error {
        Error::Content { file, line, problem } => {
            Error::Content { file, line, problem: format!("{problem}; {hint}") }
        }
        error => error,
    }
}

fn of_array(path: &Path) -> Result<Vectors, Error> {
    let array = Array::open(path)?;
    let sides = array.sides().to_vec();
    if !matches!(sides.len(), 1 | 2) {
        return Err(wrong(path, format!("an array of shape {sides:?} where columns are needed")));
    }
    if sides.contains(&0) {
        return Err(wrong(path, format!("an array of shape {sides:?} is empty")));
    }
    of_numbers(path, &sides, &array.numbers()?)
}

/// Returns the columns of a row-major array; a single row is a column.
fn of_numbers(path: &Path, sides: &[usize], numbers: &Numbers) -> Result<Vectors, Error> {
    let (rows, columns) = match *sides {
        [1, rows] | [rows] => (rows, 1),
        [rows, columns] => (rows, columns),
        _ => return Err(wrong(path, format!("an array of shape {sides:?} where columns are needed"))),
    };
    check_count(path, columns)?;
    let complex = numbers.im.is_some();
    let column = |j: usize| {
        let parts = (0..rows).map(|i| number(numbers, i * columns + j));
        parts.flat_map(|(re, im)| [re, im].into_iter().take(if complex { 2 } else { 1 })).collect()
    };
    Ok(Vectors { columns: (0..columns).map(column).collect(), complex })
}

fn check_count(path: &Path, columns: usize) -> Result<(), Error> {
    match columns <= MOST_VECTORS {
        true => Ok(()),
        // A file without nonzeros may claim any size.
        false => {
            Err(wrong(path, format!("{columns} columns where a file of vectors has {MOST_VECTORS} at most")))
        }
    }
}

fn columns_of(path: &Path, Matrix { csr, complex }: Matrix) -> Result<Vectors, Error> {
    let each = if complex { 2 } else { 1 };
    let (rows, columns) = (csr.rows(), csr.columns() / each);
    check_count(path, columns)?;
    let what = || format!("{}: {columns} vectors of {rows} numbers", path.display());
    Error::if_too_large(what, (8 * columns as u64).saturating_mul(rows as u64))?;
    let mut vectors = vec![vec![0.0; rows]; columns];
    for (i, (column, value)) in csr.iter().enumerate() {
        // The first column of each block of a complex matrix.
        let of_vectors = column.iter().zip(value).filter(|&(&j, _)| (j as usize).is_multiple_of(each));
        of_vectors.for_each(|(&j, &value)| vectors[j as usize / each][i] = value);
    }
    Ok(Vectors { columns: vectors, complex })
}
