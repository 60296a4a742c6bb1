//! A rank of a program that runs on several ranks.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use zellige_runtime::data::ReadGuard;
use zellige_runtime::internal::ranks::{Event, WeakHandle, number_of, placed_recorder};
use zellige_runtime::internal::threads::{SMALL_STACK, start_thread};
use zellige_runtime::internal::{Body, Spec};
use zellige_runtime::{Data, Error, Format, Handle, Meta, Recorder, Runtime, Submit, TaskRef, Trace};

use crate::data::{ClusterState, Datum, Mover, form_of, relays};
use crate::deferred::DEFERRED;
use crate::error::ClusterError;
use crate::journal::NO_COORDS;
use crate::progress::{Driver, Progress, Traffic, is_remote};
use crate::recording::{Placing, Recording, Step};
use crate::remote::WHOLE;
use crate::transport::Transport;
use crate::wire::{Key, Message};

/// A rank of a program that runs on several ranks: a [`Runtime`] and its communicator. See the
/// [crate](crate).
///
/// It is used by one thread at a time, which makes the same calls in the same order as those of the
/// other ranks. Dropping it waits for the tasks of this rank.
pub struct Cluster {
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
    state: Arc<Mutex<ClusterState>>,
    /// Stands for every task that runs on another rank.
    elsewhere: TaskRef,
    runtime: Runtime,
}

/// Default time without any message, not even a heartbeat, after which a needed rank is considered
/// lost.
const TIMEOUT: Duration = Duration::from_secs(10);

impl Cluster {
    /// Creates a rank that runs its tasks in `runtime` and reaches the others through `transport`.
    /// The runtime must not be
    /// [`single_threaded`](zellige_runtime::RuntimeBuilder::single_threaded), since such a runtime
    /// never waits for other threads.
    ///
    /// # Errors
    /// [`Error::Os`] if no thread can be started.
    pub fn new(runtime: Runtime, transport: impl Transport) -> Result<Self, Error> {
        Cluster::with_timeout(runtime, transport, TIMEOUT)
    }

    /// Creates a rank with a given `timeout`: a needed rank that sends nothing for this time is
    /// considered lost (10 s with [`new`](Cluster::new)). A rank sends a heartbeat four times in
    /// that time, and at least once a second, whatever its tasks do.
    ///
    /// # Errors
    /// Those of [`new`](Cluster::new).
    pub fn with_timeout(
        runtime: Runtime,
        transport: impl Transport,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let progress = Progress::new(&transport, timeout, &runtime);
        let driver = Driver::new(Arc::clone(&progress), transport);
        let elsewhere = Event::of(&runtime, "a task on another rank")?.task().clone();
        let name = format!("zellige-rank-{}", progress.rank);
        let thread = start_thread(name, SMALL_STACK, move || driver.run()).map_err(|error| Error::Os {
            what: "starting the progress thread".into(),
            cause: error.to_string(),
        })?;
        Ok(Cluster { progress, thread: Some(thread), state: Arc::default(), elsewhere, runtime })
    }

    /// Returns this rank's number, from 0.
    pub fn rank(&self) -> usize {
        self.progress.rank
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.progress.ranks
    }

    /// Returns the runtime of this rank, for purely local purposes: workers, models, traces, the
    /// [failures](Runtime::failures) of its tasks. Tasks on handles of the cluster are submitted to
    /// the cluster.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Returns the statistics of the values that this rank has sent and received so far.
    pub fn traffic(&self) -> Traffic {
        self.progress.traffic()
    }

    /// Registers a value of `rank` with a handle on all ranks. `make` is called on that rank only.
    ///
    /// # Errors
    /// [`Error::Config`] for a rank that does not exist.
    pub fn register_on<D: Data>(&self, rank: usize, make: impl FnOnce() -> D) -> Result<Handle<D>, Error> {
        self.check_rank(rank)?;
        let here = rank == self.rank();
        let handle = if here { self.runtime.register(make()) } else { self.runtime.register_empty() };
        // Only the rank with the value knows its format, and the others have to agree on the form
        // that is sent.
        self.knows(&handle, Some(rank), true, WHOLE);
        Ok(handle)
    }

    /// Makes `rank` the owner of a datum that was registered without a value and that no task has
    /// written yet: the tasks that write it run there. By default its owner is the rank that runs
    /// the first task that writes it, by the [rule](crate#where-tasks-run).
    ///
    /// # Errors
    /// [`Error::Config`] for a rank that does not exist, and for a datum that has a value or was
    /// written before; [`Error::Foreign`] for a datum of another cluster.
    pub fn set_owner<D: Data>(&self, handle: &Handle<D>, rank: usize) -> Result<(), Error> {
        self.check_rank(rank)?;
        let mut state = self.state.lock();
        let datum = state.find(handle)?;
        if datum.written {
            return Err(Error::Config(format!(
                "{} has a value or was written before: its owner is set right after it was registered",
                handle.name()
            )));
        }
        datum.owner = Some(rank);
        self.progress.journal.lock().record("set_owner", NO_COORDS, Some(datum.tag), rank as u64);
        Ok(())
    }

    /// Returns the rank that owns a datum; `None` if that is not decided yet.
    ///
    /// # Errors
    /// [`Error::Foreign`] for a datum that was not registered here.
    pub fn owner_of<D: Data>(&self, handle: &Handle<D>) -> Result<Option<usize>, Error> {
        Ok(self.state.lock().find(handle)?.owner)
    }

    /// True if tasks that write the datum run on this rank: other ranks need not create inputs that
    /// only these tasks use.
    ///
    /// # Errors
    /// Those of [`owner_of`](Cluster::owner_of).
    pub fn runs_here<D: Data>(&self, handle: &Handle<D>) -> Result<bool, Error> {
        Ok(self.owner_of(handle)? == Some(self.rank()))
    }

    /// Waits until all tasks submitted so far, on all ranks, are complete, including failed ones.
    /// Collective.
    ///
    /// # Errors
    /// The same on all ranks: [`Error::Failed`] with the first failure of a rank, that with the
    /// lowest number if several have some. Its cause is the original one on that rank, and a
    /// [`RemoteError`](crate::RemoteError) on the others. [`Error::Cluster`] if the ranks cannot go
    /// on together.
    pub fn wait_all(&self) -> Result<(), Error> {
        let call = self.begins("wait_all", None);
        let own = match self.runtime.wait_all() {
            Ok(()) => None,
            Err(Error::Failed(failure)) => Some(failure),
            Err(other) => {
                let why = other.to_string();
                self.progress.aborts(ClusterError::Aborted { rank: self.rank(), why });
                return Err(other);
            }
        };
        self.progress.check()?;
        let reported = own.as_ref().filter(|failure| !is_remote(failure)).map(|failure| (**failure).clone());
        match (self.progress.agree(call, reported)?, own) {
            (None, _) => Ok(()),
            (Some((rank, _)), Some(own)) if rank == self.rank() => Err(Error::Failed(own)),
            (Some((_, failure)), _) => Err(Error::Failed(Arc::new(failure))),
        }
    }

    /// Returns the records of the runtimes of all ranks ([`RuntimeBuilder::trace`]), as one trace
    /// on rank 0 ([`Trace::merged`]); `None` on the others, and if a rank recorded nothing. The
    /// ranks' clocks are compared by messages, to some tens of microseconds. Waits for all tasks.
    /// Collective.
    ///
    /// [`RuntimeBuilder::trace`]: zellige_runtime::RuntimeBuilder::trace
    ///
    /// # Errors
    /// Those of [`wait_all`](Cluster::wait_all).
    pub fn take_trace(&self) -> Result<Option<Trace>, Error> {
        self.wait_all()?;
        self.runtime.wait_transfers()?;
        let mut own = self.progress.began()?.to_le_bytes().to_vec();
        if let Some(trace) = self.runtime.take_trace() {
            let writing = |error: std::io::Error| Error::Config(format!("a trace of a rank: {error}"));
            trace.write_native(&mut own).map_err(writing)?;
        }
        let said = (0..self.ranks()).map(|rank| self.register_on(rank, || own.clone()));
        let said: Vec<Handle<Vec<u8>>> = said.collect::<Result<_, _>>()?;
        let mut ranks = Vec::new();
        for said in &said {
            let Some(bytes) = self.read_on(0, said)? else { continue };
            let trace = bytes.split_first_chunk().and_then(|(began, trace)| {
                Some((Trace::read_native(trace).ok()?, i64::from_le_bytes(*began)))
            });
            ranks.extend(trace);
        }
        Ok((ranks.len() == self.ranks()).then(|| Trace::merged(ranks)))
    }

    /// Brings a value to all ranks, waits for it, and reads it in place. Collective.
    ///
    /// # Errors
    /// Those of [`Runtime::read`], the same kind on all ranks; [`Error::Cluster`].
    pub fn read<D: Data>(&self, handle: &Handle<D>) -> Result<ReadGuard<'_, D>, Error> {
        self.brings("read", handle, 0..self.ranks())?;
        self.runtime.read(handle)
    }

    /// Brings a value to one rank, waits for it there, and reads it in place; the others get `None`
    /// at once. Collective.
    ///
    /// # Errors
    /// [`Error::Config`] for a rank that does not exist; on that rank those of [`Runtime::read`];
    /// [`Error::Cluster`].
    pub fn read_on<D: Data>(
        &self,
        rank: usize,
        handle: &Handle<D>,
    ) -> Result<Option<ReadGuard<'_, D>>, Error> {
        self.check_rank(rank)?;
        self.brings("read_on", handle, rank..rank + 1)?;
        if rank == self.rank() { self.runtime.read(handle).map(Some) } else { Ok(None) }
    }

    /// Brings a value to all ranks, waits for it, and takes it out: each rank has the value, and
    /// the handle is no longer usable. Collective.
    ///
    /// # Errors
    /// Those of [`Runtime::take`], the same kind on all ranks; [`Error::Cluster`].
    pub fn take<D: Data>(&self, handle: Handle<D>) -> Result<D, Error> {
        self.brings("take", &handle, 0..self.ranks())?;
        self.runtime.take(handle)
    }

    /// Registers a private value of this rank. It is never sent: other ranks register their own
    /// values, and a task uses that of the rank on which it runs, which its other operands
    /// determine. An example are parts of a matrix that only their owner's tasks read.
    pub fn register_local<D: Data>(&self, value: D) -> Handle<D> {
        let handle = self.runtime.register(value);
        self.keep_local(number_of(&handle));
        handle
    }

    pub(crate) fn keep_local(&self, handle: u64) {
        self.state.lock().local.insert(handle);
        self.progress.journal.lock().record("register_local", NO_COORDS, None, 0);
    }

    /// Registers a value of which every rank has a copy: the value is the same on each. A task that
    /// writes only such copies runs on every rank and has to compute the same result there. Reading
    /// it sends no message.
    ///
    /// ```
    /// use zellige_mpi::{Cluster, run_local};
    /// use zellige_runtime::{Error, Submit, read, update};
    ///
    /// fn program(cluster: &Cluster) -> Result<f64, Error> {
    ///     let part = cluster.register_on(1, || 3.0f64)?;
    ///     let sum = cluster.register_replicated(1.0f64);
    ///     cluster.task("add").operands((read(&part), update(&sum))).cpu(|(part, sum)| *sum += part).submit()?; // on both
    ///     cluster.take(sum)
    /// }
    ///
    /// assert_eq!(run_local(2, 1, program)?.into_iter().collect::<Result<Vec<_>, _>>()?, [4.0, 4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn register_replicated<D: Data>(&self, value: D) -> Handle<D> {
        let handle = self.runtime.register(value);
        self.keep_replicated(number_of(&handle));
        handle
    }

    pub(crate) fn keep_replicated(&self, handle: u64) {
        let mut state = self.state.lock();
        state.local.insert(handle);
        state.replicated.insert(handle);
        drop(state);
        self.progress.journal.lock().record("register_replicated", NO_COORDS, None, 0);
    }

    /// Returns the value of rank 0, on all ranks: for decisions that depend on time. Collective.
    ///
    /// # Errors
    /// [`Error::Cluster`] if the ranks cannot go on together.
    pub fn agree(&self, value: u64) -> Result<u64, Error> {
        let decision = self.register_on(0, || value)?;
        let value = *self.read(&decision)?;
        self.release(decision)?;
        Ok(value)
    }

    /// Records the tasks that `build` submits to the recorder, without running them. All ranks make
    /// the same recording. Each keeps its own tasks, and the messages that it sends and receives
    /// for them. Tasks of other ranks cost nothing in a replay.
    ///
    /// ```
    /// use zellige_mpi::{Cluster, run_local};
    /// use zellige_runtime::{Error, Submit, read, update};
    ///
    /// fn program(cluster: &Cluster) -> Result<f64, Error> {
    ///     let x = cluster.register_on(0, || 1.0f64)?;
    ///     let y = cluster.register_on(1, || 0.0f64)?;
    ///     let step = cluster.record(|g| {
    ///         g.task("add").operands((read(&x), update(&y))).cpu(|(x, y)| *y += x).submit()?; // on rank 1
    ///         g.task("double").operands((update(&x),)).cpu(|(x,)| *x *= 2.0).submit().map(drop) // on rank 0
    ///     })?;
    ///     (0..4).try_for_each(|_| cluster.replay(&step))?;
    ///     cluster.take(y)
    /// }
    ///
    /// assert_eq!(run_local(2, 1, program)?.into_iter().collect::<Result<Vec<_>, _>>()?, [15.0, 15.0]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// Any error that `build` returns; those of a submission.
    pub fn record<E: From<Error>>(
        &self,
        build: impl FnOnce(&Recorder) -> Result<(), E>,
    ) -> Result<Recording, E> {
        let placing = Placing::new(&self.state, &self.progress, &self.elsewhere);
        let recorder = placed_recorder(Box::new(placing.clone()));
        build(&recorder)?;
        Ok(placing.finish(&recorder))
    }

    /// Runs a recording, as if its tasks were submitted here. All ranks replay the same one. Does
    /// not wait.
    ///
    /// # Errors
    /// Those of a submission.
    pub fn replay(&self, recording: &Recording) -> Result<(), Error> {
        self.progress.check()?;
        self.progress.journal.lock().record("replay", NO_COORDS, None, recording.number);
        let replayed = self.replay_steps(recording);
        if let Err(error) = &replayed {
            let why = format!("a replay was refused there: {error}");
            self.progress.aborts(ClusterError::Aborted { rank: self.rank(), why });
        }
        replayed
    }

    fn replay_steps(&self, recording: &Recording) -> Result<(), Error> {
        let state = &mut *self.state.lock();
        // No task of this rank names a datum whose handles are gone.
        for (handle, forms) in &recording.before {
            let Some(datum) = state.data.get_mut(handle) else { continue };
            for &(to, format) in forms {
                datum.check_travels(datum.location, to)?;
                datum.bring(self, format, to)?;
            }
        }
        for step in &recording.steps {
            match step {
                Step::Run(bindings, _) => drop(self.runtime.replay(bindings)?),
                Step::Bring { handle, format, to } => {
                    let Some(datum) = state.data.get_mut(handle) else { continue };
                    datum.bring(self, *format, *to)?;
                }
                Step::Written { handle, rank, times } => {
                    let Some(datum) = state.data.get_mut(handle) else { continue };
                    self.is_written(datum, *rank, *times)?;
                }
            }
        }
        Ok(())
    }

    /// Ends the use of a handle on all ranks. Collective; does not wait.
    ///
    /// # Errors
    /// [`Error::Foreign`] for a handle that was not registered here.
    pub fn release<D: Data>(&self, handle: Handle<D>) -> Result<(), Error> {
        let tag = self.state.lock().find(&handle)?.tag;
        self.progress.journal.lock().record("release", NO_COORDS, Some(tag), 0);
        self.runtime.release(handle);
        Ok(())
    }

    /// Cancels, on all ranks, the submitted tasks that have not started. Their outputs are poisoned
    /// on every rank that needs them. One rank calls it; the progress of the others at that moment
    /// is unspecified.
    pub fn cancel_all(&self) {
        self.progress.post_to_others(&Message::Cancel);
        self.runtime.cancel_all();
    }

    fn check_rank(&self, rank: usize) -> Result<(), Error> {
        let ranks = self.ranks();
        let message = || format!("there is no rank {rank}: there are {ranks}, from 0");
        if rank < ranks { Ok(()) } else { Err(Error::Config(message())) }
    }

    /// Makes a handle a datum of the cluster.
    fn knows<D: Data>(&self, handle: &Handle<D>, owner: Option<usize>, written: bool, usual: Format) {
        let datum = Datum::new(Box::new(WeakHandle::new(handle)), owner, written, usual);
        let tag = self.state.lock().add(number_of(handle), datum);
        let what = if written { "register" } else { "register_empty" };
        self.progress.journal.lock().record(
            what,
            NO_COORDS,
            Some(tag),
            owner.map_or(0, |owner| owner as u64 + 1),
        );
    }

    /// Begins a collective call and returns its number.
    fn begins(&self, what: &'static str, tag: Option<u64>) -> u64 {
        self.progress.journal.lock().record(what, NO_COORDS, tag, 0);
        self.progress.compare();
        let mut state = self.state.lock();
        state.calls += 1;
        state.calls
    }

    /// Brings a value to these ranks.
    fn brings<D: Data>(
        &self,
        what: &'static str,
        handle: &Handle<D>,
        ranks: impl Iterator<Item = usize>,
    ) -> Result<(), Error> {
        let tag = match self.state.lock() {
            state if state.replicated.contains(&number_of(handle)) => None,
            mut state => Some(state.find(handle)?.tag),
        };
        self.begins(what, tag);
        self.progress.check()?;
        if tag.is_none() {
            return Ok(());
        }
        let mut state = self.state.lock();
        let datum = state.find(handle)?;
        if !datum.written {
            return Err(Error::Unwritten { task: what.into(), handle: handle.name() });
        }
        for rank in ranks {
            datum.check_travels(datum.location, rank)?;
            datum.bring(self, WHOLE, rank)?;
        }
        Ok(())
    }

    /// Notes `times` writes of a datum by tasks, the last of them on `rank`.
    fn is_written(&self, datum: &mut Datum, rank: usize, times: u64) -> Result<(), Error> {
        let has_replica = || form_of(&datum.replicas, self.rank()).is_some();
        let had_it = datum.written && (datum.location == self.rank() || has_replica());
        datum.is_written(rank, times);
        if had_it && rank != self.rank() { datum.remote.forget(&self.runtime) } else { Ok(()) }
    }
}

impl Mover for Cluster {
    fn concerns(&self, location: usize, to: usize) -> bool {
        self.rank() == location || self.rank() == to || relays(self.ranks())
    }

    fn moves(&self, datum: &Datum, key: Key, (from, to): (usize, usize)) -> Result<(), Error> {
        let (rt, progress, remote) = (&self.runtime, &self.progress, &datum.remote);
        let is_deferred = key.format == DEFERRED;
        match self.rank() {
            me if me == to && is_deferred => remote.follow(rt, progress, key, from),
            me if me == to => remote.receive(rt, progress, key, from),
            me if me == from && is_deferred => remote.offer(rt, progress, key, to),
            me if me == from => remote.send(rt, progress, key, to),
            _ => Ok(()),
        }
    }
}

impl Submit for Cluster {
    fn submit_spec<B: Body + 'static>(&self, spec: Spec<B>) -> Result<TaskRef, Error> {
        self.progress.check()?;
        let state = &mut *self.state.lock();
        let mut accesses = std::mem::take(&mut state.accesses);
        let (name, coords, body) = spec.parts();
        let place = state.place(self.rank(), (name, body), &mut accesses, |_| false)?;
        let rank = place.rank;
        state.check_travels(&place, self.ranks(), &accesses)?;
        // From here on all ranks do the same, or none can go on.
        self.progress.journal.lock().record(name, coords, place.first, place.hash);
        let submit = || {
            // A rank that does not run the task and holds none of its inputs only notes its
            // outputs.
            if place.is_source || rank == self.rank() || relays(self.ranks()) {
                place.ranks(self.ranks()).try_for_each(|to| state.bring_all(self, &accesses, to))?;
            }
            let task =
                if rank == self.rank() { self.runtime.submit_spec(spec)? } else { self.elsewhere.clone() };
            for access in accesses.iter().filter(|access| access.mode.writes()) {
                if let Some(datum) = state.data.get_mut(&access.handle) {
                    datum.owner.get_or_insert(rank);
                    self.is_written(datum, rank, 1)?;
                }
            }
            Ok(task)
        };
        let submitted: Result<TaskRef, Error> = submit();
        state.accesses = accesses;
        if let Err(error) = &submitted {
            let why = format!("task {name} was refused there: {error}");
            self.progress.aborts(ClusterError::Aborted { rank: self.rank(), why });
        }
        submitted
    }

    fn announce_step(&self, tasks: usize) {
        self.runtime.announce_step(tasks);
    }

    /// Registers a value of which only rank 0's counts, and the others' are dropped: see
    /// [`register_on`](Cluster::register_on).
    fn register<D: Data>(&self, value: D) -> Handle<D> {
        let handle =
            if self.rank() == 0 { self.runtime.register(value) } else { self.runtime.register_empty() };
        self.knows(&handle, Some(0), true, WHOLE);
        handle
    }

    fn register_empty<D: Data>(&self) -> Handle<D> {
        let handle = self.runtime.register_empty();
        self.knows(&handle, None, false, WHOLE);
        handle
    }

    fn register_sized<D: Data>(&self, meta: Meta) -> Handle<D> {
        let handle = self.runtime.register_sized(meta);
        self.knows(&handle, None, false, meta.format);
        handle
    }

    fn register_planned<D: Data>(&self, meta: Meta) -> Handle<D> {
        let handle = self.runtime.register_planned(meta);
        self.knows(&handle, Some(0), true, meta.format);
        handle
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let why = "its program panicked".into();
            self.progress.aborts(ClusterError::Aborted { rank: self.rank(), why });
            self.runtime.cancel_all();
        }
        // Failures remain available in the runtime.
        let _ = self.runtime.wait_all();
        let (steps, _) = self.progress.journal.lock().state();
        self.progress.post_to_others(&Message::Leave { steps });
        self.progress.waits_for_requests();
        self.progress.end();
        if let Some(thread) = self.thread.take() {
            // Its panic has been reported.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cluster(rank {} of {}, {:?})", self.rank(), self.ranks(), self.runtime)
    }
}
