//! Graphs that all ranks record, and of which each replays its part.
//!
//! The part of a rank is a list of steps in the order of the recording: graphs of its own tasks,
//! and between them what it sends and receives. A task that runs elsewhere leaves nothing but a
//! count of the versions of what it writes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use zellige_runtime::internal::ranks::{Described, Placement, cut, recorded_mode};
use zellige_runtime::{Bindings, Error, Format, Mode, Recorder, TaskRef};

use crate::data::{Datum, Replicas, State, form_of, format_of, relays};
use crate::progress::Progress;

/// A graph that was recorded by [`Cluster::record`](crate::Cluster::record): what of it concerns
/// this rank.
pub struct Recording {
    /// Recordings of the cluster before it.
    pub(crate) number: u64,
    /// What its tasks read before they write it: the ranks that do, and in which form that does for
    /// all of them.
    pub(crate) before: Vec<(u64, Replicas)>,
    pub(crate) steps: Vec<Step>,
}

/// A step of a replay.
pub(crate) enum Step {
    /// So many tasks of this rank.
    Run(Bindings, usize),
    /// The newest version of the datum goes to a rank: to this one, from this one, or, where values
    /// go through others, from any.
    Bring { handle: u64, format: Format, to: usize },
    /// Tasks have written the datum so many times, the last of them on this rank.
    Written { handle: u64, rank: usize, times: u64 },
}

/// A recording that is being made.
#[derive(Default)]
struct Draft {
    before: BTreeMap<u64, Replicas>,
    written: BTreeMap<u64, Version>,
    /// What other ranks' tasks have written that this one may have a replica of. Who has offered it
    /// writes it only when the replica is freed: so it is freed before the next step that may wait
    /// for anything.
    to_free: Vec<u64>,
    steps: Vec<Step>,
}

/// The newest version of a datum that the graph has written.
#[derive(Default)]
struct Version {
    /// Where it is.
    rank: usize,
    /// Writes that no step says yet.
    times: u64,
    /// Where it has been brought.
    brought: Replicas,
}

/// Sorts the tasks of a recording by ranks.
#[derive(Clone)]
pub(crate) struct Placing {
    draft: Arc<Mutex<Draft>>,
    state: Arc<Mutex<State>>,
    progress: Arc<Progress>,
    /// Stands for every task that runs on another rank.
    elsewhere: TaskRef,
}

impl Placing {
    pub(crate) fn new(state: &Arc<Mutex<State>>, progress: &Arc<Progress>, elsewhere: &TaskRef) -> Self {
        let (state, progress) = (Arc::clone(state), Arc::clone(progress));
        Placing { draft: Arc::default(), state, progress, elsewhere: elsewhere.clone() }
    }

    /// What has been recorded.
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
    /// A task on rank `to` reads a datum in `format`.
    fn is_read(
        &mut self,
        recorder: &Recorder,
        (me, ranks): (usize, usize),
        (handle, datum): (u64, &Datum),
        (to, format): (usize, Format),
    ) -> Result<(), Error> {
        let Some(mut version) = self.written.remove(&handle) else {
            // Where it is when a replay begins is known then.
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
                // What is recorded has its place before this: a task that writes the version, and
                // one that reads a replica of an earlier one, which is about to be freed.
                let is_named = |mode: Mode| mode.writes() || version.times > 0;
                // What is received comes in its turn, so that no rank waits for room that only
                // messages behind it make.
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

    /// A task on `rank` writes a datum, as `me` records it.
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

    /// What has been recorded since the last step runs, and then what is to be freed is.
    fn run(&mut self, recorder: &Recorder) {
        self.steps.extend(cut(recorder).map(|graph| Step::Run(Bindings::recorded(&graph), graph.len())));
        for handle in std::mem::take(&mut self.to_free) {
            // One that is missing is being counted.
            if let Some(mut version) = self.written.remove(&handle) {
                self.count(handle, &mut version);
                self.written.insert(handle, version);
            }
        }
    }

    /// The writes of a datum since the last step that says them.
    fn count(&mut self, handle: u64, version: &mut Version) {
        let times = std::mem::take(&mut version.times);
        if times > 0 {
            self.steps.push(Step::Written { handle, rank: version.rank, times });
        }
    }
}

impl Recording {
    /// How many tasks this rank runs, and how many values it sends or receives in the graph.
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
