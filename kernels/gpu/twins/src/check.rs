//! Tests that every crate with CUDA sources runs on its own.

use std::path::Path;

use zellige_gpu::source::{OPTIONS, Source};

use crate::{Image, Nvrtc};

/// The architectures that sources have to compile for: Volta, Ampere, Hopper, Blackwell.
pub const ARCHITECTURES: [&str; 4] = ["sm_70", "sm_80", "sm_90", "sm_100"];

/// Architecture that archived PTX is made for: the oldest GPUs with tensor cores, and by the driver
/// all later ones.
const PTX_ARCH: &str = "compute_70";

/// NVRTC, or a printed line.
fn nvrtc() -> Option<Nvrtc> {
    Nvrtc::find().map_err(|error| eprintln!("skipped: compiling CUDA sources: {error}")).ok()
}

/// Compiles each source to machine code for [`ARCHITECTURES`], and finds its kernels there. Without
/// NVRTC: a printed line. Where `ZELLIGE_WRITE_PTX` names a folder, the PTX of each source is
/// written there, with its [header](Source::ptx_header).
///
/// # Panics
/// A source does not compile or lacks a kernel, or its PTX cannot be written.
pub fn check_sources<'a>(sources: impl IntoIterator<Item = &'a Source>) {
    let Some(nvrtc) = nvrtc() else { return };
    let sources: Vec<_> = sources.into_iter().collect();
    let compile = |source: &Source, arch: &str, image| {
        let image = nvrtc.compile(source.name, source.text, arch, OPTIONS, image);
        image.unwrap_or_else(|error| panic!("{error}"))
    };
    let check = &|arch: &str| {
        for source in &sources {
            let image = compile(source, arch, Image::Cubin);
            for kernel in source.kernels {
                // A code object names each of its kernels' sections.
                let section = format!(".text.{kernel}\0");
                let there = image.windows(section.len()).any(|w| w == section.as_bytes());
                assert!(there, "{} for {arch} has no kernel {kernel}", source.name);
            }
        }
    };
    if let Some(folder) = std::env::var_os("ZELLIGE_WRITE_PTX") {
        for source in &sources {
            let ptx = [source.ptx_header().into_bytes(), compile(source, PTX_ARCH, Image::Ptx)].concat();
            let file = Path::new(&folder).join(format!("{}.ptx", source.name));
            std::fs::write(&file, ptx).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
        return;
    }
    // It takes seconds for each.
    std::thread::scope(|scope| {
        for arch in ARCHITECTURES {
            scope.spawn(move || check(arch));
        }
    });
}
