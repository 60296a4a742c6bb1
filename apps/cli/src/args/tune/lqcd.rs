//! Options of `zellige tune lqcd`.

use clap::Args;
use zellige_lqcd::pipeline::Method;
use zellige_lqcd::tune::COST;
use zellige_tune::Expression;

use super::{TuneSearch, cost};
use crate::args::{LqcdSystem, RunOutputs};

pub(super) const EXAMPLES: &str = "\
Items
  links      fp64, fp32, fixed32, fixed24, fixed16, and compressed ones
  quarks     double, single, int30, int20, half
  products   fp64, fp32
  delta      Factor of reliable updates, or their estimate
The reference is double. Residuals are recomputed in float64 in every trial.

Measures
  residual, heavy_quark_residual
             Largest ones of the colours
  iterations, applications, updates, bytes
             Sums over the colours; bytes of links and quark fields that
             applications read and write
  seconds    Time of the solve

Without --accept, the residuals must be within --tol and --heavy-quark-tol.

Examples
  zellige tune lqcd small.lat --mass 0.05
  zellige tune lqcd small.lat --mass 0.05 --cost bytes --verify \\
      --trials trials.jsonl --report tune.html";

/// Options of `zellige tune lqcd`.
#[derive(Debug, Args)]
pub struct TuneLqcd {
    #[command(flatten)]
    pub system: LqcdSystem,
    /// Tolerance: norm of the residual relative to that of the source.
    #[arg(long, value_name = "TOL", default_value = "1e-10")]
    pub tol: f64,
    /// Method: cg (conjugate gradients) or bicgstabl:L (BiCGStab(l)).
    #[arg(long, value_name = "METHOD", default_value_t = Method::Cg, hide_short_help = true)]
    pub method: Method,
    /// Additional tolerance for the heavy-quark residual, as for `zellige lqcd invert`.
    #[arg(long, value_name = "TOL", hide_short_help = true)]
    pub heavy_quark_tol: Option<f64>,
    /// Check the result with a source half a lattice away.
    #[arg(long)]
    pub verify: bool,
    /// Cost of a trial as an expression over its measures.
    #[arg(long, value_name = "EXPR", default_value = COST, value_parser = cost, hide_short_help = true)]
    pub cost: Expression,
    /// Number of CPU worker threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    #[command(flatten)]
    pub search: TuneSearch,
    #[command(flatten)]
    pub outputs: RunOutputs,
}
