//! Tests that every crate with CUDA sources runs on its own.

use std::path::Path;

use crate::{Image, Nvrtc};

/// The architectures that sources have to compile for: Volta, Ampere, Hopper, Blackwell.
pub const ARCHITECTURES: [&str; 4] = ["sm_70", "sm_80", "sm_90", "sm_100"];

/// What the shipped PTX is made for and by.
const PTX: (&str, (i32, i32)) = ("compute_70", (12, 9));

/// NVRTC, or a printed line.
fn nvrtc() -> Option<Nvrtc> {
    Nvrtc::find().map_err(|error| eprintln!("skipped: compiling CUDA sources: {error}")).ok()
}

/// Compiles each source, `(name, text, kernels)`, to machine code for [`ARCHITECTURES`], and finds its kernels there. Without NVRTC: a printed
/// line.
///
/// # Panics
/// A source does not compile or lacks a kernel.
pub fn check_sources<'a>(
    sources: impl IntoIterator<Item = (&'a str, &'a str, &'a [&'a str])>,
    options: &[&str],
) {
    let Some(nvrtc) = nvrtc() else { return };
    let sources: Vec<_> = sources.into_iter().collect();
    let check = &|arch: &str| {
        for (name, text, kernels) in &sources {
            let image = nvrtc.compile(name, text, arch, options, Image::Cubin);
            let image = image.unwrap_or_else(|error| panic!("{error}"));
            for kernel in *kernels {
                // A code object names each of its kernels' sections.
                let section = format!(".text.{kernel}\0");
                let there = image.windows(section.len()).any(|w| w == section.as_bytes());
                assert!(there, "{name} for {arch} has no kernel {kernel}");
            }
        }
    };
    // It takes seconds for each.
    std::thread::scope(|scope| {
        for arch in ARCHITECTURES {
            scope.spawn(move || check(arch));
        }
    });
}

/// The PTX of a source is what NVRTC 12.9 makes of it now, after a first line that names the source's contents. That line is looked at
/// without NVRTC too. With `ZELLIGE_WRITE_PTX` in the environment the file in `folder` is written instead.
///
/// # Panics
/// The PTX is out of date, or cannot be made or written where that was asked for.
pub fn check_shipped(name: &str, text: &str, options: &[&str], header: &str, shipped: &str, folder: &str) {
    let (arch, version) = PTX;
    let file = Path::new(folder).join(format!("{name}.{arch}.ptx"));
    let make = |nvrtc: &Nvrtc| {
        let made = nvrtc.compile(name, text, arch, options, Image::Ptx);
        let made = made.unwrap_or_else(|error| panic!("{error}"));
        format!("{header}{}", String::from_utf8_lossy(&made))
    };
    if std::env::var_os("ZELLIGE_WRITE_PTX").is_some() {
        let nvrtc = Nvrtc::find().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(nvrtc.version, version, "shipped PTX is made by NVRTC 12.9: run scripts/nvrtc");
        std::fs::write(&file, make(&nvrtc)).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        return;
    }
    let remedy = format!("{} is out of date: run scripts/ptx", file.display());
    assert!(shipped.starts_with(header), "{remedy}");
    if let Some(nvrtc) = nvrtc().filter(|nvrtc| nvrtc.version == version) {
        assert!(shipped == make(&nvrtc), "{remedy}");
    }
}
