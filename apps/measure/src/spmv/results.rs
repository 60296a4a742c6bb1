//! JSON output of `zellige spmv`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::StorageRow;

/// A result of `zellige spmv`: products of a matrix in one storage format.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SpmvResult {
    /// The formats.
    pub set: String,
    /// Criterion of the choice of formats.
    pub criterion: &'static str,
    /// The storage layout.
    pub layout: String,
    /// Binary logarithm of the requested accuracy.
    pub eps_log2: f64,
    /// Nonzeros by format; `drop`: those that were left out.
    pub counts: BTreeMap<String, u64>,
    /// Positive nonzeros by format.
    pub positive: BTreeMap<String, u64>,
    /// Bytes of the matrix.
    pub bytes: u64,
    /// Bytes with a row pointer for every format, as the thesis counts them.
    pub bytes_all_rowptr: u64,
    /// `bytes` in percent of CSR in FP64.
    pub percent: f64,
    /// Normwise error of the product.
    pub error_nw: f64,
    /// Componentwise error of the product.
    pub error_cw: f64,
    /// The largest bound of a row, `max_i B_i`.
    pub bound: f64,
    /// The bounds, measured as normwise errors are.
    pub bound_nw: f64,
    /// The bounds, measured as componentwise errors are.
    pub bound_cw: f64,
    /// The largest ratio of the error of a row to its bound.
    pub error_of_bound: f64,
    /// Time of a product (s).
    pub seconds: f64,
    /// Time of one in fp64 in the same run (s).
    pub seconds_fp64: f64,
}

impl From<StorageRow> for SpmvResult {
    fn from(row: StorageRow) -> Self {
        SpmvResult {
            set: row.set.to_string(),
            criterion: row.criterion,
            layout: row.layout,
            eps_log2: row.accuracy.log2(),
            counts: row.counts,
            positive: row.positive,
            bytes: row.bytes,
            bytes_all_rowptr: row.bytes_all_rowptr,
            percent: row.percent,
            error_nw: row.error.normwise,
            error_cw: row.error.componentwise,
            bound: row.bound,
            bound_nw: row.bounds.normwise,
            bound_cw: row.bounds.componentwise,
            error_of_bound: row.of_bound,
            seconds: row.seconds.0,
            seconds_fp64: row.seconds.1,
        }
    }
}
