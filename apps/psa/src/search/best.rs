//! The points with the smallest sums.

/// The points with the smallest sums, the smallest first; of points with one sum those with lower numbers come first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Best {
    most: usize,
    found: Vec<(f64, usize)>,
    /// Of each sixteen sums the smallest, as they come and in another order.
    least: Vec<f32>,
    sorted: Vec<f32>,
}

const SIXTEEN: usize = 16;

/// The smallest of sixteen, by halves: an instruction for each.
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

impl Best {
    /// Empties it for the `most` smallest.
    pub fn restart(&mut self, most: usize) {
        self.most = most;
        self.found.clear();
    }

    /// Looks at the sum of a point.
    #[inline]
    pub fn offer(&mut self, sum: f64, point: usize) {
        if self.found.len() == self.most {
            match self.found.last() {
                Some(&last) if (sum, point) < last => drop(self.found.pop()),
                _ => return,
            }
        }
        let at = self.found.partition_point(|&better| better <= (sum, point));
        self.found.insert(at, (sum, point));
    }

    /// Looks at the sums of points from 0 on.
    ///
    /// Sums are alike for points that are neighbours, so that a list that is kept while they pass changes often. The smallest of each sixteen are found first:
    /// none of the points that are wanted is larger than as many of those.
    pub fn offer_all(&mut self, sums: &[f32]) {
        let (whole, rest) = sums.as_chunks::<SIXTEEN>();
        let last = std::array::from_fn(|i| rest.get(i).copied().unwrap_or(f32::INFINITY));
        self.least.clear();
        self.least.extend(whole.iter().chain([&last]).map(smallest));
        let limit = match self.most {
            most if most <= self.least.len() => {
                self.sorted.clone_from(&self.least);
                *self.sorted.select_nth_unstable_by(most - 1, f32::total_cmp).1
            }
            _ => f32::INFINITY,
        };
        for first in 0..self.least.len() {
            if self.least[first] <= limit {
                let few = &sums[first * SIXTEEN..sums.len().min((first + 1) * SIXTEEN)];
                for (i, &sum) in few.iter().enumerate().filter(|&(_, &sum)| sum <= limit) {
                    self.offer(sum.into(), first * SIXTEEN + i);
                }
            }
        }
    }

    /// Sums and points.
    pub fn found(&self) -> &[(f64, usize)] {
        &self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Few different sums, so that many are alike.
        #[test]
        fn the_smallest_are_found_in_order(sums in prop::collection::vec(0u8..20, 0..200), most in 1usize..12) {
            let sums: Vec<f32> = sums.into_iter().map(f32::from).collect();
            let mut best = Best::default();
            best.restart(most);
            best.offer_all(&sums);
            let mut all: Vec<(f64, usize)> = sums.iter().enumerate().map(|(i, &sum)| (sum.into(), i)).collect();
            all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            all.truncate(most);
            prop_assert_eq!(best.found(), &all[..]);
        }
    }
}
