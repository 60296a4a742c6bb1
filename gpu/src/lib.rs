//! What zellige calls of CUDA, as one small trait.
//!
//! [`Driver`] is all that the runtime and the kernels know of a GPU: memory, streams, events, launches, and the handful of library
//! routines that tile algorithms need.

mod call;
mod driver;
mod error;
mod info;

pub use call::{Arg, BatchedGemm, Compute, Element, Gemm, Matrix, Potrf, Side, Syrk, Transpose, Trsm};
pub use driver::{Address, Driver, Event, Graph, Kernel, Module, Place, Stream};
pub use error::GpuError;
pub use info::{GpuInfo, Library, LibraryState};
