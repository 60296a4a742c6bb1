//! Tests of CUDA sources without a GPU.
//!
//! [`Twins`] are the same sources compiled by g++ for the host through a small header (`shim.h`):
//! kernels that can be run, and compared bit for bit with a reference. [`HostKernels`] are those of
//! a driver that needs no GPU. [`Nvrtc`] is NVIDIA's compiler, which needs no GPU either: it
//! compiles the sources for an architecture, or to PTX.

mod build;
mod check;
mod host;
mod nvrtc;
mod twins;

pub use check::{ARCHITECTURES, check_sources};
pub use host::{HostKernels, mock, mock_with_wrong_products};
pub use nvrtc::{Image, Nvrtc, NvrtcError};
pub use twins::{TwinError, Twins};
