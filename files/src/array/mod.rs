//! Arrays of numbers in files: NumPy's npy, archives of them (`FILE.npz/NAME`), HDF5
//! (`FILE.h5/NAME`), and columns of text.
//!
//! Every path of an array may name any of these. Values come in C order, independently of the
//! order of the file and its bytes. No allocation relies on a header alone: a file has to have as
//! many bytes as it promises.
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
pub mod text;

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, Write};
use std::path::{Path, PathBuf};

use half::f16;
use npyz::{AutoSerialize, DType, Deserialize, NpyFile, Order, Serialize, WriterBuilder};
use num_complex::Complex;

use crate::{FileError, WriteError, foreign, write_whole};

/// A number that arrays hold.
pub trait Number: AutoSerialize + Serialize + Deserialize + Copy {}

impl<T: AutoSerialize + Serialize + Deserialize + Copy> Number for T {}

/// Returns true if a path names an array: a file by its first bytes or its ending, or an array in
/// such a file.
pub fn is_array(path: &Path) -> bool {
    let is_archive = |path: &Path| npz::is_archive(path) || hdf5::is_file(path);
    ends(path, &["npy"])
        || foreign::begins(path, foreign::NPY)
        || path.ancestors().any(|path| ends(path, &["npz"]) || ends(path, &hdf5::ENDINGS) || is_archive(path))
}

/// Returns true if a file begins with `magic`, or has one of the endings and does not begin as an
/// array file of another kind.
fn is_of_kind(path: &Path, magic: &[u8], endings: &[&str]) -> bool {
    let known = [foreign::NPY, foreign::ZIP, foreign::HDF5];
    foreign::begins(path, magic)
        || ends(path, endings) && path.is_file() && !known.iter().any(|other| foreign::begins(path, other))
}

/// Returns true if a name has one of these endings.
fn ends(path: &Path, endings: &[&str]) -> bool {
    path.extension().is_some_and(|end| endings.iter().any(|known| end.eq_ignore_ascii_case(known)))
}

/// Writes an array with these sides in C order. The number of values must match the sides.
///
/// # Errors
/// Errors of the file; then nothing is written.
pub fn write<T: Number>(
    path: &Path,
    sides: &[usize],
    values: impl IntoIterator<Item = T>,
) -> Result<(), WriteError> {
    write_whole(path, |out| put(out, sides, Order::C, values))
}

/// Writes an array to a stream in Fortran order.
///
/// # Errors
/// Errors of the stream.
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

/// A seekable source of bytes.
trait ByteSource: Read + Seek + Send {}

impl<T: Read + Seek + Send> ByteSource for T {}

type Npy = NpyFile<BufReader<Box<dyn ByteSource>>>;

/// Real parts of numbers and, of complex ones, imaginary parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Numbers {
    /// Real parts.
    pub re: Vec<f64>,
    /// Imaginary parts, as many as real parts; none if the type has none.
    pub im: Option<Vec<f64>>,
}

/// An array that is open, its size checked against that of its file.
pub struct Array {
    path: PathBuf,
    npy: Npy,
    kind: String,
    sides: Vec<usize>,
    /// Offset of its values (bytes).
    begin: u64,
    /// Only the header has been read: values are in an archive.
    is_packed: bool,
}

/// Bytes that hold the header of any array of numbers.
const MOST_HEAD: u64 = 4096;

/// Returns the error for a path with this problem.
fn wrong(path: &Path, offset: Option<u64>, problem: impl Into<String>) -> FileError {
    FileError::Content { path: path.to_owned(), offset, problem: problem.into() }
}

/// Returns the error for a file that is no array of numbers.
fn no_array(path: &Path, head: &[u8]) -> FileError {
    if let Some(problem) = npy::refused(head) {
        return wrong(path, None, problem);
    }
    match foreign::name(head) {
        Some((what, command)) => {
            wrong(path, None, format!("{what}, not an array: convert it with `{command}`"))
        }
        None => wrong(path, Some(0), npy::NO_ARRAY),
    }
}

fn cannot(path: &Path) -> impl Fn(io::Error) -> FileError + '_ {
    |source| FileError::System { path: path.to_owned(), problem: "cannot read the array", source }
}

impl Array {
    /// Opens an array.
    ///
    /// # Errors
    /// [`FileError::System`] if it cannot be read, [`FileError::Content`] if it is no array of
    /// numbers, or if its file is shorter or longer than it should be.
    pub fn open(path: &Path) -> Result<Array, FileError> {
        // Compressed data are unpacked when the shape is the right one.
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

    fn of_bytes(path: &Path, bytes: Box<dyn ByteSource>, size: u64) -> Result<Array, FileError> {
        let mut file = BufReader::with_capacity(1 << 20, bytes);
        let begin = npy::begin(&mut file, size).map_err(cannot(path))?;
        let head = foreign::head(&mut file).map_err(cannot(path))?;
        file.rewind().map_err(cannot(path))?;
        let begin = begin.ok_or_else(|| no_array(path, &head))?;
        let no_header = |e| match npy::refused(&head) {
            Some(problem) => wrong(path, None, problem),
            None => wrong(path, Some(10), format!("no header of an npy file: {e}")),
        };
        let npy = NpyFile::new(file).map_err(no_header)?;
        let DType::Plain(kind) = npy.dtype() else {
            let problem = format!("elements of type {}, not numbers of one type", npy.dtype().descr());
            return Err(wrong(path, None, problem));
        };
        if kind.uses_pickled_array() {
            return Err(wrong(path, None, npy::unread("O").unwrap_or_default()));
        }
        let elements = npy.shape().iter().try_fold(1u64, |product, &side| product.checked_mul(side));
        let width = kind.num_bytes().map_or(u64::MAX, |width| width as u64);
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

    /// Checks that the type of the elements, by [`kind`](Array::kind), is among `known`, and the
    /// number of dimensions.
    ///
    /// # Errors
    /// [`FileError::Content`].
    pub fn of(self, known: &[&str], dimensions: usize) -> Result<Array, FileError> {
        if !known.contains(&&*self.kind) {
            let is_complex = |kind: &str| kind.starts_with('c');
            if is_complex(&self.kind) && !known.iter().any(|kind| is_complex(kind)) {
                let problem = "complex numbers where real ones are needed: save `a.real` where imaginary parts are zero";
                return Err(wrong(&self.path, None, problem));
            }
            let known: Vec<String> = known.iter().map(|kind| name(kind)).collect();
            let problem = npy::unread(&self.kind).unwrap_or_else(|| {
                format!("elements of type {}: convert them to {}", name(&self.kind), known.join(" or "))
            });
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
    /// [`FileError::Content`].
    pub fn sized(self, known: &[&str], sides: &[usize]) -> Result<Array, FileError> {
        let array = self.of(known, sides.len())?;
        if array.sides == sides {
            return Ok(array);
        }
        let problem =
            format!("an array of shape {:?} where {sides:?} belongs with the files beside it", array.sides);
        Err(wrong(&array.path, None, problem))
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the sides.
    pub fn sides(&self) -> &[usize] {
        &self.sides
    }

    /// The type of its elements, as `"f4"`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the offset of the values in the file (bytes).
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// Reads the values in C order.
    ///
    /// # Errors
    /// [`FileError::System`]; [`FileError::Content`] for data that cannot be unpacked.
    pub fn values<T: Number>(self) -> Result<Vec<T>, FileError> {
        let sides = self.sides.clone();
        let (order, values) = self.stored()?;
        let is_by_columns = order == Order::Fortran && sides.len() > 1;
        Ok(if is_by_columns { by_rows(&values, &sides) } else { values })
    }

    /// Reads the values in the order of the file.
    fn stored<T: Deserialize>(self) -> Result<(Order, Vec<T>), FileError> {
        let npy = match self.is_packed {
            true => {
                let member = npz::member(&self.path, u64::MAX)
                    .ok_or_else(|| cannot(&self.path)(io::ErrorKind::NotFound.into()))??;
                let bytes: Box<dyn ByteSource> = Box::new(Cursor::new(member.bytes));
                NpyFile::new(BufReader::new(bytes)).map_err(cannot(&self.path))?
            }
            false => self.npy,
        };
        Ok((npy.order(), npy.into_vec().map_err(cannot(&self.path))?))
    }

    /// Reads the values as `float64` in C order: those of `float16`, `float32` and `float64`,
    /// integers, and truth values as 0 and 1.
    ///
    /// # Errors
    /// The errors of [`values`](Array::values); [`FileError::Content`] for another type.
    pub fn reals(self) -> Result<Vec<f64>, FileError> {
        fn widened<T: Number>(array: Array, widen: impl Fn(T) -> f64) -> Result<Vec<f64>, FileError> {
            Ok(array.values()?.into_iter().map(widen).collect())
        }
        match &*self.kind {
            "f8" => self.values(),
            "f2" => widened(self, |value: f16| value.into()),
            "b1" => widened(self, |value: bool| value.into()),
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

    /// Reads real values as [`reals`](Array::reals) does, or complex ones.
    ///
    /// # Errors
    /// The errors of [`reals`](Array::reals).
    pub fn numbers(self) -> Result<Numbers, FileError> {
        let split = |values: Vec<Complex<f64>>| Numbers {
            re: values.iter().map(|z| z.re).collect(),
            im: Some(values.iter().map(|z| z.im).collect()),
        };
        Ok(match &*self.kind {
            "c8" => split(
                self.values::<Complex<f32>>()?
                    .iter()
                    .map(|z| Complex::new(z.re.into(), z.im.into()))
                    .collect(),
            ),
            kind if kind.starts_with('c') => {
                let dimensions = self.sides.len();
                split(self.of(&["c8", "c16"], dimensions)?.values()?)
            }
            _ => Numbers { re: self.reals()?, im: None },
        })
    }

    /// Reads integers in C order.
    ///
    /// # Errors
    /// The errors of [`values`](Array::values); [`FileError::Content`] for another type, and for
    /// values outside `int64`.
    pub fn integers(self) -> Result<Vec<i64>, FileError> {
        fn widened<T: Number + Into<i64>>(array: Array) -> Result<Vec<i64>, FileError> {
            Ok(array.values::<T>()?.into_iter().map(Into::into).collect())
        }
        let path = self.path.clone();
        match &*self.kind {
            "i1" => widened::<i8>(self),
            "u1" => widened::<u8>(self),
            "i2" => widened::<i16>(self),
            "u2" => widened::<u16>(self),
            "i4" => widened::<i32>(self),
            "u4" => widened::<u32>(self),
            "u8" => {
                let values = self.values::<u64>()?.into_iter().map(i64::try_from);
                values.collect::<Result<_, _>>().map_err(|_| wrong(&path, None, "an integer beyond int64"))
            }
            _ => {
                let dimensions = self.sides.len();
                self.of(&["i4", "i8"], dimensions)?.values()
            }
        }
    }

    /// Reads a text of ASCII characters.
    ///
    /// # Errors
    /// The errors of [`values`](Array::values); [`FileError::Content`] for anything else.
    pub fn text(self) -> Result<String, FileError> {
        let path = self.path.clone();
        let letters = match (self.sides.is_empty(), self.kind.split_at_checked(1)) {
            (true, Some(("S", _))) => self.stored::<Vec<u8>>()?.1.concat(),
            (true, Some(("U", _))) => self.stored::<String>()?.1.concat().into_bytes(),
            _ => return Err(wrong(&path, None, "one text is needed")),
        };
        let letters = String::from_utf8(letters).map_err(|_| wrong(&path, None, "text of other letters"))?;
        Ok(letters.trim_end_matches('\0').to_owned())
    }

    /// Reads values of `float32` or `float64` as `float32` in C order. They have to be finite.
    ///
    /// # Errors
    /// The errors of [`values`](Array::values); [`FileError::Content`] for another type, and with
    /// the byte of a non-finite value.
    pub fn finite(self) -> Result<Vec<f32>, FileError> {
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

/// Converts values from Fortran order to C order.
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

    /// The first bytes of a file count, not its ending.
    #[test]
    fn files_with_the_ending_of_another_kind_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let [plain, packed] = ["plain.npy", "packed.npz"].map(|name| folder.path().join(name));
        write(&plain, &[2], [1.0, 2.0]).expect("written");
        npz::NpzWriter::write(&packed, |npz| npz.put("a", &[2], &[1.0, 2.0])).expect("written");
        for (source, ending) in [(&plain, "npz"), (&plain, "h5"), (&packed, "npy"), (&packed, "h5")] {
            let path = folder.path().join("renamed").with_extension(ending);
            std::fs::copy(source, &path).expect("copied");
            assert!(is_array(&path));
            assert_eq!(Array::open(&path).expect(ending).reals().expect("values"), [1.0, 2.0]);
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
            (open().numbers().err(), ""),
            (open().text().err(), "one text is needed"),
            (open().sized(&["i2"], &[3]).err(), "[2] where [3] belongs"),
        ] {
            let said = error.map_or_else(String::new, |error| error.to_string());
            assert!(said.contains(words) && said.is_empty() == words.is_empty(), "{words}: {said}");
        }
    }

    #[test]
    fn every_type_of_numbers_is_read() {
        fn read<T: Number>(values: &[T]) -> Array {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("a.npy");
            write(&path, &[values.len()], values.iter().copied()).expect("written");
            Array::open(&path).expect("an array")
        }
        let halves = [f16::from_f32(0.5), f16::from_f32(-65_504.0), f16::from_bits(1)];
        assert_eq!(read(&halves).reals().expect("values"), [0.5, -65_504.0, 2f64.powi(-24)]);
        assert_eq!(read(&[true, false]).reals().expect("values"), [1.0, 0.0]);
        assert_eq!(read(&[3u32]).numbers().expect("values"), Numbers { re: vec![3.0], im: None });
        let z = [Complex::new(1.0f32, -2.0), Complex::new(0.0, 0.5)];
        let numbers = Numbers { re: vec![1.0, 0.0], im: Some(vec![-2.0, 0.5]) };
        assert_eq!(read(&z).numbers().expect("values"), numbers);
        let real = read(&z).reals().expect_err("complex").to_string();
        assert!(real.contains("complex numbers where real ones are needed"), "{real}");
        assert_eq!(read(&[-7i8, 7]).integers().expect("values"), [-7, 7]);
        assert!(read(&[u64::MAX]).integers().is_err() && read(&[1.0]).integers().is_err());
    }

    #[test]
    fn types_that_are_no_numbers_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.npy");
        let said = |descr: &str, shape: &str, values: &[u8]| {
            let header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n");
            let length = (header.len() as u16).to_le_bytes();
            let bytes = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), values].concat();
            std::fs::write(&path, bytes).expect("written");
            Array::open(&path)
        };
        for (descr, width, says) in [
            ("'<V2'", 2, "ml_dtypes"),
            ("'|V2'", 2, "ml_dtypes"),
            ("'|V1'", 1, "ml_dtypes"),
            ("'<V1'", 1, "ml_dtypes"),
            ("'<f1'", 1, "ml_dtypes"),
            ("'|O'", 5, "scipy.sparse.save_npz"),
            ("'<U3'", 12, "astype('float64')"),
            ("'<M8[ns]'", 8, "dates"),
            ("[('a', '<f8')]", 8, "records"),
        ] {
            let opened = said(descr, "(1,)", &vec![0; width]);
            let error = opened.and_then(Array::reals).expect_err(descr).to_string();
            assert!(error.contains(says) && error.contains("a.npy"), "{descr}: {error}");
        }
        assert_eq!(said("'|S3'", "()", b"csr").and_then(Array::text).expect("text"), "csr");
        let wide = said("'<U3'", "()", b"c\0\0\0s\0\0\0c\0\0\0").and_then(Array::text);
        assert_eq!(wide.expect("text"), "csc");
        std::fs::write(&path, b"MATLAB 5.0 MAT-file, Platform: GLNXA64").expect("written");
        let error = Array::open(&path).err().expect("another format").to_string();
        assert!(error.contains("MATLAB file (version 5)") && error.contains("loadmat"), "{error}");
    }

    #[test]
    fn archives_are_known_by_their_first_bytes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.dat");
        npz::NpzWriter::write(&path, |to| to.put("x", &[2], &[1.0, 2.0])).expect("written");
        assert!(is_array(&path) && is_array(&path.join("x")));
        assert_eq!(Array::open(&path.join("x")).and_then(Array::reals).expect("values"), [1.0, 2.0]);
        assert_eq!(npz::names(&path).expect("an archive"), ["x"]);
        let mut other = zip::ZipWriter::new(File::create(&path).expect("a file"));
        other.start_file("a.mtx", zip::write::SimpleFileOptions::default()).expect("an entry");
        other.finish().expect("written");
        let error = Array::open(&path).err().expect("no array in it").to_string();
        assert!(error.contains("without an array") && error.contains("unzip a.dat"), "{error}");
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
