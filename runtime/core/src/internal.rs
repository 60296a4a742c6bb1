//! Internals that the other crates of this project need. They are not part of the public interface
//! and may change with any version.

pub mod policies;
pub mod ranks;
/// Hashes of integers (SplitMix64).
pub mod splitmix {
    pub use crate::splitmix::{STEP, scramble};
}
/// Threads that start under a limit of address space.
pub mod threads {
    pub use crate::thread_start::{SMALL_STACK, start_thread};
}
pub mod untyped;

use crate::engine::graph::Graph;
use crate::runtime::Runtime;
use crate::value::Data;

pub use crate::error::caught;
pub use crate::mutant::mutant;
pub use crate::operand::Wanted;
use crate::task::Handle;
pub use crate::task::plan::Times;
pub use crate::task::{Accesses, Body, Env, Formats, Metas, Refusal, Spec};
pub use crate::virtual_time::{Machine, MachineNode, MachineTask, MachineWorker, VirtualRun};

/// Creates a handle that will belong to the first runtime or recorder that uses it.
pub fn handle<D: Data>(value: Option<D>) -> Handle<D> {
    Handle::new(value)
}

/// Returns true once a device has failed.
pub fn has_lost_a_device(rt: &Runtime) -> bool {
    rt.has_lost_a_device()
}

/// Returns the implementations of a recorded task (empty if there is only one) and its dimensions.
pub fn recorded_task(graph: &Graph, task: usize) -> (&'static [&'static str], [u32; 3]) {
    let header = graph.header(task);
    (header.implementations.names, header.info.shape)
}

/// Returns the tasks of a longest path through a graph, for the given task lengths.
pub fn longest_path(graph: &Graph, length: impl Fn(usize) -> f64) -> Vec<usize> {
    graph.longest_path(length)
}
