//! Tests of all formats: each is read back, and a damaged file is refused with its name.

use std::path::Path;

use tempfile::tempdir;
use zellige_kernels::sites::{MatrixFormat, MatrixNumber, MatrixReals};
use zellige_lqcd::files::{self, ByteOrder, Lattice, lime, milc};
use zellige_lqcd::{Error, Gauge, Geometry};

use crate::written::{arrays, field, ildg, nersc, npy, openqcd, record, scidac, sites, smooth};

fn read(bytes: &[u8]) -> Result<Lattice, Error> {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("lattice");
    std::fs::write(&path, bytes).expect("written");
    files::read(&path)
}

fn refused(bytes: &[u8], why: &str) {
    let error = read(bytes).expect_err(why).to_string();
    assert!(error.contains(why), "{error}: not {why}");
}

fn milc(u: &Gauge, order: ByteOrder) -> Vec<u8> {
    let mut bytes = Vec::new();
    milc::put(&mut bytes, u, "a test", order).expect("memory");
    bytes
}

/// Returns the largest difference of entries.
fn apart(a: &Gauge, b: &Gauge) -> f64 {
    assert_eq!(a.geometry(), b.geometry());
    let elements = |u: &Gauge| u.links().iter().flatten().flatten().copied().collect::<Vec<_>>();
    elements(a).iter().zip(elements(b)).map(|(x, y)| (x - y).norm()).fold(0.0, f64::max)
}

/// Damages that apply to any file: truncation at several positions, and a flipped bit.
fn damage(bytes: &[u8], sign: usize) {
    for end in [0, 3, 50, bytes.len() / 2, bytes.len() - 1] {
        let error = read(&bytes[..end]).expect_err("truncated").to_string();
        assert!(error.contains("truncated"), "{end}: {error}");
    }
    let mut other = bytes.to_vec();
    other[sign] ^= 0x40;
    refused(&other, "is not unitary");
}

/// Every bit of a link is restored. Data, records and checksums are compared with those that the
/// test computes itself. The checksums of the unit field are Python's (`zlib.crc32`).
#[test]
fn ildg_files_are_written_in_double_precision() -> Result<(), Error> {
    let (u, folder) = (field(), tempdir().expect("a folder"));
    let path = folder.path().join("field.ildg");
    files::write(&path, &u, "a < b & c", None)?;
    let back = files::read(&path)?;
    assert_eq!((back.format, back.byte_order, back.precision), ("ildg", ByteOrder::Big, 64));
    assert!(back.description.contains("a < b & c") && back.checksum.is_some());
    assert_eq!(apart(&back.gauge, &u), 0.0);
    let bytes = std::fs::read(&path).expect("there");
    let mut data = record("ildg-binary-data", &sites(&u, 3, 64, ByteOrder::Big).concat());
    assert_eq!(bytes.windows(data.len()).filter(|part| *part == data).count(), 1, "the record of the links");
    // Records, and the first and last flags of their messages, are those that SciDAC's library
    // writes.
    let (mut at, mut records) = (0, Vec::new());
    while let Some(head) = bytes.get(at..at + 144) {
        let name = head[16..].split(|byte| *byte == 0).next().expect("a name");
        let length = u64::from_be_bytes(head[8..16].try_into().expect("eight bytes")) as usize;
        records.push((String::from_utf8_lossy(name).into_owned(), head[6], at + 144..at + 144 + length));
        at += 144 + length.next_multiple_of(8);
    }
    assert_eq!(at, bytes.len());
    let named: Vec<(&str, u8)> = records.iter().map(|(name, flags, _)| (&**name, *flags)).collect();
    assert_eq!(
        named,
        [
            ("scidac-private-file-xml", 0x80),
            ("scidac-file-xml", 0x40),
            ("scidac-private-record-xml", 0x80),
            ("scidac-record-xml", 0),
            ("ildg-format", 0),
            ("ildg-binary-data", 0),
            ("scidac-checksum", 0x40),
        ]
    );
    for (record, words) in [
        (
            0,
            &[
                "<spacetime>4</spacetime>",
                "<dims>4 4 6 4 </dims>",
                "<volfmt>0</volfmt>",
                "<version>1.1</version>",
            ][..],
        ),
        (
            2,
            &[
                "<precision>D</precision>",
                "<colors>3</colors>",
                "<typesize>144</typesize>",
                "<datacount>4</datacount>",
                "<recordtype>0</recordtype>",
                "<datatype>USQCD_D3_ColorMatrix</datatype>",
            ],
        ),
    ] {
        let text = String::from_utf8_lossy(&bytes[records[record].2.clone()]);
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
    let last = bytes.windows(15).position(|part| part == b"scidac-checksum").expect("a record");
    assert_eq!(bytes[last - 10], 0x40);
    damage(
        &bytes,
        bytes.windows(16).position(|part| part == b"ildg-binary-data").expect("a record") + 128 + 8,
    );
    data.clear();
    let cold = Gauge::cold(Geometry::new([4, 4, 4, 8]).expect("a lattice"));
    lime::put(&mut data, &cold, "", MatrixFormat::full(MatrixNumber::Fp64)).expect("memory");
    let text = String::from_utf8_lossy(&data).into_owned();
    assert!(text.contains("<suma>600f31d6</suma><sumb>2e812e81</sumb>"), "another checksum");
    // Files with other endings are in MILC's format.
    let path = folder.path().join("field.lat");
    files::write(&path, &u, "ours", None)?;
    assert_eq!(files::read(&path)?.format, "milc");
    Ok(())
}

/// Every format is read with the accuracy of its numbers, and damage is found.
#[test]
fn packed_links_come_back() -> Result<(), Error> {
    let (u, folder) = (field(), tempdir().expect("a folder"));
    let path = folder.path().join("field.lime");
    for number in MatrixNumber::ALL {
        for reals in MatrixReals::ALL {
            let format = MatrixFormat { number, reals };
            files::write(&path, &u, "packed", Some(format))?;
            let back = files::read(&path)?;
            let wanted = if lime::is_ildg(format) { ("ildg", None) } else { ("scidac", Some(format)) };
            assert_eq!((back.format, back.packed), wanted);
            assert_eq!((back.precision, &*back.description), (8 * number.bytes() as u32, "packed"));
            let bound = 20.0 * number.unit_roundoff();
            assert!(apart(&back.gauge, &u) <= bound.max(2e-15), "{format}: {:e}", apart(&back.gauge, &u));
            let bytes = std::fs::read(&path).expect("there");
            let packed = format.words() * 4 * u.geometry().sites();
            assert!((packed..packed + 2000).contains(&bytes.len()), "{format}: {} bytes", bytes.len());
            let mut other = bytes.clone();
            other[bytes.len() - 2000] ^= 1;
            refused(&other, "damaged");
            refused(&bytes[..bytes.len() / 2], "truncated");
        }
    }
    // An integer of two bytes by hand: the first link is the unit matrix, whose first number is 1.
    let format = MatrixFormat::full(MatrixNumber::Fixed16);
    files::write(&path, &Gauge::cold(u.geometry()), "", Some(format))?;
    let bytes = std::fs::read(&path).expect("there");
    let name = b"scidac-binary-data\0";
    let at = bytes.windows(name.len()).position(|part| part == name).expect("a record") + 128;
    let ones = [0usize, 8, 16].map(|one| at + 2 * one);
    for number in (at..at + 36).step_by(2) {
        let wanted = if ones.contains(&number) { [0x7f, 0xff] } else { [0, 0] };
        assert_eq!(bytes[number..number + 2], wanted);
    }
    for (name, format, why) in [("a.ildg", format, ".lime"), ("a.lat", format, ".lime")] {
        let error = files::write(&folder.path().join(name), &u, "", Some(format)).expect_err("refused");
        assert!(error.to_string().contains(why), "{error}");
    }
    let mut unknown = bytes.clone();
    let at = bytes.windows(8).position(|part| part == b"fixed16_").expect("a type");
    unknown[at + 6] = b'5';
    refused(&unknown, "fixed16");
    Ok(())
}

#[test]
fn milc_files_in_both_orders() -> Result<(), Error> {
    let (u, folder) = (field(), tempdir().expect("a folder"));
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let path = folder.path().join(order.name());
        milc::write(&path, &u, "a test", order)?;
        let back = files::read(&path)?;
        assert_eq!((back.format, back.byte_order, &*back.description), ("milc", order, "a test"));
        assert!(apart(&back.gauge, &u) < 6e-8);
        let bytes = milc(&u, order);
        assert_eq!(std::fs::read(&path).expect("there"), bytes);
        assert_eq!(milc(&back.gauge, order), bytes);
        let (first, last) = if order == ByteOrder::Little { (3, 0) } else { (0, 3) };
        damage(&bytes, 96 + 4 * 100 + first);
        let mut small = bytes.clone();
        small[96 + 4 * 100 + last] ^= 1;
        refused(&small, "checksums of the data are");
        let mut swapped = bytes.clone();
        swapped[96..].chunks_exact_mut(4).for_each(<[u8]>::reverse);
        refused(&swapped, "the data are swapped");
        refused(&[&*bytes, b"more"].concat(), "another lattice");
        let mut order_of_sites = bytes.clone();
        order_of_sites[84 + last] = 1;
        refused(&order_of_sites, "natural order");
    }
    refused(b"nothing that is known", "MILC version 5, NERSC, SciDAC and ILDG");
    let none = files::read(Path::new("/nowhere/lattice")).expect_err("no file").to_string();
    assert!(none.contains("cannot be read"), "{none}");
    assert!(files::read(Path::new("/dev/zero")).is_err());
    Ok(())
}

#[test]
fn openqcd_files() -> Result<(), Error> {
    for (u, is_pyqudas) in [(field(), false), (field(), true), (smooth(), true)] {
        let bytes = openqcd(&u, is_pyqudas);
        let back = read(&bytes)?;
        assert_eq!((back.format, back.precision, back.byte_order), ("openqcd", 64, ByteOrder::Little));
        assert_eq!(apart(&back.gauge, &u), 0.0);
        assert_eq!(back.description.contains("t, z, y, x"), is_pyqudas);
        let mut small = bytes.clone();
        small[16 + 5] ^= 1;
        refused(&small, "the file is damaged, or its field has other than periodic boundaries");
        let mut large = bytes.clone();
        large[24 + 7] ^= 0x40;
        refused(&large, "is not unitary");
        refused(&bytes[..bytes.len() - 1], "truncated");
        refused(&bytes[..50], "truncated");
        refused(&[&*bytes, b"more"].concat(), "another lattice");
        let mut open = bytes.clone();
        open[24..24 + 144].fill(0);
        refused(&open, "open boundary conditions");
        let mut odd = bytes.clone();
        odd[0] = 5;
        refused(&odd, "each extent has to be even");
    }
    Ok(())
}

/// Arrays in each order and type. If a shape allows two orders, the plaquette decides.
#[test]
fn npy_files() -> Result<(), Error> {
    let u = smooth();
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let sign = if order == ByteOrder::Big { ">" } else { "<" };
        for ((sides, values), name) in
            arrays(&u, order).into_iter().zip(["(4, T, Z, Y, X,", "(T, Z, Y, X, 4", "(T, X, Y, Z, 4"])
        {
            let bytes = npy(&format!("{sign}c16"), &sides, &values);
            let back = read(&bytes)?;
            assert_eq!((back.format, back.precision, back.byte_order), ("npy", 64, order));
            assert!(back.description.contains(name), "{}", back.description);
            assert_eq!(apart(&back.gauge, &u), 0.0);
            let narrow: Vec<u8> = values
                .chunks_exact(8)
                .map(|eight| eight.try_into().expect("eight bytes"))
                .flat_map(|eight| match order {
                    ByteOrder::Big => (f64::from_be_bytes(eight) as f32).to_be_bytes(),
                    ByteOrder::Little => (f64::from_le_bytes(eight) as f32).to_le_bytes(),
                })
                .collect();
            let back = read(&npy(&format!("{sign}c8"), &sides, &narrow))?;
            assert_eq!(back.precision, 32);
            assert!(apart(&back.gauge, &u) < 6e-8);
            refused(&bytes[..bytes.len() - 1], "cut off");
            let mut large = bytes.clone();
            let last = large.len() - if order == ByteOrder::Big { 8 } else { 1 };
            large[last] ^= 0x40;
            refused(&large, "is not unitary");
            refused(&npy("<f8", &sides, &values[..values.len() / 2]), "complex128 or complex64");
        }
    }
    // The plaquettes of a random field give no order. The shape then decides, and PyQUDA's order
    // comes first.
    let u = field();
    let [(sides, values), ..] = arrays(&u, ByteOrder::Little);
    assert_eq!(apart(&read(&npy("<c16", &sides, &values))?.gauge, &u), 0.0);
    refused(&npy("<c16", &[4, 4, 4, 4, 3, 3], &[0; 16 * 2304]), "gauge fields are (4, T, Z, Y, X, 3, 3)");
    refused(&npy("<c16", &[4, 5, 4, 4, 4, 3, 3], &[0; 16 * 11520]), "even");
    Ok(())
}

/// Errors for unsupported files name the format and a remedy.
#[test]
fn files_of_others_are_named() {
    let u = field();
    let mut kyu = Vec::new();
    for mu in 0..4 {
        for (row, column, part) in (0..18).map(|k| (k / 6, k / 2 % 3, k % 2)) {
            for site in 0..u.geometry().sites() {
                let z = u.link(site as u32, mu)[column][row];
                kyu.extend([z.re, z.im][part].to_be_bytes());
            }
        }
    }
    refused(&kyu, "readKYUGauge");
    refused(&sites(&u, 3, 64, ByteOrder::Little).concat(), "without a header");
    refused(&sites(&u, 3, 32, ByteOrder::Big).concat(), "without a header");
    for (first, words) in [
        (&b"\x80\x04\x95rest"[..], "a Python pickle"),
        (b"PK\x03\x04rest", "npz"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"\x1f\x8b\x08rest", "gzip"),
        (b"BZh9rest", "bzip2"),
        (b"\xda\xe7\0\0rest", "of version 1 to 4"),
        (b"\0\0\xd1\x2arest", "of 1996"),
        (b"\x71\x62\x64\x34rest", "Fermilab"),
        (b"ENSEMBLE_ID = x\n", "MILC version 5, NERSC, SciDAC and ILDG, openQCD and npy"),
        (&[0; 576], "MILC version 5"),
    ] {
        refused(first, words);
    }
    refused(b"", "truncated");
}

/// A header with a huge lattice takes no memory.
#[test]
fn large_promises_are_refused() {
    let mut bytes = milc(&field(), ByteOrder::Little);
    for extent in [1u32 << 7, 1 << 31, 3, 0] {
        (1..5).for_each(|i| bytes[4 * i..4 * i + 4].copy_from_slice(&extent.to_le_bytes()));
        assert!(read(&bytes).is_err());
    }
}

#[test]
fn nersc_files() -> Result<(), Error> {
    let u = field();
    for (rows, bits, order, accuracy) in
        [(2, 32, ByteOrder::Big, 2e-7), (3, 32, ByteOrder::Little, 6e-8), (3, 64, ByteOrder::Big, 0.0)]
    {
        let bytes = nersc(&u, rows, bits, order);
        let back = read(&bytes)?;
        assert_eq!(
            (back.format, back.precision, back.byte_order, &*back.description),
            ("nersc", bits, order, "test")
        );
        assert!(apart(&back.gauge, &u) <= accuracy, "{}", apart(&back.gauge, &u));
        let begin = bytes.len() - rows * 6 * 4 * bits as usize / 8 * u.geometry().sites();
        let (first, last) = if order == ByteOrder::Big { (0, bits as usize / 8 - 1) } else { (3, 0) };
        damage(&bytes, begin + first);
        let mut small = bytes.clone();
        small[begin + last] ^= 1;
        refused(&small, "the checksum of the data is");
        let mut header = bytes.clone();
        let at = bytes.windows(12).position(|word| word == b"PLAQUETTE = ").expect("a key");
        header[at + 12] = b'9';
        refused(&header, "PLAQUETTE is");
    }
    let text = |from: &str, to: &str| {
        let bytes = nersc(&u, 2, 32, ByteOrder::Big);
        let at = bytes.windows(from.len()).position(|word| word == from.as_bytes()).expect("a key");
        [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat()
    };
    refused(&text("IEEE32BIG", "IEEE32LITTLE"), "the data are swapped");
    // Without a byte order the checksum decides, as for PyQUDA's files and those of the archive.
    for (rows, bits, order) in [
        (2, 32, ByteOrder::Big),
        (2, 32, ByteOrder::Little),
        (3, 64, ByteOrder::Little),
        (3, 64, ByteOrder::Big),
    ] {
        let mut bytes = nersc(&u, rows, bits, order);
        let end: &[u8] = if order == ByteOrder::Big { b"BIG\n" } else { b"LITTLE\n" };
        let at = bytes.windows(end.len()).position(|word| word == end).expect("an order");
        bytes.splice(at..at + end.len() - 1, []);
        let back = read(&bytes)?;
        assert_eq!((back.byte_order, back.precision), (order, bits));
        assert!(apart(&back.gauge, &u) < 2e-7);
        *bytes.last_mut().expect("bytes") ^= 1;
        refused(&bytes, "FLOATING_POINT does not give the byte order");
    }
    refused(&text("4D_SU3_GAUGE", "4D_SU2_GAUGE"), "are supported");
    refused(&text("CHECKSUM", "checksum"), "has no CHECKSUM");
    refused(&text("DIMENSION_1 = 4", "DIMENSION_1 = x"), "a number is needed");
    Ok(())
}

#[test]
fn scidac_and_ildg_files() -> Result<(), Error> {
    let u = field();
    for (bytes, format, bits) in
        [(ildg(&u, 32), "ildg", 32), (ildg(&u, 64), "ildg", 64), (scidac(&u), "scidac", 32)]
    {
        let back = read(&bytes)?;
        assert_eq!((back.format, back.precision), (format, bits));
        assert!(back.checksum.is_some());
        assert!(apart(&back.gauge, &u) < if bits == 64 { 1e-300 } else { 6e-8 });
        let name = format!("{format}-binary-data");
        let at = bytes.windows(name.len()).position(|word| word == name.as_bytes()).expect("a record");
        let begin = at + 128;
        let mut changed = bytes.clone();
        changed[begin] ^= 0x40;
        refused(&changed, "is not unitary");
        let mut small = bytes.clone();
        small[begin + bits as usize / 8 - 1] ^= 1;
        refused(&small, "scidac-checksum has");
        refused(&bytes[..begin + 1000], "truncated");
        let mut magic = bytes.clone();
        magic[begin - 144 + 1] ^= 1;
        refused(&magic, "is not the beginning of a record");
    }
    assert_eq!(read(&scidac(&u))?.description, "<info>a test</info>");
    refused(
        &record("ildg-format", b"<ildgFormat><precision>16</precision></ildgFormat>"),
        "32 and 64 are supported",
    );
    refused(&record("ildg-binary-data", b"12345678"), "before a record ildg-format");
    refused(&record("xlf-info", b"text"), "it has no links");
    Ok(())
}
