//! The tests of this crate that need a public interface only, in one binary: it is linked once.

mod bits;
mod files;
mod market;
mod ranks;
mod ready;
mod reference;
mod scalings;
mod visible;
