//! Products with panels against those of the CPU, bit by bit.

use rand::{Rng, RngExt};
use zellige_gpu::Address;
use zellige_kernels::cuda::{PanelAt, VectorParts, sell_product};
use zellige_kernels::packed::{PackedFormat, Rounding};
use zellige_kernels::sell::{Bucket, EDGES, Elements, Panel, PanelIndex, PanelWriter, tile_rows};

use super::run;
use super::tile::{Cell, assert_same, rng, same_f64};

/// Bytes at a multiple of eight, as device memory has them.
struct Aligned(Vec<u64>);

impl Aligned {
    fn new(bytes: &[u8]) -> Self {
        let mut words = vec![0u64; bytes.len().div_ceil(8) + 1];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Aligned(words)
    }

    fn at(&mut self) -> Address {
        Address(self.0.as_mut_ptr().expose_provenance() as u64)
    }
}

/// Returns a bucket of each format that a block size supports; scaled ones with exponents and
/// signs.
fn buckets(edge: usize) -> Vec<Bucket> {
    let of = |(at, format): (usize, PackedFormat)| match format.is_scaled() {
        true => Bucket { format, exponent: -(at as i16), negative: at % 2 == 1 },
        false => Bucket::unscaled(format),
    };
    let formats = PackedFormat::ALL.into_iter().filter(|format| edge == 1 || !format.is_scaled());
    formats.enumerate().map(of).collect()
}

/// Rows of a tile, and what elements they have: none, a few, many, neighbours of the diagonal, or
/// some on few diagonals.
#[derive(Clone, Copy, Debug)]
enum Rows {
    Empty(usize),
    Few(usize),
    Uneven(usize),
    Band(usize),
    Stencil(usize),
}

/// A panel of these tiles, with an element in a column of `columns` elements.
struct Make {
    edge: usize,
    columns: u32,
    exponent: i32,
    has_exponents: bool,
}

impl Make {
    fn panel(&self, tiles: &[Rows], rng: &mut impl Rng) -> Panel {
        let Make { edge, columns, exponent, .. } = *self;
        let buckets = buckets(edge);
        let mut writer =
            PanelWriter::new(edge, 3 * edge, columns as usize * edge, exponent, &buckets).unwrap();
        for &tile in tiles {
            let (Rows::Empty(rows)
            | Rows::Few(rows)
            | Rows::Uneven(rows)
            | Rows::Band(rows)
            | Rows::Stencil(rows)) = tile;
            let elements: Vec<Elements> = buckets.iter().map(|_| self.elements(tile, rows, rng)).collect();
            let exponents: Vec<i16> = (0..rows * edge).map(|_| rng.random_range(-1200..1200)).collect();
            let exponents = self.has_exponents.then_some(&exponents[..]);
            writer.tile(rows, exponents, &elements, Rounding::Nearest).unwrap();
        }
        writer.finish().unwrap()
    }

    fn elements(&self, tile: Rows, rows: usize, rng: &mut impl Rng) -> Elements {
        let mut elements = Elements::default();
        for row in 0..rows {
            let len = match tile {
                Rows::Empty(_) => 0,
                Rows::Few(_) => rng.random_range(0..4),
                // Some rows are far longer than the others: they are cut into pieces.
                Rows::Uneven(_) if row % 29 == 3 => 300,
                Rows::Uneven(_) => rng.random_range(0..6),
                // More diagonals than a list has.
                Rows::Band(_) => 9,
                Rows::Stencil(_) if row / 16 % 2 == 0 => 4,
                Rows::Stencil(_) => rng.random_range(0..4),
            };
            for k in 0..len {
                let column = match tile {
                    Rows::Band(_) => (row as u32 + 9 * k) % self.columns,
                    Rows::Stencil(_) => row as u32 + 60 * k + (self.columns - 500),
                    _ => rng.random_range(0..self.columns),
                };
                let values: Vec<f64> =
                    (0..self.edge * self.edge).map(|_| rng.random_range(-4.0..4.0)).collect();
                elements.push(row as u8, column, &values);
            }
        }
        elements
    }
}

/// Multiplies on the CPU and by the twin, with `x` in `parts` parts. Returns false without g++.
fn compare(panel: &Panel, columns: usize, count: usize, parts: usize, seed: u64) -> bool {
    compare_all(&[panel], columns, count, parts, seed)
}

/// Bytes and index of a panel in memory as on a GPU, and the rows of its product, between two guard
/// numbers.
struct There {
    bytes: Aligned,
    index: PanelIndex,
    words: Vec<u32>,
    y: Vec<f64>,
}

impl There {
    fn new(panel: &Panel, count: usize) -> Self {
        let index = PanelIndex::of(panel);
        let (bytes, words) = (Aligned::new(&panel.clone().into_bytes()), index.words().to_vec());
        There { bytes, index, words, y: vec![f64::NAN; panel.rows().len() * count + 2] }
    }

    fn at(&mut self) -> PanelAt {
        PanelAt {
            outline: self.index.outline(),
            bytes: self.bytes.at(),
            index: Address(self.words.as_mut_ptr().expose_provenance() as u64),
            y: Address(self.y[1..].as_mut_ptr().expose_provenance() as u64),
        }
    }
}

/// Compares several panels in one launch.
fn compare_all(panels: &[&Panel], columns: usize, count: usize, parts: usize, seed: u64) -> bool {
    let mut rng = rng(seed);
    let x: Vec<f64> = (0..columns * count).map(|_| rng.random_range(-1.0..1.0)).collect();
    // Parts begin at whole elements of every block size.
    let each = columns.div_ceil(parts).next_multiple_of(12);
    let first = panels.iter().map(|panel| panel.columns().start / each).min().unwrap();
    let mut of_x: Vec<Vec<f64>> = x.chunks(each * count).skip(first).map(<[f64]>::to_vec).collect();
    let at: Vec<(Address, u64)> = of_x
        .iter_mut()
        .map(|part| (Address(part.as_mut_ptr().expose_provenance() as u64), 8 * part.len() as u64))
        .collect();
    let mut there: Vec<There> = panels.iter().map(|panel| There::new(panel, count)).collect();
    let panels_at: Vec<PanelAt> = there.iter_mut().map(There::at).collect();
    let of_gpu = VectorParts { first: first * each, at: &at };
    let launch = sell_product(&panels_at, count, &of_gpu, None).unwrap();
    if !run(&launch, seed) {
        return false;
    }
    for (panel, There { y, .. }) in panels.iter().zip(&there) {
        let numbers = panel.rows().len() * count;
        let mut want = vec![f64::NAN; numbers];
        panel.multiply_part(count, 0, &x, &mut want).unwrap();
        let what = format!("edge {}, {count} vectors, {parts} parts", panel.edge());
        assert_same(&y[1..=numbers], &want, same_f64, &what);
        assert!(y[0].is_nan() && y[numbers + 1].is_nan(), "{what}: numbers beside y were written");
    }
    true
}

/// Panels of different lengths and powers of two; the last one has no tile.
#[test]
fn panels_of_one_launch_have_the_bits_of_each() {
    for (seed, edge) in (300..).zip(EDGES) {
        let mut rng = rng(seed);
        let most = tile_rows(edge);
        let tiles =
            [vec![Rows::Few(most), Rows::Uneven(most), Rows::Band(7)], vec![Rows::Stencil(most)], vec![]];
        let panel = |(exponent, tiles): (i32, &Vec<Rows>)| {
            Make { edge, columns: 700, exponent, has_exponents: exponent == 1 }.panel(tiles, &mut rng)
        };
        let panels: Vec<Panel> = (0..).zip(&tiles).map(panel).collect();
        let panels: Vec<&Panel> = panels.iter().collect();
        for (count, parts) in [(1, 4), (8, 1), (2, 3)] {
            if !compare_all(&panels, 700 * edge, count, parts, seed) {
                return;
            }
        }
    }
}

#[test]
fn products_have_the_bits_of_the_cpu() {
    let mut seed = 0;
    for edge in EDGES {
        let most = tile_rows(edge);
        let full =
            [Rows::Few(most), Rows::Empty(most), Rows::Uneven(most), Rows::Band(most), Rows::Stencil(most)];
        let odd = [Rows::Few(most), Rows::Uneven(most - 3)];
        for tiles in [
            &full[..],
            &odd,
            &[Rows::Few(1)],
            &[Rows::Empty(5)],
            &[Rows::Band(8)],
            &[Rows::Stencil(200.min(most))],
            &[],
        ] {
            for (count, parts) in [(1, 1), (2, 3), (4, 1), (8, 2), (3, 2), (6, 1)] {
                seed += 1;
                let make = Make { edge, columns: 500, exponent: -2, has_exponents: seed % 3 == 0 };
                let panel = make.panel(tiles, &mut rng(seed));
                if !compare(&panel, 500 * edge, count, parts, seed) {
                    return;
                }
            }
        }
    }
}

#[test]
fn windows_may_be_wide_and_powers_of_two_extreme() {
    for (seed, edge) in (100..).zip(EDGES) {
        for (exponent, parts) in [(-1500, 1), (1500, 64), (-1060, 5)] {
            let make = Make { edge, columns: 90_000, exponent, has_exponents: exponent > 0 };
            let tiles = [Rows::Few(40), Rows::Uneven(30), Rows::Stencil(40)];
            let panel = make.panel(&tiles, &mut rng(seed));
            for count in [1, 2] {
                if !compare(&panel, 90_000 * edge, count, parts, seed) {
                    return;
                }
            }
        }
    }
}

/// Tests each format alone: all kinds of its codes, at every position within a word.
#[test]
fn every_code_is_decoded_as_on_the_cpu() {
    for (seed, format) in (200..).zip(PackedFormat::ALL) {
        let mut rng = rng(seed);
        let mut writer = PanelWriter::new(1, 0, 64, 0, &[Bucket::unscaled(format)]).unwrap();
        let mut elements = Elements::default();
        for row in 0..200u8 {
            // Two elements of different signs in each row would hide small errors.
            let value = f64::from_bits(rng.random());
            elements.push(row, rng.random_range(0..64), &[value]);
        }
        writer.tile(200, None, &[elements], Rounding::Chop).unwrap();
        if !compare(&writer.finish().unwrap(), 64, 1, 1, seed) {
            return;
        }
    }
}

#[test]
fn a_product_that_is_not_wanted_changes_nothing() {
    let make = Make { edge: 1, columns: 30, exponent: 0, has_exponents: false };
    let panel = make.panel(&[Rows::Few(20)], &mut rng(7));
    let mut there = There::new(&panel, 1);
    let (mut x, mut y) = (Cell::new([1.0; 30]), Cell::new([7.0; 20]));
    let there = PanelAt { y: y.at(), ..there.at() };
    let x_at = [(x.at(), 240)];
    for state in [1.0, 0.0] {
        let mut done = Cell::new(state);
        let x = VectorParts { first: 0, at: &x_at };
        let launch = sell_product(&[there], 1, &x, Some(done.at())).unwrap();
        if !run(&launch, 1) {
            return;
        }
        assert_eq!(y.get() == [7.0; 20], state != 0.0);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let make = Make { edge: 2, columns: 60, exponent: 0, has_exponents: false };
    let panel = make.panel(&[Rows::Band(64)], &mut rng(8));
    let outline = PanelIndex::of(&panel).outline();
    let there = PanelAt { outline, bytes: Address(0), index: Address(0), y: Address(0) };
    let product = |count, first, lengths: &[u64]| {
        let at: Vec<_> = lengths.iter().map(|&len| (Address(0), 8 * len)).collect();
        sell_product(&[there], count, &VectorParts { first, at: &at }, None).map(|_| ())
    };
    assert_eq!(product(1, 0, &[120]), Ok(()));
    assert_eq!(product(4, 0, &[240, 240]), Ok(()));
    for (count, first, lengths) in [
        (9, 0, &[1080][..]),
        (0, 0, &[120]),
        (1, 0, &[119]),
        (1, 2, &[118]),
        (1, 0, &[24, 60, 36]),
        (1, 0, &[50, 70]),
        (1, 0, &[61, 59]),
        (2, 0, &[120]),
        (1, 0, &[]),
        (1, 0, &[2; 65]),
    ] {
        let error = product(count, first, lengths).unwrap_err().to_string();
        assert!(error.contains("zellige_sell"), "{error}");
    }
    let single = Make { edge: 1, ..make }.panel(&[Rows::Band(64)], &mut rng(9));
    let other = PanelAt { outline: PanelIndex::of(&single).outline(), ..there };
    for panels in [&[][..], &[there; 65], &[there, other], &[other, there]] {
        let at = [(Address(0), 960)];
        let error = sell_product(panels, 1, &VectorParts { first: 0, at: &at }, None).unwrap_err();
        assert!(error.to_string().contains("panel"), "{error}");
    }
}
