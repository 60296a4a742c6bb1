//! Timing of a reconstructor, from parameters to `R`, without its evaluation.

use super::factor::{Reconstructed, Workspace, reconstruct};
use super::plan::plan;
use super::problem::{Element, Problem};
use super::{Attempt, Observer, OnNotSpd, Options, PipelineError};
use crate::params::Input;
use std::time::Instant;
use zellige_dense::{PrecisionPolicy, Rule, TileScalar, Work};
use zellige_kernels::StorageFormat;
use zellige_runtime::Runtime;

/// Times of one reconstructor.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    /// Rule that survived.
    pub rule: Rule,
    /// Rules that were tried before it; their times are not included.
    pub attempts: Vec<Attempt>,
    /// Time for the tables of covariances on the host (seconds).
    pub preparation: f64,
    /// Time for the tiles of `Cmm` and `Ctm` (seconds).
    pub covariances: f64,
    /// Time of the factorisation (seconds).
    pub factor: f64,
    /// Time of both triangular solves (seconds).
    pub solve: f64,
    /// Time from the parameters to the last tile of `R` at its place of computation (seconds).
    pub total: f64,
    /// Operations of the factorisation, and of factorisation and solves in total.
    pub work: [Work; 2],
}

/// Computes once the reconstructor of the first rule of `options`, or of the first rule after it
/// that survives. The result is discarded.
///
/// # Errors
/// Bad parameters, rules or options, a failed task, cancellation; [`PipelineError::Options`] if no
/// rule survives.
pub fn timed(
    rt: &Runtime,
    input: &Input,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Timing, PipelineError> {
    let start = Instant::now();
    let problem = Problem::of(plan(input, options)?, input, options)?;
    let preparation = start.elapsed().as_secs_f64();
    let mut attempts = Vec::new();
    let mut rule = problem.plan.rules[0].clone();
    loop {
        let start = Instant::now();
        let made = match rule.element() {
            StorageFormat::F64 => once::<f64>(rt, &problem, &rule, options, observer)?,
            _ => once::<f32>(rt, &problem, &rule, options, observer)?,
        };
        let not_spd = match made {
            Ok(timing) => {
                let total = preparation + start.elapsed().as_secs_f64();
                return Ok(Timing { attempts, preparation, total, ..timing });
            }
            Err(not_spd) => not_spd,
        };
        let next = rule.suggest_next().filter(|_| options.on_not_spd == OnNotSpd::Retry);
        let Some(next) = next else { return Err(PipelineError::Options(format!("{rule}: {not_spd}"))) };
        observer.warn(&format!("{rule}: {not_spd}"));
        attempts.push(Attempt { rule: rule.to_string(), not_spd });
        rule = next;
    }
}

/// Times one rule with new tiles.
fn once<T: Element>(
    rt: &Runtime,
    problem: &Problem,
    rule: &Rule,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Result<Timing, super::NotSpd>, PipelineError> {
    let made = match reconstruct::<T, _>(rt, problem, rule, options, &mut Workspace::default(), observer)? {
        Ok(made) => made,
        Err(lost) => return Ok(Err(lost)),
    };
    let work = work(problem, rule, &made);
    Ok(Ok(Timing {
        rule: rule.clone(),
        attempts: Vec::new(),
        preparation: 0.0,
        covariances: made.cov_seconds,
        factor: made.factor_seconds,
        solve: made.solve_seconds,
        total: 0.0,
        work,
    }))
}

fn work<T: Element>(problem: &Problem, rule: &Rule, made: &Reconstructed<T>) -> [Work; 2] {
    let grid = &problem.plan.grid;
    let solve_rule = problem.plan.solve_rule.as_ref().unwrap_or(rule);
    let native = <T as TileScalar>::FULL;
    let factor = Work::of_factorisation(grid, (native, rule.panel().gemm(native)), made.factor.counts());
    let rows = problem.targets() * problem.m();
    let solve = Work::of_solves(grid, rows, solve_rule.panel().gemm(native), made.solution.counts());
    [factor.clone(), factor.with(&solve)]
}
