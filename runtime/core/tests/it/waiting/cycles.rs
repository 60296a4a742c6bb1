//! Detection of cycles of waits, with the names of their steps.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zellige_runtime::*;

use super::{rt, within_seconds};

/// Results of the bodies' waits.
type Outcome = Arc<Mutex<Vec<Result<(), Error>>>>;

fn is_deadlock(result: &Result<(), Error>, words: &[&str]) {
    let error = result.as_ref().unwrap_err();
    assert!(matches!(error, Error::Deadlock { .. }), "{error}");
    let text = error.to_string();
    words.iter().for_each(|word| assert!(text.contains(word), "{word}: {text}"));
}

#[test]
fn a_body_that_waits_for_its_successor_is_told() {
    within_seconds(60, || {
        for workers in [1, 2] {
            let rt = rt(workers);
            let x = rt.register(0u32).named("x");
            let (weak, inner, outcome) = (Arc::downgrade(&rt), x.clone(), Outcome::default());
            let out = Arc::clone(&outcome);
            let body = move |(_,): (&mut u32,)| {
                let rt = weak.upgrade().unwrap();
                let next = rt.task("next").operands((update(&inner),)).cpu(|(x,)| *x += 1).submit().unwrap();
                out.lock().unwrap().push(rt.wait(&next));
            };
            rt.task("holder").operands((update(&x),)).cpu(body).submit().unwrap();
            rt.wait_all().unwrap();
            is_deadlock(&outcome.lock().unwrap()[0], &["holder #", "next #", "comes after"]);
            assert_eq!(rt.take(x).unwrap(), 1);
        }
    });
}

#[test]
fn also_through_a_second_handle() {
    within_seconds(60, || {
        for workers in [1, 2] {
            let rt = rt(workers);
            let (x, y) = (rt.register(0u32).named("x"), rt.register(0u32).named("y"));
            let (weak, handles, outcome) = (Arc::downgrade(&rt), (x.clone(), y.clone()), Outcome::default());
            let out = Arc::clone(&outcome);
            let body = move |(_,): (&mut u32,)| {
                let rt = weak.upgrade().unwrap();
                let (x, y) = &handles;
                rt.task("both").operands((read(x), update(y))).cpu(|(x, y)| *y += *x).submit().unwrap();
                rt.task("reader").operands((read(y),)).cpu(|(_,)| ()).submit().unwrap();
                out.lock().unwrap().push(rt.read(y).map(drop));
                out.lock().unwrap().push(rt.write(y).map(drop));
            };
            rt.task("holder").operands((update(&x),)).cpu(body).submit().unwrap();
            rt.wait_all().unwrap();
            is_deadlock(&outcome.lock().unwrap()[0], &["holder #", "both #", "read of y"]);
            is_deadlock(&outcome.lock().unwrap()[1], &["write of y"]);
            assert_eq!(rt.take(y).unwrap(), 0);
        }
    });
}

/// Two bodies, each holding the operand of a task for which the other one waits.
#[test]
fn crossed_waits_end_one_of_the_two() {
    within_seconds(60, || {
        for workers in [1, 2] {
            let rt = rt(workers);
            let (x, y) = (rt.register(0u32).named("x"), rt.register(0u32).named("y"));
            let outcome = Outcome::default();
            let gate = rt.register(0u32);
            let guard = rt.write(&gate).unwrap();
            let submit = |mine: &Handle<u32>, other: &Handle<u32>| {
                let (weak, other, out) = (Arc::downgrade(&rt), other.clone(), Arc::clone(&outcome));
                let body = move |(_, _): (&mut u32, &u32)| {
                    let result = weak.upgrade().unwrap().read(&other).map(drop);
                    out.lock().unwrap().push(result);
                };
                rt.task("holder").operands((update(mine), read(&gate))).cpu(body).submit().unwrap()
            };
            let tasks = [submit(&x, &y), submit(&y, &x)];
            drop(guard);
            tasks.iter().for_each(|task| rt.wait(task).unwrap());
            let outcome = outcome.lock().unwrap();
            let deadlocks = outcome.iter().filter(|result| matches!(result, Err(Error::Deadlock { .. })));
            assert_eq!(deadlocks.count(), 1, "{outcome:?}");
            assert_eq!(outcome.iter().filter(|result| result.is_ok()).count(), 1, "{outcome:?}");
        }
    });
}

#[test]
fn a_wait_inside_a_replay_for_what_comes_after_it_is_told() {
    within_seconds(60, || {
        for workers in [1, 2] {
            let rt = rt(workers);
            let x = rt.register(0u32).named("x");
            let (weak, inner, outcome) = (Arc::downgrade(&rt), x.clone(), Outcome::default());
            let out = Arc::clone(&outcome);
            let graph = rt
                .record(|g| {
                    g.task("in replay")
                        .operands((update(&x),))
                        .cpu(move |(_,)| {
                            let rt = weak.upgrade().unwrap();
                            let after = rt
                                .task("after")
                                .operands((update(&inner),))
                                .cpu(|(x,)| *x += 1)
                                .submit()
                                .unwrap();
                            out.lock().unwrap().push(rt.wait(&after));
                        })
                        .submit()
                        .map(drop)
                })
                .unwrap();
            let replay = rt.replay(&Bindings::recorded(&graph)).unwrap();
            rt.wait(&replay).unwrap();
            is_deadlock(&outcome.lock().unwrap()[0], &["replay #", "after #"]);
            assert_eq!(rt.take(x).unwrap(), 1);
        }
    });
}

/// No edge orders commuting tasks: the cycle closes when one of them finds the handle busy.
#[test]
fn a_wait_for_a_task_that_commutes_with_the_waiter_is_told() {
    within_seconds(60, || {
        for workers in [1, 2] {
            let rt = rt(workers);
            let x = rt.register(0u32).named("x");
            let (weak, inner, outcome) = (Arc::downgrade(&rt), x.clone(), Outcome::default());
            let out = Arc::clone(&outcome);
            let body = move |(x,): (&mut u32,)| {
                let rt = weak.upgrade().unwrap();
                let next = rt.task("next").operands((commute(&inner),)).cpu(|(x,)| *x += 1).submit().unwrap();
                out.lock().unwrap().push(rt.wait(&next));
                *x += 10;
            };
            rt.task("holder").operands((commute(&x),)).cpu(body).submit().unwrap();
            rt.wait_all().unwrap();
            is_deadlock(&outcome.lock().unwrap()[0], &["commutes with"]);
            assert_eq!(rt.take(x).unwrap(), 11);
        }
    });
}

#[test]
fn a_group_with_a_successor_of_the_waiter_is_told() {
    within_seconds(60, || {
        let rt = rt(2);
        let x = rt.register(0u32).named("x");
        let (weak, inner, outcome) = (Arc::downgrade(&rt), x.clone(), Outcome::default());
        let out = Arc::clone(&outcome);
        let body = move |(_,): (&mut u32,)| {
            let rt = weak.upgrade().unwrap();
            let group = rt.group();
            group.task("next").operands((update(&inner),)).cpu(|(x,)| *x += 1).submit().unwrap();
            out.lock().unwrap().push(group.wait());
        };
        rt.task("holder").operands((update(&x),)).cpu(body).submit().unwrap();
        rt.wait_all().unwrap();
        is_deadlock(&outcome.lock().unwrap()[0], &["a group of tasks"]);
        assert_eq!(rt.take(x).unwrap(), 1);
    });
}

/// These waits are correct, however long they take.
#[test]
fn waits_that_end_are_no_cycles() {
    within_seconds(60, || {
        for workers in [1, 2] {
            let rt = rt(workers);
            let (x, y) = (rt.register(0u32), rt.register(0u32));
            let guard = rt.write(&y).unwrap();
            let (began, wait) = mpsc::channel();
            let (weak, inner) = (Arc::downgrade(&rt), y.clone());
            let body = move |(x,): (&mut u32,)| {
                began.send(()).unwrap();
                *x = *weak.upgrade().unwrap().read(&inner)?;
                Ok::<(), Error>(())
            };
            let waiter = rt.task("waiter").operands((update(&x),)).cpu(body).submit().unwrap();
            wait.recv().unwrap();
            std::thread::sleep(Duration::from_millis(30));
            assert!(!waiter.is_done());
            drop(guard);
            rt.wait(&waiter).unwrap();
        }
    });
}

#[test]
fn cancelling_everything_frees_bodies_that_wait() {
    within_seconds(60, || {
        let rt = rt(1);
        let x = rt.register(0u32);
        let guard = rt.write(&x).unwrap();
        let (began, wait) = mpsc::channel();
        let (weak, inner) = (Arc::downgrade(&rt), x.clone());
        let body = move |()| {
            began.send(()).unwrap();
            weak.upgrade().unwrap().read(&inner).map(drop)
        };
        let waiter = rt.task("waiter").operands(()).cpu(body).submit().unwrap();
        wait.recv().unwrap();
        rt.cancel_all();
        let error = rt.wait(&waiter).unwrap_err();
        assert!(matches!(error.failure().map(|f| &f.cause), Some(Cause::Cancelled)), "{error}");
        drop(guard);
        assert_eq!(rt.take(x).unwrap(), 0);
    });
}
