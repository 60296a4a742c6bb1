//! Arrays in HDF5 files, if the crate is built with the feature `hdf5` (this needs the C library).
//!
//! `FILE.h5/NAME` is the data set `NAME` of a file (`FILE.h5/GROUP/NAME`, one of a group), and
//! `FILE.h5` the only one outside groups. For a table of waveforms as in LEGEND's LH5 files
//! (`table{dt,t0,values}`) the name is that of `values`. A file is recognized by its first bytes,
//! independently of its name. The C library does not defend against hostile files: damaged ones may
//! end the process.

use std::path::{Path, PathBuf};

use super::{is_of_kind, wrong};
use crate::{FileError, foreign};

/// Endings of the names of such files.
pub(super) const ENDINGS: [&str; 4] = ["h5", "hdf5", "hdf", "lh5"];

/// The HDF5 file that a path names or leads into.
fn file_of(path: &Path) -> Option<&Path> {
    path.ancestors().find(|path| is_file(path))
}

/// The name of a data set in a file, if a path has one.
fn name(path: &Path, file: &Path) -> Option<PathBuf> {
    path.strip_prefix(file).ok().filter(|name| !name.as_os_str().is_empty()).map(Path::to_owned)
}

/// The bytes that an npy file of the array would have, if the path names one in an HDF5 file.
pub(super) fn member(path: &Path) -> Option<Result<Vec<u8>, FileError>> {
    let file = file_of(path)?;
    Some(read(path, file, name(path, file)))
}

/// Returns the attribute `units` of the data set that a path names; none if it has none, or if the
/// path names no data set of an HDF5 file.
pub fn unit(path: &Path) -> Option<String> {
    let file = file_of(path)?;
    unit_of(path, file, name(path, file))
}

/// Returns true if this is an HDF5 file by its first bytes, or by its ending if they are unknown.
pub(super) fn is_file(path: &Path) -> bool {
    is_of_kind(path, foreign::HDF5, &ENDINGS)
}

#[cfg(not(feature = "hdf5"))]
fn read(path: &Path, _: &Path, _: Option<PathBuf>) -> Result<Vec<u8>, FileError> {
    let problem = "an HDF5 file, and this build cannot read them: build it with the feature `hdf5`, or make an npy file of the array";
    Err(wrong(path, None, problem))
}

#[cfg(not(feature = "hdf5"))]
fn unit_of(_: &Path, _: &Path, _: Option<PathBuf>) -> Option<String> {
    None
}

#[cfg(feature = "hdf5")]
pub use with_library::Hdf5Writer;
#[cfg(feature = "hdf5")]
use with_library::{read, unit_of};

#[cfg(feature = "hdf5")]
mod with_library {
    use std::io;

    use hdf5_metno::types::{
        FixedAscii, FixedUnicode, FloatSize, IntSize, TypeDescriptor, VarLenAscii, VarLenUnicode,
    };
    use hdf5_metno::{Dataset, File, Group, H5Type};
    use npyz::Order;

    use super::*;
    use crate::{WriteError, array, write_whole_by_name};

    /// Largest expansion of a byte by filters of the library: deflating.
    const MOST_RATIO: u64 = 1032;

    pub(super) fn read(path: &Path, file: &Path, name: Option<PathBuf>) -> Result<Vec<u8>, FileError> {
        let (set, name) = open(path, file, name)?;
        let size = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
        bytes(&set, size).map_err(|problem| wrong(path, None, format!("data set {name:?}: {problem}")))
    }

    pub(super) fn unit_of(path: &Path, file: &Path, name: Option<PathBuf>) -> Option<String> {
        let attribute = open(path, file, name).ok()?.0.attr("units").ok()?;
        let text = attribute.read_scalar::<VarLenUnicode>().map(|text| text.to_string());
        let text = text.or_else(|_| attribute.read_scalar::<VarLenAscii>().map(|text| text.to_string()));
        let text = text.or_else(|_| attribute.read_scalar::<FixedAscii<32>>().map(|text| text.to_string()));
        text.or_else(|_| attribute.read_scalar::<FixedUnicode<32>>().map(|text| text.to_string())).ok()
    }

    /// A data set, and its name.
    fn open(path: &Path, file: &Path, name: Option<PathBuf>) -> Result<(Dataset, String), FileError> {
        let wrong = |problem: String| wrong(path, None, problem);
        let opened = File::open(file).map_err(|e| wrong(format!("no HDF5 file, or a damaged one: {e}")))?;
        let mut name = match name.as_deref().map(Path::to_str) {
            Some(Some(name)) => name.to_owned(),
            Some(None) => return Err(wrong("a name that is not UTF-8".into())),
            None => only(&opened).map_err(wrong)?,
        };
        if let Ok(group) = opened.group(&name) {
            // A table of waveforms.
            if !group.link_exists("values") {
                let problem = format!("{name:?} is a group ({}): name a data set of it", members(&group));
                return Err(wrong(problem));
            }
            name += "/values";
        }
        match opened.dataset(&name) {
            Ok(set) => Ok((set, name)),
            Err(e) => Err(wrong(format!("no data set {name:?} in it, but {}: {e}", members(&opened)))),
        }
    }

    /// Returns the names of a group's members, or some of them if there are many.
    fn members(group: &Group) -> String {
        const NAMED: usize = 20;
        let mut names = group.member_names().unwrap_or_default();
        if names.len() > NAMED {
            names.truncate(NAMED);
            names.push("...".into());
        }
        names.join(", ")
    }

    /// The only data set outside groups.
    fn only(file: &File) -> Result<String, String> {
        let sets = file.datasets().map_err(|e| e.to_string())?;
        let names: Vec<String> =
            sets.iter().map(|set| set.name().trim_start_matches('/').to_owned()).collect();
        match &names[..] {
            [name] => Ok(name.clone()),
            [] => {
                Err(format!("no data set outside groups ({}): name one as FILE.h5/GROUP/NAME", members(file)))
            }
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
            TypeDescriptor::Integer(IntSize::U1) => as_npy::<i8>(set, &sides),
            TypeDescriptor::Integer(IntSize::U2) => as_npy::<i16>(set, &sides),
            TypeDescriptor::Integer(IntSize::U4) => as_npy::<i32>(set, &sides),
            TypeDescriptor::Integer(IntSize::U8) => as_npy::<i64>(set, &sides),
            TypeDescriptor::Unsigned(IntSize::U1) => as_npy::<u8>(set, &sides),
            TypeDescriptor::Unsigned(IntSize::U2) => as_npy::<u16>(set, &sides),
            TypeDescriptor::Unsigned(IntSize::U4) => as_npy::<u32>(set, &sides),
            TypeDescriptor::Unsigned(IntSize::U8) => as_npy::<u64>(set, &sides),
            TypeDescriptor::Boolean => as_npy::<bool>(set, &sides),
            other => {
                Err(format!("elements of type {other}: float32, float64, integers and truth values are read"))
            }
        }
    }

    fn as_npy<T: H5Type + array::Number>(set: &Dataset, sides: &[usize]) -> Result<Vec<u8>, String> {
        let (values, mut bytes) = (set.read_raw::<T>().map_err(|e| e.to_string())?, Vec::new());
        array::put(&mut bytes, sides, Order::C, values).map_err(|e| e.to_string())?;
        Ok(bytes)
    }

    /// A file that is written.
    pub struct Hdf5Writer(File);

    impl Hdf5Writer {
        /// Writes a file through `body` and puts it in place only if everything worked.
        ///
        /// # Errors
        /// Errors of the file; then nothing is written.
        pub fn write(
            path: &Path,
            body: impl FnOnce(&mut Hdf5Writer) -> io::Result<()>,
        ) -> Result<(), WriteError> {
            write_whole_by_name(path, |name: &Path| {
                let mut writer = Hdf5Writer(File::create(name).map_err(said)?);
                body(&mut writer)?;
                writer.0.close().map_err(said)
            })
        }

        /// Puts an array with these sides into the file.
        ///
        /// # Errors
        /// The library's.
        pub fn put<T: H5Type>(&mut self, name: &str, sides: &[usize], values: &[T]) -> io::Result<()> {
            let set = self.0.new_dataset::<T>().shape(sides).create(name).map_err(said)?;
            set.write_raw(values).map_err(said)
        }
    }

    fn said(error: hdf5_metno::Error) -> io::Error {
        io::Error::other(error.to_string())
    }
}

#[cfg(all(test, feature = "hdf5"))]
mod tests {
    use super::*;
    use crate::array::Array;

    #[test]
    fn data_sets_in_groups_and_only_ones_are_read() {
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join("one.h5");
        let file = hdf5_metno::File::create(&path).expect("a file");
        let group = file.create_group("run").expect("a group");
        let set = group.new_dataset::<i16>().shape([2]).create("narrow").expect("a data set");
        set.write_raw(&[16_384i16, -8192]).expect("written");
        let set = file.new_dataset::<f64>().shape([1, 2]).create("only").expect("a data set");
        set.write_raw(&[1.5, 2.5]).expect("written");
        file.close().expect("whole");
        let narrow = Array::open(&path.join("run").join("narrow")).expect("in a group");
        assert_eq!(narrow.values::<i16>().expect("values"), [16_384, -8192]);
        assert_eq!(Array::open(&path).expect("the only one").reals().expect("values"), [1.5, 2.5]);
    }

    /// A table of waveforms as legend-lh5io writes it, integers of every width, in a file without
    /// an ending.
    #[test]
    fn waveforms_of_lh5_integers_and_units_are_read_whatever_the_name() {
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join("run42");
        let file = hdf5_metno::File::create(&path).expect("a file");
        let table = file.create_group("ch1").expect("a group").create_group("waveform").expect("a group");
        let put = |name: &str, unit: &str| {
            let set = table.new_dataset::<i32>().shape([2]).create(name).expect("a data set");
            set.write_raw(&[70_000i32, -3]).expect("written");
            let unit: hdf5_metno::types::VarLenUnicode = unit.parse().expect("text");
            let units = set.new_attr::<hdf5_metno::types::VarLenUnicode>().create("units").expect("one");
            units.write_scalar(&unit).expect("written");
        };
        put("values", "keV");
        put("dt", "us");
        file.close().expect("whole");
        let waveform = path.join("ch1/waveform");
        assert!(super::super::is_array(&waveform) && super::super::is_array(&path));
        let array = Array::open(&waveform).expect("the values of a table");
        assert_eq!(array.kind(), "i4");
        assert_eq!(array.reals().expect("values"), [70_000.0, -3.0]);
        assert_eq!(unit(&waveform).as_deref(), Some("keV"));
        assert_eq!(unit(&waveform.join("dt")).as_deref(), Some("us"));
        for (path, words) in [
            (path.clone(), "no data set outside groups (ch1)"),
            (path.join("ch1"), "(waveform)"),
            (path.join("x"), "but ch1"),
        ] {
            let error = Array::open(&path).err().expect("no array").to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
