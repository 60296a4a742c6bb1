//! The CUDA kernels, compiled by g++ for the host, against this crate's CPU functions and against
//! f64.
//!
//! Every launch runs twice with the threads of its blocks in different orders (`zellige_twins`),
//! and every tile is between guards: races, writes outside a tile, missing writes and wrong
//! access modes fail too.

mod batched;
mod blocks;
mod convert;
mod distance;
mod dslash;
mod e4m3;
mod few_bits;
mod formulas;
mod gather;
mod norms;
mod sell;
mod tile;
mod update;
mod vectors;

use std::sync::OnceLock;

use zellige_kernels::cuda::{Launch, all_sources};
use zellige_twins::Twins;

/// Returns the twins of a source, built once; `None` if there is no g++, which the first call has
/// printed.
fn twins_of(kernel: &str) -> Option<&'static Twins> {
    const MOST: usize = 64;
    static BUILT: [OnceLock<Option<Twins>>; MOST] = [const { OnceLock::new() }; MOST];
    let found = all_sources().enumerate().find(|(_, source)| source.kernels.contains(&kernel));
    let (at, source) = found.unwrap_or_else(|| panic!("{kernel} is in no source"));
    BUILT[at].get_or_init(|| Twins::build(source.name, source.text, source.kernels).unwrap()).as_ref()
}

/// Runs a launch; false without g++.
fn run(launch: &Launch, seed: u64) -> bool {
    let Some(twins) = twins_of(launch.kernel) else { return false };
    // SAFETY: the tests name tiles and cells of their own, alive while this runs, and each test's
    // are used by its thread alone.
    let done = unsafe { twins.run(launch.kernel, [launch.grid, launch.block], &launch.args, seed) };
    done.unwrap();
    true
}

/// Launches in order.
fn run_all(launches: &[Launch], seed: u64) -> bool {
    launches.iter().all(|launch| run(launch, seed))
}
