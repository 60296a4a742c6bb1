//! End-to-end simulation: turbulence, wavefront sensors, control and images, frame by frame.
//!
//! Every quantity on the pupil is a wavefront \[m\] on a [`PupilGrid`]: a grid of pupil positions
//! that the sensor, or the image, asks for.

mod aot;
mod conjugate;
mod control;
mod elementary;
mod export;
mod exposure;
mod field;
mod field_map;
mod graph;
mod grid;
mod projection;
mod random;
mod sensor;
mod setup;
mod simulation;
mod snapshot;
mod stages;
mod statistics;
mod stepping;
mod study;
mod surface;
pub(crate) mod telemetry;
mod terms;
mod theory;
mod turbulence;

pub use control::{ControlLaw, ControlState, Controller};
pub use exposure::{Exposure, ImagePupil, LongExposure};
pub use field::{field_responses, fit_field};
pub use field_map::{FieldMap, FieldPoint};
pub use grid::PupilGrid;
pub use sensor::{GeometricSensor, ShackHartmann, ShackHartmannSettings, WavefrontSensor};
pub use simulation::{LoopOptions, LoopResult, LoopTarget, Simulation};
pub use snapshot::Snapshot;
pub use stages::StageSeconds;
pub use study::{Compared, LoopPictures, Study, expose};
pub use telemetry::{Recorder, Telemetry};
pub use terms::{BudgetTerm, LoopBudget};
pub use theory::{LoopRun, LoopTheory, SeedResult};
pub use turbulence::FrozenTurbulence;
