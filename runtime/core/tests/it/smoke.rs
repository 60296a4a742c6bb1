//! Graphs with every access mode, on every policy.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zellige_runtime::sched::POLICIES;
use zellige_runtime::*;

fn runtimes() -> Vec<Runtime> {
    let mut all = Vec::new();
    for (policy, _) in POLICIES {
        for workers in [1, 2, 5] {
            all.push(Runtime::builder().workers(workers).policy(policy).build().unwrap());
        }
    }
    all
}

#[test]
fn chains_run_in_order() {
    for rt in runtimes() {
        let x = rt.register(1u64);
        for i in 0..200u64 {
            rt.task("step")
                .operands((update(&x),))
                .cpu(move |(x,)| *x = x.wrapping_mul(3).wrapping_add(i))
                .submit()
                .unwrap();
        }
        let expected = (0..200u64).fold(1u64, |x, i| x.wrapping_mul(3).wrapping_add(i));
        assert_eq!(rt.take(x).unwrap(), expected);
    }
}

#[test]
fn readers_share_and_writers_wait() {
    for rt in runtimes() {
        let x = rt.register(vec![0u64; 8]);
        let sums: Vec<_> = (0..20).map(|_| rt.register(0u64)).collect();
        for round in 0..20u64 {
            rt.task("fill").operands((update(&x),)).cpu(move |(x,)| x.fill(round)).submit().unwrap();
            for s in &sums {
                rt.task("sum")
                    .operands((read(&x), update(s)))
                    .cpu(|(x, s)| *s += x.iter().sum::<u64>())
                    .submit()
                    .unwrap();
            }
        }
        for s in sums {
            assert_eq!(rt.take(s).unwrap(), 8 * 190);
        }
    }
}

#[test]
fn commute_and_reduce_add_up() {
    for rt in runtimes() {
        let c = rt.register(0u64);
        let r = rt.register(5u64).with_reduction(|_| 0, |a, b| *a += b);
        for i in 0..100u64 {
            rt.task("c").operands((commute(&c),)).cpu(move |(c,)| *c += i).submit().unwrap();
            rt.task("r").operands((reduce(&r),)).cpu(move |(r,)| *r += i).submit().unwrap();
        }
        assert_eq!(*rt.read(&r).unwrap(), 4955);
        rt.task("more").operands((update(&r),)).cpu(|(r,)| *r *= 2).submit().unwrap();
        for _ in 0..10 {
            rt.task("r").operands((reduce(&r),)).cpu(move |(r,)| *r += 1).submit().unwrap();
        }
        assert_eq!(rt.take(r).unwrap(), 9920);
        assert_eq!(rt.take(c).unwrap(), 4950);
    }
}

#[test]
fn failure_poisons_what_depends_and_nothing_else() {
    for rt in runtimes() {
        let (a, b, c) =
            (rt.register(1i32).named("a"), rt.register(2i32).named("b"), rt.register(3i32).named("c"));
        rt.task("bad").operands((update(&a),)).cpu(|(_,)| Err::<(), _>("no good")).submit().unwrap();
        rt.task("copy").operands((read(&a), write(&b))).cpu(|(a, mut b)| b.put(*a)).submit().unwrap();
        rt.task("fine").operands((update(&c),)).cpu(|(c,)| *c += 1).submit().unwrap();
        assert_eq!(*rt.read(&c).unwrap(), 4);
        let e = rt.read(&b).unwrap_err();
        assert_eq!(e.to_string(), "b has no value: task bad on (a): no good");
        rt.task("heal").operands((write(&a),)).cpu(|(mut a,)| a.put(9)).submit().unwrap();
        assert_eq!(rt.take(a).unwrap(), 9);
        let p = rt
            .task("panics")
            .operands((update(&c),))
            .cpu(|(_,)| {
                if true {
                    panic!("ouch")
                }
            })
            .submit()
            .unwrap();
        assert!(rt.wait(&p).unwrap_err().to_string().contains("panicked: ouch"));
        assert!(rt.take(c).is_err());
    }
}

#[test]
fn replay_is_the_same_as_running() {
    for rt in runtimes() {
        let a = rt.register(1u64).named("a");
        let b = rt.register(0u64).named("b").with_reduction(|_| 0, |a, b| *a = a.wrapping_add(*b));
        let build = |g: &Recorder| {
            for i in 0..50u64 {
                g.task("a")
                    .operands((update(&a),))
                    .cpu(move |(a,)| *a = a.wrapping_mul(3).wrapping_add(i))
                    .submit()?;
                g.task("b")
                    .operands((read(&a), reduce(&b)))
                    .cpu(|(a, b)| *b = b.wrapping_add(*a))
                    .submit()?;
            }
            Ok::<(), Error>(())
        };
        let graph = rt.record(build).unwrap();
        assert_eq!(graph.len(), 101, "one task combines the reduction");
        let mut expected = (1u64, 0u64);
        let step = |expected: &mut (u64, u64)| {
            for i in 0..50u64 {
                expected.0 = expected.0.wrapping_mul(3).wrapping_add(i);
                expected.1 = expected.1.wrapping_add(expected.0);
            }
        };
        for _ in 0..3 {
            rt.replay(&Bindings::recorded(&graph)).unwrap();
            step(&mut expected);
        }
        let a2 = rt.register(1u64);
        rt.replay(&graph.bind("a", &a2).unwrap()).unwrap();
        let mut other = (1, expected.1);
        step(&mut other);
        assert_eq!(rt.take(a).unwrap(), expected.0);
        assert_eq!(rt.take(a2).unwrap(), other.0);
        assert_eq!(rt.take(b).unwrap(), other.1);
    }
}

#[test]
fn a_task_submits_tasks_and_a_small_window_is_no_trap() {
    let rt = Arc::new(Runtime::builder().workers(2).window(4).build().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    for _ in 0..20 {
        let (rt2, count) = (Arc::downgrade(&rt), Arc::clone(&count));
        rt.task("outer")
            .operands(())
            .cpu(move |()| {
                let rt = rt2.upgrade().unwrap();
                for _ in 0..20 {
                    let count = Arc::clone(&count);
                    rt.task("inner")
                        .operands(())
                        .cpu(move |()| {
                            count.fetch_add(1, Ordering::Relaxed);
                        })
                        .submit()
                        .unwrap();
                }
            })
            .submit()
            .unwrap();
    }
    rt.wait_all().unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 400);
}

#[test]
fn sleeping_workers_wake_for_late_tasks() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(2));
        let x = rt.register(0u8);
        rt.task("t").operands((update(&x),)).cpu(|(x,)| *x += 1).submit().unwrap();
        assert_eq!(rt.take(x).unwrap(), 1);
    }
}

/// Fails if it runs on another worker.
struct Named(Option<usize>);

impl Codelet for Named {
    type Operands = ();

    fn name(&self) -> &'static str {
        "named"
    }

    fn cpu(&self, _: (), cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let is_there = self.0.is_none_or(|worker| worker == cx.worker());
        if is_there { Ok(()) } else { Err(format!("it runs on worker {}", cx.worker()).into()) }
    }
}

/// Also on cores that are all alike, for which queues check restricted tasks only.
#[test]
fn tasks_run_on_the_worker_that_they_name() {
    for (policy, _) in POLICIES {
        let rt = Runtime::builder().workers(2).policy(policy).build().unwrap();
        let submit = |i: usize| {
            let named = [None, Some(0), Some(1)][i % 3];
            let task = rt.codelet(Named(named), ()).priority(i as i32 % 2);
            let task = if let Some(worker) = named { task.on_worker(worker) } else { task };
            task.submit().unwrap()
        };
        let tasks: Vec<_> = (0..300).map(submit).collect();
        for task in &tasks {
            rt.wait(task).unwrap_or_else(|error| panic!("{policy}: {error}"));
        }
    }
}
