//! Searches of many hits on a runtime: queues, batches, tasks, and their kernels on GPUs.

mod device;
mod in_flight;
mod pair_searcher;
mod queue;
mod searcher;
mod task;

pub(super) use pair_searcher::{AcceptedPair, PairSearcher};
pub use queue::EnergyClass;
pub use searcher::{Batching, Hit, Query, SearchRule, Searcher};
