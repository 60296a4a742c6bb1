//! A platform as the machine of a runtime: memory nodes, links, workers, and what tasks and transfers take there.

use smallvec::SmallVec;

use crate::engine::transfer::Timing;
use crate::memory::{HOST, LinkSpec, NodeId, NodeSpec, Transfer};
use crate::plan::Times;
use crate::platform::{self, Platform};
use crate::task::Header;

/// The links of a platform by their ends; from a node to itself its conversions.
pub(super) type Links = Vec<Vec<Option<LinkSpec>>>;

/// See the module.
pub(super) struct Machine {
    platform: Platform,
    links: Links,
    /// Kind, as its place in [`Platform::kinds`], and node of each worker.
    workers: Vec<(usize, NodeId)>,
}

impl Machine {
    pub(super) fn of(platform: &Platform) -> Self {
        let kind = |name: &str| platform.kinds.keys().position(|kind| kind == name).expect("checked");
        let node = |name: &str| platform.node(name).expect("checked when the platform was read");
        let each = platform.devices.iter().flat_map(|device| std::iter::repeat_n(device, device.count));
        let workers = each.map(|device| (kind(&device.kind), node(&device.node))).collect();
        Machine { platform: platform.clone(), links: links_of(platform), workers }
    }

    /// Name and description of each memory node.
    pub(super) fn nodes(&self) -> Vec<(String, NodeSpec)> {
        let disk = self.disk();
        let spec = |(id, node): (NodeId, &platform::NodeSpec)| NodeSpec {
            capacity: node.capacity(),
            staging: node.staging,
            spill: if id == HOST { disk } else { Some(HOST).filter(|_| !node.disk) },
        };
        let names = self.platform.nodes.iter().map(|node| node.name.clone());
        names.zip(self.platform.nodes.iter().enumerate().map(spec)).collect()
    }

    pub(super) fn disk(&self) -> Option<NodeId> {
        self.platform.nodes.iter().position(|node| node.disk)
    }

    pub(super) fn links(&self) -> &Links {
        &self.links
    }

    /// The kind and the node of each worker.
    pub(super) fn workers(&self) -> impl Iterator<Item = (&str, NodeId)> {
        let name = |kind: usize| self.platform.kinds.keys().nth(kind).map_or("", String::as_str);
        self.workers.iter().map(move |&(kind, node)| (name(kind), node))
    }
}

fn links_of(platform: &Platform) -> Links {
    let count = platform.nodes.len();
    let mut links = vec![vec![None; count]; count];
    for (i, node) in platform.nodes.iter().enumerate() {
        // A disk converts nothing, and is not asked to.
        let gb_s = if node.disk { 1.0 } else { node.convert_gb_s };
        links[i][i] = Some(LinkSpec { bandwidth: gb_s * 1e9, latency_ns: 0 });
    }
    for link in &platform.links {
        let [a, b] = link.between.each_ref().map(|name| platform.node(name).expect("checked"));
        let spec =
            LinkSpec { bandwidth: link.gb_s * 1e9, latency_ns: (link.latency_us * 1e3).round() as u64 };
        (links[a][b], links[b][a]) = (Some(spec), Some(spec));
    }
    links
}

impl Timing for Machine {
    fn kind_of(&self, worker: usize) -> usize {
        self.workers[worker].0
    }

    fn of_task(&self, header: &Header, label: &'static str, bytes: u64, for_host: bool) -> Times {
        let (several, info) = (header.implementations.names, &header.info);
        let times: SmallVec<_> = (self.platform.kinds.values())
            .map(|kind| kind.fastest(header.name, several, label, info.shape, info.flops, bytes))
            .map(|time| {
                // Partial results are added as fast as values are converted, where nothing else is said.
                let added = || self.links[HOST][HOST].map(|rate| (rate.nanos(bytes), ""));
                time.or_else(|| if for_host { added() } else { None })
            })
            .collect();
        times
    }

    fn once(&self, worker: usize) -> u64 {
        let kind = self.platform.kinds.values().nth(self.workers[worker].0);
        kind.map_or(0, platform::KindSpec::launch_nanos)
    }

    fn of_transfer(&self, transfer: &Transfer) -> u64 {
        let on = |from: NodeId, to: NodeId, bytes| {
            self.links[from][to].expect("transfers follow links").nanos(bytes)
        };
        let moving =
            if transfer.from == transfer.to { 0 } else { on(transfer.from, transfer.to, transfer.bytes) };
        moving + transfer.converts.map_or(0, |(node, bytes)| on(node, node, bytes))
    }
}
