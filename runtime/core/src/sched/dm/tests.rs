use std::collections::HashMap;

use proptest::prelude::*;

use super::worker_queue::WINDOW;
use super::*;
use crate::sched::mock::{self, Mock, done, task};

const FLAVOURS: [Flavour; 4] = [Flavour::Dm, Flavour::Dmda, Flavour::Dmdar, Flavour::Dmdas];

fn policy(flavour: Flavour, workers: usize) -> Dm {
    Dm::new(flavour, Weights::default(), workers)
}

/// Creates two CPU cores and a GPU, at time 10 000; gemm takes 4000 on a core and 1000 on the GPU.
fn machine() -> Mock {
    let mock = Mock::new(&["cpu", "cpu", "gpu"]);
    mock.now.set(10_000);
    mock.takes("gemm", "cpu", 4000);
    mock.takes("gemm", "gpu", 1000);
    mock
}

/// Pushes tasks of one codelet, and returns the worker of each.
fn place(mock: &Mock, policy: &Dm, ids: std::ops::Range<u64>, codelet: &'static str) -> Vec<usize> {
    ids.map(|id| match mock.push(policy, id, codelet, 0) {
        Wake::Worker(worker) => worker,
        Wake::Any => panic!("the task was dropped"),
    })
    .collect()
}

fn drain(mock: &Mock, policy: &Dm, worker: usize) -> Vec<u64> {
    std::iter::from_fn(|| mock.run(policy, worker, 0)).collect()
}

#[test]
fn a_task_goes_where_it_ends_first() {
    for flavour in FLAVOURS {
        let (mock, policy) = (machine(), policy(flavour, 3));
        // Ends on the GPU at 11, 12, 13 thousand; then at 14 on all three, on cores 0 and 1, and
        // then on the GPU.
        assert_eq!(place(&mock, &policy, 0..6, "gemm"), [2, 2, 2, 0, 1, 2], "{flavour:?}");
        // 18 on either core, 15 and later on the GPU.
        assert_eq!(place(&mock, &policy, 6..10, "gemm"), [2, 2, 2, 0], "{flavour:?}");
    }
}

#[test]
fn what_runs_counts_from_its_begin_to_its_end() {
    let (mock, policy) = (machine(), policy(Flavour::Dm, 3));
    assert_eq!(place(&mock, &policy, 0..3, "gemm"), [2, 2, 2]);
    let first = policy.pop(&mock.view(), 2).unwrap();
    assert_eq!(policy.queues[2].load(), (3000, 0), "popped is not begun");
    mock.now.set(10_300);
    policy.began(&mock.view(), 2, &first);
    assert_eq!(policy.queues[2].load(), (2000, 11_300), "it waited for its operands");
    // It takes 9000 instead of 1000: the queued tasks are late by as much, and the cores are better
    // now.
    mock.now.set(19_300);
    assert_eq!(policy.queues[2].start(19_300), 21_300);
    policy.ended(&mock.view(), 2, done(first));
    assert_eq!(policy.queues[2].load(), (2000, 19_300));
    assert_eq!(place(&mock, &policy, 3..7, "gemm"), [2, 0, 1, 2]);
    // A device that takes tasks ahead: both count.
    let (second, third) = (policy.pop(&mock.view(), 2).unwrap(), policy.pop(&mock.view(), 2).unwrap());
    policy.began(&mock.view(), 2, &second);
    policy.began(&mock.view(), 2, &third);
    assert_eq!(policy.queues[2].load(), (2000, 21_300));
    policy.ended(&mock.view(), 2, done(second));
    policy.ended(&mock.view(), 2, 12_345);
    assert_eq!(policy.queues[2].load(), (2000, 20_300), "a task that it was never given changes nothing");
    policy.ended(&mock.view(), 2, done(third));
    assert_eq!(policy.queues[2].load(), (2000, 19_300));
    // A task that cannot begin after all.
    let fourth = policy.pop(&mock.view(), 2).unwrap();
    policy.ended(&mock.view(), 2, done(fourth));
    assert_eq!(policy.queues[2].load(), (1000, 19_300));
}

/// The operands of task 0 are 2500 from the GPU: it ends there at max(10 000, 12 500) + 1000 = 13
/// 500, on a core at 14 000. With beta = 1 that is 0 + 2500 against 500 + 0.
#[test]
fn transfers_count_as_the_formula_says() {
    for (weights, worker) in [
        ("beta=1", 0),
        ("beta=0", 2),
        ("beta=0.1", 2),
        // A tie at 14 000: the first worker.
        ("beta=0.2", 0),
        ("alpha=6", 2),
        ("alpha=4", 0),
        ("alpha=0,beta=1", 0),
    ] {
        let mut mock = machine();
        mock.misses(0, 2, 1 << 20, 2500);
        let policy = Dm::new(Flavour::Dmda, Weights::parse(weights).unwrap(), 3);
        assert_eq!(place(&mock, &policy, 0..1, "gemm"), [worker], "{weights}");
    }
    let mut mock = machine();
    mock.misses(0, 2, 1 << 20, 2500);
    assert_eq!(place(&mock, &policy(Flavour::Dm, 3), 0..1, "gemm"), [2], "dm ignores data");
}

#[test]
fn transfers_overlap_the_queue() {
    let mut mock = machine();
    mock.takes("fft", "cpu", 9000);
    mock.takes("fft", "gpu", 3000);
    mock.misses(7, 2, 1 << 20, 2500);
    let policy = policy(Flavour::Dmda, 3);
    assert_eq!(place(&mock, &policy, 0..3, "gemm"), [2, 2, 2]);
    // GPU: max(13 000, 12 500) + 3000 = 16 000 and 2500 for the transfer; a core: 19 000. Added up,
    // transfer and queue would end at 18 500, and the core would win.
    assert_eq!(place(&mock, &policy, 7..8, "fft"), [2]);
}

#[test]
fn operands_are_fetched_ahead_where_the_task_will_run() {
    for flavour in FLAVOURS {
        let (mock, policy) = (machine(), policy(flavour, 3));
        let workers = place(&mock, &policy, 0..6, "gemm");
        let expected: Vec<_> = if flavour == Flavour::Dm { vec![] } else { (0..6).zip(workers).collect() };
        assert_eq!(*mock.prefetched.borrow(), expected, "{flavour:?}");
    }
}

#[test]
fn dmdar_takes_first_what_misses_least() {
    for (flavour, expected) in [
        (Flavour::Dm, [0, 1, 2, 3]),
        (Flavour::Dmda, [0, 1, 2, 3]),
        (Flavour::Dmdar, [3, 1, 2, 0]),
        (Flavour::Dmdas, [3, 1, 2, 0]),
    ] {
        let mut mock = Mock::new(&["gpu"]);
        [100, 50, 50, 0].into_iter().zip(0..).for_each(|(bytes, id)| mock.misses(id, 0, bytes, bytes));
        let policy = policy(flavour, 1);
        place(&mock, &policy, 0..4, "gemm");
        assert_eq!(drain(&mock, &policy, 0), expected, "{flavour:?}");
    }
}

#[test]
fn dmdas_goes_by_priority_and_then_by_what_is_missing() {
    let pushed = [(0, 0, 0), (1, 5, 80), (2, 5, 20), (3, 7, 100), (4, -1, 0), (5, 5, 20)];
    for (flavour, expected) in [
        (Flavour::Dmda, [0, 1, 2, 3, 4, 5]),
        (Flavour::Dmdar, [0, 4, 2, 5, 1, 3]),
        (Flavour::Dmdas, [3, 2, 5, 1, 0, 4]),
    ] {
        let mut mock = Mock::new(&["gpu"]);
        let policy = policy(flavour, 1);
        for (id, priority, bytes) in pushed {
            mock.misses(id, 0, bytes, bytes);
            mock.push(&policy, id, "gemm", priority);
        }
        assert_eq!(drain(&mock, &policy, 0), expected, "{flavour:?}");
    }
}

#[test]
fn a_pop_looks_at_so_many_tasks_only() {
    let mut mock = Mock::new(&["gpu"]);
    (0..1000).for_each(|id| mock.misses(id, 0, u64::from(id != WINDOW as u64), 0));
    let policy = policy(Flavour::Dmdar, 1);
    place(&mock, &policy, 0..1000, "gemm");
    // The one that is complete is just outside.
    assert_eq!(mock.pop(&policy, 0), Some(0));
    assert_eq!(mock.asked.get(), WINDOW);
    assert_eq!(mock.pop(&policy, 0), Some(WINDOW as u64));
    assert_eq!(mock.pop(&policy, 0), Some(1));
}

#[test]
fn a_kind_that_does_not_know_a_task_gets_a_few_and_the_others_the_rest() {
    let (mock, policy) = (machine(), policy(Flavour::Dmda, 3));
    mock.takes("trsm", "cpu", 4000);
    let mut workers = place(&mock, &policy, 0..100, "trsm");
    let rest = workers.split_off(EXPLORING);
    assert_eq!(workers, [2; EXPLORING], "the GPU is to learn");
    assert!(rest.chunks(2).all(|pair| pair == [0, 1]), "a burst does not go there on a guess");
    // Known tasks are placed by the formula meanwhile: the GPU has been given 8 times the length on
    // a core.
    assert_eq!(policy.queues[2].load().0, 8 * 4000);
    assert_eq!(place(&mock, &policy, 100..101, "gemm"), [2]);
    // When the first of them ends the next one follows, and with the model it is placed by the
    // formula.
    mock.run(&policy, 2, 1000);
    assert_eq!(place(&mock, &policy, 101..103, "trsm"), [2, 0]);
    mock.takes("trsm", "gpu", 1000);
    assert_eq!(place(&mock, &policy, 103..110, "trsm"), [2; 7]);
}

#[test]
fn what_nobody_knows_goes_round_the_kinds_and_then_by_load() {
    let (mock, policy) = (machine(), policy(Flavour::Dm, 3));
    let mut workers = place(&mock, &policy, 0..100, "new");
    let rest = workers.split_off(2 * EXPLORING);
    assert!(workers.chunks(4).all(|four| four == [0, 2, 1, 2]), "{workers:?}");
    assert!(rest[..8].iter().all(|&w| w < 2), "the GPU has twice as many as a core: {rest:?}");
    let count = |worker| workers.iter().chain(&rest).filter(|&&w| w == worker).count();
    assert_eq!([count(0), count(1), count(2)], [34, 33, 33]);
}

/// On a machine of one kind there is nothing to explore, and the times of the last tasks predict
/// the next.
#[test]
fn without_models_loads_are_even() {
    let mock = Mock::new(&["cpu", "cpu"]);
    let policy = policy(Flavour::Dmda, 2);
    assert_eq!(place(&mock, &policy, 0..6, "new"), [0, 1, 0, 1, 0, 1]);
    assert_eq!(policy.queues[0].load().0, 3);
    mock.run(&policy, 0, 800);
    place(&mock, &policy, 6..7, "new");
    assert_eq!(policy.queues[0].load().0, 2 + 800);
    mock.run(&policy, 1, 100_000_000);
    place(&mock, &policy, 7..8, "new");
    assert_eq!(policy.queues[1].load().0, 2 + 901, "a spike moves it by an eighth");
    assert!(policy.machine.get().unwrap().exploring[0].load(Ordering::Relaxed) == 0);
}

/// Tasks that run in one call share its time, as do tasks inside one another.
#[test]
fn a_guess_is_learnt_from_a_tasks_share_of_the_time() {
    let mock = Mock::new(&["cpu"]);
    let policy = policy(Flavour::Dm, 1);
    let recent = || policy.recent.load(Ordering::Relaxed);
    place(&mock, &policy, 0..8, "new");
    let first = policy.pop(&mock.view(), 0).unwrap();
    let mut batch = policy.pop_like(&mock.view(), 0, &first, 7);
    batch.push(first);
    assert_eq!(batch.len(), 8);
    batch.iter().for_each(|task| policy.began(&mock.view(), 0, task));
    mock.now.set(mock.now.get() + 8000);
    for task in batch {
        policy.ended(&mock.view(), 0, done(task));
        assert_eq!(recent(), 1000);
    }
    assert_eq!(policy.queues[0].load().0, 0);
}

#[test]
fn what_nobody_can_run_is_dropped_and_counts_nowhere() {
    let mut mock = machine();
    (0..3).for_each(|worker| mock.forbid("gemm", worker));
    let policy = policy(Flavour::Dmdas, 3);
    assert_eq!(mock.push(&policy, 0, "gemm", 0), Wake::Any);
    assert!(policy.queues.iter().all(|queue| queue.load() == (0, 0) && queue.counts() == (0, 0)));
}

#[derive(Clone, Debug)]
enum Step {
    Push {
        codelet: usize,
        priority: i32,
    },
    Pop {
        worker: usize,
    },
    /// Takes the next tasks for a batch with one that is already popped.
    Like {
        nth: usize,
        most: usize,
    },
    Begin {
        nth: usize,
    },
    End {
        nth: usize,
    },
    /// The task found an operand busy: it ends and is pushed again.
    Park {
        nth: usize,
    },
    Learn {
        codelet: usize,
        kind: usize,
        time: u64,
    },
    Wait {
        time: u64,
    },
}

const CODELETS: [&str; 3] = ["gemm", "trsm", "potrf"];
const KINDS: [&str; 2] = ["cpu", "gpu"];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3usize, -1..3i32).prop_map(|(codelet, priority)| Step::Push { codelet, priority }),
        4 => (0..3usize).prop_map(|worker| Step::Pop { worker }),
        2 => (any::<usize>(), 0..4usize).prop_map(|(nth, most)| Step::Like { nth, most }),
        2 => any::<usize>().prop_map(|nth| Step::Begin { nth }),
        3 => any::<usize>().prop_map(|nth| Step::End { nth }),
        1 => any::<usize>().prop_map(|nth| Step::Park { nth }),
        1 => (0..3usize, 0..2usize, prop_oneof![0..5000u64, Just(u64::MAX)])
            .prop_map(|(codelet, kind, time)| Step::Learn { codelet, kind, time }),
        2 => (0..3000u64).prop_map(|time| Step::Wait { time }),
    ]
}

/// Expected loads, computed independently of the policy.
struct Books<'p> {
    mock: Mock,
    policy: &'p Dm,
    /// Worker and length of each queued task.
    queued: HashMap<u64, (usize, u64)>,
    /// Popped tasks.
    hand: Vec<InHand>,
    /// Time of the last begin or end on each worker.
    changed: [u64; 3],
}

struct InHand {
    worker: usize,
    length: u64,
    began: bool,
    task: ReadyTask,
}

impl Books<'_> {
    fn load(&self, worker: usize) -> u64 {
        self.policy.queues[worker].load().0
    }

    fn push(&mut self, task: ReadyTask) {
        let (id, codelet) = (task.id(), task.codelet());
        let before: Vec<u64> = (0..3).map(|w| self.load(w)).collect();
        let known = |w: usize| {
            let like = mock::task(0, codelet, 0);
            let known = self.mock.view().estimate(&like, w).map(|t| kinds::length(nanos(t)));
            done(like);
            known
        };
        let Wake::Worker(worker) = self.policy.push(&self.mock.view(), task, None) else {
            panic!("all can run all");
        };
        let length = self.load(worker) - before[worker];
        assert!(
            known(worker).is_none_or(|known| known == length),
            "the length is the estimate of this moment"
        );
        assert!(self.queued.insert(id, (worker, length)).is_none());
    }

    fn take(&mut self, step: &Step, next: &mut u64) {
        let now = self.mock.now.get();
        let nth = |n: usize| (!self.hand.is_empty()).then(|| n % self.hand.len());
        match *step {
            Step::Push { codelet, priority } => {
                *next += 1;
                self.push(task(*next, CODELETS[codelet], priority));
            }
            Step::Pop { worker } => match self.policy.pop(&self.mock.view(), worker) {
                None => assert!(self.queued.values().all(|&(w, _)| w != worker), "it has tasks"),
                Some(task) => {
                    let (w, length) = self.queued.remove(&task.id()).expect("it was pushed");
                    assert_eq!(w, worker);
                    self.hand.push(InHand { worker, length, began: false, task });
                }
            },
            Step::Like { nth: n, most } => {
                let Some(InHand { worker, task: first, .. }) = nth(n).map(|n| &self.hand[n]) else { return };
                let (worker, codelet) = (*worker, first.codelet());
                let like = self.policy.pop_like(&self.mock.view(), worker, first, most);
                assert!(like.len() <= most);
                for task in like {
                    assert_eq!(task.codelet(), codelet);
                    let (w, length) = self.queued.remove(&task.id()).expect("it was pushed");
                    assert_eq!(w, worker);
                    self.hand.push(InHand { worker, length, began: false, task });
                }
            }
            Step::Begin { nth: n } => {
                if let Some(n) = nth(n) {
                    let InHand { worker, began, task, .. } = &mut self.hand[n];
                    self.policy.began(&self.mock.view(), *worker, task);
                    (*began, self.changed[*worker]) = (true, now);
                }
            }
            Step::End { nth: n } => {
                if let Some(n) = nth(n) {
                    done(self.end(n));
                }
            }
            Step::Park { nth: n } => {
                if let Some(n) = nth(n) {
                    let task = self.end(n);
                    self.push(task);
                }
            }
            Step::Learn { codelet, kind, time } => self.mock.takes(CODELETS[codelet], KINDS[kind], time),
            Step::Wait { time } => self.mock.now.set(now + time),
        }
    }

    fn end(&mut self, n: usize) -> ReadyTask {
        let InHand { worker, task, .. } = self.hand.swap_remove(n);
        self.policy.ended(&self.mock.view(), worker, task.id());
        self.changed[worker] = self.mock.now.get();
        task
    }

    fn check(&self) {
        for worker in 0..3 {
            let queue = &self.policy.queues[worker];
            let hand = || self.hand.iter().filter(|h| h.worker == worker);
            let queued = || self.queued.values().filter(|q| q.0 == worker);
            let waiting = queued().map(|q| q.1).chain(hand().filter(|h| !h.began).map(|h| h.length)).sum();
            let running: u64 = hand().filter(|h| h.began).map(|h| h.length).sum();
            assert_eq!(queue.load(), (waiting, self.changed[worker] + running));
            assert_eq!(queue.counts(), (queued().count(), hand().count()));
        }
    }
}

proptest! {
    /// After every step the loads are those of the queued and popped tasks, whatever estimates
    /// change, and zero at the end.
    #[test]
    fn loads_add_up(flavour in 0..4usize, steps in prop::collection::vec(step(), 0..120)) {
        let policy = policy(FLAVOURS[flavour], 3);
        let mock = machine();
        let mut books =
            Books { mock, policy: &policy, queued: HashMap::new(), hand: Vec::new(), changed: [0; 3] };
        let mut next = 0;
        for step in &steps {
            books.take(step, &mut next);
            books.check();
        }
        for worker in 0..3 {
            while policy.queues[worker].counts().0 > 0 {
                books.take(&Step::Pop { worker }, &mut next);
            }
        }
        while !books.hand.is_empty() {
            books.take(&Step::End { nth: 0 }, &mut next);
            books.check();
        }
        prop_assert!(books.queued.is_empty());
        let now = books.mock.now.get();
        for queue in &policy.queues {
            prop_assert!(queue.load().0 == 0 && queue.start(now) == now, "zero at the end");
        }
        if let Some(machine) = policy.machine.get() {
            prop_assert!(machine.exploring.iter().all(|n| n.load(Ordering::Relaxed) == 0));
        }
    }

    /// The search skips workers that cannot win; it must find the same worker as a full search.
    #[test]
    fn the_least_fitness_wins(
        weights in (0..3u64, 0..3u64),
        times in (1..40u64, 1..40u64),
        busy in prop::collection::vec(0..60u64, 6),
        transfers in prop::collection::vec(prop_oneof![Just(0), 0..60u64], 6),
        forbidden in prop::collection::vec(prop::bool::weighted(0.2), 6),
    ) {
        let mut mock = Mock::new(&["cpu", "gpu", "cpu", "gpu", "gpu", "cpu"]);
        mock.now.set(1000);
        let weights = Weights { alpha: 1000 * weights.0, beta: 1000 * weights.1 };
        let policy = Dm::new(Flavour::Dmda, weights, 6);
        for (worker, &length) in busy.iter().enumerate().filter(|(_, length)| **length > 0) {
            policy.queues[worker].push(task(100, "t", 0), Load { length, guess: false, explores: false }, true);
        }
        mock.takes("t", "cpu", times.0);
        mock.takes("t", "gpu", times.1);
        (0..6).for_each(|w| mock.misses(0, w, transfers[w], transfers[w]));
        (0..6).filter(|&w| forbidden[w]).for_each(|w| mock.forbid("t", w));
        let exec = |w: usize| if [0, 2, 5].contains(&w) { times.0 } else { times.1 };
        let end = |w: usize| (1000 + busy[w]).max(1000 + transfers[w]) + exec(w);
        let able: Vec<usize> = (0..6).filter(|&w| !forbidden[w]).collect();
        let least = able.iter().map(|&w| end(w)).min();
        let fitness = |w: usize| weights.alpha * (end(w) - least.unwrap()) + weights.beta * transfers[w];
        let expected = able.iter().copied().min_by_key(|&w| (fitness(w), w));
        let found = match mock.push(&policy, 0, "t", 0) {
            Wake::Worker(worker) => Some(worker),
            Wake::Any => None,
        };
        prop_assert_eq!(found, expected);
    }
}
