//! Holds: gates on any number of handles that code outside of tasks keeps open.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Engine, Retired, gate};
use crate::body::{TokenAccess, declare_tokens};
use crate::error::Error;
use crate::task::{Accesses, Body, Env, Ran, TaskPtr, TaskRef};

/// A turn on handles that begins when its predecessors have completed and ends when this value is
/// dropped. No thread waits in it.
pub struct Hold {
    engine: Arc<Engine>,
    task: TaskPtr,
}

impl Hold {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        accesses: Vec<TokenAccess>,
        after: &[TaskRef],
        opened: impl FnOnce() + Send + 'static,
    ) -> Result<Hold, Error> {
        let body = HoldBody { accesses, opened: Mutex::new(Some(Box::new(opened))) };
        let task = gate(engine, "hold", body);
        let hold = Hold { engine: Arc::clone(engine), task: TaskPtr::clone(&task) };
        engine.link(task, after, Retired::Refused)?;
        Ok(hold)
    }

    /// Returns the task that later tasks name as their predecessor.
    pub fn task(&self) -> &TaskRef {
        &self.task.ticket
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.task.ticket.leave_gate() {
            self.engine.close_gate(&self.task);
            self.engine.workers.sleep.rouse_all();
        }
    }
}

struct HoldBody {
    accesses: Vec<TokenAccess>,
    opened: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Body for HoldBody {
    /// Calls back, and leaves the gate open.
    fn passes(&self) -> bool {
        let opened = self.opened.lock().take();
        opened.into_iter().for_each(|opened| opened());
        false
    }

    fn run<'e>(&'e self, _env: &mut Env<'e>) -> Ran {
        unreachable!("a gate is opened, not run")
    }

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        declare_tokens(&self.accesses, out);
    }

    fn clear(&self) {}
}
