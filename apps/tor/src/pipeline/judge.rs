//! What a reconstructor is worth, with the heavy parts as tasks: `Cee` by panels of columns, the exact Strehl ratio by blocks.

use super::plan::PANEL;
use super::results::TargetResult;
use super::watch::{Counter, watch};
use super::{Error, Observer};
use crate::covariance::Covariance;
use crate::dm::Mirror;
use crate::image::{self, ExactStrehl, Psf};
use crate::params::System;
use crate::{Matrix, evaluate};
use std::sync::Arc;
use zellige_runtime::{Runtime, Submit, read, update, write};

/// Terms of `Cee` that may wait for their turn in the sum; each has `8 m^2` bytes.
const WAITING: usize = 8;

/// Judges `r` towards target number `target` through the command matrix `dx`.
pub(super) fn judge(
    rt: &Runtime,
    system: &System,
    cov: &Arc<Covariance>,
    target: usize,
    r: &Arc<Matrix>,
    dx: &Matrix,
    exact: bool,
    observer: &dyn Observer,
) -> Result<(TargetResult, Psf), Error> {
    let cee = cee(rt, cov, target, r, observer)?;
    let mirror = Mirror::new(system);
    let cvv = evaluate::cvv(dx, &cee)?;
    let psf = image::psf(system, &mirror, &cvv)?;
    let residual = image::residual(system, &mirror, &cvv)?;
    let strehl_exact =
        if exact { Some(strehl(rt, ExactStrehl::new(system, &mirror, &cvv)?, observer)?) } else { None };
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

/// `Cee`, the terms added in the order of the panels whatever the order they are computed in.
fn cee(
    rt: &Runtime,
    cov: &Arc<Covariance>,
    target: usize,
    r: &Arc<Matrix>,
    observer: &dyn Observer,
) -> Result<Matrix, Error> {
    let m = cov.truth_slopes();
    let panels = evaluate::panels(cov.measurements(), PANEL);
    observer.stage("error covariance", panels.len() as u64);
    let counter = Counter::default();
    let shared = counter.clone();
    let sum = rt.register(vec![0.0f64; m * m]);
    let submit = || {
        // A ring of places: a panel whose place is still to be added waits, so that few terms exist at once.
        let places: Vec<_> =
            (0..WAITING.min(panels.len())).map(|_| rt.register_empty::<Vec<f64>>()).collect();
        for (k, cols) in panels.into_iter().enumerate() {
            let place = &places[k % places.len()];
            let (cov, r, counter) = (Arc::clone(cov), Arc::clone(r), counter.clone());
            rt.task("cee_panel")
                .operands((write(place),))
                .cpu(move |(mut place,)| {
                    place.put(evaluate::cee_panel(&cov, target, &r, cols.clone())?.into_vec());
                    counter.bump();
                    Ok::<(), crate::Error>(())
                })
                .submit()?;
            rt.task("cee_sum")
                .operands((read(place), update(&sum)))
                .cpu(|(term, sum)| sum.iter_mut().zip(term).for_each(|(s, t)| *s += t))
                .priority(1)
                .submit()?;
        }
        Ok(rt.take(sum)?)
    };
    let sum = watch(rt, observer, move || shared.get(), submit)?;
    Ok(evaluate::cee_sum(cov, [Matrix::from_vec(m, m, sum)?])?)
}

fn strehl(rt: &Runtime, exact: ExactStrehl, observer: &dyn Observer) -> Result<f64, Error> {
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
            sums.into_iter().map(|s| Ok(rt.take(s)?)).collect::<Result<Vec<f64>, Error>>()
        },
    )?;
    Ok(exact.finish(&partials)?)
}
