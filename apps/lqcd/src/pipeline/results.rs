//! What verbs write as JSON.

use schemars::JsonSchema;
use serde::Serialize;

use crate::files::Lattice;
use crate::gauge::Gauge;
use crate::observables::{self, link_trace, polyakov_loop};
use crate::smear::{Action, Smeared};

/// Mean plaquettes, 1 for a field without any force.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Plaquettes {
    /// Between two directions of space.
    pub ss: f64,
    /// Between a direction of space and time.
    pub st: f64,
}

impl Plaquettes {
    /// Those of a field.
    pub fn of(u: &Gauge) -> Plaquettes {
        let observables::Plaquettes { ss, st } = observables::plaquettes(u);
        Plaquettes { ss, st }
    }
}

/// What is known of a gauge field.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FieldResult {
    /// Extents in x, y, z and t.
    pub lattice: [usize; 4],
    /// Mean plaquettes of the links as they are stored.
    pub plaquette: Plaquettes,
    /// Mean of `Re tr / 3` of all links.
    pub link_trace: f64,
    /// Real and imaginary part of the mean of `tr / 3` of lines in time.
    pub polyakov_loop: [f64; 2],
}

impl FieldResult {
    /// That of a field.
    pub fn of(u: &Gauge) -> FieldResult {
        let line = polyakov_loop(u);
        FieldResult {
            lattice: u.geometry().extents(),
            plaquette: Plaquettes::of(u),
            link_trace: link_trace(u),
            polyakov_loop: [line.re, line.im],
        }
    }
}

/// A result of `zellige lqcd info`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InfoResult {
    /// `milc`, `nersc`, `scidac`, `ildg`, `openqcd` or `npy`.
    pub format: &'static str,
    /// `little` or `big`.
    pub byte_order: &'static str,
    /// Bits of a number.
    pub precision: u32,
    /// Checksums of the data, which are those that the file names; null where it names none.
    pub checksum: Option<String>,
    /// What the file says about itself.
    pub description: String,
    /// The field.
    #[serde(flatten)]
    pub field: FieldResult,
}

impl InfoResult {
    /// That of a file.
    pub fn of(lattice: &Lattice) -> InfoResult {
        InfoResult {
            format: lattice.format,
            byte_order: lattice.byte_order.name(),
            precision: lattice.precision,
            checksum: lattice.checksum.clone(),
            description: lattice.description.clone(),
            field: FieldResult::of(&lattice.gauge),
        }
    }
}

/// A result of `zellige lqcd generate`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GenerateResult {
    /// The coupling `6 / g^2`.
    pub beta: f64,
    /// Sweeps of over-relaxation in each trajectory.
    pub overrelaxation: usize,
    /// What random numbers follow from.
    pub seed: u64,
    /// The field.
    #[serde(flatten)]
    pub field: FieldResult,
    /// The mean plaquette after each trajectory.
    pub history: Vec<f64>,
    /// The file.
    pub written: String,
    /// Time for all trajectories (s).
    pub seconds: f64,
}

/// A result of `zellige lqcd smear`. Means of `Re tr / 3` are those of links without phases and
/// boundary condition.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SmearResult {
    /// The action, as `--action` takes it.
    pub action: String,
    /// The field before.
    #[serde(flatten)]
    pub field: FieldResult,
    /// Mean of `Re tr / 3` of the links of one hop.
    pub fat_trace: f64,
    /// The same of the links of three hops; null where the action has none.
    pub long_trace: Option<f64>,
    /// Mean plaquettes of the unitary links between the two levels of HISQ; null for other actions.
    pub unitarised_plaquette: Option<Plaquettes>,
    /// Links that were projected to U(3) by singular values.
    pub links_by_svd: usize,
    /// Time (s).
    pub seconds: f64,
}

impl SmearResult {
    /// That of an action on a field; `u` is the field as its file has it, `smeared` are its links,
    /// made unitary before.
    pub fn of(action: Action, u: &Gauge, smeared: &Smeared, seconds: f64) -> SmearResult {
        SmearResult {
            action: action.to_string(),
            field: FieldResult::of(u),
            fat_trace: link_trace(&smeared.fat),
            long_trace: smeared.long.as_ref().map(link_trace),
            unitarised_plaquette: smeared.unitarised.as_ref().map(Plaquettes::of),
            links_by_svd: smeared.by_svd,
            seconds,
        }
    }
}

/// A result of `zellige lqcd invert`: one source. Lists have an entry for each colour of the
/// source.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InvertResult {
    /// Extents in x, y, z and t.
    pub lattice: [usize; 4],
    /// Mean plaquettes of the links as they are stored.
    pub plaquette: Plaquettes,
    /// Mean of `Re tr / 3` of all links.
    pub link_trace: f64,
    /// The action, as `--action` takes it.
    pub action: String,
    /// The mass.
    pub mass: f64,
    /// `periodic` or `antiperiodic` in time.
    pub boundary: String,
    /// The source, as `--source` takes it.
    pub source: String,
    /// The requested residual beside the source.
    pub tolerance: f64,
    /// The requested heavy-quark residual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heavy_quark_tolerance: Option<f64>,
    /// The method.
    pub method: String,
    /// Formats of the solver.
    pub precision: String,
    /// Whether all residuals are within the tolerances.
    pub converged: bool,
    /// Links that were projected to U(3) by singular values.
    pub links_by_svd: usize,
    /// Steps of the solver.
    pub iterations: Vec<usize>,
    /// The residual that the solver itself kept, beside the source.
    pub iterated_residual: Vec<f64>,
    /// `|b - (4 m^2 - D D) z| / |b|`, computed from the answer.
    pub true_residual: Vec<f64>,
    /// `sqrt(mean |r(x)|^2 / |z(x)|^2)` over the sites of a parity.
    pub heavy_quark_residual: Vec<f64>,
    /// Residuals that were replaced on the way by computed ones.
    pub reliable_updates: Vec<usize>,
    /// Applications of `4 m^2 - D D`, those for computed residuals among them.
    pub applications: Vec<usize>,
    /// For each time slice, counted from that of the source: the sum of the squares of all elements
    /// of the propagator `(2 m + D)^-1`, over the colours of the source.
    pub correlator: Vec<f64>,
    /// Times.
    pub seconds: Seconds,
}

/// A result of `zellige lqcd multishift`: one source of one colour.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MultishiftResult {
    /// Extents in x, y, z and t.
    pub lattice: [usize; 4],
    /// The action, as `--action` takes it.
    pub action: String,
    /// The mass.
    pub mass: f64,
    /// `periodic` or `antiperiodic` in time.
    pub boundary: String,
    /// The source, as `--source` takes it.
    pub source: String,
    /// Formats of the steps that all shifts share.
    pub precision: String,
    /// Formats of those after them.
    pub refinement: String,
    /// Whether all residuals are within their tolerances.
    pub converged: bool,
    /// Steps that all shifts share.
    pub iterations: usize,
    /// Residuals of the smallest shift that were replaced in them by computed ones.
    pub reliable_updates: usize,
    /// Applications of the operator in all.
    pub applications: usize,
    /// Each shift.
    pub shifts: Vec<ShiftResult>,
    /// Times.
    pub seconds: Seconds,
}

/// What was found for a shift.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ShiftResult {
    /// What is added to `4 m^2 - D D`.
    pub shift: f64,
    /// The requested residual beside the source.
    pub tolerance: f64,
    /// Whether the residual is within the tolerance.
    pub converged: bool,
    /// Shared steps in which it took part: until it was done, or at the floor of the formats.
    pub shared_iterations: usize,
    /// The residual after the shared steps, computed from the answer.
    pub shared_residual: f64,
    /// Steps after the shared ones.
    pub iterations: usize,
    /// The residual that the solver itself kept, beside the source.
    pub iterated_residual: f64,
    /// The residual beside the source, computed from the answer.
    pub true_residual: f64,
    /// `sqrt(mean |r(x)|^2 / |z(x)|^2)` over the sites of a parity.
    pub heavy_quark_residual: f64,
    /// Residuals that were replaced after the shared steps.
    pub reliable_updates: usize,
    /// Applications of the operator after the shared steps, those for computed residuals among
    /// them.
    pub applications: usize,
}

/// A result of `zellige lqcd reproduce`: what was found on a field beside what Clark et al. 2022
/// publish of another. Lists that a figure or table has nothing for are empty.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReproduceResult {
    /// The figure or table.
    pub published: &'static str,
    /// Extents in x, y, z and t.
    pub lattice: [usize; 4],
    /// The action, as `--action` takes it.
    pub action: String,
    /// The mass.
    pub mass: f64,
    /// Solves of figures 1 and 4 and of table 2.
    pub solves: Vec<ReproducedSolve>,
    /// Solves of table 3.
    pub shifts: Vec<ReproducedShifts>,
    /// Those of figure 2.
    pub deviations: Vec<Deviations>,
}

/// A solve of one right-hand side.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReproducedSolve {
    /// What it is called.
    pub name: String,
    /// What is published of it; null where no numbers are.
    pub published: Option<PublishedSolve>,
    /// What was found.
    pub found: InvertResult,
}

/// Published figures of a solve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PublishedSolve {
    /// Iterations.
    pub iterations: usize,
    /// Time (s), on a GPU.
    pub seconds: f64,
}

/// A solve for several shifts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReproducedShifts {
    /// What is published of it.
    pub published: PublishedShifts,
    /// What was found.
    pub found: MultishiftResult,
}

/// Published figures of a solve for several shifts. Lists have an entry for each shift.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PublishedShifts {
    /// Steps that all shifts share.
    pub iterations: usize,
    /// Steps after the shared ones.
    pub after: Vec<usize>,
    /// Residuals after the shared steps.
    pub shared_residuals: Vec<f64>,
}

/// How far a product is from that in float64.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Deviations {
    /// Formats of links, quark fields and products.
    pub precision: String,
    /// Absolute deviations of real and imaginary parts that 1, 2, ..., 100 % of them do not exceed.
    pub quantiles: Vec<f64>,
}

/// The rate of the operator for one precision.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DslashResult {
    /// Extents in x, y, z and t.
    pub lattice: [usize; 4],
    /// Formats of links, quark fields and products.
    pub precision: String,
    /// Right-hand sides at once.
    pub columns: usize,
    /// The GPUs that applied it, or `cpu`.
    pub device: String,
    /// CPU workers.
    pub workers: usize,
    /// Time of an application to one parity, for all right-hand sides (ns for each site): the
    /// shortest.
    pub nanoseconds: f64,
    /// Bytes of an application for each site, if each number is read or written once.
    pub bytes: f64,
    /// These bytes by that time (GB/s).
    pub rate: f64,
    /// Rate at which memory is read by all CPU workers, or that of copies within a GPU's memory,
    /// bytes read and written, measured beside it (GB/s).
    pub bandwidth: f64,
    /// Rate of operations, 1146 for each site and right-hand side with hops of three links, 570
    /// without (Gflop/s).
    pub gflops: f64,
}

/// Times (s).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Seconds {
    /// Smearing, and folding links.
    pub smear: f64,
    /// Solving for all colours.
    pub solve: f64,
}
