//! The driver: events in the order of virtual time.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use super::bounds::bounds;
use super::log::Log;
use super::world::Stage;
use super::{Norms, SimOutcome};
use crate::data::Meta;
use crate::engine::Work;
use crate::error::Error;
use crate::graph::{Graph, GraphTask};
use crate::memory::{
    Access, Action, Datum, HOST, LinkSpec, Memory, Need, NodeId, NodeSpec, Reason, Ticket, Transfer,
};
use crate::platform::{self, Platform};
use crate::sched::{Policy, ReadyTask, SchedView};

/// Something that ends at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The task that a device runs.
    Task(usize),
    /// A transfer, by its number.
    Transfer(u64),
}

/// What a device is doing.
#[derive(Default)]
struct Lane {
    /// Tasks whose operands are being gathered, in the order in which they were taken; true once all are there.
    gathering: VecDeque<(u32, bool)>,
    running: Option<(u32, u64)>,
    /// Since when it runs nothing, and since when it has had something to gather.
    free_since: u64,
    waits_since: u64,
}

/// Tickets of tasks are their numbers; this and above are those of collected slots.
const COLLECTED: u64 = 1 << 32;

/// The number under which all uses are announced. Only whether one is left counts: tasks run by priority, and with their
/// numbers in order of submission nearly full devices give up what is needed next.
const SOME_TIME: u64 = 0;

/// A simulation under way.
pub(super) struct Engine {
    stage: Stage,
    links: Links,
    policy: Box<dyn Policy>,
    ahead: usize,
    lanes: Vec<Lane>,
    pending: Vec<u32>,
    data: Vec<Datum>,
    metas: Vec<Meta>,
    /// How often each slot has been written.
    versions: Vec<u32>,
    norms: Norms,
    /// The device for which a queued task's operands are wanted.
    wanted: Vec<Option<u32>>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    event_count: u64,
    flying: std::collections::HashMap<u64, (Transfer, u64)>,
    ready: u32,
    log: Log,
}

/// The links of a platform by their ends; from a node to itself its conversions.
type Links = Vec<Vec<Option<LinkSpec>>>;

fn links_of(platform: &Platform) -> Links {
    let count = platform.nodes.len();
    let mut links = vec![vec![None; count]; count];
    for (i, node) in platform.nodes.iter().enumerate() {
        links[i][i] = Some(LinkSpec { bandwidth: node.convert_gb_s * 1e9, latency_ns: 0 });
    }
    for link in &platform.links {
        let [a, b] = link.between.each_ref().map(|name| platform.node(name).expect("checked"));
        let spec =
            LinkSpec { bandwidth: link.gb_s * 1e9, latency_ns: (link.latency_us * 1e3).round() as u64 };
        (links[a][b], links[b][a]) = (Some(spec), Some(spec));
    }
    links
}

fn memory_of(platform: &Platform, links: &Links) -> Memory {
    let node = |(id, node): (NodeId, &platform::NodeSpec)| NodeSpec {
        capacity: node.capacity(),
        staging: node.staging,
        spill: (id != HOST).then_some(HOST),
    };
    let nodes: Vec<NodeSpec> = platform.nodes.iter().enumerate().map(node).collect();
    Memory::new(&nodes, links)
}

impl Engine {
    pub(super) fn new(
        graph: &Graph,
        platform: &Platform,
        policy: Box<dyn Policy>,
        ahead: usize,
        norms: Norms,
    ) -> Result<Self, Error> {
        let links = links_of(platform);
        let mut memory = memory_of(platform, &links);
        let mut data = Vec::new();
        let mut metas = Vec::new();
        for slot in 0..graph.slot_count() {
            let (mut meta, has_value) = graph.slot_meta(slot);
            meta.norm = norms.get(slot as u32, 0).unwrap_or(meta.norm);
            data.push(memory.add(meta.format, meta.bytes as u64, has_value.then_some(HOST)));
            metas.push(meta);
        }
        for task in 0..graph.len() {
            for &slot in graph.operand_slots(task) {
                memory.expect(data[slot as usize], SOME_TIME);
            }
        }
        let stage = Stage {
            graph: graph.clone(),
            platform: platform.clone(),
            devices: Stage::devices_of(platform),
            memory: RefCell::new(memory),
            now_ns: Cell::new(0),
            remaining: Cell::new(graph.len() as u64),
            plans: RefCell::new(vec![None; graph.len()]),
            wishes: RefCell::default(),
        };
        for task in 0..graph.len() {
            stage.each_wide(&*policy, task, &data, Memory::expect_wide);
        }
        let log = Log::new(&stage, policy.name());
        Ok(Engine {
            lanes: stage.devices.iter().map(|_| Lane::default()).collect(),
            stage,
            links,
            policy,
            ahead,
            pending: graph.predecessor_counts().to_vec(),
            data,
            versions: vec![0; metas.len()],
            metas,
            norms,
            wanted: vec![None; graph.len()],
            events: BinaryHeap::new(),
            event_count: 0,
            flying: std::collections::HashMap::new(),
            ready: 0,
            log,
        })
    }

    pub(super) fn run(mut self, collect: &[usize]) -> Result<SimOutcome, Error> {
        for task in 0..self.stage.graph.len() as u32 {
            if self.pending[task as usize] == 0 {
                self.push(task, None)?;
            }
        }
        self.settle();
        self.run_events()?;
        let left = self.stage.remaining.get();
        if left > 0 {
            return Err(Error::Config(format!(
                "the simulation ended with {left} tasks that policy {} never handed out",
                self.policy.name()
            )));
        }
        for &slot in collect {
            let (format, bytes) = self.stage.memory.borrow().current(self.data[slot]);
            let need = Need { datum: self.data[slot], format, bytes, access: Access::Read };
            self.stage.memory.borrow_mut().stage(Ticket(COLLECTED + slot as u64), HOST, &[need]);
        }
        self.settle();
        self.run_events()?;
        self.outcome()
    }

    fn run_events(&mut self) -> Result<(), Error> {
        while let Some(Reverse((time, _, event))) = self.events.pop() {
            self.stage.now_ns.set(time);
            match event {
                Event::Task(device) => self.end_task(device)?,
                Event::Transfer(id) => self.end_transfer(id),
            }
            self.settle();
        }
        Ok(())
    }

    fn at(&mut self, time: u64, event: Event) {
        self.event_count += 1;
        self.events.push(Reverse((time, self.event_count, event)));
    }

    /// Hands a task whose predecessors have ended to the policy.
    fn push(&mut self, task: u32, from: Option<usize>) -> Result<(), Error> {
        let plan = self.stage.plan(task, &self.data, &self.metas).map_err(Error::Config)?;
        self.stage.plans.borrow_mut()[task as usize] = Some(plan);
        let ready = ReadyTask::new(Work::Simulated(GraphTask::new(&self.stage.graph, task)));
        let view = SchedView::new(&self.stage);
        if !(0..self.lanes.len()).any(|device| view.can_run(&ready, device)) {
            // Taken apart, so that it does not count as lost.
            drop(ready.into_work());
            return Err(Error::Config(self.nowhere(task)));
        }
        self.policy.push(&view, ready, from);
        self.ready += 1;
        self.grant_wishes();
        Ok(())
    }

    /// Why a task can run nowhere, with the arithmetic.
    fn nowhere(&self, task: u32) -> String {
        let header = self.stage.graph.header(task as usize);
        let plans = self.stage.plans.borrow();
        let plan = plans[task as usize].as_ref().expect("planned");
        let bytes: u64 = plan.needs.iter().map(|need| need.bytes).sum();
        let able = |device: usize| self.stage.nanos(task, device).is_some();
        let sizes: Vec<String> = self
            .stage
            .devices
            .iter()
            .enumerate()
            .filter(|(device, _)| able(*device))
            .map(|(_, device)| {
                let node = &self.stage.platform.nodes[device.node];
                format!("{} has {:.3} GB", node.name, node.capacity_gb.unwrap_or(f64::INFINITY))
            })
            .collect();
        if sizes.is_empty() {
            return format!(
                "no device of platform {} can run {} in {:?}: no kind has a rate for it",
                self.stage.platform.name, header.name, plan.label
            );
        }
        format!(
            "{} needs its {} operands at once, {:.3} GB, and {}: take smaller tiles or a larger device",
            header.title(),
            plan.needs.len(),
            bytes as f64 / 1e9,
            sizes.join(", ")
        )
    }

    fn grant_wishes(&mut self) {
        let wishes = std::mem::take(&mut *self.stage.wishes.borrow_mut());
        for (task, device) in wishes {
            let plans = self.stage.plans.borrow();
            let (Some(plan), None) = (&plans[task as usize], self.wanted[task as usize]) else { continue };
            let node = self.stage.devices[device].node;
            let mut memory = self.stage.memory.borrow_mut();
            memory.want(node, &plan.needs);
            memory.prefetch(node, &plan.needs, Reason::TaskPrefetch);
            self.wanted[task as usize] = Some(device as u32);
        }
    }

    /// Does all that can be done at this moment.
    fn settle(&mut self) {
        loop {
            let took = (0..self.lanes.len()).fold(false, |took, device| self.take(device) | took);
            let acted = self.obey();
            let began = (0..self.lanes.len()).fold(false, |began, device| self.begin(device) | began);
            if !(took || acted || began) {
                self.log.memory(&self.stage);
                return;
            }
        }
    }

    /// Fills a device's lane with tasks whose operands are then gathered.
    fn take(&mut self, device: usize) -> bool {
        let mut took = false;
        let room = self.ahead.max(usize::from(self.lanes[device].running.is_none()));
        while self.lanes[device].gathering.len() < room {
            let view = SchedView::new(&self.stage);
            let Some(task) = self.policy.pop(&view, device) else { break };
            let index = task.simulated().expect("only simulated tasks were pushed");
            drop(task.into_work());
            took = true;
            self.ready -= 1;
            if self.lanes[device].gathering.is_empty() {
                self.lanes[device].waits_since = self.stage.now_ns.get();
            }
            let plans = self.stage.plans.borrow();
            let plan = plans[index as usize].as_ref().expect("planned when it was pushed");
            let mut memory = self.stage.memory.borrow_mut();
            if let Some(other) = self.wanted[index as usize].take() {
                memory.unwant(self.stage.devices[other as usize].node, &plan.needs);
            }
            self.lanes[device].gathering.push_back((index, false));
            memory.stage(Ticket(u64::from(index)), self.stage.devices[device].node, &plan.needs);
        }
        self.grant_wishes();
        took
    }

    /// Carries out what the memory manager asks for.
    fn obey(&mut self) -> bool {
        let actions = self.stage.memory.borrow_mut().take_actions();
        let any = !actions.is_empty();
        for action in actions {
            match action {
                Action::Begin(transfer) => {
                    let now = self.stage.now_ns.get();
                    let end = now + self.transfer_nanos(&transfer);
                    self.flying.insert(transfer.id, (transfer, now));
                    self.at(end, Event::Transfer(transfer.id));
                }
                Action::Staged(ticket) if ticket.0 >= COLLECTED => {
                    self.stage.memory.borrow_mut().finish(ticket);
                }
                Action::Staged(ticket) => {
                    let lanes = self.lanes.iter_mut().flat_map(|lane| &mut lane.gathering);
                    for (_, there) in lanes.filter(|(task, _)| u64::from(*task) == ticket.0) {
                        *there = true;
                    }
                }
                Action::Evicted { node, datum, bytes, written_back } => {
                    let now = self.stage.now_ns.get();
                    self.log.eviction(node, datum.0, bytes, written_back, now);
                }
                Action::Freed { .. } => {}
            }
        }
        any
    }

    fn transfer_nanos(&self, transfer: &Transfer) -> u64 {
        let on = |from: NodeId, to: NodeId, bytes| {
            self.links[from][to].expect("transfers follow links").nanos(bytes)
        };
        let moving =
            if transfer.from == transfer.to { 0 } else { on(transfer.from, transfer.to, transfer.bytes) };
        moving + transfer.converts.map_or(0, |(node, bytes)| on(node, node, bytes))
    }

    /// Begins the first gathered task of an idle device.
    fn begin(&mut self, device: usize) -> bool {
        let lane = &mut self.lanes[device];
        if lane.running.is_some() {
            return false;
        }
        let Some(at) = lane.gathering.iter().position(|(_, there)| *there) else { return false };
        let (task, _) = lane.gathering.remove(at).expect("just found");
        let now = self.stage.now_ns.get();
        lane.running = Some((task, now));
        if self.policy.follows() {
            let begun = ReadyTask::new(Work::Simulated(GraphTask::new(&self.stage.graph, task)));
            self.policy.began(&SchedView::new(&self.stage), device, &begun);
            // Only shown: dropped as a task it would count as lost.
            drop(begun.into_work());
        }
        let lane = &self.lanes[device];
        let (free, waits) = (lane.free_since, lane.waits_since.clamp(lane.free_since, now));
        self.log.idle(device, free, waits, false);
        self.log.idle(device, waits, now, true);
        let nanos = self.stage.nanos(task, device).expect("policies hand tasks to devices that can run them");
        self.at(now + nanos, Event::Task(device));
        true
    }

    fn end_task(&mut self, device: usize) -> Result<(), Error> {
        let (task, start_ns) = self.lanes[device].running.take().expect("its end was announced");
        let end_ns = self.stage.now_ns.get();
        self.lanes[device].free_since = end_ns;
        let plan = self.stage.plans.borrow_mut()[task as usize].take().expect("planned");
        self.log.task(&self.stage, task, &plan, device, start_ns, self.ready);
        let mut memory = self.stage.memory.borrow_mut();
        for &slot in self.stage.graph.operand_slots(task as usize) {
            memory.unexpect(self.data[slot as usize], SOME_TIME);
        }
        memory.finish(Ticket(u64::from(task)));
        drop(memory);
        self.stage.each_wide(&*self.policy, task as usize, &self.data, Memory::unexpect_wide);
        self.note_metas(task, &plan.needs);
        self.stage.remaining.set(self.stage.remaining.get() - 1);
        if self.policy.follows() {
            let id = u64::from(task);
            self.policy.ended(&SchedView::new(&self.stage), device, id);
        }
        let mut ready = Vec::new();
        self.stage.graph.complete(task, &mut self.pending, |next| ready.push(next));
        ready.into_iter().try_for_each(|next| self.push(next, Some(device)))
    }

    /// What the task wrote has its format, size and norm now.
    fn note_metas(&mut self, task: u32, needs: &[Need]) {
        for (need, &slot) in needs.iter().zip(self.stage.graph.operand_slots(task as usize)) {
            if need.access.writes() {
                let meta = &mut self.metas[slot as usize];
                (meta.format, meta.bytes) = (need.format, need.bytes as usize);
                let version = &mut self.versions[slot as usize];
                *version += 1;
                meta.norm = self.norms.get(slot, *version).unwrap_or(meta.norm);
            }
        }
    }

    fn end_transfer(&mut self, id: u64) {
        let (transfer, start_ns) = self.flying.remove(&id).expect("begun before");
        self.log.transfer(&self.stage, &transfer, start_ns);
        self.stage.memory.borrow_mut().arrived(id);
    }

    fn outcome(self) -> Result<SimOutcome, Error> {
        let (trace, bytes_moved, makespan) = self.log.finish(&self.stage);
        let busy: u64 = trace.tasks.iter().map(|task| task.end_ns - task.start_ns).sum();
        let all = makespan as f64 * self.lanes.len() as f64;
        Ok(SimOutcome {
            makespan: Duration::from_nanos(makespan),
            flops: trace.tasks.iter().map(|task| task.flops).sum(),
            bytes_moved,
            idle_share: if all > 0.0 { 1.0 - busy as f64 / all } else { 0.0 },
            bounds: bounds(&self.stage, &trace.tasks)?,
            trace,
        })
    }
}
