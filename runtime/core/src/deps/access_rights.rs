//! Access rights of handles.

use super::Mode;
use crate::error::Error;

/// Set of tasks that may name a handle. It is part of the handle's chain, so that a task is checked
/// and linked in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRights {
    /// All tasks.
    Open,
    /// The handle is split: only the tasks that copy its parts out and back.
    Split,
    /// A view: only tasks that read.
    ReadOnly,
    /// A part that is being joined: only the task that copies it back.
    Joined,
    /// Taken or released: no task. This state is final.
    Gone,
}

impl AccessRights {
    /// Returns true if a task may access it in `mode`; `inner`: the task splits the handle or joins
    /// its parts.
    pub(crate) fn allows(self, mode: Mode, inner: bool) -> bool {
        match self {
            AccessRights::Open => true,
            AccessRights::Split | AccessRights::Joined => inner,
            AccessRights::ReadOnly => inner || !mode.writes(),
            AccessRights::Gone => false,
        }
    }

    /// Returns the error for a task that may not name the handle.
    pub(crate) fn refusal(self, task: &str, handle: String) -> Error {
        let task = task.to_string();
        match self {
            AccessRights::Split => Error::Split { task, handle },
            AccessRights::ReadOnly => Error::ReadOnly { task, handle },
            AccessRights::Open | AccessRights::Joined | AccessRights::Gone => {
                Error::Gone { handle, what: format!("task {task}") }
            }
        }
    }

    /// Changes from `from` to `to`; returns the current rights if they are not `from`.
    pub(crate) fn change(&mut self, from: AccessRights, to: AccessRights) -> Result<(), AccessRights> {
        if *self != from {
            return Err(*self);
        }
        *self = to;
        Ok(())
    }
}
