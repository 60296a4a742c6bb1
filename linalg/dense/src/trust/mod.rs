//! Exact digits of a factorisation and of a solution, by stochastic arithmetic.
//!
//! [`cholesky`] runs the tiled Cholesky factorisation, and [`solve`] also both triangular solves,
//! on numbers of several samples, each rounded at random, and says how many digits of each tile
//! are exact. Tiles, tasks and the order of updates are those of [`cholesky`](crate::cholesky) and
//! [`solve`](crate::solve()), with all products in the element type. Random bits follow the
//! submission of tasks, so that digits are the same on any number of workers. Subnormal numbers
//! are kept.
//!
//! [`StochasticRun`] has the steps, for matrices whose entries carry errors of their own.

mod run;
mod tiles;

use std::sync::Arc;
use std::time::Instant;

use zellige_kernels::GemmPrecision;
use zellige_runtime::Runtime;
use zellige_stochastic::{DigitMap, Sample, Samples, Scope, Stochastic, Trust, TrustOptions, WithSamples};

pub use run::StochasticRun;
pub use tiles::{Fill, SampledTiles};

use crate::error::{Error, NotPositiveDefinite};
use crate::grid::TileGrid;
use crate::policy::{Rule, SharedPolicy};
use crate::scalar::TileScalar;
use crate::tiled::{Generator, RectTiled, SymmetricTiled};

/// Exact digits of the factor of `A` and of its pivots. Entries of `A` count as exact.
///
/// A pivot whose sign is not known is no error: the conclusions name it, and all that depends on it
/// has no digits.
///
/// # Errors
/// Those of [`cholesky`](crate::cholesky) in plain arithmetic, which runs first, and those of the
/// generator.
pub fn cholesky<T: TileScalar + Sample>(
    rt: &Runtime,
    grid: &TileGrid,
    a: &Generator<T>,
    options: &TrustOptions,
) -> Result<Trust, Error> {
    judge(SampledSystem { rt, grid, a, right: None, options })
}

/// Exact digits of the factor of `A`, of its pivots, and of the solution of `X A = B`, with `B` of
/// the given rows. Entries of `B` count as exact, too.
///
/// # Errors
/// Those of [`cholesky`] and of [`solve`](crate::solve()) in plain arithmetic.
pub fn solve<T: TileScalar + Sample>(
    rt: &Runtime,
    grid: &TileGrid,
    a: &Generator<T>,
    rows: &TileGrid,
    b: &Generator<T>,
    options: &TrustOptions,
) -> Result<Trust, Error> {
    judge(SampledSystem { rt, grid, a, right: Some((rows, b)), options })
}

fn judge<T: TileScalar + Sample>(system: SampledSystem<'_, T>) -> Result<Trust, Error> {
    let plain_seconds = system.plain()?;
    let trust = system.options.dispatch(system)?;
    Ok(Trust { plain_seconds: Some(plain_seconds), ..trust })
}

struct SampledSystem<'a, T: TileScalar> {
    rt: &'a Runtime,
    grid: &'a TileGrid,
    a: &'a Generator<T>,
    /// Rows and entries of the right-hand sides.
    right: Option<(&'a TileGrid, &'a Generator<T>)>,
    options: &'a TrustOptions,
}

impl<T: TileScalar> SampledSystem<'_, T> {
    /// Seconds of the run in plain arithmetic.
    fn plain(&self) -> Result<f64, Error> {
        let rule = if T::FULL == GemmPrecision::Dp { "fp64" } else { "fp32" };
        let (rt, policy) = (self.rt, SharedPolicy::from(rule.parse::<Rule>()?));
        let start = Instant::now();
        let a = SymmetricTiled::generate(rt, self.grid.clone(), self.a)?;
        let made = |(rows, b): (&TileGrid, &Generator<T>)| {
            RectTiled::generate(rt, "B", rows.clone(), self.grid.clone(), b)
        };
        let x = self.right.map(made).transpose()?;
        crate::cholesky(rt, &a, &policy)?.wait(rt)?;
        if let Some(x) = &x {
            crate::solve(rt, &a, x, &policy)?.wait(rt)?;
        }
        Ok(start.elapsed().as_secs_f64())
    }
}

impl<T: TileScalar + Sample> WithSamples for SampledSystem<'_, T> {
    type Output = Result<Trust, Error>;

    fn run<S: Samples>(self) -> Result<Trust, Error> {
        let start = Instant::now();
        let run = StochasticRun::new(self.rt, Scope::new(self.options.seed));
        let a = run.triangle::<T, S>(self.grid, &exactly(self.a))?;
        let made =
            |(rows, b): (&TileGrid, &Generator<T>)| run.rectangle::<T, S>(rows, self.grid, &exactly(b));
        let x = self.right.map(made).transpose()?;
        let lost = run.cholesky(&a)?;
        let mut maps = vec![run.digits("L", &a)?, run.pivots(&a)?];
        if let Some(x) = &x {
            run.solve(&a, x)?;
            maps.push(run.digits("X", x)?);
        }
        let said = match &lost {
            Some(lost) => not_definite(lost, T::DIGITS),
            None => {
                let (map, tiles) = x.as_ref().map_or((&maps[0], &a), |x| (&maps[2], x));
                conclusion(map, run.precision(tiles)?, &maps[1])
            }
        };
        Ok(Trust {
            samples: S::COUNT,
            seed: self.options.seed,
            maps,
            converged: None,
            instabilities: run.report(),
            conclusions: vec![said],
            plain_seconds: None,
            seconds: start.elapsed().as_secs_f64(),
        })
    }
}

/// A function that fills a block with exact numbers.
fn exactly<T: TileScalar + Sample, S: Samples>(fill: &Generator<T>) -> Fill<T, S> {
    let fill = Generator::clone(fill);
    Arc::new(move |rows, cols, out| {
        let mut plain = vec![T::ZERO; out.len()];
        let height = rows.len();
        fill(rows, cols, &mut plain, height)?;
        out.iter_mut().zip(plain).for_each(|(to, x)| *to = Stochastic::new(x));
        Ok(())
    })
}

/// The digits of a solution or of a factor, and the pivot that costs most of them, in one sentence.
/// `precision` are its digits relative to its norm.
pub fn conclusion(x: &DigitMap, precision: f64, pivots: &DigitMap) -> String {
    let name = &x.name;
    let mut text =
        format!("{} of {} digits of {name} are exact relative to its norm", precision as u8, x.all);
    if let Some((digits, [i, j])) = x.worst() {
        text += &format!(", {digits} in the worst entry of {} ({i}, {j})", x.unit);
    }
    // The root rounds the pivots too: those that lose nothing have the most digits.
    let most = pivots.digits.iter().copied().max().unwrap_or(0);
    match pivots.worst() {
        Some((digits, [k, _])) if digits < most => {
            let lost = most - digits;
            text += &format!("; {lost} {} lost in pivot {k}.", if lost == 1 { "is" } else { "are" });
        }
        _ => text += "; no pivot loses a digit.",
    }
    text
}

/// The pivot at which a matrix is not known to be positive definite, in one sentence.
pub fn not_definite(lost: &NotPositiveDefinite, digits: u32) -> String {
    let row = lost.row;
    if lost.value == 0.0 {
        return format!(
            "The sign of pivot {row} is not known: numbers of {digits} digits do not show that the matrix is positive \
             definite. Use more precision, or add to its diagonal."
        );
    }
    format!("Pivot {row} is {:e}: the matrix is not positive definite.", lost.value)
}
