//! Tasks that are launched behind others on the same device, before the host knows that those have
//! ended.

mod launch;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::SmallVec;

pub(super) use self::launch::StreamOrdered;
use super::PlacedBatch;
use super::batch::Fates;
use crate::device::Mark;
use crate::device::Span;
use crate::engine::ReadyTask;
use crate::engine::{Job, Notified, Work};

/// Marks on streams that a task's operations have to come after.
pub(super) type Marks = Vec<Arc<dyn Mark>>;

/// The tasks that wait for launched ones. Only where a device orders launches.
#[derive(Default)]
pub(crate) struct Followers(Mutex<State>);

#[derive(Default)]
struct State {
    /// Those that wait, or have been launched behind others, by their numbers.
    tasks: HashMap<u64, Follower>,
    /// Launched tasks of which others have been told: how far.
    notified: HashMap<u64, Notified>,
    /// Those that may be launched, by the worker of the device, with the highest priority first.
    offers: HashMap<usize, BinaryHeap<(i32, Reverse<u64>)>>,
}

#[derive(Default)]
struct Follower {
    /// Those that it waits for and that have been launched and not completed, each as often as it
    /// is waited for.
    launched: SmallVec<[Launched; 2]>,
    stage: Stage,
}

/// A task that has been launched and not completed.
#[derive(Clone)]
struct Launched {
    id: u64,
    worker: usize,
    mark: Arc<dyn Mark>,
    /// It has left something for its end.
    leaves: bool,
}

#[derive(Default)]
enum Stage {
    #[default]
    Waits,
    /// All that it waits for has been launched on one device.
    Offered(Work),
    /// It has been launched behind them. `ready`: they have ended; `landed`: its operations have.
    Launched { ready: bool, landed: Option<Box<Landed>> },
}

/// A task that was launched behind others, and what came of its operations.
pub(super) struct Landed {
    pub(super) batch: PlacedBatch,
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
    /// The worker on whose device all launched ones are.
    fn worker(&self) -> Option<usize> {
        let first = self.launched.first()?.worker;
        self.launched.iter().all(|launched| launched.worker == first).then_some(first)
    }

    /// True if there is nothing to be known of it.
    fn is_idle(&self) -> bool {
        self.launched.is_empty() && matches!(self.stage, Stage::Waits)
    }
}

impl State {
    /// Offers the task to the worker on whose device all are that it waits for, if that is so:
    /// answers the worker. `ending`: so many of those that it waits for end now, and will be
    /// counted down.
    fn offer(&mut self, task: Work, ending: u32) -> Option<usize> {
        let follower = self.tasks.get_mut(&task.id())?;
        let worker = follower.worker()?;
        // Who ends is taken off the launched ones before the task is counted down: there are never
        // fewer that it waits for.
        let all_are_launched = task.pending() == follower.launched.len() as u32 + ending;
        if !all_are_launched || !matches!(follower.stage, Stage::Waits) {
            return None;
        }
        self.offers.entry(worker).or_default().push((task.priority(), Reverse(task.id())));
        follower.stage = Stage::Offered(task);
        Some(worker)
    }
}

impl Followers {
    /// A task has been launched on `worker`'s device, up to `mark`, and nobody knows its end.
    /// `leaves`: it has left something for its end. True if some other may be launched behind it
    /// now.
    pub(super) fn notify(&self, work: &Work, worker: usize, mark: &Arc<dyn Mark>, leaves: bool) -> bool {
        let launched = Launched { id: work.id(), worker, mark: Arc::clone(mark), leaves };
        let mut state = self.0.lock();
        let (successors, up_to) = work.successors(None);
        state.notified.insert(work.id(), up_to);
        let mut any = false;
        for next in successors {
            state.tasks.entry(next.id()).or_default().launched.push(launched.clone());
            any |= state.offer(next, 0).is_some();
        }
        any
    }

    /// The same task is about to be completed, or `again` is to run: nothing is launched behind it
    /// any more. Where it completes, others may be launched behind what else they wait for, now
    /// that they know what it made: answers the workers of the devices on which that is.
    pub(super) fn revoke(&self, work: &Work, again: bool) -> SmallVec<[usize; 2]> {
        let mut state = self.0.lock();
        let mut workers = SmallVec::new();
        let Some(up_to) = state.notified.remove(&work.id()) else { return workers };
        let successors = work.successors(Some(up_to)).0;
        // One that waits twice is counted down twice, and offered once both are taken off.
        let mut ending: HashMap<u64, u32> = HashMap::with_capacity(successors.len());
        for next in &successors {
            let Some(follower) = state.tasks.get_mut(&next.id()) else { continue };
            if let Some(at) = follower.launched.iter().position(|launched| launched.id == work.id()) {
                follower.launched.swap_remove(at);
            }
            if again && matches!(follower.stage, Stage::Offered(_)) {
                follower.stage = Stage::Waits;
            }
            if follower.is_idle() {
                state.tasks.remove(&next.id());
            } else {
                *ending.entry(next.id()).or_default() += 1;
            }
        }
        for next in successors.into_iter().filter(|_| !again) {
            let Some(times) = ending.remove(&next.id()) else { continue };
            workers.extend(state.offer(next, times));
        }
        workers.sort_unstable();
        workers.dedup();
        workers
    }

    /// All that the task waited for has ended. It is given back if it has not been launched; if its
    /// own operations have ended already, what came of them is answered.
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
            let Some(follower) = tasks.get_mut(&id).filter(|follower| follower.worker() == Some(worker))
            else {
                continue;
            };
            let launched = Stage::Launched { ready: false, landed: None };
            match std::mem::replace(&mut follower.stage, launched) {
                Stage::Offered(work) => {
                    let marks = follower.launched.iter().map(|launched| &launched.mark);
                    let after = marks.filter(|mark| mark.ended().is_none()).cloned().collect();
                    let after_ends = follower.launched.iter().any(|launched| launched.leaves);
                    return Some(Offer { task: ReadyTask::new(work), after, after_ends });
                }
                other => follower.stage = other,
            }
        }
        None
    }

    /// Its operations have ended. Answers what came of them if all that it waited for has, too.
    pub(super) fn lands(&self, landed: Landed) -> Option<Landed> {
        let id = landed.batch[0].task.id();
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

    /// The task was not launched after all, or its device has failed. True if it is ready by now;
    /// else it waits.
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
