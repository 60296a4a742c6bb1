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
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes a file through `body` and puts it in place only if everything worked.
///
/// # Errors
/// The folder does not exist or is not writable, or the disk is full; nothing is left behind.
pub fn write_whole(
    path: &Path,
    body: impl FnOnce(&mut BufWriter<&File>) -> std::io::Result<()>,
) -> Result<(), Error> {
    let folder = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    if path.file_name().is_none() {
        return Err(Error::content(path, "not the name of a file"));
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".zellige-").suffix(".part");
    // Temporary files are private by default; this one becomes the result and shall have ordinary permissions.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let temporary =
        builder.tempfile_in(folder).map_err(|e| Error::io(path, "cannot write into the folder", e))?;
    let mut writer = BufWriter::with_capacity(1 << 20, temporary.as_file());
    body(&mut writer).and_then(|()| writer.flush()).map_err(|e| Error::io(path, "cannot write", e))?;
    drop(writer);
    temporary.as_file().sync_all().map_err(|e| Error::io(path, "cannot write", e))?;
    temporary.persist(path).map_err(|e| Error::io(path, "cannot put the finished file in place", e.error))?;
    Ok(())
}
