//! Interface of one rank's runtime for the ranks that run one program together.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::buffer::HostPool;
use crate::deps::Mode;
use crate::engine::graph::{Graph, Recorder};
use crate::engine::{Engine, check_access, check_aliases, sort_by_handle};
use crate::error::{Error, Failure};
use crate::format::Format;
use crate::runtime::Runtime;
use crate::submit::Submit;
use crate::task::{Accesses, AnyHandle, Body, Formats, Handle, HandleCore, Spec, TaskRef};
use crate::value::{Data, Meta};

pub use crate::engine::graph::{Described, Placement};
pub use crate::engine::{Event, Offer};
pub use crate::operand::whole::{arrives_as, moved, read_whole, write_elsewhere, write_whole};
pub use crate::task::{Arrival, Elsewhere};

impl Event {
    /// Creates an event that tasks of the runtime can depend on.
    pub fn of(rt: &Runtime, name: &'static str) -> Result<Event, Error> {
        Event::new(rt.engine(), name)
    }
}

impl<D: Data> Offer<D> {
    /// Calls `opened` as soon as the version is available, with its description, or with the reason
    /// why there is none; in that case the value cannot be obtained. The action does not start
    /// before [`begins`](Self::begins) allows it.
    pub fn of(
        rt: &Runtime,
        handle: &Handle<D>,
        opened: impl FnOnce(Result<Meta, Arc<Failure>>) + Send + 'static,
    ) -> Self {
        Offer::new(rt.engine(), handle, opened)
    }
}

/// Registers `tell`, which a worker calls when it finds that no worker has a task to run; only the
/// first registration takes effect. Returns a function that estimates whether the runtime is idle.
pub fn when_idle(
    rt: &Runtime,
    tell: impl Fn() + Send + Sync + 'static,
) -> impl Fn() -> bool + Send + Sync + 'static {
    let engine = Arc::clone(rt.engine());
    let _ = engine.workers.when_idle.set(Box::new(tell));
    move || engine.workers.are_idle()
}

/// Returns the origin of time of the runtime's traces.
pub fn trace_start(rt: &Runtime) -> Instant {
    rt.engine().started()
}

/// Calls `then` as soon as `task` has ended, with its failure if it has one, on the thread that
/// ends the task.
pub fn when_done(
    rt: &Runtime,
    task: &TaskRef,
    then: impl FnOnce(Option<Arc<Failure>>) + Send + 'static,
) -> Result<(), Error> {
    crate::engine::when_done(rt.engine(), task, then)
}

/// Submits tasks of a runtime without waiting for its window. It does not keep the runtime alive.
#[derive(Clone)]
pub struct Unbounded(Weak<Engine>);

impl Unbounded {
    /// Creates a submitter for this runtime.
    pub fn of(rt: &Runtime) -> Self {
        Unbounded(Arc::downgrade(rt.engine()))
    }
}

impl Submit for Unbounded {
    fn submit_spec<B: Body + 'static>(&self, spec: Spec<B>) -> Result<TaskRef, Error> {
        let ended = || Error::Config("the runtime has ended".into());
        let engine = self.0.upgrade().ok_or_else(ended)?;
        let task = engine.submit_now(spec)?;
        // The task comes alone: no further batching delay.
        engine.workers.sleep.rouse_all();
        Ok(task)
    }

    fn announce_step(&self, _tasks: usize) {}
}

/// Returns a pool of recycled buffers for received values; `None` for a runtime whose memory nodes
/// have their own.
pub fn pool_for(rt: &Runtime) -> Option<Arc<HostPool>> {
    (!has_memory_nodes(rt)).then(|| HostPool::ordinary(None))
}

/// Returns true for a runtime with memory nodes besides host memory.
pub fn has_memory_nodes(rt: &Runtime) -> bool {
    rt.engine().transfers.is_some()
}

/// Discards the handle's value, after the tasks on the handle that have been submitted.
pub fn forget<D: Data>(rt: &Runtime, handle: &Handle<D>) -> Result<(), Error> {
    crate::engine::forget(rt.engine(), handle)
}

/// A weak reference to a handle, which does not keep its data alive.
pub struct WeakHandle<D: Data>(Weak<HandleCore<D>>);

impl<D: Data> WeakHandle<D> {
    /// Creates a weak reference to this handle.
    pub fn new(handle: &Handle<D>) -> Self {
        WeakHandle(Arc::downgrade(handle.core()))
    }

    /// Returns the handle, if it still exists.
    pub fn upgrade(&self) -> Option<Handle<D>> {
        self.0.upgrade().map(Handle::from_core)
    }
}

impl<D: Data> fmt::Debug for WeakHandle<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakHandle")
    }
}

/// Returns the handle's number, which is unique in this process.
pub fn number_of<D: Data>(handle: &Handle<D>) -> u64 {
    handle.core().base().id
}

/// An access of a task that has been described but not submitted.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The handle's number.
    pub handle: u64,
    /// Access mode.
    pub mode: Mode,
    /// Format that the task requests, if it is known before the task runs; `None` also for an
    /// access to the meta alone.
    pub format: Option<Format>,
}

/// Returns the accesses of a task that has been described, in the order of its operands. `see` gets
/// each access and the name of its handle, and returns whether the handle will have had a writer.
///
/// # Errors
/// The errors that a submission would return for these accesses, and those of `see`.
pub fn outline<B: Body + ?Sized>(
    name: &'static str,
    body: &B,
    mut see: impl FnMut(&Named, &dyn Fn() -> String) -> Result<bool, Error>,
    out: &mut Vec<Named>,
) -> Result<(), Error> {
    let mut accesses = Accesses::new();
    body.declare(&mut accesses);
    let mut formats = Formats::new();
    let selects = body.selects();
    if selects {
        formats.resize(accesses.len(), Format::NATIVE);
    } else {
        body.plan(&[], &mut formats);
    }
    out.clear();
    for (access, &format) in accesses.iter().zip(&formats) {
        let format = (!selects && !access.look).then_some(format);
        let named = Named { handle: access.base.id, mode: access.mode, format };
        let written = see(&named, &|| access.base.name())?;
        check_access(name, access, written, access.base.rights())?;
        out.push(named);
    }
    sort_by_handle(&mut accesses);
    check_aliases(name, &accesses)
}

/// Creates a recorder of the tasks that `placement` selects; see [`cut`].
pub fn placed_recorder(placement: Box<dyn Placement>) -> Recorder {
    Recorder::placed(placement)
}

/// Returns the mode in which the tasks recorded since the last [`cut`] access a handle, if any
/// does.
pub fn recorded_mode(recorder: &Recorder, handle: u64) -> Option<Mode> {
    recorder.mode_of(handle)
}

/// Returns the tasks that were recorded since the last cut, if there are any, and starts a new
/// graph.
pub fn cut(recorder: &Recorder) -> Option<Graph> {
    recorder.cut()
}
