//! Guards, the window of tasks in flight, runtimes and processes.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zellige_runtime::*;

use super::{rt, within_seconds};

#[test]
fn who_holds_a_guard_submits_beyond_the_window() {
    within_seconds(60, || {
        for workers in [1, 2] {
            let rt = Runtime::builder().workers(workers).window(8).build().unwrap();
            let x = rt.register(0u32);
            let guard = rt.write(&x).unwrap();
            for _ in 0..100 {
                rt.task("add").operands((update(&x),)).cpu(|(x,)| *x += 1).submit().unwrap();
            }
            drop(guard);
            assert_eq!(rt.take(x).unwrap(), 100);
        }
    });
}

/// Another thread's tasks wait for the guard and fill the window; the next task of the guard's
/// holder does not depend on them.
#[test]
fn a_window_filled_by_others_does_not_hold_the_holder_of_the_guard() {
    within_seconds(60, || {
        let rt = Runtime::builder().workers(2).window(8).build().unwrap();
        let (x, y) = (rt.register(0u32), rt.register(0u32));
        let guard = rt.write(&x).unwrap();
        std::thread::scope(|scope| {
            let (rt, x) = (&rt, &x);
            scope.spawn(move || {
                for _ in 0..100 {
                    rt.task("add").operands((update(x),)).cpu(|(x,)| *x += 1).submit().unwrap();
                }
            });
            std::thread::sleep(Duration::from_millis(50));
            for _ in 0..100 {
                rt.task("other").operands((update(&y),)).cpu(|(y,)| *y += 1).submit().unwrap();
            }
            drop(guard);
        });
        assert_eq!((rt.take(x).unwrap(), rt.take(y).unwrap()), (100, 100));
    });
}

#[test]
fn conflicting_guards_of_one_thread_are_an_error() {
    within_seconds(60, || {
        let rt = rt(2);
        let x = rt.register(7u32).named("x");
        let guard = rt.write(&x).unwrap();
        for error in [rt.read(&x).map(drop), rt.write(&x).map(drop), rt.take(x.clone()).map(drop)] {
            let error = error.unwrap_err();
            assert!(matches!(error, Error::Deadlock { .. }), "{error}");
            assert!(error.to_string().contains("write of x"), "{error}");
        }
        drop(guard);
        assert_eq!(*rt.read(&x).unwrap(), 7);
        let (one, two) = (rt.read(&x).unwrap(), rt.read(&x).unwrap());
        assert_eq!(*one + *two, 14);
        assert!(matches!(rt.write(&x).map(drop), Err(Error::Deadlock { .. })));
    });
}

#[test]
fn waiting_for_tasks_behind_ones_own_guard_is_an_error() {
    within_seconds(60, || {
        let rt = rt(2);
        let x = rt.register(0u32).named("x");
        let guard = rt.write(&x).unwrap();
        let task = rt.task("add").operands((update(&x),)).cpu(|(x,)| *x += 1).submit().unwrap();
        assert!(matches!(rt.wait(&task), Err(Error::Deadlock { .. })));
        assert!(matches!(rt.wait_all(), Err(Error::Deadlock { .. })));
        drop(guard);
        rt.wait_all().unwrap();
        assert_eq!(rt.take(x).unwrap(), 1);
    });
}

#[test]
fn another_threads_guard_is_waited_for() {
    within_seconds(60, || {
        let rt = rt(2);
        let x = rt.register(0u32);
        let (held, wait) = mpsc::channel();
        std::thread::scope(|scope| {
            let (there, y) = (&rt, &x);
            scope.spawn(move || {
                let mut guard = there.write(y).unwrap();
                held.send(()).unwrap();
                std::thread::sleep(Duration::from_millis(30));
                *guard = 5;
            });
            wait.recv().unwrap();
            assert_eq!(*rt.read(&x).unwrap(), 5);
        });
    });
}

#[test]
fn a_stall_names_the_holder_of_the_guard_and_the_bodies_that_wait() {
    within_seconds(60, || {
        let (told, stalled) = mpsc::channel();
        let told = Mutex::new(told);
        let builder = Runtime::builder().workers(1).watchdog(Some(Duration::from_millis(100)));
        let rt =
            Arc::new(builder.on_stall(move |text| drop(told.lock().unwrap().send(text))).build().unwrap());
        let x = rt.register(0u32).named("x");
        let (weak, inner) = (Arc::downgrade(&rt), x.clone());
        let nested = move |()| {
            let rt = weak.upgrade().unwrap();
            let (again, x) = (weak.clone(), inner.clone());
            let inner = rt
                .task("inner")
                .operands(())
                .cpu(move |()| again.upgrade().unwrap().read(&x).map(drop))
                .submit()?;
            rt.wait(&inner)
        };
        let guard = std::thread::Builder::new().name("holder".into());
        let (there, held) = (Arc::clone(&rt), x.clone());
        let (go, went) = mpsc::channel::<()>();
        let (ready, is_ready) = mpsc::channel();
        let holder = guard
            .spawn(move || {
                let guard = there.write(&held).unwrap();
                ready.send(()).unwrap();
                went.recv().unwrap();
                drop(guard);
            })
            .unwrap();
        is_ready.recv().unwrap();
        let outer = rt.task("outer").operands(()).cpu(nested).submit().unwrap();
        let text = stalled.recv_timeout(Duration::from_secs(20)).unwrap();
        for part in ["write of x (by thread \"holder\")", "outer #", "inner #", "waits for read of x"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        go.send(()).unwrap();
        holder.join().unwrap();
        rt.wait(&outer).unwrap();
    });
}

#[test]
fn a_handle_belongs_to_the_runtime_that_registered_it() {
    within_seconds(60, || {
        let (first, second) = (rt(1), rt(1));
        let x = first.register(1u32).named("x");
        let error = second.task("t").operands((update(&x),)).cpu(|(x,)| *x += 1).submit().unwrap_err();
        assert!(matches!(error, Error::Foreign { .. }), "{error}");
        assert!(matches!(second.read(&x).map(drop), Err(Error::Foreign { .. })));
        assert_eq!(first.take(x).unwrap(), 1);
    });
}
