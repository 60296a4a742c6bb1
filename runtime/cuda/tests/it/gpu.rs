//! GPUs of a driver that checks its use.

use std::sync::Arc;

use zellige_cuda::{CUDA, Gpu, GpuTask};
use zellige_gpu::mock::{Fault, Mock, MockBuilder};
use zellige_gpu::twin::TwinArg;
use zellige_gpu::{Arg, Driver, Element, Kernel, Matrix, Place, Syrk};
use zellige_runtime::codelet::{DeviceTable, OnDevice};
use zellige_runtime::{
    Codelet, Cpu, Emulated, Operands, Read, Runtime, Scratch, Submit, TaskContext, TaskError, Update, Write,
    read, scratch, update, write,
};

type Views<'v, C, K> = <<C as Codelet>::Operands as Operands>::Views<'v, K>;

fn floats(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
}

fn put(to: &mut [u8], values: impl Iterator<Item = f64>) {
    to.chunks_exact_mut(8).zip(values).for_each(|(to, v)| to.copy_from_slice(&v.to_le_bytes()));
}

/// `y += a x`, and `y = a`.
fn kernels(builder: MockBuilder) -> MockBuilder {
    builder
        .kernel("axpy", |_grid, _block, args| match args {
            [TwinArg::F64(a), TwinArg::Read(x), TwinArg::Update(y)] => {
                let sums: Vec<f64> = floats(x).iter().zip(floats(y)).map(|(x, y)| y + *a * x).collect();
                put(y, sums.into_iter());
                Ok(())
            }
            _ => Err("axpy takes a, x and y".into()),
        })
        .kernel("fill", |_grid, _block, args| match args {
            [TwinArg::F64(a), TwinArg::Write(y)] => {
                put(y, std::iter::repeat(*a));
                Ok(())
            }
            _ => Err("fill takes a and y".into()),
        })
}

fn mock(build: impl FnOnce(MockBuilder) -> MockBuilder) -> Arc<Mock> {
    Arc::new(build(kernels(Mock::builder())).build())
}

fn kernel(driver: &dyn Driver, gpu: u32, name: &str) -> Result<Kernel, TaskError> {
    Ok(driver.kernel(driver.load(gpu, b"an image")?, name)?)
}

struct Axpy(f64);

impl Codelet for Axpy {
    type Operands = (Read<Vec<f64>>, Update<Vec<f64>>);

    fn name(&self) -> &'static str {
        "axpy"
    }

    fn cpu(&self, (x, y): Views<'_, Self, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        y.iter_mut().zip(x).for_each(|(y, x)| *y += self.0 * x);
        Ok(())
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl Axpy {
    fn cuda(&self, (x, y): Views<'_, Self, OnDevice>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let gpu = cx.gpu();
        let kernel = kernel(&**gpu.driver(), gpu.gpu(), "axpy")?;
        let ((x, bytes), (y, _)) = (x.part(0), y.part(0));
        let args = [Arg::F64(self.0), Arg::Read(x, bytes), Arg::Update(y, bytes)];
        // SAFETY: the arrays are the task's operands, and the arguments those of the kernel.
        unsafe { gpu.driver().launch(gpu.stream(), kernel, [1; 3], [32, 1, 1], 0, &args)? };
        Ok(())
    }
}

struct Fill(f64, usize);

impl Codelet for Fill {
    type Operands = (Write<Vec<f64>>,);

    fn name(&self) -> &'static str {
        "fill"
    }

    fn cpu(&self, (mut y,): Views<'_, Self, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        y.put(vec![self.0; self.1]);
        Ok(())
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl Fill {
    fn cuda(&self, (y,): Views<'_, Self, OnDevice>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let gpu = cx.gpu();
        let kernel = kernel(&**gpu.driver(), gpu.gpu(), "fill")?;
        let (y, bytes) = y.put(self.1, &gpu)?.part(0);
        let args = [Arg::F64(self.0), Arg::Write(y, bytes)];
        // SAFETY: the array is the task's operand, and the arguments those of the kernel.
        unsafe { gpu.driver().launch(gpu.stream(), kernel, [1; 3], [32, 1, 1], 0, &args)? };
        Ok(())
    }
}

/// Checks that nothing is leaked, and that the order was correct.
fn check(mock: &Mock) {
    assert_eq!(mock.violations(), [] as [String; 0]);
    assert_eq!(mock.leaks(), [] as [String; 0]);
}

fn gpus(driver: &Arc<Mock>, count: u32, memory: u64) -> zellige_runtime::RuntimeBuilder {
    let mut builder = Runtime::builder().workers(0).peers(1e9);
    for number in 0..count {
        builder = builder.device(Gpu::new(driver.clone(), number).memory(memory));
    }
    builder
}

#[test]
fn values_go_to_a_gpu_and_come_back() {
    let mock = mock(|builder| builder);
    let rt = gpus(&mock, 1, 1 << 20).build().unwrap();
    let (x, y) = (rt.register(vec![1.0, 2.0, 3.0]), rt.register(vec![10.0; 3]));
    for _ in 0..10 {
        rt.submit(Axpy(2.0), (read(&x), update(&y))).unwrap();
    }
    assert_eq!(rt.take(y).unwrap(), [30.0, 50.0, 70.0]);
    assert_eq!(*rt.read(&x).unwrap(), [1.0, 2.0, 3.0]);
    drop(rt);
    check(&mock);
}

/// A ring of vectors, each of which is added to the next: twice as many as fit, on two GPUs and
/// logical halves of one.
#[test]
fn what_does_not_fit_moves_between_gpus_and_the_host() {
    const LEN: usize = 100;
    for (gpus_there, devices) in [(1, [0, 0]), (2, [0, 1])] {
        let mock = mock(|builder| builder.gpus(gpus_there));
        let mut builder = Runtime::builder().workers(0).peers(1e9);
        for number in devices {
            builder = builder.device(Gpu::new(mock.clone(), number).memory(4 * 8 * LEN as u64));
        }
        let rt = builder.policy("eager").build().unwrap();
        let ring: Vec<_> = (0..16).map(|_| rt.register_empty::<Vec<f64>>()).collect();
        let mut wanted: Vec<f64> = (0..16).map(f64::from).collect();
        for (i, y) in ring.iter().enumerate() {
            rt.submit(Fill(i as f64, LEN), (write(y),)).unwrap();
        }
        for i in 0..64 {
            let (from, to) = (i * 5 % 16, (i * 5 + 3) % 16);
            rt.submit(Axpy(0.5), (read(&ring[from]), update(&ring[to]))).unwrap();
            wanted[to] += 0.5 * wanted[from];
        }
        for (y, wanted) in ring.into_iter().zip(wanted) {
            assert_eq!(rt.take(y).unwrap(), [wanted; LEN]);
        }
        assert!(rt.memory().iter().any(|node| node.evictions > 0), "{:?}", rt.memory());
        drop(rt);
        check(&mock);
    }
}

#[test]
fn tasks_without_a_gpu_implementation_stay_on_the_host() {
    let mock = mock(|builder| builder);
    let rt = Runtime::builder().workers(1).device(Gpu::new(mock.clone(), 0)).build().unwrap();
    let y = rt.register(vec![0.0; 5]);
    for _ in 0..20 {
        rt.task("host")
            .operands((update(&y),))
            .cpu(|(y,)| y.iter_mut().for_each(|y| *y += 1.0))
            .submit()
            .unwrap();
        rt.submit(Axpy(1.0), (read(&rt.register(vec![1.0; 5])), update(&y))).unwrap();
    }
    assert_eq!(rt.take(y).unwrap(), [40.0; 5]);
    drop(rt);
    check(&mock);
}

/// A GPU that fails at any operation: the values are right, or an error names it.
#[test]
fn a_gpu_that_fails_loses_nothing_that_is_elsewhere() {
    for operation in 1..40 {
        let mock = mock(|builder| builder.gpus(2));
        let fault =
            if operation % 2 == 0 { Fault::Operation(operation) } else { Fault::Launch(operation / 2 + 1) };
        mock.inject(1, fault).unwrap();
        let rt = gpus(&mock, 2, 1 << 20).policy("eager").build().unwrap();
        let ys: Vec<_> = (0..6).map(|_| rt.register(vec![1.0; 10])).collect();
        let x = rt.register(vec![1.0; 10]);
        for _ in 0..4 {
            for y in &ys {
                rt.submit(Axpy(1.0), (read(&x), update(y))).unwrap();
            }
        }
        for y in ys {
            match rt.take(y) {
                Ok(value) => assert_eq!(value, [5.0; 10]),
                Err(error) => assert!(error.to_string().contains("device cuda 1 failed"), "{error}"),
            }
        }
        assert_eq!(rt.take(x).unwrap(), [1.0; 10]);
        drop(rt);
        assert_eq!(mock.violations(), [] as [String; 0]);
    }
}

/// A body that fails after it has put something on the stream, and one whose deferred work fails.
#[test]
fn errors_of_bodies_name_the_task() {
    struct Late;
    impl Codelet for Late {
        type Operands = (Update<Vec<f64>>,);

        fn name(&self) -> &'static str {
            "late"
        }

        fn cpu(&self, _views: Views<'_, Self, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
            Ok(())
        }

        fn on_devices(&self, table: &mut DeviceTable<Self>) {
            table.add(*CUDA, Self::cuda);
        }
    }

    impl Late {
        fn cuda(&self, (y,): Views<'_, Self, OnDevice>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
            let (at, bytes) = y.part(0);
            // SAFETY: the bytes are the operand's.
            unsafe {
                cx.gpu().read_back(at, bytes as usize, |bytes| match floats(bytes)[0] {
                    1.0 => Ok(()),
                    other => Err(format!("it is {other}").into()),
                })?;
            }
            Ok(())
        }
    }
    let mock = mock(|builder| builder);
    let rt = gpus(&mock, 1, 1 << 20).build().unwrap();
    let (good, bad) = (rt.register(vec![1.0]), rt.register(vec![2.0]));
    rt.submit(Late, (update(&good),)).unwrap();
    rt.submit(Late, (update(&bad),)).unwrap();
    assert_eq!(rt.take(good).unwrap(), [1.0]);
    let error = rt.take(bad).unwrap_err().to_string();
    assert!(error.contains("late") && error.contains("it is 2"), "{error}");
    drop(rt);
    check(&mock);
}

#[test]
fn what_no_worker_can_run_is_refused() {
    let mock = mock(|builder| builder);
    let rt = gpus(&mock, 1, 1 << 20).build().unwrap();
    let y = rt.register(vec![1.0]);
    let refused = rt.task("host").operands((update(&y),)).cpu(|(_,)| ()).submit().map(drop).unwrap_err();
    let error = refused.to_string();
    assert!(error.contains("task host: its codelet can execute on none of the workers"), "{error}");
    rt.submit(Axpy(1.0), (read(&rt.register(vec![2.0])), update(&y))).unwrap();
    assert_eq!(rt.take(y).unwrap(), [3.0]);
    drop(rt);
    check(&mock);
}

/// Doubles a vector by way of working space.
struct Double;

impl Codelet for Double {
    type Operands = (Update<Vec<f64>>, Scratch<f64>);

    fn name(&self) -> &'static str {
        "double"
    }

    fn cpu(&self, (y, _): Views<'_, Self, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        y.iter_mut().for_each(|y| *y *= 2.0);
        Ok(())
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl Double {
    fn cuda(&self, (y, space): Views<'_, Self, OnDevice>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let gpu = cx.gpu();
        let (driver, kernel) = (gpu.driver(), kernel(&**gpu.driver(), gpu.gpu(), "axpy")?);
        let (y, bytes) = y.part(0);
        assert_eq!(space.bytes, bytes);
        let args = [Arg::F64(1.0), Arg::Read(space.at.into(), bytes), Arg::Update(y, bytes)];
        // SAFETY: the arrays are the task's operand and working space.
        unsafe {
            let (from, to) = (Place::Gpu(gpu.gpu(), y), Place::Gpu(gpu.gpu(), space.at.into()));
            driver.copy(gpu.stream(), to, from, bytes)?;
            driver.launch(gpu.stream(), kernel, [1; 3], [32, 1, 1], 0, &args)?;
        }
        Ok(())
    }
}

#[test]
fn working_space_is_on_the_gpu() {
    let mock = mock(|builder| builder);
    let rt = gpus(&mock, 1, 1 << 20).build().unwrap();
    let y = rt.register(vec![1.0, 3.0]);
    for _ in 0..5 {
        rt.submit(Double, (update(&y), scratch(2))).unwrap();
    }
    assert_eq!(rt.take(y).unwrap(), [32.0, 96.0]);
    drop(rt);
    check(&mock);
}

#[test]
fn links_to_gpus_are_measured() {
    let mock = mock(|builder| builder.gpus(2).measured_links());
    let rt = gpus(&mock, 2, 1 << 20).build().unwrap();
    rt.measure_links();
    drop(rt);
    check(&mock);
    let rt = Runtime::builder().workers(0).device(Gpu::new(mock.clone(), 7)).build();
    let error = rt.unwrap_err().to_string();
    assert!(error.contains("there is no GPU 7: 2 found"), "{error}");
    let rt = Runtime::builder().workers(0).device(Emulated::new(1 << 20)).build().unwrap();
    let y = rt.register(vec![1.0]);
    rt.submit(Axpy(1.0), (read(&rt.register(vec![1.0])), update(&y))).unwrap();
    assert_eq!(rt.take(y).unwrap(), [2.0], "emulated devices run the CPU's implementation");
}

/// Calls a routine of a library, which does not change its operand.
struct Routine;

impl Codelet for Routine {
    type Operands = (Update<Vec<f64>>,);

    fn name(&self) -> &'static str {
        "routine"
    }

    fn cpu(&self, _views: Views<'_, Self, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        Ok(())
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl Routine {
    fn cuda(&self, (y,): Views<'_, Self, OnDevice>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let gpu = cx.gpu();
        let (at, _) = y.part(0);
        let a = Matrix { at, ld: 1, element: Element::F64 };
        let syrk = Syrk { n: 1, k: 1, alpha: 0.0, a, beta: 1.0, c: Matrix { at: at.offset(8), ..a } };
        // SAFETY: both numbers are the operand's.
        unsafe { gpu.driver().syrk(gpu.stream(), &syrk)? };
        Ok(())
    }
}

#[test]
fn what_streams_take_is_left_to_them() {
    const MEMORY: u64 = 1 << 20;
    const WORKSPACE: u64 = 200 << 10;
    let mock = mock(|builder| builder.memory(MEMORY).workspace(WORKSPACE));
    let rt = Runtime::builder().workers(0).device(Gpu::new(mock.clone(), 0)).build().unwrap();
    assert_eq!(rt.memory()[1].capacity, Some(MEMORY - MEMORY / 20 - Gpu::STREAMS as u64 * WORKSPACE));
    let values: Vec<_> = (0..12).map(|i| rt.register(vec![f64::from(i); 8000])).collect();
    for y in values.iter().cycle().take(36) {
        rt.submit(Routine, (update(y),)).unwrap();
    }
    for (i, y) in (0..).zip(values) {
        assert_eq!(rt.take(y).unwrap(), [f64::from(i); 8000]);
    }
    assert!(rt.memory()[1].evictions > 0, "the memory was full");
    drop(rt);
    check(&mock);
}

#[test]
fn what_does_not_fit_a_gpu_is_refused_with_the_sum() {
    let mock = mock(|builder| builder.gpus(2).memory(1000).workspace(100));
    let built = |gpus: &[Gpu]| {
        let builder = Runtime::builder().workers(0);
        let built = gpus.iter().cloned().fold(builder, |builder, gpu| builder.device(gpu)).build();
        built.map(drop).map_err(|error| error.to_string())
    };
    let gpu = |number| Gpu::new(mock.clone(), number).streams(2);
    assert_eq!(built(&[gpu(0), gpu(1).memory(800)]), Ok(()));
    assert_eq!(built(&[gpu(0).memory(300), gpu(1).memory(800), gpu(0).memory(400).streams(1)]), Ok(()));
    for (gpus, words) in [
        (vec![gpu(0).memory(801)], "1001 are asked for: (801 for values + 2 streams of 100);"),
        (
            vec![gpu(0).memory(300), gpu(1), gpu(0).memory(401).streams(1)],
            "1001 are asked for: (300 for values + 2 streams of 100) + (401 for values + 1 streams of 100);",
        ),
        (vec![gpu(0), gpu(0)], "1900 are asked for: (750 for values + 2 streams of 100) + (750 for"),
        (vec![gpu(1).streams(11)], "1100 are asked for: (0 for values + 11 streams of 100)"),
        (vec![gpu(0).memory(u64::MAX)], "18446744073709551615 are asked for"),
    ] {
        let error = built(&gpus).unwrap_err();
        assert!(error.contains("has 1000 bytes of memory, and ") && error.contains(words), "{error}");
        assert!(error.contains("Gpu::memory") && error.contains("Gpu::streams"), "{error}");
    }
    check(&mock);
}
