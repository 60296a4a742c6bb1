//! The tests of this crate that need a public interface only, in one binary: it is linked once.

mod cuda_compile;
mod fuzz;
