//! Splitting and joining of handles.

#![allow(clippy::single_range_in_vec_init, reason = "a list of one region is one")]

mod random;
mod rules;

use std::time::Duration;

use zellige_runtime::{Runtime, RuntimeBuilder};

type Ints = Vec<u64>;

/// Returns a builder of a runtime that aborts with a message if it hangs.
fn builder(cpus: usize) -> RuntimeBuilder {
    Runtime::builder().workers(cpus).watchdog(Some(Duration::from_secs(20))).on_stall(|text| {
        eprintln!("stalled: {text}");
        std::process::abort();
    })
}
