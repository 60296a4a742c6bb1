//! Arrays of numbers in files: NumPy's npy, archives of them (`FILE.npz/NAME`), and HDF5 (`FILE.h5/NAME`).
//!
//! Wherever an array is read, its path may name any of these. Values come in C order, whatever the order of the file and its bytes. No header is
//! trusted with an allocation: a file has to have as many bytes as it promises.
//!
//! ```
//! use zellige_files::array::{self, Array};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("a.npy");
//! array::write(&path, &[2, 3], [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.5])?;
//! let a = Array::open(&path)?.of(&["f4", "f8"], 2)?;
//! assert_eq!((a.sides(), a.kind()), (&[2, 3][..], "f4"));
//! assert_eq!(a.values::<f32>()?[5], 6.5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod hdf5;
mod npy;
pub mod npz;

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, Write};
use std::path::{Path, PathBuf};

use npyz::{AutoSerialize, DType, Deserialize, NpyFile, Order, Serialize, WriterBuilder};

use crate::{ReadError, WriteError, write_whole};

/// A number that arrays hold.
pub trait Number: AutoSerialize + Serialize + Deserialize + Copy {}

impl<T: AutoSerialize + Serialize + Deserialize + Copy> Number for T {}

/// Whether a path names an array by its ending, by that of the file that it lies in, or by the first bytes of an HDF5 file.
pub fn is_array(path: &Path) -> bool {
    let is_container = |path: &Path| ends(path, &["npz"]) || ends(path, &hdf5::ENDINGS);
    ends(path, &["npy"]) || path.ancestors().any(is_container) || hdf5::file_of(path).is_some()
}

/// Whether a name has one of these endings.
fn ends(path: &Path, endings: &[&str]) -> bool {
    path.extension().is_some_and(|end| endings.iter().any(|known| end.eq_ignore_ascii_case(known)))
}

/// Writes an array with these sides, in C order; there must be as many values as they hold.
///
/// # Errors
/// Those of the file; nothing is left behind.
pub fn write<T: Number>(
    path: &Path,
    sides: &[usize],
    values: impl IntoIterator<Item = T>,
) -> Result<(), WriteError> {
    write_whole(path, |out| put(out, sides, Order::C, values))
}

/// Puts an array into a stream, its columns one after the other.
///
/// # Errors
/// Those of the stream.
pub fn put_columns<T: Number>(
    out: &mut dyn Write,
    sides: &[usize],
    values: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    put(out, sides, Order::Fortran, values)
}

fn put<T: Number>(
    out: &mut (impl Write + ?Sized),
    sides: &[usize],
    order: Order,
    values: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    let sides: Vec<u64> = sides.iter().map(|&side| side as u64).collect();
    let options = npyz::WriteOptions::new().default_dtype().order(order).shape(&sides);
    let mut npy = options.writer(out).begin_nd()?;
    npy.extend(values)?;
    npy.finish()
}

/// What can be read from any place on.
trait Bytes: Read + Seek + Send {}

impl<T: Read + Seek + Send> Bytes for T {}

type Npy = NpyFile<BufReader<Box<dyn Bytes>>>;

/// An array that is open, its size checked against that of its file.
pub struct Array {
    path: PathBuf,
    npy: Npy,
    kind: String,
    sides: Vec<usize>,
    /// Where its values begin.
    begin: u64,
    /// Only the header has been read: values are in an archive.
    is_packed: bool,
}

/// Bytes that hold the header of any array of numbers.
const MOST_HEAD: u64 = 4096;

/// What is said of a path with this problem.
fn wrong(path: &Path, offset: Option<u64>, problem: impl Into<String>) -> ReadError {
    ReadError::Content { path: path.to_owned(), offset, problem: problem.into() }
}

fn cannot(path: &Path) -> impl Fn(io::Error) -> ReadError + '_ {
    |source| ReadError::File { path: path.to_owned(), problem: "cannot read the array", source }
}

impl Array {
    /// Opens an array.
    ///
    /// # Errors
    /// [`ReadError::File`] where it cannot be read, [`ReadError::Content`] where it is no array of numbers or its file is shorter or longer than
    /// it should be.
    pub fn open(path: &Path) -> Result<Array, ReadError> {
        // What is compressed is unpacked when its shape is the right one.
        if let Some(head) = npz::member(path, MOST_HEAD) {
            let npz::Member { bytes, length } = head?;
            let array = Array::of_bytes(path, Box::new(Cursor::new(bytes)), length)?;
            return Ok(Array { is_packed: true, ..array });
        }
        if let Some(bytes) = hdf5::member(path) {
            let bytes = bytes?;
            let size = bytes.len() as u64;
            return Array::of_bytes(path, Box::new(Cursor::new(bytes)), size);
        }
        if path.is_dir() {
            return Err(wrong(
                path,
                None,
                "a folder where an array is needed: name a file in it, like signals.npy",
            ));
        }
        let file = File::open(path).map_err(cannot(path))?;
        let size = file.metadata().map_err(cannot(path))?.len();
        Array::of_bytes(path, Box::new(file), size)
    }

    fn of_bytes(path: &Path, bytes: Box<dyn Bytes>, size: u64) -> Result<Array, ReadError> {
        let mut file = BufReader::with_capacity(1 << 20, bytes);
        let begin = npy::begin(&mut file, size).map_err(cannot(path))?;
        let begin = begin.ok_or_else(|| wrong(path, Some(0), npy::NO_ARRAY))?;
        let npy = NpyFile::new(file)
            .map_err(|e| wrong(path, Some(10), format!("no header of an npy file: {e}")))?;
        let DType::Plain(kind) = npy.dtype() else {
            let problem = format!("elements of type {}, not numbers of one type", npy.dtype().descr());
            return Err(wrong(path, None, problem));
        };
        let elements = npy.shape().iter().try_fold(1u64, |product, &side| product.checked_mul(side));
        let width = kind.size_field();
        let end = elements.and_then(|n| n.checked_mul(width)).and_then(|bytes| bytes.checked_add(begin));
        if end != Some(size) {
            let end = end.map_or_else(|| "nowhere".into(), |end| format!("at byte {end}"));
            let problem = format!(
                "{:?} elements of {width} bytes end {end}, the file at byte {size}: it is cut off, or holds something else",
                npy.shape()
            );
            return Err(wrong(path, Some(size), problem));
        }
        let sides = npy.shape().iter().map(|&side| side as usize).collect();
        // Bytes may have any order: npyz turns them.
        let kind = kind.to_string().trim_start_matches(['<', '>', '|', '=']).to_owned();
        Ok(Array { path: path.to_owned(), npy, kind, sides, begin, is_packed: false })
    }

    /// Refuses elements of other types than `known` (as [`kind`](Array::kind) says them) and another number of dimensions.
    ///
    /// # Errors
    /// [`ReadError::Content`].
    pub fn of(self, known: &[&str], dimensions: usize) -> Result<Array, ReadError> {
        if !known.contains(&&*self.kind) {
            let known: Vec<String> = known.iter().map(|kind| name(kind)).collect();
            let problem =
                format!("elements of type {}: convert them to {}", name(&self.kind), known.join(" or "));
            return Err(wrong(&self.path, None, problem));
        }
        if self.sides.len() == dimensions {
            return Ok(self);
        }
        let count = ["no", "one", "two", "three", "four"].get(dimensions).copied().unwrap_or("more");
        let plural = if dimensions == 1 { "dimension is" } else { "dimensions are" };
        let problem = format!("an array of shape {:?}: {count} {plural} needed", self.sides);
        Err(wrong(&self.path, None, problem))
    }

    /// Refuses elements of other types than `known`, and other sides.
    ///
    /// # Errors
    /// [`ReadError::Content`].
    pub fn sized(self, known: &[&str], sides: &[usize]) -> Result<Array, ReadError> {
        let array = self.of(known, sides.len())?;
        if array.sides == sides {
            return Ok(array);
        }
        let problem =
            format!("an array of shape {:?} where {sides:?} belongs with the files beside it", array.sides);
        Err(wrong(&array.path, None, problem))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its sides.
    pub fn sides(&self) -> &[usize] {
        &self.sides
    }

    /// The type of its elements, as `"f4"`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Where the values begin in the file (bytes).
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// Its values, in C order.
    ///
    /// # Errors
    /// [`ReadError::File`]; [`ReadError::Content`] for what cannot be unpacked.
    pub fn values<T: Number>(self) -> Result<Vec<T>, ReadError> {
        let npy = match self.is_packed {
            true => {
                let member = npz::member(&self.path, u64::MAX)
                    .ok_or_else(|| cannot(&self.path)(io::ErrorKind::NotFound.into()))??;
                let bytes: Box<dyn Bytes> = Box::new(Cursor::new(member.bytes));
                NpyFile::new(BufReader::new(bytes)).map_err(cannot(&self.path))?
            }
            false => self.npy,
        };
        let is_by_columns = npy.order() == Order::Fortran && self.sides.len() > 1;
        let values = npy.into_vec().map_err(cannot(&self.path))?;
        Ok(if is_by_columns { by_rows(&values, &self.sides) } else { values })
    }

    /// Its values as `float64`, in C order: those of `float32` and `float64`, and integers.
    ///
    /// # Errors
    /// As [`values`](Array::values); [`ReadError::Content`] for another type.
    pub fn reals(self) -> Result<Vec<f64>, ReadError> {
        fn widened<T: Number>(array: Array, widen: impl Fn(T) -> f64) -> Result<Vec<f64>, ReadError> {
            Ok(array.values()?.into_iter().map(widen).collect())
        }
        match &*self.kind {
            "f8" => self.values(),
            "i1" => widened(self, |value: i8| value.into()),
            "u1" => widened(self, |value: u8| value.into()),
            "i2" => widened(self, |value: i16| value.into()),
            "u2" => widened(self, |value: u16| value.into()),
            "i4" => widened(self, |value: i32| value.into()),
            "u4" => widened(self, |value: u32| value.into()),
            "i8" => widened(self, |value: i64| value as f64),
            "u8" => widened(self, |value: u64| value as f64),
            _ => {
                let dimensions = self.sides.len();
                widened(self.of(&["f4", "f8"], dimensions)?, |value: f32| value.into())
            }
        }
    }

    /// Its values of `float32` or `float64` as `float32`, in C order, which have to be numbers.
    ///
    /// # Errors
    /// As [`values`](Array::values); [`ReadError::Content`] for another type, and with the byte of a value that is infinite or no number.
    pub fn finite(self) -> Result<Vec<f32>, ReadError> {
        let dimensions = self.sides.len();
        let array = self.of(&["f4", "f8"], dimensions)?;
        let (path, begin, is_double) = (array.path.clone(), array.begin, array.kind == "f8");
        let values = match is_double {
            true => array.values()?.into_iter().map(|value: f64| value as f32).collect(),
            false => array.values::<f32>()?,
        };
        match values.iter().position(|value| !value.is_finite()) {
            None => Ok(values),
            Some(at) => {
                let problem = format!("{} where a number is needed", values[at]);
                let width = if is_double { 8 } else { 4 };
                Err(wrong(&path, Some(begin + width * at as u64), problem))
            }
        }
    }
}

/// The name of a type in words.
fn name(kind: &str) -> String {
    let words = [("f", "float"), ("i", "int"), ("u", "uint"), ("c", "complex")];
    let word = words.into_iter().find_map(|(letter, word)| Some((word, kind.strip_prefix(letter)?)));
    match word.and_then(|(word, width)| Some((word, width.parse::<u64>().ok()?))) {
        Some((word, width)) => format!("{word}{}", 8 * width),
        None => kind.to_owned(),
    }
}

/// Values that lie with the first index fastest, with the last index fastest.
fn by_rows<T: Copy>(values: &[T], sides: &[usize]) -> Vec<T> {
    let mut index = vec![0; sides.len()];
    let mut next = || {
        let at = index.iter().zip(sides).rev().fold(0, |at, (&index, &side)| at * side + index);
        for (index, &side) in index.iter_mut().zip(sides).rev() {
            *index += 1;
            if *index < side {
                break;
            }
            *index = 0;
        }
        at
    };
    (0..values.len()).map(|_| values[next()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_in_c_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.npy");
        let at = |i: usize, j: usize, k: usize| (100 * i + 10 * j + k) as f64;
        let columns = (0..4).flat_map(|k| (0..3).flat_map(move |j| (0..2).map(move |i| at(i, j, k))));
        let mut bytes = Vec::new();
        put_columns(&mut bytes, &[2, 3, 4], columns).expect("memory");
        std::fs::write(&path, &bytes).expect("written");
        let rows: Vec<f64> =
            (0..2).flat_map(|i| (0..3).flat_map(move |j| (0..4).map(move |k| at(i, j, k)))).collect();
        assert_eq!(Array::open(&path).expect("an array").reals().expect("values"), rows);
        write(&path, &[2, 3, 4], rows.iter().copied()).expect("written");
        assert_eq!(Array::open(&path).expect("an array").reals().expect("values"), rows);
        for (content, what) in
            [(&bytes[..bytes.len() - 1], "cut off"), (&[&bytes[..], b"x"].concat(), "byte")]
        {
            std::fs::write(&path, content).expect("written");
            let error = Array::open(&path).err().expect("another size").to_string();
            assert!(error.contains(what) && error.contains("a.npy"), "{error}");
        }
    }

    #[test]
    fn what_is_needed_is_said_in_words() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.npy");
        write(&path, &[2], [1i16, 2]).expect("written");
        let open = || Array::open(&path).expect("an array");
        for (error, words) in [
            (open().of(&["i2"], 2).err(), "two dimensions are needed"),
            (open().of(&["i2", "f4"], 1).err(), ""),
            (open().finite().err(), "elements of type int16: convert them to float32 or float64"),
            (open().reals().err(), ""),
            (open().sized(&["i2"], &[3]).err(), "[2] where [3] belongs"),
        ] {
            let said = error.map_or_else(String::new, |error| error.to_string());
            assert!(said.contains(words) && said.is_empty() == words.is_empty(), "{words}: {said}");
        }
    }

    #[test]
    fn arrays_are_known_by_their_names() {
        for (name, is) in [
            ("a.npy", true),
            ("A.NPY", true),
            ("a.npz", true),
            ("a.npz/signals", true),
            ("f.h5/run/x", true),
            ("a.mtx", false),
            ("npy", false),
        ] {
            assert_eq!(is_array(Path::new(name)), is, "{name}");
        }
    }
}
