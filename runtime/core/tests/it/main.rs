//! The tests of this crate that need a public interface only, in one binary: it is linked once.

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
