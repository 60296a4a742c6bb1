//! Files are read back as written, and damaged ones are refused with the byte.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::common::{detector, fields, of_gretina, runtime, small};
use proptest::prelude::*;
use zellige_files::FileError;
use zellige_files::array::Array;
use zellige_psa::basis::{Basis, Sampling};
use zellige_psa::channels::{CHANNELS, Segment};
use zellige_psa::electronics::Electronics;
use zellige_psa::events::{self, Events, Spec};
use zellige_psa::files::arrays::{self, Quantity};
use zellige_psa::files::basis::{Origin, Values};
#[cfg(feature = "hdf5")]
use zellige_psa::files::read_basis;
use zellige_psa::files::{
    archives, basis as folder, events as event_files, fields as field_files, gretina, record,
};
use zellige_psa::observe::Silent;
use zellige_psa::{Error, detector::Detector};

fn small_basis(sampling: Sampling) -> Basis {
    let points = 3;
    let values = (0..points * CHANNELS * sampling.samples).map(|i| (i % 1000) as f32 / 1000.0).collect();
    let segments = (0..points).map(|i| Segment::from_index(7 * i).expect("a segment")).collect();
    let basis = Basis::new(sampling, vec![[1.5, -2.0, 80.0]; points], segments, values);
    basis.and_then(|basis| basis.with_sensitivities(vec![[3.0, 25.0]; points])).expect("sizes that fit")
}

fn origin() -> Origin {
    Origin {
        crystal: small(),
        electronics: Electronics { cross_talk: -0.001, ..Default::default() },
        grid: 1.0,
    }
}

const SAMPLING: Sampling = Sampling { samples: 9, step: 10.0, before: 2 };

fn same(one: &Basis, other: &Basis, tolerance: f32) -> bool {
    one.sampling() == other.sampling()
        && one.positions() == other.positions()
        && one.segments() == other.segments()
        && one.values().iter().zip(other.values()).all(|(a, b)| (a - b).abs() <= tolerance)
}

#[test]
fn bases_come_back() {
    let place = tempfile::tempdir().expect("a folder");
    let basis = small_basis(SAMPLING);
    for (values, tolerance) in [(Values::Float32, 0.0), (Values::Int16, 0.5 / 16_384.0 + 1e-7)] {
        folder::write(place.path(), &basis, &origin(), values).expect("written");
        let (back, from) = folder::read(place.path()).expect("read");
        assert!(same(&basis, &back, tolerance));
        assert_eq!(from, origin());
    }
    let record = place.path().join("basis.dat");
    let basis = small_basis(record::SAMPLING);
    record::write(&record, &basis).expect("written");
    assert_eq!(std::fs::metadata(&record).expect("a file").len(), 3 * 17_932);
    assert!(same(&basis, &record::read(&record).expect("read"), 0.0));
    assert!(record::write(&record, &small_basis(SAMPLING)).is_err());
}

#[test]
fn fields_and_events_come_back() {
    let place = tempfile::tempdir().expect("a folder");
    let crystal = small();
    let solved = fields(&crystal, 2.0);
    field_files::write(place.path(), &solved).expect("written");
    assert_eq!(field_files::read(place.path(), &crystal, 2.0).expect("read"), solved);
    assert!(field_files::read(place.path(), &crystal, 1.9).is_err());
    let detector =
        Detector::new(&crystal, solved.into(), Electronics::default(), 1.0).map(Arc::new).expect("one");
    let spec = Spec { count: 5, hits: 2, ..Spec::default() };
    let made = events::simulate(&runtime(1), &detector, &spec, &Silent).expect("events");
    event_files::write(place.path(), &made, &spec, &detector).expect("written");
    assert_eq!(event_files::read(place.path()).expect("read"), made);
    let array = place.path().join("signals.npy");
    let alone = event_files::read_signals(&array, made.sampling).expect("read");
    assert_eq!((alone.count(), &alone.signals), (5, &made.signals));
    let other = Sampling { samples: made.sampling.samples - 1, ..made.sampling };
    let error = event_files::read_signals(&array, other).expect_err("another length").to_string();
    assert!(error.contains("[5, 37, 60]") && error.contains("37 x 59"), "{error}");
    // NumPy's default type.
    let sides = [5, 37, made.sampling.samples];
    zellige_files::array::write(&array, &sides, made.signals.iter().copied().map(f64::from))
        .expect("written");
    assert_eq!(event_files::read_signals(&array, made.sampling).expect("float64").signals, made.signals);
    // The core as the first channel, or with the opposite sign, would give wrong positions.
    let event = 37 * made.sampling.samples;
    let of_events = |change: fn(&[f32], usize) -> Vec<f32>| -> Vec<f32> {
        made.signals.chunks_exact(event).flat_map(|event| change(event, event.len() / 37)).collect()
    };
    let core_first = of_events(|event, samples| {
        let (segments, core) = event.split_at(event.len() - samples);
        [core, segments].concat()
    });
    let turned = of_events(|event, samples| {
        let (segments, core) = event.split_at(event.len() - samples);
        segments.iter().copied().chain(core.iter().map(|value| -value)).collect()
    });
    for (signals, remedy) in [(core_first, "then the core"), (turned, "sign")] {
        zellige_files::array::write(&array, &sides, signals).expect("written");
        let error = event_files::read_signals(&array, made.sampling).expect_err("refused").to_string();
        assert!(error.contains("signals.npy: the core's charges") && error.contains(remedy), "{error}");
    }
}

#[test]
fn a_folder_that_is_not_complete_is_none() {
    let place = tempfile::tempdir().expect("a folder");
    folder::write(place.path(), &small_basis(SAMPLING), &origin(), Values::Float32).expect("written");
    std::fs::remove_file(place.path().join("basis.toml")).expect("removed");
    let error = folder::read(place.path()).expect_err("no basis").to_string();
    assert!(error.contains("basis.toml") && error.contains("an incomplete one"), "{error}");
    assert!(event_files::read(place.path()).expect_err("no events").to_string().contains("events.toml"));
    let loud =
        Basis::new(SAMPLING, vec![[0.0; 3]], vec![Segment::from_index(0).expect("one")], vec![2.2; 37 * 9]);
    let error = folder::write(place.path(), &loud.expect("a basis"), &origin(), Values::Int16)
        .expect_err("too large");
    assert!(error.to_string().contains("take f32"));
}

/// Returns the byte that an error names.
fn byte(error: &Error) -> Option<u64> {
    match error {
        Error::File(FileError::Content { offset, .. }) => *offset,
        _ => None,
    }
}

#[test]
fn the_byte_of_what_is_wrong_is_named() {
    let place = tempfile::tempdir().expect("a folder");
    let record = place.path().join("basis.dat");
    record::write(&record, &small_basis(record::SAMPLING)).expect("written");
    let whole = std::fs::read(&record).expect("read");
    let with = |at: usize, bytes: [u8; 4]| {
        let mut damaged = whole.clone();
        damaged[at..at + 4].copy_from_slice(&bytes);
        std::fs::write(&record, damaged).expect("written");
        byte(&record::read(&record).expect_err("damaged"))
    };
    assert_eq!(with(17_932 + 20, 36i32.to_le_bytes()), Some(17_932 + 20));
    assert_eq!(with(2 * 17_932 + 100, f32::NAN.to_le_bytes()), Some(2 * 17_932 + 100));
    std::fs::write(&record, &whole[..20_000]).expect("written");
    assert_eq!(byte(&record::read(&record).expect_err("cut")), Some(20_000));
    folder::write(place.path(), &small_basis(SAMPLING), &origin(), Values::Float32).expect("written");
    let segments = place.path().join("segments.npy");
    let mut bytes = std::fs::read(&segments).expect("read");
    let last = bytes.len() - 1;
    bytes[last] = 40;
    std::fs::write(&segments, bytes).expect("written");
    assert_eq!(byte(&folder::read(place.path()).expect_err("damaged")), Some(last as u64));
}

#[test]
fn bases_of_gretina_are_read() {
    let place = tempfile::tempdir().expect("a folder");
    let (path, whole) = (place.path().join("basis.dat"), of_gretina());
    let read = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("written");
        gretina::read(&path)
    };
    let (basis, places) = read(&whole).expect("a basis");
    assert_eq!(places, [[0, 0, 0], [1, 0, 0]]);
    // The file's segment 13 is sector 1 of ring 2.
    let segment = Segment::new(1, 2).expect("a segment");
    assert_eq!((basis.segments(), basis.positions()), (&[segment; 2][..], &[[1.0, 2.0, 3.0]; 2][..]));
    assert_eq!(basis.signal(1, segment.into())[7], 1000.0 + 130.0 + 0.07);
    assert_eq!(basis.signal(0, zellige_psa::channels::Channel::CORE)[49], 360.0 + 0.49);
    let with = |at: usize, byte_there: u8| {
        let mut damaged = whole.clone();
        damaged[at] = byte_there;
        byte(&read(&damaged).expect_err("damaged"))
    };
    assert_eq!(with(3, b'x'), Some(0));
    assert_eq!(with(256 + 7712, 36), Some(256 + 7712));
    assert_eq!(with(whole.len() - 4, 2), Some(whole.len() as u64 - 4));
    assert_eq!(byte(&read(&whole[..9000]).expect_err("cut")), Some(9000));
    assert_eq!(byte(&read(&whole[..100]).expect_err("cut")), Some(100));
}

/// Returns the files of a basis and of events, by name.
fn written() -> &'static [(&'static str, Vec<u8>)] {
    static FILES: OnceLock<Vec<(&str, Vec<u8>)>> = OnceLock::new();
    FILES.get_or_init(|| {
        let place = tempfile::tempdir().expect("a folder");
        folder::write(place.path(), &small_basis(SAMPLING), &origin(), Values::Int16).expect("written");
        let read =
            |name: &'static str| (name, std::fs::read(place.path().join(name)).expect("written before"));
        let of_basis =
            ["basis.toml", "positions.npy", "segments.npy", "signals.npy", "sensitivities.npy"].map(read);
        record::write(&place.path().join("basis.dat"), &small_basis(record::SAMPLING)).expect("written");
        of_basis.into_iter().chain([read("basis.dat")]).collect()
    })
}

/// Returns the number of bytes of the last line.
fn last_line(text: &[u8]) -> usize {
    text.trim_ascii_end().iter().rev().position(|&byte| byte == b'\n').expect("several lines") + 1
}

fn read_all(place: &Path) -> [Result<(), Error>; 2] {
    [folder::read(place).map(drop), record::read(&place.join("basis.dat")).map(drop)]
}

proptest! {
    #![proptest_config(zellige_tests::cases(150))]

    /// A truncated file is refused, one with changed bytes is read or refused. Nothing panics, and
    /// no memory is allocated for content that the files do not hold.
    #[test]
    fn damaged_files_are_refused(file in 0usize..6, at: prop::sample::Index, bytes: [u8; 3], cut: bool) {
        let place = tempfile::tempdir().expect("a folder");
        for (number, (name, content)) in written().iter().enumerate() {
            let mut content = content.clone();
            if number == file {
                let at = at.index(content.len());
                match cut {
                    true => content.truncate(at),
                    false => content[at..].iter_mut().zip(bytes).for_each(|(old, new)| *old = new),
                }
            }
            std::fs::write(place.path().join(name), content).expect("written");
        }
        let [of_folder, of_records] = read_all(place.path());
        prop_assert!(if file == 5 { of_folder.is_ok() } else { of_records.is_ok() }, "what is whole is read");
        let length = written()[file].1.len();
        let is_seen = match file {
            // The last digits of the last number may be missing,
            0 => at.index(length) < length - last_line(&written()[file].1),
            // and whole records: this cannot be detected.
            5 => at.index(length) % record::RECORD != 0,
            _ => true,
        };
        if cut && is_seen {
            let error = if file < 5 { of_folder } else { of_records }.expect_err("a file that is cut off");
            prop_assert!(error.to_string().contains(written()[file].0), "{}", error);
        }
    }

    /// Damaged bases of GRETINA are treated in the same way.
    #[test]
    fn damaged_bases_of_gretina_are_refused(at in 0usize..16_000, value: u8, cut: bool) {
        let place = tempfile::tempdir().expect("a folder");
        let (path, mut bytes) = (place.path().join("basis.dat"), of_gretina());
        let at = at % bytes.len();
        if cut { bytes.truncate(at) } else { bytes[at] = value }
        std::fs::write(&path, bytes).expect("written");
        let read = gretina::read(&path);
        prop_assert!(!cut || read.is_err_and(|error| byte(&error).is_some()));
    }

    /// Headers of npy files may announce any shape.
    #[test]
    fn headers_are_not_trusted(sides in prop::collection::vec(any::<u64>(), 1..4), kind in "[<>|][fiucUV][0-9]{1,20}") {
        let place = tempfile::tempdir().expect("a folder");
        let shape = sides.iter().map(|side| format!("{side},")).collect::<String>();
        let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        let path = place.path().join("a.npy");
        std::fs::write(&path, bytes).expect("written");
        let opened = Array::open(&path).and_then(|array| array.of(&["f4", "f8", "u1"], sides.len()));
        prop_assert!(opened.is_err() || sides.contains(&0));
    }
}

/// Events of another length than the basis are refused.
#[test]
fn events_of_another_length_are_refused() {
    let place = tempfile::tempdir().expect("a folder");
    let crystal = small();
    let detector = detector(&crystal, 2.0);
    let spec = Spec { count: 4, ..Spec::default() };
    let made: Events = events::simulate(&runtime(1), &detector, &spec, &Silent).expect("events");
    event_files::write(place.path(), &made, &spec, &detector).expect("written");
    let times = place.path().join("timestamps.npy");
    let bytes = std::fs::read(&times).expect("read");
    std::fs::write(&times, &bytes[..bytes.len() - 3]).expect("written");
    let error = event_files::read(place.path()).expect_err("cut");
    assert_eq!(byte(&error), Some(bytes.len() as u64 - 3), "{error}");
}

#[test]
fn arrays_come_back_from_archives() {
    let place = tempfile::tempdir().expect("a folder");
    let (path, basis) = (place.path().join("b.npz"), small_basis(SAMPLING));
    archives::write_basis(&path, &basis).expect("written");
    let array = |name: &str, dimensions| arrays::read(&path.join(name), dimensions, Quantity::Number);
    let signals = array("signals", 3).expect("signals");
    assert_eq!(signals.shape, [3, CHANNELS, SAMPLING.samples]);
    assert!(signals.numbers.iter().zip(basis.values()).all(|(a, &b)| *a == f64::from(b)));
    assert_eq!(array("positions", 2).expect("positions").numbers[..3], [1.5, -2.0, 80.0]);
    assert!(std::fs::metadata(&path).expect("a file").len() < 4 * basis.values().len() as u64, "compressed");
    for (name, words) in [("", "FILE.npz/NAME"), ("noise", "positions, segments, sampling, signals")] {
        let path = if name.is_empty() { path.clone() } else { path.join(name) };
        let error = arrays::read(&path, 3, Quantity::Number).expect_err(name).to_string();
        assert!(error.contains(words), "{error}");
    }
    std::fs::write(&path, b"PK").expect("written");
    assert!(array("signals", 3).expect_err("no archive").to_string().contains("no npz file"));
}

#[cfg(feature = "hdf5")]
#[test]
fn arrays_come_back_from_hdf5() {
    let place = tempfile::tempdir().expect("a folder");
    let (path, basis) = (place.path().join("b.h5"), small_basis(SAMPLING));
    archives::write_basis_hdf5(&path, &basis).expect("written");
    let array = |name: &str, dimensions| arrays::read(&path.join(name), dimensions, Quantity::Number);
    let signals = array("signals", 3).expect("signals");
    assert_eq!(signals.shape, [3, CHANNELS, SAMPLING.samples]);
    assert!(signals.numbers.iter().zip(basis.values()).all(|(a, &b)| *a == f64::from(b)));
    assert_eq!(array("positions", 2).expect("positions").numbers[..3], [1.5, -2.0, 80.0]);
    // Other types, data sets in groups, and a file with one data set.
    let detector = detector(&small(), 2.0);
    let spec = Spec { count: 3, hits: 2, ..Spec::default() };
    let made = events::simulate(&runtime(1), &detector, &spec, &Silent).expect("events");
    let of_events = place.path().join("e.hdf5");
    archives::write_events_hdf5(&of_events, &made).expect("written");
    assert_eq!(
        arrays::read(&of_events.join("energies"), 2, Quantity::Number).expect("energies").numbers,
        made.energies
    );
    for (path, words) in [
        (path.clone(), "FILE.h5/NAME"),
        (path.join("noise"), "no data set \"noise\" in it, but positions, sampling, segments, signals"),
    ] {
        let error = arrays::read(&path, 1, Quantity::Number).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
    let bytes = std::fs::read(&path).expect("read");
    for cut in [0, 7, 100, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..cut]).expect("written");
        let error = array("signals", 3).expect_err("cut off").to_string();
        assert!(error.contains("b.h5"), "{error}");
    }
}

/// A basis and events in the format of legend-lh5io (`fixtures/legend.py`): int64 segments, m, MeV,
/// and times of waveforms in us.
#[cfg(feature = "hdf5")]
#[test]
fn files_of_legend_are_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/legend.lh5");
    let basis = read_basis(&path.join("basis")).expect("a basis");
    assert_eq!(basis.sampling(), Sampling { samples: 12, step: 10.0, before: 2 });
    assert_eq!(basis.positions()[2], [5.0, -25.0, 30.0]);
    assert_eq!(basis.segments().iter().map(|s| s.index()).collect::<Vec<_>>(), [0, 7, 14, 35]);
    let hit = basis.signal(2, basis.segments()[2].into());
    assert_eq!((hit[2], hit[5], hit[11]), (0.0, 0.5, 1.0));
    let events = path.join("events");
    let read = event_files::read_signals(&events, basis.sampling()).expect("events");
    assert_eq!((read.count(), read.signals[11]), (4, 1332.0));
    let other = Sampling { step: 16.0, ..basis.sampling() };
    let error = event_files::read_signals(&events, other).expect_err("another step").to_string();
    assert!(error.contains("samples every 10 ns, those of the basis every 16 ns"), "{error}");
    for (name, words) in [
        ("vectors", "\"vectors\" is a group (cumulative_length, flattened_data)"),
        ("", "no data set outside groups (basis, events, vectors)"),
    ] {
        let path = if name.is_empty() { path.clone() } else { path.join(name) };
        let error = arrays::read(&path, 2, Quantity::Number).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
    // The format is recognised for any name of the file.
    let place = tempfile::tempdir().expect("a folder");
    for name in ["b.hdf", "b.lh5", "b.dat", "b"] {
        std::fs::copy(&path, place.path().join(name)).expect("copied");
        let again = read_basis(&place.path().join(name).join("basis")).expect(name);
        assert_eq!(again.values(), basis.values(), "{name}");
    }
    let whole = std::fs::read(&path).expect("read");
    for cut in [8, 100, 2000, whole.len() / 2] {
        let path = place.path().join("cut.lh5");
        std::fs::write(&path, &whole[..cut]).expect("written");
        let error = read_basis(&path.join("basis")).expect_err("cut off").to_string();
        assert!(error.contains("cut.lh5"), "{error}");
    }
}

/// The type of numbers does not change their values; only a basis is in fixed point.
#[test]
fn types_of_numbers_change_nothing() {
    let place = tempfile::tempdir().expect("a folder");
    let write = |name: &str, sides: &[usize], numbers: &[i64]| {
        let path = place.path().join(name);
        zellige_files::array::write(&path, sides, numbers.iter().copied()).expect("written");
    };
    let basis = small_basis(SAMPLING);
    folder::write(place.path(), &basis, &origin(), Values::Float32).expect("written");
    write("segments.npy", &[3], &[0, 7, 14]);
    write("positions.npy", &[3, 3], &[12, -3, 80, 1, 2, 3, 4, 5, 6]);
    let (back, _) = folder::read(place.path()).expect("read");
    assert_eq!((back.segments(), back.positions()[0]), (basis.segments(), [12.0, -3.0, 80.0]));
    for (numbers, words) in
        [([1, 36, 8], "counted from 1"), ([0, 36, 8], "there are 0 to 35"), ([-1, 0, 0], "segment -1")]
    {
        write("segments.npy", &[3], &numbers);
        let error = folder::read(place.path()).expect_err(words);
        assert!(error.to_string().contains(words) && byte(&error).is_some(), "{error}");
    }
}

#[cfg(not(feature = "hdf5"))]
#[test]
fn hdf5_is_refused_where_nobody_can_read_it() {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("b.h5");
    std::fs::write(&path, b"\x89HDF\r\n\x1a\n").expect("written");
    let error = arrays::read(&path.join("signals"), 3, Quantity::Number).expect_err("no library").to_string();
    assert!(error.contains("the feature `hdf5`"), "{error}");
}

/// An archive written by NumPy (`numpy.savez("a.npz", [[1.5, -2.0]])`), without compression.
#[test]
fn archives_of_numpy_are_read() {
    let mut npy =
        b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }".to_vec();
    npy.resize(127, b' ');
    npy.push(b'\n');
    npy.extend([1.5f64, -2.0].into_iter().flat_map(f64::to_le_bytes));
    let (name, size) = (b"arr_0.npy", (npy.len() as u32).to_le_bytes());
    let mut crc = flate2::Crc::new();
    crc.update(&npy);
    let crc = crc.sum().to_le_bytes();
    let fields = [&[20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0][..], &crc, &size, &size, &[9, 0]].concat();
    let local = [b"PK\x03\x04", &fields[..], &[0, 0], name, &npy].concat();
    let central = [b"PK\x01\x02\x14\x03", &fields[..], &[0; 16], name].concat();
    let [at, long] = [local.len(), central.len()].map(|length| (length as u32).to_le_bytes());
    let end = [b"PK\x05\x06", &[0, 0, 0, 0, 1, 0, 1, 0][..], &long, &at, &[0, 0]].concat();
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("a.npz");
    std::fs::write(&path, [local, central, end].concat()).expect("written");
    for path in [path.clone(), path.join("arr_0")] {
        let array = arrays::read(&path, 2, Quantity::Number).expect("an array");
        assert_eq!((array.shape, array.numbers), (vec![1, 2], vec![1.5, -2.0]));
    }
}
