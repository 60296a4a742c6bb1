//! Virtual time: replay on a runtime without threads, with simulated devices and placeholder
//! handles.

use std::sync::Arc;

use zellige_trace::{IdleState, Trace, TraceWorker};

use crate::clock::Clock;
use crate::device::{Events, HOST, LaunchDepth, LinkSpec, NodeId};
use crate::engine::Policy;
use crate::engine::graph::{Bindings, DeviceGraphs, Graph, submit_replay};
use crate::engine::transfer::{HostAccess, Log, Simulated, Timing, TransferDriver};
use crate::engine::{Engine, Parts, Settings, Time, Window, WorkerSlot};
use crate::error::Error;
use crate::memory::{NodeSpec, Transfer};
use crate::task::plan::Times;
use crate::task::{AnyHandle, Header, Placeholder, TaskRef};
use crate::topology::CoreInfo;
use crate::trace_recorder::TraceRecorder;

/// A machine model on which a graph is simulated.
pub trait Machine: Send + Sync + 'static {
    /// Returns the memory nodes, the host first.
    fn nodes(&self) -> Vec<MachineNode>;

    /// Returns the link from each node to each; the entry from a node to itself describes its
    /// conversions.
    fn links(&self) -> Vec<Vec<Option<LinkSpec>>>;

    /// Returns the workers, each with its device.
    fn workers(&self) -> Vec<MachineWorker>;

    /// Returns the time of a task on each kind of device.
    fn times(&self, task: &MachineTask) -> Times;

    /// Returns the launch overhead of a call on a device of this kind, once per call of several
    /// tasks (ns).
    fn launch_ns(&self, kind: usize) -> u64;

    /// Returns the latency between the end of a call on a device of this kind and its notification
    /// on the host (ns). If it is not zero, tasks are launched in stream order after others on the
    /// same device before those have ended.
    fn end_ns(&self, kind: usize) -> u64;
}

/// A memory node of a machine.
#[derive(Clone, Debug)]
pub struct MachineNode {
    /// Its name.
    pub name: String,
    /// Capacity in bytes; `None`: unlimited.
    pub capacity: Option<u64>,
    /// Maximum number of concurrent conversions in memory that does not count as capacity.
    pub staging: u32,
    /// True for the swap disk of the host.
    pub is_disk: bool,
}

/// A worker of a machine.
#[derive(Clone, Debug)]
pub struct MachineWorker {
    /// The name of its kind of device.
    pub kind: String,
    /// Index of the kind in the result of [`Machine::times`].
    pub number: usize,
    /// Its memory node.
    pub node: NodeId,
}

/// Description of a task for which a machine returns its times.
#[derive(Clone, Copy, Debug)]
pub struct MachineTask {
    /// Its codelet.
    pub name: &'static str,
    /// Its implementations; empty if there is only one.
    pub implementations: &'static [&'static str],
    /// Its precision.
    pub label: &'static str,
    /// Its dimensions.
    pub shape: [u32; 3],
    /// Number of floating-point operations.
    pub flops: f64,
    /// Bytes of its operands.
    pub bytes: u64,
}

/// Time model of a simulated machine.
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
            // Unless specified otherwise, partial results are added at the rate of conversions.
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

/// A replay of a graph in simulated time, whose owner controls its progress.
pub struct VirtualRun {
    engine: Arc<Engine>,
    events: Arc<Events>,
    graph: Graph,
    handles: Vec<Arc<dyn AnyHandle>>,
    /// State of each worker that runs nothing, as recorded in the trace.
    idle: Vec<Option<IdleState>>,
    replay: TaskRef,
    collect: Collect,
}

/// Collection of the values that are brought to the host at the end.
enum Collect {
    /// Pending: the values in these slots, once all tasks are complete.
    Later(Vec<usize>),
    Asked(Vec<(usize, Option<HostAccess>)>),
    Done,
}

impl VirtualRun {
    /// Creates a replay of `graph` on `machine` with a policy; at its end the values in the slots
    /// `collect` are brought to the host. `ahead` is the number of tasks beyond the running one for
    /// which a device gathers operands. `norms` returns the norm of a version of the value in a
    /// slot, if it differs from the previous one.
    ///
    /// # Errors
    /// The errors of a replay.
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
            // If the host sees an end at once, a second call in flight gains nothing.
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
        let engine = Arc::new(Engine::new(Parts {
            policy,
            workers: workers.iter().enumerate().map(slot).collect(),
            window: Window::new(usize::MAX),
            recorder: Some(TraceRecorder::new(count, usize::MAX)),
            models: None,
            transfers: Some(TransferDriver::simulated(simulated, Log::new(Arc::clone(&clock), usize::MAX))),
            settings: Settings { gpu_only: false, device_graphs: DeviceGraphs::default(), subnormals: None },
            watched: false,
            bound: 0,
            oversubscribed: false,
            time: Time { clock, events: Some(Arc::clone(&events)) },
        }));
        let norms = Arc::new(norms);
        let placeholder = |slot: usize| -> Arc<dyn AnyHandle> {
            let ((real, has_value), norms) = (graph.slot(slot), Arc::clone(&norms));
            Placeholder::new(real, has_value, Box::new(move |version| norms(slot as u32, version)))
        };
        let handles: Vec<_> = (0..graph.slot_count()).map(placeholder).collect();
        let replay = submit_replay(&engine, Bindings::placeholders(graph, handles.clone()))?;
        let (idle, collect) = (vec![None; count], Collect::Later(collect.to_vec()));
        Ok(VirtualRun { engine, events, graph: graph.clone(), handles, idle, replay, collect })
    }

    /// Runs to the end, for a replay without external events.
    ///
    /// # Errors
    /// Those of [`finish`](VirtualRun::finish).
    pub fn run(mut self) -> Result<Trace, Error> {
        while self.act().is_some() {
            self.pass();
        }
        self.finish()
    }

    /// Executes all actions that are possible at this time. Returns the end of the next operation
    /// (ns); `None` if none is in flight.
    pub fn act(&mut self) -> Option<u64> {
        loop {
            self.engine.act(self.transfers());
            self.note_idle();
            if let Some(next) = self.events.next() {
                return Some(next);
            }
            if !self.collects() {
                return None;
            }
        }
    }

    /// Advances to the end of the next operation.
    pub fn pass(&mut self) {
        self.events.pass();
    }

    /// Advances the time to this moment (ns); no operation ends before it.
    pub fn advance_to(&mut self, nanos: u64) {
        self.engine.time.clock.advance_to(nanos);
    }

    /// Requests the values that must be on the host, once all tasks are complete, and releases them
    /// once they have arrived. Returns false if there is nothing to do.
    fn collects(&mut self) -> bool {
        if !self.replay.is_done() || self.replay.cause().is_some() {
            return false;
        }
        self.collect = match std::mem::replace(&mut self.collect, Collect::Done) {
            Collect::Later(slots) => {
                let ask = |slot: usize| (slot, self.engine.ask_for_value(&*self.handles[slot], false));
                Collect::Asked(slots.into_iter().map(ask).collect())
            }
            Collect::Asked(turns) => {
                for (slot, turn) in turns {
                    if let Some(turn) = turn {
                        self.engine.let_go(&*self.handles[slot], &turn);
                    }
                }
                Collect::Done
            }
            Collect::Done => return false,
        };
        true
    }

    /// Returns the recorded trace, at the end of the replay.
    ///
    /// # Errors
    /// [`Error::Config`] for a task that no worker can run or whose operands fit in no memory, and
    /// for tasks that have not run.
    pub fn finish(self) -> Result<Trace, Error> {
        self.check(&self.replay)?;
        Ok(self.trace())
    }

    fn transfers(&self) -> &TransferDriver {
        self.engine.transfers.as_ref().expect("a simulated machine has memory nodes")
    }

    /// Records in the trace the workers that run nothing from now on, and the reason.
    fn note_idle(&mut self) {
        let recorder = self.engine.recorder.as_ref().expect("a simulation is recorded");
        let now = self.engine.now().as_nanos() as u64;
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
        self.engine.failures.check_broken()?;
        if let Some(failure) = replay.cause() {
            return Err(Error::Config(failure.to_string()));
        }
        if replay.is_done() {
            return Ok(());
        }
        let left = self.graph.len() - self.trace().tasks.len();
        let policy = self.engine.policy_name();
        Err(Error::Config(format!(
            "the simulation ended with {left} tasks that policy {policy} never handed out"
        )))
    }

    /// Returns the recorded trace; tasks and data are numbered as in the graph.
    fn trace(&self) -> Trace {
        let worker = |(i, slot): (usize, &WorkerSlot)| TraceWorker {
            name: format!("{} {i}", slot.kind),
            kind: slot.kind.clone(),
            node: self.transfers().node_of(i) as u32,
        };
        let workers = self.engine.workers.iter().enumerate().map(worker).collect();
        let recorder = self.engine.recorder.as_ref().expect("a simulation is recorded");
        let (policy, now) = (self.engine.policy_name().to_string(), self.engine.now().as_nanos() as u64);
        let mut trace = recorder.drain(workers, policy, now);
        self.transfers().add_to(&mut trace);
        // The replay has numbered its tasks consecutively, and sinks have edges too.
        let first = trace.tasks.iter().map(|task| task.id).min().unwrap_or(0);
        trace.tasks.iter_mut().for_each(|task| task.id -= first);
        // The replay as a whole, and callers that wait for slots, have numbers outside of this
        // range.
        let numbers = first..first + self.graph.numbers();
        trace.edges.retain(|(from, to)| numbers.contains(from) && numbers.contains(to));
        trace.edges.iter_mut().for_each(|(from, to)| (*from, *to) = (*from - first, *to - first));
        let slot = |id: u64| {
            let at = self.handles.binary_search_by_key(&id, |handle| handle.base().id);
            at.map_or(id, |slot| slot as u64)
        };
        trace.transfers.iter_mut().for_each(|transfer| transfer.data = slot(transfer.data));
        trace.evictions.iter_mut().for_each(|eviction| eviction.data = slot(eviction.data));
        // Keep the fill level of each node after all actions at one time.
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
        self.engine.end();
    }
}
