//! Updates of performance models by the tasks that run, if models are used.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zellige_runtime::model::{Models, Source};
use zellige_runtime::sched::{Policy, ReadyTask, SchedView, Wake};
use zellige_runtime::{
    Bindings, Choice, Codelet, Cpu, Emulated, Handle, Meta, Operands, Read, Recorder, Runtime,
    RuntimeBuilder, Submit, TaskContext, TaskError, TaskInfo, read,
};

/// A task that uses a given CPU time of its thread, independent of the load on its core.
struct Busy(Duration);

impl Codelet for Busy {
    type Operands = ();

    fn name(&self) -> &'static str {
        "busy"
    }

    fn info(&self) -> TaskInfo {
        TaskInfo { shape: [self.0.as_micros() as u32, 0, 0], ..TaskInfo::default() }
    }

    fn cpu(
        &self,
        _views: <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        spin(self.0);
        Ok(())
    }
}

fn spin(time: Duration) {
    let end = cpu_time() + time;
    while cpu_time() < end {
        std::hint::spin_loop();
    }
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn run(rt: &Runtime, micros: u64) {
    for _ in 0..40 {
        rt.submit(Busy(Duration::from_micros(micros)), ()).unwrap();
    }
    rt.wait_all().unwrap();
}

#[test]
fn what_runs_is_known_afterwards() {
    let models = Arc::new(Models::new());
    for policy in ["lws", "dm", "dmdas"] {
        let rt = Runtime::builder().workers(2).policy(policy).models(Arc::clone(&models)).build().unwrap();
        run(&rt, 300);
        run(&rt, 1200);
    }
    let cpu = models.kind("cpu");
    let estimate = |micros| {
        let info = Busy(Duration::from_micros(micros)).info();
        models.estimate(models.id("busy", &info), cpu, &info, 0)
    };
    let (short, long) = (estimate(300).unwrap(), estimate(1200).unwrap());
    assert_eq!((short.source, long.source), (Source::History, Source::History));
    // A body ends when its thread has had that much CPU time, which takes at least as long.
    assert!(short.time.as_micros() >= 300 && long.time.as_micros() >= 1200, "{short:?} {long:?}");
    assert!(models.rows().iter().all(|row| row.codelet == "busy" && row.kind == "cpu"));
}

#[test]
fn who_brings_no_models_and_asks_for_none_is_not_timed() {
    let models = Arc::new(Models::new());
    let rt = Runtime::builder().workers(1).build().unwrap();
    run(&rt, 10);
    assert!(models.rows().is_empty());
    let rt = Runtime::builder().workers(1).models(Arc::clone(&models)).build().unwrap();
    run(&rt, 10);
    drop(rt);
    assert_eq!(models.rows().len(), 1);
}

#[test]
fn a_trace_says_what_was_expected() {
    let models = Arc::new(Models::new());
    let build = || Runtime::builder().workers(1).trace(true);
    let rt = build().models(Arc::clone(&models)).build().unwrap();
    run(&rt, 300);
    let tasks = rt.take_trace().unwrap().tasks;
    // There is no estimate for the first six; their median is the expected time of the others.
    assert!(tasks[..6].iter().all(|task| task.predicted_ns == 0), "{tasks:?}");
    let known = models.rows()[0].median.unwrap().as_nanos() as f64;
    for task in &tasks[8..] {
        assert!((known / 3.0..known * 3.0).contains(&(task.predicted_ns as f64)), "{known}: {task:?}");
    }
    // Without models, the cost given by the user.
    let rt = build().build().unwrap();
    run(&rt, 10);
    rt.task("guessed").operands(()).cpu(|()| ()).cost(Duration::from_micros(7)).submit().unwrap();
    rt.wait_all().unwrap();
    let tasks = rt.take_trace().unwrap().tasks;
    let predicted = |name: &str| tasks.iter().find(|task| task.name == name).unwrap().predicted_ns;
    assert_eq!((predicted("busy"), predicted("guessed")), (0, 7000));
}

/// First come, first served; records the expected time of each task when it was pushed.
#[derive(Clone, Default)]
struct Asking {
    queue: Arc<Mutex<VecDeque<ReadyTask>>>,
    asked: Arc<Mutex<Vec<Option<Duration>>>>,
}

impl Policy for Asking {
    fn name(&self) -> &str {
        "asking"
    }

    fn push(&self, view: &SchedView<'_>, task: ReadyTask, _from: Option<usize>) -> Wake {
        self.asked.lock().unwrap().push(view.estimate(&task, 0));
        self.queue.lock().unwrap().push_back(task);
        Wake::Any
    }

    fn pop(&self, _view: &SchedView<'_>, _worker: usize) -> Option<ReadyTask> {
        self.queue.lock().unwrap().pop_front()
    }
}

impl Asking {
    /// Returns the expected time of the task that was pushed last.
    fn last(&self) -> Option<Duration> {
        *self.asked.lock().unwrap().last().unwrap()
    }
}

/// Labels itself `short` or `long` once it knows the length of its operand; then it takes eight
/// times as long.
struct Late;

const LATE: &str = "not yet known";

impl Codelet for Late {
    type Operands = (Read<Vec<u64>>,);

    const IMPLEMENTATIONS: &'static [&'static str] = &["plain"];

    fn name(&self) -> &'static str {
        "late"
    }

    fn info(&self) -> TaskInfo {
        TaskInfo { label: LATE, shape: [1, 0, 0], ..TaskInfo::default() }
    }

    fn selects(&self) -> bool {
        true
    }

    fn select(&self, metas: &[Meta]) -> Choice {
        match metas[0].bytes {
            8 => Choice { label: "short", ..Choice::default() },
            _ => Choice { label: "long", variant: 3, ..Choice::default() },
        }
    }

    fn cpu(
        &self,
        _views: <Self::Operands as Operands>::Views<'_, Cpu>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        spin(Duration::from_micros(150 << cx.variant()));
        Ok(())
    }
}

fn on_cpu() -> RuntimeBuilder {
    Runtime::builder().workers(1)
}

fn on_a_device() -> RuntimeBuilder {
    Runtime::builder().workers(0).device(Emulated::new(1 << 20))
}

/// Returns the mean time that models expect for each label of [`Late`]: short, long.
fn late_times(models: &Models, kind: &str) -> [Duration; 2] {
    ["short", "long"].map(|label| {
        let info = TaskInfo { label, ..Late.info() };
        models.estimate(models.id("late", &info), models.kind(kind), &info, 0).expect(label).time
    })
}

/// Models identify a task by its deferred selection: its times are recorded there, and if the
/// selection is made before a policy gets the task, its expected time is looked up there too.
#[test]
fn late_choices_have_models_of_their_own() {
    for (kind, builder) in [("cpu", on_cpu as fn() -> RuntimeBuilder), ("emulated", on_a_device)] {
        let (models, policy) = (Arc::new(Models::new()), Asking::default());
        let rt = builder().trace(true).models(Arc::clone(&models)).policy_with(policy.clone());
        let rt = rt.build().unwrap();
        let operands = [rt.register(vec![1u64]), rt.register(vec![1u64; 9])];
        let run = |operand: &Handle<Vec<u64>>| {
            rt.submit(Late, (read(operand),)).unwrap();
            rt.wait_all().unwrap();
            policy.last()
        };
        for _ in 0..8 {
            for operand in &operands {
                run(operand);
            }
        }
        let rows: Vec<_> = models.rows().into_iter().map(|row| (row.codelet, row.label, row.kind)).collect();
        let row = |label: &str| ("late".to_string(), label.to_string(), kind.to_string());
        assert_eq!(rows, [row("long"), row("short")]);
        for (at, operand) in operands.iter().enumerate() {
            let known = late_times(&models, kind)[at];
            let asked = run(operand);
            assert_eq!(asked, (kind == "emulated").then_some(known), "{kind}: {at}");
            // It is known in any case by the time it runs.
            let trace = rt.take_trace().unwrap();
            assert_eq!(trace.tasks.last().unwrap().predicted_ns, known.as_nanos() as u64, "{kind}: {at}");
        }
        let [short, long] = late_times(&models, kind);
        assert!(long > 3 * short, "{kind}: {short:?} {long:?}");
    }
}

/// Replays select anew: the expected times of their tasks are those of the new selection.
#[test]
fn replays_ask_for_what_they_choose() {
    let (models, policy) = (Arc::new(Models::new()), Asking::default());
    let rt = on_a_device().models(Arc::clone(&models)).policy_with(policy.clone()).build().unwrap();
    let operands = [rt.register(vec![1u64]).named("operand"), rt.register(vec![1u64; 9])];
    let graph = rt.record(|g: &Recorder| g.submit(Late, (read(&operands[0]),)).map(drop)).unwrap();
    for _ in 0..8 {
        for operand in &operands {
            rt.replay(&Bindings::recorded(&graph).and("operand", operand).unwrap()).unwrap();
            rt.wait_all().unwrap();
        }
    }
    let asked = policy.asked.lock().unwrap().clone();
    let [short, long] = [asked[asked.len() - 2], asked[asked.len() - 1]].map(Option::unwrap);
    assert!(long > 3 * short, "{short:?} {long:?}");
}

/// Reads its operand, and hardly computes: its time grows with the length.
struct Stream(u32);

impl Codelet for Stream {
    type Operands = (Read<Vec<u64>>,);

    fn name(&self) -> &'static str {
        "stream"
    }

    fn info(&self) -> TaskInfo {
        TaskInfo { flops: 100.0, shape: [self.0, 0, 0], ..TaskInfo::default() }
    }

    fn cpu(
        &self,
        _views: <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        Ok(())
    }
}

/// The expected time of a size that never ran depends on the bytes of its operands, planned or
/// registered.
#[test]
fn the_bytes_of_unseen_sizes_are_told() {
    for (kind, builder) in [("cpu", on_cpu as fn() -> RuntimeBuilder), ("emulated", on_a_device)] {
        let (models, policy) = (Arc::new(Models::new()), Asking::default());
        let number = models.kind(kind);
        for length in [1000u32, 2000, 4000, 8000] {
            let (info, bytes) = (Stream(length).info(), u64::from(length) * 8);
            let id = models.id("stream", &info);
            // One nanosecond per byte.
            (0..8).for_each(|_| models.record(id, number, info.flops, bytes, Duration::from_nanos(bytes)));
        }
        let rt = builder().models(Arc::clone(&models)).policy_with(policy.clone()).build().unwrap();
        let x = rt.register(vec![1u64; 6000]);
        rt.submit(Stream(6000), (read(&x),)).unwrap();
        rt.wait_all().unwrap();
        let expected = policy.last().unwrap().as_nanos() as f64;
        assert!((0.98..1.02).contains(&(expected / 48_000.0)), "{kind}: {expected}");
    }
}
