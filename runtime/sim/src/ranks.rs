//! Several machines in virtual time, one rank on each, and the network between them.
//!
//! Each rank has an engine and a clock of its own. The rank whose next event is the earliest goes
//! on (for ties the one with the lowest number), so no rank ever receives an event in its past.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use zellige_runtime::internal::VirtualRun;
use zellige_runtime::internal::policies::by_name;
use zellige_runtime::sched::{Policy, ReadyTask, SchedView, Wake};
use zellige_runtime::trace::Trace;
use zellige_runtime::{Error, Graph, TaskInfo};

use crate::machine::PlatformMachine;
use crate::outcome::outcome;
use crate::platform::Platform;
use crate::{Norms, SimOutcome};

/// The tasks that send and receive; their coordinates are `[message, _, other rank]`.
pub(crate) const SEND: &str = "send";
pub(crate) const RECEIVE: &str = "receive";

/// The graphs of several ranks, to be run in virtual time on identical machines.
///
/// Each machine has a network adapter. A task `send` of one rank and a task `receive` of another
/// with the same first coordinate are one message: the third is the other rank. A `send` brings its
/// operand to the host, and then occupies the adapter for the bytes. The message arrives after the
/// latency and when the receiver's adapter is done with the earlier ones; its `receive` takes no
/// time after that.
#[derive(Debug)]
pub struct RankSimulation<'a> {
    graphs: &'a [Graph],
    platform: &'a Platform,
    policy: String,
    ahead: usize,
    collect: Vec<Vec<usize>>,
}

/// Result of a simulation of several ranks.
#[derive(Clone, Debug)]
pub struct RanksOutcome {
    /// Time from the start to the end of the last task of any rank, or of the last transfer of a
    /// collected value.
    pub makespan: Duration,
    /// Result of each rank: its own machine alone, until its own end.
    pub ranks: Vec<SimOutcome>,
    /// Message statistics of each rank.
    pub messages: Vec<Messages>,
}

/// Messages of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Messages {
    /// Messages sent.
    pub sent: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Messages received.
    pub received: u64,
    /// Bytes received.
    pub received_bytes: u64,
}

impl<'a> RankSimulation<'a> {
    /// Simulates the graph of each rank on a machine like `platform`, with the policy `dmdas`. All
    /// values are on the host of their rank in the beginning.
    pub fn new(graphs: &'a [Graph], platform: &'a Platform) -> Self {
        let collect = vec![Vec::new(); graphs.len()];
        RankSimulation { graphs, platform, policy: "dmdas".into(), ahead: 2, collect }
    }

    /// Sets the scheduling policy of each rank, by name.
    #[must_use]
    pub fn policy(mut self, name: &str) -> Self {
        self.policy = name.into();
        self
    }

    /// Sets the number of tasks gathered ahead; see
    /// [`Simulation::ahead`](crate::Simulation::ahead).
    #[must_use]
    pub fn ahead(mut self, tasks: usize) -> Self {
        self.ahead = tasks;
        self
    }

    /// Sets the slots of one rank whose final values are brought to its host before the clock
    /// stops.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn collect(mut self, rank: usize, slots: impl IntoIterator<Item = usize>) -> Self {
        self.collect[rank].extend(slots);
        self
    }

    /// Runs the simulation.
    ///
    /// # Errors
    /// Those of [`Simulation::run`](crate::Simulation::run), and [`Error::Config`] for a platform
    /// without a network.
    pub fn run(self) -> Result<RanksOutcome, Error> {
        let network = self.platform.network.ok_or_else(|| {
            Error::Config(format!(
                "platform {:?} has no network between machines: give its file a table [network] with gb_s and latency_us",
                self.platform.name
            ))
        })?;
        let ranks = (0..self.graphs.len()).map(|rank| self.rank(rank)).collect::<Result<_, Error>>()?;
        let latency = (network.latency_us * 1e3).round() as u64;
        let mut cluster = Cluster { ranks, latency, arrivals: BinaryHeap::new() };
        cluster.run();
        let mut all = RanksOutcome { makespan: Duration::ZERO, ranks: Vec::new(), messages: Vec::new() };
        for (at, rank) in cluster.ranks.into_iter().enumerate() {
            let trace = rank.run.finish().map_err(|error| Error::Config(format!("rank {at}: {error}")))?;
            all.messages.push(messages(&trace));
            let outcome = outcome(&self.graphs[at], self.platform, trace)?;
            all.makespan = all.makespan.max(outcome.makespan);
            all.ranks.push(outcome);
        }
        Ok(all)
    }

    fn rank(&self, rank: usize) -> Result<Rank, Error> {
        let devices = self.platform.device_count();
        let wire = Arc::new(Mutex::new(Wire::default()));
        // The adapter's two workers exist for every policy, though none has a task for them.
        let inner = by_name(&self.policy, devices + 2)?;
        let policy = Networked { follows: inner.follows(), inner, out: devices, wire: Arc::clone(&wire) };
        let machine = Arc::new(PlatformMachine::with_adapter(self.platform));
        let norms = Norms::default();
        let norm = move |slot, version| norms.get(slot, version);
        let (graph, collect) = (&self.graphs[rank], &self.collect[rank]);
        let run = VirtualRun::new(graph, machine, Box::new(policy), self.ahead, norm, collect)?;
        Ok(Rank { run, wire, next: None, adapter_free: 0 })
    }
}

/// Counts the messages of a rank by its tasks.
fn messages(trace: &Trace) -> Messages {
    let mut messages = Messages::default();
    for task in &trace.tasks {
        let (count, bytes) = match task.name {
            SEND => (&mut messages.sent, &mut messages.sent_bytes),
            RECEIVE => (&mut messages.received, &mut messages.received_bytes),
            _ => continue,
        };
        (*count, *bytes) = (*count + 1, *bytes + task.bytes);
    }
    messages
}

/// A rank in progress.
struct Rank {
    run: VirtualRun,
    wire: Arc<Mutex<Wire>>,
    /// End of its next operation (ns).
    next: Option<u64>,
    /// Time at which its adapter will have received all messages sent to it so far (ns).
    adapter_free: u64,
}

/// All ranks, and the messages in transit.
struct Cluster {
    ranks: Vec<Rank>,
    latency: u64,
    /// Arrival time, receiver and number of each message.
    arrivals: BinaryHeap<Reverse<(u64, usize, u32)>>,
}

impl Cluster {
    /// Runs until nothing is in progress on any rank.
    fn run(&mut self) {
        (0..self.ranks.len()).for_each(|rank| self.act(rank, 0));
        loop {
            let next = self.ranks.iter().enumerate().filter_map(|(at, rank)| Some((rank.next?, at))).min();
            let arrival = self.arrivals.peek().map(|&Reverse((at, ..))| at);
            match (next, arrival) {
                (Some((now, rank)), arrival) if arrival.is_none_or(|at| now < at) => {
                    self.ranks[rank].run.pass();
                    self.act(rank, now);
                }
                (_, Some(now)) => self.arrive(now),
                _ => return,
            }
        }
    }

    /// Delivers the next message.
    fn arrive(&mut self, now: u64) {
        let Some(Reverse((_, rank, message))) = self.arrivals.pop() else { return };
        self.ranks[rank].run.advance_to(now);
        self.ranks[rank].wire.lock().arrived(message);
        self.act(rank, now);
    }

    /// Makes a rank do all that is possible at this time; the messages that it begins to send are
    /// in transit then.
    fn act(&mut self, rank: usize, now: u64) {
        self.ranks[rank].next = self.ranks[rank].run.act();
        let begun = std::mem::take(&mut self.ranks[rank].wire.lock().begun);
        for (message, to, takes) in begun {
            // It occupies the adapter here from now on, and that of the receiver from the arrival
            // of its first byte and after the earlier messages.
            let receiver = &mut self.ranks[to];
            let arrives = receiver.adapter_free.max(now + self.latency) + takes;
            receiver.adapter_free = arrives;
            self.arrivals.push(Reverse((arrives, to, message)));
        }
    }
}

/// The messages of a rank, as its policy and the network see them.
#[derive(Default)]
struct Wire {
    /// Tasks that may send, and the time of each on the adapter.
    sends: VecDeque<ReadyTask>,
    takes: HashMap<u32, u64>,
    /// Messages that have begun to leave: number, receiver, and time on the adapter.
    begun: Vec<(u32, usize, u64)>,
    /// Tasks that may receive once their message has arrived, and messages whose task may not run
    /// yet.
    waiting: HashMap<u32, ReadyTask>,
    early: HashSet<u32>,
    receives: VecDeque<ReadyTask>,
}

impl Wire {
    fn arrived(&mut self, message: u32) {
        match self.waiting.remove(&message) {
            Some(task) => self.receives.push_back(task),
            None => drop(self.early.insert(message)),
        }
    }
}

/// The policy of a rank: the adapter's workers run sends and receives in order of arrival, and
/// another policy schedules all other tasks.
struct Networked {
    inner: Box<dyn Policy>,
    follows: bool,
    /// The worker that sends; the next one receives.
    out: usize,
    wire: Arc<Mutex<Wire>>,
}

/// Returns the message of a task, and the other rank.
fn message(task: &ReadyTask) -> (u32, usize) {
    task.info().coords.map_or((u32::MAX, 0), |[message, _, other]| (message, other as usize))
}

impl Policy for Networked {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn push(&self, view: &SchedView<'_>, task: ReadyTask, from: Option<usize>) -> Wake {
        let (number, _) = message(&task);
        match task.codelet() {
            SEND => {
                view.prefetch(&task, self.out);
                let takes = view.estimate(&task, self.out).unwrap_or_default();
                let wire = &mut *self.wire.lock();
                wire.takes.insert(number, takes.as_nanos() as u64);
                wire.sends.push_back(task);
                Wake::Worker(self.out)
            }
            RECEIVE => {
                let wire = &mut *self.wire.lock();
                if wire.early.remove(&number) {
                    wire.receives.push_back(task);
                } else {
                    wire.waiting.insert(number, task);
                }
                Wake::Worker(self.out + 1)
            }
            _ => self.inner.push(view, task, from.filter(|&worker| worker < self.out)),
        }
    }

    fn pop(&self, view: &SchedView<'_>, worker: usize) -> Option<ReadyTask> {
        match worker.checked_sub(self.out) {
            None => self.inner.pop(view, worker),
            Some(0) => self.wire.lock().sends.pop_front(),
            Some(_) => self.wire.lock().receives.pop_front(),
        }
    }

    fn sort_again(&self) {
        self.inner.sort_again();
    }

    fn home(&self, view: &SchedView<'_>, codelet: &str, info: &TaskInfo) -> Option<usize> {
        if matches!(codelet, SEND | RECEIVE) { None } else { self.inner.home(view, codelet, info) }
    }

    fn pop_like(
        &self,
        view: &SchedView<'_>,
        worker: usize,
        first: &ReadyTask,
        most: usize,
    ) -> Vec<ReadyTask> {
        self.inner.pop_like(view, worker, first, most)
    }

    fn follows(&self) -> bool {
        true
    }

    fn began(&self, view: &SchedView<'_>, worker: usize, task: &ReadyTask) {
        if worker == self.out {
            let (number, to) = message(task);
            let wire = &mut *self.wire.lock();
            let takes = wire.takes.remove(&number).unwrap_or(0);
            wire.begun.push((number, to, takes));
        } else if self.follows && worker < self.out {
            self.inner.began(view, worker, task);
        }
    }

    fn ended(&self, view: &SchedView<'_>, worker: usize, id: u64) {
        if self.follows && worker < self.out {
            self.inner.ended(view, worker, id);
        }
    }
}
