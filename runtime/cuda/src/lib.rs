//! GPUs as devices of the runtime: streams, pinned memory, stream-ordered launch, CUDA graphs.
//!
//! A codelet names its function for GPUs in
//! [`Codelet::on_devices`](zellige_runtime::Codelet::on_devices), with [`CUDA`] as the
//! architecture; the function gets its stream from [`GpuTask::gpu`]. All calls go through
//! [`zellige_gpu::Driver`], so everything here runs without a GPU on [`zellige_gpu::mock::Mock`].
//! `README.md` describes the order of operations.
//!
//! ```
//! use std::sync::Arc;
//! use zellige_cuda::{CUDA, Gpu, GpuTask};
//! use zellige_gpu::mock::Mock;
//! use zellige_runtime::codelet::{DeviceMut, DeviceTable};
//! use zellige_runtime::{Codelet, Runtime, Submit, TaskContext, TaskError, Update, update};
//!
//! /// Sets all elements to zero.
//! struct Zero;
//!
//! impl Codelet for Zero {
//!     type Operands = (Update<Vec<f32>>,);
//!
//!     fn name(&self) -> &'static str {
//!         "zero"
//!     }
//!
//!     fn cpu(&self, (x,): (&mut [f32],), _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
//!         x.fill(0.0);
//!         Ok(())
//!     }
//!
//!     fn on_devices(&self, table: &mut DeviceTable<Self>) {
//!         table.add(*CUDA, Self::cuda);
//!     }
//! }
//!
//! impl Zero {
//!     fn cuda(&self, (x,): (DeviceMut<'_, Vec<f32>>,), cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
//!         let (gpu, (at, bytes)) = (cx.gpu(), x.part(0));
//!         // SAFETY: the operand is the task's alone, and has so many bytes.
//!         unsafe { gpu.driver().zero(gpu.stream(), at, bytes)? };
//!         Ok(())
//!     }
//! }
//!
//! let gpu = Gpu::new(Arc::new(Mock::builder().build()), 0).memory(1 << 20);
//! let rt = Runtime::builder().workers(0).device(gpu).build()?;
//! let x = rt.register(vec![1.0f32; 100]);
//! rt.submit(Zero, (update(&x),))?;
//! assert_eq!(rt.take(x)?, [0.0; 100]);
//! # Ok::<(), zellige_runtime::Error>(())
//! ```

mod context;
mod device;
mod error;
mod landing;
mod mark;
mod memory;
mod operand_cache;
mod recording;
mod spec;

pub use context::{GpuContext, GpuScratch, GpuTask};
pub use spec::Gpu;

use std::sync::LazyLock;

use zellige_runtime::device::Arch;

/// The architecture of NVIDIA GPUs.
pub static CUDA: LazyLock<Arch> = LazyLock::new(|| Arch::named("cuda"));
