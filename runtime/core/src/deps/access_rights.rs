//! Who may name a handle.

use super::Mode;
use crate::error::Error;

/// Which tasks may name a handle; part of its chain, so that a task is checked and linked in one
/// go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRights {
    /// All.
    Open,
    /// Its parts are out: those that copy the parts out of it and back.
    Split,
    /// A view: those that read.
    ReadOnly,
    /// A part that comes back: the one that copies it.
    Joined,
    /// Taken or released: none. A handle never leaves this rights.
    Gone,
}

impl AccessRights {
    /// True if a task may access it so; `inner`: one that splits the handle or joins its parts.
    pub(crate) fn allows(self, mode: Mode, inner: bool) -> bool {
        match self {
            AccessRights::Open => true,
            AccessRights::Split | AccessRights::Joined => inner,
            AccessRights::ReadOnly => inner || !mode.writes(),
            AccessRights::Gone => false,
        }
    }

    /// The error of a task that may not name the handle.
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

    /// Becomes `to` if it is `from`, else says what it is.
    pub(crate) fn change(&mut self, from: AccessRights, to: AccessRights) -> Result<(), AccessRights> {
        if *self != from {
            return Err(*self);
        }
        *self = to;
        Ok(())
    }
}
