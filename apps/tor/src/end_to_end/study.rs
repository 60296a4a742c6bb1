//! Exposures of one loop with several seeds, and what is reported of them.

use super::conjugate::LoopMirror;
use super::exposure::{Exposure, LongExposure};
use super::simulation::{LoopOptions, LoopResult, LoopTarget, Simulation};
use super::snapshot::Snapshot;
use super::statistics;
use super::terms::Exposures;
use super::theory::{LoopRun, SeedResult};
use crate::Matrix;
use crate::image::Psf;
use crate::params::Input;
use crate::pipeline::{GemmShare, Observer, PipelineError};
use std::path::Path;
use std::time::Instant;
use zellige_runtime::Runtime;

/// Frames of the first exposure that are kept for the page.
const FILM: u64 = 6;

/// Exposures and pictures beside the first exposure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Study<'a> {
    /// Number of seeds: that of the options and the next ones.
    pub seeds: u64,
    /// Whether the exposures of the error budget are simulated.
    pub budget: bool,
    /// Whether pictures are kept.
    pub pictures: bool,
    /// File for slopes and commands of the first exposure ([`super::Telemetry::write`]).
    pub telemetry: Option<&'a Path>,
}

impl Default for Study<'_> {
    fn default() -> Self {
        Study { seeds: 1, budget: false, pictures: false, telemetry: None }
    }
}

/// Pictures of the exposures with one reconstructor.
#[derive(Debug, Clone, Default)]
pub struct LoopPictures {
    /// Long exposures of all seeds, by target and wavelength: direction \[arcsec\], wavelength
    /// \[m\] and image.
    pub psfs: Vec<([f64; 2], f64, Psf)>,
    /// Strehl ratio of each frame towards the first target at the first wavelength, first seed.
    pub history: Vec<f32>,
    /// Frames of the first seed, the last one at the end of the exposure.
    pub film: Vec<Snapshot>,
}

/// Reconstructor of a loop.
#[derive(Debug, Clone)]
pub struct Compared {
    /// Its name.
    pub name: String,
    /// A matrix for each target; `None` for the inverse of the measured interaction matrix.
    pub matrices: Option<Vec<Matrix>>,
    /// Fractions of tile products by precision.
    pub shares: Option<GemmShare>,
}

/// Simulates the exposures of a reconstructor. If the observer asks for an end, the frames so far
/// are kept; `None` if the exposure had not begun. `begins` is called when frames begin, after
/// which an end keeps something.
///
/// # Errors
/// The errors of [`Simulation::new`] and [`Simulation::run`].
pub fn expose(
    rt: &Runtime,
    input: &Input,
    compared: &Compared,
    (options, study): (&LoopOptions, Study<'_>),
    observer: &dyn Observer,
    begins: &mut dyn FnMut(),
) -> Result<Option<(LoopRun, LoopPictures)>, PipelineError> {
    let at_altitude = LoopMirror::of_system(&input.system).iter().any(|mirror| mirror.altitude != 0.0);
    if study.budget && at_altitude {
        let problem = "--error-budget needs mirrors in the pupil: others fit every direction in another way";
        return Err(PipelineError::Options(problem.into()));
    }
    let matrices = compared.matrices.as_deref();
    let targets = &input.system.targets;
    let mut whole: Option<Simulation> = None;
    let mut budget = study.budget.then(Exposures::default);
    let mut pictures = LoopPictures::default();
    let (mut seeds, mut seconds, mut simulated) = (Vec::new(), 0.0, 0);
    for seed in 0..study.seeds.max(1) {
        let options = LoopOptions { seed: options.seed.wrapping_add(seed), ..options.clone() };
        observer.stage("calibration", 1);
        let mut simulation = Simulation::new(input, matrices, &options)?;
        let recorded = study.telemetry.filter(|_| seed == 0);
        if recorded.is_some() {
            simulation.record(options.frames)?;
        }
        begins();
        let film = if study.pictures && seed == 0 { Some(&mut pictures.film) } else { None };
        let start = Instant::now();
        simulation.film(rt, &options, film, observer)?;
        seconds += start.elapsed().as_secs_f64();
        simulated += simulation.frame;
        if let Some(file) = recorded {
            simulation.write_telemetry(file, input, &options, observer)?;
        }
        let result = simulation.result(&input.system, &options);
        if result.frames == 0 {
            break;
        }
        seeds.push(of_seed(&result));
        if seed == 0 {
            pictures.history = simulation.exposures[0].history().to_vec();
        }
        if let (Some(all), false) = (&mut budget, observer.cancelled()) {
            match Exposures::beside(&simulation, rt, (input, matrices), &options, observer)? {
                Some(more) => all.append(more),
                None => budget = None,
            }
        }
        match &mut whole {
            Some(whole) => whole.pool(&simulation),
            None => whole = Some(simulation),
        }
        if observer.cancelled() {
            break;
        }
    }
    let Some(whole) = whole else { return Ok(None) };
    let mut result = whole.result(&input.system, options);
    spread(&mut result, &seeds);
    let complete = result.frames == study.seeds.max(1) * options.frames;
    let theory = whole.theory(input, options).unwrap_or_else(|error| {
        observer.warn(&error.to_string());
        None
    });
    let field = match complete {
        true => whole.field_map(rt, input, options, observer)?,
        false => None,
    };
    if study.pictures {
        pictures.psfs = whole.psfs(targets, &result);
    }
    let run = LoopRun {
        reconstructor: compared.name.clone(),
        shares: compared.shares,
        not_spd: None,
        complete,
        stages: Some(whole.clock.per_frame(whole.frame)),
        result: Some(result),
        seeds: if seeds.len() > 1 { seeds } else { Vec::new() },
        seconds,
        frames_per_second: simulated as f64 / seconds,
        budget: budget.filter(|_| complete).map_or(Vec::new(), |all| all.budgets(targets)),
        theory,
        field,
    };
    Ok(Some((run, pictures)))
}

/// Returns the figures of one seed.
fn of_seed(result: &LoopResult) -> SeedResult {
    let strehl = |target: &LoopTarget| target.bands.first().map_or(f64::NAN, |band| band.strehl);
    SeedResult {
        seed: result.seed,
        frames: result.frames,
        strehl: result.targets.iter().map(strehl).collect(),
        rms_nm: result.targets.iter().map(|target| target.rms_nm).collect(),
    }
}

/// Takes the standard errors of Strehl ratios from several seeds, if there are several.
fn spread(result: &mut LoopResult, seeds: &[SeedResult]) {
    for (t, target) in result.targets.iter_mut().enumerate() {
        let strehls: Vec<f64> = seeds.iter().map(|seed| seed.strehl[t]).collect();
        target.strehl_error = statistics::of_mean(&strehls).or(target.strehl_error);
    }
}

impl Simulation {
    /// Simulates the exposure, and stores some frames of it in detail.
    fn film(
        &mut self,
        rt: &Runtime,
        options: &LoopOptions,
        film: Option<&mut Vec<Snapshot>>,
        observer: &dyn Observer,
    ) -> Result<(), PipelineError> {
        let all = options.skip + options.frames;
        let Some(film) = film else { return self.run(rt, all, observer) };
        observer.stage("frames", all);
        let mut shown: Vec<u64> = (1..=FILM).map(|k| options.skip + options.frames * k / FILM).collect();
        shown.dedup();
        for frame in shown.iter().filter(|frame| **frame > options.skip).map(|frame| frame - 1) {
            let from = self.frame;
            self.run(rt, frame - from, &After { observer, from })?;
            if self.frame < frame {
                return Ok(());
            }
            film.push(self.snapshot());
        }
        let from = self.frame;
        self.run(rt, all - from, &After { observer, from })
    }

    /// Writes what has been recorded, and warns if it is less than the exposure.
    fn write_telemetry(
        &self,
        file: &Path,
        input: &Input,
        options: &LoopOptions,
        observer: &dyn Observer,
    ) -> Result<(), PipelineError> {
        let Some(recorded) = self.telemetry() else { return Ok(()) };
        let recorded = recorded.get();
        if recorded.frames() > 0 {
            recorded.write(file, &input.system)?;
        }
        if recorded.frames() as u64 != options.frames {
            observer.warn(&format!("{}: {} frames", file.display(), recorded.frames()));
        }
        Ok(())
    }

    /// Adds the exposures of the same loop with another seed.
    fn pool(&mut self, other: &Simulation) {
        self.exposures.iter_mut().zip(&other.exposures).for_each(|(all, more)| all.append(more));
    }

    /// Returns the long exposures by target and wavelength.
    fn psfs(&self, targets: &[[f64; 2]], result: &LoopResult) -> Vec<([f64; 2], f64, Psf)> {
        let of_target = |(t, exposure): (usize, &Exposure)| -> Vec<_> {
            let bands = result.targets[t].bands.iter().enumerate();
            let psf = |(i, band): (usize, &LongExposure)| {
                let psf = Psf {
                    size: self.pupil().size(),
                    pixel: self.pupil().pixel(band.wavelength),
                    image: exposure.image(i),
                    strehl: band.strehl,
                    wfe_nm: result.targets[t].rms_nm,
                    contradiction: 0.0,
                };
                (targets[t], band.wavelength, psf)
            };
            bands.map(psf).collect()
        };
        self.exposures.iter().enumerate().flat_map(of_target).collect()
    }
}

/// Observer of a part of a stage, which its owner has announced.
struct After<'o> {
    observer: &'o dyn Observer,
    /// Steps before this part.
    from: u64,
}

impl Observer for After<'_> {
    fn stage(&self, _name: &str, _total: u64) {}

    fn advance(&self, done: u64) {
        self.observer.advance(self.from + done);
    }

    fn warn(&self, text: &str) {
        self.observer.warn(text);
    }

    fn cancelled(&self) -> bool {
        self.observer.cancelled()
    }
}
