//! Options of `zellige solve`.

use clap::Args;
use zellige_sparse::krylov::Packed;
use zellige_sparse::system::{Inner, MethodChoice, PreconditionerChoice, ScalingChoice};

use super::execution::{DEVICES, ExecutionArgs};
use super::outputs::RunOutputs;
use super::paths::{Input, Output, OutputFile, with_ending};
use super::sparse::OperatorChoice;
use super::vector::{NearNullSource, VectorSource};
use super::word;

const EXAMPLES: &str = "\
Methods (--method)
  cg, fcg            Conjugate gradients, for symmetric positive definite
                     matrices; flexible conjugate gradients.
  block-cg           Conjugate gradients in one Krylov space for up to eight
                     right-hand sides: fewer steps.
  minres             Minimal residuals, for symmetric matrices.
  gmres:40, fgmres:40
                     For any matrix, restarted after this number of steps;
                     flexible GMRES.
  bicgstab, bicgstabl:4
                     For any matrix, without a stored basis.

Preconditioners (--precond)
  none, jacobi, ilu0 (of a symmetric matrix ic0), chebyshev:4, amg
  block:16           Inverses of diagonal blocks with up to this number of rows.
  lu, lu:fp32        Complete factors in float64 or float32.

With auto, the matrix determines the methods and preconditioners that are tried. If one fails, \
the next starts from its best answer.

A matrix that is not square, or --damping, is a least-squares problem. It is solved by LSMR \
(Fong and Saunders 2011), without preconditioner and low-precision copies. The run ends when the \
residual is within --tol of |b| + |A| |x|, or A^T r is within --tol of |A| |r|.

A complex matrix is solved as the equivalent real one of twice the size, with a 2 x 2 block for \
each entry; b and x are complex. The same holds for a real matrix with a complex right-hand side \
or initial guess.

The method can multiply with a low-precision copy of the matrix (--operator), whose nonzeros are \
stored as accurately as their magnitude requires. Its parts are a set of formats, the reference \
for magnitudes (nw: the norm of the matrix, cw: the norm of the row, cw-exact: the row times the \
vector --x-for) and the accuracy of products. Residuals are always recomputed with the matrix of \
the file.

Low-precision copies
  --operator COPY    Use the copy for all products. A run ends when the copy
                     allows no further progress; the next run starts from the
                     recomputed residual.
  --reliable         cg and fcg with a low-precision --operator: replace the
                     residual by the recomputed one (reliable updates) and keep
                     the directions.
  --relax COPY,COPY  gmres and fgmres: use --operator for the first products,
                     and for later ones the least accurate copy that suffices.
                     Errors of later steps matter less, as the residual falls.

With --device cuda, GPUs multiply with the matrix and its copies, and work on vectors in \
float64. The vectors stay on the GPU with all methods except gmres and block-cg, without a preconditioner or \
with jacobi or chebyshev. CPU workers do everything else. Answers have the same bits on any \
device, and for any number of right-hand sides that are solved together.

Exit codes
  0  The recomputed residual is within the tolerance.
  5  It is not; the best answer is written nevertheless.
  2  An option, a matrix or a vector cannot be used.
  4  A device is missing.

Examples
  zellige solve A.mtx.gz -b b.mtx -o x.npy
  zellige solve A.mtx --method gmres:40 --operator ap7:cw:2^-24 \\
      --precond ilu0 --tol 1e-12 --json - --report solve.html
  zellige solve A.mtx --method cg --operator ap7:cw:2^-20 --reliable
  zellige solve A.mtx --method gmres:60 \\
      --relax ap7:cw:2^-37,ap7:cw:2^-24,ap7:cw:2^-16
  Least squares:
    zellige solve tall.mtx -b b.npy --tol 1e-8 -o x.npy
  A + sigma I for three shifts sigma, at the cost of one; three columns:
    zellige solve A.mtx --shifts 0,0.1,1 -o x.npy";

/// Options of `zellige solve`.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{DEVICES}"))]
pub struct SolveArgs {
    /// Matrix file: Matrix Market, SciPy's npz, npy, PETSc, Harwell-Boeing, ...
    ///
    /// The format is detected from the first bytes, not from the name: Matrix Market,
    /// scipy.sparse.save_npz, dense npy, FILE.npz/NAME and FILE.h5/NAME, PETSc's binary files,
    /// Harwell-Boeing and Rutherford-Boeing. Text and PETSc's files may be compressed with gzip.
    #[arg(value_name = "MATRIX")]
    pub matrix: Input,
    /// Right-hand side: a file, ones, or random:SEED.
    ///
    /// Files are Matrix Market, .npy, FILE.npz/NAME, a Vec of PETSc, or numbers in columns as text
    /// (csv). Each column is a right-hand side. random is uniform in [-1, 1); for a complex matrix
    /// both parts are random.
    #[arg(short = 'b', long = "rhs", value_name = "FILE|ones|random:SEED", default_value = "ones")]
    pub rhs: VectorSource,
    /// Initial guess: a file with as many columns [default: zeros].
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub x0: Option<Input>,
    /// Method: auto, cg, fcg, block-cg, minres, bicgstab, bicgstabl:L, gmres:M, fgmres:M.
    #[arg(long, value_name = "METHOD", default_value = "auto", value_parser = word::<MethodChoice>)]
    pub method: MethodChoice,
    /// Operator of the inner iteration: fp64, fp32, auto, SET:nw|cw|cw-exact:EPS, map:FILE.
    ///
    /// SET:...:EPS is a compressed copy of the matrix, e.g. ap7:cw:2^-24. A suffix :tiled, :bsr2,
    /// :bsr3 or :bsr4 selects the layout. auto, or e.g. auto:nw:2^-37, selects the set and layout
    /// that is fastest on this machine, or fp64 if none is faster. map:FILE is a copy with the
    /// accuracies of row blocks that zellige tune spmv -o has written.
    #[arg(long, value_name = "COPY", default_value = "fp64", value_parser = word::<OperatorChoice>)]
    pub operator: OperatorChoice,
    /// Vector for which cw-exact chooses formats: a file, ones, or random:SEED.
    ///
    /// It has one column and no zero entries. An earlier solution is suitable.
    #[arg(long, value_name = "FILE|ones|random:SEED", hide_short_help = true)]
    pub x_for: Option<VectorSource>,
    /// Storage format of the GMRES basis.
    ///
    /// fp64, rp56, rp48, rp40, fp32, rp24, rp16, block24, block16, block12, block8.
    #[arg(long, value_name = "FORMAT", default_value = "fp64", hide_short_help = true, value_parser = word::<Packed>)]
    pub basis_format: Packed,
    /// Operators for relaxed products in GMRES, the most accurate first.
    ///
    /// GMRES switches to the next copy of the matrix as its residual decreases. Copies are written
    /// as for --operator.
    #[arg(long, value_name = "COPY,..", value_delimiter = ',', hide_short_help = true, value_parser = word::<Inner>)]
    pub relax: Vec<Inner>,
    /// Reliable updates: recompute the residual each time it has fallen by the factor DELTA.
    ///
    /// For cg and fcg with a low-precision --operator.
    #[arg(long, value_name = "DELTA", num_args = 0..=1, require_equals = true, default_missing_value = "0.1", hide_short_help = true)]
    pub reliable: Option<f64>,
    /// Solve (A + sigma I) x = b for each of these shifts by multi-shift CG.
    ///
    /// The columns of --output are the solutions for all shifts of the first b, then of the next b.
    #[arg(
        long,
        value_name = "SIGMA,..",
        value_delimiter = ',',
        conflicts_with = "x0",
        hide_short_help = true
    )]
    pub shifts: Vec<f64>,
    /// Preconditioner: auto, none, jacobi, block:ROWS, ilu0, ic0, chebyshev:DEGREE, amg, lu,
    /// lu:fp32.
    ///
    /// lu:fp32 is LU in float32, which needs half the memory and is refined by gmres.
    #[arg(long, value_name = "M", default_value = "auto", value_parser = word::<PreconditionerChoice>)]
    pub precond: PreconditionerChoice,
    /// Near null space of amg: constant, search, or a file with a vector in each column.
    ///
    /// These are vectors that the matrix maps to nearly zero, beside the constants of each
    /// component. By default they are searched for if the unknowns come in blocks, such as
    /// displacements.
    #[arg(long, value_name = "constant|search|FILE", hide_short_help = true)]
    pub near_null: Option<NearNullSource>,
    /// Coordinates of the nodes of an elastic body, for amg: a file with 2 or 3 columns.
    ///
    /// They give its rigid rotations. A row of the file is a node, a block of rows of the matrix.
    #[arg(long, value_name = "FILE", conflicts_with = "near_null", hide_short_help = true)]
    pub coordinates: Option<Input>,
    /// Set-up of amg from a file that --save-setup has written: no new one is made.
    ///
    /// The matrix is the one that the set-up was made for, or has other values at the same places.
    /// In that case its transfers between levels are used, and the levels are computed.
    #[arg(long, value_name = "FILE.npz", conflicts_with_all = ["near_null", "coordinates"], hide_short_help = true)]
    pub setup: Option<Input>,
    /// Write the set-up of amg for further solves (--setup).
    #[arg(long, value_name = "FILE.npz", value_parser = with_ending(&["npz"]), conflicts_with = "setup", hide_short_help = true)]
    pub save_setup: Option<OutputFile>,
    /// Scaling of rows and columns: auto, none, rows, both, matching.
    ///
    /// auto scales both for a low-precision operator and for rows of very different norms.
    #[arg(long, value_name = "HOW", default_value = "auto", hide_short_help = true, value_parser = word::<ScalingChoice>)]
    pub scale: ScalingChoice,
    /// Tolerance: norm of the recomputed residual relative to that of b.
    #[arg(long, value_name = "RATIO", default_value = "1e-10", value_parser = positive)]
    pub tol: f64,
    /// Least squares: minimise |b - A x|^2 + LAMBDA^2 |x|^2 by LSMR.
    ///
    /// A matrix that is not square is solved by LSMR with LAMBDA = 0.
    #[arg(long, value_name = "LAMBDA", value_parser = not_negative, hide_short_help = true)]
    pub damping: Option<f64>,
    /// Maximum number of iterations in all.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub max_steps: usize,
    /// Maximum time in seconds.
    #[arg(long, value_name = "SECONDS", value_parser = positive, hide_short_help = true)]
    pub max_time: Option<f64>,
    /// Null space of the matrix.
    ///
    /// It is removed from the right-hand side and the solution.
    #[arg(long, value_name = "VECTOR", value_parser = ["constant"], hide_short_help = true)]
    pub nullspace: Option<String>,
    /// Reorder the unknowns first (reverse Cuthill-McKee).
    #[arg(long, hide_short_help = true)]
    pub reorder: bool,
    /// Write the solution: .npy or .mtx.
    #[arg(long, short, value_name = "FILE.npy|FILE.mtx", value_parser = with_ending(&[".npy", ".mtx"]))]
    pub output: Option<OutputFile>,
    /// Write the residual history as CSV; `-` is standard output.
    #[arg(long, value_name = "FILE|-", hide_short_help = true, help_heading = "Results")]
    pub csv: Option<Output>,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(number),
        _ => Err("use a number of 0 or more".into()),
    }
}

pub(super) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("use a number above 0".into()),
    }
}
