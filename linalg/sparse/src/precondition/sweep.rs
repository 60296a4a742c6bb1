//! Elimination order of unknowns.

use std::ops::Range;

use crate::csr::Csr;
use zellige_krylov::Space;

/// Elimination order: from the first unknown to the last, or from both ends towards some parts in
/// the middle, so that two workers are busy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    parts: usize,
    middle: Option<Middle>,
}

/// Parts between the two ends; the parts after them are eliminated from the last row to the first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Middle {
    parts: Range<usize>,
    /// The first row after the middle.
    end: usize,
}

/// The middle has at most one in this many parts, because one worker alone eliminates it.
const MOST_IN_MIDDLE: usize = 3;

impl Sweep {
    /// Returns the sweep from the first unknown to the last.
    pub fn natural(space: &Space) -> Sweep {
        Sweep { parts: space.parts(), middle: None }
    }

    /// Returns a sweep from both ends, if a few parts in the middle separate the parts before them
    /// from those after them; otherwise the natural sweep.
    pub fn from_both_ends(space: &Space, a: &Csr) -> Sweep {
        let all = space.parts();
        let is_apart = |middle: &Range<usize>| {
            let begins = space.range(middle.start).start as u32;
            let mut behind = space.range(middle.end - 1).end..a.rows();
            behind.all(|i| a.row(i).0.first().is_none_or(|&j| j >= begins))
        };
        let middles = (0..all.div_ceil(2)).map(|more| all / 2 - more.min(all / 2)..all / 2 + more + 1);
        let fits = |middle: &Range<usize>| MOST_IN_MIDDLE * middle.len() <= all && middle.end < all;
        let middle = middles.take_while(fits).find(is_apart);
        let middle = middle.map(|parts| Middle { end: space.range(parts.end - 1).end, parts });
        Sweep { parts: all, middle }
    }

    /// Returns the independent chains of parts, each in order, and the parts that depend on all
    /// chains.
    pub fn chains(&self) -> (Vec<Vec<usize>>, Vec<usize>) {
        match &self.middle {
            None => (vec![(0..self.parts).collect()], Vec::new()),
            Some(Middle { parts, .. }) => {
                let behind = (parts.end..self.parts).rev();
                (vec![(0..parts.start).collect(), behind.collect()], parts.clone().collect())
            }
        }
    }

    /// Returns all parts, each after its dependencies.
    pub fn order(&self) -> Vec<usize> {
        let (chains, last) = self.chains();
        let longest = chains.iter().map(Vec::len).max().unwrap_or(0);
        let of_all = (0..longest).flat_map(|k| chains.iter().filter_map(move |chain| chain.get(k).copied()));
        of_all.chain(last).collect()
    }

    /// Returns true for a part whose last row is eliminated first.
    pub fn falls(&self, part: usize) -> bool {
        self.middle.as_ref().is_some_and(|middle| part >= middle.parts.end)
    }

    /// Returns, for a part in the middle, the first unknown after the middle; all unknowns from
    /// there on are eliminated before the part.
    pub fn before_from(&self, part: usize) -> Option<usize> {
        let is_in_middle = |middle: &&Middle| middle.parts.contains(&part);
        self.middle.as_ref().filter(is_in_middle).map(|middle| middle.end)
    }

    /// Returns true if unknown `j` is eliminated before `i`, which is in this part and is coupled
    /// with it.
    #[cfg(test)]
    pub fn is_before(&self, part: usize, j: usize, i: usize) -> bool {
        match self.falls(part) {
            true => j > i,
            false => j < i || self.before_from(part).is_some_and(|end| j >= end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zellige_krylov::Error;

    #[test]
    fn ends_meet_where_they_touch_nowhere_else() -> Result<(), Error> {
        let n = 60_000;
        let near = (0..n as u32).map(|i| (i, i, 1.0)).chain((1..n as u32).map(|i| (i, i - 1, 1.0)));
        let near: Vec<_> = near.collect();
        let far = near.iter().copied().chain([(n as u32 - 1, 0, 1.0)]).collect::<Vec<_>>();
        let space = Space::new(n, 15 << 18);
        assert_eq!(space.parts(), 5);
        let sweep = Sweep::from_both_ends(&space, &Csr::from_triplets(n, n, &near)?);
        assert_eq!(sweep.order(), [0, 4, 1, 3, 2]);
        assert_eq!((0..5).map(|s| sweep.falls(s)).collect::<Vec<_>>(), [false, false, false, true, true]);
        let middle = space.range(2);
        assert!(sweep.is_before(2, middle.end, middle.start) && sweep.is_before(2, 0, middle.start));
        assert!(sweep.is_before(4, n - 1, n - 2) && !sweep.is_before(1, middle.start, middle.start - 1));
        let sweep = Sweep::from_both_ends(&space, &Csr::from_triplets(n, n, &far)?);
        assert_eq!(sweep, Sweep::natural(&space));
        assert_eq!(sweep.order(), [0, 1, 2, 3, 4]);
        // Couplings that reach further than a part need more parts in the middle.
        let wide =
            near.iter().copied().chain((9000..n as u32).map(|i| (i, i - 9000, 1.0))).collect::<Vec<_>>();
        let space = Space::new(n, 27 << 18);
        assert_eq!(space.parts(), 9);
        let sweep = Sweep::from_both_ends(&space, &Csr::from_triplets(n, n, &wide)?);
        assert_eq!(sweep.order(), [0, 8, 1, 7, 2, 6, 3, 4, 5]);
        assert_eq!(sweep.chains().1, [3, 4, 5]);
        let (middle, behind) = (space.range(4), space.range(6));
        assert!(
            sweep.is_before(4, behind.start, middle.start) && !sweep.is_before(4, middle.end, middle.start)
        );
        Ok(())
    }
}
