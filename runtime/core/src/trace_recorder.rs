//! Bounded, lock-free queues into which workers put trace records while a run goes on.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;

use zellige_trace::{IdleEvent, IdleState, TaskEvent, Trace, TraceWorker};

/// Records per worker when the user does not say.
pub(crate) const DEFAULT_CAPACITY: usize = 1 << 17;

/// A queue that takes so many records at most, and memory for those that there are.
pub(crate) struct Bounded<T> {
    records: SegQueue<T>,
    capacity: usize,
}

impl<T> Bounded<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Bounded { records: SegQueue::new(), capacity }
    }

    /// False if it is full, give or take what others put in at the same moment.
    pub(crate) fn push(&self, record: T) -> bool {
        let fits = self.records.len() < self.capacity;
        if fits {
            self.records.push(record);
        }
        fits
    }

    /// Takes out what is there.
    pub(crate) fn drain(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.records.pop())
    }
}

/// Two bounded queues per worker, for tasks and for idle stretches, one for dependencies; what does not fit is counted.
pub(crate) struct TraceRecorder {
    tasks: Vec<CachePadded<Bounded<TaskEvent>>>,
    idle: Vec<CachePadded<IdleLog>>,
    edges: Bounded<(u64, u64)>,
    lost: AtomicU64,
    ready: CachePadded<AtomicI64>,
}

/// The idle stretches of one worker.
struct IdleLog {
    past: Bounded<IdleEvent>,
    /// The stretch that has not ended, see [`Open`]. Only the worker begins and ends it; a drain may cut it in two.
    open: AtomicU64,
}

/// A stretch that has not ended in one word, so that it can be cut from outside: its start (ns) times four, plus one more
/// than the place of its state; 0 if there is none.
struct Open;

impl Open {
    fn pack(now_ns: u64, state: IdleState) -> u64 {
        now_ns << 2 | (state as u64 + 1)
    }

    fn unpack(word: u64) -> Option<(u64, IdleState)> {
        let state = (word & 3).checked_sub(1)?;
        Some((word >> 2, IdleState::ALL[state as usize]))
    }
}

impl TraceRecorder {
    /// Bytes of a recorder: queues have a word beside each record.
    pub(crate) fn bytes(workers: usize, capacity: usize) -> u64 {
        let word = size_of::<usize>();
        let each =
            size_of::<TaskEvent>() + 2 * size_of::<IdleEvent>() + 4 * size_of::<(u64, u64)>() + 7 * word;
        (each as u64).saturating_mul(workers as u64).saturating_mul(capacity as u64)
    }

    /// Room for `capacity` tasks per worker, two idle stretches and four dependencies for each.
    pub(crate) fn new(workers: usize, capacity: usize) -> Self {
        let capacity = capacity.max(1);
        TraceRecorder {
            tasks: (0..workers).map(|_| CachePadded::new(Bounded::new(capacity))).collect(),
            idle: (0..workers)
                .map(|_| IdleLog { past: Bounded::new(capacity.saturating_mul(2)), open: AtomicU64::new(0) })
                .map(CachePadded::new)
                .collect(),
            edges: Bounded::new(capacity.saturating_mul(4 * workers.max(1))),
            lost: AtomicU64::new(0),
            ready: CachePadded::default(),
        }
    }

    pub(crate) fn task(&self, event: TaskEvent) {
        if !self.tasks[event.worker as usize].push(event) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// `worker` runs no body: what it does from now on, or `None` if it will run one again.
    pub(crate) fn idle(&self, worker: usize, state: Option<IdleState>, now_ns: u64) {
        let log = &self.idle[worker];
        let before = log.open.swap(state.map_or(0, |state| Open::pack(now_ns, state)), Ordering::Relaxed);
        if let Some(event) = stretch(worker, before, now_ns)
            && !log.past.push(event)
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn edge(&self, from: u64, to: u64) {
        if !self.edges.push((from, to)) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn task_ready(&self) {
        self.ready.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn task_taken(&self) {
        self.ready.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn ready_now(&self) -> u32 {
        self.ready.load(Ordering::Relaxed).clamp(0, i64::from(u32::MAX)) as u32
    }

    /// Takes out what has been recorded so far; idle stretches that last are cut here.
    pub(crate) fn drain(&self, workers: Vec<TraceWorker>, policy: String, now_ns: u64) -> Trace {
        let mut tasks: Vec<TaskEvent> = self.tasks.iter().flat_map(|queue| queue.drain()).collect();
        tasks.sort_by_key(|task| (task.start_ns, task.id));
        let mut idle: Vec<IdleEvent> = Vec::new();
        for (worker, log) in self.idle.iter().enumerate() {
            idle.extend(log.past.drain());
            // A stretch may have begun since the clock was read.
            let cut = |open| Open::unpack(open).map(|(start, state)| Open::pack(start.max(now_ns), state));
            if let Ok(before) = log.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, cut) {
                idle.extend(stretch(worker, before, now_ns));
            }
        }
        let edges = self.edges.drain().collect();
        let lost = self.lost.swap(0, Ordering::Relaxed);
        Trace { workers, policy, tasks, edges, idle, lost, ..Trace::default() }
    }
}

/// The stretch that began as `open` says and ends now; `None` for none and one of no length.
fn stretch(worker: usize, open: u64, now_ns: u64) -> Option<IdleEvent> {
    let (start_ns, state) = Open::unpack(open)?;
    (start_ns < now_ns).then_some(IdleEvent { worker: worker as u32, start_ns, end_ns: now_ns, state })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_stretches_follow_one_another_and_a_drain_cuts_the_last() {
        let recorder = TraceRecorder::new(2, 8);
        recorder.idle(1, Some(IdleState::Searching), 10);
        recorder.idle(1, Some(IdleState::Sleeping), 25);
        let first = recorder.drain(vec![], "lws".into(), 40);
        let event = |start_ns, end_ns, state| IdleEvent { worker: 1, start_ns, end_ns, state };
        assert_eq!(first.idle, [event(10, 25, IdleState::Searching), event(25, 40, IdleState::Sleeping)]);
        recorder.idle(1, Some(IdleState::WaitingForData), 50);
        recorder.idle(1, None, 70);
        recorder.idle(1, None, 80);
        let second = recorder.drain(vec![], "lws".into(), 90);
        assert_eq!(
            second.idle,
            [event(40, 50, IdleState::Sleeping), event(50, 70, IdleState::WaitingForData)]
        );
        assert_eq!((first.lost, second.lost), (0, 0));
    }

    #[test]
    fn a_stretch_that_began_after_the_clock_was_read_is_not_made_longer() {
        let recorder = TraceRecorder::new(1, 8);
        recorder.idle(0, Some(IdleState::Sleeping), 50);
        assert_eq!(recorder.drain(vec![], "lws".into(), 40).idle, []);
        recorder.idle(0, None, 60);
        let event = IdleEvent { worker: 0, start_ns: 50, end_ns: 60, state: IdleState::Sleeping };
        assert_eq!(recorder.drain(vec![], "lws".into(), 70).idle, [event]);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let recorder = TraceRecorder::new(1, 1);
        for now in 0..5 {
            recorder.idle(0, Some(IdleState::Searching), now);
        }
        let trace = recorder.drain(vec![], String::new(), 4);
        assert_eq!((trace.idle.len(), trace.lost), (2, 2));
    }
}
