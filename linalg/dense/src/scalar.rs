//! Number types of tiled matrices.

use zellige_kernels::{GemmPrecision, MatMut, MatRef, Scalar};

/// Number type of a tile's master copy, `f32` or `f64`. Sealed, like [`Scalar`].
pub trait TileScalar: Scalar {
    /// The product in this type's own precision.
    const FULL: GemmPrecision;

    /// Returns the view as one of `f32`, the only type whose tiles support products in lower
    /// precision.
    fn as_f32(view: MatMut<'_, Self>) -> Option<MatMut<'_, f32>>;

    /// Returns [`as_f32`](TileScalar::as_f32) of a read-only view.
    fn as_f32_ref(view: MatRef<'_, Self>) -> Option<MatRef<'_, f32>>;
}

impl TileScalar for f32 {
    const FULL: GemmPrecision = GemmPrecision::Sp;

    fn as_f32(view: MatMut<'_, f32>) -> Option<MatMut<'_, f32>> {
        Some(view)
    }

    fn as_f32_ref(view: MatRef<'_, f32>) -> Option<MatRef<'_, f32>> {
        Some(view)
    }
}

impl TileScalar for f64 {
    const FULL: GemmPrecision = GemmPrecision::Dp;

    fn as_f32(_view: MatMut<'_, f64>) -> Option<MatMut<'_, f32>> {
        None
    }

    fn as_f32_ref(_view: MatRef<'_, f64>) -> Option<MatRef<'_, f32>> {
        None
    }
}
