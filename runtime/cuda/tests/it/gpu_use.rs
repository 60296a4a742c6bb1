//! Placement of tasks on machines with GPUs, and the ranges that profilers see.

use std::sync::Arc;

use zellige_cuda::{CUDA, Gpu, GpuTask};
use zellige_gpu::Driver;
use zellige_gpu::mock::{Fault, Mock};
use zellige_runtime::codelet::{DeviceTable, OnDevice};
use zellige_runtime::model::Models;
use zellige_runtime::sched::POLICIES;
use zellige_runtime::{
    Choice, Codelet, Cpu, Meta, Operands, Runtime, RuntimeBuilder, Submit, TaskContext, TaskError, TaskInfo,
    Trace, Update, update,
};

type Views<'v, C, K> = <<C as Codelet>::Operands as Operands>::Views<'v, K>;

/// Action of the body of [`Clear`] on a GPU besides its work.
#[derive(Clone, Copy)]
enum Behaviour {
    Plain,
    Within,
    Fails,
    Panics,
}

/// Sets a vector to zero.
struct Clear {
    behaviour: Behaviour,
    info: TaskInfo,
    /// Label from the deferred selection.
    late: Option<&'static str>,
}

impl Clear {
    fn plain() -> Self {
        Clear { behaviour: Behaviour::Plain, info: TaskInfo::default(), late: None }
    }
}

impl Codelet for Clear {
    type Operands = (Update<Vec<f64>>,);

    fn name(&self) -> &'static str {
        "clear"
    }

    fn info(&self) -> TaskInfo {
        self.info
    }

    fn selects(&self) -> bool {
        self.late.is_some()
    }

    fn select(&self, _metas: &[Meta]) -> Choice {
        Choice { label: self.late.unwrap_or(""), ..Choice::default() }
    }

    fn cpu(&self, (y,): Views<'_, Self, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        y.fill(0.0);
        Ok(())
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl Clear {
    fn cuda(&self, (y,): Views<'_, Self, OnDevice>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let (gpu, (at, bytes)) = (cx.gpu(), y.part(0));
        if let Behaviour::Within = self.behaviour {
            gpu.driver().begin_range("zero");
        }
        // SAFETY: the bytes are the operand's.
        unsafe { gpu.driver().zero(gpu.stream(), at, bytes)? };
        match self.behaviour {
            Behaviour::Plain => Ok(()),
            Behaviour::Within => {
                gpu.driver().end_range();
                Ok(())
            }
            Behaviour::Fails => Err("it fails".into()),
            Behaviour::Panics => panic!("it panics"),
        }
    }
}

#[test]
fn each_body_has_a_range_that_ends_however_it_ends() {
    let mock = Arc::new(Mock::builder().ranges().build());
    let rt = Runtime::builder().workers(0).device(Gpu::new(mock.clone(), 0)).build().unwrap();
    let place = |label, coords| TaskInfo { label, coords: Some(coords), ..TaskInfo::default() };
    let nowhere = u32::MAX;
    let tasks = [
        Clear { info: place("hp1", [3, 2, 1]), ..Clear::plain() },
        Clear { info: place("", [4, 1, nowhere]), behaviour: Behaviour::Within, ..Clear::plain() },
        Clear { info: place("early", [5, 0, 0]), late: Some("x3"), ..Clear::plain() },
        Clear { info: place("early", [6, 0, 0]), late: Some(""), ..Clear::plain() },
        Clear { behaviour: Behaviour::Fails, ..Clear::plain() },
        Clear { behaviour: Behaviour::Panics, ..Clear::plain() },
        Clear::plain(),
    ];
    let count = tasks.len();
    let values: Vec<_> = (0..count).map(|_| rt.register(vec![1.0; 3])).collect();
    for (task, value) in tasks.into_iter().zip(&values) {
        rt.submit(task, (update(value),)).unwrap();
    }
    let ends: Vec<bool> = values.into_iter().map(|value| rt.take(value).is_ok()).collect();
    assert_eq!(ends, [true, true, true, true, false, false, true]);
    drop(rt);
    // They are launched on two streams, whose threads take turns.
    let mut ranges = mock.ranges();
    ranges.sort();
    let wanted = [
        "clear",
        "clear",
        "clear",
        "clear (4, 1)",
        "clear (4, 1) / zero",
        "clear early (6, 0, 0)",
        "clear hp1 (3, 2, 1)",
        "clear x3 (5, 0, 0)",
    ];
    assert_eq!(ranges, wanted);
    assert_eq!((mock.violations(), mock.leaks()), (vec![], vec![]));
}

#[test]
fn nobody_looks_and_there_are_no_ranges() {
    let mock = Arc::new(Mock::builder().build());
    let rt = Runtime::builder().workers(0).device(Gpu::new(mock.clone(), 0)).build().unwrap();
    let value = rt.register(vec![1.0]);
    rt.submit(Clear::plain(), (update(&value),)).unwrap();
    assert_eq!(rt.take(value).unwrap(), [0.0]);
    assert!(!mock.has_ranges() && mock.ranges().is_empty());
}

fn with_cpus(driver: &Arc<Mock>, memory: u64) -> RuntimeBuilder {
    let gpu = |number| Gpu::new(driver.clone(), number).memory(memory);
    Runtime::builder().workers(2).device(gpu(0)).device(gpu(1)).trace(true)
}

/// Returns the number of tasks of this name that ran on each kind of device: CPU cores, GPUs.
fn ran(trace: &Trace, name: &str) -> [usize; 2] {
    ["cpu", "cuda"].map(|kind| {
        let on_kind = |worker: u32| trace.workers[worker as usize].kind.starts_with(kind);
        trace.tasks.iter().filter(|task| task.name == name && on_kind(task.worker)).count()
    })
}

/// Submits tasks that GPUs can run and tasks that they cannot, on values of this length; each is
/// left at 1.
fn mixed(rt: &Runtime, length: usize) {
    let values: Vec<_> = (0..8).map(|_| rt.register(vec![7.0; length])).collect();
    for _ in 0..5 {
        for value in &values {
            rt.submit(Clear::plain(), (update(value),)).unwrap();
            let add = |(y,): (&mut [f64],)| y.iter_mut().for_each(|y| *y += 1.0);
            rt.task("add").operands((update(value),)).cpu(add).submit().unwrap();
        }
    }
    for value in values {
        assert_eq!(rt.take(value).unwrap(), vec![1.0; length]);
    }
}

#[test]
fn what_gpus_can_run_is_left_to_them_under_every_policy() {
    for (policy, _) in POLICIES {
        let mock = Arc::new(Mock::builder().gpus(2).build());
        let rt = with_cpus(&mock, 1 << 20).policy(policy).gpu_only(true).build().unwrap();
        mixed(&rt, 10);
        let trace = rt.take_trace().unwrap();
        assert_eq!((ran(&trace, "clear"), ran(&trace, "add")), ([0, 40], [40, 0]), "{policy}");
        drop(rt);
        assert_eq!((mock.violations(), mock.leaks()), (vec![], vec![]), "{policy}");
    }
}

#[test]
fn workers_help_where_nothing_is_left_to_gpus() {
    let mock = Arc::new(Mock::builder().build());
    let gpu = Gpu::new(mock, 0);
    let rt = Runtime::builder().workers(1).device(gpu).trace(true).policy("dm").build().unwrap();
    // Each kind of device runs a task a few times before it is known.
    mixed(&rt, 10);
    let [cpu, cuda] = ran(&rt.take_trace().unwrap(), "clear");
    assert!(cpu > 0 && cuda > 0 && cpu + cuda == 40, "{cpu} and {cuda}");
}

#[test]
fn what_no_gpu_has_room_for_runs_on_workers() {
    for (policy, _) in POLICIES {
        let mock = Arc::new(Mock::builder().gpus(2).build());
        let rt = with_cpus(&mock, 100).policy(policy).gpu_only(true).build().unwrap();
        mixed(&rt, 100);
        assert_eq!(ran(&rt.take_trace().unwrap(), "clear"), [40, 0], "{policy}");
    }
}

#[test]
fn what_gpus_leave_when_they_fail_runs_on_workers() {
    for (policy, _) in POLICIES {
        let mock = Arc::new(Mock::builder().gpus(2).build());
        for gpu in [0, 1] {
            mock.inject(gpu, Fault::Operation(3)).unwrap();
        }
        let rt = with_cpus(&mock, 1 << 20).policy(policy).gpu_only(true).build().unwrap();
        let values: Vec<_> = (0..40).map(|_| rt.register(vec![7.0; 10])).collect();
        for value in &values {
            rt.submit(Clear::plain(), (update(value),)).unwrap();
        }
        // A value that only a GPU had is lost with it, and the error names the GPU; all other
        // values are right.
        let mut right = 0;
        for value in values {
            match rt.take(value) {
                Ok(value) => {
                    assert_eq!(value, [0.0; 10], "{policy}");
                    right += 1;
                }
                Err(error) => assert!(error.to_string().contains("failed"), "{policy}: {error}"),
            }
        }
        let [cpu, _] = ran(&rt.take_trace().unwrap(), "clear");
        assert!(cpu > 0 && right >= cpu, "{policy}: {cpu} on workers, {right} values");
    }
}

/// GPUs of two models are two kinds for policies and traces, as they are for performance models.
#[test]
fn a_slow_gpu_is_not_taken_for_a_fast_one() {
    let makes = ["slow", "fast"].map(|name| Arc::new(Mock::builder().name(name).build()));
    let models = Arc::new(Models::new());
    let info = TaskInfo { shape: [3, 0, 0], ..TaskInfo::default() };
    for (kind, micros) in [("cuda:slow", 900), ("cuda:fast", 100)] {
        let id = models.id("clear", &info);
        // The few that run below change nothing.
        for _ in 0..600 {
            models.record(id, models.kind(kind), 0.0, 0, std::time::Duration::from_micros(micros));
        }
    }
    let builder =
        makes.iter().fold(Runtime::builder().workers(0), |rt, make| rt.device(Gpu::new(make.clone(), 0)));
    let rt = builder.policy("dm").models(models).trace(true).build().unwrap();
    for _ in 0..4 {
        let value = rt.register(vec![1.0; 3]);
        rt.submit(Clear { info, ..Clear::plain() }, (update(&value),)).unwrap();
        rt.wait_all().unwrap();
    }
    let trace = rt.take_trace().unwrap();
    let on: Vec<&str> = trace.tasks.iter().map(|task| &*trace.workers[task.worker as usize].kind).collect();
    assert_eq!(on, ["cuda:fast"; 4]);
    let kinds: Vec<(String, usize)> = trace.bounds().kinds().to_vec();
    assert_eq!(kinds, [("cuda:slow".to_string(), 1), ("cuda:fast".to_string(), 1)]);
}

/// Times of launched tasks are taken at their ends: they count for the deferred selection, too.
#[test]
fn late_choices_have_models_of_their_own_on_gpus() {
    let (mock, models) = (Arc::new(Mock::builder().build()), Arc::new(Models::new()));
    let builder = Runtime::builder().workers(0).device(Gpu::new(mock, 0));
    let rt = builder.models(Arc::clone(&models)).build().unwrap();
    for late in ["x3", "fp32", ""] {
        let value = rt.register(vec![1.0; 3]);
        let info = TaskInfo { label: "early", ..TaskInfo::default() };
        rt.submit(Clear { info, late: Some(late), ..Clear::plain() }, (update(&value),)).unwrap();
        assert_eq!(rt.take(value).unwrap(), [0.0; 3]);
    }
    drop(rt);
    let labels: Vec<String> = models.rows().into_iter().map(|row| row.label).collect();
    assert_eq!(labels, ["early", "fp32", "x3"]);
}
