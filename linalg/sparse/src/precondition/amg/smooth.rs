//! Smoothing of prolongations.

use super::aggregate::Graph;
use super::blocks::{Blocks, abs_sums, multiply_rows, product_of_rows};
use crate::precondition::chebyshev::{Rows, largest_eigenvalue};
use zellige_krylov::Error;

/// Lower bound of a filtered diagonal entry, relative to the original one.
const LEAST: f64 = 0.25;

/// A matrix that smooths tentative prolongations: `I - omega D^-1 A_F` with `omega = 4 / (3
/// lambda)` and `A_F` the matrix without weak couplings (Vanek, Mandel and Brezina 1996, equations
/// 21 and 22). Only its diagonal blocks are stored, since a copy of the matrix would take longer
/// to make than to use.
#[derive(Debug)]
pub struct ProlongationSmoother {
    graph: Graph,
    /// Diagonal blocks of `A_F`.
    own: Vec<f64>,
    /// `omega D^-1`.
    turn: Vec<f64>,
}

impl ProlongationSmoother {
    /// Creates the smoother of a matrix with this graph of strong couplings.
    pub fn new(threads: usize, a: &Blocks, graph: Graph, constants: &[f64]) -> ProlongationSmoother {
        let size = a.size()[0];
        let own = own_blocks(a, &graph, constants);
        let mut turn = Vec::with_capacity(constants.len());
        for (node, own) in own.chunks_exact(size * size).enumerate() {
            let whole = a.get(node, node);
            let entry = |i: usize| whole.map_or(0.0, |block| block[i * size + i].abs());
            // If hardly any coupling is strong, the bound keeps the divisor away from zero.
            turn.extend((0..size).map(|i| 1.0 / own[i * size + i].abs().max(LEAST * entry(i))));
        }
        let filtered = Filtered { a, graph: &graph, own: &own };
        let largest = largest_eigenvalue(threads, &filtered, &turn).max(f64::MIN_POSITIVE);
        let omega = 4.0 / (3.0 * largest);
        turn.iter_mut().for_each(|turn| *turn *= omega);
        ProlongationSmoother { graph, own, turn }
    }

    /// Returns the smoothed prolongation of a tentative one, which has one block in each row.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn smoothed(&self, threads: usize, a: &Blocks, tentative: &Blocks) -> Result<Blocks, Error> {
        let filtered = Filtered { a, graph: &self.graph, own: &self.own };
        let [size, columns] = tentative.size();
        let finish = |i: usize, j: usize, block: &mut [f64]| {
            let turn = &self.turn[i * size..(i + 1) * size];
            for (row, turn) in block.chunks_exact_mut(columns).zip(turn) {
                row.iter_mut().for_each(|value| *value *= -turn);
            }
            if let Some(tentative) = tentative.get(i, j) {
                block.iter_mut().zip(tentative).for_each(|(value, tentative)| *value += tentative);
            }
        };
        let sizes = [size, size, columns];
        product_of_rows(threads, a.rows(), sizes, |i| filtered.row(i), tentative, |_| 0, finish)
    }
}

/// A matrix without weak couplings; they are added to the node's own block so that products with
/// the constants do not change.
struct Filtered<'a> {
    a: &'a Blocks,
    graph: &'a Graph,
    own: &'a [f64],
}

impl<'a> Filtered<'a> {
    /// Returns the block columns and the blocks of a row, in increasing order.
    #[inline(always)]
    fn row(&self, node: usize) -> impl Iterator<Item = (usize, &'a [f64])> {
        let area = self.a.size()[0].pow(2);
        let own = &self.own[node * area..(node + 1) * area];
        let mut strong = self.graph.of(node);
        self.a.row(node).filter_map(move |(other, block)| {
            if other == node {
                return Some((other, own));
            }
            let (&first, rest) = strong.split_first()?;
            (first as usize == other).then(|| {
                strong = rest;
                (other, block)
            })
        })
    }
}

impl Rows for Filtered<'_> {
    fn rows(&self) -> usize {
        Rows::rows(self.a)
    }

    fn block(&self) -> usize {
        self.a.block()
    }

    fn abs_sums(&self, first: usize, sums: &mut [f64]) {
        abs_sums(self.a.size()[0], |node| self.row(node), first, sums);
    }

    fn multiply_rows(&self, first: usize, x: &[f64], y: &mut [f64]) {
        multiply_rows(self.a.size()[0], |node| self.row(node), first, x, y);
    }
}

/// Returns the diagonal blocks of the matrix without weak couplings.
fn own_blocks(a: &Blocks, graph: &Graph, constants: &[f64]) -> Vec<f64> {
    let size = a.size()[0];
    let mut all = vec![0.0; a.rows() * size * size];
    let mut sum = vec![0.0; size * size];
    for (node, own) in all.chunks_exact_mut(size * size).enumerate() {
        sum.fill(0.0);
        let mut strong = graph.of(node);
        for (other, block) in a.row(node) {
            if other == node {
                own.copy_from_slice(block);
            } else if strong.first().is_some_and(|&first| first as usize == other) {
                strong = &strong[1..];
            } else {
                for (at, (sum, value)) in sum.iter_mut().zip(block).enumerate() {
                    let component = at % size;
                    *sum += value * constants[other * size + component] / constants[node * size + component];
                }
            }
        }
        own.iter_mut().zip(&sum).for_each(|(own, sum)| *own += sum);
    }
    all
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
            let graph = strong(&blocks, strength);
            let own = own_blocks(&blocks, &graph, &constants);
            let left = Filtered { a: &blocks, graph: &graph, own: &own };
            let kept: usize = (0..blocks.rows()).map(|node| left.row(node).count()).sum();
            assert!(kept * block * block < a.nonzeros(), "{block}");
            let (mut before, mut after) = (vec![0.0; a.rows()], vec![0.0; a.rows()]);
            a.multiply(&constants, &mut before)?;
            left.multiply_rows(0, &constants, &mut after);
            for (i, (before, after)) in before.iter().zip(&after).enumerate() {
                let size: f64 = a.row(i).1.iter().map(|value| 5.0 * value.abs()).sum();
                assert!((before - after).abs() <= 1e-14 * size, "{block}, row {i}: {before:e} {after:e}");
            }
        }
        Ok(())
    }
}
