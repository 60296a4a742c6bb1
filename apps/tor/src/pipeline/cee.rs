//! The error covariance as tasks. [`crate::evaluate`] takes whole panels of `Cmm`. Here each block
//! of its lower triangle is generated once and used for both halves. This saves half of the
//! generation, the larger part of the work for many layers.

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
    let two = (2 * widest).min(n);
    8 * (m * two).max(m * widest + m * m).max(2 * m * m) as u64
}

/// Computes `Cee = Ctt + sum_J [ E_J R_J^T - R_J Ctm_J^T ]`, `E = R Cmm - Ctm`, over panels `J` of
/// columns. The terms are added in the order of the panels, in whatever order they are computed.
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
            let error = residual(rt, cov, target, r, &panels, &counter)?;
            let sum = rt.register(vec![0.0f64; m * m]);
            // The terms are stored in a ring. A panel waits until the previous term in its slot is
            // added, so that few terms exist at once.
            let places: Vec<_> =
                (0..WAITING.min(panels.len())).map(|_| rt.register_empty::<Vec<f64>>()).collect();
            for (k, cols) in panels.into_iter().enumerate() {
                let place = &places[k % places.len()];
                let (cov, r, counter) = (Arc::clone(cov), Arc::clone(r), counter.clone());
                rt.task("cee_panel")
                    .operands((read(&error[k]), write(place)))
                    .cpu(move |(error, mut place)| {
                        place.put(term(&cov, target, &r, error, cols.clone())?);
                        counter.bump();
                        Ok::<(), TaskError>(())
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

/// Submits `E = R Cmm - Ctm`, with one handle per panel of columns.
fn residual(
    rt: &Runtime,
    cov: &Arc<Covariance>,
    target: usize,
    r: &Arc<Matrix>,
    panels: &[Range<usize>],
    counter: &Counter,
) -> Result<Vec<Handle<Vec<f64>>>, PipelineError> {
    let m = r.rows();
    let mut error = Vec::with_capacity(panels.len());
    for cols in panels {
        let panel = rt.register_empty::<Vec<f64>>();
        let (cov, cols) = (Arc::clone(cov), cols.clone());
        rt.task("cee_start")
            .operands((write(&panel),))
            .cpu(move |(mut panel,)| {
                let mut ctm = vec![0.0; m * cols.len()];
                cov.fill(Kind::Ctm(target), 0..m, cols.clone(), &mut ctm, m)?;
                ctm.iter_mut().for_each(|v| *v = -*v);
                panel.put(ctm);
                Ok::<(), crate::Error>(())
            })
            .submit()?;
        error.push(panel);
    }
    let area = panels.first().map_or(0, |p| p.len() * p.len());
    // Blocks are submitted by diagonals, because most blocks of a diagonal update different panels.
    for distance in 0..panels.len() {
        for i in distance..panels.len() {
            let j = i - distance;
            let block = CeeBlock {
                cov: Arc::clone(cov),
                r: Arc::clone(r),
                rows: panels[i].clone(),
                cols: panels[j].clone(),
                counter: counter.clone(),
            };
            if i == j {
                rt.task("cee_block")
                    .operands((update(&error[j]), scratch::<f64>(area)))
                    .cpu(move |(e_j, part)| block.add(e_j, None, part))
                    .submit()?;
            } else {
                rt.task("cee_block")
                    .operands((update(&error[j]), update(&error[i]), scratch::<f64>(area)))
                    .cpu(move |(e_j, e_i, part)| block.add(e_j, Some(e_i), part))
                    .submit()?;
            }
        }
    }
    Ok(error)
}

/// One block of the lower triangle of `Cmm`, with its factors.
struct CeeBlock {
    cov: Arc<Covariance>,
    r: Arc<Matrix>,
    rows: Range<usize>,
    cols: Range<usize>,
    counter: Counter,
}

impl CeeBlock {
    /// Computes `E_j += R_i A`, and off the diagonal `E_i += R_j A^T`.
    fn add(&self, e_j: &mut [f64], e_i: Option<&mut [f64]>, part: &mut [f64]) -> Result<(), TaskError> {
        let (m, height, width) = (self.r.rows(), self.rows.len(), self.cols.len());
        let part = &mut part[..height * width];
        self.cov.fill(Kind::Cmm, self.rows.clone(), self.cols.clone(), part, height)?;
        let a = MatRef::new(part, height, width, height)?;
        let (r_i, r_j) = (columns(&self.r, &self.rows)?, columns(&self.r, &self.cols)?);
        gemm(1.0, r_i, Op::None, a, Op::None, 1.0, MatMut::new(e_j, m, width, m)?)?;
        if let Some(e_i) = e_i {
            gemm(1.0, r_j, Op::None, a, Op::Trans, 1.0, MatMut::new(e_i, m, height, m)?)?;
        }
        self.counter.bump();
        Ok(())
    }
}

/// Computes `E_J R_J^T - R_J Ctm_J^T`.
fn term(
    cov: &Covariance,
    target: usize,
    r: &Matrix,
    error: &[f64],
    cols: Range<usize>,
) -> Result<Vec<f64>, TaskError> {
    let (m, width) = (r.rows(), cols.len());
    let mut ctm = vec![0.0; m * width];
    cov.fill(Kind::Ctm(target), 0..m, cols.clone(), &mut ctm, m)?;
    let part = columns(r, &cols)?;
    let mut out = vec![0.0; m * m];
    let error = MatRef::new(error, m, width, m)?;
    gemm(1.0, error, Op::None, part, Op::Trans, 0.0, MatMut::new(&mut out, m, m, m)?)?;
    let ctm = MatRef::new(&ctm, m, width, m)?;
    gemm(-1.0, part, Op::None, ctm, Op::Trans, 1.0, MatMut::new(&mut out, m, m, m)?)?;
    Ok(out)
}

/// Returns a range of columns of a matrix.
fn columns<'a>(a: &'a Matrix, range: &Range<usize>) -> Result<MatRef<'a, f64>, KernelError> {
    let rows = a.rows();
    MatRef::new(&a.data()[range.start * rows..range.end * rows], rows, range.len(), rows)
}
