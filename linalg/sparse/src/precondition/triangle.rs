//! The rows of a part of a triangular factor, as data of tasks.

use std::ops::Range;

use zellige_kernels::triangular::{BlockRows, LANES, SIDE_BY_SIDE, substitute, subtract};
use zellige_runtime::data::{Portability, Portable};
use zellige_runtime::{Data, Meta};

/// Block rows in processing order.
#[derive(Debug, Default)]
struct Part {
    rows: Vec<[u32; 2]>,
    columns: Vec<u32>,
    values: Vec<f32>,
}

impl Part {
    /// Adds a row that is processed by itself; its blocks have been added.
    fn push(&mut self, row: u32, count: usize) {
        self.rows.push([row, count as u32]);
    }

    /// Adds rows of single entries that are processed in SIMD lanes: `elements(lane)` are those of
    /// one row.
    fn push_group<E: Iterator<Item = (u32, f32)>>(
        &mut self,
        rows: [u32; LANES],
        count: usize,
        elements: impl Fn(usize) -> E,
    ) {
        let first = self.columns.len();
        self.rows.extend(rows.map(|row| [row, count as u32 | SIDE_BY_SIDE]));
        self.columns.resize(first + LANES * count, 0);
        self.values.resize(first + LANES * count, 0.0);
        for lane in 0..LANES {
            let mut places = (first + lane..).step_by(LANES).take(count);
            let mut last = 0;
            for ((column, value), at) in elements(lane).zip(&mut places) {
                (self.columns[at], self.values[at]) = (column, value);
                last = column;
            }
            // The padding multiplies a value that is read anyway by zero.
            places.for_each(|at| self.columns[at] = last);
        }
    }

    fn view(&self) -> BlockRows<'_> {
        BlockRows { rows: &self.rows, columns: &self.columns, values: &self.values }
    }
}

/// Ranges of the columns of a part's rows: before the part, in it, after it.
const BEFORE: usize = 0;
const WITHIN: usize = 1;
const BEHIND: usize = 2;

/// The rows of a part of a unit triangular factor, in square blocks, in `f32`.
#[derive(Debug)]
pub struct Triangle {
    block_size: usize,
    parts: [Part; 3],
}

/// A factor's block rows of a part, in elimination order.
#[derive(Debug)]
pub struct TriangleRows<const B: usize> {
    starts: Vec<usize>,
    columns: Vec<u32>,
    /// Blocks in column-major order.
    values: Vec<[[f32; B]; B]>,
}

impl<const B: usize> TriangleRows<B> {
    /// Returns an empty list with capacity for this number of rows and of blocks.
    pub fn with_room(rows: usize, blocks: usize) -> Self {
        let mut starts = Vec::with_capacity(rows + 1);
        starts.push(0);
        TriangleRows { starts, columns: Vec::with_capacity(blocks), values: Vec::with_capacity(blocks) }
    }

    /// Adds a block to the row that is being made.
    pub fn push(&mut self, column: u32, value: [[f32; B]; B]) {
        self.columns.push(column);
        self.values.push(value);
    }

    pub fn end_row(&mut self) {
        self.starts.push(self.columns.len());
    }

    /// Returns true unless values were beyond the range of `f32`.
    pub fn is_finite(&self) -> bool {
        self.values.iter().all(|block| block.as_flattened().iter().all(|value| value.is_finite()))
    }

    /// Returns the columns and blocks of the row at position `at` of the elimination order.
    #[cfg(test)]
    pub fn blocks(&self, at: usize) -> impl Iterator<Item = (u32, &[[f32; B]; B])> {
        self.row(at).map(|k| (self.columns[k], &self.values[k]))
    }

    fn row(&self, at: usize) -> Range<usize> {
        self.starts[at]..self.starts[at + 1]
    }
}

/// Ranges of unknowns outside of its own part that a triangular solve reads: before the part, and
/// after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    pub before: Range<usize>,
    pub behind: Range<usize>,
}

impl Needed {
    /// Returns the ranges for a part with these rows.
    pub fn of<const B: usize>(rows: &TriangleRows<B>, range: &Range<usize>) -> Needed {
        let blocks = range.start / B..range.end / B;
        let (mut first, mut last) = (blocks.start, blocks.end);
        for &column in &rows.columns {
            first = first.min(column as usize);
            last = last.max(column as usize + 1);
        }
        Needed { before: first * B..range.start, behind: range.end..last * B }
    }
}

impl Triangle {
    /// Creates the triangle of the rows of the part `range`. The rows were eliminated in the order
    /// `made` (numbers within the part); the solve uses that order, or the opposite one if
    /// `backward`. `first` is the first unknown of the values that the solve receives from before
    /// the part.
    ///
    /// Independent rows are adjacent, so that a processor need not wait for one before it begins
    /// with the next. Rows of single entries are grouped in SIMD lanes if there are several of
    /// similar length.
    pub fn new<const B: usize>(
        rows: &TriangleRows<B>,
        made: &[u32],
        backward: bool,
        range: &Range<usize>,
        first: usize,
    ) -> Triangle {
        let parts = Parts { rows, made, blocks: (range.start / B) as u32..(range.end / B) as u32, first };
        let mut heads: [Vec<Head>; 3] = Default::default();
        for (at, level) in by_level(rows, made, backward, &parts.blocks) {
            let mut counts = [0; 3];
            rows.row(at).for_each(|k| counts[parts.place(rows.columns[k])] += 1);
            for (place, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
                // The values of other parts are complete before the solve begins.
                heads[place].push(Head { at, level: if place == WITHIN { level } else { 0 }, count });
            }
        }
        Triangle { block_size: B, parts: std::array::from_fn(|place| parts.part(place, &heads[place])) }
    }

    /// Computes `z = T^-1 z` for 1 to 8 columns, given the values of `z` before the part and after
    /// it.
    pub fn solve(&self, columns: usize, before: &[f64], behind: &[f64], z: &mut [f64]) {
        match columns {
            1 => self.solve_columns::<1>(before, behind, z),
            2 => self.solve_columns::<2>(before, behind, z),
            3 => self.solve_columns::<3>(before, behind, z),
            4 => self.solve_columns::<4>(before, behind, z),
            5 => self.solve_columns::<5>(before, behind, z),
            6 => self.solve_columns::<6>(before, behind, z),
            7 => self.solve_columns::<7>(before, behind, z),
            _ => self.solve_columns::<8>(before, behind, z),
        }
    }

    fn solve_columns<const K: usize>(&self, before: &[f64], behind: &[f64], z: &mut [f64]) {
        match self.block_size {
            1 => self.solve_blocks::<1, K>(before, behind, z),
            2 => self.solve_blocks::<2, K>(before, behind, z),
            3 => self.solve_blocks::<3, K>(before, behind, z),
            _ => self.solve_blocks::<4, K>(before, behind, z),
        }
    }

    fn solve_blocks<const B: usize, const K: usize>(&self, before: &[f64], behind: &[f64], z: &mut [f64]) {
        subtract::<B, K>(&self.parts[BEFORE].view(), before, z);
        subtract::<B, K>(&self.parts[BEHIND].view(), behind, z);
        substitute::<B, K>(&self.parts[WITHIN].view(), z);
    }
}

/// A row's blocks in a part.
struct Head {
    /// Position of the row in elimination order.
    at: usize,
    level: u32,
    count: usize,
}

/// Input that the parts of a triangle are built from.
struct Parts<'a, const B: usize> {
    rows: &'a TriangleRows<B>,
    made: &'a [u32],
    /// Blocks of the part.
    blocks: Range<u32>,
    /// The first unknown before it.
    first: usize,
}

impl<const B: usize> Parts<'_, B> {
    fn place(&self, column: u32) -> usize {
        if column < self.blocks.start {
            BEFORE
        } else if column < self.blocks.end {
            WITHIN
        } else {
            BEHIND
        }
    }

    /// Returns a part of these rows.
    fn part(&self, place: usize, heads: &[Head]) -> Part {
        let mut part = Part::default();
        let mut rest = heads;
        while let Some(head) = rest.first() {
            let group = rest.first_chunk::<LANES>().filter(|group| B == 1 && go_side_by_side(group));
            if let Some(group) = group {
                let rows = group.each_ref().map(|head| self.made[head.at]);
                let count = group.iter().map(|head| head.count).max().unwrap_or(0);
                let of_lane = |lane: usize| {
                    self.blocks_of(group[lane].at, place)
                        .map(|(column, block)| (column, block.as_flattened()[0]))
                };
                part.push_group(rows, count, of_lane);
                rest = &rest[LANES..];
            } else {
                for (column, block) in self.blocks_of(head.at, place) {
                    part.columns.push(column);
                    part.values.extend(block.as_flattened());
                }
                part.push(self.made[head.at], head.count);
                rest = &rest[1..];
            }
        }
        part
    }

    /// Returns the blocks of a row in one range of columns, counted from the start of the range.
    fn blocks_of(&self, at: usize, place: usize) -> impl Iterator<Item = (u32, &[[f32; B]; B])> {
        let begin = [(self.first / B) as u32, self.blocks.start, self.blocks.end][place];
        let all = self.rows.row(at).map(|k| (self.rows.columns[k], &self.rows.values[k]));
        let here = all.filter(move |&(column, _)| self.place(column) == place);
        here.map(move |(column, block)| (column - begin, block))
    }
}

/// Returns true for independent rows whose padding to the longest adds at most half of their
/// entries.
fn go_side_by_side(group: &[Head; LANES]) -> bool {
    let longest = group.iter().map(|head| head.count).max().unwrap_or(0);
    let all: usize = group.iter().map(|head| head.count).sum();
    group[0].level == group[LANES - 1].level && 2 * LANES * longest <= 3 * all
}

/// Number of length classes: rows with `CLASSES - 1` or more entries in the part form one class.
const CLASSES: usize = 16;

/// Returns the positions of rows in processing order, and their levels: sorted by the length of the
/// longest chain of rows that each waits for, then by their number of entries.
fn by_level<const B: usize>(
    rows: &TriangleRows<B>,
    made: &[u32],
    backward: bool,
    blocks: &Range<u32>,
) -> Vec<(usize, u32)> {
    let mut of_row = vec![0u32; made.len()];
    let mut class = vec![0u32; made.len()];
    let mut ends = vec![0usize];
    let mut find = |at: usize| {
        let (mut level, mut count) = (0, 0);
        for column in rows.columns[rows.row(at)].iter().filter(|column| blocks.contains(column)) {
            level = level.max(of_row[(column - blocks.start) as usize] + 1);
            count += 1;
        }
        of_row[made[at] as usize] = level;
        let found = level as usize * CLASSES + (count as usize).min(CLASSES - 1);
        class[at] = found as u32;
        if ends.len() <= found + 1 {
            ends.resize(found + 2, 0);
        }
        ends[found + 1] += 1;
    };
    let count = made.len();
    let place = |k: usize| if backward { count - 1 - k } else { k };
    (0..count).for_each(|k| find(place(k)));
    let mut sum = 0;
    ends.iter_mut().for_each(|end| {
        sum += *end;
        *end = sum;
    });
    let mut sorted = vec![(0, 0); count];
    for at in (0..count).map(place) {
        let next = &mut ends[class[at] as usize];
        sorted[*next] = (at, class[at] / CLASSES as u32);
        *next += 1;
    }
    sorted
}

impl Data for Triangle {
    type Ref<'v> = &'v Triangle;
    type Mut<'v> = &'v mut Triangle;

    fn view(&self) -> &Triangle {
        self
    }

    fn view_mut(&mut self) -> &mut Triangle {
        self
    }

    fn meta(&self) -> Meta {
        Meta { bytes: self.parts().iter().map(|part| part.len()).sum(), ..Meta::default() }
    }

    fn portability() -> Option<Portability<Self>> {
        Some(Portability::of())
    }
}

impl Portable for Triangle {
    /// The block size; rows and blocks of each part.
    type Header = [usize; 7];

    fn header(&self) -> [usize; 7] {
        let [before, within, behind] = &self.parts;
        let of = |part: &Part| [part.rows.len(), part.columns.len()];
        let ([a, b], [c, d], [e, f]) = (of(before), of(within), of(behind));
        [self.block_size, a, b, c, d, e, f]
    }

    fn blank(&[block_size, sizes @ ..]: &[usize; 7]) -> Self {
        let part = |k: usize| Part {
            rows: vec![[0; 2]; sizes[2 * k]],
            columns: vec![0; sizes[2 * k + 1]],
            values: vec![0.0; sizes[2 * k + 1] * block_size * block_size],
        };
        Triangle { block_size, parts: std::array::from_fn(part) }
    }

    fn parts(&self) -> Vec<&[u8]> {
        self.parts
            .iter()
            .flat_map(|part| {
                [
                    bytemuck::cast_slice(&part.rows),
                    bytemuck::cast_slice(&part.columns),
                    bytemuck::cast_slice(&part.values),
                ]
            })
            .collect()
    }

    fn parts_mut(&mut self) -> Vec<&mut [u8]> {
        self.parts
            .iter_mut()
            .flat_map(|part| {
                [
                    bytemuck::cast_slice_mut(&mut part.rows),
                    bytemuck::cast_slice_mut(&mut part.columns),
                    bytemuck::cast_slice_mut(&mut part.values),
                ]
            })
            .collect()
    }
}
