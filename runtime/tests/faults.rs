//! Wrong use and failures: each is an error that names the thing, and the runtime stays usable.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use zellige_runtime::*;

/// Runs `test` in a thread of its own: a hang fails instead of blocking everything.
fn within_seconds(seconds: u64, test: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        done.send(()).unwrap();
    });
    if let Err(mpsc::RecvTimeoutError::Timeout) = wait.recv_timeout(Duration::from_secs(seconds)) {
        panic!("hangs: not done after {seconds} s");
    }
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn rt() -> Runtime {
    Runtime::builder().workers(2).build().unwrap()
}

#[test]
fn one_handle_twice_with_a_write_is_refused_at_submission() {
    let rt = rt();
    let x = rt.register(1u8).named("x");
    let error = rt.task("twice").operands((read(&x), update(&x))).cpu(|(_, _)| ()).submit().unwrap_err();
    assert!(error.to_string().starts_with("task twice names x twice"), "{error}");
    rt.task("reads").operands((read(&x), read(&x))).cpu(|(_, _)| ()).submit().unwrap();
    assert_eq!(rt.take(x).unwrap(), 1);
}

#[test]
fn reading_what_nobody_writes_is_refused() {
    let rt = rt();
    let x = rt.register_empty::<Vec<f32>>().named("x");
    let error = rt.task("early").operands((read(&x),)).cpu(|(_,)| ()).submit().unwrap_err();
    assert!(matches!(error, Error::Unwritten { .. }), "{error}");
    rt.task("fill").operands((write(&x),)).cpu(|(mut x,)| x.put(vec![1.0, 2.0])).submit().unwrap();
    assert_eq!(*rt.read(&x).unwrap(), [1.0, 2.0]);
    let r = rt.register(0u32).named("r");
    let error = rt.task("sum").operands((reduce(&r),)).cpu(|(_,)| ()).submit().unwrap_err();
    assert!(error.to_string().contains("with_reduction"), "{error}");
}

#[test]
fn a_body_that_writes_nothing_fails() {
    let rt = rt();
    let x = rt.register_empty::<u32>().named("x");
    rt.task("lazy").operands((write(&x),)).cpu(|(_,)| ()).submit().unwrap();
    let error = rt.take(x).unwrap_err();
    assert!(error.to_string().contains("left x without a value"), "{error}");
}

#[test]
fn taken_and_released_handles_are_gone() {
    let rt = rt();
    let x = rt.register(1u8).named("x");
    let also_x = x.clone();
    assert_eq!(rt.take(x).unwrap(), 1);
    let error = rt.task("late").operands((read(&also_x),)).cpu(|(_,)| ()).submit().unwrap_err();
    assert_eq!(error.to_string(), "x was taken, released or joined: task late came too late");
    assert!(matches!(rt.take(also_x), Err(Error::Gone { .. })));
    let y = rt.register(1u8);
    rt.release(y.clone());
    assert!(matches!(rt.read(&y), Err(Error::Gone { .. })));
}

#[test]
fn waiting_for_oneself_is_an_error() {
    within_seconds(20, || {
        let rt = Arc::new(rt());
        let x = rt.register(1u8).named("x");
        let seen = Arc::new(Mutex::new(None));
        let (weak, handle, out) = (Arc::downgrade(&rt), x.clone(), Arc::clone(&seen));
        rt.task("self")
            .operands((update(&x),))
            .cpu(move |(_,)| {
                let rt = weak.upgrade().unwrap();
                let errors = [rt.read(&handle).err(), rt.wait_all().err()];
                *out.lock().unwrap() = Some(errors);
            })
            .submit()
            .unwrap();
        rt.wait_all().unwrap();
        for error in seen.lock().unwrap().take().unwrap() {
            assert!(matches!(error, Some(Error::SelfWait { .. })), "{error:?}");
        }
    });
}

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

/// Hands out every second task and drops the others.
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
fn a_stall_names_what_waits() {
    within_seconds(30, || {
        let (said, heard) = mpsc::channel();
        let rt = Runtime::builder()
            .workers(1)
            .watchdog(Some(Duration::from_millis(200)))
            .on_stall(move |text| said.send(text).unwrap())
            .build()
            .unwrap();
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
fn scoped_slices_come_back_even_when_a_task_fails() {
    within_seconds(20, || {
        let rt = rt();
        let mut values = vec![1u32; 1000];
        let handle = rt.scope(|s| {
            let x = s.slice(&mut values, 10, 10).unwrap();
            rt.task("add")
                .operands((update(&x),))
                .cpu(|(x,)| x.data.iter_mut().for_each(|v| *v += 1))
                .submit()
                .unwrap();
            rt.task("bad").operands((update(&x),)).cpu(|(_,)| Err::<(), _>("no")).submit().unwrap();
            rt.task("never").operands((update(&x),)).cpu(|(x,)| x.data.fill(9)).submit().unwrap();
            assert!(s.slice(&mut [0u8; 0], 3, 2).is_err());
            x
        });
        assert!(values.iter().all(|&v| v == 2));
        assert!(rt.task("late").operands((read(&handle),)).cpu(|(_,)| ()).submit().is_err());
    });
}

#[test]
fn wrong_configurations_are_refused() {
    assert!(Runtime::builder().workers(0).build().is_err());
    let error = Runtime::builder().policy("fifo").build().unwrap_err();
    assert!(error.to_string().contains("take one of lws, prio, eager"), "{error}");
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
fn two_runtimes_do_not_mix() {
    within_seconds(20, || {
        let (a, b) = (rt(), rt());
        let x = a.register(1u8).named("x");
        let task = a.task("t").operands((update(&x),)).cpu(|(x,)| *x += 1).submit().unwrap();
        assert!(matches!(
            b.task("u").operands((read(&x),)).cpu(|(_,)| ()).submit(),
            Err(Error::Foreign { .. })
        ));
        assert!(matches!(
            b.task("u").operands(()).cpu(|()| ()).after(&task).submit(),
            Err(Error::Foreign { .. })
        ));
        assert!(matches!(b.wait(&task), Err(Error::Foreign { .. })));
        assert!(matches!(b.take(x.clone()), Err(Error::Foreign { .. })));
        assert_eq!(a.take(x).unwrap(), 2);
    });
}

#[test]
fn a_scoped_slice_does_not_leave_its_handle() {
    let rt = rt();
    let mut values = vec![1u32; 4];
    rt.scope(|s| {
        let x = s.slice(&mut values, 4, 4).unwrap();
        assert!(matches!(rt.take(x.clone()), Err(Error::Borrowed { .. })));
        assert!(matches!(rt.write(&x).err(), Some(Error::Borrowed { .. })));
        assert!(matches!(rt.read(&x).err(), Some(Error::Borrowed { .. })));
        rt.task("add").operands((update(&x),)).cpu(|(x,)| x.data[0] = 9).submit().unwrap();
    });
    assert_eq!(values, [9, 1, 1, 1]);
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
fn waiting_for_all_inside_a_replay_is_an_error() {
    within_seconds(20, || {
        let rt = Arc::new(rt());
        let x = rt.register(0u32).named("x");
        let weak = Arc::downgrade(&rt);
        let (handle, again) = (x.clone(), weak.clone());
        let graph = rt
            .record(|g| {
                g.task("t")
                    .operands((update(&x),))
                    .cpu(move |(x,)| {
                        let rt = again.upgrade().unwrap();
                        assert!(matches!(rt.wait_all(), Err(Error::SelfWait { .. })));
                        assert!(matches!(rt.read(&handle).err(), Some(Error::SelfWait { .. })));
                        *x = 5;
                    })
                    .submit()
                    .map(drop)
            })
            .unwrap();
        let replay = rt.replay(&Bindings::recorded(&graph)).unwrap();
        rt.wait(&replay).unwrap();
        assert_eq!(rt.take(x).unwrap(), 5);
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

/// A value that counts how many of it were dropped, and cannot be converted without a panic.
struct Counted(u64, Arc<std::sync::atomic::AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

impl Data for Counted {
    type Ref<'v> = &'v u64;
    type Mut<'v> = &'v mut u64;

    fn view(&self) -> &u64 {
        &self.0
    }

    fn view_mut(&mut self) -> &mut u64 {
        &mut self.0
    }

    fn meta(&self) -> Meta {
        Meta { bytes: 8, ..Meta::default() }
    }

    fn convert(&self, _to: Format) -> Option<Self> {
        panic!("no such number")
    }
}

#[test]
fn whatever_came_last_a_dropped_handle_frees_its_data() {
    within_seconds(20, || {
        let drops = Arc::new(std::sync::atomic::AtomicUsize::new(0));
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
            // A reduction that nobody asked for also leaves its partial result.
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
