//! Matrices and vectors in files; the format is detected from the first bytes, not from the name.
//!
//! | format | matrices | vectors |
//! |---|---|---|
//! | Matrix Market, plain or gzip ([`market`]) | all | columns, also `%%MatrixMarket vector` |
//! | archives of `scipy.sparse.save_npz` | csr, csc, coo, bsr, dia | columns; `coo_array` of one dimension |
//! | arrays: npy, `FILE.npz/NAME`, HDF5 ([`mod@array`]) | two dimensions | one or two dimensions |
//! | PETSc's binary format, plain or gzip | sparse, and dense in its native form | every Vec of the file |
//! | Harwell-Boeing and Rutherford-Boeing, plain or gzip | assembled ones | their full right-hand sides |
//! | text: numbers in columns ([`text`](zellige_files::array::text)) | | columns |
//!
//! A complex matrix is read as a real one of twice the size, as described in [`market`]. Zeros in
//! dense storage (arrays, blocks of bsr, diagonals of dia) are not stored. Duplicates are added.
//! For a known format that cannot be read, the error names a command that converts it.

mod boeing;
mod columns;
pub mod market;
mod petsc;
mod scipy;

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use zellige_files::array::{self, Array, Numbers, npz};
use zellige_files::foreign;

use self::market::{Field, Format, Symmetry};
use crate::csr::{Csr, Gather, check_size};
use zellige_krylov::Error;

pub use columns::{Vectors, read_vectors};

/// The two bytes that files of gzip begin with.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Upper bound of the expansion of one byte by gzip.
const GZIP_FACTOR: u64 = 1100;
/// Maximum number of rows of a file without a nonzero: more rows take memory that no content of the
/// file justifies.
const ROWS_OF_NOTHING: usize = 1 << 20;
/// Additional number of rows for each nonzero.
const ROWS_PER_NONZERO: usize = 8;

/// A file's matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// The matrix in CSR; for a complex matrix the real one of twice the size.
    pub csr: Csr,
    /// True if it is complex.
    pub complex: bool,
}

/// Reads a matrix.
///
/// # Errors
/// [`Error::Content`] with the position at which the file violates its format, or with its actual
/// format, or with the place of a non-finite entry; [`Error::File`] for one that cannot be read.
pub fn read(path: &Path) -> Result<Matrix, Error> {
    let matrix = read_any(path)?;
    // A complex number has two rows and two columns.
    let each = if matrix.complex { 2 } else { 1 };
    for (i, (columns, values)) in matrix.csr.iter().enumerate() {
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            let (row, column) = (i / each + 1, columns[at] as usize / each + 1);
            return Err(wrong(path, format!("the entry in row {row}, column {column} is {}", values[at])));
        }
    }
    Ok(matrix)
}

fn read_any(path: &Path) -> Result<Matrix, Error> {
    if is_member(path) {
        return dense(path);
    }
    let source = Source::open(path)?;
    match source.kind() {
        FileFormat::Archive if npz::names(path)?.iter().any(|name| name == "format") => scipy::read(path),
        FileFormat::Archive | FileFormat::Array => dense(path),
        FileFormat::Petsc => petsc::read(source, path)?.matrix(path),
        FileFormat::Boeing => Ok(boeing::read(source, path)?.0),
        FileFormat::Market | FileFormat::Other => {
            let read = market::read_source(source, path, None)?;
            let is_dense = read.format == Format::Array;
            let csr = if is_dense { read.matrix.without_zeros() } else { read.matrix };
            Ok(Matrix { csr, complex: read.field == Field::Complex })
        }
    }
}

/// Reads a matrix that has to be real.
///
/// # Errors
/// As [`read`], and [`Error::Content`] for a complex matrix.
pub fn read_real(path: &Path) -> Result<Csr, Error> {
    let Matrix { csr, complex } = read(path)?;
    match complex {
        false => Ok(csr),
        true => Err(wrong(path, market::NOT_REAL)),
    }
}

fn wrong(path: &Path, problem: impl Into<String>) -> Error {
    Error::Content { file: path.to_owned(), line: None, problem: problem.into() }
}

/// Returns true if a path names a member of a file.
fn is_member(path: &Path) -> bool {
    !path.exists() && array::is_array(path) && path.ancestors().skip(1).any(Path::is_file)
}

/// File format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileFormat {
    Market,
    /// npy or HDF5.
    Array,
    /// zip.
    Archive,
    Petsc,
    Boeing,
    Other,
}

/// An open file, decompressed if it is packed with gzip.
pub(crate) struct Source<'a> {
    reader: Box<dyn BufRead + 'a>,
    /// First bytes of the file, which the reader returns as well.
    head: Vec<u8>,
    /// Bytes that it may have.
    pub(crate) length: u64,
    /// True if the file is packed with gzip.
    is_packed: bool,
}

impl<'a> Source<'a> {
    fn open(path: &Path) -> Result<Source<'a>, Error> {
        let file = File::open(path).map_err(|e| Error::file(path, "cannot open the matrix", e))?;
        let length =
            file.metadata().map_or(u64::MAX, |meta| if meta.is_file() { meta.len() } else { u64::MAX });
        let source = Source::new(Box::new(BufReader::with_capacity(1 << 18, file)), path, length)?;
        source.check(path)?;
        Ok(source)
    }

    pub(crate) fn new(reader: Box<dyn BufRead + 'a>, path: &Path, length: u64) -> Result<Source<'a>, Error> {
        let plain = Source { reader, head: Vec::new(), length, is_packed: false }.peeked(path)?;
        if !plain.head.starts_with(&GZIP) {
            return Ok(plain);
        }
        let unpacked = BufReader::with_capacity(1 << 18, MultiGzDecoder::new(plain.reader));
        let length = length.saturating_mul(GZIP_FACTOR);
        Source { reader: Box::new(unpacked), head: Vec::new(), length, is_packed: true }.peeked(path)
    }

    fn peeked(mut self, path: &Path) -> Result<Source<'a>, Error> {
        let head = foreign::head(&mut self.reader);
        self.head = head.map_err(|e| Error::file(path, "cannot read the matrix", e))?;
        self.reader = Box::new(Cursor::new(self.head.clone()).chain(self.reader));
        Ok(self)
    }

    /// Refuses formats that are known but not supported.
    fn check(&self, path: &Path) -> Result<(), Error> {
        let name = path.file_name().map_or(path, Path::new).display().to_string();
        let within = if self.is_packed { ", compressed with gzip" } else { "" };
        if let Some((what, command)) = foreign::name(&self.head) {
            let command = command.replace("FILE", &name);
            let is_packed = what.contains("compressed") || what.contains("archive");
            let verb = if is_packed { "unpack" } else { "convert" };
            return Err(wrong(
                path,
                format!("{what}{within}, which is not supported: {verb} it with `{command}`"),
            ));
        }
        if self.is_packed && matches!(self.kind(), FileFormat::Array | FileFormat::Archive) {
            let problem = format!(
                "an array file{within}, which is not supported: unpack it with `gunzip --keep {name}`"
            );
            return Err(wrong(path, problem));
        }
        Ok(())
    }

    fn kind(&self) -> FileFormat {
        let head = &self.head[..];
        let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
        let begins = |word: &[u8]| text.get(..word.len()).is_some_and(|text| text.eq_ignore_ascii_case(word));
        if begins(b"%%MatrixMarket") || begins(b"%MatrixMarket") {
            FileFormat::Market
        } else if head.starts_with(foreign::ZIP) {
            FileFormat::Archive
        } else if head.starts_with(foreign::NPY) || head.starts_with(foreign::HDF5) {
            FileFormat::Array
        } else if petsc::is(head) {
            FileFormat::Petsc
        } else if boeing::is(head) {
            FileFormat::Boeing
        } else {
            FileFormat::Other
        }
    }

    pub(crate) fn reader(self) -> Box<dyn BufRead + 'a> {
        self.reader
    }
}

/// Reads the matrix of a two-dimensional array.
fn dense(path: &Path) -> Result<Matrix, Error> {
    let array = Array::open(path)?;
    let &[rows, columns] = array.sides() else {
        let problem =
            format!("an array of shape {:?} where a matrix, of two dimensions, is needed", array.sides());
        return Err(wrong(path, problem));
    };
    let entries = rows.saturating_mul(columns);
    if let Some(problem) = too_many_rows(rows, entries) {
        return Err(wrong(path, problem));
    }
    Error::if_too_large(
        || format!("{}: a matrix of {rows} x {columns}", path.display()),
        32 * entries as u64,
    )?;
    let numbers = array.numbers()?;
    gathered(path, (rows, columns), numbers.im.is_some(), Symmetry::General, &|nonzero| {
        each_dense(&numbers, columns, &mut *nonzero);
    })
}

/// Passes each nonzero of a row-major dense matrix to `nonzero`.
fn each_dense(numbers: &Numbers, columns: usize, mut nonzero: impl FnMut(usize, usize, f64, f64)) {
    for at in 0..numbers.re.len() {
        let (re, im) = number(numbers, at);
        if re != 0.0 || im != 0.0 {
            nonzero(at / columns, at % columns, re, im);
        }
    }
}

/// Returns the real and the imaginary part.
fn number(numbers: &Numbers, at: usize) -> (f64, f64) {
    (numbers.re[at], numbers.im.as_ref().map_or(0.0, |im| im[at]))
}

/// Callback for row, column, real and imaginary part of a nonzero.
type EachNonzero<'e> = dyn FnMut(usize, usize, f64, f64) + 'e;

/// Builds the matrix of the entries that `each` passes to its argument; `each` is called three
/// times with the same result.
fn gathered(
    path: &Path,
    (rows, columns): (usize, usize),
    complex: bool,
    symmetry: Symmetry,
    each: &dyn Fn(&mut EachNonzero<'_>),
) -> Result<Matrix, Error> {
    let times = if complex { 2 } else { 1 };
    let sides = (rows.saturating_mul(times), columns.saturating_mul(times));
    check_size(sides.0, sides.1).map_err(|error| wrong(path, error.to_string()))?;
    if symmetry != Symmetry::General && rows != columns {
        return Err(wrong(path, format!("a {} matrix of {rows} x {columns}", symmetry.name())));
    }
    let (mut problem, mut nonzeros) = (None, 0u64);
    each(&mut |i, j, re, im| {
        let place = || format!("entry ({i}, {j}), counted from 0,");
        nonzeros += 1;
        if problem.is_some() {
            return;
        }
        problem = if i >= rows || j >= columns {
            Some(format!("{} is outside of {rows} x {columns}", place()))
        } else if !re.is_finite() || !im.is_finite() {
            let value = if re.is_finite() { im } else { re };
            Some(format!("{} is {value}, where a finite number is needed", place()))
        } else {
            let wanted = symmetry.off_diagonal(re, im).filter(|_| i == j);
            wanted.map(|wanted| format!("{} is not {wanted}", place()))
        };
    });
    if let Some(problem) = problem {
        return Err(wrong(path, problem));
    }
    let halves = if symmetry == Symmetry::General { 1 } else { 2 };
    let each_takes = if complex { 48 } else { 12 } * halves;
    let bytes = nonzeros.saturating_mul(each_takes).saturating_add(16 * sides.0 as u64);
    Error::if_too_large(|| format!("{}: a matrix of {nonzeros} nonzeros", path.display()), bytes)?;
    let mut gather = Gather::new(sides.0);
    let is_wide = complex;
    let expand = |nonzero: &mut dyn FnMut(u32, u32, f64)| {
        each(&mut |i, j, re, im| {
            spread(is_wide, symmetry, (i as u32, j as u32), (re, im), &mut |i, j, a| nonzero(i, j, a));
        });
    };
    expand(&mut |i, _, _| gather.count(i));
    gather.allocate();
    expand(&mut |i, j, value| gather.put(i, j, value));
    let csr = gather.finish(sides.1).map_err(|error| wrong(path, error.to_string()))?;
    Ok(Matrix { csr, complex })
}

/// Passes on every entry of the real matrix that one entry of the file stands for, including the
/// half that the file omits.
pub(crate) fn spread(
    complex: bool,
    symmetry: Symmetry,
    (i, j): (u32, u32),
    (re, im): (f64, f64),
    nonzero: &mut dyn FnMut(u32, u32, f64),
) {
    let mut block = |i: u32, j: u32, re: f64, im: f64| {
        if !complex {
            return nonzero(i, j, re);
        }
        nonzero(2 * i, 2 * j, re);
        nonzero(2 * i + 1, 2 * j + 1, re);
        if im != 0.0 {
            nonzero(2 * i, 2 * j + 1, -im);
            nonzero(2 * i + 1, 2 * j, im);
        }
    };
    block(i, j, re, im);
    if let Some((re, im)) = symmetry.mirrored(re, im).filter(|_| i != j) {
        block(j, i, re, im);
    }
}

/// Returns an error message if there are too many rows for this number of nonzeros.
pub(crate) fn too_many_rows(rows: usize, nonzeros: usize) -> Option<String> {
    let most = ROWS_OF_NOTHING.saturating_add(nonzeros.saturating_mul(ROWS_PER_NONZERO));
    (rows > most).then(|| format!("{rows} rows for {nonzeros} nonzeros: nearly all rows would be empty"))
}
