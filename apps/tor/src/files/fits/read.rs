//! FITS reader.

use crate::{Error, Matrix};
use fitsrs::card::Value;
use fitsrs::hdu::header::extension::image::Image as ImageHeader;
use fitsrs::{Fits, HDU, Pixels};
use std::fs::File;
use std::io::BufReader;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Value of a keyword that was read.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyValue {
    /// Character string without trailing blanks.
    Text(String),
    /// Whole number.
    Integer(i64),
    /// Real number.
    Real(f64),
    /// `T` or `F`.
    Logical(bool),
}

/// An image and its keywords.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// `EXTNAME`, if there is one.
    pub name: Option<String>,
    /// Sizes in NumPy's order, slowest axis first.
    pub shape: Vec<usize>,
    /// Values as float64, last axis fastest, `BSCALE` and `BZERO` applied.
    pub values: Vec<f64>,
    /// Keywords with a value, in order.
    pub keys: Vec<(String, KeyValue)>,
}

impl Image {
    /// Returns the value of a keyword.
    pub fn key(&self, name: &str) -> Option<&KeyValue> {
        self.keys.iter().find(|(k, _)| k == name).map(|(_, v)| v)
    }

    /// Returns the value of a numeric keyword.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.key(name)? {
            KeyValue::Integer(v) => Some(*v as f64),
            KeyValue::Real(v) => Some(*v),
            _ => None,
        }
    }

    /// Returns the value of a text keyword.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.key(name)? {
            KeyValue::Text(v) => Some(v),
            _ => None,
        }
    }

    /// Converts the image to a matrix with `NAXIS2` rows and `NAXIS1` columns. In control matrices
    /// of AOT, (commands, 2, sub-apertures), a row has all x slopes, then all y slopes.
    ///
    /// # Errors
    /// An image that is not two-dimensional; the message names `path`.
    pub fn into_matrix(self, path: &Path) -> Result<Matrix, Error> {
        let (rows, cols) = match self.shape[..] {
            [rows, 2, cells] => (rows, 2 * cells),
            [rows, cols] => (rows, cols),
            _ => {
                let problem = format!("an image of shape {:?}; a matrix needs two dimensions", self.shape);
                return Err(Error::content(path, problem));
            }
        };
        Ok(Matrix::from_vec(cols, rows, self.values)?.transposed())
    }
}

/// Returns whether a path names a FITS file by its ending, or an image in one: `FILE.fits/NAME`.
pub fn is_fits(path: &Path) -> bool {
    path.ancestors().any(|path| {
        path.extension().is_some_and(|e| ["fits", "fit"].iter().any(|known| e.eq_ignore_ascii_case(known)))
    })
}

/// Returns whether a path names an image in a FITS file.
pub fn names_image(path: &Path) -> bool {
    file_and_name(path).1.is_some()
}

/// Splits a path into the file and the image that the rest names: `FILE.fits/NAME`, `FILE.fits/2`.
fn file_and_name(path: &Path) -> (&Path, Option<&str>) {
    let inside =
        |file: &Path| path.strip_prefix(file).ok().and_then(Path::to_str).filter(|name| !name.is_empty());
    match path.ancestors().find(|file| file.is_file()) {
        Some(file) => (file, inside(file)),
        None => (path, None),
    }
}

/// Reads one image of a FITS file: the one with this name or number (the primary one is 0). The
/// path may name it as well (`FILE.fits/NAME`). Without a name it is the first image of two
/// dimensions or more, else the first one with data, since some programs begin with a stub.
///
/// # Errors
/// The file cannot be read, is not FITS, is shorter than its header says, or has no such image.
pub fn read(path: &Path, name: Option<&str>) -> Result<Image, Error> {
    let (path, inside) = file_and_name(path);
    match inside.or(name) {
        Some(name) => match open(path, Wanted::Named(name)) {
            Err(missing) => match name.parse() {
                Ok(number) => open(path, Wanted::Number(number)),
                Err(_) => Err(missing),
            },
            found => found,
        },
        None => open(path, Wanted::Matrix),
    }
}

/// Returns whether a FITS file has an image of this name. No data are read.
pub fn has_image(path: &Path, name: &str) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let fits = Fits::from_reader(BufReader::new(file));
    let has_name = |hdu: HDU| match hdu {
        HDU::Primary(image) | HDU::XImage(image) => {
            let is_name = |(key, value): &(String, KeyValue)| {
                key == "EXTNAME" && matches!(value, KeyValue::Text(text) if text == name)
            };
            keys(image.get_header()).iter().any(is_name)
        }
        _ => false,
    };
    // The parser has assertions on headers that a damaged file may violate.
    catch_unwind(AssertUnwindSafe(|| fits.map_while(Result::ok).any(has_name))).unwrap_or(false)
}

/// Image to look for.
#[derive(Clone, Copy)]
enum Wanted<'n> {
    Named(&'n str),
    Number(usize),
    /// First image of two dimensions or more, else the first with data.
    Matrix,
}

fn open(path: &Path, wanted: Wanted<'_>) -> Result<Image, Error> {
    let cannot = |e| Error::system(path, "cannot read the FITS file", e);
    let file = File::open(path).map_err(cannot)?;
    let size = file.metadata().map_err(cannot)?.len();
    let mut fits = Fits::from_reader(BufReader::with_capacity(1 << 20, file));
    // The parser has assertions on headers that a damaged file may violate.
    let guarded = catch_unwind(AssertUnwindSafe(|| scan(path, &mut fits, size, wanted)));
    guarded.unwrap_or_else(|_| Err(Error::content(path, "not a FITS file, or its header is damaged")))
}

/// Reads an image as a matrix: [`read`] and [`Image::into_matrix`].
///
/// # Errors
/// The errors of both functions.
pub fn read_matrix(path: &Path, name: Option<&str>) -> Result<Matrix, Error> {
    read(path, name)?.into_matrix(path)
}

fn scan(
    path: &Path,
    fits: &mut Fits<BufReader<File>>,
    size: u64,
    wanted: Wanted<'_>,
) -> Result<Image, Error> {
    let (mut seen, mut flat) = (Vec::new(), None);
    loop {
        let hdu = match fits.next() {
            None => break,
            Some(Err(_)) if !seen.is_empty() && matches!(wanted, Wanted::Matrix) => break,
            Some(Err(e)) => {
                return Err(Error::content(path, format!("not a FITS file, or its header is damaged: {e}")));
            }
            Some(Ok(hdu)) => hdu,
        };
        let (HDU::Primary(image) | HDU::XImage(image)) = hdu else {
            seen.push("a table".to_owned());
            continue;
        };
        let keys = keys(image.get_header());
        let found = keys.iter().find_map(|(k, v)| match v {
            KeyValue::Text(t) if k == "EXTNAME" => Some(t.clone()),
            _ => None,
        });
        let header: &ImageHeader = image.get_header().get_xtension();
        let axes = header.get_naxis();
        let count = axes.iter().try_fold(1u64, |p, &n| p.checked_mul(n)).filter(|_| !axes.is_empty());
        let width = header.get_bitpix().byte_size() as u64;
        let end = count
            .and_then(|c| c.checked_mul(width))
            .and_then(|b| b.checked_add(image.get_data_unit_byte_offset()));
        if !axes.is_empty() && end.is_none_or(|e| e > size) {
            return Err(Error::content(
                path,
                format!(
                    "the header announces an image of {axes:?} with {width} bytes each, but the file has {size} bytes: it is truncated"
                ),
            ));
        }
        let is_wanted = match wanted {
            Wanted::Named(name) => found.as_deref() == Some(name),
            Wanted::Number(number) => number == seen.len(),
            Wanted::Matrix => axes.len() > 1 && count.is_some_and(|c| c > 0),
        };
        if !is_wanted {
            if count.is_some_and(|c| c > 0) {
                flat.get_or_insert(seen.len());
            }
            seen.push(found.unwrap_or_else(|| format!("an image of {axes:?}")));
            continue;
        }
        let shape: Vec<usize> = axes.iter().rev().map(|&n| n as usize).collect();
        let count = count.unwrap_or(0) as usize;
        let mut values: Vec<f64> = match fits.get_data(&image).pixels() {
            Pixels::U8(v) => v.map(f64::from).collect(),
            Pixels::I16(v) => v.map(f64::from).collect(),
            Pixels::I32(v) => v.map(f64::from).collect(),
            Pixels::I64(v) => v.map(|x| x as f64).collect(),
            Pixels::F32(v) => v.map(f64::from).collect(),
            Pixels::F64(v) => v.collect(),
        };
        if values.len() != count {
            return Err(Error::content(
                path,
                format!("{} of {count} values could be read: the file is truncated", values.len()),
            ));
        }
        let image = Image { name: found, shape, values: Vec::new(), keys };
        let (scale, zero) = (image.number("BSCALE").unwrap_or(1.0), image.number("BZERO").unwrap_or(0.0));
        if (scale, zero) != (1.0, 0.0) {
            for v in &mut values {
                *v = *v * scale + zero;
            }
        }
        return Ok(Image { values, ..image });
    }
    if let (Wanted::Matrix, Some(number)) = (wanted, flat) {
        return open(path, Wanted::Number(number));
    }
    Err(Error::content(
        path,
        match wanted {
            Wanted::Named(name) => format!("no image called {name}; it holds: {}", seen.join(", ")),
            Wanted::Number(number) => format!("no image number {number}; it holds: {}", seen.join(", ")),
            Wanted::Matrix => "no image with data".into(),
        },
    ))
}

fn keys(header: &fitsrs::hdu::header::Header<ImageHeader>) -> Vec<(String, KeyValue)> {
    header
        .iter()
        .filter_map(|(key, value)| {
            let value = match value {
                Value::Integer { value, .. } => KeyValue::Integer(*value),
                Value::Float { value, .. } => KeyValue::Real(*value),
                Value::Logical { value, .. } => KeyValue::Logical(*value),
                Value::String { value, .. } => KeyValue::Text(value.trim_end().to_owned()),
                _ => return None,
            };
            Some((key.to_owned(), value))
        })
        .collect()
}
