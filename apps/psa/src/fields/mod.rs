//! Potentials in the germanium: the electric potential of bias and space charge, and the weighting
//! potential of every contact.
//!
//! The electric potential solves Poisson's equation `div grad V = -rho / eps`. The weighting
//! potentials solve Laplace's equation with 1 on one contact and 0 on the others. All share one
//! matrix and one preconditioner, with one right-hand side each.

mod extend;
mod matrix;
mod nodes;

use zellige_runtime::Runtime;
use zellige_sparse::Stored;
use zellige_sparse::krylov::{Cg, Solve, Space, Stop, solve};
use zellige_sparse::precondition::Amg;

use crate::Error;
use crate::body::{Body, Vec3};
use crate::error::memory_plan;
use crate::grid::Grid;
use crate::observe::Observer;
use extend::Extension;
use matrix::Equations;
use nodes::Nodes;

/// Electric potential and weighting potentials at the nodes of a grid.
///
/// Every point of the germanium is surrounded by eight nodes with values. The values at nodes
/// outside are extrapolated from inside.
#[derive(Clone, Debug, PartialEq)]
pub struct Fields {
    grid: Grid,
    contacts: usize,
    potential: Vec<f32>,
    weighting: Vec<f32>,
}

/// Residual, relative to the right-hand side, to which potentials are solved.
const RESIDUAL: f64 = 1e-7;

/// Limit of the solver's iterations, more than any crystal needs.
const MOST_STEPS: usize = 5000;

/// Boundary value problem of the fields.
pub struct Problem<'p> {
    /// The germanium.
    pub body: &'p dyn Body,
    /// Grid on which potentials are computed.
    pub grid: &'p Grid,
    /// Voltage of each contact (V).
    pub voltages: &'p [f64],
    /// Charge density over permittivity at a point (V/mm2).
    pub charge: &'p dyn Fn(Vec3) -> f64,
}

impl Fields {
    /// Solves for all potentials of a body, one after the other, each by conjugate gradients as a
    /// graph of tasks. The results are identical, to the bit, for any number of workers.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a grid too coarse to have a node inside, [`Error::Solve`] if the
    /// solver fails.
    pub fn solve(rt: &Runtime, problem: &Problem<'_>, observer: &dyn Observer) -> Result<Fields, Error> {
        let Problem { body, grid, voltages, charge } = *problem;
        let contacts = body.contacts();
        check_memory(grid, 0, contacts)?;
        let nodes = Nodes::new(body, grid);
        check_memory(grid, nodes.inside.len(), contacts)?;
        if nodes.inside.is_empty() {
            let problem =
                format!("{} mm: no node lies in the germanium; take a smaller distance", grid.step());
            return Err(Error::Parameter { name: "grid", problem });
        }
        let equations = Equations::new(&nodes)?;
        let solver = Solver::new(rt, &equations)?;
        let extension = Extension::of_potentials(&nodes);
        let whole = |inside: &[f64], at: &dyn Fn(usize) -> f64| {
            let mut values = vec![0.0; grid.len()];
            nodes.inside.iter().zip(inside).for_each(|(&node, &value)| values[node] = value);
            extension.apply(&mut values, at);
            values
        };
        observer.stage("fields", contacts as u64 + 1);
        let charges = |unknown: usize| charge(grid.position(nodes.inside[unknown]));
        let inside = solver.solve(rt, &equations.rhs(|contact| voltages[contact], charges))?;
        let potential = whole(&inside, &|contact| voltages[contact]);
        observer.advance(1);
        let mut weighting = vec![0.0; grid.len() * contacts];
        for contact in 0..contacts {
            let at = |other: usize| f64::from(u8::from(other == contact));
            let inside = solver.solve(rt, &equations.rhs(at, |_| 0.0))?;
            for (node, value) in whole(&inside, &at).into_iter().enumerate() {
                weighting[node * contacts + contact] = value as f32;
            }
            observer.advance(contact as u64 + 2);
        }
        let potential = potential.into_iter().map(|volts| volts as f32).collect();
        Ok(Fields { grid: grid.clone(), contacts, potential, weighting })
    }

    /// Creates fields from values at the nodes of a grid: the potential (V), and the weighting
    /// potentials by node and contact.
    ///
    /// # Errors
    /// [`Error::Shape`] if the lengths do not match.
    pub fn new(
        grid: Grid,
        contacts: usize,
        potential: Vec<f32>,
        weighting: Vec<f32>,
    ) -> Result<Fields, Error> {
        if potential.len() != grid.len() || Some(weighting.len()) != grid.len().checked_mul(contacts) {
            let found = format!("{} and {} values", potential.len(), weighting.len());
            let problem = format!("{found} for {} nodes and {contacts} contacts", grid.len());
            return Err(Error::shape("fields", problem));
        }
        Ok(Fields { grid, contacts, potential, weighting })
    }

    /// Returns the grid.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns the number of contacts.
    pub fn contacts(&self) -> usize {
        self.contacts
    }

    /// Returns the potential at the nodes (V).
    pub fn potential(&self) -> &[f32] {
        &self.potential
    }

    /// Returns the weighting potentials, by node and contact.
    pub fn weighting(&self) -> &[f32] {
        &self.weighting
    }

    /// Writes the weighting potentials at a point of the germanium (mm) to `values`, one for each
    /// contact.
    pub fn weighting_at(&self, point: Vec3, values: &mut [f32]) {
        values.fill(0.0);
        for (node, weight) in self.grid.corners(&self.grid.cell(point)) {
            let of_node = &self.weighting[node * self.contacts..][..self.contacts];
            values.iter_mut().zip(of_node).for_each(|(value, of_node)| *value += weight * of_node);
        }
    }

    /// Returns the potential at a point of the germanium (V).
    pub fn potential_at(&self, point: Vec3) -> f64 {
        let corners = self.grid.corners(&self.grid.cell(point));
        corners.iter().map(|&(node, weight)| f64::from(weight * self.potential[node])).sum()
    }

    /// Returns the electric field at every node, `-grad V` (V/mm): central differences inside,
    /// extrapolated outside.
    pub fn electric(&self, body: &dyn Body) -> Vec<[f32; 3]> {
        let nodes = Nodes::new(body, &self.grid);
        let extension = Extension::of_slopes(&nodes);
        let mut field = vec![[0.0; 3]; self.grid.len()];
        for axis in 0..3 {
            let mut slopes = vec![0.0; self.grid.len()];
            let stride = self.grid.stride(axis);
            for &node in &nodes.inside {
                let ahead = f64::from(self.potential[node + stride]);
                let behind = f64::from(self.potential[node - stride]);
                slopes[node] = (behind - ahead) / (2.0 * self.grid.step());
            }
            extension.apply(&mut slopes, |_| 0.0);
            field.iter_mut().zip(slopes).for_each(|(field, slope)| field[axis] = slope as f32);
        }
        field
    }

    /// Returns the largest difference between 1 and the sum of all weighting potentials at a node
    /// in the germanium, a measure of the solver's error.
    pub fn worst_sum(&self, body: &dyn Body) -> f64 {
        let inside = (0..self.grid.len()).filter(|&node| body.contains(self.grid.position(node)));
        let of_node = |node: usize| &self.weighting[node * self.contacts..][..self.contacts];
        let error = |node| (of_node(node).iter().map(|&value| f64::from(value)).sum::<f64>() - 1.0).abs();
        inside.map(error).fold(0.0, f64::max)
    }
}

/// Bytes of each node of the grid: three temporary potentials, the electric field, and the number
/// of its unknown.
const OF_NODE: u64 = 3 * 8 + 4 + 12 + 8 + 4;
/// Bytes of each unknown: seven nonzeros in two matrices and during their assembly, the levels of
/// the preconditioner, and vectors.
const OF_UNKNOWN: u64 = 3 * 7 * 12 + 40 * 7 + 60 + 24 * 8;

/// Refuses fields that do not fit into memory.
fn check_memory(grid: &Grid, unknowns: usize, contacts: usize) -> Result<(), Error> {
    let nodes = grid.len() as u64;
    let mut plan = memory_plan();
    plan.add(format!("weighting potentials of {nodes} nodes"), 4 * nodes * contacts as u64);
    plan.add("potentials", OF_NODE * nodes);
    plan.add(format!("equations of {unknowns} unknowns"), OF_UNKNOWN * unknowns as u64);
    Ok(plan.check("take a larger distance of the grid's nodes (--grid)")?)
}

/// The matrix and its preconditioner, set up once for all right-hand sides.
struct Solver {
    exact: Stored,
    helper: Amg,
}

impl Solver {
    fn new(rt: &Runtime, equations: &Equations) -> Result<Self, Error> {
        let matrix = &equations.matrix;
        let space = Space::new(matrix.rows(), matrix.bytes());
        let exact = Stored::exact(rt, &space, matrix)?;
        let helper = Amg::new(rt, &space, matrix, 1)?;
        Ok(Solver { exact, helper })
    }

    fn solve(&self, rt: &Runtime, rhs: &[f64]) -> Result<Vec<f64>, Error> {
        let problem = Solve {
            rt,
            exact: &self.exact,
            inner: &self.exact,
            preconditioner: Some(&self.helper),
            reduction: 0.0,
        };
        let mut answer = vec![0.0; rhs.len()];
        let stop = [Stop::RelativeToRhs(RESIDUAL), Stop::Steps(MOST_STEPS)];
        let solution = solve(&problem, &Cg::default(), rhs, &mut answer, &stop[..], &mut ())?;
        match solution.reason.is_converged() {
            true => Ok(answer),
            false => {
                let problem = format!("{} after {} steps", solution.reason.name(), solution.steps);
                Err(Error::Parameter {
                    name: "grid",
                    problem: format!("a potential was not found: {problem}"),
                })
            }
        }
    }
}
