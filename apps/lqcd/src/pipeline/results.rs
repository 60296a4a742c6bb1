//! Results of the verbs, as written to JSON.

use schemars::JsonSchema;
use serde::Serialize;

use crate::files::Lattice;
use crate::gauge::Gauge;
use crate::observables::{Plaquettes, link_trace, plaquettes, polyakov_loop};
use crate::smear::{Action, Smeared};

/// Observables of a gauge field.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FieldResult {
    /// Extents in x, y, z and t.
    pub lattice: [usize; 4],
    /// Mean plaquettes of the stored links.
    pub plaquette: Plaquettes,
    /// Mean of `Re tr / 3` of all links.
    pub link_trace: f64,
    /// Real and imaginary part of the mean of `tr / 3` of lines in time.
    pub polyakov_loop: [f64; 2],
}

impl FieldResult {
    /// Computes the observables of a field.
    pub fn of(u: &Gauge) -> FieldResult {
        let line = polyakov_loop(u);
        FieldResult {
            lattice: u.geometry().extents(),
            plaquette: plaquettes(u),
            link_trace: link_trace(u),
            polyakov_loop: [line.re, line.im],
        }
    }
}

/// A result of `zellige lqcd info`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InfoResult {
    /// Format: `milc`, `nersc`, `scidac`, `ildg`, `openqcd` or `npy`.
    pub format: &'static str,
    /// Byte order: `little` or `big`.
    pub byte_order: &'static str,
    /// Number of bits of a number.
    pub precision: u32,
    /// Storage format of packed links; null for whole matrices in floating point.
    pub packed: Option<String>,
    /// Checksums of the data, which match those of the file; null if the file has none.
    pub checksum: Option<String>,
    /// Description in the file.
    pub description: String,
    /// Observables of the field.
    #[serde(flatten)]
    pub field: FieldResult,
}

impl InfoResult {
    /// Returns the result for a file.
    pub fn of(lattice: &Lattice) -> InfoResult {
        InfoResult {
            format: lattice.format,
            byte_order: lattice.byte_order.name(),
            precision: lattice.precision,
            packed: lattice.packed.map(|format| format.to_string()),
            checksum: lattice.checksum.clone(),
            description: lattice.description.clone(),
            field: FieldResult::of(&lattice.gauge),
        }
    }
}

/// A result of `zellige lqcd generate`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GenerateResult {
    /// Gauge coupling `6 / g^2`.
    pub beta: f64,
    /// Sweeps of over-relaxation in each trajectory.
    pub overrelaxation: usize,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Observables of the field.
    #[serde(flatten)]
    pub field: FieldResult,
    /// Mean plaquette after each trajectory.
    pub history: Vec<f64>,
    /// Name of the file.
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
    /// Observables of the field before smearing.
    #[serde(flatten)]
    pub field: FieldResult,
    /// Mean of `Re tr / 3` of the one-hop links.
    pub fat_trace: f64,
    /// Mean of `Re tr / 3` of the three-hop links; null if the action has none.
    pub long_trace: Option<f64>,
    /// Mean plaquettes of the unitary links between the two levels of HISQ; null for other actions.
    pub unitarised_plaquette: Option<Plaquettes>,
    /// Number of links that were projected to U(3) by singular values.
    pub links_by_svd: usize,
    /// Time (s).
    pub seconds: f64,
}

impl SmearResult {
    /// Returns the result of an action on a field. `u` is the field as stored in its file;
    /// `smeared` are its links, made unitary before smearing.
    pub fn of(action: Action, u: &Gauge, smeared: &Smeared, seconds: f64) -> SmearResult {
        SmearResult {
            action: action.to_string(),
            field: FieldResult::of(u),
            fat_trace: link_trace(&smeared.fat),
            long_trace: smeared.long.as_ref().map(link_trace),
            unitarised_plaquette: smeared.unitarised.as_ref().map(plaquettes),
            links_by_svd: smeared.by_svd,
            seconds,
        }
    }
}

/// A result of `zellige lqcd invert`. Lists have an entry for each colour of a point source, for
/// Wilson quarks for each spin and each colour of it, or for each source field.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InvertResult {
    /// Extents in x, y, z and t.
    pub lattice: [usize; 4],
    /// Mean plaquettes of the stored links.
    pub plaquette: Plaquettes,
    /// Mean of `Re tr / 3` of all links.
    pub link_trace: f64,
    /// The action, as `--action` takes it, or `smeared` for links of `--long`.
    pub action: String,
    /// Quark mass; the bare mass of Wilson quarks.
    pub mass: f64,
    /// Hopping parameter of Wilson quarks, `1 / (2 m0 + 8)`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kappa: Option<f64>,
    /// Boundary condition in time: `periodic` or `antiperiodic`.
    pub boundary: String,
    /// The source, as `--source` takes it, or the file of `--source-fields`.
    pub source: String,
    /// Requested residual relative to the source.
    pub tolerance: f64,
    /// Requested heavy-quark residual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heavy_quark_tolerance: Option<f64>,
    /// Krylov method.
    pub method: String,
    /// Formats of the solver.
    pub precision: String,
    /// Eigenvectors that began the solves, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deflation: Option<DeflationResult>,
    /// Whether all residuals are within the tolerances.
    pub converged: bool,
    /// Number of links that were projected to U(3) by singular values.
    pub links_by_svd: usize,
    /// Number of steps of the solver.
    pub iterations: Vec<usize>,
    /// Residual of the solver's recurrence, relative to the source.
    pub iterated_residual: Vec<f64>,
    /// Recomputed residual `|b - (4 m^2 - D D) z| / |b|`; that of `A - H H / 4 A` with `A = 4 + m0`
    /// for Wilson quarks.
    pub true_residual: Vec<f64>,
    /// Heavy-quark residual `sqrt(mean |r(x)|^2 / |z(x)|^2)` over the sites of a parity.
    pub heavy_quark_residual: Vec<f64>,
    /// Number of reliable updates, which replaced the residual by a recomputed one.
    pub reliable_updates: Vec<usize>,
    /// Number of applications of this operator or its adjoint, including those for recomputed
    /// residuals.
    pub applications: Vec<usize>,
    /// Correlator by time slice, counted from that of a point source: the sum of the squares of all
    /// entries of the propagator, `(2 m + D)^-1` or `(4 + m0 - H / 2)^-1`, over the colours (and
    /// spins) of the source.
    pub correlator: Vec<f64>,
    /// File with the propagator; null if none was written.
    pub written: Option<String>,
    /// Times.
    pub seconds: Seconds,
}

/// Deflation of a propagator.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DeflationResult {
    /// Number of eigenvectors.
    pub vectors: usize,
    /// Storage format of the vectors.
    pub format: &'static str,
    /// Bytes of the vectors.
    pub bytes: u64,
    /// Applications of the operator that computed them; 0 if they were read from a file.
    pub applications: usize,
    /// Time for computing or reading them (s).
    pub seconds: f64,
}

/// A result of `zellige lqcd eigen`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EigenResult {
    /// Extents in x, y, z and t.
    pub lattice: [usize; 4],
    /// The action, as `--action` takes it.
    pub action: String,
    /// Boundary condition in time: `periodic` or `antiperiodic`.
    pub boundary: String,
    /// Quark mass.
    pub mass: f64,
    /// Requested `|A v - lambda v|` relative to the largest eigenvalue.
    pub tolerance: f64,
    /// Storage format of the vectors.
    pub format: &'static str,
    /// Lowest eigenvalues of `4 m^2 - D D` on the sites of a parity, in ascending order.
    pub eigenvalues: Vec<f64>,
    /// Norms `|A v - lambda v|`, before the vectors were stored in their format.
    pub residuals: Vec<f64>,
    /// Estimated upper bound of the largest eigenvalue.
    pub largest: f64,
    /// Number of applications of the operator.
    pub applications: usize,
    /// Number of restarts.
    pub restarts: usize,
    /// Bytes of the vectors.
    pub bytes: u64,
    /// File with the vectors; null if none was written.
    pub written: Option<String>,
    /// Times.
    pub seconds: Seconds,
}

/// A result of `zellige lqcd multishift` for one source of one colour.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MultishiftResult {
    /// Extents in x, y, z and t.
    pub lattice: [usize; 4],
    /// The action, as `--action` takes it.
    pub action: String,
    /// Quark mass.
    pub mass: f64,
    /// Boundary condition in time: `periodic` or `antiperiodic`.
    pub boundary: String,
    /// The source, as `--source` takes it.
    pub source: String,
    /// Formats of the steps that all shifts share.
    pub precision: String,
    /// Formats of the separate steps after them.
    pub refinement: String,
    /// Whether all residuals are within their tolerances.
    pub converged: bool,
    /// Number of steps that all shifts share.
    pub iterations: usize,
    /// Number of reliable updates of the smallest shift in the shared steps.
    pub reliable_updates: usize,
    /// Total number of applications of the operator.
    pub applications: usize,
    /// Results of each shift.
    pub shifts: Vec<ShiftResult>,
    /// Times.
    pub seconds: Seconds,
}

/// Result of one shift.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ShiftResult {
    /// Term added to `4 m^2 - D D`.
    pub shift: f64,
    /// Requested residual relative to the source.
    pub tolerance: f64,
    /// Whether the residual is within the tolerance.
    pub converged: bool,
    /// Number of shared steps of this shift, until it converged or reached the resolution of the
    /// formats.
    pub shared_iterations: usize,
    /// Recomputed residual after the shared steps.
    pub shared_residual: f64,
    /// Number of steps after the shared ones.
    pub iterations: usize,
    /// Residual of the solver's recurrence, relative to the source.
    pub iterated_residual: f64,
    /// Recomputed residual relative to the source.
    pub true_residual: f64,
    /// Heavy-quark residual `sqrt(mean |r(x)|^2 / |z(x)|^2)` over the sites of a parity.
    pub heavy_quark_residual: f64,
    /// Number of reliable updates after the shared steps.
    pub reliable_updates: usize,
    /// Number of applications of the operator after the shared steps, including those for
    /// recomputed residuals.
    pub applications: usize,
}

/// Results that a figure or table of Clark et al. 2022 consists of, on another field. Lists that it
/// does not use are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReproduceResult {
    /// Solves of figures 1 and 4 and of table 2.
    pub solves: Vec<ReproducedSolve>,
    /// Solves of table 3.
    pub shifts: Vec<MultishiftResult>,
    /// Deviations of figure 2.
    pub deviations: Vec<Deviations>,
}

/// A solve of one right-hand side.
#[derive(Clone, Debug, PartialEq)]
pub struct ReproducedSolve {
    /// Name of the solver.
    pub name: String,
    /// Result on this field.
    pub found: InvertResult,
}

/// Deviations of a product from that in float64.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Deviations {
    /// Formats of links, quark fields and products.
    pub precision: String,
    /// Percentiles 1, 2, ..., 100 of the absolute deviations of real and imaginary parts.
    pub quantiles: Vec<f64>,
}

/// The rate of the operator for one precision.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DslashResult {
    /// Extents in x, y, z and t.
    pub lattice: [usize; 4],
    /// Formats of links, quark fields and products.
    pub precision: String,
    /// Number of right-hand sides in a block.
    pub columns: usize,
    /// GPUs that applied the operator, or `cpu`.
    pub device: String,
    /// Number of CPU workers.
    pub workers: usize,
    /// Time of an application to one parity, for all right-hand sides (ns for each site): the
    /// shortest.
    pub nanoseconds: f64,
    /// Bytes of an application for each site, if each number is read or written once.
    pub bytes: f64,
    /// Ratio of these bytes to that time (GB/s).
    pub rate: f64,
    /// Rate at which all CPU workers read memory, or that of copies within a GPU's memory, bytes
    /// read and written, measured in the same run (GB/s).
    pub bandwidth: f64,
    /// Rate of operations (Gflop/s): 1146 for each site and right-hand side with three-link hops,
    /// 570 without, 1320 for Wilson quarks.
    pub gflops: f64,
}

/// Times (s).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Seconds {
    /// Time for smearing and folding links.
    pub smear: f64,
    /// Time for solving for all colours.
    pub solve: f64,
}
