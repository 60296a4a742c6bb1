//! The CUDA sources through NVRTC (`scripts/nvrtc` fetches it; a printed skip without it).

use zellige_kernels::cuda::{DISTANCE_SOURCES, SELL_SOURCES, SITE_SOURCES, SOURCES, SPARSE_SOURCES};
use zellige_twins::check_sources;

#[test]
fn every_source_compiles_for_every_architecture() {
    let all = [SOURCES, SELL_SOURCES, SPARSE_SOURCES, SITE_SOURCES, DISTANCE_SOURCES];
    check_sources(all.into_iter().flatten());
}
