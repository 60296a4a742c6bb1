//! Platform files, and virtual time: a recorded graph runs on the machine that a platform
//! describes, through the engine, the scheduling policies and the memory manager of real runs. No
//! kernel runs, and no value is needed.
//!
//! ```
//! use zellige_sim::platform::Platform;
//! use zellige_sim::Simulation;
//! use zellige_runtime::{Recorder, Runtime, Submit, update};
//!
//! let rt = Runtime::new()?;
//! let x = rt.register(vec![0f32; 1000]);
//! let graph = rt.record(|g: &Recorder| {
//!     (0..3).try_for_each(|_| g.task("step").operands((update(&x),)).cpu(|(_,)| ()).submit().map(drop))
//! })?;
//! let outcome = Simulation::new(&graph, &Platform::shipped("v100x4")?).policy("dmda").run()?;
//! // One transfer of 4000 bytes over PCIe, then three tasks that only take a launch and their way through memory.
//! assert_eq!(outcome.trace.transfers.len(), 1);
//! assert!(outcome.makespan.as_nanos() > 10_400 + 3 * 10_000);
//! # Ok::<(), zellige_runtime::Error>(())
//! ```
//!
//! A simulation is a [replay](zellige_runtime::Runtime::replay) on the engine that runs tasks for
//! real, with these differences:
//!
//! - One thread does the work of all workers.
//! - Devices are simulated: an operation does nothing, and ends at the time that the platform
//!   gives.
//! - Handles are placeholders with the format, size and norm of a value that does not exist.
//!
//! All else is the work of the engine itself: commuting tasks exclude each other, partial results
//! are added on the host, tasks run in one call, a host of limited size has a disk, tasks run on
//! the devices that [can execute](zellige_runtime::Codelet::can_execute) them. If the host learns
//! of an end with a delay ([`platform::Rates::end_us`]), tasks are launched in stream order, before
//! their predecessors have ended.
//!
//! [`RankSimulation`] simulates several machines connected by a network, with a graph for each.
//!
//! Time is counted in integer nanoseconds and ties are broken by number, so a simulation is
//! reproducible.

mod bounds;
mod machine;
mod norms;
mod outcome;
pub mod platform;
mod ranks;

use std::sync::Arc;
use std::time::Duration;

use zellige_runtime::internal::VirtualRun;
use zellige_runtime::internal::policies::by_name;
use zellige_runtime::sched::Policy;
use zellige_runtime::{Error, Graph, Trace};

use machine::PlatformMachine;
use platform::Platform;

pub use norms::Norms;
pub use ranks::{Messages, RankSimulation, RanksOutcome};

/// A graph to be run in virtual time.
pub struct Simulation<'a> {
    graph: &'a Graph,
    platform: &'a Platform,
    policy: PolicyChoice,
    ahead: usize,
    collect: Vec<usize>,
    norms: Norms,
}

/// The scheduling policy.
enum PolicyChoice {
    Named(String),
    Own(Box<dyn Policy>),
}

/// Statistics of transfers, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct BytesMoved {
    /// Bytes from the host to devices.
    pub h2d: u64,
    /// Bytes from devices to the host.
    pub d2h: u64,
    /// Between devices.
    pub p2p: u64,
}

/// Lower bounds of the makespan, without transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimBounds {
    /// The area bound.
    pub area: Duration,
    /// The critical path, each task on its fastest device.
    pub critical_path: Duration,
    /// The area bound with the condition that the tasks of the critical path run one after the
    /// other.
    pub mixed: Duration,
}

/// Result of a simulation.
#[derive(Clone, Debug)]
pub struct SimOutcome {
    /// Time from the start to the end of the last task, or of the last transfer of a collected
    /// value.
    pub makespan: Duration,
    /// Operations of all tasks.
    pub flops: f64,
    /// Bytes moved between nodes.
    pub bytes_moved: BytesMoved,
    /// Share of devices x makespan in which no task ran.
    pub idle_share: f64,
    /// Lower bounds for the same tasks.
    pub bounds: SimBounds,
    /// Trace of the tasks, transfers and evictions, as a runtime would have recorded it.
    pub trace: Trace,
}

impl SimOutcome {
    /// Rate of the whole run (Tflop/s).
    pub fn tflops(&self) -> f64 {
        self.flops / self.makespan.as_secs_f64().max(1e-12) / 1e12
    }
}

impl<'a> Simulation<'a> {
    /// Simulates `graph` on `platform`, with the policy `dmdas`. All values are on the host in the
    /// beginning.
    pub fn new(graph: &'a Graph, platform: &'a Platform) -> Self {
        let policy = PolicyChoice::Named("dmdas".into());
        Simulation { graph, platform, policy, ahead: 2, collect: Vec::new(), norms: Norms::default() }
    }

    /// Sets the scheduling policy by name.
    #[must_use]
    pub fn policy(mut self, name: &str) -> Self {
        self.policy = PolicyChoice::Named(name.into());
        self
    }

    /// Sets a custom scheduling policy.
    #[must_use]
    pub fn policy_with(mut self, policy: Box<dyn Policy>) -> Self {
        self.policy = PolicyChoice::Own(policy);
        self
    }

    /// Sets the norms of values during the run, for codelets with deferred selection. By default a
    /// value keeps its registered norm.
    #[must_use]
    pub fn norms(mut self, norms: Norms) -> Self {
        self.norms = norms;
        self
    }

    /// Sets the number of tasks beyond the running one for which a device gathers operands (default
    /// 2). With 0 it takes a task when it is free, like workers on the host.
    #[must_use]
    pub fn ahead(mut self, tasks: usize) -> Self {
        self.ahead = tasks;
        self
    }

    /// Sets the slots whose final values are brought to the host before the clock stops.
    #[must_use]
    pub fn collect(mut self, slots: impl IntoIterator<Item = usize>) -> Self {
        self.collect.extend(slots);
        self
    }

    /// Runs the simulation.
    ///
    /// # Errors
    /// [`Error::Config`] for an unknown policy, and for a task that no device can run or whose
    /// operands fit nowhere (with the arithmetic).
    pub fn run(self) -> Result<SimOutcome, Error> {
        let policy = match self.policy {
            PolicyChoice::Named(name) => by_name(&name, self.platform.device_count())?,
            PolicyChoice::Own(policy) => policy,
        };
        let (machine, norms) = (Arc::new(PlatformMachine::of(self.platform)), self.norms);
        let norm = move |slot, version| norms.get(slot, version);
        let trace = VirtualRun::new(self.graph, machine, policy, self.ahead, norm, &self.collect)?.run()?;
        outcome::outcome(self.graph, self.platform, trace)
    }
}

impl std::fmt::Debug for Simulation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let policy = match &self.policy {
            PolicyChoice::Named(name) => name,
            PolicyChoice::Own(policy) => policy.name(),
        };
        write!(f, "Simulation({:?} on {}, {policy})", self.graph, self.platform.name)
    }
}

#[cfg(test)]
mod tests;
