//! Tilings of a matrix; edges need not be evenly spaced.

use std::ops::Range;

use crate::error::Error;

/// A range of rows (and columns) that belongs together, e.g. one axis of one wavefront sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Rows in the block.
    pub len: usize,
    /// Group of the block: blocks of one group, e.g. the two axes of one sensor, are merged all or
    /// not at all.
    pub group: usize,
}

/// A tiling of one dimension, given by the edges of its tiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileGrid {
    /// Edges from 0 to n, strictly ascending; `[0]` if empty.
    edges: Vec<usize>,
    parts: usize,
}

impl TileGrid {
    /// Tiles of `nb`, the last one short.
    ///
    /// # Errors
    /// [`Error::Grid`] if `nb` is 0.
    pub fn uniform(n: usize, nb: usize) -> Result<Self, Error> {
        if nb == 0 {
            return Err(Error::Grid("a tile size of 0: give at least 1".into()));
        }
        let mut edges: Vec<usize> = (0..n).step_by(nb).collect();
        edges.push(n);
        Ok(TileGrid { edges, parts: 1 })
    }

    /// Creates tiles between the given edges, from 0 to n.
    ///
    /// # Errors
    /// [`Error::Grid`] unless the edges begin with 0 and ascend.
    pub fn from_edges(edges: impl Into<Vec<usize>>) -> Result<Self, Error> {
        let edges = edges.into();
        if edges.first() != Some(&0) {
            return Err(Error::Grid("the first edge must be 0".into()));
        }
        if let Some(at) = edges.windows(2).position(|pair| pair[0] >= pair[1]) {
            let (a, b) = (edges[at], edges[at + 1]);
            return Err(Error::Grid(format!(
                "edge {} is {b}, which is not above the one before it, {a}",
                at + 1
            )));
        }
        Ok(TileGrid { edges, parts: 1 })
    }

    /// Creates edges that follow `blocks`. A block larger than `max` is cut into the fewest equal
    /// parts (to within one row) that are not larger. Smaller blocks are merged by whole groups
    /// while the tile stays within `max`; a group that exceeds `max` by itself keeps one tile per
    /// block (or per part of a block).
    ///
    /// Edges decide which low-precision factorisations succeed: strong couplings, e.g. a constant
    /// over one block, should be within few tiles. See
    /// [`parts_of_largest`](TileGrid::parts_of_largest).
    ///
    /// # Errors
    /// [`Error::Grid`] if `max` is 0 or a group comes back after another one.
    pub fn auto(blocks: &[Block], max: usize) -> Result<Self, Error> {
        if max == 0 {
            return Err(Error::Grid("a largest tile of 0: give at least 1".into()));
        }
        let mut edges = vec![0];
        let mut parts = 1;
        // Rows since the last edge: whole groups that may be merged with the next one.
        let mut open = 0;
        let mut seen: Vec<usize> = Vec::new();
        for group in blocks.chunk_by(|a, b| a.group == b.group) {
            if seen.contains(&group[0].group) {
                return Err(Error::Grid(format!(
                    "the blocks of group {} do not follow each other",
                    group[0].group
                )));
            }
            seen.push(group[0].group);
            let len: usize = group.iter().map(|block| block.len).sum();
            if open + len <= max {
                open += len;
                continue;
            }
            advance(&mut edges, open);
            open = 0;
            if len <= max {
                open = len;
                continue;
            }
            for block in group {
                let count = block.len.div_ceil(max).max(1);
                parts = parts.max(count);
                for part in 0..count {
                    let rows = block.len * (part + 1) / count - block.len * part / count;
                    advance(&mut edges, rows);
                }
            }
        }
        advance(&mut edges, open);
        Ok(TileGrid { edges, parts })
    }

    /// Returns the grid with every edge but the last at the nearest multiple of `step`, so that all
    /// tiles but those of the last row and column are multiples of it. Tiles may grow by less than
    /// `step`; coinciding edges become one. A `step` of 0 or 1 changes nothing.
    #[must_use]
    pub fn rounded(mut self, step: usize) -> Self {
        let (step, n) = (step.max(1), self.len());
        let inside = self.edges.len() - 1;
        for edge in &mut self.edges[..inside] {
            *edge = ((*edge + step / 2) / step * step).min(n);
        }
        self.edges.dedup();
        self
    }

    /// Returns the number of tiles that the largest block of [`auto`](TileGrid::auto) was cut into;
    /// 1 for other grids.
    ///
    /// With more than 2, low-precision products need an additional condition at the boundaries
    /// between parts of one block: a band of at least 2, or a rule on operand norms.
    pub fn parts_of_largest(&self) -> usize {
        self.parts
    }

    /// Returns the number of tiles.
    pub fn tiles(&self) -> usize {
        self.edges.len() - 1
    }

    /// Rows in all.
    pub fn len(&self) -> usize {
        self.edges.last().copied().unwrap_or(0)
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the edges, from 0 to n.
    pub fn edges(&self) -> &[usize] {
        &self.edges
    }

    /// Rows of tile `i`.
    ///
    /// # Panics
    /// If `i` is not the number of a tile.
    pub fn range(&self, i: usize) -> Range<usize> {
        self.edges[i]..self.edges[i + 1]
    }

    /// Returns the number of rows of tile `i`.
    ///
    /// # Panics
    /// If `i` is not the number of a tile.
    pub fn width(&self, i: usize) -> usize {
        self.range(i).len()
    }

    /// Returns the number of rows of the largest tile.
    pub fn max_width(&self) -> usize {
        (0..self.tiles()).map(|i| self.width(i)).max().unwrap_or(0)
    }
}

fn advance(edges: &mut Vec<usize>, rows: usize) {
    if rows > 0 {
        let last = edges.last().copied().unwrap_or(0);
        edges.push(last + rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sensor(group: usize, len: usize) -> [Block; 2] {
        [Block { len, group }; 2]
    }

    #[test]
    fn rounded_edges_are_multiples_next_to_where_they_were() {
        let blocks: Vec<Block> = (0..6).map(|at| Block { len: 557, group: at / 2 }).collect();
        let exact = TileGrid::auto(&blocks, 300).unwrap();
        let grid = exact.clone().rounded(16);
        assert_eq!((grid.tiles(), grid.len(), grid.parts_of_largest()), (exact.tiles(), 6 * 557, 2));
        for (edge, was) in grid.edges().iter().zip(exact.edges()) {
            assert!(edge.abs_diff(*was) <= 8 && (edge % 16 == 0 || *edge == grid.len()), "{edge} {was}");
        }
        let edges =
            |edges: &[usize], step| TileGrid::from_edges(edges).unwrap().rounded(step).edges().to_vec();
        assert_eq!(edges(&[0, 3, 9, 20, 25], 16), [0, 16, 25]);
        assert_eq!(edges(&[0, 7, 31], 16), [0, 31]);
        assert_eq!(edges(&[0, 7, 30, 31], 16), [0, 31]);
        assert_eq!(edges(&[0, 7, 9], 1), [0, 7, 9]);
        assert_eq!(edges(&[0], 16), [0]);
    }

    #[test]
    fn uniform_leaves_the_last_tile_short() {
        let grid = TileGrid::uniform(10, 4).unwrap();
        assert_eq!(grid.edges(), [0, 4, 8, 10]);
        assert_eq!((grid.tiles(), grid.width(2), grid.max_width()), (3, 2, 4));
        assert_eq!(TileGrid::uniform(0, 4).unwrap().tiles(), 0);
        assert_eq!(TileGrid::uniform(3, 4).unwrap().edges(), [0, 3]);
        assert!(TileGrid::uniform(3, 0).is_err());
    }

    #[test]
    fn edges_must_ascend_from_zero() {
        assert!(TileGrid::from_edges([0, 3, 4]).is_ok());
        assert_eq!(TileGrid::from_edges([0]).unwrap().tiles(), 0);
        for bad in [&[][..], &[1, 2], &[0, 2, 2], &[0, 3, 1]] {
            assert!(TileGrid::from_edges(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn large_blocks_are_cut_into_equal_parts() {
        // 1264 sub-apertures per axis: three parts of 421 or 422.
        let grid = TileGrid::auto(&sensor(0, 1264), 512).unwrap();
        let widths: Vec<_> = (0..grid.tiles()).map(|i| grid.width(i)).collect();
        assert_eq!(widths, [421, 421, 422, 421, 421, 422]);
        assert_eq!(grid.parts_of_largest(), 3);
    }

    #[test]
    fn small_blocks_are_merged_by_whole_sensors() {
        let blocks: Vec<Block> = (0..6).flat_map(|w| sensor(w, 76)).collect();
        let grid = TileGrid::auto(&blocks, 512).unwrap();
        assert_eq!(grid.edges(), [0, 456, 912]);
        assert_eq!(grid.parts_of_largest(), 1);
        // 304 per axis: a sensor of 608 keeps one tile per axis.
        let blocks: Vec<Block> = (0..2).flat_map(|w| sensor(w, 304)).collect();
        assert_eq!(TileGrid::auto(&blocks, 512).unwrap().edges(), [0, 304, 608, 912, 1216]);
        // A small sensor is not merged with a part of a large one.
        let blocks = [sensor(0, 1).as_slice(), &sensor(1, 304), &sensor(2, 1)].concat();
        assert_eq!(TileGrid::auto(&blocks, 512).unwrap().edges(), [0, 2, 306, 610, 612]);
        assert!(TileGrid::auto(&[], 512).unwrap().is_empty());
        assert!(TileGrid::auto(&blocks, 0).is_err());
        let torn = [Block { len: 1, group: 0 }, Block { len: 1, group: 1 }, Block { len: 1, group: 0 }];
        assert!(TileGrid::auto(&torn, 8).is_err());
    }

    proptest! {
        #[test]
        fn auto_covers_every_row_with_tiles_that_fit(
            lens in prop::collection::vec(0usize..2000, 0..12), max in 1usize..600
        ) {
            let blocks: Vec<Block> = lens.iter().enumerate().flat_map(|(w, &len)| sensor(w, len)).collect();
            let grid = TileGrid::auto(&blocks, max).unwrap();
            prop_assert_eq!(grid.len(), 2 * lens.iter().sum::<usize>());
            prop_assert!(TileGrid::from_edges(grid.edges()).is_ok());
            prop_assert!(grid.max_width() <= max);
            let largest = lens.iter().copied().max().unwrap_or(0);
            prop_assert_eq!(grid.parts_of_largest(), largest.div_ceil(max).max(1).max(usize::from(largest > 0)));
        }
    }
}
