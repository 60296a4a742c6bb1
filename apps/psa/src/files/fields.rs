//! Format of the fields of a crystal in the folder of its basis: `potential.npy` (V, nz x ny x nx)
//! and `weighting.npy` (nz x ny x nx x 37).

use std::path::Path;

use zellige_files::array::Array;

use super::write_array;
use crate::Error;
use crate::body::Body;
use crate::crystal::Crystal;
use crate::fields::Fields;
use crate::grid::Grid;

/// Writes fields into an existing folder.
///
/// # Errors
/// [`Error::File`].
pub fn write(folder: &Path, fields: &Fields) -> Result<(), Error> {
    let [nx, ny, nz] = fields.grid().nodes();
    write_array(&folder.join("potential.npy"), &[nz, ny, nx], fields.potential().iter().copied())?;
    let sides = [nz, ny, nx, fields.contacts()];
    write_array(&folder.join("weighting.npy"), &sides, fields.weighting().iter().copied())
}

/// Returns whether a folder holds fields.
pub fn are_there(folder: &Path) -> bool {
    ["potential.npy", "weighting.npy"].iter().all(|name| folder.join(name).exists())
}

/// Reads the fields of a crystal from a folder. `step` is the distance of the grid's nodes (mm).
///
/// # Errors
/// [`Error::File`] if they are missing, or if they do not match the grid.
pub fn read(folder: &Path, crystal: &Crystal, step: f64) -> Result<Fields, Error> {
    let grid = Grid::around(crystal, step)?;
    let [nx, ny, nz] = grid.nodes();
    let values =
        |name: &str, sides: &[usize]| Array::open(&folder.join(name))?.sized(&["f4"], sides)?.finite();
    let potential = values("potential.npy", &[nz, ny, nx])?;
    let weighting = values("weighting.npy", &[nz, ny, nx, crystal.contacts()])?;
    Fields::new(grid, crystal.contacts(), potential, weighting)
}
