//! The points with the smallest sums.

/// The points with the smallest sums, the smallest first; of points with one sum those with lower numbers come first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Best {
    most: usize,
    found: Vec<(f64, usize)>,
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
    pub fn offer_all(&mut self, sums: &[f32]) {
        for (first, few) in sums.chunks(16).enumerate() {
            let limit = self.limit();
            // What most sixteens have none of; the test is one instruction or two.
            if few.iter().fold(false, |any, &sum| any | (sum <= limit)) {
                few.iter().enumerate().for_each(|(i, &sum)| self.offer(sum.into(), first * 16 + i));
            }
        }
    }

    /// What a sum must not exceed to be of use.
    fn limit(&self) -> f32 {
        match self.found.last() {
            Some(&(sum, _)) if self.found.len() == self.most => sum as f32,
            _ => f32::INFINITY,
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
