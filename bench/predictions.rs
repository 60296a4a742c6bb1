//! Predictions beside measurements: calibrates tiles on this machine, predicts Cholesky factorisations in virtual time, then runs them.
//!
//! `predictions [--n 4096,6144,8192] [--tile 256,512] [--workers 1,2] [--policy all] [--repeats 3] [--json FILE]`
//!
//! For each number of workers the models are measured with as many at once, since workers share caches, memory and clock. All
//! predictions are made before the first run. Runs take turns, repetition by repetition; their median counts, from the first
//! submission to the end of the last task, on a matrix whose pages have been touched. `ratio` is predicted / measured.
//!
//! Two columns tell a wrong prediction from a machine that others use. `given` is the CPU time of the process / (time x workers): the
//! ratio cannot be better than that where workers are never idle. `by cpu` is the predicted time of all bodies / the CPU time
//! of the process, which others hardly disturb.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use zellige_linalg::calibrate::{Step, calibrate, surroundings};
use zellige_linalg::{
    GemmPrecision, Generator, Rule, SharedPolicy, SymmetricTiled, TileGrid, cholesky, generator,
};
use zellige_runtime::model::Models;
use zellige_runtime::platform::Platform;
use zellige_runtime::sim::Simulation;
use zellige_runtime::{Graph, POLICIES, Recorder, Runtime, goes_by_models};

type Failure = Box<dyn std::error::Error>;

/// The policy under which is calibrated.
const CALIBRATED_WITH: &str = "prio";
/// Factorisations per tile size of a calibration.
const CALIBRATIONS: usize = 3;

/// What is to be predicted and measured.
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

/// One factorisation: predicted once, run several times.
struct Case {
    n: usize,
    tile: usize,
    workers: usize,
    policy: String,
    models: Arc<Models>,
    predicted: f64,
    /// Of all bodies together.
    predicted_busy: f64,
    runs: Vec<Spent>,
}

/// Wall-clock time, and CPU time of the process (seconds).
#[derive(Clone, Copy)]
struct Spent {
    wall: f64,
    cpu: f64,
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
    let mut cases = Vec::new();
    for &workers in &plan.workers {
        let models = calibrated(&plan.tile, workers)?;
        cases.extend(predictions(plan, workers, &models)?);
    }
    for _ in 0..plan.repeats {
        for (&n, &tile) in plan.n.iter().flat_map(|n| plan.tile.iter().map(move |tile| (n, tile))) {
            let matrix =
                SymmetricTiled::new(&Runtime::builder().workers(1).build()?, TileGrid::uniform(n, tile)?);
            for case in cases.iter_mut().filter(|case| (case.n, case.tile) == (n, tile)) {
                let spent = run(case, &matrix)?;
                case.runs.push(spent);
            }
        }
    }
    report(&cases);
    if let Some(file) = &plan.json {
        let rows: Vec<_> = cases.iter().map(Case::json).collect();
        std::fs::write(file, serde_json::to_string_pretty(&rows)?)?;
    }
    Ok(())
}

/// Models of these tiles, measured while `workers` workers run.
fn calibrated(tiles: &[usize], workers: usize) -> Result<Arc<Models>, Failure> {
    let models = Arc::new(Models::new());
    let builder = Runtime::builder().workers(workers).policy(CALIBRATED_WITH);
    let rt = builder.models(Arc::clone(&models)).build()?;
    for &tile in tiles.iter().cycle().take(CALIBRATIONS * tiles.len()) {
        calibrate(&rt, Step { tile, precision: GemmPrecision::Sp })?;
    }
    drop(rt);
    surroundings(&models, workers, CALIBRATED_WITH)?;
    Ok(models)
}

fn rule() -> SharedPolicy {
    Rule::uniform(GemmPrecision::Sp).into()
}

fn predictions(plan: &Plan, workers: usize, models: &Arc<Models>) -> Result<Vec<Case>, Failure> {
    let host = Platform::host(Arc::clone(models), workers)?;
    let mut cases = Vec::new();
    for (&n, &tile) in plan.n.iter().flat_map(|n| plan.tile.iter().map(move |tile| (n, tile))) {
        let graph = Graph::record(|g: &Recorder| {
            let a = SymmetricTiled::<f32>::planned(g, TileGrid::uniform(n, tile)?);
            cholesky(g, &a, &rule()).map(drop)
        })?;
        for policy in &plan.policies {
            let outcome = Simulation::new(&graph, &host).policy(policy).ahead(0).run()?;
            cases.push(Case {
                n,
                tile,
                workers,
                policy: policy.clone(),
                models: Arc::clone(models),
                predicted: outcome.makespan.as_secs_f64(),
                predicted_busy: outcome.makespan.as_secs_f64() * workers as f64 * (1.0 - outcome.idle_share),
                runs: Vec::new(),
            });
        }
    }
    Ok(cases)
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

fn run(case: &Case, matrix: &SymmetricTiled<f32>) -> Result<Spent, Failure> {
    let mut builder = Runtime::builder().workers(case.workers).policy(&case.policy);
    if goes_by_models(&case.policy) {
        builder = builder.models(Arc::clone(&case.models));
    }
    let rt = builder.build()?;
    matrix.fill(&rt, &entries(case.n))?;
    rt.wait_all()?;
    let (start, cpu) = (Instant::now(), cpu_time());
    cholesky(&rt, matrix, &rule())?.wait(&rt)?;
    Ok(Spent { wall: start.elapsed().as_secs_f64(), cpu: (cpu_time() - cpu).as_secs_f64() })
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

impl Case {
    /// The run in the middle.
    fn median(&self) -> Spent {
        let mut runs = self.runs.clone();
        runs.sort_by(|a, b| a.wall.total_cmp(&b.wall));
        runs[runs.len() / 2]
    }

    fn ratio(&self) -> f64 {
        self.predicted / self.median().wall
    }

    fn ratio_by_cpu(&self) -> f64 {
        self.predicted_busy / self.median().cpu
    }

    fn given(&self) -> f64 {
        let median = self.median();
        median.cpu / (median.wall * self.workers as f64)
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "n": self.n,
            "tile": self.tile,
            "workers": self.workers,
            "policy": self.policy,
            "predicted_seconds": self.predicted,
            "measured_seconds": self.median().wall,
            "all_seconds": self.runs.iter().map(|run| run.wall).collect::<Vec<_>>(),
            "ratio": self.ratio(),
            "ratio_by_cpu": self.ratio_by_cpu(),
            "given": self.given(),
        })
    }
}

fn report(cases: &[Case]) {
    println!("     n  tile workers  policy     predicted  measured  ratio by cpu  given");
    for case in cases {
        println!(
            "{:>6} {:>5} {:>7}  {:<10} {:>9.4} {:>9.4} {:>6.3} {:>6.3} {:>6.2}",
            case.n,
            case.tile,
            case.workers,
            case.policy,
            case.predicted,
            case.median().wall,
            case.ratio(),
            case.ratio_by_cpu(),
            case.given(),
        );
    }
    let worst = |ratio: fn(&Case) -> f64| {
        100.0 * cases.iter().map(|case| (ratio(case) - 1.0).abs()).fold(0.0, f64::max)
    };
    let (wall, cpu) = (worst(Case::ratio), worst(Case::ratio_by_cpu));
    println!(
        "largest deviation of {} cases: {wall:.1} %, by CPU time {cpu:.1} %; times in seconds",
        cases.len()
    );
}
