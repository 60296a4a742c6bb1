//! The part of CUDA that zellige uses, as one small trait.
//!
//! [`Driver`] is the interface of the runtime and the kernels to a GPU: memory, streams, events,
//! launches, and the few library routines that tile algorithms need. [`mock::Mock`] replaces it on
//! machines without a GPU. It runs host versions of kernels ([`twin`]), and checks that streams and
//! events order all conflicting operations:
//!
//! ```
//! use zellige_gpu::mock::Mock;
//! use zellige_gpu::twin::TwinArg;
//! use zellige_gpu::{Arg, Driver, Place};
//!
//! let mock = Mock::builder()
//!     .kernel("twice", |_grid, _block, args| match args {
//!         [TwinArg::Update(x)] => Ok(x.iter_mut().for_each(|x| *x *= 2)),
//!         _ => Err("twice takes one array".into()),
//!     })
//!     .build();
//! let module = mock.load(0, b"any image")?;
//! let twice = mock.kernel(module, "twice")?;
//! let (stream, other) = (mock.create_stream(0, false)?, mock.create_stream(0, false)?);
//! let ready = mock.create_event(0, false)?;
//! let x = mock.allocate(stream, 3)?;
//! let mut host = [1u8, 2, 3];
//! let there = Place::Host(host.as_mut_ptr());
//! // SAFETY: `host` and `x` live until both streams have ended, and nobody else uses them.
//! unsafe {
//!     mock.copy(stream, Place::Gpu(0, x), there, 3)?;
//!     mock.launch(stream, twice, [1, 1, 1], [32, 1, 1], 0, &[Arg::Update(x, 3)])?;
//!     mock.record(ready, stream)?;
//!     mock.wait_event(other, ready)?; // without it, the copy is an error that names both
//!     mock.copy(other, there, Place::Gpu(0, x), 3)?;
//! }
//! mock.synchronize(other)?;
//! assert_eq!(host, [2, 4, 6]);
//! assert!(mock.violations().is_empty());
//! # Ok::<(), zellige_gpu::GpuError>(())
//! ```

mod call;
mod check;
mod compile;
pub mod cuda;
mod driver;
mod error;
mod info;
pub mod mock;
pub mod source;
pub mod twin;

pub use call::{
    Arg, BatchedGemm, Compute, Element, Factors, Gemm, Matrix, Potrf, Side, Syrk, Transpose, Trsm,
};
pub use compile::Compiler;
pub use driver::{Address, Driver, Event, Graph, Kernel, Module, Place, Stream};
pub use error::GpuError;
pub use info::{Gauges, GpuInfo, Library, LibraryState};
