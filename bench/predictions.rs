//! Comparison of predictions with measurements: calibrates tiles on this machine, predicts Cholesky
//! factorisations in virtual time, then runs them.
//!
//! `predictions [--n 4096,6144,8192] [--tile 256,512] [--workers 1,2] [--policy all] [--repeats 3]
//! [--json FILE]`
//!
//! Models are measured on matrices of the same tiles with the same number of workers, since workers
//! share caches, memory and clock. Each run is between two calibrations, and its prediction is the
//! mean of the predictions of both. The speed of a virtual machine drifts within seconds, so a
//! calibration before the run alone would compare two speeds of the machine. Policies that use
//! performance models get those of the calibration before. Cases take turns, repetition by
//! repetition; the reported run is the one with the median of predicted / measured.
//!
//! Two columns separate a wrong prediction from a machine that others use. `given` is the CPU time
//! of the process / (time x workers): if workers are never idle, the ratio cannot be better than
//! that. `by cpu` is the predicted time of all bodies / the CPU time of the process, on which other
//! processes have little effect.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use zellige_dense::{
    GemmPrecision, Generator, Rule, SharedPolicy, SymmetricTiled, TileGrid, cholesky, generator,
};
use zellige_measure::calibrate::{POLICY, Step, calibrate, surroundings};
use zellige_runtime::model::Models;
use zellige_runtime::sched::{POLICIES, uses_performance_models};
use zellige_runtime::{Graph, Recorder, Runtime};
use zellige_sim::Simulation;
use zellige_sim::platform::Platform;

type Failure = Box<dyn std::error::Error>;

/// Factorisations per tile size of a calibration.
const CALIBRATIONS: usize = 3;

/// Cases to be predicted and measured.
struct Plan {
    n: Vec<usize>,
    tile: Vec<usize>,
    workers: Vec<usize>,
    policies: Vec<String>,
    repeats: usize,
    json: Option<String>,
}

impl Plan {
    fn from_arguments() -> Result<Plan, Failure> {
        let mut plan = Plan {
            n: vec![4096, 6144, 8192],
            tile: vec![256, 512],
            workers: vec![1, 2],
            policies: POLICIES.map(|(name, _)| name.to_string()).to_vec(),
            repeats: 3,
            json: None,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(option) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{option} needs a value"))?;
            let numbers = || value.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>();
            match option.as_str() {
                "--n" => plan.n = numbers()?,
                "--tile" => plan.tile = numbers()?,
                "--workers" => plan.workers = numbers()?,
                "--policy" if value == "all" => {}
                "--policy" => plan.policies = value.split(',').map(String::from).collect(),
                "--repeats" => plan.repeats = value.parse::<usize>()?.max(1),
                "--json" => plan.json = Some(value),
                _ => return Err(format!("there is no option {option}").into()),
            }
        }
        Ok(plan)
    }
}

/// A factorisation under one policy.
struct Case {
    n: usize,
    tile: usize,
    workers: usize,
    policy: String,
    graph: Arc<Graph>,
    runs: Vec<Run>,
}

/// A prediction, and what came of it.
#[derive(Clone, Copy)]
struct Run {
    predicted: Times,
    measured: Times,
}

/// Seconds.
#[derive(Clone, Copy)]
struct Times {
    wall: f64,
    /// CPU time of the process; predicted: of all bodies together.
    cpu: f64,
}

impl Times {
    fn mean(self, other: Times) -> Times {
        Times { wall: (self.wall + other.wall) / 2.0, cpu: (self.cpu + other.cpu) / 2.0 }
    }
}

fn main() -> ExitCode {
    match Plan::from_arguments().and_then(|plan| compare(&plan)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn compare(plan: &Plan) -> Result<(), Failure> {
    let mut cases = cases(plan)?;
    for _ in 0..plan.repeats {
        for alike in cases.chunk_by_mut(|a, b| (a.tile, a.workers) == (b.tile, b.workers)) {
            repeat(alike)?;
        }
    }
    report(&cases);
    if let Some(file) = &plan.json {
        let rows: Vec<_> = cases.iter().map(Case::json).collect();
        std::fs::write(file, zellige_app::json::text(&rows)?)?;
    }
    Ok(())
}

/// Runs each of these cases, which have tile and workers in common, between two calibrations.
fn repeat(alike: &mut [Case]) -> Result<(), Failure> {
    let Some(first) = alike.first() else { return Ok(()) };
    let (tile, workers) = (first.tile, first.workers);
    let mut before = calibrated(tile, workers)?;
    for case in alike {
        let predicted = predict(case, &before)?;
        let measured = measure(case, &before)?;
        before = calibrated(tile, workers)?;
        let predicted = predicted.mean(predict(case, &before)?);
        case.runs.push(Run { predicted, measured });
    }
    Ok(())
}

fn cases(plan: &Plan) -> Result<Vec<Case>, Failure> {
    let mut cases = Vec::new();
    for (&n, &tile) in plan.n.iter().flat_map(|n| plan.tile.iter().map(move |tile| (n, tile))) {
        let graph = Arc::new(Graph::record(|g: &Recorder| {
            let a = SymmetricTiled::<f32>::planned(g, TileGrid::uniform(n, tile)?);
            cholesky(g, &a, &rule()).map(drop)
        })?);
        for (&workers, policy) in plan.workers.iter().flat_map(|w| plan.policies.iter().map(move |p| (w, p)))
        {
            let (graph, policy) = (Arc::clone(&graph), policy.clone());
            cases.push(Case { n, tile, workers, policy, graph, runs: Vec::new() });
        }
    }
    Ok(cases)
}

/// Models of this tile, measured while `workers` workers run.
fn calibrated(tile: usize, workers: usize) -> Result<Arc<Models>, Failure> {
    let models = Arc::new(Models::new());
    let builder = Runtime::builder().workers(workers).policy(POLICY);
    let rt = builder.models(Arc::clone(&models)).build()?;
    for _ in 0..CALIBRATIONS {
        calibrate(&rt, Step { tile, precision: GemmPrecision::Sp })?;
    }
    drop(rt);
    surroundings(&models, workers, POLICY)?;
    Ok(models)
}

fn rule() -> SharedPolicy {
    Rule::uniform(GemmPrecision::Sp).into()
}

/// Symmetric and diagonally dominant.
fn entries(n: usize) -> Generator<f32> {
    generator(move |rows, cols, out: &mut [f32], ld: usize| {
        for (j, col) in cols.enumerate() {
            for (i, row) in rows.clone().enumerate() {
                let off = 1.0 / (1.0 + row.abs_diff(col) as f32);
                out[i + j * ld] = if row == col { 1.0 + n as f32 } else { off };
            }
        }
    })
}

fn predict(case: &Case, models: &Arc<Models>) -> Result<Times, Failure> {
    let host = Platform::host(Arc::clone(models), case.workers)?;
    let outcome = Simulation::new(&case.graph, &host).policy(&case.policy).ahead(0).run()?;
    let wall = outcome.makespan.as_secs_f64();
    Ok(Times { wall, cpu: wall * case.workers as f64 * (1.0 - outcome.idle_share) })
}

/// Factors a matrix whose pages have been touched.
fn measure(case: &Case, models: &Arc<Models>) -> Result<Times, Failure> {
    let mut builder = Runtime::builder().workers(case.workers).policy(&case.policy);
    if uses_performance_models(&case.policy) {
        builder = builder.models(Arc::clone(models));
    }
    let rt = builder.build()?;
    let matrix = SymmetricTiled::new(&rt, TileGrid::uniform(case.n, case.tile)?);
    matrix.fill(&rt, &entries(case.n))?;
    rt.wait_all()?;
    let (start, cpu) = (Instant::now(), cpu_time());
    cholesky(&rt, &matrix, &rule())?.wait(&rt)?;
    Ok(Times { wall: start.elapsed().as_secs_f64(), cpu: (cpu_time() - cpu).as_secs_f64() })
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

impl Case {
    /// The run with the median ratio.
    fn middle_run(&self) -> Run {
        let mut runs = self.runs.clone();
        runs.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
        runs[runs.len() / 2]
    }

    fn json(&self) -> serde_json::Value {
        let Run { predicted, measured } = self.middle_run();
        json!({
            "n": self.n,
            "tile": self.tile,
            "workers": self.workers,
            "policy": self.policy,
            "predicted_seconds": predicted.wall,
            "measured_seconds": measured.wall,
            "all_ratios": self.runs.iter().map(Run::ratio).collect::<Vec<_>>(),
            "ratio": self.middle_run().ratio(),
            "ratio_by_cpu": self.middle_run().ratio_by_cpu(),
            "given": self.middle_run().given(self.workers),
        })
    }
}

impl Run {
    fn ratio(&self) -> f64 {
        self.predicted.wall / self.measured.wall
    }

    fn ratio_by_cpu(&self) -> f64 {
        self.predicted.cpu / self.measured.cpu
    }

    fn given(&self, workers: usize) -> f64 {
        self.measured.cpu / (self.measured.wall * workers as f64)
    }
}

fn report(cases: &[Case]) {
    println!("     n  tile workers  policy     predicted  measured  ratio by cpu  given");
    for case in cases {
        let middle = case.middle_run();
        println!(
            "{:>6} {:>5} {:>7}  {:<10} {:>9.4} {:>9.4} {:>6.3} {:>6.3} {:>6.2}",
            case.n,
            case.tile,
            case.workers,
            case.policy,
            middle.predicted.wall,
            middle.measured.wall,
            middle.ratio(),
            middle.ratio_by_cpu(),
            middle.given(case.workers),
        );
    }
    let off = |ratio: fn(&Run) -> f64| cases.iter().map(move |case| (ratio(&case.middle_run()) - 1.0).abs());
    let worst = |ratio: fn(&Run) -> f64| 100.0 * off(ratio).fold(0.0, f64::max);
    let within = off(Run::ratio).filter(|&off| off <= 0.1).count();
    println!(
        "{within} of {} cases within 10 %; largest deviation {:.1} %, by CPU time {:.1} %; times in seconds",
        cases.len(),
        worst(Run::ratio),
        worst(Run::ratio_by_cpu)
    );
}
