//! Ranks that are processes, over MPI.
//!
//! | what | who calls MPI |
//! | --- | --- |
//! | initialisation, a communicator per transport, finalisation | the thread that has made [`Mpi`] |
//! | anything that a program with MPI of its own wants ([`Mpi::of_program`]) | any of its threads |
//! | sends of values | whichever thread has made one, behind the transport's lock |
//! | everything else | the progress thread of the cluster that has the transport, behind that lock |
//!
//! There is one transport at a time, and [`Mpi`] makes no calls while there is one. So no two calls
//! overlap, as `MPI_THREAD_SERIALIZED` requires.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ::mpi::Threading;
use ::mpi::environment::Universe;
use ::mpi::ffi::{MPI_Comm, MPI_Comm_dup};
use ::mpi::request::{Request, StaticScope};
use ::mpi::topology::SimpleCommunicator;
use ::mpi::traits::*;
use parking_lot::{Condvar, Mutex};

use crate::buffers::BUFFERS;
use crate::transport::{Sender, Transport, TransportError, Waker};

/// Maximum bytes of one MPI message: MPI counts with 31 bits, and a longer message is sent in
/// parts.
const MOST: usize = 1 << 26;

/// Tags of MPI messages: a message or the last part of one; a part that others follow; the last
/// message of its sender.
const WHOLE: i32 = 0;
const PART: i32 = 1;
const END: i32 = 2;

/// Sleep time of a progress thread between polls: this share of the time since the last progress,
/// within these bounds. MPI has no call that waits for a message or for another thread, and one
/// that spins would take a core from a worker.
const PAUSE_SHARE: u32 = 16;
const SHORTEST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// Time after the last progress for which a rank polls without pauses if all its workers wait.
const EAGER: Duration = Duration::from_millis(2);

/// State of the transport: none; one in use; or one that has ended without the others, so that
/// messages may still be in transit.
const FREE: u8 = 0;
const IN_USE: u8 = 1;
const UNFINISHED: u8 = 2;

/// MPI, initialised. The ranks are the processes that `mpirun` has started, or this one alone
/// without it.
///
/// Dropping it finalises MPI, which waits for the other ranks. It does not if the ranks could not
/// end together, because one of them is silent. A process that ends without finalising makes
/// `mpirun` end the others.
pub struct Mpi {
    /// Communicator of all ranks, which is freed before MPI is finalised.
    all: SimpleCommunicator,
    /// Absent if somebody else finalises MPI.
    universe: Option<Universe>,
    rank: usize,
    ranks: usize,
    state: Arc<AtomicU8>,
    /// MPI is finalised by the thread that has initialised it.
    not_send: PhantomData<*const ()>,
}

impl Mpi {
    /// Initialises MPI, once in a process.
    ///
    /// # Errors
    /// MPI has been initialised before, or does not let threads other than the first call it. An
    /// MPI library that cannot start ends the process itself.
    pub fn initialize() -> Result<Mpi, TransportError> {
        let Some((universe, threading)) = ::mpi::initialize_with_threading(Threading::Serialized) else {
            return Err(TransportError("MPI has been initialised before in this process".into()));
        };
        if threading < Threading::Serialized {
            return Err(TransportError(format!(
                "this MPI library gives threads the level {threading:?}, and MPI_THREAD_SERIALIZED is needed: \
                 take one that was built with threads"
            )));
        }
        let all = universe.world();
        Ok(Mpi::on(Some(universe), all))
    }

    /// Uses MPI that the program has initialised, and finalises itself, with the ranks of a
    /// communicator of the program. Collective.
    ///
    /// # Errors
    /// MPI makes no copy of the communicator.
    ///
    /// # Safety
    /// MPI is initialised, `all` is a communicator between these processes, and both remain so
    /// until this and its transports are dropped. Either MPI was initialised with
    /// `MPI_THREAD_MULTIPLE`, or nobody else calls it while there is a transport.
    pub unsafe fn of_program(all: MPI_Comm) -> Result<Mpi, TransportError> {
        let mut copy = all;
        // SAFETY: a communicator, by the caller's promise.
        let failed = unsafe { MPI_Comm_dup(all, &raw mut copy) };
        if failed != 0 {
            return Err(TransportError(format!("MPI_Comm_dup has returned {failed}")));
        }
        // SAFETY: a communicator that nobody else has.
        Ok(Mpi::on(None, unsafe { SimpleCommunicator::from_raw(copy) }))
    }

    fn on(universe: Option<Universe>, all: SimpleCommunicator) -> Mpi {
        let (rank, ranks) = (all.rank() as usize, all.size() as usize);
        let state = Arc::new(AtomicU8::new(FREE));
        Mpi { universe, all, rank, ranks, state, not_send: PhantomData }
    }

    /// Returns this process' rank, from 0.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Creates a transport for one cluster, on a communicator of its own. Collective. Another one
    /// can be created once the cluster has been dropped.
    ///
    /// # Errors
    /// A transport is in use, or ranks could not end the last one together.
    pub fn transport(&self) -> Result<MpiTransport, TransportError> {
        let taken = self.state.compare_exchange(FREE, IN_USE, Ordering::AcqRel, Ordering::Acquire);
        if taken.is_err() {
            return Err(TransportError(
                "MPI carries one cluster at a time, and there is one, or one that has lost ranks".into(),
            ));
        }
        let link = Link {
            communicator: Some(self.all.duplicate()),
            sending: Vec::new(),
            peers: (0..self.ranks).map(|_| Peer::default()).collect(),
            ready: VecDeque::new(),
            moved: Instant::now(),
        };
        Ok(MpiTransport {
            rank: self.rank,
            ranks: self.ranks,
            link: Arc::new(Mutex::new(link)),
            bell: Arc::default(),
            state: Arc::clone(&self.state),
        })
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        if self.state.load(Ordering::Acquire) != FREE {
            mem::forget(self.universe.take());
        }
    }
}

impl std::fmt::Debug for Mpi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mpi(rank {} of {})", self.rank, self.ranks)
    }
}

/// Transport of one rank of an MPI program. Messages are sent and received without blocking.
/// Between polls the progress thread sleeps for a sixteenth of the time since the last progress, 20
/// µs to 1 ms; a message to send wakes it at once. A rank of which all workers wait for messages
/// polls without pauses for 2 ms. So the delay of a message is at most that share of the time since
/// the one before, and an idle rank polls a thousand times a second.
pub struct MpiTransport {
    rank: usize,
    ranks: usize,
    link: Arc<Mutex<Link>>,
    bell: Arc<Bell>,
    state: Arc<AtomicU8>,
}

/// The state for MPI calls: only the thread that has it locked calls MPI.
struct Link {
    /// Absent once the transport is closed.
    communicator: Option<SimpleCommunicator>,
    sending: Vec<Transfer>,
    /// The peers by rank.
    peers: Vec<Peer>,
    ready: VecDeque<(usize, Vec<u8>)>,
    /// Time of the last progress.
    moved: Instant,
}

// SAFETY: the parts of it that are not `Send` are handles of MPI. Any thread may use these, but not
// at the same time as another (`MPI_THREAD_SERIALIZED`): they are used behind a lock, and there is
// one `Link` at a time (see `Mpi::transport`).
unsafe impl Send for Link {}

/// Messages in transit from one rank.
#[derive(Default)]
struct Peer {
    /// MPI messages that have been matched, in their order, with their tags.
    arriving: VecDeque<(i32, Transfer)>,
    /// The parts so far of a long message.
    parts: Vec<u8>,
    ended: bool,
}

impl Peer {
    /// Returns the next message that is complete.
    fn next(&mut self) -> Option<Vec<u8>> {
        while self.arriving.front_mut().is_some_and(|(_, transfer)| transfer.is_complete()) {
            let (tag, transfer) = self.arriving.pop_front()?;
            let bytes = transfer.into_bytes();
            match tag {
                END => self.ended = true,
                WHOLE if self.parts.is_empty() => return Some(bytes),
                _ => self.parts.extend(bytes),
            }
            if tag == WHOLE {
                return Some(mem::take(&mut self.parts));
            }
        }
        None
    }
}

/// Wakes the progress thread.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    condition: Condvar,
}

/// A buffer that MPI reads or writes until its request is complete. If it is dropped before, it is
/// never freed.
struct Transfer {
    request: Option<Request<'static, [u8], StaticScope>>,
    bytes: Vec<u8>,
}

impl Transfer {
    fn begin(
        mut bytes: Vec<u8>,
        start: impl FnOnce(&'static mut [u8]) -> Request<'static, [u8], StaticScope>,
    ) -> Self {
        let (pointer, length) = (bytes.as_mut_ptr(), bytes.len());
        // SAFETY: the vector's elements stay at their address, and nothing else reads them, until
        // the request that `start` makes for them is complete. Only `into_bytes` moves the vector
        // out, and only then; `drop` leaks it before.
        let elements = unsafe { std::slice::from_raw_parts_mut(pointer, length) };
        Transfer { request: Some(start(elements)), bytes }
    }

    fn is_complete(&mut self) -> bool {
        match self.request.take().map(Request::test) {
            Some(Err(request)) => {
                self.request = Some(request);
                false
            }
            _ => true,
        }
    }

    /// Returns the bytes of a completed transfer.
    fn into_bytes(mut self) -> Vec<u8> {
        assert!(self.request.is_none(), "a transfer that is not complete");
        mem::take(&mut self.bytes)
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            mem::forget((request, mem::take(&mut self.bytes)));
        }
    }
}

impl Link {
    fn begin(&mut self, to: usize, bytes: Vec<u8>, tag: i32) {
        let Some(communicator) = &self.communicator else { return };
        let process = communicator.process_at_rank(to as i32);
        let start =
            |bytes: &'static mut [u8]| process.immediate_send_with_tag::<_, [u8]>(StaticScope, bytes, tag);
        self.sending.push(Transfer::begin(bytes, start));
        self.moved = Instant::now();
    }

    /// Advances all transfers.
    fn advance(&mut self) {
        let Some(communicator) = &self.communicator else { return };
        let before = (self.sending.len(), self.ready.len());
        let mut matched = false;
        while let Some((message, status)) = communicator.any_process().immediate_matched_probe() {
            let length = status.count(u8::equivalent_datatype()) as usize;
            let start = |bytes: &'static mut [u8]| {
                message.immediate_matched_receive_into::<_, [u8]>(StaticScope, bytes)
            };
            let transfer = Transfer::begin(BUFFERS.of_length(length), start);
            self.peers[status.source_rank() as usize].arriving.push_back((status.tag(), transfer));
            matched = true;
        }
        let sent = self.sending.extract_if(.., Transfer::is_complete);
        sent.for_each(|transfer| BUFFERS.keep(transfer.into_bytes()));
        for (from, peer) in self.peers.iter_mut().enumerate() {
            while let Some(message) = peer.next() {
                self.ready.push_back((from, message));
            }
        }
        if matched || before != (self.sending.len(), self.ready.len()) {
            self.moved = Instant::now();
        }
    }
}

impl MpiTransport {
    /// Sleeps until the next poll, which depends on the time since the last progress, or until the
    /// bell rings.
    fn pause(&self, moved: Duration, at_most: Duration) {
        let pause = (moved / PAUSE_SHARE).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        let mut rung = self.bell.rung.lock();
        if !*rung {
            self.bell.condition.wait_for(&mut rung, pause.min(at_most));
        }
    }
}

impl Transport for MpiTransport {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn send(&mut self, to: usize, mut message: Vec<u8>) -> Result<(), TransportError> {
        let mut link = self.link.lock();
        if message.len() > MOST {
            let last = message.split_off((message.len() - 1) / MOST * MOST);
            message.chunks(MOST).for_each(|part| link.begin(to, part.to_vec(), PART));
            message = last;
        }
        link.begin(to, message, WHOLE);
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<(usize, Vec<u8>)>, TransportError> {
        let mut link = self.link.lock();
        if link.ready.is_empty() {
            link.advance();
        }
        Ok(link.ready.pop_front())
    }

    fn wait(&mut self, at_most: Duration, is_idle: &dyn Fn() -> bool) {
        let until = Instant::now() + at_most;
        loop {
            let mut link = self.link.lock();
            link.advance();
            let (is_ready, moved) = (!link.ready.is_empty(), link.moved.elapsed());
            drop(link);
            let left = until.saturating_duration_since(Instant::now());
            if is_ready || mem::take(&mut *self.bell.rung.lock()) || left.is_zero() {
                return;
            }
            // Spins on the core that the workers of this rank leave idle.
            if moved < EAGER && is_idle() {
                thread::yield_now();
            } else {
                self.pause(moved, left);
            }
        }
    }

    fn waker(&self) -> Waker {
        let bell = Arc::clone(&self.bell);
        Arc::new(move || {
            *bell.rung.lock() = true;
            bell.condition.notify_one();
        })
    }

    fn sender(&self) -> Option<Sender> {
        let link = Arc::clone(&self.link);
        Some(Arc::new(move |to: usize, message: Vec<u8>| match link.try_lock() {
            Some(mut link) if message.len() <= MOST && link.communicator.is_some() => {
                link.begin(to, message, WHOLE);
                Ok(())
            }
            // The progress thread is sending other messages, or this one is to be sent in parts.
            _ => Err(message),
        }))
    }

    fn close(&mut self, at_most: Option<Duration>) {
        let begin = Instant::now();
        let rank = self.rank;
        let others = (0..self.ranks).filter(|&to| to != rank);
        others.for_each(|to| self.link.lock().begin(to, Vec::new(), END));
        // Nobody rings for a transport that ends.
        *self.bell.rung.lock() = false;
        loop {
            let mut link = self.link.lock();
            link.advance();
            link.ready.clear();
            let ended = |(from, peer): (usize, &Peer)| from == rank || peer.ended;
            if link.sending.is_empty() && link.peers.iter().enumerate().all(ended) {
                // Frees the communicator.
                link.communicator = None;
                return;
            }
            let moved = link.moved.elapsed();
            drop(link);
            if at_most.is_some_and(|limit| begin.elapsed() >= limit) {
                return;
            }
            self.pause(moved, LONGEST_PAUSE);
        }
    }
}

impl Drop for MpiTransport {
    fn drop(&mut self) {
        let communicator = self.link.lock().communicator.take();
        let closed = communicator.is_none();
        // MPI would wait for the messages in transit if it was freed.
        mem::forget(communicator);
        self.state.store(if closed { FREE } else { UNFINISHED }, Ordering::Release);
    }
}

impl std::fmt::Debug for MpiTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MpiTransport(rank {} of {})", self.rank, self.ranks)
    }
}
