//! How messages get from one rank to another.

use std::sync::Arc;
use std::time::Duration;

/// Ends the [`wait`](Transport::wait) of a transport, from any thread; one that is not waiting does
/// not wait the next time.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Sends a message to another rank at once, from any thread, or gives it back: then the progress
/// thread is to send it.
pub type Sender = Arc<dyn Fn(usize, Vec<u8>) -> Result<(), Vec<u8>> + Send + Sync>;

/// The transport cannot go on.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct TransportError(pub String);

/// Moves messages, which are bytes, between the ranks of one run.
///
/// One thread per rank, the progress thread of its [`Cluster`](crate::Cluster), makes all calls;
/// only the waker and the sender are used by others. What a message is for stands in its first
/// bytes.
///
/// Messages from one rank to another arrive complete and in the order in which they were sent, as
/// MPI says of messages with one tag. The receiver takes them as they come, expected or not:
/// nothing that is sent waits for a matching receive, so that no order of submission on two ranks
/// can block both.
pub trait Transport: Send + 'static {
    /// This rank's number, from 0.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn ranks(&self) -> usize;

    /// Begins to send a message to another rank. Never waits for the receiver.
    ///
    /// # Errors
    /// Only where nothing can be sent any more, to anybody.
    fn send(&mut self, to: usize, message: Vec<u8>) -> Result<(), TransportError>;

    /// A message that has arrived, with the rank that sent it, if there is one. Never waits.
    /// Messages that are being sent go on here.
    ///
    /// # Errors
    /// Only where nothing can be received any more, from anybody.
    fn receive(&mut self) -> Result<Option<(usize, Vec<u8>)>, TransportError>;

    /// Waits until a message may have arrived, the waker was called, or this time is over.
    /// `is_idle` says whether all on this rank wait for messages: then one that has to look for
    /// them may do so without pauses.
    fn wait(&mut self, at_most: Duration, is_idle: &dyn Fn() -> bool);

    /// What ends `wait` from another thread.
    fn waker(&self) -> Waker;

    /// What sends values without the progress thread, where that can be: the rank whose worker has
    /// made a value may have no core for another thread.
    fn sender(&self) -> Option<Sender> {
        None
    }

    /// Ends the use of this transport, which is not called again: waits until what was sent has
    /// left and the other ranks have ended theirs too, for so long `at_most`. What arrives
    /// meanwhile is dropped. Does nothing where messages outlive their sender.
    fn close(&mut self, _at_most: Option<Duration>) {}
}
