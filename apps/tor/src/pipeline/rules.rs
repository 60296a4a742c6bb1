//! Sequential run of all rules.

use super::devices::devices;
use super::factor::{Solved, Workspace, run_rule};
use super::judge::{command_matrix, doubt, judge};
use super::peak::gemm_rate;
use super::problem::Problem;
use super::ranks::{RankUse, of_all_ranks};
use super::results::{Attempt, Extras, Measured, RuleResult, Seconds, TargetResult};
use super::xray::xray;
use super::{Observer, OnNotSpd, Options, Outcome, PipelineError};
use crate::Matrix;
use crate::params::Input;
use std::sync::Arc;
use std::time::Instant;
use zellige_dense::Rule;
use zellige_kernels::StorageFormat;
use zellige_runtime::{Runtime, Session};

/// Runs all rules; see [`super::run`].
pub(super) fn run<S: Session>(
    s: &S,
    input: &Input,
    options: &Options,
    dx: Option<Matrix>,
    observer: &dyn Observer,
) -> Result<Outcome, PipelineError> {
    if s.ranks() > 1 && options.keep_norms {
        return Err(PipelineError::Options("norms of tiles are available in a single process only".into()));
    }
    observer.stage("preparation", 1);
    let problem = Problem::new(input, options)?;
    for line in &problem.plan.advice {
        observer.warn(line);
    }
    let rt = s.runtime();
    let host = rt.memory().first().and_then(|host| host.capacity);
    problem.plan.check_host(
        &problem.rows,
        options,
        host,
        rt.devices().any(|device| device.kind == "cuda"),
    )?;
    observer.advance(1);
    let dx = match dx {
        _ if !options.judge => None,
        None => Some(command_matrix(rt, problem.system(), problem.cov.geometry(), observer)?),
        given => given,
    };
    let picture = if s.rank() == 0 { xray(rt, &problem, options.xray, observer)? } else { None };
    let mut workspace = Workspace::default();
    let mut results = Vec::with_capacity(problem.plan.rules.len());
    for rule in &problem.plan.rules {
        results.push(one(s, &problem, rule, options, dx.as_ref(), &mut workspace, observer)?);
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

/// If `fp32` itself fails, more precision on float32 tiles is no remedy, so this suggests `fp64`.
fn point_to_float64(results: &mut [RuleResult]) {
    if results.iter().any(|r| r.rule == "fp32" && r.not_spd.is_some()) {
        for lost in results.iter_mut().filter_map(|r| r.not_spd.as_mut()) {
            lost.suggestion = lost.suggestion.take().map(|_| "fp64".into());
        }
    }
}

fn one<S: Session>(
    s: &S,
    problem: &Problem,
    asked: &Rule,
    options: &Options,
    dx: Option<&Matrix>,
    workspace: &mut Workspace,
    observer: &dyn Observer,
) -> Result<RuleResult, PipelineError> {
    zellige_files::memory::reset_peak();
    let sent_before = s.bytes_sent();
    let mut result = RuleResult {
        n: problem.n(),
        m: problem.m(),
        lag_ms: problem.system().lag_ms(),
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
        let failure = match run_rule(s, problem, &rule, options, workspace, observer)? {
            Ok(solved) => {
                let (rt, widest) = (s.runtime(), problem.plan.grid.max_width());
                let peak = match rule.element() {
                    _ if !devices(rt).is_empty() => 0.0,
                    StorageFormat::F64 => gemm_rate::<f64>(rt, widest)?,
                    _ => gemm_rate::<f32>(rt, widest)?,
                };
                let own = [
                    zellige_files::memory::peak(),
                    solved.tile_bytes,
                    s.bytes_sent() - sent_before,
                    peak.to_bits(),
                ];
                let ranks = of_all_ranks(s, &own)?;
                result.rule = rule.to_string();
                if s.rank() == 0 {
                    measure(rt, problem, solved, options, dx, &ranks, &mut result, observer)?;
                }
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
    dx: Option<&Matrix>,
    ranks: &[Vec<u64>],
    result: &mut RuleResult,
    observer: &dyn Observer,
) -> Result<(), PipelineError> {
    let start = Instant::now();
    let part = |rank: usize, at: usize| ranks[rank][at];
    let uses: Vec<RankUse> = (0..ranks.len())
        .map(|rank| RankUse {
            rank,
            peak_memory_bytes: part(rank, 0),
            tile_bytes: part(rank, 1),
            sent_bytes: part(rank, 2),
        })
        .collect();
    let gemm_peak_gflops = (0..ranks.len()).map(|rank| f64::from_bits(part(rank, 3))).sum();
    let mut targets = Vec::with_capacity(problem.targets());
    let (mut images, mut warnings) = (Vec::new(), Vec::new());
    for (t, r) in solved.reconstructors.iter().enumerate() {
        let Some(dx) = dx else { break };
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
    let first = targets.first().cloned();
    let of_first = |figure: fn(&TargetResult) -> f64| first.as_ref().map_or(f64::NAN, figure);
    result.measured = Some(Measured {
        gemm_share: solved.share,
        flops,
        seconds,
        gflops: flops / (seconds.factor + seconds.solve).max(1e-9) / 1e9,
        gemm_peak_gflops,
        backward_error: solved.error.map_or(f64::NAN, |error| error.value),
        backward_error_estimated: solved.error.is_some_and(|error| !error.exact),
        trace_cee: of_first(|target| target.trace_cee),
        strehl_moao: of_first(|target| target.strehl_moao),
        strehl_exact: first.as_ref().and_then(|target| target.strehl_exact),
        marechal: of_first(|target| target.marechal),
        targets,
        peak_memory_bytes: zellige_files::memory::peak(),
        reconstructor_bytes: solved.rounded.first().map(|r| r.bytes() * solved.rounded.len() as u64),
        tile_bytes: uses.iter().map(|rank| rank.tile_bytes).sum(),
        ranks: if uses.len() > 1 { uses } else { Vec::new() },
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
        rounded: solved.rounded,
    };
    Ok(())
}
