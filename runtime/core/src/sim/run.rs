//! A simulation under way: a replay on a runtime without threads, whose devices are simulated.

use std::sync::Arc;

use zellige_trace::{IdleState, Trace, TraceWorker};

use super::Norms;
use super::machine::Machine;
use crate::clock::Clock;
use crate::data::{AnyHandle, Placeholder};
use crate::device::Events;
use crate::engine::transfer::{Depth, HostAccess, Log, Simulated, TransferDriver};
use crate::engine::{Parts, Shared, Window, WorkerSlot};
use crate::error::Error;
use crate::graph::{Bindings, DeviceGraphs, Graph, submit_replay};
use crate::platform::Platform;
use crate::sched::Policy;
use crate::task::TaskRef;
use crate::topology::CoreInfo;
use crate::trace_recorder::TraceRecorder;

/// See the module.
pub(super) struct Run {
    shared: Arc<Shared>,
    events: Arc<Events>,
    graph: Graph,
    handles: Vec<Arc<dyn AnyHandle>>,
    /// What each worker does that runs nothing, as the trace knows it.
    idle: Vec<Option<IdleState>>,
}

impl Run {
    pub(super) fn new(
        graph: &Graph,
        platform: &Platform,
        policy: Box<dyn Policy>,
        ahead: usize,
        norms: Norms,
    ) -> Self {
        let machine = Machine::of(platform);
        let clock = Arc::new(Clock::simulated());
        let events = Arc::new(Events::new(Arc::clone(&clock), 0));
        let (kinds, workers): (Vec<String>, Vec<usize>) =
            machine.workers().map(|(kind, node)| (kind.to_string(), node)).unzip();
        let (count, links) = (workers.len(), machine.links().clone());
        let everybody: Arc<[usize]> = (0..count).collect();
        let slot = |(i, kind): (usize, &String)| {
            let core = CoreInfo { cpu: i, core: i, ..CoreInfo::default() };
            let mut slot = WorkerSlot::new(core, Arc::clone(&everybody));
            (slot.kind, slot.model_name) = (kind.clone(), kind.clone());
            slot
        };
        let simulated = Simulated {
            nodes: machine.nodes(),
            links: &links,
            disk: machine.disk(),
            workers,
            depth: Depth { ahead, launched: 1 },
            events: &events,
            timing: Box::new(machine),
        };
        let shared = Arc::new(Shared::new(Parts {
            policy,
            workers: kinds.iter().enumerate().map(slot).collect(),
            window: Window::new(usize::MAX),
            recorder: Some(TraceRecorder::new(count, usize::MAX)),
            models: None,
            transfers: Some(TransferDriver::simulated(simulated, Log::new(Arc::clone(&clock), usize::MAX))),
            gpu_only: false,
            device_graphs: DeviceGraphs::default(),
            subnormals: None,
            watched: false,
            pinned: 0,
            oversubscribed: false,
            clock,
            events: Some(Arc::clone(&events)),
        }));
        let norms = Arc::new(norms);
        let placeholder = |slot: usize| -> Arc<dyn AnyHandle> {
            let ((real, has_value), norms) = (graph.slot(slot), Arc::clone(&norms));
            Placeholder::new(real, has_value, Box::new(move |version| norms.get(slot as u32, version)))
        };
        let handles = (0..graph.slot_count()).map(placeholder).collect();
        Run { shared, events, graph: graph.clone(), handles, idle: vec![None; count] }
    }

    /// Runs the graph, and brings the final values in these slots to the host.
    pub(super) fn run(mut self, collect: &[usize]) -> Result<Trace, Error> {
        let bindings = Bindings::placeholders(&self.graph, self.handles.clone());
        let replay = submit_replay(&self.shared, bindings)?;
        self.go_on();
        self.check(&replay)?;
        let turns: Vec<Option<HostAccess>> =
            collect.iter().map(|&slot| self.shared.ask_for_value(&*self.handles[slot], false)).collect();
        self.go_on();
        for (&slot, turn) in collect.iter().zip(turns) {
            if let Some(turn) = turn {
                self.shared.let_go(&*self.handles[slot], &turn);
            }
        }
        self.go_on();
        Ok(self.trace())
    }

    fn transfers(&self) -> &TransferDriver {
        self.shared.transfers.as_ref().expect("a simulated machine has memory nodes")
    }

    /// Until nothing is under way.
    fn go_on(&mut self) {
        loop {
            self.shared.act(self.transfers());
            self.note_idle();
            if !self.events.pass() {
                return;
            }
        }
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
        if let Some(failure) = replay.cell().failure() {
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

impl Drop for Run {
    fn drop(&mut self) {
        self.shared.end();
    }
}
