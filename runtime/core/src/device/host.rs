//! The host's own streams: conversions in its memory, and transfers to and from the disk.

use std::sync::Arc;
use std::time::Instant;

use super::{Device, Op, Span, StreamId, Streams};
use crate::buffer::Pool;
use crate::memory::{LinkSpec, NodeId};
use crate::subnormals::Subnormals;

/// See the module.
pub(crate) struct HostDevice {
    streams: Streams,
    /// Where what is converted goes, if there are GPUs.
    pool: Option<Arc<Pool>>,
}

impl HostDevice {
    pub(crate) fn new(pool: Option<Arc<Pool>>, mode: Subnormals) -> Self {
        HostDevice { streams: Streams::new("host", mode), pool }
    }
}

impl Device for HostDevice {
    fn link(&self, _from: NodeId, _to: NodeId) -> Option<LinkSpec> {
        None
    }

    fn enqueue(&self, stream: StreamId, op: Op) {
        let pool = self.pool.clone();
        let work = move || {
            let _serving = pool.as_ref().map(Pool::serve);
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
