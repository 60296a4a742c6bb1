//! Recorded graphs: recorded once, inspected, and replayed any number of times without dependency
//! analysis.

mod analysis;
mod bindings;
mod device_graph;
mod edges;
mod ends;
mod recorder;
mod replay;
mod slot;
#[cfg(test)]
mod tests;

pub use analysis::GraphNode;
pub use bindings::Bindings;
pub use device_graph::DeviceGraphs;
pub use recorder::{Described, Graph, Placement, Recorder};
pub(crate) use replay::submit as submit_replay;
