//! Finite volumes on a grid of cells.

use super::{check_cells, check_step, field};
use crate::csr::Csr;
use zellige_krylov::Error;

/// Area over distance of the faces across each axis: cells are flat.
const GEOMETRY: [f64; 3] = [0.1, 0.1, 1.0];

/// Maximum number of nonzeros of a row: a cell and its neighbours.
const NEIGHBOURS: usize = 7;

/// Single-phase flow: two-point fluxes between cells of permeability `10^(spread g)`, fixed
/// pressure at both ends of the first axis.
///
/// The default has 3 179 000 unknowns, 22 120 400 nonzeros and magnitudes over about 14 decades.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Cells along each axis.
    pub cells: [usize; 3],
    /// Decades of the permeability's standard deviation.
    pub spread: f64,
    /// Seed of the random field.
    pub seed: u64,
}

impl Default for Flow {
    fn default() -> Self {
        Flow { cells: [170, 170, 110], spread: 1.5, seed: 1 }
    }
}

/// Flow with upwind transport: the matrix of [`Flow`], a stream along all three axes and the
/// identity of one time step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transport {
    /// The conducting part; a smaller spread than that of flow alone.
    pub flow: Flow,
    /// Decades of the stream's standard deviation along the first axis; a tenth of it flows along
    /// the others.
    pub stream: f64,
    /// Length of a time step: `1 / step` is added to the diagonal.
    pub step: f64,
}

impl Default for Transport {
    fn default() -> Self {
        Transport { flow: Flow { cells: [70, 70, 60], spread: 0.8, seed: 1 }, stream: 1.0, step: 1.0 }
    }
}

/// Returns the symmetric positive definite matrix of [`Flow`], the last axis fastest.
///
/// Off-diagonal entries are `-T` with `T = 2 geometry K1 K2 / (K1 + K2)`; both ends of the first
/// axis add `2 geometry K`.
///
/// # Errors
/// [`Error::Parameter`] for no cells or too many.
pub fn flow(problem: &Flow) -> Result<Csr, Error> {
    volumes(problem, |_, _| 0.0, 0.0)
}

/// Returns the matrix of [`Transport`]: not symmetric, diagonally dominant by columns.
///
/// # Errors
/// Those of [`flow`], and [`Error::Parameter`] for a step that is not positive.
pub fn transport(problem: &Transport) -> Result<Csr, Error> {
    check_step(problem.step)?;
    check_cells(problem.flow.cells, NEIGHBOURS)?;
    let speed: Vec<f64> = field::gaussian(problem.flow.cells, problem.flow.seed.wrapping_add(1))
        .iter()
        .map(|g| 10f64.powf(problem.stream * g))
        .collect();
    volumes(
        &problem.flow,
        |axis, cell| if axis == 0 { speed[cell] } else { 0.1 * speed[cell] },
        1.0 / problem.step,
    )
}

/// Returns the matrix of two-point fluxes, of the outflow of each cell along each axis, and of a
/// term added to the diagonal.
fn volumes(problem: &Flow, stream: impl Fn(usize, usize) -> f64, added: f64) -> Result<Csr, Error> {
    let all = check_cells(problem.cells, NEIGHBOURS)?;
    let permeability: Vec<f64> =
        field::gaussian(problem.cells, problem.seed).iter().map(|g| 10f64.powf(problem.spread * g)).collect();
    let [nx, ny, nz] = problem.cells;
    let strides = [ny * nz, nz, 1];
    let between = |axis: usize, a: usize, b: usize| {
        let (a, b) = (permeability[a], permeability[b]);
        2.0 * GEOMETRY[axis] * a * b / (a + b)
    };
    let (mut starts, mut column, mut value) = (Vec::with_capacity(all + 1), Vec::new(), Vec::new());
    column.reserve_exact(NEIGHBOURS * all);
    value.reserve_exact(NEIGHBOURS * all);
    starts.push(0);
    for cell in 0..all {
        let place = [cell / strides[0], cell / strides[1] % ny, cell % nz];
        let mut diagonal = added;
        let mut put = |j: usize, a: f64| {
            column.push(j as u32);
            value.push(a);
        };
        for axis in 0..3 {
            if place[axis] > 0 {
                let other = cell - strides[axis];
                let conducted = between(axis, other, cell);
                diagonal += conducted;
                put(other, -conducted - stream(axis, other));
            }
        }
        put(cell, 0.0); // filled in below
        for axis in (0..3).rev() {
            // The stream continues, also out of the last cell.
            diagonal += stream(axis, cell);
            if place[axis] + 1 < [nx, ny, nz][axis] {
                let other = cell + strides[axis];
                let conducted = between(axis, cell, other);
                diagonal += conducted;
                put(other, -conducted);
            }
        }
        let ends = usize::from(place[0] == 0) + usize::from(place[0] + 1 == nx);
        diagonal += ends as f64 * 2.0 * GEOMETRY[0] * permeability[cell];
        let row = *starts.last().expect("the first row begins at 0");
        let own = column[row..].iter().position(|&j| j as usize == cell).expect("it was put");
        value[row + own] = diagonal;
        starts.push(column.len());
    }
    Csr::new(all, starts, column, value)
}
