//! Nodes of the dependency graph that no worker runs: events, which code outside of tasks completes, and calls at the end of a task.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Retired, Shared};
use crate::error::{Error, Failure};
use crate::operand::Accesses;
use crate::task::{Body, Env, Options, Ran, Role, Task, TaskCell, TaskRef};

/// Something that happens outside of tasks. Tasks come after it as [`after`](crate::CodeletBuilder::after) its
/// [`task`](Event::task) says; it has happened once this is dropped, by whatever thread. Nobody waits or polls
/// for it.
pub struct Event {
    shared: Arc<Shared>,
    task: Arc<Task>,
}

impl Event {
    pub(crate) fn new(shared: &Arc<Shared>, name: &'static str) -> Result<Event, Error> {
        let task = gate(shared, name, Nothing);
        shared.link(Arc::clone(&task), &[], Retired::Refused)?;
        Ok(Event { shared: Arc::clone(shared), task })
    }

    /// What comes after it names this.
    pub fn task(&self) -> &TaskRef {
        &self.task.ticket
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.shared.close_gate(&self.task);
    }
}

/// Calls `then` with the failure of `task`, if it has one, as soon as it has ended, however it ended: on the
/// thread that ends it, which should not be kept.
pub(crate) fn when_done(
    shared: &Arc<Shared>,
    task: &TaskRef,
    then: impl FnOnce(Option<Arc<Failure>>) + Send + 'static,
) -> Result<(), Error> {
    let ended = task.clone();
    let call = Call(Mutex::new(Some(Box::new(move || then(ended.cause())))));
    shared.link(gate(shared, "when done", call), std::slice::from_ref(task), Retired::Refused)
}

/// A gate behind which no thread is.
pub(crate) fn gate<B: Body + 'static>(shared: &Arc<Shared>, name: &'static str, body: B) -> Arc<Task> {
    let (header, _) = Options::named(name).into_header(shared.next_ids(1), shared.id, None);
    TaskCell::make(header, Role::Gate, body)
}

struct Nothing;

impl Body for Nothing {
    fn run<'e>(&'e self, _env: &mut Env<'e>) -> Ran {
        unreachable!("a gate is opened, not run")
    }

    fn declare<'a>(&'a self, _out: &mut Accesses<'a>) {}

    fn clear(&self) {}
}

struct Call(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Body for Call {
    fn passes(&self) -> bool {
        let call = self.0.lock().take();
        call.into_iter().for_each(|call| call());
        true
    }

    fn run<'e>(&'e self, _env: &mut Env<'e>) -> Ran {
        unreachable!("a gate is opened, not run")
    }

    fn declare<'a>(&'a self, _out: &mut Accesses<'a>) {}

    fn clear(&self) {}
}
