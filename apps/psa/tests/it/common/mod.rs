//! Crystals for several tests.
#![allow(dead_code)] // `hostile`, a process of its own, uses a part

use std::path::Path;
use std::sync::Arc;

use zellige_psa::crystal::{Crystal, Front};
use zellige_psa::detector::{self, Detector};
use zellige_psa::electronics::Electronics;
use zellige_psa::fields::Fields;
use zellige_psa::observe::Silent;
use zellige_psa::params::{EXAMPLE, parse_crystal};
use zellige_runtime::Runtime;

pub fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("a runtime")
}

/// Returns the crystal of the example file.
pub fn example() -> Crystal {
    parse_crystal(Path::new("example"), EXAMPLE).expect("the example")
}

/// Returns a crystal of a third of that size, at a bias that depletes it.
pub fn small() -> Crystal {
    Crystal { bias: 700.0, ..example().scaled(1.0 / 3.0) }
}

/// Returns a cylinder with a bore that goes through and two bare faces: the formulas of infinite
/// cylinders apply to it.
pub fn coaxial(inner: f64, outer: f64) -> Crystal {
    Crystal {
        name: "coaxial".into(),
        length: 3.0,
        radius: outer,
        bore_radius: inner,
        bore_start: 0.0,
        rings: [0.5; 6],
        front: Front::Reflecting,
        corners: None,
        bias: 1000.0,
        impurity: [1.0, 1.0],
        temperature: 78.0,
        axis_angle: 0.0,
        drift: None,
    }
}

pub fn fields(crystal: &Crystal, step: f64) -> Fields {
    detector::fields(&runtime(1), crystal, step, &Silent).expect("fields")
}

pub fn detector(crystal: &Crystal, step: f64) -> Arc<Detector> {
    let fields = Arc::new(fields(crystal, step));
    Arc::new(Detector::new(crystal, fields, Electronics::default(), 1.0).expect("a detector"))
}

/// Returns a basis of GRETINA with two points, byte by byte. For point `p`, sample `t` of signal
/// `s` is `1000 p + 10 s + t / 100`.
pub fn of_gretina() -> Vec<u8> {
    let mut bytes =
        b"GRETA basis signals; Cylindrical; version 1.2\n2 basis point, 36 grid segments, 50 time steps\n\
        grid_pos_lu_rpz SRAD SPHI SZ: 2 1 1\n"
            .to_vec();
    bytes.resize(256, 0);
    for point in 0..2u8 {
        bytes.extend([13, point, 0, 0]);
        [1.0f32, 2.0, 3.0].iter().for_each(|at| bytes.extend(at.to_le_bytes()));
        for (signal, sample) in (0..37u16).flat_map(|signal| (0..50u16).map(move |sample| (signal, sample))) {
            let value = 1000.0 * f32::from(point) + 10.0 * f32::from(signal) + f32::from(sample) / 100.0;
            bytes.extend(value.to_le_bytes());
        }
        (0..74i32).for_each(|_| bytes.extend(7i32.to_le_bytes()));
    }
    (0..72i32).for_each(|place| bytes.extend((place % 3 - 1).to_le_bytes()));
    bytes
}
