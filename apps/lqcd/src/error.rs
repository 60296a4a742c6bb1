//! The one error type of the crate.

/// What went wrong, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter without meaning.
    #[error("{name}: {problem}")]
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// A linear system could not be solved.
    #[error(transparent)]
    Solve(#[from] zellige_krylov::Error),
    /// A task failed, or could not be submitted.
    #[error(transparent)]
    Runtime(#[from] zellige_runtime::Error),
}

impl Error {
    pub(crate) fn parameter(name: &'static str, problem: impl Into<String>) -> Self {
        Error::Parameter { name, problem: problem.into() }
    }
}
