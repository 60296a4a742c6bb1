//! Evaluation of a trace in simulated time.

use std::time::Duration;

use zellige_runtime::device::HOST;
use zellige_runtime::trace::{Trace, TransferReason};
use zellige_runtime::{Error, Graph};

use super::bounds::bounds;
use super::{BytesMoved, SimOutcome};
use crate::platform::Platform;

/// See the module.
pub(super) fn outcome(graph: &Graph, platform: &Platform, trace: Trace) -> Result<SimOutcome, Error> {
    let mut bytes_moved = BytesMoved::default();
    let mut makespan = trace.tasks.iter().map(|task| task.end_ns).max().unwrap_or(0);
    for transfer in &trace.transfers {
        match (transfer.from as usize, transfer.to as usize) {
            (a, b) if a == b => {}
            (HOST, _) => bytes_moved.h2d += transfer.bytes,
            (_, HOST) => bytes_moved.d2h += transfer.bytes,
            _ => bytes_moved.p2p += transfer.bytes,
        }
        // Prefetches may end after all transfers that anything waits for.
        if matches!(transfer.reason, TransferReason::Fetch) {
            makespan = makespan.max(transfer.end_ns);
        }
    }
    // After the devices comes the network adapter, if there is one.
    let devices = platform.device_count();
    let on_devices = || trace.tasks.iter().filter(|task| (task.worker as usize) < devices);
    let busy: u64 = on_devices().map(|task| task.end_ns - task.start_ns).sum();
    let all = makespan as f64 * devices as f64;
    Ok(SimOutcome {
        makespan: Duration::from_nanos(makespan),
        flops: trace.tasks.iter().map(|task| task.flops).sum(),
        bytes_moved,
        idle_share: if all > 0.0 { 1.0 - busy as f64 / all } else { 0.0 },
        bounds: bounds(graph, platform, on_devices())?,
        trace,
    })
}
