//! Text of crystals: accepted ones are written so that they are read back; and of arrays of crystals.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use zellige_fuzz::text;
use zellige_psa::array::Array;
use zellige_psa::crystal::Crystal;

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = text(bytes) else { return };
    if let Ok(crystal) = Crystal::parse(Path::new("crystal.toml"), text) {
        let back = Crystal::parse(Path::new("back.toml"), &crystal.to_toml()).expect("what was written");
        assert_eq!(back, crystal);
        let _ = crystal.segment([1.0, -2.0, 3.0]);
    }
    if let Ok(array) = Array::parse(Path::new("array"), text) {
        assert!(array.crystals().count() > 0);
    }
});
