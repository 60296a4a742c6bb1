//! The thread that sends messages, receives them and calls callbacks.
//!
//! A message has a head of four numbers: its kind, the communicator, the tag, and its number among
//! those with the same sender, receiver, communicator and tag. Senders and receivers count in the
//! order of the calls, so the first send belongs to the first receive whatever data get ready
//! first. A message that comes before its receive is kept.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use zellige_mpi::{Sender, Transport, TransportError, Waker};
use zellige_runtime::internal::threads::{SMALL_STACK, start_thread};

use super::world::Comm;
use crate::instance::{complain, errno};

/// Bytes of the head of a message.
pub const HEAD: usize = 32;

/// Kinds of messages: data; data whose receive is to be answered; why data could not be sent; that
/// answer; part of a barrier.
pub const DATA: u64 = 0;
pub const ANSWERED: u64 = 1;
pub const FAILED: u64 = 2;
const ANSWER: u64 = 3;
const BARRIER: u64 = 4;

/// Messages between this process and another one with the same communicator and tag.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    pub comm: u64,
    /// Rank of the other process in the communicator of the start.
    pub with: usize,
    pub tag: i64,
}

type Job = Box<dyn FnOnce() + Send>;
/// Takes a message: its bytes with the head, after which data begin.
type Taker = Box<dyn FnOnce(Vec<u8>) + Send>;

#[derive(Default)]
struct State {
    sent: HashMap<Key, u64>,
    received: HashMap<Key, u64>,
    /// Messages that came before their receives.
    arrived: HashMap<(Key, u64), Vec<u8>>,
    /// Receives whose data are ready for a message.
    expected: HashMap<(Key, u64), Taker>,
    /// Sends that wait for the answer of their receiver.
    unanswered: HashMap<(Key, u64), Job>,
    barriers: HashMap<u64, u64>,
    /// Parts of barriers that have arrived: communicator, number, round, sender.
    parts: HashSet<(u64, u64, i64, usize)>,
    callbacks: VecDeque<Job>,
    /// Number of requests that are not complete with their callback.
    pending: usize,
    /// Number of requests that were ever begun.
    begun: u64,
    ends: bool,
    error: Option<String>,
}

/// The connection with the other processes.
pub struct Link {
    pub rank: usize,
    state: Mutex<State>,
    changed: Condvar,
    outgoing: Mutex<Vec<(usize, Vec<u8>)>>,
    waker: Waker,
    sender: Option<Sender>,
    /// Number of threads that wait for a message.
    waiting: AtomicUsize,
    /// Bytes of data that were sent to each rank.
    bytes: Vec<AtomicU64>,
    counts: AtomicBool,
}

static LINK: Mutex<Option<(Arc<Link>, JoinHandle<()>)>> = Mutex::new(None);

thread_local! {
    static IS_DRIVER: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Returns the connection, if there is one.
pub fn get() -> Option<Arc<Link>> {
    LINK.lock().as_ref().map(|(link, _)| Arc::clone(link))
}

/// Returns true if this thread calls the callbacks, so that it must not wait for messages.
pub fn is_driver() -> bool {
    IS_DRIVER.with(std::cell::Cell::get)
}

/// Starts the thread.
pub fn begin(transport: impl Transport) {
    let link = Arc::new(Link {
        rank: transport.rank(),
        state: Mutex::default(),
        changed: Condvar::new(),
        outgoing: Mutex::default(),
        waker: transport.waker(),
        sender: transport.sender(),
        waiting: AtomicUsize::new(0),
        bytes: (0..transport.ranks()).map(|_| AtomicU64::new(0)).collect(),
        counts: AtomicBool::new(std::env::var("STARPU_MPI_STATS").is_ok_and(|text| text.trim() != "0")),
    });
    let here = Arc::clone(&link);
    let thread = start_thread("starpu-mpi".into(), SMALL_STACK, move || here.drive(transport));
    match thread {
        Ok(thread) => *LINK.lock() = Some((link, thread)),
        Err(error) => {
            complain(format_args!("no thread for messages: {error}"));
            std::process::abort();
        }
    }
}

/// Ends the thread once all other processes end theirs.
pub fn end(link: &Link) {
    link.state.lock().ends = true;
    (link.waker)();
    let taken = LINK.lock().take();
    if let Some((_, thread)) = taken
        && thread.join().is_err()
    {
        complain(format_args!("the thread of messages has panicked"));
    }
}

/// Returns the head of a message.
pub fn head(kind: u64, comm: u64, tag: i64, number: u64) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    for (to, word) in head.chunks_exact_mut(8).zip([kind, comm, tag as u64, number]) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    head
}

/// Returns the kind of a message.
pub fn kind(message: &[u8]) -> u64 {
    message.first().map_or(DATA, |&kind| u64::from(kind))
}

fn words(message: &[u8]) -> Option<[u64; 4]> {
    let mut words = [0; 4];
    for (at, word) in words.iter_mut().enumerate() {
        *word = u64::from_le_bytes(message.get(8 * at..8 * at + 8)?.try_into().ok()?);
    }
    Some(words)
}

impl Link {
    /// Counts a request that begins.
    pub fn begins(&self) {
        let mut state = self.state.lock();
        state.pending += 1;
        state.begun += 1;
    }

    /// Ends a request: `callback` is called by the thread of messages, and the request counts as
    /// complete after that.
    pub fn completes(&self, callback: Option<Job>) {
        let mut state = self.state.lock();
        match callback {
            Some(callback) => {
                state.callbacks.push_back(callback);
                drop(state);
                (self.waker)();
            }
            None => {
                state.pending -= 1;
                drop(state);
                self.changed.notify_all();
            }
        }
    }

    /// Returns the number of the next message that is sent.
    pub fn number_of_send(&self, key: Key) -> u64 {
        next(&mut self.state.lock().sent, key)
    }

    /// Returns the number of the next message that is received.
    pub fn number_of_receive(&self, key: Key) -> u64 {
        next(&mut self.state.lock().received, key)
    }

    /// Sends a message. `answered` is called when the receiver answers.
    pub fn post(&self, key: Key, number: u64, message: Vec<u8>, answered: Option<Job>) {
        if let Some(answered) = answered {
            self.state.lock().unanswered.insert((key, number), answered);
        }
        if self.counts.load(Ordering::Relaxed) {
            self.bytes[key.with].fetch_add((message.len() - HEAD) as u64, Ordering::Relaxed);
        }
        self.send(key.with, message);
    }

    fn send(&self, to: usize, message: Vec<u8>) {
        let message = match &self.sender {
            Some(sender) if to != self.rank => match sender(to, message) {
                Ok(()) => return,
                Err(message) => message,
            },
            _ => message,
        };
        self.outgoing.lock().push((to, message));
        (self.waker)();
    }

    /// Gives the message with this number to `take`: at once if it is here, else when it comes.
    pub fn expect(&self, key: Key, number: u64, take: Taker) {
        let mut state = self.state.lock();
        match state.arrived.remove(&(key, number)) {
            Some(message) => {
                drop(state);
                self.deliver(key, number, message, take);
            }
            None => {
                state.expected.insert((key, number), take);
            }
        }
    }

    fn deliver(&self, key: Key, number: u64, message: Vec<u8>, take: Taker) {
        if kind(&message) == ANSWERED {
            self.send(key.with, head(ANSWER, key.comm, key.tag, number).to_vec());
        }
        take(message);
    }

    /// Waits until `is_over`, which is looked at after each request that ends.
    pub fn wait(&self, mut is_over: impl FnMut() -> bool) -> c_int {
        self.waits(|_| is_over())
    }

    fn waits(&self, mut is_over: impl FnMut(&mut State) -> bool) -> c_int {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        (self.waker)();
        let mut state = self.state.lock();
        let mut result = 0;
        while !is_over(&mut state) {
            if state.error.is_some() {
                result = -errno::EIO;
                break;
            }
            self.changed.wait(&mut state);
        }
        drop(state);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// Waits until all requests that have begun are complete; returns how many there ever were.
    pub fn wait_for_requests(&self) -> u64 {
        let mut begun = 0;
        self.waits(|state| {
            begun = state.begun;
            state.pending == 0
        });
        begun
    }

    /// Waits until all members of a communicator have called this: in round k each tells the one
    /// 2^k ranks on.
    pub fn barrier(&self, comm: &Comm) -> c_int {
        let count = comm.members.len();
        let number = {
            let mut state = self.state.lock();
            let number = state.barriers.entry(comm.id).or_default();
            *number += 1;
            *number
        };
        let (mut step, mut round) = (1, 0);
        while step < count {
            let to = comm.members[(comm.me + step) % count];
            let from = comm.members[(comm.me + count - step) % count];
            self.send(to, head(BARRIER, comm.id, round, number).to_vec());
            let result = self.waits(|state| state.parts.remove(&(comm.id, number, round, from)));
            if result != 0 {
                return result;
            }
            step *= 2;
            round += 1;
        }
        0
    }

    /// Writes the bytes that were sent to each rank.
    pub fn sent_bytes(&self) -> impl Iterator<Item = u64> {
        self.bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed))
    }

    pub fn set_counting(&self, counts: bool) {
        self.counts.store(counts, Ordering::Relaxed);
    }

    fn drive(&self, mut transport: impl Transport) {
        IS_DRIVER.with(|is_driver| is_driver.set(true));
        match self.drives(&mut transport) {
            Ok(()) => {
                transport.close(None);
                self.report_unreceived();
            }
            Err(error) => {
                complain(format_args!("messages between processes have ended: {error}"));
                self.state.lock().error = Some(error.0);
                self.changed.notify_all();
            }
        }
    }

    /// Says which messages nobody has received.
    fn report_unreceived(&self) {
        let state = self.state.lock();
        let first = state.arrived.keys().min_by_key(|(key, number)| (key.with, key.tag, *number));
        if let Some((key, _)) = first {
            complain(format_args!(
                "starpu_mpi_shutdown: {} messages were not received, the first one from rank {} with tag {}",
                state.arrived.len(),
                key.with,
                key.tag
            ));
        }
    }

    fn drives(&self, transport: &mut impl Transport) -> Result<(), TransportError> {
        loop {
            let ends = self.state.lock().ends;
            let outgoing = std::mem::take(&mut *self.outgoing.lock());
            let mut is_idle = outgoing.is_empty();
            for (to, message) in outgoing {
                if to == self.rank {
                    self.handle(to, message);
                } else {
                    transport.send(to, message)?;
                }
            }
            while let Some((from, message)) = transport.receive()? {
                is_idle = false;
                self.handle(from, message);
            }
            let callbacks = std::mem::take(&mut self.state.lock().callbacks);
            is_idle &= callbacks.is_empty();
            for callback in callbacks {
                callback();
                self.completes(None);
            }
            if !is_idle {
                continue;
            }
            if ends {
                return Ok(());
            }
            transport.wait(Duration::from_secs(1), &|| self.waiting.load(Ordering::Relaxed) > 0);
        }
    }

    fn handle(&self, from: usize, message: Vec<u8>) {
        let Some([kind, comm, tag, number]) = words(&message) else {
            return complain(format_args!("rank {from} has sent a message without a head"));
        };
        let key = Key { comm, with: from, tag: tag as i64 };
        let mut state = self.state.lock();
        match kind {
            DATA | ANSWERED | FAILED => match state.expected.remove(&(key, number)) {
                Some(take) => {
                    drop(state);
                    self.deliver(key, number, message, take);
                }
                None => {
                    state.arrived.insert((key, number), message);
                }
            },
            ANSWER => {
                let answered = state.unanswered.remove(&(key, number));
                drop(state);
                answered.into_iter().for_each(|answered| answered());
            }
            BARRIER => {
                state.parts.insert((comm, number, tag as i64, from));
                drop(state);
                self.changed.notify_all();
            }
            other => complain(format_args!("rank {from} has sent a message of kind {other}")),
        }
    }
}

fn next(numbers: &mut HashMap<Key, u64>, key: Key) -> u64 {
    let next = numbers.entry(key).or_default();
    *next += 1;
    *next - 1
}
