//! Error type of the crate.

use std::path::{Path, PathBuf};
use zellige_files::FileError;

/// An error with its place, its cause and a remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is missing, malformed or without physical meaning.
    #[error("{}{}: {key}: {problem}; {remedy}", file.display(), line.map(|l| format!(":{l}")).unwrap_or_default())]
    Parameter {
        /// File that holds the parameter (`<memory>` for other text).
        file: PathBuf,
        /// Line, counted from 1, if it is known.
        line: Option<usize>,
        /// Name of the parameter.
        key: String,
        /// Problem with the parameter.
        problem: String,
        /// Remedy.
        remedy: String,
    },
    /// A file could not be read or written, or does not hold what its format promises.
    #[error(transparent)]
    File(FileError),
    /// Two sizes that must match differ.
    #[error("{what}: {problem}")]
    Shape {
        /// Object with the wrong size.
        what: String,
        /// Found and expected sizes.
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
    /// A numerical method failed to converge or met a non-finite value.
    #[error("{what}: {problem}")]
    Numeric {
        /// Name of the computation.
        what: String,
        /// Cause, and values to check.
        problem: String,
    },
}

impl From<FileError> for Error {
    /// Leaves out the offset of wrong content.
    fn from(error: FileError) -> Self {
        match error {
            FileError::Content { path, problem, .. } => Error::content(&path, problem),
            system => Error::File(system),
        }
    }
}

impl Error {
    /// Returns an error about a file, with the operating system's cause.
    pub fn system(path: &Path, problem: &'static str, source: std::io::Error) -> Self {
        Error::File(FileError::system(path, problem, source))
    }

    /// Returns an error about the content of a file.
    pub fn content(path: &Path, problem: impl Into<String>) -> Self {
        Error::File(FileError::content(path, None, problem))
    }

    /// Returns a size error.
    pub fn shape(what: impl Into<String>, problem: impl Into<String>) -> Self {
        Error::Shape { what: what.into(), problem: problem.into() }
    }

    /// Returns a numerical error.
    pub fn numeric(what: impl Into<String>, problem: impl Into<String>) -> Self {
        Error::Numeric { what: what.into(), problem: problem.into() }
    }
}
