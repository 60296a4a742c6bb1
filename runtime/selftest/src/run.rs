//! A case on a runtime, and its differences from the expected result.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use zellige_cuda::Gpu;
use zellige_gpu::Driver;
use zellige_runtime::internal::has_lost_a_device;
use zellige_runtime::split::Split;
use zellige_runtime::{Bindings, DeviceGraphs, Error, Handle, NodeUse, Recorder, Runtime, Submit, TaskRef};

use super::case::{Case, GpuOf, Hint, Job, Machine, Parts, Step};
use super::codelet::Fuzzed;
use super::gpu;
use super::operand::{AnyHandle, Bundle};
use super::oracle::{Expected, Shown};
use super::value::Value;
use super::words::Sample;

/// Result of a case.
#[derive(Default)]
pub(super) struct Ran {
    /// Descriptions of the differences.
    pub(super) differences: Vec<String>,
    /// Statistics of the nodes, the host first.
    pub(super) nodes: Vec<NodeUse>,
    /// True if a device failed.
    pub(super) died: bool,
    /// Number of devices that were GPUs.
    pub(super) gpus: usize,
}

impl Ran {
    /// Creates the result of a case that did not end.
    pub(super) fn failed(difference: String) -> Self {
        Ran { differences: vec![difference], ..Ran::default() }
    }
}

/// Runs the case, on these GPUs instead of mock ones. `stalled` gets a description of the waits if
/// nothing moves for half of `patience`.
pub(super) fn run(
    case: &Case,
    expected: &Expected,
    gpus: Option<Arc<dyn Driver>>,
    patience: Duration,
    stalled: impl Fn(String) + Send + 'static,
) -> Ran {
    let mut ran = match gpus {
        Some(driver) => run_on(&driver, case, expected, patience, stalled),
        None => run_on_mock(case, expected, patience, stalled),
    };
    ran.gpus = case.machine.gpus.iter().flatten().count();
    ran
}

fn run_on_mock(
    case: &Case,
    expected: &Expected,
    patience: Duration,
    stalled: impl Fn(String) + Send + 'static,
) -> Ran {
    let mock = gpu::mock(&case.machine);
    let driver: Arc<dyn Driver> = Arc::clone(&mock) as _;
    let mut ran = run_on(&driver, case, expected, patience, stalled);
    ran.differences.extend(mock.violations().into_iter().map(|what| format!("on a GPU: {what}")));
    ran.differences.extend(mock.leaks().into_iter().map(|what| format!("left on a GPU: {what}")));
    ran
}

fn run_on(
    driver: &Arc<dyn Driver>,
    case: &Case,
    expected: &Expected,
    patience: Duration,
    stalled: impl Fn(String) + Send + 'static,
) -> Ran {
    let rt = match runtime(driver, &case.machine, patience, stalled) {
        Ok(rt) => rt,
        Err(error) => return Ran::failed(format!("no runtime: {error}")),
    };
    let (handles, mut judge) = walk(&rt, case, expected);
    judge.check_wait("waiting for all tasks", rt.wait_all());
    if !case.machine.outlived {
        compare_all(&rt, handles, expected, &mut judge);
        let (nodes, died) = (rt.memory(), has_lost_a_device(&rt));
        return Ran { nodes, died, differences: judge.differences, gpus: 0 };
    }
    let (nodes, died) = (rt.memory(), has_lost_a_device(&rt));
    drop(rt);
    match Runtime::builder().workers(1).bind(false).build() {
        Ok(rt) => compare_all(&rt, handles, expected, &mut judge),
        Err(error) => judge.differences.push(format!("no second runtime: {error}")),
    }
    Ran { nodes, died, differences: judge.differences, gpus: 0 }
}

/// Executes all steps; returns the remaining handles.
fn walk(rt: &Runtime, case: &Case, expected: &Expected) -> (Vec<Option<AnyHandle>>, Judge) {
    let mut session = Session {
        rt,
        handles: case.data.iter().map(|_| None).collect(),
        case,
        last: None,
        held: None,
        out: HashMap::new(),
        judge: Judge { excuse: excuse(&case.machine), differences: Vec::new() },
    };
    for (number, step) in case.steps.iter().enumerate() {
        session.step(number, step, &expected.shown[number]);
    }
    (session.handles, session.judge)
}

fn runtime(
    driver: &Arc<dyn Driver>,
    machine: &Machine,
    patience: Duration,
    stalled: impl Fn(String) + Send + 'static,
) -> Result<Runtime, Error> {
    let builder = Runtime::builder()
        .workers(machine.cpus)
        .policy(machine.policy)
        .window(machine.window)
        .bind(false)
        .watchdog(Some(patience / 2))
        .on_stall(stalled);
    let devices = machine.devices.iter().cloned().zip(&machine.gpus);
    let builder = devices.fold(builder, |builder, (device, gpu)| match gpu {
        None => builder.device(device),
        Some(GpuOf { number, streams, fails_at }) => {
            if let Some(accelerator) = machine.accelerator {
                return builder.device((accelerator.device)(device.capacity(), *fails_at));
            }
            let gpu = Gpu::new(Arc::clone(driver), *number);
            // Values here are small: in most cases all of them are to lie in page-locked memory, in
            // the other cases none.
            let least = if machine.gpu_seed.is_multiple_of(4) { usize::MAX } else { 1 };
            builder.device(gpu.memory(device.capacity()).streams(*streams).page_lock_from(least))
        }
    });
    let builder =
        if machine.as_one { builder.gpu_only(true).device_graphs(DeviceGraphs::Always) } else { builder };
    let builder = match machine.peers {
        Some(rate) => builder.peers(rate),
        None => builder,
    };
    let builder = match machine.order {
        Some(seed) => builder.single_threaded(seed),
        None => builder,
    };
    match machine.host {
        Some(bytes) if machine.swap => builder.host_memory(bytes).swap(std::env::temp_dir()).build(),
        Some(bytes) => builder.host_memory(bytes).build(),
        None => builder.build(),
    }
}

/// Returns the text that identifies a failure of the device that dies.
fn excuse(machine: &Machine) -> Option<String> {
    let launches = machine.accelerator.map_or("cuda", |accelerator| accelerator.arch.name());
    let kind = |device: usize| if machine.gpus[device].is_some() { launches } else { "emulated" };
    machine.dies.map(|device| format!("device {} {device} failed", kind(device)))
}

/// Compares values, and accepts differences that a dead device explains.
///
/// The requirements for a case in which a device dies: every value that is shown is correct; if a
/// value is missing, the error names the device. So the device takes away only the values that it
/// alone had and those computed from them. There is no wrong value, no lost task, no hang, no other
/// error.
struct Judge {
    excuse: Option<String>,
    differences: Vec<String>,
}

impl Judge {
    fn is_excused(&self, error: &Error) -> bool {
        self.excuse.as_ref().is_some_and(|excuse| error.to_string().contains(excuse))
    }

    fn note(&mut self, what: &str, difference: impl std::fmt::Display) {
        /// The first differences show the cause; the rest follows from them.
        const TOLD: usize = 12;
        match self.differences.len() {
            ..TOLD => self.differences.push(format!("{what}: {difference}")),
            TOLD => self.differences.push("and more that follows from these".into()),
            _ => {}
        }
    }

    fn check_ok<T>(&mut self, what: &str, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.note(what, error)).ok()
    }

    /// Checks a wait for all tasks; failed tasks are judged by their outputs.
    fn check_wait(&mut self, what: &str, result: Result<(), Error>) {
        if let Err(error) = result
            && !matches!(error, Error::Failed(_))
        {
            self.note(what, error);
        }
    }

    /// Checks whether a task failed.
    fn check_end(&mut self, what: &str, result: Result<(), Error>, fails: bool) {
        match result {
            Ok(()) if fails => self.note(what, "succeeded, although it has to fail"),
            Err(Error::Failed(_)) if fails => {}
            Err(error) if fails || !self.is_excused(&error) => self.note(what, error),
            Ok(()) | Err(_) => {}
        }
    }

    /// Checks a value, or the error instead of it; `wanted` is `None` for a poisoned one.
    fn check_value<D: Sample>(&mut self, what: &str, result: Result<&D, &Error>, wanted: Option<&D>) {
        match (result, wanted) {
            (Ok(value), Some(wanted)) if value != wanted => self.note(what, value.difference(wanted)),
            (Ok(_), None) => self.note(what, "has a value, although it has to be poisoned"),
            (Err(Error::Poisoned { .. }), None) | (Ok(_), Some(_)) => {}
            (Err(error), wanted) => {
                if wanted.is_none() || !self.is_excused(error) {
                    self.note(what, error);
                }
            }
        }
    }
}

/// Keeps a guard of any type.
trait Held {}
impl<T> Held for T {}

struct Session<'rt> {
    rt: &'rt Runtime,
    case: &'rt Case,
    /// The handles, registered at their first use.
    handles: Vec<Option<AnyHandle>>,
    last: Option<TaskRef>,
    /// A guard that is held across one submission.
    held: Option<Box<dyn Held + 'rt>>,
    /// Split vectors, by their handle.
    out: HashMap<usize, Split<'rt, Runtime, Vec<u64>, Range<usize>>>,
    judge: Judge,
}

macro_rules! with_handle {
    ($handle:expr, $value:expr, $inner:ident, $wanted:ident => $answer:expr) => {
        match $handle {
            AnyHandle::Words($inner) => {
                let $wanted =
                    $value.map(|value| if let Value::Words(v) = value { v } else { unreachable!() });
                $answer
            }
            AnyHandle::Local($inner) => {
                let $wanted =
                    $value.map(|value| if let Value::Local(v) = value { v } else { unreachable!() });
                $answer
            }
            AnyHandle::Plain($inner) => {
                let $wanted =
                    $value.map(|value| if let Value::Plain(v) = value { v } else { unreachable!() });
                $answer
            }
        }
    };
}

impl<'rt> Session<'rt> {
    fn handle(&mut self, at: usize) -> AnyHandle {
        let case = self.case;
        self.handles[at].get_or_insert_with(|| AnyHandle::register(&case.data[at], format!("h{at}"))).clone()
    }

    fn step(&mut self, number: usize, step: &Step, shown: &Shown) {
        let what = |name: &str, handle: usize| format!("step {number}, {name} h{handle}");
        let value = if let Shown::Value(value) = shown { value.as_ref() } else { None };
        match step {
            Step::Submit(job) => self.submit(number, job, shown),
            Step::Replay { jobs, times, instead } => self.replay(number, jobs, *times, *instead),
            Step::Read { handle: at, across } => {
                let (handle, what) = (self.handle(*at), what("reading", *at));
                with_handle!(&handle, value, handle, wanted => self.read(&what, handle, wanted, *across));
            }
            Step::Change { handle: at, seed } => {
                let (handle, what) = (self.handle(*at), what("changing", *at));
                with_handle!(&handle, value, handle, wanted => self.change(&what, handle, wanted, *seed));
            }
            Step::Take { handle: at } => {
                let (handle, what) = (self.handle(*at), what("taking", *at));
                self.handles[*at] = None;
                with_handle!(handle, value, handle, wanted => take(self.rt, &what, handle, wanted, &mut self.judge));
            }
            Step::Drop { handle } => self.handles[*handle] = None,
            Step::Split(parts) => self.split(&what("splitting", parts.handle), parts),
            Step::Views(parts) => self.views(&what("viewing", parts.handle), parts),
            Step::Join(parts) => self.join(&what("joining", parts.handle), parts),
            Step::Hint { handle, worker, hint } => {
                let (handle, what) = (self.handle(*handle), what("a hint for", *handle));
                let hinted = match &handle {
                    AnyHandle::Words(handle) => give(self.rt, handle, *worker, *hint),
                    AnyHandle::Local(handle) => give(self.rt, handle, *worker, *hint),
                    AnyHandle::Plain(handle) => give(self.rt, handle, *worker, *hint),
                };
                self.judge.check_ok(&what, hinted);
            }
            Step::Wait => {
                let waited = self.rt.wait_all();
                self.judge.check_wait(&format!("step {number}, waiting for all tasks"), waited);
            }
        }
    }

    fn submit(&mut self, number: usize, job: &Arc<Job>, shown: &Shown) {
        let what = format!("step {number}, a task on {}", names(job));
        let after = self.last.clone().filter(|_| job.after);
        let submitted = self.submit_to(self.rt, job, after.as_ref());
        self.last = self.judge.check_ok(&what, submitted);
        self.held = None;
        let Some(task) = self.last.as_ref().filter(|_| job.waits) else { return };
        let ended = self.rt.wait(task);
        if let Shown::Failed(fails) = shown {
            self.judge.check_end(&what, ended, *fails);
        }
    }

    fn submit_to<S: Submit>(
        &mut self,
        target: &S,
        job: &Arc<Job>,
        after: Option<&TaskRef>,
    ) -> Result<TaskRef, Error> {
        // Handles are passed to the closure, which cannot register them itself.
        for &handle in job.accesses.iter().flat_map(|access| access.handles()) {
            self.handle(handle);
        }
        let known = |at: usize| self.handles[at].clone().expect("registered above");
        let operands = Bundle::new(&job.accesses, known);
        let (priority, plain) = (job.priority, operands.plain());
        let accelerator = self.case.machine.accelerator;
        let codelet = Fuzzed { job: Arc::clone(job), plain, accelerator };
        let task = target.codelet(codelet, operands).priority(priority);
        match after {
            Some(earlier) => task.after(earlier).submit(),
            None => task.submit(),
        }
    }

    fn replay(&mut self, number: usize, jobs: &[Arc<Job>], times: usize, instead: Option<(usize, usize)>) {
        let rt = self.rt;
        let what = format!("step {number}, a recording of {} tasks", jobs.len());
        let recorded = rt.record(|recorder: &Recorder| {
            jobs.iter().try_for_each(|job| self.submit_to(recorder, job, None).map(drop))
        });
        let Some(graph) = self.judge.check_ok(&what, recorded) else { return };
        let first = rt.replay(&Bindings::recorded(&graph));
        self.judge.check_ok(&what, first);
        let bindings = match instead {
            None => Ok(Bindings::recorded(&graph)),
            Some((was, is)) => {
                let name = format!("h{was}");
                match self.handle(is) {
                    AnyHandle::Words(handle) => graph.bind(&name, &handle),
                    AnyHandle::Local(handle) => graph.bind(&name, &handle),
                    AnyHandle::Plain(handle) => graph.bind(&name, &handle),
                }
            }
        };
        let Some(bindings) = self.judge.check_ok(&what, bindings) else { return };
        for _ in 1..times {
            self.last = self.judge.check_ok(&what, rt.replay(&bindings));
        }
    }

    fn plain(&mut self, at: usize) -> Handle<Vec<u64>> {
        match self.handle(at) {
            AnyHandle::Plain(handle) => handle,
            _ => unreachable!("only plain vectors have parts"),
        }
    }

    fn knows(&mut self, parts: &Parts, handles: &[Handle<Vec<u64>>]) {
        for (at, handle) in parts.handles().zip(handles) {
            self.handles[at] = Some(AnyHandle::Plain(handle.clone()));
        }
    }

    fn split(&mut self, what: &str, parts: &Parts) {
        let handle = self.plain(parts.handle);
        let split = self.rt.split(&handle, parts.regions.iter().cloned());
        let Some(split) = self.judge.check_ok(what, split) else { return };
        self.knows(parts, split.handles());
        self.out.insert(parts.handle, split);
    }

    fn views(&mut self, what: &str, parts: &Parts) {
        let handle = self.plain(parts.handle);
        let views = self.rt.views(&handle, parts.regions.iter().cloned());
        let Some(views) = self.judge.check_ok(what, views) else { return };
        self.knows(parts, &views);
    }

    fn join(&mut self, what: &str, parts: &Parts) {
        let joined = self.out.remove(&parts.handle).map_or(Ok(()), Split::join);
        self.judge.check_ok(what, joined);
        parts.handles().for_each(|part| self.handles[part] = None);
    }

    fn read<D: Sample>(&mut self, what: &str, handle: &Handle<D>, wanted: Option<&D>, across: bool) {
        let read = self.rt.read(handle);
        self.judge.check_value(what, read.as_deref(), wanted);
        self.held = read.ok().filter(|_| across).map(|guard| Box::new(guard) as Box<dyn Held + 'rt>);
    }

    fn change<D: Sample>(&mut self, what: &str, handle: &Handle<D>, wanted: Option<&D>, seed: u64) {
        let mut written = self.rt.write(handle);
        self.judge.check_value(what, written.as_deref(), wanted);
        if let Ok(guard) = &mut written {
            D::mix(&mut guard.view_mut(), seed);
        }
    }
}

fn give<D: Sample>(rt: &Runtime, handle: &Handle<D>, worker: usize, hint: Hint) -> Result<(), Error> {
    // The host and the devices; the disk comes last, if there is one, and does not count.
    let nodes = rt.memory().iter().filter(|node| node.name != "disk").count();
    let node = worker % nodes.max(1);
    match hint {
        Hint::Prefetch => rt.prefetch(handle, node),
        Hint::WontUse => {
            rt.wont_use(handle);
            Ok(())
        }
        Hint::Pin => {
            rt.pin(handle, node)?;
            rt.prefetch(handle, node)?;
            rt.unpin(handle, node)
        }
    }
}

fn names(job: &Job) -> String {
    let names: Vec<String> = job.accesses.iter().map(|access| format!("{access:?}")).collect();
    names.join(", ")
}

fn take<D: Sample>(rt: &Runtime, what: &str, handle: Handle<D>, wanted: Option<&D>, judge: &mut Judge) {
    let taken = rt.take(handle);
    judge.check_value(what, taken.as_ref(), wanted);
}

fn compare_all(rt: &Runtime, handles: Vec<Option<AnyHandle>>, expected: &Expected, judge: &mut Judge) {
    for (at, (handle, left)) in handles.into_iter().zip(&expected.left).enumerate() {
        let (Some(handle), Some(left)) = (handle, left) else { continue };
        let (what, value) = (format!("at the end, h{at}"), left.as_ref());
        with_handle!(handle, value, handle, wanted => take(rt, &what, handle, wanted, judge));
    }
}
