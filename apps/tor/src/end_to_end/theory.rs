//! Result of a simulated loop beside its error budget from theory.

use super::field_map::FieldMap;
use super::simulation::{LoopOptions, LoopResult, Simulation};
use super::stages::StageSeconds;
use super::terms::LoopBudget;
use crate::budget::{BudgetInput, ErrorBudget, SensorResponse, TimeResponse, error_budget, textbook};
use crate::geometry::Geometry;
use crate::params::Input;
use crate::pipeline::{GemmShare, NotSpd};
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

/// Result of the exposures with one reconstructor, and their speed.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct LoopRun {
    /// Precision rule or file of the reconstructor; `measured` for the inverse of the interaction
    /// matrix that the sensors measure.
    pub reconstructor: String,
    /// Fractions of the factorisation's tile products by precision, for a precision rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<GemmShare>,
    /// The place where the rule lost positive definiteness: there is no exposure then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_spd: Option<NotSpd>,
    /// Whether all frames of all seeds were simulated; false after Ctrl-C.
    pub complete: bool,
    /// Figures of the exposure; of all frames of all seeds, if there are several.
    #[serde(flatten)]
    pub result: Option<LoopResult>,
    /// Figures of each seed, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seeds: Vec<SeedResult>,
    /// Duration of the frames in seconds, without calibration.
    pub seconds: f64,
    /// Frames per second.
    pub frames_per_second: f64,
    /// Time of a frame's tasks by stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<StageSeconds>,
    /// Error budget by simulation for each target, if it is requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budget: Vec<LoopBudget>,
    /// Error budget from theory; absent if it does not apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theory: Option<LoopTheory>,
    /// The corrected field from covariances; absent if no field is corrected by a pseudo-open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<FieldMap>,
}

/// Figures of the exposure with one seed.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct SeedResult {
    /// Seed of turbulence and noise.
    pub seed: u64,
    /// Frames of the exposure.
    pub frames: u64,
    /// Strehl ratio at the first wavelength for each target.
    pub strehl: Vec<f64>,
    /// Root of the mean variance of the residual in nm, without piston, for each target.
    pub rms_nm: Vec<f64>,
}

impl LoopRun {
    /// Returns the run of a rule without a reconstructor.
    pub fn without_exposure(rule: String, lost: NotSpd) -> LoopRun {
        LoopRun {
            reconstructor: rule,
            shares: None,
            not_spd: Some(lost),
            complete: true,
            result: None,
            seeds: Vec::new(),
            seconds: 0.0,
            frames_per_second: 0.0,
            stages: None,
            field: None,
            budget: Vec::new(),
            theory: None,
        }
    }

    /// Returns the number of frames of all exposures.
    pub fn frames(&self) -> u64 {
        self.result.as_ref().map_or(0, |result| result.frames)
    }
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
