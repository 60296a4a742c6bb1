//! Descriptions of GPUs and libraries.

use std::fmt;

use crate::call::{Compute, Element, Gemm};

/// A GPU as its driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuInfo {
    /// E.g. `NVIDIA H200`.
    pub name: String,
    /// Unique identifier, which is the same after a restart.
    pub uuid: String,
    /// Bytes of its memory.
    pub memory: u64,
    /// Compute capability, (major, minor).
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bus address, e.g. `0000:3b:00.0`.
    pub bus: String,
    /// Numbers of the GPUs whose memory it reaches directly.
    pub peers: Vec<u32>,
}

impl GpuInfo {
    /// The oldest compute capability for which kernels are written, and the first with tensor
    /// cores.
    pub const OLDEST: (u32, u32) = (7, 0);

    /// The first compute capability with products of such operands, summed so: by tensor cores for
    /// bf16 and TF32, and for 8 bits.
    pub const fn products_from(operands: Element, sums: Compute) -> (u32, u32) {
        match (operands, sums) {
            (Element::F8E4M3, _) => (8, 9),
            (Element::BF16, _) | (_, Compute::Tf32) => (8, 0),
            _ => Self::OLDEST,
        }
    }

    /// Checks that this GPU supports a product. The error says what it needs.
    pub(crate) fn check_product(&self, gemm: &Gemm) -> Result<(), String> {
        let needed = Self::products_from(gemm.a.element, gemm.compute);
        if self.compute_capability >= needed {
            return Ok(());
        }
        let ((major, minor), (x, y)) = (needed, self.compute_capability);
        let Gemm { a, compute, .. } = gemm;
        Err(format!(
            "products of {:?} operands with sums in {compute:?} need compute capability {major}.{minor}, this GPU has {x}.{y}",
            a.element
        ))
    }

    /// The architecture that kernels are compiled for, e.g. `sm_90`.
    pub fn arch(&self) -> String {
        let (major, minor) = self.compute_capability;
        format!("sm_{major}{minor}")
    }
}

/// Sensor values of a GPU at one moment; `None` if the GPU does not report a value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Clock rate of its multiprocessors (MHz).
    pub sm_clock_mhz: Option<f64>,
    /// Power draw (W), averaged over up to a second, depending on the generation of the GPU.
    pub power_w: Option<f64>,
    /// Energy since its driver was loaded (J).
    pub energy_j: Option<f64>,
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
    /// `libnvToolsExt`, `libnvtx3interop`: ranges in NVIDIA's profilers.
    Nvtx,
    /// `libnvidia-ml`: clock rates and power.
    Nvml,
}

impl Library {
    /// Every library.
    pub const ALL: [Library; 7] = [
        Library::Driver,
        Library::Cublas,
        Library::CublasLt,
        Library::Cusolver,
        Library::Nvrtc,
        Library::Nvtx,
        Library::Nvml,
    ];

    /// Returns the name for users.
    pub const fn name(self) -> &'static str {
        match self {
            Library::Driver => "CUDA driver",
            Library::Cublas => "cuBLAS",
            Library::CublasLt => "cuBLASLt",
            Library::Cusolver => "cuSOLVER",
            Library::Nvrtc => "NVRTC",
            Library::Nvtx => "NVTX",
            Library::Nvml => "NVML",
        }
    }

    /// Returns the functions that are disabled without the library.
    pub const fn needed_for(self) -> &'static str {
        match self {
            Library::Driver => "every GPU",
            Library::Cublas => "products and triangular solves on GPUs",
            Library::CublasLt => "fp8 products",
            Library::Cusolver => "factorising tiles on GPUs",
            Library::Nvrtc => {
                "compiling kernels, where there is no zellige-kernels.ptx.gz (scripts/ptx makes it) beside the command"
            }
            Library::Nvtx => "ranges in NVIDIA's profilers",
            Library::Nvml => "clock rates and power beside measured rates",
        }
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// State of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryState {
    /// Usable, with the version that the library reports (empty if it reports none).
    There(String),
    /// Missing or not usable, with the reason.
    Missing(String),
}
