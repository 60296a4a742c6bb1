//! Arrays in HDF5 files, where the crate is built with the feature `hdf5` (the library in C is needed then).
//!
//! Wherever an npy file is read, `FILE.h5/NAME` is the data set `NAME` of a file (`FILE.h5/GROUP/NAME`, one of a group), and `FILE.h5` the only one that lies outside groups. As with
//! [`npz`](super::npz) they take the place of single arrays. The library in C was not made for hostile files: damaged ones may end the process.

use std::path::{Path, PathBuf};

use crate::Error;

/// The bytes that an npy file of the array would have, if the path names one in an HDF5 file.
pub(super) fn member(path: &Path) -> Option<Result<Vec<u8>, Error>> {
    let ends = ["h5", "hdf5"].map(Some);
    let is_hdf5 =
        |path: &&Path| path.extension().map(|end| end.to_str()).is_some_and(|end| ends.contains(&end));
    let file = path.ancestors().find(|path| is_hdf5(path) && path.is_file())?;
    let name = path.strip_prefix(file).ok().filter(|name| !name.as_os_str().is_empty());
    Some(read(path, file, name.map(Path::to_owned)))
}

#[cfg(not(feature = "hdf5"))]
fn read(path: &Path, _: &Path, _: Option<PathBuf>) -> Result<Vec<u8>, Error> {
    let problem = "an HDF5 file, and this build cannot read them: build it with the feature `hdf5`, or make an npy file of the array";
    Err(Error::Format { path: path.to_owned(), offset: None, problem: problem.into() })
}

#[cfg(feature = "hdf5")]
use with_library::read;
#[cfg(feature = "hdf5")]
pub use with_library::{write_basis, write_events};

#[cfg(feature = "hdf5")]
mod with_library {
    use std::io;

    use hdf5_metno::types::{FloatSize, IntSize, TypeDescriptor};
    use hdf5_metno::{Dataset, File, H5Type};
    use npyz::{AutoSerialize, Serialize};

    use super::*;
    use crate::basis::Basis;
    use crate::channels::CHANNELS;
    use crate::events::Events;
    use crate::files::{not_written, npy};

    /// What filters of the library make of a byte at most: deflating.
    const MOST_RATIO: u64 = 1032;

    pub(super) fn read(path: &Path, file: &Path, name: Option<PathBuf>) -> Result<Vec<u8>, Error> {
        let wrong = |problem: String| Error::Format { path: path.to_owned(), offset: None, problem };
        let opened = File::open(file).map_err(|e| wrong(format!("no HDF5 file, or a damaged one: {e}")))?;
        let name = match name.as_deref().map(Path::to_str) {
            Some(Some(name)) => name.to_owned(),
            Some(None) => return Err(wrong("a name that is not UTF-8".into())),
            None => only(&opened).map_err(wrong)?,
        };
        let set = opened.dataset(&name).map_err(|e| wrong(format!("no data set {name:?} in it: {e}")))?;
        let size = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
        bytes(&set, size).map_err(|problem| wrong(format!("data set {name:?}: {problem}")))
    }

    /// The only data set outside groups.
    fn only(file: &File) -> Result<String, String> {
        let sets = file.datasets().map_err(|e| e.to_string())?;
        let names: Vec<String> =
            sets.iter().map(|set| set.name().trim_start_matches('/').to_owned()).collect();
        match &names[..] {
            [name] => Ok(name.clone()),
            _ => Err(format!("{} data sets ({}): name one as FILE.h5/NAME", names.len(), names.join(", "))),
        }
    }

    fn bytes(set: &Dataset, size: u64) -> Result<Vec<u8>, String> {
        let (sides, kind) = (set.shape(), set.dtype().and_then(|kind| kind.to_descriptor()));
        let elements = sides.iter().try_fold(1u64, |product, &side| product.checked_mul(side as u64));
        if elements.is_none_or(|elements| elements / MOST_RATIO > size) {
            return Err(format!("{sides:?} elements, in a file of {size} bytes"));
        }
        match kind.map_err(|e| e.to_string())? {
            TypeDescriptor::Float(FloatSize::U4) => as_npy::<f32>(set, &sides),
            TypeDescriptor::Float(FloatSize::U8) => as_npy::<f64>(set, &sides),
            TypeDescriptor::Integer(IntSize::U2) => as_npy::<i16>(set, &sides),
            TypeDescriptor::Unsigned(IntSize::U1) => as_npy::<u8>(set, &sides),
            TypeDescriptor::Unsigned(IntSize::U8) => as_npy::<u64>(set, &sides),
            other => {
                Err(format!("elements of type {other}: float32, float64, int16, uint8 and uint64 are known"))
            }
        }
    }

    fn as_npy<T: H5Type + Serialize + AutoSerialize + Copy>(
        set: &Dataset,
        sides: &[usize],
    ) -> Result<Vec<u8>, String> {
        let values = set.read_raw::<T>().map_err(|e| e.to_string())?;
        let (mut bytes, sides) = (Vec::new(), sides.iter().map(|&side| side as u64).collect::<Vec<u64>>());
        npy::put(&mut bytes, &sides, values).map_err(|e| e.to_string())?;
        Ok(bytes)
    }

    fn write(path: &Path, body: impl FnOnce(&File) -> hdf5_metno::Result<()>) -> Result<(), Error> {
        let fill = |name: &Path| {
            let file = File::create(name)?;
            body(&file)?;
            file.close()
        };
        let written = |name: &Path| fill(name).map_err(|e| io::Error::other(e.to_string()));
        zellige_files::write_whole_by_name(path, written).map_err(|error| not_written(path, error))
    }

    fn put<T: H5Type>(file: &File, name: &str, sides: &[usize], values: &[T]) -> hdf5_metno::Result<()> {
        file.new_dataset::<T>().shape(sides).create(name)?.write_raw(values)
    }

    /// Writes the arrays of a basis: `signals` (points x 37 x samples), `positions` (mm, points x 3), `segments` (0 to 35, points).
    ///
    /// # Errors
    /// [`Error::File`]; nothing is left behind.
    pub fn write_basis(path: &Path, basis: &Basis) -> Result<(), Error> {
        let points = basis.positions().len();
        let segments: Vec<u8> = basis.segments().iter().map(|segment| segment.index() as u8).collect();
        write(path, |file| {
            put(file, "positions", &[points, 3], basis.positions().as_flattened())?;
            put(file, "segments", &[points], &segments)?;
            put(file, "signals", &[points, CHANNELS, basis.sampling().samples], basis.values())
        })
    }

    /// Writes the arrays of events: `signals` (keV, events x 37 x samples), `energies` (keV), `positions` (mm) and `segments` by event and hit, `timestamps` (ns).
    ///
    /// # Errors
    /// [`Error::File`]; nothing is left behind.
    pub fn write_events(path: &Path, events: &Events) -> Result<(), Error> {
        let (count, hits) = (events.count(), events.hits);
        let segments: Vec<u8> = events.segments.iter().map(|segment| segment.index() as u8).collect();
        write(path, |file| {
            put(file, "energies", &[count, hits], &events.energies)?;
            put(file, "positions", &[count, hits, 3], events.positions.as_flattened())?;
            put(file, "segments", &[count, hits], &segments)?;
            put(file, "timestamps", &[count], &events.timestamps)?;
            put(file, "signals", &[count, CHANNELS, events.sampling.samples], &events.signals)
        })
    }
}
