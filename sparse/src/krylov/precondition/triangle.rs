//! The rows of a stretch of a triangular factor, as data of tasks.

use std::ops::Range;

use zellige_kernels::triangular::{BlockRows, substitute, subtract};
use zellige_runtime::{Data, Meta, Portability, Portable};

/// Rows of blocks, one after the other in the order in which they are worked on.
#[derive(Debug, Default)]
struct Part {
    rows: Vec<[u32; 2]>,
    columns: Vec<u32>,
    values: Vec<f32>,
}

impl Part {
    fn push(&mut self, row: usize, count: usize) {
        if count > 0 {
            self.rows.push([row as u32, count as u32]);
        }
    }

    fn view(&self) -> BlockRows<'_> {
        BlockRows { rows: &self.rows, columns: &self.columns, values: &self.values }
    }
}

/// Where the columns of a stretch's rows are: before the stretch, in it, behind it.
const BEFORE: usize = 0;
const WITHIN: usize = 1;
const BEHIND: usize = 2;

/// The rows of a stretch of a triangular factor with ones on its diagonal, in blocks of `edge x edge`, in `f32`.
#[derive(Debug)]
pub struct Triangle {
    edge: usize,
    parts: [Part; 3],
}

/// A factor's rows of blocks of a stretch, in the order in which they are made.
#[derive(Debug)]
pub struct Rows<const B: usize> {
    starts: Vec<usize>,
    columns: Vec<u32>,
    /// By columns.
    values: Vec<[[f32; B]; B]>,
}

impl<const B: usize> Rows<B> {
    pub fn new() -> Self {
        Rows { starts: vec![0], columns: Vec::new(), values: Vec::new() }
    }

    /// Adds a block to the row that is being made.
    pub fn push(&mut self, column: u32, value: [[f32; B]; B]) {
        self.columns.push(column);
        self.values.push(value);
    }

    pub fn end_row(&mut self) {
        self.starts.push(self.columns.len());
    }

    /// True unless elements were beyond the range of `f32`.
    pub fn is_finite(&self) -> bool {
        self.values.iter().all(|block| block.as_flattened().iter().all(|value| value.is_finite()))
    }

    /// Columns and blocks of the row that was made in place `at`.
    #[cfg(test)]
    pub fn blocks(&self, at: usize) -> impl Iterator<Item = (u32, &[[f32; B]; B])> {
        self.row(at).map(|k| (self.columns[k], &self.values[k]))
    }

    fn row(&self, at: usize) -> Range<usize> {
        self.starts[at]..self.starts[at + 1]
    }
}

/// What a triangle needs of the vector it is solved for besides its own stretch: rows before it, and behind it, counted in unknowns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    pub before: Range<usize>,
    pub behind: Range<usize>,
}

impl Needed {
    /// Of a stretch of these rows.
    pub fn of<const B: usize>(rows: &Rows<B>, range: &Range<usize>) -> Needed {
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
    /// Of the rows of the stretch `range`, which were made in the order that `made` tells (numbers within the stretch), and are solved for in that order, or
    /// in the opposite one if `backward`. `first` is the unknown that begins what they will be given of before the stretch.
    ///
    /// Rows that do not need each other come together, so that a processor need not wait for one before it begins with the next.
    pub fn new<const B: usize>(
        rows: &Rows<B>,
        made: &[u32],
        backward: bool,
        range: &Range<usize>,
        first: usize,
    ) -> Triangle {
        let blocks = (range.start / B) as u32..(range.end / B) as u32;
        let mut triangle = Triangle { edge: B, parts: Default::default() };
        for at in by_level(rows, made, backward, &blocks) {
            let mut counts = [0; 3];
            for k in rows.row(at) {
                let column = rows.columns[k];
                let (place, column) = if column < blocks.start {
                    (BEFORE, column - (first / B) as u32)
                } else if column < blocks.end {
                    (WITHIN, column - blocks.start)
                } else {
                    (BEHIND, column - blocks.end)
                };
                counts[place] += 1;
                triangle.parts[place].columns.push(column);
                triangle.parts[place].values.extend(rows.values[k].as_flattened());
            }
            let row = made[at] as usize;
            triangle.parts.iter_mut().zip(counts).for_each(|(part, count)| part.push(row, count));
        }
        triangle
    }

    /// `z = T^-1 z`, given what there is of `z` before the stretch and behind it.
    pub fn solve(&self, before: &[f64], behind: &[f64], z: &mut [f64]) {
        match self.edge {
            1 => self.solve_blocks::<1>(before, behind, z),
            2 => self.solve_blocks::<2>(before, behind, z),
            3 => self.solve_blocks::<3>(before, behind, z),
            _ => self.solve_blocks::<4>(before, behind, z),
        }
    }

    fn solve_blocks<const B: usize>(&self, before: &[f64], behind: &[f64], z: &mut [f64]) {
        subtract::<B>(&self.parts[BEFORE].view(), before, z);
        subtract::<B>(&self.parts[BEHIND].view(), behind, z);
        substitute::<B>(&self.parts[WITHIN].view(), z);
    }
}

/// The places of rows in the order in which they are worked on: by the length of the longest chain of rows that each waits for.
fn by_level<const B: usize>(rows: &Rows<B>, made: &[u32], backward: bool, blocks: &Range<u32>) -> Vec<usize> {
    let mut of_row = vec![0u32; made.len()];
    let mut level = vec![0u32; made.len()];
    let mut ends = vec![0usize];
    let mut find = |at: usize| {
        let within = rows.columns[rows.row(at)].iter().filter(|column| blocks.contains(column));
        let level_of = |column: &u32| of_row[(column - blocks.start) as usize] + 1;
        let found = within.map(level_of).max().unwrap_or(0);
        (of_row[made[at] as usize], level[at]) = (found, found);
        if ends.len() <= found as usize + 1 {
            ends.push(0);
        }
        ends[found as usize + 1] += 1;
    };
    let count = made.len();
    let place = |k: usize| if backward { count - 1 - k } else { k };
    (0..count).for_each(|k| find(place(k)));
    let mut sum = 0;
    ends.iter_mut().for_each(|end| {
        sum += *end;
        *end = sum;
    });
    let mut sorted = vec![0; count];
    for at in (0..count).map(place) {
        let next = &mut ends[level[at] as usize];
        sorted[*next] = at;
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
    /// The edge; rows and blocks of each part.
    type Header = [usize; 7];

    fn header(&self) -> [usize; 7] {
        let [before, within, behind] = &self.parts;
        let of = |part: &Part| [part.rows.len(), part.columns.len()];
        let ([a, b], [c, d], [e, f]) = (of(before), of(within), of(behind));
        [self.edge, a, b, c, d, e, f]
    }

    fn blank(&[edge, sizes @ ..]: &[usize; 7]) -> Self {
        let part = |k: usize| Part {
            rows: vec![[0; 2]; sizes[2 * k]],
            columns: vec![0; sizes[2 * k + 1]],
            values: vec![0.0; sizes[2 * k + 1] * edge * edge],
        };
        Triangle { edge, parts: std::array::from_fn(part) }
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
