//! The tests of this crate that need a public interface only, in one binary: it is linked once.

mod batches;
mod callers;
mod closures;
mod devices;
mod faults;
mod formats;
mod gpu;
mod gpu_batches;
mod gpu_graphs;
mod gpu_operand_cache;
mod gpu_room;
mod gpu_stream_order;
mod gpu_use;
mod implementations;
mod links;
mod models;
mod page_locked;
mod smoke;
mod spares;
mod split;
mod steps;
mod subnormals;
mod swap;
mod traces;
mod waiting;
