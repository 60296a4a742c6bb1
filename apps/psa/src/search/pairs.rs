//! Queues, batches and tasks of the search for pairs.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use zellige_runtime::{Runtime, Submit, read, write};

use super::batches::{Answered, Batches};
use super::found::{Found, NUMBERS};
use super::pair::{PairFound, PairPlan, PairSearch};
use super::queue::{EnergyClass, Queue};
use super::searcher::Batching;
use crate::Error;
use crate::basis::SegmentBasis;
use crate::channels::Segment;

/// Search for pairs in the segments of a crystal.
pub(super) struct Pairs<'rt> {
    plan: PairPlan,
    segments: BTreeMap<Segment, Arc<Hosted>>,
    queue: Queue<Asked>,
    batches: Batches<'rt>,
}

/// A segment; its products are computed by the first task that needs them.
struct Hosted {
    basis: SegmentBasis,
    search: OnceLock<Result<PairSearch, Error>>,
}

/// Number of a hit, its samples (thousandths of its energy) and its answer as one hit.
struct Asked {
    number: usize,
    samples: Vec<f64>,
    single: Found,
}

/// Answer for a hit that is a pair: two points, the share of the first one, the figures of merit as
/// two hits and as one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Two {
    pub points: [usize; 2],
    pub share: f64,
    pub fom: f64,
    pub fom_of_one: f64,
}

impl<'rt> Pairs<'rt> {
    pub fn new(rt: &'rt Runtime, plan: PairPlan, batching: Batching) -> Self {
        let queue = Queue::new(batching.size, batching.patience);
        Pairs { plan, segments: BTreeMap::new(), queue, batches: Batches::new(rt) }
    }

    pub fn host(&mut self, segment: Segment, basis: &SegmentBasis) {
        let hosted = Hosted { basis: basis.clone(), search: OnceLock::new() };
        self.segments.insert(segment, Arc::new(hosted));
    }

    /// Adds a hit with its answer as one hit.
    pub fn push(
        &mut self,
        number: usize,
        segment: Segment,
        samples: Vec<f64>,
        single: Found,
        now: Instant,
    ) -> Result<(), Error> {
        // Hits of all energies share a queue: they are searched with the same plan.
        let asked = Asked { number, samples, single };
        match self.queue.push((segment, EnergyClass::High), asked, now) {
            Some(batch) => self.submit(segment, batch),
            None => Ok(()),
        }
    }

    /// Submits batches whose batching delay has passed; returns available answers.
    pub fn poll(&mut self, now: Instant) -> Result<Vec<(usize, Option<Two>)>, Error> {
        for ((segment, _), batch) in self.queue.due(now) {
            self.submit(segment, batch)?;
        }
        Ok(self.batches.done()?.into_iter().flat_map(answers).collect())
    }

    /// Waits for the oldest batch; if none is in flight, first submits all waiting hits. Returns
    /// the answers of the batch, none if nothing was left.
    pub fn wait(&mut self) -> Result<Vec<(usize, Option<Two>)>, Error> {
        if self.batches.len() == 0 {
            for ((segment, _), batch) in self.queue.drain() {
                self.submit(segment, batch)?;
            }
        }
        Ok(self.batches.oldest()?.into_iter().flat_map(answers).collect())
    }

    fn submit(&mut self, segment: Segment, batch: Vec<Asked>) -> Result<(), Error> {
        let rt = self.batches.rt;
        let numbers = batch.iter().map(|asked| asked.number).collect();
        let singles: Vec<Found> = batch.iter().map(|asked| asked.single).collect();
        let samples = rt.register(batch.into_iter().flat_map(|asked| asked.samples).collect::<Vec<f64>>());
        let answers = rt.register(Vec::new());
        let (plan, hosted) = (self.plan, self.segments[&segment].clone());
        let task = rt
            .task("pairs")
            .operands((read(&samples), write(&answers)))
            .cpu(move |(samples, mut answers)| {
                let search = hosted.search.get_or_init(|| PairSearch::new(&plan, &hosted.basis));
                let search = search.as_ref().map_err(|e| e.to_string())?;
                let each = samples.chunks_exact(samples.len() / singles.len()).zip(&singles);
                answers.put(
                    each.flat_map(|(samples, &single)| numbers_of(&search.decide(samples, single))).collect(),
                );
                Ok::<(), String>(())
            })
            .submit()?;
        self.batches.add(task, numbers, answers);
        Ok(())
    }
}

/// Encodes an answer in as many numbers as an answer for one hit.
fn numbers_of(found: &PairFound) -> [f64; NUMBERS] {
    let [first, second] = found.points.map(|point| point as f64);
    [f64::from(u8::from(found.is_pair)), first, second, found.share, found.fom, found.fom_of_one]
}

fn answers((numbers, answers): Answered) -> Vec<(usize, Option<Two>)> {
    let two = |&[is_pair, first, second, share, fom, fom_of_one]: &[f64; NUMBERS]| {
        let points = [first as usize, second as usize];
        (is_pair > 0.0).then_some(Two { points, share, fom, fom_of_one })
    };
    numbers.into_iter().zip(answers.as_chunks::<NUMBERS>().0.iter().map(two)).collect()
}
