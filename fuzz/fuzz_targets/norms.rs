//! Norms of tiles in JSON: what is accepted can be looked up.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zellige_fuzz::text;
use zellige_tor::pipeline::norms::TileNorms;

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = text(bytes) else { return };
    if let Err(error) = TileNorms::parse(text) {
        assert!(!error.to_string().is_empty());
    }
});
