//! Regular grids and trilinear interpolation between their nodes.

use crate::Error;
use crate::body::{Body, Vec3};

/// A regular grid: nodes along the axes, at multiples of one spacing.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    first: [i64; 3],
    nodes: [usize; 3],
    step: f64,
}

/// Position of a point relative to the nodes of a grid.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Node before the point along every axis.
    pub node: usize,
    /// Offset from that node along each axis, as a fraction of the grid spacing.
    pub shares: [f32; 3],
}

/// Grids of more nodes than this are refused: their fields take more than 30 GB.
const MOST: f64 = 2e8;

impl Grid {
    /// Creates the grid with nodes `step` (mm) apart that covers a body, with one more node on each
    /// side.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a step that is not positive, or too small for the body.
    pub fn around(body: &dyn Body, step: f64) -> Result<Grid, Error> {
        let wrong = |problem| Error::Parameter { name: "grid", problem };
        if !(step > 0.0 && step.is_finite()) {
            return Err(wrong(format!("{step} mm: give a distance above 0")));
        }
        let ends = body.bounds().map(|[from, to]| [(from / step).floor() - 1.0, (to / step).ceil() + 1.0]);
        let count: f64 = ends.iter().map(|[from, to]| to - from + 1.0).product();
        if count.is_nan() || count > MOST {
            return Err(wrong(format!("{step} mm: {count:.0} nodes; take a larger distance")));
        }
        Ok(Grid {
            first: ends.map(|[from, _]| from as i64),
            nodes: ends.map(|[from, to]| (to - from) as usize + 1),
            step,
        })
    }

    /// Returns the distance of neighbouring nodes (mm).
    pub fn step(&self) -> f64 {
        self.step
    }

    /// Returns the number of nodes along x, y and z. Node `(i, j, k)` has the number `(k ny + j)
    /// nx + i`.
    pub fn nodes(&self) -> [usize; 3] {
        self.nodes
    }

    /// Returns the number of all nodes.
    #[allow(clippy::len_without_is_empty)] // a grid without nodes is none
    pub fn len(&self) -> usize {
        self.nodes.iter().product()
    }

    /// Returns the difference of the numbers of two neighbouring nodes along an axis.
    pub fn stride(&self, axis: usize) -> usize {
        self.nodes[..axis].iter().product()
    }

    /// Returns the indices of a node along the axes.
    pub fn place(&self, node: usize) -> [usize; 3] {
        let [nx, ny, _] = self.nodes;
        [node % nx, node / nx % ny, node / (nx * ny)]
    }

    /// Returns the position of a node (mm).
    pub fn position(&self, node: usize) -> Vec3 {
        let place = self.place(node);
        std::array::from_fn(|axis| (self.first[axis] + place[axis] as i64) as f64 * self.step)
    }

    /// Returns the neighbour of a node along an axis, forwards or backwards; `None` beyond the end
    /// of the grid.
    pub fn neighbour(&self, node: usize, axis: usize, forwards: bool) -> Option<usize> {
        let place = self.place(node)[axis];
        match forwards {
            true => (place + 1 < self.nodes[axis]).then(|| node + self.stride(axis)),
            false => (place > 0).then(|| node - self.stride(axis)),
        }
    }

    /// Returns the cell of a point (mm). A point outside the grid is extrapolated from the nearest
    /// cell.
    pub fn cell(&self, point: Vec3) -> Cell {
        let (mut node, mut shares) = (0, [0.0; 3]);
        for axis in (0..3).rev() {
            let at = point[axis] / self.step - self.first[axis] as f64;
            let place = (at.floor().max(0.0) as usize).min(self.nodes[axis] - 2);
            node = node * self.nodes[axis] + place;
            shares[axis] = (at - place as f64) as f32;
        }
        Cell { node, shares }
    }

    /// Returns the eight nodes of a cell with their trilinear weights.
    pub fn corners(&self, cell: &Cell) -> [(usize, f32); 8] {
        let [x, y, z] = cell.shares;
        std::array::from_fn(|corner| {
            let (mut node, mut weight) = (cell.node, 1.0);
            for (axis, share) in [x, y, z].into_iter().enumerate() {
                if corner >> axis & 1 == 1 {
                    node += self.stride(axis);
                    weight *= share;
                } else {
                    weight *= 1.0 - share;
                }
            }
            (node, weight)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of germanium that is all contact 0.
    #[derive(Debug)]
    struct SolidBody;

    impl Body for SolidBody {
        fn bounds(&self) -> [[f64; 2]; 3] {
            [[-3.2, 4.0], [0.0, 2.0], [1.5, 9.0]]
        }
        fn reflects(&self) -> [[bool; 2]; 3] {
            [[false; 2]; 3]
        }
        fn contains(&self, _: Vec3) -> bool {
            true
        }
        fn contacts(&self) -> usize {
            1
        }
        fn contact(&self, _: Vec3) -> usize {
            0
        }
    }

    #[test]
    fn linear_functions_are_met() {
        let grid = Grid::around(&SolidBody, 0.5).expect("a grid");
        let linear = |[x, y, z]: Vec3| 1.0 + 2.0 * x - 3.0 * y + 0.5 * z;
        for point in [[-3.1, 0.3, 1.6], [3.99, 1.99, 8.99], [0.0, 1.0, 2.0]] {
            let corners = grid.corners(&grid.cell(point));
            let sum: f64 =
                corners.iter().map(|&(node, weight)| f64::from(weight) * linear(grid.position(node))).sum();
            assert!((sum - linear(point)).abs() < 1e-5, "{point:?}: {sum}");
        }
        let node = grid.cell([0.1, 0.1, 2.1]).node;
        assert_eq!(grid.position(node), [0.0, 0.0, 2.0]);
        assert_eq!(grid.neighbour(node, 2, true).map(|n| grid.position(n)), Some([0.0, 0.0, 2.5]));
        assert_eq!(grid.neighbour(0, 0, false), None);
        assert!(Grid::around(&SolidBody, 0.0).is_err() && Grid::around(&SolidBody, 1e-4).is_err());
    }
}
