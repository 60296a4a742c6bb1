//! Slopes from files.

use crate::end_to_end::telemetry;
use crate::files::fits::{self, KeyValue};
use crate::files::{SlopeOrder, npy, reorder_columns};
use crate::geometry::Geometry;
use crate::{Error, Matrix};
use std::path::{Path, PathBuf};
use zellige_files::array::{Array, npz};

/// Slopes of a file.
#[derive(Debug)]
pub struct MeasuredSlopes {
    /// Slopes in arcsec, frames x measurements in the order of [`crate::geometry`].
    pub slopes: Matrix,
    /// Time between frames in s, if a file says it.
    pub frame_time: Option<f64>,
}

/// Reads slopes \[arcsec\]: one file of all sensors, or one for each, in order. A file is
/// telemetry of `zellige tor loop`, or a matrix with one row for each frame (FITS, npy, npz), also
/// AOT's (frames, 2, sub-apertures).
///
/// # Errors
/// A file that cannot be read, numbers of frames that differ, a number of slopes that is not the
/// system's, sensors that saw a mirror.
pub fn read_slopes(
    files: &[PathBuf],
    geometry: &Geometry,
    order: SlopeOrder,
) -> Result<MeasuredSlopes, Error> {
    let parts: Vec<MeasuredSlopes> =
        files.iter().map(|file| read(file, geometry)).collect::<Result<_, _>>()?;
    let frame_time = parts.iter().find_map(|part| part.frame_time);
    let slopes = beside(parts.into_iter().map(|part| part.slopes).collect())?;
    let measurements = geometry.measurements();
    if slopes.cols() != measurements {
        let turned = if slopes.rows() == measurements { "; transpose it" } else { "" };
        let problem = format!(
            "{} frames of {} slopes, the system has {measurements} measurements: give a row for each frame{turned}",
            slopes.rows(),
            slopes.cols()
        );
        return Err(Error::content(files.first().map_or(Path::new(""), PathBuf::as_path), problem));
    }
    let slopes = reorder_columns(&slopes, geometry.blocks(), order, SlopeOrder::Xxyy)?;
    Ok(MeasuredSlopes { slopes, frame_time })
}

fn read(file: &Path, geometry: &Geometry) -> Result<MeasuredSlopes, Error> {
    if fits::is_fits(file) {
        return read_fits(file, geometry);
    }
    let is_telemetry =
        || npz::names(file).is_ok_and(|names| names.iter().any(|name| name == telemetry::SLOPES));
    let is_archive = file.extension().is_some_and(|end| end.eq_ignore_ascii_case("npz"));
    if !(is_archive && is_telemetry()) {
        return Ok(MeasuredSlopes { slopes: npy::read(file)?, frame_time: None });
    }
    let number = |name: &str| -> Option<f64> {
        let array = Array::open(&file.join(name)).ok()?;
        array.reals().ok()?.first().copied()
    };
    refuse_mirror(file, number(telemetry::SEES_MIRROR) == Some(1.0))?;
    let slopes = npy::read(&file.join(telemetry::SLOPES))?;
    Ok(MeasuredSlopes { slopes, frame_time: number(telemetry::FRAME_TIME) })
}

fn read_fits(file: &Path, geometry: &Geometry) -> Result<MeasuredSlopes, Error> {
    let is_telemetry =
        !fits::names_image(file) && fits::read(file, Some(&telemetry::slopes_image(0))).is_ok();
    if !is_telemetry {
        return Ok(MeasuredSlopes { slopes: fits::read_matrix(file, None)?, frame_time: None });
    }
    let (mut parts, mut frame_time) = (Vec::new(), None);
    for star in 0..geometry.sensors().len() {
        let image = fits::read(file, Some(&telemetry::slopes_image(star)))?;
        refuse_mirror(file, image.key(telemetry::SAW_MIRROR_KEY) == Some(&KeyValue::Logical(true)))?;
        frame_time = frame_time.or(image.number(telemetry::FRAME_TIME_KEY));
        parts.push(image.into_matrix(file)?);
    }
    Ok(MeasuredSlopes { slopes: beside(parts)?, frame_time })
}

/// Refuses slopes of sensors that saw a mirror.
fn refuse_mirror(file: &Path, sees_mirror: bool) -> Result<(), Error> {
    let problem =
        "slopes of sensors that saw the mirror: the profile needs those of an open loop (--mode open)";
    if sees_mirror { Err(Error::content(file, problem)) } else { Ok(()) }
}

/// Puts matrices with equal numbers of rows beside each other.
fn beside(parts: Vec<Matrix>) -> Result<Matrix, Error> {
    let rows = parts.first().map_or(0, Matrix::rows);
    if let Some(other) = parts.iter().find(|part| part.rows() != rows) {
        let problem = format!("{rows} frames of one sensor, {} of another", other.rows());
        return Err(Error::shape("slopes", problem));
    }
    let cols = parts.iter().map(Matrix::cols).sum();
    Matrix::from_vec(rows, cols, parts.into_iter().flat_map(Matrix::into_vec).collect())
}
