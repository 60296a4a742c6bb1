//! Numbers of storage formats.

/// How the numbers of one version of a value are stored. Opaque to the runtime, which only compares formats;
/// the crate that owns the data type gives the numbers their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Format(pub u16);

impl Format {
    /// Whatever the last writer left.
    pub const NATIVE: Format = Format(0);
}
