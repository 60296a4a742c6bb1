//! Maps of digitisers' channels, followed by a frame.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use zellige_fuzz::text;
use zellige_psa::files::geb::{Frame, mode3};
use zellige_psa::params::parse_channel_map;

fuzz_target!(|bytes: &[u8]| {
    // The first byte that is 0 ends the map and begins the payload of a frame.
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let Some(text) = text(&bytes[..end]) else { return };
    let Ok(map) = parse_channel_map(Path::new("map.toml"), text) else { return };
    let payload = bytes[end..].iter().skip(1).copied().collect();
    let frame = Frame { kind: mode3::KIND, payload, ..Frame::default() };
    if let Ok(event) = map.event(&frame, 16) {
        assert!(event.signals.iter().all(|x| x.is_finite()));
    }
});
