//! Lifetimes: waiting, holding and dropping in any place and order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use zellige_runtime::*;

use super::{Counted, rt, within_seconds};

#[test]
fn a_waiting_task_helps() {
    within_seconds(20, || {
        let rt = Arc::new(Runtime::builder().workers(1).build().unwrap());
        let x = rt.register(0u32);
        let (weak, inner) = (Arc::downgrade(&rt), x.clone());
        let outer = rt
            .task("outer")
            .operands(())
            .cpu(move |()| {
                let rt = weak.upgrade().unwrap();
                rt.task("inner").operands((update(&inner),)).cpu(|(x,)| *x = 7).submit().unwrap();
                assert_eq!(*rt.read(&inner).unwrap(), 7);
            })
            .submit()
            .unwrap();
        rt.wait(&outer).unwrap();
    });
}

#[test]
fn a_held_guard_is_nothing_to_wait_for() {
    within_seconds(20, || {
        let rt = Runtime::builder().workers(1).window(1).build().unwrap();
        let (x, y) = (rt.register(1u8), rt.register(1u8));
        let guard = rt.read(&x).unwrap();
        for _ in 0..10 {
            rt.task("t").operands((update(&y),)).cpu(|(y,)| *y += 1).submit().unwrap();
        }
        rt.wait_all().unwrap();
        assert_eq!(*guard, 1);
        drop(guard);
        assert_eq!(rt.take(y).unwrap(), 11);
    });
}

#[test]
fn a_runtime_inside_a_task_of_another_works() {
    within_seconds(20, || {
        let outer = rt();
        let x = outer.register(0u32);
        outer
            .task("outer")
            .operands((update(&x),))
            .cpu(|(x,)| {
                let inner = rt();
                let y = inner.register(1u32);
                inner.task("inner").operands((update(&y),)).cpu(|(y,)| *y += 1).submit()?;
                inner.wait_all()?;
                *x = inner.take(y)?;
                Ok::<(), Error>(())
            })
            .submit()
            .unwrap();
        assert_eq!(outer.take(x).unwrap(), 2);
    });
}

#[test]
fn whatever_came_last_a_dropped_handle_frees_its_data() {
    within_seconds(20, || {
        let drops = Arc::new(AtomicUsize::new(0));
        let uses: [fn(&Runtime, &Handle<Counted>); 5] = [
            |rt, x| drop(rt.write(x).unwrap()),
            |rt, x| drop(rt.read(x).unwrap()),
            |rt, x| drop(rt.task("t").operands((update(x),)).cpu(|(x,)| *x += 1).submit().unwrap()),
            |rt, x| drop(rt.task("t").operands((reduce(x),)).cpu(|(x,)| *x += 1).submit().unwrap()),
            |rt, x| {
                let graph = rt
                    .record(|g| g.task("t").operands((update(x),)).cpu(|(x,)| *x += 1).submit().map(drop))
                    .unwrap();
                rt.replay(&Bindings::recorded(&graph)).unwrap();
            },
        ];
        for (n, last) in uses.iter().enumerate() {
            drops.store(0, Ordering::SeqCst);
            let rt = rt();
            let more = Arc::clone(&drops);
            let x = rt
                .register(Counted(0, Arc::clone(&drops)))
                .with_reduction(move |_| Counted(0, Arc::clone(&more)), |a, b| a.0 += b.0);
            last(&rt, &x);
            rt.wait_all().unwrap();
            drop((x, rt));
            // A reduction whose result is not requested also leaves its partial result.
            assert!(drops.load(Ordering::SeqCst) >= 1, "use {n} leaks");
        }
    });
}

#[test]
fn the_last_reference_may_be_dropped_on_a_worker() {
    within_seconds(20, || {
        let rt = Arc::new(rt());
        let (done, wait) = mpsc::channel();
        let (held, gate) = (Arc::clone(&rt), rt.register(0u8));
        let guard = Arc::clone(&rt);
        let guard = guard.write(&gate).unwrap();
        rt.task("holder")
            .operands((read(&gate),))
            .cpu(move |(_,)| {
                let _ = &held;
                done.send(()).unwrap();
            })
            .submit()
            .unwrap();
        drop(guard);
        drop(rt);
        wait.recv_timeout(Duration::from_secs(10)).unwrap();
    });
}

#[test]
fn handles_outlive_their_runtime() {
    within_seconds(20, || {
        let first = rt();
        let x = first.register(1u8);
        first.task("t").operands((update(&x),)).cpu(|(x,)| *x += 1).submit().unwrap();
        drop(first);
        let second = rt();
        second.task("t").operands((update(&x),)).cpu(|(x,)| *x += 1).submit().unwrap();
        assert_eq!(second.take(x).unwrap(), 3);
    });
}
