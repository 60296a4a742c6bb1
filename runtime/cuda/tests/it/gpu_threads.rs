//! The threads of a GPU's streams.

use std::sync::Arc;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use zellige_cuda::{CUDA, Gpu, GpuTask};
use zellige_gpu::mock::Mock;
use zellige_runtime::codelet::{DeviceMut, DeviceTable};
use zellige_runtime::device::LaunchDepth;
use zellige_runtime::{Codelet, Runtime, Submit, TaskContext, TaskError, Update, update};

/// Sets a vector to zero on a GPU.
struct Zero;

impl Codelet for Zero {
    type Operands = (Update<Vec<f32>>,);

    fn name(&self) -> &'static str {
        "zero"
    }

    fn cpu(&self, (x,): (&mut [f32],), _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        x.fill(0.0);
        Ok(())
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl Zero {
    fn cuda(&self, (x,): (DeviceMut<'_, Vec<f32>>,), cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let (gpu, (at, bytes)) = (cx.gpu(), x.part(0));
        // SAFETY: the bytes are the operand's.
        unsafe { Ok(gpu.driver().zero(gpu.stream(), at, bytes)?) }
    }
}

/// Returns the CPUs of all threads of this process whose names have this prefix.
fn cpus_of_threads(prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for thread in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let read = |file: &str| std::fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        if read("comm").starts_with(prefix) {
            let status = read("status");
            let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).unwrap_or_default();
            found.push(line.split_whitespace().nth(1).unwrap_or_default().to_string());
        }
    }
    found
}

/// A stream begins with the first operation on it, which may come from a thread bound to one CPU: a
/// worker, or the caller. Its threads may run on all CPUs of the runtime's builder.
#[test]
fn threads_of_streams_are_not_bound_to_the_cpu_of_who_starts_them() {
    let mask = sched_getaffinity(None).unwrap();
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| mask.is_set(*cpu)).collect();
    if cpus.len() < 2 {
        println!("skipped: this process has one CPU");
        return;
    }
    let rt = Runtime::builder().workers(1).device(Gpu::new(Arc::new(Mock::builder().build()), 0));
    let rt = rt.gpu_only(true).build().unwrap();
    let list = cpus_of_threads("gpu_threads").first().cloned();
    let x = rt.register(vec![1.0f32; 100]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut one = CpuSet::new();
            one.set(cpus[0]);
            sched_setaffinity(None, &one).unwrap();
            rt.submit(Zero, (update(&x),)).unwrap();
            assert_eq!(*rt.read(&x).unwrap(), [0.0; 100]);
        });
    });
    let threads = cpus_of_threads("zellige-gpu");
    assert!(threads.len() >= 4, "those of bodies and of the way back: {threads:?}");
    let bound = cpus[0].to_string();
    assert!(threads.iter().all(|list| *list != bound && *list == threads[0]), "{threads:?} {list:?}");
}

/// Unless a GPU's memory is set, values may use the memory that is free after its libraries are
/// loaded, except a twentieth.
#[test]
fn what_libraries_keep_is_not_given_to_values() {
    const MEMORY: u64 = 1 << 20;
    let bytes = |kept: u64| {
        let mock = Arc::new(Mock::builder().memory(MEMORY).workspace(1000).libraries_keep(kept).build());
        Gpu::new(mock, 0).streams(2).bytes()
    };
    assert_eq!(bytes(0), MEMORY - MEMORY / 20 - 2000);
    assert_eq!(bytes(MEMORY / 4), MEMORY - MEMORY / 4 - MEMORY / 20 - 2000);
    assert_eq!(bytes(MEMORY), 0);
}

/// For any number of streams and any depth, all submitted tasks end.
#[test]
fn streams_and_depths_change_no_value() {
    for (streams, urgent, depth) in [(1, false, 1), (4, false, 4), (4, true, 2), (1, true, 8)] {
        let mock = Arc::new(Mock::builder().build());
        let depth = LaunchDepth { ahead: depth, launched: depth, ordered: 2 * depth };
        let gpu = Gpu::new(mock.clone(), 0).streams(streams).urgent_stream(urgent).depth(depth);
        let gpu = gpu.spins(Duration::from_micros(if urgent { 100 } else { 0 }));
        let rt = Runtime::builder().workers(0).device(gpu).build().unwrap();
        let all: Vec<_> = (0..40).map(|_| rt.register(vec![1.0f32; 50])).collect();
        for round in 0..3 {
            for (at, x) in all.iter().enumerate() {
                let task = rt.codelet(Zero, (update(x),)).priority((at as i32 * 7 + round) % 5);
                task.submit().unwrap();
            }
        }
        assert!(all.into_iter().all(|x| rt.take(x).unwrap() == [0.0; 50]));
        drop(rt);
        assert_eq!((mock.violations(), mock.leaks()), (vec![], vec![]));
    }
}
