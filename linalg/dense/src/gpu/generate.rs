//! Tiles that a GPU generates.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use zellige_cuda::{CUDA, GpuTask};
use zellige_gpu::{Address, Matrix};
use zellige_kernels::cuda::{Launch, Source};
use zellige_runtime::codelet::{DeviceTable, DeviceViews};
use zellige_runtime::{Codelet, Handle, Read, Slot, TaskContext, TaskError, TaskInfo, Write};

use super::{OnGpu, Ops};
use crate::scalar::TileScalar;
use crate::tile::{Tile, TileHeader};
use crate::tiled::Generate;

/// Function that describes the launch that fills a block. Its arguments are the address of the
/// model, rows, columns, and the destination, whose number type the launch writes. The launch reads
/// the model and writes the block, and uses no other memory.
pub type DescribeLaunch =
    Arc<dyn Fn(Address, Range<usize>, Range<usize>, Matrix) -> Result<Launch, TaskError> + Send + Sync>;

/// Counterpart of a [`Generator`](crate::Generator) on GPUs; the numbers should be the same.
#[derive(Clone)]
pub struct GpuGenerator {
    /// Input of the kernel, e.g. tables: each GPU has a replica.
    pub model: Handle<Vec<u64>>,
    /// The kernel's source.
    pub source: &'static Source,
    /// Describes the launch for a block.
    pub describe: DescribeLaunch,
}

impl fmt::Debug for GpuGenerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuGenerator({})", self.source.name)
    }
}

/// Generates one tile and its norm, on any free device.
pub(crate) struct GenerateAnywhere<T: TileScalar> {
    pub(crate) on_host: Generate<T>,
    pub(crate) source: &'static Source,
    pub(crate) describe: DescribeLaunch,
}

impl<T: TileScalar> Codelet for GenerateAnywhere<T> {
    type Operands = (Read<Vec<u64>>, Write<Tile<T>>);

    fn name(&self) -> &'static str {
        self.on_host.name()
    }

    fn info(&self) -> TaskInfo {
        self.on_host.info()
    }

    fn cpu(
        &self,
        (_model, slot): (&[u64], Slot<'_, Tile<T>>),
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        self.on_host.cpu((slot,), cx)
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl<T: TileScalar> GenerateAnywhere<T> {
    fn cuda(&self, (model, slot): DeviceViews<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let Generate { rows, cols, symmetric, .. } = &self.on_host;
        let header = TileHeader { shape: (rows.len(), cols.len()), storage: T::FORMAT, norm: f64::NAN };
        let tile = slot.put(header, cx.device())?;
        let (ops, there) = (Ops::new(cx.gpu())?, OnGpu::update(&tile)?);
        if !there.is_empty() {
            let launch = (self.describe)(model.part(0).0, rows.clone(), cols.clone(), *there.values)?;
            ops.launch_of(self.source, &launch, [model.part(0), tile.part(0)])?;
        }
        if *symmetric {
            ops.mirror(there.values)?;
        }
        Ok(ops.set_norm(&tile)?)
    }
}
