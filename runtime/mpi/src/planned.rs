//! The tasks of all ranks of a program, recorded in one process: nothing runs, and nothing is sent.

use std::cell::{Cell, RefCell};
use std::fmt;

use zellige_runtime::internal::ranks::{Described, Placement, WeakHandle, cut, number_of, placed_recorder};
use zellige_runtime::internal::{Body, Spec};
use zellige_runtime::{Data, Error, Format, Graph, Handle, Meta, Recorder, Submit, TaskRef};

use crate::data::{ClusterState, Datum, Mover};
use crate::remote::WHOLE;
use crate::wire::Key;

/// Ranks whose tasks are recorded and not run, for simulations.
///
/// The same code as for a [`Cluster`](crate::Cluster) decides on the ranks that run tasks, and on
/// the time and format of messages ([rules](crate#where-tasks-run)). The program is run once for
/// all ranks. Each value that goes from rank to rank is a task `send` in the graph of the one and a
/// task `receive` in that of the other, with coordinates `[message, 0, other rank]`; messages are
/// numbered from 0.
///
/// ```
/// use zellige_mpi::PlannedRanks;
/// use zellige_runtime::{Error, Format, Meta, Submit, read, update};
///
/// let graphs = PlannedRanks::record(2, |ranks| {
///     let [x, y] = [0, 1].map(|_| ranks.register_planned::<Vec<f64>>(Meta { bytes: 800, ..Meta::default() }));
///     ranks.set_owner(&y, 1)?;
///     ranks.task("add").operands((read(&x), update(&y))).cpu(|_| ()).submit().map(drop)
/// })?;
/// let tasks = |rank: usize| graphs[rank].to_petgraph().node_weights().map(|task| task.name).collect::<Vec<_>>();
/// assert_eq!((tasks(0), tasks(1)), (vec!["send"], vec!["receive", "add"]));
/// # Ok::<(), Error>(())
/// ```
pub struct PlannedRanks {
    recorders: Vec<Recorder>,
    state: RefCell<ClusterState>,
    /// Number of messages so far.
    messages: Cell<u32>,
}

/// Accepts every task: the tasks of a recorder are selected before.
struct Here;

impl Placement for Here {
    fn place(&self, _recorder: &Recorder, _task: &Described<'_>) -> Result<Option<TaskRef>, Error> {
        Ok(None)
    }
}

impl PlannedRanks {
    /// Records the tasks that `build` submits. Returns the graph of each of `ranks` ranks (at least
    /// one).
    ///
    /// # Errors
    /// Any error that `build` returns.
    pub fn record<E>(
        ranks: usize,
        build: impl FnOnce(&PlannedRanks) -> Result<(), E>,
    ) -> Result<Vec<Graph>, E> {
        let recorders = (0..ranks.max(1)).map(|_| placed_recorder(Box::new(Here))).collect();
        let planned = PlannedRanks { recorders, state: RefCell::default(), messages: Cell::default() };
        build(&planned)?;
        let graphs = planned.recorders.iter().map(|recorder| match cut(recorder) {
            Some(graph) => Ok(graph),
            None => Graph::record(|_| Ok(())),
        });
        graphs.collect()
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.recorders.len()
    }

    /// Makes `rank` the owner of a datum that no task has written yet. A
    /// [planned](Submit::register_planned) value is on that rank from the beginning; by default it
    /// is on rank 0.
    ///
    /// # Errors
    /// [`Error::Config`] for a rank that does not exist, and for a datum that a task has written;
    /// [`Error::Foreign`] for a datum of other ranks.
    pub fn set_owner<D: Data>(&self, handle: &Handle<D>, rank: usize) -> Result<(), Error> {
        if rank >= self.ranks() {
            let there = self.ranks();
            return Err(Error::Config(format!("there is no rank {rank}: there are {there}, from 0")));
        }
        let mut state = self.state.borrow_mut();
        let datum = state.find(handle)?;
        if datum.version > 0 {
            let name = handle.name();
            return Err(Error::Config(format!("{name} was written before: its owner is set before that")));
        }
        (datum.owner, datum.location) = (Some(rank), rank);
        Ok(())
    }

    /// Makes a handle a datum of the ranks. It has no value for the recorders: the rank whose first
    /// task reads or updates it has one from the beginning.
    fn knows<D: Data>(&self, handle: Handle<D>, written: bool, usual: Format) -> Handle<D> {
        let datum = Datum::new(Box::new(WeakHandle::new(&handle)), None, written, usual);
        self.state.borrow_mut().add(number_of(&handle), datum);
        handle
    }
}

impl Mover for PlannedRanks {
    fn concerns(&self, _location: usize, _to: usize) -> bool {
        true
    }

    fn moves(&self, datum: &Datum, key: Key, (from, to): (usize, usize)) -> Result<(), Error> {
        let number = self.messages.get();
        self.messages.set(number + 1);
        let left = if key.format == WHOLE { datum.usual } else { key.format };
        let way = [from, to].map(|rank| (rank, &self.recorders[rank]));
        datum.remote.plan(way, number, key.format, left)
    }
}

impl Submit for PlannedRanks {
    fn submit_spec<B: Body + 'static>(&self, spec: Spec<B>) -> Result<TaskRef, Error> {
        let state = &mut *self.state.borrow_mut();
        let mut accesses = std::mem::take(&mut state.accesses);
        let (name, _, body) = spec.parts();
        let place = state.place(0, (name, body), &mut accesses, |_| false)?;
        // No selection takes place here: a deferred request counts as one for the unchanged value.
        for access in &mut accesses {
            access.format.get_or_insert(WHOLE);
        }
        state.check_travels(&place, self.ranks(), &accesses)?;
        state.bring_all(self, &accesses, place.rank)?;
        let task = self.recorders[place.rank].submit_spec(spec)?;
        for access in accesses.iter().filter(|access| access.mode.writes()) {
            if let Some(datum) = state.data.get_mut(&access.handle) {
                datum.owner.get_or_insert(place.rank);
                datum.is_written(place.rank, 1);
            }
        }
        state.accesses = accesses;
        Ok(task)
    }

    fn announce_step(&self, _tasks: usize) {}

    fn register<D: Data>(&self, value: D) -> Handle<D> {
        self.register_planned(value.meta())
    }

    fn register_empty<D: Data>(&self) -> Handle<D> {
        self.knows(self.recorders[0].register_empty(), false, WHOLE)
    }

    fn register_sized<D: Data>(&self, meta: Meta) -> Handle<D> {
        self.knows(self.recorders[0].register_sized(meta), false, meta.format)
    }

    fn register_planned<D: Data>(&self, meta: Meta) -> Handle<D> {
        self.knows(self.recorders[0].register_sized(meta), true, meta.format)
    }
}

impl fmt::Debug for PlannedRanks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.recorders).finish()
    }
}
