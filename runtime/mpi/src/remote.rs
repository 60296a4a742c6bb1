//! What is done with a datum whose type is forgotten: the tasks that send and receive it.

use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::Mutex;
use zellige_runtime::device::HostPool;
use zellige_runtime::internal::ranks::{
    Arrival, Elsewhere, Event, Offer, WeakHandle, arrives_as, forget, has_memory_nodes, moved, read_whole,
    when_done, write_elsewhere, write_whole,
};
use zellige_runtime::{
    Cause, Data, Error, Failure, Format, Handle, Recorder, Runtime, Slot, Submit, TaskError,
};

use crate::buffers::BUFFERS;
use crate::progress::{Inbox, Progress, value_of};
use crate::wire::{Key, Message, begin_value};

/// A datum of the cluster. Its handle is there while a task names it; this does not keep it.
pub(crate) trait Remote: Send {
    /// False once nobody can name it any more.
    fn is_alive(&self) -> bool;
    fn name(&self) -> String;
    /// True if its values can leave their process.
    fn travels(&self) -> bool;
    /// Submits the task that sends what `key` names to another rank.
    fn send(&self, rt: &Runtime, progress: &Arc<Progress>, key: Key, to: usize) -> Result<(), Error>;
    /// Submits the task that receives it.
    fn receive(&self, rt: &Runtime, progress: &Arc<Progress>, key: Key, from: usize) -> Result<(), Error>;
    /// Another rank may request forms of what `key` names as soon as it is there, until it needs no more.
    fn offer(&self, rt: &Runtime, progress: &Arc<Progress>, key: Key, to: usize) -> Result<(), Error>;
    /// Submits the task that receives the meta of what is offered so. Forms are requested by the tasks that read them.
    fn follow(&self, rt: &Runtime, progress: &Arc<Progress>, key: Key, from: usize) -> Result<(), Error>;
    /// Submits that its value here is forgotten.
    fn forget(&self, rt: &Runtime) -> Result<(), Error>;
    /// Records, on two ranks, the tasks that send it in a form and receive it, as message `number`. `left`: the format in
    /// which it is stored then.
    fn plan(
        &self,
        way: [(usize, &Recorder); 2],
        number: u32,
        form: Format,
        left: Format,
    ) -> Result<(), Error>;
}

/// Before everything else: others wait for it.
const URGENT: i32 = i32::MAX;

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
            // The rank that needs the value hears of that, too.
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
        match after {
            Some(event) => task.after(&event).submit()?,
            None => task.submit()?,
        };
        Ok(())
    }

    fn offer(&self, rt: &Runtime, progress: &Arc<Progress>, key: Key, to: usize) -> Result<(), Error> {
        let (told, handle) = (Arc::clone(progress), self.handle()?);
        if has_memory_nodes(rt) {
            return offer_copy(rt, told, &handle, key, to);
        }
        let offer = Arc::new(Offer::of(rt, &handle, move |version| match version {
            Ok(meta) => told.post(to, Message::Announced(key, meta).encode(told.rank)),
            Err(failure) => {
                told.withdraws(key, to);
                told.post_failure(to, key, failure);
            }
        }));
        progress.offers(key, to, Arc::clone(&offer) as _);
        offer.begins()
    }

    fn follow(&self, rt: &Runtime, progress: &Arc<Progress>, key: Key, from: usize) -> Result<(), Error> {
        let handle = self.handle()?;
        if has_memory_nodes(rt) {
            // The memory manager has values that are here, and makes their forms itself.
            let (whole, asks) = (Key { format: WHOLE, requested: true, ..key }, Arc::clone(progress));
            let then = move |announced| match announced {
                Ok(_) => asks.post(from, Message::Request(whole).encode(asks.rank)),
                Err(failure) => asks.arrives(whole, Err(failure)),
            };
            self.receive(rt, progress, whole, from)?;
            progress.listens(key, from, handle.name(), Box::new(then));
            return Ok(());
        }
        let (inbox, after) =
            progress.expect(key, from, || handle.name(), || Event::of(rt, "announcement"))?;
        let (version, name) = (Version { progress: Arc::clone(progress), key, from }, handle.name());
        let version = Mutex::new(Some(version));
        let task = rt
            .task("announced")
            .operands((write_elsewhere(&handle),))
            .cpu(move |(place,)| {
                let message = arrived(&inbox, &name)?;
                let (Some(Message::Announced(_, meta)), Some(version)) =
                    (Message::decode(&message), version.lock().take())
                else {
                    return Err(Error::Config(format!("no announcement of {name}")));
                };
                *place = Some(Elsewhere::new(meta, move |format, arrival| version.request(format, arrival)));
                Ok(())
            })
            .priority(URGENT)
            .coords([key.tag as u32, key.version as u32, from as u32]);
        match after {
            Some(event) => task.after(&event).submit()?,
            None => task.submit()?,
        };
        Ok(())
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

/// What has arrived.
fn arrived(inbox: &Inbox, name: &str) -> Result<Vec<u8>, Error> {
    match inbox.lock().take() {
        Some(arrival) => arrival.map_err(Error::Failed),
        None => Err(Error::Config(format!("nothing has arrived for {name}"))),
    }
}

/// The value in a message, which is counted.
fn unpacked<D: Data>(progress: &Progress, message: Vec<u8>, name: &str) -> Result<D, Error> {
    let served = progress.memory.as_ref().map(HostPool::serve);
    let value: Option<D> = D::portability().and_then(|travel| travel.unpack(value_of(&message)));
    drop(served);
    let value = value.ok_or_else(|| Error::Config(no_encoding(name)))?;
    progress.has_received(value.meta().bytes);
    BUFFERS.keep(message);
    Ok(value)
}

/// A version that comes from another rank, or is announced there. Dropped, no more forms of it are needed.
struct Version {
    progress: Arc<Progress>,
    key: Key,
    from: usize,
}

impl Version {
    /// Requests a form of it.
    fn request<D: Data>(&self, format: Format, arrival: Arrival<D>) {
        let (progress, from) = (Arc::clone(&self.progress), self.from);
        let (key, name) = (Key { format, requested: true, ..self.key }, arrival.handle().name());
        let then = move |arrived| match arrived {
            Ok(message) => receives(&progress, (key, from), message, arrival),
            Err(failure) => arrival.is(Err(failure)),
        };
        self.progress.listens(key, from, name, Box::new(then));
        self.progress.post(from, Message::Request(key).encode(self.progress.rank));
    }
}

/// Submits the task that unpacks a form which was requested.
fn receives<D: Data>(
    progress: &Arc<Progress>,
    (key, from): (Key, usize),
    message: Vec<u8>,
    arrival: Arrival<D>,
) {
    let (name, counts) = (arrival.handle().name(), Arc::clone(progress));
    let arrived = Mutex::new(Some((message, arrival)));
    let receive = progress.tasks.task("receive").operands((moved(),)).cpu(move |(moved,)| {
        let Some((message, arrival)) = arrived.lock().take() else { return Ok(()) };
        let value: D = unpacked(&counts, message, &name)?;
        *moved = value.meta().bytes;
        arrival.is(Ok(value));
        Ok::<(), Error>(())
    });
    // A runtime that has ended has nobody who waits for it.
    let _ = receive.priority(URGENT).coords([key.tag as u32, key.version as u32, from as u32]).submit();
}

impl Drop for Version {
    fn drop(&mut self) {
        if self.key.requested || self.key.format == LATE {
            self.progress.has_requested_all(self.key, self.from);
        }
    }
}

/// A version of which other ranks may request forms.
pub(crate) trait Offered: Send + Sync {
    /// Submits the task that sends one.
    fn send(self: Arc<Self>, progress: &Arc<Progress>, key: Key, to: usize);
}

/// What a rank gets that has requested a form. Dropped without one, it hears that there is none.
struct Reply {
    progress: Arc<Progress>,
    key: Key,
    to: usize,
    handle: String,
    why: Option<Cause>,
}

impl Reply {
    fn new(progress: &Arc<Progress>, key: Key, to: usize, handle: String) -> Self {
        Reply { progress: Arc::clone(progress), key, to, handle, why: Some(Cause::Cancelled) }
    }

    fn sends(mut self, message: Vec<u8>, bytes: usize) {
        self.why = None;
        self.progress.post_value(self.to, message, bytes);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        let Some(cause) = self.why.take() else { return };
        let failure =
            Failure { task: "send".into(), operands: vec![std::mem::take(&mut self.handle)], cause };
        self.progress.post_failure(self.to, self.key, Arc::new(failure));
    }
}

/// Submits the task that replies to a request with what `pack` makes, of so many bytes or fewer.
fn reply(
    reply: Reply,
    bytes: usize,
    pack: impl Fn(Format, &mut Vec<u8>) -> Result<usize, String> + Send + Sync + 'static,
) {
    let (tasks, key, to) = (reply.progress.tasks.clone(), reply.key, reply.to);
    let reply = Mutex::new(Some(reply));
    let send = tasks.task("send").operands((moved(),)).cpu(move |(moved,)| {
        let Some(mut reply) = reply.lock().take() else { return Ok(()) };
        let mut message = begin_value(key, bytes);
        *moved = pack(key.format, &mut message).inspect_err(|why| {
            let why: TaskError = why.as_str().into();
            reply.why = Some(Cause::Error(Arc::from(why)));
        })?;
        reply.sends(message, *moved);
        Ok::<(), String>(())
    });
    // A runtime that has ended sends nothing: the reply says so.
    let _ = send.priority(URGENT).coords([key.tag as u32, key.version as u32, to as u32]).submit();
}

impl<D: Data> Offered for Offer<D> {
    fn send(self: Arc<Self>, progress: &Arc<Progress>, key: Key, to: usize) {
        let to = Reply::new(progress, key, to, self.handle().name());
        reply(to, self.bytes_as(key.format), move |format, out| self.pack(format, out));
    }
}

/// A copy of a value, packed: where a memory manager has values, nobody can read one without waiting.
struct Copied<D> {
    packed: Vec<u8>,
    bytes: usize,
    handle: String,
    _type: PhantomData<fn() -> D>,
}

impl<D: Data> Copied<D> {
    fn pack(&self, format: Format, out: &mut Vec<u8>) -> Option<usize> {
        if format == WHOLE {
            out.extend(&self.packed);
            return Some(self.bytes);
        }
        let travel = D::portability()?;
        let value = travel.unpack(&self.packed)?;
        if format == value.meta().format {
            travel.pack(&value, out)
        } else {
            travel.pack(&value.convert(format)?, out)
        }
    }
}

impl<D: Data> Offered for Copied<D> {
    fn send(self: Arc<Self>, progress: &Arc<Progress>, key: Key, to: usize) {
        let to = Reply::new(progress, key, to, self.handle.clone());
        reply(to, self.bytes, move |format, out| {
            self.pack(format, out).ok_or_else(|| format!("{} cannot be sent in {format:?}", self.handle))
        });
    }
}

/// Submits the task that announces a version of which it has made a copy.
fn offer_copy<D: Data>(
    rt: &Runtime,
    progress: Arc<Progress>,
    handle: &Handle<D>,
    key: Key,
    to: usize,
) -> Result<(), Error> {
    let (announces, name) = (Arc::clone(&progress), handle.name());
    let offer = rt.task("offer").operands((read_whole(handle, WHOLE),)).cpu(move |(value,)| {
        let (mut packed, meta) = (Vec::with_capacity(value.meta().bytes), value.meta());
        let bytes = D::portability().and_then(|travel| travel.pack(value, &mut packed));
        let bytes = bytes.ok_or_else(|| no_encoding(&name))?;
        let copy = Copied::<D> { packed, bytes, handle: name.clone(), _type: PhantomData };
        announces.offers(key, to, Arc::new(copy));
        announces.post(to, Message::Announced(key, meta).encode(announces.rank));
        Ok::<(), String>(())
    });
    let offer = offer.priority(URGENT).coords([key.tag as u32, key.version as u32, to as u32]).submit()?;
    when_done(rt, &offer, move |failure| {
        failure.into_iter().for_each(|failure| progress.post_failure(to, key, failure));
    })
}

/// What every submission finds: who names a handle has it.
trait Kept<D: Data> {
    fn handle(&self) -> Result<Handle<D>, Error>;
}

impl<D: Data> Kept<D> for WeakHandle<D> {
    fn handle(&self) -> Result<Handle<D>, Error> {
        self.upgrade().ok_or_else(|| Error::Config("a handle was dropped while a task named it".into()))
    }
}

fn no_encoding(name: &str) -> String {
    format!("{name} does not leave its process: its data type has no wire encoding (Portable::encode_header)")
}

/// The format that means any that a task may choose when it runs: forms are requested then.
pub(crate) const LATE: Format = Format(u16::MAX);

/// The format that means the value as it is.
pub(crate) const WHOLE: Format = Format::NATIVE;
