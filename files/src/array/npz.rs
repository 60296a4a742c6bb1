//! Arrays in NumPy's npz format: npy files in one archive (zip), stored or deflated.
//!
//! `FILE.npz/NAME` is the array `NAME` of an archive, and `FILE.npz` the only one that it has.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use npyz::Order;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::{Number, cannot, is_of_kind, wrong};
use crate::{FileError, WriteError, foreign, write_whole};

/// Largest expansion of a byte by deflating.
const MOST_RATIO: u64 = 1032;

/// An array of an archive.
pub(super) struct Member {
    /// The bytes, or the first of them.
    pub(super) bytes: Vec<u8>,
    /// Number of its bytes.
    pub(super) length: u64,
}

/// The first `most` bytes of the array that a path names, if it names one in an archive.
pub(super) fn member(path: &Path, most: u64) -> Option<Result<Member, FileError>> {
    match path.parent() {
        _ if is_archive(path) => Some(read(path, path, None, most)),
        Some(archive) if is_archive(archive) => Some(read(path, archive, path.file_name()?.to_str(), most)),
        _ => None,
    }
}

/// Returns true if this is an archive by its first bytes, or by the ending `npz` if they are
/// unknown.
pub(super) fn is_archive(path: &Path) -> bool {
    is_of_kind(path, foreign::ZIP, &["npz"])
}

/// Returns the names of the arrays of an archive.
///
/// # Errors
/// [`FileError::System`] if it cannot be read, [`FileError::Content`] if it is no archive of
/// arrays.
pub fn names(archive: &Path) -> Result<Vec<String>, FileError> {
    names_in(archive, &opened(archive, archive)?)
}

fn opened(path: &Path, archive: &Path) -> Result<ZipArchive<BufReader<File>>, FileError> {
    let file = File::open(archive).map_err(cannot(path))?;
    let no_archive = |e: zip::result::ZipError| wrong(path, Some(0), format!("no npz file: {e}"));
    ZipArchive::new(BufReader::new(file)).map_err(no_archive)
}

fn names_in(path: &Path, zip: &ZipArchive<BufReader<File>>) -> Result<Vec<String>, FileError> {
    let all = || zip.file_names().flatten();
    let names: Vec<String> = all().filter_map(|name| name.strip_suffix(".npy").map(str::to_owned)).collect();
    if names.is_empty() && all().next().is_some() {
        let some: Vec<_> = all().take(3).collect();
        let problem = format!(
            "a zip archive without an array of NumPy in it ({}): unpack it with `unzip {}`",
            some.join(", "),
            archive_name(path)
        );
        return Err(wrong(path, None, problem));
    }
    Ok(names)
}

fn archive_name(path: &Path) -> std::path::Display<'_> {
    path.file_name().map_or(path, Path::new).display()
}

fn read(path: &Path, archive: &Path, name: Option<&str>, most: u64) -> Result<Member, FileError> {
    let wrong = |offset, problem: String| wrong(path, offset, problem);
    let mut zip = opened(path, archive)?;
    let size = archive.metadata().map_err(cannot(path))?.len();
    let names = names_in(path, &zip)?;
    let name = match (name, &names[..]) {
        (Some(name), _) => name.to_owned(),
        (None, [name]) => name.clone(),
        (None, _) => {
            let problem = format!("{} arrays ({}): name one as FILE.npz/NAME", names.len(), names.join(", "));
            return Err(wrong(None, problem));
        }
    };
    let missing = |e| wrong(None, format!("no array {name:?} in it, but {}: {e}", names.join(", ")));
    let entry = zip.by_name(&format!("{name}.npy")).map_err(missing)?;
    // A damaged header may place it anywhere.
    let (length, begin) = (entry.size(), entry.data_start().map(|at| at.min(size)));
    if length / MOST_RATIO > size {
        let problem = format!("array {name:?} of {length} bytes, in an archive of {size}");
        return Err(wrong(begin, problem));
    }
    let mut bytes = Vec::new();
    let damaged = |e| wrong(begin, format!("array {name:?} is damaged: {e}"));
    entry.take(most.min(length + 1)).read_to_end(&mut bytes).map_err(damaged)?;
    match bytes.len() as u64 == most.min(length) {
        true => Ok(Member { bytes, length }),
        false => Err(wrong(begin, format!("array {name:?} has not the {length} bytes that are promised"))),
    }
}

/// An archive that is written.
pub struct NpzWriter<'a, 'f>(ZipWriter<&'a mut BufWriter<&'f File>>);

impl NpzWriter<'_, '_> {
    /// Writes an archive through `body` and puts it in place only if everything worked.
    ///
    /// # Errors
    /// Errors of the file; then nothing is written.
    pub fn write(
        path: &Path,
        body: impl FnOnce(&mut NpzWriter<'_, '_>) -> io::Result<()>,
    ) -> Result<(), WriteError> {
        write_whole(path, |out| {
            let mut archive = NpzWriter(ZipWriter::new(out));
            body(&mut archive)?;
            archive.0.finish()?;
            Ok(())
        })
    }

    /// Adds an array with these sides to the archive.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn put<T: Number>(&mut self, name: &str, sides: &[usize], values: &[T]) -> io::Result<()> {
        self.put_by(CompressionMethod::Deflated, name, sides, values)
    }

    /// Adds an array without compression, which is much faster: for numbers that hardly compress.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn put_uncompressed<T: Number>(
        &mut self,
        name: &str,
        sides: &[usize],
        values: &[T],
    ) -> io::Result<()> {
        self.put_by(CompressionMethod::Stored, name, sides, values)
    }

    fn put_by<T: Number>(
        &mut self,
        method: CompressionMethod,
        name: &str,
        sides: &[usize],
        values: &[T],
    ) -> io::Result<()> {
        let options = SimpleFileOptions::default().compression_method(method).large_file(true);
        self.0.start_file(format!("{name}.npy"), options)?;
        // Elements come one by one.
        let mut out = BufWriter::with_capacity(1 << 16, &mut self.0);
        super::put(&mut out, sides, Order::C, values.iter().copied())?;
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::{self, Array};

    /// Checks that only an array of the right shape is unpacked: it may expand to a thousand times
    /// the bytes of the archive.
    #[test]
    fn values_are_read_after_the_shape_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.npz");
        let mut zip = ZipWriter::new(File::create(&path).expect("a file"));
        let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        zip.start_file("a.npy", stored).expect("an entry");
        array::put(&mut zip, &[3000, 2], Order::C, vec![1.5f32; 6000]).expect("written");
        zip.finish().expect("written");
        let open = || Array::open(&path).expect("its header is whole");
        assert_eq!(open().sides(), [3000, 2]);
        assert_eq!(open().values::<f32>().expect("whole"), vec![1.5; 6000]);
        let mut bytes = std::fs::read(&path).expect("there");
        bytes[20_000] ^= 1;
        std::fs::write(&path, bytes).expect("written");
        assert!(open().of(&["f4"], 3).is_err_and(|e| e.to_string().contains("three dimensions")));
        assert!(open().values::<f32>().expect_err("damaged").to_string().contains("damaged"));
    }
}
