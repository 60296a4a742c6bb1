//! The one error type of the crate.

use std::path::PathBuf;

use zellige_files::ReadError;
use zellige_files::memory::{MemoryPlan, NotEnoughMemory};

/// What went wrong, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{}: {problem}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was to be done with it.
        problem: &'static str,
        /// The operating system's word.
        source: std::io::Error,
    },
    /// A file does not hold what its format promises.
    #[error("{}{}: {problem}", path.display(), offset.map(|o| format!(", byte {o}")).unwrap_or_default())]
    Format {
        /// The file.
        path: PathBuf,
        /// Where in it; none for what concerns the whole.
        offset: Option<u64>,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A stream cannot be read, or does not hold what its format promises.
    #[error("byte {offset} of the stream: {problem}")]
    Stream {
        /// Where in it.
        offset: u64,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// Nobody is reached, or somebody who is no peer.
    #[error("{0}")]
    Connection(String),
    /// A text file says what makes no sense.
    #[error("{}{}: {problem}", path.display(), line.map(|l| format!(":{l}")).unwrap_or_default())]
    Text {
        /// The file.
        path: PathBuf,
        /// Where in it, counted from 1; none for what concerns the whole.
        line: Option<usize>,
        /// What is wrong, and what would be right.
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
    /// A parameter without meaning.
    #[error("{name}: {problem}")]
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// What does not fit the memory.
    #[error(transparent)]
    Memory(#[from] NotEnoughMemory),
    /// Fields could not be solved for.
    #[error(transparent)]
    Solve(#[from] zellige_sparse::Error),
    /// A task failed, or could not be submitted.
    #[error(transparent)]
    Runtime(#[from] zellige_runtime::Error),
}

/// Bytes that stay free for tasks and tables, whatever is planned.
const TABLES: u64 = 4 << 20;

/// A plan of memory in which what every run needs is counted already.
pub(crate) fn memory_plan() -> MemoryPlan {
    let mut plan = MemoryPlan::new(zellige_runtime::topology::available_memory());
    plan.add("tables", TABLES);
    plan
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::File { path, problem, source } => Error::File { path, problem, source },
            ReadError::Content { path, offset, problem } => Error::Format { path, offset, problem },
        }
    }
}

impl Error {
    pub(crate) fn shape(what: &'static str, problem: impl Into<String>) -> Self {
        Error::Shape { what, problem: problem.into() }
    }
}
