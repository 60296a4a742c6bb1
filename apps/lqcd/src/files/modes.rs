//! Eigenvectors of the staggered operator in files.
//!
//! All numbers are little endian.
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | `ZELMODES` |
//! | 4 | version: 1 |
//! | 16 | extents in x, y, z, t |
//! | 4 | CRC-32 of the links in float64 |
//! | 4 | boundary in time: 0 periodic, 1 antiperiodic |
//! | 4 | parity of the sites: 0 even, 1 odd |
//! | 4 | number of vectors |
//! | 48 | action, as text filled with zeros |
//! | 16 | storage format of the vectors, as text filled with zeros |
//! | 8 | upper bound of the eigenvalues of `-D D` |
//! | 8 each | eigenvalues, then residuals |
//! | | the words of each vector, as they are stored |
//! | 4 | CRC-32 of everything before |

use std::io::{self, Write};
use std::path::Path;

use flate2::Crc;
use zellige_kernels::sites::SiteFormat;
use zellige_krylov::{EigenPairs, Executor, MultiVector, Subspace};
use zellige_runtime::Runtime;

use super::FieldFile;
use crate::dslash::Boundary;
use crate::error::Error;
use crate::geometry::{Geometry, Parity};
use crate::modes::{LowModes, ModesOf, storage};
use crate::smear::Action;
use crate::su3::C64;

const MAGIC: [u8; 8] = *b"ZELMODES";
const VERSION: u32 = 1;
/// Bytes of the names.
const ACTION: usize = 48;
const FORMAT: usize = 16;

/// A stream and the checksum of what passed through it.
struct Summed<W> {
    out: W,
    crc: Crc,
}

impl<W: Write> Summed<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc.update(bytes);
        self.out.write_all(bytes)
    }

    fn put_text(&mut self, text: &str, size: usize) -> io::Result<()> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(size, 0);
        self.put(&bytes)
    }
}

/// Writes eigenvectors.
///
/// # Errors
/// [`Error::File`] if the file cannot be written; it then keeps its old content. The errors of
/// tasks.
pub fn write(rt: &Runtime, path: &Path, modes: &LowModes) -> Result<(), Error> {
    let rt: &dyn Executor = rt;
    let mut words: Vec<Vec<f64>> = Vec::new();
    for part in modes.pairs.vectors.vectors().iter().flat_map(MultiVector::parts) {
        rt.look_at_part(part, &mut |part| words.push(part.to_vec()))?;
    }
    let written = zellige_files::write_whole(path, |out| put(out, modes, &words));
    written.map_err(|error| Error::system(path, "cannot be written", error.into()))
}

fn put(out: &mut impl Write, modes: &LowModes, words: &[Vec<f64>]) -> io::Result<()> {
    let LowModes { of, parity, format, pairs } = modes;
    let mut out = Summed { out, crc: Crc::new() };
    out.put(&MAGIC)?;
    let antiperiodic = u32::from(of.boundary == Boundary::Antiperiodic);
    let extents = of.extents.map(|extent| extent as u32);
    let rest = [of.field, antiperiodic, u32::from(*parity == Parity::Odd), pairs.values.len() as u32];
    for word in [VERSION].into_iter().chain(extents).chain(rest) {
        out.put(&word.to_le_bytes())?;
    }
    out.put_text(&of.action, ACTION)?;
    out.put_text(format.name(), FORMAT)?;
    let numbers = [pairs.largest]
        .into_iter()
        .chain(pairs.values.iter().copied())
        .chain(pairs.residuals.iter().copied());
    for number in numbers.chain(words.iter().flatten().copied()) {
        out.put(&number.to_le_bytes())?;
    }
    let sum = out.crc.sum();
    out.out.write_all(&sum.to_le_bytes())
}

/// A file whose bytes are summed while it is read.
struct SummedFile {
    file: FieldFile,
    crc: Crc,
}

impl SummedFile {
    fn bytes(&mut self, count: usize, wanted: &str) -> Result<Vec<u8>, Error> {
        let bytes = self.file.bytes(count, wanted)?;
        self.crc.update(&bytes);
        Ok(bytes)
    }

    fn word(&mut self, wanted: &str) -> Result<u32, Error> {
        let bytes = self.bytes(size_of::<u32>(), wanted)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes")))
    }

    fn numbers(&mut self, count: usize, wanted: &str) -> Result<Vec<f64>, Error> {
        let bytes = self.bytes(count * size_of::<f64>(), wanted)?;
        let each = bytes.chunks_exact(size_of::<f64>());
        Ok(each.map(|one| f64::from_le_bytes(one.try_into().expect("eight bytes"))).collect())
    }
}

/// ModesHeader of a file.
struct ModesHeader {
    of: ModesOf,
    parity: Parity,
    count: usize,
    format: SiteFormat,
}

/// Reads eigenvectors.
///
/// # Errors
/// [`Error::File`] for a file that cannot be read, or does not follow the format; the errors of
/// tasks.
pub fn read(rt: &Runtime, path: &Path) -> Result<LowModes, Error> {
    let mut file = SummedFile { file: FieldFile::open(path)?, crc: Crc::new() };
    let ModesHeader { of, parity, count, format } = header(&mut file)?;
    let space = Geometry::new(of.extents)?.space();
    let sizes: Vec<usize> = space.ranges().map(|rows| storage(format).words(rows.len())).collect();
    // The upper bound and the checksum have 12 bytes.
    let of_vector = 8 * (2 + sizes.iter().sum::<usize>() as u64);
    let wanted = of_vector.saturating_mul(count as u64).saturating_add(12);
    if file.file.left() != wanted {
        let left = file.file.left();
        return Err(file.file.wrong(format!("{left} bytes of eigenvectors, but the header has {wanted}: the file is truncated, or something follows it")));
    }
    let largest = file.numbers(1, "an upper bound")?[0];
    let (values, residuals) = (file.numbers(count, "eigenvalues")?, file.numbers(count, "residuals")?);
    let executor: &dyn Executor = rt;
    let mut vectors = Vec::with_capacity(count);
    for _ in 0..count {
        let v = MultiVector::<C64>::stored(rt, &space, 1, storage(format));
        for (part, size) in v.parts().iter().zip(&sizes) {
            let words = file.numbers(*size, "eigenvectors")?;
            executor.change_part(part, Box::new(move |to| to.copy_from_slice(&words)))?;
        }
        vectors.push(v);
    }
    let sum = file.crc.sum();
    if u32::from_le_bytes(file.file.array("a checksum")?) != sum {
        return Err(file
            .file
            .wrong_all("the checksum differs: the file is damaged, make it again with lqcd eigen"));
    }
    if !(largest > 0.0 && values.iter().chain(&residuals).all(|value| value.is_finite())) {
        return Err(file
            .file
            .wrong_all("an eigenvalue or residual is not finite: make the file again with lqcd eigen"));
    }
    let pairs = EigenPairs {
        values,
        residuals,
        vectors: Subspace::new(vectors)?,
        largest,
        applications: 0,
        restarts: 0,
    };
    Ok(LowModes { of, parity, format, pairs })
}

fn header(file: &mut SummedFile) -> Result<ModesHeader, Error> {
    if file.bytes(MAGIC.len(), "a header")? != MAGIC {
        return Err(file.file.wrong_all("not a file of eigenvectors: lqcd eigen writes them"));
    }
    let version = file.word("a version")?;
    if version != VERSION {
        return Err(file.file.wrong(format!("version {version}: this program reads version {VERSION}")));
    }
    let mut extents = [0; 4];
    for extent in &mut extents {
        *extent = file.word("extents")? as usize;
    }
    let [field, boundary, parity, count] = {
        let mut words = [0; 4];
        for word in &mut words {
            *word = file.word("a header")?;
        }
        words
    };
    let action = text(&file.bytes(ACTION, "an action")?);
    let is_action = action.parse::<Action>().is_ok_and(|parsed| parsed.to_string() == action);
    let format = text(&file.bytes(FORMAT, "a format")?).parse();
    let is_valid = is_action && Geometry::new(extents).is_ok() && boundary < 2 && parity < 2 && count > 0;
    let (Ok(format), true) = (format, is_valid) else {
        let problem = "the header has impossible values: the file is damaged, or of another version";
        return Err(file.file.wrong(problem));
    };
    let boundary = if boundary == 1 { Boundary::Antiperiodic } else { Boundary::Periodic };
    let of = ModesOf { extents, field, action, boundary };
    Ok(ModesHeader { of, parity: Parity::BOTH[parity as usize], count: count as usize, format })
}

/// Returns the text of a field of the header, without the zeros after it.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}
