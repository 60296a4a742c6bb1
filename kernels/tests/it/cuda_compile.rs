//! The CUDA sources through NVRTC (`scripts/nvrtc` fetches it; a printed skip without it), and the PTX that is shipped.

use zellige_kernels::cuda::{
    DISTANCE_SOURCES, OPTIONS, SELL_SOURCES, SITE_SOURCES, SOURCES, SPARSE_SOURCES, Source,
};
use zellige_twins::{check_shipped, check_sources};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cuda/ptx");

fn all() -> impl Iterator<Item = &'static Source> {
    [SOURCES, SELL_SOURCES, SPARSE_SOURCES, SITE_SOURCES, DISTANCE_SOURCES].into_iter().flatten()
}

#[test]
fn every_source_compiles_for_every_architecture() {
    check_sources(all().map(|s| (s.name, s.text, s.kernels)), OPTIONS);
}

#[test]
fn shipped_ptx_was_made_of_these_sources() {
    for source in all() {
        check_shipped(source.name, source.text, OPTIONS, &source.ptx_header(), source.ptx, FOLDER);
    }
}
