//! What ranks that run one program need of the runtime of each.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::buffer::HostPool;
use crate::data::{AnyHandle, Data, Handle, HandleCore, Meta};
use crate::deps::Mode;
use crate::engine::graph::{Graph, Recorder};
use crate::engine::{Shared, check_access, check_aliases, sort_by_handle};
use crate::error::{Error, Failure};
use crate::format::Format;
use crate::operand::{Accesses, Formats};
use crate::runtime::Runtime;
use crate::submit::Submit;
use crate::task::{Body, Spec, TaskRef};

pub use crate::data::{Arrival, Elsewhere, Offer};
pub use crate::engine::Event;
pub use crate::engine::graph::{Described, Placement};
pub use crate::operand::whole::{arrives_as, moved, read_whole, write_elsewhere, write_whole};

impl Event {
    /// An event that tasks of the runtime can come after.
    pub fn of(rt: &Runtime, name: &'static str) -> Result<Event, Error> {
        Event::new(rt.shared(), name)
    }
}

impl<D: Data> Offer<D> {
    /// Calls `opened` as soon as the version is there, with what it is, or why there is none; in
    /// that case nothing can be had of it. It does not begin before [`begins`](Self::begins) says
    /// so.
    pub fn of(
        rt: &Runtime,
        handle: &Handle<D>,
        opened: impl FnOnce(Result<Meta, Arc<Failure>>) + Send + 'static,
    ) -> Self {
        Offer::new(rt.shared(), handle, opened)
    }
}

/// Has `tell` called by a worker that finds that no worker has a task to run, for the first that
/// asks for it; what says whether that is so, an estimate.
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

/// Calls `then` with the failure of `task`, if it has one, as soon as it has ended, on the thread
/// that ends it.
pub fn when_done(
    rt: &Runtime,
    task: &TaskRef,
    then: impl FnOnce(Option<Arc<Failure>>) + Send + 'static,
) -> Result<(), Error> {
    crate::engine::when_done(rt.shared(), task, then)
}

/// Submits tasks of a runtime, which it does not keep, without waiting for its window.
#[derive(Clone)]
pub struct Unbounded(Weak<Shared>);

impl Unbounded {
    /// Of this runtime.
    pub fn of(rt: &Runtime) -> Self {
        Unbounded(Arc::downgrade(rt.shared()))
    }
}

impl Submit for Unbounded {
    fn submit_spec<B: Body + 'static>(&self, spec: Spec<B>) -> Result<TaskRef, Error> {
        let ended = || Error::Config("the runtime has ended".into());
        let shared = self.0.upgrade().ok_or_else(ended)?;
        let task = shared.submit_now(spec)?;
        // It comes alone: no more gathers meanwhile.
        shared.sleep.rouse_all();
        Ok(task)
    }

    fn announce_step(&self, _tasks: usize) {}
}

/// Memory for values that are received, to be used again; `None` for a runtime whose memory nodes
/// have some.
pub fn pool_for(rt: &Runtime) -> Option<Arc<HostPool>> {
    (!has_memory_nodes(rt)).then(|| HostPool::ordinary(None))
}

/// True for a runtime with memory nodes besides the host's memory.
pub fn has_memory_nodes(rt: &Runtime) -> bool {
    rt.shared().transfers.is_some()
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
    /// The format that the task wants, where that is known before it runs; `None` also for one that
    /// looks at the meta alone.
    pub format: Option<Format>,
}

/// The accesses of a task that has been described, in the order of its operands. `see` is shown
/// each one and the name of its handle, and says whether the handle will have had a writer.
///
/// # Errors
/// Those that a submission would have for its accesses, and those of `see`.
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

/// A recorder of the tasks that `placement` says; see [`cut`].
pub fn placed_recorder(placement: Box<dyn Placement>) -> Recorder {
    Recorder::placed(placement)
}

/// How the tasks that were recorded since the last [`cut`] access a handle, if they do.
pub fn recorded_mode(recorder: &Recorder, handle: u64) -> Option<Mode> {
    recorder.mode_of(handle)
}

/// The tasks that were recorded since the last cut, if there are any. What is recorded from here on
/// is another graph.
pub fn cut(recorder: &Recorder) -> Option<Graph> {
    recorder.cut()
}
