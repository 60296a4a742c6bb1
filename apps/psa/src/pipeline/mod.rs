//! From events to answers: arrays of one segment, streams of events, files of results, and the
//! comparison of runs.

pub mod compare;
mod input;
pub mod results;
pub mod stream;

pub use input::{Files, Input};
