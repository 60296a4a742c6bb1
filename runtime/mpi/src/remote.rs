//! Operations on a datum whose type has been erased: the tasks that send and receive it.

use std::sync::Arc;

use parking_lot::Mutex;
use zellige_runtime::device::HostPool;
use zellige_runtime::internal::Body;
use zellige_runtime::internal::ranks::{
    Event, WeakHandle, arrives_as, forget, has_memory_nodes, read_whole, when_done, write_whole,
};
use zellige_runtime::{
    CodeletBuilder, Data, Error, Format, Handle, Recorder, Runtime, Slot, Submit, TaskRef,
};

use crate::buffers::BUFFERS;
use crate::deferred::{self, Version};
use crate::progress::{Inbox, Progress, value_of};
use crate::wire::{Key, begin_value};

/// A datum of the cluster. Its handle exists while a task names it; this value does not keep it
/// alive.
pub(crate) trait Remote: Send {
    /// False once its handles are gone.
    fn is_alive(&self) -> bool;
    fn name(&self) -> String;
    /// True if its values can leave their process.
    fn travels(&self) -> bool;
    /// Submits the task that sends the value `key` to another rank.
    fn send(&self, rt: &Runtime, progress: &Arc<Progress>, key: Key, to: usize) -> Result<(), Error>;
    /// Submits the task that receives it.
    fn receive(&self, rt: &Runtime, progress: &Arc<Progress>, key: Key, from: usize) -> Result<(), Error>;
    /// Offers the value `key` to another rank, which may request forms of it as soon as it is
    /// complete, until it needs no more.
    fn offer(&self, rt: &Runtime, progress: &Arc<Progress>, key: Key, to: usize) -> Result<(), Error>;
    /// Submits the task that receives the meta of such an offer. The tasks that read forms request
    /// them.
    fn follow(&self, rt: &Runtime, progress: &Arc<Progress>, key: Key, from: usize) -> Result<(), Error>;
    /// Submits the deletion of its value on this rank.
    fn forget(&self, rt: &Runtime) -> Result<(), Error>;
    /// Records, on two ranks, the tasks that send it in a form and receive it, as message `number`.
    /// `left`: its stored format after that.
    fn plan(
        &self,
        way: [(usize, &Recorder); 2],
        number: u32,
        form: Format,
        left: Format,
    ) -> Result<(), Error>;
}

/// Priority above all others: other tasks wait for it.
pub(crate) const URGENT: i32 = i32::MAX;

impl<D: Data> Remote for WeakHandle<D> {
    fn is_alive(&self) -> bool {
        self.upgrade().is_some()
    }

    fn name(&self) -> String {
        self.upgrade().map_or_else(|| "a handle that was dropped".into(), |handle| handle.name())
    }

    fn travels(&self) -> bool {
        D::portability().is_some()
    }

    fn send(&self, rt: &Runtime, progress: &Arc<Progress>, key: Key, to: usize) -> Result<(), Error> {
        let handle = self.handle()?;
        let packed = Arc::new(Mutex::new(None));
        let (out, name) = (Arc::clone(&packed), handle.name());
        let send = rt
            .task("send")
            .operands((read_whole(&handle, key.format),))
            .cpu(move |(value,)| {
                let mut message = begin_value(key, value.meta().bytes);
                let bytes = D::portability().and_then(|travel| travel.pack(value, &mut message));
                let bytes = bytes.ok_or_else(|| no_encoding(&name))?;
                *out.lock() = Some((message, bytes));
                Ok::<(), String>(())
            })
            .priority(URGENT)
            .coords([key.tag as u32, key.version as u32, to as u32])
            .submit()?;
        let progress = Arc::clone(progress);
        when_done(rt, &send, move |failure| match (failure, packed.lock().take()) {
            (None, Some((message, bytes))) => progress.post_value(to, message, bytes),
            // The rank that needs the value is notified of the failure, too.
            (Some(failure), _) => progress.post_failure(to, key, failure),
            (None, None) => unreachable!("a send that has not failed has packed its value"),
        })
    }

    fn receive(&self, rt: &Runtime, progress: &Arc<Progress>, key: Key, from: usize) -> Result<(), Error> {
        let handle = self.handle()?;
        let arrives = || Event::of(rt, "arrival");
        let (inbox, after) = progress.expect(key, from, || handle.name(), arrives)?;
        let (version, name) = (Version { progress: Arc::clone(progress), key, from }, handle.name());
        let task = rt
            .task("receive")
            .operands((write_whole(&handle),))
            .cpu(move |(mut slot,): (Slot<'_, D>,)| {
                slot.put(unpacked(&version.progress, arrived(&inbox, &name)?, &name)?);
                Ok::<(), Error>(())
            })
            .priority(URGENT)
            .coords([key.tag as u32, key.version as u32, from as u32]);
        submit_after(task, after)
    }

    fn offer(&self, rt: &Runtime, progress: &Arc<Progress>, key: Key, to: usize) -> Result<(), Error> {
        deferred::offer(rt, progress, &self.handle()?, key, to)
    }

    fn follow(&self, rt: &Runtime, progress: &Arc<Progress>, key: Key, from: usize) -> Result<(), Error> {
        if has_memory_nodes(rt) {
            // The memory manager holds received values, and makes their forms itself.
            let whole = deferred::request_at_once(progress, self.handle()?.name(), key, from);
            return self.receive(rt, progress, whole, from);
        }
        deferred::follow(rt, progress, &self.handle()?, key, from)
    }

    fn forget(&self, rt: &Runtime) -> Result<(), Error> {
        forget(rt, &self.handle()?)
    }

    fn plan(
        &self,
        way: [(usize, &Recorder); 2],
        number: u32,
        form: Format,
        left: Format,
    ) -> Result<(), Error> {
        let handle = self.handle()?;
        let [(from, sender), (to, receiver)] = way;
        let send = sender.task("send").operands((read_whole(&handle, form),)).cpu(|_| ());
        send.priority(URGENT).coords([number, 0, to as u32]).submit()?;
        let receive = receiver.task("receive").operands((arrives_as(&handle, left),)).cpu(|_| ());
        receive.priority(URGENT).coords([number, 0, from as u32]).submit().map(drop)
    }
}

/// Submits a task that comes after an event, if there is one.
pub(crate) fn submit_after<B: Body + 'static>(
    task: CodeletBuilder<'_, Runtime, B>,
    event: Option<TaskRef>,
) -> Result<(), Error> {
    match event {
        Some(event) => task.after(&event).submit().map(drop),
        None => task.submit().map(drop),
    }
}

/// Takes the message that has arrived.
pub(crate) fn arrived(inbox: &Inbox, name: &str) -> Result<Vec<u8>, Error> {
    match inbox.lock().take() {
        Some(arrival) => arrival.map_err(Error::Failed),
        None => Err(Error::Config(format!("nothing has arrived for {name}"))),
    }
}

/// Unpacks the value of a message, and counts it.
pub(crate) fn unpacked<D: Data>(progress: &Progress, message: Vec<u8>, name: &str) -> Result<D, Error> {
    let served = progress.memory.as_ref().map(HostPool::serve);
    let value: Option<D> = D::portability().and_then(|travel| travel.unpack(value_of(&message)));
    drop(served);
    let value = value.ok_or_else(|| Error::Config(no_encoding(name)))?;
    progress.has_received(value.meta().bytes);
    BUFFERS.keep(message);
    Ok(value)
}

/// Access to the handle at a submission: the party that names it keeps it alive.
trait LiveHandle<D: Data> {
    fn handle(&self) -> Result<Handle<D>, Error>;
}

impl<D: Data> LiveHandle<D> for WeakHandle<D> {
    fn handle(&self) -> Result<Handle<D>, Error> {
        self.upgrade().ok_or_else(|| Error::Config("a handle was dropped while a task named it".into()))
    }
}

pub(crate) fn no_encoding(name: &str) -> String {
    format!("{name} does not leave its process: its data type has no wire encoding (Portable::encode_header)")
}

/// The format that stands for the unchanged value.
pub(crate) const WHOLE: Format = Format::NATIVE;
