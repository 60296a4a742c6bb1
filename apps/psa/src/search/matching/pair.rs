//! Search for two hits in one segment, by sums of the signals of two points.
//!
//! An event with hits at points `i` and `j` that share its energy as `f` and `1 - f` has the
//! signals `f r_i + (1 - f) r_j`. The `f` with the least sum of squares has a closed form: `f =
//! <v - r_j, r_i - r_j> / <r_i - r_j, r_i - r_j>`. It needs the products `<r_i, r_j>` of the basis'
//! signals with each other, which do not depend on the event, and the products `<v, r_i>` with the
//! event's signals. Therefore a pair costs a few operations, for any length of the signals, and all
//! pairs of coarse points are tried, as in GRETINA's decomposition.
//!
//! A hit between points of the lattice also resembles a sum of two of them. Therefore a pair must
//! be better than the best single point, and also better than the best sum of two points that are
//! too close to be a pair.

use zellige_kernels::vectors::dot;

use super::best_match::Match;
use super::plan::Plan;
use super::prepared::Prepared;
use crate::Error;
use crate::basis::SegmentBasis;
use crate::search::segment::{Best, Lattice, SegmentEvents, THOUSAND, power_sum};

/// Parameters of the search for pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairPlan {
    /// Plan of the search for one hit; its exponent is also that of the figures of merit of pairs.
    pub single: Plan,
    /// Number of the best pairs of coarse points from which the refinement starts.
    pub keep: usize,
    /// Minimum share of the energy of each hit, 0 to 0.5.
    pub least_share: f64,
    /// Minimum distance of two hits (mm); closer hits count as one.
    pub apart: f64,
    /// Factor by which the figure of merit as one hit must exceed that as two hits for an event to
    /// be a pair.
    pub penalty: f64,
}

impl Default for PairPlan {
    /// The best 8 pairs, at least 10 % of the energy for each hit, 5 mm apart, a penalty of 1.05.
    /// Up to 2 % of simulated events with one hit of 150 keV to 1.5 MeV are then classified as
    /// pairs (`docs/explanation/psa-search.md`).
    fn default() -> Self {
        PairPlan { single: Plan::default(), keep: 8, least_share: 0.1, apart: 5.0, penalty: 1.05 }
    }
}

impl PairPlan {
    /// Refuses invalid plans.
    ///
    /// # Errors
    /// [`Error::Parameter`] with the invalid parameter.
    pub(in crate::search) fn check(&self) -> Result<(), Error> {
        let wrong = |name, problem: &str| Err(Error::Parameter { name, problem: problem.into() });
        if self.keep == 0 {
            return wrong("pairs kept", "at least one pair must be kept");
        }
        if !(0.0..=0.5).contains(&self.least_share) {
            return wrong("least share", "give a fraction of the energy from 0 to 0.5");
        }
        if !(self.apart >= 0.0 && self.apart.is_finite()) {
            return wrong("distance of pairs", "give mm, 0 or more");
        }
        if self.penalty.is_nan() || self.penalty < 1.0 {
            return wrong("penalty", "a factor of 1 or more is needed");
        }
        Ok(())
    }
}

/// Answers for an event as one hit and as two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairMatch {
    /// The two points, the lower number first; the same one twice if no two points are far enough
    /// apart.
    pub points: [usize; 2],
    /// Share of the energy of the first point.
    pub share: f64,
    /// Figure of merit of the sum of the two, for a charge of 1000; infinite if there is no pair.
    pub fom: f64,
    /// Answer for one hit.
    pub single: Match,
    /// Figure of merit as one hit between points of the lattice: that of the sum of two points that
    /// are too close to be a pair, or that of `single` if it is smaller.
    pub fom_of_one: f64,
    /// Whether two hits explain the event better than one, by more than the penalty.
    pub is_pair: bool,
}

/// Search for pairs in a segment. It holds the products of all points with each other, 8 bytes for
/// each: 14 MB for 1300 points.
#[derive(Clone, Debug)]
pub struct PairSearch {
    plan: PairPlan,
    prepared: Prepared,
    basis: SegmentBasis,
    coarse: Vec<usize>,
    /// Mean of all signals. Subtracting it everywhere does not change sums of two shares that add
    /// up to 1, and reduces the loss of digits.
    mean: Vec<f64>,
    /// Signals minus the mean.
    centred: Vec<f64>,
    /// Products of the centred signals (Gram matrix).
    gram: Vec<f64>,
}

/// A pair and its share.
type Scored = ([usize; 2], f64);

/// Limit of the moves of the two points of a pair, more than needed.
const MOVES: usize = 50;

impl PairSearch {
    /// Creates the search from a segment's basis.
    ///
    /// # Errors
    /// [`Error::Parameter`] for an invalid plan, [`Error::Shape`] for a segment without points or
    /// samples.
    pub fn new(plan: &PairPlan, basis: &SegmentBasis) -> Result<PairSearch, Error> {
        plan.check()?;
        let prepared = Prepared::new(&plan.single, basis)?;
        let (points, terms) = (basis.positions().len(), basis.channels() * basis.samples());
        let mut mean = vec![0.0; terms];
        for point in 0..points {
            mean.iter_mut().zip(basis.point(point)).for_each(|(mean, &x)| *mean += f64::from(x));
        }
        mean.iter_mut().for_each(|mean| *mean /= points as f64);
        let centred = |point| basis.point(point).iter().zip(&mean).map(|(&x, mean)| f64::from(x) - mean);
        let centred: Vec<f64> = (0..points).flat_map(centred).collect();
        let mut gram = vec![0.0; points * points];
        for i in 0..points {
            for j in 0..=i {
                let product = dot(&centred[i * terms..][..terms], &centred[j * terms..][..terms]);
                (gram[i * points + j], gram[j * points + i]) = (product, product);
            }
        }
        let coarse = Lattice::new(basis.positions()).coarse;
        Ok(PairSearch { plan: *plan, prepared, basis: basis.clone(), coarse, mean, centred, gram })
    }

    /// Returns the answer for each event as one hit and as two. Of pairs with equal figures of
    /// merit, that with the lowest numbers is chosen. An answer does not depend on the other
    /// events.
    ///
    /// All pairs of coarse points are compared with an event by the sum of squares. The best of
    /// them are refined: the two points move in turn to the position in the segment with the
    /// smallest sum, until there is no improvement. The figure of merit, in `f64`, selects among
    /// the resulting pairs.
    ///
    /// # Errors
    /// [`Error::Shape`] if events have other channels or samples than the basis.
    pub fn search(&self, events: &SegmentEvents) -> Result<Vec<PairMatch>, Error> {
        let singles = self.prepared.search(events, &[])?;
        let mut best = Best::default();
        let decide = |(event, single)| self.search_one(events.samples(event), single, &mut best);
        Ok(singles.into_iter().enumerate().map(decide).collect())
    }

    /// Searches for a pair in an event and decides between one hit and two, given the answer for
    /// one hit.
    pub(in crate::search) fn decide(&self, samples: &[f64], single: Match) -> PairMatch {
        self.search_one(samples, single, &mut Best::default())
    }

    fn search_one(&self, samples: &[f64], single: Match, best: &mut Best) -> PairMatch {
        let event = Products::new(self, samples);
        let points = event.diagonal.len();
        best.restart(self.plan.keep);
        for (at, &i) in self.coarse.iter().enumerate() {
            for &j in self.coarse[at + 1..].iter().filter(|&&j| self.are_apart(i, j)) {
                best.offer(event.fit(i, j).1, i * points + j);
            }
        }
        let apart = |i, j| self.are_apart(i, j);
        let refined = |&(_, pair): &(f64, usize)| refined(&event, [pair / points, pair % points], apart);
        let mut pairs: Vec<_> = best.ranking().iter().map(refined).collect();
        pairs.sort_by_key(|&(points, _)| points);
        pairs.dedup_by_key(|&mut (points, _)| points);
        let fom_of_one = single.fom.min(self.between(&event, samples, single.index));
        let none = PairMatch {
            points: [single.index; 2],
            share: 1.0,
            fom: f64::INFINITY,
            single,
            fom_of_one,
            is_pair: false,
        };
        let better = |best: PairMatch, (points, share): Scored| {
            let fom = self.figure_of_merit(samples, points, share);
            if fom < best.fom { PairMatch { points, share, fom, ..best } } else { best }
        };
        let best = pairs.into_iter().fold(none, better);
        PairMatch { is_pair: fom_of_one > self.plan.penalty * best.fom, ..best }
    }

    /// Returns the figure of merit of a hit between two points that are close to each other,
    /// starting from the given point.
    fn between(&self, event: &Products<'_>, samples: &[f64], point: usize) -> f64 {
        let close = |i, j| i != j && !self.are_apart(i, j);
        let (points, share) = refined(event, [point; 2], close);
        self.figure_of_merit(samples, points, share)
    }

    fn are_apart(&self, i: usize, j: usize) -> bool {
        let [a, b] = [i, j].map(|point| self.basis.positions()[point]);
        let square: f64 = a.iter().zip(b).map(|(x, y)| f64::from(x - y).powi(2)).sum();
        i != j && square >= self.plan.apart * self.plan.apart
    }

    /// Returns the figure of merit of the sum of two points.
    fn figure_of_merit(&self, samples: &[f64], [i, j]: [usize; 2], share: f64) -> f64 {
        let sum = |(&a, &b): (&f32, &f32)| THOUSAND * (share * f64::from(a) + (1.0 - share) * f64::from(b));
        let sums = self.basis.point(i).iter().zip(self.basis.point(j)).map(sum);
        power_sum(sums.zip(samples).map(|(sum, v)| (sum - v).abs()), self.plan.single.p)
    }
}

/// Refines a pair: moves each point in turn to the position with the smallest sum of squares among
/// those that `may` form a pair with the other. Returns the lower number first. The initial pair
/// counts even if `may` does not allow it.
fn refined(
    event: &Products<'_>,
    [mut moving, mut fixed]: [usize; 2],
    may: impl Fn(usize, usize) -> bool,
) -> Scored {
    let mut least = event.fit(moving, fixed).1;
    let mut stays = 0;
    for _ in 0..MOVES {
        let before = moving;
        for point in 0..event.diagonal.len() {
            let sum = event.fit(point, fixed).1;
            if sum < least && may(point, fixed) {
                (least, moving) = (sum, point);
            }
        }
        stays = if moving == before { stays + 1 } else { 0 };
        if stays == 2 {
            break;
        }
        (moving, fixed) = (fixed, moving);
    }
    let pair = [moving.min(fixed), moving.max(fixed)];
    (pair, event.fit(pair[0], pair[1]).0)
}

/// Products of an event that its sums of squares need.
struct Products<'a> {
    gram: &'a [f64],
    diagonal: Vec<f64>,
    /// Products with each point.
    with: Vec<f64>,
    /// Product with itself.
    own: f64,
    least_share: f64,
}

impl<'a> Products<'a> {
    fn new(search: &'a PairSearch, samples: &[f64]) -> Self {
        let event: Vec<f64> = samples.iter().zip(&search.mean).map(|(v, mean)| v / THOUSAND - mean).collect();
        let with: Vec<f64> =
            search.centred.chunks_exact(event.len()).map(|point| dot(point, &event)).collect();
        let points = with.len();
        let diagonal = (0..points).map(|i| search.gram[i * points + i]).collect();
        let own = dot(&event, &event);
        Products { gram: &search.gram, diagonal, with, own, least_share: search.plan.least_share }
    }

    /// Returns the share of `i` with the least sum of squares in a pair with `j`, and that sum.
    #[inline]
    fn fit(&self, i: usize, j: usize) -> (f64, f64) {
        let (ii, jj) = (self.diagonal[i], self.diagonal[j]);
        let ij = self.gram[j * self.diagonal.len() + i];
        let along = self.with[i] - self.with[j] - ij + jj;
        let square = ii - 2.0 * ij + jj;
        // For two points with equal signals every share is equally good.
        let best = if square > 0.0 { along / square } else { 0.5 };
        let share = best.clamp(self.least_share, 1.0 - self.least_share);
        (share, self.own - 2.0 * self.with[j] + jj + share * (share * square - 2.0 * along))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Random signals, points in a cube of 7 mm steps: all of them are coarse.
    fn random_basis(points: usize, random: &mut ChaCha8Rng) -> SegmentBasis {
        let at = |i: usize| [i % 4, i / 4 % 4, i / 16].map(|x| x as f32 * 7.0);
        let values = (0..points * 24).map(|_| random.random_range(-1.0..1.0)).collect();
        SegmentBasis::new(2, 12, (0..points).map(at).collect(), values).expect("sizes that fit")
    }

    /// Returns the sum of squares for one share, by definition.
    fn squares(basis: &SegmentBasis, event: &[f64], [i, j]: [usize; 2], share: f64) -> f64 {
        let pairs = basis.point(i).iter().zip(basis.point(j)).zip(event);
        pairs
            .map(|((&a, &b), v)| (share * f64::from(a) + (1.0 - share) * f64::from(b) - v / 1000.0).powi(2))
            .sum()
    }

    /// No pair with any share of a fine list is better than the pair that was found, and its sum of
    /// squares is correct.
    #[test]
    fn no_pair_and_no_share_is_better() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let basis = random_basis(40, &mut random);
        let plan = PairPlan { single: Plan { p: 2.0, ..Plan::default() }, keep: 3, ..PairPlan::default() };
        let search = PairSearch::new(&plan, &basis).expect("a search");
        assert_eq!(search.coarse.len(), 40);
        for _ in 0..20 {
            let samples: Vec<f32> = (0..24).map(|_| random.random_range(-1000.0..1000.0)).collect();
            let events = SegmentEvents::new(2, 12, &[1000.0], &samples).expect("an event");
            let pair = search.search(&events).expect("an answer")[0];
            let [i, j] = pair.points;
            assert!(i < j && (0.1..=0.9).contains(&pair.share));
            let own = squares(&basis, events.samples(0), pair.points, pair.share);
            assert!((pair.fom * 1e-6 / own - 1.0).abs() < 1e-9, "{} {own}", pair.fom);
            for i in 0..40 {
                for j in 0..i {
                    for step in 100..=900 {
                        let sum = squares(&basis, events.samples(0), [j, i], f64::from(step) / 1000.0);
                        assert!(sum >= own * (1.0 - 1e-9), "{i} {j} {step}: {sum} {own}");
                    }
                }
            }
        }
    }

    #[test]
    fn sums_of_two_points_are_found_with_their_shares() {
        let mut random = ChaCha8Rng::seed_from_u64(6);
        let basis = random_basis(40, &mut random);
        let search = PairSearch::new(&PairPlan::default(), &basis).expect("a search");
        for (i, j, share) in [(0, 39, 0.3), (7, 12, 0.5), (20, 21, 0.85)] {
            let sum = |(a, b): (&f32, &f32)| 500.0 * (share * a + (1.0 - share) * b);
            let samples: Vec<f32> = basis.point(i).iter().zip(basis.point(j)).map(sum).collect();
            let events = SegmentEvents::new(2, 12, &[500.0], &samples).expect("an event");
            let pair = search.search(&events).expect("an answer")[0];
            assert_eq!((pair.points, pair.is_pair), ([i, j], true));
            assert!((pair.share - f64::from(share)).abs() < 1e-6, "{}", pair.share);
        }
        let one: Vec<f32> = basis.point(17).iter().map(|x| 500.0 * x).collect();
        let pair = search
            .search(&SegmentEvents::new(2, 12, &[500.0], &one).expect("an event"))
            .expect("an answer")[0];
        assert_eq!((pair.single.index, pair.is_pair), (17, false));
    }

    #[test]
    fn of_equal_pairs_the_lowest_numbers_win() {
        // Points 3 to 5 have the signals of 0 to 2, 14 mm away.
        let at = |i: usize| [7.0 * (i % 3) as f32, 14.0 * (i / 3) as f32, 0.0];
        let signal = |i: usize| (0..6).map(move |t| ((i % 3 * 7 + t * t) % 5) as f32 / 5.0);
        let values = (0..6).flat_map(signal).collect();
        let basis = SegmentBasis::new(1, 6, (0..6).map(at).collect(), values).expect("sizes that fit");
        let search = PairSearch::new(&PairPlan::default(), &basis).expect("a search");
        let samples: Vec<f32> = signal(4).zip(signal(2)).map(|(a, b)| 50.0 * a + 50.0 * b).collect();
        let pair =
            search.search(&SegmentEvents::new(1, 6, &[100.0], &samples).expect("an event")).expect("one")[0];
        assert_eq!(pair.points, [1, 2]);
    }

    #[test]
    fn where_there_is_no_pair_there_is_one_hit() {
        let basis =
            SegmentBasis::new(1, 2, vec![[0.0; 3], [1.0, 0.0, 0.0]], vec![0.0, 1.0, 0.5, 1.0]).expect("one");
        let search = PairSearch::new(&PairPlan::default(), &basis).expect("a search");
        let events = SegmentEvents::new(1, 2, &[100.0], &[51.0, 99.0]).expect("an event");
        let pair = search.search(&events).expect("an answer")[0];
        assert_eq!((pair.points, pair.fom, pair.is_pair), ([1, 1], f64::INFINITY, false));
        assert!(search.search(&SegmentEvents::new(1, 1, &[1.0], &[1.0]).expect("an event")).is_err());
        let plan = PairPlan::default();
        for wrong in [
            PairPlan { keep: 0, ..plan },
            PairPlan { least_share: 0.6, ..plan },
            PairPlan { apart: f64::NAN, ..plan },
            PairPlan { penalty: 0.5, ..plan },
        ] {
            assert!(PairSearch::new(&wrong, &basis).is_err(), "{wrong:?}");
        }
    }
}
