//! Stream-ordered tasks on one GPU, launched before the host knows that their predecessors have
//! ended.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::steps::{End, Set, Step, check, mock, numbers};
use zellige_cuda::Gpu;
use zellige_gpu::mock::{Fault, Mock};
use zellige_runtime::{Bindings, Handle, Runtime, Submit, read, update, write};
use zellige_tests::amount;

fn on(driver: &Arc<Mock>, gpus: &[u32]) -> Runtime {
    let mut builder = Runtime::builder().workers(0).peers(1e9).policy("eager");
    for &gpu in gpus {
        builder = builder.device(Gpu::new(driver.clone(), gpu).memory(1 << 20));
    }
    builder.build().unwrap()
}

fn behind(rt: &Runtime) -> u64 {
    rt.memory().iter().map(|node| node.launched_in_stream_order).sum()
}

/// Duration of the first of many tasks, long enough for all others to be submitted.
const PACE: Duration = Duration::from_millis(20);

#[test]
fn a_chain_is_launched_ahead_of_its_ends() {
    let mock = mock(PACE, |builder| builder);
    let rt = on(&mock, &[0]);
    let (x, y) = (rt.register(vec![1.0]), rt.register(vec![0.0]));
    let mut wanted = 0.0;
    for i in 0..40 {
        let a = f64::from(i % 3);
        rt.submit(Step::by(a), (read(&x), update(&y))).unwrap();
        wanted = a * wanted + 1.0;
    }
    assert_eq!(rt.take(y).unwrap(), [wanted]);
    assert!(behind(&rt) >= 20, "{}", behind(&rt));
    drop(rt);
    check(&mock);
}

/// Chains that meet: their tasks are on several streams, so that events have to order them.
#[test]
fn what_comes_after_several_streams_waits_for_all_of_them() {
    for seed in 0..8 {
        let mock = mock(Duration::from_millis(1), |builder| builder.seed(seed));
        let gpu = Gpu::new(mock.clone(), 0).memory(1 << 20).streams(3);
        let rt = Runtime::builder().workers(0).policy("eager").device(gpu).build().unwrap();
        let values: Vec<_> = (0..4).map(|i| rt.register(vec![f64::from(i)])).collect();
        let mut wanted: Vec<f64> = (0..4).map(f64::from).collect();
        for i in 0..60 {
            let (x, y) = (i * 7 % 4, (i * 7 + 1 + i % 3) % 4);
            rt.submit(Step::by(0.5), (read(&values[x]), update(&values[y]))).unwrap();
            wanted[y] = 0.5 * wanted[y] + wanted[x];
        }
        for (y, wanted) in values.into_iter().zip(wanted) {
            assert_eq!(rt.take(y).unwrap(), [wanted]);
        }
        assert!(behind(&rt) > 0);
        drop(rt);
        check(&mock);
    }
}

/// A task that turns out to have failed discards those that were launched after it, and nothing
/// else; a value that is written anew is right.
#[test]
fn a_failure_reaches_what_was_launched_behind_it() {
    let mock = mock(PACE, |builder| builder);
    let rt = on(&mock, &[0]);
    let (x, y, z) = (rt.register(vec![1.0]), rt.register(vec![1.0]), rt.register(vec![5.0]));
    let plain = || Step { needs_ends: false, ..Step::by(1.0) };
    let failing = || Step { end: End::FailsOn(2.0), ..plain() };
    let after = |y: &Handle<Vec<f64>>, z: &Handle<Vec<f64>>| {
        // All are submitted before the first one can be launched.
        let _guard = rt.write(&x).unwrap();
        let first = rt.submit(failing(), (read(&x), update(y))).unwrap();
        let then: Vec<_> = (0..3).map(|_| rt.submit(plain(), (read(&x), update(y))).unwrap()).collect();
        let aside = rt.submit(plain(), (read(y), update(z))).unwrap();
        (first, then, aside)
    };
    let (first, then, aside) = after(&y, &z);
    rt.submit(plain(), (read(&x), update(&x))).ok();
    for task in then.iter().chain([&first, &aside]) {
        let error = rt.wait(task).unwrap_err().to_string();
        assert!(error.contains("the result is 2"), "{error}");
    }
    assert!(behind(&rt) >= 3, "{}", behind(&rt));
    assert!(rt.read(&y).is_err() && rt.read(&z).is_err());
    assert_eq!(rt.read(&x).unwrap()[0], 1.0);
    // Overwritten after a failure: the failure is forgotten, in either order of the notifications.
    rt.submit(Set(1.0), (write(&y),)).unwrap();
    let before = behind(&rt);
    let guard = rt.write(&x).unwrap();
    rt.submit(failing(), (read(&x), update(&y))).unwrap();
    rt.submit(Set(9.0), (write(&y),)).unwrap();
    rt.submit(plain(), (read(&x), update(&y))).unwrap();
    drop(guard);
    assert_eq!(rt.take(y).unwrap(), [10.0]);
    assert!(behind(&rt) > before);
    drop((x, z));
    drop(rt);
    check(&mock);
}

#[test]
fn what_counts_on_ends_waits_for_them() {
    let mock = mock(Duration::from_millis(1), |builder| builder);
    let rt = on(&mock, &[0]);
    let (x, y) = (rt.register(vec![0.0]), rt.register(vec![1.0]));
    for _ in 0..10 {
        rt.submit(Step { end: End::FailsOn(0.0), ..Step::by(1.0) }, (read(&x), update(&y))).unwrap();
    }
    rt.wait_all().unwrap();
    assert_eq!((behind(&rt), rt.take(y).unwrap()), (0, vec![1.0]));
    drop(x);
    drop(rt);
    check(&mock);
}

/// No metadata that they depend on are still to be read back.
#[test]
fn late_choices_are_made_ahead_where_all_is_known() {
    let mock = mock(PACE, |builder| builder);
    let rt = on(&mock, &[0]);
    let (x, y) = (rt.register(vec![1.0]), rt.register(vec![0.0]));
    for _ in 0..40 {
        rt.submit(Step { late: true, ..Step::by(1.0) }, (read(&x), update(&y))).unwrap();
    }
    assert_eq!(rt.take(y).unwrap(), [40.0]);
    assert!(behind(&rt) >= 20, "{}", behind(&rt));
    drop(x);
    drop(rt);
    check(&mock);
}

/// In each round a task waits for one with deferred work and for a longer chain: it follows the
/// chain once that work has ended, unless the chain has ended meanwhile, which depends on the
/// machine.
#[test]
fn what_had_to_wait_for_one_follows_the_others_afterwards() {
    const MOST_ROUNDS: u64 = 100;
    let mock = mock(PACE, |builder| builder);
    let gpu = Gpu::new(mock.clone(), 0).memory(1 << 20).streams(2);
    let rt = Runtime::builder().workers(0).policy("eager").device(gpu).build().unwrap();
    let (one, value, sum) = (rt.register(vec![1.0]), rt.register(vec![0.0]), rt.register(vec![0.0]));
    let mut rounds = 0;
    // Three of a round; two at most if nobody is asked again.
    let mut of_round = 0;
    while of_round < 3 {
        assert!(rounds < MOST_ROUNDS, "{}", behind(&rt));
        rounds += 1;
        let before = behind(&rt);
        rt.submit(Step { end: End::FailsOn(-1.0), ..Step::by(0.0) }, (read(&one), update(&value))).unwrap();
        (0..3).for_each(|_| drop(rt.submit(Step::by(1.0), (read(&one), update(&sum))).unwrap()));
        let last = rt.submit(Step::by(1.0), (read(&value), update(&sum))).unwrap();
        rt.wait(&last).unwrap();
        of_round = behind(&rt) - before;
    }
    assert_eq!(rt.take(sum).unwrap(), [4.0 * rounds as f64]);
    drop((value, one));
    drop(rt);
    check(&mock);
}

#[test]
fn replays_are_launched_ahead_too() {
    let mock = mock(PACE, |builder| builder);
    let rt = on(&mock, &[0]);
    let (x, y) = (rt.register(vec![1.0]), rt.register(vec![0.0]));
    let graph = rt
        .record(|g| (0..10).try_for_each(|_| g.submit(Step::by(1.0), (read(&x), update(&y))).map(drop)))
        .unwrap();
    for _ in 0..3 {
        rt.replay(&Bindings::recorded(&graph)).unwrap();
    }
    drop(graph);
    assert_eq!(rt.read(&y).unwrap()[0], 30.0);
    assert!(behind(&rt) >= 9, "{}", behind(&rt));
    drop((x, y));
    drop(rt);
    check(&mock);
}

#[test]
fn what_is_cancelled_behind_others_ends_as_cancelled() {
    let mock = mock(PACE, |builder| builder);
    let rt = on(&mock, &[0]);
    let (x, y, z) = (rt.register(vec![1.0]), rt.register(vec![0.0]), rt.register(vec![0.0]));
    let tasks: Vec<_> = (0..30).map(|_| rt.submit(Step::by(1.0), (read(&x), update(&y))).unwrap()).collect();
    let last = rt.submit(Step::by(1.0), (read(&x), update(&z))).unwrap();
    rt.wait(&tasks[2]).unwrap();
    tasks[25].cancel();
    rt.wait(&tasks[24]).unwrap();
    for task in &tasks[25..] {
        let error = rt.wait(task).unwrap_err().to_string();
        assert!(error.contains("cancelled"), "{error}");
    }
    rt.wait(&last).unwrap();
    assert_eq!(rt.take(z).unwrap(), [1.0]);
    drop((x, y));
    drop(rt);
    check(&mock);
}

/// Random chains that meet, on real and logical GPUs, some of which fail: the values are right, or
/// an error names the GPU; and the run ends.
#[test]
fn random_chains_come_to_what_they_should() {
    let (done, ended) = channel();
    let work = std::thread::spawn(move || {
        for seed in 0..amount(60) as u64 {
            run_random(seed);
        }
        done.send(()).unwrap();
    });
    match ended.recv_timeout(Duration::from_secs(300)) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("nothing moves any more"),
        _ => work.join().unwrap(),
    }
}

fn run_random(seed: u64) {
    const VALUES: usize = 6;
    let mut next = numbers(seed);
    let mock = mock(Duration::from_micros(50), |builder| builder.gpus(2).seed(seed));
    let dies = next(2) == 0;
    if dies {
        mock.inject(1, Fault::Operation(next(60) as u64 + 1)).unwrap();
    }
    let rt = on(&mock, [&[0, 1][..], &[1, 0, 1], &[0, 0, 1]][next(3)]);
    let values: Vec<_> = (0..VALUES).map(|i| rt.register(vec![i as f64])).collect();
    // `None`: poisoned by deferred work that failed.
    let mut wanted: Vec<Option<f64>> = (0..VALUES).map(|i| Some(i as f64)).collect();
    for _ in 0..120 {
        let (x, y) = (next(VALUES), next(VALUES));
        if x == y || next(10) == 0 {
            let a = next(100) as f64;
            rt.submit(Set(a), (write(&values[y]),)).unwrap();
            wanted[y] = Some(a);
            continue;
        }
        let sum = wanted[x].zip(wanted[y]).map(|(x, y)| 0.5 * y + x);
        let fails = next(12) == 0;
        let end = match sum {
            Some(sum) if fails => End::FailsOn(sum),
            _ if next(4) == 0 => End::FailsOn(f64::NAN),
            _ => End::Nothing,
        };
        let step = Step { a: 0.5, end, needs_ends: next(3) == 0, late: next(8) == 0 };
        rt.submit(step, (read(&values[x]), update(&values[y]))).unwrap();
        wanted[y] = if matches!(end, End::FailsOn(_)) && fails { None } else { sum };
    }
    for (i, (value, wanted)) in values.into_iter().zip(wanted).enumerate() {
        match (rt.take(value), wanted) {
            (Ok(value), Some(wanted)) => assert_eq!(value, [wanted], "seed {seed}, value {i}"),
            (Ok(value), None) => panic!("seed {seed}, value {i} is {value:?}, and has to be poisoned"),
            (Err(error), wanted) => {
                let error = error.to_string();
                let explained = error.contains("the result is") && wanted.is_none();
                assert!(explained || (dies && error.contains("failed")), "seed {seed}, value {i}: {error}");
            }
        }
    }
    drop(rt);
    assert_eq!(mock.violations(), [] as [String; 0], "seed {seed}");
    assert!(dies || mock.leaks().is_empty(), "seed {seed}: {:?}", mock.leaks());
}
