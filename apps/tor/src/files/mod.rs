//! Files: FITS and npy, and the order of the slopes in them.
//!
//! Matrices in files have NumPy's layout: `array[i, j]` is entry `(i, j)`, in row-major order.
//! Every file is written under a temporary name in its own folder and renamed when complete. A
//! reader sees the old file or the new one, but no partial file.

pub mod fits;
pub mod npy;
mod order;

pub use order::{SlopeOrder, reorder_columns, reorder_rows};

use crate::Error;
use crate::params::{CellMap, MAX_FILE};
use std::fs::File;
use std::io::{BufWriter, Read};
use std::path::Path;
use zellige_files::array::is_array;

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
        let cannot = |e| Error::io(path, "cannot read the map", e);
        let (mut text, file) = (String::new(), File::open(path).map_err(cannot)?);
        file.take(MAX_FILE).read_to_string(&mut text).map_err(cannot)?;
        map_of_text(&text)
    };
    map.map_err(|problem| Error::content(path, problem))
}

fn rows_of(matrix: &crate::Matrix) -> Result<CellMap, String> {
    if matrix.rows() > crate::params::MAX_NSSP + 1 {
        return Err(format!("{} rows: this is not a map of sub-apertures", matrix.rows()));
    }
    let row = |i: usize| (0..matrix.cols()).map(|j| matrix[(i, j)]).collect();
    CellMap::from_numbers(&(0..matrix.rows()).map(row).collect::<Vec<Vec<f64>>>())
}

/// Parses a map with lines of 0 and 1, separated by blanks, by commas or not at all.
pub(crate) fn map_of_text(text: &str) -> Result<CellMap, String> {
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

/// Writes a file through `body`, and puts it in place only after success.
///
/// # Errors
/// The folder does not exist or is not writable, or the disk is full. No partial file remains.
pub fn write_whole(
    path: &Path,
    body: impl FnOnce(&mut BufWriter<&File>) -> std::io::Result<()>,
) -> Result<(), Error> {
    zellige_files::write_whole(path, body).map_err(|error| Error::io(path, error.problem, error.source))
}
