//! Error type of the crate.

use std::io;
use std::path::Path;

use zellige_files::FileError;

/// An error with its place, its cause and a remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An invalid parameter.
    #[error("{name}: {problem}")]
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// Problem with the value, and the accepted values.
        problem: String,
    },
    /// A file cannot be read or written, or does not hold what its format promises.
    #[error(transparent)]
    File(#[from] FileError),
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

    pub(crate) fn system(path: &Path, problem: &'static str, source: io::Error) -> Self {
        FileError::system(path, problem, source).into()
    }

    pub(crate) fn content(path: &Path, offset: Option<u64>, problem: impl Into<String>) -> Self {
        FileError::content(path, offset, problem).into()
    }
}
