//! Search for one batch of events in one segment: the computation of a task.

use zellige_kernels::distance::{LANES, Metric, Pairs, products, sums, sums_of_pairs};

use super::best::Best;
use super::block::Block;
use super::events::narrowed;
use super::found::{Flags, Found};
use super::lattice::Lattice;
use super::nearest::{Nearby, Nearest};
use super::plan::{Method, Metrics, Plan, Stage};
use super::proof::Proof;
use super::reference::figure_of_merit;

/// Number of events that are compared with a block at a time: their sums stay in a core's cache.
const AT_A_TIME: usize = 32;
/// Ratio to the smallest figure of merit up to which others count as near it.
pub(super) const NEAR: f64 = 1.02;

/// Positions of the points of a segment, and the lattice of coarse points.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// Positions of the points (mm).
    pub positions: Vec<[f32; 3]>,
    /// Coarse points, with the fine points around each.
    pub lattice: Lattice,
}

impl Map {
    /// Creates the map of points at `positions` (mm).
    pub fn new(positions: &[[f32; 3]]) -> Map {
        Map { positions: positions.to_vec(), lattice: Lattice::new(positions) }
    }
}

/// Search engine of one segment.
pub(super) struct Engine<'a> {
    plan: &'a Plan,
    map: &'a Map,
    first: Side<'a>,
    last: Side<'a>,
    proof: Option<&'a Proof>,
    best: Best,
    /// Figures of merit of the points that were compared last.
    scored: Vec<(f64, usize)>,
    sums: Vec<f32>,
}

/// A stage of the search: the data that it compares, and its buffers.
struct Side<'a> {
    block: &'a Block,
    metric: &'a Metric,
    /// Selection of the nearest points, if sums of all points are computed by matrix products.
    nearest: Option<Nearest>,
    is_double: bool,
    /// Factor that converts a sum to a figure of merit.
    unit: f64,
    few: Block,
    event: Vec<f32>,
    scratch: Vec<f32>,
    p: f64,
}

const SIZES: &str = "blocks and events have been checked";

impl<'a> Side<'a> {
    fn new(plan: &Plan, stage: Stage, block: &'a Block, metrics: &'a Metrics) -> Self {
        let metric = metrics.of(plan, stage, block.scale());
        let unit = plan.unit(metric, block.scale());
        let nearest = plan.is_product(stage).then(|| Nearest::new(block.squares(), block.shape()));
        let scratch = vec![0.0; block.values(true).scratch_len(block.shape())];
        let (few, event, is_double) = (block.few(), Vec::new(), plan.is_double(stage));
        Side { block, metric, nearest, is_double, unit, few, event, scratch, p: plan.p }
    }

    /// Computes the sums of all points for several events.
    fn all(&mut self, events: &[&[f64]], out: &mut [f32]) {
        self.event.clear();
        events.iter().for_each(|event| narrowed(event, self.block, &mut self.event));
        let (shape, scratch) = (self.block.shape(), &mut self.scratch);
        if self.nearest.is_some() {
            let (values, squares) = (self.block.values(false), self.block.squares());
            products(values, squares, shape, &self.event, scratch, out).expect(SIZES);
        } else {
            sums(self.metric, self.block.values(true), shape, &self.event, &[], scratch, out).expect(SIZES);
        }
    }

    /// Returns the points with the smallest direct sums, by number, from sums of products; `None`
    /// if sums are direct.
    fn nearest(&mut self, samples: &[f64], sums: &[f32], keep: usize) -> Option<Vec<usize>> {
        let nearest = self.nearest.as_mut()?;
        self.event.clear();
        narrowed(samples, self.block, &mut self.event);
        let Nearby { mut sure, mut doubtful, wanted } = nearest.find(&self.event, sums, keep);
        if wanted < doubtful.len() {
            let mut direct = Vec::new();
            self.some(samples, &doubtful, &mut direct);
            direct.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            doubtful = direct[..wanted].iter().map(|&(_, point)| point).collect();
        }
        sure.append(&mut doubtful);
        sure.sort_unstable();
        Some(sure)
    }

    /// Computes the figures of merit of the requested points of each event, in ascending order of
    /// the points. Returns `None` if the events request too few points for a joint pass over the
    /// block.
    fn of_each(&mut self, events: &[&[f64]], wanted: &[Vec<usize>]) -> Option<Vec<(f64, usize)>> {
        let points = wanted.concat();
        let blocks = self.block.stride() / LANES;
        if self.is_double || (points.len() as f64) < DENSE * (blocks * events.len()) as f64 {
            return None;
        }
        self.event.clear();
        events.iter().for_each(|event| narrowed(event, self.block, &mut self.event));
        let ends = wanted.iter().scan(0, |end, points| {
            *end += points.len();
            Some(*end)
        });
        let (ends, mut lanes): (Vec<usize>, _) = (ends.collect(), vec![0.0; points.len()]);
        let (values, shape) = (self.block.values(false), self.block.shape());
        let pairs = Pairs { points: &points, ends: &ends };
        sums_of_pairs(self.metric, values, shape, &self.event, pairs, &mut self.scratch, &mut lanes)
            .expect(SIZES);
        Some(lanes.iter().zip(points).map(|(&sum, point)| (f64::from(sum) * self.unit, point)).collect())
    }

    /// Computes the figures of merit of some points for one event. They are identical, to the bit,
    /// to those of a search of all points.
    fn some(&mut self, samples: &[f64], points: &[usize], out: &mut Vec<(f64, usize)>) {
        out.clear();
        if self.is_double {
            let fom = |&point| (figure_of_merit(self.block, point, samples, self.p), point);
            out.extend(points.iter().map(fom));
            return;
        }
        self.event.clear();
        narrowed(samples, self.block, &mut self.event);
        let mut lanes = [0.0; LANES];
        for points in points.chunks(LANES) {
            self.block.gather(points, &mut self.few);
            // Products read `f16` samples with sums in `f32`; direct sums must do the same.
            let (values, shape) = (self.few.values(self.nearest.is_none()), self.block.shape());
            sums(self.metric, values, shape, &self.event, &[], &mut self.scratch, &mut lanes).expect(SIZES);
            out.extend(points.iter().zip(lanes).map(|(&point, sum)| (f64::from(sum) * self.unit, point)));
        }
    }
}

/// Mean number of points per block of sixteen and event from which several events share a pass over
/// the block.
const DENSE: f64 = 0.5;

impl<'a> Engine<'a> {
    /// Creates an engine with the segment's signals in the formats of a plan's stages; `proof` is
    /// needed if the plan must prove its answers.
    pub fn new(
        plan: &'a Plan,
        metrics: &'a Metrics,
        map: &'a Map,
        [first, last]: [&'a Block; 2],
        proof: Option<&'a Proof>,
    ) -> Self {
        let first = Side::new(plan, Stage::First, first, metrics);
        let last = Side::new(plan, Stage::Last, last, metrics);
        Engine { plan, map, first, last, proof, best: Best::default(), scored: Vec::new(), sums: Vec::new() }
    }

    /// Returns the answer for each event. The samples of the events follow one after the other;
    /// `coarse_only` marks the events for which only coarse points are compared.
    pub fn run(&mut self, samples: &[f64], coarse_only: &[bool]) -> Vec<Found> {
        let events: Vec<&[f64]> = samples.chunks_exact(self.last.block.shape().terms()).collect();
        match self.plan.method {
            Method::CoarseFine { cells } => {
                let each = |(event, &only): (&&[f64], &bool)| self.coarse_fine(event, cells, only);
                events.iter().zip(coarse_only).map(each).collect()
            }
            Method::Full if self.last.is_double => {
                events.into_iter().map(|event| self.full_double(event)).collect()
            }
            _ => events.chunks(AT_A_TIME).flat_map(|events| self.batch(events)).collect(),
        }
    }

    /// Searches several events at a time by a method that compares all points first.
    fn batch(&mut self, events: &[&[f64]]) -> Vec<Found> {
        let (stride, points) = (self.first.block.stride(), self.first.block.points());
        // The buffer is reused: fresh memory of this size costs a page fault every few points.
        let mut all = std::mem::take(&mut self.sums);
        all.resize(events.len() * stride, 0.0);
        let sums = &mut all[..];
        let lost = match self.proof {
            Some(proof) => proof.screen(self.first.block, events, sums),
            None => {
                self.first.all(events, sums);
                Vec::new()
            }
        };
        let of_event = |e: usize| &sums[e * stride..][..points];
        let each = events.iter().enumerate();
        let found = match (self.plan.method, self.proof) {
            (Method::Screen { keep, .. }, None) => self.screened_together(events, of_event, keep),
            (Method::Screen { keep, .. }, Some(proof)) => {
                each.map(|(e, event)| self.certified(event, of_event(e), keep, proof, lost[e])).collect()
            }
            (Method::Exact { cap }, Some(proof)) => {
                each.map(|(e, event)| self.exact(event, of_event(e), proof, lost[e], cap)).collect()
            }
            _ => each.map(|(e, _)| self.full(of_event(e))).collect(),
        };
        self.sums = all;
        found
    }

    fn full(&mut self, sums: &[f32]) -> Found {
        self.best.restart(2);
        self.best.offer_all(sums);
        let unit = self.last.unit;
        let best = self.best.found()[0].0;
        let limit = (best * NEAR) as f32;
        self.scored.clear();
        let near = sums.iter().enumerate().filter(|&(_, &sum)| sum <= limit);
        self.scored.extend(near.map(|(point, &sum)| (f64::from(sum) * unit, point)));
        let two: Vec<_> = self.best.found().iter().map(|&(sum, point)| (sum * unit, point)).collect();
        self.answer(&two, Flags::default())
    }

    fn full_double(&mut self, samples: &[f64]) -> Found {
        let all: Vec<usize> = (0..self.last.block.points()).collect();
        self.last.some(samples, &all, &mut self.scored);
        self.best_of_scored(Flags::default())
    }

    /// Returns the best of the points that were compared last.
    fn best_of_scored(&mut self, flags: Flags) -> Found {
        self.best.restart(2);
        for &(fom, point) in &self.scored {
            self.best.offer(fom, point);
        }
        let two = self.best.found().to_vec();
        self.answer(&two, flags)
    }

    /// Builds the answer from the best and the second point, and the points that were compared
    /// last.
    fn answer(&self, two: &[(f64, usize)], flags: Flags) -> Found {
        let (fom, index) = two[0];
        let (second, gap) = two.get(1).map_or((None, f64::INFINITY), |&(other, i)| (Some(i), other - fom));
        let place = self.map.positions[index];
        let square = |at: [f32; 3]| at.iter().zip(place).map(|(x, y)| f64::from(x - y).powi(2)).sum::<f64>();
        let near = self.scored.iter().filter(|(other, _)| *other <= fom * NEAR);
        let (count, sum) =
            near.fold((0, 0.0), |(count, sum), &(_, i)| (count + 1, sum + square(self.map.positions[i])));
        let spread = (sum / f64::from(count.max(1))).sqrt();
        Found { index, fom, second, gap, spread, flags: flags.with_if(gap == 0.0, Flags::TIE) }
    }

    /// Compares the coarse points, then the fine ones around the best of them.
    fn coarse_fine(&mut self, samples: &[f64], cells: usize, coarse_only: bool) -> Found {
        let lattice = &self.map.lattice;
        if coarse_only {
            self.last.some(samples, &lattice.coarse, &mut self.scored);
            return self.best_of_scored(Flags::COARSE_ONLY);
        }
        self.first.some(samples, &lattice.coarse, &mut self.scored);
        self.best.restart(cells);
        for (cell, &(fom, _)) in self.scored.iter().enumerate() {
            self.best.offer(fom, cell);
        }
        let cells = self.best.found().iter().map(|&(_, cell)| cell);
        let mut points: Vec<usize> =
            cells.flat_map(|cell| lattice.fine[cell].iter().copied().chain([lattice.coarse[cell]])).collect();
        points.sort_unstable();
        points.dedup();
        self.last.some(samples, &points, &mut self.scored);
        self.best_of_scored(Flags::default())
    }

    /// Returns the points with the smallest sums, and the smallest sum of the other points.
    fn smallest(&mut self, sums: &[f32], keep: usize) -> (Vec<usize>, Option<f64>) {
        self.best.restart(keep + 1);
        self.best.offer_all(sums);
        let found = self.best.found();
        let points = found.iter().take(keep).map(|&(_, point)| point).collect();
        (points, found.get(keep).map(|&(sum, _)| sum))
    }

    /// Returns the best of the points that a screen has kept, for several events.
    fn screened_together<'s>(
        &mut self,
        events: &[&[f64]],
        sums: impl Fn(usize) -> &'s [f32],
        keep: usize,
    ) -> Vec<Found> {
        let kept = |(e, event): (usize, &&[f64])| match self.first.nearest(event, sums(e), keep) {
            Some(points) => points,
            None => {
                let (mut points, _) = self.smallest(sums(e), keep);
                points.sort_unstable();
                points
            }
        };
        let kept: Vec<Vec<usize>> = events.iter().enumerate().map(kept).collect();
        let together = self.last.of_each(events, &kept);
        let mut rest = together.as_deref().unwrap_or_default();
        let found = events.iter().zip(&kept).map(|(event, points)| {
            if together.is_some() {
                let (of_event, others) = rest.split_at(points.len());
                self.scored.clear();
                self.scored.extend_from_slice(of_event);
                rest = others;
            } else {
                self.last.some(event, points, &mut self.scored);
            }
            self.best_of_scored(Flags::default())
        });
        found.collect()
    }

    /// Returns the best of the points that a screen has kept, and flags it if it is proven to be
    /// the best of all; `lost` is the error of the event's samples.
    fn certified(&mut self, samples: &[f64], sums: &[f32], keep: usize, proof: &Proof, lost: f64) -> Found {
        let (points, next) = self.smallest(sums, keep);
        self.last.some(samples, &points, &mut self.scored);
        let mut found = self.best_of_scored(Flags::default());
        let proven = proof.holds(self.last.block, samples, &points, &found, next, lost);
        found.flags = found.flags.with_if(proven, Flags::CERTIFIED);
        found
    }

    /// Returns the best of all points, by a screen with a known error.
    fn exact(&mut self, samples: &[f64], sums: &[f32], proof: &Proof, lost: f64, cap: usize) -> Found {
        let points = proof.in_question(self.last.block, samples, sums, lost, cap);
        let (points, flags) = match points {
            Some(points) => (points, Flags::CERTIFIED),
            None => ((0..sums.len()).collect(), Flags::CERTIFIED.with(Flags::FELL_BACK)),
        };
        let fom = |&point: &usize| (figure_of_merit(self.last.block, point, samples, self.plan.p), point);
        self.scored.clear();
        self.scored.extend(points.iter().map(fom));
        self.best_of_scored(flags)
    }
}
