//! Trilinear hexahedra on a grid of boxes, and the Stokes problem on them.

use super::{check_cells, field};
use crate::csr::Csr;
use zellige_krylov::Error;

/// Number of finite elements along each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements(pub [usize; 3]);

impl Elements {
    /// Nodes along each axis.
    pub fn nodes(self) -> [usize; 3] {
        self.0.map(|n| n + 1)
    }
}

/// A corner of a finite element: 0 or 1 along each axis.
pub(super) type Corner = [usize; 3];

const CORNERS: [Corner; 8] =
    [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]];

/// Integrals along one axis of a box of length 1, of the two linear functions: of both, of both
/// derivatives, of the first one's derivative.
const MASS: [[f64; 2]; 2] = [[2.0 / 6.0, 1.0 / 6.0], [1.0 / 6.0, 2.0 / 6.0]];
const STIFFNESS: [[f64; 2]; 2] = [[1.0, -1.0], [-1.0, 1.0]];
const CONVECTION: [[f64; 2]; 2] = [[-0.5, -0.5], [0.5, 0.5]];

/// One box.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    /// Number of the box, the last axis fastest.
    pub(super) number: usize,
    /// Lengths of its edges.
    pub(super) edges: [f64; 3],
}

impl Cell {
    /// Returns the integral over the box of `d_i N_a d_j N_b`.
    pub(super) fn gradients(&self, i: usize, j: usize, a: Corner, b: Corner) -> f64 {
        (0..3).map(|axis| self.factor((axis == i, axis == j), axis, a, b)).product()
    }

    /// Returns the integral of `d_i N_a N_b`.
    pub(super) fn gradient(&self, i: usize, a: Corner, b: Corner) -> f64 {
        (0..3).map(|axis| self.factor((axis == i, false), axis, a, b)).product()
    }

    /// Returns the integral of `N_a N_b`.
    pub(super) fn mass(&self, a: Corner, b: Corner) -> f64 {
        (0..3).map(|axis| self.factor((false, false), axis, a, b)).product()
    }

    /// Returns the integral of `grad N_a . grad N_b`.
    pub(super) fn laplacian(&self, a: Corner, b: Corner) -> f64 {
        (0..3).map(|i| self.gradients(i, i, a, b)).sum()
    }

    /// Returns the factor along one axis; `derived` says which of the two functions is
    /// differentiated.
    fn factor(&self, derived: (bool, bool), axis: usize, a: Corner, b: Corner) -> f64 {
        let (h, a, b) = (self.edges[axis], a[axis], b[axis]);
        match derived {
            (false, false) => MASS[a][b] * h,
            (true, true) => STIFFNESS[a][b] / h,
            (true, false) => CONVECTION[a][b],
            (false, true) => CONVECTION[b][a],
        }
    }
}

/// Returns cell sizes that grow from `edge` by `ratio` along `|t|`, for `n` midpoints of `t` in
/// `[from, 1]`.
pub(super) fn graded(n: usize, edge: f64, ratio: f64, from: f64) -> Vec<f64> {
    let t = |k: usize| from + (1.0 - from) * (k as f64 + 0.5) / n as f64;
    (0..n).map(|k| edge * ratio.powf(t(k).abs())).collect()
}

/// A grid of boxes with `D` unknowns at each node.
pub(super) struct Mesh<const D: usize> {
    elements: Elements,
    edges: [Vec<f64>; 3],
    /// Index of the unknown of each node and component; `u32::MAX` if it is fixed at zero.
    number: Vec<[u32; D]>,
    unknowns: usize,
}

/// Returns the maximum number of nonzeros in a node's rows: as many unknowns as it has, in each of
/// its neighbours and itself.
pub(super) fn elements_of(unknowns: usize) -> usize {
    27 * unknowns * unknowns
}

const FIXED: u32 = u32::MAX;

impl<const D: usize> Mesh<D> {
    /// Creates a mesh whose unknowns are numbered group by group, within each node by node: the
    /// components of a group are neighbours. `is_fixed` gets a node's position and a component.
    pub(super) fn new(
        elements: Elements,
        edges: [Vec<f64>; 3],
        groups: &[&[usize]],
        is_fixed: impl Fn([usize; 3], usize) -> bool,
    ) -> Result<Self, Error> {
        check_cells(elements.nodes(), elements_of(D))?;
        let nodes = elements.nodes();
        let mut number = vec![[FIXED; D]; nodes.iter().product()];
        let mut unknowns = 0;
        for group in groups {
            for (at, number) in number.iter_mut().enumerate() {
                for &component in *group {
                    if !is_fixed(place(at, nodes), component) {
                        number[component] = unknowns;
                        unknowns += 1;
                    }
                }
            }
        }
        Ok(Mesh { elements, edges, number, unknowns: unknowns as usize })
    }

    /// Assembles the matrix whose entries are sums over boxes of `block(cell, a, b)`: rows for the
    /// components at corner `a`, columns for those at `b`. Pairs of components that `is_coupled`
    /// rejects are not stored.
    pub(super) fn assemble(
        &self,
        is_coupled: impl Fn(usize, usize) -> bool,
        block: impl Fn(&Cell, Corner, Corner) -> [[f64; D]; D],
    ) -> Result<Csr, Error> {
        let mut rows: Vec<(u32, usize, usize)> = Vec::with_capacity(self.unknowns);
        for (node, number) in self.number.iter().enumerate() {
            let free = number.iter().enumerate().filter(|&(_, &number)| number != FIXED);
            rows.extend(free.map(|(component, &number)| (number, node, component)));
        }
        rows.sort_unstable();
        let (mut starts, mut column, mut value) = (vec![0], Vec::new(), Vec::new());
        let mut stencil = Stencil { node: usize::MAX, blocks: Vec::new() };
        let mut row: Vec<(u32, f64)> = Vec::new();
        for (_, node, component) in rows {
            if stencil.node != node {
                stencil = self.stencil(node, &block);
            }
            row.clear();
            for (neighbour, block) in &stencil.blocks {
                let columns = self.number[*neighbour].iter().enumerate();
                let stored =
                    columns.filter(|&(other, &number)| number != FIXED && is_coupled(component, other));
                row.extend(stored.map(|(other, &number)| (number, block[component][other])));
            }
            row.sort_unstable_by_key(|&(number, _)| number);
            column.extend(row.iter().map(|&(number, _)| number));
            value.extend(row.iter().map(|&(_, a)| a));
            starts.push(column.len());
        }
        Csr::new(self.unknowns, starts, column, value)
    }

    /// Returns a node's block row.
    fn stencil(&self, node: usize, block: &impl Fn(&Cell, Corner, Corner) -> [[f64; D]; D]) -> Stencil<D> {
        let nodes = self.elements.nodes();
        let at = place(node, nodes);
        let mut blocks: Vec<(usize, [[f64; D]; D])> = Vec::with_capacity(27);
        for a in CORNERS {
            // The box that has the node as its corner a.
            let Some(cell) = self.cell([0, 1, 2].map(|axis| at[axis].wrapping_sub(a[axis]))) else {
                continue;
            };
            for b in CORNERS {
                let other = [0, 1, 2].map(|axis| at[axis] + b[axis] - a[axis]);
                let other = (other[0] * nodes[1] + other[1]) * nodes[2] + other[2];
                let added = block(&cell, a, b);
                match blocks.iter_mut().find(|(there, _)| *there == other) {
                    Some((_, sum)) => {
                        for (sum, added) in sum.as_flattened_mut().iter_mut().zip(added.as_flattened()) {
                            *sum += added;
                        }
                    }
                    None => blocks.push((other, added)),
                }
            }
        }
        Stencil { node, blocks }
    }

    fn cell(&self, at: [usize; 3]) -> Option<Cell> {
        let [x, y, z] = self.elements.0;
        if at[0] >= x || at[1] >= y || at[2] >= z {
            return None;
        }
        Some(Cell {
            number: (at[0] * y + at[1]) * z + at[2],
            edges: [self.edges[0][at[0]], self.edges[1][at[1]], self.edges[2][at[2]]],
        })
    }
}

/// The blocks of one node's rows.
struct Stencil<const D: usize> {
    node: usize,
    blocks: Vec<(usize, [[f64; D]; D])>,
}

fn place(node: usize, nodes: [usize; 3]) -> [usize; 3] {
    [node / (nodes[1] * nodes[2]), node / nodes[2] % nodes[1], node % nodes[2]]
}

/// Slow flow of a fluid of variable viscosity, at rest at the bottom: velocities and pressures in
/// trilinear elements, stabilised by a Laplacian of pressure times `h_min^2 / (12 viscosity)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stokes {
    /// Number of finite elements along each axis.
    pub elements: Elements,
    /// Decades of the viscosity's standard deviation, around 3.5 mPa s.
    pub spread: f64,
    /// Seed of the random field.
    pub seed: u64,
}

impl Default for Stokes {
    fn default() -> Self {
        Stokes { elements: Elements([25; 3]), spread: 1.0, seed: 1 }
    }
}

/// Returns the symmetric indefinite matrix `[[A, -B^T], [-B, -C]]` with three velocities and a
/// pressure at each node.
///
/// # Errors
/// [`Error::Parameter`] for no finite elements or too many.
pub fn stokes(problem: &Stokes) -> Result<Csr, Error> {
    const PRESSURE: usize = 3;
    let cells = problem.elements.0;
    check_cells(cells, elements_of(4))?;
    let viscosity: Vec<f64> = field::gaussian(cells, problem.seed)
        .iter()
        .map(|g| 3.5e-3 * 10f64.powf(problem.spread * g))
        .collect();
    let edges = [(0, -1.0), (1, -1.0), (2, 0.0)].map(|(axis, from)| graded(cells[axis], 1e-3, 5.0, from));
    let is_at_rest = |at: [usize; 3], component| component != PRESSURE && at[2] == 0;
    let mesh = Mesh::<4>::new(problem.elements, edges, &[&[0, 1, 2, PRESSURE]], is_at_rest)?;
    let is_coupled = |i: usize, j: usize| i == j || i == PRESSURE || j == PRESSURE;
    mesh.assemble(is_coupled, |cell, a, b| {
        let mu = viscosity[cell.number];
        let h = cell.edges.iter().fold(f64::INFINITY, |h, edge| h.min(*edge));
        let mut block = [[0.0; 4]; 4];
        for i in 0..3 {
            block[i][i] = mu * cell.laplacian(a, b);
            block[i][PRESSURE] = -cell.gradient(i, a, b);
            block[PRESSURE][i] = -cell.gradient(i, b, a);
        }
        block[PRESSURE][PRESSURE] = -(h * h / (12.0 * mu)) * cell.laplacian(a, b);
        block
    })
}
