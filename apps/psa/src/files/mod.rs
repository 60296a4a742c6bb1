//! Bases, fields and events in files.
//!
//! | module | what it holds |
//! |---|---|
//! | [`arrays`] | arrays of numbers, whatever their type |
//! | [`archives`] | several arrays in one file |
//! | [`basis`] | a basis in a folder of arrays, what `zellige psa simulate` writes |
//! | [`events`] | events in such a folder |
//! | [`fields`] | the fields of a crystal in one |
//! | [`agata`] | records as AGATA keeps its bases |
//! | [`gretina`] | bases of GRETINA |
//! | [`geb`] | frames of GRETINA's event files, from streams and to them |
//!
//! A file appears under its name when it is complete, or not at all. Readers trust no header with an allocation, and errors name the byte.

pub mod agata;
pub mod archives;
pub mod arrays;
pub mod basis;
pub mod events;
pub mod fields;
pub mod geb;
pub mod gretina;

use std::fs::File;
use std::io::{self, BufWriter, Read};
use std::path::Path;

use zellige_files::WriteError;
use zellige_files::array::{self, Array, Number};

use crate::Error;
use crate::channels::Segment;

/// Writes a file through `body` and puts it in place only if everything worked.
///
/// # Errors
/// [`Error::File`]; nothing is left behind.
pub fn write_whole(
    path: &Path,
    body: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<(), Error> {
    zellige_files::write_whole(path, body).map_err(|error| not_written(path, error))
}

pub(crate) fn not_written(path: &Path, error: WriteError) -> Error {
    Error::File { path: path.to_owned(), problem: error.problem, source: error.source }
}

/// Writes an array with these sides; there must be as many values as they hold.
///
/// # Errors
/// [`Error::File`]; nothing is left behind.
pub fn write_array<T: Number>(
    path: &Path,
    sides: &[usize],
    values: impl IntoIterator<Item = T>,
) -> Result<(), Error> {
    array::write(path, sides, values).map_err(|error| not_written(path, error))
}

/// Reads numbers of segments.
///
/// # Errors
/// [`Error::File`], or [`Error::Format`] with the byte of one that does not exist.
pub(crate) fn segments(array: Array) -> Result<Vec<Segment>, Error> {
    let (begin, path) = (array.begin(), array.path().to_owned());
    let segment = |(at, number): (usize, u8)| {
        Segment::from_index(number.into()).ok_or_else(|| Error::Format {
            path: path.clone(),
            offset: Some(begin + at as u64),
            problem: format!("segment {number}: there are 0 to 35"),
        })
    };
    array.values::<u8>()?.into_iter().enumerate().map(segment).collect()
}

/// Makes a folder for results, or takes one that is there; the folder that it lies in must exist.
///
/// # Errors
/// [`Error::File`].
pub fn make_folder(path: &Path) -> Result<(), Error> {
    let cannot = |source| Error::File { path: path.to_owned(), problem: "cannot make the folder", source };
    zellige_files::make_folder(path).map_err(cannot)
}

/// Removes a file that says how complete others are, before those are written anew or when they are; one that is not there is removed already.
pub(crate) fn unseal(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(Error::File { path: path.to_owned(), problem: "cannot replace", source })
        }
        _ => Ok(()),
    }
}

/// Four bytes of a record.
pub(crate) fn word(bytes: &[u8], at: usize) -> [u8; 4] {
    [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]
}

/// Reads until the buffer is full or the file ends; how many bytes came.
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
