//! What happened in virtual time, as a trace.

use zellige_trace::{
    EvictionEvent, IdleEvent, IdleState, MemoryEvent, TaskEvent, Trace, TraceNode, TraceWorker,
    TransferEvent, TransferReason,
};

use super::BytesMoved;
use super::world::{Plan, Stage};
use crate::memory::{HOST, Transfer};
use crate::platform::Platform;

/// The trace so far.
pub(super) struct Log {
    trace: Trace,
    used: Vec<u64>,
}

impl Log {
    pub(super) fn new(stage: &Stage, policy: &str) -> Self {
        let workers = stage.devices.iter().enumerate().map(|(i, device)| TraceWorker {
            name: format!("{} {i}", device.kind),
            kind: device.kind.clone(),
            node: device.node as u32,
        });
        let trace = Trace {
            workers: workers.collect(),
            nodes: stage.platform.nodes.iter().map(node).collect(),
            policy: policy.into(),
            edges: stage.graph.trace_edges(0).collect(),
            ..Trace::default()
        };
        Log { trace, used: vec![0; stage.platform.nodes.len()] }
    }

    /// A task has run.
    pub(super) fn task(
        &mut self,
        stage: &Stage,
        task: u32,
        plan: &Plan,
        device: usize,
        start_ns: u64,
        ready: u32,
    ) {
        let header = stage.graph.header(task as usize);
        let end_ns = stage.now_ns.get();
        self.trace.tasks.push(TaskEvent {
            worker: device as u32,
            id: u64::from(task),
            name: header.name,
            label: plan.label,
            implementation: stage.implementation(plan, device),
            batch: 0,
            coords: header.info.coords,
            priority: header.priority,
            flops: header.info.flops,
            bytes: plan.bytes(),
            start_ns,
            end_ns,
            predicted_ns: end_ns - start_ns,
            ready,
            failed: false,
        });
    }

    /// A device had nothing to run from `start_ns` until now; `waited` if it had tasks whose operands were on their way.
    pub(super) fn idle(&mut self, device: usize, start_ns: u64, end_ns: u64, waited: bool) {
        if end_ns > start_ns {
            let state = if waited { IdleState::WaitingForData } else { IdleState::Sleeping };
            self.trace.idle.push(IdleEvent { worker: device as u32, start_ns, end_ns, state });
        }
    }

    pub(super) fn transfer(&mut self, stage: &Stage, transfer: &Transfer, start_ns: u64) {
        self.trace.transfers.push(TransferEvent {
            from: transfer.from as u32,
            to: transfer.to as u32,
            data: u64::from(transfer.datum.0),
            // Data are numbered as the slots are.
            label: stage.graph.format_name(transfer.datum.0 as usize, transfer.format),
            bytes: transfer.bytes,
            start_ns,
            end_ns: stage.now_ns.get(),
            reason: transfer.reason.into(),
            converted: transfer.converts.is_some(),
        });
    }

    pub(super) fn eviction(&mut self, node: usize, data: u32, bytes: u64, written_back: bool, at_ns: u64) {
        let (node, data) = (node as u32, u64::from(data));
        self.trace.evictions.push(EvictionEvent { node, data, bytes, at_ns, written_back });
    }

    /// Notes how full the nodes are, where that has changed.
    pub(super) fn memory(&mut self, stage: &Stage) {
        let memory = stage.memory.borrow();
        for (node, known) in self.used.iter_mut().enumerate() {
            let used = memory.used(node);
            if std::mem::replace(known, used) != used {
                let at_ns = stage.now_ns.get();
                match self
                    .trace
                    .memory
                    .last_mut()
                    .filter(|last| last.node == node as u32 && last.at_ns == at_ns)
                {
                    Some(last) => last.used = used,
                    None => self.trace.memory.push(MemoryEvent { node: node as u32, at_ns, used }),
                }
            }
        }
    }

    /// The trace, with what is counted per node; bytes moved between nodes; when the last awaited thing ended (ns).
    pub(super) fn finish(mut self, stage: &Stage) -> (Trace, BytesMoved, u64) {
        let memory = stage.memory.borrow();
        for (i, node) in self.trace.nodes.iter_mut().enumerate() {
            let stats = memory.stats(i);
            (node.hits, node.misses) = (stats.hits, stats.misses);
            (node.prefetch_used, node.prefetch_unused) = (stats.prefetch_hits, stats.prefetch_wasted);
        }
        let mut moved = BytesMoved::default();
        let mut end = self.trace.tasks.iter().map(|task| task.end_ns).max().unwrap_or(0);
        for transfer in &self.trace.transfers {
            match (transfer.from as usize, transfer.to as usize) {
                (a, b) if a == b => {}
                (HOST, _) => moved.h2d += transfer.bytes,
                (_, HOST) => moved.d2h += transfer.bytes,
                _ => moved.p2p += transfer.bytes,
            }
            // Copies made ahead of need may end after everything that anybody waits for.
            if matches!(transfer.reason, TransferReason::Fetch) {
                end = end.max(transfer.end_ns);
            }
        }
        (self.trace, moved, end)
    }
}

fn node(node: &crate::platform::NodeSpec) -> TraceNode {
    TraceNode { name: node.name.clone(), capacity: node.capacity(), ..TraceNode::default() }
}

/// The device kinds of a platform and how many devices each has.
pub(super) fn kinds(platform: &Platform) -> Vec<(&str, usize)> {
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for device in &platform.devices {
        match kinds.iter_mut().find(|(kind, _)| *kind == device.kind) {
            Some((_, count)) => *count += device.count,
            None => kinds.push((&device.kind, device.count)),
        }
    }
    kinds
}
