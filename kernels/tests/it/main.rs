//! The tests of this crate that need a public interface only, in one binary: it is linked once.

mod blas;
mod cuda_compile;
mod cuda_twins;
mod panel;
mod precision;
