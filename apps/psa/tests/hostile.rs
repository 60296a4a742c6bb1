//! Damaged files: files that are changed, cut off, or of another format than their names say.
//! Readers refuse them with the place of the error, do not panic, do not hang, and allocate no
//! memory that the files do not justify. The tests run in a process of their own with a limited
//! address space: a larger allocation ends it.

#[path = "it/common/mod.rs"]
mod common;

use std::path::Path;
use std::sync::{Once, OnceLock};

use common::small;
use proptest::prelude::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zellige_files::FileError;
use zellige_psa::Error;
use zellige_psa::basis::{Basis, Sampling};
use zellige_psa::channels::{CHANNELS, Segment};
use zellige_psa::detector::Detector;
use zellige_psa::electronics::Electronics;
use zellige_psa::events::{Events, Spec};
use zellige_psa::fields::Fields;
use zellige_psa::files::arrays::{self, Quantity};
use zellige_psa::files::basis::{self as folder, Origin, Values};
use zellige_psa::files::{archives, events as event_files, fields, gretina, record, write_array};
use zellige_psa::grid::Grid;

/// Address space of this process beyond its size when tests begin (bytes): enough for its threads,
/// and less than any length that a header of these tests invents.
const ROOM: u64 = 2 << 30;

fn limit_memory() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let pages = std::fs::read_to_string("/proc/self/statm").ok();
        let pages = pages.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        let Some(now) = pages.map(|pages| pages * rustix::param::page_size() as u64) else {
            return eprintln!("memory is not limited: there is no /proc/self/statm");
        };
        let maximum = getrlimit(Resource::As).maximum;
        setrlimit(Resource::As, Rlimit { current: Some(now + ROOM), maximum }).expect("a limit");
    });
}

const SAMPLING: Sampling = Sampling { samples: 9, step: 10.0, before: 2 };
/// Distance of the nodes of the fields (mm).
const GRID: f64 = 6.0;

fn basis_of(sampling: Sampling) -> Basis {
    let points = 3;
    let values = (0..points * CHANNELS * sampling.samples).map(|i| (i % 1000) as f32 / 1000.0).collect();
    let segments = (0..points).map(|i| Segment::from_index(7 * i).expect("a segment")).collect();
    let basis = Basis::new(sampling, vec![[1.5, -2.0, 80.0]; points], segments, values);
    basis.and_then(|basis| basis.with_sensitivities(vec![[3.0, 25.0]; points])).expect("sizes that fit")
}

fn origin() -> Origin {
    Origin { crystal: small(), electronics: Electronics::default(), grid: GRID }
}

fn some_events() -> Events {
    let segment = Segment::from_index(3).expect("a segment");
    Events {
        sampling: SAMPLING,
        hits: 2,
        signals: vec![0.5; 2 * CHANNELS * SAMPLING.samples],
        energies: vec![10.0, 20.0, 30.0, 40.0],
        positions: vec![[1.0, 2.0, 3.0]; 4],
        segments: vec![segment; 4],
        timestamps: vec![5, 9],
    }
}

fn some_fields() -> Fields {
    let grid = Grid::around(&small(), GRID).expect("a grid");
    let nodes = grid.len();
    Fields::new(grid, CHANNELS, vec![1.0; nodes], vec![0.1; nodes * CHANNELS]).expect("fields")
}

fn some_detector() -> Detector {
    Detector::new(&small(), some_fields().into(), Electronics::default(), 1.0).expect("a detector")
}

/// A kind of file or folder, with functions to write and read it.
struct Kind {
    name: &'static str,
    write: fn(&Path) -> Result<(), Error>,
    read: fn(&Path) -> Result<(), Error>,
    /// Size of a record (bytes), for files that may end after any record.
    record: Option<usize>,
}

const ARRAY: &str = "array.npy";

const KINDS: [Kind; 9] = [
    Kind {
        name: "array",
        write: |at| write_array(&at.join(ARRAY), &[3, 2], [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]),
        read: |at| arrays::read(&at.join(ARRAY), 2, Quantity::Number).map(drop),
        record: None,
    },
    Kind {
        name: "basis in float32",
        write: |at| folder::write(at, &basis_of(SAMPLING), &origin(), Values::Float32),
        read: |at| folder::read(at).map(drop),
        record: None,
    },
    Kind {
        name: "basis in int16",
        write: |at| folder::write(at, &basis_of(SAMPLING), &origin(), Values::Int16),
        read: |at| folder::read(at).map(drop),
        record: None,
    },
    Kind {
        name: "events",
        write: |at| event_files::write(at, &some_events(), &Spec::default(), &some_detector()),
        read: |at| event_files::read(at).map(drop),
        record: None,
    },
    Kind {
        name: "fields",
        write: |at| fields::write(at, &some_fields()),
        read: |at| fields::read(at, &small(), GRID).map(drop),
        record: None,
    },
    Kind {
        name: "records",
        write: |at| record::write(&at.join("records.dat"), &basis_of(record::SAMPLING)),
        read: |at| record::read(&at.join("records.dat")).map(drop),
        record: Some(record::RECORD),
    },
    Kind {
        name: "archive",
        write: |at| archives::write_events(&at.join("a.npz"), &some_events()),
        read: |at| {
            arrays::read(&at.join("a.npz/energies"), 2, Quantity::Number)?;
            arrays::read(&at.join("a.npz/signals"), 3, Quantity::Number).map(drop)
        },
        record: None,
    },
    Kind {
        name: "archive of a basis",
        write: |at| archives::write_basis(&at.join("b.npz"), &basis_of(SAMPLING)),
        read: |at| archives::read_basis(&at.join("b.npz")).map(drop),
        record: None,
    },
    Kind {
        name: "GRETINA's basis",
        write: |at| std::fs::write(at.join("gretina.dat"), common::of_gretina()).map_err(unwritten),
        read: |at| gretina::read(&at.join("gretina.dat")).map(drop),
        record: None,
    },
];

fn unwritten(source: std::io::Error) -> Error {
    FileError::system(Path::new("gretina.dat"), "cannot write", source).into()
}

type Files = Vec<(String, Vec<u8>)>;

/// Returns the valid files of each kind.
fn written() -> &'static [Files] {
    static FILES: OnceLock<Vec<Files>> = OnceLock::new();
    FILES.get_or_init(|| {
        limit_memory();
        let of_kind = |kind: &Kind| {
            let place = tempfile::tempdir().expect("a folder");
            (kind.write)(place.path()).expect("written");
            let mut files: Files = std::fs::read_dir(place.path())
                .expect("a folder")
                .map(|entry| {
                    let entry = entry.expect("a file");
                    let name = entry.file_name().into_string().expect("a name");
                    (name, std::fs::read(entry.path()).expect("a file"))
                })
                .collect();
            files.sort();
            files
        };
        KINDS.iter().map(of_kind).collect()
    })
}

/// Reads files of a kind, with another content in one of them.
fn read_with(kind: usize, file: usize, content: &[u8]) -> Result<(), Error> {
    let place = tempfile::tempdir().expect("a folder");
    for (number, (name, whole)) in written()[kind].iter().enumerate() {
        let content = if number == file { content } else { whole };
        std::fs::write(place.path().join(name), content).expect("written");
    }
    (KINDS[kind].read)(place.path())
}

/// Checks that an error names the file and, if possible, the place in it.
fn check(kind: usize, file: usize, length: usize, error: &Error) -> Result<(), TestCaseError> {
    let name = &written()[kind][file].0;
    let text = error.to_string();
    // The values in basis.toml and events.toml also determine the expected sizes of the other
    // files.
    prop_assert!(text.contains(name) || written()[kind].iter().any(|(n, _)| text.contains(n)), "{}", text);
    // A place within a member of an archive (b.npz/signals) counts the bytes that are unpacked.
    if let Error::File(FileError::Content { path, offset: Some(offset), .. }) = error
        && path.ends_with(name)
    {
        prop_assert!(*offset <= length as u64, "{}: the file has {} bytes", text, length);
    }
    Ok(())
}

#[test]
fn whole_files_are_read() {
    for kind in 0..KINDS.len() {
        for (file, (name, whole)) in written()[kind].iter().enumerate() {
            read_with(kind, file, whole).unwrap_or_else(|e| panic!("{} {name}: {e}", KINDS[kind].name));
        }
    }
}

/// Strategy for a kind and one of its files.
fn file_of_kind() -> impl Strategy<Value = (usize, usize)> {
    (0..KINDS.len(), any::<prop::sample::Index>())
        .prop_map(|(kind, file)| (kind, file.index(written()[kind].len())))
}

proptest! {
    #![proptest_config(zellige_tests::cases(400))]

    #[test]
    fn what_is_cut_off_is_refused((kind, file) in file_of_kind(), at: prop::sample::Index) {
        let (name, whole) = &written()[kind][file];
        let at = at.index(whole.len());
        let read = read_with(kind, file, &whole[..at]);
        // Missing records at the end cannot be detected.
        if KINDS[kind].record.is_none_or(|record| at % record != 0) && !name.ends_with(".toml") {
            let error = read.expect_err("a file that is cut off");
            check(kind, file, at, &error)?;
            prop_assert!(matches!(error, Error::File(FileError::Content { offset: Some(_), .. })), "{}", error);
        } else if let Err(error) = read {
            check(kind, file, at, &error)?;
        }
    }

    #[test]
    fn bits_that_are_turned_do_no_harm(
        (kind, file) in file_of_kind(),
        turned in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8, any::<bool>()), 1..6),
    ) {
        let mut content = written()[kind][file].1.clone();
        for (at, bit, is_early) in turned {
            // Lengths are in headers.
            let end = if is_early { content.len().min(256) } else { content.len() };
            content[at.index(end)] ^= 1 << bit;
        }
        if let Err(error) = read_with(kind, file, &content) {
            check(kind, file, content.len(), &error)?;
        }
    }

    /// Digits make up lengths in texts.
    #[test]
    fn lengths_that_are_invented_do_no_harm(
        (kind, file) in file_of_kind(),
        at: prop::sample::Index,
        digit in b'0'..=b'9',
        long in 1usize..22,
    ) {
        let whole = &written()[kind][file].1;
        let digits: Vec<usize> = (0..whole.len().min(2000)).filter(|&i| whole[i].is_ascii_digit()).collect();
        prop_assume!(!digits.is_empty());
        let at = digits[at.index(digits.len())];
        let mut content = whole.clone();
        content.splice(at..=at, std::iter::repeat_n(digit, long));
        if let Err(error) = read_with(kind, file, &content) {
            check(kind, file, content.len(), &error)?;
        }
    }

    #[test]
    fn anything_else_is_refused(
        (kind, file) in file_of_kind(),
        kept in 0usize..300,
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let whole = &written()[kind][file].1;
        let content: Vec<u8> = whole.iter().take(kept).copied().chain(bytes).collect();
        if let Err(error) = read_with(kind, file, &content) {
            check(kind, file, content.len(), &error)?;
        }
    }

    /// Headers of arrays, composed of their tokens in any order.
    #[test]
    fn headers_of_arrays_may_say_anything(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "{", "}", "(", ")", "[", "]", ",", ":", "'", "\"", "descr", "shape", "'<f4'", "'fortran_order'", "False", "-", "9", "4294967296", "e", ".", "\\", "\n", " ", "0x",
            ]),
            0..300,
        ),
        as_shape: bool,
    ) {
        let words = words.concat();
        let header = match as_shape {
            true => format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {words}}}\n"),
            false => words,
        };
        let mut content = b"\x93NUMPY\x01\x00".to_vec();
        content.extend((header.len() as u16).to_le_bytes());
        content.extend(header.as_bytes());
        prop_assert!(read_with(0, 0, &content).is_err());
    }
}

/// A reader with a running time that doubles with every such bracket never ends.
#[test]
fn brackets_within_brackets_take_no_time() {
    for bracket in ["[", "{", "(", "{1:", "-"] {
        let header =
            format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {}}}\n", bracket.repeat(300));
        let mut content = b"\x93NUMPY\x01\x00".to_vec();
        content.extend((header.len() as u16).to_le_bytes());
        content.extend(header.as_bytes());
        assert!(read_with(0, 0, &content).is_err());
    }
}

/// Returns the peak memory of this process (bytes); 0 if the system does not report it.
fn peak() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    1024 * kilobytes.unwrap_or(0)
}

/// Half a gigabyte of zeros that archives store in half a megabyte: the shape is refused before
/// they are decompressed.
#[test]
fn archives_are_not_unpacked_for_a_wrong_shape() {
    use std::io::Write;
    const ELEMENTS: usize = 1 << 27;
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("a.npz");
    let mut archive = zip::ZipWriter::new(std::fs::File::create(&path).expect("a file"));
    let options = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Deflated)
        .compression_level(Some(1))
        .large_file(true);
    archive.start_file("energies.npy", options).expect("an entry");
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({ELEMENTS},)}}\n");
    archive.write_all(b"\x93NUMPY\x01\x00").expect("written");
    archive.write_all(&(header.len() as u16).to_le_bytes()).expect("written");
    archive.write_all(header.as_bytes()).expect("written");
    let zeros = vec![0; 1 << 20];
    for _ in 0..4 * ELEMENTS / zeros.len() {
        archive.write_all(&zeros).expect("written");
    }
    archive.finish().expect("an archive");
    let before = peak();
    let error = arrays::read(&path, 3, Quantity::Number).expect_err("one side instead of three").to_string();
    assert!(error.contains("a.npz"), "{error}");
    assert!(peak() - before < 64 << 20, "{} bytes", peak() - before);
}
