//! One task of a recorded graph, by its place in it.

use super::Graph;
use crate::task::Header;

/// A task of a recorded graph, without operands that are bound: what virtual time hands to a policy.
#[derive(Clone)]
pub(crate) struct GraphTask {
    graph: Graph,
    pub(crate) index: u32,
}

impl GraphTask {
    pub(crate) fn new(graph: &Graph, index: u32) -> Self {
        GraphTask { graph: graph.clone(), index }
    }

    pub(crate) fn header(&self) -> &Header {
        self.graph.header(self.index as usize)
    }
}
