//! Where output goes: standard output, which may close at any time, and files, which are whole or absent.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use parking_lot::{Mutex, MutexGuard};
use zellige_tor::files;

use crate::exit::CommandError;

/// Set once nobody reads standard output any more (`zellige ... | head`).
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Held while files are being written; see [`writing`].
static WRITING: Mutex<()> = Mutex::new(());

/// Held while a file is written, so that a signal that ends the process waits for the temporary name to be gone.
pub fn writing() -> MutexGuard<'static, ()> {
    WRITING.lock()
}

/// Prints to standard output. A reader that went away is no failure: work that writes files goes on.
///
/// # Errors
/// Standard output is a full disk, or fails otherwise.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_bytes(text.as_bytes())
}

fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    if CLOSED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
            CLOSED.store(true, Ordering::Relaxed);
            Ok(())
        }
        other => other.context("cannot write to standard output"),
    }
}

/// Whether colours may be used on a stream: only on a terminal, and not where `NO_COLOR` is set or the terminal is dumb.
pub fn colours(stream: &impl IsTerminal) -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|v: std::ffi::OsString| !v.is_empty());
    stream.is_terminal() && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// A file that will be written when the work is done, checked before it starts.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where the content goes: what the user named, with links followed, so that a link survives.
    path: PathBuf,
    /// Standard output (`-`), a device or a pipe: written as it is, since a rename would replace it.
    kind: TargetKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetKind {
    Stdout,
    Special,
    File,
}

impl Target {
    /// Checks that `path` can be written: the folder exists and takes new files, and the name is no folder.
    ///
    /// # Errors
    /// It cannot; the message names option, path and cause.
    pub fn new(option: &'static str, path: &Path) -> anyhow::Result<Target> {
        if path == Path::new("-") {
            return Ok(Target { path: path.to_owned(), kind: TargetKind::Stdout });
        }
        Target::file(path).with_context(|| format!("{option} {}", path.display()))
    }

    /// As [`Target::new`], for formats that need a file: no `-`, no device.
    ///
    /// # Errors
    /// As [`Target::new`].
    pub fn regular(option: &'static str, path: &Path) -> anyhow::Result<Target> {
        let target = Target::new(option, path)?;
        if target.kind != TargetKind::File {
            let problem = format!("{}: this format needs a file, not a stream or a device", path.display());
            return Err(CommandError::option(option, problem).into());
        }
        Ok(target)
    }

    fn file(path: &Path) -> anyhow::Result<Target> {
        let path = match path.canonicalize() {
            Ok(found) => found,
            Err(e) if e.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(e) => return Err(e).context("cannot be written"),
        };
        if let Ok(found) = std::fs::metadata(&path) {
            anyhow::ensure!(!found.is_dir(), "this is a folder; name a file in it");
            if !found.is_file() {
                return Ok(Target { path, kind: TargetKind::Special });
            }
        }
        anyhow::ensure!(path.file_name().is_some(), "not the name of a file");
        let folder = match path.parent() {
            Some(p) if !p.as_os_str().is_empty() => p,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            anyhow::bail!("there is no folder {}: create it first", folder.display());
        }
        let _held = writing();
        tempfile::Builder::new()
            .prefix(".zellige-")
            .suffix(".part")
            .tempfile_in(folder)
            .with_context(|| format!("the folder {} takes no new files", folder.display()))?;
        Ok(Target { path, kind: TargetKind::File })
    }

    /// Where it goes.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True for `-`.
    pub fn is_stdout(&self) -> bool {
        self.kind == TargetKind::Stdout
    }

    /// True for a file that is replaced as a whole: it can be written several times.
    pub fn is_file(&self) -> bool {
        self.kind == TargetKind::File
    }

    /// Writes the whole content through `body`: a file appears under its name when it is complete, or not at all.
    ///
    /// # Errors
    /// The disk is full, the folder was removed, ...
    pub fn write(&self, body: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
        match self.kind {
            TargetKind::Stdout => {
                let mut bytes = Vec::new();
                body(&mut bytes).context("cannot compose the output")?;
                print_bytes(&bytes)
            }
            TargetKind::Special => {
                let _held = writing();
                let doing = || format!("{}: cannot write", self.path.display());
                let file = File::options().write(true).open(&self.path).with_context(doing)?;
                let mut buffered = io::BufWriter::new(file);
                body(&mut buffered).and_then(|()| buffered.flush()).with_context(doing)
            }
            TargetKind::File => {
                let _held = writing();
                Ok(files::write_whole(&self.path, |file| body(file))?)
            }
        }
    }

    /// Writes a value as indented JSON with a line end.
    ///
    /// # Errors
    /// As [`Target::write`].
    pub fn write_json(&self, value: &impl serde::Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec_pretty(value).context("cannot write the result as JSON")?;
        text.push(b'\n');
        self.write(|out| out.write_all(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_found_before_the_work() {
        let folder = tempfile::tempdir().unwrap();
        let missing = Target::new("--json", &folder.path().join("no/such/x.json")).unwrap_err();
        assert!(format!("{missing:#}").contains("there is no folder"), "{missing:#}");
        let is_folder = Target::new("--json", folder.path()).unwrap_err();
        assert!(format!("{is_folder:#}").contains("this is a folder"), "{is_folder:#}");
        assert!(Target::new("--json", &folder.path().join("x.json")).is_ok());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the trial is gone");
    }

    #[test]
    fn a_failed_body_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        std::fs::write(&path, "old").unwrap();
        let target = Target::new("--json", &path).unwrap();
        let failed = target.write(|out| {
            out.write_all(b"half of")?;
            Err(io::Error::other("no more"))
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn links_and_devices_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        Target::new("--json", &link).unwrap().write_json(&[1]).unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&real).unwrap(), "[\n  1\n]\n");
        let null = Target::new("--json", Path::new("/dev/null")).unwrap();
        null.write_json(&[1]).unwrap();
        assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
        assert!(Target::regular("-o", Path::new("/dev/null")).is_err());
    }
}
