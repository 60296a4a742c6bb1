//! One rank of several that run one program.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use zellige_runtime::data::ReadGuard;
use zellige_runtime::internal::{Body, Named, Spec, WeakHandle, event, number_of, outline};
use zellige_runtime::{Data, Error, Format, Handle, Meta, Mode, Runtime, Submit, TaskRef};

use crate::error::ClusterError;
use crate::journal::{mix, mix_text};
use crate::progress::{Driver, Progress, Traffic, is_remote};
use crate::remote::{Remote, WHOLE};
use crate::transport::Transport;
use crate::wire::{Key, Message};

/// One rank of several that run one program: a [`Runtime`] and its communicator. See the [crate](crate).
///
/// It is used by one thread, which makes the same calls in the same order as those of the other ranks. Dropping it waits
/// for the tasks of this rank.
pub struct Cluster {
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
    state: RefCell<State>,
    /// Stands for every task that runs on another rank.
    elsewhere: TaskRef,
    runtime: Runtime,
}

#[derive(Default)]
struct State {
    data: HashMap<u64, Datum, BuildHasherDefault<Multiply>>,
    next_tag: u64,
    /// With so many data those that nobody can name any more are looked for.
    sweep_at: usize,
    calls: u64,
    /// Of the task that is being submitted.
    accesses: Vec<Named>,
}

/// What every rank knows of a datum; and what only those know that have its newest version, or a replica.
struct Datum {
    remote: Box<dyn Remote>,
    tag: u64,
    /// The rank whose tasks write it, once that is decided.
    owner: Option<usize>,
    /// The rank that has the newest version, if there is one.
    location: usize,
    version: u64,
    /// It has a version.
    written: bool,
    /// Its values can leave their process.
    travels: bool,
    /// In which a value of it was registered or is expected: asked for in this, it is sent as it is.
    usual: Format,
    /// Elsewhere: the form of the newest version that is here, or on its way.
    here: Option<Format>,
    /// At its location: where it was sent, in which form.
    sent: Vec<(usize, Format)>,
}

/// Hashes handles' numbers, which nobody chooses to collide.
#[derive(Default)]
struct Multiply(u64);

impl Hasher for Multiply {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0, number);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

const NO_COORDS: [u32; 3] = [u32::MAX; 3];

/// So long a rank that something is needed from may say nothing, not even that it is there.
const TIMEOUT: Duration = Duration::from_secs(10);

impl Cluster {
    /// A rank that runs its tasks in `runtime` and reaches the others through `transport`. Not a
    /// [`single_threaded`](zellige_runtime::RuntimeBuilder::single_threaded) one, which waits for nobody.
    ///
    /// # Errors
    /// [`Error::Os`] if no thread can be started.
    pub fn new(runtime: Runtime, transport: impl Transport) -> Result<Self, Error> {
        Cluster::with_timeout(runtime, transport, TIMEOUT)
    }

    /// The same; `timeout`: so long a rank that something is needed from may say nothing before it is taken for
    /// lost (10 s with [`new`](Cluster::new)). A rank says that it is there four times in that time, and once a second at
    /// least, whatever its tasks do.
    ///
    /// # Errors
    /// As [`new`](Cluster::new).
    pub fn with_timeout(
        runtime: Runtime,
        transport: impl Transport,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let progress = Arc::new(Progress::new(&transport, timeout, runtime.canceller()));
        let driver = Driver::new(Arc::clone(&progress), transport);
        let elsewhere = event(&runtime, "a task on another rank")?.task().clone();
        let thread = std::thread::Builder::new()
            .name(format!("zellige-rank-{}", progress.rank))
            .spawn(move || driver.run())
            .map_err(|error| Error::Os {
                what: "starting the progress thread".into(),
                cause: error.to_string(),
            })?;
        let state = RefCell::new(State { sweep_at: 1024, ..State::default() });
        Ok(Cluster { progress, thread: Some(thread), state, elsewhere, runtime })
    }

    /// This rank's number, from 0.
    pub fn rank(&self) -> usize {
        self.progress.rank
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> usize {
        self.progress.ranks
    }

    /// The runtime of this rank, for what concerns it alone: workers, models, traces, the
    /// [failures](Runtime::failures) of its tasks. Tasks on handles of the cluster are submitted to the cluster.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The values that this rank has sent and received so far.
    pub fn traffic(&self) -> Traffic {
        self.progress.traffic()
    }

    /// Gives a value that `rank` has a handle on all ranks. `make` is called there and nowhere else.
    ///
    /// # Errors
    /// [`Error::Config`] for a rank that does not exist.
    pub fn register_on<D: Data>(&self, rank: usize, make: impl FnOnce() -> D) -> Result<Handle<D>, Error> {
        self.check_rank(rank)?;
        let here = rank == self.rank();
        let handle = if here { self.runtime.register(make()) } else { self.runtime.register_empty() };
        // Its format is known where the value is, and the others have to agree on what is sent.
        self.knows(&handle, Some(rank), true, WHOLE);
        Ok(handle)
    }

    /// Makes `rank` the owner of a datum that was registered without a value and that no task has written yet: the
    /// tasks that write it run there. Without this its owner is the rank that runs the first task that writes it, as the
    /// [rule](crate#where-tasks-run) says.
    ///
    /// # Errors
    /// [`Error::Config`] for a rank that does not exist, and for a datum that has a value or was written before;
    /// [`Error::Foreign`] for one of somebody else's.
    pub fn set_owner<D: Data>(&self, handle: &Handle<D>, rank: usize) -> Result<(), Error> {
        self.check_rank(rank)?;
        let mut state = self.state.borrow_mut();
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

    /// The rank that owns a datum; `None` where that is not decided yet.
    ///
    /// # Errors
    /// [`Error::Foreign`] for one that was not registered here.
    pub fn owner_of<D: Data>(&self, handle: &Handle<D>) -> Result<Option<usize>, Error> {
        Ok(self.state.borrow_mut().find(handle)?.owner)
    }

    /// True if tasks that write the datum run on this rank: what only they need, other ranks need not make.
    ///
    /// # Errors
    /// As [`owner_of`](Cluster::owner_of).
    pub fn runs_here<D: Data>(&self, handle: &Handle<D>) -> Result<bool, Error> {
        Ok(self.owner_of(handle)? == Some(self.rank()))
    }

    /// Waits until all tasks that were submitted so far, on all ranks, are complete, failed ones included. Collective.
    ///
    /// # Errors
    /// The same on all ranks: [`Error::Failed`] with the first failure of a rank, that with the lowest number if
    /// several have some; its cause is as the task left it on that rank, and a [`RemoteError`](crate::RemoteError) on the
    /// others. [`Error::Cluster`] if the ranks cannot go on together.
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

    /// Brings a value to all ranks, waits for it, and reads it in place. Collective.
    ///
    /// # Errors
    /// Those of [`Runtime::read`], the same kind on all ranks; [`Error::Cluster`].
    pub fn read<D: Data>(&self, handle: &Handle<D>) -> Result<ReadGuard<'_, D>, Error> {
        self.brings("read", handle, 0..self.ranks())?;
        self.runtime.read(handle)
    }

    /// Brings a value to one rank, waits for it there, and reads it in place; the others get `None` at once. Collective.
    ///
    /// # Errors
    /// [`Error::Config`] for a rank that does not exist; on that rank those of [`Runtime::read`]; [`Error::Cluster`].
    pub fn read_on<D: Data>(
        &self,
        rank: usize,
        handle: &Handle<D>,
    ) -> Result<Option<ReadGuard<'_, D>>, Error> {
        self.check_rank(rank)?;
        self.brings("read_on", handle, rank..rank + 1)?;
        if rank == self.rank() { self.runtime.read(handle).map(Some) } else { Ok(None) }
    }

    /// Brings a value to all ranks, waits for it, and takes it out: each rank has the value, and the handle is of no more
    /// use. Collective.
    ///
    /// # Errors
    /// Those of [`Runtime::take`], the same kind on all ranks; [`Error::Cluster`].
    pub fn take<D: Data>(&self, handle: Handle<D>) -> Result<D, Error> {
        self.brings("take", &handle, 0..self.ranks())?;
        self.runtime.take(handle)
    }

    /// Ends the use of a handle on all ranks. Collective, and waits for nothing.
    ///
    /// # Errors
    /// [`Error::Foreign`] for one that was not registered here.
    pub fn release<D: Data>(&self, handle: Handle<D>) -> Result<(), Error> {
        let tag = self.state.borrow_mut().find(&handle)?.tag;
        self.progress.journal.lock().record("release", NO_COORDS, Some(tag), 0);
        self.runtime.release(handle);
        Ok(())
    }

    /// Cancels, on all ranks, what has been submitted and has not started; what these tasks would have written is poisoned
    /// on every rank that needs it. One rank calls it; how far the others have come is not said.
    pub fn cancel_all(&self) {
        self.progress.post_to_others(&Message::Cancel);
        self.runtime.cancel_all();
    }

    fn check_rank(&self, rank: usize) -> Result<(), Error> {
        let ranks = self.ranks();
        let message = || format!("there is no rank {rank}: there are {ranks}, from 0");
        if rank < ranks { Ok(()) } else { Err(Error::Config(message())) }
    }

    /// A handle is a datum of the cluster from now on.
    fn knows<D: Data>(&self, handle: &Handle<D>, owner: Option<usize>, written: bool, usual: Format) {
        let state = &mut *self.state.borrow_mut();
        if state.data.len() >= state.sweep_at {
            state.data.retain(|_, datum| datum.remote.is_alive());
            state.sweep_at = 1024.max(2 * state.data.len());
        }
        let tag = state.next_tag;
        state.next_tag += 1;
        let datum = Datum {
            remote: Box::new(WeakHandle::new(handle)),
            tag,
            owner,
            location: owner.unwrap_or_default(),
            version: 0,
            written,
            travels: D::portability().is_some(),
            usual,
            here: None,
            sent: Vec::new(),
        };
        state.data.insert(number_of(handle), datum);
        let what = if written { "register" } else { "register_empty" };
        self.progress.journal.lock().record(
            what,
            NO_COORDS,
            Some(tag),
            owner.map_or(0, |owner| owner as u64 + 1),
        );
    }

    /// A collective call begins; its number.
    fn begins(&self, what: &'static str, tag: Option<u64>) -> u64 {
        self.progress.journal.lock().record(what, NO_COORDS, tag, 0);
        self.progress.compare();
        let mut state = self.state.borrow_mut();
        state.calls += 1;
        state.calls
    }

    /// Has a value brought to these ranks.
    fn brings<D: Data>(
        &self,
        what: &'static str,
        handle: &Handle<D>,
        ranks: impl Iterator<Item = usize>,
    ) -> Result<(), Error> {
        let tag = self.state.borrow_mut().find(handle)?.tag;
        self.begins(what, Some(tag));
        self.progress.check()?;
        let mut state = self.state.borrow_mut();
        let datum = state.find(handle)?;
        if !datum.written {
            return Err(Error::Unwritten { task: what.into(), handle: handle.name() });
        }
        for rank in ranks {
            self.check_travels(datum, rank)?;
            self.bring(datum, WHOLE, rank)?;
        }
        Ok(())
    }

    fn check_travels(&self, datum: &Datum, to: usize) -> Result<(), Error> {
        if datum.location == to || datum.travels {
            return Ok(());
        }
        Err(Error::Config(format!(
            "{} is on rank {} and needed on rank {to}, and its data type stays in its process \
             (Data::portability)",
            datum.remote.name(),
            datum.location
        )))
    }

    /// Sees to it that `to` gets the newest version of a datum, in a form that does for who wants it in `format`.
    fn bring(&self, datum: &mut Datum, format: Format, to: usize) -> Result<(), Error> {
        let (me, from) = (self.rank(), datum.location);
        if from == to || (me != from && me != to) {
            return Ok(());
        }
        let format = if format == datum.usual { WHOLE } else { format };
        let has = if me == to {
            datum.here
        } else {
            datum.sent.iter().find(|(rank, _)| *rank == to).map(|&(_, form)| form)
        };
        let form = match has {
            None => format,
            Some(has) if has == WHOLE || has == format => return Ok(()),
            // A narrow form has lost what others are made of.
            Some(_) => WHOLE,
        };
        let key = Key { tag: datum.tag, version: datum.version, format: form };
        if me == to {
            datum.here = Some(form);
            datum.remote.receive(&self.runtime, &self.progress, key, from)
        } else {
            datum.sent.retain(|(rank, _)| *rank != to);
            datum.sent.push((to, form));
            datum.remote.send(&self.runtime, &self.progress, key, to)
        }
    }

    /// A task on `rank` has written a datum.
    fn is_written(&self, datum: &mut Datum, rank: usize) -> Result<(), Error> {
        let had_it = datum.written && (datum.location == self.rank() || datum.here.is_some());
        datum.version += 1;
        (datum.written, datum.location, datum.here) = (true, rank, None);
        datum.sent.clear();
        if had_it && rank != self.rank() { datum.remote.forget(&self.runtime) } else { Ok(()) }
    }
}

impl State {
    fn find<D: Data>(&mut self, handle: &Handle<D>) -> Result<&mut Datum, Error> {
        self.data.get_mut(&number_of(handle)).ok_or_else(|| not_here(handle.name()))
    }
}

fn not_here(handle: String) -> Error {
    Error::Foreign { what: format!("{handle}, which was not registered with this cluster,") }
}

impl Submit for Cluster {
    fn submit_spec<B: Body + 'static>(&self, spec: Spec<B>) -> Result<TaskRef, Error> {
        self.progress.check()?;
        let State { data, accesses, .. } = &mut *self.state.borrow_mut();
        let written = |handle: u64, name: &dyn Fn() -> String| {
            data.get(&handle).map(|datum| datum.written).ok_or_else(|| not_here(name()))
        };
        let (name, coords) = outline(&spec, written, accesses)?;
        let mut hash = mix_text(0, name);
        let mut first = None;
        let (mut of_writes, mut of_reads) = (None, None);
        // Something that the task reads is here; something cannot leave its process.
        let (mut here, mut stays) = (false, false);
        for access in &*accesses {
            let Some(datum) = data.get(&access.handle) else { continue };
            first.get_or_insert(datum.tag);
            let place = if access.mode.writes() { &mut of_writes } else { &mut of_reads };
            *place = place.or(datum.owner);
            hash = mix(mix(hash, datum.tag), access.mode as u64 | (u64::from(access.format.0) << 8));
            if access.mode.reads() {
                here |= datum.location == self.rank();
                stays |= !datum.travels;
            }
        }
        let rank = of_writes.or(of_reads).unwrap_or(0);
        let reads = |access: &&Named| access.mode.reads();
        if stays {
            for access in accesses.iter().filter(reads) {
                self.check_travels(&data[&access.handle], rank)?;
            }
        }
        // From here on all ranks do the same, or none can go on.
        self.progress.journal.lock().record(name, coords, first, hash);
        let submit = || {
            // Who does not run the task and has nothing that it reads only notes what it writes.
            if here || rank == self.rank() {
                for access in accesses.iter().filter(reads) {
                    let Some(datum) = data.get_mut(&access.handle) else { continue };
                    let format = if access.mode == Mode::Read { access.format } else { WHOLE };
                    self.bring(datum, format, rank)?;
                }
            }
            let task =
                if rank == self.rank() { self.runtime.submit_spec(spec)? } else { self.elsewhere.clone() };
            for access in accesses.iter().filter(|access| access.mode.writes()) {
                if let Some(datum) = data.get_mut(&access.handle) {
                    datum.owner.get_or_insert(rank);
                    self.is_written(datum, rank)?;
                }
            }
            Ok(task)
        };
        let submitted: Result<TaskRef, Error> = submit();
        if let Err(error) = &submitted {
            let why = format!("task {name} was refused there: {error}");
            self.progress.aborts(ClusterError::Aborted { rank: self.rank(), why });
        }
        submitted
    }

    fn announce_step(&self, tasks: usize) {
        self.runtime.announce_step(tasks);
    }

    /// Rank 0's value counts, the others' are dropped: see [`register_on`](Cluster::register_on).
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
        // Failures have been left where they can be asked for.
        let _ = self.runtime.wait_all();
        let (steps, _) = self.progress.journal.lock().state();
        self.progress.post_to_others(&Message::Leave { steps });
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
