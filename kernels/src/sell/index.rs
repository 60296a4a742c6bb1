//! Index of a panel, for random access to its groups.

use super::bytes::{GroupHead, SectionHead, TileHead, run_bytes, step_bytes};
use super::product::CHECKED;
use super::{Bucket, LANES, Panel};
use crate::packed::PackedFormat;

/// Words of a tile's and of a section's entry.
const TILE: usize = 8;
const SECTION: usize = 2;
/// Flags in a section's second word, next to the format: elements are negative; some row has
/// several lanes.
const NEGATIVE: u32 = 1 << 5;
const PIECES: u32 = 1 << 6;

/// Index of a panel. With it and the panel's bytes, a GPU starts on all groups in parallel
/// ([`sell_product`](crate::cuda::sell_product)).
///
/// | entry | words of 32 bits |
/// |---|---|
/// | tile | its offset after the head (two words), its first row within the panel, counted in numbers, its rows, the window's first column and columns, counted in elements, its flags (those of the panel), its first section |
/// | section | its first group; format, sign, whether rows have several lanes, exponent |
/// | group | its offset within the tile |
///
/// Tiles and sections have one more entry. Its section or group is the one after the last.
#[derive(Clone, Debug, PartialEq)]
pub struct PanelIndex {
    pub(crate) outline: Outline,
    words: Vec<u32>,
}

/// Sizes of a panel and of its [`PanelIndex`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    pub(crate) edge: usize,
    /// Exponent of the power of two that multiplies the sums of all rows.
    pub(crate) exponent: i32,
    /// Rows, counted in numbers.
    pub(crate) rows: usize,
    /// The part of `x` that is read.
    pub(crate) columns: (usize, usize),
    pub(crate) tiles: usize,
    pub(crate) sections: usize,
    groups: usize,
    /// Bytes of the panel.
    pub(crate) bytes: usize,
}

impl Outline {
    /// Returns the number of words of the index.
    pub fn words(&self) -> usize {
        TILE * (self.tiles + 1) + SECTION * (self.sections + 1) + self.groups
    }

    /// Rows of the panel, of numbers.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the panel.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl PanelIndex {
    /// Builds the index of a panel.
    pub fn of(panel: &Panel) -> PanelIndex {
        let mut found = Found::default();
        let mut at = panel.head.len();
        let mut row = 0;
        for _ in 0..panel.head.tiles {
            row += found.tile(panel, row, &mut at);
        }
        found.ends(row);
        let outline = Outline {
            edge: panel.head.edge,
            exponent: panel.head.exponent,
            rows: panel.head.row_count,
            columns: (panel.columns.start, panel.columns.end),
            tiles: panel.head.tiles,
            sections: found.sections.len() - 1,
            groups: found.groups.len(),
            bytes: panel.bytes.len(),
        };
        let Found { tiles, sections, groups } = found;
        let words = [tiles.into_flattened(), sections.into_flattened(), groups].concat();
        PanelIndex { outline, words }
    }

    /// Creates an index with zeroed words, to be filled through
    /// [`words_mut`](PanelIndex::words_mut).
    pub fn blank(outline: Outline) -> PanelIndex {
        PanelIndex { outline, words: vec![0; outline.words()] }
    }

    /// Returns the sizes of the panel and of the index.
    pub fn outline(&self) -> Outline {
        self.outline
    }

    /// Returns the words.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Returns the words for writing, to be replaced by those of another index of the same outline.
    pub fn words_mut(&mut self) -> &mut [u32] {
        &mut self.words
    }
}

/// Entries so far. Their numbers fit into words: panels are checked for that.
#[derive(Default)]
struct Found {
    tiles: Vec<[u32; TILE]>,
    sections: Vec<[u32; SECTION]>,
    groups: Vec<u32>,
}

impl Found {
    /// Adds a tile whose rows begin at `row`. Returns the number of its rows, counted in numbers.
    fn tile(&mut self, panel: &Panel, row: usize, at: &mut usize) -> usize {
        let bytes = &panel.bytes[..];
        let tile = TileHead::read(bytes, at).expect(CHECKED);
        let begin = *at;
        self.tiles.push([
            begin as u32,
            (begin as u64 >> 32) as u32,
            row as u32,
            tile.rows as u32,
            tile.base as u32,
            tile.window as u32,
            tile.flags().into(),
            self.sections.len() as u32,
        ]);
        let rows = tile.rows * panel.head.edge;
        *at += if tile.has_exponents { 2 * rows } else { 0 };
        for _ in 0..tile.sections {
            self.section(panel, &tile, begin, at);
        }
        rows
    }

    fn section(&mut self, panel: &Panel, tile: &TileHead, begin: usize, at: &mut usize) {
        let section = SectionHead::read(&panel.bytes, at).expect(CHECKED);
        let bucket = panel.head.buckets[section.bucket];
        let first = self.groups.len() as u32;
        let edge = panel.head.edge;
        let run = run_bytes(&tile.columns, edge, bucket.format);
        let step = |lanes| step_bytes(&tile.columns, lanes, edge, bucket.format);
        let mut seen = Seen::default();
        for _ in 0..section.groups {
            self.groups.push((*at - begin) as u32);
            let group = GroupHead::read(&panel.bytes, at).expect(CHECKED);
            seen.lanes(&group);
            let ragged: usize = group.ragged.iter().map(|&lanes| step(lanes.into())).sum();
            *at += group.runs * run + group.full * step(LANES) + ragged;
        }
        self.sections.push([first, described(bucket, seen.twice)]);
    }

    /// Adds the entries after the last tile and the last section.
    fn ends(&mut self, rows: usize) {
        self.tiles.push([0, 0, rows as u32, 0, 0, 0, 0, self.sections.len() as u32]);
        self.sections.push([self.groups.len() as u32, 0]);
    }
}

fn described(bucket: Bucket, has_pieces: bool) -> u32 {
    let format = PackedFormat::ALL.iter().position(|&format| format == bucket.format).expect("one of all");
    format as u32
        | if bucket.negative { NEGATIVE } else { 0 }
        | if has_pieces { PIECES } else { 0 }
        | u32::from(bucket.exponent as u16) << 16
}

/// Rows that have come in a section, and whether one has come twice.
#[derive(Default)]
struct Seen {
    rows: [u64; 4],
    twice: bool,
}

impl Seen {
    /// The lanes of a group that have elements.
    fn lanes(&mut self, group: &GroupHead<'_>) {
        let ragged = group.ragged.iter().max().map_or(0, |&lanes| lanes.into());
        let lanes = if group.runs + group.full > 0 { LANES } else { ragged };
        for row in (0..lanes).map(|lane| group.rows.of(lane)) {
            let bit = 1 << (row % 64);
            self.twice |= self.rows[row / 64] & bit != 0;
            self.rows[row / 64] |= bit;
        }
    }
}
