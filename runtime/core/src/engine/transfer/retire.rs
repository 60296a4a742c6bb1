//! Removal of a device that has failed: its data, and the tasks assigned to it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Placed, TransferDriver, Waiting};
use crate::engine::{Engine, Job};
use crate::error::DeviceError;
use crate::error::{Cause, Failure};
use crate::memory::NodeId;
use crate::task::AnyHandle;

/// Number of tasks that a failed device's worker passes on in one step.
const PASSED_BACK: usize = 1024;

/// Notifications to send once the manager's lock is released.
#[derive(Default)]
struct Notifications {
    /// Tasks that may run elsewhere.
    again: Vec<Placed>,
    /// Waiters on other nodes that need lost data.
    stranded: Vec<Waiting>,
    /// Possibly the last references: dropped under the lock, they would try to take it.
    handles: Vec<Arc<dyn AnyHandle>>,
}

impl Engine {
    /// Removes a failed device: data without another copy poison their handles, and tasks go
    /// elsewhere.
    pub(super) fn retire(self: &Arc<Self>, transfers: &TransferDriver, node: NodeId, error: DeviceError) {
        let Some(retired) = transfers.retire_node(node, error) else { return };
        for placed in retired.again {
            let worker = placed.worker;
            self.send_back(transfers, placed.task, worker);
        }
        for waiting in retired.stranded {
            match waiting {
                Waiting::Caller(signal) => {
                    signal.is_lost();
                    self.wake_other_waiters();
                }
                Waiting::Task(placed) => {
                    let worker = placed.worker;
                    transfers.lanes[worker].gave_up();
                    // The task detects this by itself: its operand is poisoned now.
                    self.send_back(transfers, placed.task, worker);
                    self.workers.sleep.notify(worker);
                }
            }
        }
        drop(retired.handles);
        // Transfers from and to the device are forgotten: threads that wait for one to end go on.
        transfers.progress.notify();
        self.drain();
        self.workers.sleep.notify_all();
    }

    /// Passes the tasks that a failed device's queue still holds, or gets, to other workers. False
    /// if there is none.
    pub(crate) fn pass_back(self: &Arc<Self>, transfers: &TransferDriver, worker: usize) -> bool {
        let mut any = false;
        // A task that ran again elsewhere while the manager still has its first working set would
        // be one too many.
        drop(transfers.nodes[transfers.node_of(worker)].retiring.lock());
        // Working sets that were completed just when the device failed.
        for placed in transfers.lanes[worker].clear() {
            any = true;
            self.send_back(transfers, placed.task, worker);
        }
        for _ in 0..PASSED_BACK {
            let Some(task) = self.pop(worker) else { break };
            any = true;
            if let Some(failure) = task.work().poisoned() {
                self.end_unrun(transfers, task, worker, failure);
                continue;
            }
            transfers.forget(task.work());
            self.decline(worker, &task);
            self.push_ready(task, None);
        }
        // It may have been woken for a task that any worker could have taken.
        for other in (0..self.workers.len()).filter(|&other| transfers.failure_of(other).is_none()) {
            self.workers.sleep.notify(other);
        }
        any
    }
}

impl TransferDriver {
    /// Reports the failure to the manager. `None`, once that has been done, for all but the first
    /// caller.
    fn retire_node(&self, node: NodeId, error: DeviceError) -> Option<Notifications> {
        let _one = self.nodes[node].retiring.lock();
        if self.nodes[node].failure.set(error.clone()).is_err() {
            return None;
        }
        tracing::error!("{error}: it is not used any more");
        // From here on nothing is copied from or to it. Copies in progress end first, since their
        // buffers may be filled anew.
        self.wait_for(|| self.nodes[node].moving.load(Ordering::SeqCst) == 0);
        Some(self.lose(node, &error))
    }

    fn lose(&self, node: NodeId, error: &DeviceError) -> Notifications {
        let mut retired = Notifications::default();
        self.with_memory(|memory| {
            let lost = memory.lose(node);
            for handle in lost.data.into_iter().filter_map(|datum| self.handle(datum)) {
                handle.base().poison(&lost_with(&*handle, error));
                retired.handles.push(handle);
            }
            let mut waiting = self.tickets.waiting.lock();
            for ticket in lost.tickets {
                match waiting.remove(&ticket) {
                    Some(Waiting::Task(placed)) => {
                        self.lanes[placed.worker].gave_up();
                        retired.again.push(placed);
                    }
                    // A caller's turn is on the host; a task that runs, or has been staged, is not
                    // waiting any more.
                    Some(Waiting::Caller(_)) | None => {}
                }
            }
            retired.stranded.extend(lost.stranded.iter().filter_map(|ticket| waiting.remove(ticket)));
        });
        for lane in self.lanes.iter().filter(|lane| lane.node == node) {
            retired.again.extend(lane.clear());
        }
        retired
    }
}

fn lost_with(handle: &dyn AnyHandle, error: &DeviceError) -> Arc<Failure> {
    let operands = vec![handle.base().name()];
    let cause = Cause::Error(Arc::new(error.clone()));
    Arc::new(Failure { task: format!("the only copy was on {}", error.device), operands, cause })
}
