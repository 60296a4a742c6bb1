//! Options of `zellige tune solve`.

use clap::Args;
use zellige_solve::tune::COST;
use zellige_sparse::system::{MethodChoice, PreconditionerChoice};
use zellige_tune::Expression;

use super::{TuneSearch, cost};
use crate::args::solve::positive;
use crate::args::{Input, RunOutputs, VectorSource, word};

pub(super) const EXAMPLES: &str = "\
Items
  operator   Copy of the matrix for the inner iteration: ap7 in several
             accuracies, fp32, the fastest one on this machine (auto), fp64
  reliable   Factor of reliable updates, for cg and fcg
  basis      Format of the basis, for gmres and fgmres
  relax      Relaxed products, for gmres and fgmres
  factors    lu:fp32 or lu, for --precond lu
The reference has fp64 everywhere. If the method and the preconditioner are
automatic, the first that the matrix suggests are used.

Measures
  residual       Norm of the recomputed residual relative to that of b
  steps          Steps of the method
  seconds        Median time of the solve, without setup_seconds
  bytes          Bytes of the data that steps work on: operator,
                 preconditioner, basis, vectors
  difference     Norm of the difference from the solution of the reference,
                 relative to it
  backward_error
  digits         Mean number of exact digits of x, by another solve as in
                 zellige trust solve. Computed only if named; trials that it
                 does not judge, such as those with reliable updates, fail.

Without --accept, the residual must be within --tol, in at most 1.1 times the
steps of the reference.

Examples
  zellige tune solve A.mtx
  zellige tune solve A.mtx --method gmres:40 --tol 1e-8 --cost bytes --verify \\
      --accept 'residual <= 1e-8 && seconds <= REF.seconds'
  zellige tune solve A.mtx --method gmres:40 --precond jacobi --tol 1e-8 \\
      --accept 'residual <= 1e-8 && digits >= REF.digits - 0.5'";

/// Options of `zellige tune solve`.
#[derive(Debug, Args)]
pub struct TuneSolve {
    /// Matrix file, as for `zellige solve`: real and square.
    #[arg(value_name = "MATRIX")]
    pub matrix: Input,
    /// Right-hand side: a file with one column, ones, or random:SEED.
    #[arg(short = 'b', long = "rhs", value_name = "FILE|ones|random:SEED", default_value = "ones")]
    pub rhs: VectorSource,
    /// Method, as for `zellige solve`.
    #[arg(long, value_name = "METHOD", default_value = "auto", value_parser = word::<MethodChoice>)]
    pub method: MethodChoice,
    /// Preconditioner, as for `zellige solve`.
    #[arg(long, value_name = "M", default_value = "auto", value_parser = word::<PreconditionerChoice>)]
    pub precond: PreconditionerChoice,
    /// Tolerance: norm of the recomputed residual relative to that of b.
    #[arg(long, value_name = "RATIO", default_value = "1e-10", value_parser = positive)]
    pub tol: f64,
    /// Maximum number of iterations in all.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub max_steps: usize,
    /// Number of solves of a trial; seconds are their median.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub repeats: u16,
    /// Check the result with another right-hand side: random numbers.
    #[arg(long)]
    pub verify: bool,
    /// Cost of a trial as an expression over its measures.
    #[arg(long, value_name = "EXPR", default_value = COST, value_parser = cost)]
    pub cost: Expression,
    /// Number of CPU worker threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    #[command(flatten)]
    pub search: TuneSearch,
    #[command(flatten)]
    pub outputs: RunOutputs,
}
