//! Generated matrices of the kinds in the thesis' collection: of any size, and without a file.
//!
//! | function | problem | unknowns |
//! |---|---|---|
//! | [`flow`] | flow through rock whose permeability varies over many decades | one a cell |
//! | [`transport`] | flow with a stream through it; not symmetric | one a cell |
//! | [`elasticity`] | layered rock under load, clamped at the bottom | three a node |
//! | [`biot`] | consolidation: rock and the water in it; indefinite | three a node, then one a node |
//! | [`stokes`] | slow flow with a viscosity that varies; indefinite | four a node |
//!
//! Finite elements are trilinear hexahedra. Coefficients that vary in space are `10^(s g)` with a
//! Gaussian field `g` of mean 0 and variance 1: normal numbers (Ziggurat method on ChaCha8 of a
//! seed), smoothed along each axis with a Gaussian of standard deviation 4, 4 and 2 cells, cut off
//! at four standard deviations and reflected at the ends. Entries that cancel except for rounding
//! are kept: finite-element matrices have such tiny entries.

mod elements;
mod field;
mod grid;
mod solids;

pub use elements::{Elements, Stokes, stokes};
pub use grid::{Flow, Transport, flow, transport};
pub use solids::{Biot, Elasticity, biot, coordinates, elasticity};

use zellige_krylov::Error;

/// Maximum number of cells: the unknowns of more cells cannot be numbered with 32 bits.
const MOST_CELLS: usize = 1 << 29;

/// Bytes of a nonzero: column and value.
const ELEMENT: usize = 12;

/// Returns the number of cells; the rows of each cell have `elements` nonzeros.
fn check_cells(cells: [usize; 3], elements: usize) -> Result<usize, Error> {
    let all = cells.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
    let [x, y, z] = cells;
    let all = all.filter(|all| (1..=MOST_CELLS).contains(all)).ok_or_else(|| {
        Error::parameter("cells", format!("{x} x {y} x {z}: at least one each, at most {MOST_CELLS} in all"))
    })?;
    // Fields and the first nonzeros of rows take additional memory.
    let bytes = all as u64 * (elements * ELEMENT + 4 * size_of::<f64>()) as u64;
    Error::if_too_large(|| format!("a matrix of {x} x {y} x {z} cells"), bytes)?;
    Ok(all)
}

/// Refuses a time step that is not positive.
fn check_step(step: f64) -> Result<(), Error> {
    if step.is_finite() && step > 0.0 {
        return Ok(());
    }
    Err(Error::parameter("step", format!("{step} is not a time step: use a positive number of seconds")))
}

#[cfg(test)]
mod tests;
