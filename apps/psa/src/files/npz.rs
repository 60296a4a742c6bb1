//! Arrays in NumPy's npz format: npy files in one archive (zip), stored or deflated.
//!
//! Wherever an npy file is read, `FILE.npz/NAME` is the array `NAME` of an archive, and `FILE.npz` the only one that it has. Bases and events have the arrays that
//! their folders have as files: `signals`, `positions`, `segments`, and for events `energies` and `timestamps`. What is in an archive says nothing of sampling and
//! origin, so that it takes the place of single arrays, not of a folder.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read};
use std::path::Path;

use npyz::{AutoSerialize, Serialize};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::{npy, write_whole};
use crate::Error;
use crate::basis::Basis;
use crate::channels::CHANNELS;
use crate::events::Events;

/// What deflating makes of a byte at most.
const MOST_RATIO: u64 = 1032;

/// An array of an archive.
pub(super) struct Member {
    /// Its bytes, or the first of them.
    pub(super) bytes: Vec<u8>,
    /// How many it has.
    pub(super) length: u64,
}

/// The first `most` bytes of the array that a path names, if it names one in an archive.
pub(super) fn member(path: &Path, most: u64) -> Option<Result<Member, Error>> {
    let is_archive = |path: &Path| path.extension().is_some_and(|end| end == "npz") && path.is_file();
    match path.parent() {
        _ if is_archive(path) => Some(read(path, path, None, most)),
        Some(archive) if is_archive(archive) => Some(read(path, archive, path.file_name()?.to_str(), most)),
        _ => None,
    }
}

fn read(path: &Path, archive: &Path, name: Option<&str>, most: u64) -> Result<Member, Error> {
    let cannot = |source| Error::File { path: path.to_owned(), problem: "cannot read the archive", source };
    let wrong = |offset, problem| Error::Format { path: path.to_owned(), offset, problem };
    let file = File::open(archive).map_err(cannot)?;
    let size = file.metadata().map_err(cannot)?.len();
    let no_archive = |e: zip::result::ZipError| wrong(Some(0), format!("no npz file: {e}"));
    let mut zip = ZipArchive::new(BufReader::new(file)).map_err(no_archive)?;
    let names =
        zip.file_names().flatten().map(|name| name.trim_end_matches(".npy").to_owned()).collect::<Vec<_>>();
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
struct Writer<'a, 'f>(ZipWriter<&'a mut BufWriter<&'f File>>);

impl Writer<'_, '_> {
    fn put<T: Serialize + AutoSerialize + Copy>(
        &mut self,
        name: &str,
        sides: &[usize],
        values: impl IntoIterator<Item = T>,
    ) -> io::Result<()> {
        let options =
            SimpleFileOptions::default().compression_method(CompressionMethod::Deflated).large_file(true);
        self.0.start_file(format!("{name}.npy"), options)?;
        let sides: Vec<u64> = sides.iter().map(|&side| side as u64).collect();
        // Elements come one by one.
        let mut out = BufWriter::with_capacity(1 << 16, &mut self.0);
        npy::put(&mut out, &sides, values)?;
        io::Write::flush(&mut out)
    }
}

fn write(path: &Path, body: impl FnOnce(&mut Writer<'_, '_>) -> io::Result<()>) -> Result<(), Error> {
    write_whole(path, |out| {
        let mut archive = Writer(ZipWriter::new(out));
        body(&mut archive)?;
        archive.0.finish()?;
        Ok(())
    })
}

fn positions(places: &[[f32; 3]]) -> impl Iterator<Item = f32> {
    places.iter().flatten().copied()
}

/// Writes the arrays of a basis: `signals` (points x 37 x samples), `positions` (mm, points x 3), `segments` (0 to 35, points).
///
/// # Errors
/// [`Error::File`]; nothing is left behind.
pub fn write_basis(path: &Path, basis: &Basis) -> Result<(), Error> {
    let points = basis.positions().len();
    write(path, |archive| {
        archive.put("positions", &[points, 3], positions(basis.positions()))?;
        archive.put("segments", &[points], basis.segments().iter().map(|segment| segment.index() as u8))?;
        let sides = [points, CHANNELS, basis.sampling().samples];
        archive.put("signals", &sides, basis.values().iter().copied())
    })
}

/// Writes the arrays of events: `signals` (keV, events x 37 x samples), `energies` (keV), `positions` (mm) and `segments` by event and hit, `timestamps` (ns).
///
/// # Errors
/// [`Error::File`]; nothing is left behind.
pub fn write_events(path: &Path, events: &Events) -> Result<(), Error> {
    let (count, hits) = (events.count(), events.hits);
    write(path, |archive| {
        archive.put("energies", &[count, hits], events.energies.iter().copied())?;
        archive.put("positions", &[count, hits, 3], positions(&events.positions))?;
        let segments = events.segments.iter().map(|segment| segment.index() as u8);
        archive.put("segments", &[count, hits], segments)?;
        archive.put("timestamps", &[count], events.timestamps.iter().copied())?;
        let sides = [count, CHANNELS, events.sampling.samples];
        archive.put("signals", &sides, events.signals.iter().copied())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only what has the right shape is unpacked: an archive may hold a thousand times its bytes.
    #[test]
    fn values_are_read_after_the_shape_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.npz");
        let mut zip = ZipWriter::new(File::create(&path).expect("a file"));
        let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        zip.start_file("a.npy", stored).expect("an entry");
        npy::put(&mut zip, &[3000, 2], vec![1.5f32; 6000]).expect("written");
        zip.finish().expect("written");
        let open = || npy::Array::open(&path, &["<f4"], 2).expect("its header is whole");
        assert_eq!(open().sides(), [3000, 2]);
        assert_eq!(open().values::<f32>(&path).expect("whole"), vec![1.5; 6000]);
        let mut bytes = std::fs::read(&path).expect("there");
        bytes[20_000] ^= 1;
        std::fs::write(&path, bytes).expect("written");
        assert!(npy::Array::open(&path, &["<f4"], 3).is_err_and(|e| e.to_string().contains("3 sides")));
        assert!(open().values::<f32>(&path).expect_err("damaged").to_string().contains("damaged"));
    }
}
