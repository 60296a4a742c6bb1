//! Tests of this crate that need only its public interface, in one binary that is linked once.

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
mod trust;
mod tune;
