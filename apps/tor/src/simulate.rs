//! A reconstructor in virtual time: factorisation and both solves, or the factorisation alone.

use std::time::Duration;

use serde::Serialize;
use zellige_linalg::{RectTiled, Rule, SharedPolicy, SymmetricTiled, TileGrid, When, cholesky, solve};
use zellige_runtime::platform::Platform;
use zellige_runtime::sim::{BytesMoved, SimOutcome, Simulation};
use zellige_runtime::{Graph, Recorder};

/// What to simulate: `X A = B` with `A` `n x n` and `B` `m x n`, in float32 tiles.
#[derive(Clone, Debug)]
pub struct Request {
    /// Measurements.
    pub n: usize,
    /// Rows of the reconstructor; 0 for the factorisation alone.
    pub m: usize,
    /// Tile size.
    pub tile: usize,
    /// Precision rule; one that looks at norms needs values and cannot be simulated.
    pub rule: Rule,
    /// Scheduling policy.
    pub policy: String,
    /// Tasks for which a device gathers operands beyond the running one.
    pub ahead: usize,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The platform.
    pub platform: String,
    /// Devices that ran tasks.
    pub devices: usize,
    /// Measurements, rows, tile size, tasks.
    pub n: usize,
    /// See `n`.
    pub m: usize,
    /// See `n`.
    pub tile: usize,
    /// See `n`.
    pub tasks: usize,
    /// The precision rule.
    pub rule: String,
    /// The scheduling policy.
    pub policy: String,
    /// From the first transfer to the last tile of the result on the host.
    pub makespan_seconds: f64,
    /// `n^3/3 + 2 n^2 m` operations per second of that time.
    pub tflops: f64,
    /// That rate over the float32 peak of all devices.
    pub fraction_of_peak: f64,
    /// Bytes moved between memory nodes.
    pub bytes_moved: BytesMoved,
    /// Share of devices x makespan in which no task ran.
    pub idle_share: f64,
    /// Lower bounds of any schedule of the same tasks.
    pub bounds: Bounds,
    /// Replicas that had to make room for others.
    pub evictions: usize,
}

/// Why nothing was simulated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The rule looks at norms.
    #[error(
        "rule {0} looks at the norms of finished tiles, and a simulation has no values: take a rule by position, e.g. hp1:band=2"
    )]
    NeedsNorms(Rule),
    /// The sizes make no tiles, or the platform cannot run the graph.
    #[error(transparent)]
    Linalg(#[from] zellige_linalg::Error),
}

impl From<zellige_runtime::Error> for Error {
    fn from(error: zellige_runtime::Error) -> Self {
        Error::Linalg(error.into())
    }
}

/// Lower bounds (s).
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Bounds {
    /// All tasks spread evenly, each on the kind of device that suits the whole best.
    pub area: f64,
    /// The longest chain of tasks, each on its fastest device.
    pub critical_path: f64,
    /// Both together.
    pub mixed: f64,
}

/// The graph of a reconstructor, or of a factor, and which of its slots hold it.
///
/// # Errors
/// A rule that looks at norms, sizes that make no tiles.
pub fn graph(request: &Request) -> Result<(Graph, Vec<usize>), Error> {
    let grid = |len| TileGrid::uniform(len, request.tile);
    let (rows, cols) = (grid(request.m)?, grid(request.n)?);
    let policy: SharedPolicy = request.rule.clone().into();
    if policy.when() == When::OperandsReady {
        return Err(Error::NeedsNorms(request.rule.clone()));
    }
    let graph = Graph::record(|g: &Recorder| {
        let a = SymmetricTiled::<f32>::planned(g, cols.clone());
        cholesky(g, &a, &policy)?;
        if request.m > 0 {
            let b = RectTiled::<f32>::planned(g, "B", rows, cols);
            solve(g, &a, &b, &policy)?;
        }
        Ok::<(), Error>(())
    })?;
    let result = if request.m > 0 { "B[" } else { "A[" };
    let names = graph.slots();
    let slots = names.iter().enumerate().filter(|(_, name)| name.starts_with(result));
    let slots = slots.map(|(slot, _)| slot).collect();
    Ok((graph, slots))
}

/// Simulates a reconstructor on `platform`.
///
/// # Errors
/// As [`graph`], and what the platform cannot run.
pub fn simulate(request: &Request, platform: &Platform) -> Result<(Report, SimOutcome), Error> {
    let (graph, result) = graph(request)?;
    let simulation =
        Simulation::new(&graph, platform).policy(&request.policy).ahead(request.ahead).collect(result);
    let outcome = simulation.run()?;
    let (n, m) = (request.n as f64, request.m as f64);
    let seconds = outcome.makespan.as_secs_f64();
    let tflops = (n * n * n / 3.0 + 2.0 * n * n * m) / seconds / 1e12;
    let bound = |time: Duration| time.as_secs_f64();
    let report = Report {
        platform: platform.name.clone(),
        devices: platform.devices.iter().map(|device| device.count).sum(),
        n: request.n,
        m: request.m,
        tile: request.tile,
        tasks: graph.len(),
        rule: request.rule.to_string(),
        policy: request.policy.clone(),
        makespan_seconds: seconds,
        tflops,
        fraction_of_peak: tflops / platform.peak_tflops("fp32"),
        bytes_moved: outcome.bytes_moved,
        idle_share: outcome.idle_share,
        bounds: Bounds {
            area: bound(outcome.bounds.area),
            critical_path: bound(outcome.bounds.critical_path),
            mixed: bound(outcome.bounds.mixed),
        },
        evictions: outcome.trace.evictions.len(),
    };
    Ok((report, outcome))
}
