//! From events to answers: arrays of one segment, streams of events, files of results, and the
//! comparison of runs.

pub mod compare;
pub mod hits;
mod input;
pub mod results;
pub mod stream;
pub mod traces;

pub use input::{Files, Input};
