//! One thread in place of all workers: it does their work, and goes from the end of one operation
//! to the next.

use std::sync::Arc;

use super::{Engine, Target, on_device};
use crate::device::Events;
use crate::engine::transfer::{Next, TransferDriver};
use crate::error::Error;
use crate::task::WorkerLocal;

impl Engine {
    /// Does all that is possible at this moment, worker after worker: each first gathers as many
    /// tasks as it may, then begins those with all operands.
    pub(crate) fn act(self: &Arc<Self>, transfers: &TransferDriver) {
        let mut local = WorkerLocal::default();
        loop {
            let mut any = false;
            for worker in 0..self.workers.len() {
                while self.gather_more(transfers, worker) {
                    any = true;
                }
            }
            for worker in 0..self.workers.len() {
                if let Some(flight) = self.take_placed(transfers, worker) {
                    self.execute_placed(flight, worker, &mut local);
                    any = true;
                }
            }
            any |= self.collect_lost();
            if !any {
                return;
            }
        }
    }

    /// Makes a worker drawn by `events` act, or ends the next operation; false if nothing can be
    /// done and nothing is in progress.
    fn act_by_chance(self: &Arc<Self>, events: &Events) -> bool {
        if self.collect_lost() {
            return true;
        }
        let workers = self.workers.len();
        let first = events.draw(workers + 1);
        if first == workers && events.pass() {
            return true;
        }
        (0..workers).any(|at| self.act_as((first + at) % workers)) || events.pass()
    }

    /// Does one step of a worker; false if there is nothing to do.
    fn act_as(self: &Arc<Self>, worker: usize) -> bool {
        let transfers = self.transfers.as_ref();
        if let Some(transfers) = transfers.filter(|transfers| transfers.failure_of(worker).is_some()) {
            return self.pass_back(transfers, worker);
        }
        let next = match transfers {
            Some(transfers) => {
                self.take_placed(transfers, worker).map(|flight| Next::Placed(Box::new(flight)))
            }
            None => self.pop(worker).map(Next::Ready),
        };
        let Some(next) = next else {
            return transfers.is_some_and(|transfers| self.gather_more(transfers, worker));
        };
        // A body that waited would keep the workers from the tasks that it waits for.
        let _cannot_wait = on_device(self);
        let mut local = WorkerLocal::new(self.models.as_ref(), self.workers[worker].model_kind);
        self.execute(next, worker, &mut local, None);
        true
    }

    /// Makes the calling thread do the work of all workers until `done`.
    pub(super) fn act_for(
        self: &Arc<Self>,
        events: &Events,
        target: &Target,
        done: impl Fn() -> bool,
    ) -> Result<(), Error> {
        while !done() {
            self.failures.check_broken()?;
            if !self.act_by_chance(events) && !done() {
                let mut cycle = vec![format!("nothing is under way, and {} has not come", target.describe())];
                cycle.extend(self.transfers.iter().flat_map(TransferDriver::describe));
                return Err(Error::Deadlock { what: "the calling thread".into(), cycle });
            }
        }
        Ok(())
    }
}
