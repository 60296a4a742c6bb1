//! Graphs that all ranks record; each rank replays its part.
//!
//! The part of a rank is a list of steps in the order of the recording: graphs of its own tasks,
//! and the sends and receives between them. A task that runs elsewhere leaves only a count of the
//! versions that it writes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use zellige_runtime::internal::ranks::{Described, Placement, cut, recorded_mode};
use zellige_runtime::{Bindings, Error, Format, Mode, Recorder, TaskRef};

use crate::data::{ClusterState, Datum, Replicas, form_of, format_of, relays};
use crate::progress::Progress;

/// This rank's part of a graph recorded by [`Cluster::record`](crate::Cluster::record).
pub struct Recording {
    /// Number of recordings of the cluster before it.
    pub(crate) number: u64,
    /// Data that its tasks read before they write them: the reading ranks, and a form that serves
    /// all readers of each.
    pub(crate) before: Vec<(u64, Replicas)>,
    pub(crate) steps: Vec<Step>,
}

/// A step of a replay.
pub(crate) enum Step {
    /// A number of tasks of this rank.
    Run(Bindings, usize),
    /// A transfer of the newest version of the datum to a rank: to this one, from this one, or, if
    /// values are relayed, between any two.
    Bring { handle: u64, format: Format, to: usize },
    /// A number of writes of the datum by tasks, the last of them on this rank.
    Written { handle: u64, rank: usize, times: u64 },
}

/// A recording in progress.
#[derive(Default)]
struct Draft {
    before: BTreeMap<u64, Replicas>,
    written: BTreeMap<u64, NewestVersion>,
    /// Data written by other ranks of which this rank may have a replica. The rank that offered a
    /// version overwrites it only when the replica is freed. So it is freed before the next step
    /// that may wait for anything.
    to_free: Vec<u64>,
    steps: Vec<Step>,
}

/// The newest version of a datum that the graph has written.
#[derive(Default)]
struct NewestVersion {
    /// The rank that has it.
    rank: usize,
    /// Number of writes that no step contains yet.
    times: u64,
    /// The ranks to which it has been brought.
    brought: Replicas,
}

/// Sorts the tasks of a recording by ranks.
#[derive(Clone)]
pub(crate) struct Placing {
    draft: Arc<Mutex<Draft>>,
    state: Arc<Mutex<ClusterState>>,
    progress: Arc<Progress>,
    /// Stands for every task that runs on another rank.
    elsewhere: TaskRef,
}

impl Placing {
    pub(crate) fn new(
        state: &Arc<Mutex<ClusterState>>,
        progress: &Arc<Progress>,
        elsewhere: &TaskRef,
    ) -> Self {
        let (state, progress) = (Arc::clone(state), Arc::clone(progress));
        Placing { draft: Arc::default(), state, progress, elsewhere: elsewhere.clone() }
    }

    /// Ends the recording and returns it.
    pub(crate) fn finish(self, recorder: &Recorder) -> Recording {
        let mut draft = std::mem::take(&mut *self.draft.lock());
        draft.run(recorder);
        for (handle, mut version) in std::mem::take(&mut draft.written) {
            draft.count(handle, &mut version);
        }
        let mut state = self.state.lock();
        let number = state.recordings;
        state.recordings += 1;
        Recording { number, before: draft.before.into_iter().collect(), steps: draft.steps }
    }
}

impl Placement for Placing {
    fn place(&self, recorder: &Recorder, task: &Described<'_>) -> Result<Option<TaskRef>, Error> {
        self.progress.check()?;
        let (me, draft, state) = (self.progress.rank, &mut *self.draft.lock(), &mut *self.state.lock());
        let mut accesses = std::mem::take(&mut state.accesses);
        let will_be_written = |handle| draft.written.contains_key(&handle);
        let place = state.place(me, (task.name, task.body), &mut accesses, will_be_written)?;
        for access in accesses.iter().filter(|access| access.mode.reads()) {
            let Some(datum) = state.data.get(&access.handle) else { continue };
            for rank in place.ranks(self.progress.ranks) {
                draft.is_read(
                    recorder,
                    (me, self.progress.ranks),
                    (access.handle, datum),
                    (rank, format_of(access)),
                )?;
            }
        }
        self.progress.journal.lock().record(task.name, task.coords, place.first, place.hash);
        for access in accesses.iter().filter(|access| access.mode.writes()) {
            if let Some(datum) = state.data.get_mut(&access.handle) {
                datum.owner.get_or_insert(place.rank);
                draft.is_written(recorder, access.handle, (me, place.rank));
            }
        }
        state.accesses = accesses;
        Ok((place.rank != me).then(|| self.elsewhere.clone()))
    }
}

impl Draft {
    /// Notes that a task on rank `to` reads a datum in `format`.
    fn is_read(
        &mut self,
        recorder: &Recorder,
        (me, ranks): (usize, usize),
        (handle, datum): (u64, &Datum),
        (to, format): (usize, Format),
    ) -> Result<(), Error> {
        let Some(mut version) = self.written.remove(&handle) else {
            // Its location is known when a replay begins.
            datum.check_travels(datum.location, to)?;
            let forms = self.before.entry(handle).or_default();
            if let Some(form) = datum.form_for(form_of(forms, to), format) {
                forms.retain(|(rank, _)| *rank != to);
                forms.push((to, form));
            }
            return Ok(());
        };
        datum.check_travels(version.rank, to)?;
        let form = datum.form_for(form_of(&version.brought, to), format);
        if let Some(format) = form.filter(|_| version.rank != to) {
            version.brought.retain(|(rank, _)| *rank != to);
            version.brought.push((to, format));
            if me == to || me == version.rank || relays(ranks) {
                // The recorded tasks come before this transfer: a task that writes the version, and
                // one that reads a replica of an earlier one, which is about to be freed.
                let is_named = |mode: Mode| mode.writes() || version.times > 0;
                // Receives come in their order, so that no rank waits for room that only later
                // messages make.
                let has_place = recorded_mode(recorder, handle).is_some_and(is_named);
                if me == to || has_place || !self.to_free.is_empty() {
                    self.run(recorder);
                }
                self.count(handle, &mut version);
                self.steps.push(Step::Bring { handle, format, to });
            }
        }
        self.written.insert(handle, version);
        Ok(())
    }

    /// Notes that a task on `rank` writes a datum, as `me` records it.
    fn is_written(&mut self, recorder: &Recorder, handle: u64, (me, rank): (usize, usize)) {
        let mut version = self.written.remove(&handle).unwrap_or_default();
        if rank != me && version.times == 0 {
            self.to_free.push(handle);
        }
        if rank == me && version.rank != me && version.times > 0 {
            // The task that overwrites the replica here may wait for one that waits until it is
            // freed.
            if recorded_mode(recorder, handle).is_some() {
                self.run(recorder);
            }
            self.count(handle, &mut version);
        }
        (version.rank, version.times) = (rank, version.times + 1);
        version.brought.clear();
        self.written.insert(handle, version);
    }

    /// Appends a step with the tasks recorded since the last step, and then the frees.
    fn run(&mut self, recorder: &Recorder) {
        self.steps.extend(cut(recorder).map(|graph| Step::Run(Bindings::recorded(&graph), graph.len())));
        for handle in std::mem::take(&mut self.to_free) {
            // A missing one is being counted.
            if let Some(mut version) = self.written.remove(&handle) {
                self.count(handle, &mut version);
                self.written.insert(handle, version);
            }
        }
    }

    /// Appends the writes of a datum since the last step that contains them.
    fn count(&mut self, handle: u64, version: &mut NewestVersion) {
        let times = std::mem::take(&mut version.times);
        if times > 0 {
            self.steps.push(Step::Written { handle, rank: version.rank, times });
        }
    }
}

impl Recording {
    /// Returns the number of tasks that this rank runs, and the number of values that it sends or
    /// receives in the graph.
    pub fn counts(&self) -> (usize, usize) {
        let of = |step: &Step| match step {
            Step::Run(_, tasks) => (*tasks, 0),
            Step::Bring { .. } => (0, 1),
            Step::Written { .. } => (0, 0),
        };
        self.steps
            .iter()
            .map(of)
            .fold((0, 0), |(tasks, values), (more, others)| (tasks + more, values + others))
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tasks, values) = self.counts();
        write!(f, "Recording({tasks} tasks here, {values} values between ranks)")
    }
}
