//! Threads that execute queued operations: any stream that is ready, in an order drawn from the
//! seed, with random delays.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::call::Call;
use super::run::{Bound, Twins};
use super::state::{Item, Mark, Record, State, event_name, gpu_of, refused, stream_name};
use crate::error::GpuError;

/// Number of operations that run concurrently.
const WORKERS: usize = 2;
/// One in this number of choices takes another stream than the one in turn, changes the turn, or is
/// delayed.
const SELDOM: u64 = 8;
/// Longest delay.
const LATEST: Duration = Duration::from_micros(200);

/// State that the threads share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Something can be executed: what the threads wait for.
    queued: Condvar,
    /// A record was reached, or a lost GPU executes one operation less: what callers wait for.
    ended: Condvar,
    pub(super) twins: Twins,
}

impl Shared {
    pub(super) fn new(state: State, twins: Twins) -> Arc<Shared> {
        Arc::new(Shared { state: Mutex::new(state), queued: Condvar::new(), ended: Condvar::new(), twins })
    }

    /// Runs a call that queues something or changes the state.
    pub(super) fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        self.settle(&mut state);
        let result = f(&mut state);
        // Most calls only ask. One thread is enough: it wakes the next one if there is more.
        if state.closing {
            self.queued.notify_all();
        } else if state.has_ready() {
            self.queued.notify_one();
        }
        self.settle(&mut state);
        result
    }

    /// Waits until lost GPUs execute nothing any more: after an error, the caller may free or use
    /// its host memory.
    fn settle(&self, state: &mut MutexGuard<'_, State>) {
        while state.is_dying() {
            self.ended.wait(state);
        }
    }

    /// Starts the threads; they end with [`close`](Shared::close).
    pub(super) fn start(self: &Arc<Self>) -> Vec<JoinHandle<()>> {
        let worker = || {
            let shared = Arc::clone(self);
            thread::spawn(move || shared.work())
        };
        std::iter::repeat_with(worker).take(WORKERS).collect()
    }

    /// Lets the threads end after the operation that they are at.
    pub(super) fn close(&self) {
        self.with(|state| state.closing = true);
    }

    fn work(&self) {
        let mut state = self.state.lock();
        while !state.closing {
            let ready = state.ready();
            if ready.is_empty() {
                self.queued.wait(&mut state);
                continue;
            }
            if ready.len() > 1 {
                self.queued.notify_one();
            }
            if state.random().is_multiple_of(SELDOM) {
                let delay = LATEST.mul_f64((state.random() >> 11) as f64 / (1u64 << 53) as f64);
                MutexGuard::unlocked(&mut state, || thread::sleep(delay));
                // Others have gone on meanwhile.
                let ready = state.ready();
                if let Some(stream) = state.choose(&ready) {
                    self.execute(&mut state, stream);
                }
            } else if let Some(stream) = state.choose(&ready) {
                self.execute(&mut state, stream);
            }
        }
    }

    /// Executes a stream's first item.
    fn execute(&self, state: &mut MutexGuard<'_, State>, token: u64) {
        let inner = &mut **state;
        let Some(stream) = inner.streams.get_mut(&token) else { return };
        let Some(item) = stream.queue.pop_front() else { return };
        let lost = inner.gpus[stream.gpu as usize].lost.clone();
        let is_record = matches!(item, Item::Record(_));
        match item {
            Item::Wait(_) => {}
            Item::Record(record) => {
                let end = lost.or_else(|| stream.fault.take()).map_or_else(|| Ok(Instant::now()), Err);
                let _ = record.ended.set(end);
            }
            Item::Run { .. } if lost.is_some() => {}
            Item::Run { call, bound, fails } => {
                stream.busy = true;
                let ended = match state.unreachable(&bound) {
                    Some(error) => Err(Failure::Told(error)),
                    None if fails => Err(Failure::Fault("this launch was told to fail".into())),
                    // SAFETY: operands do not overlap and nothing is queued that conflicts and is
                    // not ordered (`enqueue`); what is ordered before has ended, as streams run in
                    // order and waits are ready only then. Host memory is the caller's promise.
                    None => MutexGuard::unlocked(state, || unsafe { self.twins.run(&call, &bound) })
                        .map_err(Failure::Fault),
                };
                state.ended(token, &call, ended);
            }
        }
        state.sweep(token);
        // A GPU may have been lost while its operation ran, by another thread or by the operation.
        if is_record || state.is_any_lost() {
            self.ended.notify_all();
        }
    }

    /// Waits until the record is reached, and learns what was before it.
    pub(super) fn await_record(&self, record: &Record) -> Result<Instant, GpuError> {
        let mut state = self.state.lock();
        loop {
            if let Some(end) = record.ended.get() {
                state.host.join(&record.clock);
                self.settle(&mut state);
                return end.clone();
            }
            self.ended.wait(&mut state);
        }
    }

    /// Waits until all that is queued on a stream has ended.
    pub(super) fn synchronize(&self, token: u64) -> Result<(), GpuError> {
        let record = self.with(|state| {
            state.stream_outside_capture(token, "cuStreamSynchronize")?;
            Ok(state.enqueue_record(token))
        })?;
        self.await_record(&record).map(drop)
    }

    /// Returns the last record of an event; `None` if it was never recorded.
    pub(super) fn record_of(&self, event: u64, call: &'static str) -> Result<Option<Arc<Record>>, GpuError> {
        self.with(|state| match state.event(event, call)?.last.clone() {
            None => Ok(None),
            Some(Mark::Live(record)) => Ok(Some(record)),
            Some(Mark::Captured { .. }) => {
                let reason = format!("{} was recorded in a capture", event_name(event));
                Err(refused(gpu_of(event), call, reason))
            }
        })
    }

    /// Returns true if a record is reached; the host then knows everything before it as ended.
    pub(super) fn is_reached(&self, record: &Record) -> Result<bool, GpuError> {
        self.with(|state| match record.ended.get() {
            None => Ok(false),
            Some(end) => {
                state.host.join(&record.clock);
                end.clone().map(|_| true)
            }
        })
    }
}

/// Why an operation failed.
enum Failure {
    /// Fault of its GPU.
    Fault(String),
    /// Another GPU is lost; the next call reports it.
    Told(GpuError),
}

impl State {
    /// Streams whose first item can be executed.
    fn ready(&self) -> Vec<u64> {
        let mut ready: Vec<u64> = self.ready_streams().collect();
        ready.sort_unstable(); // the table's order is not the seed's
        ready
    }

    fn has_ready(&self) -> bool {
        self.ready_streams().next().is_some()
    }

    fn ready_streams(&self) -> impl Iterator<Item = u64> {
        let can = |item: &Item| match item {
            Item::Wait(record) => record.ended.get().is_some(),
            Item::Run { .. } | Item::Record(_) => true,
        };
        let streams = self.streams.iter().filter(move |(_, s)| !s.busy && s.queue.front().is_some_and(can));
        streams.map(|(token, _)| *token)
    }

    fn is_any_lost(&self) -> bool {
        self.gpus.iter().any(|gpu| gpu.lost.is_some())
    }

    /// The one of the highest rank as a rule, so that some streams run far ahead of others; ranks
    /// change now and then.
    fn choose(&mut self, ready: &[u64]) -> Option<u64> {
        let any = *ready.get(self.random() as usize % ready.len().max(1))?;
        let rank = self.random();
        if rank.is_multiple_of(SELDOM) {
            self.streams.get_mut(&any)?.rank = rank;
            return Some(any);
        }
        ready.iter().copied().max_by_key(|token| self.streams[token].rank)
    }

    /// The error of a lost GPU whose memory is among the operands.
    fn unreachable(&self, bound: &[Bound]) -> Option<GpuError> {
        bound.iter().find_map(|bound| match bound {
            Bound::Gpu { gpu, .. } => self.gpus[*gpu as usize].lost.clone(),
            Bound::Empty | Bound::Host { .. } => None,
        })
    }

    /// An operation has ended.
    fn ended(&mut self, token: u64, call: &Call, ended: Result<(), Failure>) {
        let Some(stream) = self.streams.get_mut(&token) else { return };
        stream.busy = false;
        let gpu = stream.gpu;
        match ended {
            Ok(()) => {}
            Err(Failure::Told(error)) => stream.fault = Some(error),
            Err(Failure::Fault(why)) => {
                let reason = format!("{} on {}: {why}", call.name(), stream_name(token));
                self.lose(gpu, GpuError::Failed { gpu, call: call.cuda(), reason, sticky: true });
            }
        }
    }
}
