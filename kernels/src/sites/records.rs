//! Records of sites, and rows of numbers that are computed with.

use std::ops::Range;

use super::lanes::{Lanes, PairOps, ProductNumber, Real, WithLanes};
use super::layouts::{Components, Eight, OfFormat, Record, Words, each};
use super::{COMPONENTS, LANES, SiteFormat};

/// Complex numbers of a site.
const COLOURS: usize = COMPONENTS / 2;

/// Decodes sites of a column into rows: component `c` of the `i`-th of them to
/// `rows[c * pitch + i]`. `codes` are a whole number of sites of all columns.
///
/// # Panics
/// If `rows` or `codes` are too short.
pub fn decode_sites<R: Real>(
    format: SiteFormat,
    codes: &[f64],
    (columns, column): (usize, usize),
    sites: Range<usize>,
    rows: &mut [R],
    pitch: usize,
) {
    let at = At { columns, column, first: sites.start, sites: sites.len(), pitch, across: false };
    R::with_lanes(Decode { format, codes, at, rows });
}

/// Stores what [`decode_sites`] decodes. The scale of a record follows from its numbers alone.
///
/// # Panics
/// If `rows` or `codes` are too short.
pub fn encode_sites<R: Real>(
    format: SiteFormat,
    rows: &[R],
    pitch: usize,
    codes: &mut [f64],
    (columns, column): (usize, usize),
    sites: Range<usize>,
) {
    let at = At { columns, column, first: sites.start, sites: sites.len(), pitch, across: false };
    R::with_lanes(Encode { format, codes, at, rows });
}

/// Decodes eight columns of sites, from `column` on: component `c` of the `k`-th of them of the
/// `i`-th site to `rows[(6 i + c) * 8 + k]`. Bits are those of [`decode_sites`].
///
/// # Panics
/// If there are not as many columns, or `rows` or `codes` are too short.
pub fn decode_columns<R: Real>(
    format: SiteFormat,
    codes: &[f64],
    (columns, column): (usize, usize),
    sites: Range<usize>,
    rows: &mut [R],
) {
    R::with_lanes(Decode { format, codes, at: At::across((columns, column), sites), rows });
}

/// Encodes the rows of [`decode_columns`], with the same bits as [`encode_sites`].
///
/// # Panics
/// In the cases of [`decode_columns`].
pub fn encode_columns<R: Real>(
    format: SiteFormat,
    rows: &[R],
    codes: &mut [f64],
    (columns, column): (usize, usize),
    sites: Range<usize>,
) {
    R::with_lanes(Encode { format, codes, at: At::across((columns, column), sites), rows });
}

/// Decodes sites of a single column into the layout of float64: three complex numbers of each site,
/// the first at `numbers[0]`.
///
/// # Panics
/// If `numbers` or `codes` are too short.
pub fn decode_numbers(format: SiteFormat, codes: &[f64], sites: Range<usize>, numbers: &mut [f64]) {
    let at = At { columns: 1, column: 0, first: sites.start, sites: sites.len(), pitch: 0, across: false };
    f64::with_lanes(DecodeNumbers { format, codes, at, numbers });
}

/// Stores what [`decode_numbers`] decodes, with the same bits as [`encode_sites`].
///
/// # Panics
/// If `numbers` or `codes` are too short.
pub fn encode_numbers(format: SiteFormat, numbers: &[f64], codes: &mut [f64], sites: Range<usize>) {
    let at = At { columns: 1, column: 0, first: sites.start, sites: sites.len(), pitch: 0, across: false };
    f64::with_lanes(EncodeNumbers { format, codes, at, numbers });
}

/// Sites and column of a conversion, and the distance between rows.
#[derive(Clone, Copy)]
struct At {
    columns: usize,
    column: usize,
    first: usize,
    sites: usize,
    pitch: usize,
    /// True if eight columns of a site are processed in lanes, instead of eight sites of a column.
    across: bool,
}

/// Records that are processed together in lanes.
#[derive(Clone, Copy)]
struct RecordBlock {
    /// The first site.
    site: usize,
    /// Number of records: eight except at the end.
    count: usize,
    /// Offset of their rows.
    row: usize,
}

impl At {
    /// Eight columns from `column` on.
    fn across((columns, column): (usize, usize), sites: Range<usize>) -> At {
        assert!(column + LANES <= columns, "eight columns");
        At { columns, column, first: sites.start, sites: sites.len(), pitch: LANES, across: true }
    }

    /// Returns the position of the first record, and the distance to the next one.
    #[inline(always)]
    fn record(self, block: RecordBlock) -> (usize, usize) {
        (block.site * self.columns + self.column, if self.across { 1 } else { self.columns })
    }

    /// Returns the position of the first complex number in float64, and the distance to the next
    /// one. The numbers of one colour and several columns are contiguous.
    #[inline(always)]
    fn double(self, block: RecordBlock, colour: usize) -> (usize, usize) {
        let first = (block.site * COLOURS + colour) * self.columns + self.column;
        (first, if self.across { 1 } else { COLOURS * self.columns })
    }

    /// Returns the range of all its sites in float64, for a single column.
    fn numbers(self) -> Range<usize> {
        COMPONENTS * self.first..COMPONENTS * (self.first + self.sites)
    }

    /// Returns the blocks in the order in which they are processed.
    #[inline(always)]
    fn blocks(self) -> impl Iterator<Item = RecordBlock> {
        (0..self.sites).step_by(if self.across { 1 } else { LANES }).map(move |begin| RecordBlock {
            site: self.first + begin,
            count: if self.across { LANES } else { LANES.min(self.sites - begin) },
            row: if self.across { begin * COMPONENTS * LANES } else { begin },
        })
    }

    #[inline(always)]
    fn store<R: Real>(self, values: &Components<R>, block: RecordBlock, rows: &mut [R]) {
        // By indices: chunks would need a division for each block.
        for c in 0..COMPONENTS {
            let row = &mut rows[block.row + c * self.pitch..];
            if block.count == LANES {
                *row.first_chunk_mut().expect("a row of eight numbers") = values[c];
            } else {
                row.iter_mut().zip(values[c]).take(block.count).for_each(|(to, from)| *to = from);
            }
        }
    }

    #[inline(always)]
    fn load<R: Real>(self, rows: &[R], block: RecordBlock) -> Components<R> {
        let mut values = Components::<R>::default();
        for c in 0..COMPONENTS {
            let row = &rows[block.row + c * self.pitch..];
            if block.count == LANES {
                values[c] = *row.first_chunk().expect("a row of eight numbers");
            } else {
                row.iter().zip(&mut values[c]).take(block.count).for_each(|(from, to)| *to = *from);
            }
        }
        values
    }
}

struct Decode<'a, R> {
    format: SiteFormat,
    codes: &'a [f64],
    at: At,
    rows: &'a mut [R],
}

impl<R: Real> WithLanes<R> for Decode<'_, R> {
    #[inline(always)]
    fn call<L: Lanes<R>>(self, lanes: L) {
        let format = self.format;
        OfFormat::of((self, lanes), format);
    }
}

impl<R: Real, L: Lanes<R>> OfFormat for (Decode<'_, R>, L) {
    #[inline(always)]
    fn doubles(self) {
        let (Decode { codes, at, rows, .. }, lanes) = self;
        let (codes, _) = codes.as_chunks::<2>();
        for block in at.blocks() {
            prefetch_next(lanes, at, &codes[at.double(block, 0).0..], COLOURS);
            let mut values = Components::default();
            for colour in 0..COLOURS {
                let (first, step) = at.double(block, colour);
                let own = &codes[first..];
                let mut pairs = [[0.0; 2]; LANES];
                match own.first_chunk::<{ COLOURS * (LANES - 1) + 1 }>() {
                    Some(own) if step == COLOURS && block.count == LANES => {
                        (0..LANES).for_each(|lane| pairs[lane] = own[COLOURS * lane]);
                    }
                    _ if step == 1 => pairs = *own.first_chunk().expect("eight columns"),
                    _ => (0..block.count).for_each(|lane| pairs[lane] = own[lane * step]),
                }
                let (re, im) = lanes.split_doubles(pairs);
                values[2 * colour] = each(re, R::from_f64);
                values[2 * colour + 1] = each(im, R::from_f64);
            }
            at.store(&values, block, rows);
        }
    }

    #[inline(always)]
    fn records<const PAIRS: usize, F: Record<PAIRS>>(self, format: F) {
        let (Decode { codes, at, rows, .. }, lanes) = self;
        let (codes, _) = codes.as_chunks::<PAIRS>();
        for block in at.blocks() {
            prefetch_next(lanes, at, &codes[at.record(block).0..], 1);
            at.store(&format.unpack::<R>(&words_of(lanes, codes, at, block)), block, rows);
        }
    }
}

struct Encode<'a, R> {
    format: SiteFormat,
    codes: &'a mut [f64],
    at: At,
    rows: &'a [R],
}

impl<R: Real> WithLanes<R> for Encode<'_, R> {
    #[inline(always)]
    fn call<L: Lanes<R>>(self, lanes: L) {
        let format = self.format;
        OfFormat::of((self, lanes), format);
    }
}

impl<R: Real, L: Lanes<R>> OfFormat for (Encode<'_, R>, L) {
    #[inline(always)]
    fn doubles(self) {
        let (Encode { codes, at, rows, .. }, lanes) = self;
        let (codes, _) = codes.as_chunks_mut::<2>();
        for block in at.blocks() {
            let values = at.load(rows, block);
            for colour in 0..COLOURS {
                let row = |c: usize| each(values[c], R::to_f64);
                let pairs = lanes.join_doubles(row(2 * colour), row(2 * colour + 1));
                let (first, step) = at.double(block, colour);
                (0..block.count).for_each(|lane| codes[first + lane * step] = pairs[lane]);
            }
        }
    }

    #[inline(always)]
    fn records<const PAIRS: usize, F: Record<PAIRS>>(self, format: F) {
        let (Encode { codes, at, rows, .. }, lanes) = self;
        let (codes, _) = codes.as_chunks_mut::<PAIRS>();
        for block in at.blocks() {
            let words = format.pack(lanes, &at.load(rows, block));
            store_words(lanes, &words, codes, at, block);
        }
    }
}

struct DecodeNumbers<'a> {
    format: SiteFormat,
    codes: &'a [f64],
    at: At,
    numbers: &'a mut [f64],
}

impl WithLanes<f64> for DecodeNumbers<'_> {
    #[inline(always)]
    fn call<L: Lanes<f64>>(self, lanes: L) {
        let format = self.format;
        OfFormat::of((self, lanes), format);
    }
}

impl<L: Lanes<f64>> OfFormat for (DecodeNumbers<'_>, L) {
    #[inline(always)]
    fn doubles(self) {
        let (DecodeNumbers { codes, at, numbers, .. }, _) = self;
        let own = at.numbers();
        numbers[..own.len()].copy_from_slice(&codes[own]);
    }

    #[inline(always)]
    fn records<const PAIRS: usize, F: Record<PAIRS>>(self, format: F) {
        let (DecodeNumbers { codes, at, numbers, .. }, lanes) = self;
        let ((codes, _), (numbers, _)) = (codes.as_chunks::<PAIRS>(), numbers.as_chunks_mut::<2>());
        for block in at.blocks() {
            let values = format.unpack::<f64>(&words_of(lanes, codes, at, block));
            let own = &mut numbers[COLOURS * block.row..];
            for colour in 0..COLOURS {
                let pairs = lanes.join_doubles(values[2 * colour], values[2 * colour + 1]);
                match own.first_chunk_mut::<{ COLOURS * LANES }>() {
                    Some(own) if block.count == LANES => {
                        (0..LANES).for_each(|lane| own[COLOURS * lane + colour] = pairs[lane]);
                    }
                    _ => (0..block.count).for_each(|lane| own[COLOURS * lane + colour] = pairs[lane]),
                }
            }
        }
    }
}

struct EncodeNumbers<'a> {
    format: SiteFormat,
    codes: &'a mut [f64],
    at: At,
    numbers: &'a [f64],
}

impl WithLanes<f64> for EncodeNumbers<'_> {
    #[inline(always)]
    fn call<L: Lanes<f64>>(self, lanes: L) {
        let format = self.format;
        OfFormat::of((self, lanes), format);
    }
}

impl<L: Lanes<f64>> OfFormat for (EncodeNumbers<'_>, L) {
    #[inline(always)]
    fn doubles(self) {
        let (EncodeNumbers { codes, at, numbers, .. }, _) = self;
        let own = at.numbers();
        codes[own.clone()].copy_from_slice(&numbers[..own.len()]);
    }

    #[inline(always)]
    fn records<const PAIRS: usize, F: Record<PAIRS>>(self, format: F) {
        let (EncodeNumbers { codes, at, numbers, .. }, lanes) = self;
        let ((codes, _), (numbers, _)) = (codes.as_chunks_mut::<PAIRS>(), numbers.as_chunks::<2>());
        for block in at.blocks() {
            let own = &numbers[COLOURS * block.row..];
            let mut values = Components::default();
            for colour in 0..COLOURS {
                let mut pairs = [[0.0; 2]; LANES];
                match own.first_chunk::<{ COLOURS * LANES }>() {
                    Some(own) if block.count == LANES => {
                        (0..LANES).for_each(|lane| pairs[lane] = own[COLOURS * lane + colour]);
                    }
                    _ => (0..block.count).for_each(|lane| pairs[lane] = own[COLOURS * lane + colour]),
                }
                (values[2 * colour], values[2 * colour + 1]) = lanes.split_doubles(pairs);
            }
            store_words(lanes, &format.pack(lanes, &values), codes, at, block);
        }
    }
}

/// The words of a block.
#[inline(always)]
fn words_of<const PAIRS: usize, L: PairOps>(
    lanes: L,
    codes: &[[f64; PAIRS]],
    at: At,
    block: RecordBlock,
) -> Words {
    let mut copy = [[0.0; PAIRS]; LANES];
    let records = eight(codes, at.record(block), block.count, &mut copy);
    let mut words = Words::default();
    for pair in 0..PAIRS {
        let mut pairs = [0; LANES];
        for lane in 0..LANES {
            pairs[lane] = records[lane][pair].to_bits();
        }
        (words[2 * pair], words[2 * pair + 1]) = lanes.split(pairs);
    }
    words
}

/// Stores them.
#[inline(always)]
fn store_words<const PAIRS: usize, L: PairOps>(
    lanes: L,
    words: &Words,
    codes: &mut [[f64; PAIRS]],
    at: At,
    block: RecordBlock,
) {
    let mut pairs = [[0; LANES]; PAIRS];
    for pair in 0..PAIRS {
        pairs[pair] = lanes.join(words[2 * pair], words[2 * pair + 1]);
    }
    let (first, step) = at.record(block);
    match codes[first..].first_chunk_mut::<LANES>() {
        Some(all) if step == 1 && block.count == LANES => {
            for lane in 0..LANES {
                (0..PAIRS).for_each(|pair| all[lane][pair] = f64::from_bits(pairs[pair][lane]));
            }
        }
        _ => {
            for lane in 0..block.count {
                let record = &mut codes[first + lane * step];
                (0..PAIRS).for_each(|pair| record[pair] = f64::from_bits(pairs[pair][lane]));
            }
        }
    }
}

/// Prefetches the data that follow these sites at a distance of the sites of a call. If lines are
/// decoded in turn, this is the next line.
#[inline(always)]
fn prefetch_next<T>(lanes: impl PairOps, at: At, codes: &[T], of_site: usize) {
    if at.column == 0 {
        let begin = codes.as_ptr().wrapping_add(at.sites * at.columns * of_site).cast::<u8>();
        let sites = if at.across { 1 } else { LANES };
        let bytes = sites * at.columns * of_site * size_of::<T>();
        (0..bytes).step_by(64).for_each(|i| lanes.prefetch(begin.wrapping_add(i)));
    }
}

/// Returns every `step`-th item from `first` on, `count` of them, followed by arbitrary items.
/// Items that are not contiguous are copied.
#[inline(always)]
fn eight<'a, T: Copy>(
    items: &'a [T],
    (first, step): (usize, usize),
    count: usize,
    copy: &'a mut Eight<T>,
) -> &'a Eight<T> {
    match items[first..].first_chunk() {
        Some(all) if step == 1 && count == LANES => all,
        _ if count == LANES => {
            let own = &items[first..first + (LANES - 1) * step + 1];
            for lane in 0..LANES {
                copy[lane] = own[lane * step];
            }
            copy
        }
        _ => {
            for lane in 0..count {
                copy[lane] = items[first + lane * step];
            }
            copy
        }
    }
}
