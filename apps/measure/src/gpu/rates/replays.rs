//! Cost of a task of a replayed graph on a GPU: launched task by task, and with a replay as one
//! launch of a CUDA graph.

use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;
use zellige_cuda::{CUDA, Gpu, GpuTask};
use zellige_dense::Error;
use zellige_runtime::codelet::{DeviceTable, DeviceViews};
use zellige_runtime::{
    Bindings, Codelet, Cpu, DeviceGraphs, Handle, Operands, Read, Recorder, Runtime, Submit, TaskContext,
    TaskError, Update, read, update,
};

use super::GpuBench;
use super::link::copy_operand;
use crate::median;

/// Number of tasks of the graph. Each copies the result of the one before, so that the time is
/// mostly overhead.
const TASKS: usize = 256;
/// Numbers of an array.
const NUMBERS: usize = 256;
/// Replays that come before those that are timed: in these kernels are loaded and the graph is
/// recorded.
const BEFORE: usize = 3;

/// Times of one task of a replayed graph whose tasks run in sequence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReplayTimes {
    /// Number of tasks of the graph.
    pub tasks: usize,
    /// Time per task if each is launched separately (seconds).
    pub task_by_task_seconds: f64,
    /// Time per task if a replay is one launch (seconds); `None` if that was not possible.
    pub one_launch_seconds: Option<f64>,
}

impl GpuBench {
    /// Measures the time of a task of a replayed graph by the host's clock; `together` replays are
    /// timed as one.
    ///
    /// # Errors
    /// [`Error::Runtime`] for operations that the GPU refuses.
    pub fn replays(&self, together: usize) -> Result<ReplayTimes, Error> {
        let (task_by_task_seconds, _) = self.replayed(DeviceGraphs::Never, together)?;
        let (as_one, launched) = self.replayed(DeviceGraphs::Always, together)?;
        let one_launch_seconds = (launched >= together as u64).then_some(as_one);
        Ok(ReplayTimes { tasks: TASKS, task_by_task_seconds, one_launch_seconds })
    }

    /// Seconds of a task, and how many replays were one launch.
    fn replayed(&self, when: DeviceGraphs, together: usize) -> Result<(f64, u64), Error> {
        let builder = Runtime::builder().workers(0).gpu_only(true).policy("lws");
        let gpu = Gpu::new(self.driver.clone(), self.number);
        let rt = builder.device_graphs(when).device(gpu).build()?;
        let arrays: [Handle<Vec<f32>>; 2] = [1.0, 2.0].map(|x| rt.register(vec![x; NUMBERS]));
        let graph = rt.record(|recorder: &Recorder| -> Result<(), Error> {
            for task in 0..TASKS {
                let (from, to) = (&arrays[task % 2], &arrays[(task + 1) % 2]);
                recorder.submit(Hand, (read(from), update(to)))?;
            }
            Ok(())
        })?;
        let replay = |times: usize| -> Result<f64, Error> {
            let start = Instant::now();
            for _ in 0..times {
                rt.replay(&Bindings::recorded(&graph))?;
            }
            rt.wait_all()?;
            Ok(start.elapsed().as_secs_f64() / (times * TASKS) as f64)
        };
        replay(BEFORE)?;
        let times: Result<Vec<f64>, Error> = (0..self.repeats.max(1)).map(|_| replay(together)).collect();
        let launched = rt.memory().iter().map(|node| node.graphs_launched).sum();
        Ok((median(times?), launched))
    }
}

/// Copies one array into another.
struct Hand;

impl Codelet for Hand {
    type Operands = (Read<Vec<f32>>, Update<Vec<f32>>);

    fn name(&self) -> &'static str {
        "hand"
    }

    fn cpu(
        &self,
        _views: <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        Err("there is nothing to time on a CPU".into())
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl Hand {
    fn cuda(&self, (from, to): DeviceViews<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        copy_operand(cx.gpu(), &from, &to)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, mock};
    use super::*;

    #[test]
    fn replays_are_timed_both_ways() {
        let Some(mock) = mock(8) else { return };
        let bench = GpuBench { driver: mock.clone(), number: 0, repeats: 2, least_seconds: 0.0 };
        let times = bench.replays(5).unwrap();
        assert!(times.tasks == TASKS && times.task_by_task_seconds > 0.0, "{times:?}");
        assert!(times.one_launch_seconds.is_some_and(|seconds| seconds > 0.0), "{times:?}");
        let (_, launched) = bench.replayed(DeviceGraphs::Always, 3).unwrap();
        // All except the first, which is launched task by task.
        assert_eq!(launched, (BEFORE - 1 + 2 * 3) as u64);
        assert_eq!(bench.replayed(DeviceGraphs::Never, 1).unwrap().1, 0);
        check(&mock);
    }
}
