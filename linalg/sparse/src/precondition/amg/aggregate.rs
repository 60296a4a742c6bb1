//! Aggregation of unknowns for the next level.

use std::ops::Range;

use crate::csr::Csr;
use zellige_krylov::Error;

/// A partition of nodes (blocks of rows).
#[derive(Debug)]
pub struct Aggregates {
    /// The aggregate of each node.
    of: Vec<u32>,
    count: usize,
}

const NONE: u32 = u32::MAX;

impl Aggregates {
    /// Returns the number of aggregates.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the prolongation whose columns are the parts of a vector on each aggregate,
    /// component by component, divided by their norms. Also returns these norms; the prolongation
    /// maps them to the vector.
    pub fn tentative(&self, block: usize, smooth: &[f64]) -> Result<(Csr, Vec<f64>), Error> {
        let column = |row: usize| self.of[row / block] as usize * block + row % block;
        let mut norms = vec![0.0; self.count * block];
        smooth.iter().enumerate().for_each(|(row, part)| norms[column(row)] += part * part);
        norms.iter_mut().for_each(|norm| *norm = norm.sqrt());
        let value = smooth.iter().enumerate().map(|(row, part)| part / norms[column(row)]).collect();
        let columns = (0..smooth.len()).map(|row| column(row) as u32).collect();
        let prolongation = Csr::new(norms.len(), (0..=smooth.len()).collect(), columns, value)?;
        Ok((prolongation, norms))
    }
}

/// Strong neighbours of each node.
#[derive(Debug)]
pub struct Graph {
    starts: Vec<usize>,
    neighbour: Vec<u32>,
}

impl Graph {
    /// Returns the neighbours of a node in increasing order.
    pub fn of(&self, node: usize) -> &[u32] {
        &self.neighbour[self.starts[node]..self.starts[node + 1]]
    }
}

/// Aggregates nodes along strong couplings: whole neighbourhoods first; the remaining nodes join a
/// neighbouring aggregate, or form one (Vanek, Mandel and Brezina 1996, algorithm 2).
pub fn aggregate(graph: &Graph) -> Aggregates {
    let nodes = graph.starts.len() - 1;
    let (mut of, mut count) = (vec![NONE; nodes], 0);
    for node in 0..nodes {
        let neighbours = graph.of(node);
        if of[node] == NONE && neighbours.iter().all(|&other| of[other as usize] == NONE) {
            of[node] = count;
            neighbours.iter().for_each(|&other| of[other as usize] = count);
            count += 1;
        }
    }
    let whole = of.clone();
    for node in (0..nodes).filter(|&node| whole[node] == NONE) {
        if let Some(&other) = graph.of(node).iter().find(|&&other| whole[other as usize] != NONE) {
            of[node] = whole[other as usize];
        }
    }
    for node in 0..nodes {
        if of[node] == NONE {
            of[node] = count;
            for &other in graph.of(node) {
                if of[other as usize] == NONE {
                    of[other as usize] = count;
                }
            }
            count += 1;
        }
    }
    Aggregates { of, count: count as usize }
}

/// Nodes `i` and `j` with `|A_ij|_F > strength sqrt(|A_ii|_F |A_jj|_F)`.
pub fn strong(a: &Csr, block: usize, strength: f64) -> Graph {
    let nodes = a.rows() / block;
    let rows = |node: usize| -> Range<usize> { node * block..(node + 1) * block };
    let squares = |node: usize| {
        rows(node).flat_map(|i| {
            let (column, value) = a.row(i);
            column.iter().zip(value).map(move |(&j, value)| (j as usize / block, value * value))
        })
    };
    let diagonal: Vec<f64> = (0..nodes)
        .map(|node| {
            squares(node).filter(|&(other, _)| other == node).map(|(_, square)| square).sum::<f64>().sqrt()
        })
        .collect();
    let mut graph = Graph { starts: vec![0], neighbour: Vec::new() };
    let mut sum = vec![0.0; nodes];
    let mut seen = Vec::new();
    for node in 0..nodes {
        for (other, square) in squares(node).filter(|&(other, square)| other != node && square > 0.0) {
            if sum[other] == 0.0 {
                seen.push(other);
            }
            sum[other] += square;
        }
        seen.sort_unstable();
        for other in seen.drain(..) {
            if sum[other].sqrt() > strength * (diagonal[node] * diagonal[other]).sqrt() {
                graph.neighbour.push(other as u32);
            }
            sum[other] = 0.0;
        }
        graph.starts.push(graph.neighbour.len());
    }
    graph
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Elasticity, Elements, Flow, elasticity, flow};

    #[test]
    fn every_node_is_in_one() -> Result<(), Error> {
        let flow = flow(&Flow { cells: [9, 8, 7], ..Flow::default() })?;
        let solid = elasticity(&Elasticity { elements: Elements([5, 5, 4]), ..Elasticity::default() })?;
        for (a, block) in [(flow, 1), (solid, 3)] {
            let aggregates = aggregate(&strong(&a, block, 0.08));
            assert!(aggregates.count() < a.rows() / block && aggregates.of.len() == a.rows() / block);
            let smooth: Vec<f64> = (0..a.rows()).map(|i| 1.0 + (i % 3) as f64).collect();
            let (tentative, norms) = aggregates.tentative(block, &smooth)?;
            assert_eq!((tentative.rows(), tentative.columns()), (a.rows(), aggregates.count() * block));
            let columns = tentative.transposed();
            let sizes: Vec<f64> = columns.iter().map(|(_, v)| v.iter().map(|v| v * v).sum()).collect();
            assert!(sizes.iter().all(|size| (size - 1.0).abs() < 1e-12));
            let mut again = vec![0.0; a.rows()];
            tentative.multiply(&norms, &mut again)?;
            assert!(again.iter().zip(&smooth).all(|(again, smooth)| (again - smooth).abs() < 1e-12));
        }
        Ok(())
    }
}
