//! The CUDA sources through NVRTC (`scripts/nvrtc` fetches it; a printed skip without it).

use zellige_kernels::cuda::all_sources;
use zellige_twins::check_sources;

#[test]
fn every_source_compiles_for_every_architecture() {
    check_sources(all_sources());
}
