//! What there is: GPUs and libraries.

use std::fmt;

/// A GPU as its driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuInfo {
    /// E.g. `NVIDIA H200`.
    pub name: String,
    /// Tells it from others of its kind, also after a restart.
    pub uuid: String,
    /// Bytes of its memory.
    pub memory: u64,
    /// (major, minor) of what it can do.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Its place on the bus, e.g. `0000:3b:00.0`.
    pub bus: String,
    /// Numbers of the GPUs whose memory it reaches directly.
    pub peers: Vec<u32>,
}

impl GpuInfo {
    /// The first compute capability with 8-bit tensor cores, and so with products of 8-bit operands.
    pub const FP8_FROM: (u32, u32) = (8, 9);

    /// The architecture that kernels are compiled for, e.g. `sm_90`.
    pub fn arch(&self) -> String {
        let (major, minor) = self.compute_capability;
        format!("sm_{major}{minor}")
    }
}

/// A shared library of NVIDIA's, loaded when it is first needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Library {
    /// `libcuda`: without it there are no GPUs.
    Driver,
    /// `libcublas`: products, triangular solves.
    Cublas,
    /// `libcublasLt`: products of 8-bit operands.
    CublasLt,
    /// `libcusolver`: factorisations of tiles.
    Cusolver,
    /// `libnvrtc`: compiling kernels.
    Nvrtc,
    /// `libnvToolsExt`: ranges in NVIDIA's profilers.
    Nvtx,
}

impl Library {
    /// Every library.
    pub const ALL: [Library; 6] = [
        Library::Driver,
        Library::Cublas,
        Library::CublasLt,
        Library::Cusolver,
        Library::Nvrtc,
        Library::Nvtx,
    ];

    /// What users call it.
    pub const fn name(self) -> &'static str {
        match self {
            Library::Driver => "CUDA driver",
            Library::Cublas => "cuBLAS",
            Library::CublasLt => "cuBLASLt",
            Library::Cusolver => "cuSOLVER",
            Library::Nvrtc => "NVRTC",
            Library::Nvtx => "NVTX",
        }
    }

    /// What is switched off without it.
    pub const fn needed_for(self) -> &'static str {
        match self {
            Library::Driver => "every GPU",
            Library::Cublas => "products and triangular solves on GPUs",
            Library::CublasLt => "fp8 products",
            Library::Cusolver => "factorising tiles on GPUs",
            Library::Nvrtc => "kernels for architectures that none was shipped for",
            Library::Nvtx => "ranges in NVIDIA's profilers",
        }
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Whether a library can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryState {
    /// It is there, with this version (as the library gives it; empty where it gives none).
    There(String),
    /// It is not, or it does not work; why.
    Missing(String),
}
