//! Files: FITS, npy and npz, and the order of the slopes in them.
//!
//! Matrices in files have NumPy's layout: `array[i, j]` is entry `(i, j)`, in row-major order.
//! Every file is written under a temporary name in its own folder and renamed when complete. A
//! reader sees the old file or the new one, but no partial file.

pub mod fits;
pub mod npy;
mod order;
mod rounded;

pub use order::{SlopeOrder, reorder_columns, reorder_rows};
pub use rounded::RoundedMatrix;

use crate::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// Writes a file through `body`, and puts it in place only after success.
///
/// # Errors
/// The folder does not exist or is not writable, or the disk is full. No partial file remains.
pub fn write_whole(
    path: &Path,
    body: impl FnOnce(&mut BufWriter<&File>) -> std::io::Result<()>,
) -> Result<(), Error> {
    zellige_files::write_whole(path, body).map_err(|error| Error::system(path, error.problem, error.source))
}
