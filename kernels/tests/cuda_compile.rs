//! The CUDA sources through NVRTC (`scripts/nvrtc` fetches it; a printed skip without it), and the PTX that is shipped.

use zellige_kernels::cuda::{OPTIONS, SOURCES, SPARSE_SOURCES};
use zellige_twins::{check_shipped, check_sources};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cuda/ptx");

#[test]
fn every_source_compiles_for_every_architecture() {
    check_sources(SOURCES.iter().chain(SPARSE_SOURCES).map(|s| (s.name, s.text, s.kernels)), OPTIONS);
}

#[test]
fn shipped_ptx_was_made_of_these_sources() {
    for source in SOURCES.iter().chain(SPARSE_SOURCES) {
        check_shipped(source.name, source.text, OPTIONS, &source.ptx_header(), source.ptx, FOLDER);
    }
}
