//! Versions whose form is selected by tasks when they run: the rank with the version announces its
//! meta, and others request forms of it.

use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::Mutex;
use zellige_runtime::internal::ranks::{
    Arrival, Elsewhere, Event, Offer, has_memory_nodes, moved, read_whole, when_done, write_elsewhere,
};
use zellige_runtime::{Cause, Data, Error, Failure, Format, Handle, Runtime, Submit, TaskError};

use crate::progress::Progress;
use crate::remote::{URGENT, WHOLE, arrived, no_encoding, submit_after, unpacked};
use crate::wire::{Key, Message, begin_value};

/// The format that stands for any format that a task may select when it runs: forms are requested
/// then.
pub(crate) const DEFERRED: Format = Format(u16::MAX);

/// Announces a version to another rank as soon as it is complete, and keeps it until that rank
/// needs no more forms of it.
pub(crate) fn offer<D: Data>(
    rt: &Runtime,
    progress: &Arc<Progress>,
    handle: &Handle<D>,
    key: Key,
    to: usize,
) -> Result<(), Error> {
    if has_memory_nodes(rt) {
        return offer_copy(rt, Arc::clone(progress), handle, key, to);
    }
    let shared = Arc::clone(progress);
    let offer = Arc::new(Offer::of(rt, handle, move |version| match version {
        Ok(meta) => shared.post_now(to, Message::Announced(key, meta).encode(shared.rank)),
        Err(failure) => {
            shared.withdraws(key, to);
            shared.post_failure(to, key, failure);
        }
    }));
    progress.offers(key, to, Arc::clone(&offer) as _);
    offer.begins()
}

/// Submits the task that marks a version as remote, after its announcement.
pub(crate) fn follow<D: Data>(
    rt: &Runtime,
    progress: &Arc<Progress>,
    handle: &Handle<D>,
    key: Key,
    from: usize,
) -> Result<(), Error> {
    let (inbox, after) = progress.expect(key, from, || handle.name(), || Event::of(rt, "announcement"))?;
    let (version, name) = (Version { progress: Arc::clone(progress), key, from }, handle.name());
    let version = Mutex::new(Some(version));
    let task = rt
        .task("announced")
        .operands((write_elsewhere(handle),))
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
    submit_after(task, after)
}

/// Requests the whole value as soon as it is announced. Returns the key under which it is received.
pub(crate) fn request_at_once(progress: &Arc<Progress>, handle: String, key: Key, from: usize) -> Key {
    let (whole, asks) = (Key { format: WHOLE, requested: true, ..key }, Arc::clone(progress));
    let then = move |announced| match announced {
        Ok(_) => asks.post_now(from, Message::Request(whole).encode(asks.rank)),
        Err(failure) => asks.arrives(whole, Err(failure)),
    };
    progress.listens(key, from, handle, Box::new(then));
    whole
}

/// A version that comes from another rank, or is announced there. Dropping it reports that no more
/// forms of it are needed.
pub(crate) struct Version {
    pub(crate) progress: Arc<Progress>,
    pub(crate) key: Key,
    pub(crate) from: usize,
}

impl Version {
    /// Requests a form of it.
    fn request<D: Data>(&self, format: Format, arrival: Arrival<D>) {
        let (progress, from) = (Arc::clone(&self.progress), self.from);
        let (key, name) = (Key { format, requested: true, ..self.key }, arrival.handle().name());
        let then = move |arrived| match arrived {
            Ok(message) => receives(&progress, (key, from), message, arrival),
            Err(failure) => arrival.complete(Err(failure)),
        };
        self.progress.listens(key, from, name, Box::new(then));
        self.progress.post_now(from, Message::Request(key).encode(self.progress.rank));
    }
}

/// Submits the task that unpacks a requested form.
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
        arrival.complete(Ok(value));
        Ok::<(), Error>(())
    });
    // A runtime that has ended has no waiting tasks.
    let _ = receive.priority(URGENT).coords([key.tag as u32, key.version as u32, from as u32]).submit();
}

impl Drop for Version {
    fn drop(&mut self) {
        if self.key.requested || self.key.format == DEFERRED {
            self.progress.has_requested_all(self.key, self.from);
        }
    }
}

/// A version of which other ranks may request forms.
pub(crate) trait Offered: Send + Sync {
    /// Submits the task that sends one.
    fn send(self: Arc<Self>, progress: &Arc<Progress>, key: Key, to: usize);
}

/// A reply to a rank that has requested a form. Dropped without one, it reports that there is none.
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

/// Submits the task that replies to a request with the result of `pack`, of at most this many
/// bytes.
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
    // A runtime that has ended sends nothing: dropping the reply reports that.
    let _ = send.priority(URGENT).coords([key.tag as u32, key.version as u32, to as u32]).submit();
}

impl<D: Data> Offered for Offer<D> {
    fn send(self: Arc<Self>, progress: &Arc<Progress>, key: Key, to: usize) {
        let to = Reply::new(progress, key, to, self.handle().name());
        reply(to, self.bytes_as(key.format), move |format, out| self.pack(format, out));
    }
}

/// A copy of a value, packed: a value that a memory manager holds cannot be read without waiting.
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
        announces.post_now(to, Message::Announced(key, meta).encode(announces.rank));
        Ok::<(), String>(())
    });
    let offer = offer.priority(URGENT).coords([key.tag as u32, key.version as u32, to as u32]).submit()?;
    when_done(rt, &offer, move |failure| {
        failure.into_iter().for_each(|failure| progress.post_failure(to, key, failure));
    })
}
