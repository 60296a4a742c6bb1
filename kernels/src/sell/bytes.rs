//! Byte layout of a panel. Numbers are little endian; nothing is aligned.

use std::ops::Range;

use super::{Bucket, LANES};
use crate::packed::PackedFormat;

/// The first bytes of every panel.
const MAGIC: [u8; 4] = *b"ZSE2";
/// A tile's flags.
const LONG: u8 = 1;
const HAS_EXPONENTS: u8 = 2;
const ON_DIAGONALS: u8 = 4;
/// Bytes of a panel's head, without its buckets.
const HEAD: usize = 40;
const BUCKET: usize = 4;
/// Zeros after the last group: eight codes are read with more than their own bytes.
pub(super) const TAIL: usize = 64;

/// Reads `N` bytes at `at` and advances it. Returns `None` if there are fewer.
pub(super) fn take<const N: usize>(bytes: &[u8], at: &mut usize) -> Option<[u8; N]> {
    let found = bytes.get(*at..)?.first_chunk::<N>()?;
    *at += N;
    Some(*found)
}

/// Head of a panel.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Head {
    pub edge: usize,
    /// Exponent of the power of two that multiplies the sums of all rows.
    pub exponent: i32,
    pub first_row: usize,
    pub row_count: usize,
    /// The length of `x`.
    pub matrix_columns: usize,
    pub tiles: usize,
    pub buckets: Vec<Bucket>,
}

impl Head {
    pub fn rows(&self) -> Range<usize> {
        self.first_row..self.first_row + self.row_count
    }

    /// Returns the length of the head, at which the first tile begins.
    pub fn len(&self) -> usize {
        HEAD + BUCKET * self.buckets.len()
    }

    pub fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[self.edge as u8, self.buckets.len() as u8, 0, 0]);
        bytes.extend_from_slice(&self.exponent.to_le_bytes());
        bytes.extend_from_slice(&(self.tiles as u32).to_le_bytes());
        for size in [self.first_row, self.row_count, self.matrix_columns] {
            bytes.extend_from_slice(&(size as u64).to_le_bytes());
        }
        for bucket in &self.buckets {
            let format = PackedFormat::ALL.iter().position(|&format| format == bucket.format);
            bytes.push(format.expect("one of all") as u8);
            bytes.push(u8::from(bucket.negative));
            bytes.extend_from_slice(&bucket.exponent.to_le_bytes());
        }
    }

    /// Reads a head. Returns `None` if there is none.
    pub fn read(bytes: &[u8]) -> Option<Head> {
        let at = &mut 0;
        if take::<4>(bytes, at)? != MAGIC {
            return None;
        }
        let [edge, buckets, _, _] = take(bytes, at)?;
        let exponent = i32::from_le_bytes(take(bytes, at)?);
        let tiles = u32::from_le_bytes(take(bytes, at)?) as usize;
        let mut size = || usize::try_from(u64::from_le_bytes(take(bytes, at)?)).ok();
        let (first_row, row_count, matrix_columns) = (size()?, size()?, size()?);
        first_row.checked_add(row_count)?;
        let mut bucket = |_| {
            let [format, negative, low, high] = take(bytes, at)?;
            let format = *PackedFormat::ALL.get(usize::from(format))?;
            Some(Bucket { format, negative: negative != 0, exponent: i16::from_le_bytes([low, high]) })
        };
        let buckets = (0..buckets).map(&mut bucket).collect::<Option<Vec<_>>>()?;
        Some(Head { edge: edge.into(), exponent, first_row, row_count, matrix_columns, tiles, buckets })
    }
}

/// Diagonals that a tile may have a list of.
pub(super) const DIAGONALS: usize = 8;

/// Encoding of the columns of steps, relative to the begin of the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Columns {
    /// 16 bits for each lane.
    Short,
    /// 32 bits for each lane.
    Long,
    /// The tile's elements are on a few diagonals: half a byte for each lane is the index of its
    /// diagonal, which is a column minus the row.
    Diagonals([i32; DIAGONALS]),
}

impl Columns {
    /// Returns the bytes of the columns of `lanes` lanes: those of a step, or the first one of a
    /// run.
    #[inline(always)]
    pub const fn bytes(&self, lanes: usize) -> usize {
        match self {
            Columns::Short => 2 * lanes,
            Columns::Long => 4 * lanes,
            Columns::Diagonals(_) => lanes.div_ceil(2),
        }
    }
}

/// Returns the index of the diagonal of a lane of a step.
#[inline(always)]
pub(super) fn diagonal_of(step: &[u8], lane: usize) -> usize {
    usize::from(step[lane / 2] >> (lane % 2 * 4) & 15)
}

/// Head of a tile, before the exponents of its rows and its sections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TileHead {
    pub columns: Columns,
    /// Rows of numbers have their own powers of two.
    pub has_exponents: bool,
    pub sections: usize,
    /// Rows of elements.
    pub rows: usize,
    /// The window of columns of elements.
    pub base: usize,
    pub window: usize,
}

impl TileHead {
    /// Returns flags for the encoding of the columns and for rows with their own exponents.
    pub fn flags(&self) -> u8 {
        let columns = match self.columns {
            Columns::Short => 0,
            Columns::Long => LONG,
            Columns::Diagonals(_) => ON_DIAGONALS,
        };
        columns | if self.has_exponents { HAS_EXPONENTS } else { 0 }
    }

    pub fn write(&self, bytes: &mut Vec<u8>) {
        bytes.push(self.flags());
        bytes.push(self.sections as u8);
        bytes.extend_from_slice(&(self.rows as u16).to_le_bytes());
        bytes.extend_from_slice(&(self.base as u32).to_le_bytes());
        bytes.extend_from_slice(&(self.window as u32).to_le_bytes());
        if let Columns::Diagonals(diagonals) = self.columns {
            diagonals.iter().for_each(|diagonal| bytes.extend_from_slice(&diagonal.to_le_bytes()));
        }
    }

    #[inline(always)]
    pub fn read(bytes: &[u8], at: &mut usize) -> Option<TileHead> {
        let [flags, sections] = take(bytes, at)?;
        let rows = u16::from_le_bytes(take(bytes, at)?).into();
        let base = u32::from_le_bytes(take(bytes, at)?) as usize;
        let window = u32::from_le_bytes(take(bytes, at)?) as usize;
        let columns = if flags & ON_DIAGONALS != 0 {
            let list = take::<{ 4 * DIAGONALS }>(bytes, at)?;
            let mut diagonals = [0; DIAGONALS];
            for (to, from) in diagonals.iter_mut().zip(list.as_chunks::<4>().0) {
                *to = i32::from_le_bytes(*from);
            }
            Columns::Diagonals(diagonals)
        } else if flags & LONG != 0 {
            Columns::Long
        } else {
            Columns::Short
        };
        let has_exponents = flags & HAS_EXPONENTS != 0;
        Some(TileHead { columns, has_exponents, sections: sections.into(), rows, base, window })
    }
}

/// Head of a section, before its groups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SectionHead {
    /// Index of the bucket in the panel's list.
    pub bucket: usize,
    pub groups: usize,
}

impl SectionHead {
    pub fn write(&self, bytes: &mut Vec<u8>) {
        bytes.push(self.bucket as u8);
        bytes.extend_from_slice(&(self.groups as u16).to_le_bytes());
    }

    #[inline(always)]
    pub fn read(bytes: &[u8], at: &mut usize) -> Option<SectionHead> {
        let [bucket] = take(bytes, at)?;
        let groups = u16::from_le_bytes(take(bytes, at)?);
        Some(SectionHead { bucket: bucket.into(), groups: groups.into() })
    }
}

/// Flag in the number of steps: the rows are consecutive, and only the first row number is stored.
pub(super) const FOLLOW: u8 = 1 << 7;
/// Flag in the number of full steps: there are also runs, and their number follows.
pub(super) const RUNS: u8 = 1 << 7;
/// The longest row, or piece of one, that a group has.
pub(super) const LONGEST: usize = FOLLOW as usize - 1;

/// Head of a group, before its steps.
pub(super) struct GroupHead<'a> {
    /// Rows of the tile, counted in elements. A piece of a row has the number of the row.
    pub rows: GroupRows,
    /// Steps in which all lanes have an element, in columns that follow one another: only the first
    /// one's is there. They come first.
    pub runs: usize,
    /// Other steps in which all lanes have one.
    pub full: usize,
    /// Number of lanes with an element in each of the remaining steps. These are the first lanes.
    pub ragged: &'a [u8],
}

/// The rows of a group.
#[derive(Clone, Copy)]
pub(super) enum GroupRows {
    /// Consecutive rows from this one on.
    From(usize),
    /// Arbitrary rows.
    These([u8; LANES]),
}

impl GroupRows {
    #[inline(always)]
    pub fn of(self, lane: usize) -> usize {
        match self {
            GroupRows::From(first) => first + lane,
            GroupRows::These(rows) => rows[lane].into(),
        }
    }
}

impl<'a> GroupHead<'a> {
    #[inline(always)]
    pub fn read(bytes: &'a [u8], at: &mut usize) -> Option<GroupHead<'a>> {
        let [steps, full] = take::<2>(bytes, at)?;
        let runs = if full & RUNS == 0 { 0 } else { take::<1>(bytes, at)?[0] };
        let full = full & !RUNS;
        let rows = match steps & FOLLOW {
            0 => GroupRows::These(take(bytes, at)?),
            _ => GroupRows::From(take::<1>(bytes, at)?[0].into()),
        };
        let ragged =
            bytes.get(*at..)?.get(..usize::from((steps & !FOLLOW).checked_sub(full)?.checked_sub(runs)?))?;
        *at += ragged.len();
        Some(GroupHead { rows, runs: runs.into(), full: full.into(), ragged })
    }

    /// Elements of all steps.
    #[inline(always)]
    pub fn elements(&self) -> usize {
        (self.runs + self.full) * LANES + self.ragged.iter().map(|&lanes| usize::from(lanes)).sum::<usize>()
    }
}

/// Bytes of a run: one column, and the codes of all lanes.
#[inline(always)]
pub(super) const fn run_bytes(columns: &Columns, edge: usize, format: PackedFormat) -> usize {
    columns.bytes(1) + LANES * edge * edge * format.bytes()
}

/// Returns the bytes of a step of `lanes` lanes.
#[inline(always)]
pub(super) const fn step_bytes(columns: &Columns, lanes: usize, edge: usize, format: PackedFormat) -> usize {
    columns.bytes(lanes) + lanes * edge * edge * format.bytes()
}
