//! Making panels.

use super::bytes::{Columns, DIAGONALS, FOLLOW, Head, LONGEST, RUNS, SectionHead, TAIL, TileHead};
use super::{Bucket, EDGES, LANES, Panel, tile_rows};
use crate::KernelError;
use crate::packed::{PackedFormat, Rounding};

/// Elements of one bucket in one tile, row by row.
#[derive(Clone, Debug, Default)]
pub struct Elements {
    rows: Vec<u8>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl Elements {
    /// Adds an element at a row of the tile and a column of the matrix, both counted in elements.
    /// Rows must not decrease. For a block, `values` are its columns, one after the other.
    #[inline]
    pub fn push(&mut self, row: u8, column: u32, values: &[f64]) {
        self.rows.push(row);
        self.columns.push(column);
        self.values.extend_from_slice(values);
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there is no element.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Forgets all, but not the memory they were in.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.columns.clear();
        self.values.clear();
    }
}

/// A lane of a group: a row, or a piece of one, and the range of its elements.
#[derive(Clone, Copy, Debug)]
struct Lane {
    row: u8,
    begin: usize,
    len: usize,
}

/// A panel as it grows, tile by tile.
#[derive(Clone, Debug)]
pub struct PanelWriter {
    head: Head,
    bytes: Vec<u8>,
}

fn wrong<T>(problem: &'static str, at: usize) -> Result<T, KernelError> {
    Err(KernelError::Panel { problem, at })
}

impl PanelWriter {
    /// Creates a panel that begins at row `first_row` of a matrix with `matrix_columns` columns,
    /// both counted in numbers. Sums are multiplied by `2^exponent`. Buckets are added in the given
    /// order.
    ///
    /// # Errors
    /// [`KernelError::Panel`] for a block size that is not in [`EDGES`], and for more than 255
    /// buckets.
    pub fn new(
        edge: usize,
        first_row: usize,
        matrix_columns: usize,
        exponent: i32,
        buckets: &[Bucket],
    ) -> Result<PanelWriter, KernelError> {
        if !EDGES.contains(&edge) || buckets.len() > usize::from(u8::MAX) {
            return wrong("blocks have an edge of 1 to 4, and panels at most 255 buckets", 4);
        }
        let buckets = buckets.to_vec();
        let head = Head { edge, exponent, first_row, row_count: 0, matrix_columns, tiles: 0, buckets };
        let mut bytes = Vec::new();
        head.write(&mut bytes);
        Ok(PanelWriter { head, bytes })
    }

    /// Bytes so far.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The row of numbers that the next tile begins at.
    pub fn next_row(&self) -> usize {
        self.head.rows().end
    }

    /// The next rows, of elements, with the elements of each bucket. `exponents` are powers of two
    /// that sums of rows of numbers are multiplied by, besides that of the panel.
    ///
    /// # Errors
    /// [`KernelError::Panel`] for more rows than [`tile_rows`], or lists that do not fit.
    pub fn tile(
        &mut self,
        rows: usize,
        exponents: Option<&[i16]>,
        buckets: &[Elements],
        rounding: Rounding,
    ) -> Result<(), KernelError> {
        let edge = self.head.edge;
        let fits = rows <= tile_rows(edge)
            && buckets.len() == self.head.buckets.len()
            && exponents.is_none_or(|exponents| exponents.len() == rows * edge)
            && buckets.iter().all(|elements| {
                elements.rows.is_sorted()
                    && elements.rows.last().is_none_or(|&last| usize::from(last) < rows)
                    && elements.values.len() == elements.len() * edge * edge
            });
        if !fits {
            return wrong("rows, buckets and elements of a tile do not fit each other", self.bytes.len());
        }
        let columns = || buckets.iter().flat_map(|elements| &elements.columns);
        let base = columns().min().map_or(0, |&first| first as usize);
        let window = columns().max().map_or(0, |&last| last as usize + 1) - base;
        let tile = TileHead {
            columns: columns_of(edge, buckets, base, window),
            has_exponents: exponents.is_some(),
            sections: buckets.iter().filter(|elements| !elements.is_empty()).count(),
            rows,
            base,
            window,
        };
        tile.write(&mut self.bytes);
        exponents.into_iter().flatten().for_each(|e| self.bytes.extend_from_slice(&e.to_le_bytes()));
        for (place, elements) in buckets.iter().enumerate().filter(|(_, elements)| !elements.is_empty()) {
            let format = self.head.buckets[place].format;
            SectionWriter { elements, format, edge, tile: &tile, rounding }.write(place, &mut self.bytes)?;
        }
        self.head.tiles += 1;
        self.head.row_count += rows * edge;
        Ok(())
    }

    /// The panel.
    ///
    /// # Errors
    /// [`KernelError::Panel`] where an element is outside of the matrix, or blocks are to have
    /// formats without zeros.
    pub fn finish(mut self) -> Result<Panel, KernelError> {
        let mut head = Vec::with_capacity(self.head.len());
        self.head.write(&mut head);
        self.bytes[..head.len()].copy_from_slice(&head);
        self.bytes.resize(self.bytes.len() + TAIL, 0);
        self.bytes.shrink_to_fit();
        Panel::from_bytes(self.bytes)
    }
}

/// Contents of one bucket of a tile, to be written.
struct SectionWriter<'a> {
    elements: &'a Elements,
    format: PackedFormat,
    edge: usize,
    tile: &'a TileHead,
    rounding: Rounding,
}

impl SectionWriter<'_> {
    fn write(&self, bucket: usize, bytes: &mut Vec<u8>) -> Result<(), KernelError> {
        let lanes = sorted(&self.rows());
        let groups = lanes.len().div_ceil(LANES);
        if groups > usize::from(u16::MAX) {
            return wrong("a tile has too many elements", bytes.len());
        }
        SectionHead { bucket, groups }.write(bytes);
        lanes.chunks(LANES).for_each(|group| self.write_group(group, bytes));
        Ok(())
    }

    /// Returns all rows of the tile.
    fn rows(&self) -> Vec<Lane> {
        let mut rows: Vec<Lane> =
            (0..self.tile.rows).map(|row| Lane { row: row as u8, begin: 0, len: 0 }).collect();
        for (at, &row) in self.elements.rows.iter().enumerate() {
            let lane = &mut rows[usize::from(row)];
            if lane.len == 0 {
                lane.begin = at;
            }
            lane.len += 1;
        }
        rows
    }

    /// Up to eight lanes, the longest first.
    fn write_group(&self, group: &[Lane], bytes: &mut Vec<u8>) {
        let (first, last) = (group[0], group[group.len() - 1]);
        let all = if group.len() == LANES { last.len } else { 0 };
        let (runs, full): (Vec<usize>, Vec<usize>) = (0..all).partition(|&step| self.is_run(group, step));
        let follow = group.len() == LANES
            && group.windows(2).all(|pair| usize::from(pair[0].row) + 1 == usize::from(pair[1].row));
        let flags = [if follow { FOLLOW } else { 0 }, if runs.is_empty() { 0 } else { RUNS }];
        bytes.extend_from_slice(&[first.len as u8 | flags[0], full.len() as u8 | flags[1]]);
        bytes.extend((!runs.is_empty()).then_some(runs.len() as u8));
        match follow {
            true => bytes.push(first.row),
            // Lanes that are not there add nothing to the row of the last.
            false => bytes.extend((0..LANES).map(|lane| group.get(lane).unwrap_or(&last).row)),
        }
        let active = |step: usize| group.iter().take_while(|lane| step < lane.len).count();
        bytes.extend((all..first.len).map(|step| active(step) as u8));
        for step in runs {
            self.write_columns(&group[..1], step, bytes);
            self.write_codes(&group[..LANES], step, bytes);
        }
        for step in full.into_iter().chain(all..first.len) {
            let lanes = &group[..active(step)];
            self.write_columns(lanes, step, bytes);
            self.write_codes(lanes, step, bytes);
        }
    }

    /// Returns true if the columns of all lanes are consecutive.
    fn is_run(&self, group: &[Lane], step: usize) -> bool {
        let column = |lane: &Lane| self.elements.columns[lane.begin + step];
        group.windows(2).all(|pair| column(&pair[0]) + 1 == column(&pair[1]))
    }

    fn write_columns(&self, lanes: &[Lane], step: usize, bytes: &mut Vec<u8>) {
        let column = |lane: &Lane| self.elements.columns[lane.begin + step] - self.tile.base as u32;
        match &self.tile.columns {
            Columns::Short => lanes.iter().for_each(|lane| put(bytes, u64::from(column(lane)), 2)),
            Columns::Long => lanes.iter().for_each(|lane| put(bytes, u64::from(column(lane)), 4)),
            Columns::Diagonals(list) => {
                let number = |lane: &Lane| {
                    let diagonal = i64::from(column(lane)) - i64::from(lane.row);
                    list.iter().position(|&d| i64::from(d) == diagonal).expect("all are in the list") as u8
                };
                let two = |two: &[Lane]| number(&two[0]) | two.get(1).map_or(0, |lane| number(lane) << 4);
                bytes.extend(lanes.chunks(2).map(two));
            }
        }
    }

    fn write_codes(&self, lanes: &[Lane], step: usize, bytes: &mut Vec<u8>) {
        let places = self.edge * self.edge;
        bytes.reserve(places * lanes.len() * self.format.bytes() + size_of::<u64>());
        for place in 0..places {
            for lane in lanes {
                let value = self.elements.values[(lane.begin + step) * places + place];
                let code = self.format.encode(value, self.rounding);
                put(bytes, code, self.format.bytes());
            }
        }
    }
}

/// Selects the encoding of the columns of a tile. If the numbers lie on few diagonals, it is the
/// index of the diagonal.
fn columns_of(edge: usize, buckets: &[Elements], base: usize, window: usize) -> Columns {
    // Fewer do not pay for the list; a block is so large that its column weighs little.
    const LEAST: usize = 64;
    let is_short = window <= 1 << 16;
    let plain = if is_short { Columns::Short } else { Columns::Long };
    if edge > 1 || buckets.iter().map(Elements::len).sum::<usize>() < LEAST {
        return plain;
    }
    let mut list = [i64::MAX; DIAGONALS];
    let all = buckets.iter().flat_map(|elements| elements.rows.iter().zip(&elements.columns));
    for (&row, &column) in all {
        let diagonal = i64::from(column) - base as i64 - i64::from(row);
        let Some(place) = list.iter_mut().find(|d| [diagonal, i64::MAX].contains(d)) else { return plain };
        *place = diagonal;
    }
    let mut diagonals = [0; DIAGONALS];
    for (to, from) in diagonals.iter_mut().zip(list).filter(|(_, from)| *from != i64::MAX) {
        let Ok(diagonal) = i32::try_from(from) else { return plain };
        *to = diagonal;
    }
    Columns::Diagonals(diagonals)
}

/// Appends the lowest `count` bytes of a word.
fn put(bytes: &mut Vec<u8>, word: u64, count: usize) {
    // All eight and some back: a copy of known length is one instruction.
    bytes.extend_from_slice(&word.to_le_bytes());
    bytes.truncate(bytes.len() + count - size_of::<u64>());
}

/// Rows that have elements, the longest first; those of more than twice the average length in
/// pieces.
fn sorted(rows: &[Lane]) -> Vec<Lane> {
    let all: usize = rows.iter().map(|row| row.len).sum();
    let not_empty = rows.iter().filter(|row| row.len > 0);
    let average = all.div_ceil(not_empty.clone().count().max(1));
    let longest = (2 * average).clamp(LANES, LONGEST);
    let mut lanes: Vec<Lane> = not_empty.flat_map(|row| pieces(*row, longest)).collect();
    lanes.sort_by_key(|lane| std::cmp::Reverse(lane.len));
    lanes
}

/// Pieces of a row, of about the same length.
fn pieces(row: Lane, longest: usize) -> impl Iterator<Item = Lane> {
    let count = row.len.div_ceil(longest);
    (0..count).map(move |k| {
        let [begin, end] = [k, k + 1].map(|k| row.len * k / count);
        Lane { begin: row.begin + begin, len: end - begin, ..row }
    })
}
