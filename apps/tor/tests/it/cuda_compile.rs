//! Compilation of the CUDA source with NVRTC (`scripts/nvrtc` fetches it; skipped with a line
//! without it).

use zellige_tor::covariance::device::SOURCE;
use zellige_twins::check_sources;

#[test]
fn the_source_compiles_for_every_architecture() {
    check_sources([&SOURCE]);
}
