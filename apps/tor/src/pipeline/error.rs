//! Errors that stop a run, with their exit codes.

use zellige_dense::RuleError;
use zellige_files::FileError;
use zellige_files::memory::NotEnoughMemory;
use zellige_runtime::Cause;
use zellige_tune::Error as TuneError;

/// An error of the pipeline. The loss of positive definiteness under a rule is a result, not an
/// error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// Error in parameters, files or sizes.
    #[error(transparent)]
    Tor(#[from] crate::Error),
    /// Error in the text of a precision rule.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// An option is invalid, in general or for this system.
    #[error("{0}")]
    Options(String),
    /// The system does not fit the memory.
    #[error(transparent)]
    Memory(#[from] NotEnoughMemory),
    /// A task of a later stage would find too little host memory.
    #[error(
        "{stage} needs {bytes} bytes of tiles in host memory at once, but the limit is {capacity}: give --host-memory {bytes}B or more, or use smaller tiles (--tile)"
    )]
    HostMemory {
        /// Rule and stage.
        stage: String,
        /// Bytes of the operands of one task.
        bytes: u64,
        /// Bytes of host memory that values may take.
        capacity: u64,
    },
    /// The run was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// Error of a search for a precision map.
    #[error(transparent)]
    Tune(TuneError),
    /// Error of tiles or policies.
    #[error(transparent)]
    Linalg(zellige_dense::Error),
    /// Error of a task or of the runtime.
    #[error(transparent)]
    Runtime(zellige_runtime::Error),
}

impl PipelineError {
    /// Returns 2 for a wrong parameter, rule (or a script that fails) or option; 130 for a
    /// cancelled run; 1 for everything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            PipelineError::Rule(_) | PipelineError::Options(_) => 2,
            // The content of a file is wrong; a file that cannot be read gives 1.
            PipelineError::Tor(
                crate::Error::Parameter { .. } | crate::Error::File(FileError::Content { .. }),
            ) => 2,
            PipelineError::Linalg(zellige_dense::Error::Policy(_)) => 2,
            PipelineError::Tune(
                TuneError::Expression { .. } | TuneError::UnknownMeasure { .. } | TuneError::Items(_),
            ) => 2,
            PipelineError::Cancelled => 130,
            _ => 1,
        }
    }
}

impl From<TuneError> for PipelineError {
    fn from(error: TuneError) -> Self {
        match error {
            TuneError::Cancelled => PipelineError::Cancelled,
            other => PipelineError::Tune(other),
        }
    }
}

impl From<zellige_runtime::Error> for PipelineError {
    /// Detects cancellation, and the crate's own errors inside the failure of a task.
    fn from(error: zellige_runtime::Error) -> Self {
        let Some(failure) = error.failure() else {
            return PipelineError::Runtime(error);
        };
        match &failure.cause {
            Cause::Cancelled => PipelineError::Cancelled,
            _ => PipelineError::Runtime(error),
        }
    }
}

impl From<zellige_dense::Error> for PipelineError {
    fn from(error: zellige_dense::Error) -> Self {
        match error {
            zellige_dense::Error::Runtime(e) => e.into(),
            zellige_dense::Error::Rule(e) => e.into(),
            other => PipelineError::Linalg(other),
        }
    }
}
