//! The error type of sparse matrices and of solvers.

use std::path::{Path, PathBuf};

use zellige_files::FileError;
use zellige_files::memory::NotEnoughMemory;

/// Bytes that are allocated without a check of the available memory.
const LITTLE: u64 = 1 << 20;
/// Bytes that always stay free for tasks and tables.
const TABLES: u64 = 4 << 20;

/// Error of the solvers: the problem, its location, and a remedy.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Error, cg};
///
/// // Three numbers are no right-hand side of a system of order 50.
/// let Err(Error::Shape { what, problem }) = cg(&rt, &a, &[1.0; 3], 1e-10) else { unreachable!() };
/// assert!(what.contains("right-hand side") && problem.contains("50"), "{what}: {problem}");
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The content of a file does not follow its format.
    #[error("{}{}: {problem}", file.display(), line.map(|l| format!(":{l}")).unwrap_or_default())]
    Content {
        /// The file (`<memory>` for text from another source).
        file: PathBuf,
        /// Line, counted from 1; `None` if something is missing at the end.
        line: Option<u64>,
        /// The problem and the expected content.
        problem: String,
    },
    /// A file could not be read or written.
    #[error("{}: {problem}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operation on the file.
        problem: &'static str,
        /// The operating system's word.
        source: std::io::Error,
    },
    /// Sizes that do not fit each other, or that no matrix can have.
    #[error("{what}: {problem}")]
    Shape {
        /// The object with the wrong size.
        what: &'static str,
        /// Found and wanted sizes.
        problem: String,
    },
    /// A parameter without meaning.
    #[error("{name}: {problem}")]
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// The problem and the valid values.
        problem: String,
    },
    /// A system that cannot be solved, or not by this method.
    #[error("{what}: {problem}")]
    Unsolvable {
        /// The invalid object: the matrix, the preconditioner or the right-hand side.
        what: &'static str,
        /// The problem, its location, and a remedy.
        problem: String,
    },
    /// An allocation does not fit the memory.
    #[error(transparent)]
    Memory(#[from] NotEnoughMemory),
    /// A task failed, or could not be submitted.
    #[error(transparent)]
    Runtime(#[from] zellige_runtime::Error),
}

impl From<FileError> for Error {
    fn from(error: FileError) -> Self {
        match error {
            FileError::System { path, problem, source } => Error::File { path, problem, source },
            FileError::Content { path, problem, .. } => Error::Content { file: path, line: None, problem },
        }
    }
}

impl Error {
    /// Creates a [`File`](Error::File) error.
    pub fn file(path: &Path, problem: &'static str, source: std::io::Error) -> Self {
        Error::File { path: path.to_owned(), problem, source }
    }

    /// Refuses an allocation that does not fit the memory, before any part of it is allocated.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn if_too_large(what: impl FnOnce() -> String, needed: u64) -> Result<(), Error> {
        // Querying the system takes longer than allocating so little.
        if needed < LITTLE {
            return Ok(());
        }
        let needed = needed.saturating_add(TABLES);
        match zellige_runtime::topology::available_memory() {
            Some(available) if needed > available => {
                Err(NotEnoughMemory::refused(what(), needed, Some(available)).into())
            }
            _ => Ok(()),
        }
    }

    /// Creates a [`Shape`](Error::Shape) error.
    pub fn shape(what: &'static str, problem: impl Into<String>) -> Self {
        Error::Shape { what, problem: problem.into() }
    }

    /// Creates an [`Unsolvable`](Error::Unsolvable) error.
    pub fn unsolvable(what: &'static str, problem: impl Into<String>) -> Self {
        Error::Unsolvable { what, problem: problem.into() }
    }

    /// Creates a [`Parameter`](Error::Parameter) error.
    pub fn parameter(name: &'static str, problem: impl Into<String>) -> Self {
        Error::Parameter { name, problem: problem.into() }
    }
}
