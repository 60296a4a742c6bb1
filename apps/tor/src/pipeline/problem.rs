//! A system prepared for computation: covariances, tiles, scale.

use super::plan::{GIVEN_PANEL, Plan, precheck, with_targets};
use super::watch::Counter;
use super::{Options, PipelineError};
use crate::covariance::device::{DeviceModel, SOURCE};
use crate::covariance::{Covariance, Kind, Scalar};
use crate::evaluate;
use crate::params::Input;
use crate::system::System;
use crate::{Error, Matrix};
use std::ops::Range;
use std::sync::Arc;
use zellige_dense::{Generator, GpuGenerator, TileGrid, TileScalar, generator, unit_scale};
use zellige_kernels::{MatMut, MatRef, Op, gemm};
use zellige_runtime::{Handle, Submit, TaskError};

/// Number type of tiles and covariances.
pub(super) trait Element: TileScalar + Scalar<Real = f64> {}

impl<T: TileScalar + Scalar<Real = f64>> Element for T {}

/// Data that all stages share.
pub(super) struct Problem {
    pub(super) input: Input,
    pub(super) plan: Plan,
    pub(super) cov: Arc<Covariance>,
    /// Power of two that multiplies `Cmm` and `Ctm` before they are rounded. Their largest diagonal
    /// entry is then in \[1, 2), so that no unit underflows a format. It cancels in `R`.
    pub(super) scale: f64,
    /// Boundaries of the stacked rows of all targets.
    pub(super) rows: TileGrid,
    /// Reconstructors by target that are rounded instead of those of the covariances.
    pub(super) given: Option<Vec<Arc<Matrix>>>,
}

impl Problem {
    pub(super) fn new(input: &Input, options: &Options) -> Result<Self, PipelineError> {
        Problem::of(precheck(input, options)?, input, options)
    }

    /// Prepares a planned run.
    pub(super) fn of(plan: Plan, input: &Input, options: &Options) -> Result<Self, PipelineError> {
        let system = with_targets(input, options);
        let cov = Arc::new(Covariance::new(&system, &input.atmosphere)?.keep(plan.kept_bytes));
        let scale = unit_scale(largest_variance(&cov)?);
        let rows = stacked(cov.truth_slopes(), cov.targets(), plan.grid.max_width(), options.tile.step())?;
        let input = Input { system, ..input.clone() };
        let given = options.given.clone();
        if let Some(given) = &given {
            let wanted = (cov.truth_slopes(), cov.measurements());
            let wrong = given.iter().map(|r| (r.rows(), r.cols())).find(|shape| *shape != wanted);
            if given.len() != cov.targets() || wrong.is_some() {
                let (count, targets) = (given.len(), cov.targets());
                let got = wrong.map_or_else(String::new, |(rows, cols)| format!(", one of {rows} x {cols}"));
                let needed = format!("{targets} of {} x {}", wanted.0, wanted.1);
                return Err(Error::shape(
                    "given reconstructors",
                    format!("{count}{got} instead of {needed}"),
                )
                .into());
            }
        }
        Ok(Problem { input, plan, cov, scale, rows, given })
    }

    pub(super) fn system(&self) -> &System {
        &self.input.system
    }

    pub(super) fn n(&self) -> usize {
        self.cov.measurements()
    }

    pub(super) fn m(&self) -> usize {
        self.cov.truth_slopes()
    }

    pub(super) fn targets(&self) -> usize {
        self.cov.targets()
    }

    /// Returns the generator of the scaled `Cmm`.
    pub(super) fn cmm<T: Element>(&self) -> Generator<T> {
        let (cov, scale) = (Arc::clone(&self.cov), self.scale);
        generator(move |rows: Range<usize>, cols: Range<usize>, out: &mut [T], ld: usize| {
            cov.fill(Kind::Cmm, rows.clone(), cols.clone(), out, ld)?;
            rescale(out, rows.len(), cols.len(), ld, scale);
            Ok::<(), crate::Error>(())
        })
    }

    /// Returns the generator of the scaled right-hand side, stacked by target: `Ctm`, or `R Cmm` of
    /// the given reconstructors.
    pub(super) fn right_hand_side<T: Element>(&self) -> Generator<T> {
        self.given.as_ref().map_or_else(|| self.ctm(), |given| self.given_times_cmm(given.clone()))
    }

    fn given_times_cmm<T: Element>(&self, given: Vec<Arc<Matrix>>) -> Generator<T> {
        let (cov, scale, m, n) = (Arc::clone(&self.cov), self.scale, self.m(), self.n());
        generator(move |rows: Range<usize>, cols: Range<usize>, out: &mut [T], ld: usize| {
            let (height, width) = (rows.len(), cols.len());
            let mut sum = vec![0.0f64; height * width];
            let mut block = vec![0.0f64; GIVEN_PANEL.min(n) * width];
            for panel in evaluate::panels(n, GIVEN_PANEL) {
                let block = &mut block[..panel.len() * width];
                cov.fill(Kind::Cmm, panel.clone(), cols.clone(), block, panel.len())?;
                let block = MatRef::new(block, panel.len(), width, panel.len())?;
                // Boundaries of targets are boundaries of tiles.
                let first = rows.start % m + panel.start * m;
                let r = MatRef::new(&given[rows.start / m].data()[first..], height, panel.len(), m)?;
                let sum = MatMut::new(&mut sum, height, width, height)?;
                gemm(1.0, r, Op::None, block, Op::None, 1.0, sum)?;
            }
            for (out, sum) in out.chunks_mut(ld).zip(sum.chunks_exact(height)) {
                out.iter_mut().zip(sum).for_each(|(to, sum)| *to = T::from_f64(sum * scale));
            }
            Ok::<(), TaskError>(())
        })
    }

    /// Returns the generator of the scaled rows of `Ctm`, stacked by target.
    fn ctm<T: Element>(&self) -> Generator<T> {
        let (cov, scale, m) = (Arc::clone(&self.cov), self.scale, self.m());
        generator(move |rows: Range<usize>, cols: Range<usize>, out: &mut [T], ld: usize| {
            let mut row = rows.start;
            while row < rows.end {
                let target = row / m;
                let end = rows.end.min((target + 1) * m);
                let part = row - target * m..end - target * m;
                let height = part.len();
                let place = &mut out[row - rows.start..];
                cov.fill(Kind::Ctm(target), part, cols.clone(), place, ld)?;
                rescale(place, height, cols.len(), ld, scale);
                row = end;
            }
            Ok::<(), crate::Error>(())
        })
    }
}

/// Generator on GPUs of the matrices of [`Problem::cmm`] and [`Problem::ctm`].
pub(super) struct OnGpus {
    model: Arc<DeviceModel>,
    words: Handle<Vec<u64>>,
    scale: f64,
    measurements: usize,
}

impl OnGpus {
    pub(super) fn new<S: Submit>(s: &S, problem: &Problem) -> Self {
        let model = Arc::new(DeviceModel::new(&problem.cov));
        let words = s.register(model.words().to_vec());
        OnGpus { model, words, scale: problem.scale, measurements: problem.n() }
    }

    /// Returns the generators of `Cmm` and `Ctm`. The rows of `Ctm` follow the measurements in the
    /// model, target after target as in [`Problem::ctm`]. `counter` counts blocks.
    pub(super) fn counted(&self, counter: &Counter) -> [GpuGenerator; 2] {
        [0, self.measurements].map(|first| {
            let (model, scale, counter) = (Arc::clone(&self.model), self.scale, counter.clone());
            GpuGenerator {
                model: self.words.clone(),
                source: &SOURCE,
                describe: Arc::new(move |at, rows, cols, out| {
                    let launch = model.fill(at, first + rows.start..first + rows.end, cols, scale, out)?;
                    counter.bump();
                    Ok(launch)
                }),
            }
        })
    }
}

fn rescale<T: Element>(out: &mut [T], height: usize, width: usize, ld: usize, scale: f64) {
    // The scaling is exact for a power of two, unless it underflows.
    if height == 0 || scale == 1.0 {
        return;
    }
    for column in out.chunks_mut(ld).take(width) {
        column[..height].iter_mut().for_each(|v| *v = T::from_f64(v.to_f64() * scale));
    }
}

fn largest_variance(cov: &Covariance) -> Result<f64, PipelineError> {
    let mut largest = 0.0f64;
    let mut entry = [0.0f64];
    for i in 0..cov.measurements() {
        cov.fill(Kind::Cmm, i..i + 1, i..i + 1, &mut entry, 1)?;
        largest = largest.max(entry[0]);
    }
    Ok(largest)
}

/// Splits the rows of each target into the fewest equal parts of at most `most`, all but the last
/// multiples of `step`.
fn stacked(m: usize, targets: usize, most: usize, step: usize) -> Result<TileGrid, PipelineError> {
    let parts = m.div_ceil(most.max(1)).max(1);
    let one: Vec<usize> = (0..=parts).map(|p| m * p / parts).collect();
    let mut edges = vec![0];
    for t in 0..targets {
        let inside = one.iter().map(|edge| if *edge == m { m } else { edge.next_multiple_of(step).min(m) });
        edges.extend(inside.map(|edge| t * m + edge));
    }
    edges.dedup();
    Ok(TileGrid::from_edges(edges)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_target_are_cut_equally() {
        assert_eq!(stacked(152, 2, 100, 1).unwrap().edges(), [0, 76, 152, 228, 304]);
        assert_eq!(stacked(152, 1, 512, 1).unwrap().edges(), [0, 152]);
        assert_eq!(stacked(2, 1, 1, 1).unwrap().edges(), [0, 1, 2]);
        assert_eq!(stacked(152, 2, 100, 16).unwrap().edges(), [0, 80, 152, 232, 304]);
        assert_eq!(stacked(20, 2, 8, 16).unwrap().edges(), [0, 16, 20, 36, 40]);
    }
}
