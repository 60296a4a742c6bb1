//! Partition of vectors into parts that tasks process in parallel.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use zellige_kernels::vectors::LANES;
use zellige_runtime::List;
use zellige_runtime::data::{Chunk, ChunkRef};

use crate::error::Error;

/// Rows of a reduction block: partial sums of blocks are combined in a fixed order, so that every
/// sum has the same bits on any number of workers.
pub(crate) const REDUCTION_ROWS: usize = 4096;

/// Parts begin at multiples of this: whole blocks of 1, 2, 3, 4 and 6, and whole lines of a cache.
const STEP: usize = 48;

/// Minimum size of a part, in bytes of the matrix and in rows: a task should take much longer than
/// its start.
const LEAST_BYTES: u64 = 3 << 18;
const LEAST_ROWS: usize = 768;

/// A number of parts that [`Space::new`] stays below: enough for any number of workers that this is
/// meant for.
const MOST_PARTS: usize = 64;

/// An index range that is cut into parts. Cuts depend on the operator, never on workers or devices:
/// sums have the same bits everywhere.
///
/// ```
/// use zellige_krylov::Space;
///
/// let space = Space::new(100_000, 80_000_000);
/// assert_eq!(space.ranges().map(|range| range.len()).sum::<usize>(), space.len());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// The first row of each part, and the length.
    cuts: Arc<[usize]>,
    /// Rows that are encoded as a group.
    group: usize,
}

impl Space {
    /// Parts of one length, but for the last, for an operator of this many rows and bytes: at least
    /// about 768 kB of it each, 63 at most. A small one is one part.
    pub fn new(rows: usize, bytes: u64) -> Space {
        let wanted = usize::try_from(bytes / LEAST_BYTES).unwrap_or(MOST_PARTS).min(rows / LEAST_ROWS);
        // The number is odd: sweeps from both ends meet in a part in the middle.
        let count = if wanted < 2 { 1 } else { (wanted | 1).min(MOST_PARTS - 1) };
        // On a GPU all but the last are of one length.
        let step = rows.div_ceil(count).next_multiple_of(STEP).max(STEP);
        Space { cuts: (0..rows).step_by(step).chain([rows]).collect(), group: 1 }
    }

    /// Parts that begin at these rows.
    ///
    /// # Errors
    /// [`Error::Parameter`] unless the first is 0 and each part has rows.
    pub fn cut_at(starts: &[usize], rows: usize) -> Result<Space, Error> {
        let cuts: Vec<usize> = starts.iter().copied().chain([rows]).collect();
        if starts.first() != Some(&0) || !cuts.windows(2).all(|ends| ends[0] < ends[1]) {
            let problem = format!("{cuts:?}: parts begin at 0, and each has rows");
            return Err(Error::parameter("space", problem));
        }
        Ok(Space { cuts: cuts.into(), group: 1 })
    }

    /// Returns the space for storage that encodes `group` rows as a group: 3 for numbers of a site
    /// that share a scale. Vector tasks work on whole groups.
    ///
    /// # Errors
    /// [`Error::Parameter`] unless it is 1 to 8 and every part has whole groups.
    pub fn grouped(self, group: usize) -> Result<Space, Error> {
        if !(1..=8).contains(&group) || self.cuts.iter().any(|cut| cut % group != 0) {
            let problem = format!("groups of {group} rows: 1 to 8 are possible, and parts of whole groups");
            return Err(Error::parameter("space", problem));
        }
        Ok(Space { group, ..self })
    }

    /// Returns the alignment of blocks of rows: a multiple of whole groups and of the lanes of
    /// sums.
    pub(crate) fn multiple(&self) -> usize {
        LANES * self.group
    }

    /// Returns the rows of a reduction block: 4096, or a little less, so that they are whole
    /// groups.
    pub fn reduction_rows(&self) -> usize {
        REDUCTION_ROWS / self.multiple() * self.multiple()
    }

    /// Returns the length of its vectors.
    #[allow(clippy::len_without_is_empty)] // a space without elements is none
    pub fn len(&self) -> usize {
        self.cuts[self.cuts.len() - 1]
    }

    /// Returns the bytes of `vectors` of its vectors in float64.
    pub fn bytes(&self, vectors: usize) -> u64 {
        (size_of::<f64>() * self.len() * vectors) as u64
    }

    /// Returns the number of parts.
    pub fn parts(&self) -> usize {
        self.cuts.len() - 1
    }

    /// Returns the rows of part `i`.
    ///
    /// # Panics
    /// If `i >= parts()`.
    pub fn range(&self, i: usize) -> Range<usize> {
        self.cuts[i]..self.cuts[i + 1]
    }

    /// Returns the rows of each part.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = Range<usize>> {
        self.cuts.windows(2).map(|ends| ends[0]..ends[1])
    }

    /// Returns the rank that stores part `i` of vectors, for this number of ranks; each rank has
    /// consecutive parts.
    pub fn rank_of(&self, i: usize, ranks: usize) -> usize {
        i * ranks / self.parts()
    }

    /// Returns the parts that contain some of these rows.
    pub fn covering(&self, rows: Range<usize>) -> Range<usize> {
        if rows.is_empty() {
            return 0..0;
        }
        let of = |row: usize| self.cuts.partition_point(|&start| start <= row) - 1;
        of(rows.start)..of(rows.end - 1) + 1
    }

    /// Returns the first row of some parts; 0 if there are none.
    pub fn first_of(&self, parts: &Range<usize>) -> usize {
        if parts.is_empty() { 0 } else { self.cuts[parts.start] }
    }
}

/// Returns the words of neighbouring parts as one slice: borrowed, or copied if they are not
/// contiguous.
pub fn joined<'v>(parts: List<'v, Chunk<f64>>) -> Cow<'v, [f64]> {
    match ChunkRef::joined(parts.iter()) {
        Some(slice) => Cow::Borrowed(slice),
        None => parts.iter().flat_map(ChunkRef::slice).copied().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_matrices_are_one_part() {
        for rows in [1, 100, 2 * LEAST_ROWS - 1] {
            assert_eq!(Space::new(rows, 1 << 30).parts(), 1);
        }
        assert_eq!(Space::new(1_000_000, LEAST_BYTES).parts(), 1);
    }

    #[test]
    fn parts_cover_every_row_once() {
        let space = Space::new(3_179_000, 278 << 20);
        assert!(space.parts() <= MOST_PARTS && space.parts() > MOST_PARTS / 2);
        assert_eq!(space.ranges().map(|range| range.len()).sum::<usize>(), 3_179_000);
        assert!(space.ranges().all(|range| range.start % STEP == 0));
        let last = space.range(space.parts() - 1).len();
        assert!(last <= space.range(0).len() && last > space.range(0).len() / 2);
        for range in [0..1, 40_000..90_000, 3_178_999..3_179_000] {
            let covering = space.covering(range.clone());
            assert!(space.range(covering.start).contains(&range.start));
            assert!(space.range(covering.end - 1).contains(&(range.end - 1)));
        }
        assert_eq!(space.covering(7..7), 0..0);
    }

    #[test]
    fn cuts_are_checked() {
        assert_eq!(Space::cut_at(&[0, 5], 9).map(|space| space.range(1)).ok(), Some(5..9));
        for (starts, rows) in [(&[][..], 9), (&[1], 9), (&[0, 9], 9), (&[0, 5, 5], 9)] {
            assert!(Space::cut_at(starts, rows).is_err());
        }
        let of_sites = Space::cut_at(&[0, 6], 12).and_then(|space| space.grouped(3)).expect("whole groups");
        assert_eq!((of_sites.reduction_rows(), of_sites.reduction_rows() % 96), (4032, 0));
        assert!(of_sites.grouped(4).is_err() && Space::new(9, 0).grouped(9).is_err());
    }
}
