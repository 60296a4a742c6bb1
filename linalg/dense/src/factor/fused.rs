//! Several products on one tile in one task: `C -= A_1 op(B_1) + .. + A_p op(B_p)`.
//!
//! The products run one after the other, and the updated tile stays in place. On a GPU the operands
//! could also be concatenated in workspace, for one product of the library. Then `C` would be read
//! and written once instead of `p` times, mostly in the cache of the GPU (4 MiB at tile 1024). But
//! for each product both operands would have to be written and read once more: in 16 bits as many
//! bytes as that saves, in 32 bits twice as many. Tiles in 16 bits with a scale each would have to
//! share one scale. So the bits are those of separate tasks.

use std::marker::PhantomData;

use zellige_cuda::{CUDA, GpuTask};
use zellige_kernels::GemmPrecision;
use zellige_runtime::codelet::{DeviceList, DeviceMut, DeviceTable, DeviceViews};
use zellige_runtime::{
    Codelet, Cpu, DeviceInfo, List, Operands, ReadList, Scratch, Subnormals, TaskContext, TaskError,
    TaskInfo, Update,
};

use super::codelets::NEEDS_ENDS;
use super::product::{Coordinates, multiply, multiply_on_gpu};
use crate::SUBNORMALS;
use crate::error::Error;
use crate::gpu::{self, Ops};
use crate::scalar::TileScalar;
use crate::tile::Tile;

/// Returns the information on a task of products with these coordinates, at least one.
pub(super) fn info<'p>(
    all_coordinates: impl Iterator<Item = &'p Coordinates> + Clone,
    label: &'static str,
) -> TaskInfo {
    let k = all_coordinates.clone().map(|coordinates| coordinates.shape.2).sum();
    all_coordinates.last().map_or_else(TaskInfo::default, |last| last.info_of(k, label))
}

/// Computes all products, each in its precision.
pub(super) fn multiply_all<'p, T: TileScalar>(
    products: impl Iterator<Item = (&'p Coordinates, GemmPrecision)>,
    (a, b): (&List<'_, Tile<T>>, &List<'_, Tile<T>>),
    c: &mut Tile<T>,
    scratch: &mut [f32],
) -> Result<(), Error> {
    for ((coordinates, precision), (a, b)) in products.zip(a.iter().zip(b.iter())) {
        multiply(precision, coordinates, a, b, c, scratch)?;
    }
    Ok(())
}

/// Runs the products on a GPU, in the workspace of the largest of them.
pub(super) fn multiply_all_on_gpu<'p, T: TileScalar>(
    products: impl Iterator<Item = (&'p Coordinates, GemmPrecision)>,
    (a, b): (&DeviceList<'_, Tile<T>>, &DeviceList<'_, Tile<T>>),
    c: &DeviceMut<'_, Tile<T>>,
    cx: &TaskContext<'_>,
) -> Result<(), TaskError> {
    let ops = Ops::new(cx.gpu())?;
    for ((coordinates, precision), (a, b)) in products.zip(a.iter().zip(b.iter())) {
        ops.scratch_from(0);
        multiply_on_gpu(&ops, precision, coordinates, [&a, &b], c, cx)?;
    }
    Ok(())
}

/// Products in one precision.
pub(super) struct FusedProduct<T> {
    precision: GemmPrecision,
    all_coordinates: Vec<Coordinates>,
    _element: PhantomData<fn() -> T>,
}

impl<T> FusedProduct<T> {
    pub(super) fn new(precision: GemmPrecision, all_coordinates: Vec<Coordinates>) -> Self {
        FusedProduct { precision, all_coordinates, _element: PhantomData }
    }

    fn products(&self) -> impl Iterator<Item = (&Coordinates, GemmPrecision)> {
        self.all_coordinates.iter().map(|coordinates| (coordinates, self.precision))
    }
}

impl<T: TileScalar> Codelet for FusedProduct<T> {
    type Operands = (ReadList<Tile<T>>, ReadList<Tile<T>>, Update<Tile<T>>, Scratch<f32>);
    const SUBNORMALS: Option<Subnormals> = SUBNORMALS;

    fn name(&self) -> &'static str {
        "gemm"
    }

    fn info(&self) -> TaskInfo {
        info(self.all_coordinates.iter(), self.precision.name())
    }

    fn has_constraints(&self) -> bool {
        gpu::has_constraints([self.precision])
    }

    fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
        gpu::can_execute([self.precision], device)
    }

    fn cpu(
        &self,
        (a, b, c, scratch): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        Ok(multiply_all(self.products(), (&a, &b), c, scratch)?)
    }

    fn needs_ends(&self) -> bool {
        NEEDS_ENDS
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl<T: TileScalar> FusedProduct<T> {
    fn cuda(&self, (a, b, c, _): DeviceViews<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        multiply_all_on_gpu(self.products(), (&a, &b), &c, cx)
    }
}
