//! Nodes of the dependency graph that no worker runs: events, which code outside of tasks
//! completes, and calls at the end of a task.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Engine, Retired};
use crate::error::{Error, Failure};
use crate::task::{Accesses, Body, Env, Options, Ran, Role, TaskCell, TaskPtr, TaskRef};

/// An event outside of tasks. Tasks that name its [`task`](Event::task) in
/// [`after`](crate::CodeletBuilder::after) run after it. The event occurs when this value is
/// dropped, on any thread. No thread waits or polls for it.
pub struct Event {
    engine: Arc<Engine>,
    task: TaskPtr,
}

impl Event {
    pub(crate) fn new(engine: &Arc<Engine>, name: &'static str) -> Result<Event, Error> {
        let task = gate(engine, name, EmptyGate);
        engine.link(TaskPtr::clone(&task), &[], Retired::Refused)?;
        Ok(Event { engine: Arc::clone(engine), task })
    }

    /// Returns the task that later tasks name as their predecessor.
    pub fn task(&self) -> &TaskRef {
        &self.task.ticket
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.engine.close_gate(&self.task);
        // A task that becomes ready here comes alone: workers stop letting work gather.
        self.engine.workers.sleep.rouse_all();
    }
}

/// Calls `then` with the failure of `task`, if it has one, as soon as the task has ended, with
/// whatever result. The call runs on the thread that ends the task, so it must be short.
pub(crate) fn when_done(
    engine: &Arc<Engine>,
    task: &TaskRef,
    then: impl FnOnce(Option<Arc<Failure>>) + Send + 'static,
) -> Result<(), Error> {
    let ended = task.clone();
    let call = CallbackBody(Mutex::new(Some(Box::new(move || then(ended.cause())))));
    engine.link(gate(engine, "when done", call), std::slice::from_ref(task), Retired::Refused)
}

/// Creates a gate that no thread waits to open.
pub(crate) fn gate<B: Body + 'static>(engine: &Arc<Engine>, name: &'static str, body: B) -> TaskPtr {
    let (header, _) = Options::named(name).into_header(engine.counters.next_ids(1), engine.id, None);
    TaskCell::make(header, Role::Gate, body)
}

struct EmptyGate;

impl Body for EmptyGate {
    fn run<'e>(&'e self, _env: &mut Env<'e>) -> Ran {
        unreachable!("a gate is opened, not run")
    }

    fn declare<'a>(&'a self, _out: &mut Accesses<'a>) {}

    fn clear(&self) {}
}

struct CallbackBody(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Body for CallbackBody {
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

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::operand::{read, update};
    use crate::{Cause, Runtime, Submit};

    fn runtime() -> Runtime {
        Runtime::builder().workers(1).build().unwrap()
    }

    #[test]
    fn tasks_come_after_events() {
        let rt = runtime();
        let x = rt.register(1u64);
        let event = Event::new(rt.engine(), "message").unwrap();
        let add = rt.task("add").operands((update(&x),)).cpu(|(x,)| *x += 1).after(event.task());
        let add = add.submit().unwrap();
        // Others run meanwhile.
        let y = rt.register(5u64);
        rt.task("other").operands((update(&y),)).cpu(|(y,)| *y += 1).submit().unwrap();
        assert_eq!(rt.take(y).unwrap(), 6);
        assert!(!add.is_done() && !event.task().is_done());
        let thread = std::thread::spawn(move || drop(event));
        rt.wait_all().unwrap();
        assert_eq!(rt.take(x).unwrap(), 2);
        thread.join().unwrap();
    }

    #[test]
    fn the_end_of_a_task_is_told_whatever_it_was() {
        let rt = runtime();
        let x = rt.register(1u64);
        let (told, tell) = channel();
        let listen = |task: &TaskRef| {
            let told = told.clone();
            when_done(rt.engine(), task, move |failure| told.send(failure).unwrap()).unwrap();
        };
        let next = || tell.recv_timeout(Duration::from_secs(60)).expect("it is told");
        let good = rt.task("good").operands((read(&x),)).cpu(|_| ()).submit().unwrap();
        listen(&good);
        assert!(next().is_none());
        // Also if it has ended before.
        listen(&good);
        assert!(next().is_none());
        let bad = rt.task("bad").operands((update(&x),)).cpu(|_| Err("no")).submit().unwrap();
        listen(&bad);
        assert_eq!(next().unwrap().task, "bad");
        let held = rt.register(0u64);
        let guard = rt.write(&held).unwrap();
        let never = rt.task("never").operands((update(&held),)).cpu(|_| ()).submit().unwrap();
        listen(&never);
        never.cancel();
        drop(guard);
        assert!(matches!(next().unwrap().cause, Cause::Cancelled));
    }

    #[test]
    fn a_value_is_forgotten_after_its_readers() {
        let rt = runtime();
        let (x, sum) = (rt.register(vec![1u64; 10]), rt.register(0u64));
        let event = Event::new(rt.engine(), "later").unwrap();
        let add = |(x, sum): (&[u64], &mut u64)| *sum += x.iter().sum::<u64>();
        let task = rt.task("add").operands((read(&x), update(&sum))).cpu(add);
        task.after(event.task()).submit().unwrap();
        crate::engine::forget(rt.engine(), &x).unwrap();
        drop(event);
        assert_eq!(rt.take(sum).unwrap(), 10);
        assert!(matches!(rt.read(&x), Err(Error::Gone { .. })));
    }
}
