//! Virtual time: a replay on a runtime without threads, whose devices are simulated and whose
//! handles are placeholders.

use std::sync::Arc;

use zellige_trace::{IdleState, Trace, TraceWorker};

use crate::clock::Clock;
use crate::data::{AnyHandle, Placeholder};
use crate::device::{Events, HOST, LaunchDepth, LinkSpec, NodeId};
use crate::engine::Policy;
use crate::engine::graph::{Bindings, DeviceGraphs, Graph, submit_replay};
use crate::engine::transfer::plan::Times;
use crate::engine::transfer::{HostAccess, Log, Simulated, Timing, TransferDriver};
use crate::engine::{Parts, Shared, Window, WorkerSlot};
use crate::error::Error;
use crate::memory::{NodeSpec, Transfer};
use crate::task::{Header, TaskRef};
use crate::topology::CoreInfo;
use crate::trace_recorder::TraceRecorder;

/// A machine on which a graph is simulated.
pub trait Machine: Send + Sync + 'static {
    /// The memory nodes, the host first.
    fn nodes(&self) -> Vec<MachineNode>;

    /// The link from each node to each; from a node to itself its conversions.
    fn links(&self) -> Vec<Vec<Option<LinkSpec>>>;

    /// The workers, each with its device.
    fn workers(&self) -> Vec<MachineWorker>;

    /// What a task takes on each kind of device.
    fn times(&self, task: &MachineTask) -> Times;

    /// What a call of several tasks on a device of this kind spends once and not for each (ns).
    fn launch_ns(&self, kind: usize) -> u64;

    /// How long after the end of a call on a device of this kind the host learns of it (ns). Where
    /// that takes time, tasks are launched behind others on the same device before those have
    /// ended.
    fn end_ns(&self, kind: usize) -> u64;
}

/// A memory node of a machine.
#[derive(Clone, Debug)]
pub struct MachineNode {
    /// Its name.
    pub name: String,
    /// Bytes that it holds at most; `None`: as many as there are.
    pub capacity: Option<u64>,
    /// Conversions that can be under way at a time in memory that does not count as capacity.
    pub staging: u32,
    /// It is the disk behind the host.
    pub is_disk: bool,
}

/// A worker of a machine.
#[derive(Clone, Debug)]
pub struct MachineWorker {
    /// The name of its kind of device.
    pub kind: String,
    /// The kind's place in what [`Machine::times`] returns.
    pub number: usize,
    /// Its memory node.
    pub node: NodeId,
}

/// A task of which a machine is asked how long it takes.
#[derive(Clone, Copy, Debug)]
pub struct MachineTask {
    /// Its codelet.
    pub name: &'static str,
    /// Its implementations; empty where there is one.
    pub implementations: &'static [&'static str],
    /// Its precision.
    pub label: &'static str,
    /// Its dimensions.
    pub shape: [u32; 3],
    /// Its operations.
    pub flops: f64,
    /// Bytes of its operands.
    pub bytes: u64,
}

/// What things take on a machine.
struct MachineTiming {
    machine: Arc<dyn Machine>,
    /// The kind of each worker.
    kinds: Vec<usize>,
    links: Vec<Vec<Option<LinkSpec>>>,
}

impl Timing for MachineTiming {
    fn kind_of(&self, worker: usize) -> usize {
        self.kinds[worker]
    }

    fn of_task(&self, header: &Header, label: &'static str, bytes: u64, for_host: bool) -> Times {
        let (implementations, info) = (header.implementations.names, &header.info);
        let (name, shape, flops) = (header.name, info.shape, info.flops);
        let task = MachineTask { name, implementations, label, shape, flops, bytes };
        let mut times = self.machine.times(&task);
        if for_host {
            // Partial results are added as fast as values are converted, where nothing else is
            // said.
            let added = self.links[HOST][HOST].map(|rate| (rate.nanos(bytes), ""));
            times.iter_mut().for_each(|time| *time = time.or(added));
        }
        times
    }

    fn once(&self, worker: usize) -> u64 {
        self.machine.launch_ns(self.kinds[worker])
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

/// A replay of a graph in simulated time, which goes on as far as its owner lets it.
pub struct VirtualRun {
    shared: Arc<Shared>,
    events: Arc<Events>,
    graph: Graph,
    handles: Vec<Arc<dyn AnyHandle>>,
    /// What each worker does that runs nothing, as the trace knows it.
    idle: Vec<Option<IdleState>>,
    replay: TaskRef,
    collect: Collect,
}

/// The values that are brought to the host at the end.
enum Collect {
    /// In these slots, once all tasks are complete.
    Later(Vec<usize>),
    Asked(Vec<(usize, Option<HostAccess>)>),
    Done,
}

impl VirtualRun {
    /// Of `graph` on `machine`, with a policy; at its end the values in the slots `collect` are
    /// brought to the host. `ahead`: for how many tasks beyond the running one a device gathers
    /// operands. `norms`: the norm of a version of the value in a slot, if it is another than
    /// before.
    ///
    /// # Errors
    /// Those of a replay.
    pub fn new(
        graph: &Graph,
        machine: Arc<dyn Machine>,
        policy: Box<dyn Policy>,
        ahead: usize,
        norms: impl Fn(u32, u32) -> Option<f64> + Send + Sync + 'static,
        collect: &[usize],
    ) -> Result<Self, Error> {
        let clock = Arc::new(Clock::simulated());
        let events = Arc::new(Events::new(Arc::clone(&clock), 0));
        let (nodes, workers, links) = (machine.nodes(), machine.workers(), machine.links());
        let disk = nodes.iter().position(|node| node.is_disk);
        let spec = |(id, node): (NodeId, &MachineNode)| NodeSpec {
            capacity: node.capacity,
            staging: node.staging,
            spill: if id == HOST { disk } else { Some(HOST).filter(|_| !node.is_disk) },
        };
        let names = nodes.iter().map(|node| node.name.clone());
        let count = workers.len();
        let everybody: Arc<[usize]> = (0..count).collect();
        let slot = |(i, worker): (usize, &MachineWorker)| {
            let core = CoreInfo { cpu: i, core: i, ..CoreInfo::default() };
            let mut slot = WorkerSlot::new(core, Arc::clone(&everybody));
            (slot.kind, slot.model_name) = (worker.kind.clone(), worker.kind.clone());
            slot
        };
        let kinds = workers.iter().map(|worker| worker.number).collect();
        let lane = |worker: &MachineWorker| {
            let latency = machine.end_ns(worker.number);
            // Where an end is known at once nothing is gained by a second call.
            let at_once = LaunchDepth { ahead, launched: 1, ordered: 0 };
            let depth = if latency == 0 { at_once } else { LaunchDepth { ahead, ..LaunchDepth::default() } };
            (worker.node, depth, latency)
        };
        let simulated = Simulated {
            nodes: names.zip(nodes.iter().enumerate().map(spec)).collect(),
            links: &links,
            disk,
            workers: workers.iter().map(lane).collect(),
            events: &events,
            timing: Box::new(MachineTiming { machine, kinds, links: links.clone() }),
        };
        let shared = Arc::new(Shared::new(Parts {
            policy,
            workers: workers.iter().enumerate().map(slot).collect(),
            window: Window::new(usize::MAX),
            recorder: Some(TraceRecorder::new(count, usize::MAX)),
            models: None,
            transfers: Some(TransferDriver::simulated(simulated, Log::new(Arc::clone(&clock), usize::MAX))),
            gpu_only: false,
            device_graphs: DeviceGraphs::default(),
            subnormals: None,
            watched: false,
            bound: 0,
            oversubscribed: false,
            clock,
            events: Some(Arc::clone(&events)),
        }));
        let norms = Arc::new(norms);
        let placeholder = |slot: usize| -> Arc<dyn AnyHandle> {
            let ((real, has_value), norms) = (graph.slot(slot), Arc::clone(&norms));
            Placeholder::new(real, has_value, Box::new(move |version| norms(slot as u32, version)))
        };
        let handles: Vec<_> = (0..graph.slot_count()).map(placeholder).collect();
        let replay = submit_replay(&shared, Bindings::placeholders(graph, handles.clone()))?;
        let (idle, collect) = (vec![None; count], Collect::Later(collect.to_vec()));
        Ok(VirtualRun { shared, events, graph: graph.clone(), handles, idle, replay, collect })
    }

    /// Runs to the end, where nothing comes from outside.
    ///
    /// # Errors
    /// As [`finish`](VirtualRun::finish).
    pub fn run(mut self) -> Result<Trace, Error> {
        while self.act().is_some() {
            self.pass();
        }
        self.finish()
    }

    /// Does all that can be done at this moment. When the next operation ends (ns); `None` if none
    /// is under way.
    pub fn act(&mut self) -> Option<u64> {
        loop {
            self.shared.act(self.transfers());
            self.note_idle();
            if let Some(next) = self.events.next() {
                return Some(next);
            }
            if !self.collects() {
                return None;
            }
        }
    }

    /// Goes on to the end of the next operation.
    pub fn pass(&mut self) {
        self.events.pass();
    }

    /// Time passes until this moment (ns), before which no operation ends.
    pub fn advance_to(&mut self, nanos: u64) {
        self.shared.advance_to(nanos);
    }

    /// Once all tasks are complete: asks for the values that are to be on the host; once they are
    /// there, gives them back. False if there is nothing to do.
    fn collects(&mut self) -> bool {
        if !self.replay.is_done() || self.replay.cause().is_some() {
            return false;
        }
        self.collect = match std::mem::replace(&mut self.collect, Collect::Done) {
            Collect::Later(slots) => {
                let ask = |slot: usize| (slot, self.shared.ask_for_value(&*self.handles[slot], false));
                Collect::Asked(slots.into_iter().map(ask).collect())
            }
            Collect::Asked(turns) => {
                for (slot, turn) in turns {
                    if let Some(turn) = turn {
                        self.shared.let_go(&*self.handles[slot], &turn);
                    }
                }
                Collect::Done
            }
            Collect::Done => return false,
        };
        true
    }

    /// What has been recorded, at the end.
    ///
    /// # Errors
    /// [`Error::Config`] for a task that no worker can run or whose operands fit nowhere, and for
    /// tasks that have not run.
    pub fn finish(self) -> Result<Trace, Error> {
        self.check(&self.replay)?;
        Ok(self.trace())
    }

    fn transfers(&self) -> &TransferDriver {
        self.shared.transfers.as_ref().expect("a simulated machine has memory nodes")
    }

    /// Writes into the trace which workers run nothing from now on, and why.
    fn note_idle(&mut self) {
        let recorder = self.shared.recorder.as_ref().expect("a simulation is recorded");
        let now = self.shared.now().as_nanos() as u64;
        for worker in 0..self.idle.len() {
            let state = match self.transfers().runs(worker) {
                true => None,
                false if self.transfers().waits_for_data(worker) => Some(IdleState::WaitingForData),
                false => Some(IdleState::Sleeping),
            };
            if self.idle[worker] != state {
                recorder.idle(worker, state, now);
                self.idle[worker] = state;
            }
        }
    }

    fn check(&self, replay: &TaskRef) -> Result<(), Error> {
        self.shared.check_broken()?;
        if let Some(failure) = replay.cause() {
            return Err(Error::Config(failure.to_string()));
        }
        if replay.is_done() {
            return Ok(());
        }
        let left = self.graph.len() - self.trace().tasks.len();
        let policy = self.shared.policy_name();
        Err(Error::Config(format!(
            "the simulation ended with {left} tasks that policy {policy} never handed out"
        )))
    }

    /// What has been recorded; tasks and data are numbered as in the graph.
    fn trace(&self) -> Trace {
        let worker = |(i, slot): (usize, &WorkerSlot)| TraceWorker {
            name: format!("{} {i}", slot.kind),
            kind: slot.kind.clone(),
            node: self.transfers().node_of(i) as u32,
        };
        let workers = self.shared.workers.iter().enumerate().map(worker).collect();
        let recorder = self.shared.recorder.as_ref().expect("a simulation is recorded");
        let (policy, now) = (self.shared.policy_name().to_string(), self.shared.now().as_nanos() as u64);
        let mut trace = recorder.drain(workers, policy, now);
        self.transfers().add_to(&mut trace);
        // The replay has numbered its tasks one after the other, and sinks have edges too.
        let first = trace.tasks.iter().map(|task| task.id).min().unwrap_or(0);
        trace.tasks.iter_mut().for_each(|task| task.id -= first);
        // The replay as a whole, and callers that wait for slots, have numbers below and above.
        let numbers = first..first + self.graph.numbers();
        trace.edges.retain(|(from, to)| numbers.contains(from) && numbers.contains(to));
        trace.edges.iter_mut().for_each(|(from, to)| (*from, *to) = (*from - first, *to - first));
        let slot = |id: u64| {
            let at = self.handles.binary_search_by_key(&id, |handle| handle.base().id);
            at.map_or(id, |slot| slot as u64)
        };
        trace.transfers.iter_mut().for_each(|transfer| transfer.data = slot(transfer.data));
        trace.evictions.iter_mut().for_each(|eviction| eviction.data = slot(eviction.data));
        // How full the nodes are once all has been done that can be done at a moment.
        let mut settled: Vec<zellige_trace::MemoryEvent> = Vec::new();
        for event in std::mem::take(&mut trace.memory) {
            let same = |other: &&mut zellige_trace::MemoryEvent| {
                (other.node, other.at_ns) == (event.node, event.at_ns)
            };
            match settled.iter_mut().rev().take_while(|other| other.at_ns == event.at_ns).find(same) {
                Some(known) => known.used = event.used,
                None => settled.push(event),
            }
        }
        trace.memory = settled;
        trace
    }
}

impl Drop for VirtualRun {
    fn drop(&mut self) {
        self.shared.end();
    }
}
