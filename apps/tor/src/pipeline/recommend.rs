//! Recommendation of a precision rule for a system, from its effect on a sample of the tiles.
//!
//! Products in low precision change the rest of the matrix after the completed steps (the Schur
//! complement). The factorisation fails if that is no longer positive definite: the change has
//! reached the smallest eigenvalue, which is about the noise of a slope. The size of the change
//! depends on the norms of the operands, that is on geometry, guide stars and tile boundaries. The
//! sample is therefore factorised with each rule, and the change of its last tile is compared with
//! that tile's smallest eigenvalue.

use super::problem::Problem;
use super::watch::watch;
use super::{Observer, Options, PipelineError};
use crate::Matrix;
use crate::params::Input;
use std::ops::Range;
use std::sync::Arc;
use zellige_dense::{
    Generator, RetryLadder, Rule, SharedPolicy, SymmetricTiled, TileGrid, cholesky, generator,
};
use zellige_runtime::Runtime;

/// Minimum number of measurements of a sample, if the system has as many.
const ROWS: usize = 2048;
/// Minimum number of tiles of a sample.
const TILES: usize = 8;
/// First rule of the trials: the cheapest that holds for most systems.
const FIRST: &str = "hp1:operand=1e-2";

/// A rule that holds, with the evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    /// Recommended rule.
    pub rule: Rule,
    /// Rules with less precision that were tried.
    pub refused: Vec<Rule>,
    /// Number of measurements of the sample; for a small system all of them.
    pub rows: usize,
}

/// Finds the rule with the least precision that keeps a sample of the system's tiles positive
/// definite.
///
/// # Errors
/// Bad parameters or options, too little memory, a failed task, cancellation.
pub fn recommend(
    rt: &Runtime,
    input: &Input,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Recommendation, PipelineError> {
    let problem = Problem::new(input, options)?;
    let tiles = sample(&problem.plan.grid);
    let whole = problem.plan.tiles();
    let sample = Sample::new(&problem, &tiles)?;
    observer.stage("recommending a rule", 1);
    // Changes accumulate over the steps, and a sample has fewer steps than the system.
    let steps = whole as f64 / tiles.len() as f64;
    let mut refused = Vec::new();
    let mut exact = None;
    for rule in RetryLadder::new(FIRST.parse()?) {
        let is_last = rule.suggest_next().is_none();
        let holds = is_last || watch(rt, observer, || 0, || sample.holds(rt, &rule, steps, &mut exact))?;
        if holds {
            return Ok(Recommendation { rule, refused, rows: sample.rows() });
        }
        refused.push(rule);
    }
    unreachable!("the last rule of the ladder is taken")
}

/// Selects the tiles: the first half is contiguous from the first tile on, within one laser guide
/// star. The others are spread over the rest.
fn sample(grid: &TileGrid) -> Vec<usize> {
    let all = grid.tiles();
    let enough = (1..=all).find(|&count| count >= TILES && grid.range(count - 1).end >= ROWS);
    let count = enough.unwrap_or(all);
    let near = count.div_ceil(2);
    let far = count - near;
    (0..near).chain((0..far).map(|k| near + (all - near) * (k + 1) / far - 1)).collect()
}

/// Some tiles of `Cmm`, as one matrix.
struct Sample {
    grid: TileGrid,
    fill: Generator<f32>,
}

impl Sample {
    fn new(problem: &Problem, tiles: &[usize]) -> Result<Sample, PipelineError> {
        let ranges: Vec<Range<usize>> = tiles.iter().map(|&tile| problem.plan.grid.range(tile)).collect();
        let mut edges = vec![0];
        ranges.iter().for_each(|range| edges.push(edges[edges.len() - 1] + range.len()));
        let grid = TileGrid::from_edges(edges.clone())?;
        let whole = problem.cmm::<f32>();
        let place = move |range: &Range<usize>| {
            let tile = edges.partition_point(|&edge| edge <= range.start) - 1;
            let begin = ranges[tile].start + range.start - edges[tile];
            begin..begin + range.len()
        };
        let fill = generator(move |rows: Range<usize>, cols: Range<usize>, out: &mut [f32], ld: usize| {
            whole(place(&rows), place(&cols), out, ld)
        });
        Ok(Sample { grid, fill })
    }

    fn rows(&self) -> usize {
        self.grid.len()
    }

    /// Returns whether a rule would leave the last tile positive definite with `steps` times as
    /// many steps. `exact` caches that tile in full precision.
    fn holds(
        &self,
        rt: &Runtime,
        rule: &Rule,
        steps: f64,
        exact: &mut Option<Option<Matrix>>,
    ) -> Result<bool, PipelineError> {
        if exact.is_none() {
            *exact = Some(self.last(rt, &"fp32".parse()?)?);
        }
        // A matrix that loses definiteness in full precision needs f64.
        let Some(Some(exact)) = exact else { return Ok(false) };
        let Some(last) = self.last(rt, rule)? else { return Ok(false) };
        let change: f64 =
            last.data().iter().zip(exact.data()).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
        let least = eigenvalues(exact)?.into_iter().fold(f64::INFINITY, f64::min);
        Ok(change * steps < least)
    }

    /// Returns the last tile after all steps but its own; `None` if the rule fails.
    fn last(&self, rt: &Runtime, rule: &Rule) -> Result<Option<Matrix>, PipelineError> {
        let l = SymmetricTiled::<f32>::generate(rt, self.grid.clone(), &self.fill)?;
        let policy: SharedPolicy = Arc::new(rule.clone());
        let factor = cholesky(rt, &l, &policy)?;
        let result = factor.wait(rt);
        match rt.wait_all() {
            Ok(()) | Err(zellige_runtime::Error::Failed(_)) => {}
            Err(error) => return Err(error.into()),
        }
        match result {
            Ok(()) => {}
            Err(error) if error.not_positive_definite().is_some() => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let last = self.grid.tiles() - 1;
        let tile = rt.read(l.tile(last, last))?;
        let (n, values) = (tile.rows(), tile.as_slice()?);
        let entry = |i: usize, j: usize| f64::from(values[i + n * j]);
        let mut square = Matrix::zeros(n, n);
        for j in 0..n {
            for i in 0..n {
                let sum = (0..=i.min(j)).map(|k| entry(i, k) * entry(j, k)).sum::<f64>();
                square.col_mut(j)[i] = sum;
            }
        }
        Ok(Some(square))
    }
}

fn eigenvalues(a: &Matrix) -> Result<Vec<f64>, crate::Error> {
    zellige_faer::eigenvalues(a.view())
        .map_err(|_| crate::Error::numeric("the last tile of a sample", "its eigenvalues were not found"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_begin_together_and_reach_the_end() {
        let of = |n, nb| sample(&TileGrid::uniform(n, nb).unwrap());
        assert_eq!(of(600, 100), (0..6).collect::<Vec<_>>());
        let many = of(20_000, 31);
        assert_eq!((many.len(), many[33], *many.last().unwrap()), (67, 33, 645));
        assert!(many.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(of(20_000, 512).len(), 8);
    }
}
