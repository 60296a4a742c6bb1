//! Files of bases, fields and events.
//!
//! | module | content |
//! |---|---|
//! | [`arrays`] | arrays of numbers of any type |
//! | [`archives`] | several arrays in one file |
//! | [`basis`] | a basis in a folder of arrays, the format of `zellige psa simulate` |
//! | [`events`] | events in a folder of arrays |
//! | [`fields`] | the fields of a crystal in a folder of arrays |
//! | [`record`] | a basis in records of one size |
//! | [`gretina`] | bases of GRETINA |
//! | [`geb`] | frames of GRETINA's event files, read from and written to streams |
//!
//! A file appears under its name when it is complete, or not at all. Readers do not allocate memory
//! by sizes in headers alone, and errors name the byte.

pub mod archives;
pub mod arrays;
pub mod basis;
pub mod events;
pub mod fields;
pub mod geb;
pub mod gretina;
pub mod record;

use std::fs::File;
use std::io::{self, BufWriter, Read};
use std::path::Path;

use zellige_files::WriteError;
use zellige_files::array::{self, Array, Number, is_array};

use crate::Error;
use crate::basis::Basis;
use crate::channels::{SEGMENTS, Segment};
use crate::consistency::check_basis;

/// Reads the basis of a crystal: a folder of [`basis`], an archive (npz) or HDF5 file of
/// [`archives`], a file of [`gretina`] or of [`record`].
///
/// # Errors
/// Those of the reader of the format. [`Error::File`] for a file of another format, with its name
/// if it is one of AGATA's, or if [`check_basis`] fails.
pub fn read_basis(path: &Path) -> Result<Basis, Error> {
    let basis = read_any(path)?;
    let wrong = |problem| Error::content(path, None, problem);
    check_basis(&basis).map_err(wrong).map(|()| basis)
}

fn read_any(path: &Path) -> Result<Basis, Error> {
    if path.is_dir() {
        return basis::read(path).map(|(basis, _)| basis);
    }
    refuse_foreign(path)?;
    if is_array(path) && !path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy")) {
        return archives::read_basis(path);
    }
    let cannot = |source| Error::system(path, "cannot read the basis", source);
    let mut file = File::open(path).map_err(cannot)?;
    let size = file.metadata().map_err(cannot)?.len();
    let mut begin = [0; gretina::MAGIC.len()];
    let read = fill(&mut file, &mut begin).map_err(cannot)?;
    if begin[..read] == *gretina::MAGIC {
        return gretina::read(path).map(|(basis, _)| basis);
    }
    if size > 0 && size.is_multiple_of(record::RECORD as u64) {
        return record::read(path);
    }
    let problem = "not a known format of a basis: use a folder of `psa simulate`, an archive (.npz) or HDF5 file with signals, positions, segments and sampling, \
                   a basis of GRETINA, or zellige records";
    Err(Error::content(path, Some(0), problem))
}

/// Refuses files of other programs: those of AGATA with an unpublished layout, by their names, and
/// ROOT files, by their first bytes.
///
/// # Errors
/// [`Error::File`] for such a file, with its format and a way to convert it.
pub fn refuse_foreign(path: &Path) -> Result<(), Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    // Long files of both kinds are numbered: .adf.0003.
    let what = if name.ends_with(".adf") || name.contains(".adf.") {
        "an ADF file of AGATA"
    } else if name.contains("mezz") && (name.contains(".cdat") || name.contains(".bdat")) {
        "mezzanine data of AGATA"
    } else if begins_with(path, b"root") {
        "a ROOT file"
    } else {
        return Ok(());
    };
    let problem = format!(
        "{what}, which is not supported: export its traces (in keV, events x 37 x samples, 36 segments and the core) with numpy.save or numpy.savez; \
         docs/how-to/agata-bases.md has a program that does so for ROOT trees"
    );
    Err(Error::content(path, None, problem))
}

fn begins_with(path: &Path, magic: &[u8]) -> bool {
    let mut begin = vec![0; magic.len()];
    path.is_file()
        && File::open(path).and_then(|mut file| fill(&mut file, &mut begin)).is_ok()
        && begin == magic
}

/// Writes a file through `body` and puts it in place only if everything succeeded.
///
/// # Errors
/// [`Error::File`]; no partial file remains.
pub fn write_whole(
    path: &Path,
    body: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<(), Error> {
    zellige_files::write_whole(path, body).map_err(|error| not_written(path, error))
}

pub(crate) fn not_written(path: &Path, error: WriteError) -> Error {
    Error::system(path, error.problem, error.source)
}

/// Writes an array with these extents; `values` must have as many elements.
///
/// # Errors
/// [`Error::File`]; no partial file remains.
pub fn write_array<T: Number>(
    path: &Path,
    sides: &[usize],
    values: impl IntoIterator<Item = T>,
) -> Result<(), Error> {
    array::write(path, sides, values).map_err(|error| not_written(path, error))
}

/// Reads numbers of segments from numbers of any type.
///
/// # Errors
/// [`Error::File`], with the byte of a segment that does not exist.
pub(crate) fn segments(array: Array) -> Result<Vec<Segment>, Error> {
    let (begin, path) = (array.begin(), array.path().to_owned());
    let width = array.kind().get(1..).and_then(|width| width.parse().ok()).unwrap_or(1u64);
    let numbers = array.reals()?;
    let from_one = || numbers.iter().all(|&number| (1.0..=SEGMENTS as f64).contains(&number));
    let segment = |(at, &number): (usize, &f64)| {
        let segment = (number >= 0.0 && number.fract() == 0.0).then_some(number as usize);
        segment.and_then(Segment::from_index).ok_or_else(|| {
            let remedy = if from_one() { ", these are counted from 1: subtract 1" } else { "" };
            let offset = Some(begin + width * at as u64);
            let problem = format!("segment {number}: there are 0 to 35{remedy}");
            Error::content(&path, offset, problem)
        })
    };
    numbers.iter().enumerate().map(segment).collect()
}

/// Creates a folder for results, or accepts an existing one; its parent folder must exist.
///
/// # Errors
/// [`Error::File`] if this fails.
pub fn make_folder(path: &Path) -> Result<(), Error> {
    let cannot = |source| Error::system(path, "cannot create the folder", source);
    zellige_files::make_folder(path).map_err(cannot)
}

/// Removes the file that marks others as complete, before these are written anew. A missing file is
/// no error.
pub(crate) fn unseal(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(Error::system(path, "cannot replace", source))
        }
        _ => Ok(()),
    }
}

/// Returns four bytes of a record.
pub(crate) fn word(bytes: &[u8], at: usize) -> [u8; 4] {
    [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]
}

/// Reads until the buffer is full or the file ends; returns the number of bytes.
pub(crate) fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}
