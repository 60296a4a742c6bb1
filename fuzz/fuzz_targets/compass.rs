//! COMPASS's parameter files: Python that is read and not executed.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use zellige_fuzz::text;
use zellige_tor::params::{Mode, parse};

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = text(bytes) else { return };
    if let Ok(input) = parse(Path::new("system.py"), text, None, Mode::Lenient)
        && input.system.nssp <= 32
        && input.system.stars.iter().all(|star| star.nssp <= 32)
    {
        let _ = zellige_tor::pipeline::info(&input.system, &input.atmosphere);
    }
});
