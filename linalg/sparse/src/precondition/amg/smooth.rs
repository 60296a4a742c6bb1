//! Smoothing of prolongations.

use super::aggregate::Graph;
use super::blocks::Blocks;
use crate::precondition::chebyshev::largest_eigenvalue;
use zellige_krylov::Error;

/// Lower bound of a filtered diagonal entry, relative to the original one.
const LEAST: f64 = 0.25;

/// Returns the matrix that smooths a tentative prolongation: `I - omega D^-1 A_F` with `omega = 4 /
/// (3 lambda)` and `A_F` the matrix without weak couplings (Vanek, Mandel and Brezina 1996,
/// equations 21 and 22).
///
/// # Errors
/// [`Error::Memory`].
pub fn prolongation_smoother(
    threads: usize,
    a: &Blocks,
    graph: &Graph,
    constants: &[f64],
) -> Result<Blocks, Error> {
    let size = a.size()[0];
    let mut filtered = filtered(threads, a, graph, constants)?;
    let mut inverse = Vec::with_capacity(constants.len());
    for node in 0..a.rows() {
        let [kept, whole] = [&filtered, a].map(|a| a.get(node, node));
        let entry = |block: Option<&[f64]>, i: usize| block.map_or(0.0, |block| block[i * size + i].abs());
        // If hardly any coupling is strong, the bound keeps the divisor away from zero.
        inverse.extend((0..size).map(|i| 1.0 / entry(kept, i).max(LEAST * entry(whole, i))));
    }
    let largest = largest_eigenvalue(threads, &filtered.csr()?, &inverse).max(f64::MIN_POSITIVE);
    let omega = 4.0 / (3.0 * largest);
    filtered.map_blocks(|i, j, block| {
        for (at, value) in block.iter_mut().enumerate() {
            let identity = if i == j && at / size == at % size { 1.0 } else { 0.0 };
            *value = identity - omega * inverse[i * size + at / size] * *value;
        }
    });
    Ok(filtered)
}

/// Returns the matrix without weak couplings; they are added to the node's own block so that
/// products with the constants do not change.
fn filtered(threads: usize, a: &Blocks, graph: &Graph, constants: &[f64]) -> Result<Blocks, Error> {
    let size = a.size()[0];
    Blocks::by_rows(threads, [a.rows(); 2], a.size(), |range, made| {
        let (mut own, mut sum) = (vec![0.0; size * size], vec![0.0; size * size]);
        for node in range {
            let strong = graph.of(node);
            let is_kept = |other: usize| other == node || strong.binary_search(&(other as u32)).is_ok();
            sum.fill(0.0);
            for (other, block) in a.row(node).filter(|(other, _)| !is_kept(*other)) {
                for (at, (sum, value)) in sum.iter_mut().zip(block).enumerate() {
                    let component = at % size;
                    *sum += value * constants[other * size + component] / constants[node * size + component];
                }
            }
            for (other, block) in a.row(node).filter(|(other, _)| is_kept(*other)) {
                if other == node {
                    own.iter_mut().zip(block).zip(&sum).for_each(|((own, value), sum)| *own = value + sum);
                    made.push(other as u32, &own);
                } else {
                    made.push(other as u32, block);
                }
            }
            made.end_row();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::aggregate::strong;
    use super::*;
    use crate::generate::{Elasticity, Elements, Flow, elasticity, flow};

    #[test]
    fn products_with_the_constants_stay_without_weak_couplings() -> Result<(), Error> {
        let flow = flow(&Flow { cells: [9, 8, 17], ..Flow::default() })?;
        let solid = elasticity(&Elasticity { elements: Elements([5, 5, 4]), ..Elasticity::default() })?;
        for (a, block, strength) in [(flow, 1, 0.08), (solid, 3, 0.2)] {
            let constants: Vec<f64> = (0..a.rows()).map(|i| 1.0 + (i * 7 % 5) as f64).collect();
            let blocks = Blocks::of(2, &a, block)?;
            let left = filtered(2, &blocks, &strong(&blocks, strength), &constants)?.csr()?;
            assert!(left.nonzeros() < a.nonzeros(), "{block}");
            let (mut before, mut after) = (vec![0.0; a.rows()], vec![0.0; a.rows()]);
            a.multiply(&constants, &mut before)?;
            left.multiply(&constants, &mut after)?;
            for (i, (before, after)) in before.iter().zip(&after).enumerate() {
                let size: f64 = a.row(i).1.iter().map(|value| 5.0 * value.abs()).sum();
                assert!((before - after).abs() <= 1e-14 * size, "{block}, row {i}: {before:e} {after:e}");
            }
        }
        Ok(())
    }
}
