//! Refused requests of callers of a runtime with devices, and calls of the runtime to user code.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zellige_runtime::{
    Choice, Codelet, Emulated, Error, Meta, Read, Runtime, RuntimeBuilder, Submit, TaskContext, TaskError,
    Update, metas, read, update,
};

/// Returns a builder of a runtime that aborts with a message if it hangs.
fn builder(cpus: usize) -> RuntimeBuilder {
    Runtime::builder().workers(cpus).watchdog(Some(Duration::from_secs(20))).on_stall(|text| {
        eprintln!("stalled: {text}");
        std::process::abort();
    })
}

/// Returns a device whose transfers take long enough for a body to run meanwhile.
fn far_away() -> Emulated {
    Emulated::new(1 << 16).latency(Duration::from_millis(20))
}

#[test]
fn a_value_that_a_body_on_a_device_cannot_wait_for_stays_where_it_is() {
    let rt = Arc::new(builder(0).device(far_away()).build().unwrap());
    let (x, y) = (rt.register(vec![0u32; 4]), rt.register(vec![1u32; 4]));
    rt.task("add").operands((update(&y),)).cpu(|(y,)| y[0] += 1).submit().unwrap();
    rt.wait_all().unwrap();
    let (inner, asked) = (Arc::downgrade(&rt), y.clone());
    let body = move |(x,): (&mut [u32],)| {
        let rt = inner.upgrade().unwrap();
        x[0] = u32::from(matches!(rt.read(&asked).err(), Some(Error::SelfWait { .. })));
    };
    rt.task("ask").operands((update(&x),)).cpu(body).submit().unwrap();
    rt.wait_all().unwrap();
    assert_eq!(rt.read(&x).unwrap()[0], 1);
    for _ in 0..3 {
        rt.task("add").operands((update(&y),)).cpu(|(y,)| y[0] += 1).submit().unwrap();
    }
    rt.wait_all().unwrap();
    assert_eq!(rt.read(&y).unwrap()[0], 5);
}

#[test]
fn a_turn_that_nobody_waits_for_holds_nobody_back() {
    let rt = Arc::new(builder(0).device(far_away()).build().unwrap());
    let (x, y) = (rt.register(vec![0u32; 4]), rt.register(vec![1u32; 4]));
    let (inner, asked) = (Arc::downgrade(&rt), y.clone());
    // Its own successor in the queue of the only device: the body cannot wait for that.
    let body = move |(x,): (&mut [u32],)| {
        let rt = inner.upgrade().unwrap();
        rt.task("add").operands((update(&asked),)).cpu(|(y,)| y[0] += 1).submit().unwrap();
        x[0] = u32::from(matches!(rt.read(&asked).err(), Some(Error::SelfWait { .. })));
        rt.task("add").operands((update(&asked),)).cpu(|(y,)| y[0] += 1).submit().unwrap();
    };
    rt.task("ask").operands((update(&x),)).cpu(body).submit().unwrap();
    assert_eq!(rt.read(&x).unwrap()[0], 1);
    rt.wait_all().unwrap();
    assert_eq!(rt.read(&y).unwrap()[0], 3);
    assert_eq!(rt.take(y).unwrap()[0], 3);
}

/// Counts the calls of its constraint.
struct Choosy(Arc<AtomicUsize>);

impl Codelet for Choosy {
    type Operands = (Read<Vec<u32>>, Update<Vec<u32>>);

    fn name(&self) -> &'static str {
        "choosy"
    }

    fn selects(&self) -> bool {
        true
    }

    fn select(&self, _metas: &[Meta]) -> Choice {
        self.0.fetch_add(1, Ordering::Relaxed);
        Choice { variant: 7, ..Choice::default() }
    }

    fn cpu(&self, (x, y): (&[u32], &mut [u32]), cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        y[0] += x[0] * cx.variant();
        Ok(())
    }
}

#[test]
fn a_late_choice_is_asked_once_for_each_task() {
    let asked = Arc::new(AtomicUsize::new(0));
    let rt = builder(1).device(Emulated::new(1 << 16)).build().unwrap();
    let (x, y) = (rt.register(vec![1u32; 4]), rt.register(vec![0u32; 4]));
    for _ in 0..20 {
        rt.submit(Choosy(Arc::clone(&asked)), (read(&x), update(&y))).unwrap();
    }
    assert_eq!(rt.take(y).unwrap()[0], 140);
    assert_eq!(asked.load(Ordering::Relaxed), 20);
}

#[test]
fn what_is_not_pinned_cannot_be_unpinned() {
    let rt = builder(1).device(Emulated::new(1 << 16)).build().unwrap();
    let x = rt.register(vec![1u32; 4]).named("x");
    rt.pin(&x, 1).unwrap();
    rt.unpin(&x, 1).unwrap();
    let error = rt.unpin(&x, 1).unwrap_err().to_string();
    assert!(error.contains("x is not pinned on node 1"), "{error}");
    assert_eq!(rt.take(x).unwrap(), [1; 4]);
}

/// Together the values have four times the device's capacity; their metadata need no memory there,
/// and nothing is transferred.
#[test]
fn what_is_known_of_values_is_read_without_moving_them() {
    let rt = builder(0).device(Emulated::new(2048)).build().unwrap();
    let values: Vec<_> = (0..8u32).map(|i| rt.register(vec![i; 256])).collect();
    let sum = rt.register(0usize);
    rt.task("sizes")
        .operands((metas(&values), update(&sum)))
        .cpu(|(metas, sum)| *sum = metas.iter().map(|meta| meta.bytes).sum())
        .submit()
        .unwrap();
    rt.wait_all().unwrap();
    assert_eq!(rt.memory()[1].bytes_in, 8, "the sum alone");
    assert_eq!(rt.take(sum).unwrap(), 8 * 1024);
    // It waits for writers like any reader, and gets their failures.
    let broken = |(x,): (&mut [u32],)| {
        x[0] = 1;
        Err::<(), _>("broken")
    };
    rt.task("fails").operands((update(&values[3]),)).cpu(broken).submit().unwrap();
    let sum = rt.register(0usize);
    rt.task("sizes").operands((metas(&values), update(&sum))).cpu(|(_, sum)| *sum = 1).submit().unwrap();
    let error = rt.take(sum).unwrap_err().to_string();
    assert!(error.contains("broken"), "{error}");
}
