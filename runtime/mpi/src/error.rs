//! Errors between ranks.

use std::time::Duration;

/// The reason why the ranks of a run cannot go on together. Calls of a [`Cluster`](crate::Cluster)
/// return it in [`Error::Cluster`](zellige_runtime::Error::Cluster), and tasks whose operands do
/// not arrive fail with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// Two ranks submitted different steps.
    #[error(
        "ranks {} and {} differ from step {step} on: {} on rank {}, {} on rank {}; every rank has to make the same \
         calls in the same order", here.0, there.0, here.1, here.0, there.1, there.0
    )]
    Different {
        /// The first step that differs; registrations, tasks and collective calls are counted, from
        /// 0.
        step: u64,
        /// This rank, and its step.
        here: (usize, String),
        /// The other rank, and its step.
        there: (usize, String),
    },
    /// A needed rank has ended.
    #[error("rank {rank} has ended, after {steps} steps, and {what} needs it")]
    Left {
        /// The rank.
        rank: usize,
        /// Number of steps that it had made.
        steps: u64,
        /// The task or call that needs it.
        what: String,
    },
    /// A needed rank sends nothing, not even a heartbeat.
    #[error(
        "nothing has come from rank {rank} for {time:?}, and {what} needs it: has its process been killed?"
    )]
    Silent {
        /// The rank.
        rank: usize,
        /// Minimum duration of the silence.
        time: Duration,
        /// The task or call that needs it.
        what: String,
    },
    /// Another rank could not go on.
    #[error("rank {rank} could not go on: {why}")]
    Aborted {
        /// The rank.
        rank: usize,
        /// Its error message.
        why: String,
    },
    /// Messages cannot be transferred any more.
    #[error("messages between ranks cannot be moved: {why}")]
    Transport {
        /// Error message of the transport.
        why: String,
    },
}

/// The error of a task on another rank, as text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (on rank {rank})")]
pub struct RemoteError {
    /// The rank on which the task failed.
    pub rank: usize,
    /// Its error message.
    pub message: String,
}
