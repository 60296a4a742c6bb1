//! The one error type of the crate.

use std::path::{Path, PathBuf};
use zellige_files::ReadError;

/// What went wrong, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is missing, malformed or without physical meaning.
    #[error("{}{}: {key}: {problem}; {remedy}", file.display(), line.map(|l| format!(":{l}")).unwrap_or_default())]
    Parameter {
        /// File that holds the parameter (`<memory>` for text that came from elsewhere).
        file: PathBuf,
        /// Line, counted from 1, where it is known.
        line: Option<usize>,
        /// Name of the parameter.
        key: String,
        /// What is wrong with it.
        problem: String,
        /// What would make it right.
        remedy: String,
    },
    /// A file could not be read or written, or does not hold what its format promises.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Cause and remedy.
        problem: String,
        /// The operating system's word, where it had one.
        #[source]
        source: Option<std::io::Error>,
    },
    /// Two things that must have matching sizes do not.
    #[error("{what}: {problem}")]
    Shape {
        /// The thing with the wrong size.
        what: String,
        /// Found and wanted sizes.
        problem: String,
    },
    /// A matrix that must be positive definite is not.
    #[error(
        "{what} is not positive definite (leading block of order {order}); the noise may be zero or the profile degenerate: \
         check photometry, noise variance and lgs_cst"
    )]
    NotPositiveDefinite {
        /// The matrix.
        what: String,
        /// Order of the first leading block with a non-positive pivot.
        order: usize,
    },
    /// A numerical method failed to converge or met a value that is not finite.
    #[error("{what}: {problem}")]
    Numeric {
        /// The computation.
        what: String,
        /// What happened and what to check.
        problem: String,
    },
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::File { path, problem, source } => Error::io(&path, problem, source),
            ReadError::Content { path, problem, .. } => Error::content(&path, problem),
        }
    }
}

impl Error {
    /// An error about a file, with the operating system's cause.
    pub fn io(path: &Path, doing: &str, source: std::io::Error) -> Self {
        Error::File { path: path.to_owned(), problem: format!("{doing}: {source}"), source: Some(source) }
    }

    /// An error about the content of a file.
    pub fn content(path: &Path, problem: impl Into<String>) -> Self {
        Error::File { path: path.to_owned(), problem: problem.into(), source: None }
    }

    /// A size error.
    pub fn shape(what: impl Into<String>, problem: impl Into<String>) -> Self {
        Error::Shape { what: what.into(), problem: problem.into() }
    }

    /// A numerical error.
    pub fn numeric(what: impl Into<String>, problem: impl Into<String>) -> Self {
        Error::Numeric { what: what.into(), problem: problem.into() }
    }
}
