//! Bases of GRETINA are written on their lattice, with the bytes of their layout, and read back.

use std::collections::HashSet;
use std::f64::consts::PI;

use crate::common::{detector, runtime, small};
use zellige_psa::basis::{Basis, Sampling};
use zellige_psa::channels::{CHANNELS, Segment};
use zellige_psa::files::gretina::{self, LatticePosition};
use zellige_psa::observe::Silent;
use zellige_psa::simulate::{Cylindrical, basis};

fn segment(sector: usize, ring: usize) -> Segment {
    Segment::new(sector, ring).expect("a segment")
}

/// Returns two points of one segment and one of another; the first signals of the second point
/// are 0.
fn three_points() -> (Basis, Vec<LatticePosition>) {
    let mut values: Vec<f32> = (0..3 * CHANNELS * 50).map(|i| (i % 997) as f32 / 997.0 - 0.5).collect();
    let second = &mut values[CHANNELS * 50..];
    second[..50].fill(0.0);
    second[50..53].fill(0.0);
    second[98..100].fill(0.0);
    let positions = vec![[1.5, 0.0, 3.0], [2.5, 0.0, 3.0], [-1.5, 8.0, 77.0]];
    let segments = vec![segment(0, 4), segment(0, 4), segment(5, 1)];
    let basis = Basis::new(gretina::SAMPLING, positions, segments, values).expect("a basis");
    (basis, vec![[0, 1, 2], [1, 1, 2], [0, 0, 0]])
}

fn same(one: &Basis, other: &Basis) -> bool {
    (one.positions(), one.segments(), one.values()) == (other.positions(), other.segments(), other.values())
}

#[test]
fn a_basis_has_the_bytes_of_its_layout_and_comes_back() {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("basis.dat");
    let (basis, places) = three_points();
    gretina::write(&path, &basis, &places).expect("written");
    let bytes = std::fs::read(&path).expect("a file");
    // 36 segments, 2 steps along r, 2 along phi, 3 along z.
    assert_eq!(bytes.len(), 256 + 3 * 7712 + 4 * 36 * 2 * 2 * 3);
    let header = "GRETA basis signals; Cylindrical; version 1.2\n3 basis point, 36 grid segments, 50 time steps\n\
        grid_pos_lu_rpz SRAD SPHI SZ: 2 2 3\n";
    assert!(bytes.starts_with(header.as_bytes()) && bytes[header.len()..256].iter().all(|&byte| byte == 0));
    let word = |at: usize| <[u8; 4]>::try_from(&bytes[at..at + 4]).expect("four bytes");
    // The second point: ring 4 of sector 0 is number 24 in the file.
    let second = 256 + 7712;
    assert_eq!(bytes[second..second + 4], [24, 1, 1, 2]);
    assert_eq!(f32::from_le_bytes(word(second + 4)), 2.5);
    // The file's signal 1 is sector 1 of ring 0, our 6; its signal 6 is sector 0 of ring 1, our 1.
    for (signal, ours) in [(0, 0), (1, 6), (6, 1), (36, 36)] {
        for sample in 0..50 {
            let found = f32::from_le_bytes(word(second + 16 + 4 * (signal * 50 + sample)));
            assert_eq!(found, basis.values()[(CHANNELS + ours) * 50 + sample], "signal {signal}");
        }
    }
    let ends = |signal: usize| {
        [0, CHANNELS].map(|column| i32::from_le_bytes(word(second + 7416 + 4 * (column + signal))))
    };
    assert_eq!((ends(0), ends(6), ends(36)), ([50, 0], [3, 47], [0, 49]));
    let record = |segment: usize, [r, phi, z]: [usize; 3]| {
        i32::from_le_bytes(word(256 + 3 * 7712 + 4 * (((segment * 2 + r) * 2 + phi) * 3 + z)))
    };
    assert_eq!([record(24, [0, 1, 2]), record(24, [1, 1, 2]), record(11, [0, 0, 0])], [0, 1, 2]);
    assert_eq!((record(24, [0, 0, 0]), record(0, [0, 1, 2])), (-1, -1));
    let (back, at) = gretina::read(&path).expect("read");
    assert!(same(&back, &basis) && at == places);
}

#[test]
fn what_cannot_be_written_leaves_nothing() {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("basis.dat");
    let (basis, places) = three_points();
    let refused = |basis: &Basis, places: &[LatticePosition]| {
        let error = gretina::write(&path, basis, places).expect_err("refused").to_string();
        assert!(!path.exists());
        error
    };
    let twice = refused(&basis, &[places[0], places[0], places[2]]);
    assert!(twice.contains("points 0 and 1"), "{twice}");
    assert!(refused(&basis, &places[..2]).contains("3 points"));
    let sampling = Sampling { samples: 9, ..gretina::SAMPLING };
    let short = Basis::new(sampling, vec![[0.0; 3]], vec![segment(0, 0)], vec![0.0; CHANNELS * 9]);
    assert!(refused(&short.expect("a basis"), &places[..1]).contains("50"));
}

/// In a simulated crystal, neighbours on the lattice of a segment are neighbours in the germanium.
#[test]
fn a_simulated_crystal_has_its_lattice() {
    let detector = detector(&small(), 1.5);
    let step = 1.5;
    let lattice = Cylindrical::new(detector.crystal(), step).expect("points");
    let simulated =
        basis(&runtime(2), &detector, lattice.points(), gretina::SAMPLING, &Silent).expect("a basis");
    let places = lattice.places(simulated.segments()).expect("places");
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("basis.dat");
    gretina::write(&path, &simulated, &places).expect("written");
    let (back, at) = gretina::read(&path).expect("read");
    assert!(same(&back, &simulated) && at == places);
    let all: HashSet<_> = places.iter().zip(simulated.segments()).collect();
    assert_eq!(all.len(), places.len());
    // Five angles in a sector; charges near borders are collected by neighbours.
    let most = |axis: usize| places.iter().map(|place| place[axis]).max().expect("points");
    assert!((4..=7).contains(&most(1)) && most(2) <= 4 && most(0) < 9, "{} {} {}", most(0), most(1), most(2));
    let angle = 2.0 * PI / 30.0;
    for (i, a) in places.iter().enumerate() {
        for (j, b) in
            places.iter().enumerate().filter(|&(j, _)| simulated.segments()[j] == simulated.segments()[i])
        {
            let steps = [0, 1, 2].map(|axis| f64::from(b[axis]) - f64::from(a[axis]));
            let ([x, y, z], [u, v, w]) = (lattice.points()[i], lattice.points()[j]);
            let turned = (v.atan2(u) - y.atan2(x) + 3.0 * PI).rem_euclid(2.0 * PI) - PI;
            assert!((u.hypot(v) - x.hypot(y) - step * steps[0]).abs() < 1e-9);
            assert!((turned - angle * steps[1]).abs() < 1e-9, "{turned} {steps:?}");
            assert!((w - z - step * steps[2]).abs() < 1e-9);
        }
    }
    assert!(lattice.places(&simulated.segments()[1..]).is_err());
    assert!(Cylindrical::new(detector.crystal(), 0.0).is_err());
}
