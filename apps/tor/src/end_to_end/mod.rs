//! End-to-end simulation: turbulence, wavefront sensors, control and images, frame by frame.
//!
//! Every quantity on the pupil is a wavefront \[m\] on a [`PupilGrid`]: a grid of pupil positions
//! that the sensor, or the image, asks for.

mod elementary;
mod grid;
mod random;
mod sensor;
mod turbulence;

pub use grid::PupilGrid;
pub use sensor::{GeometricSensor, ShackHartmann, ShackHartmannSettings, WavefrontSensor};
pub use turbulence::FrozenTurbulence;
