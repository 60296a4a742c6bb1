//! Traces for tests: one whose numbers are known by hand, and arbitrary ones with malformed
//! records.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::{
    EvictionEvent, GivenTime, IdleEvent, IdleState, MemoryEvent, PhaseEvent, TaskEvent, Trace, TraceNode,
    TraceWorker, TransferEvent, TransferReason,
};

/// Names that end elements, strings, lines or placeholders if they are written without escapes.
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
        implementation: "",
        batch: 0,
        coords: Some([id as u32, 0, u32::MAX]),
        priority: -1,
        flops: 2000.0,
        bytes: 64,
        start_ns: 1000 * start,
        end_ns: 1000 * end,
        predicted_ns: 0,
        ready: 3,
        failed: false,
    }
}

/// 64 bytes in f32 of handle 7, fetched from `start` to `end` [µs].
pub(super) fn transfer(from: u32, to: u32, start: u64, end: u64) -> TransferEvent {
    TransferEvent {
        from,
        to,
        data: 7,
        label: "f32",
        bytes: 64,
        start_ns: 1000 * start,
        end_ns: 1000 * end,
        ..TransferEvent::default()
    }
}

/// A phase that begins at `start` [µs].
pub(super) fn phase(name: &str, start: u64) -> PhaseEvent {
    PhaseEvent { name: name.into(), start_ns: 1000 * start }
}

/// Two workers from 5 to 55 µs: 1, then 2 concurrently with 3, then 4. Number 100 is the group
/// that 4 waits for.
///
/// Work 10 + 20 + 30 + 10 = 70 µs, area bound 35 µs; critical path 1, 3, 4: 50 µs, the makespan.
pub(super) fn diamond() -> Trace {
    Trace {
        workers: ["cpu 0", "cpu 1"]
            .map(|name| TraceWorker { name: name.into(), kind: "cpu".into(), node: 0 })
            .into(),
        policy: "lws".into(),
        tasks: vec![
            event(0, 1, "potrf", 5, 15),
            event(0, 2, "trsm", 15, 35),
            event(1, 3, "trsm", 15, 45),
            event(0, 4, "potrf", 45, 55),
        ],
        edges: vec![(1, 2), (1, 3), (2, 100), (3, 100), (100, 4)],
        ..Trace::default()
    }
}

/// The diamond with a GPU for its second worker, which fetches 7, prefetches 8 meanwhile, waits for
/// them, and writes 7 back to evict it.
pub(super) fn gpu() -> Trace {
    let mut trace = diamond();
    trace.workers[1] = TraceWorker { name: "gpu 0".into(), kind: "gpu".into(), node: 1 };
    trace.tasks[2].predicted_ns = 25_000;
    let node = |name: &str, capacity| TraceNode { name: name.into(), capacity, ..TraceNode::default() };
    trace.nodes = vec![
        node("host", None),
        TraceNode { hits: 3, misses: 1, prefetch_used: 1, prefetch_unused: 2, ..node("gpu 0", Some(1000)) },
    ];
    trace.transfers = vec![
        transfer(0, 1, 5, 12),
        TransferEvent {
            data: 8,
            label: "f16",
            bytes: 32,
            reason: TransferReason::Prefetch,
            converted: true,
            ..transfer(0, 1, 8, 14)
        },
        TransferEvent { reason: TransferReason::WriteBack, ..transfer(1, 0, 45, 50) },
    ];
    let memory = |at_ns, used| MemoryEvent { node: 1, at_ns, used };
    trace.memory = vec![memory(5_000, 64), memory(8_000, 96), memory(50_000, 32)];
    trace.evictions = vec![EvictionEvent { node: 1, data: 7, bytes: 64, at_ns: 50_000, written_back: true }];
    let idle = |worker, start_ns, end_ns, state| IdleEvent { worker, start_ns, end_ns, state };
    trace.idle = vec![
        idle(1, 0, 15_000, IdleState::WaitingForData),
        idle(0, 35_000, 37_000, IdleState::Searching),
        idle(0, 37_000, 45_000, IdleState::Sleeping),
        idle(1, 45_000, 60_000, IdleState::Sleeping),
    ];
    trace
}

/// A number: small, or larger than the length of any table.
fn number() -> impl Strategy<Value = u32> {
    (0u32..5).prop_map(|number| if number == 4 { u32::MAX } else { number })
}

/// Start and end (ns), sometimes in the wrong order.
fn times() -> impl Strategy<Value = (u64, u64)> {
    let times = (0u64..5000, prop_oneof![Just(0u64), 0u64..900], prop::bool::weighted(0.03));
    times.prop_map(|(start, took, backwards)| {
        (start, if backwards { start.saturating_sub(took) } else { start + took })
    })
}

fn events() -> impl Strategy<Value = TaskEvent> {
    let words = (select(&ODD[..]), select(&ODD[..]));
    let id = prop_oneof![8 => 0u64..60, 1 => any::<u64>(), 1 => Just(u64::MAX)];
    let flops = prop_oneof![4 => 0.0..1e15, 1 => Just(f64::NAN), 1 => Just(f64::INFINITY)];
    let predicted = prop_oneof![Just(0u64), 1u64..900, any::<u64>()];
    let rest = (any::<Option<[u32; 3]>>(), any::<i32>(), flops, any::<u64>(), any::<u32>(), predicted);
    (number(), id, words, times(), rest, any::<bool>()).prop_map(
        |(worker, id, (name, label), (start_ns, end_ns), rest, failed)| {
            let (coords, priority, flops, bytes, ready, predicted_ns) = rest;
            TaskEvent {
                worker,
                id,
                name,
                label,
                implementation: if failed { label } else { "" },
                batch: priority.unsigned_abs() % 3,
                coords,
                priority,
                flops,
                bytes,
                start_ns,
                end_ns,
                predicted_ns,
                ready,
                failed,
            }
        },
    )
}

fn transfers() -> impl Strategy<Value = TransferEvent> {
    let why = (select(&TransferReason::ALL[..]), any::<bool>());
    (number(), number(), any::<u64>(), select(&ODD[..]), any::<u64>(), times(), why).prop_map(
        |(from, to, data, label, bytes, (start_ns, end_ns), (reason, converted))| TransferEvent {
            from,
            to,
            data,
            label,
            bytes,
            start_ns,
            end_ns,
            reason,
            converted,
        },
    )
}

fn memory() -> impl Strategy<Value = MemoryEvent> {
    (number(), 0u64..6000, any::<u64>()).prop_map(|(node, at_ns, used)| MemoryEvent { node, at_ns, used })
}

fn evictions() -> impl Strategy<Value = EvictionEvent> {
    (number(), any::<u64>(), any::<u64>(), 0u64..6000, any::<bool>()).prop_map(
        |(node, data, bytes, at_ns, written_back)| EvictionEvent { node, data, bytes, at_ns, written_back },
    )
}

fn idle() -> impl Strategy<Value = IdleEvent> {
    (number(), times(), select(&IdleState::ALL[..]))
        .prop_map(|(worker, (start_ns, end_ns), state)| IdleEvent { worker, start_ns, end_ns, state })
}

fn nodes() -> impl Strategy<Value = TraceNode> {
    (select(&ODD[..]), any::<Option<u64>>(), any::<[u64; 4]>()).prop_map(|(name, capacity, counts)| {
        let [hits, misses, prefetch_used, prefetch_unused] = counts;
        TraceNode { name: name.into(), capacity, hits, misses, prefetch_used, prefetch_unused }
    })
}

fn phases() -> impl Strategy<Value = PhaseEvent> {
    (select(&ODD[..]), 0u64..6000).prop_map(|(name, start_ns)| PhaseEvent { name: name.into(), start_ns })
}

fn workers() -> impl Strategy<Value = TraceWorker> {
    (select(&ODD[..]), select(&ODD[..3]), number()).prop_map(|(name, kind, node)| TraceWorker {
        name: name.into(),
        kind: kind.into(),
        node,
    })
}

fn given() -> impl Strategy<Value = GivenTime> {
    (select(&ODD[..]), select(&ODD[..]), select(&ODD[..3]), prop_oneof![0u64..900, any::<u64>()])
        .prop_map(|(name, label, kind, time_ns)| GivenTime { name, label, kind: kind.into(), time_ns })
}

/// Arbitrary records: bodies that overlap, end before they start, share numbers; dependencies in
/// cycles and of unknown tasks; transfers between unnamed nodes; idle periods while a body runs. A
/// third of the traces uses the host alone.
pub(super) fn traces() -> impl Strategy<Value = Trace> {
    let edges = vec((0u64..70, 0u64..70), 0..80);
    let run =
        (vec(workers(), 0..4), select(&ODD[..]), vec(events(), 0..50), edges, 0u64..3, vec(idle(), 0..30));
    let moved = (vec(nodes(), 0..4), vec(transfers(), 0..40), vec(memory(), 0..30), vec(evictions(), 0..10));
    let moved = prop_oneof![2 => moved, 1 => Just(Default::default())];
    (run, moved, vec(given(), 0..6), vec(phases(), 0..5)).prop_map(
        |((workers, policy, tasks, edges, lost, idle), moved, given, phases)| {
            let (nodes, transfers, memory, evictions) = moved;
            let policy = policy.into();
            Trace {
                workers,
                nodes,
                policy,
                tasks,
                edges,
                idle,
                phases,
                transfers,
                memory,
                evictions,
                given,
                lost,
            }
        },
    )
}

/// The same traces with workers of one kind, that of unnamed workers.
pub(super) fn one_kind(traces: impl Strategy<Value = Trace>) -> impl Strategy<Value = Trace> {
    traces.prop_map(|mut trace| {
        trace.workers.iter_mut().for_each(|worker| worker.kind.clear());
        trace
    })
}
