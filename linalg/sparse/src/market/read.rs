//! Reading, line by line: memory for the elements as they come, then for the matrix, and nothing else.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::header::{self, Field, Format, Symmetry};
use crate::Error;
use crate::csr::{Csr, Gather, check_size};

/// How many rows a file without a nonzero may have: more take memory that nothing in the file answers for.
const ROWS_OF_NOTHING: usize = 1 << 20;
/// And how many more for each nonzero.
const ROWS_PER_NONZERO: usize = 8;
/// Bytes of the shortest line of an element: `1 1`, or one digit in an array, and its end.
const SHORTEST_LINE: u64 = 2;
/// More bytes than gzip makes of one.
const GZIP_FACTOR: u64 = 1100;
/// The two bytes that files of gzip begin with.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Lines that are no comments and longer than this hold no matrix.
const LONGEST_LINE: usize = 4096;
/// How much of a wrong line an error shows.
const SHOWN: usize = 60;

/// A file's matrix, and what the file said of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Market {
    /// The matrix; zeros that the file names are stored. Where the field is complex, the real one of twice the size.
    pub matrix: Csr,
    /// Which elements the file names.
    pub format: Format,
    /// What they are.
    pub field: Field,
    /// What it leaves out.
    pub symmetry: Symmetry,
}

/// Reads a file, compressed or not.
///
/// # Errors
/// [`Error::Content`] with the line where the file breaks its format, or holds a complex matrix; [`Error::File`] for one that cannot be read.
pub fn read(path: &Path) -> Result<Market, Error> {
    read_file(path, Wanted { rows: None, complex: false })
}

/// Reads a file, compressed or not; a complex matrix as the real one of twice the size (see the [module](crate::market)).
///
/// # Errors
/// As [`read`], but for complex matrices.
pub fn read_as_real(path: &Path) -> Result<Market, Error> {
    read_file(path, Wanted { rows: None, complex: true })
}

/// What the reader of a file can do with.
#[derive(Clone, Copy)]
struct Wanted {
    /// Rows that the matrix has to have; none where any will do.
    rows: Option<usize>,
    /// Whether it may be complex.
    complex: bool,
}

fn read_file(path: &Path, wanted: Wanted) -> Result<Market, Error> {
    let file = File::open(path).map_err(|e| Error::file(path, "cannot open the matrix", e))?;
    let length = file.metadata().map_or(u64::MAX, |meta| if meta.is_file() { meta.len() } else { u64::MAX });
    read_sized(&mut BufReader::with_capacity(1 << 18, file), path, length, wanted)
}

/// Reads a matrix from anything; `name` is what errors call it.
///
/// # Errors
/// As [`read`].
pub fn read_from(source: &mut dyn BufRead, name: &Path) -> Result<Market, Error> {
    read_sized(source, name, u64::MAX, Wanted { rows: None, complex: false })
}

/// Columns that files of vectors may have.
const MOST_VECTORS: usize = 1 << 16;

/// Reads vectors: the columns of a matrix, with so many rows where that is known.
///
/// # Errors
/// As [`read`], and for a matrix with more columns than anybody solves for, or with other rows.
pub fn read_vectors(path: &Path, rows: Option<usize>) -> Result<Vec<Vec<f64>>, Error> {
    columns_of(path, read_file(path, Wanted { rows, complex: false })?.matrix)
}

/// Reads complex vectors, or real ones for complex ones, with so many rows where that is known: of each vector real and imaginary parts in turn.
///
/// # Errors
/// As [`read_vectors`].
pub fn read_vectors_as_real(path: &Path, rows: Option<usize>) -> Result<Vec<Vec<f64>>, Error> {
    let Market { matrix, field, .. } = read_file(path, Wanted { rows, complex: true })?;
    let columns = columns_of(path, matrix)?;
    Ok(match field {
        // The first column of each block.
        Field::Complex => columns.into_iter().step_by(2).collect(),
        _ => columns.iter().map(|x| x.iter().flat_map(|&re| [re, 0.0]).collect()).collect(),
    })
}

fn columns_of(path: &Path, matrix: Csr) -> Result<Vec<Vec<f64>>, Error> {
    let (rows, columns) = (matrix.rows(), matrix.columns());
    // A file without elements may claim any size.
    if columns > MOST_VECTORS {
        let problem = format!("{columns} columns where a file of vectors has {MOST_VECTORS} at most");
        return Err(Error::Content { file: path.to_owned(), line: None, problem });
    }
    let what = || format!("{}: {columns} vectors of {rows} numbers", path.display());
    Error::if_too_large(what, (8 * columns as u64).saturating_mul(rows as u64))?;
    let mut vectors = vec![vec![0.0; rows]; columns];
    for (i, (column, value)) in matrix.iter().enumerate() {
        column.iter().zip(value).for_each(|(&j, &value)| vectors[j as usize][i] = value);
    }
    Ok(vectors)
}

fn read_sized(source: &mut dyn BufRead, name: &Path, length: u64, wanted: Wanted) -> Result<Market, Error> {
    let begin = source.fill_buf().map_err(|e| Error::file(name, "cannot read the matrix", e))?;
    if begin.starts_with(&GZIP) {
        let mut plain = BufReader::with_capacity(1 << 18, MultiGzDecoder::new(source));
        let length = length.saturating_mul(GZIP_FACTOR);
        return Lines { source: &mut plain, name, length, wanted, number: 0, line: Vec::new() }.market();
    }
    Lines { source, name, length, wanted, number: 0, line: Vec::new() }.market()
}

/// The lines of a file.
struct Lines<'a> {
    source: &'a mut dyn BufRead,
    name: &'a Path,
    /// Bytes that the text may have.
    length: u64,
    wanted: Wanted,
    number: u64,
    line: Vec<u8>,
}

impl Lines<'_> {
    fn error(&self, problem: impl Into<String>) -> Error {
        Error::Content { file: self.name.to_owned(), line: Some(self.number), problem: problem.into() }
    }

    /// An error that shows the line.
    fn broken(&self, wanted: &str) -> Error {
        let text = String::from_utf8_lossy(&self.line[..self.line.len().min(SHOWN)]);
        let more = if self.line.len() > SHOWN { " ..." } else { "" };
        self.error(format!("{:?}{more} is not {wanted}", text.trim()))
    }

    /// Brings the next line; false at the end.
    fn bring(&mut self) -> Result<bool, Error> {
        self.number += 1;
        self.line.clear();
        // A comment of any length passes without being kept.
        while let Some(end) = self.take_part()? {
            if end || self.line.first() == Some(&b'%') && self.number > 1 {
                if !end {
                    self.skip_line()?;
                }
                return Ok(true);
            }
        }
        Ok(!self.line.is_empty())
    }

    /// Appends what is buffered of the line; says whether it has ended, nothing at the end of the file.
    fn take_part(&mut self) -> Result<Option<bool>, Error> {
        let part = self.source.fill_buf().map_err(|e| Error::file(self.name, "cannot read the matrix", e))?;
        if part.is_empty() {
            return Ok(None);
        }
        let end = part.iter().position(|&byte| byte == b'\n');
        let taken = end.map_or(part.len(), |end| end + 1);
        self.line.extend_from_slice(&part[..end.unwrap_or(part.len())]);
        self.source.consume(taken);
        let is_comment = self.number > 1 && self.line.first() == Some(&b'%');
        if self.line.len() > LONGEST_LINE && !is_comment {
            return Err(self.error(format!("a line of more than {LONGEST_LINE} bytes that is no comment")));
        }
        Ok(Some(end.is_some()))
    }

    fn skip_line(&mut self) -> Result<(), Error> {
        self.source.skip_until(b'\n').map_err(|e| Error::file(self.name, "cannot read the matrix", e))?;
        Ok(())
    }

    /// Brings the next line that is neither blank nor a comment; false at the end.
    fn bring_content(&mut self) -> Result<bool, Error> {
        while self.bring()? {
            let first = self.line.iter().find(|byte| !byte.is_ascii_whitespace());
            if first.is_some_and(|&byte| byte != b'%') {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn market(mut self) -> Result<Market, Error> {
        if !self.bring()? {
            return Err(self.error("the file is empty"));
        }
        let (format, field, symmetry) = header::parse(&self.line).map_err(|problem| self.error(problem))?;
        if field == Field::Complex && !self.wanted.complex {
            return Err(self.error(
                "a complex matrix where a real one is needed: `zellige solve` solves complex systems",
            ));
        }
        if !self.bring_content()? {
            return Err(self.error("the file ends before the line with its sizes"));
        }
        let matrix = match format {
            Format::Coordinate => self.coordinate(field, symmetry)?,
            Format::Array => self.array(field, symmetry)?,
        };
        if self.bring_content()? {
            return Err(self.broken("the end of the file: there are more nonzeros than its sizes say"));
        }
        Ok(Market { matrix, format, field, symmetry })
    }

    /// The whole numbers of a line of sizes.
    fn sizes<const N: usize>(&self, wanted: &str) -> Result<[usize; N], Error> {
        let mut words = self.line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let mut sizes = [0; N];
        for size in &mut sizes {
            *size = words.next().and_then(whole).ok_or_else(|| self.broken(wanted))?;
        }
        if words.next().is_some() {
            return Err(self.broken(wanted));
        }
        check_size(sizes[0], sizes[1]).map_err(|error| self.error(error.to_string()))?;
        Ok(sizes)
    }

    /// Rows and columns of the matrix that is made of one with these.
    fn real_sides(&self, (rows, columns): (usize, usize), field: Field) -> Result<(usize, usize), Error> {
        let times = if field == Field::Complex { 2 } else { 1 };
        let sides = (rows.saturating_mul(times), columns.saturating_mul(times));
        check_size(sides.0, sides.1).map_err(|error| self.error(error.to_string()))?;
        Ok(sides)
    }

    /// Refuses sizes that the rest of the file cannot fill.
    fn check_sizes(
        &self,
        (rows, columns): (usize, usize),
        elements: usize,
        (field, symmetry): (Field, Symmetry),
    ) -> Result<(), Error> {
        if symmetry != Symmetry::General && rows != columns {
            return Err(self.error(format!("a {} matrix of {rows} x {columns}", symmetry.name())));
        }
        if elements as u64 > self.length / SHORTEST_LINE + 1 {
            return Err(
                self.error(format!("{elements} nonzeros are more than the file can hold: it is cut off"))
            );
        }
        if let Some(wanted) = self.wanted.rows.filter(|&wanted| wanted != rows) {
            return Err(self.error(format!("{rows} rows where the matrix has {wanted}")));
        }
        let most = ROWS_OF_NOTHING.saturating_add(elements.saturating_mul(ROWS_PER_NONZERO));
        if self.wanted.rows.is_none() && rows > most {
            return Err(
                self.error(format!("{rows} rows for {elements} nonzeros: nearly all rows would be empty"))
            );
        }
        // As the file names them, then by rows.
        let halves = if symmetry == Symmetry::General { 1 } else { 2 };
        let each = if field == Field::Complex { 24 + 48 * halves } else { 16 + 12 * halves };
        let bytes = (elements as u64).saturating_mul(each).saturating_add(16 * rows as u64);
        Error::if_too_large(|| format!("{}: a matrix of {elements} nonzeros", self.name.display()), bytes)?;
        Ok(())
    }

    fn coordinate(&mut self, field: Field, symmetry: Symmetry) -> Result<Csr, Error> {
        let [rows, columns, elements] = self.sizes("the line of sizes: rows, columns, nonzeros")?;
        let sides = self.real_sides((rows, columns), field)?;
        self.check_sizes((rows, columns), elements, (field, symmetry))?;
        let mut found = Found::with_room(elements, field).ok_or_else(|| self.no_memory(elements))?;
        for seen in 0..elements {
            self.expect_content(seen, elements)?;
            let (i, j, (re, im)) = self.element(field, (rows, columns))?;
            if let Some(wanted) = symmetry.off_diagonal(re, im).filter(|_| i == j) {
                return Err(self.broken(wanted));
            }
            found.push(i, j, re, im);
        }
        self.gathered(&found, sides, symmetry)
    }

    /// Both halves by rows.
    fn gathered(
        &self,
        found: &Found,
        (rows, columns): (usize, usize),
        symmetry: Symmetry,
    ) -> Result<Csr, Error> {
        let mut gather = Gather::new(rows);
        found.each(symmetry, |i, _, _| gather.count(i));
        gather.allocate();
        found.each(symmetry, |i, j, value| gather.put(i, j, value));
        gather.finish(columns).map_err(|error| self.error(error.to_string()))
    }

    fn array(&mut self, field: Field, symmetry: Symmetry) -> Result<Csr, Error> {
        let [rows, columns] = self.sizes("the line of sizes: rows, columns")?;
        let first = |j: usize| match symmetry {
            Symmetry::General => 0,
            Symmetry::Symmetric | Symmetry::Hermitian => j,
            Symmetry::Skew => j + 1,
        };
        let elements = match symmetry {
            Symmetry::General => rows.checked_mul(columns),
            Symmetry::Symmetric | Symmetry::Hermitian => rows.checked_mul(rows + 1).map(|twice| twice / 2),
            Symmetry::Skew => rows.checked_mul(rows.saturating_sub(1)).map(|twice| twice / 2),
        };
        let elements = elements.ok_or_else(|| self.error("more nonzeros than can be counted"))?;
        let sides = self.real_sides((rows, columns), field)?;
        self.check_sizes((rows, columns), elements, (field, symmetry))?;
        let mut found = Found::with_room(elements, field).ok_or_else(|| self.no_memory(elements))?;
        for (i, j) in (0..columns).flat_map(|j| (first(j)..rows).map(move |i| (i, j))) {
            self.expect_content(found.value.len(), elements)?;
            let mut words = self.words();
            let (Some((re, im)), None) = (value(&mut words, field), words.next()) else {
                return Err(self.broken(wanted_value(field)));
            };
            if let Some(wanted) = symmetry.off_diagonal(re, im).filter(|_| i == j) {
                return Err(self.broken(wanted));
            }
            found.push(i as u32, j as u32, re, im);
        }
        self.gathered(&found, sides, symmetry)
    }

    fn words(&self) -> impl Iterator<Item = &[u8]> {
        self.line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
    }

    fn expect_content(&mut self, seen: usize, elements: usize) -> Result<(), Error> {
        match self.bring_content()? {
            true => Ok(()),
            false => Err(self.error(format!("the file ends after {seen} of {elements} nonzeros"))),
        }
    }

    fn no_memory(&self, elements: usize) -> Error {
        self.error(format!("no memory for {elements} nonzeros"))
    }

    /// Row and column, from 0, and the value.
    fn element(
        &self,
        field: Field,
        (rows, columns): (usize, usize),
    ) -> Result<(u32, u32, (f64, f64)), Error> {
        let wanted = match field {
            Field::Pattern => "row and column",
            Field::Integer => "row, column and a whole number",
            Field::Real => "row, column and a finite number",
            Field::Complex => "row, column and two finite numbers",
        };
        let mut words = self.words();
        let mut index =
            |limit| {
                let number = words.next().and_then(whole).ok_or_else(|| self.broken(wanted))?;
                match (1..=limit).contains(&number) {
                    true => Ok((number - 1) as u32),
                    false => Err(self
                        .broken(&format!("an element of a matrix of {rows} x {columns}, numbered from 1"))),
                }
            };
        let (i, j) = (index(rows)?, index(columns)?);
        match (value(&mut words, field), words.next()) {
            (Some(value), None) => Ok((i, j, value)),
            _ => Err(self.broken(wanted)),
        }
    }
}

/// Elements as the file names them.
struct Found {
    place: Vec<(u32, u32)>,
    value: Vec<f64>,
    /// Of a complex matrix.
    imaginary: Option<Vec<f64>>,
}

impl Found {
    /// None where there is no memory.
    fn with_room(elements: usize, field: Field) -> Option<Self> {
        fn room<T>(elements: usize) -> Option<Vec<T>> {
            let mut values = Vec::new();
            values.try_reserve_exact(elements).ok()?;
            Some(values)
        }
        let imaginary = if field == Field::Complex { Some(room(elements)?) } else { None };
        Some(Found { place: room(elements)?, value: room(elements)?, imaginary })
    }

    fn push(&mut self, i: u32, j: u32, re: f64, im: f64) {
        self.place.push((i, j));
        self.value.push(re);
        if let Some(imaginary) = &mut self.imaginary {
            imaginary.push(im);
        }
    }

    /// Every element of the real matrix, with those that the file leaves out.
    fn each(&self, symmetry: Symmetry, mut element: impl FnMut(u32, u32, f64)) {
        let mut block = |i: u32, j: u32, re: f64, im: f64| {
            if self.imaginary.is_none() {
                return element(i, j, re);
            }
            element(2 * i, 2 * j, re);
            element(2 * i + 1, 2 * j + 1, re);
            if im != 0.0 {
                element(2 * i, 2 * j + 1, -im);
                element(2 * i + 1, 2 * j, im);
            }
        };
        for (at, (&(i, j), &re)) in self.place.iter().zip(&self.value).enumerate() {
            let im = self.imaginary.as_ref().map_or(0.0, |imaginary| imaginary[at]);
            block(i, j, re, im);
            if let Some((re, im)) = symmetry.mirrored(re, im).filter(|_| i != j) {
                block(j, i, re, im);
            }
        }
    }
}

/// Real and imaginary part of an element.
fn value<'l>(words: &mut impl Iterator<Item = &'l [u8]>, field: Field) -> Option<(f64, f64)> {
    let mut part = || words.next().and_then(|word| number(word, field));
    Some(match field {
        Field::Pattern => (1.0, 0.0),
        Field::Complex => (part()?, part()?),
        Field::Real | Field::Integer => (part()?, 0.0),
    })
}

fn whole(word: &[u8]) -> Option<usize> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn wanted_value(field: Field) -> &'static str {
    match field {
        Field::Integer => "a whole number",
        Field::Complex => "two finite numbers",
        Field::Real | Field::Pattern => "a finite number",
    }
}

/// A number that is finite; Fortran writes its exponents with a D.
fn number(word: &[u8], field: Field) -> Option<f64> {
    let text = std::str::from_utf8(word).ok()?;
    let value: f64 = match field {
        Field::Integer => text.parse::<i64>().ok()? as f64,
        _ => match text.parse() {
            Ok(value) => value,
            Err(_) => text.replace(['d', 'D'], "e").parse().ok()?,
        },
    };
    Some(value).filter(|value| value.is_finite())
}
