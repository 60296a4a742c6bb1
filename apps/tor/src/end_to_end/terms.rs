//! Error budget of a simulated loop: what is left of the wavefront's variance as one source of
//! error after the other is switched off.
//!
//! All exposures have the turbulence of the plain one, frame by frame:
//!
//! 1. the plain loop,
//! 2. without noise,
//! 3. as 2, with sensors that see the best fit of the mirror to the star's wavefront over the
//!    pupil, in place of the wavefront,
//! 4. as 3, with an immediate correction: gain 1, no leak, and slopes that move the mirror in their
//!    own frame,
//! 5. the best fit of the mirror to the target's wavefront.
//!
//! Noise is the variance of 1 less that of 2, aliasing that of 2 less 3, delay 3 less 4, fitting 5.
//! The rest, 4 less 5, is tomographic: what the stars' slopes do not tell of the target's
//! wavefront, with the modes that control filters. The terms add up to the variance of 1. What two
//! sources have in common belongs to the one that is switched off first; the integrals of
//! [`crate::budget`] have the covariance of aliasing and delay in their total alone.

use super::simulation::{LoopOptions, Simulation};
use super::statistics;
use crate::Matrix;
use crate::params::Input;
use crate::pipeline::{Observer, PipelineError};
use crate::system::LoopMode;
use std::sync::Arc;
use zellige_runtime::{Handle, Runtime, Submit, update};

/// Terms of the wavefront error towards a target, over the pupil without piston.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct LoopBudget {
    /// Direction in arcsec.
    pub x: f64,
    /// Direction in arcsec.
    pub y: f64,
    /// Stars' slopes that do not tell the target's wavefront, and modes that control filters.
    pub tomographic: BudgetTerm,
    /// Shapes that the mirror cannot take.
    pub fitting: BudgetTerm,
    /// Commands from turbulence that the mirror cannot take.
    pub aliasing: BudgetTerm,
    /// Commands from noise.
    pub noise: BudgetTerm,
    /// Lag of the commands.
    pub delay: BudgetTerm,
    /// All of it.
    pub total: BudgetTerm,
}

/// A term of the wavefront error.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct BudgetTerm {
    /// Root of the mean variance in nm; negative if the source of the term lowers the variance.
    pub nm: f64,
    /// Standard error in nm: what that of the variance, from ten parts of the exposure, adds to the
    /// root.
    pub error_nm: Option<f64>,
}

impl BudgetTerm {
    /// Returns the term of these variances \[m^2\] of frames.
    fn of(frames: &[f64]) -> BudgetTerm {
        let variance = frames.iter().sum::<f64>() / frames.len().max(1) as f64;
        let root = |variance: f64| 1e9 * variance.abs().sqrt();
        let error = statistics::of_parts(frames);
        BudgetTerm {
            nm: root(variance).copysign(variance),
            error_nm: error.map(|error| root(variance.abs() + error) - root(variance)),
        }
    }
}

impl LoopBudget {
    /// Returns each term by its name, the total last.
    pub fn list(&self) -> [(&'static str, BudgetTerm); 6] {
        [
            ("tomographic", self.tomographic),
            ("fitting", self.fitting),
            ("aliasing", self.aliasing),
            ("delay", self.delay),
            ("noise", self.noise),
            ("all", self.total),
        ]
    }
}

/// Variances \[m^2\] of frames in each of the five exposures, by target.
#[derive(Debug, Clone, Default)]
pub(super) struct Exposures([Vec<Vec<f64>>; 5]);

impl Exposures {
    /// Simulates the exposures beside the plain one, with the same seed; `None` if the observer
    /// asks for an end.
    ///
    /// # Errors
    /// The errors of [`Simulation::new`] and [`Simulation::run`].
    pub(super) fn beside(
        plain: &Simulation,
        rt: &Runtime,
        (input, matrices): (&Input, Option<&[Matrix]>),
        options: &LoopOptions,
        observer: &dyn Observer,
    ) -> Result<Option<Exposures>, PipelineError> {
        let quiet = LoopOptions { noise: false, images: 1, ..options.clone() };
        let simulate = |input: &Input, projected: bool| {
            if observer.cancelled() {
                return Ok(variances(plain).iter().map(|_| Vec::new()).collect());
            }
            let mut simulation = Simulation::new(input, matrices, &quiet)?;
            if projected {
                simulation.project()?;
            }
            simulation.run(rt, quiet.skip + quiet.frames, observer)?;
            Ok::<_, PipelineError>(variances(&simulation))
        };
        let first = variances(plain);
        let silent = if options.noise { simulate(input, false)? } else { first.clone() };
        let all = [
            first,
            silent,
            simulate(input, true)?,
            simulate(&immediate(input), true)?,
            fitted(plain, rt, options, observer)?,
        ];
        let is_whole = |frames: &Vec<f64>| frames.len() as u64 == options.frames;
        Ok(all.iter().flatten().all(is_whole).then_some(Exposures(all)))
    }

    /// Adds the frames of another seed.
    pub(super) fn append(&mut self, other: Exposures) {
        for (all, other) in self.0.iter_mut().zip(other.0) {
            all.resize(all.len().max(other.len()), Vec::new());
            all.iter_mut().zip(other).for_each(|(frames, other)| frames.extend(other));
        }
    }

    /// Returns the terms for each target.
    pub(super) fn budgets(&self, targets: &[[f64; 2]]) -> Vec<LoopBudget> {
        let of = |(t, direction): (usize, &[f64; 2])| {
            let [plain, silent, projected, immediate, fitted] = self.0.each_ref().map(|all| &all[t]);
            let less = |a: &[f64], b: &[f64]| {
                BudgetTerm::of(&a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<f64>>())
            };
            LoopBudget {
                x: direction[0],
                y: direction[1],
                tomographic: less(immediate, fitted),
                fitting: BudgetTerm::of(fitted),
                aliasing: less(silent, projected),
                noise: less(plain, silent),
                delay: less(projected, immediate),
                total: BudgetTerm::of(plain),
            }
        };
        let measured = self.0[0].len();
        targets.iter().take(measured).enumerate().map(of).collect()
    }
}

/// Returns the variances of a simulation's frames by target.
fn variances(simulation: &Simulation) -> Vec<Vec<f64>> {
    simulation.exposures().iter().map(|exposure| exposure.variances().to_vec()).collect()
}

/// Returns the system with an immediate correction.
fn immediate(input: &Input) -> Input {
    let mut input = input.clone();
    let model = &mut input.system.simulation;
    (model.delay, model.leak) = (0, 0.0);
    model.gain = (model.mode != Some(LoopMode::Open)).then_some(1.0);
    input
}

/// Frames whose fits are submitted at once.
const BATCH: u64 = 64;

/// Returns the variances of the targets' wavefronts less their best fits, frame by frame.
fn fitted(
    plain: &Simulation,
    rt: &Runtime,
    options: &LoopOptions,
    observer: &dyn Observer,
) -> Result<Vec<Vec<f64>>, PipelineError> {
    observer.stage("best fits", options.frames);
    let setup = &plain.setup;
    let projector = Arc::new(setup.projector()?);
    let mut all = vec![Vec::new(); setup.targets()];
    for first in (0..options.frames).step_by(BATCH as usize) {
        if observer.cancelled() {
            break;
        }
        let batch = first..(first + BATCH).min(options.frames);
        for (target, all) in all.iter_mut().enumerate() {
            let sums: Vec<Handle<f64>> = batch.clone().map(|_| rt.register(0.0)).collect();
            for (frame, sum) in batch.clone().zip(&sums) {
                let (setup, projector) = (Arc::clone(setup), Arc::clone(&projector));
                let frame = options.skip + frame;
                rt.task("fit")
                    .operands((update(sum),))
                    .cpu(move |(sum,)| *sum = setup.unfitted(&projector, target, frame))
                    .submit()?;
            }
            for sum in sums {
                all.push(rt.take(sum)?);
            }
        }
        observer.advance(batch.end);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{Mode, parse};
    use crate::pipeline::Silent;
    use crate::system::{NoiseModel, SensorModel};
    use std::path::Path;

    /// Returns the sum of the squares of an integrator's commands after a single slope of 1.
    fn noise_gain(gain: f64, delay: usize) -> f64 {
        let mut commands = vec![0.0; delay];
        for k in delay..1000 {
            let slope = if k == delay { 1.0 } else { 0.0 };
            commands.push(commands[k - 1] + gain * (slope - commands[k - delay]));
        }
        commands.iter().map(|c| c * c).sum()
    }

    /// The variance by noise is that of the command matrix' columns on the pupil, each times the
    /// variance of a slope and the noise gain of the integrator.
    #[test]
    fn noise_is_that_of_the_command_matrix() {
        let variance = 4e-3;
        for nssp in [6, 10] {
            let text =
                include_str!("../../systems/scao.toml").replace("nssp = 20 ", &format!("nssp = {nssp} "));
            let mut input = parse(Path::new("s.toml"), &text, None, Mode::Strict).unwrap();
            input.system.noise = NoiseModel::Uniform { variance };
            let model = &mut input.system.simulation;
            (model.sensor, model.gain, model.delay) = (SensorModel::Gradients, Some(0.4), 2);
            model.frame_time = Some(0.002);
            assert_eq!(model.leak, 0.0);
            let options = LoopOptions { frames: 500, skip: 30, images: 1, ..LoopOptions::default() };
            let rt = Runtime::builder().workers(1).build().unwrap();
            let simulate = |noise: bool| {
                let options = LoopOptions { noise, ..options.clone() };
                let mut simulation = Simulation::new(&input, None, &options).unwrap();
                simulation.run(&rt, options.skip + options.frames, &Silent).unwrap();
                simulation
            };
            let (noisy, quiet) = (simulate(true), simulate(false));
            let all: Vec<f64> = std::iter::zip(&variances(&noisy)[0], &variances(&quiet)[0])
                .map(|(noisy, quiet)| noisy - quiet)
                .collect();
            let found = BudgetTerm::of(&all);
            let command = noisy.command_matrices().next().unwrap();
            let of_slope = |slope: usize| {
                let mut wavefront = vec![0.0; noisy.setup.target_points()];
                noisy.setup.correct_target(0, command.col(slope), &mut wavefront);
                noisy.setup.pupil.variance(&wavefront)
            };
            let sum: f64 = (0..command.cols()).map(of_slope).sum();
            let wanted = 1e9 * (variance * noise_gain(0.4, 2) * sum).sqrt();
            let near = 3.0 * found.error_nm.unwrap() + 0.01 * wanted;
            assert!((found.nm - wanted).abs() < near, "{nssp}: {found:?}, {wanted} nm");
            assert!(near < 0.1 * wanted, "{nssp}: {found:?}, {wanted} nm");
        }
    }
}
