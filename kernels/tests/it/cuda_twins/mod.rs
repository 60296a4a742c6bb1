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
mod formulas;
mod gather;
mod norms;
mod sell;
mod tile;
mod update;
mod vectors;

use std::sync::OnceLock;

use zellige_kernels::cuda::{DISTANCE_SOURCES, Launch, SELL_SOURCES, SITE_SOURCES, SOURCES, SPARSE_SOURCES};
use zellige_twins::Twins;

/// Returns the twins of a source, built once; `None` if there is no g++, which the first call has
/// printed.
fn twins_of(kernel: &str) -> Option<&'static Twins> {
    const ALL: usize = SOURCES.len()
        + SELL_SOURCES.len()
        + SPARSE_SOURCES.len()
        + SITE_SOURCES.len()
        + DISTANCE_SOURCES.len();
    static BUILT: [OnceLock<Option<Twins>>; ALL] = [const { OnceLock::new() }; ALL];
    let mut all = [SOURCES, SELL_SOURCES, SPARSE_SOURCES, SITE_SOURCES, DISTANCE_SOURCES]
        .into_iter()
        .flatten()
        .enumerate();
    let found = all.find(|(_, source)| source.kernels.contains(&kernel));
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
