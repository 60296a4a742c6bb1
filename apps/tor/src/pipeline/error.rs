//! What can stop a run, and the exit code that each cause deserves.

use zellige_dense::RuleError;
use zellige_files::memory::NotEnoughMemory;
use zellige_runtime::Cause;

/// An error of the pipeline. A rule that loses positive definiteness is a result, not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Parameters, files, sizes.
    #[error(transparent)]
    Tor(#[from] crate::Error),
    /// The text of a precision rule.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// An option that makes no sense, or not with this system.
    #[error("{0}")]
    Options(String),
    /// The system does not fit the memory.
    #[error(transparent)]
    Memory(#[from] NotEnoughMemory),
    /// A task of a later stage would find too little of the host's memory.
    #[error(
        "{stage} needs {bytes} bytes of tiles in the host's memory at once, and it may hold {capacity}: give --host-memory {bytes}B or more, or take \
         smaller tiles (--tile)"
    )]
    HostMemory {
        /// The rule and the stage.
        stage: String,
        /// Bytes of the operands of one task.
        bytes: u64,
        /// Bytes that values may take there.
        capacity: u64,
    },
    /// The run was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// Tiles or policies.
    #[error(transparent)]
    Linalg(zellige_dense::Error),
    /// A task or the runtime.
    #[error(transparent)]
    Runtime(zellige_runtime::Error),
}

impl Error {
    /// 2 for a wrong parameter, rule (a script that fails included) or option; 130 for a cancelled
    /// run; 1 for everything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Rule(_) | Error::Options(_) => 2,
            // What a file says; that it could not be read is 1.
            Error::Tor(crate::Error::Parameter { .. } | crate::Error::File { source: None, .. }) => 2,
            Error::Linalg(zellige_dense::Error::Policy(_)) => 2,
            Error::Cancelled => 130,
            _ => 1,
        }
    }
}

impl From<zellige_runtime::Error> for Error {
    /// Finds cancellation, and the crate's own errors that travelled as a task's.
    fn from(error: zellige_runtime::Error) -> Self {
        let Some(failure) = error.failure() else {
            return Error::Runtime(error);
        };
        match &failure.cause {
            Cause::Cancelled => Error::Cancelled,
            _ => Error::Runtime(error),
        }
    }
}

impl From<zellige_dense::Error> for Error {
    fn from(error: zellige_dense::Error) -> Self {
        match error {
            zellige_dense::Error::Runtime(e) => e.into(),
            zellige_dense::Error::Rule(e) => e.into(),
            other => Error::Linalg(other),
        }
    }
}
