//! Orders of unknowns.

use std::collections::VecDeque;

use crate::csr::Csr;
use zellige_krylov::Error;

/// A permutation of rows and columns: position `i` gets row or column `old[i]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permutation {
    old: Vec<u32>,
}

impl Permutation {
    /// Computes the reverse Cuthill-McKee ordering (Cuthill and McKee 1969; George 1971) on the
    /// pattern of `A + A^T`. Neighbours get close indices, so that products find `x` in caches and
    /// incomplete factors are better. Each component begins at a pseudo-peripheral node (George and
    /// Liu 1979).
    ///
    /// # Errors
    /// [`Error::Shape`] for a matrix that is not square.
    pub fn reverse_cuthill_mckee(a: &Csr) -> Result<Permutation, Error> {
        if a.rows() != a.columns() {
            let problem = format!("{} x {}: only square ones are reordered", a.rows(), a.columns());
            return Err(Error::shape("matrix", problem));
        }
        Error::if_too_large(|| format!("the transpose of {} nonzeros", a.nonzeros()), a.memory())?;
        let graph = Neighbours::of(a);
        let mut order = Vec::with_capacity(a.rows());
        let mut level = vec![UNSEEN; a.rows()];
        for node in 0..a.rows() as u32 {
            if level[node as usize] == UNSEEN {
                let start = graph.far_end(node, &mut level);
                graph.spread(start, &mut level, &mut order);
            }
        }
        order.reverse();
        Ok(Permutation { old: order })
    }

    /// Creates the permutation that moves row or column `old[i]` to position `i`; each index occurs
    /// once.
    pub(crate) fn of(old: Vec<u32>) -> Permutation {
        Permutation { old }
    }

    /// Returns `P A`: columns stay where they are.
    ///
    /// # Errors
    /// [`Error::Shape`] for a matrix of another size.
    pub(crate) fn rows(&self, a: &Csr) -> Result<Csr, Error> {
        self.moved(a, |j| j)
    }

    /// Returns `P A P^T`.
    ///
    /// # Errors
    /// [`Error::Shape`] for a matrix of another size.
    pub fn matrix(&self, a: &Csr) -> Result<Csr, Error> {
        let mut new = vec![0; self.old.len()];
        self.old.iter().enumerate().for_each(|(place, &old)| new[old as usize] = place as u32);
        self.moved(a, |j| new[j as usize])
    }

    /// Returns the rows in the new order, with columns renumbered by `column`.
    fn moved(&self, a: &Csr, column: impl Fn(u32) -> u32) -> Result<Csr, Error> {
        if (a.rows(), a.columns()) != (self.old.len(), self.old.len()) {
            let problem = format!("{} x {} for an order of {}", a.rows(), a.columns(), self.old.len());
            return Err(Error::shape("matrix", problem));
        }
        Error::if_too_large(
            || format!("a matrix of {} nonzeros in another order", a.nonzeros()),
            a.memory(),
        )?;
        let mut starts = Vec::with_capacity(a.rows() + 1);
        starts.push(0);
        let (mut columns, mut values) = (Vec::with_capacity(a.nonzeros()), Vec::with_capacity(a.nonzeros()));
        let mut row: Vec<(u32, f64)> = Vec::new();
        for &old in &self.old {
            let (of_row, value) = a.row(old as usize);
            row.clear();
            row.extend(of_row.iter().zip(value).map(|(&j, &value)| (column(j), value)));
            row.sort_unstable_by_key(|&(j, _)| j);
            columns.extend(row.iter().map(|&(j, _)| j));
            values.extend(row.iter().map(|&(_, value)| value));
            starts.push(columns.len());
        }
        Csr::new(a.columns(), starts, columns, values)
    }

    /// Returns `P v`.
    pub fn vector(&self, v: &[f64]) -> Vec<f64> {
        self.old.iter().map(|&old| v[old as usize]).collect()
    }

    /// Puts `P^T v` into `back`.
    pub fn put_back(&self, v: &[f64], back: &mut [f64]) {
        self.old.iter().zip(v).for_each(|(&old, &value)| back[old as usize] = value);
    }
}

const UNSEEN: u32 = u32::MAX;

/// The pattern of `A + A^T`, two halves that may name a neighbour twice.
struct Neighbours<'a> {
    a: &'a Csr,
    transposed: Csr,
}

impl<'a> Neighbours<'a> {
    fn of(a: &'a Csr) -> Self {
        Neighbours { a, transposed: a.transposed() }
    }

    fn degree(&self, node: u32) -> usize {
        self.a.row(node as usize).0.len() + self.transposed.row(node as usize).0.len()
    }

    fn neighbours(&self, node: u32) -> impl Iterator<Item = u32> {
        let halves = [self.a.row(node as usize).0, self.transposed.row(node as usize).0];
        halves.into_iter().flatten().copied()
    }

    /// Appends everything that can be reached from `start` to `order`, level by level, nodes with
    /// few neighbours first. The number of levels.
    fn spread(&self, start: u32, level: &mut [u32], order: &mut Vec<u32>) -> u32 {
        let mut queue = VecDeque::from([start]);
        level[start as usize] = 0;
        let mut found = Vec::new();
        let mut last = 0;
        while let Some(node) = queue.pop_front() {
            order.push(node);
            last = level[node as usize];
            found.clear();
            for other in self.neighbours(node) {
                if level[other as usize] == UNSEEN {
                    level[other as usize] = last + 1;
                    found.push(other);
                }
            }
            found.sort_unstable_by_key(|&other| (self.degree(other), other));
            queue.extend(&found);
        }
        last
    }

    /// Returns a pseudo-peripheral node of the component. Leaves all of its nodes unvisited.
    fn far_end(&self, start: u32, level: &mut [u32]) -> u32 {
        let (mut here, mut depth) = (start, None);
        loop {
            let mut reached = Vec::new();
            let last = self.spread(here, level, &mut reached);
            let farthest = reached.iter().filter(|&&node| level[node as usize] == last);
            let next = farthest.copied().min_by_key(|&node| (self.degree(node), node)).unwrap_or(here);
            reached.iter().for_each(|&node| level[node as usize] = UNSEEN);
            if depth.is_some_and(|depth| last <= depth) {
                return here;
            }
            (here, depth) = (next, Some(last));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::describe;
    use crate::generate::{Flow, flow};

    /// A matrix whose rows were shuffled gets its narrow band back.
    #[test]
    fn bands_become_narrow_again() -> Result<(), Error> {
        let a = flow(&Flow { cells: [40, 6, 5], ..Flow::default() })?;
        let n = a.rows() as u32;
        let shuffled = Permutation { old: (0..n).map(|i| (i * 347) % n).collect() }.matrix(&a)?;
        let order = Permutation::reverse_cuthill_mckee(&shuffled)?;
        let again = order.matrix(&shuffled)?;
        assert!(describe(&shuffled).bandwidth > 600);
        assert!(describe(&again).bandwidth <= 2 * 30, "{}", describe(&again).bandwidth);
        let x: Vec<f64> = (0..n).map(f64::from).collect();
        let (mut y, mut permuted, mut back) = (vec![0.0; x.len()], vec![0.0; x.len()], vec![0.0; x.len()]);
        shuffled.multiply(&x, &mut y)?;
        again.multiply(&order.vector(&x), &mut permuted)?;
        order.put_back(&permuted, &mut back);
        assert!(y.iter().zip(&back).all(|(y, back)| (y - back).abs() <= 1e-12 * y.abs().max(1e-300)));
        Ok(())
    }

    #[test]
    fn components_follow_one_another() -> Result<(), Error> {
        let a = Csr::from_triplets(5, 5, &[(0, 3, 1.0), (3, 0, 1.0), (1, 1, 1.0), (2, 4, 1.0)])?;
        let mut old = Permutation::reverse_cuthill_mckee(&a)?.old;
        old.sort_unstable();
        assert_eq!(old, [0, 1, 2, 3, 4]);
        Ok(())
    }
}
