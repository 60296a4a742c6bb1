//! Traces for tests: one whose numbers are known by hand, and arbitrary ones, malformed records included.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::{TaskEvent, Trace};

/// Names that end elements, strings, lines or placeholders where they are written without care.
pub(super) const ODD: [&str; 10] = [
    "gemm",
    "potrf",
    "",
    "</script><script>alert(1)</script>",
    "\"quoted\" and 'single'",
    "line\nend\ttab\u{2028}",
    "&amp; <b> <!--",
    "@@title@@",
    "back\\slash \u{0} \u{1b}[31m",
    "ζελλίγε 🧩",
];

/// A body of codelet `name` on `worker` from `start` to `end` [µs].
pub(super) fn event(worker: u32, id: u64, name: &'static str, start: u64, end: u64) -> TaskEvent {
    TaskEvent {
        worker,
        id,
        name,
        label: "f32",
        coords: Some([id as u32, 0, u32::MAX]),
        priority: -1,
        flops: 2000.0,
        bytes: 64,
        start_ns: 1000 * start,
        end_ns: 1000 * end,
        ready: 3,
        failed: false,
    }
}

/// Two workers from 5 to 55 µs: 1, then 2 beside 3, then 4. Number 100 is the group that 4 waits for.
///
/// Work 10 + 20 + 30 + 10 = 70 µs, area bound 35 µs; critical path 1, 3, 4: 50 µs, the makespan.
pub(super) fn diamond() -> Trace {
    Trace {
        workers: vec!["cpu 0".into(), "cpu 1".into()],
        policy: "lws".into(),
        tasks: vec![
            event(0, 1, "potrf", 5, 15),
            event(0, 2, "trsm", 15, 35),
            event(1, 3, "trsm", 15, 45),
            event(0, 4, "potrf", 45, 55),
        ],
        edges: vec![(1, 2), (1, 3), (2, 100), (3, 100), (100, 4)],
        lost: 0,
    }
}

fn events() -> impl Strategy<Value = TaskEvent> {
    let times = (0u64..5000, prop_oneof![Just(0u64), 0u64..900], prop::bool::weighted(0.03));
    let words = (select(&ODD[..]), select(&ODD[..]));
    let id = prop_oneof![8 => 0u64..60, 1 => any::<u64>(), 1 => Just(u64::MAX)];
    let flops = prop_oneof![4 => 0.0..1e15, 1 => Just(f64::NAN), 1 => Just(f64::INFINITY)];
    let rest = (any::<Option<[u32; 3]>>(), any::<i32>(), flops, any::<u64>(), any::<u32>());
    (0u32..5, id, words, times, rest, any::<bool>()).prop_map(
        |(worker, id, (name, label), (start, took, backwards), rest, failed)| {
            let (coords, priority, flops, bytes, ready) = rest;
            let end = if backwards { start.saturating_sub(took) } else { start + took };
            TaskEvent {
                // A worker that nobody named, with a number no table could be as long as.
                worker: if worker == 4 { u32::MAX } else { worker },
                id,
                name,
                label,
                coords,
                priority,
                flops,
                bytes,
                start_ns: start,
                end_ns: end,
                ready,
                failed,
            }
        },
    )
}

/// Any records: bodies that overlap, end before they start, share numbers; dependencies in cycles and of nobody.
pub(super) fn traces() -> impl Strategy<Value = Trace> {
    let edges = vec((0u64..70, 0u64..70), 0..80);
    (vec(select(&ODD[..]), 0..4), select(&ODD[..]), vec(events(), 0..50), edges, 0u64..3).prop_map(
        |(workers, policy, tasks, edges, lost)| Trace {
            workers: workers.into_iter().map(String::from).collect(),
            policy: policy.into(),
            tasks,
            edges,
            lost,
        },
    )
}
