//! Regions: sets of elements that make up a part.

use std::fmt;
use std::ops::Range;

use crate::error::Error;

/// A subset of the elements of a flat array, each at most once. A range of indices is a region, and
/// so is a [`Block`] of a matrix.
pub trait Region: Clone + fmt::Debug + Send + Sync + 'static {
    /// Returns the index after the last element, or an error for an invalid region. No other method
    /// is called on a region that is invalid, or that exceeds the array.
    fn end(&self) -> Result<usize, String>;

    /// Returns the runs of consecutive elements, in the order in which a part stores them.
    fn runs(&self) -> impl Iterator<Item = Range<usize>>;

    /// Returns the number of elements.
    fn size(&self) -> usize {
        self.runs().map(|run| run.len()).sum()
    }
}

impl Region for Range<usize> {
    fn end(&self) -> Result<usize, String> {
        if self.start > self.end {
            return Err("it ends before it begins".into());
        }
        Ok(self.end)
    }

    fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        std::iter::once(self.clone())
    }
}

/// A block of a matrix with leading dimension `ld`. Its part stores the block's columns
/// consecutively, without padding: the part's own leading dimension is the number of the block's
/// rows.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Block {
    /// Row range in the matrix.
    pub rows: Range<usize>,
    /// Column range in the matrix.
    pub cols: Range<usize>,
    /// Leading dimension of the matrix.
    pub ld: usize,
}

impl Block {
    /// Creates the block of these rows and columns in a matrix with leading dimension `ld`.
    pub fn new(rows: Range<usize>, cols: Range<usize>, ld: usize) -> Self {
        Block { rows, cols, ld }
    }

    /// Cuts a matrix of `rows` x `cols` into tiles of `tile_rows` x `tile_cols`, smaller at the
    /// lower and right border. Tiles are in column-major order.
    ///
    /// # Errors
    /// [`Error::Config`] if a tile has no rows or no columns, or `rows > ld`.
    pub fn tiles(
        (rows, cols): (usize, usize),
        ld: usize,
        (tile_rows, tile_cols): (usize, usize),
    ) -> Result<Vec<Block>, Error> {
        if tile_rows == 0 || tile_cols == 0 || rows > ld {
            return Err(Error::Config(format!(
                "a matrix of {rows} x {cols}, columns {ld} apart, cannot be cut into tiles of {tile_rows} x {tile_cols}"
            )));
        }
        let pieces = |length: usize, step: usize| {
            (0..length).step_by(step).map(move |start| start..length.min(start.saturating_add(step)))
        };
        let column =
            |cols: Range<usize>| pieces(rows, tile_rows).map(move |r| Block::new(r, cols.clone(), ld));
        Ok(pieces(cols, tile_cols).flat_map(column).collect())
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {:?}", self.rows, self.cols)
    }
}

impl Region for Block {
    fn end(&self) -> Result<usize, String> {
        self.rows.end()?;
        self.cols.end()?;
        if self.rows.end > self.ld {
            return Err(format!("its rows end beyond columns that lie {} elements apart", self.ld));
        }
        if self.rows.is_empty() || self.cols.is_empty() {
            return Ok(0);
        }
        (self.cols.end - 1)
            .checked_mul(self.ld)
            .and_then(|start| start.checked_add(self.rows.end))
            .ok_or_else(|| "it does not fit the address space".into())
    }

    fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        let cols = if self.rows.is_empty() { 0..0 } else { self.cols.clone() };
        cols.map(|col| col * self.ld + self.rows.start..col * self.ld + self.rows.end)
    }

    fn size(&self) -> usize {
        self.rows.len() * self.cols.len()
    }
}

/// Cuts `length` elements into `parts` ranges that differ by at most one element, the longer ones
/// first; none for 0 parts.
pub fn split_evenly(length: usize, parts: usize) -> Vec<Range<usize>> {
    let (short, longer) = (length.checked_div(parts).unwrap_or(0), length.checked_rem(parts).unwrap_or(0));
    let start = |part: usize| part * short + part.min(longer);
    (0..parts).map(|part| start(part)..start(part + 1)).collect()
}

/// Returns an error for a region that is not within `length` elements.
pub(super) fn check_inside<R: Region>(region: &R, length: usize) -> Result<(), String> {
    let end = region.end().map_err(|wrong| format!("region {region:?} is none: {wrong}"))?;
    if end > length {
        return Err(format!("region {region:?} ends at element {end}, and there are {length}"));
    }
    Ok(())
}

/// Returns an error for two regions that have an element in common.
pub(super) fn check_disjoint<R: Region>(regions: &[R]) -> Result<(), String> {
    let of = |(i, region): (usize, &R)| region.runs().map(|run| (run, i)).collect::<Vec<_>>();
    let mut runs: Vec<_> =
        regions.iter().enumerate().flat_map(of).filter(|(run, _)| !run.is_empty()).collect();
    runs.sort_unstable_by_key(|(run, _)| run.start);
    for pair in runs.windows(2) {
        let ((before, a), (after, b)) = (&pair[0], &pair[1]);
        if after.start < before.end {
            let (a, b) = (&regions[*a.min(b)], &regions[*a.max(b)]);
            return Err(format!(
                "regions {a:?} and {b:?} both have element {}: parts to be written must not overlap (views may)",
                after.start
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn elements<R: Region>(region: &R) -> Vec<usize> {
        region.runs().flatten().collect()
    }

    /// Reference for the checks, element by element.
    fn share_one<R: Region>(regions: &[R]) -> bool {
        let mut all: Vec<_> = regions.iter().flat_map(elements).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        all.len() < count
    }

    fn block() -> impl Strategy<Value = Block> {
        (0..6usize, 0..4usize, 0..6usize, 0..4usize, 0..8usize)
            .prop_map(|(row, rows, col, cols, ld)| Block::new(row..row + rows, col..col + cols, ld))
    }

    proptest! {
        #[test]
        fn ranges_are_checked(all in prop::collection::vec((0..30usize, 0..30usize), 0..6), length in 0..30usize) {
            let all: Vec<_> = all.into_iter().map(|(start, end)| start..end).collect();
            for range in &all {
                let inside = range.start <= range.end && range.end <= length;
                prop_assert_eq!(check_inside(range, length).is_ok(), inside);
            }
            let right: Vec<_> = all.into_iter().filter(|range| range.start <= range.end).collect();
            prop_assert_eq!(check_disjoint(&right).is_err(), share_one(&right));
        }

        #[test]
        fn blocks_are_checked(all in prop::collection::vec(block(), 0..5), length in 0..50usize) {
            for block in &all {
                let inside = block.rows.end <= block.ld && elements(block).into_iter().all(|e| e < length);
                prop_assert_eq!(check_inside(block, length).is_ok(), inside, "{:?} of ld {}", block, block.ld);
            }
            // With different leading dimensions too.
            let right: Vec<_> = all.into_iter().filter(|block| block.rows.end <= block.ld).collect();
            prop_assert_eq!(check_disjoint(&right).is_err(), share_one(&right));
            for block in &right {
                prop_assert_eq!(block.size(), elements(block).len());
            }
        }

        #[test]
        fn tiles_and_even_pieces_cover_once(
            rows in 0..9usize, cols in 0..9usize, padding in 0..3usize, tile in (1..5usize, 1..5usize), parts in 1..9usize
        ) {
            let ld = rows + padding;
            let mut covered: Vec<_> =
                Block::tiles((rows, cols), ld, tile).unwrap().iter().flat_map(elements).collect();
            covered.sort_unstable();
            let matrix: Vec<_> = (0..cols).flat_map(|col| (0..rows).map(move |row| col * ld + row)).collect();
            prop_assert_eq!(covered, matrix);
            let pieces = split_evenly(rows * cols, parts);
            prop_assert!(pieces.iter().flat_map(elements).eq(0..rows * cols));
            let (short, long) = (pieces.iter().map(|p| p.len()).min(), pieces.iter().map(|p| p.len()).max());
            prop_assert!(long.unwrap() - short.unwrap() <= 1 && pieces.len() == parts);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = |block: Block| check_inside(&block, 100).unwrap_err();
        let huge = usize::MAX;
        assert!(wrong(Block::new(0..2, 0..huge, huge)).contains("address space"));
        assert!(wrong(Block::new(0..9, 0..1, 8)).contains("8 elements apart"));
        #[allow(clippy::reversed_empty_ranges)]
        let reversed = Block::new(3..2, 0..1, 8);
        assert!(wrong(reversed).contains("ends before it begins"));
        assert_eq!(
            wrong(Block::new(0..5, 0..13, 8)),
            "region 0..5, 0..13 ends at element 101, and there are 100"
        );
        let both = check_disjoint(&[0..4, 8..9, 3..5]).unwrap_err();
        assert!(both.contains("0..4 and 3..5 both have element 3"), "{both}");
        assert!(Block::tiles((4, 4), 3, (2, 2)).is_err() && Block::tiles((4, 4), 4, (0, 2)).is_err());
        assert!(split_evenly(5, 0).is_empty());
    }
}
