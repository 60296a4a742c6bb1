//! Files that are whole or not there, and npy headers that nobody has to trust.
//!
//! ```
//! use std::io::Write;
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("answer.txt");
//! zellige_files::write_whole(&path, |out| writeln!(out, "42"))?;
//! assert_eq!(std::fs::read_to_string(&path)?, "42\n");
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod npy;

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// A file that could not be written; where it was to be, there is what was there before.
#[derive(Debug)]
pub struct WriteError {
    /// What could not be done, in words.
    pub problem: &'static str,
    /// What the system said.
    pub source: io::Error,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.problem, self.source)
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> io::Error {
        io::Error::new(error.source.kind(), error)
    }
}

fn because(problem: &'static str) -> impl Fn(io::Error) -> WriteError {
    move |source| WriteError { problem, source }
}

/// Writes a file through `body` and puts it in place only if everything worked.
///
/// # Errors
/// The folder does not exist or is not writable, or the disk is full; those of `body`. Nothing is left behind.
pub fn write_whole(
    path: &Path,
    body: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<(), WriteError> {
    let temporary = beside(path)?;
    let mut writer = BufWriter::with_capacity(1 << 20, temporary.as_file());
    body(&mut writer).and_then(|()| writer.flush()).map_err(because("cannot write"))?;
    drop(writer);
    put_in_place(temporary, path)
}

/// The same for a `body` that opens files by their names: it gets the one to write to, which is there and empty.
///
/// # Errors
/// As [`write_whole`].
pub fn write_whole_by_name(
    path: &Path,
    body: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), WriteError> {
    let temporary = beside(path)?;
    body(temporary.path()).map_err(because("cannot write"))?;
    put_in_place(temporary, path)
}

/// A file in the folder of another one.
fn beside(path: &Path) -> Result<NamedTempFile, WriteError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if path.file_name().is_none() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, path.display().to_string());
        return Err(WriteError { problem: "not the name of a file", source });
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".zellige-").suffix(".part");
    // Temporary files are private by default; this one becomes the result and shall have ordinary permissions.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder).map_err(because("cannot write into the folder"))
}

fn put_in_place(temporary: NamedTempFile, path: &Path) -> Result<(), WriteError> {
    temporary.as_file().sync_all().map_err(because("cannot write"))?;
    temporary.persist(path).map_err(|e| because("cannot put the finished file in place")(e.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_or_what_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("f");
        write_whole(&path, |out| out.write_all(b"old")).expect("written");
        let stops = || io::Error::other("stop");
        let error = write_whole(&path, |out| out.write_all(b"half").and_then(|()| Err(stops())))
            .expect_err("stopped");
        assert_eq!(error.to_string(), "cannot write: stop");
        write_whole_by_name(&path, |name| std::fs::write(name, b"half").and_then(|()| Err(stops())))
            .expect_err("stopped");
        assert_eq!(std::fs::read(&path).expect("there"), b"old");
        write_whole_by_name(&path, |name| std::fs::write(name, b"new")).expect("written");
        assert_eq!(std::fs::read(&path).expect("there"), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left behind");
        let missing = write_whole(&folder.path().join("no").join("f"), |_| Ok(())).expect_err("no folder");
        assert_eq!(missing.problem, "cannot write into the folder");
        assert_eq!(
            write_whole(Path::new("/"), |_| Ok(())).expect_err("a folder").problem,
            "not the name of a file"
        );
    }
}
