//! Options of `zellige matrix` and `zellige spmv`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use zellige_measure::spmv::Layout;
use zellige_sparse::Error;
use zellige_sparse::adaptive::{Accuracy, FormatSet, UnknownSet};
use zellige_sparse::system::Inner;

use super::paths::{Input, Output, OutputFile, with_ending};
use super::vector::VectorSource;
use super::word;

/// Name endings of Matrix Market files.
const MATRIX_MARKET: &[&str] = &[".mtx", ".mtx.gz"];

/// Beginning of a choice that is a file of [`zellige_solve::tune::RowAccuracies`].
const MAP: &str = "map:";

const GENERATE_EXAMPLES: &str = "\
Kinds
  flow        Flow through rock, one unknown per cell: symmetric positive
              definite, about 14 decades.
  transport   The same with a tracer in the flow: not symmetric.
  elasticity  Layered rock clamped at the bottom, three unknowns per node:
              symmetric positive definite.
  biot        Consolidation, displacements and then pressures: symmetric
              indefinite, about 29 decades.
  stokes      Slow flow with variable viscosity, four unknowns per node:
              symmetric indefinite.

Examples
  zellige matrix generate flow --size 170x170x110 -o flow.mtx.gz
  zellige matrix generate elasticity --size 47x47x47 --seed 2 -o elas.mtx";

const SPMV_EXAMPLES: &str = "\
The table has a row for each set, accuracy and criterion: bytes relative to CSR rows in float64; \
backward errors of the product with --x-for, compared with a product in doubled precision; the \
bound B = max_i B_i on the errors of rows; and median times of the adaptive product and of the \
float64 product, measured alternately.

Examples
  zellige spmv A.mtx.gz
  zellige spmv A.mtx --sets ap2,ap7,ap7re --eps 2^-53,2^-37,2^-24 \\
      --criterion nw,cw --json rows.json
  The fastest copy for each accuracy:
    zellige spmv A.mtx --sets auto --criterion nw --workers 2
  Formats chosen for a given vector:
    zellige spmv A.mtx --sets ap7 --criterion cw,cw-exact --x-for x.npy";

/// Verbs of `zellige matrix`.
#[derive(Debug, Subcommand)]
pub enum MatrixVerb {
    /// Describe a matrix: size, symmetry, magnitudes.
    Info(MatrixInfo),
    /// Generate a matrix of a finite volume or finite element problem, of any size.
    #[command(after_long_help = GENERATE_EXAMPLES)]
    Generate(MatrixGenerate),
    /// Convert a matrix to a Matrix Market file: sorted, duplicates added, one triangle if
    /// symmetric.
    Convert(MatrixConvert),
}

/// Options of `matrix info`.
#[derive(Debug, Args)]
pub struct MatrixInfo {
    /// Matrix file: Matrix Market, SciPy's npz, npy, PETSc, Harwell-Boeing, ...
    ///
    /// The format is detected from the first bytes, not from the name: Matrix Market,
    /// scipy.sparse.save_npz, dense npy, FILE.npz/NAME and FILE.h5/NAME, PETSc's binary files,
    /// Harwell-Boeing and Rutherford-Boeing. Text and PETSc's files may be compressed with gzip.
    #[arg(value_name = "MATRIX")]
    pub matrix: Input,
    /// Write the results as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<Output>,
}

/// Options of `matrix generate`.
#[derive(Debug, Args)]
pub struct MatrixGenerate {
    /// Problem to discretise.
    pub kind: Problem,
    /// Number of cells or elements along each axis; the default is that of the comparisons in
    /// docs/explanation/sparse.md.
    #[arg(long, value_name = "XxYxZ")]
    pub size: Option<Size>,
    /// Standard deviation of the most variable coefficient, in decades.
    #[arg(long, value_name = "DECADES", value_parser = decades)]
    pub spread: Option<f64>,
    /// Length of the time step of transport and biot.
    #[arg(long, value_name = "SECONDS")]
    pub step: Option<f64>,
    /// Seed of the random fields.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Matrix Market file to write; compressed if its name ends in .gz.
    #[arg(long, short, value_name = "FILE.mtx[.gz]", value_parser = with_ending(MATRIX_MARKET))]
    pub output: OutputFile,
    /// Write the coordinates of elasticity's nodes, for `solve --coordinates`.
    #[arg(long, value_name = "FILE.npy|FILE.mtx", value_parser = with_ending(&[".npy", ".mtx"]))]
    pub coordinates: Option<OutputFile>,
}

/// Options of `matrix convert`.
#[derive(Debug, Args)]
pub struct MatrixConvert {
    /// Matrix file: Matrix Market, SciPy's npz, npy, PETSc, Harwell-Boeing, ...
    ///
    /// The format is detected from the first bytes, not from the name: Matrix Market,
    /// scipy.sparse.save_npz, dense npy, FILE.npz/NAME and FILE.h5/NAME, PETSc's binary files,
    /// Harwell-Boeing and Rutherford-Boeing. Text and PETSc's files may be compressed with gzip.
    #[arg(value_name = "MATRIX")]
    pub matrix: Input,
    /// File to write; compressed if its name ends in .gz.
    #[arg(value_name = "B.mtx[.gz]", value_parser = with_ending(MATRIX_MARKET))]
    pub output: OutputFile,
}

/// Problems of `matrix generate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Problem {
    Flow,
    Transport,
    Elasticity,
    Biot,
    Stokes,
}

/// Number of cells along each axis, as `170x170x110`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub [usize; 3]);

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let parts: Vec<usize> = s.split('x').map(|part| part.parse().unwrap_or(0)).collect();
        match parts[..] {
            [x, y, z] if x.min(y).min(z) > 0 => Ok(Size([x, y, z])),
            [n] if n > 0 => Ok(Size([n; 3])),
            _ => Err("use three numbers like 48x48x48, or one for all axes".into()),
        }
    }
}

fn decades(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "use a number of decades from 0 to 20".to_string())?;
    if (0.0..=20.0).contains(&number) {
        Ok(number)
    } else {
        Err("use a number of decades from 0 to 20".into())
    }
}

/// Options of `zellige spmv`.
#[derive(Debug, Args)]
#[command(after_long_help = SPMV_EXAMPLES)]
pub struct SpmvArgs {
    /// Matrix file, in any format of docs/reference/files.md; explicit zeros are dropped.
    #[arg(value_name = "MATRIX")]
    pub matrix: Input,
    /// Format sets: fp64, ap2, ap3, ap4, ap7, ap7re, ap7reu; auto, the fastest; map:FILE.
    ///
    /// rp56, rp48, rp40, fp32, rp24 and rp16 store all nonzeros in one format, ap1 in fp64 without
    /// those that are negligible.
    ///
    /// auto selects the set that the cost model predicts to be fastest, or plain fp64 if that is
    /// faster. map:FILE alone has the accuracies of row blocks that zellige tune spmv -o has
    /// written, in place of --eps and --criterion.
    #[arg(long, value_name = "SET,..", value_delimiter = ',', default_value = "ap2,ap4,ap7,ap7re,ap7reu")]
    pub sets: Vec<SetChoice>,
    /// Accuracies in [2^-53, 1).
    #[arg(long, value_name = "EPS,..", value_delimiter = ',', default_value = "2^-53,2^-37,2^-24", value_parser = word::<Accuracy>)]
    pub eps: Vec<Accuracy>,
    /// Criteria for the format of an entry: a list.
    ///
    /// The magnitude of an entry is compared with the norm of the matrix (nw), with that of its row
    /// (cw), or with that of the row times --x-for (cw-exact).
    #[arg(long, value_name = "C,..", value_delimiter = ',', default_value = "nw,cw", value_parser = ["nw", "cw", "cw-exact"])]
    pub criterion: Vec<String>,
    /// Storage layout: auto, tiled, bsr, or thesis.
    ///
    /// thesis: a CSR matrix for each format. tiled: eight rows interleaved. bsr: as tiled, with
    /// blocks of 2, 3 or 4. auto: the layout that the cost model predicts to be fastest.
    #[arg(long, value_name = "L", default_value = "auto", value_parser = word::<Layout>)]
    pub layout: Layout,
    /// Vector to multiply: a file, ones, or random:SEED.
    ///
    /// cw-exact chooses formats for this vector. A file has one column; random is uniform in [-1,
    /// 1).
    #[arg(long, value_name = "FILE|ones|random:SEED", default_value = "ones")]
    pub x_for: VectorSource,
    /// Number of CPU worker threads; they share each product [default: one per core].
    ///
    /// auto selects the fastest set and layout for this number of threads.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,
    /// Timed products of each; medians are reported.
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    pub repeats: u16,
    /// Write the results as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-", help_heading = "Results")]
    pub json: Option<Output>,
    /// Write an HTML page with storage, times and formats.
    #[arg(long, value_name = "FILE.html", help_heading = "Results")]
    pub report: Option<OutputFile>,
}

/// One value of `--sets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetChoice {
    Set(FormatSet),
    /// The set with the best predicted time.
    Auto,
    /// Accuracies of row blocks.
    Map(PathBuf),
}

impl FromStr for SetChoice {
    type Err = UnknownSet;

    fn from_str(s: &str) -> Result<Self, UnknownSet> {
        match s.strip_prefix(MAP) {
            Some(file) => Ok(SetChoice::Map(file.into())),
            None if s.eq_ignore_ascii_case("auto") => Ok(SetChoice::Auto),
            None => s.parse().map(SetChoice::Set),
        }
    }
}

/// Value of `--operator`.
#[derive(Clone, Debug, PartialEq)]
pub enum OperatorChoice {
    Copy(Inner),
    /// Accuracies of row blocks.
    Map(PathBuf),
}

impl Default for OperatorChoice {
    fn default() -> Self {
        OperatorChoice::Copy(Inner::default())
    }
}

impl FromStr for OperatorChoice {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self, Error> {
        match s.strip_prefix(MAP) {
            Some(file) => Ok(OperatorChoice::Map(file.into())),
            None => s.parse().map(OperatorChoice::Copy),
        }
    }
}
