//! Arrays of numbers in NumPy's npy format, in C order; alone in a file, or in an archive of them (`FILE.npz/NAME`, [`super::npz`]), or in
//! an HDF5 file (`FILE.h5/NAME`, [`super::hdf5`]).

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

use npyz::{AutoSerialize, DType, Deserialize, NpyFile, Order, Serialize, TypeStr, WriterBuilder};
use zellige_files::npy::{NO_ARRAY, begin};

use super::{hdf5, npz, write_whole};
use crate::Error;
use crate::channels::Segment;

/// Writes an array with these sides; there must be as many values as they hold.
///
/// # Errors
/// [`Error::File`]; nothing is left behind.
pub fn write<T: Serialize + AutoSerialize + Copy>(
    path: &Path,
    sides: &[usize],
    values: impl IntoIterator<Item = T>,
) -> Result<(), Error> {
    let sides: Vec<u64> = sides.iter().map(|&side| side as u64).collect();
    write_whole(path, |out| put(out, &sides, values))
}

/// Puts an array into a stream.
pub(super) fn put<T: Serialize + AutoSerialize + Copy>(
    out: &mut impl io::Write,
    sides: &[u64],
    values: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    let mut npy = npyz::WriteOptions::new().default_dtype().shape(sides).writer(out).begin_nd()?;
    for value in values {
        npy.push(&value)?;
    }
    npy.finish()
}

/// Where the bytes of an array come from.
pub(super) type Source = BufReader<Box<dyn Bytes>>;

/// What can be read from any place on.
pub(super) trait Bytes: Read + Seek + Send {}

impl<T: Read + Seek + Send> Bytes for T {}

/// An array that is open, its size checked against that of its file.
pub struct Array {
    npy: NpyFile<Source>,
    sides: Vec<usize>,
    /// Where its values begin.
    begin: u64,
    /// Only the header has been read: values are in an archive.
    is_packed: bool,
}

/// Bytes that hold the header of any array of numbers.
const MOST_HEAD: u64 = 4096;

impl Array {
    /// Opens an array whose elements have one of the types `known` (`"<f4"`), with this many sides.
    ///
    /// # Errors
    /// [`Error::File`] where it cannot be read, [`Error::Format`] where it is no such array or its file is shorter or longer than it should be.
    pub fn open(path: &Path, known: &[&str], dimensions: usize) -> Result<Array, Error> {
        let cannot = |source| Error::File { path: path.to_owned(), problem: "cannot read the array", source };
        let wrong = |offset, problem| Error::Format { path: path.to_owned(), offset, problem };
        // What is compressed is unpacked when its shape is the right one.
        if let Some(head) = npz::member(path, MOST_HEAD) {
            let npz::Member { bytes, length } = head?;
            let array =
                Array::from_source(path, Box::new(io::Cursor::new(bytes)), length, known, dimensions)?;
            return Ok(Array { is_packed: true, ..array });
        }
        if let Some(member) = hdf5::member(path) {
            let bytes = member?;
            let size = bytes.len() as u64;
            return Array::from_source(path, Box::new(io::Cursor::new(bytes)), size, known, dimensions);
        }
        if path.is_dir() {
            return Err(wrong(
                None,
                "a folder where an npy file is needed: name a file in it, like signals.npy".into(),
            ));
        }
        let file = File::open(path).map_err(cannot)?;
        let size = file.metadata().map_err(cannot)?.len();
        Array::from_source(path, Box::new(file), size, known, dimensions)
    }

    fn from_source(
        path: &Path,
        bytes: Box<dyn Bytes>,
        size: u64,
        known: &[&str],
        dimensions: usize,
    ) -> Result<Array, Error> {
        let cannot = |source| Error::File { path: path.to_owned(), problem: "cannot read the array", source };
        let wrong = |offset, problem| Error::Format { path: path.to_owned(), offset, problem };
        let mut file = BufReader::with_capacity(1 << 20, bytes);
        let begin = begin(&mut file, size).map_err(cannot)?;
        let begin = begin.ok_or_else(|| wrong(Some(0), NO_ARRAY.into()))?;
        let npy =
            NpyFile::new(file).map_err(|e| wrong(Some(10), format!("no header of an npy file: {e}")))?;
        let name = match npy.dtype() {
            DType::Plain(kind) => kind.to_string(),
            other => other.descr(),
        };
        // One byte has no order: '|u1' is '<u1'.
        let (name, width) =
            match known.iter().find(|known| name == **known || name.replace('|', "<") == **known) {
                Some(known) => (name, known.parse::<TypeStr>().map_or(0, |kind| kind.size_field())),
                None => {
                    let problem = format!("elements of type {name} where {} are wanted", known.join(" or "));
                    return Err(wrong(Some(10), problem));
                }
            };
        if npy.order() != Order::C || npy.shape().len() != dimensions {
            let problem = format!(
                "an array of shape {:?} in {:?} order: {dimensions} sides in C order are wanted",
                npy.shape(),
                npy.order()
            );
            return Err(wrong(Some(10), problem));
        }
        let elements = npy.shape().iter().try_fold(1u64, |product, &side| product.checked_mul(side));
        let end = elements.and_then(|n| n.checked_mul(width)).and_then(|bytes| bytes.checked_add(begin));
        if end != Some(size) {
            let problem =
                format!("the file ends here, but {:?} elements of type {name} end elsewhere", npy.shape());
            return Err(wrong(Some(size), problem));
        }
        let sides = npy.shape().iter().map(|&side| side as usize).collect();
        Ok(Array { npy, sides, begin, is_packed: false })
    }

    /// Its sides.
    pub fn sides(&self) -> &[usize] {
        &self.sides
    }

    /// The type of its elements, as `"<f4"`.
    pub fn kind(&self) -> String {
        self.npy.dtype().descr().replace('\'', "").replace('|', "<")
    }

    /// Where the values begin in the file (bytes).
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// Its values.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn values<T: Deserialize>(self, path: &Path) -> Result<Vec<T>, Error> {
        let cannot = |source| Error::File { path: path.to_owned(), problem: "cannot read the array", source };
        let npy = match self.is_packed {
            true => {
                let member = npz::member(path, u64::MAX)
                    .ok_or_else(|| io::ErrorKind::NotFound.into())
                    .map_err(cannot)??;
                let bytes: Box<dyn Bytes> = Box::new(io::Cursor::new(member.bytes));
                NpyFile::new(BufReader::new(bytes)).map_err(cannot)?
            }
            false => self.npy,
        };
        npy.into_vec().map_err(cannot)
    }
}

/// Reads `float32` values that have to be numbers.
///
/// # Errors
/// As [`Array::values`]; [`Error::Format`] with the byte of one that is infinite or no number.
pub fn finite(array: Array, path: &Path) -> Result<Vec<f32>, Error> {
    let begin = array.begin();
    let values: Vec<f32> = array.values(path)?;
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(values),
        Some(at) => Err(Error::Format {
            path: path.to_owned(),
            offset: Some(begin + 4 * at as u64),
            problem: format!("{} where a number is needed", values[at]),
        }),
    }
}

/// Opens an array that has to have these sides.
///
/// # Errors
/// As [`Array::open`]; [`Error::Format`] for other sides.
pub fn sized(path: &Path, known: &[&str], sides: &[usize]) -> Result<Array, Error> {
    let array = Array::open(path, known, sides.len())?;
    if array.sides() == sides {
        return Ok(array);
    }
    let problem =
        format!("an array of shape {:?} where {sides:?} belongs with the files beside it", array.sides());
    Err(Error::Format { path: path.to_owned(), offset: Some(10), problem })
}

/// Reads numbers of segments.
///
/// # Errors
/// As [`Array::values`]; [`Error::Format`] with the byte of one that does not exist.
pub fn segments(array: Array, path: &Path) -> Result<Vec<Segment>, Error> {
    let begin = array.begin();
    let segment = |(at, number): (usize, u8)| {
        Segment::from_index(number.into()).ok_or_else(|| Error::Format {
            path: path.to_owned(),
            offset: Some(begin + at as u64),
            problem: format!("segment {number}: there are 0 to 35"),
        })
    };
    array.values::<u8>(path)?.into_iter().enumerate().map(segment).collect()
}
