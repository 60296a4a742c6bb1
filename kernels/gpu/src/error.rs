//! What goes wrong.

use crate::info::Library;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// A library is not on this machine, or not usable.
    #[error("{library} is not usable: {reason}; needed for {needed_for}")]
    Missing {
        /// Which.
        library: Library,
        /// What was tried.
        reason: String,
        /// What is switched off without it.
        needed_for: &'static str,
    },
    /// There is no GPU of this number.
    #[error("there is no GPU {gpu}: {there} found")]
    NoGpu {
        /// The number asked for.
        gpu: u32,
        /// How many there are.
        there: usize,
    },
    /// Device memory is full.
    #[error("GPU {gpu} has no room for {bytes} bytes")]
    OutOfMemory {
        /// Its number.
        gpu: u32,
        /// What was asked for.
        bytes: u64,
    },
    /// A library has no kernel for a product on this GPU, though it has the type: the product can
    /// be made in another way.
    #[error("GPU {gpu}: {call}: the library has no kernel for this product on this GPU")]
    NoKernel {
        /// Its number.
        gpu: u32,
        /// The call, by its name in CUDA.
        call: &'static str,
    },
    /// A call was refused or an operation failed; where `sticky`, the GPU's context is lost with
    /// all that was in its memory.
    #[error("GPU {gpu}: {call}: {reason}")]
    Failed {
        /// Its number.
        gpu: u32,
        /// The call, by its name in CUDA.
        call: &'static str,
        /// What the driver said.
        reason: String,
        /// Whether everything after it fails too.
        sticky: bool,
    },
    /// A kernel's source does not compile.
    #[error("{source_name} does not compile for {arch}:\n{log}")]
    Compile {
        /// The source's name.
        source_name: String,
        /// The architecture, e.g. `sm_90`.
        arch: String,
        /// What the compiler said.
        log: String,
    },
}

impl GpuError {
    /// True if the GPU cannot be used any more.
    pub fn is_sticky(&self) -> bool {
        matches!(self, GpuError::Failed { sticky: true, .. })
    }
}
