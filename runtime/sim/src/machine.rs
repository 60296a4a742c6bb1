//! A platform as the machine of a simulation: memory nodes, links, workers, and task times.

use zellige_runtime::device::{HOST, LinkSpec};
use zellige_runtime::internal::{Machine, MachineNode, MachineTask, MachineWorker, Times};

use crate::platform::{KindSpec, NetworkSpec, Platform};
use crate::ranks::{RECEIVE, SEND};

/// See the module.
pub(super) struct PlatformMachine(Platform, Option<NetworkSpec>);

impl PlatformMachine {
    pub(super) fn of(platform: &Platform) -> Self {
        PlatformMachine(platform.clone(), None)
    }

    /// Creates the machine with its network adapter: two workers on the host after the devices, one
    /// that sends and one that receives.
    pub(super) fn with_adapter(platform: &Platform) -> Self {
        PlatformMachine(platform.clone(), platform.network)
    }

    fn node(&self, name: &str) -> usize {
        self.0.node(name).expect("checked when the platform was read")
    }
}

impl Machine for PlatformMachine {
    fn nodes(&self) -> Vec<MachineNode> {
        let nodes = self.0.nodes.iter().map(|node| MachineNode {
            name: node.name.clone(),
            capacity: node.capacity(),
            staging: node.staging,
            is_disk: node.disk,
        });
        nodes.collect()
    }

    fn links(&self) -> Vec<Vec<Option<LinkSpec>>> {
        let count = self.0.nodes.len();
        let mut links = vec![vec![None; count]; count];
        for (i, node) in self.0.nodes.iter().enumerate() {
            // A disk makes no conversions, and gets no request for one.
            let gb_s = if node.disk { 1.0 } else { node.convert_gb_s };
            links[i][i] = Some(LinkSpec { bandwidth: gb_s * 1e9, latency_ns: 0 });
        }
        for link in &self.0.links {
            let [a, b] = link.between.each_ref().map(|name| self.node(name));
            let latency_ns = (link.latency_us * 1e3).round() as u64;
            let spec = LinkSpec { bandwidth: link.gb_s * 1e9, latency_ns };
            (links[a][b], links[b][a]) = (Some(spec), Some(spec));
        }
        links
    }

    fn workers(&self) -> Vec<MachineWorker> {
        let number = |name: &str| self.0.kinds.keys().position(|kind| kind == name).expect("checked");
        let each = self.0.devices.iter().flat_map(|device| std::iter::repeat_n(device, device.count));
        let worker = each.map(|device| MachineWorker {
            kind: device.kind.clone(),
            number: number(&device.kind),
            node: self.node(&device.node),
        });
        let number = self.0.kinds.len();
        let adapter = MachineWorker { kind: "adapter".into(), number, node: HOST };
        worker.chain(std::iter::repeat_n(adapter, if self.1.is_some() { 2 } else { 0 })).collect()
    }

    fn times(&self, task: &MachineTask) -> Times {
        let &MachineTask { name, implementations, label, shape, flops, bytes } = task;
        let adapter = match (self.1, name) {
            (Some(network), SEND) => Some(network.nanos(bytes)),
            (Some(_), RECEIVE) => Some(0),
            _ => None,
        };
        // Only the adapter sends and receives.
        let of_kind = |kind: &KindSpec| {
            let rate = kind.fastest(name, implementations, label, shape, flops, bytes);
            rate.filter(|_| adapter.is_none())
        };
        let of_adapter = self.1.map(|_| adapter.map(|nanos| (nanos, "")));
        self.0.kinds.values().map(of_kind).chain(of_adapter).collect()
    }

    fn end_ns(&self, kind: usize) -> u64 {
        self.0.kinds.values().nth(kind).map_or(0, KindSpec::end_nanos)
    }

    fn launch_ns(&self, kind: usize) -> u64 {
        self.0.kinds.values().nth(kind).map_or(0, KindSpec::launch_nanos)
    }
}
