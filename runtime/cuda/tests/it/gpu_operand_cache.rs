//! Cached operand layouts on a GPU.

use crate::steps;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::steps::{Set, Step, Views, check, launch};
use zellige_cuda::{CUDA, Gpu, GpuTask};
use zellige_gpu::Arg;
use zellige_gpu::mock::{Fault, Mock};
use zellige_gpu::twin::TwinArg;
use zellige_runtime::codelet::{DeviceTable, OnDevice};
use zellige_runtime::{
    Bindings, Codelet, Cpu, DeviceGraphs, Handle, Read, Runtime, Submit, TaskContext, TaskError, Update,
    read, update, write,
};

type Value = Handle<Vec<f64>>;

/// A mock that counts how often a form is made.
fn counting(gpus: u32, seed: u64) -> (Arc<Mock>, Arc<AtomicUsize>) {
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let mock = steps::mock(Duration::ZERO, |builder| {
        builder.gpus(gpus).seed(seed).kernel("twice", move |_grid, _block, args| match args {
            [TwinArg::Read(x), TwinArg::Write(y)] => {
                count.fetch_add(1, Ordering::Relaxed);
                y[..8].copy_from_slice(&(2.0 * steps::number(x)).to_le_bytes());
                Ok(())
            }
            _ => Err("twice takes x and y".into()),
        })
    });
    (mock, made)
}

/// `y = y + 2 x`, by way of a cached `2 x`.
struct AddTwice {
    /// Bytes of the form.
    bytes: u64,
}

impl Codelet for AddTwice {
    type Operands = (Read<Vec<f64>>, Update<Vec<f64>>);

    fn name(&self) -> &'static str {
        "add_twice"
    }

    fn cpu(&self, (x, y): Views<'_, Self, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        y[0] += 2.0 * x[0];
        Ok(())
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl AddTwice {
    fn cuda(&self, (x, y): Views<'_, Self, OnDevice>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let ((x, _), (y, _)) = (x.part(0), y.part(0));
        let make =
            |at, cx: &TaskContext<'_>| launch(cx, "twice", &[Arg::Read(x, 8), Arg::Write(at, self.bytes)]);
        let mut failed = None;
        let found = cx.gpu().cached_operand(x, 7, self.bytes, |at| {
            failed = make(at, cx).err();
            Ok(())
        })?;
        let twice = match found {
            Some(at) => at,
            None => {
                let at = cx.gpu().scratch(self.bytes)?.at;
                make(at, cx)?;
                at
            }
        };
        failed.map_or(Ok(()), Err)?;
        launch(cx, "step", &[Arg::F64(1.0), Arg::Read(twice, 8), Arg::Update(y, 8)])
    }
}

fn on(driver: &Arc<Mock>, gpus: &[u32], bytes: u64) -> Runtime {
    let builder = Runtime::builder().workers(1).gpu_only(true).policy("eager");
    let gpu = |&gpu: &u32| Gpu::new(driver.clone(), gpu).memory(bytes).streams(3);
    gpus.iter().map(gpu).fold(builder, |builder, gpu| builder.device(gpu)).build().unwrap()
}

#[test]
fn a_form_is_made_once_for_each_version_of_a_value() {
    for seed in 0..8 {
        let (mock, made) = counting(1, seed);
        let rt = on(&mock, &[0], 1 << 20);
        let x = rt.register(vec![1.0]);
        let sums: Vec<Value> = (0..20).map(|_| rt.register(vec![0.0])).collect();
        let five = rt.register(vec![5.0]);
        for round in 0..3 {
            for y in &sums {
                rt.submit(AddTwice { bytes: 64 }, (read(&x), update(y))).unwrap();
            }
            // It is written: its cached layout becomes invalid.
            match round {
                0 => rt.submit(Set(5.0), (write(&x),)).unwrap(),
                _ => rt.submit(Step::by(0.0), (read(&five), update(&x))).unwrap(),
            };
        }
        for y in &sums {
            assert_eq!(rt.read(y).unwrap()[0], 2.0 + 10.0 + 10.0);
        }
        // Tasks on several streams that begin together may each make one.
        let made = made.load(Ordering::Relaxed);
        assert!((3..=9).contains(&made), "seed {seed}: {made}");
        drop((x, five, sums));
        drop(rt);
        check(&mock);
    }
}

#[test]
fn forms_leave_room_and_find_none() {
    // A 32nd of the memory is for forms: four of this size, of eight values; and none of a larger
    // one.
    for (bytes, times) in [(64, 8..60), (1024, 100..101)] {
        let (mock, made) = counting(1, 3);
        let rt = on(&mock, &[0], 32 * 256);
        let x: Vec<Value> = (0..8).map(|i| rt.register(vec![f64::from(i)])).collect();
        let y = rt.register(vec![0.0]);
        let mut wanted = 0.0;
        for i in 0..100 {
            // Mostly the first two.
            let at = if i % 4 == 0 { i / 4 % 8 } else { i % 2 };
            rt.submit(AddTwice { bytes }, (read(&x[at]), update(&y))).unwrap();
            wanted += 2.0 * at as f64;
        }
        assert_eq!(rt.read(&y).unwrap()[0], wanted);
        let made = made.load(Ordering::Relaxed);
        assert!(times.contains(&made), "{bytes} bytes: {made}");
        drop((x, y));
        drop(rt);
        check(&mock);
    }
}

/// A recording is launched again when a layout may be dropped: it makes its own, and the value that
/// it writes has none.
#[test]
fn recorded_replays_make_their_own() {
    let (mock, _) = counting(1, 5);
    let gpu = Gpu::new(mock.clone(), 0).memory(1 << 20);
    let builder = Runtime::builder().workers(0).policy("eager").device(gpu);
    let rt = builder.device_graphs(DeviceGraphs::Always).build().unwrap();
    let [x, y, z] = [1.0, 0.0, 0.0].map(|x| rt.register(vec![x]));
    let add = |to: &Value, from: &Value| rt.submit(AddTwice { bytes: 64 }, (read(from), update(to))).unwrap();
    let graph = rt
        .record(|g| {
            g.submit(AddTwice { bytes: 64 }, (read(&x), update(&y)))?;
            g.submit(AddTwice { bytes: 64 }, (read(&x), update(&y))).map(drop)
        })
        .unwrap();
    let (mut known_y, mut known_z) = (0.0, 0.0);
    for _ in 0..6 {
        rt.replay(&Bindings::recorded(&graph)).unwrap();
        known_y += 4.0;
        // Of `y`, which the replay has changed.
        add(&z, &y);
        known_z += 2.0 * known_y;
    }
    assert_eq!((rt.read(&y).unwrap()[0], rt.read(&z).unwrap()[0]), (known_y, known_z));
    assert_eq!(rt.memory().iter().map(|node| node.graphs_launched).sum::<u64>(), 5);
    drop((x, y, z, graph));
    drop(rt);
    check(&mock);
}

#[test]
fn a_gpu_that_fails_takes_its_forms_along() {
    for operation in 1..30 {
        let (mock, _) = counting(2, operation);
        mock.inject(0, Fault::Operation(operation)).unwrap();
        let rt = on(&mock, &[0, 1], 1 << 20);
        let x = rt.register(vec![1.0]);
        let sums: Vec<Value> = (0..6).map(|_| rt.register(vec![0.0])).collect();
        for y in sums.iter().chain(&sums) {
            rt.submit(AddTwice { bytes: 64 }, (read(&x), update(y))).unwrap();
        }
        for y in &sums {
            match rt.read(y) {
                Ok(value) => assert_eq!(value[0], 4.0),
                Err(error) => assert!(error.to_string().contains("failed"), "{error}"),
            }
        }
        drop((x, sums));
        drop(rt);
        assert_eq!(mock.violations(), [] as [String; 0], "operation {operation}");
    }
}
