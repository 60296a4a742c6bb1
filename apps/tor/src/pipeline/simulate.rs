//! A reconstructor in virtual time: factorisation and both solves, or the factorisation alone.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use zellige_dense::{
    Owners, RectTiled, Rule, SharedPolicy, Submission, SymmetricTiled, Tile, TileGrid, When, cholesky_with,
    products_of_cholesky, solve_with,
};
use zellige_mpi::PlannedRanks;
use zellige_runtime::trace::Trace;
use zellige_runtime::{Graph, Handle, Recorder, Submit};
use zellige_sim::platform::Platform;
use zellige_sim::{BytesMoved, Messages, Norms, RankSimulation, SimBounds, SimOutcome, Simulation};

use super::ranks::owners;
use crate::pipeline::norms::{Foreseen, Stretched, TileNorms};

/// Scheduling policy that runs each task on the owner of its tile: see [`Owners`]. All other
/// policies are those of the runtime.
pub const OWNERS: &str = "owners";

/// A request for a simulation of `X A = B` with `A` `n x n` and `B` `m x n`, in float32 tiles.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Number of measurements.
    pub n: usize,
    /// Number of rows of the reconstructor; 0 for the factorisation alone.
    pub m: usize,
    /// Whether only the tile products of the factorisation are simulated; for `m` = 0.
    pub products_only: bool,
    /// Tile size.
    pub tile: usize,
    /// Precision rule; one that uses norms needs `norms`.
    pub rule: Rule,
    /// Norms of the tiles of a run at any size.
    pub norms: Option<&'a TileNorms>,
    /// The most products on one tile in one task; see [`Submission::fuse_updates`]. Above 1, rules
    /// on norms are looked up when the graph is recorded, so that products of two precisions never
    /// share a task, as they may in a run.
    pub fuse_updates: usize,
    /// Scheduling policy: one of the runtime's, or [`OWNERS`].
    pub policy: String,
    /// Number of tiles along a block of the owner map, for [`OWNERS`].
    pub cyclic_block: usize,
    /// Number of tasks whose operands a device prefetches beyond the running one.
    pub ahead: usize,
    /// Number of machines like the platform, with one rank on each. They own tiles as in a run on
    /// as many ranks. On several machines, rules on norms are also evaluated when the graphs are
    /// recorded. Messages then have the formats that ranks request in a run.
    pub nodes: usize,
}

/// Result of a simulation.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Report {
    /// Name of the platform.
    pub platform: String,
    /// Number of machines, with one rank on each.
    pub nodes: usize,
    /// Number of devices that ran tasks, on all machines.
    pub devices: usize,
    /// Number of measurements.
    pub n: usize,
    /// Number of rows of the reconstructor.
    pub m: usize,
    /// Tile size.
    pub tile: usize,
    /// Number of tasks.
    pub tasks: usize,
    /// Precision rule.
    pub rule: String,
    /// Whether the tile products of the factorisation were alone.
    pub products_only: bool,
    /// The most products in one task.
    pub fuse_updates: usize,
    /// Share of the tile products of factorisation and solves that are not in float32.
    pub low_share: f64,
    /// Scheduling policy.
    pub policy: String,
    /// Time from the first transfer to the last tile of the result on the host.
    pub makespan_seconds: f64,
    /// Rate: operations over that time, in Tflop/s; `n^3/3 + 2 n^2 m` of a reconstructor, those of
    /// the products if these are alone.
    pub tflops: f64,
    /// Ratio of that rate to the float32 peak of all devices.
    pub fraction_of_peak: f64,
    /// Ratio of the time on the first requested number of nodes to this time.
    pub speedup: f64,
    /// Ratio of the speedup to the ideal one for this number of nodes.
    pub efficiency: f64,
    /// Bytes moved between the memory nodes of machines.
    pub bytes_moved: BytesMoved,
    /// Share of devices x makespan in which no task ran.
    pub idle_share: f64,
    /// Lower bounds on any schedule of the same tasks; on several nodes the largest bounds of
    /// single ranks.
    pub bounds: Bounds,
    /// Number of replicas that were evicted for others.
    pub evictions: usize,
    /// Results of each rank.
    pub ranks: Vec<RankReport>,
}

/// Results of one rank.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct RankReport {
    /// Number of its tasks, without those that send and receive.
    pub tasks: usize,
    /// Messages between this rank and others.
    pub messages: Messages,
    /// Share of the makespan in which its network adapter sent or received, the larger of both.
    pub adapter_share: f64,
    /// Peak number of bytes on its host.
    pub host_peak_bytes: u64,
    /// Peak number of bytes on any of its devices.
    pub device_peak_bytes: u64,
}

/// The reason why nothing was simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// The rule uses norms.
    #[error(
        "rule {0} needs the norms of computed tiles, but a simulation has no values: use a rule by position, e.g. hp1:band=2, or give it norms"
    )]
    NeedsNorms(Rule),
    /// The policy works on one machine only.
    #[error("policy {OWNERS} is for the devices of one machine: use another for several nodes")]
    OwnersOnNodes,
    /// Products alone were requested, and there are none.
    #[error(
        "a matrix of order {0} in tiles of {1} has no products: three tile columns are needed, use smaller tiles"
    )]
    NoProducts(usize, usize),
    /// The sizes make no tiles, or the platform cannot run the graph.
    #[error(transparent)]
    Linalg(#[from] zellige_dense::Error),
}

impl From<zellige_runtime::Error> for SimulateError {
    fn from(error: zellige_runtime::Error) -> Self {
        SimulateError::Linalg(error.into())
    }
}

/// Lower bounds on the makespan (s).
#[derive(Clone, Copy, Debug, Serialize, schemars::JsonSchema)]
pub struct Bounds {
    /// Area bound: all tasks distributed evenly, each on the kind of device that suits the whole
    /// best.
    pub area: f64,
    /// Critical path: the longest chain of tasks, each on its fastest device.
    pub critical_path: f64,
    /// Combination of the area bound and the critical path.
    pub mixed: f64,
}

/// A recorded graph of a reconstructor, or of a factor.
#[derive(Debug)]
pub struct Recorded {
    /// Graph of the factorisation, and of both solves if there are rows.
    pub graph: Graph,
    /// Slots that hold the result.
    pub result: Vec<usize>,
    /// Norms for deferred selection.
    norms: Norms,
}

/// Returns the policy for the submission of tasks, and the norms for deferred selection, if the
/// rule needs them.
///
/// # Errors
/// A rule that uses norms without any, sizes that make no tiles.
fn policy(request: &Request<'_>) -> Result<(SharedPolicy, Option<Stretched>), SimulateError> {
    let rule: SharedPolicy = request.rule.clone().into();
    if rule.when() != When::OperandsReady {
        return Ok((rule, None));
    }
    let known = request.norms.ok_or_else(|| SimulateError::NeedsNorms(request.rule.clone()))?;
    let grid = |len| TileGrid::uniform(len, request.tile);
    let norms = Stretched::new(known, &grid(request.m)?, &grid(request.n)?);
    // Tasks of several products of one precision, and messages are submitted before
    // anything is finished: the answers are looked up ahead.
    let ahead = request.fuse_updates > 1 || request.nodes > 1;
    Ok(if ahead { (Arc::new(Foreseen { rule, norms }), None) } else { (rule, Some(norms)) })
}

/// Records the graph of a reconstructor, or of a factor.
///
/// # Errors
/// A rule that looks at norms without any, sizes that make no tiles.
pub fn record(request: &Request<'_>) -> Result<Recorded, SimulateError> {
    let (policy, norms) = policy(request)?;
    let graph = Graph::record(|g: &Recorder| submit(g, request, &policy, &|_, _, _| Ok(())))?;
    let slots = graph.slots();
    let result = results(request, &slots).map(|(slot, ..)| slot).collect();
    let norms = norms.map_or_else(Norms::default, |norms| by_version(&slots, &norms));
    Ok(Recorded { graph, result, norms })
}

/// Records the graph of each rank of a reconstructor, or of a factor. Returns each graph with the
/// slots of its part of the result.
///
/// # Errors
/// The errors of [`record`].
pub fn record_ranks(request: &Request<'_>) -> Result<Vec<(Graph, Vec<usize>)>, SimulateError> {
    let (policy, _) = policy(request)?;
    let owner = owners(request.nodes);
    let graphs = PlannedRanks::record(request.nodes, |ranks| {
        submit(ranks, request, &policy, &|tile, i, j| ranks.set_owner(tile, owner(i, j)))
    })?;
    let of_rank = |(rank, graph): (usize, Graph)| {
        let slots = graph.slots();
        let own = results(request, &slots).filter(|&(_, i, j)| owner(i, j) == rank);
        let own = own.map(|(slot, ..)| slot).collect();
        (graph, own)
    };
    Ok(graphs.into_iter().enumerate().map(of_rank).collect())
}

/// Returns the slots of tiles of the result, with row and column.
fn results<'s>(
    request: &Request<'_>,
    slots: &'s [String],
) -> impl Iterator<Item = (usize, usize, usize)> + use<'s> {
    let of_result = if request.m > 0 { "B" } else { "A" };
    let tile = move |(slot, name): (usize, &String)| {
        let (matrix, i, j) = tile_of(name)?;
        (matrix == of_result).then_some((slot, i, j))
    };
    slots.iter().enumerate().filter_map(tile)
}

/// Function that sets the owner of a tile, from its row and column.
type Own<'o> = &'o dyn Fn(&Handle<Tile<f32>>, usize, usize) -> Result<(), zellige_runtime::Error>;

/// Submits the factorisation, and both solves if there are rows.
fn submit<S: Submit>(
    s: &S,
    request: &Request<'_>,
    policy: &SharedPolicy,
    own: Own<'_>,
) -> Result<(), SimulateError> {
    let grid = |len| TileGrid::uniform(len, request.tile);
    let (rows, cols) = (grid(request.m)?, grid(request.n)?);
    let (mt, nt) = (rows.tiles(), cols.tiles());
    let submission = Submission::default().fuse_updates(request.fuse_updates);
    let a = SymmetricTiled::<f32>::planned(s, cols.clone());
    for j in 0..nt {
        (j..nt).try_for_each(|i| own(a.tile(i, j), i, j))?;
    }
    if request.products_only {
        if nt < 3 {
            return Err(SimulateError::NoProducts(request.n, request.tile));
        }
        return Ok(products_of_cholesky(s, &a, policy, &submission)?);
    }
    cholesky_with(s, &a, policy, &submission)?;
    if request.m > 0 {
        let b = RectTiled::<f32>::planned(s, "B", rows, cols);
        for i in 0..mt {
            (0..nt).try_for_each(|j| own(b.tile(i, j), i, j))?;
        }
        solve_with(s, &a, &b, policy, &submission, |_| Ok(()))?;
    }
    Ok(())
}

/// Returns the norm of each version of each slot. A product keeps the norm of its tile, a
/// triangular solve measures it.
fn by_version(slots: &[String], norms: &Stretched) -> Norms {
    let mut table = Norms::default();
    // Norms of whole matrices are in the order of their first use.
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
                // Version j + 1 follows one product per column to the left.
                table.set(slot, j + 1, norms.l(i, j));
            }
        } else if matrix == "B" {
            let [b, y, x] = norms.byx(i, j);
            table.set(slot, 0, b);
            table.set(slot, j + 1, y);
            // This version follows one more product per column to the right.
            table.set(slot, norms.columns() + 1, x);
        }
    }
    table
}

/// Parses `A[2,1]`: matrix, row and column.
fn tile_of(name: &str) -> Option<(&str, usize, usize)> {
    let (matrix, place) = name.strip_suffix(']')?.split_once('[')?;
    let (i, j) = place.split_once(',')?;
    Some((matrix, i.parse().ok()?, j.parse().ok()?))
}

/// Returns the number of products of a rank, and the number of those that did not run in float32.
fn products(outcome: &SimOutcome, graph: &Graph, request: &Request<'_>) -> (u64, u64) {
    // Inner lengths are needed if a task may have several products.
    let lengths: Option<Vec<u32>> = (request.fuse_updates > 1)
        .then(|| graph.to_petgraph().node_weights().map(|node| node.info.shape[2]).collect());
    let of_task = |id: u64| {
        let length = lengths.as_ref().and_then(|lengths| lengths.get(id as usize));
        length.map_or(1, |&length| (length as usize).div_ceil(request.tile) as u64)
    };
    let products = outcome.trace.tasks.iter().filter(|task| task.name == "gemm");
    products.fold((0, 0), |(all, low), task| {
        let count = of_task(task.id);
        (all + count, low + if task.label == "fp32" { 0 } else { count })
    })
}

/// Result of a simulation: graph, outcome and messages of each rank.
struct Found {
    makespan: Duration,
    ranks: Vec<(Graph, SimOutcome, Messages)>,
}

/// Simulates a reconstructor on `platform`, or on several machines like it.
///
/// # Errors
/// The errors of [`record`] and [`record_ranks`], and those of the platform.
pub fn simulate(request: &Request<'_>, platform: &Platform) -> Result<(Report, Trace), SimulateError> {
    let found = if request.nodes > 1 { on_nodes(request, platform) } else { on_one(request, platform) }?;
    let report = report(request, platform, &found);
    let traces = found.ranks.into_iter().map(|(_, outcome, _)| outcome.trace);
    let mut traces: Vec<Trace> = traces.collect();
    let trace = match &mut traces[..] {
        [one] => std::mem::take(one),
        _ => Trace::merged(traces.into_iter().map(|trace| (trace, 0)).collect()),
    };
    Ok((report, trace))
}

fn on_one(request: &Request<'_>, platform: &Platform) -> Result<Found, SimulateError> {
    let Recorded { graph, result, norms } = record(request)?;
    let simulation = Simulation::new(&graph, platform).norms(norms).ahead(request.ahead).collect(result);
    let simulation = match request.policy.as_str() {
        OWNERS => {
            let owners = Owners::new(platform.device_count()).blocks(request.cyclic_block);
            simulation.policy_with(Box::new(owners))
        }
        name => simulation.policy(name),
    };
    let outcome = simulation.run()?;
    Ok(Found { makespan: outcome.makespan, ranks: vec![(graph, outcome, Messages::default())] })
}

fn on_nodes(request: &Request<'_>, platform: &Platform) -> Result<Found, SimulateError> {
    if request.policy == OWNERS {
        return Err(SimulateError::OwnersOnNodes);
    }
    let (graphs, results): (Vec<Graph>, Vec<Vec<usize>>) = record_ranks(request)?.into_iter().unzip();
    let mut simulation = RankSimulation::new(&graphs, platform).policy(&request.policy).ahead(request.ahead);
    for (rank, result) in results.into_iter().enumerate() {
        simulation = simulation.collect(rank, result);
    }
    let outcome = simulation.run()?;
    let ranks = graphs.into_iter().zip(outcome.ranks).zip(outcome.messages);
    let ranks = ranks.map(|((graph, outcome), messages)| (graph, outcome, messages)).collect();
    Ok(Found { makespan: outcome.makespan, ranks })
}

/// Returns the number of operations of a reconstructor, or of the products of its factorisation.
fn operations(request: &Request<'_>) -> f64 {
    let (n, m, tile) = (request.n, request.m as f64, request.tile);
    if !request.products_only {
        let n = n as f64;
        return n * n * n / 3.0 + 2.0 * n * n * m;
    }
    // Each tile (i, j) below the diagonal is updated once for each column on the left of j.
    let of_column = |j: usize| {
        let (left, below) = (j * tile, n - (j + 1) * tile);
        2.0 * below as f64 * tile as f64 * left as f64
    };
    (0..n.div_ceil(tile).saturating_sub(1)).map(of_column).sum()
}

fn report(request: &Request<'_>, platform: &Platform, found: &Found) -> Report {
    let (seconds, nodes) = (found.makespan.as_secs_f64(), found.ranks.len());
    let tflops = operations(request) / seconds / 1e12;
    let outcomes = || found.ranks.iter().map(|(_, outcome, _)| outcome);
    let bound = |of: fn(&SimBounds) -> Duration| {
        outcomes().map(|outcome| of(&outcome.bounds)).max().unwrap_or_default().as_secs_f64()
    };
    let moved = |of: fn(&BytesMoved) -> u64| outcomes().map(|outcome| of(&outcome.bytes_moved)).sum();
    let busy = |outcome: &SimOutcome| (1.0 - outcome.idle_share) * outcome.makespan.as_secs_f64();
    let counts = found.ranks.iter().map(|(graph, outcome, _)| products(outcome, graph, request));
    let (all, low) = counts.fold((0, 0), |(all, low), of_rank| (all + of_rank.0, low + of_rank.1));
    let ranks: Vec<RankReport> = found
        .ranks
        .iter()
        .map(|(graph, outcome, messages)| of_rank(graph, outcome, *messages, platform, seconds))
        .collect();
    Report {
        platform: platform.name.clone(),
        nodes,
        devices: nodes * platform.device_count(),
        n: request.n,
        m: request.m,
        tile: request.tile,
        tasks: ranks.iter().map(|rank| rank.tasks).sum(),
        rule: request.rule.to_string(),
        products_only: request.products_only,
        fuse_updates: request.fuse_updates,
        low_share: if all > 0 { low as f64 / all as f64 } else { 0.0 },
        policy: request.policy.clone(),
        makespan_seconds: seconds,
        tflops,
        fraction_of_peak: tflops / (nodes as f64 * platform.peak_tflops("fp32")),
        speedup: 1.0,
        efficiency: 1.0,
        bytes_moved: BytesMoved { h2d: moved(|b| b.h2d), d2h: moved(|b| b.d2h), p2p: moved(|b| b.p2p) },
        idle_share: 1.0 - outcomes().map(busy).sum::<f64>() / (nodes as f64 * seconds),
        bounds: Bounds {
            area: bound(|bounds| bounds.area),
            critical_path: bound(|bounds| bounds.critical_path),
            mixed: bound(|bounds| bounds.mixed),
        },
        evictions: outcomes().map(|outcome| outcome.trace.evictions.len()).sum(),
        ranks,
    }
}

fn of_rank(
    graph: &Graph,
    outcome: &SimOutcome,
    messages: Messages,
    platform: &Platform,
    seconds: f64,
) -> RankReport {
    let most = messages.sent_bytes.max(messages.received_bytes);
    let peak = |of_host: bool| {
        let events = outcome.trace.memory.iter().filter(|event| (event.node == 0) == of_host);
        events.map(|event| event.used).max().unwrap_or(0)
    };
    RankReport {
        tasks: graph.len() - (messages.sent + messages.received) as usize,
        messages,
        adapter_share: platform.network.map_or(0.0, |network| network.nanos(most) as f64 / 1e9 / seconds),
        host_peak_bytes: peak(true),
        device_peak_bytes: peak(false),
    }
}

/// Sets the speedups of one rule on several numbers of nodes, relative to the first.
pub fn compare(reports: &mut [Report]) {
    let Some((nodes, seconds)) = reports.first().map(|first| (first.nodes, first.makespan_seconds)) else {
        return;
    };
    for report in reports {
        report.speedup = seconds / report.makespan_seconds;
        report.efficiency = report.speedup * nodes as f64 / report.nodes as f64;
    }
}
