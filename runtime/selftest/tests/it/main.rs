//! The tests of this crate that need only a public interface, in one binary: it is linked once.

mod cuda_compile;
mod fuzz;
