//! Tasks that fail, panic or are cancelled: their effects, and the continuation of the runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zellige_runtime::*;

use super::{Counted, rt, within_seconds};

#[test]
fn a_body_that_writes_nothing_fails() {
    let rt = rt();
    let x = rt.register_empty::<u32>().named("x");
    rt.task("lazy").operands((write(&x),)).cpu(|(_,)| ()).submit().unwrap();
    let error = rt.take(x).unwrap_err();
    assert!(error.to_string().contains("left x without a value"), "{error}");
}

/// A value whose destructor panics with another such value, a given number of times.
struct Bomb(usize);

impl Drop for Bomb {
    fn drop(&mut self) {
        if let Some(next) = self.0.checked_sub(1) {
            std::panic::panic_any(Bomb(next));
        }
    }
}

#[test]
fn a_panic_whose_payload_panics_costs_one_task() {
    within_seconds(20, || {
        for times in [1, 3] {
            let rt = rt();
            let (x, y) = (rt.register(1u8).named("x"), rt.register(2u8));
            let body = move |(_,): (&mut u8,)| std::panic::panic_any(Bomb(times));
            let task = rt.task("bomb").operands((update(&x),)).cpu(body).submit().unwrap();
            let error = rt.wait(&task).unwrap_err();
            assert_eq!(error.to_string(), "task bomb on (x): panicked: a panic without a message");
            rt.task("next").operands((update(&y),)).cpu(|(y,)| *y += 1).submit().unwrap();
            assert_eq!(rt.take(y).unwrap(), 3);
            assert!(rt.wait_all().is_err());
        }
    });
}

#[test]
fn cancelled_tasks_do_not_run_and_say_so() {
    within_seconds(20, || {
        let rt = Runtime::builder().workers(1).build().unwrap();
        let gate = rt.register(0u8).named("gate");
        let x = rt.register(1u8).named("x");
        let ran = Arc::new(AtomicBool::new(false));
        let guard = rt.write(&gate).unwrap();
        let flag = Arc::clone(&ran);
        let task = rt
            .task("victim")
            .operands((read(&gate), update(&x)))
            .cpu(move |(_, _)| flag.store(true, Ordering::SeqCst))
            .submit()
            .unwrap();
        task.cancel();
        drop(guard);
        let error = rt.wait(&task).unwrap_err();
        assert_eq!(error.to_string(), "task victim on (gate, x): cancelled");
        assert!(!ran.load(Ordering::SeqCst));
        assert!(rt.take(x).is_err());
        assert_eq!(rt.take(gate).unwrap(), 0);
    });
}

#[test]
fn cancelling_everything_spares_what_comes_later() {
    within_seconds(20, || {
        let rt = rt();
        let gate = rt.register(0u8);
        let xs: Vec<_> = (0..100).map(|_| rt.register(0u8)).collect();
        let guard = rt.write(&gate).unwrap();
        for x in &xs {
            rt.task("t").operands((read(&gate), update(x))).cpu(|(_, x)| *x = 1).submit().unwrap();
        }
        rt.canceller().cancel_all();
        drop(guard);
        rt.wait_all().unwrap();
        assert!(xs.iter().all(|x| rt.read(x).is_err()));
        let y = rt.register(0u8);
        rt.task("t").operands((update(&y),)).cpu(|(y,)| *y = 1).submit().unwrap();
        assert_eq!(rt.take(y).unwrap(), 1);
    });
}

#[test]
fn scoped_slices_come_back_even_when_a_task_fails() {
    within_seconds(20, || {
        let rt = rt();
        let mut values = vec![1u32; 1000];
        let mut handle = None;
        let ended = rt.scope(|s| {
            let x = s.slice(&mut values, 10, 10)?;
            rt.task("add")
                .operands((update(&x),))
                .cpu(|(x,)| x.data.iter_mut().for_each(|v| *v += 1))
                .submit()
                .unwrap();
            rt.task("bad").operands((update(&x),)).cpu(|(_,)| Err::<(), _>("no")).submit().unwrap();
            rt.task("never").operands((update(&x),)).cpu(|(x,)| x.data.fill(9)).submit().unwrap();
            assert!(s.slice(&mut [0u8; 0], 3, 2).is_err());
            handle = Some(x);
            Ok::<(), Error>(())
        });
        assert!(matches!(ended, Err(Error::Poisoned { .. })), "{ended:?}");
        let handle = handle.unwrap();
        assert!(values.iter().all(|&v| v == 2));
        assert!(rt.task("late").operands((read(&handle),)).cpu(|(_,)| ()).submit().is_err());
    });
}

#[test]
fn a_failed_replay_reports_its_first_failure_and_can_run_again() {
    within_seconds(20, || {
        let rt = rt();
        let x = rt.register(0u32).named("x");
        let y = rt.register(0u32).named("y");
        let graph = rt
            .record(|g| {
                g.task("check")
                    .operands((read(&x), update(&y)))
                    .cpu(|(x, y)| {
                        *y += 1;
                        if *x == 0 { Err("x is 0") } else { Ok(()) }
                    })
                    .submit()?;
                g.task("next").operands((update(&y),)).cpu(|(y,)| *y += 1).submit()?;
                Ok::<(), Error>(())
            })
            .unwrap();
        let replay = rt.replay(&Bindings::recorded(&graph)).unwrap();
        assert_eq!(rt.wait(&replay).unwrap_err().to_string(), "task check on (x, y): x is 0");
        assert!(rt.read(&y).is_err());
        let (one, fresh) = (rt.register(1u32), rt.register(10u32));
        rt.replay(&graph.bind("x", &one).unwrap().and("y", &fresh).unwrap()).unwrap();
        assert_eq!(rt.take(fresh).unwrap(), 12);
        assert!(graph.bind("z", &one).is_err());
        assert!(graph.bind("x", &rt.register(1u64)).is_err(), "another type");
    });
}

#[test]
fn a_panic_in_a_conversion_or_a_neutral_element_fails_the_task() {
    within_seconds(20, || {
        let rt = rt();
        let drops = Arc::default();
        let x = rt
            .register(Counted(1, drops))
            .named("x")
            .with_reduction(|_| panic!("no zero"), |a, b| a.0 += b.0);
        let read_it =
            rt.task("r").operands((read(&x).as_format(Format(3)),)).cpu(|(_,)| ()).submit().unwrap();
        assert!(rt.wait(&read_it).unwrap_err().to_string().contains("no such number"));
        let sum = rt.task("s").operands((reduce(&x),)).cpu(|(_,)| ()).submit().unwrap();
        assert!(rt.wait(&sum).unwrap_err().to_string().contains("no zero"));
        let y = rt.register(Counted(1, Arc::default()));
        let update_it =
            rt.task("u").operands((update(&y).as_format(Format(3)),)).cpu(|(_,)| ()).submit().unwrap();
        assert!(rt.wait(&update_it).unwrap_err().to_string().contains("no such number"));
        let z = rt.register(0u8);
        rt.task("fine").operands((update(&z),)).cpu(|(z,)| *z = 1).submit().unwrap();
        assert_eq!(rt.take(z).unwrap(), 1);
    });
}

#[test]
fn a_reduction_that_cannot_be_combined_is_a_failure_also_in_a_replay() {
    within_seconds(20, || {
        let rt = rt();
        let r = rt.register(0u64).named("r").with_reduction(|_| 0, |_, _| panic!("does not add up"));
        let y = rt.register(0u64).named("y");
        let graph = rt
            .record(|g| {
                g.task("add").operands((reduce(&r),)).cpu(|(r,)| *r += 1).submit()?;
                g.task("copy").operands((read(&r), update(&y))).cpu(|(r, y)| *y = *r).submit().map(drop)
            })
            .unwrap();
        let replay = rt.replay(&Bindings::recorded(&graph)).unwrap();
        assert!(rt.wait(&replay).unwrap_err().to_string().contains("does not add up"));
        assert!(rt.read(&y).is_err());
    });
}
