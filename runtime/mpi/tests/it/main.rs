//! Ranks that are threads of one process, compared with the results of one process.

mod basics;
mod faults;
#[path = "../programs/mod.rs"]
mod programs;
mod random;
mod recordings;
