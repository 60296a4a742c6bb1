//! PETSc's binary format: consecutive objects with big-endian numbers.
//!
//! A Mat consists of its class, rows, columns, number of nonzeros, length of each row, columns of
//! the nonzeros (from 0) and their values. A dense one in its native form has -1 for the number of
//! nonzeros, and all values in row-major order. A Vec consists of its class, its length and its
//! values. Integers have 32 bits, or 64 if PETSc was configured so. Files do not contain the format
//! of values: the reader takes the first of `float64`, `complex128`, `float32` and `complex64` that
//! fits the length of the file.

use std::io::Read;
use std::path::Path;

use super::{Matrix, Source, Vectors, gathered, too_many_rows, wrong};
use crate::files::market::Symmetry;
use zellige_krylov::Error;

const MAT: i64 = 1_211_216;
const VEC: i64 = 1_211_214;
/// Classes of other objects: index sets, bags, meshes, viewers and so on.
const CLASSES: std::ops::RangeInclusive<i64> = 1_211_211..=1_211_299;

/// Returns true if a file begins with a class of PETSc.
pub(super) fn is(head: &[u8]) -> bool {
    is_wide(head).is_some()
}

/// Returns true if integers have 64 bits; `None` for a file of another format.
fn is_wide(head: &[u8]) -> Option<bool> {
    let narrow =
        head.get(..4).map(|word| i64::from(i32::from_be_bytes([word[0], word[1], word[2], word[3]])))?;
    if CLASSES.contains(&narrow) {
        return Some(false);
    }
    let wide = head.get(..8)?.try_into().map(i64::from_be_bytes).ok()?;
    CLASSES.contains(&wide).then_some(true)
}

/// Storage format of a scalar.
#[derive(Debug, Clone, Copy)]
struct Scalar {
    /// Bytes of a part.
    width: usize,
    parts: usize,
}

impl Scalar {
    const ALL: [Scalar; 4] = [
        Scalar { width: 8, parts: 1 },
        Scalar { width: 8, parts: 2 },
        Scalar { width: 4, parts: 1 },
        Scalar { width: 4, parts: 2 },
    ];

    fn bytes(self) -> usize {
        self.width * self.parts
    }

    fn at(self, bytes: &[u8], index: usize) -> (f64, f64) {
        let part = |part: usize| {
            let bytes = &bytes[index * self.bytes() + part * self.width..][..self.width];
            match *bytes {
                [a, b, c, d] => f64::from(f32::from_be_bytes([a, b, c, d])),
                _ => bytes.try_into().map_or(0.0, f64::from_be_bytes),
            }
        };
        (part(0), if self.parts == 2 { part(1) } else { 0.0 })
    }
}

/// Offsets of the parts of an object (bytes).
#[derive(Debug)]
enum Object {
    Matrix(Mat),
    Vector { length: usize, values: usize },
}

#[derive(Debug)]
enum Mat {
    Sparse { rows: usize, columns: usize, nonzeros: usize, lengths: usize },
    Dense { rows: usize, columns: usize, values: usize },
}

/// The objects of a file.
pub(super) struct Petsc {
    bytes: Vec<u8>,
    is_wide: bool,
    scalar: Scalar,
    matrix: Option<Mat>,
    /// Offset and length of each vector.
    pub(super) vectors: Vec<(usize, usize)>,
}

pub(super) fn read(source: Source<'_>, path: &Path) -> Result<Petsc, Error> {
    let mut bytes = Vec::new();
    let what = || format!("{}: a file of PETSc", path.display());
    let most = if source.is_packed || source.length == u64::MAX {
        source.length.min(zellige_runtime::topology::available_memory().unwrap_or(u64::MAX) / 2)
    } else {
        Error::if_too_large(what, source.length)?;
        source.length
    };
    let read = source.reader().take(most).read_to_end(&mut bytes);
    read.map_err(|e| Error::file(path, "cannot read the matrix", e))?;
    let is_wide = is_wide(&bytes).unwrap_or_default();
    let mut problem = String::new();
    for scalar in Scalar::ALL {
        match objects(&bytes, is_wide, scalar) {
            Ok(objects) => {
                let (mut matrix, mut vectors) = (None, Vec::new());
                for object in objects {
                    match object {
                        Object::Vector { length, values } => vectors.push((values, length)),
                        Object::Matrix(first) if matrix.is_none() => matrix = Some(first),
                        Object::Matrix(_) => {
                            return Err(wrong(
                                path,
                                "several matrices of PETSc in one file: write each to its own",
                            ));
                        }
                    }
                }
                return Ok(Petsc { bytes, is_wide, scalar, matrix, vectors });
            }
            // That of float64, which most files have.
            Err(said) if problem.is_empty() => problem = said,
            Err(_) => {}
        }
    }
    Err(wrong(path, problem))
}

/// Returns the objects of a file with this format of values, or the reason why they cannot be read.
fn objects(bytes: &[u8], is_wide: bool, scalar: Scalar) -> Result<Vec<Object>, String> {
    let width = if is_wide { 8 } else { 4 };
    let cut = |at: usize| format!("byte {at}: the PETSc file is truncated, or has other content");
    let integer = |at: usize| integer(bytes, is_wide, at).ok_or_else(|| cut(at));
    let size =
        |at: usize| integer(at).and_then(|n| usize::try_from(n).map_err(|_| format!("byte {at}: {n}")));
    // Returns the end of `count` items of `each` bytes.
    let end = |at: usize, count: usize, each: usize| {
        let end = count.checked_mul(each).and_then(|length| at.checked_add(length));
        end.filter(|&end| end <= bytes.len()).ok_or_else(|| cut(at))
    };
    let (mut at, mut objects) = (0, Vec::new());
    while at < bytes.len() {
        match integer(at)? {
            MAT => {
                let (rows, columns) = (size(at + width)?, size(at + 2 * width)?);
                let begin = at + 4 * width;
                let nonzeros = integer(at + 3 * width)?;
                if nonzeros == -1 {
                    at = end(begin, rows.checked_mul(columns).ok_or_else(|| cut(at))?, scalar.bytes())?;
                    objects.push(Object::Matrix(Mat::Dense { rows, columns, values: begin }));
                    continue;
                }
                let nonzeros =
                    usize::try_from(nonzeros).map_err(|_| format!("byte {at}: {nonzeros} nonzeros"))?;
                let places = end(begin, rows, width)?;
                let values = end(places, nonzeros, width)?;
                let sum = (0..rows).try_fold(0usize, |sum, i| {
                    size(begin + i * width).map(|length| sum.saturating_add(length))
                })?;
                if sum != nonzeros {
                    return Err(format!(
                        "byte {begin}: the rows have {sum} nonzeros in all, but the header has {nonzeros}"
                    ));
                }
                at = end(values, nonzeros, scalar.bytes())?;
                objects.push(Object::Matrix(Mat::Sparse { rows, columns, nonzeros, lengths: begin }));
            }
            VEC => {
                let length = size(at + width)?;
                let values = at + 2 * width;
                at = end(values, length, scalar.bytes())?;
                objects.push(Object::Vector { length, values });
            }
            other if CLASSES.contains(&other) => {
                return Err(format!("byte {at}: a PETSc object of class {other}: Mat and Vec are supported"));
            }
            _ => return Err(cut(at)),
        }
    }
    Ok(objects)
}

fn integer(bytes: &[u8], is_wide: bool, at: usize) -> Option<i64> {
    match is_wide {
        true => bytes.get(at..at + 8)?.try_into().map(i64::from_be_bytes).ok(),
        false => bytes.get(at..at + 4)?.try_into().map(|word| i64::from(i32::from_be_bytes(word))).ok(),
    }
}

impl Petsc {
    pub(super) fn matrix(self, path: &Path) -> Result<Matrix, Error> {
        let (width, scalar) = (if self.is_wide { 8 } else { 4 }, self.scalar);
        let complex = scalar.parts == 2;
        // Indices outside of every matrix are refused as such.
        let index = |at: usize| {
            let index = integer(&self.bytes, self.is_wide, at).and_then(|index| usize::try_from(index).ok());
            index.unwrap_or(usize::MAX)
        };
        match self.matrix {
            None => Err(wrong(path, "a vector of PETSc where a matrix is needed")),
            Some(Mat::Sparse { rows, columns, nonzeros, lengths }) => {
                let places = lengths + rows * width;
                let values = &self.bytes[places + nonzeros * width..];
                gathered(path, (rows, columns), complex, Symmetry::General, &|nonzero| {
                    let mut at = 0;
                    for i in 0..rows {
                        for _ in 0..index(lengths + i * width) {
                            let (re, im) = scalar.at(values, at);
                            nonzero(i, index(places + at * width), re, im);
                            at += 1;
                        }
                    }
                })
            }
            Some(Mat::Dense { rows, columns, values }) => {
                if let Some(problem) = too_many_rows(rows, rows * columns) {
                    return Err(wrong(path, problem));
                }
                let values = &self.bytes[values..];
                gathered(path, (rows, columns), complex, Symmetry::General, &|nonzero| {
                    for at in 0..rows * columns {
                        let (re, im) = scalar.at(values, at);
                        if re != 0.0 || im != 0.0 {
                            nonzero(at / columns, at % columns, re, im);
                        }
                    }
                })
            }
        }
    }

    pub(super) fn into_vectors(self, path: &Path) -> Result<Vectors, Error> {
        let length = self.vectors[0].1;
        if self.vectors.iter().any(|vector| vector.1 != length) {
            return Err(wrong(
                path,
                "vectors of PETSc of several lengths in one file: write each to its own",
            ));
        }
        let column = |&(values, length): &(usize, usize)| {
            let parts = (0..length).map(|at| self.scalar.at(&self.bytes[values..], at));
            parts.flat_map(|(re, im)| [re, im].into_iter().take(self.scalar.parts)).collect()
        };
        Ok(Vectors { columns: self.vectors.iter().map(column).collect(), complex: self.scalar.parts == 2 })
    }
}
