//! Stream-ordered launches: tasks are launched on a device after others, before the host knows that
//! those have ended.

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
use crate::engine::{Job, Notified};
use crate::task::{ReadyTask, Work};

/// Marks on streams that must precede a task's operations.
pub(super) type Marks = Vec<Arc<dyn Mark>>;

/// The tasks that wait for launched ones. Only present if a device orders launches.
#[derive(Default)]
pub(crate) struct Followers(Mutex<FollowerTable>);

#[derive(Default)]
struct FollowerTable {
    /// Tasks that wait, or have been launched in stream order, by their numbers.
    tasks: HashMap<u64, Follower>,
    /// Launched tasks whose successors have been notified, and the extent of that.
    notified: HashMap<u64, Notified>,
    /// Tasks that may be launched, by the worker of the device, the highest priority first.
    offers: HashMap<usize, BinaryHeap<(i32, Reverse<u64>)>>,
}

#[derive(Default)]
struct Follower {
    /// Its predecessors that have been launched and not completed, once per dependency.
    launched: SmallVec<[LaunchedTask; 2]>,
    stage: FollowerState,
}

/// A task that has been launched and not completed.
#[derive(Clone)]
struct LaunchedTask {
    id: u64,
    worker: usize,
    mark: Arc<dyn Mark>,
    /// True if it has left work for its end.
    leaves: bool,
}

#[derive(Default)]
enum FollowerState {
    #[default]
    Waits,
    /// All its predecessors have been launched on one device.
    Offered(Work),
    /// It has been launched in stream order. `ready`: its predecessors have ended; `landed`: its
    /// operations have.
    Launched { ready: bool, landed: Option<Box<Landed>> },
}

/// A task that was launched in stream order, and the result of its operations.
pub(super) struct Landed {
    pub(super) batch: PlacedBatch,
    pub(super) ran: Fates,
    pub(super) span: Span,
}

/// A task that may be launched.
pub(super) struct LaunchOffer {
    pub(super) task: ReadyTask,
    pub(super) after: Marks,
    /// True if a predecessor has left work for its end.
    pub(super) after_ends: bool,
}

impl Follower {
    /// Returns the worker whose device has all launched predecessors.
    fn worker(&self) -> Option<usize> {
        let first = self.launched.first()?.worker;
        self.launched.iter().all(|launched| launched.worker == first).then_some(first)
    }

    /// True if there is no information about it.
    fn is_idle(&self) -> bool {
        self.launched.is_empty() && matches!(self.stage, FollowerState::Waits)
    }
}

impl FollowerTable {
    /// Offers the task to the worker whose device has all its predecessors, if there is one, and
    /// returns that worker. `ending`: the number of its predecessors that end now and will be
    /// counted down.
    fn offer(&mut self, task: Work, ending: u32) -> Option<usize> {
        let follower = self.tasks.get_mut(&task.id())?;
        let worker = follower.worker()?;
        // A task that ends is removed from the launched ones before its successors are counted
        // down: there are never fewer predecessors than that.
        let all_are_launched = task.pending() == follower.launched.len() as u32 + ending;
        if !all_are_launched || !matches!(follower.stage, FollowerState::Waits) {
            return None;
        }
        self.offers.entry(worker).or_default().push((task.priority(), Reverse(task.id())));
        follower.stage = FollowerState::Offered(task);
        Some(worker)
    }
}

impl Followers {
    /// Notes that a task has been launched on `worker`'s device, up to `mark`, and that its end is
    /// unknown. `leaves`: it has left work for its end. True if another task may be launched after
    /// it now.
    pub(super) fn notify(&self, work: &Work, worker: usize, mark: &Arc<dyn Mark>, leaves: bool) -> bool {
        let launched = LaunchedTask { id: work.id(), worker, mark: Arc::clone(mark), leaves };
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

    /// Revokes the notification: the task is about to be completed, or `again` is to run. Nothing
    /// is launched after it any more. If it completes, its successors may be launched after their
    /// other predecessors, now that its output is known. Returns the workers of the devices of
    /// these.
    pub(super) fn revoke(&self, work: &Work, again: bool) -> SmallVec<[usize; 2]> {
        let mut state = self.0.lock();
        let mut workers = SmallVec::new();
        let Some(up_to) = state.notified.remove(&work.id()) else { return workers };
        let successors = work.successors(Some(up_to)).0;
        // A task with two dependencies on it is counted down twice, and offered once both are
        // removed.
        let mut ending: HashMap<u64, u32> = HashMap::with_capacity(successors.len());
        for next in &successors {
            let Some(follower) = state.tasks.get_mut(&next.id()) else { continue };
            if let Some(at) = follower.launched.iter().position(|launched| launched.id == work.id()) {
                follower.launched.swap_remove(at);
            }
            if again && matches!(follower.stage, FollowerState::Offered(_)) {
                follower.stage = FollowerState::Waits;
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

    /// Notes that all predecessors of the task have ended. Returns the task if it has not been
    /// launched; if its own operations have ended already, returns their result.
    pub(super) fn is_ready(&self, task: ReadyTask) -> Result<Option<Landed>, ReadyTask> {
        let mut state = self.0.lock();
        let Some(follower) = state.tasks.get_mut(&task.id()) else { return Err(task) };
        let landed = match &mut follower.stage {
            FollowerState::Launched { ready, landed } => {
                *ready = true;
                landed.take()
            }
            FollowerState::Waits | FollowerState::Offered(_) => {
                state.tasks.remove(&task.id());
                return Err(task);
            }
        };
        if landed.is_some() {
            state.tasks.remove(&task.id());
        }
        // The thread that launched it holds it, too.
        drop(task.into_work());
        Ok(landed.map(|landed| *landed))
    }

    /// Takes the task with the highest priority that may be launched on `worker`'s device.
    pub(super) fn take(&self, worker: usize) -> Option<LaunchOffer> {
        let mut state = self.0.lock();
        let FollowerTable { tasks, offers, .. } = &mut *state;
        let offers = offers.get_mut(&worker)?;
        while let Some((_, Reverse(id))) = offers.pop() {
            let Some(follower) = tasks.get_mut(&id).filter(|follower| follower.worker() == Some(worker))
            else {
                continue;
            };
            let launched = FollowerState::Launched { ready: false, landed: None };
            match std::mem::replace(&mut follower.stage, launched) {
                FollowerState::Offered(work) => {
                    let marks = follower.launched.iter().map(|launched| &launched.mark);
                    let after = marks.filter(|mark| mark.ended().is_none()).cloned().collect();
                    let after_ends = follower.launched.iter().any(|launched| launched.leaves);
                    return Some(LaunchOffer { task: ReadyTask::new(work), after, after_ends });
                }
                other => follower.stage = other,
            }
        }
        None
    }

    /// Notes that the operations of a task have ended. Returns their result if all its predecessors
    /// have ended, too.
    pub(super) fn lands(&self, landed: Landed) -> Option<Landed> {
        let id = landed.batch[0].task.id();
        let mut state = self.0.lock();
        match state.tasks.get_mut(&id).map(|follower| &mut follower.stage) {
            Some(FollowerState::Launched { ready: false, landed: place }) => {
                *place = Some(Box::new(landed));
                None
            }
            _ => {
                state.tasks.remove(&id);
                Some(landed)
            }
        }
    }

    /// Notes that the task was not launched after all, or that its device has failed. True if it is
    /// ready by now; otherwise it waits.
    pub(super) fn gives_up(&self, id: u64) -> bool {
        let mut state = self.0.lock();
        let Some(follower) = state.tasks.get_mut(&id) else { return true };
        let is_ready = matches!(follower.stage, FollowerState::Launched { ready: true, .. });
        follower.stage = FollowerState::Waits;
        if is_ready || follower.is_idle() {
            state.tasks.remove(&id);
        }
        is_ready
    }
}
