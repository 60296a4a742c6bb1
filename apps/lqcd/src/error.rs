//! Error type of the crate.

use std::io;
use std::path::{Path, PathBuf};

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
    /// A file cannot be read or written.
    #[error("{}: {problem}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Operation that failed.
        problem: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// A file does not hold what its format promises.
    #[error("{}{}: {problem}", path.display(), offset.map(|at| format!(", byte {at}")).unwrap_or_default())]
    Format {
        /// The file.
        path: PathBuf,
        /// Offset of the error in bytes; `None` if it concerns the whole file.
        offset: Option<u64>,
        /// Description of the problem.
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

    pub(crate) fn file(path: &Path, problem: &'static str, source: io::Error) -> Self {
        Error::File { path: path.to_owned(), problem, source }
    }

    pub(crate) fn format(path: &Path, offset: Option<u64>, problem: impl Into<String>) -> Self {
        Error::Format { path: path.to_owned(), offset, problem: problem.into() }
    }
}
