//! The host's own streams: conversions in its memory, and transfers to and from the disk.

use std::sync::Arc;
use std::time::Instant;

use super::{Device, Op, Span, StreamId, Streams};
use crate::buffer::PinnedPool;
use crate::subnormals::Subnormals;

/// See the module.
pub(crate) struct HostDevice {
    streams: Streams,
    /// Where what is converted goes, if there are devices with page-locked memory.
    pool: Option<Arc<PinnedPool>>,
}

impl HostDevice {
    pub(crate) fn new(pool: Option<Arc<PinnedPool>>, mode: Subnormals) -> Self {
        HostDevice { streams: Streams::new("host", mode), pool }
    }
}

impl Device for HostDevice {
    fn enqueue(&self, stream: StreamId, op: Op) {
        let pool = self.pool.clone();
        let work = move || {
            let _serving = pool.as_ref().map(PinnedPool::serve);
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
