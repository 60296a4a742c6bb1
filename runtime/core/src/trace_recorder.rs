//! Bounded, lock-free queues of trace records, which workers fill during a run.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;

use zellige_trace::{IdleEvent, IdleState, PhaseEvent, TaskEvent, Trace, TraceWorker};

/// Default number of records per worker.
pub(crate) const DEFAULT_CAPACITY: usize = 1 << 17;

/// A queue with a maximum number of records, which allocates memory as records arrive.
pub(crate) struct Bounded<T> {
    records: SegQueue<T>,
    /// Number of records that still fit.
    left: AtomicUsize,
}

impl<T> Bounded<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Bounded { records: SegQueue::new(), left: AtomicUsize::new(capacity) }
    }

    /// Adds a record; returns false if it does not fit.
    pub(crate) fn push(&self, record: T) -> bool {
        let fits = take_up_to(&self.left, 1) == 1;
        if fits {
            self.records.push(record);
        }
        fits
    }

    /// Removes the records in the queue, the oldest first.
    pub(crate) fn drain(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| {
            let record = self.records.pop()?;
            self.left.fetch_add(1, Ordering::Relaxed);
            Some(record)
        })
    }
}

/// Takes up to `most` off a counter, and returns the number taken.
fn take_up_to(left: &AtomicUsize, most: usize) -> usize {
    let took = |left: usize| (left > 0).then(|| left - left.min(most));
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, took).map_or(0, |left| left.min(most))
}

/// Dependency records, in one queue per submitting thread; threads share queues if there are more
/// threads than queues.
struct EdgeRecords {
    queues: Vec<CachePadded<Bounded<(u64, u64)>>>,
    /// Number of records that still fit in all queues together. Each queue takes several at a time,
    /// to avoid contention on this counter for every record.
    left: CachePadded<AtomicUsize>,
}

impl EdgeRecords {
    /// Number of queues for submitting threads of the user, in addition to the workers.
    const OTHERS: usize = 8;
    /// Number of records that a queue reserves at a time.
    const SHARE: usize = 256;

    fn new(workers: usize, capacity: usize) -> Self {
        let queues = (0..workers.saturating_add(Self::OTHERS)).map(|_| CachePadded::new(Bounded::new(0)));
        EdgeRecords { queues: queues.collect(), left: CachePadded::new(AtomicUsize::new(capacity)) }
    }

    /// Returns this thread's queue.
    fn queue(&self) -> &Bounded<(u64, u64)> {
        thread_local!(static NUMBER: Cell<Option<usize>> = const { Cell::new(None) });
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // A thread that still submits while it exits uses the first queue.
        let number = NUMBER.try_with(|number| {
            let known = number.get().unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed));
            number.set(Some(known));
            known
        });
        &self.queues[number.unwrap_or(0) % self.queues.len()]
    }

    fn push(&self, edge: (u64, u64)) -> bool {
        let queue = self.queue();
        while !queue.push(edge) {
            let share = take_up_to(&self.left, Self::SHARE);
            if share == 0 {
                return false;
            }
            queue.left.fetch_add(share, Ordering::Relaxed);
        }
        true
    }

    fn drain(&self) -> Vec<(u64, u64)> {
        self.queues.iter().flat_map(|queue| queue.drain()).collect()
    }
}

/// Two bounded queues per worker, for tasks and for idle intervals, and one per submitting thread
/// for dependencies; records that do not fit are counted. Memory is allocated as records arrive.
pub(crate) struct TraceRecorder {
    tasks: Vec<CachePadded<Bounded<TaskEvent>>>,
    idle: Vec<CachePadded<IdleLog>>,
    edges: EdgeRecords,
    phases: Bounded<PhaseEvent>,
    lost: AtomicU64,
    ready: CachePadded<AtomicI64>,
}

/// Idle intervals of one worker.
struct IdleLog {
    past: Bounded<IdleEvent>,
    /// The interval that has not ended, see [`OpenInterval`]. Only the worker begins and ends it; a
    /// drain may cut it in two.
    open: AtomicU64,
}

/// An open interval, packed into one word so that other threads can cut it: its start (ns) times
/// four, plus one more than the index of its state; 0 if there is none.
struct OpenInterval;

impl OpenInterval {
    fn pack(now_ns: u64, state: IdleState) -> u64 {
        now_ns << 2 | (state as u64 + 1)
    }

    fn unpack(word: u64) -> Option<(u64, IdleState)> {
        let state = (word & 3).checked_sub(1)?;
        Some((word >> 2, IdleState::ALL[state as usize]))
    }
}

impl TraceRecorder {
    /// Returns the size of a full recorder (bytes): queues have a word per record in addition.
    pub(crate) fn bytes(workers: usize, capacity: usize) -> u64 {
        let word = size_of::<usize>();
        let each =
            size_of::<TaskEvent>() + 2 * size_of::<IdleEvent>() + 4 * size_of::<(u64, u64)>() + 7 * word;
        (each as u64).saturating_mul(workers as u64).saturating_mul(capacity as u64)
    }

    /// Creates a recorder for `capacity` tasks per worker, with two idle intervals and four
    /// dependencies for each.
    pub(crate) fn new(workers: usize, capacity: usize) -> Self {
        let capacity = capacity.max(1);
        TraceRecorder {
            tasks: (0..workers).map(|_| CachePadded::new(Bounded::new(capacity))).collect(),
            idle: (0..workers)
                .map(|_| IdleLog { past: Bounded::new(capacity.saturating_mul(2)), open: AtomicU64::new(0) })
                .map(CachePadded::new)
                .collect(),
            edges: EdgeRecords::new(workers, capacity.saturating_mul(4 * workers.max(1))),
            phases: Bounded::new(capacity),
            lost: AtomicU64::new(0),
            ready: CachePadded::default(),
        }
    }

    /// Marks the start of the next phase of the program.
    pub(crate) fn phase(&self, name: String, start_ns: u64) {
        if !self.phases.push(PhaseEvent { name, start_ns }) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn task(&self, event: TaskEvent) {
        if !self.tasks[event.worker as usize].push(event) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records that `worker` runs no body and its state from now on, or `None` if it will run one
    /// again.
    pub(crate) fn idle(&self, worker: usize, state: Option<IdleState>, now_ns: u64) {
        let log = &self.idle[worker];
        let before =
            log.open.swap(state.map_or(0, |state| OpenInterval::pack(now_ns, state)), Ordering::Relaxed);
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

    /// Removes and returns the records so far; open idle intervals are cut here.
    pub(crate) fn drain(&self, workers: Vec<TraceWorker>, policy: String, now_ns: u64) -> Trace {
        let mut tasks: Vec<TaskEvent> = self.tasks.iter().flat_map(|queue| queue.drain()).collect();
        tasks.sort_by_key(|task| (task.start_ns, task.id));
        let mut idle: Vec<IdleEvent> = Vec::new();
        for (worker, log) in self.idle.iter().enumerate() {
            idle.extend(log.past.drain());
            // An interval may have begun since the clock was read.
            let cut = |open| {
                OpenInterval::unpack(open).map(|(start, state)| OpenInterval::pack(start.max(now_ns), state))
            };
            if let Ok(before) = log.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, cut) {
                idle.extend(stretch(worker, before, now_ns));
            }
        }
        let edges = self.edges.drain();
        let phases = self.phases.drain().collect();
        let lost = self.lost.swap(0, Ordering::Relaxed);
        Trace { workers, policy, tasks, edges, idle, phases, lost, ..Trace::default() }
    }
}

/// Returns the interval that began at `open` and ends now; `None` if there is none or it is empty.
fn stretch(worker: usize, open: u64, now_ns: u64) -> Option<IdleEvent> {
    let (start_ns, state) = OpenInterval::unpack(open)?;
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

    #[test]
    fn threads_that_submit_share_what_dependencies_may_take() {
        let recorder = TraceRecorder::new(1, 1000);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let recorder = &recorder;
                scope.spawn(move || (0..500).for_each(|i| recorder.edge(thread, i)));
            }
        });
        let trace = recorder.drain(vec![], String::new(), 0);
        assert_eq!((trace.edges.len(), trace.lost), (2000, 0), "what one does not need another has");
        for thread in 0..4 {
            let of: Vec<u64> =
                trace.edges.iter().filter(|edge| edge.0 == thread).map(|edge| edge.1).collect();
            assert_eq!(of, Vec::from_iter(0..500), "in order");
        }
        (0..5000).for_each(|i| recorder.edge(9, i));
        let trace = recorder.drain(vec![], String::new(), 0);
        // Records that other threads' queues have reserved stay there.
        assert!((1000..=4000).contains(&trace.edges.len()), "{}", trace.edges.len());
        assert_eq!(trace.edges.len() as u64 + trace.lost, 5000);
    }

    #[test]
    fn memory_is_taken_as_records_come() {
        let recorder = TraceRecorder::new(64, usize::MAX);
        recorder.edge(1, 2);
        recorder.task(TaskEvent::default());
        assert_eq!(recorder.drain(vec![], String::new(), 0).lost, 0);
    }
}
