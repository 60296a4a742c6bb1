//! The tests of this crate that need a public interface only, in one binary: it is linked once.

mod bits;
mod factors;
mod files;
mod market;
mod ranks;
mod reference;
mod scalings;
mod visible;
