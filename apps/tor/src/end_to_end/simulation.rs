//! A simulated loop, frame by frame.

use super::conjugate::LoopMirror;
use super::control::{ControlLaw, Controller};
use super::exposure::{Exposure, ImagePupil};
use super::field::{field_responses, fit_field, pupil_commands};
use super::setup::{LoopSetup, StarPath, image_mirrors, interaction};
use super::stages::StageClock;
use super::statistics;
use super::telemetry::{Recorder, Telemetry};
use super::{FrozenTurbulence, GeometricSensor, LongExposure, PupilGrid, WavefrontSensor};
use crate::dm::{self, STROKE};
use crate::geometry::{Geometry, truth_star};
use crate::params::Input;
use crate::system::{GuideStar, LoopMode, LoopModel, SensorModel, StarKind, System};
use crate::{Error, Matrix};
use std::sync::Arc;

/// Smallest number of wavefront pixels across the pupil.
const FEWEST_PIXELS: usize = 32;

/// Returns the number of the mirror that corrects a target: its own, or the only one.
pub(super) fn mirror_of(target: usize, mirrors: usize) -> usize {
    target.min(mirrors - 1)
}

/// Parameters of a run that are no part of the system.
#[derive(Debug, Clone)]
pub struct LoopOptions {
    /// Frames of the exposure.
    pub frames: u64,
    /// Frames before the exposure begins, in which the loop converges.
    pub skip: u64,
    /// Seed of turbulence and noise.
    pub seed: u64,
    /// Whether slopes have noise.
    pub noise: bool,
    /// Number of images that are averaged; Strehl ratios use all frames.
    pub images: u64,
}

impl Default for LoopOptions {
    fn default() -> Self {
        LoopOptions { frames: 1000, skip: 100, seed: 1, noise: true, images: 100 }
    }
}

/// A simulated loop: one exposure of a system, frame by frame.
///
/// In [`LoopMode::Open`] every target has a mirror of its own. In other modes all share the one of
/// the first target, or the mirrors of a [`crate::system::FieldCorrection`].
pub struct Simulation {
    pub(super) setup: Arc<LoopSetup>,
    pub(super) controllers: Vec<Controller>,
    pub(super) mirrors: Vec<Vec<f64>>,
    pub(super) exposures: Vec<Exposure>,
    pub(super) frame: u64,
    /// Durations of the tasks.
    pub(super) clock: StageClock,
    pub(super) telemetry: Option<Recorder>,
    /// Modes of the measured interaction matrix that control uses, if it was inverted.
    modes: Option<usize>,
}

/// Figures of a target.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct LoopTarget {
    /// Direction in arcsec.
    pub x: f64,
    /// Direction in arcsec.
    pub y: f64,
    /// Root of the mean variance of the residual in nm, without piston.
    pub rms_nm: f64,
    /// Root of the mean variance of the residual in nm, without piston, tip and tilt.
    pub rms_nm_tilt_removed: f64,
    /// Figures at each wavelength.
    pub bands: Vec<LongExposure>,
    /// Standard error of the first Strehl ratio, from the means of ten parts of the exposure.
    pub strehl_error: Option<f64>,
}

/// Result of an exposure.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct LoopResult {
    /// Relation between sensors and mirror.
    pub mode: LoopMode,
    /// Model of the sensors.
    pub sensor: SensorModel,
    /// Frames of the exposure.
    pub frames: u64,
    /// Frames before it.
    pub skipped: u64,
    /// Exposure of one frame in s.
    pub frame_time: f64,
    /// Delay in frames.
    pub delay: usize,
    /// Gain of the control law.
    pub gain: f64,
    /// Seed of turbulence and noise.
    pub seed: u64,
    /// Number of measurements.
    pub measurements: usize,
    /// Number of actuators of a mirror, or of all mirrors that correct a field.
    pub actuators: usize,
    /// Number of modes of the measured interaction matrix that control uses, if it was inverted.
    pub modes: Option<usize>,
    /// Pixels of the wavefront across the pupil.
    pub pixels: usize,
    /// Number of commands that were limited to the stroke.
    pub saturated: u64,
    /// Figures of each target.
    pub targets: Vec<LoopTarget>,
}

impl Simulation {
    /// Prepares a loop. `reconstructors` are those of the targets (truth-sensor slopes x
    /// measurements), in order. Without any, control inverts the interaction matrix that the
    /// sensors measure.
    ///
    /// # Errors
    /// Parameters that contradict each other, matrices that do not fit the system.
    pub fn new(
        input: &Input,
        reconstructors: Option<&[Matrix]>,
        options: &LoopOptions,
    ) -> Result<Simulation, Error> {
        let (system, model) = (&input.system, &input.system.simulation);
        let geometry = Geometry::new(system)?;
        let mirrors = LoopMirror::of_system(system);
        let frame_time = frame_time(system)?;
        let law = law(system, model);
        let pixels = (model.pixels * system.nssp).max(FEWEST_PIXELS);
        let grid = PupilGrid::centres(system.diameter, pixels);
        let pixel = system.diameter / pixels as f64;

        let paths = StarPath::of_system(input, &geometry, &mirrors, (options.seed, options.noise))?;
        let actuators = mirrors.iter().map(|plane| plane.mirror.len()).sum();
        let needs_interaction = reconstructors.is_none() || law.mode == LoopMode::PseudoOpen;
        let interaction = match needs_interaction {
            true => Some(interaction(input, &geometry, &paths, actuators)?),
            false => None,
        };
        let mut modes = None;
        let commands = match (reconstructors, &interaction) {
            (Some(given), _) => tomographic(system, &geometry, given, law.mode)?,
            (None, Some(interaction)) => {
                let inverse = dm::pseudo_inverse(interaction, model.cutoff)?;
                modes = Some(inverse.kept);
                vec![inverse.dx]
            }
            (None, None) => return Err(Error::numeric("command matrix", "there is no reconstructor")),
        };
        let pseudo = (law.mode == LoopMode::PseudoOpen).then_some(interaction).flatten();
        let controllers: Vec<Controller> = commands
            .into_iter()
            .map(|command| Controller::new(law, command, pseudo.clone()))
            .collect::<Result<_, _>>()?;
        let wavelengths =
            if model.wavelengths.is_empty() { vec![system.wavelength] } else { model.wavelengths.clone() };
        let targets: Vec<GuideStar> = system.targets.iter().map(|t| truth_star(system.nssp, *t)).collect();
        let setup = LoopSetup {
            turbulence: FrozenTurbulence::new(&input.atmosphere, pixel, options.seed)?,
            mirrors: image_mirrors(&mirrors, system.diameter / 2.0, &targets, &grid),
            targets,
            truth: GeometricSensor::edge_middles(geometry.truth()),
            pupil: ImagePupil::new(system.diameter, system.obstruction, &grid),
            projector: None,
            grid,
            paths,
            law,
            frame_time,
            every: options.frames.div_ceil(options.images.max(1)).max(1),
            skip: options.skip,
        };
        Ok(Simulation {
            mirrors: vec![vec![0.0; actuators]; controllers.len()],
            exposures: vec![Exposure::new(&wavelengths); setup.targets()],
            setup: Arc::new(setup),
            controllers,
            frame: 0,
            clock: StageClock::default(),
            telemetry: None,
            modes,
        })
    }

    /// Makes the sensors see the best fit of the mirror to every wavefront, in its place.
    ///
    /// # Errors
    /// A mirror that cannot be fitted, a loop that is running.
    pub(super) fn project(&mut self) -> Result<(), Error> {
        let projector = self.setup.projector()?;
        let running = || Error::numeric("loop", "tasks of it are running");
        Arc::get_mut(&mut self.setup).ok_or_else(running)?.projector = Some(projector);
        Ok(())
    }

    /// Records slopes and commands of the first `frames` frames of the exposure from now on.
    ///
    /// # Errors
    /// They do not fit the memory.
    pub fn record(&mut self, frames: u64) -> Result<(), Error> {
        let setup = &self.setup;
        let slopes: Vec<usize> = (0..setup.stars()).map(|star| setup.range(star).len()).collect();
        let commands: Vec<usize> = self.mirrors.iter().map(Vec::len).collect();
        let telemetry =
            Telemetry::new(setup.skip, frames, [&slopes, &commands], setup.frame_time, setup.law)?;
        self.telemetry = Some(Recorder::new(telemetry));
        Ok(())
    }

    /// Returns what has been recorded, also after a run that failed or was cancelled.
    pub fn telemetry(&self) -> Option<&Recorder> {
        self.telemetry.as_ref()
    }

    /// Simulates the next frame on this thread.
    pub fn step(&mut self) {
        let slopes = self.slopes();
        self.advance(&slopes, |_, controller, mirror| controller.step(&slopes, mirror));
    }

    /// Returns the slopes \[arcsec\] of all sensors in the next frame, one after the other.
    pub fn slopes(&self) -> Vec<f64> {
        let (setup, frame) = (&self.setup, self.frame);
        let mut slopes = vec![0.0; setup.slopes()];
        for star in 0..setup.stars() {
            let mut wavefront = vec![0.0; setup.star_points(star)];
            setup.star_wavefront(star, frame, &mut wavefront);
            setup.measure(star, frame, &self.mirrors[0], &mut wavefront, &mut slopes[setup.range(star)]);
        }
        slopes
    }

    /// Simulates the next frame, in which `control` replaces the commands on each mirror. `slopes`
    /// are those to record.
    pub(super) fn advance(
        &mut self,
        slopes: &[f64],
        mut control: impl FnMut(usize, &mut Controller, &mut [f64]),
    ) {
        let (setup, frame) = (Arc::clone(&self.setup), self.frame);
        let before = self.mirrors.clone();
        for (i, (controller, mirror)) in self.controllers.iter_mut().zip(&mut self.mirrors).enumerate() {
            control(i, controller, mirror);
        }
        let commands = if setup.is_immediate() { &self.mirrors } else { &before };
        if let Some(telemetry) = &self.telemetry {
            let slopes = (0..setup.stars()).map(|star| &slopes[setup.range(star)]);
            telemetry.get().add(frame, slopes, commands.iter().map(Vec::as_slice));
        }
        let mut wavefront = vec![0.0; setup.target_points()];
        for (target, exposure) in self.exposures.iter_mut().enumerate() {
            setup.target_wavefront(target, frame, &mut wavefront);
            let mirror = &commands[mirror_of(target, commands.len())];
            setup.expose(target, frame, mirror, &mut wavefront, exposure);
        }
        self.frame += 1;
    }

    /// Returns the slopes \[arcsec\] of the truth sensor in the next frame, which the reconstructor
    /// of this target estimates: a column.
    ///
    /// # Panics
    /// There is no such target.
    pub fn truth(&self, target: usize) -> Matrix {
        let (setup, sensor) = (&self.setup, &self.setup.truth);
        let mut wavefront = vec![0.0; sensor.grid().len()];
        setup.wavefront(&setup.targets[target], sensor.grid(), self.frame, &mut wavefront);
        let mut out = Matrix::zeros(sensor.slopes(), 1);
        sensor.measure(&wavefront, self.frame, out.data_mut());
        out
    }

    /// Returns the commands \[volts\] of the mirrors.
    pub fn mirrors(&self) -> &[Vec<f64>] {
        &self.mirrors
    }

    /// Returns the exposures of the targets.
    pub fn exposures(&self) -> &[Exposure] {
        &self.exposures
    }

    /// Returns the control law.
    pub(super) fn law(&self) -> ControlLaw {
        self.setup.law
    }

    /// Returns the exposure of one frame in s.
    pub(super) fn frame_time(&self) -> f64 {
        self.setup.frame_time
    }

    /// Returns the pupil of the images.
    pub fn pupil(&self) -> &ImagePupil {
        &self.setup.pupil
    }

    /// Returns the figures of the exposure so far.
    pub fn result(&self, system: &System, options: &LoopOptions) -> LoopResult {
        let target = |(exposure, direction): (&Exposure, &[f64; 2])| {
            let [rms_nm, rms_nm_tilt_removed] = exposure.rms_nm();
            LoopTarget {
                x: direction[0],
                y: direction[1],
                rms_nm,
                rms_nm_tilt_removed,
                bands: exposure.figures(&self.setup.pupil),
                strehl_error: statistics::of_parts(exposure.history()),
            }
        };
        LoopResult {
            mode: self.setup.law.mode,
            sensor: system.simulation.sensor,
            frames: self.exposures.first().map_or(0, Exposure::frames),
            skipped: options.skip.min(self.frame),
            frame_time: self.setup.frame_time,
            delay: self.setup.law.delay,
            gain: self.setup.law.gain,
            seed: options.seed,
            measurements: self.setup.slopes(),
            actuators: self.mirrors.first().map_or(0, Vec::len),
            modes: self.modes,
            pixels: self.setup.grid.xs.len(),
            saturated: self.controllers.iter().map(Controller::saturated).sum(),
            targets: self.exposures.iter().zip(&system.targets).map(target).collect(),
        }
    }
}

/// Returns the exposure of a frame.
fn frame_time(system: &System) -> Result<f64, Error> {
    system.frame_time().ok_or_else(|| {
        Error::numeric("frame time", "the system has none: give frame_time (s) in its table [loop]")
    })
}

/// Returns the control law of a system.
fn law(system: &System, model: &LoopModel) -> ControlLaw {
    let single = matches!(system.stars.as_slice(), [star] if star.kind == StarKind::Ngs);
    let mode = model.mode.unwrap_or(match (&model.field, single) {
        (Some(_), _) => LoopMode::PseudoOpen,
        (None, true) => LoopMode::Closed,
        (None, false) => LoopMode::Open,
    });
    let gain = match mode {
        LoopMode::Open => 1.0,
        LoopMode::PseudoOpen => model.gain.unwrap_or(1.0),
        LoopMode::Closed => model.gain.unwrap_or(0.4),
    };
    ControlLaw { mode, gain, leak: model.leak, delay: model.delay, limit: model.stroke / STROKE }
}

/// Returns the command matrices of tomographic reconstructors, through the model's mirrors.
fn tomographic(
    system: &System,
    geometry: &Geometry,
    given: &[Matrix],
    mode: LoopMode,
) -> Result<Vec<Matrix>, Error> {
    let field = &system.simulation.field;
    let needed = if mode == LoopMode::Open || field.is_some() { system.targets.len() } else { 1 };
    let shape = (geometry.truth_slopes(), geometry.measurements());
    if given.len() < needed || given.iter().any(|r| (r.rows(), r.cols()) != shape) {
        let problem = format!("the loop needs {needed} of {} x {}", shape.0, shape.1);
        return Err(Error::shape("reconstructors", problem));
    }
    if let Some(field) = field {
        return Ok(vec![fit_field(&field_responses(system)?, &given[..needed], field.regularisation)?]);
    }
    let dx = pupil_commands(system, geometry)?;
    given[..needed].iter().map(|r| dx.times(r)).collect()
}
