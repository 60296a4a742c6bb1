//! The error covariance as tasks. [`crate::evaluate`] takes whole panels of `Cmm`; here each block of its lower triangle is
//! generated once and used for both halves, which spares half of the generation, the larger part of the work for many layers.

use super::watch::{Counter, watch};
use super::{Error, Observer};
use crate::covariance::{Covariance, Kind};
use crate::matrix::gemm;
use crate::{Matrix, evaluate};
use faer::{MatMut, MatRef};
use std::ops::Range;
use std::sync::Arc;
use zellige_runtime::{Handle, Runtime, Submit, read, scratch, update, write};

/// Terms of `Cee` that may wait for their turn in the sum; each has `8 m^2` bytes.
pub(super) const WAITING: usize = 8;

/// Width of a panel: wide enough for the products' speed, narrow enough for many panels. It depends on `n` alone, as results do.
pub(super) fn panel_width(n: usize) -> usize {
    match n {
        0..2048 => 128,
        2048..8192 => 256,
        _ => 512,
    }
}

/// `Cee = Ctt + sum_J [ E_J R_J^T - R_J Ctm_J^T ]`, `E = R Cmm - Ctm`, over panels `J` of columns; the terms are added in the order
/// of the panels whatever the order they are computed in.
pub(super) fn cee(
    rt: &Runtime,
    cov: &Arc<Covariance>,
    target: usize,
    r: &Arc<Matrix>,
    observer: &dyn Observer,
) -> Result<Matrix, Error> {
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
            // A ring of places: a panel whose place is still to be added waits, so that few terms exist at once.
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
        },
    )?;
    Ok(evaluate::cee_sum(cov, [Matrix::from_vec(m, m, sum)?])?)
}

/// Submits `E = R Cmm - Ctm`, one handle per panel of columns.
fn residual(
    rt: &Runtime,
    cov: &Arc<Covariance>,
    target: usize,
    r: &Arc<Matrix>,
    panels: &[Range<usize>],
    counter: &Counter,
) -> Result<Vec<Handle<Vec<f64>>>, Error> {
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
    // One diagonal after the other: blocks of a diagonal update different panels, most of them.
    for distance in 0..panels.len() {
        for i in distance..panels.len() {
            let j = i - distance;
            let block = Block {
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

/// One block of the lower triangle of `Cmm`, and what it is multiplied with.
struct Block {
    cov: Arc<Covariance>,
    r: Arc<Matrix>,
    rows: Range<usize>,
    cols: Range<usize>,
    counter: Counter,
}

impl Block {
    /// `E_j += R_i A`, and off the diagonal `E_i += R_j A^T`.
    fn add(&self, e_j: &mut [f64], e_i: Option<&mut [f64]>, part: &mut [f64]) -> Result<(), crate::Error> {
        let (m, height, width) = (self.r.rows(), self.rows.len(), self.cols.len());
        let part = &mut part[..height * width];
        self.cov.fill(Kind::Cmm, self.rows.clone(), self.cols.clone(), part, height)?;
        let a = MatRef::from_column_major_slice(part, height, width);
        let of = |range: &Range<usize>| self.r.view().subcols(range.start, range.len());
        gemm(MatMut::from_column_major_slice_mut(e_j, m, width), true, of(&self.rows), a, 1.0);
        if let Some(e_i) = e_i {
            let target = MatMut::from_column_major_slice_mut(e_i, m, height);
            gemm(target, true, of(&self.cols), a.transpose(), 1.0);
        }
        self.counter.bump();
        Ok(())
    }
}

/// `E_J R_J^T - R_J Ctm_J^T`.
fn term(
    cov: &Covariance,
    target: usize,
    r: &Matrix,
    error: &[f64],
    cols: Range<usize>,
) -> Result<Vec<f64>, crate::Error> {
    let (m, width) = (r.rows(), cols.len());
    let mut ctm = vec![0.0; m * width];
    cov.fill(Kind::Ctm(target), 0..m, cols.clone(), &mut ctm, m)?;
    let view = |values| MatRef::from_column_major_slice(values, m, width);
    let part = r.view().subcols(cols.start, width);
    let mut out = vec![0.0; m * m];
    gemm(MatMut::from_column_major_slice_mut(&mut out, m, m), false, view(error), part.transpose(), 1.0);
    gemm(MatMut::from_column_major_slice_mut(&mut out, m, m), true, part, view(&ctm).transpose(), -1.0);
    Ok(out)
}
