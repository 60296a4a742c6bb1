//! MILC gauge fields: accepted ones are written as they were.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use zellige_fuzz::{changed, file};
use zellige_lqcd::files::{self, ByteOrder, milc};
use zellige_lqcd::{Gauge, Geometry};

fn write(gauge: &Gauge, stamp: &str, order: ByteOrder) -> Vec<u8> {
    let mut bytes = Vec::new();
    milc::put(&mut bytes, gauge, stamp, order).expect("memory");
    bytes
}

static VALID: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let cold = Gauge::cold(Geometry::new([4, 4, 4, 4]).expect("a lattice"));
    write(&cold, "a date", ByteOrder::Little)
});

fuzz_target!(|bytes: &[u8]| {
    let Some(bytes) = changed(bytes, &VALID) else { return };
    if let Ok(read) = files::read(&file("lattice", &bytes)) {
        let back = write(&read.gauge, &read.description, read.byte_order);
        assert_eq!(files::read(&file("back", &back)).expect("what was written").gauge, read.gauge);
    }
});
