//! The tests of this crate that need a public interface only, in one binary: it is linked once.

mod cholesky;
mod cluster;
mod common;
mod determinism;
mod faults;
mod fuse_updates;
mod gmres;
mod gpu;
mod map;
mod owners;
mod scales;
mod script;
mod solve;
mod trust;
