//! Bases and events as arrays in one file: an archive (npz), or HDF5 if the crate is built with the
//! feature `hdf5`.
//!
//! The arrays have the names of the files of a folder: `signals`, `positions`, `segments`, and for
//! events `energies` and `timestamps`. A basis also has `sampling` (ns between samples, samples
//! before charges move). Such a file can therefore replace a folder if the origin of the basis is
//! not needed.

use std::path::Path;

use zellige_files::array::npz;

use super::arrays::{self, Quantity};
use super::{not_written, segments};
use crate::Error;
use crate::basis::{Basis, Sampling};
use crate::channels::{CHANNELS, Segment};
use crate::events::Events;

fn numbers(segments: &[Segment]) -> Vec<u8> {
    segments.iter().map(|segment| segment.index() as u8).collect()
}

/// Writes the arrays of a basis: `signals` (points x 37 x samples), `positions` (mm, points x 3),
/// `segments` (0 to 35, points), `sampling`.
macro_rules! put_basis {
    ($to:ident, $basis:ident) => {{
        let points = $basis.positions().len();
        $to.put("positions", &[points, 3], $basis.positions().as_flattened())?;
        $to.put("segments", &[points], &numbers($basis.segments()))?;
        let sampling = $basis.sampling();
        $to.put("sampling", &[2], &[sampling.step, sampling.before as f64])?;
        $to.put("signals", &[points, CHANNELS, $basis.sampling().samples], $basis.values())
    }};
}

/// Writes the arrays of events: `signals` (keV, events x 37 x samples), `energies` (keV),
/// `positions` (mm) and `segments` by event and hit, `timestamps` (ns).
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

/// Writes the arrays of a basis into an archive: `signals` (points x 37 x samples), `positions`
/// (mm, points x 3), `segments` (0 to 35, points) and `sampling`.
///
/// # Errors
/// [`Error::File`]; no partial file remains. This holds for all functions of this module.
pub fn write_basis(path: &Path, basis: &Basis) -> Result<(), Error> {
    npz::NpzWriter::write(path, |to| put_basis!(to, basis)).map_err(|error| not_written(path, error))
}

/// Reads the basis of an archive or an HDF5 file, or of a group of such a file. Its arrays are
/// `signals` (points x 37 x samples; 1 is the whole charge, or 16384 in `int16`), `positions` (mm,
/// points x 3), `segments` (0 to 35, points) and `sampling` (ns between samples, samples before
/// charges move). If `signals` is a table of waveforms (LH5), its `dt` and `t0` replace `sampling`:
/// charges move at time 0.
///
/// # Errors
/// [`Error::File`] if the file cannot be read, or for an array that is missing, has
/// another shape or type, or holds an invalid number.
pub fn read_basis(path: &Path) -> Result<Basis, Error> {
    let signals = arrays::open(&path.join("signals"), 3)?;
    let (points, samples) = (signals.sides()[0], signals.sides()[2]);
    let wrong = |problem: String| Error::content(path, None, problem);
    if signals.sides()[1] != CHANNELS {
        return Err(wrong(format!("signals of {} channels: a crystal has {CHANNELS}", signals.sides()[1])));
    }
    let (step, before) = sampling(path)?;
    if !(step > 0.0 && step <= 1e9 && before >= 0.0 && before.fract() == 0.0 && before < samples as f64) {
        return Err(wrong(format!(
            "sampling = [{step}, {before}]: ns between samples, and how many of {samples} come before charges move"
        )));
    }
    let values = arrays::charges(signals)?;
    let positions = arrays::sized(&path.join("positions"), &[points, 3])?;
    let positions = arrays::reals(positions, Quantity::Length)?;
    if !positions.iter().all(|x| x.is_finite() && x.abs() < 1e7) {
        return Err(wrong("positions have entries that are not positions in mm".into()));
    }
    let positions = positions.as_chunks().0.iter().map(|p: &[f64; 3]| p.map(|x| x as f32)).collect();
    let segments = segments(arrays::sized(&path.join("segments"), &[points])?)?;
    Basis::new(Sampling { samples, step, before: before as usize }, positions, segments, values)
}

/// Returns the time between samples (ns), and the number of samples before charges move.
fn sampling(path: &Path) -> Result<(f64, f64), Error> {
    let path_of_sampling = path.join("sampling");
    let missing = match arrays::sized(&path_of_sampling, &[2]) {
        Ok(array) => {
            let unit = arrays::reals(array, Quantity::Time)?;
            let before = arrays::read(&path_of_sampling, 1, Quantity::Number)?.numbers[1];
            return Ok((unit[0], before));
        }
        Err(error) => error,
    };
    let of_waveforms = |name: &str| {
        let path = path.join("signals").join(name);
        let times = arrays::read(&path, 1, Quantity::Time)?.numbers;
        match times.first() {
            Some(&first) if times.iter().all(|&time| time == first) => Ok(first),
            _ => {
                let problem =
                    "all points of a basis have the same sampling: give one time for all".to_owned();
                Err(Error::content(&path, None, problem))
            }
        }
    };
    // An archive has no tables.
    let Ok(step) = of_waveforms("dt") else { return Err(missing) };
    let before = -of_waveforms("t0")? / step;
    // Times may be float32.
    let whole = before.round();
    Ok((f64::from(step as f32), if (before - whole).abs() < 1e-3 { whole.max(0.0) } else { before }))
}

/// Writes the arrays of events into an archive: `signals` (keV, events x 37 x samples), `energies`
/// (keV), `positions` (mm) and `segments` by event and hit, `timestamps` (ns).
pub fn write_events(path: &Path, events: &Events) -> Result<(), Error> {
    npz::NpzWriter::write(path, |to| put_events!(to, events)).map_err(|error| not_written(path, error))
}

/// Writes a basis like [`write_basis`], into an HDF5 file.
#[cfg(feature = "hdf5")]
pub fn write_basis_hdf5(path: &Path, basis: &Basis) -> Result<(), Error> {
    let written = zellige_files::array::hdf5::Hdf5Writer::write(path, |to| put_basis!(to, basis));
    written.map_err(|error| not_written(path, error))
}

/// Writes events like [`write_events`], into an HDF5 file.
#[cfg(feature = "hdf5")]
pub fn write_events_hdf5(path: &Path, events: &Events) -> Result<(), Error> {
    let written = zellige_files::array::hdf5::Hdf5Writer::write(path, |to| put_events!(to, events));
    written.map_err(|error| not_written(path, error))
}
