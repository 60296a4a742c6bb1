//! The host's own streams: conversions in its memory, and transfers to and from the disk.

use std::sync::Arc;
use std::time::Instant;

use super::{Device, Op, Span, StreamId, Streams};
use crate::buffer::HostPool;
use crate::subnormals::Subnormals;

/// The host's own streams; see the module.
pub(crate) struct HostDevice {
    streams: Streams,
}

impl HostDevice {
    /// Creates the streams; results of conversions are allocated in `pool`.
    pub(crate) fn new(pool: Arc<HostPool>, mode: Subnormals) -> Self {
        HostDevice { streams: Streams::new("host", pool, mode) }
    }
}

impl Device for HostDevice {
    fn enqueue(&self, stream: StreamId, op: Op) {
        let work = move || {
            let start = Instant::now();
            let ran = (op.run)(None);
            (op.done)(ran.map(|()| Span { start, end: Instant::now() }));
        };
        self.streams.push(stream, Box::new(work));
    }

    fn close(&self) -> bool {
        self.streams.close()
    }
}
