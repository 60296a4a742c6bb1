//! Record of the uses of bytes, and detection of conflicts.

use std::sync::Arc;

use super::clock::{Clock, Point};

/// Kind of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    Write,
    Allocate,
    Free,
}

impl Use {
    pub(super) fn writes(self) -> bool {
        self != Use::Read
    }

    pub(super) fn verb(self) -> &'static str {
        match self {
            Use::Read => "reads",
            Use::Write => "writes",
            Use::Allocate => "allocates",
            Use::Free => "frees",
        }
    }
}

/// A use of the bytes from `from` to `to` (exclusive).
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) kind: Use,
    pub(super) at: Point,
    /// Operation and stream, for messages.
    pub(super) who: Arc<str>,
}

impl Access {
    fn conflicts(&self, other: &Access) -> bool {
        self.from < other.to && other.from < self.to && (self.kind.writes() || other.kind.writes())
    }

    /// Returns true if every later use that conflicts with `old` also conflicts with `self`.
    fn covers(&self, old: &Access) -> bool {
        let inside = self.from <= old.from && old.to <= self.to;
        inside && (self.kind.writes() || !old.kind.writes())
    }
}

/// The uses that may still be in conflict with something to come.
#[derive(Debug, Default)]
pub(super) struct History(Vec<Access>);

impl History {
    /// A use that conflicts with this one and that `known` does not order before it.
    pub(super) fn conflict(&self, new: &Access, known: &Clock) -> Option<&Access> {
        self.0.iter().find(|old| old.conflicts(new) && !known.knows(old.at))
    }

    /// Records a use. `known` is the clock before it, `host` the clock before all later uses.
    pub(super) fn add(&mut self, new: Access, known: &Clock, host: &Clock) {
        // If a later use conflicts with an old use that is dropped here and is not ordered after
        // it, it also conflicts with the new one and is not ordered after that either: order is
        // transitive.
        self.0.retain(|old| !(host.knows(old.at) || new.covers(old) && known.knows(old.at)));
        self.0.push(new);
    }

    /// A use of these bytes that the host does not know to have ended.
    pub(super) fn unfinished(&self, from: u64, to: u64, host: &Clock) -> Option<&Access> {
        self.0.iter().find(|old| old.from < to && from < old.to && !host.knows(old.at))
    }
}
