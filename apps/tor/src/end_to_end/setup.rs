//! Everything of a simulated loop that does not change from frame to frame.

use super::WavefrontSensor;
use super::conjugate::LoopMirror;
use super::control::ControlLaw;
use super::exposure::{Exposure, ImagePupil};
use super::projection::Projector;
use super::random::CounterRandom;
use super::surface::MirrorSurface;
use super::{FrozenTurbulence, GeometricSensor, PupilGrid, ShackHartmann, ShackHartmannSettings};
use crate::dm::STROKE;
use crate::geometry::Geometry;
use crate::params::Input;
use crate::system::{GuideStar, NoiseModel, SensorModel, StarKind, System};
use crate::{Error, Matrix, noise};
use std::ops::Range;
use std::sync::Arc;

/// Stroke in V of the pushes that calibrate the sensors: 20 nm.
const PUSH: f64 = 20e-9 / STROKE;
/// A star, its sensor, and the mirror as the sensor sees it.
pub(super) struct StarPath {
    star: GuideStar,
    sensor: Box<dyn WavefrontSensor>,
    mirror: MirrorSurface,
    slopes: Range<usize>,
    tilt: Option<UnknownTilt>,
}

impl StarPath {
    /// Returns the paths of all stars of a system.
    ///
    /// # Errors
    /// A sensor that contradicts the system.
    pub(super) fn of_system(
        input: &Input,
        geometry: &Geometry,
        mirrors: &[LoopMirror],
        (seed, is_noisy): (u64, bool),
    ) -> Result<Vec<StarPath>, Error> {
        let system = &input.system;
        let mut first = 0;
        let path = |(i, star): (usize, &GuideStar)| {
            let sensor = sensor(input, geometry, i, seed, is_noisy)?;
            let mirror = MirrorSurface::new(mirrors, system.diameter / 2.0, star, sensor.grid());
            let slopes = first..first + sensor.slopes();
            first = slopes.end;
            let tilt = UnknownTilt::of(system, i, seed);
            Ok(StarPath { star: star.clone(), sensor, mirror, slopes, tilt })
        };
        system.stars.iter().enumerate().map(path).collect()
    }

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
    pub(super) turbulence: FrozenTurbulence,
    pub(super) paths: Vec<StarPath>,
    pub(super) targets: Vec<GuideStar>,
    /// The sensor whose slopes the reconstructors estimate.
    pub(super) truth: GeometricSensor,
    /// The mirrors on the grid of the images, as each target sees them.
    pub(super) mirrors: Vec<Arc<MirrorSurface>>,
    pub(super) grid: PupilGrid,
    pub(super) pupil: ImagePupil,
    /// Fit of the wavefronts that the sensors see, if they see no others.
    pub(super) projector: Option<Projector>,
    pub(super) law: ControlLaw,
    pub(super) frame_time: f64,
    /// Frames between two images.
    pub(super) every: u64,
    /// Frames before the exposure begins.
    pub(super) skip: u64,
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
    pub(super) fn slopes(&self) -> usize {
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
        interaction(input, &Geometry::new(&input.system)?, &self.paths, actuators)
    }

    /// Computes the wavefront of a target at a frame.
    pub(super) fn target_wavefront(&self, target: usize, frame: u64, out: &mut [f64]) {
        self.wavefront(&self.targets[target], &self.grid, frame, out);
    }

    pub(super) fn wavefront(&self, star: &GuideStar, grid: &PupilGrid, frame: u64, out: &mut [f64]) {
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

    /// Prepares the best fit of wavefronts by mirrors in the pupil, the same for every target.
    pub(super) fn projector(&self) -> Result<Projector, Error> {
        Projector::new(&self.mirrors[0], &self.pupil.lit, self.grid.len())
    }

    /// Returns the number of wavefront pixels across the pupil.
    pub(super) fn across(&self) -> usize {
        self.grid.xs.len()
    }
}

/// Returns the mirrors on the grid of the images for each target. Mirrors in the pupil alone are
/// those of every target.
pub(super) fn image_mirrors(
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

/// Makes the sensor of a star.
fn sensor(
    input: &Input,
    geometry: &Geometry,
    star: usize,
    seed: u64,
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
            let pixels = model.detector_pixels;
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
    Ok(Box::new(geometric.with_noise(&variances, seed, star)))
}

/// Measures the interaction matrix \[arcsec per volt\] without noise, by pushing and pulling each
/// actuator.
pub(super) fn interaction(
    input: &Input,
    geometry: &Geometry,
    paths: &[StarPath],
    actuators: usize,
) -> Result<Matrix, Error> {
    let rows = paths.last().map_or(0, |path| path.slopes.end);
    let mut out = Matrix::zeros(rows, actuators);
    let mut commands = vec![0.0; actuators];
    for (i, path) in paths.iter().enumerate() {
        let quiet = sensor(input, geometry, i, 0, false)?;
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
