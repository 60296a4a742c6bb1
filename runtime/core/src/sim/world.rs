//! What a policy sees in virtual time.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use smallvec::SmallVec;

use crate::data::Meta;
use crate::graph::Graph;
use crate::memory::{Datum, Memory, Need, NodeId};
use crate::operand::{Accesses, Mode};
use crate::plan::{self, Needs};
use crate::platform::Platform;
use crate::sched::{Policy, ReadyTask, SchedView, World};
use crate::topology::CoreInfo;

/// A task's plan: precision and working set, known once its operands are finished.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) label: &'static str,
    pub(super) needs: Needs,
    /// How long it takes on each kind of device (ns), by the kind's number, and with which implementation; `None` if none of the kind
    /// can run it.
    times: SmallVec<[Option<(u64, &'static str)>; 2]>,
}

impl Plan {
    pub(super) fn bytes(&self) -> u64 {
        self.needs.iter().map(|need| need.bytes).sum()
    }
}

/// A device.
pub(super) struct Device {
    pub(super) kind: String,
    /// The kind's place in [`Platform::kinds`].
    kind_number: usize,
    pub(super) node: NodeId,
    core: CoreInfo,
    neighbours: Vec<usize>,
}

/// Graph, machine and moment: everything a policy may ask about.
pub(super) struct Stage {
    pub(super) graph: Graph,
    pub(super) platform: Platform,
    pub(super) devices: Vec<Device>,
    pub(super) memory: RefCell<Memory>,
    pub(super) now_ns: Cell<u64>,
    pub(super) remaining: Cell<u64>,
    /// The plan of each task that has become ready and not ended.
    pub(super) plans: RefCell<Vec<Option<Plan>>>,
    /// What policies asked to have prefetched: (task, device).
    pub(super) wishes: RefCell<Vec<(u32, usize)>>,
}

impl Stage {
    pub(super) fn devices_of(platform: &Platform) -> Vec<Device> {
        let count: usize = platform.devices.iter().map(|device| device.count).sum();
        let each = platform.devices.iter().flat_map(|device| std::iter::repeat_n(device, device.count));
        each.enumerate()
            .map(|(i, device)| Device {
                kind: device.kind.clone(),
                kind_number: platform.kinds.keys().position(|kind| *kind == device.kind).expect("checked"),
                node: platform.node(&device.node).expect("checked when the platform was read"),
                core: CoreInfo { cpu: i, core: i, ..CoreInfo::default() },
                neighbours: (0..count).filter(|&other| other != i).collect(),
            })
            .collect()
    }

    /// Asks the task for its precision and formats, given its operands' metas by slot.
    ///
    /// # Errors
    /// In words, for a format that an operand does not have and for commuting accesses.
    pub(super) fn plan(&self, task: u32, data: &[Datum], metas: &[Meta]) -> Result<Plan, String> {
        let (header, body) = (self.graph.header(task as usize), self.graph.body(task as usize));
        let mut accesses = Accesses::new();
        body.declare(&mut accesses);
        if accesses.iter().any(|access| access.mode == Mode::Commute) {
            return Err(format!("{}: commuting accesses", header.title()));
        }
        let slots = self.graph.operand_slots(task as usize);
        let known: SmallVec<[Meta; 4]> = slots.iter().map(|&slot| metas[slot as usize]).collect();
        let plan = plan::Plan::of(header, body, |at| data[slots[at] as usize], &known)?;
        let (label, bytes) = (plan.label(header), plan.bytes());
        let (name, info) = (header.name, &header.info);
        let kinds = self.platform.kinds.values();
        let several = header.ways.implementations;
        let times = kinds.map(|kind| kind.fastest(name, several, label, info.shape, info.flops, bytes));
        Ok(Plan { label, times: times.collect(), needs: plan.needs })
    }

    /// Tells of what a task reads in the form in which it is stored, if it is certain where the policy has it run.
    pub(super) fn each_wide(
        &self,
        policy: &dyn Policy,
        task: usize,
        data: &[Datum],
        tell: impl Fn(&mut Memory, Datum, NodeId),
    ) {
        let header = self.graph.header(task);
        let Some(home) = policy.home(&SchedView::new(self), header.name, &header.info) else { return };
        let (slots, node) = (self.graph.operand_slots(task), self.devices[home].node);
        let mut memory = self.memory.borrow_mut();
        for at in plan::reads_as_stored(self.graph.body(task)) {
            tell(&mut memory, data[slots[at] as usize], node);
        }
    }

    /// How long a planned task takes on a device (ns).
    pub(super) fn nanos(&self, task: u32, device: usize) -> Option<u64> {
        let plans = self.plans.borrow();
        plans[task as usize].as_ref()?.times[self.devices[device].kind_number].map(|(nanos, _)| nanos)
    }

    /// The implementation with which a planned task takes so long there; empty where there is one.
    pub(super) fn implementation(&self, plan: &Plan, device: usize) -> &'static str {
        plan.times[self.devices[device].kind_number].map_or("", |(_, name)| name)
    }

    fn with_needs<R>(
        &self,
        task: &ReadyTask,
        device: usize,
        f: impl Fn(&Memory, NodeId, &[Need]) -> R,
    ) -> Option<R> {
        let plans = self.plans.borrow();
        let plan = plans[task.simulated()? as usize].as_ref()?;
        Some(f(&self.memory.borrow(), self.devices[device].node, &plan.needs))
    }
}

impl World for Stage {
    fn workers(&self) -> usize {
        self.devices.len()
    }

    fn core(&self, worker: usize) -> &CoreInfo {
        &self.devices[worker].core
    }

    fn neighbours(&self, worker: usize) -> &[usize] {
        &self.devices[worker].neighbours
    }

    fn kind(&self, worker: usize) -> &str {
        &self.devices[worker].kind
    }

    fn model_kind(&self, worker: usize) -> &str {
        self.kind(worker)
    }

    fn in_flight(&self) -> u64 {
        self.remaining.get()
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns.get())
    }

    fn can_run(&self, task: &ReadyTask, worker: usize) -> bool {
        self.estimate(task, worker).is_some()
            && self.with_needs(task, worker, |memory, node, needs| memory.fits(node, needs)).unwrap_or(false)
    }

    fn estimate(&self, task: &ReadyTask, worker: usize) -> Option<Duration> {
        self.nanos(task.simulated()?, worker).map(Duration::from_nanos)
    }

    fn missing_bytes(&self, task: &ReadyTask, worker: usize) -> u64 {
        self.with_needs(task, worker, |memory, node, needs| memory.missing(node, needs)).unwrap_or(0)
    }

    fn transfer_time(&self, task: &ReadyTask, worker: usize) -> Duration {
        let nanos = self.with_needs(task, worker, |memory, node, needs| memory.transfer_ns(node, needs));
        Duration::from_nanos(nanos.unwrap_or(0))
    }

    fn prefetch(&self, task: &ReadyTask, worker: usize) {
        if let Some(task) = task.simulated() {
            self.wishes.borrow_mut().push((task, worker));
        }
    }
}
