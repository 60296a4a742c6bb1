//! How a task accesses one handle.

/// How a task accesses one handle.
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
    /// Writes without reading: earlier content, and earlier failure, is forgotten.
    Write,
    /// Reads and writes.
    Update,
    /// Updates in any order among neighbours that commute, one at a time.
    Commute,
    /// Contributes to a reduction, each worker into a partial result of its own.
    Reduce,
}

impl Mode {
    pub(crate) fn is_exclusive(self) -> bool {
        matches!(self, Mode::Write | Mode::Update)
    }

    /// True if it leaves another value.
    pub fn writes(self) -> bool {
        self != Mode::Read
    }

    /// True if it sees the value that was there.
    pub fn reads(self) -> bool {
        self != Mode::Write
    }
}
