//! NERSC gauge fields.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use zellige_fuzz::{changed, file};
use zellige_lqcd::files;

/// Unit matrices.
static VALID: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let ones = 4 * 256 * 2;
    let sum = 1.0f32.to_bits().wrapping_mul(ones);
    let header = format!(
        "BEGIN_HEADER\nDATATYPE = 4D_SU3_GAUGE\nDIMENSION_1 = 4\nDIMENSION_2 = 4\nDIMENSION_3 = 4\nDIMENSION_4 = 4\nCHECKSUM = {sum:x}\n\
         LINK_TRACE = 1.0\nPLAQUETTE = 1.0\nFLOATING_POINT = IEEE32BIG\nEND_HEADER\n"
    );
    let rows = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0f32];
    let links = rows.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>().repeat(4 * 256);
    [header.into_bytes(), links].concat()
});

fuzz_target!(|bytes: &[u8]| {
    if let Some(bytes) = changed(bytes, &VALID)
        && let Ok(read) = files::read(&file("lattice", &bytes))
    {
        assert!(read.gauge.geometry().sites() * 192 <= bytes.len());
    }
});
