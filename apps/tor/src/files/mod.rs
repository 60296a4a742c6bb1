//! Files: FITS and npy, and the order of the slopes in them.
//!
//! Matrices appear in files as Python sees them: `array[i, j]` is entry `(i, j)`, row after row. Every file is written under a
//! temporary name in its own folder and renamed when complete: a reader sees the old file or the new one, never half of one.

pub mod fits;
pub mod npy;
mod order;

pub use order::{SlopeOrder, reorder_columns, reorder_rows};

use crate::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// Writes a file through `body` and puts it in place only if everything worked.
///
/// # Errors
/// The folder does not exist or is not writable, or the disk is full; nothing is left behind.
pub fn write_whole(
    path: &Path,
    body: impl FnOnce(&mut BufWriter<&File>) -> std::io::Result<()>,
) -> Result<(), Error> {
    zellige_files::write_whole(path, body).map_err(|error| Error::io(path, error.problem, error.source))
}
