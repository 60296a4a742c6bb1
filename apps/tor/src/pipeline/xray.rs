//! Spectra of the matrix: its eigenvalues, and the 2-norms of its tiles by their distance from the
//! diagonal.

use super::plan::XRAY_UP_TO;
use super::problem::Problem;
use super::watch::{Counter, watch};
use super::{Observer, PipelineError, Xray};
use crate::Matrix;
use crate::covariance::Kind;
use serde::Serialize;
use std::sync::Arc;
use zellige_runtime::{Runtime, Submit, TaskRef, write};

/// Number of steps of the power iteration for the 2-norm of a tile.
const STEPS: usize = 30;

/// Spectra of one `Cmm`, in arcsec^2.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct XrayPicture {
    /// All eigenvalues, largest first; empty if the matrix is too large for `auto`.
    pub eigenvalues: Vec<f64>,
    /// Norms (2-norms) of tiles by distance from the diagonal, nearest first.
    pub norms: Vec<NormsAt>,
    /// Singular values, largest first, of one tile at a few distances.
    pub spectra: Vec<(usize, Vec<f64>)>,
}

/// 2-norms of all tiles at one distance from the diagonal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct NormsAt {
    /// Distance `i - j`.
    pub distance: usize,
    /// Smallest norm.
    pub min: f64,
    /// Median norm.
    pub median: f64,
    /// Largest norm.
    pub max: f64,
}

/// Computes the spectra, if they are requested.
pub(super) fn xray(
    rt: &Runtime,
    problem: &Problem,
    wish: Xray,
    observer: &dyn Observer,
) -> Result<Option<XrayPicture>, PipelineError> {
    let whole = match wish {
        Xray::Off => return Ok(None),
        Xray::Auto => problem.n() <= XRAY_UP_TO,
        Xray::Full => true,
    };
    let nt = problem.plan.tiles();
    let counter = Counter::default();
    let shared = counter.clone();
    observer.stage("X-ray", (nt * (nt + 1) / 2 + usize::from(whole)) as u64);
    watch(rt, observer, move || shared.get(), || take(rt, problem, whole, &counter)).map(Some)
}

fn take(
    rt: &Runtime,
    problem: &Problem,
    whole: bool,
    counter: &Counter,
) -> Result<XrayPicture, PipelineError> {
    let eigenvalues = rt.register(Vec::<f64>::new());
    if whole {
        let (cov, counter) = (Arc::clone(&problem.cov), counter.clone());
        rt.task("eigenvalues")
            .operands((write(&eigenvalues),))
            .cpu(move |(mut out,)| {
                out.put(eigenvalues_of(&cov.matrix(Kind::Cmm)?)?);
                counter.bump();
                Ok::<(), crate::Error>(())
            })
            .priority(1)
            .submit()?;
    }
    let grid = &problem.plan.grid;
    let nt = grid.tiles();
    let mut norms = Vec::new();
    for distance in 0..nt {
        for i in distance..nt {
            let norm = rt.register_empty::<f64>();
            let (cov, counter) = (Arc::clone(&problem.cov), counter.clone());
            let (rows, cols) = (grid.range(i), grid.range(i - distance));
            rt.task("tile_norm")
                .operands((write(&norm),))
                .cpu(move |(mut norm,)| {
                    let mut tile = Matrix::zeros(rows.len(), cols.len());
                    cov.fill(Kind::Cmm, rows.clone(), cols.clone(), tile.data_mut(), rows.len())?;
                    norm.put(norm2(&tile));
                    counter.bump();
                    Ok::<(), crate::Error>(())
                })
                .submit()?;
            norms.push((distance, norm));
        }
    }
    let mut chosen = vec![0, 1, 2, nt / 2, nt.saturating_sub(1)];
    chosen.retain(|&d| d < nt);
    chosen.dedup();
    chosen.sort_unstable();
    chosen.dedup();
    let mut spectra = Vec::new();
    for distance in chosen {
        let values = rt.register_empty::<Vec<f64>>();
        let cov = Arc::clone(&problem.cov);
        let (rows, cols) = (grid.range(distance), grid.range(0));
        let _: TaskRef = rt
            .task("tile_spectrum")
            .operands((write(&values),))
            .cpu(move |(mut out,)| {
                let mut tile = Matrix::zeros(rows.len(), cols.len());
                cov.fill(Kind::Cmm, rows.clone(), cols.clone(), tile.data_mut(), rows.len())?;
                out.put(singular_values_of(&tile)?);
                Ok::<(), crate::Error>(())
            })
            .submit()?;
        spectra.push((distance, values));
    }
    let mut by_distance: Vec<Vec<f64>> = vec![Vec::new(); nt];
    for (distance, norm) in norms {
        by_distance[distance].push(rt.take(norm)?);
    }
    let norms = by_distance.into_iter().enumerate().map(|(distance, mut list)| {
        list.sort_by(f64::total_cmp);
        NormsAt { distance, min: list[0], median: list[list.len() / 2], max: list[list.len() - 1] }
    });
    let norms = norms.collect();
    let spectra = spectra
        .into_iter()
        .map(|(distance, values)| Ok((distance, rt.take(values)?)))
        .collect::<Result<_, PipelineError>>()?;
    Ok(XrayPicture { eigenvalues: rt.take(eigenvalues)?, norms, spectra })
}

fn eigenvalues_of(a: &Matrix) -> Result<Vec<f64>, crate::Error> {
    let values = zellige_faer::eigenvalues(a.view());
    let mut values = values.map_err(|_| crate::Error::numeric("X-ray", "the eigenvalues do not converge"))?;
    values.reverse();
    Ok(values)
}

fn singular_values_of(a: &Matrix) -> Result<Vec<f64>, crate::Error> {
    let values = zellige_faer::singular_values(a.view());
    values.map_err(|_| crate::Error::numeric("X-ray", "the singular values of a tile do not converge"))
}

/// Computes the largest singular value by power iteration on `A^T A`, from a vector with a
/// component in every direction. It converges from below. If the two largest values are close,
/// either is a good estimate.
fn norm2(a: &Matrix) -> f64 {
    let mut x: Vec<f64> =
        (0..a.cols()).map(|j| 1.0 + 0.5 * ((j * 7919 % 101) as f64 / 101.0 - 0.5)).collect();
    let mut norm = 0.0;
    for _ in 0..STEPS {
        let length = x.iter().map(|v| v * v).sum::<f64>().sqrt();
        if length == 0.0 {
            return 0.0;
        }
        x.iter_mut().for_each(|v| *v /= length);
        let mut y = vec![0.0; a.rows()];
        for (j, &xj) in x.iter().enumerate() {
            y.iter_mut().zip(a.col(j)).for_each(|(y, a)| *y += a * xj);
        }
        norm = y.iter().map(|v| v * v).sum::<f64>().sqrt();
        for (j, xj) in x.iter_mut().enumerate() {
            *xj = a.col(j).iter().zip(&y).map(|(a, y)| a * y).sum();
        }
    }
    norm
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_and_spectra_of_a_known_matrix() {
        // Rank one plus the identity: the eigenvalues are 1 (three times) and 1 + 4 * 4.
        let a = Matrix::from_fn(4, 4, |i, j| 4.0 + f64::from(u8::from(i == j)));
        let values = eigenvalues_of(&a).unwrap();
        assert!((values[0] - 17.0).abs() < 1e-12 && (values[3] - 1.0).abs() < 1e-12, "{values:?}");
        assert!((norm2(&a) - 17.0).abs() < 1e-9);
        let b = Matrix::from_fn(3, 2, |i, j| if i == j { 3.0 - 2.0 * i as f64 } else { 0.0 });
        assert!((norm2(&b) - 3.0).abs() < 1e-6);
        let singular = singular_values_of(&b).unwrap();
        assert!((singular[0] - 3.0).abs() < 1e-12 && (singular[1] - 1.0).abs() < 1e-12);
        assert_eq!(norm2(&Matrix::zeros(2, 2)), 0.0);
    }
}
