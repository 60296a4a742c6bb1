//! Gauge fields in files.
//!
//! | module | format |
//! | --- | --- |
//! | [`milc`] | MILC, version 5: reader and writer |
//! | [`nersc`] | NERSC archive, two or three rows of each matrix: reader |
//! | [`lime`] | SciDAC and ILDG, records in a LIME container: reader, and writer of ILDG |
//! | [`openqcd`] | openQCD's exported configurations: reader |
//! | [`mod@array`] | NumPy's npy, arrays of links as PyQUDA has them in memory, or in the order of ILDG: reader |
//!
//! [`read`] knows them by their first bytes, [`write`](write()) chooses by the name's ending. MILC,
//! NERSC and LIME files store sites with `x` fastest, then `y`, `z` and `t`, and for each site a
//! matrix for each direction, row by row. A reader refuses a wrong checksum, links that are not in
//! SU(3), data that end too early or are in another byte order than the header says; it takes no
//! memory before it knows that the file is as long as its header says, and then twice to three
//! times the bytes of the file (npy in complex64, of a shape that allows several orders: six
//! times).

pub mod array;
pub mod lime;
mod links;
pub mod milc;
pub mod nersc;
pub mod openqcd;
mod unread;

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::gauge::Gauge;

pub use links::TOLERANCE;

/// The order of the bytes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The least significant first.
    Little,
    /// The most significant first.
    Big,
}

impl ByteOrder {
    /// The other one.
    #[must_use]
    pub fn other(self) -> ByteOrder {
        if self == ByteOrder::Little { ByteOrder::Big } else { ByteOrder::Little }
    }

    /// As results name it.
    pub const fn name(self) -> &'static str {
        match self {
            ByteOrder::Little => "little",
            ByteOrder::Big => "big",
        }
    }

    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        }
    }

    fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            ByteOrder::Little => u64::from_le_bytes(bytes),
            ByteOrder::Big => u64::from_be_bytes(bytes),
        }
    }
}

/// A gauge field, and what its file says of it.
#[derive(Clone, Debug)]
pub struct Lattice {
    /// The links as they are stored: in SU(3) to the accuracy of the file.
    pub gauge: Gauge,
    /// The format: `milc`, `nersc`, `scidac`, `ildg`, `openqcd` or `npy`.
    pub format: &'static str,
    /// The order of bytes.
    pub byte_order: ByteOrder,
    /// Bits of a number: 32 or 64.
    pub precision: u32,
    /// The checksum that the file names, and that its data have; none where it names none.
    pub checksum: Option<String>,
    /// What the file says about itself: a date, names, parameters.
    pub description: String,
}

/// Reads a file in any of the formats.
///
/// # Errors
/// [`Error::File`] for one that cannot be read, [`Error::Format`] for one that does not hold what
/// its format promises.
pub fn read(path: &Path) -> Result<Lattice, Error> {
    let mut source = Source::open(path)?;
    let first = source.array::<4>("a gauge field")?;
    let milc = [ByteOrder::Little, ByteOrder::Big].into_iter().find(|order| order.u32(first) == milc::MAGIC);
    match (&first, milc) {
        (_, Some(order)) => milc::read(source, order),
        (b"BEGI", _) => nersc::read(source),
        (b"\x93NUM", _) => array::read(source),
        _ if u32::from_be_bytes(first) == lime::MAGIC => lime::read(source),
        _ => match openqcd::header(&mut source)? {
            Some(header) => openqcd::read(source, header),
            None => Err(unread::refuse(source)),
        },
    }
}

/// Writes a gauge field: ILDG in float64 where the name ends in `.ildg` or `.lime`, MILC in float32
/// otherwise. `description` is what the file says of it.
///
/// # Errors
/// [`Error::File`] where the file cannot be written; there is then what was there before.
pub fn write(path: &Path, gauge: &Gauge, description: &str) -> Result<(), Error> {
    let is_ildg =
        |ending: &std::ffi::OsStr| ["ildg", "lime"].iter().any(|known| ending.eq_ignore_ascii_case(known));
    match path.extension().is_some_and(is_ildg) {
        true => lime::write(path, gauge, description),
        false => milc::write(path, gauge, description, ByteOrder::Little),
    }
}

/// A file that is being read, and how much of it has been.
struct Source {
    path: PathBuf,
    stream: BufReader<File>,
    length: u64,
    offset: u64,
}

impl Source {
    fn open(path: &Path) -> Result<Source, Error> {
        let open = || {
            let file = File::open(path)?;
            let about = file.metadata()?;
            Ok((file, about))
        };
        let (file, about) = open().map_err(|error| Error::file(path, "cannot be read", error))?;
        if !about.is_file() {
            return Err(Error::format(path, None, "not a file: gauge fields are read from regular files"));
        }
        let stream = BufReader::with_capacity(1 << 18, file);
        Ok(Source { path: path.to_owned(), stream, length: about.len(), offset: 0 })
    }

    /// An error at the present place.
    fn wrong(&self, problem: impl Into<String>) -> Error {
        Error::format(&self.path, Some(self.offset), problem)
    }

    /// An error of the whole file.
    fn wrong_all(&self, problem: impl Into<String>) -> Error {
        Error::format(&self.path, None, problem)
    }

    /// Bytes that have not been read.
    fn left(&self) -> u64 {
        self.length.saturating_sub(self.offset)
    }

    /// Fills a buffer with what is `wanted`.
    fn fill(&mut self, bytes: &mut [u8], wanted: &str) -> Result<(), Error> {
        if self.left() < bytes.len() as u64 {
            return Err(Error::format(
                &self.path,
                Some(self.length),
                format!("the file ends within {wanted}: it is truncated, or something else"),
            ));
        }
        let read = self.stream.read_exact(bytes);
        read.map_err(|error| Error::file(&self.path, "cannot be read", error))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn array<const N: usize>(&mut self, wanted: &str) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, wanted)?;
        Ok(bytes)
    }

    /// So many bytes, which are there.
    fn bytes(&mut self, count: usize, wanted: &str) -> Result<Vec<u8>, Error> {
        if self.left() < count as u64 {
            return Err(
                self.wrong(format!("the file ends within {wanted}: it is truncated, or something else"))
            );
        }
        let mut bytes = vec![0; count];
        self.fill(&mut bytes, wanted)?;
        Ok(bytes)
    }

    /// Goes back to a place.
    fn back_to(&mut self, offset: u64) -> Result<(), Error> {
        let moved = self.stream.seek(SeekFrom::Start(offset));
        moved.map_err(|error| Error::file(&self.path, "cannot be read", error))?;
        self.offset = offset;
        Ok(())
    }

    /// As many of the first bytes as there are, `most` at most; the source is at the beginning
    /// afterwards.
    fn beginning(&mut self, most: usize) -> Result<Vec<u8>, Error> {
        self.back_to(0)?;
        let bytes = self.bytes(self.left().min(most as u64) as usize, "the file")?;
        self.back_to(0)?;
        Ok(bytes)
    }

    /// Leaves bytes out.
    fn skip(&mut self, count: u64) -> Result<(), Error> {
        let step = i64::try_from(count.min(self.left())).unwrap_or(i64::MAX);
        let moved = self.stream.seek_relative(step);
        moved.map_err(|error| Error::file(&self.path, "cannot be read", error))?;
        self.offset += step as u64;
        Ok(())
    }

    /// Refuses a file that has another length than its header says.
    fn expect_left(&self, wanted: u64, of: &str) -> Result<(), Error> {
        let left = self.left();
        if left < wanted {
            let problem = format!("{left} bytes of links, where {of} has {wanted}: the file is truncated");
            return Err(self.wrong(problem));
        }
        if left > wanted {
            return Err(self.wrong(format!(
                "{left} bytes of links, where {of} has {wanted}: not this format, or another lattice"
            )));
        }
        Ok(())
    }
}

/// Text of a header for people: printable characters only.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words: Vec<&str> =
        text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}
