//! Text of crystals: accepted ones are written so that they are read back; of arrays of crystals;
//! and the three files of greta_siggen.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use zellige_fuzz::{file, text};
use zellige_psa::params::{parse_array, parse_crystal, print_crystal, read_crystal};

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = text(bytes) else { return };
    if let Ok(crystal) = parse_crystal(Path::new("crystal.toml"), text) {
        let back = parse_crystal(Path::new("back.toml"), &print_crystal(&crystal)).expect("what was written");
        assert_eq!(back, crystal);
        let _ = crystal.segment([1.0, -2.0, 3.0]);
    }
    if let Ok(array) = parse_array(Path::new("array"), text) {
        assert!(array.crystals().count() > 0);
    }
    // A configuration that names itself for all it needs, and three parts of a text as three files.
    let _ = read_crystal(&file("crystal.config", bytes));
    let mut parts = text.splitn(3, '\u{1}');
    for name in ["geometry_setup.dat", "drift_vel_tcorr.tab", "three.config"] {
        let path = file(name, parts.next().unwrap_or_default().as_bytes());
        if let Ok(crystal) = read_crystal(&path) {
            let _ = crystal.segment([1.0, -2.0, 3.0]);
        }
    }
});
