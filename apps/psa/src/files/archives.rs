//! Arrays of bases and events in one file: an archive (npz), or HDF5 where the crate is built with the feature `hdf5`.
//!
//! They are called as the files of a folder are: `signals`, `positions`, `segments`, and for events `energies` and `timestamps`. What is in an
//! archive says nothing of sampling and origin, so that it takes the place of single arrays, not of a folder.

use std::path::Path;

use zellige_files::array::npz;

use super::not_written;
use crate::Error;
use crate::basis::Basis;
use crate::channels::{CHANNELS, Segment};
use crate::events::Events;

fn numbers(segments: &[Segment]) -> Vec<u8> {
    segments.iter().map(|segment| segment.index() as u8).collect()
}

/// Puts the arrays of a basis: `signals` (points x 37 x samples), `positions` (mm, points x 3), `segments` (0 to 35, points).
macro_rules! put_basis {
    ($to:ident, $basis:ident) => {{
        let points = $basis.positions().len();
        $to.put("positions", &[points, 3], $basis.positions().as_flattened())?;
        $to.put("segments", &[points], &numbers($basis.segments()))?;
        $to.put("signals", &[points, CHANNELS, $basis.sampling().samples], $basis.values())
    }};
}

/// Puts the arrays of events: `signals` (keV, events x 37 x samples), `energies` (keV), `positions` (mm) and `segments` by event and hit,
/// `timestamps` (ns).
macro_rules! put_events {
    ($to:ident, $events:ident) => {{
        let (count, hits) = ($events.count(), $events.hits);
        $to.put("energies", &[count, hits], &$events.energies)?;
        $to.put("positions", &[count, hits, 3], $events.positions.as_flattened())?;
        $to.put("segments", &[count, hits], &numbers(&$events.segments))?;
        $to.put("timestamps", &[count], &$events.timestamps)?;
        $to.put("signals", &[count, CHANNELS, $events.sampling.samples], &$events.signals)
    }};
}

/// Writes the arrays of a basis into an archive: `signals` (points x 37 x samples), `positions` (mm, points x 3), `segments` (0 to 35, points).
///
/// # Errors
/// [`Error::File`]; nothing is left behind. So for all functions here.
pub fn write_basis(path: &Path, basis: &Basis) -> Result<(), Error> {
    npz::Writer::write(path, |to| put_basis!(to, basis)).map_err(|error| not_written(path, error))
}

/// Writes the arrays of events into an archive: `signals` (keV, events x 37 x samples), `energies` (keV), `positions` (mm) and `segments` by event
/// and hit, `timestamps` (ns).
pub fn write_events(path: &Path, events: &Events) -> Result<(), Error> {
    npz::Writer::write(path, |to| put_events!(to, events)).map_err(|error| not_written(path, error))
}

/// [`write_basis`] into an HDF5 file.
#[cfg(feature = "hdf5")]
pub fn write_basis_hdf5(path: &Path, basis: &Basis) -> Result<(), Error> {
    let written = zellige_files::array::hdf5::Writer::write(path, |to| put_basis!(to, basis));
    written.map_err(|error| not_written(path, error))
}

/// [`write_events`] into an HDF5 file.
#[cfg(feature = "hdf5")]
pub fn write_events_hdf5(path: &Path, events: &Events) -> Result<(), Error> {
    let written = zellige_files::array::hdf5::Writer::write(path, |to| put_events!(to, events));
    written.map_err(|error| not_written(path, error))
}
