//! The layout for fast products: tiles of rows with adjacent buckets, whose entries are numbers or
//! blocks.

mod policy;

use std::collections::BTreeMap;
use std::ops::Range;

use zellige_kernels::packed::PackedFormat;
use zellige_kernels::sell::{Bucket, EDGES, Elements, Panel, PanelWriter, tile_rows};

pub use self::policy::{BlockNorms, StoragePolicy};
use super::thresholds::{RowThresholds, Thresholds, has_short_exponent, power_below, scales};
use super::{Adaptation, Criterion, FormatSet, Scaling, ldexp, to_one};
use crate::concurrent::concurrent_map;
use crate::csr::Csr;
use zellige_krylov::{Error, Space};

/// A matrix in panels of rows, each a stream of tiles ([`zellige_kernels::sell`]).
///
/// With a block size of 1 each nonzero goes to its bucket. With 2, 3 or 4 the matrix is cut into
/// dense square blocks. A block goes to the bucket of the most accurate of its entries, is dropped
/// if all of them are, and has one column index. Formats with a scale have no zero to fill a block
/// with.
///
/// If a format has a scale, `eps` and the rows' `theta` are rounded down to powers of two: nonzeros
/// have the requested accuracy, or up to two bits more. Products are bitwise identical for any
/// panels, machine and number of threads.
#[derive(Clone, Debug)]
pub struct TiledMatrix {
    rows: usize,
    columns: usize,
    block_size: usize,
    panels: Vec<Panel>,
    /// Numbers of nonzeros and of positive ones in each format of its sets.
    counts: BTreeMap<PackedFormat, (u64, u64)>,
    dropped: u64,
}

/// Minimum bytes of a panel if the matrix has as many (1 MiB): the overhead of a task per panel is
/// negligible then.
const LEAST_PANEL: usize = 1 << 20;
/// A large matrix has about this many panels at least, so that many workers have several each.
const PANELS: usize = 64;

impl TiledMatrix {
    /// Stores a matrix in blocks of this size. Zeros are dropped, except for those in blocks.
    ///
    /// # Errors
    /// [`Error::Parameter`] for incompatible options, [`Error::Shape`] for sizes that are no
    /// multiples of the block size.
    pub fn new(a: &Csr, block_size: usize, adaptation: &Adaptation<'_>) -> Result<TiledMatrix, Error> {
        Self::store(a, block_size, adaptation, &Cut::default())
    }

    /// Stores a matrix with a panel for each part of a space, with this number of threads.
    ///
    /// # Errors
    /// Those of [`new`](TiledMatrix::new), and [`Error::Shape`] for a matrix with another number of
    /// rows.
    pub fn cut(
        a: &Csr,
        block_size: usize,
        adaptation: &Adaptation<'_>,
        space: &Space,
        threads: usize,
    ) -> Result<TiledMatrix, Error> {
        check_rows(a, space)?;
        let sets = vec![adaptation.set; space.parts()];
        Self::store(
            a,
            block_size,
            adaptation,
            &Cut { parts: Some((space, &sets)), threads, ..Cut::default() },
        )
    }

    /// Stores a matrix like `cut`, with the set of formats that a policy chooses for each part
    /// instead of the set of the adaptation.
    ///
    /// # Errors
    /// Those of [`cut`](TiledMatrix::cut), for every set that is chosen.
    pub fn cut_by(
        a: &Csr,
        block_size: usize,
        adaptation: &Adaptation<'_>,
        space: &Space,
        policy: &dyn StoragePolicy,
        threads: usize,
    ) -> Result<TiledMatrix, Error> {
        check_rows(a, space)?;
        let of_matrix = a.norm_inf();
        let choose = |(id, rows)| policy.choose(id, &BlockNorms::of(a, rows, of_matrix), adaptation.accuracy);
        let sets: Vec<FormatSet> = space.ranges().enumerate().map(choose).collect();
        Self::store(
            a,
            block_size,
            adaptation,
            &Cut { parts: Some((space, &sets)), threads, ..Cut::default() },
        )
    }

    /// Stores a sample, one of each `every` tiles, for measurements and not for products.
    pub(super) fn of_tiles(
        a: &Csr,
        block_size: usize,
        adaptation: &Adaptation<'_>,
        every: usize,
    ) -> Result<TiledMatrix, Error> {
        Self::store(a, block_size, adaptation, &Cut { every, ..Cut::default() })
    }

    fn store(
        a: &Csr,
        block_size: usize,
        adaptation: &Adaptation<'_>,
        cut: &Cut<'_>,
    ) -> Result<TiledMatrix, Error> {
        let sets = cut.parts.map_or(std::slice::from_ref(&adaptation.set), |(_, sets)| sets);
        for (i, &set) in sets.iter().enumerate().filter(|(i, set)| !sets[..*i].contains(set)) {
            let of_set = Adaptation { set, ..*adaptation };
            of_set.check(a).and_then(|()| check_block_size(a, block_size, set)).map_err(|error| match cut
                .parts
            {
                Some(_) => Error::parameter("storage policy", format!("part {i}: {error}")),
                None => error,
            })?;
        }
        match block_size {
            1 => Encoder::<1>::encode(a, adaptation, cut),
            2 => Encoder::<2>::encode(a, adaptation, cut),
            3 => Encoder::<3>::encode(a, adaptation, cut),
            _ => Encoder::<4>::encode(a, adaptation, cut),
        }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Rows and columns of a block.
    pub fn block_size(&self) -> usize {
        self.block_size
    }

    /// Returns the panels, from the first row to the last.
    pub fn panels(&self) -> &[Panel] {
        &self.panels
    }

    /// Returns the panels, for products that the caller runs.
    pub fn into_panels(self) -> Vec<Panel> {
        self.panels
    }

    /// Returns the numbers of nonzeros and of positive nonzeros of each format in use, the most
    /// accurate first; zeros in blocks do not count.
    pub fn counts(&self) -> Vec<(PackedFormat, u64, u64)> {
        self.counts.iter().map(|(&format, &(all, positive))| (format, all, positive)).collect()
    }

    /// Returns the number of dropped nonzeros.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Bytes of all panels.
    pub fn bytes(&self) -> u64 {
        self.panels.iter().map(|panel| panel.bytes() as u64).sum()
    }

    /// Computes `y = A x`.
    ///
    /// # Errors
    /// [`Error::Shape`] for vectors of other lengths.
    pub fn multiply(&self, x: &[f64], y: &mut [f64]) -> Result<(), Error> {
        self.multiply_many(1, x, y)
    }

    /// Computes `Y = A X` for 1 to 8 vectors at once; the `count` numbers of a row are contiguous
    /// in `x` and in `y`.
    ///
    /// # Errors
    /// [`Error::Shape`] for vectors of other lengths or another number of them.
    pub fn multiply_many(&self, count: usize, x: &[f64], mut y: &mut [f64]) -> Result<(), Error> {
        if !(1..=MOST_COLUMNS).contains(&count) {
            return Err(Error::shape("number of vectors", format!("{count} is not a number from 1 to 8")));
        }
        if (x.len(), y.len()) != (self.columns * count, self.rows * count) {
            let problem = format!(
                "{} and {} for {count} vectors and a matrix of {} x {}",
                x.len(),
                y.len(),
                self.rows,
                self.columns
            );
            return Err(Error::shape("lengths of x and y", problem));
        }
        for panel in &self.panels {
            let (part, rest) = y.split_at_mut(panel.rows().len() * count);
            panel.multiply_many(count, x, part).expect("lengths that were checked");
            y = rest;
        }
        Ok(())
    }
}

fn check_rows(a: &Csr, space: &Space) -> Result<(), Error> {
    if a.rows() == space.len() {
        return Ok(());
    }
    Err(Error::shape("matrix", format!("{} rows in a space of {}", a.rows(), space.len())))
}

/// Refuses blocks that a matrix cannot be cut into, or a set cannot store.
/// Maximum number of real vectors that kernels multiply at once.
pub(crate) const MOST_COLUMNS: usize = 8;

pub(super) fn check_block_size(a: &Csr, block_size: usize, set: FormatSet) -> Result<(), Error> {
    if !EDGES.contains(&block_size) {
        return Err(Error::parameter(
            "block size",
            format!("{block_size}: blocks have a size of 1, 2, 3 or 4"),
        ));
    }
    if block_size > 1 && set.has_scales() {
        let problem =
            format!("{set} has no zero to fill up blocks with: take ap2, ap3, ap4 or ap7, or block size 1");
        return Err(Error::parameter("block size", problem));
    }
    if !a.rows().is_multiple_of(block_size) || !a.columns().is_multiple_of(block_size) {
        let (rows, columns) = (a.rows(), a.columns());
        let problem = format!(
            "{rows} x {columns} cannot be cut into blocks of {block_size} x {block_size}: take block size 1"
        );
        return Err(Error::shape("matrix", problem));
    }
    Ok(())
}

/// Selection of the rows that become a panel.
#[derive(Clone, Copy)]
struct Cut<'s> {
    /// Rows of each part become panels, each part with its set of formats.
    parts: Option<(&'s Space, &'s [FormatSet])>,
    /// Sampling stride: the first of every `every` tiles is stored.
    every: usize,
    /// Bytes with which a panel ends.
    enough: usize,
    /// Number of threads that share the parts.
    threads: usize,
}

impl Default for Cut<'_> {
    fn default() -> Self {
        Cut { parts: None, every: 1, enough: usize::MAX, threads: 1 }
    }
}

/// Rules that assign blocks to buckets.
struct Sorting<'a> {
    a: &'a Csr,
    adaptation: &'a Adaptation<'a>,
    thresholds: Thresholds,
    scaling: Scaling,
    theta: Vec<f64>,
    buckets: Vec<Bucket>,
    /// The bucket of each format of the set.
    places: Vec<Place>,
    /// The narrowest format with the exponents of `f64`.
    wide: Option<usize>,
    /// True if all nonzeros have the same format, so that thresholds need not be compared.
    is_uniform: bool,
}

/// Bucket that the values of a format are stored in.
#[derive(Clone, Copy)]
struct Place {
    /// The bucket; of an unsigned format, that of positive numbers, which the other one follows.
    bucket: usize,
    exponent: i32,
    has_sign: bool,
}

/// Blocks of `B x B` on their way into panels.
struct Encoder<'a, const B: usize> {
    sorting: &'a Sorting<'a>,
    /// Nonzeros of the tile, bucket by bucket.
    elements: Vec<Elements>,
    counts: Vec<(u64, u64)>,
    dropped: u64,
}

/// A block and its classification.
struct TileBlock<const B: usize> {
    column: u32,
    /// Values in column-major order, multiplied by the powers of two of their rows.
    values: [[f64; B]; B],
    /// Index of the most accurate format of an entry; `None` if all are dropped.
    place: Option<usize>,
    nonzeros: u64,
    positive: u64,
}

impl<'a> Sorting<'a> {
    fn new(a: &'a Csr, adaptation: &'a Adaptation<'a>) -> Self {
        let set = adaptation.set;
        let has_scales = set.has_scales();
        let mut theta = scales(a, adaptation.criterion);
        let mut thresholds = Thresholds::new(adaptation);
        if has_scales {
            theta.iter_mut().for_each(|theta| *theta = power_below(*theta));
            thresholds = Thresholds::of_powers(adaptation);
        }
        let scaling = match set {
            FormatSet::Fp64 => Scaling { exponent: 0, of_rows: None },
            _ => Scaling::of(a, adaptation.criterion, has_scales),
        };
        let buckets = buckets(set, &thresholds);
        let place = |format: &PackedFormat| {
            let bucket =
                buckets.iter().position(|bucket| bucket.format == *format).expect("one for each format");
            Place { bucket, exponent: buckets[bucket].exponent.into(), has_sign: format.has_sign() }
        };
        let places = set.formats().iter().map(place).collect();
        let wide = set.formats().iter().rposition(|format| !has_short_exponent(*format));
        // A criterion with a vector puts what meets a zero of it in no bucket.
        let is_uniform = set.formats().len() == 1
            && !adaptation.drops
            && !adaptation.symmetric
            && !matches!(adaptation.criterion, Criterion::ComponentwiseFor(_));
        Sorting { a, adaptation, thresholds, scaling, theta, buckets, places, wide, is_uniform }
    }

    /// Returns the bucket of element `(i, j)` by the thresholds of rows `i` and `j`, and its value
    /// multiplied by the power of two of row `i`. The result for `(j, i)` is equal except for that
    /// power.
    fn of_both(&self, [i, j]: [usize; 2], value: f64) -> (Option<usize>, f64) {
        let place = |row: usize, column: usize| {
            let magnitude = self.adaptation.criterion.magnitude(column as u32, value);
            RowThresholds::new(&self.thresholds, self.theta[row]).bucket(magnitude)
        };
        let Some(place) = place(i, j).into_iter().chain(place(j, i)).min() else { return (None, 0.0) };
        let (own, other) = (self.scaling.of_row(i), self.scaling.of_row(j));
        let least = ldexp(value, own.min(other));
        if least.abs() >= f64::from(f32::MIN_POSITIVE)
            || !has_short_exponent(self.adaptation.set.formats()[place])
        {
            return (Some(place), ldexp(value, own));
        }
        // The exponent of one of the two is below the range of `f32`.
        match self.wide {
            Some(wide) => (Some(wide), ldexp(value, own)),
            None => (Some(place), ldexp(f64::from(least as f32), own - own.min(other))),
        }
    }
}

impl<'a, const B: usize> Encoder<'a, B> {
    fn new(sorting: &'a Sorting<'a>) -> Self {
        let formats = sorting.adaptation.set.formats().len();
        let elements = vec![Elements::default(); sorting.buckets.len()];
        Encoder { sorting, elements, counts: vec![(0, 0); formats], dropped: 0 }
    }

    fn encode(a: &Csr, adaptation: &Adaptation<'_>, cut: &Cut<'_>) -> Result<TiledMatrix, Error> {
        let mut matrix = TiledMatrix {
            rows: a.rows(),
            columns: a.columns(),
            block_size: B,
            panels: Vec::new(),
            counts: BTreeMap::new(),
            dropped: 0,
        };
        let Some((space, sets)) = cut.parts else {
            let sorting = Sorting::new(a, adaptation);
            let mut encoder = Encoder::<B>::new(&sorting);
            matrix.panels = encoder.panels(a.rows() / B, cut)?;
            encoder.add_counts_to(&mut matrix);
            return Ok(matrix);
        };
        let mut adaptations: Vec<Adaptation<'_>> = Vec::new();
        for &set in sets {
            if adaptations.iter().all(|known| known.set != set) {
                adaptations.push(Adaptation { set, ..*adaptation });
            }
        }
        let sortings: Vec<_> = adaptations.iter().map(|adaptation| Sorting::new(a, adaptation)).collect();
        let parts: Vec<_> = space.ranges().zip(sets).collect();
        let encoded = concurrent_map(cut.threads, parts.into_iter(), |(rows, &set)| {
            let sorting = sortings.iter().find(|sorting| sorting.adaptation.set == set);
            let mut encoder = Encoder::<B>::new(sorting.expect("one for each set that is chosen"));
            encoder.panel(rows.start / B..rows.end / B, cut).map(|(panel, _)| (panel, encoder))
        });
        for part in encoded {
            let (panel, encoder) = part?;
            matrix.panels.push(panel);
            encoder.add_counts_to(&mut matrix);
        }
        Ok(matrix)
    }

    /// Adds its counts to the matrix.
    fn add_counts_to(&self, matrix: &mut TiledMatrix) {
        for (&format, &(all, positive)) in self.sorting.adaptation.set.formats().iter().zip(&self.counts) {
            let counts = matrix.counts.entry(format).or_default();
            *counts = (counts.0 + all, counts.1 + positive);
        }
        matrix.dropped += self.dropped;
    }

    /// Panels of about one size.
    fn panels(&mut self, blocks: usize, cut: &Cut<'_>) -> Result<Vec<Panel>, Error> {
        let enough = LEAST_PANEL.max(self.sorting.a.nonzeros() * size_of::<f32>() / PANELS);
        let cut = Cut { enough, ..*cut };
        let (mut panels, mut first) = (Vec::new(), 0);
        while first < blocks || panels.is_empty() {
            let (panel, end) = self.panel(first..blocks, &cut)?;
            panels.push(panel);
            first = end;
        }
        Ok(panels)
    }

    /// Returns a panel of these block rows, or of the first of them that have enough bytes, and the
    /// index of the block row after it.
    fn panel(&mut self, blocks: Range<usize>, cut: &Cut<'_>) -> Result<(Panel, usize), Error> {
        let mut writer = self.writer(blocks.start * B)?;
        let mut first = blocks.start;
        while first < blocks.end && writer.bytes() <= cut.enough {
            self.tile(first..blocks.end.min(first + tile_rows(B)), &mut writer)?;
            first += cut.every * tile_rows(B);
        }
        Ok((writer.finish().map_err(refused)?, first.min(blocks.end)))
    }

    fn writer(&self, first_row: usize) -> Result<PanelWriter, Error> {
        let exponent = -self.sorting.scaling.exponent;
        PanelWriter::new(B, first_row, self.sorting.a.columns(), exponent, &self.sorting.buckets)
            .map_err(refused)
    }

    fn tile(&mut self, blocks: Range<usize>, writer: &mut PanelWriter) -> Result<(), Error> {
        self.elements.iter_mut().for_each(Elements::clear);
        for block in blocks.clone() {
            self.row_of_blocks(block, (block - blocks.start) as u8);
        }
        let of_rows = self.sorting.scaling.of_rows.as_ref();
        let exponents: Option<Vec<i16>> =
            of_rows.map(|rows| rows[blocks.start * B..blocks.end * B].iter().map(|e| -e).collect());
        writer
            .tile(blocks.len(), exponents.as_deref(), &self.elements, self.sorting.adaptation.rounding)
            .map_err(refused)
    }

    /// Puts the blocks of `B` rows into their buckets.
    fn row_of_blocks(&mut self, block_row: usize, row: u8) {
        let thresholds: [RowThresholds<'_>; B] = std::array::from_fn(|i| {
            RowThresholds::new(&self.sorting.thresholds, self.sorting.theta[block_row * B + i])
        });
        let exponents: [i32; B] = std::array::from_fn(|i| self.sorting.scaling.of_row(block_row * B + i));
        let mut rows: [_; B] = std::array::from_fn(|i| self.sorting.a.row(block_row * B + i));
        while let Some(first) = rows.iter().filter_map(|row| row.0.first()).min() {
            let column = first / B as u32;
            let mut block =
                TileBlock { column, values: [[0.0; B]; B], place: None, nonzeros: 0, positive: 0 };
            for (i, (columns, values)) in rows.iter_mut().enumerate() {
                let here = columns.iter().take_while(|&&j| j / B as u32 == column).count();
                for (&j, &value) in columns[..here].iter().zip(*values) {
                    let (place, scaled) = if self.sorting.is_uniform {
                        ((value != 0.0).then_some(0), ldexp(value, exponents[i]))
                    } else if self.sorting.adaptation.symmetric {
                        self.sorting.of_both([block_row * B + i, j as usize], value)
                    } else {
                        let magnitude = self.sorting.adaptation.criterion.magnitude(j, value);
                        (thresholds[i].bucket(magnitude), ldexp(value, exponents[i]))
                    };
                    block.place = block.place.into_iter().chain(place).min();
                    block.values[j as usize % B][i] = scaled;
                    block.positive += u64::from(value > 0.0);
                }
                block.nonzeros += here as u64;
                (*columns, *values) = (&columns[here..], &values[here..]);
            }
            put(&block, row, &self.sorting.places, &mut self.elements, &mut self.counts)
                .unwrap_or_else(|| self.dropped += block.nonzeros);
        }
    }
}

/// Puts a block into its bucket; does nothing if it is dropped.
#[inline]
fn put<const B: usize>(
    block: &TileBlock<B>,
    row: u8,
    places: &[Place],
    elements: &mut [Elements],
    counts: &mut [(u64, u64)],
) -> Option<()> {
    let place = block.place?;
    let Place { bucket, exponent, has_sign } = places[place];
    let is_second = !has_sign && block.positive == 0;
    let values = match exponent {
        0 => block.values,
        _ => block.values.map(|column| column.map(|value| ldexp(value, -exponent))),
    };
    elements[bucket + usize::from(is_second)].push(row, block.column, values.as_flattened());
    counts[place].0 += block.nonzeros;
    counts[place].1 += block.positive;
    Some(())
}

/// Returns the buckets of a set, the narrowest first; unsigned formats have one for each sign.
fn buckets(set: FormatSet, thresholds: &Thresholds) -> Vec<Bucket> {
    let of = |(place, &format): (usize, &PackedFormat)| {
        // Scales are powers of two, of matrices whose theta is rounded down to 1/2.
        let exponent = if format.is_scaled() { -to_one(thresholds.unit(place, 0.5)) - 1 } else { 0 };
        let bucket = Bucket { format, exponent: exponent as i16, negative: false };
        let signs: &[bool] = if format.has_sign() { &[false] } else { &[false, true] };
        signs.iter().map(move |&negative| Bucket { negative, ..bucket })
    };
    set.formats().iter().enumerate().rev().flat_map(of).collect()
}

fn refused(error: zellige_kernels::KernelError) -> Error {
    Error::shape("matrix", error.to_string())
}

#[cfg(test)]
mod tests;
