//! Recording operations instead of running them, and running them again.

use std::sync::Arc;

use super::call::{Call, End};
use super::clock::{Clock, Point};
use super::state::{Mark, Record, State, event_name, gpu_of, refused, stream_name};
use crate::error::GpuError;

/// A captured operation. Steps are in order of submission. Lanes are streams by number; 0 is the
/// stream on which the capture began.
#[derive(Clone, Debug)]
enum Step {
    Call { lane: usize, call: Call },
    Record { lane: usize, slot: usize },
    Wait { lane: usize, slot: usize },
}

/// A capture in progress.
#[derive(Debug)]
pub(super) struct Capture {
    /// Streams that take part.
    lanes: Vec<u64>,
    steps: Vec<Step>,
    /// Clock of each record.
    slots: Vec<Clock>,
    /// Clock of each lane, before its next step.
    clocks: Vec<Clock>,
}

/// A capture that has ended.
#[derive(Debug)]
pub(super) struct Recording {
    gpu: u32,
    steps: Vec<Step>,
    slots: usize,
    /// Private streams of all lanes except the first.
    lanes: Vec<u64>,
    /// The end of its last launch: a graph runs once at a time.
    last: Option<Arc<Record>>,
}

impl Recording {
    /// Streams that belong to it.
    pub(super) fn lanes(&self) -> &[u64] {
        &self.lanes
    }
}

impl Capture {
    fn lane(&self, stream: u64) -> usize {
        self.lanes.iter().position(|lane| *lane == stream).expect("streams know their capture")
    }

    /// Adds a step to its lane.
    fn step(&mut self, lane: usize, step: Step) {
        self.steps.push(step);
        self.clocks[lane].learn(Point { stream: lane as u64, item: self.steps.len() as u64 });
    }
}

impl State {
    /// Returns a captured operation, or one of a graph, that uses some of these bytes of the host.
    pub(super) fn recorded_use(&self, from: u64, to: u64) -> Option<String> {
        let captured = self.captures.values().map(|capture| &capture.steps);
        let mut steps = captured.chain(self.graphs.values().map(|graph| &graph.steps)).flatten();
        steps.find_map(|step| {
            let Step::Call { call: Call::Copy { to: one, from: other, bytes }, .. } = step else {
                return None;
            };
            let uses = |end: &End| matches!(*end, End::Host(at) if at < to && from < at + bytes);
            (uses(one) || uses(other)).then(|| "a copy that was captured".into())
        })
    }

    /// Puts an operation on a stream, or into the capture that it is in.
    pub(super) fn submit(&mut self, token: u64, call: Call) -> Result<(), GpuError> {
        let Some(capture) = self.stream(token, call.cuda())?.capture else {
            return self.enqueue(token, call);
        };
        let capture = self.captures.get_mut(&capture).expect("streams know their capture");
        let lane = capture.lane(token);
        capture.step(lane, Step::Call { lane, call });
        Ok(())
    }

    pub(super) fn begin_capture(&mut self, token: u64) -> Result<(), GpuError> {
        let gpu = self.stream_outside_capture(token, "cuStreamBeginCapture")?;
        let number = self.token(gpu);
        self.stream(token, "cuStreamBeginCapture")?.capture = Some(number);
        let capture = Capture {
            lanes: vec![token],
            steps: Vec::new(),
            slots: Vec::new(),
            clocks: vec![Clock::default()],
        };
        self.captures.insert(number, capture);
        Ok(())
    }

    /// An event is recorded on a stream that is being captured.
    pub(super) fn capture_record(&mut self, capture: u64, token: u64) -> usize {
        let capture = self.captures.get_mut(&capture).expect("streams know their capture");
        let (lane, slot) = (capture.lane(token), capture.slots.len());
        capture.step(lane, Step::Record { lane, slot });
        capture.slots.push(capture.clocks[lane].clone());
        slot
    }

    /// A stream waits for an event that was captured, and so takes part in the capture.
    pub(super) fn capture_wait(
        &mut self,
        number: u64,
        token: u64,
        slot: usize,
        event: u64,
    ) -> Result<(), GpuError> {
        const CALL: &str = "cuStreamWaitEvent";
        let stream = self.stream(token, CALL)?;
        let (gpu, own) = (stream.gpu, stream.capture);
        if !self.captures.contains_key(&number) || own.is_some_and(|own| own != number) {
            let (stream, event) = (stream_name(token), event_name(event));
            return Err(refused(
                gpu,
                CALL,
                format!("{stream} waits for {event}, which another capture recorded"),
            ));
        }
        self.stream(token, CALL)?.capture = Some(number);
        let capture = self.captures.get_mut(&number).expect("seen above");
        if own.is_none() {
            capture.lanes.push(token);
            capture.clocks.push(Clock::default());
        }
        let lane = capture.lane(token);
        capture.step(lane, Step::Wait { lane, slot });
        let known = capture.slots[slot].clone();
        capture.clocks[lane].join(&known);
        Ok(())
    }

    pub(super) fn end_capture(&mut self, token: u64) -> Result<u64, GpuError> {
        const CALL: &str = "cuStreamEndCapture";
        let stream = self.stream(token, CALL)?;
        let (gpu, number) = (stream.gpu, stream.capture);
        let Some(number) = number.filter(|number| self.captures[number].lanes[0] == token) else {
            return Err(refused(gpu, CALL, format!("no capture began on {}", stream_name(token))));
        };
        let capture = self.captures.remove(&number).expect("streams know their capture");
        for lane in &capture.lanes {
            if let Some(stream) = self.streams.get_mut(lane) {
                stream.capture = None;
            }
        }
        self.forget_captured(number);
        if let Some(stray) = capture.stray() {
            let reason = format!(
                "{} took part in the capture and {} does not wait for it",
                stream_name(stray),
                stream_name(token)
            );
            return Err(refused(gpu, CALL, reason));
        }
        let lanes = capture.lanes[1..].iter().map(|lane| gpu_of(*lane)).collect::<Vec<_>>();
        let lanes = lanes.into_iter().map(|gpu| self.add_stream(gpu)).collect();
        let (steps, slots) = (capture.steps, capture.slots.len());
        let graph = self.token(gpu);
        self.graphs.insert(graph, Recording { gpu, steps, slots, lanes, last: None });
        Ok(graph)
    }

    /// Events that a capture recorded are as if they never were.
    fn forget_captured(&mut self, number: u64) {
        for event in self.events.values_mut() {
            if matches!(event.last, Some(Mark::Captured { capture, .. }) if capture == number) {
                event.last = None;
            }
        }
    }

    pub(super) fn launch_graph(&mut self, token: u64, graph: u64) -> Result<(), GpuError> {
        const CALL: &str = "cuGraphLaunch";
        let gpu = self.stream_outside_capture(token, CALL)?;
        let Some(recording) = self.graphs.get(&graph) else {
            return Err(self.violation(gpu, CALL, "the graph was destroyed, or never captured".into()));
        };
        if recording.gpu != gpu {
            return Err(refused(gpu, CALL, format!("the graph was captured on GPU {}", recording.gpu)));
        }
        let (steps, slots, last) = (recording.steps.clone(), recording.slots, recording.last.clone());
        let lanes: Vec<u64> = [token].into_iter().chain(recording.lanes.iter().copied()).collect();
        for lane in &lanes {
            self.usable(gpu_of(*lane))?;
        }
        if let Some(last) = last {
            self.enqueue_wait(token, last);
        }
        let result = self.enqueue_steps(steps, slots, &lanes);
        // Also if not everything was queued: the next launch waits for what was queued.
        let end = self.enqueue_record(token);
        if let Some(recording) = self.graphs.get_mut(&graph) {
            recording.last = Some(end);
        }
        result
    }

    fn enqueue_steps(&mut self, steps: Vec<Step>, slots: usize, lanes: &[u64]) -> Result<(), GpuError> {
        let mut records: Vec<Option<Arc<Record>>> = vec![None; slots];
        for step in steps {
            match step {
                Step::Call { lane, call } => self.enqueue(lanes[lane], call)?,
                Step::Record { lane, slot } => records[slot] = Some(self.enqueue_record(lanes[lane])),
                Step::Wait { lane, slot } => {
                    if let Some(record) = records[slot].clone() {
                        self.enqueue_wait(lanes[lane], record);
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn destroy_graph(&mut self, graph: u64) {
        let gpu = gpu_of(graph);
        let Some(recording) = self.graphs.remove(&graph) else {
            if self.usable(gpu).is_ok() {
                self.violation(
                    gpu,
                    "cuGraphExecDestroy",
                    "the graph was destroyed, or never captured".into(),
                );
            }
            return;
        };
        for lane in recording.lanes {
            if let Some(stream) = self.streams.get_mut(&lane) {
                stream.destroyed = true;
            }
            self.sweep(lane);
        }
    }
}

impl Capture {
    /// A stream with something that the first one does not wait for.
    fn stray(&self) -> Option<u64> {
        let ends = |lane: usize| {
            self.steps.iter().rposition(|step| match step {
                Step::Call { lane: on, .. } | Step::Record { lane: on, .. } | Step::Wait { lane: on, .. } => {
                    *on == lane
                }
            })
        };
        (1..self.lanes.len()).find_map(|lane| {
            let last = ends(lane)?;
            let at = Point { stream: lane as u64, item: last as u64 + 1 };
            (!self.clocks[0].knows(at)).then_some(self.lanes[lane])
        })
    }
}
