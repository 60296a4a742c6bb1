//! From events to answers: streams of events, what is answered, and how far answers agree.

pub mod compare;
pub mod results;
pub mod stream;
