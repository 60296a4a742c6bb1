//! Prolongations.

use super::aggregate::{Aggregates, Graph};
use super::galerkin::{by_rows, product};
use crate::csr::Csr;
use crate::precondition::chebyshev::largest_eigenvalue;
use zellige_krylov::Error;

/// Lower bound of a filtered diagonal entry, relative to the original one.
const LEAST: f64 = 0.25;

/// Returns the prolongation of a level, and the vector of the next level that it maps to the smooth
/// vector of this one.
///
/// `P = (I - omega D^-1 A_F) P_0` with `omega = 4 / (3 lambda)`, `P_0` the aggregates' [tentative
/// one](Aggregates::tentative) and `A_F` the matrix without weak couplings (Vanek, Mandel and
/// Brezina 1996, equations 21 and 22).
pub fn prolongation(
    threads: usize,
    a: &Csr,
    block: usize,
    (graph, aggregates): (&Graph, &Aggregates),
    smooth: &[f64],
) -> Result<(Csr, Vec<f64>), Error> {
    let (tentative, next) = aggregates.tentative(block, smooth)?;
    let filtered = filtered(threads, a, block, graph, smooth)?;
    // If hardly any coupling is strong, the bound keeps the divisor away from zero.
    let divisor = |i| filtered.get(i, i).abs().max(LEAST * a.get(i, i).abs());
    let inverse: Vec<f64> = (0..a.rows()).map(|i| 1.0 / divisor(i)).collect();
    let omega = 4.0 / (3.0 * largest_eigenvalue(threads, &filtered, &inverse).max(f64::MIN_POSITIVE));
    let smoother = filtered.map_values(|i, j, value| {
        let identity = if i == j as usize { 1.0 } else { 0.0 };
        identity - omega * inverse[i] * value
    });
    Ok((product(threads, &smoother, &tentative)?, next))
}

/// Returns the matrix without weak couplings; they are added to the node's own block so that
/// products with `smooth` do not change.
fn filtered(threads: usize, a: &Csr, block: usize, graph: &Graph, smooth: &[f64]) -> Result<Csr, Error> {
    by_rows(threads, [a.rows(), a.columns()], |range, made| {
        let mut added = vec![0.0; block];
        for i in range {
            let node = i / block;
            let strong = graph.of(node);
            let own = |j: u32| node * block + j as usize % block;
            let is_kept = |j: u32| {
                let other = j as usize / block;
                other == node || strong.binary_search(&(other as u32)).is_ok()
            };
            added.fill(0.0);
            let (column, value) = a.row(i);
            for (&j, value) in column.iter().zip(value).filter(|(j, _)| !is_kept(**j)) {
                added[j as usize % block] += value * smooth[j as usize] / smooth[own(j)];
            }
            for (&j, &value) in column.iter().zip(value).filter(|(j, _)| is_kept(**j)) {
                let more = if j as usize / block == node { added[j as usize % block] } else { 0.0 };
                made.push(j, value + more);
            }
            made.end_row();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::aggregate::{aggregate, strong};
    use super::*;
    use crate::generate::{Elasticity, Elements, Flow, elasticity, flow};

    #[test]
    fn what_is_left_out_does_not_change_products_with_the_smooth_vector() -> Result<(), Error> {
        let flow = flow(&Flow { cells: [9, 8, 17], ..Flow::default() })?;
        let solid = elasticity(&Elasticity { elements: Elements([5, 5, 4]), ..Elasticity::default() })?;
        for (a, block, strength) in [(flow, 1, 0.08), (solid, 3, 0.2)] {
            let smooth: Vec<f64> = (0..a.rows()).map(|i| 1.0 + (i * 7 % 5) as f64).collect();
            let graph = strong(&a, block, strength);
            let left = filtered(2, &a, block, &graph, &smooth)?;
            assert!(left.nonzeros() < a.nonzeros(), "{block}");
            let (mut before, mut after) = (vec![0.0; a.rows()], vec![0.0; a.rows()]);
            a.multiply(&smooth, &mut before)?;
            left.multiply(&smooth, &mut after)?;
            for (i, (before, after)) in before.iter().zip(&after).enumerate() {
                let size: f64 = a.row(i).1.iter().map(|value| 5.0 * value.abs()).sum();
                assert!((before - after).abs() <= 1e-14 * size, "{block}, row {i}: {before:e} {after:e}");
            }
            let aggregates = aggregate(&graph);
            let (p, next) = prolongation(2, &a, block, (&graph, &aggregates), &smooth)?;
            assert_eq!(
                (p.rows(), p.columns(), next.len()),
                (a.rows(), next.len(), aggregates.count() * block)
            );
        }
        Ok(())
    }
}
