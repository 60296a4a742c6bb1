//! Counts of transfers and evictions, kept with or without a trace.

use parking_lot::Mutex;

use crate::memory::{NodeId, NodeStats, Transfer};

/// Statistics of one memory node since the runtime was built.
///
/// ```
/// use zellige_runtime::{Emulated, NodeUse, Runtime, Submit, update};
///
/// let rt = Runtime::builder().workers(1).device(Emulated::new(1 << 20)).build()?;
/// let x = rt.register(vec![0u8; 1000]);
/// rt.task("there").operands((update(&x),)).cpu(|(x,)| x[0] = 1).on_worker(1).submit()?;
/// rt.wait_all()?;
/// let nodes: Vec<NodeUse> = rt.memory();
/// assert_eq!((nodes[1].name.as_str(), nodes[1].bytes_in, nodes[1].misses), ("emulated 0", 1000, 1));
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeUse {
    /// Its name, e.g. `host`, `emulated 0` or `disk`.
    pub name: String,
    /// The device that works on it, e.g. `GPU 0: NVIDIA H200`; `None`: the host, or the disk.
    pub device: Option<String>,
    /// Reason of its device's failure, if it has failed: it is not used any more. A disk that only
    /// accepts no more data is still read.
    pub failure: Option<String>,
    /// Capacity in bytes; `None`: unlimited.
    pub capacity: Option<u64>,
    /// Bytes in use now.
    pub used: u64,
    /// The most bytes that were in use at any time.
    pub peak: u64,
    /// Operands that were present, or in transfer, when their task requested them.
    pub hits: u64,
    /// Operands that were neither present nor in transfer.
    pub misses: u64,
    /// Replicas that were prefetched and then used.
    pub prefetch_used: u64,
    /// Replicas that were prefetched and never used.
    pub prefetch_unused: u64,
    /// Replicas that were evicted.
    pub evictions: u64,
    /// Evicted replicas that were the only copy and were written back first.
    pub written_back: u64,
    /// Conversions to another format that it made.
    pub conversions: u64,
    /// Tasks launched in stream order, before their predecessors had ended.
    pub launched_in_stream_order: u64,
    /// Replays that its device has recorded ([`DeviceGraphs`](crate::DeviceGraphs)).
    pub graphs_recorded: u64,
    /// Replays submitted as one launch of a recording, including the first one.
    pub graphs_launched: u64,
    /// Bytes that came from other nodes.
    pub bytes_in: u64,
    /// Bytes that went to other nodes.
    pub bytes_out: u64,
}

/// The counts of all nodes.
pub(super) struct NodeCounts(Mutex<Vec<NodeUse>>);

impl NodeCounts {
    /// Creates the counts of nodes with these names, devices and capacities.
    pub(super) fn new(nodes: impl Iterator<Item = (String, Option<String>, Option<u64>)>) -> Self {
        let new = |(name, device, capacity)| NodeUse { name, device, capacity, ..NodeUse::default() };
        NodeCounts(Mutex::new(nodes.map(new).collect()))
    }

    /// Counts a transfer that has ended.
    pub(super) fn moved(&self, transfer: &Transfer) {
        let mut nodes = self.0.lock();
        if transfer.from != transfer.to {
            nodes[transfer.from].bytes_out += transfer.bytes;
            nodes[transfer.to].bytes_in += transfer.bytes;
        }
        if let Some((converter, _)) = transfer.converts {
            nodes[converter].conversions += 1;
        }
    }

    /// Adds to the counts of a node.
    pub(super) fn add(&self, node: NodeId, add: impl FnOnce(&mut NodeUse)) {
        add(&mut self.0.lock()[node]);
    }

    pub(super) fn evicted(&self, node: NodeId, written_back: bool) {
        self.add(node, |counts| {
            counts.evictions += 1;
            counts.written_back += u64::from(written_back);
        });
    }

    /// Updates the memory use of the nodes, and reports those whose use has changed.
    pub(super) fn uses(&self, used: impl Fn(NodeId) -> u64, mut changed: impl FnMut(NodeId, u64)) {
        for (node, counts) in self.0.lock().iter_mut().enumerate() {
            let used = used(node);
            if std::mem::replace(&mut counts.used, used) != used {
                counts.peak = used.max(counts.peak);
                changed(node, used);
            }
        }
    }

    /// Returns the counts together with those of the memory manager.
    pub(super) fn with(&self, stats: impl Fn(NodeId) -> NodeStats) -> Vec<NodeUse> {
        let mut nodes = self.0.lock().clone();
        for (node, counts) in nodes.iter_mut().enumerate() {
            let stats = stats(node);
            (counts.hits, counts.misses) = (stats.hits, stats.misses);
            (counts.prefetch_used, counts.prefetch_unused) = (stats.prefetch_hits, stats.prefetch_wasted);
        }
        nodes
    }
}
