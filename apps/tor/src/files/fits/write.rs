//! FITS writer.

use crate::files::write_whole;
use crate::{Error, Matrix};
use std::io::{self, Write};
use std::path::Path;

const BLOCK: usize = 2880;
const LINE: usize = 80;

/// Value of a header card.
#[derive(Debug, Clone, PartialEq)]
pub enum CardValue {
    /// Character string, printable ASCII.
    Text(String),
    /// Whole number.
    Integer(i64),
    /// Real number, finite.
    Real(f64),
    /// `T` or `F`.
    Logical(bool),
}

impl From<&str> for CardValue {
    fn from(v: &str) -> Self {
        CardValue::Text(v.into())
    }
}

impl From<String> for CardValue {
    fn from(v: String) -> Self {
        CardValue::Text(v)
    }
}

impl From<usize> for CardValue {
    fn from(v: usize) -> Self {
        CardValue::Integer(v as i64)
    }
}

impl From<f64> for CardValue {
    fn from(v: f64) -> Self {
        CardValue::Real(v)
    }
}

impl From<bool> for CardValue {
    fn from(v: bool) -> Self {
        CardValue::Logical(v)
    }
}

/// One line of a header.
#[derive(Debug, Clone, PartialEq)]
pub struct Card {
    /// Keyword: up to 8 of `A-Z 0-9 - _`.
    pub key: String,
    /// Value.
    pub value: CardValue,
    /// Comment, truncated at the end of the line.
    pub comment: String,
}

impl Card {
    /// Makes a card.
    pub fn new(key: &str, value: impl Into<CardValue>, comment: &str) -> Self {
        Card { key: key.into(), value: value.into(), comment: comment.into() }
    }

    fn line(&self) -> Result<[u8; LINE], String> {
        let good = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-' || c == '_';
        if self.key.is_empty() || self.key.len() > 8 || !self.key.chars().all(good) {
            return Err(format!("'{}' is not a FITS keyword (1 to 8 of A-Z, 0-9, - and _)", self.key));
        }
        let value = match &self.value {
            CardValue::Logical(v) => format!("{:>20}", if *v { "T" } else { "F" }),
            CardValue::Integer(v) => format!("{v:>20}"),
            CardValue::Real(v) if v.is_finite() => {
                format!("{:>20}", format!("{v:?}").replace('e', "E"))
            }
            CardValue::Real(v) => {
                return Err(format!("{} = {v}: a FITS header cannot hold it", self.key));
            }
            CardValue::Text(v) => format!("'{:<8}'", v.replace('\'', "''")),
        };
        let mut text = format!("{:<8}= {value:<20}", self.key);
        if text.len() > LINE {
            return Err(format!(
                "the value of {} is longer than a FITS card holds (68 characters)",
                self.key
            ));
        }
        if !self.comment.is_empty() && text.len() + 4 < LINE {
            text.push_str(" / ");
            text.push_str(&self.comment);
        }
        if !text.bytes().all(|b| (32..127).contains(&b)) {
            return Err(format!("{} holds a character that is not printable ASCII", self.key));
        }
        let mut line = [b' '; LINE];
        for (slot, byte) in line.iter_mut().zip(text.bytes()) {
            *slot = byte;
        }
        Ok(line)
    }
}

/// Data of one image.
#[derive(Debug, Clone)]
pub enum Pixels<'a> {
    /// No data.
    None,
    /// `float32`; `shape` in NumPy's order (last axis fastest).
    F32 {
        /// Sizes, slowest axis first.
        shape: Vec<usize>,
        /// Values, last axis fastest.
        values: &'a [f32],
    },
    /// `float64`; `shape` in NumPy's order (last axis fastest).
    F64 {
        /// Sizes, slowest axis first.
        shape: Vec<usize>,
        /// Values, last axis fastest.
        values: &'a [f64],
    },
    /// Integers from 0 to 255, `BITPIX` 8; `shape` in NumPy's order.
    U8 {
        /// Sizes, slowest axis first.
        shape: Vec<usize>,
        /// Values, last axis fastest.
        values: &'a [u8],
    },
    /// Integers of 16 bits; `shape` in NumPy's order.
    I16 {
        /// Sizes, slowest axis first.
        shape: Vec<usize>,
        /// Values, last axis fastest.
        values: &'a [i16],
    },
    /// Integers of 32 bits; `shape` in NumPy's order.
    I32 {
        /// Sizes, slowest axis first.
        shape: Vec<usize>,
        /// Values, last axis fastest.
        values: &'a [i32],
    },
    /// A matrix, written as `float64`.
    Matrix(&'a Matrix),
    /// A matrix, written as `float32`.
    MatrixF32(&'a Matrix),
    /// A column-major matrix in single precision, written as `float32` without a copy.
    ColumnsF32 {
        /// Number of rows.
        rows: usize,
        /// Number of columns.
        cols: usize,
        /// Values, column by column.
        values: &'a [f32],
    },
}

impl Pixels<'_> {
    fn shape(&self) -> Vec<usize> {
        match self {
            Pixels::None => Vec::new(),
            Pixels::F32 { shape, .. }
            | Pixels::F64 { shape, .. }
            | Pixels::U8 { shape, .. }
            | Pixels::I16 { shape, .. }
            | Pixels::I32 { shape, .. } => shape.clone(),
            Pixels::Matrix(m) | Pixels::MatrixF32(m) => vec![m.rows(), m.cols()],
            Pixels::ColumnsF32 { rows, cols, .. } => vec![*rows, *cols],
        }
    }

    fn len(&self) -> usize {
        match self {
            Pixels::None => 0,
            Pixels::F32 { values, .. } | Pixels::ColumnsF32 { values, .. } => values.len(),
            Pixels::F64 { values, .. } => values.len(),
            Pixels::U8 { values, .. } => values.len(),
            Pixels::I16 { values, .. } => values.len(),
            Pixels::I32 { values, .. } => values.len(),
            Pixels::Matrix(m) | Pixels::MatrixF32(m) => m.data().len(),
        }
    }

    /// Returns the value and the comment of `BITPIX`.
    fn bits(&self) -> (i64, &'static str) {
        match self {
            Pixels::U8 { .. } => (8, "unsigned integers"),
            Pixels::I16 { .. } => (16, "integers"),
            Pixels::I32 { .. } => (32, "integers"),
            Pixels::F64 { .. } | Pixels::Matrix(_) => (-64, "IEEE floating point"),
            Pixels::None | Pixels::F32 { .. } | Pixels::MatrixF32(_) | Pixels::ColumnsF32 { .. } => {
                (-32, "IEEE floating point")
            }
        }
    }

    fn width(&self) -> usize {
        self.bits().0.unsigned_abs() as usize / 8
    }

    fn put(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Pixels::None => Ok(()),
            Pixels::F32 { values, .. } => values.iter().try_for_each(|v| out.write_all(&v.to_be_bytes())),
            Pixels::F64 { values, .. } => values.iter().try_for_each(|v| out.write_all(&v.to_be_bytes())),
            Pixels::U8 { values, .. } => out.write_all(values),
            Pixels::I16 { values, .. } => values.iter().try_for_each(|v| out.write_all(&v.to_be_bytes())),
            Pixels::I32 { values, .. } => values.iter().try_for_each(|v| out.write_all(&v.to_be_bytes())),
            Pixels::Matrix(m) => by_rows(m.rows(), m.data(), out, |v| v.to_be_bytes()),
            Pixels::MatrixF32(m) => by_rows(m.rows(), m.data(), out, |v| (v as f32).to_be_bytes()),
            Pixels::ColumnsF32 { rows, values, .. } => by_rows(*rows, values, out, |v| v.to_be_bytes()),
        }
    }
}

/// Number of rows transposed at a time: a cache line of every column.
const TURN: usize = 16;

/// Writes column-major values in row-major order.
fn by_rows<T: Copy, const W: usize>(
    rows: usize,
    values: &[T],
    out: &mut impl Write,
    bytes: impl Fn(T) -> [u8; W],
) -> io::Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    let row_bytes = values.len() / rows * W;
    let mut turned = vec![0u8; row_bytes * TURN.min(rows)];
    for first in (0..rows).step_by(TURN) {
        let count = TURN.min(rows - first);
        for (j, column) in values.chunks_exact(rows).enumerate() {
            for (i, value) in column[first..first + count].iter().enumerate() {
                turned[i * row_bytes + j * W..][..W].copy_from_slice(&bytes(*value));
            }
        }
        out.write_all(&turned[..row_bytes * count])?;
    }
    Ok(())
}

/// One image of a file.
#[derive(Debug, Clone)]
pub struct Hdu<'a> {
    /// `EXTNAME`.
    pub name: String,
    /// Data.
    pub pixels: Pixels<'a>,
    /// Meaning of each axis, slowest first: the comments of `NAXISn`. Further axes have no comment.
    pub axes: &'static [&'static str],
    /// Further cards.
    pub cards: Vec<Card>,
}

/// Values of a column of a table.
#[derive(Debug, Clone)]
pub enum Column {
    /// `int32`.
    Integer(Vec<i32>),
    /// `float64`; NaN for a missing value.
    Real(Vec<f64>),
    /// ASCII of a fixed width.
    Text(Vec<String>),
    /// Lists of `float64` without a value, one in each row.
    NoLists(usize),
}

impl Column {
    fn len(&self) -> usize {
        match self {
            Column::Integer(values) => values.len(),
            Column::Real(values) => values.len(),
            Column::Text(values) => values.len(),
            Column::NoLists(rows) => *rows,
        }
    }

    /// Returns the size of a value in bytes.
    fn width(&self) -> usize {
        match self {
            Column::Integer(_) => 4,
            Column::Real(_) => 8,
            Column::Text(values) => values.iter().map(String::len).max().unwrap_or(1).max(1),
            // Length and offset in the heap.
            Column::NoLists(_) => 16,
        }
    }

    fn put(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Column::Integer(values) => out.extend(values[row].to_be_bytes()),
            Column::Real(values) => out.extend(values[row].to_be_bytes()),
            Column::Text(values) => {
                let end = out.len() + self.width();
                out.extend(values[row].bytes());
                out.resize(end, b' ');
            }
            Column::NoLists(_) => out.extend([0; 16]),
        }
    }
}

/// A binary table: name, unit and values of each column.
#[derive(Debug, Clone)]
pub struct BinaryTable {
    /// `EXTNAME`.
    pub name: &'static str,
    /// Columns: name, unit (empty if there is none), values.
    pub columns: Vec<(&'static str, &'static str, Column)>,
    /// Further cards.
    pub cards: Vec<Card>,
}

impl BinaryTable {
    fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, _, column)| column.len())
    }

    fn header(&self) -> Result<Vec<u8>, String> {
        if self.columns.is_empty() || self.columns.iter().any(|(_, _, column)| column.len() != self.rows()) {
            return Err("columns of different lengths, or none".into());
        }
        let width: usize = self.columns.iter().map(|(_, _, column)| column.width()).sum();
        let mut cards = vec![
            Card::new("XTENSION", "BINTABLE", "binary table"),
            Card::new("BITPIX", 8usize, ""),
            Card::new("NAXIS", 2usize, "dimensions"),
            Card::new("NAXIS1", width, "bytes of a row"),
            Card::new("NAXIS2", self.rows(), "rows"),
            Card::new("PCOUNT", 0usize, ""),
            Card::new("GCOUNT", 1usize, ""),
            Card::new("TFIELDS", self.columns.len(), "columns"),
            Card::new("EXTNAME", self.name, ""),
        ];
        for (k, (name, unit, column)) in self.columns.iter().enumerate() {
            let form = match column {
                Column::Integer(_) => "J".to_owned(),
                Column::Real(_) => "D".to_owned(),
                Column::Text(_) => format!("{}A", column.width()),
                Column::NoLists(_) => "QD(0)".to_owned(),
            };
            cards.push(Card::new(&format!("TTYPE{}", k + 1), *name, ""));
            cards.push(Card::new(&format!("TFORM{}", k + 1), form, ""));
            if !unit.is_empty() {
                cards.push(Card::new(&format!("TUNIT{}", k + 1), *unit, ""));
            }
        }
        lines(cards.iter().chain(&self.cards))
    }

    fn put(&self, out: &mut impl Write) -> io::Result<usize> {
        let mut bytes = Vec::new();
        for row in 0..self.rows() {
            self.columns.iter().for_each(|(_, _, column)| column.put(row, &mut bytes));
        }
        out.write_all(&bytes)?;
        Ok(bytes.len())
    }
}

/// Writes a FITS file. The first image is the primary HDU, the others are image extensions, and
/// tables follow them.
///
/// # Errors
/// No image, a shape that does not match its data, a card that FITS cannot hold, or a file that
/// cannot be written. No partial file remains.
pub fn write(path: &Path, hdus: &[Hdu<'_>], tables: &[BinaryTable]) -> Result<(), Error> {
    if hdus.is_empty() {
        return Err(Error::content(path, "a FITS file needs at least one image"));
    }
    let more = hdus.len() + tables.len() > 1;
    let wrong = |name: &str, e: String| Error::content(path, format!("HDU {name}: {e}"));
    let images: Result<Vec<Vec<u8>>, Error> = hdus
        .iter()
        .enumerate()
        .map(|(k, hdu)| header(hdu, k == 0, more).map_err(|e| wrong(&hdu.name, e)))
        .collect();
    let heads: Result<Vec<Vec<u8>>, Error> =
        tables.iter().map(|table| table.header().map_err(|e| wrong(table.name, e))).collect();
    let (images, heads) = (images?, heads?);
    write_whole(path, |out| {
        for (header, hdu) in images.iter().zip(hdus) {
            out.write_all(header)?;
            hdu.pixels.put(out)?;
            fill(out, hdu.pixels.len() * hdu.pixels.width())?;
        }
        for (header, table) in heads.iter().zip(tables) {
            out.write_all(header)?;
            let written = table.put(out)?;
            fill(out, written)?;
        }
        Ok(())
    })
}

/// Writes zeros up to the end of a block.
fn fill(out: &mut impl Write, written: usize) -> io::Result<()> {
    out.write_all(&vec![0; written.next_multiple_of(BLOCK) - written])
}

fn header(hdu: &Hdu<'_>, primary: bool, more: bool) -> Result<Vec<u8>, String> {
    let shape = hdu.pixels.shape();
    let is_empty = matches!(hdu.pixels, Pixels::None);
    let count = if is_empty { Some(0) } else { shape.iter().try_fold(1usize, |p, &n| p.checked_mul(n)) };
    if shape.is_empty() != is_empty || shape.len() > 9 || count != Some(hdu.pixels.len()) {
        return Err(format!("shape {shape:?} does not match {} values", hdu.pixels.len()));
    }
    let mut cards = Vec::new();
    if primary {
        cards.push(Card::new("SIMPLE", true, "FITS standard 4.0"));
    } else {
        cards.push(Card::new("XTENSION", "IMAGE", "image extension"));
    }
    let (bits, comment) = hdu.pixels.bits();
    cards.push(Card { key: "BITPIX".into(), value: CardValue::Integer(bits), comment: comment.into() });
    cards.push(Card::new("NAXIS", shape.len(), "dimensions"));
    for (k, size) in shape.iter().rev().enumerate() {
        let counted = shape.len().checked_sub(k + 1).and_then(|axis| hdu.axes.get(axis)).unwrap_or(&"");
        cards.push(Card::new(&format!("NAXIS{}", k + 1), *size, counted));
    }
    if !primary {
        cards.push(Card::new("PCOUNT", 0usize, ""));
        cards.push(Card::new("GCOUNT", 1usize, ""));
    } else if more {
        cards.push(Card::new("EXTEND", true, "extensions follow"));
    }
    if !hdu.name.is_empty() {
        cards.push(Card::new("EXTNAME", hdu.name.as_str(), ""));
    }
    lines(cards.iter().chain(&hdu.cards))
}

/// Returns a header of cards.
fn lines<'c>(cards: impl Iterator<Item = &'c Card>) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for card in cards {
        out.extend_from_slice(&card.line()?);
    }
    out.extend_from_slice(b"END");
    out.resize(out.len().next_multiple_of(BLOCK), b' ');
    Ok(out)
}
