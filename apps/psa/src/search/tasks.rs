//! Searches as tasks: a batch of events of one segment is one task on that segment's block.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zellige_kernels::distance::Shape;
use zellige_runtime::{
    Codelet, Cuda, Handle, Operands, Read, Runtime, Slot, Submit, TaskContext, TaskError, TaskInfo, Write,
    read, write,
};

use super::block::{Block, SampleFormat};
use super::device;
use super::engine::{Engine, Map};
use super::events::Events;
use super::found::{Found, NUMBERS};
use super::plan::{Method, Plan, Stage};
use super::proof::Proof;
use super::queue::{EnergyClass, Key, Queue};
use crate::Error;
use crate::basis::SegmentBasis;
use crate::channels::Segment;

/// What a rule sees of the batches of a segment and an energy class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Query {
    /// The segment.
    pub segment: Segment,
    /// Its points.
    pub points: usize,
    /// Channels and samples.
    pub shape: Shape,
    /// What the energies of the events have in common.
    pub class: EnergyClass,
}

/// A rule that says how the events of a segment and an energy class are searched for. Results are the same in every run only if it depends on nothing but
/// the query.
pub trait SearchRule: Send + Sync {
    /// The plan of such batches.
    fn plan(&self, query: &Query) -> Plan;
}

impl<F: Fn(&Query) -> Plan + Send + Sync> SearchRule for F {
    fn plan(&self, query: &Query) -> Plan {
        self(query)
    }
}

/// One plan for everything.
impl SearchRule for Plan {
    fn plan(&self, _: &Query) -> Plan {
        *self
    }
}

/// How many events wait for each other, and how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batching {
    /// Events of a task.
    pub size: usize,
    /// How long the first event of a batch waits for others at most.
    pub patience: Duration,
}

impl Default for Batching {
    fn default() -> Self {
        Batching { size: 64, patience: Duration::from_millis(10) }
    }
}

/// A hit to be searched for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Its place in the results.
    pub number: usize,
    /// Where it happened.
    pub segment: Segment,
    /// The hit's energy (keV).
    pub energy: f64,
    /// How many hits of the event have more energy.
    pub rank: usize,
}

impl Hit {
    /// Whether only coarse points are compared: the third hit of an event and those after it, below 50 keV.
    pub fn is_coarse_only(&self) -> bool {
        self.rank > 1 && self.energy < 50.0
    }
}

/// A segment in the runtime's care.
struct Hosted {
    block: Handle<Block>,
    map: Arc<Map>,
    shape: Shape,
    points: usize,
    /// The plans of energy classes, and the proof that they need.
    plans: BTreeMap<EnergyClass, (Plan, Option<Arc<Proof>>)>,
}

/// Searches events of a crystal's segments on a runtime.
///
/// Events wait in queues by segment and energy class. A batch is a task: it reads its segment's block, in the formats that its plan asks for, and writes its answers.
/// Blocks are only read: the runtime keeps replicas of them where tasks run. Each answer has the same bits with any number of workers, batch size and devices.
pub struct Searcher<'rt> {
    rt: &'rt Runtime,
    rule: &'rt dyn SearchRule,
    segments: BTreeMap<Segment, Hosted>,
    queue: Queue<(Hit, Vec<f64>)>,
    running: Vec<(Vec<usize>, Handle<Vec<f64>>)>,
}

impl std::fmt::Debug for Searcher<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Searcher({} segments, {} batches)", self.segments.len(), self.running.len())
    }
}

impl<'rt> Searcher<'rt> {
    /// Without any segment.
    pub fn new(rt: &'rt Runtime, rule: &'rt dyn SearchRule, batching: Batching) -> Self {
        let queue = Queue::new(batching.size, batching.patience);
        Searcher { rt, rule, segments: BTreeMap::new(), queue, running: Vec::new() }
    }

    /// Gives a segment's basis into the runtime's care.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a plan without meaning; [`Error::Shape`] for a segment without points, or signals without samples.
    pub fn host(&mut self, segment: Segment, basis: &SegmentBasis) -> Result<(), Error> {
        let block = Block::new(basis)?;
        let (points, shape) = (block.points(), block.shape());
        let mut proofs: BTreeMap<u64, Arc<Proof>> = BTreeMap::new();
        let mut plans = BTreeMap::new();
        for class in EnergyClass::ALL {
            let plan = self.rule.plan(&Query { segment, points, shape, class });
            plan.check()?;
            let new = || Arc::new(Proof::new(plan.p, shape));
            let proof = plan.proves().then(|| proofs.entry(plan.p.to_bits()).or_insert_with(new).clone());
            plans.insert(class, (plan, proof));
        }
        let map = Arc::new(Map::new(basis.positions()));
        let block = self.rt.register(block);
        self.segments.insert(segment, Hosted { block, map, shape, points, plans });
        Ok(())
    }

    /// Adds an event, of which `samples` are thousandths of the energy in the channels of its segment's block. `now` is the time.
    ///
    /// # Errors
    /// [`Error::Parameter`] where nobody has given the segment's basis; [`Error::Shape`] for other channels or samples than that has; the runtime's.
    pub fn push(&mut self, hit: Hit, samples: &[f64], now: Instant) -> Result<(), Error> {
        let Some(hosted) = self.segments.get(&hit.segment) else {
            let problem =
                format!("event {}: there is no basis of segment {}", hit.number, hit.segment.index());
            return Err(Error::Parameter { name: "segment", problem });
        };
        if samples.len() != hosted.shape.terms() {
            let problem =
                format!("{} of event {}, {} in the basis", samples.len(), hit.number, hosted.shape.terms());
            return Err(Error::shape("samples of all channels", problem));
        }
        let key = (hit.segment, EnergyClass::of(hit.energy));
        if let Some(batch) = self.queue.push(key, (hit, samples.to_vec()), now) {
            self.submit(key, batch)?;
        }
        for (key, batch) in self.queue.due(now) {
            self.submit(key, batch)?;
        }
        Ok(())
    }

    fn submit(&mut self, key: Key, batch: Vec<(Hit, Vec<f64>)>) -> Result<(), Error> {
        let hosted = &self.segments[&key.0];
        let (plan, proof) = &hosted.plans[&key.1];
        let coarse_only = batch.iter().map(|(hit, _)| hit.is_coarse_only()).collect();
        let numbers: Vec<usize> = batch.iter().map(|(hit, _)| hit.number).collect();
        let samples: Vec<f64> = batch.into_iter().flat_map(|(_, samples)| samples).collect();
        let codelet = SearchBatch {
            plan: *plan,
            map: hosted.map.clone(),
            proof: proof.clone(),
            coarse_only,
            segment: key.0,
            size: [numbers.len() as u32, hosted.points as u32, hosted.shape.terms() as u32],
        };
        let samples = self.rt.register(samples);
        let answers = self.rt.register(Vec::new());
        let [first, last] = [Stage::First, Stage::Last].map(|stage| plan.format(stage));
        let block = &hosted.block;
        let operands = (formatted(block, first), formatted(block, last), read(&samples), write(&answers));
        self.rt.submit(codelet, operands)?;
        self.running.push((numbers, answers));
        Ok(())
    }

    /// Waits for everything that was pushed; answers with the events' numbers, by number.
    ///
    /// # Errors
    /// The runtime's.
    pub fn finish(&mut self) -> Result<Vec<(usize, Found)>, Error> {
        for (key, batch) in self.queue.drain() {
            self.submit(key, batch)?;
        }
        let mut found = Vec::new();
        for (numbers, answers) in std::mem::take(&mut self.running) {
            let answers = self.rt.take(answers)?;
            let of_batch = answers.as_chunks::<NUMBERS>().0.iter().map(Found::from_numbers);
            found.extend(numbers.into_iter().zip(of_batch));
        }
        found.sort_unstable_by_key(|&(number, _)| number);
        Ok(found)
    }
}

fn formatted(block: &Handle<Block>, format: SampleFormat) -> Read<Block> {
    match format {
        SampleFormat::F32 => read(block),
        other => read(block).as_format(other.number()),
    }
}

/// The task of a batch: the block for the first stage, that for the last, the samples, the answers.
pub(super) struct SearchBatch {
    plan: Plan,
    map: Arc<Map>,
    proof: Option<Arc<Proof>>,
    coarse_only: Vec<bool>,
    segment: Segment,
    /// Events, points, terms.
    size: [u32; 3],
}

impl Codelet for SearchBatch {
    type Operands = (Read<Block>, Read<Block>, Read<Vec<f64>>, Write<Vec<f64>>);

    fn name(&self) -> &'static str {
        "search"
    }

    /// Operations: a difference, its power and a sum for each sample of each point, as three.
    fn info(&self) -> TaskInfo {
        let label = match self.plan.method {
            Method::Full => "full",
            Method::CoarseFine { .. } => "coarse-fine",
            Method::Screen { .. } => "screen",
            Method::Exact { .. } => "exact",
        };
        TaskInfo {
            flops: 3.0 * self.size.iter().map(|&side| f64::from(side)).product::<f64>(),
            coords: Some([self.segment.index() as u32, 0, 0]),
            label,
            shape: self.size,
            ..TaskInfo::default()
        }
    }

    fn cpu(
        &self,
        (first, last, samples, mut answers): (&Block, &Block, &[f64], Slot<'_, Vec<f64>>),
        _: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let mut engine = Engine::new(&self.plan, &self.map, [first, last], self.proof.as_deref());
        let found = engine.run(samples, &self.coarse_only);
        answers.put(found.into_iter().flat_map(Found::to_numbers).collect());
        Ok(())
    }

    fn has_cuda(&self) -> bool {
        device::has_kernels(&self.plan)
    }

    /// Reads nothing that is known at the ends of other tasks.
    fn needs_ends(&self) -> bool {
        false
    }

    fn cuda(
        &self,
        views: <Self::Operands as Operands>::Views<'_, Cuda>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        device::search(&self.plan, views, cx)
    }
}

/// Searches for events of one segment on the calling thread, without a runtime.
///
/// # Errors
/// [`Error::Parameter`] for a plan without meaning, [`Error::Shape`] where events have other channels or samples than the basis.
pub fn search(
    plan: &Plan,
    basis: &SegmentBasis,
    events: &Events,
    coarse_only: &[bool],
) -> Result<Vec<Found>, Error> {
    Prepared::new(plan, basis)?.search(events, coarse_only)
}

/// A segment ready to be searched on the calling thread.
#[derive(Clone, Debug)]
pub struct Prepared {
    plan: Plan,
    map: Map,
    blocks: [Block; 2],
    proof: Option<Proof>,
}

impl Prepared {
    /// For a plan.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a plan without meaning, [`Error::Shape`] for a segment without points or samples.
    pub fn new(plan: &Plan, basis: &SegmentBasis) -> Result<Prepared, Error> {
        plan.check()?;
        let block = Block::new(basis)?;
        let proof = plan.proves().then(|| Proof::new(plan.p, block.shape()));
        let in_format = |stage| block.to_format(plan.format(stage)).expect("a block in f32 has every format");
        let blocks = [Stage::First, Stage::Last].map(in_format);
        Ok(Prepared { plan: *plan, map: Map::new(basis.positions()), blocks, proof })
    }

    /// The answer for each event; `coarse_only` says of which only coarse points are compared, where a method has such (empty: of none).
    ///
    /// # Errors
    /// [`Error::Shape`] where events have other channels or samples than the basis, or there is not one `coarse_only` for each.
    pub fn search(&self, events: &Events, coarse_only: &[bool]) -> Result<Vec<Found>, Error> {
        let [first, last] = &self.blocks;
        if events.shape() != first.shape() {
            let problem = format!("{:?}, {:?} in the basis", events.shape(), first.shape());
            return Err(Error::shape("events", problem));
        }
        if !coarse_only.is_empty() && coarse_only.len() != events.len() {
            let problem = format!("{} for {} events", coarse_only.len(), events.len());
            return Err(Error::shape("coarse_only", problem));
        }
        let none = vec![false; if coarse_only.is_empty() { events.len() } else { 0 }];
        let coarse_only = if coarse_only.is_empty() { &none } else { coarse_only };
        let mut engine = Engine::new(&self.plan, &self.map, [first, last], self.proof.as_ref());
        Ok(engine.run(events.all(), coarse_only))
    }
}
