//! A tile in another format.

use zellige_cuda::GpuContext;
use zellige_gpu::{Element, GpuError};
use zellige_kernels::StorageFormat;
use zellige_kernels::cuda::{join, pack, split, unpack};
use zellige_runtime::codelet::{DeviceRef, NewValue};

use super::{OnGpu, Ops, element_of};
use crate::scalar::TileScalar;
use crate::tile::{Tile, TileHeader};

/// Converts a tile bit by bit like [`Tile::to_storage`]; `None` for tiles of `f64`, whose products
/// are all in `f64`.
pub(crate) fn convert<T: TileScalar>(
    tile: DeviceRef<'_, Tile<T>>,
    to: StorageFormat,
    cx: GpuContext<'_>,
) -> Result<Option<NewValue<Tile<T>>>, GpuError> {
    if element_of::<T>() != Element::F32 || to == StorageFormat::F64 {
        return Ok(None);
    }
    let made = cx.value::<Tile<T>>(TileHeader { storage: to, ..*tile.header() })?;
    let (from, made_at) = (OnGpu::read(&tile)?, OnGpu::fresh(&made)?);
    let ops = Ops::new(cx)?;
    match (from.storage, to) {
        (StorageFormat::F32, _) => narrow(&ops, &from, &made_at)?,
        (_, StorageFormat::F32) => widen(&ops, &from, &made_at)?,
        // By way of the wide form, which is exact: one rounding.
        _ => {
            let values = ops.scratch_matrix(from.shape, Element::F32)?;
            let wide = OnGpu { values, storage: StorageFormat::F32, stays: false, ..from };
            widen(&ops, &from, &wide)?;
            narrow(&ops, &wide, &made_at)?;
        }
    }
    Ok(Some(made))
}

/// Converts a tile of `f32` to the format of `to`, with its own scale.
pub(super) fn narrow(ops: &Ops<'_>, from: &OnGpu, to: &OnGpu) -> Result<(), GpuError> {
    let measured = ops.measure(from.values)?;
    ops.launch(match to.storage {
        StorageFormat::F16x2 => split(from.shape, *from.values, measured, *to.values, to.lo, to.scale),
        _ => pack(from.shape, *from.values, measured, *to.values, to.scale),
    })
}

fn widen(ops: &Ops<'_>, from: &OnGpu, to: &OnGpu) -> Result<(), GpuError> {
    ops.launch(match from.storage {
        StorageFormat::F16x2 => join(from.shape, *from.values, from.lo, from.scale, *to.values),
        _ => unpack(from.shape, *from.values, from.scale, *to.values),
    })
}
