//! Bodies of high priority that wait for tasks of lower priority.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use zellige_runtime::*;

use super::within_seconds;

/// Policies that use priorities.
const BY_PRIORITY: [&str; 5] = ["prio", "lws", "dmdas", "heteroprio", "random"];

/// Method by which a body waits for the tasks that it has submitted.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Taken,
    Task,
    Value,
    Group,
    /// Its child waits for a child of its own.
    Grandchild,
    /// The second of two children, which reads what the first writes.
    Chain,
}

fn wait(rt: &Weak<Runtime>, how: Wait, priority: i32) -> Result<(), Error> {
    let rt = rt.upgrade().expect("the test holds it");
    let x = rt.register(0u8);
    let child = || rt.task("child").operands((update(&x),)).cpu(|(x,)| *x += 1).priority(priority);
    match how {
        Wait::Taken => {
            child().submit()?;
            rt.take(x).map(drop)
        }
        Wait::Task => rt.wait(&child().submit()?),
        Wait::Value => {
            child().submit()?;
            rt.read(&x).map(drop)
        }
        Wait::Group => {
            let group = rt.group();
            group.task("member").operands((update(&x),)).cpu(|(x,)| *x += 1).priority(priority).submit()?;
            group.wait()
        }
        Wait::Grandchild => {
            let inner = Arc::downgrade(&rt);
            let body = move |()| wait(&inner, Wait::Task, priority - 1);
            rt.wait(&rt.task("child").operands(()).cpu(body).priority(priority).submit()?)
        }
        Wait::Chain => {
            child().submit()?;
            rt.wait(&child().submit()?)
        }
    }
}

/// Returns the number of tasks of priority 5 that end before a body of priority 10 that waits for a
/// child.
fn overtaken(policy: &str, how: Wait, child: i32) -> usize {
    let rt = Arc::new(Runtime::builder().workers(1).policy(policy).build().unwrap());
    let (gate, done) = (rt.register(0u8), Arc::new(AtomicUsize::new(0)));
    let held = rt.write(&gate).unwrap();
    let (weak, ended) = (Arc::downgrade(&rt), Arc::clone(&done));
    let overtaken = rt.register_empty::<usize>();
    let body = move |(_, mut overtaken): (&u8, Slot<'_, usize>)| {
        let before = ended.load(Ordering::SeqCst);
        wait(&weak, how, child)?;
        overtaken.put(ended.load(Ordering::SeqCst) - before);
        Ok::<(), Error>(())
    };
    rt.task("urgent").operands((read(&gate), write(&overtaken))).cpu(body).priority(10).submit().unwrap();
    for _ in 0..100 {
        let done = Arc::clone(&done);
        let body = move |_: (&u8,)| {
            done.fetch_add(1, Ordering::SeqCst);
        };
        rt.task("medium").operands((read(&gate),)).cpu(body).priority(5).submit().unwrap();
    }
    drop(held);
    rt.wait_all().unwrap();
    assert_eq!(done.load(Ordering::SeqCst), 100);
    rt.take(overtaken).unwrap()
}

#[test]
fn a_child_inherits_the_priority_of_the_body_that_waits_for_it() {
    within_seconds(120, || {
        for policy in BY_PRIORITY {
            for how in [Wait::Taken, Wait::Task, Wait::Value, Wait::Group, Wait::Grandchild, Wait::Chain] {
                for child in [-10, 0, 5, 6, 10, 11] {
                    assert_eq!(overtaken(policy, how, child), 0, "{policy}, {how:?}, priority {child}");
                }
            }
        }
    });
}

/// A child has its own priority again once nobody waits for it.
#[test]
fn a_child_that_nobody_waits_for_keeps_its_priority() {
    within_seconds(60, || {
        for policy in ["prio", "lws", "dmdas"] {
            let rt = Arc::new(Runtime::builder().workers(1).policy(policy).build().unwrap());
            let gate = rt.register(0u8);
            let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
            let held = rt.write(&gate).unwrap();
            let (weak, said) = (Arc::downgrade(&rt), Arc::clone(&order));
            let parent = move |_: (&u8,)| {
                let rt = weak.upgrade().expect("the test holds it");
                rt.wait(&rt.task("awaited").operands(()).cpu(|()| ()).priority(-1).submit()?)?;
                let said = Arc::clone(&said);
                rt.task("late").operands(()).cpu(move |()| said.lock().push("late")).priority(1).submit()?;
                Ok::<(), Error>(())
            };
            rt.task("parent").operands((read(&gate),)).cpu(parent).priority(10).submit().unwrap();
            let said = Arc::clone(&order);
            let body = move |_: (&u8,)| said.lock().push("medium");
            rt.task("medium").operands((read(&gate),)).cpu(body).priority(5).submit().unwrap();
            drop(held);
            rt.wait_all().unwrap();
            assert_eq!(*order.lock(), ["medium", "late"], "{policy}");
        }
    });
}
