use proptest::prelude::*;

use super::product::{Part, Portable, multiply_by};
#[cfg(target_arch = "x86_64")]
use super::x86::Avx2;
use zellige_stochastic::{Categories, Eight, Perturbation, Samples, Scope, Sixteen, Stochastic, Three};

use super::*;
use crate::packed::PackedFormat::*;
use crate::packed::Rounding;

/// A tile's worth of elements in each bucket: row, column, and a number that all entries are made
/// of.
type Parts = Vec<Vec<(u8, u32, f64)>>;

const COLUMNS: u32 = 40;
const BUCKETS: [Bucket; 7] = [
    Bucket { format: Rpreu16, exponent: -20, negative: true },
    Bucket { format: Rpre8, exponent: -3, negative: false },
    Bucket::unscaled(Rp16),
    Bucket::unscaled(Fp32),
    Bucket::unscaled(Rp40),
    Bucket::unscaled(Rp56),
    Bucket::unscaled(Fp64),
];

/// Returns the buckets that blocks of this size may have.
fn buckets(edge: usize) -> &'static [Bucket] {
    if edge == 1 { &BUCKETS } else { &BUCKETS[2..] }
}

fn entry(value: f64, place: usize) -> f64 {
    value * (1.0 + place as f64 / 7.0)
}

/// A panel of one tile, with columns `spread` times as far apart.
fn panel(edge: usize, rows: usize, parts: &Parts, spread: u32, exponents: Option<&[i16]>) -> Panel {
    let columns = (COLUMNS * spread) as usize * edge;
    let mut writer = PanelWriter::new(edge, 0, columns, -2, buckets(edge)).unwrap();
    let elements = |part: &Vec<(u8, u32, f64)>| {
        let mut part = part.clone();
        part.sort_by_key(|&(row, ..)| row);
        let mut elements = Elements::default();
        for (row, column, value) in part {
            let values: Vec<f64> = (0..edge * edge).map(|place| entry(value, place)).collect();
            elements.push(row, column * spread, &values);
        }
        elements
    };
    let all: Vec<Elements> = parts.iter().take(buckets(edge).len()).map(elements).collect();
    writer.tile(rows, exponents, &all, Rounding::Nearest).unwrap();
    writer.finish().unwrap()
}

/// Returns the sums, and those of magnitudes, in any order.
fn expected(edge: usize, rows: usize, parts: &Parts, spread: u32, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (mut y, mut size) = (vec![0.0; rows * edge], vec![0.0; rows * edge]);
    for (bucket, part) in buckets(edge).iter().zip(parts) {
        for &(row, column, value) in part {
            for place in 0..edge * edge {
                let code = bucket.format.encode(entry(value, place), Rounding::Nearest);
                let a = bucket.scale() * bucket.format.decode(code) / 4.0;
                let x = x[(column * spread) as usize * edge + place / edge];
                y[usize::from(row) * edge + place % edge] += a * x;
                size[usize::from(row) * edge + place % edge] += (a * x).abs();
            }
        }
    }
    (y, size)
}

fn wave(len: usize) -> Vec<f64> {
    (0..len).map(|j| (j as f64 * 0.7).sin()).collect()
}

fn check(edge: usize, rows: usize, parts: &Parts, spread: u32) {
    let panel = panel(edge, rows, parts, spread, None);
    let x = wave((COLUMNS * spread) as usize * edge);
    let mut y = vec![f64::NAN; rows * edge];
    panel.multiply(&x, &mut y).unwrap();
    let (sums, sizes) = expected(edge, rows, parts, spread, &x);
    for ((&y, &sum), &size) in y.iter().zip(&sums).zip(&sizes) {
        assert!((y - sum).abs() <= 1e-13 * size, "{y:e} {sum:e}");
    }
    // Other implementations and other numbers of vectors have the same bits, and so has a panel
    // that was converted to bytes and back.
    let mut again = vec![f64::NAN; rows * edge];
    multiply_by::<Portable>(&panel, 1, Part { first: 0, x: &x }, &mut again);
    assert_eq!(y, again);
    #[cfg(target_arch = "x86_64")]
    if Avx2::is_here() {
        multiply_by::<Avx2>(&panel, 1, Part { first: 0, x: &x }, &mut again);
        assert_eq!(y, again);
    }
    for count in 2..=8 {
        let many: Vec<f64> = x.iter().flat_map(|&x| (0..count).map(move |k| x * (k + 1) as f64)).collect();
        let mut out = vec![f64::NAN; rows * edge * count];
        let is_same =
            |out: &[f64]| out.chunks(count).zip(&y).all(|(out, y)| out[0] == *y && out[1] == 2.0 * y);
        panel.multiply_many(count, &many, &mut out).unwrap();
        assert!(is_same(&out), "{count}");
        out.fill(f64::NAN);
        multiply_by::<Portable>(&panel, count, Part { first: 0, x: &many }, &mut out);
        assert!(is_same(&out), "{count}");
        #[cfg(target_arch = "x86_64")]
        if Avx2::is_here() {
            out.fill(f64::NAN);
            multiply_by::<Avx2>(&panel, count, Part { first: 0, x: &many }, &mut out);
            assert!(is_same(&out), "{count}");
        }
    }
    check_numbers::<Eight>(&panel, &x, &y);
    let same = Panel::from_bytes(panel.clone().into_bytes()).unwrap();
    assert_eq!(same, panel);
}

/// Products of other numbers have the bits of `y`: those of `f64`, and, without perturbation, those
/// of all samples. Perturbed ones are the same for every run, and as accurate as they say.
fn check_numbers<S: Samples>(panel: &Panel, x: &[f64], y: &[f64]) {
    let mut again = vec![f64::NAN; y.len()];
    panel.multiply_as(0, x, &mut again).unwrap();
    assert_eq!(y, again);
    let x: Vec<Stochastic<f64, S>> = x.iter().map(|&x| Stochastic::new(x)).collect();
    let product = |perturbation| {
        let mut y = vec![Stochastic::new(f64::NAN); y.len()];
        let scope = Scope::with(7, perturbation, Categories::NONE);
        scope.run(|| panel.multiply_as(0, &x, &mut y)).unwrap();
        y
    };
    for (exact, y) in product(Perturbation::None).iter().zip(y) {
        assert!(exact.samples().iter().all(|sample| sample.to_bits() == y.to_bits()), "{exact} {y:e}");
    }
    let words =
        |y: &[Stochastic<f64, S>]| Stochastic::words(y).iter().map(|word| word.to_bits()).collect::<Vec<_>>();
    let perturbed = product(Perturbation::Random);
    assert_eq!(words(&perturbed), words(&product(Perturbation::Random)));
    for (perturbed, y) in perturbed.iter().zip(y) {
        assert!((perturbed.mean() - y).abs() <= 1e-12 * y.abs() || perturbed.digits() < 13);
    }
}

fn parts(edge: usize, rows: u8, most: usize) -> impl Strategy<Value = Parts> {
    let part = prop::collection::vec((0..rows, 0..COLUMNS, 0.1..1.0f64), 0..most);
    prop::collection::vec(part, buckets(edge).len())
}

/// Elements of one bucket in 16 rows, each a column further than the row before, but for the first
/// two.
fn band(edge: usize, bucket: usize, first: [u8; 2]) -> Parts {
    let mut parts: Parts = vec![Vec::new(); buckets(edge).len()];
    for row in 0..16u8 {
        let shift = if row < 2 { first[usize::from(row)] } else { row };
        parts[bucket].extend((0..3).map(|k| (row, u32::from(shift) + 7 * k, 1.5 + f64::from(row))));
    }
    parts
}

#[test]
fn neighbouring_columns_have_one_number() {
    for edge in EDGES {
        for bucket in 0..buckets(edge).len() {
            let bytes = |first| {
                let parts = band(edge, bucket, first);
                check(edge, 16, &parts, 1);
                panel(edge, 16, &parts, 1, None).bytes()
            };
            let (runs, mixed) = (bytes([0, 1]), bytes([1, 0]));
            // Of the first group, three steps with seven more columns each, and no number of runs.
            assert_eq!(mixed - runs, 3 * 7 * 2 - 1, "{edge}, {:?}", buckets(edge)[bucket]);
        }
    }
}

/// Generates elements of `rows` rows on some of these diagonals, in each bucket.
fn on_diagonals(rows: u8, diagonals: Vec<i32>) -> impl Strategy<Value = Parts> {
    let most = COLUMNS as i32;
    let part = prop::collection::vec((0..rows, any::<prop::sample::Index>(), 0.1..1.0f64), 0..200);
    let place = move |part: Vec<(u8, prop::sample::Index, f64)>| {
        let at = |(row, which, value): (u8, prop::sample::Index, f64)| {
            let column = i32::from(row) + which.get(&diagonals);
            (0..most).contains(&column).then_some((row, column as u32, value))
        };
        part.into_iter().filter_map(at).collect()
    };
    prop::collection::vec(part.prop_map(place), BUCKETS.len())
}

/// 64 rows with three elements each in one bucket, so far from the row.
fn stencil(offsets: [u32; 3]) -> Parts {
    let mut parts: Parts = vec![Vec::new(); BUCKETS.len()];
    let row = |row: u8| offsets.map(|offset| (row, u32::from(row) + offset, 1.5));
    parts[3] = (0..64).filter(|row| row % 3 > 0).flat_map(row).collect();
    parts
}

#[test]
fn few_diagonals_have_numbers_of_half_a_byte() {
    let columns = 1 << 17;
    let of = |offsets: [u32; 3], step: u32| {
        let mut writer = PanelWriter::new(1, 0, columns, 0, &BUCKETS[3..4]).unwrap();
        let mut elements = Elements::default();
        stencil(offsets)[3].iter().for_each(|&(row, column, value)| elements.push(row, column, &[value]));

        (0..6).for_each(|k| elements.push(63, 63 + k * step, &[0.25]));
        writer.tile(64, None, &[elements], Rounding::Nearest).unwrap();
        writer.finish().unwrap()
    };
    // 43 rows, one of them of six elements: five groups of eight lanes, one of three; no step is a
    // run.
    let (head, five, last) = (44 + 12 + 3, 5 * (2 + 8 + 3 * 8 * 4), 2 + 8 + 3 + 3 * 3 * 4);
    // Excess of the first lane: numbers of lanes, and elements.
    let more = 3 + 3 * 4;
    let codes = head + five + last + more + 64;
    let (list, on_diagonals) = (4 * 8, 3 * 5 * 4 + 3 * 2 + 3);
    assert_eq!(of([0, 10, 20], 0).bytes(), codes + list + on_diagonals);
    assert_eq!(of([0, 10, 20], 1).bytes(), codes + list + on_diagonals, "eight diagonals");
    assert_eq!(of([7, 10, 20], 1).bytes(), codes + 2 * (3 * 5 * 8 + 3 * 3 + 3), "nine diagonals");
    // Wherever they are.
    let (far, x) = (of([0, 10, 70_000], 1), wave(columns));
    assert_eq!(far.bytes(), codes + list + on_diagonals);
    let (mut y, mut again) = ([0.0; 64], [0.0; 64]);
    far.multiply(&x, &mut y).unwrap();
    multiply_by::<Portable>(&far, 1, Part { first: 0, x: &x }, &mut again);
    let sum = |i: usize| 1.5 * (x[i] + x[i + 10] + x[i + 70_000]);
    let expected = |i: usize| if i.is_multiple_of(3) { 0.0 } else { sum(i) };
    assert!(y == again && (0..63).all(|i| (y[i] - expected(i)).abs() < 1e-14));
}

proptest! {
    #![proptest_config(zellige_tests::cases(64))]

    #[test]
    fn panels_on_diagonals_multiply_as_their_elements_do(
        parts in (1..=36u8, prop::collection::vec(-30..30i32, 1..=8))
            .prop_flat_map(|(rows, diagonals)| on_diagonals(rows, diagonals)),
    ) {
        check(1, 36, &parts, 1);
    }

    #[test]
    fn panels_multiply_as_their_elements_do(
        (edge, rows, parts) in (1..=4usize, 1..=64u8)
            .prop_flat_map(|(edge, rows)| (Just(edge), Just(rows), parts(edge, rows, 200))),
        wide: bool,
    ) {
        check(edge, rows.into(), &parts, if wide { 2000 } else { 1 });
    }

    /// Checks that all bytes give a result or an error, and that an accepted panel can be
    /// multiplied.
    #[test]
    fn spoilt_bytes_are_refused_or_harmless(
        (edge, parts) in (1..=4usize).prop_flat_map(|edge| (Just(edge), parts(edge, 20, 60))),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in 0..200usize,
        kind in 0..3,
    ) {
        let (edge, rows, parts) = match kind {
            0 => (edge, 20, parts),
            1 => (edge, 20, band(edge, 1, [0, 1])),
            _ => (1, 36, stencil([0, 1, 3]).into_iter().map(|part| part.into_iter().filter(|e| e.0 < 36).collect()).collect()),
        };
        let mut bytes = panel(edge, rows, &parts, 1, None).into_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len().saturating_sub(cut / 10 * (cut % 10)));
        if let Ok(panel) = Panel::from_bytes(bytes) {
            let columns = panel.head.matrix_columns;
            if columns < 1 << 20 {
                panel.multiply(&wave(columns), &mut vec![0.0; panel.rows().len()]).unwrap();
            }
        }
    }
}

#[test]
fn a_long_row_is_cut_into_pieces() {
    let mut long: Vec<(u8, u32, f64)> = (0..1500).map(|k| (3, k % COLUMNS, f64::from(k))).collect();
    long.extend((0..40).map(|row| (row, 0, 1.0)));
    for edge in EDGES {
        let parts = vec![long.clone(); buckets(edge).len()];
        check(edge, 40, &parts, 1);
        // There are no zeros to fill up groups, only row numbers and the like.
        let elements: usize =
            buckets(edge).iter().map(|b| long.len() * (2 + edge * edge * b.format.bytes())).sum();
        assert!(panel(edge, 40, &parts, 1, None).bytes() < elements + buckets(edge).len() * 800);
    }
}

#[test]
fn rows_that_follow_one_another_have_one_number() {
    let rows: Vec<(u8, u32, f64)> = (0..64).flat_map(|row| (0..9).map(move |k| (row, k, 1.0))).collect();
    let mut parts = vec![Vec::new(); BUCKETS.len()];
    *parts.last_mut().unwrap() = rows;
    let panel = panel(1, 64, &parts, 1, None);
    assert_eq!(panel.bytes(), (40 + BUCKETS.len() * 4) + 12 + 3 + 8 * 3 + 64 * 9 * 10 + 64);
    check(1, 64, &parts, 1);
}

#[test]
fn rows_may_have_powers_of_two() {
    let parts = vec![vec![(0, 1, 1.0), (1, 2, 1.0), (2, 2, 1.0)]; buckets(2).len()];
    let exponents = [0, 3, -1100, 900, 1100, -1];
    let x = wave(COLUMNS as usize * 2);
    let product = |exponents| {
        let (panel, mut y) = (panel(2, 3, &parts, 1, exponents), [0.0; 6]);
        panel.multiply(&x, &mut y).unwrap();
        check_numbers::<Three>(&panel, &x, &y);
        check_numbers::<Sixteen>(&panel, &x, &y);
        y
    };
    let (with, without) = (product(Some(&exponents)), product(None));
    for i in [0, 1, 3, 5] {
        assert_eq!(with[i], without[i] * 2f64.powi(exponents[i].into()));
    }
    let ends = (without[2] * 2f64.powi(-550) * 2f64.powi(-550), f64::INFINITY.copysign(without[4]));
    assert_eq!((with[2], with[4]), ends);
}

#[test]
fn what_does_not_fit_is_refused() {
    let bucket = [Bucket::unscaled(Fp64)];
    assert!(PanelWriter::new(5, 0, 9, 0, &bucket).is_err());
    let mut elements = Elements::default();
    elements.push(1, 7, &[1.0]);
    let tile = |rows, columns| {
        let mut writer = PanelWriter::new(1, 0, columns, 0, &bucket).unwrap();
        writer.tile(rows, None, std::slice::from_ref(&elements), Rounding::Nearest)?;
        writer.finish()
    };
    assert!(tile(1, 8).is_err() && tile(257, 8).is_err() && tile(2, 7).is_err());
    let panel = tile(2, 8).unwrap();
    assert_eq!((panel.columns(), panel.rows()), (7..8, 0..2));
    assert!(panel.multiply(&[0.0; 7], &mut [0.0; 2]).is_err());
    assert!(panel.multiply(&[0.0; 8], &mut [0.0; 3]).is_err());
    assert!(panel.multiply_many(9, &[0.0; 72], &mut [0.0; 18]).is_err());
    // A scaled format has no zero to fill a block with.
    assert!(PanelWriter::new(2, 0, 8, 0, &BUCKETS[..1]).unwrap().finish().is_err());
    assert!(Panel::from_bytes(Vec::new()).unwrap_err().to_string().contains("byte 0"));
}

/// Twins of the GPU's kernel prove the rest (`tests/it/cuda_twins/sell.rs`).
#[test]
fn guides_name_every_group_and_travel_as_words() {
    let parts = vec![vec![(0, 0, 1.0), (0, 1, 2.0), (1, 0, 3.0), (20, 5, 1.0)]; BUCKETS.len()];
    for edge in EDGES {
        let panel = panel(edge, 40, &parts, 1, None);
        let index = PanelIndex::of(&panel);
        let groups: u64 = panel.loads().iter().map(|load| load.groups).sum();
        let outline = index.outline();
        // One tile and one end; a section for each bucket and one end.
        assert_eq!(index.words().len(), 2 * 8 + 2 * (panel.loads().len() + 1) + groups as usize);
        assert_eq!((outline.words(), outline.bytes()), (index.words().len(), panel.bytes()));
        let mut arrived = PanelIndex::blank(outline);
        arrived.words_mut().copy_from_slice(index.words());
        assert_eq!(arrived, index);
        // Offsets of groups are increasing within the panel.
        let begins = &index.words()[index.words().len() - groups as usize..];
        assert!(begins.is_sorted() && (begins[begins.len() - 1] as usize) < panel.bytes());
    }
}

/// Infinite numbers of `x` stay with the rows that have an element there.
#[test]
fn lanes_without_element_read_nothing() {
    let parts = vec![vec![(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0)]; BUCKETS.len()];
    let panel = panel(1, 3, &parts, 1, None);
    let mut x = vec![1.0; COLUMNS as usize];
    x[1] = f64::INFINITY;
    let mut y = [0.0; 3];
    panel.multiply(&x, &mut y).unwrap();
    assert!(!y[0].is_finite() && y[1].is_finite() && y[2] == 0.0);
}

#[test]
fn vectors_that_no_cache_holds_are_written_from_anywhere_on() {
    let columns = 1 << 21 | 1;
    let mut writer = PanelWriter::new(1, 0, columns, 3, &[Bucket::unscaled(Fp64)]).unwrap();
    for rows in [256, 0, 101] {
        let mut elements = Elements::default();
        (0..rows).for_each(|row| elements.push(row as u8, 3 * row + rows, &[f64::from(row) + 0.5]));
        writer.tile(rows as usize, None, &[elements], Rounding::Nearest).unwrap();
    }
    let panel = writer.finish().unwrap();
    let x = wave(columns);
    let mut expected = vec![f64::NAN; 357];
    multiply_by::<Portable>(&panel, 1, Part { first: 0, x: &x }, &mut expected);
    assert!(expected.iter().all(|y| y.is_finite()) && expected[100] != expected[356]);
    let mut room = vec![f64::NAN; 357 + 9];
    for begin in 0..=8 {
        room.fill(f64::NAN);
        panel.multiply(&x, &mut room[begin..][..357]).unwrap();
        assert_eq!(room[begin..][..357], expected);
        assert!(room[..begin].iter().chain(&room[begin + 357..]).all(|y| y.is_nan()));
        #[cfg(target_arch = "x86_64")]
        if Avx2::is_here() {
            multiply_by::<Avx2>(&panel, 1, Part { first: 0, x: &x }, &mut room[begin..][..357]);
            assert_eq!(room[begin..][..357], expected);
        }
    }
}
