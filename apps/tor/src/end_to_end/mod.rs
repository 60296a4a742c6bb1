//! End-to-end simulation: turbulence, wavefront sensors, control and images, frame by frame.
//!
//! Every quantity on the pupil is a wavefront \[m\] on a [`PupilGrid`]: a grid of pupil positions
//! that the sensor, or the image, asks for.

mod control;
mod elementary;
mod exposure;
mod graph;
mod grid;
mod random;
mod sensor;
mod simulation;
mod stepping;
mod surface;
mod theory;
mod turbulence;

pub use exposure::{Exposure, ImagePupil, LongExposure};
pub use grid::PupilGrid;
pub use sensor::{GeometricSensor, ShackHartmann, ShackHartmannSettings, WavefrontSensor};
pub use simulation::{LoopOptions, LoopResult, LoopTarget, Simulation};
pub use theory::{LoopRun, LoopTheory};
pub use turbulence::FrozenTurbulence;
