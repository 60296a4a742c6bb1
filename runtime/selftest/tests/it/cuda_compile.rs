//! The CUDA source through NVRTC (`scripts/nvrtc` fetches it; a printed skip without it), and the PTX that is
//! shipped.

use zellige_gpu::source::OPTIONS;
use zellige_selftest::SOURCE;
use zellige_twins::{check_shipped, check_sources};

#[test]
fn the_source_compiles_for_every_architecture() {
    check_sources([(SOURCE.name, SOURCE.text, SOURCE.kernels)], OPTIONS);
}

#[test]
fn shipped_ptx_was_made_of_this_source() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/cuda/ptx");
    check_shipped(SOURCE.name, SOURCE.text, OPTIONS, &SOURCE.ptx_header(), SOURCE.ptx, folder);
}
