//! Errors of a search.

use std::path::PathBuf;

/// Failure of a search or of its description.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The items do not make a space.
    #[error("items: {0}")]
    Items(String),
    /// An expression cannot be parsed.
    #[error("`{text}`: {problem}")]
    Expression {
        /// The expression.
        text: String,
        /// The problem, and where it is.
        problem: String,
    },
    /// An expression names a measure that the reference does not have.
    #[error("no measure `{missing}`; there are: {}", known.join(", "))]
    UnknownMeasure {
        /// The name.
        missing: String,
        /// Names of all measures of the reference.
        known: Vec<String>,
    },
    /// The reference failed or is not accepted, so that no assignment can be judged.
    #[error("the reference, with every item in its last format, {0}")]
    Reference(String),
    /// The log cannot be read or written, or belongs to another search.
    #[error("{}: {problem}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// The problem, and the remedy.
        problem: String,
    },
    /// A task with a trial failed.
    #[error(transparent)]
    Runtime(#[from] zellige_runtime::Error),
    /// The observer stopped the search.
    #[error("the search was cancelled")]
    Cancelled,
}
