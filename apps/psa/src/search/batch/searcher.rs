//! Queues, batches and tasks of the search of a crystal's segments.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zellige_kernels::distance::Shape;
use zellige_runtime::{Handle, Read, Runtime, Submit, read, write};

use super::in_flight::{Answered, Batches};
use super::queue::{EnergyClass, Queue, QueueKey};
use super::task::SearchBatch;
use crate::Error;
use crate::basis::SegmentBasis;
use crate::channels::Segment;
use crate::search::matching::{Match, Metrics, NUMBERS, Plan, PowerTable, Stage};
use crate::search::proof::Proof;
use crate::search::segment::{Block, PointGrid, SampleFormat};

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
pub struct Hit<T = usize> {
    /// Identifies the hit in the results; shown in messages.
    pub ticket: T,
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
struct RegisteredSegment {
    block: Handle<Block>,
    grid: Arc<PointGrid>,
    shape: Shape,
    points: usize,
    /// Plans of the energy classes.
    plans: BTreeMap<EnergyClass, Planned>,
}

/// Searches events of a crystal's segments on a runtime. `T` identifies the hits.
///
/// Events wait in queues by segment and energy class. A batch is a task: it reads its segment's
/// block, in the formats that its plan requests, and writes its answers. Blocks are only read: the
/// runtime keeps replicas of them where tasks run. Answers are identical, to the bit, for any
/// number of workers, batch size and devices.
pub struct Searcher<'rt, T = usize> {
    rule: &'rt dyn SearchRule,
    segments: BTreeMap<Segment, RegisteredSegment>,
    queue: Queue<(Hit<T>, Vec<f64>)>,
    batches: Batches<'rt, T, f64>,
}

impl<T> std::fmt::Debug for Searcher<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Searcher({} segments, {} batches)", self.segments.len(), self.batches.len())
    }
}

impl<'rt, T: Copy + Ord + Display> Searcher<'rt, T> {
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
                    if plan.table != PowerTable::None {
                        for stage in [Stage::First, Stage::Last] {
                            metrics.of(&plan, stage, block.scale_in(plan.format(stage)));
                        }
                    }
                    Planned { plan, metrics: Arc::new(metrics), proof }
                }
            };
            plans.insert(class, planned);
        }
        let grid = Arc::new(PointGrid::new(basis.positions()));
        let block = self.batches.rt.register(block);
        self.segments.insert(segment, RegisteredSegment { block, grid, shape, points, plans });
        Ok(())
    }

    /// Adds a hit. `samples` are thousandths of the energy in the channels of its segment's block;
    /// `now` is the current time.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the segment's basis is not registered; [`Error::Shape`] for other
    /// channels or samples than in the basis; errors of the runtime.
    pub fn push(&mut self, hit: Hit<T>, samples: &[f64], now: Instant) -> Result<(), Error> {
        let Some(hosted) = self.segments.get(&hit.segment) else {
            let problem =
                format!("event {}: there is no basis of segment {}", hit.ticket, hit.segment.index());
            return Err(Error::Parameter { name: "segment", problem });
        };
        if samples.len() != hosted.shape.terms() {
            let problem =
                format!("{} of event {}, {} in the basis", samples.len(), hit.ticket, hosted.shape.terms());
            return Err(Error::shape("samples of all channels", problem));
        }
        let key = (hit.segment, EnergyClass::of(hit.energy));
        match self.queue.push(key, (hit, samples.to_vec()), now) {
            Some(batch) => self.submit(key, batch),
            None => Ok(()),
        }
    }

    fn submit(&mut self, key: QueueKey, batch: Vec<(Hit<T>, Vec<f64>)>) -> Result<(), Error> {
        let hosted = &self.segments[&key.0];
        let Planned { plan, metrics, proof } = &hosted.plans[&key.1];
        let coarse_only = batch.iter().map(|(hit, _)| hit.coarse_only).collect();
        let tickets: Vec<T> = batch.iter().map(|(hit, _)| hit.ticket).collect();
        let samples: Vec<f64> = batch.into_iter().flat_map(|(_, samples)| samples).collect();
        let codelet = SearchBatch {
            plan: *plan,
            metrics: metrics.clone(),
            grid: hosted.grid.clone(),
            proof: proof.clone(),
            coarse_only,
            segment: key.0,
            size: [tickets.len() as u32, hosted.points as u32, hosted.shape.terms() as u32],
        };
        let rt = self.batches.rt;
        let (samples, answers) = (rt.register(samples), rt.register(Vec::new()));
        let [first, last] = [Stage::First, Stage::Last].map(|stage| plan.format(stage));
        let block = &hosted.block;
        let operands = (formatted(block, first), formatted(block, last), read(&samples), write(&answers));
        let task = rt.submit(codelet, operands)?;
        self.batches.add(task, tickets, answers);
        Ok(())
    }

    /// Submits batches whose batching delay has passed; returns available answers, with the hits'
    /// tickets.
    ///
    /// # Errors
    /// Errors of the runtime.
    pub fn poll(&mut self, now: Instant) -> Result<Vec<(T, Match)>, Error> {
        for (key, batch) in self.queue.due(now) {
            self.submit(key, batch)?;
        }
        Ok(self.batches.done()?.into_iter().flat_map(matches).collect())
    }

    /// Waits for the oldest batch; if none is in flight, first submits all waiting hits. Returns
    /// the answers of the batch, none if nothing was left.
    ///
    /// # Errors
    /// Errors of the runtime.
    pub fn wait(&mut self) -> Result<Vec<(T, Match)>, Error> {
        if self.batches.len() == 0 {
            self.submit_all()?;
        }
        Ok(self.batches.oldest()?.into_iter().flat_map(matches).collect())
    }

    /// Waits for all hits that were pushed; returns the answers with the hits' tickets, ordered by
    /// these.
    ///
    /// # Errors
    /// Errors of the runtime.
    pub fn finish(&mut self) -> Result<Vec<(T, Match)>, Error> {
        self.submit_all()?;
        let mut all = Vec::new();
        while let Some(answered) = self.batches.oldest()? {
            all.extend(matches(answered));
        }
        all.sort_unstable_by_key(|&(ticket, _)| ticket);
        Ok(all)
    }

    fn submit_all(&mut self) -> Result<(), Error> {
        self.queue.drain().into_iter().try_for_each(|(key, batch)| self.submit(key, batch))
    }
}

fn matches<T>((tickets, answers): Answered<T, f64>) -> Vec<(T, Match)> {
    tickets.into_iter().zip(answers.as_chunks::<NUMBERS>().0.iter().map(Match::from_numbers)).collect()
}

fn formatted(block: &Handle<Block>, format: SampleFormat) -> Read<Block> {
    match format {
        SampleFormat::F32 => read(block),
        other => read(block).as_format(other.number()),
    }
}
