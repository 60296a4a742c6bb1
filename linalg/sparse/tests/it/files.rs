//! Matrices and vectors in files of every format, laid out by hand.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use zellige_files::array::{self, npz};
use zellige_sparse::files::{self, Matrix, Vectors};
use zellige_sparse::{Csr, describe, describe_complex};

/// A folder with one file, whatever its name.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("a.dat")
    }

    fn with(&self, bytes: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.path(), bytes).unwrap();
        self.path()
    }
}

fn dense(a: &Csr) -> Vec<Vec<f64>> {
    (0..a.rows()).map(|i| (0..a.columns()).map(|j| a.get(i, j)).collect()).collect()
}

/// Returns the real and imaginary parts.
fn complex(a: &Matrix) -> Vec<Vec<(f64, f64)>> {
    assert!(a.complex);
    let number = |i: usize, j: usize| (a.csr.get(2 * i, 2 * j), a.csr.get(2 * i + 1, 2 * j));
    (0..a.csr.rows() / 2).map(|i| (0..a.csr.columns() / 2).map(|j| number(i, j)).collect()).collect()
}

fn read(path: &Path) -> Vec<Vec<f64>> {
    let Matrix { csr, complex } = files::read(path).unwrap();
    assert!(!complex);
    dense(&csr)
}

fn refused(path: &Path) -> String {
    let matrix = files::read(path).map(|_| ()).unwrap_err().to_string();
    assert!(matrix.starts_with(&path.display().to_string()), "{matrix}");
    matrix
}

/// Returns an npy file of a text, like the format entry of `scipy.sparse.save_npz`.
fn text(text: &str) -> Vec<u8> {
    let header = format!("{{'descr': '|S{}', 'fortran_order': False, 'shape': (), }}\n", text.len());
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), text.as_bytes()].concat()
}

/// Returns an npy file of this shape, in row-major order.
fn npy<T: array::Number>(sides: &[usize], values: &[T]) -> Vec<u8> {
    let place = Place::new();
    array::write(&place.path(), sides, values.iter().copied()).unwrap();
    std::fs::read(place.path()).unwrap()
}

/// Returns an archive of npy files.
fn zipped(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in members {
        zip.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Returns an archive of `scipy.sparse.save_npz` with these arrays of integers and numbers.
fn archive(format: &str, integers: &[(&str, &[i64])], (sides, data): (&[usize], &[f64])) -> Vec<u8> {
    let mut members = vec![("format", text(format))];
    for (name, values) in integers {
        let narrow: Vec<i32> = values.iter().map(|&value| value as i32).collect();
        members.push((name, npy(&[values.len()], &narrow)));
    }
    members.push(("data", npy(sides, data)));
    zipped(&members)
}

/// [1, 0, 2; 0, 0, 3]
const WANTED: [[f64; 3]; 2] = [[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]];

#[test]
fn archives_of_scipy_are_read_in_every_format() {
    let place = Place::new();
    let read = |bytes: Vec<u8>| read(&place.with(bytes));
    let shape = ("shape", &[2, 3][..]);
    let values = (&[3][..], &[1.0, 2.0, 3.0][..]);
    assert_eq!(
        read(archive("csr", &[shape, ("indptr", &[0, 2, 3]), ("indices", &[0, 2, 2])], values)),
        WANTED
    );
    assert_eq!(
        read(archive("csc", &[shape, ("indptr", &[0, 1, 1, 3]), ("indices", &[0, 0, 1])], values)),
        WANTED
    );
    assert_eq!(read(archive("coo", &[shape, ("row", &[0, 0, 1]), ("col", &[0, 2, 2])], values)), WANTED);
    let blocks = (&[2, 2, 1][..], &[1.0, 0.0, 2.0, 3.0][..]);
    assert_eq!(read(archive("bsr", &[shape, ("indptr", &[0, 2]), ("indices", &[0, 2])], blocks)), WANTED);
    assert_eq!(files::read_real(&place.path()).unwrap().nonzeros(), 3, "zeros of blocks are no nonzeros");
    let diagonals = (&[3, 3][..], &[1.0, 0.0, 9.0, 8.0, 0.0, 3.0, 8.0, 8.0, 2.0][..]);
    assert_eq!(read(archive("dia", &[shape, ("offsets", &[0, 1, 2])], diagonals)), WANTED);
    // A one-dimensional array.
    let path = &place.with(zipped(&[
        ("format", text("coo")),
        ("shape", npy(&[1], &[4i64])),
        ("coords", npy(&[1, 2], &[1i64, 3])),
        ("data", npy(&[2], &[1.5f32, -2.0])),
    ]));
    assert_eq!(files::read_vectors(path, Some(4)).unwrap().columns, [[0.0, 1.5, 0.0, -2.0]]);
}

/// An array of integers, and its name.
type Named<'a> = (&'a str, &'a [i64]);

#[test]
fn damaged_archives_of_scipy_are_refused() {
    let place = Place::new();
    let values = (&[3][..], &[1.0, 2.0, 3.0][..]);
    let (shape, large): (Named<'_>, Named<'_>) = (("shape", &[2, 3]), ("shape", &[2_000_000_000, 3]));
    let cases: [(&str, &[Named<'_>], &str); 9] = [
        ("csr", &[shape, ("indptr", &[0, 2, 4]), ("indices", &[0, 2, 2])], "indptr"),
        ("csr", &[shape, ("indptr", &[0, 3, 2]), ("indices", &[0, 2, 2])], "indptr"),
        ("csr", &[shape, ("indptr", &[0, 3]), ("indices", &[0, 2, 2])], "indptr"),
        ("csr", &[shape, ("indptr", &[0, 2, 3]), ("indices", &[0, 2, 3])], "entry (1, 3)"),
        ("csr", &[shape, ("indptr", &[0, 2, 3]), ("indices", &[0, 2, -1])], "negative"),
        ("coo", &[shape, ("row", &[0, 0]), ("col", &[0, 2, 2])], "indices for 3"),
        ("coo", &[large, ("row", &[0, 0, 1]), ("col", &[0, 2, 2])], "nearly all rows"),
        ("dok", &[shape], "csr, csc, coo"),
        ("csc", &[("shape", &[2, 3, 4])], "two dimensions"),
    ];
    for (format, integers, says) in cases {
        let said = refused(&place.with(archive(format, integers, values)));
        assert!(said.contains(says), "{format}: {said}");
    }
}

#[test]
fn entries_that_are_not_finite_are_named_with_their_file() {
    let place = Place::new();
    let (shape, values) = (("shape", &[2, 3][..]), (&[3][..], &[1.0, 2.0, f64::NAN][..]));
    let matrix = archive("coo", &[shape, ("row", &[0, 0, 1]), ("col", &[0, 2, 2])], values);
    let text = refused(&place.with(matrix));
    assert!(text.contains("a.dat") && text.contains("(1, 2), counted from 0, is NaN"), "{text}");
    let vector = place.with(npy(&[3], &[1.0, f64::INFINITY, 2.0]));
    let text = files::read_vectors(&vector, Some(3)).unwrap_err().to_string();
    assert!(text.contains("a.dat") && text.contains("row 2 of column 1 is inf"), "{text}");
}

#[test]
fn dense_arrays_are_matrices_without_their_zeros() {
    let place = Place::new();
    let path = &place.path();
    array::write(path, &[2, 3], WANTED.concat()).unwrap();
    assert_eq!((read(path), files::read_real(path).unwrap().nonzeros()), (WANTED.map(Vec::from).to_vec(), 3));
    array::write(path, &[2, 2], [true, false, false, true]).unwrap();
    assert_eq!(read(path), [[1.0, 0.0], [0.0, 1.0]]);
    array::write(path, &[3], [1.0, 2.0, 3.0]).unwrap();
    assert!(refused(path).contains("of two dimensions"));
    array::write(path, &[1, 2], [0.0, f64::NAN]).unwrap();
    assert!(refused(path).contains("entry (0, 1), counted from 0, is NaN"));
    npz::NpzWriter::write(path, |to| to.put("A", &[2, 3], &WANTED.concat())).unwrap();
    assert_eq!((read(path), read(&path.join("A"))), (read(path), WANTED.map(Vec::from).to_vec()));
}

/// Integers and numbers as PETSc writes them.
struct Petsc {
    wide: bool,
    single: bool,
    bytes: Vec<u8>,
}

impl Petsc {
    fn new(wide: bool, single: bool) -> Self {
        Petsc { wide, single, bytes: Vec::new() }
    }

    fn integers(mut self, values: &[i64]) -> Self {
        for &value in values {
            match self.wide {
                true => self.bytes.extend(value.to_be_bytes()),
                false => self.bytes.extend((value as i32).to_be_bytes()),
            }
        }
        self
    }

    fn numbers(mut self, values: &[f64]) -> Self {
        for &value in values {
            match self.single {
                true => self.bytes.extend((value as f32).to_be_bytes()),
                false => self.bytes.extend(value.to_be_bytes()),
            }
        }
        self
    }

    fn sparse(self, values: &[f64]) -> Self {
        self.integers(&[1_211_216, 2, 3, 3, 2, 1, 0, 2, 2]).numbers(values)
    }
}

#[test]
fn files_of_petsc_are_read() {
    let place = Place::new();
    for (wide, single) in [(false, false), (true, false), (false, true), (true, true)] {
        let file = || Petsc::new(wide, single);
        let sparse = file().sparse(&[1.0, 2.0, 3.0]);
        assert_eq!(read(&place.with(&sparse.bytes)), WANTED);
        // The file format of ksp examples: the matrix, then its right-hand side.
        let both = sparse.integers(&[1_211_214, 2]).numbers(&[5.0, -0.5]);
        let path = place.with(&both.bytes);
        assert_eq!(read(&path), WANTED);
        let vectors = files::read_vectors(&path, Some(2)).unwrap();
        assert_eq!(vectors, Vectors { columns: vec![vec![5.0, -0.5]], complex: false });
        let native = file().integers(&[1_211_216, 2, 3, -1]).numbers(&WANTED.concat());
        assert_eq!(files::read_real(&place.with(&native.bytes)).unwrap().nonzeros(), 3);
        assert_eq!(read(&place.path()), WANTED);
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&native.bytes).unwrap();
        assert_eq!(read(&place.with(packed.finish().unwrap())), WANTED);
    }
    // An even number of nonzeros would fit either type: then float64 it is, as in most files.
    let z = Petsc::new(false, false).sparse(&[1.0, -1.0, 2.0, 0.5, 3.0, 0.0]);
    let path = place.with(&z.bytes);
    let wanted = [[(1.0, -1.0), (0.0, 0.0), (2.0, 0.5)], [(0.0, 0.0), (0.0, 0.0), (3.0, 0.0)]];
    assert_eq!(complex(&files::read(&path).unwrap()), wanted);
    let described = describe_complex(&files::read(&path).unwrap().csr);
    assert_eq!((described.shape, described.nonzeros), ((2, 3), (3, 0)));
    assert!(files::read_real(&path).unwrap_err().to_string().contains("complex matrix"));

    let index_set = Petsc::new(false, false).integers(&[1_211_218, 2, 0, 1]);
    assert!(refused(&place.with(&index_set.bytes)).contains("class 1211218"));
    let vector = Petsc::new(false, false).integers(&[1_211_214, 1]).numbers(&[1.0]);
    assert!(refused(&place.with(&vector.bytes)).contains("a vector of PETSc where a matrix"));
    let whole = Petsc::new(false, false).sparse(&[1.0, 2.0, 3.0]).bytes;
    for length in 4..whole.len() - 1 {
        // Cut to half, numbers are of single precision.
        if length != whole.len() - 12 {
            assert!(refused(&place.with(&whole[..length])).contains("byte"), "{length}");
        }
    }
    let outside = Petsc::new(false, false).integers(&[1_211_216, 1, 1, 1, 1, 5]).numbers(&[1.0]);
    assert!(refused(&place.with(&outside.bytes)).contains("outside of 1 x 1"));
    let many = Petsc::new(false, false).integers(&[1_211_216, i64::from(i32::MAX), 0, -1]);
    assert!(refused(&place.with(&many.bytes)).contains("nearly all rows"));
}

/// Returns a file of Harwell and Boeing: type, sizes, formats, and the lines of numbers.
fn boeing(kind: &str, sizes: &str, formats: &str, lines: &[&str]) -> String {
    let cards = if lines.len() > 3 { "7 1 1 1 1" } else { "3 1 1 1" };
    format!(
        "A title of any text                                                   |key\n{cards}\n{kind} {sizes}\n{formats}\n{}\n",
        lines.join("\n")
    )
}

#[test]
fn files_of_harwell_and_boeing_are_read() {
    let place = Place::new();
    let of = |text: String| read(&place.with(text));
    // Fields touch each other.
    let unsymmetric =
        boeing("RUA", "2 3 3 0", "(4I1) (3I1) (3E7.1)", &["1224", "112", "1.0D+002.0E+003.0+000"]);
    assert_eq!(of(unsymmetric), WANTED);
    let tidy = boeing(
        "rra",
        "2 3 3 0",
        "(4I3)           (3I3)           (2F8.2)",
        &["  1  2  2  4\r", "  1  1  2", "    1.00  2.0E00\n     300"],
    );
    assert_eq!(of(tidy), WANTED);
    // A scale factor divides what has no exponent; the fourth line has a format for right-hand
    // sides that are not there.
    let scaled = boeing(
        "RUA",
        "2 3 3 0",
        "(4I2) (3I2) (1P,3E6.1) (5E16.8)",
        &[" 1 2 2 4", " 1 1 2", "  10.0  2.E0  30.0"],
    );
    assert_eq!(of(scaled), WANTED);
    let halves = |kind: &str, values: &str| {
        boeing(kind, "2 2 2 0", "(3I2) (2I2) (4F5.1)", &[" 1 3 3", " 1 2", values])
    };
    assert_eq!(of(halves("RSA", "  4.0 -1.0")), [[4.0, -1.0], [-1.0, 0.0]]);
    assert_eq!(of(halves("RZA", "  0.0 -1.0")), [[0.0, 1.0], [-1.0, 0.0]]);
    assert_eq!(of(boeing("PSA", "2 2 2 0", "(3I2) (2I2)", &[" 1 3 3", " 1 2"])), [[1.0, 1.0], [1.0, 0.0]]);
    assert_eq!(
        of(boeing("isa", "2 2 2 0", "(3I2) (2I2) (2I3)", &[" 1 3 3", " 1 2", "  7 -2"])),
        [[7.0, -2.0], [-2.0, 0.0]]
    );
    let of_complex =
        |kind: &str| complex(&files::read(&place.with(halves(kind, "  4.0  0.0 -1.0  2.0"))).unwrap());
    assert_eq!(of_complex("CSA"), [[(4.0, 0.0), (-1.0, 2.0)], [(-1.0, 2.0), (0.0, 0.0)]]);
    assert_eq!(of_complex("CHA"), [[(4.0, 0.0), (-1.0, -2.0)], [(-1.0, 2.0), (0.0, 0.0)]]);
    assert_eq!(of_complex("CUA"), [[(4.0, 0.0), (0.0, 0.0)], [(-1.0, 2.0), (0.0, 0.0)]]);
    // Two full right-hand sides.
    let sides = boeing(
        "RUA",
        "2 2 2 0",
        "(3I2) (2I2) (2F5.1) (4F5.1)",
        &["F               2             0", " 1 2 3", " 1 2", "  4.0 -1.0", "  1.0  2.0  3.0  4.0"],
    );
    let path = place.with(sides);
    assert_eq!(read(&path), [[4.0, 0.0], [0.0, -1.0]]);
    assert_eq!(files::read_vectors(&path, Some(2)).unwrap().columns, [[1.0, 2.0], [3.0, 4.0]]);
}

#[test]
fn broken_files_of_harwell_and_boeing_are_named_with_their_line() {
    let place = Place::new();
    let formats = "(4I1) (3I1) (3E7.1)";
    let numbers = "1.0E+002.0E+003.0E+00";
    for (text, line, says) in [
        (boeing("RUA", "2 3 3 0", formats, &["1223", "112", numbers]), 5, "from 1 to 4"),
        (boeing("RUA", "2 3 3 0", formats, &["1324", "112", numbers]), 5, "from 1 to 4"),
        (
            boeing("RUA", "2 3 3 0", formats, &["12x4", "112", numbers]),
            5,
            "column 3: \"x\" is not a column pointer",
        ),
        (boeing("RUA", "2 3 3 0", formats, &["1224", "113", numbers]), 7, "row index 3"),
        (
            boeing("RUA", "2 3 3 0", formats, &["1224", "112", "1.0E+002.0x+003.0E+00"]),
            7,
            "column 8: \"2.0x+00\"",
        ),
        (boeing("RUA", "2 3 3 0", formats, &["1224", "112"]), 7, "ends before its value 1 of 3"),
        (boeing("RUE", "2 3 3 4", formats, &["1224", "112", numbers]), 3, "unassembled"),
        (boeing("QUA", "2 3 3 0", formats, &["1224", "112"]), 3, "in another file"),
        (boeing("RUA", "2 3 3 0", "(4I1) (3A1) (3E7.1)", &["1224", "112", numbers]), 4, "Fortran formats"),
        (boeing("RUA", "2 3 999999999 0", formats, &["1224", "112", numbers]), 5, "from 1 to 1000000000"),
        (boeing("RUA", "2 999999999 3 0", formats, &["1224", "112", numbers]), 4, "truncated"),
        (boeing("RUA", "999999999 3 3 0", formats, &["1224", "112", numbers]), 3, "nearly all rows"),
    ] {
        let said = refused(&place.with(&text));
        assert!(said.contains(&format!("a.dat:{line}: ")) && said.contains(says), "{text}: {said}");
    }
}

#[test]
fn what_is_not_read_is_named_with_what_converts_it() {
    let place = Place::new();
    let mut tar = vec![0; 1024];
    tar[..5].copy_from_slice(b"a.mtx");
    tar[257..262].copy_from_slice(b"ustar");
    let packed = |bytes: &[u8]| {
        let mut to = GzEncoder::new(Vec::new(), Compression::fast());
        to.write_all(bytes).unwrap();
        to.finish().unwrap()
    };
    let mut npy = Vec::new();
    array::put_columns(&mut npy, &[1, 1], [1.0]).unwrap();
    for (bytes, says, command) in [
        (b"MATLAB 5.0 MAT-file, Platform: GLNXA64".to_vec(), "MATLAB file (version 5)", "loadmat('a.dat')"),
        (b"BZh91AY&SY".to_vec(), "bzip2", "`bunzip2 --keep a.dat`"),
        (tar.clone(), "tar archive", "`tar -xf a.dat`"),
        (packed(&tar), "tar archive, compressed with gzip", "`tar -xf a.dat`"),
        (packed(&npy), "compressed with gzip", "`gunzip --keep a.dat`"),
        ([b"\xff\xfe", &b"1\0\n\0"[..]].concat(), "UTF-16", "iconv"),
    ] {
        let path = place.with(bytes);
        for said in [refused(&path), files::read_vectors(&path, None).unwrap_err().to_string()] {
            assert!(said.contains(says) && said.contains(command), "{said}");
        }
    }
    let said = refused(&place.with(b"\x01\x02\x03\xfe\xff\x00\x00\x00"));
    assert!(said.contains("not text") && said.is_ascii() && !said.contains("\\u"), "{said}");
}

#[test]
fn vectors_are_read_from_text() {
    let place = Place::new();
    let path = place.with("# b\n1,2\n3,4\n");
    assert_eq!(files::read_vectors(&path, Some(2)).unwrap().columns, [[1.0, 3.0], [2.0, 4.0]]);
    let path = place.with("(1+2j)\n3\n");
    assert_eq!(
        files::read_vectors(&path, Some(2)).unwrap(),
        Vectors { columns: vec![vec![1.0, 2.0, 3.0, 0.0]], complex: true }
    );
    let said = |text: &str| files::read_vectors(&place.with(text), Some(2)).unwrap_err().to_string();
    assert!(said("1\nx\n").contains("line 2, column 1: \"x\""));
    assert!(
        said("0\n1\n2\n")
            .contains("columns of 3 numbers where the matrix needs 2; if the first line is a heading")
    );
    assert!(said("1\n").contains("columns of 1 numbers where the matrix needs 2"));
}

#[test]
fn a_real_matrix_stands_for_a_complex_one() {
    let a = Csr::from_triplets(2, 3, &[(0, 0, 1.0), (0, 2, 2.0), (1, 2, 3.0)]).unwrap();
    let wide = a.as_complex().unwrap();
    let wanted = WANTED.map(|row| row.map(|re| (re, 0.0)));
    assert_eq!(complex(&Matrix { csr: wide.clone(), complex: true }), wanted);
    assert_eq!((wide.rows(), wide.columns(), wide.nonzeros()), (4, 6, 6));
    let (real, complex) = (describe(&a), describe_complex(&wide));
    assert_eq!((real.magnitudes, real.norm_inf), (complex.magnitudes, complex.norm_inf));
}

/// Whole files of every format.
static WHOLE: LazyLock<[Vec<u8>; 7]> = LazyLock::new(|| {
    let shape = ("shape", &[2, 3][..]);
    let csr = [shape, ("indptr", &[0, 2, 3]), ("indices", &[0, 2, 2])];
    let text = boeing("RSA", "2 2 2 0", "(3I2) (2I2) (4F5.1)", &[" 1 3 3", " 1 2", "  4.0 -1.0"]);
    [
        archive("csr", &csr, (&[3], &[1.0, 2.0, 3.0])),
        archive("dia", &[shape, ("offsets", &[0])], (&[1, 3], &[1.0, 0.0, 9.0])),
        npy(&[2, 3], &WANTED.concat()),
        Petsc::new(false, false).sparse(&[1.0, 2.0, 3.0]).bytes,
        Petsc::new(true, false).integers(&[1_211_216, 2, 3, -1]).numbers(&WANTED.concat()).bytes,
        text.into_bytes(),
        b"a,b\n1,2\n3,4e5\n".to_vec(),
    ]
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn damaged_files_are_answered_or_refused(
        which in 0usize..7,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        end in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let place = Place::new();
        let mut bytes = WHOLE[which].clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if is_cut {
            bytes.truncate(end.index(bytes.len()));
        }
        let path = place.with(bytes);
        let _ = files::read(&path);
        let _ = files::read_vectors(&path, None);
        let _ = files::read_vectors(&path, Some(3));
    }
}
