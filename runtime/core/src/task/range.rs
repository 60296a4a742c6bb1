//! Profiler ranges around the operations that a body puts on a stream.

use super::Header;
use crate::device::Stream;
use crate::error::format_coords;

/// A range in profilers' timelines around the launch of a body. It ends when it is dropped,
/// whatever the result of the body.
pub(crate) struct Range<'a>(&'a dyn Stream);

impl<'a> Range<'a> {
    /// Begins a range with the task's name, label and coordinates, e.g. `gemm hp1 (3, 2, 1)`;
    /// returns `None`, without making the name, if no profiler is attached.
    pub(crate) fn begin(stream: &'a dyn Stream, header: &Header, label: &str) -> Option<Self> {
        stream.begin_range(&|| name(header, label)).then_some(Range(stream))
    }
}

impl Drop for Range<'_> {
    fn drop(&mut self) {
        self.0.end_range();
    }
}

fn name(header: &Header, label: &str) -> String {
    let mut name = header.name.to_string();
    if !label.is_empty() {
        name = format!("{name} {label}");
    }
    match header.info.coords {
        Some(coords) => format!("{name} ({})", format_coords(coords)),
        None => name,
    }
}
