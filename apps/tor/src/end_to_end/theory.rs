//! Result of a simulated loop beside its error budget from theory.

use super::field_map::FieldMap;
use super::simulation::{LoopOptions, LoopResult, Simulation};
use crate::budget::{BudgetInput, ErrorBudget, SensorResponse, TimeResponse, error_budget, textbook};
use crate::geometry::Geometry;
use crate::params::Input;
use crate::system::{LoopMode, SensorModel, StarKind};
use crate::{Error, noise};

/// Standard deviations in nm over the pupil, without piston, of a loop with one natural star in the
/// direction of the target.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct LoopTheory {
    /// Integrals over the spectrum of turbulence ([`crate::budget`]).
    pub integral: ErrorBudget,
    /// Textbook coefficients.
    pub textbook: ErrorBudget,
}

/// Result of an exposure, its reconstructor and its speed.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct LoopRun {
    /// Precision rule or file of the reconstructor; `measured` for the inverse of the interaction
    /// matrix that the sensors measure.
    pub reconstructor: String,
    /// Figures of the exposure.
    #[serde(flatten)]
    pub result: LoopResult,
    /// Duration of the frames in seconds, without calibration.
    pub seconds: f64,
    /// Frames per second.
    pub frames_per_second: f64,
    /// Error budget from theory; absent if it does not apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theory: Option<LoopTheory>,
    /// The corrected field from covariances; absent if no field is corrected by a pseudo-open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<FieldMap>,
}

impl Simulation {
    /// Returns the error budget from theory; `None` for a loop to which it does not apply: with
    /// several stars or targets, a laser star, a target beside the star, a corrected field, a
    /// pseudo-open loop, or a closed one without delay.
    ///
    /// # Errors
    /// The loop is not stable.
    pub fn theory(&self, input: &Input, options: &LoopOptions) -> Result<Option<LoopTheory>, Error> {
        let system = &input.system;
        if system.simulation.field.is_some() {
            return Ok(None);
        }
        let ([star], [target]) = (system.stars.as_slice(), system.targets.as_slice()) else {
            return Ok(None);
        };
        let (law, delay) = (self.law(), self.law().delay as f64);
        let time = match law.mode {
            LoopMode::Open => TimeResponse::Open { delay },
            LoopMode::Closed => TimeResponse::Integrator { gain: law.gain, leak: law.leak, delay },
            LoopMode::PseudoOpen => return Ok(None),
        };
        let is_of_this_frame = law.mode == LoopMode::Closed && law.delay == 0;
        if star.kind == StarKind::Lgs || star.direction != *target || is_of_this_frame {
            return Ok(None);
        }
        let sensor = match system.simulation.sensor {
            SensorModel::Edges => SensorResponse::EdgeDifference,
            SensorModel::Gradients | SensorModel::Spots => SensorResponse::MeanGradient,
        };
        let mut parameters = BudgetInput::new(system, sensor, time, self.frame_time());
        parameters.cutoff = system.simulation.cutoff;
        if options.noise {
            let sensors = Geometry::new(system)?;
            let noise = noise::of_sensor(system, &input.atmosphere, 0, &sensors.sensors()[0])?;
            let sum: f64 = noise.iter().map(|n| 0.5 * (n.xx + n.yy)).sum();
            parameters.slope_noise = sum / noise.len().max(1) as f64;
        }
        let integral = error_budget(&parameters, &input.atmosphere)?.nm();
        Ok(Some(LoopTheory { integral, textbook: textbook(&parameters, &input.atmosphere).nm() }))
    }
}
