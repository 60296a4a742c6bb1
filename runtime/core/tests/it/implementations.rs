//! Codelets with several implementations for one kind of device: their selection, and the models
//! that learn from them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use zellige_runtime::model::Models;
use zellige_runtime::sched::POLICIES;
use zellige_runtime::{
    Bindings, Codelet, DeviceInfo, Emulated, Error, Recorder, Runtime, RuntimeBuilder, Submit, TaskContext,
    TaskError, TaskInfo, Update, update,
};

/// Returns a builder of a runtime that aborts with a message if it hangs.
fn builder(cpus: usize) -> RuntimeBuilder {
    Runtime::builder().workers(cpus).watchdog(Some(Duration::from_secs(20))).on_stall(|text| {
        eprintln!("stalled: {text}");
        std::process::abort();
    })
}

/// Records the implementation and the device of each run. `slow` keeps its core busy.
#[derive(Clone, Default)]
struct Three {
    ran: Arc<[AtomicUsize; 3]>,
    /// Implementations that run on CPU cores and elsewhere; empty: all.
    on_cpu: &'static [usize],
    elsewhere: &'static [usize],
}

const NAMES: &[&str] = &["first", "second", "slow"];

impl Three {
    fn counts(&self) -> [usize; 3] {
        [0, 1, 2].map(|i| self.ran[i].load(Ordering::SeqCst))
    }

    fn is_restricted(&self) -> bool {
        !(self.on_cpu.is_empty() && self.elsewhere.is_empty())
    }
}

impl Codelet for Three {
    type Operands = (Update<u64>,);
    const IMPLEMENTATIONS: &'static [&'static str] = NAMES;

    fn name(&self) -> &'static str {
        "three"
    }

    fn info(&self) -> TaskInfo {
        TaskInfo { shape: [7, 0, 0], ..TaskInfo::default() }
    }

    fn has_constraints(&self) -> bool {
        self.is_restricted()
    }

    fn can_execute_with(&self, implementation: usize, device: &DeviceInfo<'_>) -> bool {
        let allowed = if device.kind == "cpu" { self.on_cpu } else { self.elsewhere };
        assert!(allowed != [9], "a panic counts as no");
        allowed.contains(&implementation)
    }

    fn cpu(&self, (x,): (&mut u64,), cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let begin = Instant::now();
        while cx.implementation() == 2 && begin.elapsed() < Duration::from_micros(300) {
            std::hint::spin_loop();
        }
        self.ran[cx.implementation()].fetch_add(1, Ordering::SeqCst);
        *x = x.wrapping_mul(10) + cx.implementation() as u64;
        Ok(())
    }
}

/// Sets the times in the models of a kind for each implementation (us); 0: unknown.
fn teach(models: &Models, kind: &str, micros: [u64; 3]) {
    let (kind, info) = (models.kind(kind), Three::default().info());
    for (name, &time) in NAMES.iter().zip(&micros).filter(|(_, time)| **time > 0) {
        let id = models.id_of("three", &info, name);
        // More samples than a model has kept, to outvote them: of many times every eighth counts.
        (0..600).for_each(|_| models.record(id, kind, 0.0, 0, Duration::from_micros(time)));
    }
}

fn run(rt: &Runtime, codelet: &Three, tasks: usize) {
    let x = rt.register(0u64);
    for _ in 0..tasks {
        rt.submit(codelet.clone(), (update(&x),)).unwrap();
    }
    rt.wait_all().unwrap();
}

#[test]
fn without_models_the_first_that_can_run_does() {
    for policy in ["lws", "prio", "eager"] {
        let rt = builder(2).policy(policy).device(Emulated::new(1 << 12)).build().unwrap();
        let all = Three::default();
        run(&rt, &all, 20);
        assert_eq!(all.counts(), [20, 0, 0], "{policy}");
        let some = Three { on_cpu: &[1, 2], elsewhere: &[1], ..Three::default() };
        run(&rt, &some, 20);
        assert_eq!(some.counts(), [0, 20, 0], "{policy}");
    }
}

#[test]
fn the_fastest_that_models_know_runs() {
    for (policy, _) in POLICIES {
        // Real times of the tasks are learnt as well: the given ones are fractions of a second, far
        // longer than even a preempted task takes.
        for (millis, expected) in
            [([90, 50, 70], [0, 30, 0]), ([50, 90, 70], [30, 0, 0]), ([60, 60, 70], [30, 0, 0])]
        {
            let models = Arc::new(Models::new());
            teach(&models, "cpu", millis.map(|time| time * 1000));
            let rt = builder(2).policy(policy).models(models).build().unwrap();
            let codelet = Three::default();
            run(&rt, &codelet, 30);
            assert_eq!(codelet.counts(), expected, "{policy}");
        }
    }
}

#[test]
fn what_is_unknown_runs_until_it_is_known() {
    for (policy, _) in POLICIES {
        let models = Arc::new(Models::new());
        teach(&models, "cpu", [0, 50, 0]);
        let rt = builder(1).policy(policy).models(Arc::clone(&models)).build().unwrap();
        let codelet = Three::default();
        run(&rt, &codelet, 40);
        // Six runs of each unknown one, the first of which does not count; then the fastest, which
        // cannot be the slow one.
        let [first, second, slow] = codelet.counts();
        assert_eq!((first + second, slow), (34, 6), "{policy}");
        assert!(first >= 6, "{policy}");
        let cpu = models.kind("cpu");
        let known = |name| models.is_calibrated(models.id_of("three", &codelet.info(), name), cpu);
        assert!(NAMES.iter().all(|name| known(name)), "{policy}");
        assert!(!models.is_calibrated(models.id("three", &codelet.info()), cpu), "each by its name only");
    }
}

#[test]
fn where_it_may_run_and_what_can_run_there_go_together() {
    for (policy, _) in POLICIES {
        let build = || builder(2).policy(policy).device(Emulated::new(1 << 12).kind("gpu"));
        let rt = build().build().unwrap();
        let x = rt.register(0u64);
        let codelet = Three { on_cpu: &[0], elsewhere: &[1], ..Three::default() };
        for _ in 0..5 {
            rt.codelet(codelet.clone(), (update(&x),)).on_kinds(&["gpu"]).submit().unwrap();
            rt.codelet(codelet.clone(), (update(&x),)).on_worker(1).submit().unwrap();
        }
        rt.wait_all().unwrap();
        assert_eq!(codelet.counts(), [5, 5, 0], "{policy}");
        assert_eq!(rt.take(x).unwrap(), 1_010_101_010, "{policy}");

        // No implementation runs on cores: the device gets all tasks. 9 is not an implementation,
        // and the check of it panics.
        let models = Arc::new(Models::new());
        let rt = build().models(models).build().unwrap();
        let devices = Three { on_cpu: &[9], elsewhere: &[0], ..Three::default() };
        run(&rt, &devices, 20);
        assert_eq!(devices.counts(), [20, 0, 0], "{policy}");

        let nowhere = Three { on_cpu: &[3], elsewhere: &[3], ..Three::default() };
        let x = rt.register(0u64);
        let refused = rt.submit(nowhere, (update(&x),)).unwrap_err();
        assert!(matches!(&refused, Error::Config(text) if text.contains("three")), "{refused}");
    }
}

#[test]
fn a_policy_expects_the_time_of_the_fastest() {
    let models = Arc::new(Models::new());
    teach(&models, "cpu", [900, 800, 850]);
    teach(&models, "gpu", [2000, 100, 3000]);
    let rt =
        builder(1).policy("dmda").models(models).device(Emulated::new(1 << 12).kind("gpu")).build().unwrap();
    let codelet = Three::default();
    run(&rt, &codelet, 6);
    // In a chain nothing is queued when the next task is pushed: each runs on the fastest device.
    assert_eq!(codelet.counts(), [0, 6, 0]);
    assert!(rt.memory()[1].bytes_in > 0, "on the device: {:?}", rt.memory());
}

#[test]
fn a_replay_asks_again() {
    for devices in [0, 1] {
        let models = Arc::new(Models::new());
        teach(&models, "cpu", [5, 9, 9]);
        let build = builder(1).models(Arc::clone(&models));
        let build = if devices > 0 { build.device(Emulated::new(1 << 12)) } else { build };
        let rt = build.build().unwrap();
        let codelet = Three { on_cpu: &[0, 1, 2], ..Three::default() };
        let x = rt.register(0u64);
        let graph = rt
            .record(|g: &Recorder| {
                (0..3).try_for_each(|_| g.submit(codelet.clone(), (update(&x),)).map(drop))
            })
            .unwrap();
        rt.replay(&Bindings::recorded(&graph)).unwrap();
        rt.wait_all().unwrap();
        assert_eq!(codelet.counts(), [3, 0, 0]);
        teach(&models, "cpu", [100, 9, 50]);
        rt.replay(&Bindings::recorded(&graph)).unwrap();
        rt.wait_all().unwrap();
        assert_eq!(codelet.counts(), [3, 3, 0]);
        assert_eq!(rt.take(x).unwrap(), 111);
    }
}

#[test]
fn traces_name_the_implementation() {
    let models = Arc::new(Models::new());
    teach(&models, "cpu", [9, 5, 7]);
    let rt = builder(1).trace(true).models(models).build().unwrap();
    run(&rt, &Three::default(), 3);
    rt.task("alone").operands(()).cpu(|()| ()).submit().unwrap();
    rt.wait_all().unwrap();
    let trace = rt.take_trace().unwrap();
    let named =
        |task: &zellige_runtime::trace::TaskEvent| (task.name, task.implementation, task.predicted_ns);
    let tasks: Vec<_> = trace.tasks.iter().map(named).collect();
    assert_eq!(tasks[..3], [("three", "second", 5000); 3]);
    assert_eq!(tasks[3], ("alone", "", 0));
    let written = |write: &dyn Fn(&mut Vec<u8>) -> std::io::Result<()>| {
        let mut text = Vec::new();
        write(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    assert!(written(&|out| trace.write_chrome(out)).contains(r#""implementation":"second""#));
    assert!(written(&|out| trace.write_paje(out)).contains(r#" "second""#));
    assert!(written(&|out| trace.write_html("t", out)).contains(r#""second""#));
}
