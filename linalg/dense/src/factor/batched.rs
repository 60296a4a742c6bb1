//! Updates of small tiles that are ready at the same time, in one launch on a GPU.

use std::sync::Arc;

use zellige_cuda::GpuTask;
use zellige_gpu::GpuError;
use zellige_kernels::GemmPrecision;
use zellige_kernels::cuda::SMALL_BATCH;
use zellige_runtime::codelet::{DeviceMut, DeviceRef};
use zellige_runtime::{TaskContext, TaskError};

use super::product::{Coordinates, check, multiply_on_gpu};
use crate::error::Error;
use crate::gpu::{OnGpu, Ops, Small, is_small, multiply_small};
use crate::scalar::TileScalar;
use crate::tile::Tile;

/// Returns the maximum number of products with a result of this shape in one launch.
pub(super) fn most<T: TileScalar>(precision: GemmPrecision, shape: (usize, usize)) -> usize {
    if T::FULL == GemmPrecision::Sp && is_small(precision, shape) { SMALL_BATCH } else { 1 }
}

/// One product of several.
pub(super) struct Member<'v, 'c, T: TileScalar> {
    pub(super) precision: GemmPrecision,
    pub(super) coordinates: &'v Coordinates,
    pub(super) a: DeviceRef<'v, Tile<T>>,
    pub(super) b: DeviceRef<'v, Tile<T>>,
    pub(super) c: DeviceMut<'v, Tile<T>>,
    pub(super) cx: &'v mut TaskContext<'c>,
}

impl<T: TileScalar> Member<'_, '_, T> {
    /// Returns the operands for a batched launch, if the product is small.
    fn small(&self) -> Result<Option<Small>, Error> {
        let Member { precision, coordinates, .. } = *self;
        check::<T>(precision, &coordinates.query)?;
        let (operand, result) = (precision.operand_format(), precision.output_format());
        let (a, b, c) = (OnGpu::read(&self.a)?, OnGpu::read(&self.b)?, OnGpu::update(&self.c)?);
        let small =
            Small { op_b: coordinates.op_b, a: *a.want(operand)?, b: *b.want(operand)?, c: *c.want(result)? };
        Ok((most::<T>(precision, (coordinates.shape.0, coordinates.shape.1)) > 1).then_some(small))
    }

    /// Puts the product on the stream by itself.
    fn launch_single(&self) -> Result<(), TaskError> {
        let ops = Ops::new(self.cx.gpu())?;
        multiply_on_gpu(&ops, self.precision, self.coordinates, [&self.a, &self.b], &self.c, self.cx)
    }

    /// Counts the product once it has run.
    fn launched(&self) {
        let (counts, query, precision) =
            (Arc::clone(&self.coordinates.counts), self.coordinates.query, self.precision);
        self.cx.gpu().at_end(move || {
            counts.count(query.i, query.j, precision);
            Ok(())
        });
    }
}

/// Puts all of them on their stream; the result of each.
pub(super) fn multiply_batched<T: TileScalar>(members: &[Member<'_, '_, T>]) -> Vec<Result<(), TaskError>> {
    let each: Vec<Result<Option<Small>, Error>> = members.iter().map(Member::small).collect();
    let small: Vec<Small> = each.iter().flatten().copied().flatten().collect();
    let launched_batch = launch_batched(members.first().map(|member| &*member.cx), &small);
    let result = |(member, small): (&Member<'_, '_, T>, Result<Option<Small>, Error>)| match small {
        Err(error) => Err(error.into()),
        Ok(None) => member.launch_single(),
        Ok(Some(_)) => launched_batch.clone().map(|()| member.launched()).map_err(TaskError::from),
    };
    members.iter().zip(each).map(result).collect()
}

/// Puts products on the stream of a body, if there are any.
pub(super) fn launch_batched(cx: Option<&TaskContext<'_>>, small: &[Small]) -> Result<(), GpuError> {
    match cx {
        Some(cx) if !small.is_empty() => multiply_small(&Ops::new(cx.gpu())?, small),
        _ => Ok(()),
    }
}
