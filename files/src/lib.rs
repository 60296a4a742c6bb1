//! Atomic writing of files, arrays of numbers in files, memory plans, and observers of long-running
//! work.
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

pub mod array;
pub mod foreign;
pub mod memory;
pub mod observe;
mod temporary;

pub use temporary::{abandon, keep, make_folder, remove_if_abandoned};

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use temporary::Temporary;

/// A file that could not be read or written, or does not hold what its format promises.
#[derive(Debug)]
pub enum FileError {
    /// An error of the system.
    System {
        /// The file.
        path: PathBuf,
        /// Description of the action that failed.
        problem: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The content is not as its format requires.
    Content {
        /// The file.
        path: PathBuf,
        /// Offset in the file (bytes); none for problems of the whole file.
        offset: Option<u64>,
        /// Description of the problem and of its remedy.
        problem: String,
    },
}

impl FileError {
    /// Creates an error of the system; `problem` is the action that failed.
    pub fn system(path: &Path, problem: &'static str, source: io::Error) -> Self {
        FileError::System { path: path.to_owned(), problem, source }
    }

    /// Creates an error about the content of a file, at an offset (bytes) or of the whole file.
    pub fn content(path: &Path, offset: Option<u64>, problem: impl Into<String>) -> Self {
        FileError::Content { path: path.to_owned(), offset, problem: problem.into() }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::System { path, problem, source } => {
                write!(f, "{}: {problem}: {source}", path.display())
            }
            FileError::Content { path, offset, problem } => {
                let offset = offset.map(|offset| format!(", byte {offset}")).unwrap_or_default();
                write!(f, "{}{offset}: {problem}", path.display())
            }
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FileError::System { source, .. } => Some(source),
            FileError::Content { .. } => None,
        }
    }
}

/// A file that could not be written. A file of that name is unchanged.
#[derive(Debug)]
pub struct WriteError {
    /// Description of the action that failed.
    pub problem: &'static str,
    /// The system's error.
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

fn refused(why: impl Into<String>) -> WriteError {
    WriteError { problem: "cannot write", source: io::Error::new(io::ErrorKind::InvalidInput, why.into()) }
}

fn because(problem: &'static str) -> impl Fn(io::Error) -> WriteError {
    move |source| WriteError { problem, source }
}

/// Path to which a file is written. Links are followed, so that a link survives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    path: PathBuf,
    is_regular: bool,
}

/// Largest number of links that Linux follows.
const MOST_LINKS: usize = 40;

impl Destination {
    /// Resolves the links of a path to a file that exists or will be written.
    ///
    /// # Errors
    /// The path is a folder or no possible name of a file, or its links form a cycle.
    pub fn new(path: &Path) -> Result<Destination, WriteError> {
        let mut path = path.to_owned();
        let is_regular = match path.metadata() {
            Ok(found) if found.is_dir() => return Err(refused("this is a folder; name a file in it")),
            Ok(found) => found.is_file() && !is_descriptor(&path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(source) => return Err(WriteError { problem: "cannot be written", source }),
        };
        for _ in 0..if is_regular { MOST_LINKS } else { 0 } {
            let Ok(target) = path.read_link() else { break };
            path = folder_of(&path).join(target);
        }
        if path.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(refused("not the name of a file"));
        }
        Ok(Destination { path, is_regular })
    }

    /// Returns the path after all links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// False for devices and pipes, which are written to and never replaced.
    pub fn is_regular(&self) -> bool {
        self.is_regular
    }

    /// Checks that the file can be written now, without writing.
    ///
    /// # Errors
    /// The folder does not exist, or no files can be created in it.
    pub fn check(&self) -> Result<(), WriteError> {
        if self.is_regular {
            self.beside()?;
        }
        Ok(())
    }

    /// A file in the same folder, with the permissions of the one that it will replace.
    fn beside(&self) -> Result<Temporary, WriteError> {
        let folder = folder_of(&self.path);
        if !folder.is_dir() {
            return Err(refused(format!("there is no folder {}: create it first", folder.display())));
        }
        let temporary = Temporary::new(folder).map_err(because("cannot write into the folder"))?;
        if let Ok(found) = self.path.metadata() {
            let kept = temporary.file().as_file().set_permissions(found.permissions());
            kept.map_err(because("cannot keep the file's permissions"))?;
        }
        Ok(temporary)
    }

    fn write(&self, body: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>) -> Result<(), WriteError> {
        let fill = |file: &File| {
            let mut writer = BufWriter::with_capacity(1 << 20, file);
            body(&mut writer).and_then(|()| writer.flush()).map_err(because("cannot write"))
        };
        if self.is_regular {
            let temporary = self.beside()?;
            fill(temporary.file().as_file())?;
            put_in_place(temporary, &self.path)
        } else {
            fill(&File::options().append(true).open(&self.path).map_err(because("cannot open for writing"))?)
        }
    }
}

/// Reads a file of at most `most` bytes. No more are read, so that an endless device is refused,
/// too.
///
/// # Errors
/// The system's; [`io::ErrorKind::InvalidData`] for a longer file.
pub fn read_bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let is_known_longer = file.metadata()?.is_file() && file.metadata()?.len() > most;
    let mut bytes = Vec::new();
    if !is_known_longer {
        file.take(most + 1).read_to_end(&mut bytes)?;
    }
    match is_known_longer || bytes.len() as u64 > most {
        true => Err(io::Error::new(io::ErrorKind::InvalidData, format!("longer than {most} bytes"))),
        false => Ok(bytes),
    }
}

/// Reads a text file of at most `most` bytes.
///
/// # Errors
/// The errors of [`read_bytes`]; [`io::ErrorKind::InvalidData`] for bytes that are no UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let text = String::from_utf8(read_bytes(path, most)?);
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("no text: {error}")))
}

/// Returns true if a path is that of an open file that its owner keeps using: a replaced file would
/// be lost.
fn is_descriptor(path: &Path) -> bool {
    let streams = ["/dev/stdin", "/dev/stdout", "/dev/stderr"].map(Path::new);
    path.starts_with("/dev/fd") || path.starts_with("/proc") || streams.contains(&path)
}

/// Returns the folder of a file.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Writes a file through `body` and puts it in place only if everything worked. A replaced file
/// keeps its permissions, and a link stays. For a device or a pipe the bytes are written directly.
///
/// # Errors
/// The folder does not exist or is not writable, or the disk is full; the errors of `body`. Then
/// nothing is written.
pub fn write_whole(
    path: &Path,
    body: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<(), WriteError> {
    Destination::new(path)?.write(body)
}

/// Writes a file like [`write_whole`], for a `body` that opens files by their names: it receives
/// the path to write to, an existing empty file.
///
/// # Errors
/// The errors of [`write_whole`]; a device or a pipe.
pub fn write_whole_by_name(
    path: &Path,
    body: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), WriteError> {
    let to = Destination::new(path)?;
    if !to.is_regular {
        return Err(refused("this format needs a file, not a stream or a device"));
    }
    let temporary = to.beside()?;
    body(temporary.file().path()).map_err(because("cannot write"))?;
    put_in_place(temporary, &to.path)
}

fn put_in_place(temporary: Temporary, path: &Path) -> Result<(), WriteError> {
    temporary.file().as_file().sync_all().map_err(because("cannot write"))?;
    temporary.persist(path).map_err(because("cannot put the finished file in place"))
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
        assert!(missing.to_string().contains("there is no folder"), "{missing}");
        let is_folder = write_whole(Path::new("/"), |_| Ok(())).expect_err("a folder");
        assert!(is_folder.to_string().contains("this is a folder"), "{is_folder}");
        let no_name = write_whole(&folder.path().join("x/"), |_| Ok(())).expect_err("no name");
        assert!(no_name.to_string().contains("not the name of a file"), "{no_name}");
    }

    #[test]
    fn files_are_read_up_to_a_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("f");
        std::fs::write(&path, "\u{e4}b").expect("written");
        assert_eq!(read_text(&path, 3).expect("three bytes"), "\u{e4}b");
        for (most, what) in [(2, "longer than 2 bytes"), (0, "longer than 0 bytes")] {
            assert_eq!(read_text(&path, most).expect_err("longer").to_string(), what);
        }
        std::fs::write(&path, b"\xff").expect("written");
        assert!(read_text(&path, 3).expect_err("no text").to_string().contains("no text"));
        assert_eq!(read_bytes(&path, 3).expect("bytes"), b"\xff");
    }

    #[cfg(unix)]
    #[test]
    fn permissions_and_links_are_kept() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "old").expect("written");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("permissions");
        symlink("file", &link).expect("a link");
        write_whole(&link, |out| out.write_all(b"new")).expect("written");
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&file).expect("there"), b"new");
        assert_eq!(file.metadata().expect("there").permissions().mode() & 0o777, 0o640);
        // A dangling link names its target; a link to itself is refused.
        let (dangling, circle) = (folder.path().join("dangling"), folder.path().join("circle"));
        symlink(folder.path().join("later"), &dangling).expect("a link");
        symlink(&circle, &circle).expect("a link");
        write_whole(&dangling, |out| out.write_all(b"later")).expect("written");
        assert!(dangling.is_symlink());
        assert_eq!(std::fs::read(folder.path().join("later")).expect("there"), b"later");
        write_whole(&circle, |_| Ok(())).expect_err("a circle");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_and_pipes_are_written_to() {
        use std::os::unix::fs::FileTypeExt;
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
        assert!(made.success());
        let reader = {
            let pipe = pipe.clone();
            std::thread::spawn(move || std::fs::read(pipe))
        };
        write_whole(&pipe, |out| out.write_all(b"through")).expect("written");
        assert_eq!(reader.join().expect("no panic").expect("read"), b"through");
        assert!(pipe.metadata().expect("there").file_type().is_fifo());
        // The names that a shell uses for the end of a pipe and for a file that it has opened.
        use std::os::fd::AsRawFd;
        let (mut read, write) = io::pipe().expect("a pipe");
        let end = format!("/dev/fd/{}", write.as_raw_fd());
        write_whole(Path::new(&end), |out| out.write_all(b"through")).expect("written");
        drop(write);
        let mut text = String::new();
        read.read_to_string(&mut text).expect("text");
        let open = File::create(folder.path().join("open")).expect("a file");
        let end = format!("/dev/fd/{}", open.as_raw_fd());
        write_whole(Path::new(&end), |out| out.write_all(b"into it")).expect("written");
        assert_eq!((&*text, open.metadata().expect("open").len()), ("through", 7));
        let full = write_whole(Path::new("/dev/full"), |out| out.write_all(b"x")).expect_err("full");
        assert_eq!(full.source.kind(), io::ErrorKind::StorageFull);
        let endless = read_bytes(Path::new("/dev/zero"), 1000).expect_err("it has no end");
        assert_eq!(endless.kind(), io::ErrorKind::InvalidData);
        assert!(Path::new("/dev/full").metadata().expect("there").file_type().is_char_device());
        write_whole_by_name(Path::new("/dev/null"), |_| Ok(())).expect_err("no file");
    }
}
