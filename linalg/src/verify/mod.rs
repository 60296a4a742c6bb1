//! Every kernel of a runtime's devices on random tiles, against `f64` and against the CPU's kernels.
//!
//! The CPU's kernels round as tensor cores do, but for the order of sums; how far apart two devices may be follows from that. A check says
//! how much of its bound was used, so 1 is the most:
//!
//! | kernel | error, entry by entry | bound |
//! | --- | --- | --- |
//! | `convert` | bits that differ from the CPU's | none |
//! | `gemm`, `syrk` | `C - A op(B)` against `f64` | [`Roundoffs`]: operands, sums and result as the precision has them |
//! | `trsm` | `X op(L) - B` | `(n u + e) \|X\| \|op(L)\|`, `e` of the products inside |
//! | `potrf` | `L L^T - A` | `2 (n + 4) u \|L\| \|L^T\|`, twice that of Higham, Accuracy and Stability of Numerical Algorithms, theorem 10.3, for libraries whose roots and quotients are not rounded correctly |

mod dense;
mod fault;
mod probe;
mod products;
pub(crate) mod random;
mod roundoffs;
mod triangles;

pub use fault::{faulty_kernel, too_much_memory};
pub use roundoffs::Roundoffs;

use zellige_kernels::precision::FullPrecision;
use zellige_kernels::{GemmPrecision, StorageFormat};
use zellige_runtime::Runtime;

use crate::error::Error;
use random::Random;

/// What a kernel has shown.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelCheck {
    /// The codelet, or `convert`.
    pub kernel: &'static str,
    /// In which precision, or to which format.
    pub precision: &'static str,
    /// Tiles that were looked at.
    pub tiles: usize,
    /// The largest error against `f64`, as a part of its bound.
    pub error: f64,
    /// The largest difference from the CPU's result, as a part of its bound.
    pub apart: f64,
}

impl KernelCheck {
    fn new(kernel: &'static str, precision: &'static str) -> Self {
        KernelCheck { kernel, precision, tiles: 0, error: 0.0, apart: 0.0 }
    }

    /// True if every entry of every tile was within its bounds.
    pub fn passed(&self) -> bool {
        // A NaN is not.
        self.tiles > 0 && self.error <= 1.0 && self.apart <= 1.0
    }

    fn add(&mut self, error: f64, apart: f64) {
        self.tiles += 1;
        // `f64::max` would forget a NaN.
        let larger = |most: f64, x: f64| if x > most || x.is_nan() { x } else { most };
        (self.error, self.apart) = (larger(self.error, error), larger(self.apart, apart));
    }
}

/// What is looked at, and how much of it.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Random tiles for each precision of products; other kernels get a fifth.
    pub tiles: usize,
    /// Rows or columns of the largest tile.
    pub largest: usize,
    /// From which tiles are drawn.
    pub seed: u64,
}

/// Runs every kernel that factorisations and solves have, in every precision, on the devices of `rt`; `progress` is told of each check
/// as it ends.
///
/// Give a runtime without CPU workers: where a kernel runs is the runtime's choice.
///
/// # Errors
/// [`Error::Runtime`] where a task fails or a device has no function for it.
pub fn kernels(
    rt: &Runtime,
    extent: &Extent,
    progress: &dyn Fn(&KernelCheck),
) -> Result<Vec<KernelCheck>, Error> {
    let mut random = Random::new(extent.seed);
    let few = extent.tiles.div_ceil(5);
    let mut checks = Vec::new();
    let mut done = |check: Result<KernelCheck, Error>| {
        checks.push(check?);
        checks.last().into_iter().for_each(progress);
        Ok::<(), Error>(())
    };
    for to in StorageFormat::ALL.into_iter().filter(|to| to.bytes() <= 4 && *to != StorageFormat::F32) {
        done(products::convert(rt, to, &mut random, few, extent.largest))?;
    }
    for precision in GemmPrecision::ALL {
        done(match precision {
            GemmPrecision::Dp => products::gemm::<f64>(rt, precision, &mut random, extent),
            _ => products::gemm::<f32>(rt, precision, &mut random, extent),
        })?;
    }
    let native = FullPrecision::Native;
    done(products::syrk::<f64>(rt, native, &mut random, few, extent.largest))?;
    done(triangles::trsm::<f64>(rt, native, &mut random, few, extent.largest))?;
    for full in FullPrecision::ALL {
        done(products::syrk::<f32>(rt, full, &mut random, few, extent.largest))?;
        done(triangles::trsm::<f32>(rt, full, &mut random, few, extent.largest))?;
    }
    done(triangles::potrf::<f64>(rt, &mut random, few, extent.largest))?;
    done(triangles::potrf::<f32>(rt, &mut random, few, extent.largest))?;
    Ok(checks)
}
