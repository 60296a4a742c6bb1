//! Runs every kernel of a runtime's devices on random tiles, against `f64` and against the CPU's
//! kernels.
//!
//! The CPU's kernels round as tensor cores do, except for the order of sums. The bound of the
//! difference between two devices follows from that. A check returns the used share of its bound,
//! so 1 is the maximum:
//!
//! | kernel | error, entry by entry | bound |
//! | --- | --- | --- |
//! | `convert` | bits that differ from the CPU's | none |
//! | `gemm`, `syrk` | `C - A op(B)` against `f64` | [`Roundoffs`]: operands, sums and result as the precision has them |
//! | `trsm` | `X op(L) - B` | `(n u + e) \|X\| \|op(L)\|`, `e` of the products inside |
//! | `potrf` | `L L^T - A` | `2 (n + 4) u \|L\| \|L^T\|`, twice that of Higham, Accuracy and Stability of Numerical Algorithms, theorem 10.3, for libraries whose roots and quotients are not rounded correctly |

mod dense;
mod products;
mod random;
mod roundoffs;
mod triangles;

pub use roundoffs::Roundoffs;

use zellige_dense::{Error, Tile, TileScalar, capability_for};
use zellige_kernels::precision::PanelPrecision;
use zellige_kernels::{GemmPrecision, StorageFormat};
use zellige_runtime::{Handle, Runtime, Submit, TaskRef};

use dense::Dense;
use random::Tiles;

/// Result of the check of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelCheck {
    /// The codelet, or `convert`.
    pub kernel: &'static str,
    /// Name of the precision, or of the target format.
    pub precision: &'static str,
    /// Number of tiles that were checked.
    pub tiles: usize,
    /// The largest error against `f64`, as a part of its bound.
    pub error: f64,
    /// The largest difference from the CPU's result, as a part of its bound.
    pub apart: f64,
    /// Why there are no such figures, or not all.
    pub unfinished: Option<Unfinished>,
}

/// Why a check did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// The GPU lacks the precision: (major, minor) of the compute capability that is needed.
    Needs((u32, u32)),
    /// A task was refused, or failed, with these words.
    Failed(String),
}

impl KernelCheck {
    fn new(kernel: &'static str, precision: &'static str) -> Self {
        KernelCheck { kernel, precision, tiles: 0, error: 0.0, apart: 0.0, unfinished: None }
    }

    /// True if every entry of every tile was within its bounds, or the GPU lacks the precision.
    pub fn passed(&self) -> bool {
        match self.unfinished {
            Some(Unfinished::Needs(_)) => true,
            Some(Unfinished::Failed(_)) => false,
            // A NaN is not.
            None => self.tiles > 0 && self.error <= 1.0 && self.apart <= 1.0,
        }
    }

    fn add(&mut self, error: f64, apart: f64) {
        self.tiles += 1;
        // `f64::max` would forget a NaN.
        let larger = |most: f64, x: f64| if x > most || x.is_nan() { x } else { most };
        (self.error, self.apart) = (larger(self.error, error), larger(self.apart, apart));
    }
}

/// Sizes of the checks.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Random tiles for each precision of products; other kernels get a fifth.
    pub tiles: usize,
    /// Rows or columns of the largest tile.
    pub largest: usize,
    /// Seed of the random tiles.
    pub seed: u64,
}

/// A check: kernel, name of the precision or format, and the required products if a GPU may lack
/// them.
struct Planned<'c> {
    kernel: &'static str,
    precision: &'static str,
    products: Option<GemmPrecision>,
    run: CheckBody<'c>,
}

/// Runs every kernel that factorisations and solves have, in every precision, on the devices of
/// `there`, and on the CPU workers of `here`. `progress` receives each check as it ends.
/// `capability` is that of the GPU: a precision that it lacks is no failure. A task that is refused
/// or fails ends its check, and the others go on.
///
/// To check a GPU, `there` must have no CPU workers: the runtime chooses where a kernel runs.
pub fn kernels(
    there: &Runtime,
    here: &Runtime,
    extent: &Extent,
    capability: (u32, u32),
    progress: &dyn Fn(&KernelCheck),
) -> Vec<KernelCheck> {
    let mut random = Tiles::new(extent.seed);
    let done = |planned: Planned<'_>| {
        let mut check = KernelCheck::new(planned.kernel, planned.precision);
        let needed = planned.products.map(capability_for).filter(|needed| *needed > capability);
        match needed {
            Some(needed) => check.unfinished = Some(Unfinished::Needs(needed)),
            None => match (planned.run)(&mut random) {
                Ok(made) => check = made,
                Err(error) => check.unfinished = Some(Unfinished::Failed(error.to_string())),
            },
        }
        progress(&check);
        check
    };
    planned(Pair { there, here }, extent).into_iter().map(done).collect()
}

fn planned<'c>(rt: Pair<'c>, extent: &'c Extent) -> Vec<Planned<'c>> {
    let mut all = Vec::new();
    let mut add = |kernel, precision, products, run: CheckBody<'c>| {
        all.push(Planned { kernel, precision, products, run });
    };
    let (few, largest) = (extent.tiles.div_ceil(5), extent.largest);
    for to in StorageFormat::ALL.into_iter().filter(|to| to.bytes() <= 4 && *to != StorageFormat::F32) {
        add(
            "convert",
            to.name(),
            None,
            Box::new(move |random| products::convert(rt.there, to, random, few, largest)),
        );
    }
    for precision in GemmPrecision::ALL {
        let run: CheckBody<'c> = match precision {
            GemmPrecision::Dp => Box::new(move |random| products::gemm::<f64>(rt, precision, random, extent)),
            _ => Box::new(move |random| products::gemm::<f32>(rt, precision, random, extent)),
        };
        add("gemm", precision.name(), Some(precision), run);
    }
    let (native, dp) = (PanelPrecision::Native, GemmPrecision::Dp);
    add(
        "syrk",
        dp.name(),
        None,
        Box::new(move |random| products::syrk::<f64>(rt, native, random, few, largest)),
    );
    add(
        "trsm",
        dp.name(),
        None,
        Box::new(move |random| triangles::trsm::<f64>(rt, native, random, few, largest)),
    );
    for panel in PanelPrecision::ALL {
        let needed = Some(panel.gemm(GemmPrecision::Sp));
        let name = panel.name();
        add(
            "syrk",
            name,
            needed,
            Box::new(move |random| products::syrk::<f32>(rt, panel, random, few, largest)),
        );
        add(
            "trsm",
            name,
            needed,
            Box::new(move |random| triangles::trsm::<f32>(rt, panel, random, few, largest)),
        );
    }
    let sp = GemmPrecision::Sp.name();
    add("potrf", dp.name(), None, Box::new(move |random| triangles::potrf::<f64>(rt, random, few, largest)));
    add("potrf", sp, None, Box::new(move |random| triangles::potrf::<f32>(rt, random, few, largest)));
    all
}

/// The runtimes whose results are compared.
#[derive(Clone, Copy)]
struct Pair<'c> {
    /// Runtime that is checked.
    there: &'c Runtime,
    /// CPU workers.
    here: &'c Runtime,
}

impl Pair<'_> {
    /// Returns the tile after a task, on each of them.
    fn run<T: TileScalar>(
        &self,
        inputs: &[&Dense],
        submit: impl Fn(&Runtime, &[Handle<Tile<T>>]) -> Result<TaskRef, Error>,
    ) -> Result<[Outcome; 2], Error> {
        let on = |rt: &Runtime| -> Result<Outcome, Error> {
            let tiles = inputs.iter().map(|input| Ok(rt.register(input.tile::<T>()?)));
            let handles = tiles.collect::<Result<Vec<_>, Error>>()?;
            submit(rt, &handles)?;
            let last = rt.read(&handles[inputs.len() - 1])?;
            Ok(Outcome { values: Dense::of(&*last)?, norm: last.norm() })
        };
        Ok([on(self.there)?, on(self.here)?])
    }
}

/// A tile after a task.
struct Outcome {
    values: Dense,
    norm: f64,
}

/// Function that runs a check.
type CheckBody<'c> = Box<dyn FnOnce(&mut Tiles) -> Result<KernelCheck, Error> + 'c>;
