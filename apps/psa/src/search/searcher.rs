//! Queues, batches and tasks of the search of a crystal's segments.

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

/// Properties of the batches of a segment and an energy class, for a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Query {
    /// Segment of the batches.
    pub segment: Segment,
    /// Number of points of the segment.
    pub points: usize,
    /// Number of channels and samples.
    pub shape: Shape,
    /// Energy class of the events.
    pub class: EnergyClass,
}

/// A rule that selects the plan for the events of a segment and an energy class. It must depend on
/// the query only, so that results are reproducible.
pub trait SearchRule: Send + Sync {
    /// Returns the plan of such batches.
    fn plan(&self, query: &Query) -> Plan;
}

impl<F: Fn(&Query) -> Plan + Send + Sync> SearchRule for F {
    fn plan(&self, query: &Query) -> Plan {
        self(query)
    }
}

/// Uses one plan for all batches.
impl SearchRule for Plan {
    fn plan(&self, _: &Query) -> Plan {
        *self
    }
}

/// Size and delay of batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batching {
    /// Number of events of a task.
    pub size: usize,
    /// Longest batching delay of the first event of a batch.
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
    /// Index of the hit in the results.
    pub number: usize,
    /// Segment of the hit.
    pub segment: Segment,
    /// Energy of the hit (keV).
    pub energy: f64,
    /// Whether only coarse points are compared, if the method has coarse points.
    pub coarse_only: bool,
}

/// A plan, and its prepared data.
struct Planned {
    plan: Plan,
    metrics: Arc<Metrics>,
    proof: Option<Arc<Proof>>,
}

/// A segment that is registered with the runtime.
struct Hosted {
    block: Handle<Block>,
    map: Arc<Map>,
    shape: Shape,
    points: usize,
    /// Plans of the energy classes.
    plans: BTreeMap<EnergyClass, Planned>,
}

/// Searches events of a crystal's segments on a runtime.
///
/// Events wait in queues by segment and energy class. A batch is a task: it reads its segment's
/// block, in the formats that its plan requests, and writes its answers. Blocks are only read: the
/// runtime keeps replicas of them where tasks run. Answers are identical, to the bit, for any
/// number of workers, batch size and devices.
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
    /// Creates a searcher without segments.
    pub fn new(rt: &'rt Runtime, rule: &'rt dyn SearchRule, batching: Batching) -> Self {
        let queue = Queue::new(batching.size, batching.patience);
        Searcher { rule, segments: BTreeMap::new(), queue, batches: Batches::new(rt) }
    }

    /// Registers a segment's basis with the runtime.
    ///
    /// # Errors
    /// [`Error::Parameter`] for an invalid plan; [`Error::Shape`] for a segment without points, or
    /// signals without samples.
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
                    // Tables are created before the first event arrives, so that they do not delay
                    // it.
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

    /// Adds a hit. `samples` are thousandths of the energy in the channels of its segment's block;
    /// `now` is the current time.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the segment's basis is not registered; [`Error::Shape`] for other
    /// channels or samples than in the basis; errors of the runtime.
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

    /// Submits batches whose batching delay has passed; returns available answers, with the hits'
    /// numbers.
    ///
    /// # Errors
    /// Errors of the runtime.
    pub fn poll(&mut self, now: Instant) -> Result<Vec<(usize, Found)>, Error> {
        for (key, batch) in self.queue.due(now) {
            self.submit(key, batch)?;
        }
        Ok(self.batches.done()?.into_iter().flat_map(found).collect())
    }

    /// Waits for the oldest batch; if none is in flight, first submits all waiting hits. Returns
    /// the answers of the batch, none if nothing was left.
    ///
    /// # Errors
    /// Errors of the runtime.
    pub fn wait(&mut self) -> Result<Vec<(usize, Found)>, Error> {
        if self.batches.len() == 0 {
            self.let_go()?;
        }
        Ok(self.batches.oldest()?.into_iter().flat_map(found).collect())
    }

    /// Waits for all hits that were pushed; returns the answers with the hits' numbers, ordered by
    /// number.
    ///
    /// # Errors
    /// Errors of the runtime.
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
