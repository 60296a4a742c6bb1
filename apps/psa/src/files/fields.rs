//! The fields of a crystal in a folder, beside its basis: `potential.npy` (V, nz x ny x nx) and
//! `weighting.npy` (nz x ny x nx x 37).

use std::path::Path;

use zellige_files::array::Array;

use super::write_array;
use crate::Error;
use crate::body::Body;
use crate::crystal::Crystal;
use crate::fields::Fields;
use crate::grid::Grid;

/// Writes fields into a folder that is there.
///
/// # Errors
/// [`Error::File`].
pub fn write(folder: &Path, fields: &Fields) -> Result<(), Error> {
    let [nx, ny, nz] = fields.grid().nodes();
    write_array(&folder.join("potential.npy"), &[nz, ny, nx], fields.potential().iter().copied())?;
    let sides = [nz, ny, nx, fields.contacts()];
    write_array(&folder.join("weighting.npy"), &sides, fields.weighting().iter().copied())
}

/// Whether a folder holds fields.
pub fn are_there(folder: &Path) -> bool {
    ["potential.npy", "weighting.npy"].iter().all(|name| folder.join(name).exists())
}

/// Reads the fields of a crystal on a grid with this distance of nodes (mm) from a folder.
///
/// # Errors
/// [`Error::File`] where they are not there, [`Error::Format`] where they do not fit the grid.
pub fn read(folder: &Path, crystal: &Crystal, step: f64) -> Result<Fields, Error> {
    let grid = Grid::around(crystal, step)?;
    let [nx, ny, nz] = grid.nodes();
    let values =
        |name: &str, sides: &[usize]| Array::open(&folder.join(name))?.sized(&["f4"], sides)?.finite();
    let potential = values("potential.npy", &[nz, ny, nx])?;
    let weighting = values("weighting.npy", &[nz, ny, nx, crystal.contacts()])?;
    Fields::new(grid, crystal.contacts(), potential, weighting)
}
