//! What the crates beside this one need of its inside. No part of its interface: it may change with any
//! version.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::data::{AnyHandle, Data, Handle, HandleCore};
use crate::deps::{AccessRights, Mode};
use crate::engine::graph::{Graph, Recorder};
use crate::engine::{check_access, check_aliases, sort_by_handle};
use crate::error::{Error, Failure};
use crate::format::Format;
use crate::operand::Declared;
use crate::runtime::Runtime;
use crate::task::TaskRef;

pub use crate::engine::Event;
pub use crate::engine::graph::{Described, Placement};
pub use crate::engine::transfer::plan::Times;
pub use crate::error::panic_message;
pub use crate::mutant::mutant;
pub use crate::operand::whole::{arrives_as, read_whole, write_whole};
pub use crate::operand::{Accesses, Formats, Metas, Wanted};
pub use crate::sched::by_name as policy_by_name;
pub use crate::splitmix::{STEP, scramble};
pub use crate::task::{Body, Env, Refusal, Spec};
pub use crate::virtual_time::{Machine, MachineNode, MachineTask, MachineWorker, VirtualRun};

/// A handle that belongs to the first runtime or recorder that uses it.
pub fn handle<D: Data>(value: Option<D>) -> Handle<D> {
    Handle::new(value)
}

/// True once a device has failed.
pub fn has_lost_a_device(rt: &Runtime) -> bool {
    rt.has_lost_a_device()
}

/// The implementations of a recorded task, empty where there is one, and its dimensions.
pub fn recorded_task(graph: &Graph, task: usize) -> (&'static [&'static str], [u32; 3]) {
    let header = graph.header(task);
    (header.implementations.names, header.info.shape)
}

/// The tasks of a longest path through a graph, by these lengths.
pub fn longest_path(graph: &Graph, length: impl Fn(usize) -> f64) -> Vec<usize> {
    graph.longest_path(length)
}

impl Event {
    /// An event that tasks of the runtime can come after.
    pub fn of(rt: &Runtime, name: &'static str) -> Result<Event, Error> {
        Event::new(rt.shared(), name)
    }
}

/// Has `tell` called by a worker that finds that no worker has a task to run, for the first that asks for it; what
/// says whether that is so, an estimate.
pub fn when_idle(
    rt: &Runtime,
    tell: impl Fn() + Send + Sync + 'static,
) -> impl Fn() -> bool + Send + Sync + 'static {
    let shared = Arc::clone(rt.shared());
    let _ = shared.when_idle.set(Box::new(tell));
    move || shared.is_idle()
}

/// The zero of the runtime's traces.
pub fn trace_start(rt: &Runtime) -> Instant {
    rt.shared().started()
}

/// Calls `then` with the failure of `task`, if it has one, as soon as it has ended, on the thread that ends it.
pub fn when_done(
    rt: &Runtime,
    task: &TaskRef,
    then: impl FnOnce(Option<Arc<Failure>>) + Send + 'static,
) -> Result<(), Error> {
    crate::engine::when_done(rt.shared(), task, then)
}

/// Forgets the handle's value, after the tasks on it that have been submitted.
pub fn forget<D: Data>(rt: &Runtime, handle: &Handle<D>) -> Result<(), Error> {
    crate::data::forget(rt.shared(), handle)
}

/// A handle that does not keep its data.
pub struct WeakHandle<D: Data>(Weak<HandleCore<D>>);

impl<D: Data> WeakHandle<D> {
    /// Of this handle.
    pub fn new(handle: &Handle<D>) -> Self {
        WeakHandle(Arc::downgrade(handle.core()))
    }

    /// The handle, if it is there.
    pub fn upgrade(&self) -> Option<Handle<D>> {
        self.0.upgrade().map(Handle::from_core)
    }
}

impl<D: Data> fmt::Debug for WeakHandle<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakHandle")
    }
}

/// The handle's number, which no other has had in this process.
pub fn number_of<D: Data>(handle: &Handle<D>) -> u64 {
    handle.core().base().id
}

/// An access of a task that has been described.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The handle's number.
    pub handle: u64,
    /// How it is accessed.
    pub mode: Mode,
    /// The format that is asked for, [`Format::NATIVE`] where that is not known before the task runs.
    pub format: Format,
}

/// The accesses of a task that has been described, in the order of its operands.
///
/// # Errors
/// Those that a submission would have for its accesses; `written`: whether a handle will have had a writer, and
/// an error for one that nobody knows.
pub fn outline<B: Body + ?Sized>(
    name: &'static str,
    body: &B,
    written: impl Fn(u64, &dyn Fn() -> String) -> Result<bool, Error>,
    out: &mut Vec<Named>,
) -> Result<(), Error> {
    let mut accesses = Accesses::new();
    body.declare(&mut accesses);
    let mut formats = Formats::new();
    if body.selects() {
        formats.resize(accesses.len(), Format::NATIVE);
    } else {
        body.plan(&[], &mut formats);
    }
    out.clear();
    let named = |(access, format): (&Declared<'_>, Format)| Named {
        handle: access.base.id,
        mode: access.mode,
        format,
    };
    out.extend(accesses.iter().zip(formats).map(named));
    sort_by_handle(&mut accesses);
    check_aliases(name, &accesses)?;
    for access in &accesses {
        let written = written(access.base.id, &|| access.base.name())?;
        let rights: AccessRights = access.base.chain.lock().rights;
        check_access(name, access, written, rights)?;
    }
    Ok(())
}

/// A recorder of the tasks that `placement` says; see [`cut`].
pub fn placed_recorder(placement: Box<dyn Placement>) -> Recorder {
    Recorder::placed(placement)
}

/// How the tasks that were recorded since the last [`cut`] access a handle, if they do.
pub fn recorded_mode(recorder: &Recorder, handle: u64) -> Option<Mode> {
    recorder.mode_of(handle)
}

/// The tasks that were recorded since the last cut, if there are any. What is recorded from here on is
/// another graph.
pub fn cut(recorder: &Recorder) -> Option<Graph> {
    recorder.cut()
}
