//! Sessions: one process, or several that run one program.

use crate::engine::ReadGuard;
use crate::engine::graph::{Bindings, Recorder};
use crate::error::Error;
use crate::submit::Submit;
use crate::value::Data;

use super::Runtime;
use crate::task::Handle;

/// Interface of programs that run in one process and in several. Besides submitting tasks they wait
/// and take values out, in calls that all ranks make collectively.
///
/// A [`Runtime`] is a session of one rank. A session of several ranks is a `Cluster` of the crate
/// `zellige-mpi`, whose page documents the guarantees: above all, every rank makes the same calls
/// in the same order.
///
/// ```
/// use zellige_runtime::{Error, Runtime, Session, update};
///
/// /// Runs in one process and in several.
/// fn program<S: Session>(session: &S) -> Result<f64, Error> {
///     let x = session.register_on(session.ranks() - 1, || 20.0f64)?; // a value of the last rank's
///     session.task("double").operands((update(&x),)).cpu(|(x,)| *x *= 2.0).submit()?; // runs there
///     session.wait_all()?;
///     session.take(x) // on all ranks
/// }
///
/// assert_eq!(program(&Runtime::builder().workers(1).build()?)?, 40.0);
/// # Ok::<(), Error>(())
/// ```
pub trait Session: Submit {
    /// A recorded graph, or this rank's part of it.
    type Recording: 'static;

    /// Records the tasks that `build` submits to the recorder, without running them. Each rank
    /// records the tasks that run there, and the data that they need from other ranks.
    ///
    /// # Errors
    /// The errors of `build`, and those of [`Runtime::record`].
    fn record<E: From<Error>>(
        &self,
        build: impl FnOnce(&Recorder) -> Result<(), E>,
    ) -> Result<Self::Recording, E>;

    /// Runs a recorded graph on the handles of the recording, as if its tasks were submitted here.
    ///
    /// # Errors
    /// Those of [`Runtime::replay`].
    fn replay(&self, recording: &Self::Recording) -> Result<(), Error>;

    /// Registers a value that belongs to this rank: other ranks have other values, or none, and a
    /// task uses the value of the rank where it runs.
    fn register_local<D: Data>(&self, value: D) -> Handle<D> {
        let handle = self.runtime().register(value);
        self.keep_local(handle.core().base.id);
        handle
    }

    /// Declares that each rank has its own value for this handle, given by its number in this
    /// runtime.
    #[doc(hidden)]
    fn keep_local(&self, handle: u64);

    /// Registers a value of which all ranks have an equal copy. A task that writes only such copies
    /// runs on every rank and must compute the same result there, so that no messages with its
    /// result are needed. Scalars of iterative methods are an example.
    fn register_replicated<D: Data>(&self, value: D) -> Handle<D> {
        let handle = self.runtime().register(value);
        self.keep_replicated(handle.core().base.id);
        handle
    }

    /// Declares that every rank has a copy of the value of this handle, given by its number in this
    /// runtime.
    #[doc(hidden)]
    fn keep_replicated(&self, handle: u64);

    /// Returns the first rank's value on all ranks, for decisions that depend on time.
    ///
    /// # Errors
    /// Those of [`wait_all`](Session::wait_all).
    fn agree(&self, value: u64) -> Result<u64, Error>;

    /// Returns the runtime of this rank, for operations that concern it alone.
    fn runtime(&self) -> &Runtime;

    /// Returns this rank's number, from 0.
    fn rank(&self) -> usize {
        0
    }

    /// Returns the number of ranks.
    fn ranks(&self) -> usize {
        1
    }

    /// Returns the number of bytes of values that this rank has sent to others so far.
    fn bytes_sent(&self) -> u64 {
        0
    }

    /// Registers a value that `rank` makes, and returns a handle on all ranks.
    ///
    /// # Errors
    /// [`Error::Config`] for a rank that does not exist.
    fn register_on<D: Data>(&self, rank: usize, make: impl FnOnce() -> D) -> Result<Handle<D>, Error>;

    /// Makes the tasks that write a datum run on `rank`. The datum must have no value, and no task
    /// may have written it yet.
    ///
    /// # Errors
    /// [`Error::Config`] for a rank that does not exist, or a datum that has a value or was written
    /// before.
    fn set_owner<D: Data>(&self, handle: &Handle<D>, rank: usize) -> Result<(), Error>;

    /// Returns the rank on which the tasks that write a datum run; `None` if that is not decided
    /// yet.
    ///
    /// # Errors
    /// [`Error::Foreign`] for a handle that was not registered here.
    fn owner_of<D: Data>(&self, handle: &Handle<D>) -> Result<Option<usize>, Error>;

    /// Waits until all tasks submitted so far, on all ranks, are complete, failed ones included.
    ///
    /// # Errors
    /// Those of [`Runtime::wait_all`], the same on all ranks.
    fn wait_all(&self) -> Result<(), Error>;

    /// Waits for a value and reads it in place, on all ranks.
    ///
    /// # Errors
    /// Those of [`Runtime::read`], the same on all ranks.
    fn read<D: Data>(&self, handle: &Handle<D>) -> Result<ReadGuard<'_, D>, Error>;

    /// Waits for a value on one rank and reads it there in place; returns `None` on the others.
    ///
    /// # Errors
    /// Those of [`Runtime::read`], on that rank.
    fn read_on<D: Data>(&self, rank: usize, handle: &Handle<D>) -> Result<Option<ReadGuard<'_, D>>, Error>;

    /// Waits for a value and takes it out; every rank gets it.
    ///
    /// # Errors
    /// Those of [`Runtime::take`], the same on all ranks.
    fn take<D: Data>(&self, handle: Handle<D>) -> Result<D, Error>;
}

/// Returns an error for any rank but the first.
fn check(rank: usize) -> Result<(), Error> {
    let message = || format!("there is no rank {rank}: this is one process, and its rank is 0");
    if rank == 0 { Ok(()) } else { Err(Error::Config(message())) }
}

impl Session for Runtime {
    type Recording = Bindings;

    fn record<E: From<Error>>(&self, build: impl FnOnce(&Recorder) -> Result<(), E>) -> Result<Bindings, E> {
        Ok(Bindings::recorded(&Runtime::record(self, build)?))
    }

    fn replay(&self, recording: &Bindings) -> Result<(), Error> {
        Runtime::replay(self, recording).map(drop)
    }

    fn keep_local(&self, _handle: u64) {}

    fn keep_replicated(&self, _handle: u64) {}

    fn agree(&self, value: u64) -> Result<u64, Error> {
        Ok(value)
    }

    fn runtime(&self) -> &Runtime {
        self
    }

    fn register_on<D: Data>(&self, rank: usize, make: impl FnOnce() -> D) -> Result<Handle<D>, Error> {
        check(rank)?;
        Ok(self.register(make()))
    }

    fn set_owner<D: Data>(&self, _handle: &Handle<D>, rank: usize) -> Result<(), Error> {
        check(rank)
    }

    fn owner_of<D: Data>(&self, _handle: &Handle<D>) -> Result<Option<usize>, Error> {
        Ok(Some(0))
    }

    fn wait_all(&self) -> Result<(), Error> {
        Runtime::wait_all(self)
    }

    fn read<D: Data>(&self, handle: &Handle<D>) -> Result<ReadGuard<'_, D>, Error> {
        Runtime::read(self, handle)
    }

    fn read_on<D: Data>(&self, rank: usize, handle: &Handle<D>) -> Result<Option<ReadGuard<'_, D>>, Error> {
        check(rank)?;
        Runtime::read(self, handle).map(Some)
    }

    fn take<D: Data>(&self, handle: Handle<D>) -> Result<D, Error> {
        Runtime::take(self, handle)
    }
}
