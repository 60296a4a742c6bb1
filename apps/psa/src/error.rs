//! The one error type of the crate.

use std::io;
use std::path::{Path, PathBuf};

use zellige_files::FileError;
use zellige_files::memory::{MemoryPlan, NotEnoughMemory};

/// The error type of the crate: names the cause, the place, and a remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written, or does not hold what its format promises.
    #[error(transparent)]
    File(#[from] FileError),
    /// A stream cannot be read, or does not hold what its format promises.
    #[error("byte {offset} of the stream: {problem}")]
    Stream {
        /// Byte offset of the error in the stream.
        offset: u64,
        /// Description of the error and of the expected content.
        problem: String,
    },
    /// No peer was reached, or the peer does not speak the protocol.
    #[error("{0}")]
    Connection(String),
    /// A text file has invalid content.
    #[error("{}{}: {problem}", path.display(), line.map(|l| format!(":{l}")).unwrap_or_default())]
    Text {
        /// The file.
        path: PathBuf,
        /// Line of the error, counted from 1; `None` if it concerns the whole file.
        line: Option<usize>,
        /// Description of the error and of the expected content.
        problem: String,
    },
    /// Sizes that do not fit each other.
    #[error("{what}: {problem}")]
    Shape {
        /// The thing with the wrong size.
        what: &'static str,
        /// Found and wanted sizes.
        problem: String,
    },
    /// A parameter is invalid.
    #[error("{name}: {problem}")]
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// Description of the error and of valid values.
        problem: String,
    },
    /// The data do not fit into memory.
    #[error(transparent)]
    Memory(#[from] NotEnoughMemory),
    /// The solver of the fields failed.
    #[error(transparent)]
    Solve(#[from] zellige_sparse::Error),
    /// A task failed, or could not be submitted.
    #[error(transparent)]
    Runtime(#[from] zellige_runtime::Error),
}

/// Bytes that every memory plan reserves for tasks and tables.
const TABLES: u64 = 4 << 20;

/// Returns a memory plan that already counts the demand that every run has.
pub(crate) fn memory_plan() -> MemoryPlan {
    let mut plan = MemoryPlan::new(zellige_runtime::topology::available_memory());
    plan.add("tables", TABLES);
    plan
}

impl Error {
    pub(crate) fn system(path: &Path, problem: &'static str, source: io::Error) -> Self {
        FileError::system(path, problem, source).into()
    }

    pub(crate) fn content(path: &Path, offset: Option<u64>, problem: impl Into<String>) -> Self {
        FileError::content(path, offset, problem).into()
    }

    pub(crate) fn shape(what: &'static str, problem: impl Into<String>) -> Self {
        Error::Shape { what, problem: problem.into() }
    }
}
