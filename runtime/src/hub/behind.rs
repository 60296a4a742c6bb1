//! Tasks that are launched behind others on the same device, before the host knows that those have ended.

mod launch;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::SmallVec;

pub(super) use self::launch::Behind;
use super::Flight;
use super::batch::Fates;
use crate::device::Span;
use crate::exec::Told;
use crate::gpu::Mark;
use crate::sched::{ReadyTask, Work};

/// Marks on streams that a task's operations have to come after.
pub(super) type Marks = Vec<Arc<Mark>>;

/// The tasks that wait for launched ones. Only where there are GPUs.
#[derive(Default)]
pub(crate) struct Followers(Mutex<State>);

#[derive(Default)]
struct State {
    /// Those that wait, or have been launched behind others, by their numbers.
    tasks: HashMap<u64, Follower>,
    /// Launched tasks of which others have been told: how far.
    told: HashMap<u64, Told>,
    /// Those that may be launched, by the worker of the device, with the highest priority first.
    offers: HashMap<usize, BinaryHeap<(i32, Reverse<u64>)>>,
}

struct Follower {
    /// How many of those it waits for have been launched and not ended; those that it waits for twice count twice.
    launched: u32,
    /// The worker of the device on which they all were; `None` for several.
    worker: Option<usize>,
    /// One of them has left something for its end.
    after_ends: bool,
    after: SmallVec<[Arc<Mark>; 2]>,
    stage: Stage,
}

enum Stage {
    Waits,
    /// All that it waits for has been launched on one device.
    Offered(Work),
    /// It has been launched behind them. `ready`: they have ended; `landed`: its operations have.
    Launched {
        ready: bool,
        landed: Option<Box<Landed>>,
    },
}

/// A task that was launched behind others, and what came of its operations.
pub(super) struct Landed {
    pub(super) flight: Flight,
    pub(super) ran: Fates,
    pub(super) span: Span,
}

/// What there is to launch.
pub(super) struct Offer {
    pub(super) task: ReadyTask,
    pub(super) after: Marks,
    /// One before it has left something for its end.
    pub(super) after_ends: bool,
}

impl Follower {
    fn new(worker: usize) -> Self {
        let (launched, after_ends) = (0, false);
        Follower { launched, worker: Some(worker), after_ends, after: SmallVec::new(), stage: Stage::Waits }
    }

    /// True if there is nothing to be known of it.
    fn is_idle(&self) -> bool {
        self.launched == 0 && matches!(self.stage, Stage::Waits)
    }
}

impl Followers {
    /// A task has been launched on `worker`'s device, up to `mark`, and nobody knows its end. `leaves`: it has left something for its end.
    /// True if some other may be launched behind it now.
    pub(super) fn tell(&self, work: &Work, worker: usize, mark: &Arc<Mark>, leaves: bool) -> bool {
        let mut state = self.0.lock();
        let State { tasks, told, offers } = &mut *state;
        let mut any = false;
        let (successors, up_to) = work.successors(None);
        told.insert(work.id(), up_to);
        for next in successors {
            let follower = tasks.entry(next.id()).or_insert_with(|| Follower::new(worker));
            follower.launched += 1;
            follower.worker = follower.worker.filter(|&known| known == worker);
            follower.after_ends |= leaves;
            follower.after.push(Arc::clone(mark));
            // Who ends meanwhile is taken off here before the task is counted down: there are never fewer that it waits for.
            let is_last = follower.worker.is_some() && next.waits_for() == follower.launched;
            if is_last && matches!(follower.stage, Stage::Waits) {
                offers.entry(worker).or_default().push((next.header().priority, Reverse(next.id())));
                follower.stage = Stage::Offered(next);
                any = true;
            }
        }
        any
    }

    /// The same task is about to be completed, or `again` is to run: nothing is launched behind it any more.
    pub(super) fn untell(&self, work: &Work, again: bool) {
        let mut state = self.0.lock();
        let State { tasks, told, .. } = &mut *state;
        let Some(up_to) = told.remove(&work.id()) else { return };
        for next in work.successors(Some(up_to)).0 {
            let Some(follower) = tasks.get_mut(&next.id()) else { continue };
            follower.launched -= 1;
            if again && matches!(follower.stage, Stage::Offered(_)) {
                follower.stage = Stage::Waits;
            }
            if follower.is_idle() {
                tasks.remove(&next.id());
            }
        }
    }

    /// All that the task waited for has ended. It is given back if it has not been launched; if its own operations have ended already, what
    /// came of them is answered.
    pub(super) fn is_ready(&self, task: ReadyTask) -> Result<Option<Landed>, ReadyTask> {
        let mut state = self.0.lock();
        let Some(follower) = state.tasks.get_mut(&task.id()) else { return Err(task) };
        let landed = match &mut follower.stage {
            Stage::Launched { ready, landed } => {
                *ready = true;
                landed.take()
            }
            Stage::Waits | Stage::Offered(_) => {
                state.tasks.remove(&task.id());
                return Err(task);
            }
        };
        if landed.is_some() {
            state.tasks.remove(&task.id());
        }
        // Whoever has launched it has it, too.
        drop(task.into_work());
        Ok(landed.map(|landed| *landed))
    }

    /// The task with the highest priority that may be launched on `worker`'s device.
    pub(super) fn take(&self, worker: usize) -> Option<Offer> {
        let mut state = self.0.lock();
        let State { tasks, offers, .. } = &mut *state;
        let offers = offers.get_mut(&worker)?;
        while let Some((_, Reverse(id))) = offers.pop() {
            let Some(follower) = tasks.get_mut(&id).filter(|follower| follower.worker == Some(worker)) else {
                continue;
            };
            let launched = Stage::Launched { ready: false, landed: None };
            match std::mem::replace(&mut follower.stage, launched) {
                Stage::Offered(work) => {
                    let after = follower.after.drain(..).filter(|mark| mark.ended().is_none()).collect();
                    let after_ends = follower.after_ends;
                    return Some(Offer { task: ReadyTask::new(work), after, after_ends });
                }
                other => follower.stage = other,
            }
        }
        None
    }

    /// Its operations have ended. Answers what came of them if all that it waited for has, too.
    pub(super) fn lands(&self, landed: Landed) -> Option<Landed> {
        let id = landed.flight[0].task.id();
        let mut state = self.0.lock();
        match state.tasks.get_mut(&id).map(|follower| &mut follower.stage) {
            Some(Stage::Launched { ready: false, landed: place }) => {
                *place = Some(Box::new(landed));
                None
            }
            _ => {
                state.tasks.remove(&id);
                Some(landed)
            }
        }
    }

    /// The task was not launched after all, or its device has failed. True if it is ready by now; else it waits.
    pub(super) fn gives_up(&self, id: u64) -> bool {
        let mut state = self.0.lock();
        let Some(follower) = state.tasks.get_mut(&id) else { return true };
        let is_ready = matches!(follower.stage, Stage::Launched { ready: true, .. });
        follower.stage = Stage::Waits;
        if is_ready || follower.is_idle() {
            state.tasks.remove(&id);
        }
        is_ready
    }
}
