//! Maps and influence functions in array files.

use super::MAX_FILE;
use super::check::Place;
use crate::files::{fits, npy};
use crate::system::{CellMap, InfluenceFunctions, MAX_NSSP};
use crate::{Error, Matrix};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use zellige_files::array::{Array, is_array};

/// A map of 0 and 1: rows of numbers, or text with one line per row.
#[derive(serde::Deserialize)]
#[serde(untagged)]
pub(super) enum Map {
    Rows(Vec<Vec<f64>>),
    Text(String),
}

impl Map {
    pub(super) fn cells(&self, key: &str, place: &Place) -> Result<CellMap, Error> {
        let cells = match self {
            Map::Rows(rows) => CellMap::from_numbers(rows),
            Map::Text(text) => map_of_text(text),
        };
        cells.map_err(|problem| {
            place.error(key, problem, "give as many rows as columns, of 0 and 1, the lowest y first")
        })
    }
}

/// Reads a map of sub-apertures, 0 and 1 by row (the lowest y first) and column: text with a line
/// per row, FITS (`FILE.fits/NAME`), npy, `FILE.npz/NAME` or `FILE.h5/NAME`.
///
/// # Errors
/// The file cannot be read, or is no such map.
pub fn read_map(path: &Path) -> Result<CellMap, Error> {
    let map = if is_array(path) {
        rows_of(&npy::read_mask(path)?)
    } else if fits::is_fits(path) {
        rows_of(&fits::read_matrix(path, None)?)
    } else {
        let cannot = |e| Error::system(path, "cannot read the map", e);
        let (mut text, file) = (String::new(), File::open(path).map_err(cannot)?);
        file.take(MAX_FILE).read_to_string(&mut text).map_err(cannot)?;
        map_of_text(&text)
    };
    map.map_err(|problem| Error::content(path, problem))
}

fn rows_of(matrix: &Matrix) -> Result<CellMap, String> {
    if matrix.rows() > MAX_NSSP + 1 {
        return Err(format!("{} rows: this is not a map of sub-apertures", matrix.rows()));
    }
    let row = |i: usize| (0..matrix.cols()).map(|j| matrix[(i, j)]).collect();
    CellMap::from_numbers(&(0..matrix.rows()).map(row).collect::<Vec<Vec<f64>>>())
}

/// Parses a map with lines of 0 and 1, separated by blanks, by commas or not at all.
pub(super) fn map_of_text(text: &str) -> Result<CellMap, String> {
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split([' ', '\t', ',', '\r']).filter(|word| !word.is_empty()).collect();
        if words.is_empty() {
            continue;
        }
        let digits: Vec<&str> = match words[..] {
            [whole] if whole.len() > 1 && whole.bytes().all(|b| b == b'0' || b == b'1') => {
                whole.split("").filter(|c| !c.is_empty()).collect()
            }
            _ => words,
        };
        let cell = |word: &str| {
            word.parse::<f64>().map_err(|_| format!("'{word}' in line {} of a map of 0 and 1", number + 1))
        };
        rows.push(digits.into_iter().map(cell).collect::<Result<Vec<f64>, String>>()?);
    }
    CellMap::from_numbers(&rows)
}

/// Reads influence functions, an array of three dimensions (actuators, y, x): FITS, npy,
/// `FILE.npz/NAME` or `FILE.h5/NAME`. Values are in m per volt, in FITS also in um or nm according
/// to `BUNIT`.
///
/// # Errors
/// The file cannot be read, has another shape or unit, or values that
/// [`InfluenceFunctions::new`] refuses.
pub fn read_influence(path: &Path) -> Result<InfluenceFunctions, Error> {
    let (shape, mut values, unit) = if is_array(path) {
        let array = Array::open(path)?.of(&["f4", "f8"], 3)?;
        (array.sides().to_vec(), array.reals()?, 1.0)
    } else {
        let image = fits::read(path, None)?;
        let named = image.text("BUNIT").unwrap_or("m").trim_end_matches("/V").trim().to_owned();
        let unit = match named.as_str() {
            "m" | "" => 1.0,
            "um" | "micron" => 1e-6,
            "nm" => 1e-9,
            other => {
                return Err(Error::content(
                    path,
                    format!("BUNIT = '{other}': influence functions are in m, um or nm per volt"),
                ));
            }
        };
        (image.shape, image.values, unit)
    };
    let [actuators, rows, columns] = shape[..] else {
        return Err(Error::content(
            path,
            format!("an array of shape {shape:?}: influence functions are (actuators, y, x)"),
        ));
    };
    if rows != columns {
        return Err(Error::content(
            path,
            format!("functions of {rows} x {columns} pixels: they must be square, as the pupil's square is"),
        ));
    }
    values.iter_mut().for_each(|v| *v *= unit);
    InfluenceFunctions::new(actuators, rows, values).map_err(|problem| Error::content(path, problem))
}
