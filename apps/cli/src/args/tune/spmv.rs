//! Options of `zellige tune spmv`.

use clap::Args;
use zellige_solve::tune::spmv::COST;
use zellige_sparse::adaptive::{Accuracy, FormatSet};
use zellige_tune::Expression;

use super::{TuneSearch, cost};
use crate::args::{Input, RunOutputs, VectorSource, word};

pub(super) const EXAMPLES: &str = "\
Items
  rows A..B  Each row block, in accuracies from 2^-8 to 2^-53 of the set --set

Measures
  normwise, componentwise
             Backward errors of the product, compared with one in doubled
             precision
  bytes, seconds
             Sums over the row blocks; medians of times on one thread

The formats (-o rows.json) are for zellige spmv --sets map:rows.json and
zellige solve --operator map:rows.json.

Examples
  zellige tune spmv A.mtx -o rows.json
  zellige tune spmv A.mtx --blocks 64 --x-for x.npy --verify \\
      --accept 'normwise <= 1e-7' --cost seconds";

/// Options of `zellige tune spmv`.
#[derive(Debug, Args)]
pub struct TuneSpmv {
    /// Matrix file, as for `zellige spmv`.
    #[arg(value_name = "MATRIX")]
    pub matrix: Input,
    /// Format set of the copies, as for `zellige spmv`.
    #[arg(long, value_name = "SET", default_value = "ap7", value_parser = word::<FormatSet>)]
    pub set: FormatSet,
    /// Without --accept: largest componentwise backward error.
    #[arg(long, value_name = "EPS", default_value = "2^-24", value_parser = word::<Accuracy>)]
    pub eps: Accuracy,
    /// Number of row blocks, with about as many nonzeros each.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub blocks: u16,
    /// Vector to multiply: a file, ones, or random:SEED.
    #[arg(long, value_name = "FILE|ones|random:SEED", default_value = "ones")]
    pub x_for: VectorSource,
    /// Number of timed products of each row block; seconds are their median.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub repeats: u16,
    /// Check the result with another vector: random numbers.
    #[arg(long)]
    pub verify: bool,
    /// Cost of a trial as an expression over its measures.
    #[arg(long, value_name = "EXPR", default_value = COST, value_parser = cost)]
    pub cost: Expression,
    #[command(flatten)]
    pub search: TuneSearch,
    #[command(flatten)]
    pub outputs: RunOutputs,
}
