//! Errors of GPUs and their libraries.

use crate::info::Library;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// A library is not on this machine, or not usable.
    #[error("{library} is not usable: {reason}; needed for {needed_for}")]
    Missing {
        /// The library.
        library: Library,
        /// Reason why it cannot be used.
        reason: String,
        /// Functions that are disabled without it.
        needed_for: &'static str,
    },
    /// There is no GPU of this number.
    #[error("there is no GPU {gpu}: {there} found")]
    NoGpu {
        /// The requested number.
        gpu: u32,
        /// Number of GPUs.
        there: usize,
    },
    /// Device memory is full.
    #[error("GPU {gpu} has no room for {bytes} bytes")]
    OutOfMemory {
        /// Number of the GPU.
        gpu: u32,
        /// Requested bytes.
        bytes: u64,
    },
    /// A library supports the type of a product but has no kernel for it on this GPU. The product
    /// can be computed by another method.
    #[error("GPU {gpu}: {call}: the library has no kernel for this product on this GPU")]
    NoKernel {
        /// Number of the GPU.
        gpu: u32,
        /// The call, by its name in CUDA.
        call: &'static str,
    },
    /// A call was refused or an operation failed. If `sticky`, the GPU's context is lost with
    /// everything in its memory.
    #[error("GPU {gpu}: {call}: {reason}")]
    Failed {
        /// Number of the GPU.
        gpu: u32,
        /// The call, by its name in CUDA.
        call: &'static str,
        /// Message of the driver.
        reason: String,
        /// True if all later calls fail too.
        sticky: bool,
    },
    /// A kernel's source does not compile.
    #[error("{source_name} does not compile for {arch}:\n{log}")]
    Compile {
        /// The source's name.
        source_name: String,
        /// The architecture, e.g. `sm_90`.
        arch: String,
        /// Output of the compiler.
        log: String,
    },
}

impl GpuError {
    /// Returns true if the GPU cannot be used any more.
    pub fn is_sticky(&self) -> bool {
        matches!(self, GpuError::Failed { sticky: true, .. })
    }
}
