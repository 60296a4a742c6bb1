//! Platforms in TOML: accepted ones have times for tasks, and are written so that they are read
//! back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zellige_fuzz::text;
use zellige_sim::platform::Platform;

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = text(bytes) else { return };
    let Ok(platform) = Platform::parse(text) else { return };
    for kind in platform.kinds.values() {
        let _ = kind.nanos("gemm", "fp32", [512; 3], 2.0 * 512f64.powi(3), 3 << 20);
        let _ = kind.peak_tflops("fp32");
    }
    let written = platform.to_toml().expect("a platform as TOML");
    Platform::parse(&written).expect("what was written");
});
