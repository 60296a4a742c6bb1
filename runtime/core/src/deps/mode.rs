//! Access modes.

/// Mode in which a task accesses one handle.
///
/// ```
/// use zellige_runtime::Mode;
///
/// assert!(Mode::Update.reads() && Mode::Update.writes());
/// assert!(!Mode::Write.reads());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reads; concurrent with other reads.
    Read,
    /// Writes without reading: earlier content and earlier failures are discarded.
    Write,
    /// Reads and writes.
    Update,
    /// Updates, one task at a time, in any order among neighbours that commute.
    Commute,
    /// Contributes to a reduction, with a partial result per worker.
    Reduce,
}

impl Mode {
    pub(crate) fn is_exclusive(self) -> bool {
        matches!(self, Mode::Write | Mode::Update)
    }

    /// Returns true if the access changes the value.
    pub fn writes(self) -> bool {
        self != Mode::Read
    }

    /// Returns true if the access sees the previous value.
    pub fn reads(self) -> bool {
        self != Mode::Write
    }
}
