use proptest::prelude::*;

use super::*;
use crate::TaskEvent;
use crate::samples::{gpu, traces};

fn native(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    trace.write_native(&mut bytes).unwrap();
    bytes
}

fn problem(bytes: &[u8]) -> String {
    Trace::read_native(bytes).unwrap_err().to_string()
}

proptest! {
    #![proptest_config(zellige_tests::cases(256))]

    #[test]
    fn what_is_written_is_read(trace in traces()) {
        let bytes = native(&trace);
        let read = Trace::read_native(&bytes).unwrap();
        // As text, since numbers may be NaN.
        prop_assert_eq!(format!("{read:?}"), format!("{trace:?}"));
        prop_assert_eq!(native(&read), bytes);
    }

    #[test]
    fn what_is_cut_or_changed_is_refused_or_read(
        trace in traces(),
        cut in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = native(&trace);
        let end = cut.index(bytes.len());
        prop_assert!(Trace::read_native(&bytes[..end]).is_err());
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        // Arbitrary bytes cause no panic, and neither does the evaluation of the result.
        if let Ok(trace) = Trace::read_native(&bytes) {
            trace.write_native(&mut std::io::sink()).unwrap();
        }
    }
}

#[test]
fn problems_have_names() {
    let bytes = native(&gpu());
    assert!(problem(b"{\"traceEvents\":[]}").contains("--trace FILE.zt"));
    assert!(problem(b"").contains("not a native trace file"));
    assert_eq!(problem(&bytes[..10]), "the trace file ends within section version: it was cut off");
    assert_eq!(problem(&bytes[..40]), "the trace file ends within section strs: it was cut off");
    assert!(problem(&bytes[..bytes.len() - 1]).contains("section end"));
    let mut later = bytes.clone();
    later[8] = 7;
    assert!(problem(&later).contains("of version 7"), "{}", problem(&later));
    let more = [&bytes[..], b"more"].concat();
    assert_eq!(problem(&more), "the trace file has 4 bytes where section nothing should be");
    let mut other = bytes.clone();
    other[12..16].copy_from_slice(b"abc\n");
    assert!(problem(&other).contains("where section strs should be"), "{}", problem(&other));
    let mut long = bytes;
    long[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(problem(&long).contains("strs"));
}

#[test]
fn sections_that_contradict_themselves_are_refused() {
    let written = |change: fn(&mut Sections)| {
        let mut sections = gpu().to_sections();
        change(&mut sections);
        let mut bytes = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
        sections.write(&mut bytes).unwrap();
        bytes.extend(b"end \0\0\0\0\0\0\0\0");
        problem(&bytes)
    };
    assert_eq!(
        written(|s| s.tasks.ready.clear()),
        "section task of the trace file: columns of different lengths"
    );
    assert!(written(|s| s.tasks.name[0] = 99).contains("no string has the number 99"));
    assert!(written(|s| s.tasks.coords[0] = Some(vec![0; 4])).contains("4 coordinates"));
    assert!(written(|s| s.idle.state[0] = 3).contains("section idle"));
    assert!(written(|s| s.transfers.reason[0] = 5).contains("numbers below 5"));
}

#[test]
fn a_task_takes_few_bytes() {
    let mut trace = gpu();
    let tasks = 10_000;
    let task = trace.tasks[0];
    trace.tasks = (0..tasks)
        .map(|i| TaskEvent {
            id: 500 + i,
            worker: (i % 8) as u32,
            coords: Some([(i % 40) as u32, (i / 40) as u32, u32::MAX]),
            flops: 2.0 * 512.0 * 512.0 * 512.0,
            bytes: 3 << 20,
            start_ns: 1_000_000_000 + 700 * i,
            end_ns: 1_000_000_000 + 700 * i + 5_000_000,
            ..task
        })
        .collect();
    trace.edges = (0..2 * tasks).map(|i| (500 + i / 2, 500 + i / 2 + 40)).collect();
    let mut chrome = Vec::new();
    trace.write_chrome(&mut chrome).unwrap();
    let native = native(&trace).len();
    assert!(native < 50 * tasks as usize && 5 * native < chrome.len(), "{native} beside {}", chrome.len());
}
