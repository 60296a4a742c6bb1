//! First guess of the winds, by trying all.

use super::model::{Model, Template, Unknowns};
use crate::pipeline::{Observer, PipelineError};
use std::sync::Arc;
use zellige_runtime::Runtime;

/// Largest wind speed in m/s that is tried.
const FASTEST: f64 = 40.0;
/// Templates in memory at a time.
const BATCH: usize = 16;

/// Replaces the winds by those that explain the maps with a lag best. Layers are taken in order of
/// their strength, with the others where they are known; a second pass knows all of them.
///
/// # Errors
/// A task failed, cancellation.
pub(super) fn search(
    model: &Arc<Model>,
    rt: &Runtime,
    data: &[f64],
    weights: &[f64],
    unknowns: &mut Unknowns,
    observer: &dyn Observer,
) -> Result<(), PipelineError> {
    let first = model.maps[0].len();
    let (data, weights) = (&data[first..], &weights[first..]);
    let mut order: Vec<usize> = (0..model.layers()).filter(|&l| unknowns.strengths[l] > 0.0).collect();
    order.sort_by(|&a, &b| unknowns.strengths[b].total_cmp(&unknowns.strengths[a]));
    let step = model.pitch() / model.lag;
    let mut known: Vec<Option<Vec<f64>>> = vec![None; model.layers()];
    let passes = [all(step), all(step), around(0.5 * step)];
    observer.stage("wind", (passes.len() * order.len()) as u64);
    for (pass, tried) in passes.iter().enumerate() {
        for (done, &layer) in order.iter().enumerate() {
            let mut residual = data.to_vec();
            for (other, template) in known.iter().enumerate().filter(|(other, _)| *other != layer) {
                let strength = unknowns.strengths[other];
                let values = template.iter().flatten();
                residual.iter_mut().zip(values).for_each(|(r, t)| *r -= strength * t);
            }
            // A pass around a wind is relative to it.
            let centre = if pass == 2 { unknowns.winds[layer] } else { [0.0; 2] };
            let winds: Vec<[f64; 2]> = tried.iter().map(|v| [v[0] + centre[0], v[1] + centre[1]]).collect();
            let (wind, template) = best(model, rt, layer, &winds, unknowns, &residual, weights)?;
            unknowns.winds[layer] = wind;
            known[layer] = Some(template);
            observer.advance((pass * order.len() + done + 1) as u64);
            if observer.cancelled() {
                return Err(PipelineError::Cancelled);
            }
        }
    }
    Ok(())
}

/// Returns the wind with the least misfit, and its template.
fn best(
    model: &Arc<Model>,
    rt: &Runtime,
    layer: usize,
    winds: &[[f64; 2]],
    unknowns: &Unknowns,
    residual: &[f64],
    weights: &[f64],
) -> Result<([f64; 2], Vec<f64>), PipelineError> {
    let strength = unknowns.strengths[layer];
    let mut best = (f64::INFINITY, [0.0; 2], Vec::new());
    for winds in winds.chunks(BATCH) {
        let of = |wind: &[f64; 2]| Template {
            layer,
            log_outer_scale: unknowns.log_outer_scale,
            wind: Some(*wind),
        };
        let wanted: Vec<Template> = winds.iter().map(of).collect();
        for (wind, template) in winds.iter().zip(model.templates(rt, &wanted)?) {
            let misfit = |((r, t), w): ((&f64, &f64), &f64)| w * (r - strength * t).powi(2);
            let sum: f64 = residual.iter().zip(&template).zip(weights).map(misfit).sum();
            if sum < best.0 {
                best = (sum, *wind, template);
            }
        }
    }
    Ok((best.1, best.2))
}

/// Returns all velocities of a grid up to the fastest.
fn all(step: f64) -> Vec<[f64; 2]> {
    let most = (FASTEST / step).floor() as i32;
    let grid = (-most..=most).flat_map(|j| (-most..=most).map(move |i| [i, j].map(|k| f64::from(k) * step)));
    grid.filter(|v| v[0].hypot(v[1]) <= FASTEST).collect()
}

/// Returns 0 and its eight neighbours.
fn around(step: f64) -> Vec<[f64; 2]> {
    [0.0, -1.0, 1.0].iter().flat_map(|y| [0.0, -1.0, 1.0].map(|x| [x * step, y * step])).collect()
}
