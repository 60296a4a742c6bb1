//! Gauge fields in npy files.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use zellige_fuzz::{changed, file};
use zellige_lqcd::files;

/// Unit matrices.
static VALID: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let rows = [[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]].concat();
    let link = [&rows[..], &[1.0, 0.0f64]].concat();
    let links = link.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>().repeat(4 * 256);
    let header = "{'descr': '<c16', 'fortran_order': False, 'shape': (4, 4, 4, 4, 4, 3, 3), }\n";
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\0", &length[..], header.as_bytes(), &links].concat()
});

fuzz_target!(|bytes: &[u8]| {
    if let Some(bytes) = changed(bytes, &VALID)
        && let Ok(read) = files::read(&file("lattice", &bytes))
    {
        assert!(read.gauge.geometry().sites() * 288 <= bytes.len());
    }
});
