//! Performance models are taught by the tasks that run, where somebody wants them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zellige_runtime::model::{Models, Source};
use zellige_runtime::{Codelet, Cpu, Operands, Runtime, Submit, TaskContext, TaskError, TaskInfo};

/// Keeps its core busy for as long as it says.
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
        let begin = Instant::now();
        while begin.elapsed() < self.0 {
            std::hint::spin_loop();
        }
        Ok(())
    }
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
    // CPU time of the thread: a core that others share takes the same or, while it is away, less.
    assert!(short.time < long.time && long.time < Duration::from_millis(5), "{short:?} {long:?}");
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
    // Nothing is known of the first six; what is expected of the others lies among the CPU times of those before, with what asking for the time
    // takes: each is hardly longer than by the clock on the wall, which others on the machine only make longer.
    assert!(tasks[..6].iter().all(|task| task.predicted_ns == 0), "{tasks:?}");
    let mut longest = 0;
    for (at, task) in tasks.iter().enumerate() {
        let expected = if at < 8 { 0..=u64::MAX } else { 1..=2 * longest };
        assert!(expected.contains(&task.predicted_ns), "at most {longest}: {task:?}");
        longest = longest.max(task.end_ns - task.start_ns);
    }
    assert_eq!(models.rows().len(), 1);
    // Without models, what the user said.
    let rt = build().build().unwrap();
    run(&rt, 10);
    rt.task("guessed").operands(()).cpu(|()| ()).cost(Duration::from_micros(7)).submit().unwrap();
    rt.wait_all().unwrap();
    let tasks = rt.take_trace().unwrap().tasks;
    let predicted = |name: &str| tasks.iter().find(|task| task.name == name).unwrap().predicted_ns;
    assert_eq!((predicted("busy"), predicted("guessed")), (0, 7000));
}
