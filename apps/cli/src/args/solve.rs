//! The words after `zellige solve`.

use clap::Args;
use zellige_sparse::krylov::{BasisFormat, Orthogonalisation};
use zellige_sparse::system::{Inner, MethodChoice, PreconditionerChoice, ScalingChoice};

use super::execution::{DEVICES, ExecutionArgs};
use super::paths::{Input, Output, OutputFile, with_ending};
use super::vector::VectorSource;

const EXAMPLES: &str = "\
Methods (--method)
  cg, fcg            conjugate gradients, for symmetric positive definite matrices; flexible
  minres             minimal residuals, for symmetric ones
  gmres:40, fgmres:40  for any matrix, restarted after so many steps; flexible
  bicgstab, bicgstabl:4  for any matrix, without a basis to keep
Preconditioners (--precond)
  none, jacobi, block:16 (diagonal blocks of at most so many rows), ilu0 (of a symmetric matrix ic0), chebyshev:4, amg
With auto, the matrix decides what is tried, and what fails leaves its best answer to the next.

The method may multiply with a copy (--operator) whose elements are stored as accurately as their magnitude deserves: a set of formats, what magnitudes are
compared with (nw: the matrix, cw: their row, cw-exact: their row times the vector --x-for) and the accuracy of products. Residuals are always those of the matrix in the file.

Narrow copies on the way
  --operator COPY          all products; a run ends where the copy can give no more, and the next one begins with the true residual
  --reliable            cg and fcg with a narrow --operator: the residual is replaced on the way instead, directions are kept
  --relax COPY,COPY     gmres and fgmres: the first products with --operator, later ones with the least accurate of these that still
                        serves; an error in a late step counts as little as the residual has become

With --device cuda GPUs multiply with the matrix and its copies; everything else is done by CPU workers, and vectors travel. Answers are the same bits
wherever products are made, with as many right-hand sides solved side by side.

Exit codes
  0  the true residual is as small as was asked for
  5  it is not; the best answer is written all the same
  2  an option, a matrix or a vector that cannot be used
  4  a device that is not there

Examples
  zellige solve A.mtx.gz -b b.mtx -o x.npy
  zellige solve A.mtx --method gmres:40 --operator ap7:cw:2^-24 --precond ilu0 --tol 1e-12 --json - --report solve.html
  zellige solve A.mtx --method cg --operator ap7:cw:2^-20 --reliable
  zellige solve A.mtx --method gmres:60 --relax ap7:cw:2^-37,ap7:cw:2^-24,ap7:cw:2^-16
  zellige solve A.mtx --shifts 0,0.1,1 -o x.npy      A + sigma I for three sigma, at the price of one; three columns";

/// `zellige solve`.
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{DEVICES}"))]
pub struct SolveArgs {
    /// Matrix Market file, compressed or not.
    #[arg(value_name = "A.mtx[.gz]")]
    pub matrix: Input,
    /// The right-hand side: a file (Matrix Market or .npy; each column is one, and all are solved for), ones, or random:SEED (uniform in [-1, 1)).
    #[arg(short = 'b', long = "rhs", value_name = "FILE|ones|random:SEED", default_value = "ones")]
    pub rhs: VectorSource,
    /// The initial guess, a file with as many columns; zeros without it.
    #[arg(long, value_name = "FILE")]
    pub x0: Option<Input>,
    /// The method: auto, cg, fcg, minres, bicgstab, bicgstabl:L, gmres:M, fgmres:M.
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    pub method: MethodChoice,
    /// What the method multiplies with: fp64, fp32, or SET:nw|cw|cw-exact:EPS, like ap7:cw:2^-24, with :tiled, :bsr2, :bsr3 or
    /// :bsr4 after it for the layout; auto, or auto:nw:2^-37: the set and layout that is fastest on this machine, fp64 if none is faster.
    #[arg(long, value_name = "COPY", default_value = "fp64")]
    pub operator: Inner,
    /// What cw-exact chooses elements for (a column; no element is zero): a file, ones, or random:SEED; an earlier answer, say.
    #[arg(long, value_name = "FILE|ones|random:SEED")]
    pub x_for: Option<VectorSource>,
    /// How gmres stores its vectors: fp64, rp56, rp48, rp40, fp32, rp24, rp16, block24, block16, block12, block8.
    #[arg(long, value_name = "FORMAT", default_value = "fp64")]
    pub basis_format: BasisFormat,
    /// How gmres makes its vectors orthogonal: cgs2 (classical Gram-Schmidt twice, three passes over them), mgs (modified, one after the other).
    #[arg(long, value_name = "HOW", default_value = "cgs2")]
    pub orthogonalise: Orthogonalisation,
    /// Copies that gmres goes over to as its residual becomes small, the most accurate first, written as for --operator.
    #[arg(long, value_name = "COPY,..", value_delimiter = ',')]
    pub relax: Vec<Inner>,
    /// With cg or fcg and a narrow --operator: replace the residual that the method keeps by the true one each time it has become smaller by DELTA.
    #[arg(long, value_name = "DELTA", num_args = 0..=1, require_equals = true, default_missing_value = "0.1")]
    pub reliable: Option<f64>,
    /// Solve (A + sigma I) x = b for each of these by conjugate gradients in one Krylov space; answers are columns of --output, one after the other for each b.
    #[arg(
        long,
        value_name = "SIGMA,..",
        value_delimiter = ',',
        allow_hyphen_values = true,
        conflicts_with = "x0"
    )]
    pub shifts: Vec<f64>,
    /// The preconditioner: auto, none, jacobi, block:ROWS, ilu0, ic0, chebyshev:DEGREE, amg.
    #[arg(long, value_name = "M", default_value = "auto")]
    pub precond: PreconditionerChoice,
    /// What rows and columns are multiplied by for the method: auto (both, for a copy and for rows of very different sizes), none, rows, both.
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub scale: ScalingChoice,
    /// The norm of the true residual that is small enough, beside that of the right-hand side.
    #[arg(long, value_name = "RATIO", default_value = "1e-10", value_parser = positive)]
    pub tol: f64,
    /// The same in absolute terms; whichever is reached first.
    #[arg(long, value_name = "NORM", value_parser = positive)]
    pub abs_tol: Option<f64>,
    /// Steps that may be made in all.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub max_steps: usize,
    /// Time that may be taken.
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    pub max_time: Option<f64>,
    /// A vector that the matrix makes zero: constant; it is taken out of the right-hand side and the answer.
    #[arg(long, value_name = "VECTOR", value_parser = ["constant"])]
    pub nullspace: Option<String>,
    /// Order the unknowns anew first (reverse Cuthill-McKee).
    #[arg(long)]
    pub reorder: bool,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    /// Write the answer, as Matrix Market or .npy by its name.
    #[arg(long, short, value_name = "FILE.npy|FILE.mtx", value_parser = with_ending(&[".npy", ".mtx"]))]
    pub output: Option<OutputFile>,
    /// Write figures and the history of residuals as JSON, an array of them for several right-hand sides; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<Output>,
    /// Write the history of residuals as CSV; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub csv: Option<Output>,
    /// Write a page with figures and the residuals as a picture.
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<OutputFile>,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("a number above 0 is needed".into()),
    }
}
