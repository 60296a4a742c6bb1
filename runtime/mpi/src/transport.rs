//! Transport of messages from one rank to another.

use std::sync::Arc;
use std::time::Duration;

/// Ends the [`wait`](Transport::wait) of a transport, from any thread. If the transport is not
/// waiting, its next wait ends at once.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Sends a message to another rank at once, from any thread, or gives it back: then the progress
/// thread is to send it.
pub type Sender = Arc<dyn Fn(usize, Vec<u8>) -> Result<(), Vec<u8>> + Send + Sync>;

/// Error of a transport that cannot go on.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct TransportError(pub String);

/// Transports messages, which are bytes, between the ranks of one run.
///
/// One thread per rank, the progress thread of its [`Cluster`](crate::Cluster), makes all calls;
/// other threads use only the waker and the sender. The first bytes of a message contain its
/// purpose.
///
/// Messages from one rank to another arrive complete and in the order of the sends, as MPI
/// guarantees for messages with one tag. The receiver takes them as they come, expected or not: no
/// send waits for a matching receive, so no order of submission on two ranks can block both.
pub trait Transport: Send + 'static {
    /// Returns this rank's number, from 0.
    fn rank(&self) -> usize;

    /// Returns the number of ranks.
    fn ranks(&self) -> usize;

    /// Begins to send a message to another rank. Never waits for the receiver.
    ///
    /// # Errors
    /// Only if nothing can be sent any more, to any rank.
    fn send(&mut self, to: usize, message: Vec<u8>) -> Result<(), TransportError>;

    /// Returns a message that has arrived, with the rank that sent it, if there is one. Never
    /// waits. Sends in progress advance here.
    ///
    /// # Errors
    /// Only if nothing can be received any more, from any rank.
    fn receive(&mut self) -> Result<Option<(usize, Vec<u8>)>, TransportError>;

    /// Waits until a message may have arrived, the waker was called, or this time is over.
    /// `is_idle` returns true if all workers of this rank wait for messages: then a transport that
    /// polls may do so without pauses.
    fn wait(&mut self, at_most: Duration, is_idle: &dyn Fn() -> bool);

    /// Returns a function that ends `wait` from another thread.
    fn waker(&self) -> Waker;

    /// Returns a function that sends values without the progress thread, if possible: the rank
    /// whose worker has made a value may have no core for another thread.
    fn sender(&self) -> Option<Sender> {
        None
    }

    /// Ends the use of this transport, which is not called again. Waits until all messages have
    /// left and the other ranks have ended theirs too, but no longer than `at_most`. Messages that
    /// arrive meanwhile are dropped. Does nothing if messages outlive their sender.
    fn close(&mut self, _at_most: Option<Duration>) {}
}
