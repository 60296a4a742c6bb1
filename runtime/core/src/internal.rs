//! What the crates beside this one need of its inside. No part of its interface: it may change with
//! any version.

pub mod ranks;

use crate::data::{Data, Handle};
use crate::engine::graph::Graph;
use crate::runtime::Runtime;

pub use crate::engine::transfer::plan::Times;
pub use crate::error::caught;
pub use crate::mutant::mutant;
pub use crate::operand::{Accesses, Formats, Metas, Wanted};
pub use crate::sched::by_name as policy_by_name;
pub use crate::splitmix::{STEP, scramble};
pub use crate::task::{Body, Env, Refusal, Spec};
pub use crate::virtual_time::{Machine, MachineNode, MachineTask, MachineWorker, VirtualRun};

/// A handle that belongs to the first runtime or recorder that uses it.
pub fn handle<D: Data>(value: Option<D>) -> Handle<D> {
    Handle::new(value)
}

/// True once a device has failed.
pub fn has_lost_a_device(rt: &Runtime) -> bool {
    rt.has_lost_a_device()
}

/// The implementations of a recorded task, empty where there is one, and its dimensions.
pub fn recorded_task(graph: &Graph, task: usize) -> (&'static [&'static str], [u32; 3]) {
    let header = graph.header(task);
    (header.implementations.names, header.info.shape)
}

/// The tasks of a longest path through a graph, by these lengths.
pub fn longest_path(graph: &Graph, length: impl Fn(usize) -> f64) -> Vec<usize> {
    graph.longest_path(length)
}
