//! Aggregation of unknowns for the next level.

use super::blocks::Blocks;

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

    /// Returns the nodes of each aggregate in increasing order, one aggregate after the other, and
    /// where each begins, with the end of the last.
    pub fn members(&self) -> (Vec<u32>, Vec<usize>) {
        let mut starts = vec![0; self.count + 1];
        self.of.iter().for_each(|&aggregate| starts[aggregate as usize + 1] += 1);
        (0..self.count).for_each(|aggregate| starts[aggregate + 1] += starts[aggregate]);
        let (mut next, mut nodes) = (starts.clone(), vec![0; self.of.len()]);
        for (node, &aggregate) in self.of.iter().enumerate() {
            nodes[next[aggregate as usize]] = node as u32;
            next[aggregate as usize] += 1;
        }
        (nodes, starts)
    }

    /// Returns the aggregate of a node.
    pub fn of(&self, node: usize) -> u32 {
        self.of[node]
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
pub fn strong(a: &Blocks, strength: f64) -> Graph {
    let norm = |block: &[f64]| block.iter().map(|value| value * value).sum::<f64>().sqrt();
    let diagonal: Vec<f64> = (0..a.rows()).map(|node| a.get(node, node).map_or(0.0, norm)).collect();
    let mut graph = Graph { starts: vec![0], neighbour: Vec::new() };
    for node in 0..a.rows() {
        for (other, block) in a.row(node).filter(|&(other, _)| other != node) {
            let size = norm(block);
            if size > 0.0 && size > strength * (diagonal[node] * diagonal[other]).sqrt() {
                graph.neighbour.push(other as u32);
            }
        }
        graph.starts.push(graph.neighbour.len());
    }
    graph
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Elasticity, Elements, Flow, elasticity, flow};
    use zellige_krylov::Error;

    #[test]
    fn every_node_is_in_one() -> Result<(), Error> {
        let flow = flow(&Flow { cells: [9, 8, 7], ..Flow::default() })?;
        let solid = elasticity(&Elasticity { elements: Elements([5, 5, 4]), ..Elasticity::default() })?;
        for (a, block) in [(flow, 1), (solid, 3)] {
            let aggregates = aggregate(&strong(&Blocks::of(1, &a, block)?, 0.08));
            assert!(aggregates.count() < a.rows() / block && aggregates.of.len() == a.rows() / block);
            let (mut nodes, starts) = aggregates.members();
            for (aggregate, ends) in starts.windows(2).enumerate() {
                let members = &nodes[ends[0]..ends[1]];
                assert!(!members.is_empty() && members.is_sorted());
                assert!(members.iter().all(|&node| aggregates.of(node as usize) == aggregate as u32));
            }
            nodes.sort_unstable();
            assert!(nodes.iter().enumerate().all(|(i, &node)| i == node as usize));
        }
        Ok(())
    }
}
