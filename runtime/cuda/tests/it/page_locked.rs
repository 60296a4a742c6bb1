//! Host memory that copies from and to GPUs reach at full speed, on a driver that reports which
//! copies did.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use zellige_cuda::{CUDA, Gpu, GpuTask};
use zellige_gpu::Arg;
use zellige_gpu::mock::{Fault, Mock, MockBuilder};
use zellige_gpu::twin::TwinArg;
use zellige_runtime::codelet::{DeviceTable, OnDevice};
use zellige_runtime::data::Portable;
use zellige_runtime::{
    Buffer, Codelet, Cpu, Data, DeviceInfo, Handle, Operands, Runtime, RuntimeBuilder, Submit, TaskContext,
    TaskError, Update, update, write,
};

type Views<'v, C, K> = <<C as Codelet>::Operands as Operands>::Views<'v, K>;

/// Numbers of a value here: more than 64 KiB of them.
const LEN: usize = 10_000;
const BYTES: u64 = 8 * LEN as u64;
/// Copies of fewer bytes may come from anywhere.
const LARGE: u64 = 64 << 10;

fn mock(build: impl FnOnce(MockBuilder) -> MockBuilder) -> Arc<Mock> {
    let builder = Mock::builder().kernel("bump", |_grid, _block, args| {
        let [TwinArg::Update(y)] = args else { return Err("bump takes y".into()) };
        for number in y.chunks_exact_mut(8) {
            let old = f64::from_le_bytes(number.try_into().map_err(|_| "eight bytes")?);
            number.copy_from_slice(&(old + 1.0).to_le_bytes());
        }
        Ok(())
    });
    Arc::new(build(builder).build())
}

/// Adds 1 to each number, on a GPU.
struct Bump<D>(std::marker::PhantomData<fn() -> D>);

impl<D: Portable> Codelet for Bump<D> {
    type Operands = (Update<D>,);

    fn name(&self) -> &'static str {
        "bump"
    }

    fn cpu(&self, _views: Views<'_, Self, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        Err("it runs on GPUs".into())
    }

    fn has_constraints(&self) -> bool {
        true
    }

    fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
        device.kind == "cuda"
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl<D: Portable> Bump<D> {
    fn cuda(&self, (y,): Views<'_, Self, OnDevice>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let gpu = cx.gpu();
        let driver = gpu.driver();
        let kernel = driver.kernel(driver.load(gpu.gpu(), b"an image")?, "bump")?;
        let (at, bytes) = y.part(0);
        // SAFETY: the array is the task's operand, and the argument that of the kernel.
        unsafe { driver.launch(gpu.stream(), kernel, [1; 3], [32, 1, 1], 0, &[Arg::Update(at, bytes)])? };
        // SAFETY: the bytes are the operand's.
        unsafe {
            gpu.read_back(at, 8, |first| match f64::from_le_bytes(first.try_into()?) {
                number if number.is_finite() => Ok(()),
                number => Err(format!("it is {number}").into()),
            })?;
        }
        Ok(())
    }
}

fn bump<D: Portable>(rt: &impl Submit, y: &Handle<D>) {
    rt.submit(Bump(std::marker::PhantomData), (update(y),)).unwrap();
}

/// A worker, and GPUs with room for `values` values each; a test that hangs is aborted with a
/// message.
fn builder(mock: &Arc<Mock>, gpus: u32, values: u64) -> RuntimeBuilder {
    let builder = Runtime::builder().workers(1).bind(false).peers(1e9).policy("eager");
    let builder = builder.watchdog(Some(Duration::from_secs(60))).on_stall(|text| {
        eprintln!("stalled: {text}");
        std::process::abort();
    });
    (0..gpus).fold(builder, |builder, gpu| {
        builder.device(Gpu::new(mock.clone(), gpu).memory(values * (BYTES + 256)))
    })
}

fn check(mock: &Mock) {
    assert_eq!(mock.violations(), [] as [String; 0]);
    assert_eq!(mock.leaks(), [] as [String; 0]);
}

/// A value that a task on the host makes.
fn made<D: Data>(rt: &Runtime, make: impl Fn() -> D + Send + Sync + 'static) -> Handle<D> {
    let y = rt.register_empty::<D>();
    rt.task("make")
        .operands((write(&y),))
        .cpu(move |(mut y,)| {
            y.put(make());
        })
        .submit()
        .unwrap();
    y
}

/// Values move to a GPU that has room for a third of them, back, and are touched on the host in
/// between.
fn travel<D>(mock: &Arc<Mock>, make: impl Fn() -> D + Clone + Send + Sync + 'static) -> Vec<D>
where
    D: Portable + for<'v> Data<Mut<'v> = &'v mut [f64]>,
{
    let rt = builder(mock, 1, 4).build().unwrap();
    let values: Vec<Handle<D>> = (0..12).map(|_| made(&rt, make.clone())).collect();
    for round in 0..4 {
        for (i, y) in values.iter().enumerate() {
            bump(&rt, y);
            if (i + round) % 3 == 0 {
                rt.task("host").operands((update(y),)).cpu(|(y,)| y[0] += 1.0).submit().unwrap();
            }
        }
    }
    let values = values.into_iter().map(|y| rt.take(y).unwrap()).collect();
    let uses = rt.memory();
    assert!(uses[1].bytes_in > 12 * BYTES && uses[0].bytes_in > 12 * BYTES, "{uses:?}");
    values
}

#[test]
fn large_values_of_tasks_travel_page_locked_in_memory_that_is_used_again() {
    let gpu = mock(|builder| builder);
    let values = travel(&gpu, || Buffer::zeroed(LEN));
    for (i, value) in values.iter().enumerate() {
        let touched = (0..4).filter(|round| (i + round) % 3 == 0).count();
        assert_eq!(value[0], 4.0 + touched as f64);
        assert!(value[1..].iter().all(|&number| number == 4.0));
    }
    assert_eq!(gpu.pageable_copies(LARGE), 0);
    // All values, those in transfer, and those that tasks read back.
    assert!((12..40).contains(&gpu.pinned_allocations()), "{}", gpu.pinned_allocations());
    assert_eq!(gpu.leaks().len(), 12, "the values that were taken");
    drop(values);
    check(&gpu);

    let other = mock(|builder| builder);
    assert_eq!(travel(&other, || vec![0.0; LEN])[1][1], 4.0);
    assert!(other.pageable_copies(LARGE) > 24, "a Vec's memory is its own");
    check(&other);
}

#[test]
fn callers_say_what_is_to_be_page_locked() {
    let mock = mock(|builder| builder);
    let rt = builder(&mock, 1, 4).build().unwrap();
    let zeros = || Buffer::<f64>::zeroed(LEN);
    let (own, locked) = (rt.register(zeros()), rt.register(rt.page_locked(zeros)));
    bump(&rt, &locked);
    assert_eq!((rt.read(&locked).unwrap()[7], mock.pageable_copies(LARGE)), (1.0, 0));
    bump(&rt, &own);
    assert_eq!((rt.read(&own).unwrap()[7], mock.pageable_copies(LARGE)), (1.0, 1), "there, and not back");
    // The measuring of links has small copies too.
    rt.measure_links();
    let small = rt.register(rt.page_locked(|| Buffer::<f64>::zeroed(8)));
    let before = mock.pageable_copies(0);
    bump(&rt, &small);
    assert_eq!((rt.take(small).unwrap()[7], mock.pageable_copies(0) - before), (1.0, 1), "there");
    drop((rt, own, locked));
    check(&mock);

    let rt = Runtime::builder().workers(1).device(Gpu::new(mock.clone(), 0).page_lock_from(usize::MAX));
    let rt = rt.build().unwrap();
    rt.measure_links();
    let before = mock.pageable_copies(LARGE);
    let y = made(&rt, zeros);
    bump(&rt, &y);
    assert_eq!(
        (rt.take(y).unwrap()[7], mock.pageable_copies(LARGE) - before),
        (1.0, 2),
        "it was switched off"
    );
    drop(rt);
    check(&mock);
}

#[test]
fn links_are_measured_with_page_locked_memory() {
    let mock = mock(|builder| builder.gpus(2).measured_links());
    let rt = builder(&mock, 2, 4).build().unwrap();
    rt.measure_links();
    assert_eq!(mock.pageable_copies(LARGE), 0);
    assert!(mock.pinned_allocations() > 0);
    drop(rt);
    check(&mock);
}

#[test]
fn values_outlive_their_runtime_and_keep_its_driver() {
    let mock = mock(|builder| builder);
    let rt = builder(&mock, 1, 2).build().unwrap();
    let values: Vec<_> = (0..6).map(|_| made(&rt, || Buffer::<f64>::zeroed(LEN))).collect();
    values.iter().for_each(|y| bump(&rt, y));
    let taken = rt.take(made(&rt, || Buffer::<f64>::zeroed(LEN))).unwrap();
    drop(rt);
    assert_eq!(mock.violations(), [] as [String; 0]);
    let leaks = mock.leaks();
    assert_eq!(leaks.len(), 7, "what lies in values, and nothing else: {leaks:?}");
    assert!(leaks.iter().all(|leak| leak.contains("locked host memory")), "{leaks:?}");
    let rt = Runtime::builder().workers(1).bind(false).build().unwrap();
    for y in values {
        assert!(rt.take(y).unwrap().iter().all(|&number| number == 1.0));
    }
    assert_eq!(mock.leaks().len(), 1);
    let driver = Arc::downgrade(&mock);
    drop(mock);
    assert!(driver.upgrade().is_some(), "its memory is still in use");
    thread::spawn(move || assert_eq!(taken.len(), LEN)).join().unwrap();
    assert!(driver.upgrade().is_none());
}

/// Each GPU fails at any operation: the values are right, or an error names the GPU, and all memory
/// is freed.
#[test]
fn lost_gpus_leave_page_locked_memory_usable() {
    for gpus in [1, 2] {
        for operation in 1..30 {
            let mock = mock(|builder| builder.gpus(gpus).seed(operation));
            let fault = if operation % 2 == 0 {
                Fault::Operation(operation)
            } else {
                Fault::Launch(operation / 2 + 1)
            };
            let rt = builder(&mock, gpus, 3).build().unwrap();
            let values: Vec<_> = (0..5).map(|_| made(&rt, || Buffer::<f64>::zeroed(LEN))).collect();
            mock.inject(gpus - 1, fault).unwrap();
            for y in values.iter().cycle().take(15) {
                // If no GPU is left, no worker can run it.
                let _ = rt.submit(Bump(std::marker::PhantomData), (update(y),));
            }
            let name = format!("device cuda {} failed", gpus - 1);
            for y in values {
                match rt.take(y) {
                    Ok(value) => assert!(value.iter().all(|&number| number == value[0])),
                    Err(error) => assert!(error.to_string().contains(&name) || gpus == 1, "{error}"),
                }
            }
            drop(rt);
            check(&mock);
        }
    }
}

/// Threads make, move, take and drop values concurrently, and drop some when the runtime is gone.
#[test]
fn many_threads_share_a_pool() {
    const THREADS: usize = 4;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for seed in 0..5 {
            let mock = mock(|builder| builder.gpus(2).seed(seed));
            let rt = Arc::new(builder(&mock, 2, 6).build().unwrap());
            let work = |number: usize| {
                let rt = Arc::clone(&rt);
                move || {
                    let mut left = Vec::new();
                    for i in 0..40 {
                        let len = LEN + 3000 * ((number + i) % 3);
                        let y = made(&rt, move || Buffer::<f64>::zeroed(len));
                        for _ in 0..i % 3 {
                            bump(&*rt, &y);
                        }
                        match i % 4 {
                            0 => drop(y), // while it moves
                            1 => left.push(rt.take(y).unwrap()),
                            2 => assert_eq!(rt.read(&y).unwrap()[len - 1], (i % 3) as f64),
                            _ => rt.release(y),
                        }
                        if i % 10 == 9 {
                            left.clear();
                        }
                    }
                    left.push(rt.page_locked(|| Buffer::zeroed(LEN)));
                    left
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|number| thread::spawn(work(number))).collect();
            let left: Vec<Buffer<f64>> =
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            drop(Arc::into_inner(rt).expect("the threads have ended"));
            assert!(left.iter().all(|value| value.iter().all(|&number| number == value[0])));
            assert_eq!((mock.leaks().len(), mock.pageable_copies(LARGE)), (THREADS, 0), "{:?}", mock.leaks());
            let threads: Vec<_> = left.into_iter().map(|value| thread::spawn(move || drop(value))).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            check(&mock);
        }
        sender.send(()).unwrap();
    });
    receiver.recv_timeout(Duration::from_secs(120)).expect("it ends, and nothing fails");
}
