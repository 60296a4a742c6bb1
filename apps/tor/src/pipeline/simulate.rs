//! A reconstructor in virtual time: factorisation and both solves, or the factorisation alone.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use zellige_dense::{
    Copies, Owners, RectTiled, Rule, SharedPolicy, Submission, SymmetricTiled, TileGrid, When, cholesky_with,
    solve_with,
};
use zellige_runtime::{Graph, Recorder};
use zellige_sim::platform::Platform;
use zellige_sim::{BytesMoved, Norms, SimOutcome, Simulation};

use crate::pipeline::norms::{Foreseen, Stretched, TileNorms};

/// The scheduling policy that runs each task where its tile is owned: see [`Owners`]. All others are the runtime's.
pub const OWNERS: &str = "owners";

/// What to simulate: `X A = B` with `A` `n x n` and `B` `m x n`, in float32 tiles.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Measurements.
    pub n: usize,
    /// Rows of the reconstructor; 0 for the factorisation alone.
    pub m: usize,
    /// Tile size.
    pub tile: usize,
    /// Precision rule; one that looks at norms needs `norms`.
    pub rule: Rule,
    /// Norms of the tiles of a run at some size.
    pub norms: Option<&'a TileNorms>,
    /// A second copy of each tile that products read in a narrow form, instead of replicas.
    pub both_copies: bool,
    /// The most products on one tile in one task; see [`Submission::fuse_updates`]. Above 1, rules on norms are looked up when the graph is recorded, so
    /// that products of two precisions never share a task, as they may in a run.
    pub fuse_updates: usize,
    /// Scheduling policy: one of the runtime's, or [`OWNERS`].
    pub policy: String,
    /// Tiles along a block of the owner map, for [`OWNERS`].
    pub cyclic_block: usize,
    /// Tasks for which a device gathers operands beyond the running one.
    pub ahead: usize,
}

/// What came of it.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
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
    /// `replicas` or `both`.
    pub copies: &'static str,
    /// The most products in one task.
    pub fuse_updates: usize,
    /// Share of the tile products of factorisation and solves that are not in float32.
    pub low_share: f64,
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
        "rule {0} looks at the norms of finished tiles, and a simulation has no values: take a rule by position, e.g. hp1:band=2, or \
         give it norms"
    )]
    NeedsNorms(Rule),
    /// The sizes make no tiles, or the platform cannot run the graph.
    #[error(transparent)]
    Linalg(#[from] zellige_dense::Error),
}

impl From<zellige_runtime::Error> for Error {
    fn from(error: zellige_runtime::Error) -> Self {
        Error::Linalg(error.into())
    }
}

/// Lower bounds (s).
#[derive(Clone, Copy, Debug, Serialize, schemars::JsonSchema)]
pub struct Bounds {
    /// All tasks spread evenly, each on the kind of device that suits the whole best.
    pub area: f64,
    /// The longest chain of tasks, each on its fastest device.
    pub critical_path: f64,
    /// Both together.
    pub mixed: f64,
}

/// A recorded reconstructor, or factor.
#[derive(Debug)]
pub struct Recorded {
    /// The factorisation, and both solves if there are rows.
    pub graph: Graph,
    /// The slots that hold the result.
    pub result: Vec<usize>,
    /// What deferred selections are to see.
    norms: Norms,
}

/// Records the graph of a reconstructor, or of a factor.
///
/// # Errors
/// A rule that looks at norms without any, sizes that make no tiles, a rule that two copies cannot serve.
pub fn record(request: &Request<'_>) -> Result<Recorded, Error> {
    let grid = |len| TileGrid::uniform(len, request.tile);
    let (rows, cols) = (grid(request.m)?, grid(request.n)?);
    let mut policy: SharedPolicy = request.rule.clone().into();
    let mut norms = None;
    if policy.when() == When::OperandsReady {
        let known = request.norms.ok_or_else(|| Error::NeedsNorms(request.rule.clone()))?;
        let stretched = Stretched::new(known, &rows, &cols);
        if request.both_copies || request.fuse_updates > 1 {
            // Conversions, and tasks of several products of one precision, are submitted before anything is finished: the answers are looked
            // up ahead.
            policy = Arc::new(Foreseen { rule: policy, norms: stretched });
        } else {
            norms = Some(stretched);
        }
    }
    let copies = if request.both_copies { Copies::both() } else { Copies::replicas() };
    let submission = Submission::default().copies(copies).fuse_updates(request.fuse_updates);
    let graph = Graph::record(|g: &Recorder| {
        let a = SymmetricTiled::<f32>::planned(g, cols.clone());
        cholesky_with(g, &a, &policy, &submission)?;
        if request.m > 0 {
            let b = RectTiled::<f32>::planned(g, "B", rows, cols);
            solve_with(g, &a, &b, &policy, &submission, |_| Ok(()))?;
        }
        Ok::<(), Error>(())
    })?;
    let slots = graph.slots();
    let of_result = if request.m > 0 { "B[" } else { "A[" };
    let result = slots.iter().enumerate().filter(|(_, name)| name.starts_with(of_result));
    let result = result.map(|(slot, _)| slot).collect();
    let norms = norms.map_or_else(Norms::default, |norms| by_version(&slots, &norms));
    Ok(Recorded { graph, result, norms })
}

/// Which norm each version of each slot carries: a product leaves its tile's norm alone, a triangular solve measures.
fn by_version(slots: &[String], norms: &Stretched) -> Norms {
    let mut table = Norms::default();
    // Norms of whole matrices, in the order of their first use.
    let mut whole = norms.whole().into_iter();
    for (slot, name) in slots.iter().enumerate() {
        if name == "norm" {
            table.set(slot, 0, whole.next().unwrap_or(f64::NAN));
            continue;
        }
        let Some((matrix, i, j)) = tile_of(name) else { continue };
        if matrix == "A" {
            table.set(slot, 0, norms.a(i, j));
            if i > j {
                // After one product per column to the left.
                table.set(slot, j + 1, norms.l(i, j));
            }
        } else if matrix == "B" {
            let [b, y, x] = norms.byx(i, j);
            table.set(slot, 0, b);
            table.set(slot, j + 1, y);
            // And then one per column to the right.
            table.set(slot, norms.columns() + 1, x);
        }
    }
    table
}

/// `A[2,1]`: matrix, row and column.
fn tile_of(name: &str) -> Option<(&str, usize, usize)> {
    let (matrix, place) = name.strip_suffix(']')?.split_once('[')?;
    let (i, j) = place.split_once(',')?;
    Some((matrix, i.parse().ok()?, j.parse().ok()?))
}

/// Share of the products that did not run in float32.
fn low_share(outcome: &SimOutcome, graph: &Graph, request: &Request<'_>) -> f64 {
    // Inner lengths, where a task may have several products.
    let lengths: Option<Vec<u32>> = (request.fuse_updates > 1)
        .then(|| graph.to_petgraph().node_weights().map(|node| node.info.shape[2]).collect());
    let of_task = |id: u64| {
        let length = lengths.as_ref().and_then(|lengths| lengths.get(id as usize));
        length.map_or(1, |&length| (length as usize).div_ceil(request.tile) as u64)
    };
    let products = outcome.trace.tasks.iter().filter(|task| task.name == "gemm");
    let (all, low) = products.fold((0u64, 0u64), |(all, low), task| {
        let count = of_task(task.id);
        (all + count, low + if task.label == "fp32" { 0 } else { count })
    });
    if all > 0 { low as f64 / all as f64 } else { 0.0 }
}

/// Simulates a reconstructor on `platform`.
///
/// # Errors
/// As [`record`], and what the platform cannot run.
pub fn simulate(request: &Request<'_>, platform: &Platform) -> Result<(Report, SimOutcome), Error> {
    let Recorded { graph, result, norms } = record(request)?;
    let devices = platform.devices.iter().map(|device| device.count).sum();
    let simulation = Simulation::new(&graph, platform).norms(norms).ahead(request.ahead).collect(result);
    let simulation = match request.policy.as_str() {
        OWNERS => simulation.policy_with(Box::new(Owners::new(devices).blocks(request.cyclic_block))),
        name => simulation.policy(name),
    };
    let outcome = simulation.run()?;
    let (n, m) = (request.n as f64, request.m as f64);
    let seconds = outcome.makespan.as_secs_f64();
    let tflops = (n * n * n / 3.0 + 2.0 * n * n * m) / seconds / 1e12;
    let bound = |time: Duration| time.as_secs_f64();
    let report = Report {
        platform: platform.name.clone(),
        devices,
        n: request.n,
        m: request.m,
        tile: request.tile,
        tasks: graph.len(),
        rule: request.rule.to_string(),
        copies: if request.both_copies { "both" } else { "replicas" },
        fuse_updates: request.fuse_updates,
        low_share: low_share(&outcome, &graph, request),
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
