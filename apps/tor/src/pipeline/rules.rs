//! All rules, one after the other.

use super::devices::devices;
use super::factor::{Solved, Workspace, run_rule};
use super::judge::{doubt, judge};
use super::peak::gemm_rate;
use super::problem::Problem;
use super::results::{Attempt, Extras, Measured, RuleResult, Seconds};
use super::xray::xray;
use super::{Error, Observer, OnNotSpd, Options, Outcome, memory};
use crate::params::Input;
use crate::{Matrix, dm};
use std::sync::Arc;
use std::time::Instant;
use zellige_dense::Rule;
use zellige_kernels::StorageFormat;
use zellige_runtime::Runtime;

/// See [`super::run`].
pub(super) fn run(
    rt: &Runtime,
    input: &Input,
    options: &Options,
    dx: Option<Matrix>,
    observer: &dyn Observer,
) -> Result<Outcome, Error> {
    observer.stage("preparation", 1);
    let problem = Problem::new(input, options)?;
    for line in &problem.plan.advice {
        observer.warn(line);
    }
    let dx = match dx {
        Some(dx) => dx,
        None => dm::command_matrix(problem.system(), problem.cov.geometry())?.dx,
    };
    observer.advance(1);
    let picture = xray(rt, &problem, options.xray, observer)?;
    let mut workspace = Workspace::default();
    let mut results = Vec::with_capacity(problem.plan.rules.len());
    for rule in &problem.plan.rules {
        results.push(one(rt, &problem, rule, options, &dx, &mut workspace, observer)?);
    }
    point_to_float64(&mut results);
    let devices = devices(rt);
    results.iter_mut().for_each(|result| result.devices.clone_from(&devices));
    Ok(Outcome {
        results,
        info: problem.plan.info.clone(),
        edges: problem.plan.grid.edges().to_vec(),
        input: problem.input,
        workers: rt.workers() - devices.len(),
        devices,
        xray: picture,
    })
}

/// Where `fp32` itself fails, more precision on float32 tiles is no remedy.
fn point_to_float64(results: &mut [RuleResult]) {
    if results.iter().any(|r| r.rule == "fp32" && r.not_spd.is_some()) {
        for lost in results.iter_mut().filter_map(|r| r.not_spd.as_mut()) {
            lost.suggestion = lost.suggestion.take().map(|_| "fp64".into());
        }
    }
}

fn one(
    rt: &Runtime,
    problem: &Problem,
    asked: &Rule,
    options: &Options,
    dx: &Matrix,
    workspace: &mut Workspace,
    observer: &dyn Observer,
) -> Result<RuleResult, Error> {
    memory::reset_peak();
    let mut result = RuleResult {
        n: problem.n(),
        m: problem.m(),
        tiles: problem.plan.tiles(),
        rule: asked.to_string(),
        rule_asked: None,
        attempts: Vec::new(),
        measured: None,
        not_spd: None,
        devices: Vec::new(),
        extras: Extras::default(),
    };
    let mut rule = asked.clone();
    loop {
        let failure = match run_rule(rt, problem, &rule, options, workspace, observer)? {
            Ok(solved) => {
                let peak = match rule.element() {
                    _ if !devices(rt).is_empty() => 0.0,
                    StorageFormat::F64 => gemm_rate::<f64>(rt, problem.plan.grid.max_width())?,
                    _ => gemm_rate::<f32>(rt, problem.plan.grid.max_width())?,
                };
                result.rule = rule.to_string();
                measure(rt, problem, solved, options, dx, peak, &mut result, observer)?;
                break;
            }
            Err(failure) => failure,
        };
        match rule.suggest_next() {
            Some(next) if options.on_not_spd == OnNotSpd::Retry => {
                observer.warn(&format!("{rule}: {failure}"));
                result.attempts.push(Attempt { rule: rule.to_string(), not_spd: failure });
                result.rule_asked = Some(asked.to_string());
                rule = next;
            }
            _ => {
                result.rule = rule.to_string();
                result.not_spd = Some(failure);
                break;
            }
        }
    }
    Ok(result)
}

fn measure(
    rt: &Runtime,
    problem: &Problem,
    solved: Solved,
    options: &Options,
    dx: &Matrix,
    gemm_peak_gflops: f64,
    result: &mut RuleResult,
    observer: &dyn Observer,
) -> Result<(), Error> {
    let start = Instant::now();
    let mut targets = Vec::with_capacity(problem.targets());
    let (mut images, mut warnings) = (Vec::new(), Vec::new());
    for (t, r) in solved.reconstructors.iter().enumerate() {
        let (target, image) = judge(rt, problem.system(), &problem.cov, t, r, dx, options.exact, observer)?;
        if let Some(text) = doubt(&result.rule, &target, &image) {
            observer.warn(&text);
            warnings.push(text);
        }
        targets.push(target);
        if t == 0 || options.keep_images {
            images.push(image);
        }
    }
    let seconds = Seconds {
        cov: solved.cov_seconds,
        factor: solved.factor_seconds,
        solve: solved.solve_seconds,
        eval: solved.error_seconds + start.elapsed().as_secs_f64(),
    };
    let flops = problem.plan.info.total_flops;
    let first = targets[0].clone();
    result.measured = Some(Measured {
        gemm_share: solved.share,
        flops,
        seconds,
        gflops: flops / (seconds.factor + seconds.solve).max(1e-9) / 1e9,
        gemm_peak_gflops,
        backward_error: solved.error.value,
        backward_error_estimated: !solved.error.exact,
        trace_cee: first.trace_cee,
        strehl_moao: first.strehl_moao,
        strehl_exact: first.strehl_exact,
        marechal: first.marechal,
        targets,
        peak_memory_bytes: memory::peak(),
        tile_bytes: solved.tile_bytes,
        warnings,
    });
    result.extras = Extras {
        map: solved.map,
        solve_share: solved.solve_share,
        residual: solved.refinement.as_ref().map(|made| made.residual),
        residuals: solved.refinement.map_or_else(Vec::new, |made| made.before),
        images,
        norms: solved.norms,
        reconstructors: if options.keep_reconstructors {
            solved.reconstructors.iter().map(Arc::clone).collect()
        } else {
            Vec::new()
        },
    };
    Ok(())
}
