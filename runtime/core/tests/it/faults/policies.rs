//! Scheduling policies that lose tasks or panic, and programs that stall.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use zellige_runtime::sched::{Policy, ReadyTask, SchedView, Wake};
use zellige_runtime::*;

use super::within_seconds;

/// Returns every second task and drops the others.
struct Careless(Mutex<(Vec<ReadyTask>, usize)>);

impl Policy for Careless {
    fn name(&self) -> &str {
        "careless"
    }

    fn push(&self, _: &SchedView<'_>, task: ReadyTask, _: Option<usize>) -> Wake {
        let mut state = self.0.lock().unwrap();
        state.1 += 1;
        if state.1 % 2 == 1 {
            state.0.push(task);
        }
        Wake::Any
    }

    fn pop(&self, _: &SchedView<'_>, _: usize) -> Option<ReadyTask> {
        self.0.lock().unwrap().0.pop()
    }
}

#[test]
fn a_task_dropped_by_its_policy_is_reported_as_lost() {
    within_seconds(20, || {
        let rt = Runtime::builder().workers(1).policy_with(Careless(Mutex::default())).build().unwrap();
        let (x, y) = (rt.register(0u8), rt.register(0u8).named("y"));
        rt.task("kept").operands((update(&x),)).cpu(|(x,)| *x = 1).submit().unwrap();
        let lost = rt.task("lost").operands((update(&y),)).cpu(|(y,)| *y = 1).submit().unwrap();
        let error = rt.wait(&lost).unwrap_err();
        assert!(error.to_string().contains("dropped by its scheduling policy"), "{error}");
        assert_eq!(rt.take(x).unwrap(), 1);
    });
}

/// Panics when it is asked for work after the first push.
struct Deadly(AtomicBool);

impl Policy for Deadly {
    fn name(&self) -> &str {
        "deadly"
    }

    fn push(&self, _: &SchedView<'_>, task: ReadyTask, _: Option<usize>) -> Wake {
        std::mem::forget(task);
        self.0.store(true, Ordering::SeqCst);
        Wake::Any
    }

    fn pop(&self, _: &SchedView<'_>, _: usize) -> Option<ReadyTask> {
        assert!(!self.0.load(Ordering::SeqCst), "no more work from me");
        None
    }
}

#[test]
fn a_dead_worker_is_an_error_not_a_hang() {
    within_seconds(20, || {
        let rt = Runtime::builder().workers(2).policy_with(Deadly(AtomicBool::new(false))).build().unwrap();
        let x = rt.register(0u8);
        rt.task("t").operands((update(&x),)).cpu(|(x,)| *x = 1).submit().unwrap();
        let error = rt.take(x).unwrap_err();
        assert!(error.to_string().contains("no more work from me"), "{error}");
        assert!(matches!(rt.wait_all(), Err(Error::Broken { .. })));
    });
}

#[test]
fn a_policy_that_panics_when_it_is_given_a_task_is_an_error() {
    struct Refuses;
    impl Policy for Refuses {
        fn name(&self) -> &str {
            "refuses"
        }
        fn push(&self, _: &SchedView<'_>, _: ReadyTask, _: Option<usize>) -> Wake {
            panic!("not for me")
        }
        fn pop(&self, _: &SchedView<'_>, _: usize) -> Option<ReadyTask> {
            None
        }
    }
    within_seconds(20, || {
        let rt = Runtime::builder().workers(1).policy_with(Refuses).build().unwrap();
        let x = rt.register(0u8);
        let _ = rt.task("t").operands((update(&x),)).cpu(|(x,)| *x = 1).submit();
        assert!(rt.take(x).is_err());
    });
}

/// Returns a runtime of one worker, and the reports of its watchdog.
fn watched() -> (Runtime, mpsc::Receiver<String>) {
    let (said, heard) = mpsc::channel();
    let builder = Runtime::builder().workers(1).watchdog(Some(Duration::from_millis(200)));
    (builder.on_stall(move |text| said.send(text).unwrap()).build().unwrap(), heard)
}

#[test]
fn a_stall_names_what_waits() {
    within_seconds(30, || {
        let (rt, heard) = watched();
        let x = rt.register(0u8).named("x");
        let guard = rt.write(&x).unwrap();
        rt.task("starved").operands((update(&x),)).cpu(|(_,)| ()).coords([3, 4]).submit().unwrap();
        let text = heard.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(text.contains("starved[3, 4]") && text.contains("held by a guard: write"), "{text}");
        drop(guard);
        rt.wait_all().unwrap();
    });
}

#[test]
fn a_stall_names_what_runs_of_a_replay() {
    within_seconds(30, || {
        let (rt, heard) = watched();
        let (let_go, waits) = mpsc::channel::<()>();
        let waits = Mutex::new(waits);
        let x = rt.register(0u8);
        let record = |g: &Recorder| {
            g.task("quick").operands((update(&x),)).cpu(|(_,)| ()).submit()?;
            let slow = move |(_,): (&mut u8,)| waits.lock().unwrap().recv().unwrap();
            g.task("slow").operands((update(&x),)).cpu(slow).coords([3, 4]).submit().map(drop)
        };
        let graph = rt.record(record).unwrap();
        rt.replay(&Bindings::recorded(&graph)).unwrap();
        let text = heard.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(text.contains("worker 0 runs slow[3, 4] #"), "{text}");
        let_go.send(()).unwrap();
        rt.wait_all().unwrap();
    });
}
