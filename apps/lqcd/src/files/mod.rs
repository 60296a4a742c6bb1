//! Gauge fields, quark fields and eigenvectors in files.
//!
//! | module | format |
//! | --- | --- |
//! | [`milc`] | MILC, version 5: reader and writer |
//! | [`nersc`] | NERSC archive, two or three rows of each matrix: reader |
//! | [`lime`] | SciDAC and ILDG, records in a LIME container, also with packed links: reader and writer |
//! | [`quarks`] | SciDAC's quark fields, which `lqcd invert` writes, also packed: reader and writer |
//! | [`modes`] | eigenvectors, which `lqcd eigen` writes: reader and writer |
//! | [`openqcd`] | openQCD's exported configurations: reader |
//! | [`mod@array`] | NumPy's npy, arrays of links as PyQUDA has them in memory, or in the order of ILDG: reader |
//!
//! [`read`] recognises them by their first bytes, [`write`](write()) selects one by the name's
//! ending. MILC, NERSC and LIME files store sites with `x` fastest, then `y`, `z` and `t`, and for
//! each site a matrix for each direction, row by row. A reader refuses a wrong checksum, links that
//! are not in SU(3), truncated data, and data in another byte order than the header says. It
//! allocates no memory before it knows that the file is as long as its header says. Then it needs
//! twice to three times the bytes of the file (npy in complex64, of a shape that allows several
//! orders: six times; packed quark fields: their numbers in float64).

pub mod array;
pub mod lime;
mod links;
pub mod milc;
pub mod modes;
pub mod nersc;
pub mod openqcd;
pub mod quarks;
mod unread;

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use zellige_kernels::sites::{MatrixFormat, MatrixNumber};

use crate::dslash::phase;
use crate::error::Error;
use crate::gauge::Gauge;
use crate::geometry::T;
use crate::smear::Smeared;
use crate::su3::scale;

pub use links::TOLERANCE;

/// Byte order of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// Returns the opposite order.
    #[must_use]
    pub fn other(self) -> ByteOrder {
        if self == ByteOrder::Little { ByteOrder::Big } else { ByteOrder::Little }
    }

    /// Returns the name used in results.
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

/// A gauge field with the metadata of its file.
#[derive(Clone, Debug)]
pub struct Lattice {
    /// Stored links, in SU(3) to the accuracy of the file.
    pub gauge: Gauge,
    /// Format: `milc`, `nersc`, `scidac`, `ildg`, `openqcd` or `npy`.
    pub format: &'static str,
    /// Byte order of the data.
    pub byte_order: ByteOrder,
    /// Number of bits of a number: 32 or 64; 16 to 64 in packed links.
    pub precision: u32,
    /// Storage format of packed links, for other than whole matrices in floating point.
    pub packed: Option<MatrixFormat>,
    /// Checksum of the file, which its data match; `None` if the file has none.
    pub checksum: Option<String>,
    /// Description in the file: a date, names, parameters.
    pub description: String,
}

/// Reads a file in any of the formats.
///
/// # Errors
/// [`Error::File`] for a file that cannot be read, or for one that violates its
/// format.
pub fn read(path: &Path) -> Result<Lattice, Error> {
    let mut source = FieldFile::open(path)?;
    let first = source.array::<4>("a gauge field")?;
    let milc = [ByteOrder::Little, ByteOrder::Big].into_iter().find(|order| order.u32(first) == milc::MAGIC);
    match (&first, milc) {
        (_, Some(order)) => milc::read(source, order),
        (b"BEGI", _) => nersc::read(source),
        (b"\x93NUM", _) => array::read(source),
        _ if u32::from_be_bytes(first) == lime::MAGIC => lime::read(source, false),
        _ => match openqcd::header(&mut source)? {
            Some(header) => openqcd::read(source, header),
            None => Err(unread::refuse(source)),
        },
    }
}

/// Reads smeared links in the form that MILC writes them: SciDAC files of the one-hop and of the
/// three-hop links, which contain the phases of the staggered operator and the sign of an
/// antiperiodic boundary.
///
/// # Errors
/// [`Error::File`] for files that cannot be read or violate their format;
/// [`Error::Parameter`] for files of different lattices.
pub fn read_smeared(fat: &Path, long: &Path) -> Result<Smeared, Error> {
    let read = |path: &Path, hops: usize| {
        let mut source = FieldFile::open(path)?;
        if u32::from_be_bytes(source.array("smeared links")?) != lime::MAGIC {
            return Err(source.wrong_all("not a SciDAC file: smeared links are read from SciDAC files"));
        }
        let stored = lime::read(source, true)?.gauge;
        let geometry = stored.geometry();
        let last = geometry.extents()[T];
        Ok(Gauge::from_fn(geometry, |site, mu| {
            let at = geometry.coordinates(site);
            let crosses = mu == T && at[T] + hops >= last;
            let sign = if crosses { -phase(at, mu) } else { phase(at, mu) };
            scale(sign, stored.link(site, mu))
        }))
    };
    let (fat, long) = (read(fat, 1)?, read(long, 3)?);
    if fat.geometry() != long.geometry() {
        let [one, three] = [&fat, &long].map(|field| field.geometry().extents());
        let problem = format!("a lattice of {three:?} sites, but the one-hop links have {one:?}");
        return Err(Error::parameter("long", problem));
    }
    Ok(Smeared { fat, long: Some(long), unitarised: None, by_svd: 0 })
}

/// Writes a gauge field by the ending of the name. Files in `.ildg` have the format of ILDG, in
/// float64 unless `format` is another one that ILDG has. Those in `.lime` may also be packed in any
/// format. Others are MILC's, in float32. `description` is a text for the file.
///
/// # Errors
/// [`Error::Parameter`] for a format that such a file does not have; [`Error::File`] if the file
/// cannot be written; it then keeps its old content.
pub fn write(
    path: &Path,
    gauge: &Gauge,
    description: &str,
    format: Option<MatrixFormat>,
) -> Result<(), Error> {
    let ends = |known: &str| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case(known));
    let lime = format.unwrap_or(MatrixFormat::full(MatrixNumber::Fp64));
    let single = MatrixFormat::full(MatrixNumber::Fp32);
    match (ends("lime"), ends("ildg")) {
        (true, _) => lime::write(path, gauge, description, lime),
        (_, true) if lime::is_ildg(lime) => lime::write(path, gauge, description, lime),
        (false, false) if format.is_none_or(|format| format == single) => {
            milc::write(path, gauge, description, ByteOrder::Little)
        }
        (_, is_ildg) => {
            let kind = if is_ildg { "ILDG files have fp64 or fp32" } else { "MILC files have fp32" };
            let problem = format!("{kind}, not {lime}: packed links are for names that end in .lime");
            Err(Error::parameter("links", problem))
        }
    }
}

/// A file that is being read, and the current offset.
struct FieldFile {
    path: PathBuf,
    stream: BufReader<File>,
    length: u64,
    offset: u64,
}

impl FieldFile {
    fn open(path: &Path) -> Result<FieldFile, Error> {
        let open = || {
            let file = File::open(path)?;
            let about = file.metadata()?;
            Ok((file, about))
        };
        let (file, about) = open().map_err(|error| Error::system(path, "cannot be read", error))?;
        if !about.is_file() {
            return Err(Error::content(path, None, "not a regular file: fields are read from regular files"));
        }
        let stream = BufReader::with_capacity(1 << 18, file);
        Ok(FieldFile { path: path.to_owned(), stream, length: about.len(), offset: 0 })
    }

    /// Returns an error at the current offset.
    fn wrong(&self, problem: impl Into<String>) -> Error {
        Error::content(&self.path, Some(self.offset), problem)
    }

    /// Returns an error that concerns the whole file.
    fn wrong_all(&self, problem: impl Into<String>) -> Error {
        Error::content(&self.path, None, problem)
    }

    /// Returns the number of unread bytes.
    fn left(&self) -> u64 {
        self.length.saturating_sub(self.offset)
    }

    /// Fills a buffer; `wanted` names its content in errors.
    fn fill(&mut self, bytes: &mut [u8], wanted: &str) -> Result<(), Error> {
        if self.left() < bytes.len() as u64 {
            return Err(Error::content(
                &self.path,
                Some(self.length),
                format!("the file ends within {wanted}: it is truncated, or has another format"),
            ));
        }
        let read = self.stream.read_exact(bytes);
        read.map_err(|error| Error::system(&self.path, "cannot be read", error))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn array<const N: usize>(&mut self, wanted: &str) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, wanted)?;
        Ok(bytes)
    }

    /// Reads `count` bytes, if the file has as many.
    fn bytes(&mut self, count: usize, wanted: &str) -> Result<Vec<u8>, Error> {
        if self.left() < count as u64 {
            return Err(
                self.wrong(format!("the file ends within {wanted}: it is truncated, or has another format"))
            );
        }
        let mut bytes = vec![0; count];
        self.fill(&mut bytes, wanted)?;
        Ok(bytes)
    }

    /// Seeks to an offset.
    fn back_to(&mut self, offset: u64) -> Result<(), Error> {
        let moved = self.stream.seek(SeekFrom::Start(offset));
        moved.map_err(|error| Error::system(&self.path, "cannot be read", error))?;
        self.offset = offset;
        Ok(())
    }

    /// Returns the first bytes of the file, `most` at most. Afterwards the source is at the
    /// beginning.
    fn beginning(&mut self, most: usize) -> Result<Vec<u8>, Error> {
        self.back_to(0)?;
        let bytes = self.bytes(self.left().min(most as u64) as usize, "the file")?;
        self.back_to(0)?;
        Ok(bytes)
    }

    /// Skips bytes.
    fn skip(&mut self, count: u64) -> Result<(), Error> {
        let step = i64::try_from(count.min(self.left())).unwrap_or(i64::MAX);
        let moved = self.stream.seek_relative(step);
        moved.map_err(|error| Error::system(&self.path, "cannot be read", error))?;
        self.offset += step as u64;
        Ok(())
    }

    /// Refuses a file with another length than its header says.
    fn expect_left(&self, wanted: u64, of: &str) -> Result<(), Error> {
        let left = self.left();
        if left < wanted {
            let problem = format!("{left} bytes of links, but {of} has {wanted}: the file is truncated");
            return Err(self.wrong(problem));
        }
        if left > wanted {
            return Err(self.wrong(format!(
                "{left} bytes of links, but {of} has {wanted}: it has another format, or another lattice"
            )));
        }
        Ok(())
    }
}

/// Returns the printable characters of a header's text.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words: Vec<&str> =
        text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}
