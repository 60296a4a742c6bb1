//! Bases: records, GRETINA's files, and the parameters of a folder; results of runs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zellige_fuzz::file;
use zellige_psa::files::{basis, gretina, record};
use zellige_psa::pipeline::results::Results;

fuzz_target!(|bytes: &[u8]| {
    // The first byte says what the others are.
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => drop(record::read(&file("input.bin", bytes))),
        1 => drop(gretina::read(&file("input.dat", bytes))),
        2 => drop(basis::origin(file("basis.toml", bytes).parent().expect("a folder"))),
        _ => drop(Results::read(&file("results.json", bytes))),
    }
});
