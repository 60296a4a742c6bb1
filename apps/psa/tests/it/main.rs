//! The tests of this crate that need a public interface only, in one binary: it is linked once.

mod analytic;
mod channel_map;
mod common;
mod consistency;
mod crystal;
mod files;
mod geb;
mod gretina;
mod pairs;
mod reference;
mod searcher;
mod stream;
mod synthetic;
mod track;
