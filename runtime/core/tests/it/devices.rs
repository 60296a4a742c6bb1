//! Devices with memory of their own: their results, memory contents, and failures.

use std::time::Duration;

use zellige_runtime::sched::POLICIES;
use zellige_runtime::{
    Bindings, Candidate, Codelet, Data, DeviceInfo, Emulated, Error, Meta, Recorder, Runtime, RuntimeBuilder,
    Submit, TaskContext, TaskError, commute, read, reads, reduce, update, write,
};
use zellige_tests::every;

/// Returns a builder of a runtime that aborts with a message if it hangs.
fn builder(cpus: usize) -> RuntimeBuilder {
    Runtime::builder().workers(cpus).watchdog(Some(Duration::from_secs(20))).on_stall(|text| {
        eprintln!("stalled: {text}");
        std::process::abort();
    })
}

#[test]
fn values_go_to_the_device_and_come_back() {
    let rt = builder(0).device(Emulated::new(1 << 16)).build().unwrap();
    let x = rt.register(vec![1.0f32; 1000]);
    let y = rt.register(vec![2.0f32; 1000]);
    for _ in 0..5 {
        rt.task("axpy")
            .operands((read(&x), update(&y)))
            .cpu(|(x, y)| x.iter().zip(y).for_each(|(x, y)| *y += 3.0 * x))
            .submit()
            .unwrap();
    }
    assert_eq!(rt.read(&y).unwrap()[0], 17.0);
    rt.write(&x).unwrap()[0] = 10.0;
    rt.task("axpy")
        .operands((read(&x), update(&y)))
        .cpu(|(x, y)| x.iter().zip(y).for_each(|(x, y)| *y += x))
        .submit()
        .unwrap();
    let y = rt.take(y).unwrap();
    assert_eq!((y[0], y[1]), (27.0, 18.0));
}

#[test]
fn empty_handles_are_written_on_devices_and_lists_are_read_there() {
    let rt =
        builder(0).device(Emulated::new(1 << 16)).device(Emulated::new(1 << 16)).peers(1e10).build().unwrap();
    let parts: Vec<_> = (0..10).map(|_| rt.register_empty::<Vec<u64>>()).collect();
    for (i, part) in parts.iter().enumerate() {
        rt.task("make")
            .operands((write(part),))
            .cpu(move |(mut part,)| part.put(vec![i as u64; 10]))
            .submit()
            .unwrap();
    }
    let sum = rt.register(0u64);
    rt.task("sum")
        .operands((reads(&parts), update(&sum)))
        .cpu(|(parts, sum)| *sum = parts.iter().map(|part| part.iter().sum::<u64>()).sum())
        .submit()
        .unwrap();
    assert_eq!(rt.take(sum).unwrap(), 450);
}

#[test]
fn handles_outlive_their_runtime() {
    let x = {
        let rt = builder(0).device(Emulated::new(1 << 16)).build().unwrap();
        let x = rt.register(vec![1i64; 10]);
        rt.task("add").operands((update(&x),)).cpu(|(x,)| x[3] = 7).submit().unwrap();
        x
    };
    let rt = builder(1).build().unwrap();
    rt.task("add").operands((update(&x),)).cpu(|(x,)| x[3] += 1).submit().unwrap();
    assert_eq!(rt.take(x).unwrap()[3], 8);
}

#[test]
fn commuting_reducing_and_replaying_across_devices() {
    for policy in POLICIES.iter().map(|(name, _)| *name) {
        let rt = builder(2)
            .policy(policy)
            .device(Emulated::new(1 << 12).late(1, Duration::from_micros(50)))
            .device(Emulated::new(1 << 12).late(2, Duration::from_micros(50)))
            .build()
            .unwrap();
        let total = rt.register(vec![0u64; 4]);
        let sum = rt.register(0u64).with_reduction(|_| 0, |a, b| *a += b);
        for i in 0..40u64 {
            rt.task("commute")
                .operands((commute(&total),))
                .cpu(move |(t,)| t[i as usize % 4] += i)
                .submit()
                .unwrap();
            rt.task("reduce").operands((reduce(&sum),)).cpu(move |(s,)| *s += i).submit().unwrap();
        }
        let graph = rt
            .record(|g: &Recorder| {
                for _ in 0..10 {
                    g.task("move").operands((read(&sum), update(&total))).cpu(|(s, t)| t[0] += s).submit()?;
                    g.task("more").operands((reduce(&sum),)).cpu(|(s,)| *s += 1).submit()?;
                    g.task("more").operands((reduce(&sum),)).cpu(|(s,)| *s += 1).submit()?;
                }
                Ok::<(), Error>(())
            })
            .unwrap();
        for _ in 0..2 {
            rt.replay(&Bindings::recorded(&graph)).unwrap();
        }
        let total = rt.take(total).unwrap();
        let moved: u64 = (0..20).map(|n| 780 + 2 * n).sum();
        assert_eq!(total.iter().sum::<u64>(), 780 + moved, "{policy}");
        assert_eq!(rt.take(sum).unwrap(), 780 + 40, "{policy}");
    }
}

#[test]
fn more_data_than_memory() {
    for policy in POLICIES.iter().map(|(name, _)| *name) {
        // 40 vectors of 800 bytes through devices that hold three of them.
        let rt = builder(1)
            .policy(policy)
            .device(Emulated::new(2400).late(3, Duration::from_micros(30)))
            .device(Emulated::new(2400))
            .peers(5e9)
            .build()
            .unwrap();
        let data: Vec<_> = (0..40).map(|i| rt.register(vec![i as f64; 100])).collect();
        for round in 1..4usize {
            for i in 0..40 {
                let (from, to) = (&data[i], &data[(i + round) % 40]);
                rt.task("add")
                    .operands((read(from), update(to)))
                    .cpu(|(from, to)| from.iter().zip(to).for_each(|(a, b)| *b += a))
                    .submit()
                    .unwrap();
            }
        }
        let mut want: Vec<f64> = (0..40).map(f64::from).collect();
        for round in 1..4usize {
            for i in 0..40 {
                want[(i + round) % 40] += want[i];
            }
        }
        for (handle, want) in data.into_iter().zip(want) {
            assert_eq!(rt.take(handle).unwrap(), vec![want; 100], "{policy}");
        }
    }
}

#[test]
fn failures_on_devices_poison_what_they_write() {
    let rt = builder(0).device(Emulated::new(1 << 16)).build().unwrap();
    let x = rt.register(vec![1.0f64; 10]).named("x");
    let y = rt.register(vec![1.0f64; 10]).named("y");
    rt.task("fails").operands((update(&x),)).cpu(|(_,)| Err::<(), _>("on purpose")).submit().unwrap();
    rt.task("after").operands((read(&x), update(&y))).cpu(|(_, _)| ()).submit().unwrap();
    rt.task("clear").operands((write(&x),)).cpu(|(mut x,)| x.put(vec![3.0; 10])).submit().unwrap();
    let error = rt.read(&y).map(drop).unwrap_err().to_string();
    assert!(error.contains("fails") && error.contains("on purpose"), "{error}");
    assert_eq!(rt.take(x).unwrap(), [3.0; 10]);
}

#[test]
fn what_fits_nowhere_and_what_cannot_travel_is_said() {
    let rt = builder(0).device(Emulated::new(1000)).build().unwrap();
    let x = rt.register(vec![1.0f64; 100]).named("x");
    let y = rt.register(vec![1.0f64; 100]).named("y");
    let error = rt.task("both").operands((read(&x), update(&y))).cpu(|(_, _)| ()).submit().unwrap_err();
    assert!(matches!(error, Error::TooLarge { operands: 2, bytes: 1600, capacity: 1000, .. }), "{error}");
    let error = error.to_string();
    assert!(error.contains("task both") && error.contains("emulated 0"), "{error}");
    // An error that depends on the value is raised once the value is there.
    let z = rt.register_empty::<Vec<f64>>().named("z");
    rt.task("fill").operands((write(&z),)).cpu(|(mut z,)| z.put(vec![1.0; 100])).submit().unwrap();
    let task = rt.task("both").operands((read(&x), update(&z))).cpu(|(_, _)| ()).submit().unwrap();
    let error = rt.wait(&task).unwrap_err().to_string();
    assert!(error.contains("1600 bytes") && error.contains("emulated 0 has 1000 bytes"), "{error}");
    let here = rt.register(vec![Some(1u8); 3]).named("here");
    let task = rt.task("stay").operands((update(&here),)).cpu(|(_,)| ()).submit().unwrap();
    let error = rt.wait(&task).unwrap_err().to_string();
    assert!(error.contains("here cannot leave the host"), "{error}");
}

#[test]
fn traces_show_transfers_memory_and_evictions() {
    let rt = builder(0).trace(true).device(Emulated::new(1700).bandwidth(1e9)).build().unwrap();
    let data: Vec<_> = (0..6).map(|i| rt.register(vec![f64::from(i); 100])).collect();
    for round in 0..2 {
        for i in 0..6 {
            let (from, to) = (&data[i], &data[(i + 1 + round) % 6]);
            rt.task("add").operands((read(from), update(to))).cpu(|(a, b)| b[0] += a[0]).submit().unwrap();
        }
    }
    rt.wait_all().unwrap();
    // Copies made ahead of need may still be in flight.
    rt.wait_transfers().unwrap();
    let uses = rt.memory();
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(rt.memory(), uses, "nothing moves any more");
    let trace = rt.take_trace().unwrap();
    let names: Vec<&str> = trace.nodes.iter().map(|node| &*node.name).collect();
    assert_eq!(names, ["host", "emulated 0"]);
    assert_eq!((trace.workers.len(), trace.workers[0].node, &*trace.workers[0].kind), (1, 1, "emulated"));
    let bytes = |from: u32| trace.transfers.iter().filter(|t| t.from == from).map(|t| t.bytes).sum::<u64>();
    assert_eq!((uses[1].bytes_in, uses[1].bytes_out), (bytes(0), bytes(1)));
    assert!(bytes(0) >= 6 * 800 && trace.transfers.iter().all(|t| t.end_ns - t.start_ns >= 800));
    let written_back = trace.evictions.iter().filter(|eviction| eviction.written_back).count();
    assert!(written_back > 0 && trace.evictions.len() as u64 == uses[1].evictions);
    assert_eq!(uses[1].written_back, written_back as u64);
    assert!(uses[1].peak > 800 && uses[1].peak <= 1700, "{uses:?}");
    assert_eq!(trace.memory.iter().filter(|m| m.node == 1).map(|m| m.used).max(), Some(uses[1].peak));
    assert!(trace.tasks.iter().all(|task| task.worker == 0) && trace.tasks.len() == 12);
}

/// Computes sums that pass through every handle, on two devices and perhaps a CPU core; returns the
/// result for each handle.
fn ring(cpus: usize, policy: &str, dying: Emulated, rounds: usize) -> Vec<Result<Vec<f64>, Error>> {
    let other = Emulated::new(4000).late(5, Duration::from_micros(20));
    let rt = builder(cpus).policy(policy).device(dying).device(other).build().unwrap();
    let data: Vec<_> = (0..12).map(|i| rt.register(vec![i as f64; 100]).named(format!("x{i}"))).collect();
    for round in 1..=rounds {
        for i in 0..12 {
            let (from, to) = (&data[i], &data[(i + round) % 12]);
            rt.task("add")
                .operands((read(from), update(to)))
                .cpu(|(from, to)| from.iter().zip(to).for_each(|(a, b)| *b += a))
                .submit()
                .unwrap();
        }
    }
    // Failures are checked by the values that they leave.
    assert!(matches!(rt.wait_all(), Ok(()) | Err(Error::Failed(_))));
    data.into_iter().map(|handle| rt.take(handle)).collect()
}

#[test]
fn a_dying_device_takes_only_what_was_nowhere_else() {
    let mut want: Vec<f64> = (0..12).map(f64::from).collect();
    for round in 1..=4usize {
        for i in 0..12 {
            want[(i + round) % 12] += want[i];
        }
    }
    let (mut right, mut lost) = (0, 0);
    for (n, (policy, _)) in POLICIES.into_iter().enumerate() {
        let step = every(3);
        for at in (n as u64 % step as u64..60).step_by(step) {
            let dying = Emulated::new(4000).late(at, Duration::from_micros(20)).fails_at(at);
            for (i, got) in ring((n + at as usize) % 2, policy, dying, 4).into_iter().enumerate() {
                match got {
                    Ok(got) => {
                        assert_eq!(got, vec![want[i]; 100], "{policy}, operation {at}, x{i}");
                        right += 1;
                    }
                    Err(error) => {
                        let text = error.to_string();
                        assert!(text.contains("emulated 0 failed"), "{policy}, operation {at}: {text}");
                        lost += 1;
                    }
                }
            }
        }
    }
    assert!(right > 400 && lost > 40, "{right} values were right, {lost} were lost");
}

#[test]
fn without_any_device_left_tasks_fail_by_name() {
    let rt = builder(0).device(Emulated::new(4000).fails_at(2)).build().unwrap();
    let x = rt.register(vec![1.0f64; 100]).named("x");
    for _ in 0..10 {
        rt.task("double")
            .operands((update(&x),))
            .cpu(|(x,)| x.iter_mut().for_each(|v| *v *= 2.0))
            .submit()
            .unwrap();
    }
    let error = rt.take(x).map(drop).unwrap_err().to_string();
    assert!(error.contains("emulated 0 failed: it was told to at operation 2"), "{error}");
    let failures: Vec<_> = rt.memory().into_iter().map(|node| node.failure).collect();
    assert_eq!(failures, [None, Some("it was told to at operation 2".into())]);
    let task = rt.task("alone").operands(()).cpu(|()| ()).submit().unwrap();
    let error = rt.wait(&task).unwrap_err().to_string();
    assert!(error.contains("emulated 0 failed"), "{error}");
    // The runtime stays usable.
    let y = rt.register(3u64);
    assert_eq!(rt.take(y).unwrap(), 3);
}

/// Tasks in a policy's queue when the only device that could run them fails.
#[test]
fn tasks_that_are_queued_for_a_failed_device_alone_fail_by_name() {
    for (n, (policy, _)) in POLICIES.into_iter().enumerate() {
        // All are submitted long before the device starts its third operation.
        let dying = Emulated::new(4000).latency(Duration::from_millis(5)).kind("dying").fails_at(2);
        let cpus = n % 2;
        let rt = builder(cpus).policy(policy).device(dying).device(Emulated::new(100)).build().unwrap();
        let data: Vec<_> = (0..20).map(|i| rt.register(vec![f64::from(i); 100])).collect();
        for handle in &data {
            let task = rt.task("add").operands((update(handle),)).cpu(|(x,)| x[0] += 1.0);
            let task = if cpus > 0 { task.on_kinds(&["dying"]) } else { task };
            task.submit().unwrap();
        }
        let mut lost = 0;
        for (i, handle) in data.into_iter().enumerate() {
            match rt.take(handle) {
                Ok(value) => assert_eq!(value[0], i as f64 + 1.0, "{policy}"),
                Err(error) => {
                    assert!(error.to_string().contains("dying 0 failed"), "{policy}: {error}");
                    lost += 1;
                }
            }
        }
        assert!(lost >= 17, "{policy}: {lost}");
    }
}

#[test]
fn hints_bring_keep_and_let_go() {
    let rt = builder(1).device(Emulated::new(1700)).build().unwrap();
    let [x, y, z] = [1.0, 2.0, 3.0].map(|v| rt.register(vec![v; 100]));
    let arrived = |bytes: u64| {
        let start = std::time::Instant::now();
        while rt.memory()[1].bytes_in < bytes && start.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        let device = &rt.memory()[1];
        assert_eq!((device.used, device.bytes_in), (bytes, bytes));
    };
    rt.prefetch(&x, 1).unwrap();
    arrived(800);
    rt.prefetch(&y, 1).unwrap();
    arrived(1600);
    // The memory is full: a hint uses free memory only.
    rt.prefetch(&z, 1).unwrap();
    arrived(1600);
    assert!(rt.prefetch(&x, 2).unwrap_err().to_string().contains("there is no memory node 2"));
    rt.pin(&x, 1).unwrap();
    rt.wont_use(&y);
    rt.unpin(&x, 1).unwrap();
    assert_eq!(rt.take(x).unwrap(), [1.0; 100]);
    assert_eq!(rt.take(y).unwrap(), [2.0; 100]);
}

/// A number that cannot leave the host.
struct Stays(u64);

impl Data for Stays {
    type Ref<'v> = u64;
    type Mut<'v> = &'v mut u64;

    fn view(&self) -> u64 {
        self.0
    }

    fn view_mut(&mut self) -> &mut u64 {
        &mut self.0
    }

    fn meta(&self) -> Meta {
        Meta { bytes: 8, ..Meta::default() }
    }
}

/// A transfer to a device would fail, and the failure would poison the handle.
#[test]
fn a_hint_moves_nothing_that_cannot_travel() {
    let rt = builder(1).device(Emulated::new(1700)).build().unwrap();
    let x = rt.register(Stays(7));
    rt.prefetch(&x, 1).unwrap();
    rt.prefetch(&x, 0).unwrap();
    rt.task("add").operands((update(&x),)).cpu(|(x,)| *x += 1).submit().unwrap();
    rt.wait_transfers().unwrap();
    assert_eq!(rt.take(x).unwrap().0, 8);
    assert_eq!(rt.memory()[1].bytes_in, 0);
}

#[test]
fn a_user_chooses_the_victim() {
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&asked);
    let newest = move |node: usize, candidates: &[Candidate]| {
        assert_eq!(node, 1);
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        (0..candidates.len()).max_by_key(|&at| candidates[at].last_use)
    };
    let rt = builder(0).device(Emulated::new(1600)).choose_victim(newest).build().unwrap();
    let data: Vec<_> = (0..3).map(|i| rt.register(vec![f64::from(i); 100])).collect();
    for i in [0, 1, 2, 0] {
        let task = rt.task("touch").operands((read(&data[i]),)).cpu(|(_,)| ()).submit().unwrap();
        rt.wait(&task).unwrap();
    }
    // 2 replaced 1, the newest; the oldest stayed.
    assert_eq!((rt.memory()[1].misses, rt.memory()[1].hits), (3, 1));
    assert!(asked.load(std::sync::atomic::Ordering::Relaxed) > 0);
}

#[test]
fn tasks_run_where_they_may() {
    let rt = builder(2).trace(true).device(Emulated::new(1 << 16)).build().unwrap();
    let x = rt.register(vec![0u64; 10]);
    for _ in 0..20 {
        let add = || rt.task("add").operands((update(&x),)).cpu(|(x,)| x[0] += 1);
        add().on_worker(2).label("there").submit().unwrap();
        add().on_worker(1).label("here").submit().unwrap();
        add().on_kinds(&["cpu"]).label("cpu").submit().unwrap();
    }
    let refused = |result: Result<_, Error>| result.map(drop).unwrap_err().to_string();
    let none = || rt.task("none").operands(()).cpu(|()| ());
    assert!(refused(none().on_worker(3).submit()).contains("worker 3: there are 3"));
    assert!(refused(none().on_kinds(&["cuda"]).submit()).contains(r#"["cuda"]"#));
    rt.wait_all().unwrap();
    let trace = rt.take_trace().unwrap();
    for task in trace.tasks.iter() {
        let right = match task.label {
            "there" => task.worker == 2,
            "here" => task.worker == 1,
            _ => task.worker < 2,
        };
        assert!(right, "{} ran on {}", task.label, task.worker);
    }
    assert_eq!(rt.take(x).unwrap()[0], 60);
}

#[test]
fn a_codelet_says_which_devices_it_can_execute_on() {
    struct Picky;
    impl Codelet for Picky {
        type Operands = (zellige_runtime::Update<Vec<u64>>,);
        fn name(&self) -> &'static str {
            "picky"
        }
        fn has_constraints(&self) -> bool {
            true
        }
        fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
            device.memory.is_some_and(|bytes| bytes > 5000)
        }
        fn cpu(&self, (x,): (&mut [u64],), cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
            x[cx.worker()] += 1;
            Ok(())
        }
    }
    for (policy, _) in POLICIES {
        let rt = builder(1)
            .policy(policy)
            .device(Emulated::new(4000))
            .device(Emulated::new(8000))
            .build()
            .unwrap();
        let x = rt.register(vec![0u64; 3]);
        for _ in 0..30 {
            rt.submit(Picky, (update(&x),)).unwrap();
        }
        assert_eq!(rt.take(x).unwrap(), [0, 0, 30], "{policy}");
        let small = builder(1).policy(policy).build().unwrap();
        let x = small.register(vec![0u64; 3]);
        let error = small.submit(Picky, (update(&x),)).unwrap_err().to_string();
        assert!(error.contains("picky") && error.contains("can execute on none"), "{error}");
    }
}

#[test]
fn what_is_invalidated_holds_nothing_until_it_is_written() {
    for devices in [0, 1] {
        let mut rt = builder(1);
        for _ in 0..devices {
            rt = rt.device(Emulated::new(4000));
        }
        let rt = rt.build().unwrap();
        let x = rt.register(vec![1.0f64; 100]);
        rt.task("use").operands((update(&x),)).cpu(|(x,)| x[0] = 2.0).submit().unwrap();
        rt.invalidate(&x).unwrap();
        let read_it = || rt.task("read").operands((read(&x),)).cpu(|(_,)| ()).submit();
        assert!(matches!(read_it(), Err(Error::Unwritten { .. })));
        assert!(rt.memory().iter().all(|node| node.used == 0));
        rt.task("write").operands((write(&x),)).cpu(|(mut x,)| x.put(vec![5.0; 3])).submit().unwrap();
        read_it().unwrap();
        assert_eq!(rt.take(x).unwrap(), [5.0; 3]);
    }
}
