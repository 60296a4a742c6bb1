//! Tests of the requirements that every scheduling policy must meet, including a user's own.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zellige_runtime::sched::{Policy, ReadyTask, SchedView, Wake};
use zellige_runtime::{Cause, Error, Runtime, Submit, read, update, write};

use crate::common::policies::{self, Stack};
use crate::common::within;

const LIMIT: Duration = Duration::from_secs(60);

/// A policy with a name that the tests below do not run would be one that nobody tested.
#[test]
fn every_named_policy_is_tested() {
    for (name, _) in zellige_runtime::sched::POLICIES {
        assert!(policies::ALL.contains(&name), "{name}");
    }
}

#[test]
fn every_ready_task_comes_out_once() {
    within("conformance", LIMIT, || {
        for policy in policies::ALL {
            for workers in [1, 2, 5] {
                let rt = policies::runtime(policy, workers, 64, false);
                let ran = Arc::new(Mutex::new(Vec::new()));
                let shared: Vec<_> = (0..7).map(|_| rt.register(0u64)).collect();
                for i in 0..2000usize {
                    let ran = Arc::clone(&ran);
                    rt.task("t")
                        .operands((read(&shared[i % 3]), update(&shared[3 + i % 4])))
                        .cpu(move |(_, sum)| {
                            *sum += 1;
                            ran.lock().unwrap().push(i);
                        })
                        .priority((i % 5) as i32)
                        .submit()
                        .unwrap();
                }
                rt.wait_all().unwrap();
                let ran = ran.lock().unwrap();
                assert_eq!(ran.len(), 2000, "{policy}, {workers} workers");
                assert_eq!(ran.iter().collect::<HashSet<_>>().len(), 2000, "{policy}, {workers} workers");
            }
        }
    });
}

/// Holds all tasks back until a worker asks after so many pushes; notes what it sees.
#[derive(Default)]
struct Curious {
    inner: Stack,
    seen: Arc<Mutex<Vec<(String, i32, f64)>>>,
    last: Mutex<Duration>,
}

impl Policy for Curious {
    fn name(&self) -> &str {
        "curious"
    }

    fn push(&self, view: &SchedView<'_>, task: ReadyTask, from: Option<usize>) -> Wake {
        assert!(from.is_none_or(|worker| worker < view.workers()));
        assert!((0..view.workers()).all(|w| view.neighbours(w).count() == view.workers() - 1));
        assert!((0..view.workers()).all(|w| view.neighbours(w).all(|other| other != w)));
        assert!(view.in_flight() >= 1, "the pushed task is in flight");
        let mut last = self.last.lock().unwrap();
        assert!(view.now() >= *last, "time does not run backwards");
        *last = view.now();
        assert_eq!(view.estimate(&task, 0), Some(Duration::from_micros(7)));
        assert_eq!(view.missing_bytes(&task, 0), 0);
        self.seen.lock().unwrap().push((task.codelet().into(), task.priority(), task.info().flops));
        self.inner.push(view, task, from)
    }

    fn pop(&self, view: &SchedView<'_>, worker: usize) -> Option<ReadyTask> {
        self.inner.pop(view, worker)
    }
}

#[test]
fn a_policy_sees_tasks_and_machine() {
    within("what a policy sees", LIMIT, || {
        let policy = Curious::default();
        let seen = Arc::clone(&policy.seen);
        let rt = Runtime::builder().workers(3).policy_with(policy).build().unwrap();
        assert_eq!(rt.policy(), "curious");
        let x = rt.register(0u32);
        for i in 0..10 {
            rt.task("look")
                .operands((update(&x),))
                .cpu(|(x,)| *x += 1)
                .priority(i)
                .flops(f64::from(i))
                .cost(Duration::from_micros(7))
                .submit()
                .unwrap();
        }
        assert_eq!(rt.take(x).unwrap(), 10);
        let expected: Vec<_> = (0..10).map(|i| ("look".to_string(), i, f64::from(i))).collect();
        assert_eq!(*seen.lock().unwrap(), expected);
    });
}

/// Drops every third task.
#[derive(Default)]
struct Careless {
    inner: Stack,
    count: AtomicUsize,
}

impl Policy for Careless {
    fn name(&self) -> &str {
        "careless"
    }

    fn push(&self, view: &SchedView<'_>, task: ReadyTask, from: Option<usize>) -> Wake {
        if self.count.fetch_add(1, Ordering::Relaxed) % 3 == 2 {
            return Wake::Any;
        }
        self.inner.push(view, task, from)
    }

    fn pop(&self, view: &SchedView<'_>, worker: usize) -> Option<ReadyTask> {
        self.inner.pop(view, worker)
    }
}

#[test]
fn a_task_that_a_policy_drops_is_a_failure_and_not_a_hang() {
    within("dropped tasks", LIMIT, || {
        let rt = Runtime::builder().workers(2).policy_with(Careless::default()).build().unwrap();
        let (mut lost, mut kept) = (0, 0);
        for _ in 0..300 {
            let (x, y) = (rt.register(1u32), rt.register(2u32));
            let task = rt.task("t").operands((update(&x),)).cpu(|(x,)| *x += 1).submit().unwrap();
            rt.task("copy").operands((read(&x), write(&y))).cpu(|(x, mut y)| y.put(*x)).submit().unwrap();
            match rt.wait(&task) {
                Ok(()) => kept += 1,
                Err(error) => {
                    lost += 1;
                    assert!(matches!(error.failure().unwrap().cause, Cause::Lost), "{error}");
                    assert!(rt.take(y).is_err(), "what depends on it has no value");
                }
            }
        }
        assert!(matches!(rt.wait_all(), Err(Error::Failed(_))));
        assert!(lost > 50 && kept > 50, "{lost} lost, {kept} kept");
    });
}

#[test]
fn an_unknown_policy_is_refused_with_the_known_ones() {
    let error = Runtime::builder().workers(1).policy("fastest").build().unwrap_err().to_string();
    for (name, _) in zellige_runtime::sched::POLICIES {
        assert!(error.contains("fastest") && error.contains(name), "{error}");
    }
}
