//! Cleanup for processes that end in the middle of writing: temporary files and empty new folders.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

static UNFINISHED: Mutex<Unfinished> =
    Mutex::new(Unfinished { has_ended: false, files: Vec::new(), folders: Vec::new() });

struct Unfinished {
    has_ended: bool,
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

fn unfinished() -> MutexGuard<'static, Unfinished> {
    // Lists of names are right after every step.
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all files that are being written, and all folders that [`make_folder`] made and that are
/// still empty. No file can be begun afterwards.
///
/// For a process that ends now, from any thread: a concurrent writer either finishes its file or
/// gets an error.
pub fn abandon() {
    let mut unfinished = unfinished();
    unfinished.has_ended = true;
    for file in std::mem::take(&mut unfinished.files) {
        // A file that got its final name in the meantime is complete.
        let _ = std::fs::remove_file(file);
    }
    for folder in std::mem::take(&mut unfinished.folders).iter().rev() {
        // A folder with complete files stays.
        let _ = std::fs::remove_dir(folder);
    }
}

/// Has [`abandon`] remove this file, which its owner gives its name later, until it is
/// [kept](keep).
///
/// # Errors
/// The process is ending.
pub fn remove_if_abandoned(path: &Path) -> io::Result<()> {
    let mut unfinished = unfinished();
    unfinished.may_begin()?;
    unfinished.files.push(path.to_owned());
    Ok(())
}

/// Excludes the file from the cleanup from now on.
pub fn keep(path: &Path) {
    forget(path);
}

/// Creates a folder for results, or uses an existing one. Its parent must exist.
///
/// # Errors
/// The parent does not exist or takes no new entries, or a file has this name.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let mut unfinished = unfinished();
    unfinished.may_begin()?;
    match std::fs::create_dir(path) {
        Ok(()) => unfinished.folders.push(path.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

impl Unfinished {
    fn may_begin(&self) -> io::Result<()> {
        match self.has_ended {
            true => Err(io::Error::new(io::ErrorKind::Interrupted, "the process is ending")),
            false => Ok(()),
        }
    }
}

/// A file under a temporary name, which goes with it.
#[derive(Debug)]
pub(crate) struct Temporary(Option<NamedTempFile>);

impl Temporary {
    pub(crate) fn new(folder: &Path) -> io::Result<Temporary> {
        let mut unfinished = unfinished();
        unfinished.may_begin()?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".zellige-").suffix(".part");
        // Temporary files are private by default; this one becomes the result and shall have
        // ordinary permissions.
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder.tempfile_in(folder)?;
        unfinished.files.push(file.path().to_owned());
        Ok(Temporary(Some(file)))
    }

    pub(crate) fn file(&self) -> &NamedTempFile {
        self.0.as_ref().expect("it goes when it gets its name")
    }

    /// Renames the file to its final name, and replaces an existing file of that name.
    pub(crate) fn persist(mut self, path: &Path) -> io::Result<()> {
        let file = self.0.take().expect("it goes here alone");
        let temporary = file.path().to_owned();
        let persisted = file.persist(path);
        forget(&temporary);
        persisted.map(drop).map_err(|error| error.error)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(file) = self.0.take() {
            forget(file.path());
        }
    }
}

fn forget(file: &Path) {
    unfinished().files.retain(|path| path != file);
}
