//! Proof that a point is the best of all: the points that the error bound of a screen leaves in
//! question.

mod bound;

use zellige_kernels::distance::{LANES, Metric, Shape, sums};

use super::segment::{Best, Block, THOUSAND, figure_of_merit, in_two_parts};
use bound::Bound;

/// Upper bound of the relative rounding error of a figure of merit in `f64`.
const REFERENCE: f64 = 1e-12;
/// Limit of the samples in a proof (charges): the bounds are for differences below 16.
const LARGEST: f32 = 7.0;

/// A screen by the bits of differences, with the error bounds of its sums.
#[derive(Clone, Debug)]
pub(super) struct Proof {
    p: f64,
    bits: (Metric, Bound),
    /// Metric and bound of the polynomials, for exponents with a known bound.
    polynomials: Option<(Metric, Bound)>,
}

const SIZES: &str = "blocks and events have been checked";

impl Proof {
    /// Creates the proof for an exponent from 0 to 1 and signals of a shape.
    pub fn new(p: f64, shape: Shape) -> Proof {
        let polynomials = Bound::of_polynomials(p, shape).map(|bound| (Metric::polynomials(p), bound));
        Proof { p, bits: (Metric::bits(p), Bound::of_bits(p, shape)), polynomials }
    }

    /// Computes the sums of all points for several events. Returns the error of each event's
    /// samples, infinity if they are too large for a proof.
    pub fn screen(&self, block: &Block, events: &[&[f64]], out: &mut [f32]) -> Vec<f64> {
        let (mut high, mut low) = (Vec::new(), Vec::new());
        let lost = events.iter().map(|event| {
            let first = high.len();
            let lost = in_two_parts(event, self.p, &mut high, &mut low);
            let fits = high[first..].iter().all(|x: &f32| x.abs() < LARGEST);
            if fits { lost } else { f64::INFINITY }
        });
        let lost = lost.collect();
        sums(&self.bits.0, block.values(false), block.shape(), &high, &low, &mut [], out).expect(SIZES);
        lost
    }

    /// Returns an upper bound of the second smallest figure of merit of all points, from the two
    /// points with the smallest sums.
    fn limit(&self, block: &Block, samples: &[f64], sums: &[f32]) -> f64 {
        let mut best = Best::default();
        best.restart(2);
        best.offer_all(sums);
        let fom = |&(_, point): &(f64, usize)| figure_of_merit(block, point, samples, self.p);
        best.ranking().iter().map(fom).fold(0.0, f64::max) * (1.0 + REFERENCE)
    }

    /// Returns the points that can be the best or the second of all; `None` if there are more than
    /// `cap` of them.
    pub fn in_question(
        &self,
        block: &Block,
        samples: &[f64],
        sums: &[f32],
        lost: f64,
        cap: usize,
    ) -> Option<Vec<usize>> {
        if lost.is_infinite() || block.most() >= LARGEST {
            return None;
        }
        let limit = self.limit(block, samples, sums) / self.unit();
        let possible = |sum: f32| self.bits.1.least(f64::from(sum), lost) <= limit;
        let points: Vec<usize> = (0..sums.len()).filter(|&point| possible(sums[point])).collect();
        if points.len() > cap {
            return None;
        }
        Some(match &self.polynomials {
            Some(second) => self.narrow(second, block, samples, &points),
            None => points,
        })
    }

    /// Returns those of some points that can be the best or the second of them, by the polynomials.
    fn narrow(
        &self,
        (metric, bound): &(Metric, Bound),
        block: &Block,
        samples: &[f64],
        points: &[usize],
    ) -> Vec<usize> {
        let (mut high, mut low, mut few) = (Vec::new(), Vec::new(), block.few());
        let lost = in_two_parts(samples, self.p, &mut high, &mut low);
        let mut sums_of = Vec::with_capacity(points.len());
        for points in points.chunks(LANES) {
            let mut lanes = [0.0; LANES];
            block.gather(points, &mut few);
            sums(metric, few.values(false), block.shape(), &high, &low, &mut [], &mut lanes).expect(SIZES);
            sums_of.extend(lanes[..points.len()].iter().map(|&sum| f64::from(sum)));
        }
        let mut best = Best::default();
        best.restart(2);
        sums_of.iter().zip(points).for_each(|(&sum, &point)| best.offer(sum, point));
        let limit = best.ranking().iter().map(|&(sum, _)| bound.most(sum, lost)).fold(0.0, f64::max);
        let possible = points.iter().zip(&sums_of).filter(|&(_, &sum)| bound.least(sum, lost) <= limit);
        possible.map(|(&point, _)| point).collect()
    }

    /// Returns whether `best`, one of some points, is the best of all. The smallest sum of the
    /// other points, `next`, must exclude these, and no other of the given points may be better in
    /// `f64`.
    pub fn holds(
        &self,
        block: &Block,
        samples: &[f64],
        points: &[usize],
        best: usize,
        next: Option<f64>,
        lost: f64,
    ) -> bool {
        if lost.is_infinite() || block.most() >= LARGEST {
            return false;
        }
        let fom: f64 = figure_of_merit(block, best, samples, self.p);
        let others =
            next.is_none_or(|sum| self.bits.1.least(sum, lost) * self.unit() > fom * (1.0 + REFERENCE));
        others
            && points.iter().filter(|&&point| point != best).all(|&point| {
                let other: f64 = figure_of_merit(block, point, samples, self.p);
                (fom, best) < (other, point)
            })
    }

    /// Returns the factor that converts a figure of merit from units of the charge.
    fn unit(&self) -> f64 {
        THOUSAND.powf(self.p)
    }
}
