//! The tests of this crate that need only a public interface, in one binary: it is linked once.

mod gpu;
mod gpu_batches;
mod gpu_graphs;
mod gpu_operand_cache;
mod gpu_stream_order;
mod gpu_threads;
mod gpu_use;
mod gpu_workspace;
mod page_locked;
mod steps;
