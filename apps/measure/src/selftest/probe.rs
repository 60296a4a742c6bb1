//! A task that does something to a tile.

use zellige_cuda::{CUDA, GpuContext, GpuTask};
use zellige_dense::Tile;
use zellige_runtime::codelet::{DeviceTable, DeviceViews};
use zellige_runtime::{Codelet, Cpu, Operands, TaskContext, TaskError, Update};

/// The action on a tile, for each kind of device.
pub(crate) struct Probe {
    pub(crate) name: &'static str,
    pub(crate) on_host: fn(&mut Tile<f32>) -> Result<(), TaskError>,
    pub(crate) on_gpu: fn(GpuContext<'_>) -> Result<(), TaskError>,
}

impl Codelet for Probe {
    type Operands = (Update<Tile<f32>>,);

    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu(
        &self,
        (tile,): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        (self.on_host)(tile)
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl Probe {
    fn cuda(&self, _views: DeviceViews<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        (self.on_gpu)(cx.gpu())
    }
}
