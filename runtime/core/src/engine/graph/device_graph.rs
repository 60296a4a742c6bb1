//! A replay as one launch on a device: the operations of its tasks are recorded from a stream, and
//! launched again while the operands keep their addresses and headers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use smallvec::SmallVec;
use zellige_model::{CachedId, TaskInfo, median};

use super::recorder::{GraphData, GraphSlot};
use crate::device::{Archs, Recording, Stream};
use crate::engine::Engine;
use crate::engine::transfer::NodeUse;
use crate::error::{Cause, Failure};
use crate::format::Format;
use crate::memory::BufferId;
use crate::operand::Mode;
use crate::task::{
    Accesses, AnyHandle, Body, Choice, DeviceInfo, Env, Formats, Header, Implementations, Only, Ran,
    TaskPlacement,
};
use crate::value::Meta;
use crate::value::{Known, Seen};

/// Controls whether replays of recorded graphs are submitted to a device in one launch, e.g. as a
/// graph of its driver, instead of task by task.
///
/// A single launch is possible if all of these hold:
/// - The runtime has one device, and no other worker takes the graph's tasks from it: there is
///   none, or [`gpu_only`](crate::RuntimeBuilder::gpu_only) is set.
/// - Every task has a function for devices and reads, writes or updates its operands as they are
///   stored.
/// - No task uses deferred selection, reads a result back or moves a value to other memory.
/// - The device has room for all operands at once.
///
/// The first replay always runs task by task. A recording is launched again while the operands keep
/// their addresses and headers; otherwise the graph is recorded anew. Results are bitwise
/// identical.
///
/// ```
/// use zellige_runtime::{DeviceGraphs, Runtime};
///
/// let rt = Runtime::builder().workers(1).device_graphs(DeviceGraphs::Never).build()?;
/// assert_eq!(rt.workers(), 1);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceGraphs {
    /// Measures both methods over a few replays each and keeps the faster one.
    #[default]
    Measured,
    /// A single launch whenever it is possible.
    Always,
    /// Task by task.
    Never,
}

/// The execution method of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaunchMode {
    TaskByTask,
    DeviceGraph,
}

/// Number of replays of each method whose times are compared.
const TRIED: usize = 5;

/// Number of operand sets whose recordings are kept, e.g. two for an iteration that swaps old and
/// new.
const KEPT: usize = 4;

/// The data that launching a graph as one operation needs.
pub(super) struct DeviceGraph {
    header: Header,
    /// All of them, in order.
    slots: Vec<u32>,
    state: Mutex<DeviceGraphState>,
}

#[derive(Default)]
struct DeviceGraphState {
    /// The runtime that the other fields refer to.
    runtime: Option<u32>,
    /// True if some task cannot be recorded.
    refused: bool,
    task_by_task: SmallVec<[Duration; TRIED]>,
    device_graph: SmallVec<[Duration; TRIED]>,
    /// The recordings, least recently used first.
    recorded: Vec<Arc<Recorded>>,
}

/// A recording, and the operands for which it was made.
struct Recorded {
    recording: Arc<dyn Recording>,
    operands: Vec<Recalled>,
}

/// One slot's value before and after.
struct Recalled {
    before: Option<Seen>,
    after: Option<Seen>,
}

impl DeviceGraph {
    /// `None` if there is a task that cannot be recorded.
    pub(super) fn of(headers: &[Header], bodies: &[Box<dyn Body>], slots: usize) -> Option<Self> {
        let plain = |header: &Header| header.implementations.names.is_empty();
        let archs = headers.iter().map(|header| header.implementations.archs).reduce(Archs::and);
        let archs = archs.unwrap_or_default();
        let several = headers.len() > 1 && headers.iter().all(plain);
        if !several || archs.is_empty() || !bodies.iter().all(|body| takes_values_as_they_are(&**body)) {
            return None;
        }
        let constrained = headers.iter().any(|header| header.only.is_some());
        let header = Header {
            id: u64::MAX,
            runtime: u32::MAX,
            name: "replay",
            priority: headers.iter().map(|header| header.priority).max().unwrap_or_default(),
            info: TaskInfo {
                flops: headers.iter().map(|header| header.info.flops).sum(),
                ..TaskInfo::default()
            },
            only: constrained.then(|| Box::new(Only { constrained, ..Only::default() })),
            implementations: Implementations { archs, needs_ends: true, ..Implementations::default() },
            model: CachedId::default(),
            tally: None,
        };
        Some(DeviceGraph { header, slots: (0..slots as u32).collect(), state: Mutex::default() })
    }

    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    pub(super) fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// True if this runtime may put replays on a device in one launch.
    pub(super) fn matters_to(engine: &Engine) -> bool {
        engine.settings.device_graphs != DeviceGraphs::Never && engine.has_one_gpu_for_all()
    }

    /// Returns the method of the next replay, if this runtime may choose one.
    pub(super) fn way(&self, engine: &Engine) -> Option<LaunchMode> {
        if !Self::matters_to(engine) {
            return None;
        }
        let mut state = self.state.lock();
        if state.runtime != Some(engine.id) {
            *state = DeviceGraphState { runtime: Some(engine.id), ..DeviceGraphState::default() };
        }
        if state.refused {
            return None;
        }
        let way = match engine.settings.device_graphs {
            DeviceGraphs::Always if state.task_by_task.is_empty() => LaunchMode::TaskByTask,
            DeviceGraphs::Always => LaunchMode::DeviceGraph,
            _ if state.task_by_task.len() < TRIED => LaunchMode::TaskByTask,
            _ if state.device_graph.len() < TRIED => LaunchMode::DeviceGraph,
            _ if median_of(&state.device_graph) < median_of(&state.task_by_task) => LaunchMode::DeviceGraph,
            _ => LaunchMode::TaskByTask,
        };
        Some(way)
    }

    /// Notes the time of a replay by this runtime.
    pub(super) fn took(&self, runtime: u32, way: LaunchMode, time: Duration) {
        let mut state = self.state.lock();
        if state.runtime != Some(runtime) {
            return;
        }
        let times = match way {
            LaunchMode::TaskByTask => &mut state.task_by_task,
            LaunchMode::DeviceGraph => &mut state.device_graph,
        };
        if times.len() < TRIED {
            times.push(time);
        }
    }

    /// Returns the recording made for operands like these.
    fn find(&self, stream: &dyn Stream, operands: &[GraphOperand<'_>]) -> Option<Arc<Recorded>> {
        let mut state = self.state.lock();
        let at = state.recorded.iter().position(|known| {
            let mut pairs = known.operands.iter().zip(operands);
            known.recording.is_for(stream) && pairs.all(|(known, now)| known.is_again(now))
        })?;
        let found = state.recorded.remove(at);
        state.recorded.push(Arc::clone(&found));
        Some(found)
    }

    fn keep(&self, recorded: &Arc<Recorded>) {
        let mut state = self.state.lock();
        if state.recorded.len() == KEPT {
            state.recorded.remove(0);
        }
        state.recorded.push(Arc::clone(recorded));
    }

    fn refuse(&self) {
        let mut state = self.state.lock();
        (state.refused, state.recorded) = (true, Vec::new());
    }
}

/// Returns the median of times, of which there are some.
fn median_of(times: &[Duration]) -> Duration {
    let mut times: SmallVec<[Duration; TRIED]> = times.into();
    median(&mut times).unwrap_or_default()
}

/// True for a body whose operands are brought in the form in which they are stored, and whose
/// accesses a stream can order.
fn takes_values_as_they_are(body: &dyn Body) -> bool {
    if body.selects() || body.is_for_host() {
        return false;
    }
    let (mut accesses, mut formats) = (Accesses::new(), Formats::new());
    body.declare(&mut accesses);
    body.plan(&[], &mut formats);
    let plain = |mode: Mode| matches!(mode, Mode::Read | Mode::Write | Mode::Update);
    accesses.iter().all(|access| plain(access.mode) && !access.look)
        && formats.iter().all(|format| *format == Format::NATIVE)
}

/// A slot's handle and its value on the device.
struct GraphOperand<'e> {
    handle: &'e dyn AnyHandle,
    mode: Mode,
    place: BufferId,
    value: Option<Seen>,
}

impl GraphOperand<'_> {
    /// Restores the header: nothing has run, so the changes of the recording are undone.
    fn restore(&self) {
        if let (true, Some(value)) = (self.mode.writes(), &self.value) {
            self.handle.learn_on_device(self.place, value.known.clone());
        }
    }
}

impl Recalled {
    /// True if the recording has the same effect on this operand.
    fn is_again(&self, now: &GraphOperand<'_>) -> bool {
        // An operand that is written anew may have held anything: the recording determines its
        // address.
        let anew = now.mode == Mode::Write;
        let then = if anew { &self.after } else { &self.before };
        let Some((then, value)) = then.as_ref().zip(now.value.as_ref()) else { return false };
        if crate::mutant::mutant(13) {
            return true;
        }
        then.parts == value.parts && (anew || is_same(now.handle, &then.known, &value.known))
    }

    /// Reports to the host how the launch changes this operand's header.
    fn leave(&self, operand: &GraphOperand<'_>) {
        if let (true, Some(after)) = (operand.mode.writes(), &self.after) {
            operand.handle.learn_on_device(operand.place, after.known.clone());
        }
    }

    /// True if the launch leaves the value at the address that the next launch requires.
    fn lasts(&self, mode: Mode) -> bool {
        let parts = |seen: &Option<Seen>| seen.as_ref().map(|seen| seen.parts.clone());
        self.after.is_some() && (mode == Mode::Write || parts(&self.before) == parts(&self.after))
    }
}

fn is_same(handle: &dyn AnyHandle, one: &Known, other: &Known) -> bool {
    let plain = |meta: &Meta| (meta.format, meta.bytes, meta.norm.to_bits());
    plain(&one.meta) == plain(&other.meta)
        && (Arc::ptr_eq(&one.header, &other.header) || handle.is_same_header(&one.header, &other.header))
}

/// Error that requests the tasks one by one instead of a single launch.
#[derive(Debug, thiserror::Error)]
#[error("it goes task by task")]
struct TaskByTask;

/// True if this is not a failure but a request to run the tasks one by one.
pub(super) fn is_task_by_task(failure: &Failure) -> bool {
    matches!(&failure.cause, Cause::Error(error) if error.is::<TaskByTask>())
}

/// All tasks as one body, with the slots as its operands.
impl Body for GraphData {
    fn run<'e>(&'e self, env: &mut Env<'e>) -> Ran {
        let launched = match (&self.device_graph, env.stream()) {
            (Some(device_graph), Some(stream)) => self.launch(device_graph, stream, env),
            // Its device has failed.
            _ => None,
        };
        let task_by_task = || {
            let (task, operands) = (env.header.title(), Vec::new());
            Ran::Failed(Arc::new(Failure { task, operands, cause: Cause::Error(Arc::new(TaskByTask)) }))
        };
        launched.unwrap_or_else(task_by_task)
    }

    fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
        let mut tasks = self.headers.iter().zip(&self.bodies);
        tasks.all(|(header, body)| header.only.as_ref().is_none_or(|only| only.allows(&**body, device)))
    }

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        out.extend(self.slots.iter().map(|slot| (&slot.handle, slot.mode).into()));
    }

    fn clear(&self) {}
}

impl GraphData {
    /// Launches the recording for these operands, or makes it first; `None` if they cannot be
    /// recorded.
    fn launch<'e>(
        &'e self,
        device_graph: &DeviceGraph,
        stream: &dyn Stream,
        env: &mut Env<'e>,
    ) -> Option<Ran> {
        let began = Instant::now();
        let operands = self.operands(env);
        let known = device_graph.find(stream, &operands);
        let recorded = known.or_else(|| self.record(device_graph, stream, &operands, env));
        // SAFETY: the replay has acquired its slots, whose values have the same addresses as at the
        // recording.
        let launched = recorded.map(|recorded| (unsafe { stream.play(&recorded.recording) }, recorded));
        match launched {
            Some((Ok(()), recorded)) => {
                for (operand, recalled) in operands.iter().zip(&recorded.operands) {
                    recalled.leave(operand);
                }
                count(env, |counts| counts.graphs_launched += 1);
                env.notes.began = true;
                env.notes.times = env.runner.measures.then(|| (began, Instant::now()));
                Some(Ran::Done)
            }
            // It runs again on another device.
            Some((Err(error), _)) if stream.is_loss(&error) => Some(Ran::Done),
            _ if stream.check().is_err() => Some(Ran::Done),
            _ => {
                operands.iter().for_each(GraphOperand::restore);
                device_graph.refuse();
                None
            }
        }
    }

    /// Each slot's handle and value.
    fn operands<'e>(&'e self, env: &Env<'e>) -> Vec<GraphOperand<'e>> {
        let (handles, placement) = env.bound_and_placed();
        let operand = |((slot, handle), &place): ((&GraphSlot, &'e Arc<dyn AnyHandle>), &BufferId)| {
            let (handle, mode, value) = (&**handle, slot.mode, handle.seen_on_device(place));
            GraphOperand { handle, mode, place, value }
        };
        self.slots.iter().zip(handles).zip(&placement.buffers).map(operand).collect()
    }

    /// Records the tasks; `None` if that cannot be done.
    fn record(
        &self,
        device_graph: &DeviceGraph,
        stream: &dyn Stream,
        operands: &[GraphOperand<'_>],
        env: &mut Env<'_>,
    ) -> Option<Arc<Recorded>> {
        let mut all_can = false;
        let mut record = || all_can = (0..self.bodies.len()).all(|task| self.leaves_nothing(task, env));
        let recording = stream.record(&mut record).ok().filter(|_| all_can)?;
        let recalled = |operand: &GraphOperand<'_>| Recalled {
            before: operand.value.clone(),
            after: operand.handle.seen_on_device(operand.place),
        };
        let recorded = Recorded { recording, operands: operands.iter().map(recalled).collect() };
        let recorded = Arc::new(recorded);
        count(env, |counts| counts.graphs_recorded += 1);
        if operands.iter().zip(&recorded.operands).all(|(now, recalled)| recalled.lasts(now.mode)) {
            device_graph.keep(&recorded);
        }
        Some(recorded)
    }

    /// Makes a task submit its operations to the stream, which records them. True if that succeeded
    /// and the task needs no work at its end.
    fn leaves_nothing(&self, task: usize, env: &mut Env<'_>) -> bool {
        let (handles, placed) = env.bound_and_placed();
        let bound = self.bound(task, handles);
        let buffers = bound.slots.iter().map(|&slot| placed.buffers[slot as usize]).collect();
        // Treated as stream-ordered: its outputs are not poisoned if it fails, since it has not
        // run.
        let (choice, stream, stream_ordered) = (Choice::default(), placed.stream.clone(), true);
        let placement = TaskPlacement { choice, buffers, bytes: 0, stream, stream_ordered };
        let mut inner = env.within(&self.headers[task], bound, &placement);
        let went = matches!(self.bodies[task].run(&mut inner), Ran::Done);
        let left = inner.pending.take().unwrap_or_default();
        drop(inner);
        let nothing = left.is_empty();
        if let Some(stream) = placement.stream.as_deref().filter(|_| !nothing) {
            // It may own memory that recorded operations name, which has to outlast the recording.
            stream.keep(Box::new(left));
        }
        went && nothing
    }
}

/// Counts what the worker's device has done.
fn count(env: &Env<'_>, add: impl FnOnce(&mut NodeUse)) {
    if let Some(transfers) = &Engine::behind(env.runner.services).transfers {
        transfers.count(env.worker(), add);
    }
}
