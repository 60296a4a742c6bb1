//! End-to-end simulation: turbulence, wavefront sensors, control and images, frame by frame.
//!
//! Every quantity on the pupil is a wavefront \[m\] on a [`Sampling`]: a grid of pupil positions
//! that the sensor, or the image, asks for.

mod sampling;

pub use sampling::Sampling;
