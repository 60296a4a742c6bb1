//! Streams of GEB frames, and what is in them: decomposed events (mode 2), raw traces (mode 3),
//! traces of a stream.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zellige_psa::files::geb::{Frame, FrameReader, mode2::Decomposed, mode3};
use zellige_psa::pipeline::stream::record::Traces;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = FrameReader::new(bytes);
    let mut frame = Frame::default();
    while let Ok(true) = reader.next(&mut frame) {
        assert!(reader.offset() as usize <= bytes.len());
        if let Ok(event) = Decomposed::of(&frame) {
            let mut payload = Vec::new();
            let _ = event.put(&mut payload);
        }
        let _ = mode3::traces(&frame);
        let _ = Traces::of(&frame);
    }
});
