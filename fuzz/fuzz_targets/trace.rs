//! Native trace files: accepted ones are summed up, and written so that they are read back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zellige_runtime::Trace;

fuzz_target!(|bytes: &[u8]| {
    let Ok(trace) = Trace::read_native(bytes) else { return };
    let native = |trace: &Trace| {
        let mut bytes = Vec::new();
        trace.write_native(&mut bytes).expect("memory takes everything");
        bytes
    };
    let written = native(&trace);
    let again = Trace::read_native(&written).expect("what was written");
    assert_eq!(native(&again), written);
    let _ = trace.report().to_string();
    trace.write_chrome(&mut std::io::sink()).expect("a sink takes everything");
});
