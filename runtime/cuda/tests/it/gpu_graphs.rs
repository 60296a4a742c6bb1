//! Replays that are one launch of a CUDA graph on a GPU.

use std::sync::Arc;
use std::time::Duration;

use crate::steps::{End, Set, Step, Views, check, launch, mock, numbers};
use zellige_cuda::{CUDA, Gpu, GpuTask};
use zellige_gpu::mock::{Fault, Mock};
use zellige_gpu::{Arg, Place};
use zellige_runtime::codelet::{DeviceTable, OnDevice};
use zellige_runtime::{
    Bindings, Codelet, Cpu, DeviceGraphs, Error, Graph, Handle, Read, Recorder, Runtime, RuntimeBuilder,
    Scratch, Submit, TaskContext, TaskError, TaskRef, Update, read, scratch, update, write,
};
use zellige_tests::amount;

type Value = Handle<Vec<f64>>;

fn at_once(
    build: impl FnOnce(zellige_gpu::mock::MockBuilder) -> zellige_gpu::mock::MockBuilder,
) -> Arc<Mock> {
    mock(Duration::ZERO, build)
}

fn builder(driver: &Arc<Mock>, bytes: u64, when: DeviceGraphs) -> RuntimeBuilder {
    let gpu = Gpu::new(driver.clone(), 0).memory(bytes);
    Runtime::builder().workers(1).gpu_only(true).policy("eager").device(gpu).device_graphs(when)
}

fn on(driver: &Arc<Mock>, bytes: u64, when: DeviceGraphs) -> Runtime {
    builder(driver, bytes, when).build().unwrap()
}

/// Replays that were recorded, and launches of those.
fn counts(rt: &Runtime) -> (u64, u64) {
    let nodes = rt.memory();
    (nodes.iter().map(|n| n.graphs_recorded).sum(), nodes.iter().map(|n| n.graphs_launched).sum())
}

/// A graph of three tasks, with its runtime, operands and mock GPU.
struct Averages {
    mock: Arc<Mock>,
    rt: Runtime,
    x: Value,
    t: Value,
    y: Value,
    graph: Graph,
    /// Expected value of `y`.
    wanted: f64,
}

impl Averages {
    /// Creates `x = 1`, `y = 0`, with this many bytes on the GPU.
    fn new(mock: Arc<Mock>, bytes: u64, when: DeviceGraphs) -> Self {
        let rt = on(&mock, bytes, when);
        let [x, t, y] = [rt.register(vec![1.0]).named("x"), rt.register_empty(), rt.register(vec![0.0])];
        let graph = average(&rt, [&x, &t, &y]);
        Averages { mock, rt, x, t, y, graph, wanted: 0.0 }
    }

    /// Another replay, which is not waited for.
    fn replay(&mut self, x: f64) -> TaskRef {
        self.wanted = 0.5 * self.wanted + 3.0 + x;
        self.rt.replay(&Bindings::recorded(&self.graph)).unwrap()
    }

    /// Ends all; checks that the GPU was used correctly.
    fn end(self) {
        let Averages { mock, rt, x, t, y, graph, .. } = self;
        drop((x, t, y, graph));
        drop(rt);
        check(&mock);
    }
}

/// `t = 3`, `t = t + x`, `y = y / 2 + t`.
fn average(rt: &Runtime, [x, t, y]: [&Value; 3]) -> Graph {
    let record = |g: &Recorder| {
        g.submit(Set(3.0), (write(t),))?;
        g.submit(Step::by(1.0), (read(x), update(t)))?;
        g.submit(Step::by(0.5), (read(t), update(y))).map(drop)
    };
    rt.record(record).unwrap()
}

#[test]
fn a_replay_is_recorded_once_and_launched_again() {
    for seed in 0..8 {
        let mock = at_once(|builder| builder.seed(seed));
        let mut averages = Averages::new(mock, 1 << 20, DeviceGraphs::Always);
        (0..6).for_each(|_| drop(averages.replay(1.0)));
        let Averages { rt, t, y, wanted, .. } = &averages;
        assert_eq!((rt.read(y).unwrap()[0], rt.read(t).unwrap()[0]), (*wanted, 4.0));
        // The first went task by task.
        assert_eq!(counts(rt), (1, 5));
        averages.end();
    }
}

#[test]
fn values_that_the_caller_changes_are_used() {
    let mut averages = Averages::new(at_once(|builder| builder), 1 << 20, DeviceGraphs::Always);
    for i in 0..8 {
        averages.rt.write(&averages.x).unwrap()[0] = f64::from(i);
        averages.replay(f64::from(i));
        assert_eq!(averages.rt.read(&averages.y).unwrap()[0], averages.wanted, "replay {i}");
    }
    assert_eq!(counts(&averages.rt).1, 7);
    averages.end();
}

/// An iteration that swaps old and new: two sets of operands, each recorded once.
#[test]
fn each_of_several_bindings_is_recorded() {
    let mut averages = Averages::new(at_once(|builder| builder), 1 << 20, DeviceGraphs::Always);
    let other = averages.rt.register(vec![2.0]);
    for i in 0..9 {
        // Not waited for: two may be in progress.
        if i % 2 == 0 {
            averages.replay(1.0);
        } else {
            averages.rt.replay(&averages.graph.bind("x", &other).unwrap()).unwrap();
            averages.wanted = 0.5 * averages.wanted + 5.0;
        }
    }
    assert_eq!(averages.rt.read(&averages.y).unwrap()[0], averages.wanted);
    assert_eq!(counts(&averages.rt), (2, 8));
    drop(other);
    averages.end();
}

#[test]
fn both_ways_are_tried_and_one_is_kept() {
    let mut averages = Averages::new(at_once(|builder| builder), 1 << 20, DeviceGraphs::default());
    for replays in 1..=20 {
        let replay = averages.replay(1.0);
        averages.rt.wait(&replay).unwrap();
        let (_, launched) = counts(&averages.rt);
        match replays {
            ..=5 => assert_eq!(launched, 0),
            6..=10 => assert_eq!(launched, replays - 5),
            _ => assert!(launched == 5 || launched == replays - 5, "{launched} of {replays}"),
        }
    }
    averages.end();
}

/// `y = ` the length of `x`, which is in its header, by way of working space.
struct Count;

impl Codelet for Count {
    type Operands = (Read<Vec<f64>>, Update<Vec<f64>>, Scratch<f64>);

    fn name(&self) -> &'static str {
        "count"
    }

    fn cpu(&self, (x, y, _): Views<'_, Self, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        y[0] = x.len() as f64;
        Ok(())
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl Count {
    fn cuda(&self, (x, y, s): Views<'_, Self, OnDevice>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        launch(cx, "set", &[Arg::F64(*x.header() as f64), Arg::Write(s.at.into(), 8)])?;
        let (gpu, to) = (cx.gpu().gpu(), y.part(0).0);
        // SAFETY: both are the task's own.
        unsafe {
            cx.gpu().driver().copy(cx.gpu().stream(), Place::Gpu(gpu, to), Place::Gpu(gpu, s.at.into()), 8)?
        };
        Ok(())
    }
}

#[test]
fn another_header_is_another_recording_and_working_space_stays() {
    let mock = at_once(|builder| builder);
    let rt = on(&mock, 1 << 20, DeviceGraphs::Always);
    let [x, y, z] = [rt.register(vec![1.0]), rt.register(vec![0.0]), rt.register(vec![0.0])];
    let count = |g: &Recorder, to: &Value| g.submit(Count, (read(&x), update(to), scratch(1)));
    let graph = rt.record(|g| count(g, &y).and(count(g, &z)).map(drop)).unwrap();
    for length in [1, 1, 1, 3, 3, 2] {
        rt.write(&x).unwrap().resize(length, 0.0);
        rt.replay(&Bindings::recorded(&graph)).unwrap();
        assert_eq!((rt.read(&y).unwrap()[0], rt.read(&z).unwrap()[0]), (length as f64, length as f64));
    }
    assert_eq!(counts(&rt).1, 5);
    drop((x, y, z, graph));
    drop(rt);
    check(&mock);
}

/// `y = a` in new memory.
struct Anew(f64);

impl Codelet for Anew {
    type Operands = (Update<Vec<f64>>,);

    fn name(&self) -> &'static str {
        "anew"
    }

    fn cpu(&self, (y,): Views<'_, Self, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        y[0] = self.0;
        Ok(())
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl Anew {
    fn cuda(&self, (mut y,): Views<'_, Self, OnDevice>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        y.replace(1, cx.device())?;
        let (y, bytes) = y.part(0);
        launch(cx, "set", &[Arg::F64(self.0), Arg::Write(y, bytes)])
    }
}

#[test]
fn what_cannot_be_recorded_goes_task_by_task() {
    let mock = at_once(|builder| builder);
    goes_task_by_task(&mock, on(&mock, 1 << 20, DeviceGraphs::Always));
    // With so little memory no page-locked block is kept for later: memory that a recording has
    // used is unlocked when it is dropped.
    let mock = at_once(|builder| builder);
    let little = builder(&mock, 1 << 20, DeviceGraphs::Always).host_memory(1 << 12);
    goes_task_by_task(&mock, little.build().unwrap());
}

fn goes_task_by_task(mock: &Arc<Mock>, rt: Runtime) {
    let [x, y] = [rt.register(vec![1.0]), rt.register(vec![0.0])];
    let step = |end| Step { end, ..Step::by(1.0) };
    let record = |last: &dyn Fn(&Recorder) -> Result<(), Error>| {
        rt.record(|g| {
            g.submit(step(End::Nothing), (read(&x), update(&y)))?;
            last(g)
        })
        .unwrap()
    };
    let reads_back = record(&|g| g.submit(step(End::FailsOn(-1.0)), (read(&x), update(&y))).map(drop));
    let replaces = record(&|g| g.submit(Anew(10.0), (update(&y),)).map(drop));
    let late = record(&|g| g.submit(Step { late: true, ..Step::by(1.0) }, (read(&x), update(&y))).map(drop));
    for _ in 0..4 {
        rt.replay(&Bindings::recorded(&replaces)).unwrap();
        rt.replay(&Bindings::recorded(&reads_back)).unwrap();
        rt.replay(&Bindings::recorded(&late)).unwrap();
        assert_eq!(rt.read(&y).unwrap()[0], 14.0);
    }
    assert_eq!(counts(&rt), (0, 0));
    // Twelve is the result of the next replay: its failure is reported as usual.
    let fails = record(&|g| g.submit(step(End::FailsOn(12.0)), (read(&x), update(&y))).map(drop));
    for start in [0.0, 1.0, 10.0] {
        rt.submit(Set(start), (write(&y),)).unwrap();
        rt.replay(&Bindings::recorded(&fails)).unwrap();
        match rt.read(&y) {
            Ok(value) => assert_eq!(value[0], start + 2.0),
            Err(error) => assert!(start == 10.0 && error.to_string().contains("the result is 12"), "{error}"),
        }
    }
    drop((x, y, reads_back, replaces, late, fails));
    drop(rt);
    check(mock);
}

#[test]
fn what_has_no_room_at_once_goes_task_by_task() {
    // Room for two values of three.
    let mut averages = Averages::new(at_once(|builder| builder), 16, DeviceGraphs::Always);
    (0..5).for_each(|_| drop(averages.replay(1.0)));
    let Averages { rt, y, wanted, .. } = &averages;
    assert_eq!((rt.read(y).unwrap()[0], counts(rt)), (*wanted, (0, 0)));
    averages.end();
}

/// Other tasks need the memory between replays, so operands come back to other addresses.
#[test]
fn operands_that_were_given_up_are_found_again() {
    let mut averages = Averages::new(at_once(|builder| builder), 32, DeviceGraphs::Always);
    let others: Vec<Value> = (0..4).map(|_| averages.rt.register(vec![0.0])).collect();
    for i in 0..12 {
        averages.replay(1.0);
        for pair in others.windows(2).filter(|_| i % 3 == 1) {
            averages.rt.submit(Step::by(1.0), (read(&pair[0]), update(&pair[1]))).unwrap();
        }
        // Tasks that wait for nothing might otherwise all run before the second replay.
        averages.rt.wait_all().unwrap();
    }
    assert_eq!(averages.rt.read(&averages.y).unwrap()[0], averages.wanted);
    let (recorded, launched) = counts(&averages.rt);
    assert!(launched == 11 && recorded > 1, "{recorded} recorded, {launched} launched");
    drop(others);
    averages.end();
}

/// The GPU fails at any of its operations: the remaining tasks run on the CPU worker, or the error
/// names the GPU.
#[test]
fn a_gpu_that_fails_takes_nothing_along_that_is_elsewhere() {
    for operation in 1..40 {
        let mock = at_once(|builder| builder.seed(operation));
        mock.inject(0, Fault::Operation(operation)).unwrap();
        let mut averages = Averages::new(mock, 1 << 20, DeviceGraphs::Always);
        (0..5).for_each(|_| drop(averages.replay(1.0)));
        let Averages { mock, rt, x, t, y, graph, wanted } = averages;
        match rt.take(y) {
            Ok(value) => assert_eq!(value, [wanted], "operation {operation}"),
            Err(error) => {
                assert!(error.to_string().contains("failed"), "operation {operation}: {error}");
            }
        }
        drop((x, t, graph));
        drop(rt);
        assert_eq!(mock.violations(), [] as [String; 0], "operation {operation}");
    }
}

/// Random graphs on random operands, some of which the caller changes in between: the results equal
/// those of task-by-task runs.
#[test]
fn random_replays_come_to_what_they_should() {
    const VALUES: usize = 5;
    for seed in 0..amount(40) as u64 {
        let mut next = numbers(seed);
        let mock = at_once(|builder| builder.seed(seed));
        let room = [40, 48, 64, 1 << 20][next(4)];
        let rt = on(&mock, room, DeviceGraphs::Always);
        let name = |i: usize| format!("v{i}");
        let values: Vec<Value> = (0..VALUES).map(|i| rt.register(vec![i as f64]).named(name(i))).collect();
        let spare: Vec<Value> = (0..VALUES).map(|i| rt.register(vec![i as f64])).collect();
        let mut known: Vec<[f64; 2]> = (0..VALUES).map(|i| [i as f64; 2]).collect();
        let steps: Vec<(usize, usize)> = (0..3 + next(8)).map(|_| (next(VALUES), next(VALUES))).collect();
        let graph = rt
            .record(|g| {
                steps.iter().try_for_each(|&(x, y)| match x == y {
                    true => g.submit(Set(x as f64), (write(&values[y]),)).map(drop),
                    false => g.submit(Step::by(0.5), (read(&values[x]), update(&values[y]))).map(drop),
                })
            })
            .unwrap();
        for _ in 0..10 {
            let other = next(VALUES + 2);
            let uses = steps.iter().any(|&(x, y)| x == other || y == other);
            let bindings = match other {
                i if uses => graph.bind(&name(i), &spare[i]).unwrap(),
                _ => Bindings::recorded(&graph),
            };
            let which = |i: usize| usize::from(uses && i == other);
            if next(3) == 0 {
                let at = next(VALUES);
                rt.write(&values[at]).unwrap()[0] = 7.0;
                known[at][0] = 7.0;
            }
            rt.replay(&bindings).unwrap();
            for &(x, y) in &steps {
                let read = known[x][which(x)];
                let to = &mut known[y][which(y)];
                *to = if x == y { x as f64 } else { 0.5 * *to + read };
            }
        }
        for (i, known) in known.iter().enumerate() {
            let found = [&values[i], &spare[i]].map(|value| rt.read(value).unwrap()[0]);
            assert_eq!(found, *known, "seed {seed}, value {i}");
        }
        drop((values, spare, graph));
        drop(rt);
        check(&mock);
    }
}
