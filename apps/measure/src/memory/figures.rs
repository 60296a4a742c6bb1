//! Results of the measurement, in the form of the JSON output.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use zellige_dense::Error;
use zellige_runtime::NodeUse;

use super::{MemoryBench, MemoryRun, Reference};

/// Output of `bench memory`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MemoryBenchFigures {
    /// Order of the matrix.
    pub n: usize,
    /// Tile size.
    pub tile: usize,
    /// Precision of the products.
    pub rule: String,
    /// CPU workers.
    pub workers: usize,
    /// Emulated devices.
    pub devices: usize,
    /// Share of the lower triangle's bytes that all devices hold together.
    pub memory_share: f64,
    /// Bytes that each of them holds.
    pub capacity: u64,
    /// Share of the lower triangle's bytes that the host holds; `null` if it is not limited.
    pub host_memory_share: Option<f64>,
    /// Bytes that the host holds; `null` if it is not limited.
    pub host_capacity: Option<u64>,
    /// Bytes per second, each way.
    pub link_bandwidth: f64,
    /// The factorisation without devices.
    pub reference: ReferenceFigures,
    /// Policies in the order in which they ran.
    pub policies: Vec<PolicyFigures>,
}

/// The factorisation without devices.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReferenceFigures {
    /// Time of the factorisation.
    pub seconds: f64,
    /// `|A - L L^T| / |A|`.
    pub backward_error: f64,
}

/// A policy and its results.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PolicyFigures {
    /// Name of the policy.
    pub policy: String,
    /// Results of the policy.
    #[serde(flatten)]
    pub run: MemoryRun,
    /// Bytes that moved to and from devices, by those that have to; `null` without devices.
    pub moved_over_compulsory: f64,
    /// Bytes that came to devices, by the least; `null` without devices.
    pub loads_over_bound: f64,
}

/// Use of one memory node in a file; counts and bytes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodeFigures {
    name: String,
    /// Failure of its device; `null` if there was none.
    failure: Option<String>,
    /// `null`: as many bytes as there are.
    capacity: Option<u64>,
    peak: u64,
    bytes_in: u64,
    bytes_out: u64,
    hits: u64,
    misses: u64,
    prefetch_used: u64,
    prefetch_unused: u64,
    evictions: u64,
    written_back: u64,
    conversions: u64,
}

impl From<&NodeUse> for NodeFigures {
    fn from(node: &NodeUse) -> Self {
        NodeFigures {
            name: node.name.clone(),
            failure: node.failure.clone(),
            capacity: node.capacity,
            peak: node.peak,
            bytes_in: node.bytes_in,
            bytes_out: node.bytes_out,
            hits: node.hits,
            misses: node.misses,
            prefetch_used: node.prefetch_used,
            prefetch_unused: node.prefetch_unused,
            evictions: node.evictions,
            written_back: node.written_back,
            conversions: node.conversions,
        }
    }
}

impl MemoryBenchFigures {
    /// Creates the output for these policies.
    ///
    /// # Errors
    /// The errors of [`MemoryBench::capacity`].
    pub fn new(
        bench: &MemoryBench,
        reference: &Reference,
        policies: &[&str],
        runs: &[MemoryRun],
    ) -> Result<MemoryBenchFigures, Error> {
        let policy = |(name, run): (&&str, &MemoryRun)| PolicyFigures {
            policy: (*name).into(),
            run: run.clone(),
            moved_over_compulsory: run.over_compulsory(),
            loads_over_bound: run.over_bound(),
        };
        Ok(MemoryBenchFigures {
            n: bench.n,
            tile: bench.tile,
            rule: bench.rule.to_string(),
            workers: bench.workers,
            devices: bench.devices,
            memory_share: bench.share,
            capacity: bench.capacity()?,
            host_memory_share: bench.host.as_ref().map(|host| host.share),
            host_capacity: bench.host_capacity()?,
            link_bandwidth: bench.bandwidth,
            reference: ReferenceFigures { seconds: reference.seconds, backward_error: reference.error.value },
            policies: policies.iter().zip(runs).map(policy).collect(),
        })
    }
}

pub(super) fn of_nodes<S: Serializer>(nodes: &[NodeUse], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(nodes.iter().map(NodeFigures::from))
}
