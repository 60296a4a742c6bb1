//! Weighted least squares by Levenberg and Marquardt's method.

use super::model::{Model, Unknowns};
use crate::pipeline::{Observer, PipelineError};
use crate::{Error, Matrix};
use std::sync::Arc;
use zellige_runtime::Runtime;

const MOST_STEPS: u64 = 60;
/// Relative change of the unknowns below which the fit has converged.
const CONVERGED: f64 = 1e-8;
/// Relative change of the sum of squares below which it has.
const FLAT: f64 = 1e-10;
const LARGEST_DAMPING: f64 = 1e9;

/// A profile that fits data best, and the linear estimator there.
pub(super) struct Fit {
    pub(super) unknowns: Unknowns,
    /// Predicted data.
    pub(super) data: Vec<f64>,
    columns: Vec<Vec<f64>>,
    normal: Normal,
}

/// Fits a profile to data.
///
/// # Errors
/// No convergence, a task failed, cancellation.
pub(super) fn fit(
    model: &Arc<Model>,
    rt: &Runtime,
    data: &[f64],
    weights: &[f64],
    start: Unknowns,
    observer: &dyn Observer,
) -> Result<Fit, PipelineError> {
    observer.stage("fit", MOST_STEPS);
    let mut unknowns = start;
    let mut damping = 1e-3;
    for step_number in 0..MOST_STEPS {
        let (predicted, columns) = model.derivatives(rt, &unknowns)?;
        let cost = cost(data, &predicted, weights);
        let normal = Normal::new(&columns, weights);
        let gradient = gradient(&columns, weights, data, &predicted);
        loop {
            let step = normal.solve(&gradient, damping)?;
            let next = unknowns.after(&step);
            let is_small = is_small(model, &unknowns, &step);
            let change = cost - self::cost(data, &model.predict(rt, &next)?, weights);
            let is_flat = change.abs() <= FLAT * cost;
            if is_small || is_flat || damping > LARGEST_DAMPING {
                return Ok(Fit { unknowns, data: predicted, columns, normal });
            }
            if change > 0.0 {
                unknowns = next;
                damping *= 0.1;
                break;
            }
            damping *= 10.0;
        }
        observer.advance(step_number + 1);
        if observer.cancelled() {
            return Err(PipelineError::Cancelled);
        }
    }
    let problem = format!(
        "no convergence in {MOST_STEPS} steps: give more frames, fewer layers, or winds near the true ones"
    );
    Err(Error::numeric("fit of the profile", problem).into())
}

impl Fit {
    /// Returns the change of the unknowns that other data near the fitted ones would make.
    pub(super) fn change(&self, data: &[f64], weights: &[f64]) -> Result<Vec<f64>, PipelineError> {
        self.normal.solve(&gradient(&self.columns, weights, data, &self.data), 0.0)
    }

    /// Returns the misfit: the root of the weighted sum of squared residuals, relative to that of
    /// the data.
    pub(super) fn misfit(&self, data: &[f64], weights: &[f64]) -> f64 {
        let all: f64 = data.iter().zip(weights).map(|(d, w)| w * d * d).sum();
        (cost(data, &self.data, weights) / all).sqrt()
    }
}

/// Returns whether a step changes nothing that matters.
fn is_small(model: &Model, at: &Unknowns, step: &[f64]) -> bool {
    let layers = model.layers();
    let all: f64 = at.strengths.iter().sum();
    let way = model.lag / model.pitch();
    step[0].abs() < CONVERGED
        && step[1..1 + layers].iter().all(|c| c.abs() < CONVERGED * all)
        && step[1 + layers..1 + 3 * layers].iter().all(|v| v.abs() * way < CONVERGED)
}

fn cost(data: &[f64], predicted: &[f64], weights: &[f64]) -> f64 {
    data.iter().zip(predicted).zip(weights).map(|((d, p), w)| w * (d - p) * (d - p)).sum()
}

fn gradient(columns: &[Vec<f64>], weights: &[f64], data: &[f64], predicted: &[f64]) -> Vec<f64> {
    let residual: Vec<f64> = data.iter().zip(predicted).zip(weights).map(|((d, p), w)| w * (d - p)).collect();
    columns.iter().map(|column| column.iter().zip(&residual).map(|(c, r)| c * r).sum()).collect()
}

/// Normal equations, scaled to a diagonal of 1. Unknowns on which nothing depends stay as they are.
struct Normal {
    scales: Vec<f64>,
    matrix: Matrix,
}

/// Smallest damping: it makes the equations of layers that the data cannot tell apart regular.
const LEAST_DAMPING: f64 = 1e-12;

impl Normal {
    fn new(columns: &[Vec<f64>], weights: &[f64]) -> Self {
        let count = columns.len();
        let mut matrix = Matrix::zeros(count, count);
        for j in 0..count {
            let weighted: Vec<f64> = columns[j].iter().zip(weights).map(|(c, w)| c * w).collect();
            for i in 0..=j {
                let sum = columns[i].iter().zip(&weighted).map(|(a, b)| a * b).sum();
                (matrix[(i, j)], matrix[(j, i)]) = (sum, sum);
            }
        }
        let scale = |k: usize| if matrix[(k, k)] > 0.0 { matrix[(k, k)].sqrt().recip() } else { 0.0 };
        let scales: Vec<f64> = (0..count).map(scale).collect();
        let matrix =
            Matrix::from_fn(
                count,
                count,
                |i, j| {
                    if i == j { 1.0 } else { matrix[(i, j)] * scales[i] * scales[j] }
                },
            );
        Normal { scales, matrix }
    }

    fn solve(&self, gradient: &[f64], damping: f64) -> Result<Vec<f64>, PipelineError> {
        let mut damped = self.matrix.clone();
        (0..gradient.len()).for_each(|k| damped[(k, k)] += damping.max(LEAST_DAMPING));
        let factor = zellige_faer::cholesky(damped.view()).map_err(|_| {
            Error::numeric("fit of the profile", "the data do not determine the layers: take fewer of them")
        })?;
        let mut step = Matrix::from_fn(gradient.len(), 1, |k, _| gradient[k] * self.scales[k]);
        zellige_faer::cholesky_solve(&factor, step.view_mut());
        Ok(step.data().iter().zip(&self.scales).map(|(step, scale)| step * scale).collect())
    }
}
