//! Layered rock, dry and wet.

use super::elements::elements_of;
use super::elements::{Cell, Corner, Elements, Mesh, graded};
use super::{check_cells, check_step, field};
use crate::csr::Csr;
use zellige_krylov::Error;

/// Poisson's ratio.
const POISSON: f64 = 0.3;

/// Linear elasticity of layers, on boxes that grow fourfold from the middle outwards and from the
/// bottom upwards; the bottom is clamped.
///
/// The default has 324 864 unknowns and 25 225 164 nonzeros.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elasticity {
    /// Number of finite elements along each axis.
    pub elements: Elements,
    /// Decades of the modulus' standard deviation within a layer.
    pub spread: f64,
    /// Seed of the random field.
    pub seed: u64,
}

impl Default for Elasticity {
    fn default() -> Self {
        Elasticity { elements: Elements([47; 3]), spread: 0.3, seed: 1 }
    }
}

/// Consolidation after Biot: rock in three layers, and water that a pressure moves through it, in
/// one time step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Biot {
    /// Number of finite elements along each axis.
    pub elements: Elements,
    /// Decades of the standard deviations: of the modulus within a layer, and of the permeability.
    pub spread: (f64, f64),
    /// Length of the step, in seconds: 1e3 and 1e6 are the thesis' first and last.
    pub step: f64,
    /// Seed of both random fields.
    pub seed: u64,
}

impl Default for Biot {
    fn default() -> Self {
        Biot { elements: Elements([21; 3]), spread: (0.3, 1.5), step: 1e3, seed: 1 }
    }
}

/// Returns Young's modulus of each finite element: that of its layer times `10^(spread g)`.
fn moduli(cells: [usize; 3], layers: &[f64], spread: f64, seed: u64) -> Vec<f64> {
    let mut field = field::gaussian(cells, seed);
    for (at, value) in field.iter_mut().enumerate() {
        let layer = at % cells[2] * layers.len() / cells[2];
        *value = layers[layer] * 10f64.powf(spread * *value);
    }
    field
}

fn edges(cells: [usize; 3]) -> [Vec<f64>; 3] {
    [(0, -1.0), (1, -1.0), (2, 0.0)].map(|(axis, from)| graded(cells[axis], 1.0, 4.0, from))
}

/// Returns `lambda d_i N_a d_j N_b + mu d_j N_a d_i N_b + delta_ij mu grad N_a . grad N_b`, for
/// Young's modulus `modulus`.
fn stiffness(cell: &Cell, modulus: f64, a: Corner, b: Corner) -> [[f64; 3]; 3] {
    let lambda = modulus * POISSON / ((1.0 + POISSON) * (1.0 - 2.0 * POISSON));
    let mu = modulus / (2.0 * (1.0 + POISSON));
    let mut block = [[0.0; 3]; 3];
    for i in 0..3 {
        for j in 0..3 {
            block[i][j] = lambda * cell.gradients(i, j, a, b) + mu * cell.gradients(j, i, a, b);
        }
        block[i][i] += mu * cell.laplacian(a, b);
    }
    block
}

/// Returns the symmetric positive definite matrix of [`Elasticity`], with three unknowns at each
/// node.
///
/// # Errors
/// [`Error::Parameter`] for no finite elements or too many.
pub fn elasticity(problem: &Elasticity) -> Result<Csr, Error> {
    let cells = problem.elements.0;
    check_cells(cells, elements_of(3))?;
    let modulus = moduli(cells, &[1e9, 1e11, 3e8, 1e10], problem.spread, problem.seed);
    let mesh = Mesh::<3>::new(problem.elements, edges(cells), &[&[0, 1, 2]], |at, _| at[2] == 0)?;
    mesh.assemble(|_, _| true, |cell, a, b| stiffness(cell, modulus[cell.number], a, b))
}

/// Returns the coordinates of the nodes of [`elasticity`] along each axis; an edge of the smallest
/// element has length 1.
pub fn coordinates(elements: Elements) -> Vec<Vec<f64>> {
    let sum = |edges: Vec<f64>| {
        let ends = edges.into_iter().scan(0.0, |at, edge| {
            *at += edge;
            Some(*at)
        });
        std::iter::once(0.0).chain(ends).collect::<Vec<f64>>()
    };
    let [x, y, z] = edges(elements.0).map(sum);
    let free = |_: &f64| z[1..].iter();
    let nodes = || x.iter().flat_map(|x| y.iter().flat_map(move |y| free(y).map(move |z| [*x, *y, *z])));
    (0..3).map(|axis| nodes().map(|node| node[axis]).collect()).collect()
}

/// Returns the symmetric indefinite matrix `[[K, Q], [Q^T, -(S + step H)]]` of [`Biot`]: all
/// displacements first, then all pressures.
///
/// # Errors
/// [`Error::Parameter`] for no finite elements or too many, and for a step that is not positive.
pub fn biot(problem: &Biot) -> Result<Csr, Error> {
    const PRESSURE: usize = 3;
    /// Permeability (m^2) over viscosity (Pa s), and storage of water and pores (1/Pa).
    const MOBILITY: f64 = 1e-15 / 1e-3;
    const STORAGE: f64 = 4.5e-10 * 0.2;
    check_step(problem.step)?;
    let cells = problem.elements.0;
    check_cells(cells, elements_of(4))?;
    let modulus = moduli(cells, &[1e9, 1e10, 3e8], problem.spread.0, problem.seed);
    let mobility = moduli(cells, &[MOBILITY], problem.spread.1, problem.seed.wrapping_add(1));
    let is_clamped = |at: [usize; 3], component| component != PRESSURE && at[2] == 0;
    let mesh = Mesh::<4>::new(problem.elements, edges(cells), &[&[0, 1, 2], &[PRESSURE]], is_clamped)?;
    mesh.assemble(
        |_, _| true,
        |cell, a, b| {
            let solid = stiffness(cell, modulus[cell.number], a, b);
            let mut block = [[0.0; 4]; 4];
            for i in 0..3 {
                block[i][..3].copy_from_slice(&solid[i]);
                block[i][PRESSURE] = -cell.gradient(i, a, b);
                block[PRESSURE][i] = -cell.gradient(i, b, a);
            }
            let flow = problem.step * mobility[cell.number] * cell.laplacian(a, b);
            block[PRESSURE][PRESSURE] = -(STORAGE * cell.mass(a, b) + flow);
            block
        },
    )
}
