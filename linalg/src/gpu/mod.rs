//! What runs on GPUs: conversions of tiles, and the bodies of the tasks.
//!
//! Every function puts operations on the stream of its context and returns. Scales of narrow tiles, norms and signs of pivots are
//! known on the device only: products take their factors from there, and what the host has to know is read back.

mod convert;
mod full;
mod generate;
mod ops;
mod product;
mod race;
mod tile;
mod timed;

pub(crate) use convert::convert;
pub(crate) use full::{factor, solve_right, subtract_square};
pub(crate) use generate::GenerateAnywhere;
pub use generate::{DescribeLaunch, GpuGenerator};
pub(crate) use ops::Ops;
pub(crate) use product::multiply;
pub(crate) use race::{Lanes, Prepared, whole_factor};
pub(crate) use tile::OnGpu;
pub(crate) use timed::{Link, Stopwatch};

use zellige_gpu::Element;

use crate::scalar::TileScalar;

/// What the numbers of a native tile are.
pub(crate) fn element_of<T: TileScalar>() -> Element {
    if T::FULL == zellige_kernels::GemmPrecision::Dp { Element::F64 } else { Element::F32 }
}
