//! Ranks that are threads of one process, against what one process computes.

mod basics;
mod faults;
#[path = "../programs/mod.rs"]
mod programs;
mod random;
mod recordings;
