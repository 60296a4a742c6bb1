//! GPU code: conversions of tiles, and the bodies of the tasks.
//!
//! Every function puts operations on the stream of its context and returns. Scales of narrow tiles,
//! norms and signs of pivots are known on the device only: products read their factors there, and
//! the numbers that the host needs are read back.

mod bare;
mod capability;
mod convert;
mod generate;
mod inverses;
mod ops;
mod panel;
mod product;
mod solve;
mod tile;
mod view;

pub use bare::{GpuMatrix, GpuProducts};
pub use capability::capability_for;
pub(crate) use capability::{can_execute, has_constraints};
pub(crate) use convert::convert;
pub(crate) use generate::GenerateAnywhere;
pub use generate::{DescribeLaunch, GpuGenerator};
pub(crate) use inverses::DiagonalSolves;
pub(crate) use ops::Ops;
pub(crate) use panel::{factor, subtract_square};
pub(crate) use product::{Small, is_small, multiply, multiply_small};
pub(crate) use solve::solve_right;
pub(crate) use tile::OnGpu;

use zellige_gpu::{Element, Transpose};
use zellige_kernels::{Op, StorageFormat};

use crate::scalar::TileScalar;

/// Returns the number type of a native tile.
fn element_of<T: TileScalar>() -> Element {
    element(T::FORMAT)
}

/// Returns the number type of a tile in a format.
fn element(format: StorageFormat) -> Element {
    match format {
        StorageFormat::F64 => Element::F64,
        StorageFormat::F32 => Element::F32,
        StorageFormat::F16 | StorageFormat::F16x2 => Element::F16,
        StorageFormat::BF16 => Element::BF16,
        StorageFormat::E4M3 => Element::F8E4M3,
    }
}

/// Returns an operation in the form of the libraries.
fn transpose(op: Op) -> Transpose {
    match op {
        Op::None => Transpose::No,
        Op::Trans => Transpose::Yes,
    }
}
