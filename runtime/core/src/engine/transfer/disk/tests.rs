//! Disks that fail.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::swap::{Faults, Faulty, Swap};
use crate::task::Handle;
use crate::{Error, Runtime, Submit, read, update};

/// Bytes of one vector.
const EACH: u64 = 800;

/// Builds a runtime whose host holds three vectors and whose disk can be broken; a test that hangs
/// is aborted with a message.
fn runtime() -> (Runtime, Arc<Faults>) {
    let (storage, faults) = Faulty::new();
    let rt = Runtime::builder()
        .workers(2)
        .bind(false)
        .host_memory(3 * EACH)
        .swap_with(Swap::on(Path::new("here"), storage))
        .watchdog(Some(Duration::from_secs(20)))
        .on_stall(|text| {
            eprintln!("stalled: {text}");
            std::process::abort();
        })
        .build()
        .unwrap();
    (rt, faults)
}

/// Adds each vector to the next one.
fn add_around(rt: &Runtime, data: &[Handle<Vec<f64>>]) {
    for i in 0..data.len() {
        rt.task("add")
            .operands((read(&data[i]), update(&data[(i + 1) % data.len()])))
            .cpu(|(from, to)| from.iter().zip(to).for_each(|(a, b)| *b += a))
            .submit()
            .unwrap();
    }
    rt.wait_all().unwrap();
}

/// Returns the values after this number of rounds of `add_around`.
fn added(count: usize, rounds: usize) -> Vec<f64> {
    let mut want: Vec<f64> = (0..count).map(|i| i as f64).collect();
    for i in (0..rounds).flat_map(|_| 0..count) {
        want[(i + 1) % count] += want[i];
    }
    want
}

#[test]
fn a_disk_that_takes_nothing_more_loses_nothing() {
    let (rt, faults) = runtime();
    let data: Vec<_> = (0..20).map(|i| rt.register(vec![f64::from(i); 100])).collect();
    add_around(&rt, &data);
    let before = rt.memory();
    assert!(before[1].failure.is_none() && before[1].used > 10 * EACH, "{before:?}");
    faults.refuse_writes();
    add_around(&rt, &data);
    add_around(&rt, &data);
    let failure = rt.memory()[1].failure.clone().expect("it was refused");
    assert!(failure.starts_with("writing 800 bytes to the swap file in here: "), "{failure}");
    for (handle, want) in data.into_iter().zip(added(20, 3)) {
        assert_eq!(rt.take(handle).unwrap(), vec![want; 100]);
    }
}

#[test]
fn a_disk_that_cannot_be_read_takes_only_what_was_nowhere_else() {
    let (rt, faults) = runtime();
    let data: Vec<_> = (0..20).map(|i| rt.register(vec![f64::from(i); 100])).collect();
    add_around(&rt, &data);
    // Values beyond the capacity leave the host some time after the last task.
    let end = Instant::now() + Duration::from_secs(20);
    while rt.memory()[0].used > 3 * EACH && Instant::now() < end {
        std::thread::yield_now();
    }
    faults.refuse_reads();
    let (mut lost, mut left) = (0, 0);
    for (handle, want) in data.iter().zip(added(20, 1)) {
        match rt.read(handle) {
            Ok(value) => {
                assert_eq!(*value, vec![want; 100]);
                left += 1;
            }
            Err(error @ Error::Poisoned { .. }) => {
                let text = error.to_string();
                assert!(text.contains("the only copy was on disk"), "{text}");
                assert!(
                    text.contains("reading 800 bytes back from the swap file in here: a bad sector"),
                    "{text}"
                );
                lost += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(lost >= 17 && left >= 1, "{lost} lost, {left} left");
    // The host goes on without it, beyond its limit.
    let more: Vec<_> = (0..10).map(|i| rt.register(vec![f64::from(i); 100])).collect();
    add_around(&rt, &more);
    for (handle, want) in more.into_iter().zip(added(10, 1)) {
        assert_eq!(rt.take(handle).unwrap(), vec![want; 100]);
    }
    let failure = rt.memory()[1].failure.clone().expect("it failed");
    assert!(failure.contains("check that disk"), "{failure}");
}

#[test]
fn what_is_lost_with_the_disk_is_lost_when_the_runtime_ends_too() {
    let (rt, faults) = runtime();
    let data: Vec<_> = (0..20).map(|i| rt.register(vec![f64::from(i); 100])).collect();
    add_around(&rt, &data);
    faults.refuse_reads();
    drop(rt);
    let rt = Runtime::builder().workers(1).bind(false).build().unwrap();
    let (mut lost, mut left) = (0, 0);
    for (handle, want) in data.into_iter().zip(added(20, 1)) {
        match rt.take(handle) {
            Ok(value) => {
                assert_eq!(value, vec![want; 100]);
                left += 1;
            }
            Err(Error::Poisoned { .. }) => lost += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(lost >= 1 && left >= 1, "{lost} lost, {left} left");
}
