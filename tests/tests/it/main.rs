//! The tests of this crate that need a public interface only, in one binary: it is linked once.

mod colours;
mod common;
mod determinism;
mod documentation;
mod policies;
mod stress;
