//! The tests of this crate that need a public interface only, in one binary: it is linked once.

mod checks;
mod common;
mod compile;
mod cuda;
mod faults;
mod random;
mod routines;
