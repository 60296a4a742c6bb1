//! In-order streams, each with a thread that is started on first use.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

use super::StreamId;
use crate::buffer::HostPool;
use crate::subnormals::Subnormals;
use crate::thread_start::{SMALL_STACK, start_thread};

/// One piece of a stream's work; pieces run one after the other.
type Piece = Box<dyn FnOnce() + Send>;

/// Sender of the work pieces, and the thread that runs them.
type StreamThread = (Sender<Piece>, JoinHandle<()>);

/// Streams by their names.
pub(crate) struct Streams {
    name: String,
    pool: Arc<HostPool>,
    mode: Subnormals,
    open: Mutex<HashMap<StreamId, StreamThread>>,
}

impl Streams {
    /// Creates an empty set of streams; `name` is the name of their owner. Buffers of their threads
    /// are allocated in `pool`, and `mode` is their treatment of subnormal numbers.
    pub(crate) fn new(name: &str, pool: Arc<HostPool>, mode: Subnormals) -> Self {
        Streams { name: name.into(), pool, mode, open: Mutex::default() }
    }

    /// Enqueues a piece of work on a stream.
    pub(crate) fn push(&self, stream: StreamId, piece: Piece) {
        let mut open = self.open.lock();
        let (sender, _) = open.entry(stream).or_insert_with(|| self.start());
        // Sending fails only if the thread has ended, and threads end when their sender is dropped.
        let _ = sender.send(piece);
    }

    fn start(&self) -> StreamThread {
        let (sender, pieces) = channel::<Piece>();
        let (mode, pool) = (self.mode, Arc::clone(&self.pool));
        let work = move || {
            mode.set();
            let _serving = pool.serve();
            pieces.into_iter().for_each(|piece| piece());
        };
        let thread = start_thread(format!("zellige-{}", self.name), SMALL_STACK, work);
        (sender, thread.expect("a thread for a stream can be started"))
    }

    /// Waits for all pieces. Returns true if there were streams.
    pub(crate) fn close(&self) -> bool {
        let open = std::mem::take(&mut *self.open.lock());
        let were_open = !open.is_empty();
        for (_, (sender, thread)) in open {
            drop(sender);
            // The last owner of the streams may be one of the threads.
            if thread.thread().id() != thread::current().id() {
                // A piece that panicked has been reported by the thread's own message.
                let _ = thread.join();
            }
        }
        were_open
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_stream_keep_their_order_and_all_end_before_close_returns() {
        let streams = Streams::new("test", HostPool::ordinary(None), Subnormals::Keep);
        let seen = Arc::new(Mutex::new(Vec::new()));
        for n in 0..300usize {
            let seen = Arc::clone(&seen);
            streams.push(StreamId::Link(n % 3, 9), Box::new(move || seen.lock().push(n)));
        }
        assert!(streams.close() && !streams.close());
        let seen = seen.lock();
        assert_eq!(seen.len(), 300);
        for link in 0..3 {
            let mine: Vec<usize> = seen.iter().copied().filter(|n| n % 3 == link).collect();
            assert!(mine.is_sorted());
        }
    }
}
