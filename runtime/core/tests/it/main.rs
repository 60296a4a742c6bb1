//! Tests of this crate that need only its public interface, in one binary, which is linked once.

mod batches;
mod callers;
mod closures;
mod devices;
mod faults;
mod formats;
mod implementations;
mod links;
mod models;
mod pool;
mod smoke;
mod split;
mod subnormals;
mod swap;
mod traces;
mod waiting;
