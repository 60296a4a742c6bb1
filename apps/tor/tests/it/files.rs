//! Files: written ones are read back, by this crate and as the standards say; damaged ones are
//! refused.

use crate::common;
use proptest::prelude::*;
use std::path::Path;
use zellige_tor::files::fits::{self, Card, CardValue, Hdu, KeyValue, Pixels};
use zellige_tor::files::{SlopeOrder, npy, write_whole};
use zellige_tor::{Covariance, Matrix};

fn sample() -> Matrix {
    Matrix::from_fn(7, 5, |i, j| (i as f64) - 0.3 * (j as f64) + if i == j { 1e-7 } else { 0.0 })
}

fn hdu<'a>(name: &str, pixels: Pixels<'a>) -> Hdu<'a> {
    Hdu { name: name.into(), pixels, axes: &[], cards: Vec::new() }
}

#[test]
fn several_images_and_their_keywords() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.fits");
    let (system, atmosphere) = common::laser_and_star();
    let cov = Covariance::new(&system, &atmosphere).unwrap();
    let a = sample();
    let cube: Vec<f32> = (0..24).map(|k| k as f32).collect();
    let mut first = hdu("R", Pixels::Matrix(&a));
    first.cards = fits::system_cards(&system, &atmosphere, cov.geometry(), SlopeOrder::Xxyy);
    first.cards.extend(fits::reconstructor_cards("hp1:band=2", Some(1.5e-6), Some(0.554_059)));
    first.cards.push(Card::new("AUTHOR", "it's ours", ""));
    first.cards.push(Card::new(
        "NOTHING",
        true,
        "a comment that is far too long to fit on what is left of this line of the header",
    ));
    let columns: Vec<f32> = a.data().iter().map(|v| *v as f32).collect();
    let hdus = [
        first,
        hdu("PSF", Pixels::F32 { shape: vec![2, 3, 4], values: &cube }),
        hdu("SINGLE", Pixels::MatrixF32(&a)),
        hdu("COLUMNS", Pixels::ColumnsF32 { rows: 7, cols: 5, values: &columns }),
    ];
    fits::write(&path, &hdus, &[]).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len() % 2880, 0);

    assert_eq!(fits::read_matrix(&path, Some("R")).unwrap(), a);
    let r = fits::read(&path, None).unwrap();
    assert_eq!(r.name.as_deref(), Some("R"));
    assert_eq!(r.shape, [7, 5]);
    // Values are in row-major order: the second one is entry (0, 1).
    assert_eq!(r.values[1], a[(0, 1)]);
    for (key, want) in [
        ("NMEAS", 208.0),
        ("NTS", 104.0),
        ("NSSP", 8.0),
        ("DIAM", 8.0),
        ("LGSCST", 0.1),
        ("BACKERR", 1.5e-6),
        ("STREHL", 0.554_059),
    ] {
        assert_eq!(r.number(key), Some(want), "{key}");
    }
    assert!((r.number("R0").unwrap() - 0.15).abs() < 1e-12);
    for (key, want) in [
        ("UNITS", "arcsec"),
        ("WFSORDER", "1 LGS, 1 NGS"),
        ("SLOPEORD", "xxyy"),
        ("PRECRULE", "hp1:band=2"),
        ("AUTHOR", "it's ours"),
    ] {
        assert_eq!(r.text(key), Some(want), "{key}");
    }
    assert_eq!(r.key("NOTHING"), Some(&KeyValue::Logical(true)));
    let psf = fits::read(&path, Some("PSF")).unwrap();
    assert_eq!(psf.shape, [2, 3, 4]);
    assert!(psf.values.iter().enumerate().all(|(k, v)| *v == k as f64));
    let single = fits::read_matrix(&path, Some("SINGLE")).unwrap();
    assert_eq!(single, fits::read_matrix(&path, Some("COLUMNS")).unwrap());
    assert_eq!(single[(3, 2)], f64::from(a[(3, 2)] as f32));
    let missing = fits::read(&path, Some("CMM")).unwrap_err().to_string();
    assert!(missing.contains("no image called CMM") && missing.contains("PSF"), "{missing}");
    assert!(fits::read_matrix(&path, Some("PSF")).unwrap_err().to_string().contains("two dimensions"));
}

#[test]
fn header_bytes_follow_the_standard() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.fits");
    fits::write(&path, &[hdu("A", Pixels::F64 { shape: vec![1, 2], values: &[1.0, -2.0] })], &[]).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 2 * 2880);
    let card = |k: usize| std::str::from_utf8(&bytes[80 * k..80 * k + 80]).unwrap();
    assert!(card(0).starts_with("SIMPLE  =                    T"));
    assert!(card(1).starts_with("BITPIX  =                  -64"));
    assert!(card(3).starts_with("NAXIS1  =                    2"));
    assert!(card(4).starts_with("NAXIS2  =                    1"));
    assert_eq!(&bytes[2880..2896], [1.0f64.to_be_bytes(), (-2.0f64).to_be_bytes()].concat());
}

#[test]
fn what_fits_cannot_hold_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.fits");
    let a = sample();
    let long = "x".repeat(80);
    for (card, why) in [
        (Card::new("TOOLONGKEY", 1usize, ""), "keyword"),
        (Card::new("lower", 1usize, ""), "keyword"),
        (Card::new("BACKERR", f64::NAN, ""), "cannot hold"),
        (Card::new("TEXT", long.as_str(), ""), "longer"),
        (Card::new("TEXT", "é", ""), "ASCII"),
        (Card { key: String::new(), value: CardValue::Integer(1), comment: String::new() }, "keyword"),
    ] {
        let mut h = hdu("A", Pixels::Matrix(&a));
        h.cards.push(card);
        let message = fits::write(&path, &[h], &[]).unwrap_err().to_string();
        assert!(message.contains(why) && message.contains("bad.fits"), "{message}");
    }
    assert!(fits::write(&path, &[hdu("A", Pixels::F64 { shape: vec![3], values: &[1.0] })], &[]).is_err());
    assert!(fits::write(&path, &[], &[]).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let nowhere = folder.path().join("missing/folder/a.fits");
    let message = fits::write(&nowhere, &[hdu("A", Pixels::Matrix(&a))], &[]).unwrap_err().to_string();
    assert!(message.contains("missing/folder/a.fits") && message.contains("folder"), "{message}");
}

#[test]
fn a_failed_write_keeps_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    npy::write_f64(&path, &sample()).unwrap();
    let result = write_whole(&path, |out| {
        use std::io::Write;
        out.write_all(b"half")?;
        Err(std::io::Error::other("the disk is full"))
    });
    assert!(result.unwrap_err().to_string().contains("the disk is full"));
    assert_eq!(npy::read(&path).unwrap(), sample());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn npy_round_trip_and_foreign_layouts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    let a = sample();
    npy::write_f64(&path, &a).unwrap();
    assert_eq!(npy::read(&path).unwrap(), a);
    // This array in Fortran order, big-endian, is written by hand.
    let raw = |descr: &str, fortran: &str, shape: &str, data: &[u8]| {
        let mut header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
        while (10 + header.len() + 1) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        std::fs::write(&path, bytes).unwrap();
    };
    let data: Vec<u8> = (0..6).flat_map(|k| f64::from(k).to_be_bytes()).collect();
    raw(">f8", "True", "(2, 3)", &data);
    let m = npy::read(&path).unwrap();
    assert_eq!((m.rows(), m.cols(), m[(1, 0)], m[(0, 1)]), (2, 3, 1.0, 2.0));
    raw(">f8", "False", "(2, 3)", &data);
    assert_eq!(npy::read(&path).unwrap()[(0, 1)], 1.0);
    let single: Vec<u8> = (0..6).flat_map(|k| (0.1 * k as f32).to_le_bytes()).collect();
    raw("<f4", "False", "(2, 3)", &single);
    assert_eq!(npy::read(&path).unwrap()[(0, 1)], f64::from(0.1f32));
    for (descr, shape, bytes, why) in [
        (">f8", "(6,)", 48, "two dimensions"),
        ("<i4", "(2, 3)", 24, "float32 or float64"),
        (">f8", "(2, 300000000000)", 48, "cut off"),
        (">f8", "(2, 2)", 48, "holds something else"),
    ] {
        raw(descr, "False", shape, &data[..bytes]);
        let message = npy::read(&path).unwrap_err().to_string();
        assert!(message.contains(why), "{message}");
    }
    assert!(npy::read(Path::new("/nowhere/a.npy")).unwrap_err().to_string().contains("/nowhere/a.npy"));
}

#[test]
fn a_real_interaction_matrix() {
    let Some(path) = zellige_tests::data("ao/tomoao/influence_matrix_5Mar.fits") else {
        return;
    };
    let image = fits::read(&path, None).unwrap();
    assert_eq!(image.values.len(), 608 * 349);
    let matrix = fits::read_matrix(&path, None).unwrap();
    let (rows, cols) = (matrix.rows(), matrix.cols());
    assert_eq!(rows.min(cols), 349);
    let interaction = if rows == 608 { matrix } else { matrix.transposed() };
    assert!(interaction.data().iter().all(|v| v.is_finite()) && interaction.max_abs() > 0.0);
    let command = zellige_tor::dm::pseudo_inverse(&interaction, 1.0 / 30f64.sqrt()).unwrap();
    assert_eq!((command.dx.rows(), command.dx.cols()), (349, 608));
    // A pseudo-inverse inverts its matrix on the kept modes: D A D = D.
    let back = command.dx.times(&interaction).unwrap().times(&command.dx).unwrap();
    let difference = Matrix::from_fn(349, 608, |i, j| back[(i, j)] - command.dx[(i, j)]);
    assert!(difference.norm() < 1e-9 * command.dx.norm());
}

proptest! {
    #![proptest_config(zellige_tests::cases(200))]

    #[test]
    fn damaged_fits_and_npy_never_panic(
        at in any::<prop::sample::Index>(),
        header_only in any::<bool>(),
        replace in proptest::collection::vec(any::<u8>(), 1..30),
        cut in any::<prop::sample::Index>(),
        truncate in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        for kind in 0..2 {
            if kind == 0 {
                fits::write(&path, &[hdu("A", Pixels::Matrix(&sample())), hdu("B", Pixels::Matrix(&sample()))], &[]).unwrap();
            } else {
                npy::write_f64(&path, &sample()).unwrap();
            }
            let mut bytes = std::fs::read(&path).unwrap();
            let reach = if header_only { bytes.len().min(640) } else { bytes.len() };
            let start = at.index(reach);
            for (slot, b) in bytes[start..].iter_mut().zip(&replace) {
                *slot = *b;
            }
            if truncate {
                bytes.truncate(cut.index(bytes.len()));
            }
            std::fs::write(&path, &bytes).unwrap();
            let _ = fits::read(&path, None);
            let _ = fits::read(&path, Some("B"));
            let _ = fits::read_matrix(&path, None);
            let _ = fits::read(&path.join("1"), None);
            let _ = zellige_tor::params::read_map(&path);
            let _ = npy::read(&path);
        }
    }
}
