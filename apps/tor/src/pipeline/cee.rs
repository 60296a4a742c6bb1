//! The error covariance of [`crate::evaluate`] as tasks: one for each block of the lower triangle
//! of `Cmm`, which is generated for it.

use super::watch::{Counter, watch};
use super::{Observer, PipelineError};
use crate::covariance::{Covariance, Kind};
use crate::{Matrix, evaluate};
use std::ops::Range;
use std::sync::Arc;
use zellige_kernels::{KernelError, MatMut, MatRef, Op, gemm};
use zellige_runtime::{Handle, Runtime, Submit, TaskError, read, scratch, update, write};

/// Maximum number of terms of `Cee` that wait for their addition; each has `8 m^2` bytes.
pub(super) const WAITING: usize = 8;

/// Returns the width of a panel: wide enough for fast products, narrow enough for many panels. It
/// depends on `n` alone, so that results do as well.
pub(super) fn panel_width(n: usize) -> usize {
    match n {
        0..2048 => 128,
        2048..8192 => 256,
        _ => 512,
    }
}

/// Returns the bytes of the operands of the largest task, for `n` measurements and `m` slopes of a
/// target.
pub(super) fn operand_bytes(n: usize, m: usize) -> u64 {
    let widest = panel_width(n).min(n);
    8 * (m * widest + m * m).max(2 * m * m) as u64
}

/// Computes the symmetric part of `Ctt + sum_J E_J R_J^T` over panels `J` of columns. The terms are
/// added in the order of the panels, in whatever order they are computed.
pub(super) fn cee(
    rt: &Runtime,
    cov: &Arc<Covariance>,
    target: usize,
    r: &Arc<Matrix>,
    observer: &dyn Observer,
) -> Result<Matrix, PipelineError> {
    let m = cov.truth_slopes();
    let panels = evaluate::panels(cov.measurements(), panel_width(cov.measurements()));
    let count = panels.len() as u64;
    observer.stage("error covariance", count * (count + 1) / 2 + count);
    let counter = Counter::default();
    let shared = counter.clone();
    let sum = watch(
        rt,
        observer,
        move || shared.get(),
        || {
            let factors = factors(rt, cov, target, r, &panels, &counter)?;
            let sum = rt.register(vec![0.0f64; m * m]);
            // The terms are stored in a ring. A panel waits until the previous term in its slot is
            // added, so that few terms exist at once.
            let places: Vec<_> =
                (0..WAITING.min(panels.len())).map(|_| rt.register_empty::<Vec<f64>>()).collect();
            for (k, cols) in panels.into_iter().enumerate() {
                let place = &places[k % places.len()];
                let (r, counter) = (Arc::clone(r), counter.clone());
                rt.task("cee_panel")
                    .operands((read(&factors[k]), write(place)))
                    .cpu(move |(factor, mut place)| {
                        place.put(term(&r, factor, cols.clone())?);
                        counter.bump();
                        Ok::<(), KernelError>(())
                    })
                    .submit()?;
                rt.task("cee_sum")
                    .operands((read(place), update(&sum)))
                    .cpu(|(term, sum)| sum.iter_mut().zip(term).for_each(|(s, t)| *s += t))
                    .priority(1)
                    .submit()?;
            }
            Ok(rt.take(sum)?)
        },
    )?;
    Ok(evaluate::cee_sum(cov, [Matrix::from_vec(m, m, sum)?])?)
}

/// Submits the panels `E_J = sum_{I > J} 2 R_I Cmm_IJ + R_J Cmm_JJ - 2 Ctm_J`.
fn factors(
    rt: &Runtime,
    cov: &Arc<Covariance>,
    target: usize,
    r: &Arc<Matrix>,
    panels: &[Range<usize>],
    counter: &Counter,
) -> Result<Vec<Handle<Vec<f64>>>, PipelineError> {
    let m = r.rows();
    let mut factors = Vec::with_capacity(panels.len());
    for cols in panels {
        let panel = rt.register_empty::<Vec<f64>>();
        let (cov, cols) = (Arc::clone(cov), cols.clone());
        rt.task("cee_start")
            .operands((write(&panel),))
            .cpu(move |(mut panel,)| {
                let mut ctm = vec![0.0; m * cols.len()];
                cov.fill(Kind::Ctm(target), 0..m, cols.clone(), &mut ctm, m)?;
                ctm.iter_mut().for_each(|v| *v *= -2.0);
                panel.put(ctm);
                Ok::<(), crate::Error>(())
            })
            .submit()?;
        factors.push(panel);
    }
    let area = panels.first().map_or(0, |p| p.len() * p.len());
    // Blocks are submitted by diagonals, because those of a diagonal update different panels.
    for distance in 0..panels.len() {
        for i in distance..panels.len() {
            let j = i - distance;
            let (cov, r, counter) = (Arc::clone(cov), Arc::clone(r), counter.clone());
            let (rows, cols) = (panels[i].clone(), panels[j].clone());
            rt.task("cee_block")
                .operands((update(&factors[j]), scratch::<f64>(area)))
                .cpu(move |(factor, block)| {
                    let (height, width) = (rows.len(), cols.len());
                    let block = &mut block[..height * width];
                    cov.fill(Kind::Cmm, rows.clone(), cols.clone(), block, height)?;
                    let block = MatRef::new(block, height, width, height)?;
                    // A block below the diagonal also stands for its mirror image.
                    let alpha = if i == j { 1.0 } else { 2.0 };
                    let part = columns(&r, &rows)?;
                    gemm(alpha, part, Op::None, block, Op::None, 1.0, MatMut::new(factor, m, width, m)?)?;
                    counter.bump();
                    Ok::<(), TaskError>(())
                })
                .submit()?;
        }
    }
    Ok(factors)
}

/// Computes `E_J R_J^T`.
fn term(r: &Matrix, factor: &[f64], cols: Range<usize>) -> Result<Vec<f64>, KernelError> {
    let (m, width) = (r.rows(), cols.len());
    let mut out = vec![0.0; m * m];
    let factor = MatRef::new(factor, m, width, m)?;
    gemm(1.0, factor, Op::None, columns(r, &cols)?, Op::Trans, 0.0, MatMut::new(&mut out, m, m, m)?)?;
    Ok(out)
}

/// Returns a range of columns of a matrix.
fn columns<'a>(a: &'a Matrix, range: &Range<usize>) -> Result<MatRef<'a, f64>, KernelError> {
    let rows = a.rows();
    MatRef::new(&a.data()[range.start * rows..range.end * rows], rows, range.len(), rows)
}
