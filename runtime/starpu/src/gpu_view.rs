//! The machine as scheduling policies see it where there are GPUs.
//!
//! To the engine all workers are threads. This view says which of them are GPUs, how long StarPU's
//! performance models expect a task to take there, and how long its data would take to get there.

use std::ffi::c_uint;
use std::time::Duration;

use zellige_runtime::internal::policies::{World, view, world};
use zellige_runtime::internal::untyped::untyped;
use zellige_runtime::sched::{PerNode, ReadyTask, SchedView};
use zellige_runtime::topology::CoreInfo;

use crate::functions::implementations;
use crate::gpus::{self, gpu_of, nodes};
use crate::perfmodel::{
    buffers, starpu_task_expected_data_transfer_time, starpu_task_worker_expected_length,
};
use crate::residency::is_lacking;
use crate::types::*;
use crate::work::Work;

/// Calls `f` with a view of the machine that knows its GPUs.
#[inline]
pub fn with_gpus<R>(of_engine: &SchedView<'_>, f: impl FnOnce(&SchedView<'_>) -> R) -> R {
    if !gpus::is_any() {
        return f(of_engine);
    }
    let known = WithGpus(world(of_engine));
    f(&view(&known))
}

struct WithGpus<'a>(&'a dyn World);

/// Returns the task of the application behind a ready one; the interface's own have none.
fn task_of(ready: &ReadyTask) -> Option<*mut starpu_task> {
    untyped::<Work>(ready).map(|work| work.task)
}

/// Returns the buffers of a task whose value it reads and a node lacks, with their bytes.
///
/// # Safety
/// The task has not ended.
unsafe fn lacking(task: *mut starpu_task, node: usize) -> impl Iterator<Item = u64> {
    buffers(task)
        .filter(move |(handle, mode)| is_lacking(*handle, node, *mode))
        .map(|(handle, _)| crate::handles::starpu_data_get_size(handle) as u64)
}

impl World for WithGpus<'_> {
    fn workers(&self) -> usize {
        self.0.workers()
    }

    fn core(&self, worker: usize) -> &CoreInfo {
        self.0.core(worker)
    }

    fn neighbours(&self, worker: usize) -> &[usize] {
        self.0.neighbours(worker)
    }

    fn kind(&self, worker: usize) -> &str {
        if gpu_of(worker).is_some() { "cuda" } else { self.0.kind(worker) }
    }

    fn model_kind(&self, worker: usize) -> &str {
        gpu_of(worker).map_or_else(|| self.0.model_kind(worker), |gpu| gpu.kind())
    }

    fn node(&self, worker: usize) -> usize {
        gpus::node_of(worker)
    }

    fn in_flight(&self) -> u64 {
        self.0.in_flight()
    }

    fn now(&self) -> Duration {
        self.0.now()
    }

    fn can_run(&self, task: &ReadyTask, worker: usize) -> bool {
        self.0.can_run(task, worker)
    }

    fn estimate(&self, ready: &ReadyTask, worker: usize) -> Option<Duration> {
        let task = task_of(ready)?;
        // SAFETY: the task has not ended.
        let times = unsafe {
            let able = implementations(task, worker);
            able.map(|at| starpu_task_worker_expected_length(task, worker as c_uint, 0, at as c_uint))
                .collect::<PerNode<_>>()
        };
        // While one of them is not known, the task is tried there.
        if times.iter().any(|time| time.is_nan() || *time <= 0.0) {
            return None;
        }
        times.into_iter().reduce(f64::min).map(|time| Duration::from_secs_f64(time * 1e-6))
    }

    fn missing_bytes(&self, ready: &ReadyTask, worker: usize) -> u64 {
        // SAFETY: the task has not ended.
        task_of(ready).map_or(0, |task| unsafe { lacking(task, gpus::node_of(worker)) }.sum())
    }

    fn transfer_times(&self, ready: &ReadyTask) -> PerNode<u64> {
        // SAFETY: the task has not ended.
        let time = |task, node| unsafe { starpu_task_expected_data_transfer_time(node as c_uint, task) };
        nodes().map(|node| task_of(ready).map_or(0, |task| (time(task, node) * 1e3) as u64)).collect()
    }

    fn prefetch(&self, _task: &ReadyTask, _worker: usize) {}
}
