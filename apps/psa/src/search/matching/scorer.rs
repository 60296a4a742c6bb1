//! Figures of merit of points in one stage of a search.

use zellige_kernels::distance::{LANES, Metric, Pairs, products, sums, sums_of_pairs};

use super::nearest::{Nearby, Nearest};
use super::plan::{Metrics, Plan, Stage};
use crate::search::segment::{Block, figure_of_merit, narrowed};

/// Mean number of points per block of sixteen and event from which several events share a pass over
/// the block.
const DENSE: f64 = 0.5;

/// Computes sums and figures of merit of points in one stage of a search.
pub(super) struct Scorer<'a> {
    pub block: &'a Block,
    metric: &'a Metric,
    /// Selection of the nearest points, if sums of all points are computed by matrix products.
    nearest: Option<Nearest>,
    pub is_double: bool,
    /// Factor that converts a sum to a figure of merit.
    pub unit: f64,
    few: Block,
    event: Vec<f32>,
    scratch: Vec<f32>,
    p: f64,
}

const SIZES: &str = "blocks and events have been checked";

impl<'a> Scorer<'a> {
    pub fn new(plan: &Plan, stage: Stage, block: &'a Block, metrics: &'a Metrics) -> Self {
        let metric = metrics.of(plan, stage, block.scale());
        let unit = plan.unit(metric, block.scale());
        let nearest = plan.is_product(stage).then(|| Nearest::new(block.squares(), block.shape()));
        let scratch = vec![0.0; block.values(true).scratch_len(block.shape())];
        let (few, event, is_double) = (block.few(), Vec::new(), plan.is_double(stage));
        Scorer { block, metric, nearest, is_double, unit, few, event, scratch, p: plan.p }
    }

    /// Computes the sums of all points for several events.
    pub fn all(&mut self, events: &[&[f64]], out: &mut [f32]) {
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
    pub fn nearest(&mut self, samples: &[f64], sums: &[f32], keep: usize) -> Option<Vec<usize>> {
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
    pub fn of_each(&mut self, events: &[&[f64]], wanted: &[Vec<usize>]) -> Option<Vec<(f64, usize)>> {
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
    pub fn some(&mut self, samples: &[f64], points: &[usize], out: &mut Vec<(f64, usize)>) {
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
