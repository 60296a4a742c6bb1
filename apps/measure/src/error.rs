//! Errors of measurements.

/// An error of a measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The user wants to stop.
    #[error("cancelled")]
    Cancelled,
    /// There is no GPU of this number.
    #[error("there is no GPU {0}")]
    NoGpu(u32),
    /// A measurement among several.
    #[error("{what}")]
    In {
        /// Name of the measurement.
        what: String,
        /// The error.
        source: zellige_dense::Error,
    },
    /// Tiles or policies.
    #[error("{0}")]
    Linalg(#[from] zellige_dense::Error),
    /// The text of a precision rule.
    #[error("{0}")]
    Rule(#[from] zellige_dense::RuleError),
    /// Sparse matrices.
    #[error("{0}")]
    Sparse(#[from] zellige_sparse::Error),
    /// Parameters of a telescope.
    #[error("{0}")]
    Tor(#[from] zellige_tor::Error),
    /// Reconstructors.
    #[error("{0}")]
    Pipeline(#[from] zellige_tor::pipeline::PipelineError),
    /// A task, or the runtime.
    #[error("{0}")]
    Runtime(#[from] zellige_runtime::Error),
}
