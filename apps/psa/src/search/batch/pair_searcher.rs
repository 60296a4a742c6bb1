//! Queues, batches and tasks of the search for pairs.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use zellige_runtime::{Runtime, Submit, read, write};

use super::in_flight::{Answered, Batches};
use super::queue::{EnergyClass, Queue};
use super::searcher::Batching;
use crate::Error;
use crate::basis::SegmentBasis;
use crate::channels::Segment;
use crate::search::matching::{Match, PairMatch, PairPlan, PairSearch};

/// Search for pairs in the segments of a crystal. `T` identifies hits.
pub(in crate::search) struct PairSearcher<'rt, T> {
    plan: PairPlan,
    segments: BTreeMap<Segment, Arc<PairSegment>>,
    queue: Queue<PairRequest<T>>,
    batches: Batches<'rt, T, Option<AcceptedPair>>,
}

/// A segment; its products are computed by the first task that needs them.
struct PairSegment {
    basis: SegmentBasis,
    search: OnceLock<Result<PairSearch, Error>>,
}

/// A hit, its samples (thousandths of its energy) and its answer as one hit.
struct PairRequest<T> {
    ticket: T,
    samples: Vec<f64>,
    single: Match,
}

/// Answer for a hit that is a pair: two points, the share of the first one, the figures of merit as
/// two hits and as one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::search) struct AcceptedPair {
    pub points: [usize; 2],
    pub share: f64,
    pub fom: f64,
    pub fom_of_one: f64,
}

impl AcceptedPair {
    /// Returns the pair of an answer; `None` if one hit explains the event.
    fn of(answer: &PairMatch) -> Option<AcceptedPair> {
        let &PairMatch { points, share, fom, fom_of_one, is_pair, .. } = answer;
        is_pair.then_some(AcceptedPair { points, share, fom, fom_of_one })
    }
}

impl<'rt, T> PairSearcher<'rt, T> {
    pub fn new(rt: &'rt Runtime, plan: PairPlan, batching: Batching) -> Self {
        let queue = Queue::new(batching.size, batching.patience);
        PairSearcher { plan, segments: BTreeMap::new(), queue, batches: Batches::new(rt) }
    }

    pub fn host(&mut self, segment: Segment, basis: &SegmentBasis) {
        let hosted = PairSegment { basis: basis.clone(), search: OnceLock::new() };
        self.segments.insert(segment, Arc::new(hosted));
    }

    /// Adds a hit with its answer as one hit.
    pub fn push(
        &mut self,
        ticket: T,
        segment: Segment,
        samples: Vec<f64>,
        single: Match,
        now: Instant,
    ) -> Result<(), Error> {
        // Hits of all energies share a queue: they are searched with the same plan.
        let request = PairRequest { ticket, samples, single };
        match self.queue.push((segment, EnergyClass::High), request, now) {
            Some(batch) => self.submit(segment, batch),
            None => Ok(()),
        }
    }

    /// Submits batches whose batching delay has passed; returns available answers.
    pub fn poll(&mut self, now: Instant) -> Result<Vec<(T, Option<AcceptedPair>)>, Error> {
        for ((segment, _), batch) in self.queue.due(now) {
            self.submit(segment, batch)?;
        }
        Ok(self.batches.done()?.into_iter().flat_map(by_ticket).collect())
    }

    /// Waits for the oldest batch; if none is in flight, first submits all waiting hits. Returns
    /// the answers of the batch, none if nothing was left.
    pub fn wait(&mut self) -> Result<Vec<(T, Option<AcceptedPair>)>, Error> {
        if self.batches.len() == 0 {
            for ((segment, _), batch) in self.queue.drain() {
                self.submit(segment, batch)?;
            }
        }
        Ok(self.batches.oldest()?.into_iter().flat_map(by_ticket).collect())
    }

    fn submit(&mut self, segment: Segment, batch: Vec<PairRequest<T>>) -> Result<(), Error> {
        let rt = self.batches.rt;
        let singles: Vec<Match> = batch.iter().map(|request| request.single).collect();
        let (mut tickets, mut samples) = (Vec::with_capacity(batch.len()), Vec::new());
        for request in batch {
            tickets.push(request.ticket);
            samples.extend(request.samples);
        }
        let (samples, answers) = (rt.register(samples), rt.register(Vec::new()));
        let (plan, hosted) = (self.plan, self.segments[&segment].clone());
        let task = rt
            .task("pairs")
            .operands((read(&samples), write(&answers)))
            .cpu(move |(samples, mut answers)| {
                let search = hosted.search.get_or_init(|| PairSearch::new(&plan, &hosted.basis));
                let search = search.as_ref().map_err(|e| e.to_string())?;
                let each = samples.chunks_exact(samples.len() / singles.len()).zip(&singles);
                let decide = |(samples, &single)| AcceptedPair::of(&search.decide(samples, single));
                answers.put(each.map(decide).collect());
                Ok::<(), String>(())
            })
            .submit()?;
        self.batches.add(task, tickets, answers);
        Ok(())
    }
}

fn by_ticket<T, A>((tickets, answers): Answered<T, A>) -> impl Iterator<Item = (T, A)> {
    tickets.into_iter().zip(answers)
}
