//! Bodies that submit tasks and wait for them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use zellige_runtime::sched::{CentralQueue, POLICIES, Policy, ReadyTask, SchedView, Wake};
use zellige_runtime::*;

use super::{rt, within_seconds};

fn fib(rt: &Weak<Runtime>, n: u64) -> Result<u64, Error> {
    let here = rt.upgrade().expect("the test holds it");
    let submit = |n: u64| {
        let out = here.register_empty::<u64>();
        let inner = rt.clone();
        let body = move |(mut out,): (Slot<'_, u64>,)| {
            out.put(if n < 2 { n } else { fib(&inner, n)? });
            Ok::<(), Error>(())
        };
        here.task("fib").operands((write(&out),)).cpu(body).submit().map(|_| out)
    };
    let (a, b) = (submit(n - 1)?, submit(n - 2)?);
    Ok(here.take(a)? + here.take(b)?)
}

fn fib_on(rt: &Arc<Runtime>, n: u64) -> Result<u64, Error> {
    let (out, inner) = (rt.register_empty::<u64>(), Arc::downgrade(rt));
    let body = move |(mut out,): (Slot<'_, u64>,)| {
        out.put(fib(&inner, n)?);
        Ok::<(), Error>(())
    };
    rt.task("fib").operands((write(&out),)).cpu(body).submit()?;
    rt.take(out)
}

#[test]
fn a_recursion_of_tens_of_thousands_of_tasks_ends() {
    within_seconds(120, || {
        for workers in [1, 2] {
            let rt = rt(workers);
            assert_eq!(fib_on(&rt, 22).unwrap(), 17711);
        }
    });
}

#[test]
fn every_policy_ends_a_recursion() {
    within_seconds(120, || {
        for (policy, _) in POLICIES {
            for workers in [1, 2, 3] {
                let rt = Arc::new(Runtime::builder().workers(workers).policy(policy).build().unwrap());
                assert_eq!(fib_on(&rt, 12).unwrap(), 144, "{policy}, {workers} workers");
            }
        }
    });
}

/// Nested tasks, each with 64 KiB of its own on the stack, two thousand deep: 128 MiB of stack.
#[test]
fn deep_recursion_with_large_frames_uses_further_stacks() {
    fn dive(rt: &Weak<Runtime>, depth: usize) -> Result<usize, Error> {
        let frame = std::hint::black_box([depth as u8; 64 << 10]);
        if depth == 0 {
            return Ok(usize::from(frame[7]));
        }
        let here = rt.upgrade().expect("the test holds it");
        let (out, inner) = (here.register_empty::<usize>(), rt.clone());
        let body = move |(mut out,): (Slot<'_, usize>,)| {
            out.put(dive(&inner, depth - 1)?);
            Ok::<(), Error>(())
        };
        here.task("dive").operands((write(&out),)).cpu(body).submit()?;
        let deeper = here.take(out)?;
        Ok(deeper + usize::from(std::hint::black_box(&frame)[11] == depth as u8))
    }
    within_seconds(60, || {
        for workers in [1, 2] {
            let rt = rt(workers);
            let out = rt.register_empty::<usize>();
            let inner = Arc::downgrade(&rt);
            let body = move |(mut out,): (Slot<'_, usize>,)| {
                out.put(dive(&inner, 2000)?);
                Ok::<(), Error>(())
            };
            rt.task("dive").operands((write(&out),)).cpu(body).submit().unwrap();
            assert_eq!(rt.take(out).unwrap(), 2000);
        }
    });
}

/// A body waits for a task that another body, queued after it on the only worker, will submit: it
/// must not be buried on a stack.
#[test]
fn a_body_that_waits_is_never_under_a_stranger() {
    within_seconds(60, || {
        let rt = rt(1);
        let (x, y) = (rt.register(0u32), rt.register(0u32));
        let order = Arc::new(AtomicUsize::new(0));
        let (done_first, weak, other) = (Arc::clone(&order), Arc::downgrade(&rt), y.clone());
        // Waits for an independent task, which comes after another body that waits for the first.
        let hold = rt.write(&y).unwrap();
        let first = rt
            .task("first")
            .operands((update(&x),))
            .cpu(move |(x,)| {
                let rt = weak.upgrade().unwrap();
                *x = *rt.read(&other)?;
                done_first.store(1, Ordering::SeqCst);
                Ok::<(), Error>(())
            })
            .submit()
            .unwrap();
        let (weak, awaited, seen) = (Arc::downgrade(&rt), first.clone(), Arc::clone(&order));
        let began = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&began);
        let stranger = rt
            .task("stranger")
            .operands(())
            .cpu(move |()| {
                begins.store(true, Ordering::SeqCst);
                weak.upgrade().unwrap().wait(&awaited)?;
                assert_eq!(seen.load(Ordering::SeqCst), 1);
                Ok::<(), Error>(())
            })
            .submit()
            .unwrap();
        // Both bodies are waiting by then, or about to.
        while !began.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        drop(hold);
        rt.wait(&stranger).unwrap();
        rt.wait(&first).unwrap();
    });
}

#[test]
fn a_body_waits_for_its_children_alone() {
    struct Parent(Handle<u32>, Handle<u32>);
    impl Codelet for Parent {
        type Operands = (Update<u32>,);
        fn name(&self) -> &'static str {
            "parent"
        }
        fn cpu(&self, (sum,): (&mut u32,), cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
            cx.wait_children()?;
            for _ in 0..10 {
                cx.task("child").operands((update(&self.0),)).cpu(|(x,)| *x += 1).submit()?;
            }
            cx.wait_children()?;
            *sum = 1;
            cx.task("fails").operands((update(&self.1),)).cpu(|(_,)| Err::<(), _>("meant to")).submit()?;
            let error = cx.wait_children().unwrap_err();
            assert!(matches!(&error, Error::Failed(failure) if failure.task == "fails"), "{error}");
            Ok(())
        }
    }
    within_seconds(60, || {
        for workers in [1, 2] {
            let rt = rt(workers);
            let (x, y, sum) = (rt.register(0u32), rt.register(0u32), rt.register(0u32));
            let held = rt.register(0u32);
            let guard = rt.write(&held).unwrap();
            rt.task("held").operands((update(&held),)).cpu(|(x,)| *x += 1).submit().unwrap();
            rt.submit(Parent(x.clone(), y), (update(&sum),)).unwrap();
            assert_eq!(*rt.read(&sum).unwrap(), 1);
            assert_eq!(*rt.read(&x).unwrap(), 10);
            drop(guard);
        }
    });
}

#[test]
fn a_group_is_waited_for_by_bodies_and_callers() {
    within_seconds(60, || {
        for workers in [1, 2] {
            let rt = rt(workers);
            let group = rt.group();
            group.wait().unwrap();
            let values: Vec<_> = (0..100u32).map(|i| rt.register(i)).collect();
            for value in &values {
                group.task("add").operands((update(value),)).cpu(|(x,)| *x += 1).submit().unwrap();
            }
            group.wait().unwrap();
            let weak = Arc::downgrade(&rt);
            let inner = values.clone();
            let body = move |()| {
                let rt = weak.upgrade().unwrap();
                let group = rt.group();
                for value in &inner {
                    group.task("add").operands((update(value),)).cpu(|(x,)| *x += 1).submit()?;
                }
                group.wait()
            };
            let outer = rt.task("outer").operands(()).cpu(body).submit().unwrap();
            rt.wait(&outer).unwrap();
            for (i, value) in values.into_iter().enumerate() {
                assert_eq!(rt.take(value).unwrap(), i as u32 + 2);
            }
            let x = rt.register(1u32);
            let group = rt.group();
            group
                .task("fails")
                .operands((update(&x),))
                .cpu(|(_,)| Err::<(), _>("meant to"))
                .submit()
                .unwrap();
            assert!(group.wait().unwrap_err().to_string().contains("meant to"));
        }
    });
}

#[test]
fn more_bodies_than_there_are_spare_threads_are_told_so() {
    within_seconds(60, || {
        let rt = Arc::new(Runtime::builder().workers(1).window(100_000).build().unwrap());
        let x = rt.register(0u32);
        let guard = rt.write(&x).unwrap();
        let submit = || {
            let (weak, x) = (Arc::downgrade(&rt), x.clone());
            let body = move |()| weak.upgrade().unwrap().read(&x).map(drop);
            rt.task("waits").operands(()).cpu(body).submit().unwrap()
        };
        let tasks: Vec<_> = (0..1500).map(|_| submit()).collect();
        while tasks.iter().filter(|task| task.is_done()).count() < 300 {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(guard);
        let failed = tasks.iter().filter_map(|task| rt.wait(task).err()).collect::<Vec<_>>();
        assert!(failed.len() >= 300 && failed.len() < 600, "{} failed", failed.len());
        assert!(failed[0].to_string().contains("bodies wait at once"), "{}", failed[0]);
        assert_eq!(rt.take(x).unwrap(), 0);
    });
}

#[test]
fn what_a_policy_drops_while_its_one_worker_waits_is_lost() {
    /// Drops the tasks with a given name.
    struct Drops(CentralQueue);
    impl Policy for Drops {
        fn name(&self) -> &str {
            "drops"
        }
        fn push(&self, view: &SchedView<'_>, task: ReadyTask, from: Option<usize>) -> Wake {
            self.0.push(view, task, from)
        }
        fn pop(&self, view: &SchedView<'_>, worker: usize) -> Option<ReadyTask> {
            let task = self.0.pop(view, worker)?;
            (task.codelet() != "dropped").then_some(task)
        }
    }
    within_seconds(60, || {
        let rt = Arc::new(
            Runtime::builder().workers(1).policy_with(Drops(CentralQueue::first_come())).build().unwrap(),
        );
        let weak = Arc::downgrade(&rt);
        let body = move |()| {
            let rt = weak.upgrade().unwrap();
            let x = rt.register(0u32);
            rt.task("dropped").operands((update(&x),)).cpu(|(x,)| *x += 1).submit()?;
            rt.take(x).map(drop)
        };
        let outer = rt.task("outer").operands(()).cpu(body).submit().unwrap();
        let error = rt.wait(&outer).unwrap_err();
        assert!(matches!(error.failure().map(|f| &f.cause), Some(Cause::Lost)), "{error}");
    });
}

#[test]
fn the_first_failure_is_what_every_outer_task_reports() {
    fn fall(rt: &Weak<Runtime>, depth: usize) -> Result<u32, Error> {
        let here = rt.upgrade().unwrap();
        let (x, inner) = (here.register(0u32), rt.clone());
        let body = move |(x,): (&mut u32,)| {
            *x = if depth == 0 { Err("the bottom")? } else { fall(&inner, depth - 1)? };
            Ok::<(), TaskError>(())
        };
        here.task("fall").operands((update(&x),)).cpu(body).submit()?;
        here.take(x)
    }
    within_seconds(60, || {
        let rt = rt(2);
        let weak = Arc::downgrade(&rt);
        let outer = rt.task("outer").operands(()).cpu(move |()| fall(&weak, 6).map(drop)).submit().unwrap();
        let message = rt.wait(&outer).unwrap_err().to_string();
        assert_eq!(message.matches("has no value").count(), 0, "{message}");
        assert!(message.contains("task fall") && message.contains("the bottom"), "{message}");
        assert!(rt.wait_all().unwrap_err().to_string().contains("the bottom"));
        let failures = rt.failures();
        assert_eq!(failures.len(), 1, "{failures:?}");
        rt.wait_all().unwrap();
    });
}
