//! Search for one batch of events in one segment: the computation of a task.

use super::best_match::{Flags, Match};
use super::plan::{Method, Metrics, Plan, Stage};
use super::scorer::Scorer;
use crate::search::proof::Proof;
use crate::search::segment::{Best, Block, PointGrid, figure_of_merit};

/// Number of events that are compared with a block at a time: their sums stay in a core's cache.
const AT_A_TIME: usize = 32;
/// Ratio to the smallest figure of merit up to which others count as near it.
pub(in crate::search) const NEAR: f64 = 1.02;

/// Search engine of one segment.
pub(in crate::search) struct Engine<'a> {
    plan: &'a Plan,
    grid: &'a PointGrid,
    first: Scorer<'a>,
    last: Scorer<'a>,
    proof: Option<&'a Proof>,
    best: Best,
    /// Figures of merit of the points that were compared last.
    scored: Vec<(f64, usize)>,
    sums: Vec<f32>,
}

impl<'a> Engine<'a> {
    /// Creates an engine with the segment's signals in the formats of a plan's stages; `proof` is
    /// needed if the plan must prove its answers.
    pub fn new(
        plan: &'a Plan,
        metrics: &'a Metrics,
        grid: &'a PointGrid,
        [first, last]: [&'a Block; 2],
        proof: Option<&'a Proof>,
    ) -> Self {
        let first = Scorer::new(plan, Stage::First, first, metrics);
        let last = Scorer::new(plan, Stage::Last, last, metrics);
        Engine { plan, grid, first, last, proof, best: Best::default(), scored: Vec::new(), sums: Vec::new() }
    }

    /// Returns the answer for each event. The samples of the events follow one after the other;
    /// `coarse_only` marks the events for which only coarse points are compared.
    pub fn run(&mut self, samples: &[f64], coarse_only: &[bool]) -> Vec<Match> {
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
    fn batch(&mut self, events: &[&[f64]]) -> Vec<Match> {
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
        let answers = match (self.plan.method, self.proof) {
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
        answers
    }

    fn full(&mut self, sums: &[f32]) -> Match {
        self.best.restart(2);
        self.best.offer_all(sums);
        let unit = self.last.unit;
        let best = self.best.ranking()[0].0;
        let limit = (best * NEAR) as f32;
        self.scored.clear();
        let near = sums.iter().enumerate().filter(|&(_, &sum)| sum <= limit);
        self.scored.extend(near.map(|(point, &sum)| (f64::from(sum) * unit, point)));
        let two: Vec<_> = self.best.ranking().iter().map(|&(sum, point)| (sum * unit, point)).collect();
        self.answer(&two, Flags::default())
    }

    fn full_double(&mut self, samples: &[f64]) -> Match {
        let all: Vec<usize> = (0..self.last.block.points()).collect();
        self.last.some(samples, &all, &mut self.scored);
        self.best_of_scored(Flags::default())
    }

    /// Returns the best of the points that were compared last.
    fn best_of_scored(&mut self, flags: Flags) -> Match {
        self.best.restart(2);
        for &(fom, point) in &self.scored {
            self.best.offer(fom, point);
        }
        let two = self.best.ranking().to_vec();
        self.answer(&two, flags)
    }

    /// Builds the answer from the best and the second point, and the points that were compared
    /// last.
    fn answer(&self, two: &[(f64, usize)], flags: Flags) -> Match {
        let (fom, index) = two[0];
        let (second, gap) = two.get(1).map_or((None, f64::INFINITY), |&(other, i)| (Some(i), other - fom));
        let place = self.grid.positions[index];
        let square = |at: [f32; 3]| at.iter().zip(place).map(|(x, y)| f64::from(x - y).powi(2)).sum::<f64>();
        let near = self.scored.iter().filter(|(other, _)| *other <= fom * NEAR);
        let (count, sum) =
            near.fold((0, 0.0), |(count, sum), &(_, i)| (count + 1, sum + square(self.grid.positions[i])));
        let spread = (sum / f64::from(count.max(1))).sqrt();
        Match { index, fom, second, gap, spread, flags: flags.with_if(gap == 0.0, Flags::TIE) }
    }

    /// Compares the coarse points, then the fine ones around the best of them.
    fn coarse_fine(&mut self, samples: &[f64], cells: usize, coarse_only: bool) -> Match {
        let lattice = &self.grid.lattice;
        if coarse_only {
            self.last.some(samples, &lattice.coarse, &mut self.scored);
            return self.best_of_scored(Flags::COARSE_ONLY);
        }
        self.first.some(samples, &lattice.coarse, &mut self.scored);
        self.best.restart(cells);
        for (cell, &(fom, _)) in self.scored.iter().enumerate() {
            self.best.offer(fom, cell);
        }
        let cells = self.best.ranking().iter().map(|&(_, cell)| cell);
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
        let ranking = self.best.ranking();
        let points = ranking.iter().take(keep).map(|&(_, point)| point).collect();
        (points, ranking.get(keep).map(|&(sum, _)| sum))
    }

    /// Returns the best of the points that a screen has kept, for several events.
    fn screened_together<'s>(
        &mut self,
        events: &[&[f64]],
        sums: impl Fn(usize) -> &'s [f32],
        keep: usize,
    ) -> Vec<Match> {
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
        let answers = events.iter().zip(&kept).map(|(event, points)| {
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
        answers.collect()
    }

    /// Returns the best of the points that a screen has kept, and flags it if it is proven to be
    /// the best of all; `lost` is the error of the event's samples.
    fn certified(&mut self, samples: &[f64], sums: &[f32], keep: usize, proof: &Proof, lost: f64) -> Match {
        let (points, next) = self.smallest(sums, keep);
        self.last.some(samples, &points, &mut self.scored);
        let mut answer = self.best_of_scored(Flags::default());
        let proven = proof.holds(self.last.block, samples, &points, answer.index, next, lost);
        answer.flags = answer.flags.with_if(proven, Flags::CERTIFIED);
        answer
    }

    /// Returns the best of all points, by a screen with a known error.
    fn exact(&mut self, samples: &[f64], sums: &[f32], proof: &Proof, lost: f64, cap: usize) -> Match {
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
