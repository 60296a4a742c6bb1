//! Wavefront sensors: slopes \[arcsec\] of a wavefront \[m\].
//!
//! Slopes are in the order of [`crate::geometry`]: all x slopes of the valid sub-apertures, then
//! all y slopes. The tip and tilt that a laser star cannot measure are those of
//! the wavefront here.

mod geometric;
mod noise;
mod shack_hartmann;

use super::grid::PupilGrid;

pub use geometric::GeometricSensor;
pub use shack_hartmann::{ShackHartmann, ShackHartmannSettings};

/// A wavefront sensor.
pub trait WavefrontSensor: Send + Sync {
    /// Returns the positions at which the sensor asks for the wavefront.
    fn grid(&self) -> &PupilGrid;

    /// Returns the number of slopes.
    fn slopes(&self) -> usize;

    /// Measures a wavefront \[m\] on the grid: writes slopes in arcsec. Noise depends on the number
    /// of the frame, so that the same frame has the same noise on any thread.
    ///
    /// # Panics
    /// `wavefront` does not have the length of the grid, or `out` not that of the slopes.
    fn measure(&self, wavefront: &[f64], frame: u64, out: &mut [f64]);
}

/// Panics if a wavefront or the slopes do not have the lengths of a sensor.
fn check_lengths(sensor: &dyn WavefrontSensor, wavefront: &[f64], slopes: &[f64]) {
    assert_eq!(
        (wavefront.len(), slopes.len()),
        (sensor.grid().len(), sensor.slopes()),
        "lengths of wavefront, slopes"
    );
}

#[cfg(test)]
mod tests;
