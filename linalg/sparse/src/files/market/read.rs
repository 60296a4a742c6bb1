//! Reader of Matrix Market files, line by line: it needs memory for the entries as they are read,
//! then for the matrix, and for nothing else.

use std::io::BufRead;
use std::path::Path;

use super::header::{self, Field, Format, Header, Symmetry};
use crate::csr::{Csr, Gather, check_size};
use crate::files::{Source, spread, too_many_rows};
use zellige_krylov::Error;

/// Bytes of the shortest line of an entry: `1 1`, or one digit in an array, and its end.
const SHORTEST_LINE: u64 = 2;
/// Lines that are no comments and longer than this hold no matrix.
const LONGEST_LINE: usize = 4096;
/// Number of characters of an invalid line that an error shows.
const SHOWN: usize = 60;

/// A file's matrix with the data of its header.
#[derive(Debug, Clone, PartialEq)]
pub struct Market {
    /// The matrix; zeros that the file lists are stored. For a complex field, the real one of twice
    /// the size.
    pub matrix: Csr,
    /// Storage format of the file.
    pub format: Format,
    /// Type of the values.
    pub field: Field,
    /// Symmetry of the file.
    pub symmetry: Symmetry,
}

/// Error message for a complex matrix that has to be real.
pub(crate) const NOT_REAL: &str = "a complex matrix where a real one is needed: `zellige solve` and `zellige matrix info` take complex ones";

/// Reads a matrix from any source, compressed or not; `name` is its name in errors. A complex one
/// is the real one of twice the size (see the [module](crate::files::market)).
///
/// # Errors
/// [`Error::Content`] with the line at which the file violates its format; [`Error::File`] if it
/// cannot be read.
pub fn read_from(source: &mut dyn BufRead, name: &Path) -> Result<Market, Error> {
    read_source(Source::new(Box::new(source), name, u64::MAX)?, name, None)
}

/// Reads a matrix, with this number of rows if that is known.
pub(crate) fn read_source(source: Source<'_>, name: &Path, rows: Option<usize>) -> Result<Market, Error> {
    let length = source.length;
    Lines { source: &mut *source.reader(), name, length, rows, number: 0, line: Vec::new() }.market()
}

/// The lines of a file.
struct Lines<'a> {
    source: &'a mut dyn BufRead,
    name: &'a Path,
    /// Bytes that the text may have.
    length: u64,
    /// Required number of rows; `None` for any number.
    rows: Option<usize>,
    number: u64,
    line: Vec<u8>,
}

impl Lines<'_> {
    fn error(&self, problem: impl Into<String>) -> Error {
        Error::Content { file: self.name.to_owned(), line: Some(self.number), problem: problem.into() }
    }

    /// Returns an error that shows the line.
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

    /// Appends the buffered part of the line; returns true if the line has ended, and `None` at the
    /// end of the file.
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
            return Err(self.error(format!("a line of more than {LONGEST_LINE} bytes that is not a comment")));
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
        let header = header::parse(&self.line).map_err(|problem| self.error(problem))?;
        let Header { format, field, symmetry, .. } = header;
        if !self.bring_content()? {
            return Err(self.error("the file ends before the line with its sizes"));
        }
        let matrix = match format {
            Format::Coordinate => self.coordinate(header)?,
            Format::Array => self.array(header)?,
        };
        if self.bring_content()? {
            return Err(self.broken("the end of the file: it has more nonzeros than its sizes announce"));
        }
        Ok(Market { matrix, format, field, symmetry })
    }

    /// Returns the integers of a line of sizes; for a vector, the column count may be omitted.
    fn sizes<const N: usize>(&self, is_vector: bool, wanted: &str) -> Result<[usize; N], Error> {
        let mut sizes: Vec<usize> =
            self.words().take(N + 1).map(whole).collect::<Option<_>>().ok_or_else(|| self.broken(wanted))?;
        if is_vector && sizes.len() == N - 1 {
            sizes.insert(1, 1);
        }
        let sizes: [usize; N] = sizes.try_into().map_err(|_| self.broken(wanted))?;
        if is_vector && sizes[1] != 1 {
            return Err(self.error(format!("a vector of {} columns", sizes[1])));
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
        nonzeros: usize,
        (field, symmetry): (Field, Symmetry),
    ) -> Result<(), Error> {
        if symmetry != Symmetry::General && rows != columns {
            return Err(self.error(format!("a {} matrix of {rows} x {columns}", symmetry.name())));
        }
        if nonzeros as u64 > self.length / SHORTEST_LINE + 1 {
            return Err(
                self.error(format!("{nonzeros} nonzeros are more than the file can hold: it is truncated"))
            );
        }
        if let Some(wanted) = self.rows.filter(|&wanted| wanted != rows) {
            return Err(self.error(format!("{rows} rows where the matrix has {wanted}")));
        }
        if let Some(problem) = too_many_rows(rows, nonzeros).filter(|_| self.rows.is_none()) {
            return Err(self.error(problem));
        }
        // Memory for the entries as the file lists them, then in CSR.
        let halves = if symmetry == Symmetry::General { 1 } else { 2 };
        let each = if field == Field::Complex { 24 + 48 * halves } else { 16 + 12 * halves };
        let bytes = (nonzeros as u64).saturating_mul(each).saturating_add(16 * rows as u64);
        Error::if_too_large(|| format!("{}: a matrix of {nonzeros} nonzeros", self.name.display()), bytes)?;
        Ok(())
    }

    fn coordinate(&mut self, header: Header) -> Result<Csr, Error> {
        let Header { is_vector, field, symmetry, .. } = header;
        // A vector with a column count in its sizes has a column number in each entry, too.
        let is_bare = is_vector && self.words().count() == 2;
        let wanted = "the line of sizes: rows, columns, nonzeros";
        let [rows, columns, nonzeros] = self.sizes(is_vector, wanted)?;
        let sides = self.real_sides((rows, columns), field)?;
        self.check_sizes((rows, columns), nonzeros, (field, symmetry))?;
        let mut entries = Entries::with_room(nonzeros, field).ok_or_else(|| self.no_memory(nonzeros))?;
        for seen in 0..nonzeros {
            self.expect_content(seen, nonzeros)?;
            let (i, j, (re, im)) = self.nonzero(field, (rows, columns), is_bare)?;
            if let Some(wanted) = symmetry.off_diagonal(re, im).filter(|_| i == j) {
                return Err(self.broken(wanted));
            }
            entries.push(i, j, re, im);
        }
        self.gathered(&entries, sides, symmetry)
    }

    /// Returns both halves in CSR.
    fn gathered(
        &self,
        entries: &Entries,
        (rows, columns): (usize, usize),
        symmetry: Symmetry,
    ) -> Result<Csr, Error> {
        let mut gather = Gather::new(rows);
        entries.each(symmetry, |i, _, _| gather.count(i));
        gather.allocate();
        entries.each(symmetry, |i, j, value| gather.put(i, j, value));
        gather.finish(columns).map_err(|error| self.error(error.to_string()))
    }

    fn array(&mut self, header: Header) -> Result<Csr, Error> {
        let Header { is_vector, field, symmetry, .. } = header;
        let [rows, columns] = self.sizes(is_vector, "the line of sizes: rows, columns")?;
        let first = |j: usize| match symmetry {
            Symmetry::General => 0,
            Symmetry::Symmetric | Symmetry::Hermitian => j,
            Symmetry::Skew => j + 1,
        };
        let nonzeros = match symmetry {
            Symmetry::General => rows.checked_mul(columns),
            Symmetry::Symmetric | Symmetry::Hermitian => rows.checked_mul(rows + 1).map(|twice| twice / 2),
            Symmetry::Skew => rows.checked_mul(rows.saturating_sub(1)).map(|twice| twice / 2),
        };
        let nonzeros = nonzeros.ok_or_else(|| self.error("more nonzeros than can be counted"))?;
        let sides = self.real_sides((rows, columns), field)?;
        self.check_sizes((rows, columns), nonzeros, (field, symmetry))?;
        let mut entries = Entries::with_room(nonzeros, field).ok_or_else(|| self.no_memory(nonzeros))?;
        let places = (0..columns).flat_map(|j| (first(j)..rows).map(move |i| (i, j)));
        for (seen, (i, j)) in places.enumerate() {
            self.expect_content(seen, nonzeros)?;
            let mut words = self.words();
            let (Some((re, im)), None) = (value(&mut words, field), words.next()) else {
                return Err(self.not_a_value(0, field, wanted_value(field)));
            };
            if let Some(wanted) = symmetry.off_diagonal(re, im).filter(|_| i == j) {
                return Err(self.broken(wanted));
            }
            // That of a vector keeps its sign.
            let is_zero = re == 0.0 && im == 0.0 && re.is_sign_positive() && im.is_sign_positive();
            if !is_zero {
                entries.push(i as u32, j as u32, re, im);
            }
        }
        self.gathered(&entries, sides, symmetry)
    }

    fn words(&self) -> impl Iterator<Item = &[u8]> {
        self.line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
    }

    fn expect_content(&mut self, seen: usize, nonzeros: usize) -> Result<(), Error> {
        match self.bring_content()? {
            true => Ok(()),
            false => Err(self.error(format!("the file ends after {seen} of {nonzeros} nonzeros"))),
        }
    }

    fn no_memory(&self, nonzeros: usize) -> Error {
        self.error(format!("not enough memory for {nonzeros} nonzeros"))
    }

    /// Returns the row and the column, from 0, and the value.
    fn nonzero(
        &self,
        field: Field,
        (rows, columns): (usize, usize),
        is_bare: bool,
    ) -> Result<(u32, u32, (f64, f64)), Error> {
        let wanted = match field {
            _ if is_bare => "a row and its number",
            Field::Pattern => "row and column",
            Field::Integer | Field::Unsigned => "row, column and a whole number",
            Field::Real => "row, column and a finite number",
            Field::Complex => "row, column and two finite numbers",
        };
        let mut words = self.words();
        let mut index = |limit| {
            let number = words.next().and_then(whole).ok_or_else(|| self.broken(wanted))?;
            match (1..=limit).contains(&number) {
                true => Ok((number - 1) as u32),
                false => {
                    Err(self.broken(&format!("an entry of a matrix of {rows} x {columns}, numbered from 1")))
                }
            }
        };
        let (i, j) = (index(rows)?, if is_bare { 0 } else { index(columns)? });
        match (value(&mut words, field), words.next()) {
            (Some(value), None) => Ok((i, j, value)),
            _ => Err(self.not_a_value(if is_bare { 1 } else { 2 }, field, wanted)),
        }
    }

    /// Returns an error for a line whose values follow `places` indices: it names the invalid word
    /// and its position.
    fn not_a_value(&self, places: usize, field: Field, wanted: &str) -> Error {
        let is_number = |word: &&[u8]| number(word, field).is_some();
        let Some(word) = self.words().skip(places).find(|word| !is_number(word)) else {
            return self.broken(wanted);
        };
        let text = String::from_utf8_lossy(word);
        if matches!(field, Field::Integer | Field::Unsigned) {
            let digits = text.strip_prefix(['-', '+']).unwrap_or(&text);
            if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
                let range = if field == Field::Unsigned { "0 to 2^64 - 1" } else { "-2^63 to 2^63 - 1" };
                let shown: String = text.chars().take(SHOWN).collect();
                return self.error(format!(
                    "{shown} is outside of the integers {range}: use `real` in the first line for numbers of this size"
                ));
            }
        }
        let column = word.as_ptr() as usize - self.line.as_ptr() as usize + 1;
        let shown: String = text.chars().take(SHOWN).collect();
        let Error::Content { file, line, problem } = self.broken(wanted) else { return self.broken(wanted) };
        let problem = match places == 0 && self.words().count() == 1 {
            true => problem,
            false => format!("{problem}: {shown:?} in column {column}"),
        };
        Error::Content { file, line, problem }
    }
}

/// Entries as the file lists them.
struct Entries {
    place: Vec<(u32, u32)>,
    value: Vec<f64>,
    /// Imaginary parts of a complex matrix.
    imaginary: Option<Vec<f64>>,
}

impl Entries {
    /// Allocates capacity; `None` if there is no memory.
    fn with_room(nonzeros: usize, field: Field) -> Option<Self> {
        fn room<T>(nonzeros: usize) -> Option<Vec<T>> {
            let mut values = Vec::new();
            values.try_reserve_exact(nonzeros).ok()?;
            Some(values)
        }
        let imaginary = if field == Field::Complex { Some(room(nonzeros)?) } else { None };
        Some(Entries { place: room(nonzeros)?, value: room(nonzeros)?, imaginary })
    }

    fn push(&mut self, i: u32, j: u32, re: f64, im: f64) {
        self.place.push((i, j));
        self.value.push(re);
        if let Some(imaginary) = &mut self.imaginary {
            imaginary.push(im);
        }
    }

    /// Passes on every entry of the real matrix, including those that the file omits.
    fn each(&self, symmetry: Symmetry, mut nonzero: impl FnMut(u32, u32, f64)) {
        for (at, (&place, &re)) in self.place.iter().zip(&self.value).enumerate() {
            let im = self.imaginary.as_ref().map_or(0.0, |imaginary| imaginary[at]);
            spread(self.imaginary.is_some(), symmetry, place, (re, im), &mut nonzero);
        }
    }
}

/// Returns the real and imaginary part of an entry.
fn value<'l>(words: &mut impl Iterator<Item = &'l [u8]>, field: Field) -> Option<(f64, f64)> {
    let mut part = || words.next().and_then(|word| number(word, field));
    Some(match field {
        Field::Pattern => (1.0, 0.0),
        Field::Complex => (part()?, part()?),
        Field::Real | Field::Integer | Field::Unsigned => (part()?, 0.0),
    })
}

fn whole(word: &[u8]) -> Option<usize> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn wanted_value(field: Field) -> &'static str {
    match field {
        Field::Integer => "a whole number",
        Field::Unsigned => "a whole number of 0 or more",
        Field::Complex => "two finite numbers",
        Field::Real | Field::Pattern => "a finite number",
    }
}

/// Parses a finite number; Fortran writes its exponents with a D.
fn number(word: &[u8], field: Field) -> Option<f64> {
    let text = std::str::from_utf8(word).ok()?;
    let value: f64 = match field {
        Field::Integer => text.parse::<i64>().ok()? as f64,
        Field::Unsigned => text.parse::<u64>().ok()? as f64,
        _ => match text.parse() {
            Ok(value) => value,
            Err(_) => text.replace(['d', 'D'], "e").parse().ok()?,
        },
    };
    Some(value).filter(|value| value.is_finite())
}
