//! A simulated loop, frame by frame.

use super::conjugate::LoopMirror;
use super::control::{ControlLaw, Controller};
use super::exposure::{Exposure, ImagePupil};
use super::field::{field_responses, fit_field, pupil_commands};
use super::projection::Projector;
use super::random::CounterRandom;
use super::stages::StageClock;
use super::statistics;
use super::surface::MirrorSurface;
use super::telemetry::{Recorder, Telemetry};
use super::{FrozenTurbulence, GeometricSensor, PupilGrid, ShackHartmann, ShackHartmannSettings};
use super::{LongExposure, WavefrontSensor};
use crate::dm::{self, STROKE};
use crate::geometry::{Geometry, truth_star};
use crate::params::Input;
use crate::system::{GuideStar, LoopMode, LoopModel, NoiseModel, SensorModel, StarKind, System};
use crate::{Error, Matrix, noise};
use std::ops::Range;
use std::sync::Arc;

/// Stroke in V of the pushes that calibrate the sensors: 20 nm.
const PUSH: f64 = 20e-9 / STROKE;
/// Smallest number of wavefront pixels across the pupil.
const FEWEST_PIXELS: usize = 32;

/// A star, its sensor, and the mirror as the sensor sees it.
struct StarPath {
    star: GuideStar,
    sensor: Box<dyn WavefrontSensor>,
    mirror: MirrorSurface,
    slopes: Range<usize>,
    tilt: Option<UnknownTilt>,
}

impl StarPath {
    /// Measures a wavefront, which it changes.
    fn measure(&self, wavefront: &mut [f64], mirror: Option<&[f64]>, frame: u64, out: &mut [f64]) {
        if let Some(commands) = mirror {
            self.mirror.subtract(commands, wavefront);
        }
        self.sensor.measure(wavefront, frame, out);
        if let Some(unknown) = &self.tilt {
            let tilt = unknown.random.sequence(frame).normals(0);
            for (axis, tilt) in out.chunks_exact_mut(self.sensor.slopes() / 2).zip(tilt) {
                axis.iter_mut().for_each(|s| *s += unknown.deviation * tilt);
            }
        }
    }
}

/// Tip and tilt of a laser star, which its sensor cannot tell from those of the turbulence.
struct UnknownTilt {
    random: CounterRandom,
    /// Standard deviation in arcsec.
    deviation: f64,
}

impl UnknownTilt {
    /// Distinguishes these random numbers from those of turbulence and sensors.
    const FAMILY: u64 = u64::from_be_bytes(*b"lgs tilt");

    /// Returns the unknown tilt of star number `star`; `None` for a natural star.
    fn of(system: &System, star: usize, seed: u64) -> Option<UnknownTilt> {
        (system.stars[star].kind == StarKind::Lgs).then(|| UnknownTilt {
            random: CounterRandom::new(seed, &[UnknownTilt::FAMILY, star as u64]),
            deviation: system.lgs_cst.sqrt(),
        })
    }
}

/// Everything of a loop that does not change from frame to frame.
pub(super) struct LoopSetup {
    turbulence: FrozenTurbulence,
    paths: Vec<StarPath>,
    targets: Vec<GuideStar>,
    /// The sensor whose slopes the reconstructors estimate.
    truth: GeometricSensor,
    /// The mirrors on the grid of the images, as each target sees them.
    mirrors: Vec<Arc<MirrorSurface>>,
    grid: PupilGrid,
    pupil: ImagePupil,
    /// Fit of the wavefronts that the sensors see, if they see no others.
    projector: Option<Projector>,
    law: ControlLaw,
    frame_time: f64,
    /// Frames between two images.
    every: u64,
    /// Frames before the exposure begins.
    skip: u64,
}

impl LoopSetup {
    /// Returns the number of stars.
    pub(super) fn stars(&self) -> usize {
        self.paths.len()
    }

    /// Returns the number of targets.
    pub(super) fn targets(&self) -> usize {
        self.targets.len()
    }

    /// Returns the number of positions of a star's wavefront.
    pub(super) fn star_points(&self, star: usize) -> usize {
        self.paths[star].sensor.grid().len()
    }

    /// Returns the number of positions of a target's wavefront.
    pub(super) fn target_points(&self) -> usize {
        self.grid.len()
    }

    /// Returns the number of measurements.
    fn slopes(&self) -> usize {
        self.paths.last().map_or(0, |path| path.slopes.end)
    }

    /// Returns the measurements of a star.
    pub(super) fn range(&self, star: usize) -> Range<usize> {
        self.paths[star].slopes.clone()
    }

    /// Returns whether slopes move the mirror in their own frame.
    pub(super) fn is_immediate(&self) -> bool {
        self.law.delay == 0
    }

    /// Computes the wavefront of a star at a frame.
    pub(super) fn star_wavefront(&self, star: usize, frame: u64, out: &mut [f64]) {
        let path = &self.paths[star];
        let Some(projector) = &self.projector else {
            return self.wavefront(&path.star, path.sensor.grid(), frame, out);
        };
        let mut on_pupil = vec![0.0; self.grid.len()];
        self.wavefront(&path.star, &self.grid, frame, &mut on_pupil);
        let mut commands = projector.commands(&self.mirrors[0], &on_pupil);
        commands.iter_mut().for_each(|u| *u = -*u);
        out.fill(0.0);
        path.mirror.subtract(&commands, out);
    }

    /// Subtracts the mirror from the wavefront of a star, if its sensor sees it.
    pub(super) fn correct_star(&self, star: usize, mirror: &[f64], wavefront: &mut [f64]) {
        if self.law.mode.sees_mirror() {
            self.paths[star].mirror.subtract(mirror, wavefront);
        }
    }

    /// Subtracts the mirrors from the wavefront of a target.
    pub(super) fn correct_target(&self, target: usize, mirror: &[f64], wavefront: &mut [f64]) {
        self.mirrors[target].subtract(mirror, wavefront);
    }

    /// Measures the interaction matrix \[arcsec per volt\] of the system `input` whose setup this
    /// is.
    pub(super) fn interaction(&self, input: &Input, actuators: usize) -> Result<Matrix, Error> {
        if input.system.stars.len() != self.stars() {
            let found = format!("{} for a loop of {}", input.system.stars.len(), self.stars());
            return Err(Error::shape("guide stars", found));
        }
        interaction(input, &Geometry::new(&input.system)?, &self.paths, &LoopOptions::default(), actuators)
    }

    /// Computes the wavefront of a target at a frame.
    pub(super) fn target_wavefront(&self, target: usize, frame: u64, out: &mut [f64]) {
        self.wavefront(&self.targets[target], &self.grid, frame, out);
    }

    fn wavefront(&self, star: &GuideStar, grid: &PupilGrid, frame: u64, out: &mut [f64]) {
        self.turbulence.wavefront(star, frame as f64 * self.frame_time, grid, out);
    }

    /// Measures the wavefront of a star, which it changes, with these commands on the mirror.
    pub(super) fn measure(
        &self,
        star: usize,
        frame: u64,
        mirror: &[f64],
        wavefront: &mut [f64],
        out: &mut [f64],
    ) {
        let path = &self.paths[star];
        path.measure(wavefront, self.law.mode.sees_mirror().then_some(mirror), frame, out);
    }

    /// Adds the residual of a target's wavefront, which it changes, to an exposure.
    pub(super) fn expose(
        &self,
        target: usize,
        frame: u64,
        mirror: &[f64],
        wavefront: &mut [f64],
        exposure: &mut Exposure,
    ) {
        if frame >= self.skip {
            self.correct_target(target, mirror, wavefront);
            exposure.add(&self.pupil, wavefront, (frame - self.skip).is_multiple_of(self.every));
        }
    }

    /// Returns the variance \[m^2\] of a target's wavefront less its best fit, without piston.
    pub(super) fn unfitted(&self, projector: &Projector, target: usize, frame: u64) -> f64 {
        let mut wavefront = vec![0.0; self.grid.len()];
        self.target_wavefront(target, frame, &mut wavefront);
        let best = projector.commands(&self.mirrors[target], &wavefront);
        self.correct_target(target, &best, &mut wavefront);
        self.pupil.variance(&wavefront)
    }

    /// Prepares the best fit of wavefronts by mirrors in the pupil, which are those of every target.
    pub(super) fn projector(&self) -> Result<Projector, Error> {
        Projector::new(&self.mirrors[0], &self.pupil.lit, self.grid.len())
    }

    /// Returns the number of wavefront pixels across the pupil.
    pub(super) fn across(&self) -> usize {
        self.grid.xs.len()
    }
}

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
        let radius = system.diameter / 2.0;
        let frame_time = frame_time(system)?;
        let law = law(system, model);
        let pixels = (model.pixels * system.nssp).max(FEWEST_PIXELS);
        let grid = PupilGrid::centres(system.diameter, pixels);
        let pixel = system.diameter / pixels as f64;

        let mut paths = Vec::with_capacity(system.stars.len());
        let mut first = 0;
        for (i, star) in system.stars.iter().enumerate() {
            let sensor = sensor(input, &geometry, i, options, options.noise)?;
            let mirror = MirrorSurface::new(&mirrors, radius, star, sensor.grid());
            let slopes = first..first + sensor.slopes();
            first = slopes.end;
            let tilt = UnknownTilt::of(system, i, options.seed);
            paths.push(StarPath { star: star.clone(), sensor, mirror, slopes, tilt });
        }
        let actuators = mirrors.iter().map(|plane| plane.mirror.len()).sum();
        let needs_interaction = reconstructors.is_none() || law.mode == LoopMode::PseudoOpen;
        let interaction = match needs_interaction {
            true => Some(interaction(input, &geometry, &paths, options, actuators)?),
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
            mirrors: image_mirrors(&mirrors, radius, &targets, &grid),
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
    /// A mirror that cannot be fitted.
    pub(super) fn project(&mut self) -> Result<(), Error> {
        let projector = self.setup.projector()?;
        if let Some(setup) = Arc::get_mut(&mut self.setup) {
            setup.projector = Some(projector);
        }
        Ok(())
    }

    /// Records slopes and commands of the first `frames` frames of the exposure from now on.
    ///
    /// # Errors
    /// They do not fit the memory.
    pub fn record(&mut self, frames: u64) -> Result<(), Error> {
        let setup = &self.setup;
        let slopes: Vec<usize> = setup.paths.iter().map(|path| path.slopes.len()).collect();
        let commands: Vec<usize> = self.mirrors.iter().map(Vec::len).collect();
        let mut telemetry = Telemetry::new(frames, &slopes, &commands)?;
        telemetry.first = setup.skip;
        telemetry.frame_time = setup.frame_time;
        telemetry.law = setup.law;
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

    /// Returns the command matrix of the mirrors that all targets share, if they do.
    pub(super) fn shared_command(&self) -> Option<&Matrix> {
        match self.controllers.as_slice() {
            [one] => Some(one.command()),
            _ => None,
        }
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

/// Returns the mirrors on the grid of the images for each target. Mirrors in the pupil alone are
/// those of every target.
fn image_mirrors(
    mirrors: &[LoopMirror],
    radius: f64,
    targets: &[GuideStar],
    grid: &PupilGrid,
) -> Vec<Arc<MirrorSurface>> {
    let towards = |target: &GuideStar| Arc::new(MirrorSurface::new(mirrors, radius, target, grid));
    match targets.first() {
        Some(first) if mirrors.iter().all(|plane| plane.altitude == 0.0) => {
            vec![towards(first); targets.len()]
        }
        _ => targets.iter().map(towards).collect(),
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

/// Makes the sensor of a star.
fn sensor(
    input: &Input,
    geometry: &Geometry,
    star: usize,
    options: &LoopOptions,
    is_noisy: bool,
) -> Result<Box<dyn WavefrontSensor>, Error> {
    let (system, model) = (&input.system, &input.system.simulation);
    let cells = &geometry.sensors()[star];
    let geometric = match model.sensor {
        SensorModel::Spots => {
            let NoiseModel::Photometric(light) = &system.noise else {
                let problem = "spots need light: give [photometry], or take a sensor of edges or gradients";
                return Err(Error::numeric("sensor", problem));
            };
            let (pixels, seed) = (model.detector_pixels, options.seed);
            let mut settings = ShackHartmannSettings::photometric(system, star, light, cells, pixels, seed);
            settings.threshold = model.threshold;
            if !is_noisy {
                (settings.photon_noise, settings.read_noise) = (false, 0.0);
            }
            return Ok(Box::new(ShackHartmann::new(cells, system.obstruction, settings)?));
        }
        SensorModel::Edges => GeometricSensor::edge_middles(cells),
        SensorModel::Gradients => GeometricSensor::mean_gradients(cells, model.pixels),
    };
    if !is_noisy {
        return Ok(Box::new(geometric));
    }
    let variances = noise::of_sensor(system, &input.atmosphere, star, cells)?;
    Ok(Box::new(geometric.with_noise(&variances, options.seed, star)))
}

/// Measures the interaction matrix \[arcsec per volt\] without noise, by pushing and pulling each
/// actuator.
fn interaction(
    input: &Input,
    geometry: &Geometry,
    paths: &[StarPath],
    options: &LoopOptions,
    actuators: usize,
) -> Result<Matrix, Error> {
    let rows = paths.last().map_or(0, |path| path.slopes.end);
    let mut out = Matrix::zeros(rows, actuators);
    let mut commands = vec![0.0; actuators];
    for (i, path) in paths.iter().enumerate() {
        let quiet = sensor(input, geometry, i, options, false)?;
        if quiet.grid() != path.sensor.grid() {
            return Err(Error::shape(
                "sensor",
                format!("that of star {i} has another grid than in the loop"),
            ));
        }
        let mut wavefront = vec![0.0; quiet.grid().len()];
        let mut slopes = [vec![0.0; quiet.slopes()], vec![0.0; quiet.slopes()]];
        for a in 0..actuators {
            for (slopes, push) in slopes.iter_mut().zip([-PUSH, PUSH]) {
                wavefront.fill(0.0);
                commands[a] = push;
                path.mirror.subtract(&commands, &mut wavefront);
                quiet.measure(&wavefront, 0, slopes);
            }
            commands[a] = 0.0;
            let column = &mut out.col_mut(a)[path.slopes.clone()];
            for (v, (minus, plus)) in column.iter_mut().zip(slopes[0].iter().zip(&slopes[1])) {
                *v = (minus - plus) / (2.0 * PUSH);
            }
        }
    }
    Ok(out)
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
