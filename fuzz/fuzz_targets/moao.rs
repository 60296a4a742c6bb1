//! MOAO's text files: systems in both layouts, profiles.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use zellige_fuzz::text;
use zellige_tor::params::{Mode, parse, parse_atmosphere, parse_system};

/// The first line that is this alone ends the system and begins the profile.
const BETWEEN: &str = "\n--\n";

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = text(bytes) else { return };
    let (system, profile) = text.split_once(BETWEEN).unwrap_or((text, text));
    let (sys, atm) = (Path::new("sys-params.txt"), Path::new("atm-params.txt"));
    let _ = parse_system(sys, system, Mode::Strict);
    let _ = parse_atmosphere(atm, profile);
    if let Ok(input) = parse(sys, system, Some((atm, profile)), Mode::Lenient) {
        // Small ones are laid out, too.
        if input.system.nssp <= 32 && input.system.stars.iter().all(|star| star.nssp <= 32) {
            let _ = zellige_tor::pipeline::info(&input.system, &input.atmosphere);
        }
    }
});
