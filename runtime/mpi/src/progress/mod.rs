//! The progress thread of a rank, which transfers messages, and its shared state with the threads
//! that submit and run tasks.

mod clock;
mod driver;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use zellige_runtime::device::HostPool;
use zellige_runtime::internal::ranks::{Event, Unbounded, pool_for, trace_start, when_idle};
use zellige_runtime::{Canceller, Cause, Error, Failure, Runtime, TaskRef};

use crate::deferred::{DEFERRED, Offered};
use crate::error::{ClusterError, RemoteError};
use crate::journal::Journal;
use crate::transport::{Sender, Transport, Waker};
use crate::wire::{BEFORE_VALUE, Key, Message, is_same};

pub(crate) use driver::Driver;

/// Number of failures that are distinguished, as many as a runtime keeps.
const MOST_FAILURES: usize = 1000;

/// The input of a receiving task: the message with the value, or the failure.
pub(crate) type Arrival = Result<Vec<u8>, Arc<Failure>>;
/// The place in which the receiving task finds it.
pub(crate) type Inbox = Arc<Mutex<Option<Arrival>>>;
/// Continuation for an arrival, called by the thread that delivers it.
type Then = Box<dyn FnOnce(Arrival) + Send>;

/// Statistics of the values that a rank has sent and received. Their bytes are those of their
/// parts, in the format of the message; headers and other messages between ranks are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Values sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Values received, by tasks that have run.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
}

/// A value that has not arrived.
struct Expected {
    from: usize,
    handle: String,
    then: Then,
}

/// The state of the ranks that have entered a collective call: their number of steps with the hash,
/// and the failure of their own tasks, if there is one.
type Entered = Vec<Option<((u64, u64), Option<Failure>)>>;

#[derive(Default)]
struct State {
    expected: HashMap<Key, Expected>,
    /// Values that arrived before their receiver was submitted.
    early: HashMap<Key, Arrival>,
    /// By rank: the reason why nothing comes from it any more; the text leaves out the party that
    /// needs it.
    gone: Vec<Option<ClusterError>>,
    /// On rank 0: the ranks that have entered each call, by its number.
    entered: HashMap<u64, Entered>,
    agreed: HashMap<u64, Option<(usize, Failure)>>,
    /// The collective call in which the submitting thread waits.
    waits_in: Option<u64>,
    broken: Option<ClusterError>,
    /// The last question for the first rank's time that was answered, and the answer.
    time: Option<(u64, u64)>,
    /// Versions of which other ranks may request forms.
    offers: HashMap<(Key, usize), Arc<dyn Offered>>,
    /// Failures that came from other ranks or were sent to them, each once.
    failures: Vec<Arc<Failure>>,
    traffic: Traffic,
    ends: bool,
}

/// Continuations to call once the state is unlocked: they run code of the engine.
type Completed = Vec<(Then, Arrival)>;

/// State that all threads of one rank share.
pub(crate) struct Progress {
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    timeout: Duration,
    /// The zero of this rank's trace.
    started: Instant,
    waker: Waker,
    sender: Option<Sender>,
    outgoing: Mutex<Vec<(usize, Vec<u8>)>>,
    state: Mutex<State>,
    agreement: Condvar,
    is_broken: AtomicBool,
    pub(crate) journal: Mutex<Journal>,
    canceller: Canceller,
    /// True if no worker of this rank runs a task.
    is_idle: Box<dyn Fn() -> bool + Send + Sync>,
    /// Submits the tasks that send and receive requested forms.
    pub(crate) tasks: Unbounded,
    /// Memory for received values: fresh memory costs a page fault for each of its pages.
    pub(crate) memory: Option<Arc<HostPool>>,
}

impl Progress {
    pub(crate) fn new(transport: &impl Transport, timeout: Duration, runtime: &Runtime) -> Arc<Self> {
        Arc::new_cyclic(|progress| Progress::begin(transport, timeout, runtime, progress.clone()))
    }

    fn begin(transport: &impl Transport, timeout: Duration, runtime: &Runtime, progress: Weak<Self>) -> Self {
        let (rank, ranks) = (transport.rank(), transport.ranks());
        let look = move || progress.upgrade().into_iter().for_each(|progress| progress.looks_now());
        let state = State { gone: (0..ranks).map(|_| None).collect(), ..State::default() };
        Progress {
            rank,
            ranks,
            timeout,
            started: trace_start(runtime),
            waker: transport.waker(),
            sender: transport.sender(),
            outgoing: Mutex::default(),
            state: Mutex::new(state),
            agreement: Condvar::new(),
            is_broken: AtomicBool::new(false),
            journal: Mutex::default(),
            canceller: runtime.canceller(),
            is_idle: Box::new(when_idle(runtime, look)),
            tasks: Unbounded::of(runtime),
            memory: pool_for(runtime),
        }
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let rank = self.rank;
        (0..self.ranks).filter(move |&other| other != rank)
    }

    /// Sends a message, also to this rank.
    pub(crate) fn post(&self, to: usize, message: Vec<u8>) {
        self.outgoing.lock().push((to, message));
        (self.waker)();
    }

    /// Sends a message with a value of this many bytes to another rank. It may arrive before
    /// earlier messages.
    pub(crate) fn post_value(&self, to: usize, message: Vec<u8>, bytes: usize) {
        let mut state = self.state.lock();
        state.traffic.sent += 1;
        state.traffic.sent_bytes += bytes as u64;
        drop(state);
        self.post_now(to, message);
    }

    /// Sends a message to another rank without the progress thread, if possible. It may arrive
    /// before earlier ones.
    pub(crate) fn post_now(&self, to: usize, message: Vec<u8>) {
        let sent = match &self.sender {
            Some(send) => send(to, message),
            None => Err(message),
        };
        if let Err(message) = sent {
            self.post(to, message);
        }
    }

    pub(crate) fn post_to_others(&self, message: &Message) {
        let bytes = message.encode(self.rank);
        self.others().for_each(|to| self.post(to, bytes.clone()));
    }

    /// Counts a value of this many bytes that a task has received.
    pub(crate) fn has_received(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.traffic.received += 1;
        state.traffic.received_bytes += bytes as u64;
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.state.lock().traffic
    }

    /// Returns an error once the ranks cannot go on together.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !self.is_broken.load(Ordering::Acquire) {
            return Ok(());
        }
        self.state.lock().broken.clone().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Registers a task that will receive the value `key` into `handle`. Returns its inbox, and the
    /// event that it has to wait for if the value has not arrived.
    pub(crate) fn expect(
        &self,
        key: Key,
        from: usize,
        handle: impl Fn() -> String,
        event: impl FnOnce() -> Result<Event, Error>,
    ) -> Result<(Inbox, Option<TaskRef>), Error> {
        let mut state = self.state.lock();
        if let Some(arrival) = state.early.remove(&key) {
            return Ok((Arc::new(Mutex::new(Some(arrival))), None));
        }
        if let Some(error) = state.why_not(key, from, &handle()) {
            return Ok((Arc::new(Mutex::new(Some(Err(not_received(handle(), error))))), None));
        }
        drop(state);
        // Linking a node of the engine may run other code: not under the lock. An arrival meanwhile
        // is checked again.
        let event = event()?;
        let (inbox, task) = (Inbox::default(), event.task().clone());
        let mut state = self.state.lock();
        let arrival = match state.early.remove(&key) {
            Some(arrival) => Some(arrival),
            None => state.why_not(key, from, &handle()).map(|error| Err(not_received(handle(), error))),
        };
        match arrival {
            Some(arrival) => *inbox.lock() = Some(arrival),
            None => {
                let place = Arc::clone(&inbox);
                let then: Then = Box::new(move |arrival| {
                    *place.lock() = Some(arrival);
                    drop(event);
                });
                state.expected.insert(key, Expected { from, handle: handle(), then });
                return Ok((inbox, Some(task)));
            }
        }
        Ok((inbox, None))
    }

    /// Enters the collective call with this number, and waits until all ranks have; `failure`: of
    /// this rank's own tasks. Returns the failure of a rank, if there was one.
    pub(crate) fn agree(
        &self,
        call: u64,
        failure: Option<Failure>,
    ) -> Result<Option<(usize, Failure)>, Error> {
        self.state.lock().waits_in = Some(call);
        let (steps, hash) = self.journal.lock().state();
        self.post(0, Message::Entered { call, steps, hash, failure }.encode(self.rank));
        let mut state = self.state.lock();
        loop {
            if let Some(failure) = state.agreed.remove(&call) {
                state.waits_in = None;
                return Ok(failure);
            }
            if let Some(error) = state.nothing_from(0, "a collective call") {
                state.waits_in = None;
                return Err(error.into());
            }
            self.agreement.wait(&mut state);
        }
    }

    /// Returns a heartbeat with the state of the steps so far.
    fn beat(&self) -> Message {
        let (steps, hash) = self.journal.lock().state();
        Message::Beat { steps, hash }
    }

    /// Notes that the ranks cannot go on together: all that wait for another rank get the error.
    pub(crate) fn breaks(&self, error: ClusterError) {
        let mut state = self.state.lock();
        if state.broken.is_some() {
            return;
        }
        state.broken = Some(error.clone());
        self.is_broken.store(true, Ordering::Release);
        let all = state.expected.drain().map(|(_, expected)| expected);
        let completed: Completed = all.map(|expected| expected.fails(&error)).collect();
        let offers = std::mem::take(&mut state.offers);
        self.agreement.notify_all();
        drop(state);
        drop(offers);
        completed.into_iter().for_each(|(then, arrival)| then(arrival));
    }

    /// Notes that the ranks cannot go on together, and notifies the other ranks.
    pub(crate) fn aborts(&self, error: ClusterError) {
        if !self.is_broken.load(Ordering::Acquire) {
            self.post_to_others(&Message::Abort(error.to_string()));
            self.breaks(error);
        }
    }

    /// Makes rank 0 compare the steps so far.
    pub(crate) fn compare(&self) {
        self.post(0, self.beat().encode(self.rank));
    }

    /// Wakes the progress thread if this rank only waits: a worker has found nothing to do.
    fn looks_now(&self) {
        if self.only_waits() {
            (self.waker)();
        }
    }

    /// True if nothing happens on this rank until a message arrives.
    fn only_waits(&self) -> bool {
        let state = self.state.lock();
        let waits = !state.expected.is_empty() || state.waits_in.is_some();
        drop(state);
        waits && (self.is_idle)()
    }

    /// Ends the progress thread, once all posted messages have been sent.
    pub(crate) fn end(&self) {
        self.state.lock().ends = true;
        (self.waker)();
    }

    /// Notes that nothing comes from a rank any more.
    fn is_gone(&self, rank: usize, error: ClusterError) {
        let mut state = self.state.lock();
        // A rank that has left still sends requested forms.
        let is_left = |error: &ClusterError| matches!(error, ClusterError::Left { .. });
        if state.gone[rank].as_ref().is_some_and(|before| !is_left(before) || is_left(&error)) {
            return;
        }
        let keeps_requested = is_left(&error);
        state.gone[rank] = Some(error);
        let keys: Vec<Key> = state
            .expected
            .iter()
            .filter(|(key, expected)| expected.from == rank && !(keeps_requested && key.requested))
            .map(|(&key, _)| key)
            .collect();
        let offers: Vec<_> = state.offers.extract_if(|&(_, to), _| to == rank).collect();
        let mut completed = Completed::new();
        for key in keys {
            let Some(expected) = state.expected.remove(&key) else { continue };
            if let Some(error) = state.nothing_from(rank, &expected.handle) {
                completed.push(expected.fails(&error));
            }
        }
        self.agreement.notify_all();
        drop(state);
        drop(offers);
        completed.into_iter().for_each(|(then, arrival)| then(arrival));
        self.look_at_calls();
    }

    pub(crate) fn arrives(&self, key: Key, arrival: Arrival) {
        let mut state = self.state.lock();
        match state.expected.remove(&key) {
            Some(Expected { then, .. }) => {
                drop(state);
                then(arrival);
            }
            None => drop(state.early.insert(key, arrival)),
        }
    }

    /// Calls `then` with the value `key` as soon as it has arrived, or with the reason why it will
    /// not.
    pub(crate) fn listens(&self, key: Key, from: usize, handle: String, then: Then) {
        let mut state = self.state.lock();
        let arrival = match state.early.remove(&key) {
            Some(arrival) => Some(arrival),
            None => state.why_not(key, from, &handle).map(|error| Err(not_received(handle.clone(), error))),
        };
        match arrival {
            None => drop(state.expected.insert(key, Expected { from, handle, then })),
            Some(arrival) => {
                drop(state);
                then(arrival);
            }
        }
    }

    /// Offers a version: another rank may request forms of it.
    pub(crate) fn offers(&self, key: Key, to: usize, offer: Arc<dyn Offered>) {
        let mut state = self.state.lock();
        let is_gone = state.broken.is_some() || state.gone[to].is_some();
        if !is_gone {
            state.offers.insert((key, to), offer);
        }
    }

    /// Withdraws an offer.
    pub(crate) fn withdraws(&self, key: Key, to: usize) {
        let mut state = self.state.lock();
        let offer = state.offers.remove(&(key, to));
        self.agreement.notify_all();
        drop(state);
        drop(offer);
    }

    /// Reports that this rank needs no more forms of the version that `key` names, which another
    /// rank has announced.
    pub(crate) fn has_requested_all(&self, key: Key, from: usize) {
        let version = Key { format: DEFERRED, requested: false, ..key };
        self.post(from, Message::Done(version).encode(self.rank));
    }

    /// Processes the request of a rank for a form.
    fn is_requested(self: &Arc<Self>, key: Key, from: usize) {
        let version = Key { format: DEFERRED, requested: false, ..key };
        let offer = self.state.lock().offers.get(&(version, from)).cloned();
        // Absent only if this rank cannot go on, and the other is notified of that.
        offer.into_iter().for_each(|offer| offer.send(self, key, from));
    }

    /// Waits until other ranks have requested all forms that they need.
    pub(crate) fn waits_for_requests(&self) {
        let mut state = self.state.lock();
        while !state.offers.is_empty() {
            self.agreement.wait(&mut state);
        }
    }

    /// Returns one failure for all that have the same origin, so that it is reported once. A
    /// failure of this rank that comes back is replaced by the original.
    fn shared(&self, failure: Failure) -> Arc<Failure> {
        let mut state = self.state.lock();
        if let Some(known) = state.failures.iter().find(|known| is_same(known, &failure, self.rank)) {
            return Arc::clone(known);
        }
        let failure = Arc::new(failure);
        state.keep(&failure);
        failure
    }

    /// Notifies another rank that a value that it needs does not exist.
    pub(crate) fn post_failure(&self, to: usize, key: Key, failure: Arc<Failure>) {
        let message = Message::Poisoned(key, (*failure).clone()).encode(self.rank);
        let mut state = self.state.lock();
        state.keep(&failure);
        drop(state);
        self.post(to, message);
    }

    fn enters(&self, from: usize, call: u64, steps: (u64, u64), failure: Option<Failure>) {
        let ranks = self.ranks;
        let mut state = self.state.lock();
        let entered = state.entered.entry(call).or_insert_with(|| vec![None; ranks]);
        entered[from] = Some((steps, failure));
        drop(state);
        self.look_at_calls();
    }

    /// True if two ranks have entered one call after different steps.
    fn calls_differ(&self) -> bool {
        self.state.lock().entered.values().any(|entered| !is_uniform(entered))
    }

    /// Checks, on rank 0, whether all ranks have entered a call, or one never will.
    fn look_at_calls(&self) {
        let mut state = self.state.lock();
        let complete = |entered: &Entered| entered.iter().all(Option::is_some) && is_uniform(entered);
        let calls: Vec<u64> =
            state.entered.iter().filter(|(_, entered)| complete(entered)).map(|(&call, _)| call).collect();
        for call in calls {
            let entered = state.entered.remove(&call).unwrap_or_default().into_iter().flatten();
            let failures = entered.map(|(_, failure)| failure);
            let first =
                failures.enumerate().find_map(|(rank, failure)| failure.map(|failure| (rank, failure)));
            let message = Message::Agreed(call, first.clone());
            state.agreed.insert(call, first);
            self.agreement.notify_all();
            self.post_to_others(&message);
        }
        let missing = state.entered.values().find_map(|entered| {
            entered.iter().enumerate().position(|(rank, own)| own.is_none() && state.gone[rank].is_some())
        });
        let error = missing.and_then(|rank| state.nothing_from(rank, "a collective call"));
        drop(state);
        if let Some(error) = error {
            self.aborts(error);
        }
    }

    /// Returns the task or call that needs a message from a rank.
    fn need_of(&self, state: &State, rank: usize) -> Option<String> {
        if let Some(expected) = state.expected.values().find(|expected| expected.from == rank) {
            return Some(expected.handle.clone());
        }
        if state.offers.keys().any(|&(_, to)| to == rank) {
            return Some("values that it may request".into());
        }
        let call = state.waits_in?;
        let missing = || state.entered.get(&call).is_none_or(|entered| entered[rank].is_none());
        (rank == 0 || (self.rank == 0 && missing())).then(|| "a collective call".into())
    }
}

impl State {
    fn keep(&mut self, failure: &Arc<Failure>) {
        let known = self.failures.iter().any(|known| Arc::ptr_eq(known, failure));
        if !known && self.failures.len() < MOST_FAILURES {
            self.failures.push(Arc::clone(failure));
        }
    }

    /// Returns the reason why the value `key` does not come from a rank, if that is so. A rank that
    /// has left still sends requested forms.
    fn why_not(&self, key: Key, from: usize, handle: &str) -> Option<ClusterError> {
        let has_left = matches!(self.gone[from], Some(ClusterError::Left { .. }));
        if key.requested && has_left && self.broken.is_none() {
            return None;
        }
        self.nothing_from(from, handle)
    }

    /// Returns the reason why nothing that `what` needs comes from a rank, if that is so.
    fn nothing_from(&self, rank: usize, what: &str) -> Option<ClusterError> {
        let needed = |error: &ClusterError| match error.clone() {
            ClusterError::Left { rank, steps, .. } => ClusterError::Left { rank, steps, what: what.into() },
            ClusterError::Silent { rank, time, .. } => ClusterError::Silent { rank, time, what: what.into() },
            other => other,
        };
        self.broken.clone().or_else(|| self.gone[rank].as_ref().map(needed))
    }
}

impl Expected {
    /// Ends the expectation with an error.
    fn fails(self, error: &ClusterError) -> (Then, Arrival) {
        (self.then, Err(not_received(self.handle, error.clone())))
    }
}

fn is_uniform(entered: &Entered) -> bool {
    let mut steps = entered.iter().flatten().map(|(steps, _)| steps);
    let first = steps.next();
    steps.all(|other| Some(other) == first)
}

fn not_received(handle: String, error: ClusterError) -> Arc<Failure> {
    Arc::new(Failure { task: "receive".into(), operands: vec![handle], cause: Cause::Error(Arc::new(error)) })
}

/// True if it came from another rank, which reports it.
pub(crate) fn is_remote(failure: &Failure) -> bool {
    failure.downcast_ref::<RemoteError>().is_some()
}

impl From<ClusterError> for Error {
    fn from(error: ClusterError) -> Error {
        Error::Cluster(Arc::new(error))
    }
}

/// Returns the value in a message.
pub(crate) fn value_of(message: &[u8]) -> &[u8] {
    message.get(BEFORE_VALUE..).unwrap_or_default()
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Progress(rank {} of {})", self.rank, self.ranks)
    }
}
