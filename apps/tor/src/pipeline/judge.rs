//! Evaluation of a reconstructor, with the heavy parts as tasks.

use super::cee::cee;
use super::results::TargetResult;
use super::watch::{Counter, watch};
use super::{Observer, PipelineError};
use crate::covariance::Covariance;
use crate::dm::{self, DeformableMirror};
use crate::geometry::Geometry;
use crate::image::{self, ExactStrehl, Psf, Pupil};
use crate::system::System;
use crate::{Matrix, evaluate};
use std::sync::Arc;
use zellige_runtime::{Runtime, Submit, write};

/// Computes the command matrix of the system's own mirror on this thread. For thousands of
/// actuators this takes a minute.
pub(super) fn command_matrix(
    rt: &Runtime,
    system: &System,
    geometry: &Geometry,
    observer: &dyn Observer,
) -> Result<Matrix, PipelineError> {
    observer.stage("command matrix", 1);
    watch(rt, observer, || 0, || Ok(dm::command_matrix(system, geometry)?.dx))
}

/// Judges `r` for target number `target` through the command matrix `dx`.
pub(super) fn judge(
    rt: &Runtime,
    system: &System,
    cov: &Arc<Covariance>,
    target: usize,
    r: &Arc<Matrix>,
    dx: &Matrix,
    exact: bool,
    observer: &dyn Observer,
) -> Result<(TargetResult, Psf), PipelineError> {
    let cee = cee(rt, cov, target, r, observer)?;
    let mirror = DeformableMirror::new(system);
    observer.stage("image", 1);
    let picture = || {
        let cvv = evaluate::cvv(dx, &cee)?;
        let pupil = Arc::new(Pupil::new(system, &mirror));
        let exact = if exact { Some(ExactStrehl::new(&pupil, &cvv)?) } else { None };
        Ok((image::psf(system, &mirror, &cvv)?, image::residual(&pupil, &cvv)?, exact))
    };
    let (psf, residual, exact) = watch(rt, observer, || 0, picture)?;
    let strehl_exact = exact.map(|exact| strehl(rt, exact, observer)).transpose()?;
    let [x, y] = system.targets[target];
    let result = TargetResult {
        x,
        y,
        trace_cee: cee.trace(),
        relative_error: evaluate::relative_error(cov, &cee)?,
        strehl_moao: psf.strehl,
        strehl_exact,
        marechal: residual.marechal_piston_removed,
        wfe_nm: residual.wfe_nm_piston_removed,
    };
    Ok((result, psf))
}

/// Returns a warning if the residual contradicts the model of the image.
pub(super) fn doubt(rule: &str, target: &TargetResult, psf: &Psf) -> Option<String> {
    (psf.contradiction > 0.0).then(|| {
        format!(
            "{rule}, target ({}, {}): strehl_moao and the image are unreliable: the residual is far from stationary, and its average over equal offsets has a structure function below 0 on {:.2} % of the transfer function (counted as 0 there); the reconstructor is poor, and strehl_exact measures it",
            target.x,
            target.y,
            100.0 * psf.contradiction
        )
    })
}

/// Computes the exact Strehl ratio.
pub(super) fn strehl(
    rt: &Runtime,
    exact: ExactStrehl,
    observer: &dyn Observer,
) -> Result<f64, PipelineError> {
    let blocks = exact.blocks();
    observer.stage("exact Strehl ratio", blocks as u64);
    let counter = Counter::default();
    let shared = counter.clone();
    let exact = Arc::new(exact);
    let partials = watch(
        rt,
        observer,
        move || shared.get(),
        || {
            let mut sums = Vec::with_capacity(blocks);
            for block in 0..blocks {
                let sum = rt.register_empty::<f64>();
                let (exact, counter) = (Arc::clone(&exact), counter.clone());
                rt.task("strehl_block")
                    .operands((write(&sum),))
                    .cpu(move |(mut sum,)| {
                        sum.put(exact.block(block));
                        counter.bump();
                    })
                    .submit()?;
                sums.push(sum);
            }
            sums.into_iter().map(|s| Ok(rt.take(s)?)).collect::<Result<Vec<f64>, PipelineError>>()
        },
    )?;
    Ok(exact.finish(&partials)?)
}
