//! Systems in YAML: our keys, and pyTomoAO's layout.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use zellige_fuzz::text;
use zellige_tor::params::{Mode, parse};

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = text(bytes) else { return };
    let path = Path::new("system.yaml");
    for profile in [None, Some((Path::new("profile.yaml"), text))] {
        if let Ok(input) = parse(path, text, profile, Mode::Lenient)
            && input.system.nssp <= 32
            && input.system.stars.iter().all(|star| star.nssp <= 32)
        {
            let _ = zellige_tor::pipeline::info(&input.system, &input.atmosphere);
        }
    }
});
