//! Selection of the points with the smallest sums.

use std::cmp::Ordering;

/// The points with the smallest sums in ascending order. Of points with equal sums, those with
/// lower numbers come first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::search) struct Best {
    most: usize,
    ranking: Vec<(f64, usize)>,
    /// Smallest of each sixteen sums, in the order of the points and in another order.
    least: Vec<f32>,
    sorted: Vec<f32>,
}

const SIXTEEN: usize = 16;

/// Returns the smallest of sixteen sums by halving, with one instruction for each step.
#[inline(always)]
fn smallest(sums: &[f32; SIXTEEN]) -> f32 {
    let mut sums = *sums;
    let mut half = SIXTEEN / 2;
    while half > 0 {
        for i in 0..half {
            sums[i] = if sums[i + half] < sums[i] { sums[i + half] } else { sums[i] };
        }
        half /= 2;
    }
    sums[0]
}

/// Returns a limit that at least `most` of the sums, if there are so many, and not many more do not
/// exceed.
fn limit_by_halving(sums: &[f32], most: usize) -> f32 {
    let (mut low, mut high) =
        sums.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
    let few_more = most + most / 8;
    loop {
        let middle = low + (high - low) / 2.0;
        if sums.len() <= few_more || !(low < middle && middle < high) {
            return high;
        }
        let count = sums.iter().map(|&x| u32::from(x <= middle)).sum::<u32>() as usize;
        match count {
            _ if count < most => low = middle,
            _ if count <= few_more => return middle,
            _ => high = middle,
        }
    }
}

/// Compares by sums, and by numbers if the sums are equal.
fn in_order(a: &(f64, usize), b: &(f64, usize)) -> Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

impl Best {
    /// Clears the result for the `most` smallest sums.
    pub fn restart(&mut self, most: usize) {
        self.most = most;
        self.ranking.clear();
    }

    /// Considers the sum of a point.
    #[inline]
    pub fn offer(&mut self, sum: f64, point: usize) {
        if self.ranking.len() == self.most {
            match self.ranking.last() {
                Some(&last) if (sum, point) < last => drop(self.ranking.pop()),
                _ => return,
            }
        }
        let at = self.ranking.partition_point(|&better| better <= (sum, point));
        self.ranking.insert(at, (sum, point));
    }

    /// Finds the points with the smallest sums among all points from 0 on, and replaces the
    /// previous result.
    pub fn offer_all(&mut self, sums: &[f32]) {
        self.collect(sums);
        self.ranking.sort_unstable_by(in_order);
        self.ranking.truncate(self.most);
    }

    /// Returns the largest of the `most` smallest sums; there must be at least as many sums.
    pub fn last_of(&mut self, most: usize, sums: &[f32]) -> f64 {
        self.restart(most);
        self.collect(sums);
        self.ranking.select_nth_unstable_by(most - 1, in_order).1.0
    }

    /// Collects the requested points and a few others, in no order.
    ///
    /// Neighbouring points have similar sums, so that a sorted list of the best would change often
    /// during the pass. Instead a limit is computed first, which at least as many sums as requested
    /// and few others do not exceed. For few requested points, it is selected from the smallest of
    /// each sixteen. No requested sum exceeds it, since as many of those minima do not. For many
    /// requested points, it is found by halving.
    fn collect(&mut self, sums: &[f32]) {
        let (whole, rest) = sums.as_chunks::<SIXTEEN>();
        let last = std::array::from_fn(|i| rest.get(i).copied().unwrap_or(f32::INFINITY));
        self.least.clear();
        self.least.extend(whole.iter().chain([&last]).map(smallest));
        let limit = if 2 * self.most <= self.least.len() {
            self.sorted.clone_from(&self.least);
            *self.sorted.select_nth_unstable_by(self.most.max(1) - 1, f32::total_cmp).1
        } else {
            limit_by_halving(sums, self.most)
        };
        let mut ranking = std::mem::take(&mut self.ranking);
        ranking.clear();
        ranking.extend(self.up_to(sums, limit.into()));
        self.ranking = ranking;
    }

    /// Returns the points whose sums do not exceed a limit, by number; `sums` must be those of the
    /// last call.
    pub fn up_to<'s>(&'s self, sums: &'s [f32], limit: f64) -> impl Iterator<Item = (f64, usize)> + 's {
        let near = self.least.iter().enumerate().filter(move |&(_, &least)| f64::from(least) <= limit);
        near.flat_map(move |(at, _)| {
            let first = at * SIXTEEN;
            let few = &sums[first..sums.len().min(first + SIXTEEN)];
            few.iter().enumerate().map(move |(i, &sum)| (f64::from(sum), first + i))
        })
        .filter(move |&(sum, _)| sum <= limit)
    }

    /// Returns the pairs of sum and point.
    pub fn ranking(&self) -> &[(f64, usize)] {
        &self.ranking
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Sums take few different values, so that many are equal.
        #[test]
        fn the_smallest_are_found_in_order(sums in prop::collection::vec(0u8..20, 0..200), most in 1usize..120) {
            let sums: Vec<f32> = sums.into_iter().map(f32::from).collect();
            let mut best = Best::default();
            best.restart(most);
            best.offer_all(&sums);
            let mut all: Vec<(f64, usize)> = sums.iter().enumerate().map(|(i, &sum)| (sum.into(), i)).collect();
            all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            all.truncate(most);
            prop_assert_eq!(best.ranking(), &all[..]);
            if most <= sums.len() {
                prop_assert_eq!(best.last_of(most, &sums), all[most - 1].0);
            }
        }
    }
}
