//! Events of a crystal's segments in queues, batches and tasks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zellige_kernels::distance::Shape;
use zellige_runtime::{Handle, Read, Runtime, Submit, read, write};

use super::batches::{Answered, Batches};
use super::block::{Block, SampleFormat};
use super::engine::Map;
use super::found::{Found, NUMBERS};
use super::plan::{Metrics, Plan, Stage, Table};
use super::proof::Proof;
use super::queue::{EnergyClass, Key, Queue};
use super::tasks::SearchBatch;
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

/// A rule that says how the events of a segment and an energy class are searched for. Results are
/// the same in every run only if it depends on nothing but the query.
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
    /// Whether only coarse points are compared, where a method has such.
    pub coarse_only: bool,
}

/// A plan, and what it needs.
struct Planned {
    plan: Plan,
    metrics: Arc<Metrics>,
    proof: Option<Arc<Proof>>,
}

/// A segment in the runtime's care.
struct Hosted {
    block: Handle<Block>,
    map: Arc<Map>,
    shape: Shape,
    points: usize,
    /// How energy classes are searched.
    plans: BTreeMap<EnergyClass, Planned>,
}

/// Searches events of a crystal's segments on a runtime.
///
/// Events wait in queues by segment and energy class. A batch is a task: it reads its segment's
/// block, in the formats that its plan asks for, and writes its answers. Blocks are only read: the
/// runtime keeps replicas of them where tasks run. Each answer has the same bits with any number of
/// workers, batch size and devices.
pub struct Searcher<'rt> {
    rule: &'rt dyn SearchRule,
    segments: BTreeMap<Segment, Hosted>,
    queue: Queue<(Hit, Vec<f64>)>,
    batches: Batches<'rt>,
}

impl std::fmt::Debug for Searcher<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Searcher({} segments, {} batches)", self.segments.len(), self.batches.len())
    }
}

impl<'rt> Searcher<'rt> {
    /// Without any segment.
    pub fn new(rt: &'rt Runtime, rule: &'rt dyn SearchRule, batching: Batching) -> Self {
        let queue = Queue::new(batching.size, batching.patience);
        Searcher { rule, segments: BTreeMap::new(), queue, batches: Batches::new(rt) }
    }

    /// Gives a segment's basis into the runtime's care.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a plan without meaning; [`Error::Shape`] for a segment without
    /// points, or signals without samples.
    pub fn host(&mut self, segment: Segment, basis: &SegmentBasis) -> Result<(), Error> {
        let block = Block::new(basis)?;
        let (points, shape) = (block.points(), block.shape());
        let mut plans: BTreeMap<EnergyClass, Planned> = BTreeMap::new();
        for class in EnergyClass::ALL {
            let plan = self.rule.plan(&Query { segment, points, shape, class });
            plan.check()?;
            let planned = match plans.values().find(|other| other.plan == plan) {
                Some(same) => Planned { plan, metrics: same.metrics.clone(), proof: same.proof.clone() },
                None => {
                    let proof = plan.proves().then(|| Arc::new(Proof::new(plan.p, shape)));
                    let metrics = Metrics::default();
                    // Tables are made before the first event comes, and not in its time.
                    if plan.table != Table::None {
                        for stage in [Stage::First, Stage::Last] {
                            metrics.of(&plan, stage, block.scale_in(plan.format(stage)));
                        }
                    }
                    Planned { plan, metrics: Arc::new(metrics), proof }
                }
            };
            plans.insert(class, planned);
        }
        let map = Arc::new(Map::new(basis.positions()));
        let block = self.batches.rt.register(block);
        self.segments.insert(segment, Hosted { block, map, shape, points, plans });
        Ok(())
    }

    /// Adds a hit, of which `samples` are thousandths of the energy in the channels of its
    /// segment's block. `now` is the time.
    ///
    /// # Errors
    /// [`Error::Parameter`] where nobody has given the segment's basis; [`Error::Shape`] for other
    /// channels or samples than that has; the runtime's.
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
        match self.queue.push(key, (hit, samples.to_vec()), now) {
            Some(batch) => self.submit(key, batch),
            None => Ok(()),
        }
    }

    fn submit(&mut self, key: Key, batch: Vec<(Hit, Vec<f64>)>) -> Result<(), Error> {
        let hosted = &self.segments[&key.0];
        let Planned { plan, metrics, proof } = &hosted.plans[&key.1];
        let coarse_only = batch.iter().map(|(hit, _)| hit.coarse_only).collect();
        let numbers: Vec<usize> = batch.iter().map(|(hit, _)| hit.number).collect();
        let samples: Vec<f64> = batch.into_iter().flat_map(|(_, samples)| samples).collect();
        let codelet = SearchBatch {
            plan: *plan,
            metrics: metrics.clone(),
            map: hosted.map.clone(),
            proof: proof.clone(),
            coarse_only,
            segment: key.0,
            size: [numbers.len() as u32, hosted.points as u32, hosted.shape.terms() as u32],
        };
        let rt = self.batches.rt;
        let (samples, answers) = (rt.register(samples), rt.register(Vec::new()));
        let [first, last] = [Stage::First, Stage::Last].map(|stage| plan.format(stage));
        let block = &hosted.block;
        let operands = (formatted(block, first), formatted(block, last), read(&samples), write(&answers));
        let task = rt.submit(codelet, operands)?;
        self.batches.add(task, numbers, answers);
        Ok(())
    }

    /// Lets batches go whose first hit has waited for too long; answers that are there, with the
    /// hits' numbers.
    ///
    /// # Errors
    /// The runtime's.
    pub fn poll(&mut self, now: Instant) -> Result<Vec<(usize, Found)>, Error> {
        for (key, batch) in self.queue.due(now) {
            self.submit(key, batch)?;
        }
        Ok(self.batches.done()?.into_iter().flat_map(found).collect())
    }

    /// Waits for the batch that runs longest, and where none does lets all go that wait; its
    /// answers, none if nothing was left.
    ///
    /// # Errors
    /// The runtime's.
    pub fn wait(&mut self) -> Result<Vec<(usize, Found)>, Error> {
        if self.batches.len() == 0 {
            self.let_go()?;
        }
        Ok(self.batches.oldest()?.into_iter().flat_map(found).collect())
    }

    /// Waits for everything that was pushed; answers with the hits' numbers, by number.
    ///
    /// # Errors
    /// The runtime's.
    pub fn finish(&mut self) -> Result<Vec<(usize, Found)>, Error> {
        self.let_go()?;
        let mut all = Vec::new();
        while let Some(answered) = self.batches.oldest()? {
            all.extend(found(answered));
        }
        all.sort_unstable_by_key(|&(number, _)| number);
        Ok(all)
    }

    fn let_go(&mut self) -> Result<(), Error> {
        self.queue.drain().into_iter().try_for_each(|(key, batch)| self.submit(key, batch))
    }
}

fn found((numbers, answers): Answered) -> Vec<(usize, Found)> {
    numbers.into_iter().zip(answers.as_chunks::<NUMBERS>().0.iter().map(Found::from_numbers)).collect()
}

fn formatted(block: &Handle<Block>, format: SampleFormat) -> Read<Block> {
    match format {
        SampleFormat::F32 => read(block),
        other => read(block).as_format(other.number()),
    }
}
