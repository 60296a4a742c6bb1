//! Results of many cases.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::case::Case;
use super::run::Ran;

/// Sums over cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct FuzzCounts {
    /// Cases that ran.
    pub graphs: u64,
    /// Number of tasks in them.
    pub tasks: u64,
    /// Replicas that were evicted.
    pub evictions: u64,
    /// Evicted replicas that were the only copy and were written back first.
    pub write_backs: u64,
    /// Conversions between formats that were made for transfers and replicas.
    pub conversions: u64,
    /// Replicas that were prefetched and then used.
    pub prefetch_hits: u64,
    /// Bytes that went from one memory node to another.
    pub bytes_moved: u64,
    /// Cases with an eviction.
    pub graphs_with_evictions: u64,
    /// Cases with a conversion.
    pub graphs_with_conversions: u64,
    /// Cases with a write to a disk.
    pub graphs_with_disk_writes: u64,
    /// Cases in which a handle was split into parts, or shown in views.
    pub graphs_with_parts: u64,
    /// Cases in which a device failed.
    pub device_deaths: u64,
    /// Cases with devices that are GPUs.
    pub graphs_with_gpus: u64,
    /// Tasks launched on a GPU in stream order, before their predecessors had ended.
    pub launched_in_stream_order: u64,
    /// Replays that were one launch on a GPU.
    pub graphs_launched: u64,
}

/// A case with an unexpected result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct FuzzFailure {
    /// Seed that repeats this case alone.
    pub seed: u64,
    /// Its scheduling policy.
    pub policy: &'static str,
    /// The differences from the expected result, one line each.
    pub differences: Vec<String>,
}

impl fmt::Display for FuzzFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} ({}):", self.seed, self.policy)?;
        self.differences.iter().try_for_each(|difference| write!(f, "\n    {difference}"))
    }
}

/// Report of a [`Fuzz`](super::Fuzz).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct FuzzReport {
    /// Seed of the first case; case i has this plus i.
    pub seed: u64,
    /// Sums over all cases.
    #[serde(flatten)]
    pub counts: FuzzCounts,
    /// Sums by scheduling policy.
    pub by_policy: BTreeMap<&'static str, FuzzCounts>,
    /// The failures, by seed.
    pub failures: Vec<FuzzFailure>,
    /// Wall time (s).
    pub seconds: f64,
}

impl FuzzReport {
    /// Returns the share of the cases with an eviction, in 0..=1.
    pub fn eviction_share(&self) -> f64 {
        share(self.counts.graphs_with_evictions, self.counts.graphs)
    }

    /// Returns the share of the cases with a conversion, in 0..=1.
    pub fn conversion_share(&self) -> f64 {
        share(self.counts.graphs_with_conversions, self.counts.graphs)
    }

    /// Adds a case; returns its failure, if it failed.
    pub(super) fn add(&mut self, seed: u64, case: &Case, ran: Ran) -> Option<&FuzzFailure> {
        let one = FuzzCounts::of(case, &ran);
        self.counts.add(&one);
        self.by_policy.entry(case.machine.policy).or_default().add(&one);
        if ran.differences.is_empty() {
            return None;
        }
        self.failures.push(FuzzFailure { seed, policy: case.machine.policy, differences: ran.differences });
        self.failures.last()
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl FuzzCounts {
    fn of(case: &Case, ran: &Ran) -> Self {
        let sum = |count: fn(&zellige_runtime::NodeUse) -> u64| ran.nodes.iter().map(count).sum::<u64>();
        let (evictions, conversions) = (sum(|node| node.evictions), sum(|node| node.conversions));
        FuzzCounts {
            graphs: 1,
            tasks: case.tasks,
            evictions,
            write_backs: sum(|node| node.written_back),
            conversions,
            prefetch_hits: sum(|node| node.prefetch_used),
            bytes_moved: sum(|node| node.bytes_in),
            graphs_with_evictions: u64::from(evictions > 0),
            graphs_with_conversions: u64::from(conversions > 0),
            graphs_with_disk_writes: u64::from(ran.nodes.iter().any(|n| n.name == "disk" && n.bytes_in > 0)),
            graphs_with_parts: u64::from(case.has_parts()),
            device_deaths: u64::from(ran.died),
            graphs_with_gpus: u64::from(ran.gpus > 0),
            launched_in_stream_order: sum(|node| node.launched_in_stream_order),
            graphs_launched: sum(|node| node.graphs_launched),
        }
    }

    fn add(&mut self, other: &FuzzCounts) {
        self.graphs += other.graphs;
        self.tasks += other.tasks;
        self.evictions += other.evictions;
        self.write_backs += other.write_backs;
        self.conversions += other.conversions;
        self.prefetch_hits += other.prefetch_hits;
        self.bytes_moved += other.bytes_moved;
        self.graphs_with_evictions += other.graphs_with_evictions;
        self.graphs_with_conversions += other.graphs_with_conversions;
        self.graphs_with_disk_writes += other.graphs_with_disk_writes;
        self.graphs_with_parts += other.graphs_with_parts;
        self.device_deaths += other.device_deaths;
        self.graphs_with_gpus += other.graphs_with_gpus;
        self.launched_in_stream_order += other.launched_in_stream_order;
        self.graphs_launched += other.graphs_launched;
    }
}
