//! From events to answers: streams of events, files of results, and the comparison of runs.

pub mod compare;
pub mod hits;
pub mod results;
pub mod stream;
pub mod traces;
